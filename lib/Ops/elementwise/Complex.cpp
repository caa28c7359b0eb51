// Composition and decomposition of complex numbers.
#include "elementwise/ComplexFunctions.h"
#include "record/RecordParts.h"

namespace dtc {
namespace {

inline constexpr DiagKind kNoComplexOf{"complex-parts", "'complex' takes parts of f32 or f64, not {0}"};

bool complexVerify(const OpQuery& q) {
  if (complexType(q.type(0).dtype)) return true;
  return q.diags->fail(kNoComplexOf, q.loc, dtypeName(q.type(0).dtype));
}

bool inferComplex(const OpQuery& q, std::vector<TypeId>& results) {
  if (!complexVerify(q)) return false;
  Rule rule;
  if (!ruleOf(q, rule)) return false;
  Type t{*complexType(q.type(0).dtype), {}};
  for (const DimMap& m : rule.results[0].dims) t.dims.push_back(*sizeOfMap(rule, m, q.module->dims));
  results.assign(1, q.module->types.intern(std::move(t)));
  return true;
}

OpRecord parts(const char* name, const char* summary, const char* scalar) {
  OpRecord r{.name = name, .family = "complex", .summary = summary};
  r.operands = "z";
  r.ruleText = "pointwise";
  r.operandClasses = kComplex;
  r.scalar = scalar;
  r.through = {linear()};
  r.gradNone = true; // autodiff runs on planes
  addComplexForm(r);
  return r;
}

} // namespace

void addComplexOps(OpRegistry& ops) {
  OpRecord& complex = ops.add(parts("complex", "re + i im", "complex(a, b)"));
  complex.operands = "re, im";
  complex.results = "z";
  complex.operandClasses = kFloats;
  complex.infer = inferComplex;
  constexpr uint16_t average = kindBit(PendingKind::Avg);
  complex.through = {linear(0b11),
                     {ThroughRow::Linear, 0b01, false, ~0u, average},
                     {ThroughRow::Linear, 0b10, false, ~0u, average}};

  OpRecord& real = ops.add(parts("real", "the real part", "real(a)"));
  real.resultType = OpRecord::ResultType::Part;

  OpRecord& imag = ops.add(parts("imag", "the imaginary part", "imag(a)"));
  imag.resultType = OpRecord::ResultType::Part;

  ops.add(parts("conj", "the complex conjugate, re - i im", "complex(real(a), -imag(a))"));
}

} // namespace dtc
