// What one device of a mesh does: collectives over groups of partitions, and what it is told of its place.
#include "ExportContext.h"
#include "dtc/IR/Varying.h"
#include <algorithm>

namespace dtc {

namespace {

class CollectiveExport {
public:
  CollectiveExport(ExportContext& c, OpId o)
      : c_(c), w_(c.w), op_(o), q_(c.query(o)), axes_(Varying::axesOf(c.m, o)),
        mesh_(c.manual.valid() ? c.m.shardings.mesh(c.manual) : Mesh{}) {}

  bool run() {
    if (!c_.manual.valid())
      return c_.refuse(op_, "a collective needs per-device text: an spmd function, or a 'local' region");
    if (!mesh_.devices.empty())
      return c_.refuse(op_, "its mesh orders its devices, which replica groups cannot refer to");
    const std::string_view name = c_.m.record(op_).name;
    if (name == "axis_index") return c_.give(op_, index());
    if (name == "piece_offset") return c_.give(op_, offset(q_.sizeAttr("size").value()));
    if (name == "piece_size")
      return c_.give(op_, w_.splat(double(q_.sizeAttr("size").value() / count()), DType::I32, {}));
    if (name == "p2p") return exchanged();
    const ExportValue x = c_.operand(op_, 0);
    if (name == "fill_piece" || name == "trim_piece") return c_.give(op_, x); // pieces are of one size here
    if (name == "all_slice") return c_.give(op_, sliced(x));
    if (name == "permute") return c_.give(op_, permuted(x, "pairs", -1));
    return c_.give(op_, w_.convert(overWire(name, x), x.dtype));
  }

private:
  [[nodiscard]] int64_t count() const { return mesh_.sizeOf(axes_); }

  // [[0, 2], [1, 3]]: who takes part with whom, in the order of their index along the axes; `first` comes first.
  std::string groups(int64_t first = 0) {
    std::string text;
    int64_t rows = 0;
    for (int64_t place = 0; place < mesh_.numDevices(); ++place) {
      if (mesh_.indexAlong(axes_, place) != 0) continue;
      auto group = mesh_.groupOf(axes_, place);
      std::rotate(group.begin(), group.begin() + first, group.begin() + first + 1);
      text += (rows++ ? ", " : "") + hloList(group);
    }
    return "dense<[" + text + "]> : tensor<" + std::to_string(rows) + "x" + std::to_string(count()) + "xi64>";
  }

  // An i32 scalar: this device's index along the axes.
  ExportValue index() {
    const ExportValue id = w_.convert(partition(), DType::I32);
    ExportValue sum;
    for (const AxisRef& a : axes_) {
      // Places that differ by one along the axis are so far apart.
      int64_t stride = 1, size = mesh_.axisSize(a);
      for (int64_t place = 0; place < mesh_.numDevices(); ++place)
        if (mesh_.indexAlong(a, place) == 1) {
          stride = place;
          break;
        }
      ExportValue along = stride == 1 ? id : w_.binary("divide", id, number(stride));
      if (stride * size != mesh_.numDevices()) along = w_.binary("remainder", along, number(size));
      sum = sum.name.empty() ? along : w_.binary("add", w_.binary("multiply", sum, number(size)), along);
    }
    return sum.name.empty() ? number(0) : sum;
  }
  ExportValue partition() {
    ExportValue id{w_.fresh(), DType::U32, {}};
    w_.line(id.name + " = stablehlo.partition_id : tensor<ui32>");
    return id;
  }
  ExportValue number(int64_t v) { return w_.splat(static_cast<double>(v), DType::I32, {}); }
  ExportValue offset(int64_t size) { return w_.binary("multiply", index(), number(size / count())); }

  ExportValue sliced(const ExportValue& x) {
    const auto dim = static_cast<size_t>(*q_.dimAttr("dim", x.rank()));
    const Dims shape = c_.resultShape(op_);
    std::vector<ExportValue> all = {x};
    for (size_t d = 0; d < x.rank(); ++d) all.push_back(d == dim ? offset(x.shape[dim]) : number(0));
    return w_.typed("dynamic_slice", all, ", sizes = " + hloList(shape), x.dtype, shape);
  }

