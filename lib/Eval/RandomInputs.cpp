// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011) and Box-Muller, with
// our own logarithm and sine, because the last bit of libm's differs between platforms.
#include "dtc/Eval/RandomInputs.h"
#include "dtc/Support/Words.h"

#include <algorithm>
#include <array>
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

} // namespace

uint64_t randomBits(uint64_t seed, uint64_t stream, uint64_t i) {
  auto c = philox(seed, stream, i / 2);
  size_t half = (i % 2) * 2;
  return static_cast<uint64_t>(c[half]) << 32 | c[half + 1];
}

namespace {

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

struct InputForm { // NAME(ARGUMENTS) on the command line
  const char* name;
  InputSpec::Kind kind;
  size_t minWords, maxWords; // arguments, including the seed
  const char* usage;
};
constexpr InputForm kForms[] = {{"randn", InputSpec::Randn, 1, 2, "randn(seed) or randn(seed,std)"},
                                {"uniform", InputSpec::Uniform, 3, 3, "uniform(seed,lo,hi)"},
                                {"randint", InputSpec::Randint, 3, 3, "randint(seed,lo,hi)"},
                                {"zeros", InputSpec::Zeros, 0, 0, "zeros"},
                                {"ones", InputSpec::Const, 0, 0, "ones"},
                                {"iota", InputSpec::Iota, 0, 0, "iota"},
                                {"const", InputSpec::Const, 1, 1, "const(v)"}};

const InputForm* formOf(std::string_view text) {
  std::string_view name = trimmed(text.substr(0, text.find('(')));
  for (const InputForm& f : kForms)
    if (name == f.name) return &f;
  return nullptr;
}

Error malformed(std::string_view text, const InputForm* f) {
  std::string wanted;
  for (const InputForm& any : kForms)
    if (!f || f == &any) wanted += (wanted.empty() ? "" : ", ") + std::string(any.usage);
  return usageError("'" + std::string(text) + "' is not a valid input; expected " + wanted);
}

// An integer of 64 bits, signed or not.
void readInteger(std::string_view word, InputSpec& spec) {
  if (const auto n = parseNumber<int64_t>(word))
    spec.integer = n;
  else if (const auto u = parseNumber<uint64_t>(word))
    spec.integer = static_cast<int64_t>(*u), spec.beyondI64 = true;
}

// Conditions on the arguments that do not depend on the dtype.
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
  const auto n = parseNumber<double>(word);
  value = n.value_or(value);
  return n.has_value();
}

} // namespace

bool isInputSpec(std::string_view text) { return formOf(text) != nullptr; }

Result<InputSpec> parseInputSpec(std::string_view text) {
  const InputForm* form = formOf(text);
  if (!form) return malformed(text, nullptr);
  std::vector<std::string_view> words;
  size_t open = text.find('(');
  if (open != std::string_view::npos) {
    std::string_view rest = trimmed(text.substr(open + 1));
    if (rest.empty() || rest.back() != ')') return malformed(text, form);
    rest.remove_suffix(1);
    while (!trimmed(rest).empty()) {
      size_t comma = rest.find(',');
      words.push_back(trimmed(rest.substr(0, comma)));
      rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    }
  }
  if (words.size() < form->minWords || words.size() > form->maxWords) return malformed(text, form);
  InputSpec spec{form->kind, 0, form->kind == InputSpec::Randn ? 1.0 : 0.0, 0};
  spec.text = text;
  if (form->kind == InputSpec::Const && words.empty()) words.emplace_back("1");
  size_t next = 0;
  if (form->minWords > 0 && form->kind != InputSpec::Const) {
    const auto seed = parseNumber<uint64_t>(words[next++]);
    if (!seed) return malformed(text, form);
    spec.seed = *seed;
  }
  for (double* value : {&spec.a, &spec.b})
    if (next < words.size() && !isInputNumber(words[next++], *value)) return malformed(text, form);
  if (form->kind == InputSpec::Const) readInteger(words[0], spec);
  if (Status s = checkSpec(spec); !s) return s.error();
  return spec;
}

Tensor makeInput(const InputSpec& spec, DType dtype, std::vector<int64_t> shape, uint64_t stream,
                 int64_t first) {
  if (isComplex(dtype)) { // random numbers are drawn for both parts, others are real
    const bool drawn =
        spec.kind == InputSpec::Randn || spec.kind == InputSpec::Uniform || spec.kind == InputSpec::Randint;
    if (drawn) shape.push_back(2);
    Tensor parts = makeInput(spec, partType(dtype), std::move(shape), stream, drawn ? 2 * first : first);
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
  // The high half of a 64x64-bit product picks below `range` without the noticeable bias of a modulo.
  auto below = [&](uint64_t number, double range) {
    auto product =
        static_cast<unsigned __int128>(randomBits(spec.seed, stream, number)) * static_cast<uint64_t>(range);
    return static_cast<double>(static_cast<uint64_t>(product >> 64));
  };
  for (int64_t i = 0; i < t.numElements(); ++i) {
    const auto number = static_cast<uint64_t>(first + i);
    switch (spec.kind) {
    case InputSpec::Randn:
      store(i, isFloat(dtype)  ? spec.a * normal(spec.seed, stream, number)
               : isBool(dtype) ? below(number, 2)
                               : below(number, 8));
      break;
    case InputSpec::Uniform:
      store(i, spec.a + (spec.b - spec.a) * unit(randomBits(spec.seed, stream, number)));
      break;
    case InputSpec::Randint: store(i, spec.a + below(number, spec.b - spec.a)); break;
    case InputSpec::Zeros: break;
    case InputSpec::Iota: store(i, static_cast<double>(first + i)); break;
    case InputSpec::Const:
      if (spec.integer && isInteger(dtype))
        t.setInt(i, *spec.integer);
      else
        store(i, spec.a);
      break;
    }
  }
  return t;
}

} // namespace dtc
