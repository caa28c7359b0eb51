// group_norm batch_norm: channels normalized to mean 0 and variance 1, with a weight and a bias each.
#include "record/CarriedSum.h"
#include "record/Precision.h"
#include "record/ShapeParts.h"
#include "reduce/Merge.h"
#include "reduce/ReduceParts.h"
#include <cmath>

namespace dtc {

namespace {

// A vector with one element per channel.
bool channelOperand(const OpQuery& q, size_t operand, size_t channel, const DimMap& map, Rule& rule) {
  const Type own = q.type(operand);
  if (own.rank() != 1) return reportRank(q, operand, "1");
  if (!(own.dims[0] == q.type(0).dims[channel]))
    return reportDims(q, "needs channel dim", "equal to dim", 0, channel, operand, 0);
  rule.operands.push_back({{map}});
  return true;
}

double at(const Tensor& t, int64_t i) { return t.getFloat(i); }

// The mean of the elements, and of the squares of their deviations.
struct Moments {
  long double mean = 0, variance = 0;
};
Moments momentsOf(const OpQuery& q, const Tensor& x, const std::vector<int64_t>& row) {
  Moments m;
  const auto n = static_cast<long double>(row.size());
  for (int64_t i : row) m.mean = carried(q, m.mean + at(x, i));
  m.mean /= n;
  for (int64_t i : row) m.variance = carried(q, m.variance + (at(x, i) - m.mean) * (at(x, i) - m.mean));
  m.variance /= n;
  return m;
}

// --- group_norm ---

// Empty if the groups are not of equal size; a symbolic size allows one group, or one per channel.
std::optional<Dim> channelsOfGroup(Dim groups, Dim channels) {
  if (groups == channels) return Dim(1);
  if (isOneDim(groups)) return channels;
  const bool fits = groups.isStatic() && channels.isStatic() && groups.value() >= 1 &&
                    channels.value() % groups.value() == 0;
  return fits ? std::optional(Dim(channels.value() / groups.value())) : std::nullopt;
}

bool groupRule(const OpQuery& q, Rule& rule) {
  const Type& x = q.type(0);
  if (x.rank() < 2) return reportRank(q, 0, "2 or more");
  const Dim groups = q.sizeAttr("num_groups"), channels = x.dims[1];
  const auto each = channelsOfGroup(groups, channels);
  if (!each)
    return reportShape(q, "cannot divide " + dimText(q, channels) + " channels into " + dimText(q, groups) +
                              " equal groups");
  DimMap c{DimMap::Compound, {}, 0};
  const uint16_t n = addFactor(rule, x.dims[0], "n");
  if (!isOneDim(groups)) c.terms.push_back({addFactor(rule, groups, "g"), 1});
  if (isOneDim(groups) || !isOneDim(*each))
    c.terms.push_back({addFactor(rule, *each, "c", FactorKind::Merge), 1});
  TensorMap map{{plainDim(n), c}};
  for (size_t d = 2; d < x.rank(); ++d)
    map.dims.push_back(plainDim(addFactor(rule, x.dims[d], "s" + std::to_string(d - 2), FactorKind::Merge)));
  rule.operands.push_back(map);
  rule.results.push_back(std::move(map));
  for (size_t i = 1; i < q.operandTypes.size(); ++i)
    if (!channelOperand(q, i, 1, c, rule)) return false;
  return true;
}

void groupLocalize(const OpQuery& q, std::span<const TypeId> in, std::span<const TypeId>, AttrList& attrs) {
  Module& m = *q.module;
  const Dim local = m.types[in[0]].dims[1], groups = q.sizeAttr("num_groups");
  const auto each = channelsOfGroup(groups, q.type(0).dims[1]);
  if (isOneDim(groups) || !each) return;
  if (isOneDim(*each))
    setListed(attrs, m.strings.intern("num_groups"), sizeAttr(m, local));
  else if (local.isStatic() && each->value() > 0)
    setListed(attrs, m.strings.intern("num_groups"), m.attrs.integer(local.value() / each->value()));
}

bool groupEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  const Tensor& x = *in[0];
  const Dim given = q.sizeAttr("num_groups");
  const int64_t groups = given.isStatic() ? given.value() : x.shape()[1],
                each = x.shape()[1] / std::max<int64_t>(groups, 1);
  const double eps = q.floatAttr("eps");
  int64_t inner = 1;
  for (size_t d = 2; d < x.rank(); ++d) inner *= x.shape()[d];
  std::vector<int64_t> row(static_cast<size_t>(each * inner));
  for (int64_t g = 0; g < x.shape()[0] * groups; ++g) {
    for (size_t i = 0; i < row.size(); ++i) row[i] = g * each * inner + static_cast<int64_t>(i);
    const Moments m = momentsOf(q, x, row);
    const long double scale = 1 / std::sqrt(m.variance + eps);
    for (size_t i = 0; i < row.size(); ++i) {
      const int64_t c = g % groups * each + static_cast<int64_t>(i) / inner;
      long double y = (at(x, row[i]) - m.mean) * scale;
      if (in.size() > 1) y *= at(*in[1], c);
      if (in.size() > 2) y += at(*in[2], c);
      out[0]->setFloat(row[i], static_cast<double>(y));
    }
  }
  return true;
}

// --- batch_norm ---

static constexpr DiagKind kBatchOperands{"operand-count",
                                         "'batch_norm' takes x, weight, bias, mean and var, or with "
                                         "{training = true} x alone or x, weight and bias, but not "
                                         "{0} operands"};
bool batchForm(const OpQuery& q) {
  const size_t n = q.operandTypes.size();
  if (q.boolAttr("training") ? n <= 3 : n == 5) return true;
  return q.diags->fail(kBatchOperands, q.loc, n);
}

bool batchRule(const OpQuery& q, Rule& rule) {
  const auto dim = q.dimAttr("dim", q.type(0).rank());
  if (!dim || !batchForm(q)) return false;
  const bool training = q.boolAttr("training");
  addOperandFactors(q, 0, rule);
  const auto channel = static_cast<uint16_t>(*dim);
  for (size_t f = 0; f < rule.factors.size(); ++f)
    if (training && f != channel) rule.factors[f].kind = FactorKind::Merge;
  rule.results.push_back(rule.operands[0]);
  if (training) rule.results.resize(3, {{plainDim(channel)}});
  for (size_t i = 1; i < q.operandTypes.size(); ++i)
    if (!channelOperand(q, i, channel, plainDim(channel), rule)) return false;
  return true;
}

std::vector<int64_t> allBut(size_t rank, int64_t dim) {
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < static_cast<int64_t>(rank); ++d)
    if (d != dim) dims.push_back(d);
  return dims;
}