  // A collective in the dtype that the program says for the wire.
  ExportValue overWire(std::string_view name, const ExportValue& given) {
    const ExportValue x = q_.has("wire") ? w_.convert(given, *q_.dtypeAttr("wire")) : given;
    const std::string channel = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, ";
    const Dims shape = c_.resultShape(op_);
    auto make = [&](const char* op, const std::string& before, const std::string& after, bool reduces) {
      return w_.generic("stablehlo." + std::string(op), {&x, 1}, before + after, x.dtype, shape,
                        reduces ? region(x.dtype) : std::vector<std::string>());
    };
    auto dim = [&](const char* attr) { return std::to_string(*q_.dimAttr(attr, x.rank())); };
    if (name == "all_reduce")
      return averaged(
          make("all_reduce", channel, "replica_groups = " + groups() + ", use_global_device_ids", true));
    if (name == "all_gather")
      return make("all_gather", "all_gather_dim = " + dim("dim") + " : i64, " + channel,
                  "replica_groups = " + groups() + ", use_global_device_ids", false);
    if (name == "reduce_scatter")
      return averaged(make("reduce_scatter", channel,
                           "replica_groups = " + groups() + ", scatter_dimension = " + dim("dim") +
                               " : i64, use_global_device_ids",
                           true));
    if (name == "all_to_all")
      return make("all_to_all", channel + "concat_dimension = " + dim("concat_dim") + " : i64, ",
                  "replica_groups = " + groups() + ", split_count = " + std::to_string(count()) +
                      " : i64, split_dimension = " + dim("split_dim") + " : i64",
                  false);
    return make("collective_broadcast", channel, "replica_groups = " + groups(q_.intAttr("root")), false);
  }

  ExportValue averaged(const ExportValue& sum) {
    if (q_.textAttr("op") != "avg") return sum;
    return w_.binary("divide", sum, w_.splat(static_cast<double>(count()), sum.dtype, sum.shape));
  }

  std::vector<std::string> region(DType d) {
    const std::string_view kind = q_.textAttr("op");
    const std::string type = hloType(d, {}), op = kind == "max"    ? "maximum"
                                                  : kind == "min"  ? "minimum"
                                                  : kind == "prod" ? "multiply"
                                                  : kind == "any"  ? "or"
                                                  : kind == "all"  ? "and"
                                                                   : "add";
    return {"^bb0(%lhs: " + type + ", %rhs: " + type + "):",
            "  %out = stablehlo." + op + " %lhs, %rhs : " + type, "  stablehlo.return %out : " + type};
  }

  // Pairs of indices along the axes, of one operand where `operand` >= 0, as pairs of devices.
  ExportValue permuted(const ExportValue& x, const char* attr, int64_t operand) {
    std::string text;
    int64_t n = 0;
    for (AttrId entry : c_.m.attrs[q_.rawAttr(attr)].list) {
      Dims v;
      for (AttrId e : c_.m.attrs[entry].list) v.push_back(c_.m.attrs[e].i);
      if (operand >= 0 && v[0] != operand) continue;
      const size_t at = v.size() - 2;
      for (int64_t place = 0; place < mesh_.numDevices(); ++place) {
        if (mesh_.indexAlong(axes_, place) != 0) continue;
        const auto group = mesh_.groupOf(axes_, place);
        text += (n++ ? ", " : "") +
                hloList({group[static_cast<size_t>(v[at])], group[static_cast<size_t>(v[at + 1])]});
      }
    }
    const std::string pairs = n ? "dense<[" + text + "]>" : "dense<>";
    return w_.generic(
        "stablehlo.collective_permute", {&x, 1},
        "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = " + pairs +
            " : tensor<" + std::to_string(n) + "x2xi64>",
        x.dtype, x.shape);
  }

  bool exchanged() {
    for (uint32_t i = 0; i < c_.m[op_].numResults; ++i)
      c_.give(op_, i, permuted(c_.operand(op_, i), "sends", i));
    return true;
  }

  ExportContext& c_;
  ExportWriter& w_;
  OpId op_;
  OpQuery q_;
  std::vector<AxisRef> axes_;
  Mesh mesh_;
};

bool collective(ExportContext& c, OpId o) { return CollectiveExport(c, o).run(); }

} // namespace

std::span<const ExportRow> exportsOfCollectives() {
  static constexpr ExportRow rows[] = {
      {"all_reduce", collective},     {"all_gather", collective}, {"all_slice", collective},
      {"reduce_scatter", collective}, {"all_to_all", collective}, {"permute", collective},
      {"broadcast_from", collective}, {"p2p", collective},        {"axis_index", collective},
      {"piece_offset", collective},   {"piece_size", collective}, {"fill_piece", collective},
      {"trim_piece", collective},
  };
  return rows;
}

} // namespace dtc
