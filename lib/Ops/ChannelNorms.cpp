// group_norm batch_norm: channels brought to mean 0 and variance 1, with a weight and a bias each.
#include "CarriedSum.h"
#include "Merge.h"
#include "ReduceParts.h"
#include "ShapeParts.h"
#include <cmath>

namespace dtc {

namespace {

// A vector with one number for each channel.
bool channelOperand(const OpQuery& q, size_t operand, size_t channel, const DimMap& map, Rule& rule) {
  const Type own = q.type(operand);
  if (own.rank() != 1) return reportRank(q, operand, "1");
  if (!(own.dims[0] == q.type(0).dims[channel]))
    return reportDims(q, "has channels in dim", "of which each needs one number of dim", 0, channel, operand,
                      0);
  rule.operands.push_back({{map}});
  return true;
}

double at(const Tensor& t, int64_t i) { return t.getFloat(i); }

// The mean of the elements, and that of the squares about it.
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

// Nothing where the groups are not of one size; a size that is no number makes one group, or one for each channel.
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

void groupLocalise(const OpQuery& q, std::span<const TypeId> in, std::span<const TypeId>, AttrList& attrs) {
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
                                         "{training = true} x alone or x, weight and bias; it is given "
                                         "{0} operands"};
bool batchForm(const OpQuery& q) {
  const size_t n = q.operandTypes.size();
  if (q.boolAttr("training") ? n <= 3 : n == 5) return true;
  q.diags->error(kBatchOperands, q.loc, n);
  return false;
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

// --- both as other ops ---

class Normaliser {
public:
  Normaliser(Builder& b, OpId op) : Normaliser(b, queryOf(b.module, op, b.diags), operandsOf(b.module, op)) {}
  // `whole` says the attributes; the operands may be pieces of its own, of which as many as `groupPieces` make up a group.
  Normaliser(Builder& b, const OpQuery& whole, std::vector<ValueId> given, int64_t groupPieces = 1)
      : b(b), m(b.module), operands(std::move(given)), x(operands[0]), type(m.typeOf(x)) {
    grouped_ = std::string_view(whole.record->name) == "group_norm";
    channel_ = grouped_ ? 1 : *whole.dimAttr("dim", type.rank());
    eps_ = whole.floatAttr("eps");
    if (!grouped_) {
      rows_ = allBut(type.rank(), channel_);
      return;
    }
    const Dim groups = whole.sizeAttr("num_groups"), own = type.dims[1];
    Dim each = *channelsOfGroup(groups, whole.type(0).dims[1]);
    if (groupPieces > 1) each = Dim(each.value() / groupPieces);
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
  ValueId mul(ValueId a, ValueId c) const { return b.value("mul", {a, c}); }
  ValueId sub(ValueId a, ValueId c) const { return b.value("sub", {a, c}); }
  ValueId add(ValueId a, ValueId c) const { return b.value("add", {a, c}); }
  // x with a dim of groups, whose rows are normalised; and back.
  ValueId view(ValueId v) const { return grouped_ ? reshape(v, view_) : v; }
  ValueId back(ValueId v) const { return grouped_ ? reshape(v, type.dims) : v; }
  ValueId mean(ValueId v) const {
    return b.value("mean", {v}, {{"dims", b.ints(rows_)}, {"keepdim", b.boolean(true)}});
  }
  ValueId scaleOf(ValueId variance) const {
    return b.value("rsqrt", {add(variance, b.literal(eps_, type.dtype))});
  }
  // A number for each channel as it broadcasts against x; of what broadcasts so, the numbers; and their sums over all else.
  ValueId channels(ValueId v) const {
    std::vector<Dim> shape(type.rank(), Dim(1));
    shape[static_cast<size_t>(channel_)] = type.dims[static_cast<size_t>(channel_)];
    return reshape(v, shape);
  }
  ValueId perChannel(ValueId v) const { return reshape(v, {type.dims[static_cast<size_t>(channel_)]}); }
  ValueId summed(ValueId v) const {
    const std::vector<int64_t> dims = allBut(type.rank(), channel_);
    return dims.empty() ? v : b.value("sum", {v}, {{"dims", b.ints(dims)}});
  }
  ValueId weighted(ValueId v) const { return operands.size() > 1 ? mul(v, channels(operands[1])) : v; }
  ValueId biased(ValueId v) const { return operands.size() > 2 ? add(v, channels(operands[2])) : v; }
  ValueId count() const { return countOf(b, type, rows_); }

  struct Rows {
    ValueId mean, variance, scale, centred, y; // in the view; y: normalised
  };
  Rows rows() const {
    Rows r;
    const ValueId v = view(x);
    r.mean = mean(v);
    r.centred = sub(v, r.mean);
    return scaled(r, mean(mul(r.centred, r.centred)));
  }
  // Of mean and variance that are known.
  Rows rows(ValueId mean, ValueId variance) const {
    Rows r;
    r.mean = mean;
    r.centred = sub(view(x), mean);
    return scaled(r, variance);
  }

  Builder& b;
  Module& m;
  std::vector<ValueId> operands;
  ValueId x;
  const Type type;

private:
  static std::vector<ValueId> operandsOf(const Module& m, OpId op) {
    return {m.operands(op).begin(), m.operands(op).end()};
  }
  Rows scaled(Rows r, ValueId variance) const {
    r.variance = variance;
    r.scale = scaleOf(variance);
    r.y = mul(r.centred, r.scale);
    return r;
  }
  ValueId reshape(ValueId v, const std::vector<Dim>& shape) const {
    if (m.typeOf(v).dims == shape) return v;
    return b.value("reshape", {v}, {{"shape", sizesToAttr(m, shape)}});
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
  const Normaliser n(b, op);
  Module& m = b.module;
  const bool batch = m[op].numResults == 3 || m[op].numOperands == 5;
  ValueId y;
  if (m[op].numOperands == 5) {
    const ValueId scale = n.mul(n.scaleOf(m.operand(op, 4)), m.operand(op, 1));
    y = n.mul(n.sub(n.x, n.channels(m.operand(op, 3))), n.channels(scale));
  } else {
    const Normaliser::Rows rows = n.rows();
    y = n.weighted(n.back(rows.y));
    if (batch) results = {y, n.perChannel(rows.mean), n.perChannel(rows.variance)};
  }
  if (results.empty()) results.push_back(y);
  results[0] = n.biased(y);
  return true;
}

// The statistics from all pieces; the rest is local. A group's channels may be on several devices, as many on each: else they are gathered.
bool cutChannelNorm(CutOp& op, std::vector<ValueId>& results) {
  std::vector<ValueId> pieces;
  for (ValueId v : op.operands)
    if (v.valid()) pieces.push_back(op.wide(v));
  static const CutFactor uncut;
  const bool one = isOneDim(op.whole.sizeAttr("num_groups"));
  const SmallVector<Term, 2>& channels = op.rule.operands[0].dims[1].terms;
  const bool grouped = std::string_view(op.whole.record->name) == "group_norm" && !one;
  const CutFactor& within = grouped && channels.size() > 1 ? op.factors[channels[1].factor] : uncut;
  const Dim each =
      grouped ? *channelsOfGroup(op.whole.sizeAttr("num_groups"), op.whole.type(0).dims[1]) : Dim(1);
  if (within.cut() && (!each.isStatic() || each.value() % within.devices != 0)) return false;
  const Normaliser n(op.b, op.whole, pieces, within.devices);
  std::vector<RowDim> rows;
  if (n.grouped()) {
    for (int64_t d : n.rowsOfView()) { // dim 2 of the view is a group's channels
      const auto at = static_cast<size_t>(d);
      const Dim whole = d > 2 ? op.whole.type(0).dims[at - 1] : one ? op.whole.type(0).dims[1] : each;
      rows.push_back({d, whole, d > 2 || one ? &op.operandCut(0, at - 1) : &within});
    }
  } else {
    rows = rowDims(op, n.rowsOfView());
  }
  const auto [mean, squares] = mergeSquares(op, n.view(n.x), rows);
  const ValueId variance = op.b.value("div", {squares, wholeCount(op, n.x, rows)});
  const DType dtype = op.dtypeOf(op.operands[0]);
  const Normaliser::Rows normal = n.rows(mean, variance);
  results.push_back(op.convert(n.biased(n.weighted(n.back(normal.y))), dtype));
  if (n.grouped()) return true;
  results.push_back(op.convert(n.perChannel(mean), dtype));
  results.push_back(op.convert(n.perChannel(variance), dtype));
  return true;
}

// With g = dy * weight: dx = scale * (g - mean(g) - y * mean(g * y)), and what mean and var themselves are asked for.
bool channelNormGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  const Normaliser n(b, op);
  const size_t count = b.module[op].numOperands;
  const bool saved = dy.size() == 3 && !isNarrowFloat(n.type.dtype); // mean and var as the op gave them
  const Normaliser::Rows rows =
      saved ? n.rows(n.channels(b.module.result(op, 1)), n.channels(b.module.result(op, 2))) : n.rows();
  const ValueId g = n.view(n.weighted(dy[0]));
  ValueId d = n.mul(rows.scale, n.sub(n.sub(g, n.mean(g)), n.mul(rows.y, n.mean(n.mul(g, rows.y)))));
  if (dy.size() == 3) {
    const ValueId twice = n.mul(n.channels(dy[2]), b.literal(2, n.type.dtype));
    const ValueId own = n.add(n.channels(dy[1]), n.mul(rows.centred, twice));
    d = n.add(d, b.value("div", {own, n.count()}));
  }
  dx.push_back(n.back(d));
  if (count > 1) dx.push_back(n.summed(n.mul(dy[0], n.back(rows.y))));
  if (count > 2) dx.push_back(n.summed(dy[0]));
  return true;
}

// Of the form with given mean and var: y = (x - mean) * scale * weight + bias.
bool givenGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  const Normaliser n(b, op);
  Module& m = b.module;
  const ValueId weight = m.operand(op, 1), scale = n.scaleOf(m.operand(op, 4));
  const ValueId both = n.mul(scale, weight), sum = n.summed(dy[0]);
  const ValueId products = n.summed(n.mul(dy[0], n.sub(n.x, n.channels(m.operand(op, 3)))));
  const ValueId cube = n.mul(n.mul(scale, scale), both);
  dx.push_back(n.mul(dy[0], n.channels(both)));
  dx.push_back(n.mul(products, scale));
  dx.push_back(sum);
  dx.push_back(b.value("neg", {n.mul(sum, both)}));
  dx.push_back(n.mul(n.mul(products, cube), b.literal(-0.5, n.type.dtype)));
  return true;
}

bool batchGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  return isTraining(b, op) ? channelNormGrad(b, op, dy, dx) : givenGrad(b, op, dy, dx);
}

OpRecord channelNorm(const char* name, const char* summary) {
  OpRecord r{.name = name, .family = "normalise", .summary = summary};
  r.operandClasses = kFloats;
  r.decompose = channelNormDecompose;
  r.cut = cutChannelNorm;
  r.lowering = Lowering::Rows;
  r.flopsPerPoint = 8;
  return r;
}

// Where mean and var are found, they depend on neither weight nor bias: what is averaged or ordered along passes, no sum.
bool batchThroughWhen(const OpQuery& q, const Through& row) {
  if (!q.boolAttr("training")) return true;
  return (row.operands & ~0b110u) == 0 &&
         (row.row == ThroughRow::Affine || row.kinds == kindBit(PendingKind::Avg));
}

Through averages(uint32_t operands) {
  return {ThroughRow::Linear, operands, false, ~0u, kindBit(PendingKind::Avg)};
}

void addGroupNorm(OpRegistry& ops) {
  OpRecord group = channelNorm(
      "group_norm",
      "(x - mean) / sqrt(variance + eps) of each item of x [n, c, spatial…] and each group of its "
      "channels, times weight [c], plus bias [c]");
  group.operands = "x, weight?, bias?";
  group.attrs = {{"num_groups", AttrType::Size, nullptr,
                  "of channels, all of one size; 1: layer norm, c: instance norm"},
                 {"eps", AttrType::Float, "1e-5"}};
  group.rule = groupRule;
  group.localise = groupLocalise;
  group.through = {linear(0b110), averages(0b010), {ThroughRow::Affine, 0b100}};
  group.eval = groupEval;
  group.gradFn = channelNormGrad;
  group.samples = "T[2, 4, 3] {num_groups = 2}\nT[2, 6, 3, 2], T[6] {num_groups = 3}\n"
                  "T[3, 4, 5], T[4], T[4] {num_groups = 4, eps = 0.1}\nT[2, 3], T[3], T[3] {num_groups = 1}\n"
                  "T[2, 12, 2], T[12], T[12] {num_groups = 2}";
  ops.add(std::move(group));
}

} // namespace

void addChannelNormOps(OpRegistry& ops) {
  addGroupNorm(ops);
  OpRecord batch = channelNorm("batch_norm", "(x - mean) / sqrt(var + eps) of each channel, times weight, "
                                             "plus bias. With training = true, mean and var are "
                                             "those of x over all other dims (the variance over their "
                                             "number), and are results, too: running averages are "
                                             "the program's own. Else they are given");
  batch.operands = "x, weight?, bias?, mean?, var?";
  batch.results = "y, mean, var";
  batch.attrs = {{"training", AttrType::Bool, "false",
                  "x [, weight [, bias]] → y, mean, var; else x, weight, bias, mean, var → y"},
                 {"dim", AttrType::Dim, "1", "the channels'"},
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
  ops.add(std::move(batch));
}

} // namespace dtc
