// Per-device ops: collectives over replica groups, and the device's own index.
#include "dtc/IR/infer/Varying.h"
#include "export/ExportContext.h"
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
      return c_.refuse(op_, "a collective is exported only in an spmd function or a 'local' region");
    if (!mesh_.devices.empty())
      return c_.refuse(op_, "its mesh has a device order, which replica groups cannot express");
    const CollectiveKind kind = c_.m.record(op_).collective;
    switch (kind) {
    case CollectiveKind::AxisIndex: return c_.setResult(op_, index());
    case CollectiveKind::ShardOffset: return c_.setResult(op_, offset(q_.sizeAttr("size").value()));
    case CollectiveKind::ShardSize:
      return c_.setResult(op_, w_.splat(double(q_.sizeAttr("size").value() / count()), DType::I32, {}));
    case CollectiveKind::P2p: return exchanged();
    case CollectiveKind::FillShard:
    case CollectiveKind::TrimShard:
      return c_.setResult(op_, c_.operand(op_, 0)); // all shards have one size here
    case CollectiveKind::AllSlice: return c_.setResult(op_, sliced(c_.operand(op_, 0)));
    case CollectiveKind::Permute: return c_.setResult(op_, permuted(c_.operand(op_, 0), "pairs", -1));
    default: break;
    }
    const ExportValue x = c_.operand(op_, 0);
    return c_.setResult(op_, w_.convert(inCommunicationDtype(kind, x), x.dtype));
  }

private:
  [[nodiscard]] int64_t count() const { return mesh_.sizeOf(axes_); }

  // Replica groups such as [[0, 2], [1, 3]], each ordered by the index along the axes; the group of `first`
  // comes first.
  std::string groups(int64_t first = 0) {
    std::string text;
    int64_t rows = 0;
    for (int64_t device = 0; device < mesh_.numDevices(); ++device) {
      if (mesh_.indexAlong(axes_, device) != 0) continue;
      auto group = mesh_.groupOf(axes_, device);
      std::rotate(group.begin(), group.begin() + first, group.begin() + first + 1);
      text += (rows++ ? ", " : "") + hloList(group);
    }
    return "dense<[" + text + "]> : tensor<" + std::to_string(rows) + "x" + std::to_string(count()) + "xi64>";
  }

  // This device's index along the axes, as an i32 scalar.
  ExportValue index() {
    const ExportValue id = w_.convert(partition(), DType::I32);
    ExportValue sum;
    for (const AxisRef& a : axes_) {
      // The distance between the numbers of two devices that are neighbors along the axis.
      int64_t stride = 1, size = mesh_.axisSize(a);
      for (int64_t device = 0; device < mesh_.numDevices(); ++device)
        if (mesh_.indexAlong(a, device) == 1) {
          stride = device;
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

  // A collective in the communication dtype of the program.
  ExportValue inCommunicationDtype(CollectiveKind kind, const ExportValue& given) {
    const ExportValue x = q_.has("wire") ? w_.convert(given, *q_.dtypeAttr("wire")) : given;
    const std::string channel = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, ";
    const Dims shape = c_.resultShape(op_);
    auto make = [&](const char* op, const std::string& before, const std::string& after, bool reduces) {
      return w_.generic("stablehlo." + std::string(op), {&x, 1}, before + after, x.dtype, shape,
                        reduces ? region(x.dtype) : std::vector<std::string>());
    };
    auto dim = [&](const char* attr) { return std::to_string(*q_.dimAttr(attr, x.rank())); };
    if (kind == CollectiveKind::AllReduce)
      return averaged(
          make("all_reduce", channel, "replica_groups = " + groups() + ", use_global_device_ids", true));
    if (kind == CollectiveKind::AllGather)
      return make("all_gather", "all_gather_dim = " + dim("dim") + " : i64, " + channel,
                  "replica_groups = " + groups() + ", use_global_device_ids", false);
    if (kind == CollectiveKind::ReduceScatter)
      return averaged(make("reduce_scatter", channel,
                           "replica_groups = " + groups() + ", scatter_dimension = " + dim("dim") +
                               " : i64, use_global_device_ids",
                           true));
    if (kind == CollectiveKind::AllToAll)
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
      for (int64_t device = 0; device < mesh_.numDevices(); ++device) {
        if (mesh_.indexAlong(axes_, device) != 0) continue;
        const auto group = mesh_.groupOf(axes_, device);
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
      c_.setResult(op_, i, permuted(c_.operand(op_, i), "sends", i));
    return true;
  }

  ExportContext& c_;
  ExportWriter& w_;
  OpId op_;
  OpQuery q_;
  std::vector<AxisRef> axes_;
  Mesh mesh_;
};

} // namespace

bool exportCollective(ExportContext& c, OpId o) { return CollectiveExport(c, o).run(); }

} // namespace dtc
