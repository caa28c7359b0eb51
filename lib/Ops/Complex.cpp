// Complex numbers put together and taken apart.
#include "ComplexFunctions.h"
#include "RecordParts.h"

namespace dtc {
namespace {

inline constexpr DiagKind kNoComplexOf{"complex-parts", "'complex' takes parts of f32 or f64, not {0}"};

bool complexVerify(const OpQuery& q) {
  if (complexType(q.type(0).dtype)) return true;
  q.diags->error(kNoComplexOf, q.loc, dtypeName(q.type(0).dtype));
  return false;
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
  r.gradNone = true; // gradients are made over planes
  addComplexForm(r);
  return r;
}

} // namespace

void addComplexOps(OpRegistry& ops) {
  OpRecord complex = parts("complex", "re + i im", "complex(a, b)");
  complex.operands = "re, im";
  complex.results = "z";
  complex.operandClasses = kFloats;
  complex.infer = inferComplex;
  constexpr uint16_t average = kindBit(PendingKind::Avg);
  complex.through = {linear(0b11),
                     {ThroughRow::Linear, 0b01, false, ~0u, average},
                     {ThroughRow::Linear, 0b10, false, ~0u, average}};
  ops.add(std::move(complex));

  OpRecord real = parts("real", "the real part", "real(a)");
  real.resultType = OpRecord::ResultType::Part;
  ops.add(std::move(real));

  OpRecord imag = parts("imag", "the imaginary part", "imag(a)");
  imag.resultType = OpRecord::ResultType::Part;
  ops.add(std::move(imag));

  OpRecord conj = parts("conj", "the complex conjugate, re - i im", "complex(real(a), -imag(a))");
  ops.add(std::move(conj));
}

} // namespace dtc