bool batchEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  const Tensor& x = *in[0];
  const double eps = q.floatAttr("eps");
  const bool training = q.boolAttr("training");
  forEachRow(x, allBut(x.rank(), *q.dimAttr("dim", x.rank())),
             [&](int64_t c, const std::vector<int64_t>& row) {
               const Moments m = training ? momentsOf(q, x, row) : Moments{at(*in[3], c), at(*in[4], c)};
               const long double scale = 1 / std::sqrt(m.variance + eps);
               for (int64_t i : row) {
                 long double y = (at(x, i) - m.mean) * scale;
                 if (in.size() > 1) y *= at(*in[1], c);
                 if (in.size() > 2) y += at(*in[2], c);
                 out[0]->setFloat(i, static_cast<double>(y));
               }
               if (!training) return;
               out[1]->setFloat(c, static_cast<double>(m.mean));
               out[2]->setFloat(c, static_cast<double>(m.variance));
             });
  return true;
}

// --- decompositions ---

class Normalizer {
public:
  Normalizer(Builder& b, OpId op) : Normalizer(b, queryOf(b.module, op, b.diags), operandsOf(b.module, op)) {}
  // `global` provides the attributes; the operands may be shards, `groupShards` of which make up a group.
  Normalizer(Builder& b, const OpQuery& global, std::vector<ValueId> given, int64_t groupShards = 1)
      : b(b), m(b.module), operands(std::move(given)), x(b, operands[0]), type(x.type()) {
    grouped_ = std::string_view(global.record->name) == "group_norm";
    channel_ = grouped_ ? 1 : *global.dimAttr("dim", type.rank());
    eps_ = global.floatAttr("eps");
    if (!grouped_) {
      rows_ = allBut(type.rank(), channel_);
      return;
    }
    const Dim groups = global.sizeAttr("num_groups"), own = type.dims[1];
    Dim each = *channelsOfGroup(groups, global.type(0).dims[1]);
    if (groupShards > 1) each = Dim(each.value() / groupShards);
    view_ = type.dims;
    view_[1] = isOneDim(groups) ? own : each;
    view_.insert(view_.begin() + 1, isOneDim(groups) ? Dim(1)
                                    : isOneDim(each) ? own
                                                     : Dim(own.value() / each.value()));
    for (size_t d = 2; d < view_.size(); ++d) rows_.push_back(static_cast<int64_t>(d));
  }

