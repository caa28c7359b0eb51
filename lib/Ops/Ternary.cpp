// Functions of three elements, broadcast as NumPy does.
#include "RecordParts.h"

namespace dtc {

void addTernaryOps(OpRegistry& ops) {
  OpRecord select{.name = "select", .family = "ternary", .summary = "a where p is true, else b"};
  select.operands = "p, a, b";
  select.ruleText = "pointwise";
  select.operandTypes = "bool, T, T";
  select.through = {{ThroughRow::Choosing, 0b110}};
  select.scalar = "select(a, b, c)";
  select.grad = "%da = select %p, %dy, 0.0\n%db = select %p, 0.0, %dy\nyield none, %da, %db";
  select.complex = OpRecord::ComplexForm::Planes;
  ops.add(std::move(select));

  OpRecord clamp{
      .name = "clamp", .family = "ternary", .summary = "x kept within [lo, hi]; hi where lo > hi; NaN stays"};
  clamp.operands = "x, lo, hi";
  clamp.ruleText = "pointwise";
  clamp.operandClasses = kNumbers;
  // min(max(x, lo), hi)
  clamp.through = {monotone(kNumbers, false, 0b111),
                   {ThroughRow::LatticeMax, 0b011},
                   {ThroughRow::LatticeMin, 0b101},
                   {ThroughRow::LatticeMin, 0b110}};
  clamp.scalar = "min(max(a, b), c)";
  clamp.grad =
      "%below = lt %x, %lo\n%m = max %x, %lo\n%above = gt %m, %hi\n%in = select %above, 0.0, %dy\n"
      "%dx = select %below, 0.0, %in\n%dlo = select %below, %in, 0.0\n%dhi = select %above, %dy, 0.0\n"
      "yield %dx, %dlo, %dhi";
  ops.add(std::move(clamp));

  OpRecord fma{.name = "fma", .family = "ternary", .summary = "a * b + c, rounded once"};
  fma.operands = "a, b, c";
  fma.ruleText = "pointwise";
  fma.operandClasses = kNumbers;
  // Linear in (a, c) and in (b, c); with c replicated only the average goes through a factor.
  fma.through = {linear(0b101),
                 linear(0b110),
                 {ThroughRow::Linear, 0b001, false, ~0u, kindBit(PendingKind::Avg)},
                 {ThroughRow::Linear, 0b010, false, ~0u, kindBit(PendingKind::Avg)},
                 {ThroughRow::Affine, 0b100}};
  fma.scalar = "fma(a, b, c)";
  fma.grad = "%da = mul %dy, %b\n%db = mul %dy, %a\nyield %da, %db, %dy";
  fma.flopsPerPoint = 2;
  ops.add(std::move(fma));
}

} // namespace dtc
