// Reductions of columns (ColumnSchedule.h).
#include "print/CudaEmitter.h"

namespace dtc {

using namespace loops;

namespace {

class ColumnEmitter final : public CudaEmitter {
public:
  ColumnEmitter(const Kernel& k, KernelText& out, int threads, const ColumnSchedule& columns)
      : CudaEmitter(k, out, threads), columns_(columns), lane_(columns.pack > 1 ? "lane" : "0") {}

private:
  std::string serialLoop(AxisId a) override {
    if (columns_.shared != a || columns_.down == 1) return CudaEmitter::serialLoop(a);
    const std::string i = axisText(a);
    return "for (" + index_ + " " + i + " = down; " + i + " < " + bound(a, true) + "; " + i +
           " += " + text(columns_.down) + ") {";
  }

  Scope elementOf(Scope& home) const {
    Scope e;
    e.parent = &home, e.bound = home.bound | AxisSet(1) << columns_.lane;
    e.vector = columns_.lane, e.indent = home.indent + (columns_.pack > 1);
    return e;
  }

  // The statements of `element`, for each column of a thread.
  void overColumns(Scope& home, const Scope& element) const {
    const std::string i = axisText(columns_.lane), to = "const " + index_ + " " + i + " = " + i + "_at";
    const bool several = columns_.pack > 1;
    if (several) home.text += "#pragma unroll\n";
    if (several) line(home, "for (i32 lane = 0; lane < " + text(columns_.pack) + "; ++lane) {");
    if (element.uses(i)) line(home, several ? "  " + to + " + lane;" : to + ";");
    append(home, element);
    if (several) line(home, "}");
  }

  // The operands of one row, in packs where they are contiguous.
  void loadRow(Scope& row, Scope& element) {
    if (columns_.pack == 1) return;
    std::vector<NodeId> roots;
    for (NodeId r : reductions_) roots.push_back(k_[r].args[0]);
    forEachNode(k_, roots, [&](NodeId n) {
      const Node& load = k_[n];
      if (load.kind != NodeKind::Load || !isInPacks(k_, load.affine, columns_.lane, columns_.pack)) return;
      if (!load.args.empty() && (k_.dependsOn(load.args[0]) >> columns_.lane & 1)) return;
      const std::string pack = fresh("pack"), x = "dtc_load_pack<" + text(columns_.pack) + ">(" +
                                                  packAt(load.buffer, load.affine, columns_.lane, row) + ")";
      line(row, "const auto " + pack + " = " +
                    loadedPack(load, x, packTypeOf(load.buffer, columns_.pack), row) + ";");
      element.names[n.index] = {laneText(k_.buffers[load.buffer].dtype, pack, "lane"), false, true};
    });
  }

  // True if it is computed per element that columns reduce.
  bool perElement(const Store& s) const { return k_.dependsOn(s.address) >> columns_.shared & 1; }

  // The values stored per element of a row: computed per element, and written when the pack is complete, by
  // the returned statements.
  Text storeRow(Scope& row, Scope& element) {
    Text complete;
    complete.indent = row.indent;
    for (const Store& s : nest_->stores) {
      if (!perElement(s)) continue;
      if (columns_.pack > 1 && isInPacks(k_, s.address, columns_.lane, columns_.pack)) {
        packLane_ = lane_;
        declarePack(s, columns_.pack, row);
        line(complete, "dtc_store_pack(" + packAt(s.buffer, s.address, columns_.lane, row) + ", " +
                           packResult(s) + ");");
      }
      storeText(s, element);
      packLane_.clear();
    }
    return complete;
  }

  void printUnit(Scope& unit, const std::string&) override {
    const ColumnSchedule& c = columns_;
    const std::string i = axisText(c.lane), present = i + "_at < " + i + "_end";
    line(unit, "const " + index_ + " " + i + "_at = " + i + "_begin + threadIdx.x % " + text(c.across) +
                   (c.pack > 1 ? " * " + text(c.pack) : "") + ";");
    if (c.down > 1) line(unit, "const i32 down = threadIdx.x / " + text(c.across) + ";");
    std::vector<std::string> sums; // of each reduction, one per column
    Scope first = elementOf(unit);
    for (NodeId r : reductions_) {
      sums.push_back(fresh(reduceName(k_[r].reduce)));
      line(unit, typeText(k_[r].type) + " " + sums.back() + "[" + text(c.pack) + "];");
      line(first, sums.back() + "[" + lane_ + "] = " + identityText(k_[r].reduce, k_[r].type) + ";");
    }
    overColumns(unit, first);
    guard(unit, present, reduceRows(unit, sums));
    if (c.down > 1)
      for (size_t s = 0; s < sums.size(); ++s)
        line(unit, std::string("dtc_columns_") + reduceName(k_[reductions_[s]].reduce) + "<" +
                       text(c.across) + ", " + text(c.down) + ", " + text(c.pack) + ">(" + sums[s] + ");");
    guard(unit, c.down > 1 ? "down == 0 && " + present : present, storeColumns(unit, sums));
  }

  static void guard(Scope& unit, const std::string& condition, const Text& statements) {
    line(unit, "if (" + condition + ") {");
    append(unit, statements);
    line(unit, "}");
  }
  static Scope insideOf(Scope& unit) {
    Scope inside = Scope::within(unit);
    return inside;
  }

  Text reduceRows(Scope& unit, const std::vector<std::string>& sums) {
    Scope inside = insideOf(unit);
    std::vector<AxisId> axes = columns_.axes;
    std::erase(axes, columns_.shared);
    axes.push_back(columns_.shared);
    std::deque<Scope> scopes;
    Scope& row = openLoops(inside, axes, std::nullopt, scopes);
    row.text = "#pragma unroll 4\n" + row.text; // the number of rows whose loads are in flight at a time
    Scope element = elementOf(row);
    loadRow(row, element);
    for (size_t s = 0; s < sums.size(); ++s) {
      const Node& node = k_[reductions_[s]];
      line(element, accumulated(node.reduce, node.type, sums[s] + "[" + lane_ + "]",
                                emit(node.args[0], element).text));
    }
    const Text stores = storeRow(row, element);
    overColumns(row, element);
    append(row, stores);
    closeLoops(scopes);
    return inside;
  }

  Text storeColumns(Scope& unit, const std::vector<std::string>& sums) {
    Scope inside = insideOf(unit);
    Scope element = elementOf(inside);
    for (size_t s = 0; s < sums.size(); ++s)
      element.names[reductions_[s].index] = {sums[s] + "[" + lane_ + "]", false, true};
    for (const Store& store : nest_->stores)
      if (!perElement(store)) storeText(store, element);
    overColumns(inside, element);
    return inside;
  }

  const ColumnSchedule& columns_;
  std::string lane_; // of a thread's columns
};

} // namespace

void printColumns(const Kernel& k, const Nest& nest, int threads, const ColumnSchedule& columns,
                  KernelText& out, Emitter::Scope& top) {
  ColumnEmitter(k, out, threads, columns).print(nest, planColumns(k, nest, columns), top);
}

} // namespace dtc