  [[nodiscard]] Dim viewDim(size_t d) const { return view_[d]; }
  [[nodiscard]] bool grouped() const { return grouped_; }
  [[nodiscard]] const std::vector<int64_t>& rowsOfView() const { return rows_; }
  // x with a dim of groups, whose rows are normalized; and back.
  Expr view(Expr v) const { return grouped_ ? shaped(v, view_) : v; }
  Expr back(Expr v) const { return grouped_ ? shaped(v, type.dims) : v; }
  Expr meanOf(Expr v) const { return mean(v, {.dims = rows_, .keepdim = true}); }
  Expr scaleOf(Expr variance) const { return rsqrt(withPrecision(variance, eps_) + eps_); }
  // A per-channel vector broadcast against x; the inverse; and sums over all other dims.
  Expr channels(Expr v) const {
    std::vector<Dim> shape(type.rank(), Dim(1));
    shape[static_cast<size_t>(channel_)] = type.dims[static_cast<size_t>(channel_)];
    return shaped(v, shape);
  }
  Expr perChannel(Expr v) const { return shaped(v, {type.dims[static_cast<size_t>(channel_)]}); }
  Expr summed(Expr v) const {
    const std::vector<int64_t> dims = allBut(type.rank(), channel_);
    return dims.empty() ? v : sum(v, {.dims = dims});
  }
  Expr weighted(Expr v) const { return operands.size() > 1 ? v * channels(Expr(b, operands[1])) : v; }
  Expr biased(Expr v) const { return operands.size() > 2 ? v + channels(Expr(b, operands[2])) : v; }
  Expr count() const { return countOf(b, type, rows_); }

  struct Rows {
    Expr mean, variance, scale, centred, y; // in the view; y: normalized
  };
  Rows rows() const {
    Rows r;
    const Expr v = view(x);
    r.mean = meanOf(v);
    r.centred = v - r.mean;
    return scaled(r, meanOf(r.centred * r.centred));
  }
  // From given mean and variance.
  Rows rows(Expr mean, Expr variance) const {
    Rows r;
    r.mean = mean;
    r.centred = view(x) - mean;
    return scaled(r, variance);
  }

  Builder& b;
  Module& m;
  std::vector<ValueId> operands;
  Expr x;
  const Type type;

private:
  static std::vector<ValueId> operandsOf(const Module& m, OpId op) {
    return {m.operands(op).begin(), m.operands(op).end()};
  }
  Rows scaled(Rows r, Expr variance) const {
    r.variance = variance;
    r.scale = scaleOf(variance);
    r.y = times(r.centred, r.scale);
    return r;
  }
  static Expr shaped(Expr v, const std::vector<Dim>& shape) {
    return v.dims() == shape ? v : reshape(v, shape);
  }
  bool grouped_ = false;
  int64_t channel_ = 1;
  double eps_ = 0;
  std::vector<Dim> view_;
  std::vector<int64_t> rows_;
};

bool isTraining(Builder& b, OpId op) {
  Diagnostics none;
  return queryOf(b.module, op, none).boolAttr("training");
}

bool channelNormDecompose(Builder& b, OpId op, std::vector<ValueId>& results) {
  const Normalizer n(b, op);
  Module& m = b.module;
  const bool batch = m[op].numResults == 3 || m[op].numOperands == 5;
  Expr y;
  if (m[op].numOperands == 5) {
    const Expr scale = times(n.scaleOf(Expr(b, m.operand(op, 4))), Expr(b, m.operand(op, 1)));
    const Expr centred = n.x - n.channels(Expr(b, m.operand(op, 3)));
    y = times(centred, n.channels(scale));
  } else {
    const Normalizer::Rows rows = n.rows();
    y = n.weighted(n.back(rows.y));
    if (batch) results = {y, n.perChannel(rows.mean), n.perChannel(rows.variance)};
  }
  if (results.empty()) results.push_back(y);
  results[0] = n.biased(y);
  return true;
}

