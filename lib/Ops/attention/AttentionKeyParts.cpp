// attention_parts: attention over parts of the keys, for devices with more processors than heads times blocks
// of queries (T. Dao, D. Haziza, F. Massa and G. Sizov, "Flash-Decoding for long-context inference", 2023).
// It is introduced after `partition`; the parts are merged by basic ops
// (lib/Passes/split/SplitAttention.cpp).
#include "attention/AttentionKeyParts.h"
#include <algorithm>
#include <limits>

namespace dtc {

namespace {

bool causal(const OpQuery& q) { return q.boolAttr("causal"); }
int64_t window(const OpQuery& q) { return q.intAttr("window"); }

// Queries of heads that share keys become the rows of one tile, so that the keys are read once for all of
// them. With more queries than this, each head fills a tile by itself. A mask that depends on heads or
// queries would need divisions for its indices.
constexpr int64_t kFewRows = 64;
bool joinsHeads(const OpQuery& q, const AttentionShape& a) {
  if (!a.grouped() || !a.groups.isStatic() || !a.s.isStatic() || a.s.value() < 2 || a.s.value() >= kFewRows)
    return false;
  if (!hasAttentionMask(q)) return true;
  const std::vector<Dim>& mask = attentionMaskType(q).dims;
  auto one = [&](size_t fromLast) {
    return mask.size() < fromLast || isOneDim(mask[mask.size() - fromLast]);
  };
  return one(2) && one(3);
}

bool partsRule(const OpQuery& q, Rule& rule) {
  AttentionShape a;
  if (!attentionShapeOf(q, a)) return false;
  const AttentionFactors f = attentionFactors(rule, a);
  const uint16_t p = addUnsharded(rule, Dim(q.intAttr("parts")), "p");
  rule.factors[f.t].kind = FactorKind::Whole;
  // the visible range is what is split
  if (causal(q) || window(q) != 0) rule.factors[f.s].kind = FactorKind::Whole;
  rule.operands = {f.query, f.key, f.value};
  addAttentionMask(q, rule, f);
  rule.factors[f.t].alongside = -1;
  DimMap rows = plainDim(f.s);
  if (a.grouped()) rows = plainDim(f.g), rows.terms.push_back({f.s, 1});
  rule.results = {{{plainDim(f.b), plainDim(f.h), rows, plainDim(p), plainDim(f.e)}},
                  {{plainDim(f.b), plainDim(f.h), rows, plainDim(p)}}};
  return true;
}

bool partsInfer(const OpQuery& q, std::vector<TypeId>& results) {
  AttentionShape a;
  if (!attentionShapeOf(q, a)) return false;
  if (q.intAttr("parts") < 1) return reportShape(q, "needs at least one part");
  const auto rows = a.grouped() ? q.module->dims.mul(a.groups, a.s) : a.s;
  if (!rows) return reportShape(q, "has more than 2^31-1 rows");
  const Dim dims[] = {a.batch, a.kvHeads, *rows, Dim(q.intAttr("parts")), a.e};
  const DType wide = accumulationType(q.type(0).dtype);
  results.push_back(q.module->tensorType(wide, dims));
  results.push_back(q.module->tensorType(wide, std::span(dims).first(4)));
  return true;
}

// attentionPart() as basic ops in i32: tiles of less than 2^31 keys times fewer than 64 parts fit.
Expr insidePart(Builder& b, OpId op, const OpQuery& q, const AttentionShape& full) {
  Module& m = b.module;
  auto size = [&](Dim d) {
    return d.isStatic() ? ops::Arg(d.value()) : ops::Arg(m.makeSymbol(d, DType::I32, b.loc));
  };
  auto positions = [&](Dim rows, Dim columns, int64_t dim) {
    const Dim dims[] = {rows, columns};
    return ops::iota(b, m.tensorType(DType::I32, dims), {.dim = dim});
  };
  // Constants are folded, because an op needs a non-literal operand.
  const Expr zero(b, b.constant(0, m.tensorType(DType::I32, std::initializer_list<int64_t>{})));
  const Expr position = hasAttentionOffset(q) ? zero + m.operand(op, m[op].numOperands - 1) : zero;
  const Expr end = position + size(full.s); // the last query
  const int64_t near = window(q);
  Expr first = zero, last = zero + size(full.t);
  if (near != 0) first = max(position + (1 - near), zero);
  if (causal(q))
    last = min(end, last);
  else if (near != 0)
    last = min(end + (near - 1), last);
  const Expr seen = max(last - first, zero);
  const Expr tiles = floor_div(seen + (kPartTile - 1), kPartTile);
  const Dim parts(q.intAttr("parts"));
  auto begin = [&](Expr part) { return floor_div(part * tiles, parts.value()) * kPartTile + first; };
  const Expr part = positions(parts, Dim(1), 0), key = positions(parts, full.t, 1);
  const Expr begun = key >= begin(part);
  return begun & (key < begin(part + 1));
}

bool partsDecompose(Builder& b, OpId op, std::vector<ValueId>& results) {
  Diagnostics none;
  const OpQuery q = queryOf(b.module, op, none);
  AttentionShape full;
  if (!attentionShapeOf(q, full)) return false;
  AttentionParts made(b, op,
                      joinsHeads(q, full) ? AttentionParts::Heads::Joined : AttentionParts::Heads::Apart);
  const int64_t beforeKeys = -2, beforeRows = full.grouped() && made.shape().grouped() ? 3 : 2;
  const Expr query = made.query();
  const Expr all = made.scores(made.products(query, made.key()));
  const Expr inside = insidePart(b, op, q, full);
  const Expr x = select(inside, expand_dims(all, {beforeKeys}), -std::numeric_limits<double>::infinity());
  const Expr values = expand_dims(made.value(), {beforeRows});
  const Expr p = softmax(x, {-1});
  for (Expr v : {matmul(p, values), made.logSumExpOf(x)}) {
    const std::vector<Dim>& dims =
        b.module.typeOf(b.module.result(op, static_cast<uint32_t>(results.size()))).dims;
    results.push_back(reshape(v, dims));
  }
  return true;
}

} // namespace

KeyPart attentionPart(const OpQuery& q, int64_t queries, int64_t keys, int64_t offset, int64_t part) {
  const int64_t near = window(q);
  const int64_t first = near != 0 ? std::max<int64_t>(0, offset - near + 1) : 0;
  int64_t last = keys;
  if (causal(q))
    last = std::min(keys, offset + queries);
  else if (near != 0)
    last = std::min(keys, offset + queries + near - 1);
  const int64_t tiles = (std::max<int64_t>(0, last - first) + kPartTile - 1) / kPartTile;
  const int64_t parts = q.intAttr("parts");
  auto begin = [&](int64_t i) { return first + i * tiles / parts * kPartTile; };
  return {begin(part), std::min(begin(part + 1), keys)};
}

double attentionKeyParts(const OpQuery& q) {
  // a large GPU, and the number of blocks that occupies it
  constexpr int64_t kProcessors = 132, kBlocks = 2 * kProcessors;
  constexpr int64_t kMinKeys = 4 * kPartTile, kMaxParts = 32, kMaxPartsOfAnyBatch = 8;
  AttentionShape a;
  if (!attentionShapeOf(q, a) || !a.s.isStatic() || !a.heads.isStatic() || !a.kvHeads.isStatic() ||
      !a.d.isStatic() || !a.e.isStatic() || a.heads == Dim(0) || a.d == Dim(0) || a.e == Dim(0))
    return 1;
  const int64_t batch = a.batch.isStatic() ? a.batch.value() : 1, heads = a.kvHeads.value(),
                groups = a.heads.value() / heads, keys = a.t.isStatic() ? a.t.value() : INT32_MAX;
  const bool joined = a.s.value() == 1 || joinsHeads(q, a);
  const int64_t rows = a.s.value() * (joined ? groups : 1), tile = rows <= 16 ? 16 : kFewRows;
  const int64_t blocks = (rows + tile - 1) / tile * (joined ? 1 : groups) * heads * batch;
  if (blocks == 0 || 2 * blocks > kProcessors) return 1;
  const int64_t maxParts = a.batch.isStatic() ? kMaxParts : kMaxPartsOfAnyBatch;
  return static_cast<double>(std::max<int64_t>(1, std::min({kBlocks / blocks, keys / kMinKeys, maxParts})));
}

void addAttentionPartsOp(OpRegistry& ops) {
  OpRecord& parts =
      ops.add({.name = "attention_parts",
               .family = "attention",
               .summary = "attention over each of `parts` parts of the visible keys, and its log-sum-exp; "
                          "the rows of heads that share keys are adjacent"});
  parts.operands = "q, k, v, mask?, offset?";
  parts.operandTypes = "T, T, T, any, i32";
  parts.literal = OpRecord::LiteralType::Exponent; // a mask or an offset may be absent
  parts.results = "y, lse";
  parts.operandClasses = kFloats;
  parts.attrs = {{"parts", AttrType::Int, "1", "number of parts, with about equal numbers of 64-key tiles"},
                 {"causal", AttrType::Bool, "false", "as in attention"},
                 {"scale", AttrType::Float, "", "default: 1/sqrt(dim)"},
                 {"window", AttrType::Int, "0", "as in attention"}};
  parts.rule = partsRule;
  parts.infer = partsInfer;
  parts.eval = attentionPartsEval;
  parts.decompose = partsDecompose;
  parts.gradNone = true; // introduced after autodiff
  parts.through = {{ThroughRow::Linear, 0b100, false, 1u},
                   {ThroughRow::Linear, 0b100, false, 2u, kindBit(PendingKind::Avg)}};
  parts.lowering = Lowering::Rows;
  parts.derive = [](const OpQuery& q, std::string_view name) -> std::optional<double> {
    return name == "flops per point" ? attentionFlops(q, 1, 1) : std::nullopt;
  };
  parts.samples =
      "T[2, 2, 3, 4], T[2, 2, 133, 4], T[2, 2, 133, 3] {parts = 3}\n"
      "T[1, 4, 2, 2], T[1, 2, 70, 2], T[1, 2, 70, 3], bool[1, 1, 1, 70] {parts = 2, causal = true}\n"
      "T[1, 2, 65, 2], T[1, 1, 140, 2], T[1, 1, 140, 2] {parts = 2, window = 9}";
}

} // namespace dtc
