// flip roll tril triu: data movement and masking.
#include "record/SliceParameters.h"
#include "window/Window.h"

#include <algorithm>

namespace dtc {
namespace {

// The affected dims have one factor of `kind` for operand and result; the others pass.
bool movedDimsRule(const OpQuery& q, const std::vector<int64_t>& touched, FactorKind kind, Rule& rule) {
  addOperandFactors(q, 0, rule);
  rule.results.push_back(rule.operands[0]);
  for (int64_t d : touched) {
    DimMap& x = rule.operands[0].dims[static_cast<size_t>(d)];
    const uint16_t f = x.terms[0].factor;
    rule.factors[f].kind = kind;
    x = windowDim(freeDim(f), f);
  }
  return true;
}

// --- flip ---

bool flipRule(const OpQuery& q, Rule& rule) {
  auto dims = q.dimsAttr("dims", q.type(0).rank());
  return dims && movedDimsRule(q, *dims, FactorKind::Permute, rule);
}

bool flipEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  std::vector<int64_t> dims = *q.dimsAttr("dims", in[0]->rank()), strides = in[0]->strides(), from;
  forEachElement(out[0]->shape(), [&](std::span<const int64_t> at, int64_t i) {
    from.assign(at.begin(), at.end());
    for (int64_t d : dims) from[d] = in[0]->shape()[d] - 1 - from[d];
    copyElement(*out[0], i, *in[0], flatten(from, strides));
  });
  return true;
}

uint32_t flipElement(const OpQuery& q, ElementBuilder& b, size_t) {
  const Type& type = q.type(0);
  std::vector<ElementNode> at = ownCoordinates(b, type.rank());
  const std::vector<int64_t> dims = *q.dimsAttr("dims", type.rank());
  for (int64_t d : dims) {
    auto k = static_cast<size_t>(d);
    at[k] = b.sub(b.sub(b.size(type.dims[k]), b.index(1)), at[k]);
  }
  return b.load(0, at, true);
}

bool flipGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  dx.push_back(flip(Expr(b, dy[0]), b.module.attr(op, "dims")));
  return true;
}

// --- roll ---

bool rollRule(const OpQuery& q, Rule& rule) {
  std::vector<Shift> shifts;
  if (!shiftsOf(q, shifts)) return false;
  std::vector<int64_t> touched;
  for (const Shift& s : shifts)
    if (s.by != 0) touched.push_back(s.dim);
  return movedDimsRule(q, touched, FactorKind::Window, rule);
}

bool rollEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  std::vector<Shift> shifts;
  if (!shiftsOf(q, shifts)) return false;
  std::vector<int64_t> strides = in[0]->strides(), from;
  forEachElement(out[0]->shape(), [&](std::span<const int64_t> at, int64_t i) {
    from.assign(at.begin(), at.end());
    for (const Shift& s : shifts) {
      int64_t n = in[0]->shape()[s.dim];
      from[s.dim] = ((from[s.dim] - s.by % n) % n + n) % n;
    }
    copyElement(*out[0], i, *in[0], flatten(from, strides));
  });
  return true;
}

// y[i] = x[(i - by) mod n]: with the shift in [0, n), a negative coordinate is corrected by adding n once.
uint32_t rollElement(const OpQuery& q, ElementBuilder& b, size_t) {
  std::vector<Shift> shifts;
  if (!shiftsOf(q, shifts)) return 0;
  const Type& type = q.type(0);
  std::vector<ElementNode> at = ownCoordinates(b, type.rank());
  ElementNode zero = b.index(0);
  for (const Shift& s : shifts) {
    auto d = static_cast<size_t>(s.dim);
    ElementNode n = b.size(type.dims[d]);
    ElementNode by = b.call("mod", {b.index(s.by), n});
    ElementNode from = b.call("sub", {at[d], by});
    at[d] = b.call("select", {b.call("lt", {from, zero}), b.call("add", {from, n}), from});
  }
  return b.load(0, at);
}

bool rollGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  Diagnostics none;
  OpQuery q = queryOf(b.module, op, none);
  std::vector<int64_t> back = q.intsAttr("shifts");
  for (int64_t& s : back) s = -s;
  dx.push_back(roll(Expr(b, dy[0]), {.shifts = back, .dims = b.module.attr(op, "dims")}));
  return true;
}

// --- tril, triu ---

// $rows and $columns are the last two dims of the result.
std::optional<double> triangleNumbers(const OpQuery& q, std::string_view name) {
  auto rank = static_cast<double>(q.type(0).rank());
  if (name == "rows") return rank - 2;
  if (name == "columns") return rank - 1;
  return std::nullopt;
}

bool triangleGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  Diagnostics none;
  int64_t diagonal = queryOf(b.module, op, none).intAttr("diagonal");
  const Expr g(b, dy[0]);
  const bool lower = std::string_view(b.module.record(op).name) == "tril";
  dx.push_back(lower ? tril(g, {.diagonal = diagonal}) : triu(g, {.diagonal = diagonal}));
  dx.resize(b.module[op].numOperands);
  return true;
}

OpRecord triangle(const char* name, const char* summary, const char* scalar) {
  OpRecord r{.name = name, .family = "shape", .summary = summary};
  r.complex = OpRecord::ComplexForm::Planes;
  r.checks = exact();
  r.operands = "x, row_offset?, column_offset?";
  r.operandTypes = "T, i32";
  r.attrs = {{"diagonal", AttrType::Int, "0", "0 is the main one, 1 the one above it"}};
  r.ruleText = "[.. r c], [], [] -> [.. r c]; r: place; c: place";
  r.offsetOperand = 1;
  r.scalar = scalar;
  r.samples = "T[5, 4]\nT[3, 5] {diagonal = -1}\nT[2, 4, 4] {diagonal = 1}";
  r.derive = triangleNumbers;
  r.gradFn = triangleGrad;
  r.through = {moving()}; // the fill value 0 combines with itself to 0 under every op
  return r;
}

} // namespace

void addReorderOps(OpRegistry& ops) {
  OpRecord& flip = ops.add(dataMovement("flip", "shape", "reverses the order of elements along `dims`"));
  flip.attrs = {{"dims", AttrType::Dims}};
  flip.rule = flipRule;
  flip.follow = followByPosition;
  flip.shard = shardFlip;
  flip.eval = flipEval;
  flip.element = flipElement;
  flip.gradFn = flipGrad;
  flip.samples = "T[5, 3] {dims = [0]}\n"
                 "T[5, 3] {dims = [0, 1]}";

  OpRecord& roll = ops.add(dataMovement("roll", "shape", "rotates x by `shifts`, with wrap-around"));
  roll.attrs = {{"shifts", AttrType::Ints}, {"dims", AttrType::Dims}};
  roll.rule = rollRule;
  roll.follow = followByPosition;
  roll.shard = shardRoll;
  roll.eval = rollEval;
  roll.element = rollElement;
  roll.gradFn = rollGrad;
  roll.samples = "T[5, 3] {shifts = [2], dims = [0]}\n"
                 "T[5, 4] {shifts = [-1, 3], dims = [1, 0]}\n"
                 "T[5, 3] {shifts = [0], dims = [0]}";

  ops.add(triangle("tril", "0 above the diagonal of the last two dims",
                   "select(index($columns) + c <= index($rows) + b + $diagonal, a, 0)"));
  ops.add(triangle("triu", "0 below the diagonal of the last two dims",
                   "select(index($columns) + c >= index($rows) + b + $diagonal, a, 0)"));
}

} // namespace dtc
