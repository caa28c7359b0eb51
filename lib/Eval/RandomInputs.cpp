// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011) and Box-Muller, with a logarithm
// and a sine of our own: libm's differ between platforms in the last bit.
#include "dtc/Eval/RandomInputs.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace dtc {
namespace {

std::array<uint32_t, 4> philox(uint64_t seed, uint64_t stream, uint64_t counter) {
  std::array<uint32_t, 4> c = {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32),
                               static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)};
  auto k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    uint64_t p0 = 0xD2511F53ull * c[0], p1 = 0xCD9E8D57ull * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  return c;
}

uint64_t randomBits(uint64_t seed, uint64_t stream, uint64_t i) {
  auto c = philox(seed, stream, i / 2);
  size_t half = (i % 2) * 2;
  return static_cast<uint64_t>(c[half]) << 32 | c[half + 1];
}

// In [0, 1), 53 bits.
double unit(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

// ln x for x in (0, 1], by ln(m) = 2 artanh((m-1)/(m+1)) with m in [√½, √2): the series' tail is below 2^-60.
double logarithm(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);
  if (m < 0.70710678118654752) m *= 2, --exponent;
  double s = (m - 1) / (m + 1), s2 = s * s, sum = 0;
  for (int k = 23; k >= 1; k -= 2) sum = sum * s2 + 1.0 / k;
  return 2 * s * sum + exponent * 0.69314718055994531;
}

// sin and cos of 2πt, t in [0, 1), by Taylor series on an eighth of a turn.
void sinCosTurn(double t, double& sine, double& cosine) {
  int eighth = static_cast<int>(t * 8);
  int quarter = ((eighth + 1) / 2) % 4;
  double x = (t - ((eighth + 1) / 2) * 0.25) * 6.283185307179586, x2 = x * x, s = 1, c = 1;
  for (int k = 20; k >= 2; k -= 2) {
    s = 1 - s * x2 / (k * (k + 1));
    c = 1 - c * x2 / (k * (k - 1));
  }
  s *= x;
  const double sines[] = {s, c, -s, -c}, cosines[] = {c, -s, -c, s};
  sine = sines[quarter], cosine = cosines[quarter];
}

// Elements 2j and 2j+1 are the two halves of one Box-Muller pair.
double normal(uint64_t seed, uint64_t stream, uint64_t i) {
  auto c = philox(seed, stream, i / 2);
  double u = unit(static_cast<uint64_t>(c[0]) << 32 | c[1]), sine = 0, cosine = 0;
  sinCosTurn(unit(static_cast<uint64_t>(c[2]) << 32 | c[3]), sine, cosine);
  double radius = std::sqrt(-2 * logarithm(1 - u));
  return radius * (i % 2 ? sine : cosine);
}

struct Form {
  const char* name;
  InputSpec::Kind kind;
  size_t least, most; // arguments, the seed among them
  const char* usage;
};
constexpr Form kForms[] = {{"randn", InputSpec::Randn, 1, 2, "randn(seed) or randn(seed,std)"},
                           {"uniform", InputSpec::Uniform, 3, 3, "uniform(seed,lo,hi)"},
                           {"randint", InputSpec::Randint, 3, 3, "randint(seed,lo,hi)"},
                           {"zeros", InputSpec::Zeros, 0, 0, "zeros"},
                           {"iota", InputSpec::Iota, 0, 0, "iota"},
                           {"const", InputSpec::Const, 1, 1, "const(v)"}};

std::string_view trim(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

const Form* formOf(std::string_view text) {
  std::string_view name = trim(text.substr(0, text.find('(')));
  for (const Form& f : kForms)
    if (name == f.name) return &f;
  return nullptr;
}

Error malformed(std::string_view text, const Form* f) {
  std::string wanted;
  for (const Form& any : kForms)
    if (!f || f == &any) wanted += (wanted.empty() ? "" : ", ") + std::string(any.usage);
  return usageError("'" + std::string(text) + "' does not make an input; expected " + wanted);
}

// An integer of 64 bits, signed or not.
void readWhole(std::string_view word, InputSpec& spec) {
  const char *begin = word.data(), *end = begin + word.size();
  int64_t n = 0;
  if (auto [at, failure] = std::from_chars(begin, end, n); failure == std::errc() && at == end) {
    spec.whole = n;
    return;
  }
  uint64_t u = 0;
  if (auto [at, failure] = std::from_chars(begin, end, u); failure == std::errc() && at == end)
    spec.whole = static_cast<int64_t>(u), spec.beyondI64 = true;
}

// What the numbers themselves must be, whatever the dtype.
Status checkSpec(const InputSpec& spec) {
  auto wrong = [&](const std::string& why) { return usageError("'" + spec.text + "': " + why); };
  const bool finite = std::isfinite(spec.a) && std::isfinite(spec.b);
  if (spec.kind == InputSpec::Randn && (!finite || spec.a < 0))
    return wrong("the standard deviation must be a finite number, at least 0");
  if (spec.kind == InputSpec::Uniform && (!finite || spec.a > spec.b))
    return wrong("lo and hi must be finite numbers with lo <= hi");
  if (spec.kind == InputSpec::Uniform && !std::isfinite(spec.b - spec.a))
    return wrong("hi - lo is past the largest f64");
  if (spec.kind == InputSpec::Randint &&
      (!(spec.a < spec.b) || std::abs(spec.a) > 0x1p53 || std::abs(spec.b) > 0x1p53 ||
       spec.a != std::trunc(spec.a) || spec.b != std::trunc(spec.b)))
    return wrong("lo and hi must be integers with lo < hi, at most 2^53 in magnitude");
  return Ok{};
}

bool isInputNumber(std::string_view word, double& value) {
  auto [end, failure] = std::from_chars(word.data(), word.data() + word.size(), value);
  return failure == std::errc() && end == word.data() + word.size();
}

} // namespace

