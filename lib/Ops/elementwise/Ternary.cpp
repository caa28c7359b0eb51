// Elementwise functions of three operands, with NumPy broadcasting.
#include "record/RecordParts.h"

namespace dtc {

void addTernaryOps(OpRegistry& ops) {
  OpRecord& select = ops.add({.name = "select", .family = "ternary", .summary = "a where p is true, else b"});
  select.operands = "p, a, b";
  select.ruleText = "pointwise";
  select.operandTypes = "bool, T, T";
  select.through = {{ThroughRow::Choosing, 0b110}};
  select.checks = exact();
  select.scalar = "select(a, b, c)";
  select.grad = "none; select(p, dy, 0); select(p, 0, dy)";
  select.complex = OpRecord::ComplexForm::Planes;

  OpRecord& clamp = ops.add({.name = "clamp",
                             .family = "ternary",
                             .summary = "x limited to [lo, hi]; hi where lo > hi; NaN propagates"});
  clamp.operands = "x, lo, hi";
  clamp.ruleText = "pointwise";
  clamp.operandClasses = kNumbers;
  // min(max(x, lo), hi)
  clamp.through = {monotone(kNumbers, false, 0b111),
                   {ThroughRow::LatticeMax, 0b011},
                   {ThroughRow::LatticeMin, 0b101},
                   {ThroughRow::LatticeMin, 0b110}};
  clamp.checks = exact();
  clamp.scalar = "min(max(a, b), c)";
  clamp.grad = "below = x < lo; above = max(x, lo) > hi; in = select(above, 0, dy); "
               "select(below, 0, in); select(below, in, 0); select(above, dy, 0)";

  OpRecord& fma = ops.add({.name = "fma", .family = "ternary", .summary = "a * b + c, rounded once"});
  fma.operands = "a, b, c";
  fma.ruleText = "pointwise";
  fma.operandClasses = kNumbers;
  // Linear in (a, c) and in (b, c); with c replicated, only avg passes through a factor.
  fma.through = {linear(0b101),
                 linear(0b110),
                 {ThroughRow::Linear, 0b001, false, ~0u, kindBit(PendingKind::Avg)},
                 {ThroughRow::Linear, 0b010, false, ~0u, kindBit(PendingKind::Avg)},
                 {ThroughRow::Affine, 0b100}};
  fma.scalar = "fma(a, b, c)";
  fma.grad = "dy * b; dy * a; dy";
  fma.flopsPerPoint = 2;
}

} // namespace dtc
