// attention_parts: attention over parts of the keys, for a device that has more processors than there are heads and blocks of
// queries (T. Dao, D. Haziza, F. Massa and G. Sizov, "Flash-Decoding for long-context inference", 2023). It is written behind
// `partition`; what merges the parts are basic ops (lib/Passes/SplitAttention.cpp).
#include "AttentionKeyParts.h"
#include <algorithm>
#include <limits>

namespace dtc {

namespace {

bool causal(const OpQuery& q) { return q.boolAttr("causal"); }
int64_t window(const OpQuery& q) { return q.intAttr("window"); }

// Queries of the heads that share keys become one tile's rows, so that the keys are read once for all of them. Of more queries than
// these each head fills a tile by itself. A mask that tells heads or queries apart would be looked up by quotients.
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
  const uint16_t p = addWhole(rule, Dim(q.intAttr("parts")), "p");
  rule.factors[f.t].kind = FactorKind::Whole;
  if (causal(q) || window(q) != 0) rule.factors[f.s].kind = FactorKind::Whole; // what all see is cut
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
  if (q.intAttr("parts") < 1) return reportShape(q, "makes one part or more");
  const auto rows = a.grouped() ? q.module->dims.mul(a.groups, a.s) : a.s;
  if (!rows) return reportShape(q, "has too many rows");
  const Dim dims[] = {a.batch, a.kvHeads, *rows, Dim(q.intAttr("parts")), a.e};
  const DType wide = accumulationType(q.type(0).dtype);
  results.push_back(q.module->tensorType(wide, dims));
  results.push_back(q.module->tensorType(wide, std::span(dims).first(4)));
  return true;
}

// attentionPart() in basic ops, in i32: tiles of less than 2^31 keys times parts of less than 64 fit.
ValueId insidePart(Builder& b, OpId op, const OpQuery& q, const AttentionShape& whole) {
  Module& m = b.module;
  auto number = [&](int64_t n) { return b.literal(static_cast<double>(n), DType::I32); };
  auto size = [&](Dim d) { return d.isStatic() ? number(d.value()) : m.makeSymbol(d, DType::I32, b.loc); };
  auto call = [&](const char* name, ValueId x, ValueId y) { return b.value(name, {x, y}); };
  auto iota = [&](Dim rows, Dim columns, int64_t dim) {
    const Dim dims[] = {rows, columns};
    TypeId type[] = {m.tensorType(DType::I32, dims)};
    return m.result(b.op("iota", {}, {{"dim", b.integer(dim)}}, type));
  };
  // Of numbers alone no op is made.
  const ValueId zero = b.constant(0, m.tensorType(DType::I32, std::initializer_list<int64_t>{}));
  const ValueId place =
      hasAttentionOffset(q) ? call("add", zero, m.operand(op, m[op].numOperands - 1)) : zero;
  const ValueId behind = call("add", place, size(whole.s)); // the last query
  const int64_t near = window(q);
  ValueId first = zero, last = call("add", zero, size(whole.t));
  if (near != 0) first = call("max", call("add", place, number(1 - near)), zero);
  if (causal(q))
    last = call("min", behind, last);
  else if (near != 0)
    last = call("min", call("add", behind, number(near - 1)), last);
  const ValueId seen = call("max", call("sub", last, first), zero);
  const ValueId tiles = call("floor_div", call("add", seen, number(kPartTile - 1)), number(kPartTile));
  const Dim parts(q.intAttr("parts"));
  auto begin = [&](ValueId part) {
    const ValueId nth = call("floor_div", call("mul", part, tiles), number(parts.value()));
    return call("add", call("mul", nth, number(kPartTile)), first);
  };
  const ValueId part = iota(parts, Dim(1), 0), key = iota(parts, whole.t, 1);
  return call("and", call("ge", key, begin(part)), call("lt", key, begin(call("add", part, number(1)))));
}

bool partsDecompose(Builder& b, OpId op, std::vector<ValueId>& results) {
  Diagnostics none;
  const OpQuery q = queryOf(b.module, op, none);
  AttentionShape whole;
  if (!attentionShapeOf(q, whole)) return false;
  AttentionParts made(b, op,
                      joinsHeads(q, whole) ? AttentionParts::Heads::Joined : AttentionParts::Heads::Apart);
  const DType wide = made.wideType();
  const int64_t beforeKeys = -2, beforeRows = whole.grouped() && made.shape().grouped() ? 3 : 2, last = -1;
  const ValueId all = made.scores(made.products(made.query(), made.key()));
  const ValueId x = b.value("select", {insidePart(b, op, q, whole),
                                       b.value("expand_dims", {all}, {{"dims", b.ints({&beforeKeys, 1})}}),
                                       b.literal(-std::numeric_limits<double>::infinity(), wide)});
  const ValueId values = b.value("expand_dims", {made.value()}, {{"dims", b.ints({&beforeRows, 1})}});
  const ValueId p = b.value("softmax", {x}, {{"dims", b.ints({&last, 1})}});
  for (ValueId v : {b.value("matmul", {p, values}), made.logSumExpOf(x)}) {
    const std::vector<Dim>& dims =
        b.module.typeOf(b.module.result(op, static_cast<uint32_t>(results.size()))).dims;
    results.push_back(b.value("reshape", {v}, {{"shape", sizesToAttr(b.module, dims)}}));
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
  constexpr int64_t kProcessors = 132, kBlocks = 2 * kProcessors; // of a large GPU, and what keeps it busy
  constexpr int64_t kLeastKeys = 4 * kPartTile, kMost = 32, kMostOfAnyBatch = 8;
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
  const int64_t most = a.batch.isStatic() ? kMost : kMostOfAnyBatch;
  return static_cast<double>(std::max<int64_t>(1, std::min({kBlocks / blocks, keys / kLeastKeys, most})));
}

void addAttentionPartsOp(OpRegistry& ops) {
  OpRecord parts{.name = "attention_parts",
                 .family = "attention",
                 .summary =
                     "attention over each of `parts` parts of the keys that are seen, and its log-sum-exp; "
                     "the rows of heads that share keys stand together"};
  parts.operands = "q, k, v, mask?, offset?";
  parts.operandTypes = "T, T, T, any, i32";
  parts.literal = OpRecord::LiteralType::Exponent; // an offset without a mask before it
  parts.results = "y, lse";
  parts.operandClasses = kFloats;
  parts.attrs = {{"parts", AttrType::Int, "1", "parts of about as many tiles of 64 keys"},
                 {"causal", AttrType::Bool, "false", "as of attention"},
                 {"scale", AttrType::Float, "", "1/sqrt(dim) if left out"},
                 {"window", AttrType::Int, "0", "as of attention"}};
  parts.rule = partsRule;
  parts.infer = partsInfer;
  parts.eval = attentionPartsEval;
  parts.decompose = partsDecompose;
  parts.gradNone = true; // it is made of what has its gradient already
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
  ops.add(std::move(parts));
}

} // namespace dtc
