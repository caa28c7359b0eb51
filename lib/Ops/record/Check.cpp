// Checks and output inside a program.
#include "dtc/Support/Tensor.h"
#include "record/RecordParts.h"
#include <algorithm>
#include <cmath>
#include <cstdio>

namespace dtc {

namespace {

// Printed once, unsharded: every dim is gathered first.
bool printRule(const OpQuery& q, Rule& rule) {
  for (size_t i = 0; i < q.operandTypes.size(); ++i) addOperandFactors(q, i, rule);
  for (Factor& f : rule.factors) f.kind = FactorKind::Whole;
  return true;
}

constexpr DiagKind kExpectedValue{"expected-value", "element [{0}] is {1} where {2} is expected"};

std::string coordinates(const Tensor& t, int64_t element) {
  std::string out;
  std::vector<int64_t> strides = t.strides();
  for (size_t d = 0; d < t.rank(); ++d) {
    out += (d ? ", " : "") + std::to_string(element / strides[d]);
    element %= strides[d];
  }
  return out;
}

std::string valueText(const Tensor& t, int64_t element) {
  if (isComplex(t.dtype())) {
    const Tensor parts = t.parts();
    return "(" + valueText(parts, 2 * element) + ", " + valueText(parts, 2 * element + 1) + ")";
  }
  if (!isFloat(t.dtype())) {
    int64_t v = t.getInt(element);
    return t.dtype() == DType::U64 ? std::to_string(static_cast<uint64_t>(v)) : std::to_string(v);
  }
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, "%.9g", t.getFloat(element));
  return buffer;
}

// Reports the first element for which `equal` does not hold. Skipped by the exact evaluation, whose values
// differ from those of the program.
template <class Equal> bool expectEach(const OpQuery& q, std::span<const Tensor* const> in, Equal&& equal) {
  const Tensor &got = *in[0], &want = *in[1];
  if (q.exact) return true;
  for (int64_t i = 0; i < got.numElements(); ++i) {
    if (equal(got, want, i)) continue;
    return q.diags->fail(kExpectedValue, q.loc, coordinates(got, i), valueText(got, i), valueText(want, i));
  }
  return true;
}

bool expectEqEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const>) {
  auto same = [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }; // -0 is 0
  return expectEach(q, in, [&](const Tensor& got, const Tensor& want, int64_t i) {
    if (isComplex(got.dtype())) {
      const std::complex<double> a = got.getComplex(i), b = want.getComplex(i);
      return same(a.real(), b.real()) && same(a.imag(), b.imag());
    }
    if (!isFloat(got.dtype())) return got.getInt(i) == want.getInt(i);
    return same(got.getFloat(i), want.getFloat(i));
  });
}

// The median magnitude of the finite nonzero elements; 0 if there are none.
double typicalSize(const Tensor& t) {
  std::vector<double> sizes;
  for (int64_t i = 0; i < t.numElements(); ++i) {
    const double size = isComplex(t.dtype()) ? std::abs(t.getComplex(i)) : std::abs(t.getFloat(i));
    if (size > 0 && std::isfinite(size)) sizes.push_back(size);
  }
  if (sizes.empty()) return 0;
  const auto middle = sizes.begin() + static_cast<std::ptrdiff_t>(sizes.size() / 2);
  std::nth_element(sizes.begin(), middle, sizes.end());
  return *middle;
}

// A comparison over the full tensor needs it unsharded.
bool expectCloseRule(const OpQuery& q, Rule& rule) {
  if (!operandsAlikeRule(q, rule)) return false;
  if (q.has("typical"))
    for (Factor& f : rule.factors) f.kind = FactorKind::Whole;
  return true;
}

// The default tolerance: 16 units of the dtype's precision, relative and absolute; integers must be equal.
bool expectCloseEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const>) {
  const DType dtype = q.type(0).dtype;
  double fallback = mantissaBits(dtype) > 0 ? std::ldexp(16.0, 1 - mantissaBits(dtype)) : 0;
  double rtol = q.has("rtol") ? q.floatAttr("rtol") : fallback,
         atol = q.has("atol") ? q.floatAttr("atol") : fallback;
  if (q.has("typical")) atol += q.floatAttr("typical") * typicalSize(*in[1]);
  auto near = [&](double a, double b, double size) {
    return a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= atol + rtol * size;
  };
  return expectEach(q, in, [&](const Tensor& got, const Tensor& want, int64_t i) {
    if (!isComplex(got.dtype())) return near(got.getFloat(i), want.getFloat(i), std::abs(want.getFloat(i)));
    const std::complex<double> a = got.getComplex(i), b = want.getComplex(i);
    return near(a.real(), b.real(), std::abs(b)) && near(a.imag(), b.imag(), std::abs(b));
  });
}

OpRecord check(const char* name, const char* summary) {
  OpRecord r{.name = name, .family = "check", .summary = summary};
  r.operands = "got, want";
  r.results = "";
  r.rule = operandsAlikeRule;
  r.gradNone = true;
  r.lowering = Lowering::Host;
  r.sideEffect = true;
  r.samples = "T[5, 3], T[5, 3]";
  r.complex = OpRecord::ComplexForm::Own;
  return r;
}

} // namespace

void addCheckOps(OpRegistry& ops) {
  OpRecord& equal = ops.add(
      check("expect_eq",
            "fails the run at the first element that differs bitwise; NaN equals NaN and -0 equals 0"));
  equal.eval = expectEqEval;

  OpRecord& close = ops.add(check(
      "expect_close", "fails the run at the first element that differs by more than atol + rtol * |want|"));
  close.attrs = {{"rtol", AttrType::Float, "", "relative tolerance; default: 16 units of precision"},
                 {"atol", AttrType::Float, "", "absolute tolerance; default: 16 units of precision"},
                 {"typical", AttrType::Float, "",
                  "additional absolute tolerance, relative to the median magnitude of `want`"}};
  close.rule = expectCloseRule;
  close.operandClasses = kNumbers;
  close.eval = expectCloseEval;

  OpRecord& print = ops.add(check("print", "prints unsharded tensors, once"));
  print.operands = "xs...";
  print.attrs = {{"format", AttrType::String, "", "text with one {} per operand"},
                 {"first", AttrType::Int, "", "the max number of elements to print of each"}};
  print.rule = printRule;
  print.sameDType = false;
  print.samples = "T[5, 3]\nT[5, 3], T[4]";
}

} // namespace dtc