// The statistics are merged over all shards; the rest is local. A group's channels may be on several devices,
// equally many on each; otherwise they are gathered.
bool shardChannelNorm(ShardedOp& op, std::vector<ValueId>& results) {
  std::vector<ValueId> shards;
  for (ValueId v : op.operands)
    if (v.valid()) shards.push_back(op.wide(v));
  static const ShardedFactor unsharded;
  const bool one = isOneDim(op.global.sizeAttr("num_groups"));
  const SmallVector<Term, 2>& channels = op.rule.operands[0].dims[1].terms;
  const bool grouped = std::string_view(op.global.record->name) == "group_norm" && !one;
  const ShardedFactor& within = grouped && channels.size() > 1 ? op.factors[channels[1].factor] : unsharded;
  const Dim each =
      grouped ? *channelsOfGroup(op.global.sizeAttr("num_groups"), op.global.type(0).dims[1]) : Dim(1);
  if (within.isSharded() && (!each.isStatic() || each.value() % within.devices != 0)) return false;
  const Normalizer n(op.b, op.global, shards, within.devices);
  std::vector<RowDim> rows;
  if (n.grouped()) {
    for (int64_t d : n.rowsOfView()) { // dim 2 of the view is a group's channels
      const auto at = static_cast<size_t>(d);
      const Dim globalSize = d > 2 ? op.global.type(0).dims[at - 1] : one ? op.global.type(0).dims[1] : each;
      rows.push_back({d, globalSize, d > 2 || one ? &op.operandFactor(0, at - 1) : &within});
    }
  } else {
    rows = rowDims(op, n.rowsOfView());
  }
  const auto [mean, squares] = mergeSquares(op, n.view(n.x), rows);
  const Expr variance = squares / globalCount(op, n.x, rows);
  const DType dtype = op.dtypeOf(op.operands[0]);
  const Normalizer::Rows normal = n.rows(mean, variance);
  results.push_back(op.convert(n.biased(n.weighted(n.back(normal.y))), dtype));
  if (n.grouped()) return true;
  results.push_back(op.convert(n.perChannel(mean), dtype));
  results.push_back(op.convert(n.perChannel(variance), dtype));
  return true;
}

// With g = dy * weight: dx = scale * (g - mean(g) - y * mean(g * y)), plus the cotangents of mean and var.
bool channelNormGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  const Normalizer n(b, op);
  const size_t count = b.module[op].numOperands;
  const bool saved = dy.size() == 3 && !isNarrowFloat(n.type.dtype); // mean and var as returned by the op
  const Normalizer::Rows rows =
      saved ? n.rows(n.channels(Expr(b, b.module.result(op, 1))), n.channels(Expr(b, b.module.result(op, 2))))
            : n.rows();
  const Expr g = n.view(n.weighted(Expr(b, dy[0])));
  const Expr centred = g - n.meanOf(g);
  Expr d = times(centred - rows.y * n.meanOf(g * rows.y), rows.scale);
  if (dy.size() == 3) {
    const Expr twice = n.channels(Expr(b, dy[2])) * 2;
    const Expr own = n.channels(Expr(b, dy[1])) + rows.centred * twice;
    d = d + own / n.count();
  }
  dx.push_back(n.back(d));
  if (count > 1) dx.push_back(n.summed(dy[0] * n.back(rows.y)));
  if (count > 2) dx.push_back(n.summed(Expr(b, dy[0])));
  return true;
}

// For given mean and var: y = (x - mean) * scale * weight + bias.
bool givenGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  const Normalizer n(b, op);
  Module& m = b.module;
  const Expr weight = Expr(b, m.operand(op, 1)), scale = n.scaleOf(Expr(b, m.operand(op, 4)));
  const Expr both = times(scale, weight), sum = n.summed(Expr(b, dy[0]));
  const Expr products = n.summed(Expr(b, dy[0]) * (n.x - n.channels(Expr(b, m.operand(op, 3)))));
  const Expr cube = scale * scale * both;
  dx.push_back(times(Expr(b, dy[0]), n.channels(both)));
  dx.push_back(times(products, scale));
  dx.push_back(sum);
  dx.push_back(-times(sum, both));
  dx.push_back(times(products, cube * -0.5));
  return true;
}

