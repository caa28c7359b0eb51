// conv as stablehlo.convolution.
#include "ExportContext.h"

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
    if (transposed) turned(dilation, pads);
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
    return c_.give(op_, y);
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

  // The gradient of a convolution is one over spread elements with the kernel turned round, its channels exchanged.
  void turned(const Dims& dilation, std::vector<Dims>& pads) {
    const Dims more = listed("output_padding", 0);
    Dims whole = kernel_.shape, wide = {groups_, whole[0] / groups_, whole[1]}, perm = {0, 2, 1}, flips;
    Dims narrow = {groups_ * whole[1], whole[0] / groups_};
    for (size_t d = 0; d < spatial_; ++d) {
      const int64_t n = whole[2 + d], reach = dilation[d] * (n - 1);
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

} // namespace

std::span<const ExportRow> exportsOfConvolutions() {
  static constexpr ExportRow rows[] = {{"conv", convolution}};
  return rows;
}

} // namespace dtc
