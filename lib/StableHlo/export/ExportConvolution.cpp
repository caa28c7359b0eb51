// conv as stablehlo.convolution, and grouped_matmul.
#include "export/ExportContext.h"

namespace dtc {

namespace {

class ConvolutionExport {
public:
  ConvolutionExport(ExportContext& c, OpId o)
      : c_(c), w_(c.w), op_(o), q_(c.query(o)), x_(c.operand(o, 0)), kernel_(c.operand(o, 1)),
        spatial_(x_.rank() - 2), groups_(q_.intAttr("groups")) {}

  bool run() {
    const bool transposed = q_.boolAttr("transposed");
    const Dims stride = listed("stride", 1), dilation = listed("dilation", 1), ones(spatial_, 1);
    std::vector<Dims> pads = padding();
    if (transposed) writeTransposed(dilation, pads);
    const std::string type = hloType(c_.resultType(op_), c_.resultShape(op_));
    std::string window = "stride = " + hloList(transposed ? ones : stride) + ", pad = [";
    for (size_t d = 0; d < spatial_; ++d) window += (d ? ", " : "") + hloList(pads[d]);
    window +=
        "], lhs_dilate = " + hloList(transposed ? stride : ones) + ", rhs_dilate = " + hloList(dilation);
    const ExportValue operands[] = {x_, kernel_};
    ExportValue y{w_.fresh(), c_.resultType(op_), c_.resultShape(op_)};
    w_.line(y.name + " = stablehlo.convolution(" + x_.name + ", " + kernel_.name + ") dim_numbers = [" +
            dims("b, f") + "]x[" + dims("o, i") + "]->[" + dims("b, f") + "], window = {" + window +
            "} {batch_group_count = 1 : i64, feature_group_count = " + std::to_string(groups_) +
            " : i64} : (" + hloTypes(operands) + ") -> " + type);
    if (c_.m[op_].numOperands > 2) y = w_.binary("add", y, w_.broadcast(c_.operand(op_, 2), {1}, y.shape));
    return c_.setResult(op_, y);
  }

private:
  [[nodiscard]] Dims listed(const char* name, int64_t fallback) const {
    Dims v = q_.intsAttr(name);
    return v.empty() ? Dims(spatial_, fallback) : v;
  }
  [[nodiscard]] std::vector<Dims> padding() const {
    std::vector<Dims> pads(spatial_, Dims{0, 0});
    const AttrId a = q_.rawAttr("padding");
    if (!a.valid()) return pads;
    for (size_t d = 0; d < spatial_; ++d) {
      const auto& pair = c_.m.attrs[c_.m.attrs[a].list[d]].list;
      pads[d] = {c_.m.attrs[pair[0]].i, c_.m.attrs[pair[1]].i};
    }
    return pads;
  }
  [[nodiscard]] std::string dims(std::string text) const {
    for (size_t d = 0; d < spatial_; ++d) text += ", " + std::to_string(d);
    return text;
  }

  // The gradient of a convolution is a convolution of the dilated operand with the reversed kernel, channels
  // exchanged.
  void writeTransposed(const Dims& dilation, std::vector<Dims>& pads) {
    const Dims more = listed("output_padding", 0);
    Dims shape = kernel_.shape, wide = {groups_, shape[0] / groups_, shape[1]}, perm = {0, 2, 1}, flips;
    Dims narrow = {groups_ * shape[1], shape[0] / groups_};
    for (size_t d = 0; d < spatial_; ++d) {
      const int64_t n = shape[2 + d], reach = dilation[d] * (n - 1);
      pads[d] = {reach - pads[d][0], reach - pads[d][1] + more[d]};
      wide.push_back(n);
      narrow.push_back(n);
      perm.push_back(static_cast<int64_t>(3 + d));
      flips.push_back(static_cast<int64_t>(2 + d));
    }
    kernel_ = w_.reshape(w_.transpose(w_.reshape(kernel_, wide), perm), narrow);
    if (!flips.empty()) kernel_ = w_.reverse(kernel_, flips);
  }

  ExportContext& c_;
  ExportWriter& w_;
  OpId op_;
  OpQuery q_;
  ExportValue x_, kernel_;
  size_t spatial_;
  int64_t groups_;
};

bool convolution(ExportContext& c, OpId o) { return ConvolutionExport(c, o).run(); }

// The mask [g, t]: row t belongs to group g. A row's group is the number of group ends at or before it; a
// local op is told the offsets of its rows and of its groups.
ExportValue membership(ExportContext& c, OpId o, int64_t groups, int64_t rows) {
  ExportWriter& w = c.w;
  const ExportValue ends = w.convert(c.operand(o, 2), DType::I64);
  const Dims all = {ends.shape[0], rows};
  ExportValue row = w.iota(1, DType::I64, all);
  if (c.m[o].numOperands > 3)
    row = w.binary("add", row, w.broadcast(w.convert(c.operand(o, 3), DType::I64), {}, all));
  const ExportValue before = w.convert(w.compare("LE", w.broadcast(ends, {0}, all), row), DType::I64);
  ExportValue group = w.reduce(before, w.splat(0, DType::I64, {}), "add", {0});
  if (c.m[o].numOperands > 4)
    group = w.binary("subtract", group, w.broadcast(w.convert(c.operand(o, 4), DType::I64), {}, {rows}));
  const Dims each = {groups, rows};
  return w.compare("EQ", w.iota(0, DType::I64, each), w.broadcast(group, {1}, each));
}

// One matrix product of all rows per group, with the rows of other groups masked. XLA runs chlo.ragged_dot on
// few devices.
bool groupedMatmul(ExportContext& c, OpId o) {
  ExportWriter& w = c.w;
  const ExportValue x = c.operand(o, 0), m = c.operand(o, 1);
  const bool spread = m.rank() == 3;
  const Dims result = c.resultShape(o);
  const int64_t groups = spread ? m.shape[0] : result[0], rows = x.shape[spread ? 0 : 1];
  const ExportValue mine = membership(c, o, groups, rows);
  auto ofGroup = [&](const ExportValue& v, const Dims& shape, int64_t rowDim) {
    return w.select(w.broadcast(mine, {0, rowDim}, shape), v, w.splat(0, v.dtype, shape));
  };
  const std::string how = ", batching_dims = [0] x [0], contracting_dims = [2] x [1]";
  const Dims left = {groups, x.shape[0], x.shape[1]};
  const ExportValue lhs = w.broadcast(x, {1, 2}, left);
  if (!spread) {
    const Dims right = {groups, m.shape[0], m.shape[1]};
    const ExportValue both[] = {ofGroup(lhs, left, 2), ofGroup(w.broadcast(m, {1, 2}, right), right, 1)};
    return c.setResult(o, w.typed("dot_general", both, how, x.dtype, result));
  }
  const ExportValue both[] = {lhs, m};
  const Dims each = {groups, rows, m.shape[2]};
  const ExportValue products = ofGroup(w.typed("dot_general", both, how, x.dtype, each), each, 1);
  return c.setResult(o, w.reduce(products, w.splat(0, x.dtype, {}), "add", {0}));
}

} // namespace

std::span<const ExportRow> exportsOfConvolutions() {
  static constexpr ExportRow rows[] = {{"grouped_matmul", groupedMatmul}, {"conv", convolution}};
  return rows;
}

} // namespace dtc