bool isInputSpec(std::string_view text) { return formOf(text) != nullptr; }

Result<InputSpec> parseInputSpec(std::string_view text) {
  const Form* form = formOf(text);
  if (!form) return malformed(text, nullptr);
  std::vector<std::string_view> words;
  size_t open = text.find('(');
  if (open != std::string_view::npos) {
    std::string_view rest = trim(text.substr(open + 1));
    if (rest.empty() || rest.back() != ')') return malformed(text, form);
    rest.remove_suffix(1);
    while (!trim(rest).empty()) {
      size_t comma = rest.find(',');
      words.push_back(trim(rest.substr(0, comma)));
      rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    }
  }
  if (words.size() < form->least || words.size() > form->most) return malformed(text, form);
  InputSpec spec{form->kind, 0, form->kind == InputSpec::Randn ? 1.0 : 0.0, 0};
  spec.text = text;
  size_t next = 0;
  if (form->least > 0 && form->kind != InputSpec::Const) {
    std::string_view seed = words[next++];
    auto [end, failure] = std::from_chars(seed.data(), seed.data() + seed.size(), spec.seed);
    if (failure != std::errc() || end != seed.data() + seed.size()) return malformed(text, form);
  }
  for (double* value : {&spec.a, &spec.b})
    if (next < words.size() && !isInputNumber(words[next++], *value)) return malformed(text, form);
  if (form->kind == InputSpec::Const) readWhole(words[0], spec);
  if (Status s = checkSpec(spec); !s) return s.error();
  return spec;
}

Tensor makeInput(const InputSpec& spec, DType dtype, std::vector<int64_t> shape, uint64_t stream) {
  if (isComplex(dtype)) { // numbers that are drawn are drawn for both parts, others are real
    const bool drawn =
        spec.kind == InputSpec::Randn || spec.kind == InputSpec::Uniform || spec.kind == InputSpec::Randint;
    if (drawn) shape.push_back(2);
    Tensor parts = makeInput(spec, partType(dtype), std::move(shape), stream);
    return drawn ? Tensor::fromParts(parts) : Tensor::fromPlanes(parts, Tensor(parts.dtype(), parts.shape()));
  }
  Tensor t(dtype, std::move(shape));
  auto store = [&](int64_t i, double v) {
    if (isBool(dtype))
      t.setInt(i, v != 0);
    else if (isFloat(dtype))
      t.setFloat(i, v);
    else
      t.setInt(i, floatToInt(dtype, v));
  };
  // The high half of a 64x64-bit product picks below `range` without a modulo's bias that anyone could see.
  auto below = [&](int64_t i, double range) {
    auto product =
        static_cast<unsigned __int128>(randomBits(spec.seed, stream, i)) * static_cast<uint64_t>(range);
    return static_cast<double>(static_cast<uint64_t>(product >> 64));
  };
  for (int64_t i = 0; i < t.numElements(); ++i) {
    switch (spec.kind) {
    case InputSpec::Randn:
      store(i, isFloat(dtype)  ? spec.a * normal(spec.seed, stream, i)
               : isBool(dtype) ? below(i, 2)
                               : below(i, 8));
      break;
    case InputSpec::Uniform:
      store(i, spec.a + (spec.b - spec.a) * unit(randomBits(spec.seed, stream, i)));
      break;
    case InputSpec::Randint: store(i, spec.a + below(i, spec.b - spec.a)); break;
    case InputSpec::Zeros: break;
    case InputSpec::Iota: store(i, static_cast<double>(i)); break;
    case InputSpec::Const:
      if (spec.whole && isInteger(dtype))
        t.setInt(i, *spec.whole);
      else
        store(i, spec.a);
      break;
    }
  }
  return t;
}

} // namespace dtc