bool batchGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  return isTraining(b, op) ? channelNormGrad(b, op, dy, dx) : givenGrad(b, op, dy, dx);
}

OpRecord channelNorm(const char* name, const char* summary) {
  OpRecord r{.name = name, .family = "normalize", .summary = summary};
  r.operandClasses = kFloats;
  r.decompose = channelNormDecompose;
  r.shard = shardChannelNorm;
  r.lowering = Lowering::Rows;
  r.flopsPerPoint = 8;
  return r;
}

// Computed mean and var depend on neither weight nor bias: avg, max and min pass, but not sum.
bool batchThroughWhen(const OpQuery& q, const Through& row) {
  if (!q.boolAttr("training")) return true;
  return (row.operands & ~0b110u) == 0 &&
         (row.row == ThroughRow::Affine || row.kinds == kindBit(PendingKind::Avg));
}

Through averages(uint32_t operands) {
  return {ThroughRow::Linear, operands, false, ~0u, kindBit(PendingKind::Avg)};
}

void addGroupNorm(OpRegistry& ops) {
  OpRecord& group = ops.add(channelNorm(
      "group_norm",
      "(x - mean) / sqrt(variance + eps) over each item of x [n, c, spatial…] and each group of its "
      "channels, times weight [c], plus bias [c]"));
  group.operands = "x, weight?, bias?";
  group.attrs = {{"num_groups", AttrType::Size, nullptr,
                  "number of channel groups of equal size; 1: layer norm, c: instance norm"},
                 {"eps", AttrType::Float, "1e-5"}};
  group.rule = groupRule;
  group.localize = groupLocalize;
  group.through = {linear(0b110), averages(0b010), {ThroughRow::Affine, 0b100}};
  group.eval = groupEval;
  group.gradFn = channelNormGrad;
  group.samples = "T[2, 4, 3] {num_groups = 2}\nT[2, 6, 3, 2], T[6] {num_groups = 3}\n"
                  "T[3, 4, 5], T[4], T[4] {num_groups = 4, eps = 0.1}\nT[2, 3], T[3], T[3] {num_groups = 1}\n"
                  "T[2, 12, 2], T[12], T[12] {num_groups = 2}";
}

} // namespace

void addChannelNormOps(OpRegistry& ops) {
  addGroupNorm(ops);
  OpRecord& batch =
      ops.add(channelNorm("batch_norm", "(x - mean) / sqrt(var + eps) for each channel, times weight, "
                                        "plus bias. With training = true, mean and var are "
                                        "those of x over all other dims (the biased variance) "
                                        "and are also returned; the program maintains running averages "
                                        "itself. Otherwise they are operands"));
  batch.operands = "x, weight?, bias?, mean?, var?";
  batch.results = "y, mean, var";
  batch.attrs = {{"training", AttrType::Bool, "false",
                  "x [, weight [, bias]] → y, mean, var; else x, weight, bias, mean, var → y"},
                 {"dim", AttrType::Dim, "1", "the channel dim"},
                 {"eps", AttrType::Float, "1e-5"}};
  batch.rule = batchRule;
  batch.through = {averages(0b110),   averages(0b010),   {ThroughRow::Affine, 0b100}, linear(0b110),
                   linear(0b01101),   averages(0b00001), averages(0b01000),           averages(0b01001),
                   averages(0b00101), averages(0b01100)};
  batch.throughWhen = batchThroughWhen;
  batch.eval = batchEval;
  batch.gradFn = batchGrad;
  batch.samples = "T[4, 3, 2] {training = true}\nT[3, 5], T[5], T[5] {training = true, eps = 0.1}\n"
                  "T[2, 3, 4], T[4] {training = true, dim = -1}\nT[4, 3, 2], T[3], T[3], T[3], T[3] in 1..3\n"
                  "T[5, 3], T[5], T[5], T[5], T[5] {dim = 0}";
}

} // namespace dtc
