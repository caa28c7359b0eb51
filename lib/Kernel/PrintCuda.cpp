#include "PrintCuda.h"

#include <algorithm>

namespace dtc {

using namespace loops;

namespace {

constexpr int kMostThreads = 256, kWarp = 32;
constexpr int64_t kUnitElements = 4 * kMostThreads; // of a block without reductions
constexpr int64_t kStepElements = 2 * kWarp;        // of a block whose threads walk in order
constexpr int64_t kShortReduction = 64;             // a thread does it faster than a block

// What a nest reduces, where its stores need nothing of the reduced axes: then a thread may do all of one element.
struct Reductions {
  int64_t longest = 0; // elements; unknown sizes count as many
  bool reuse = false;  // operands that other rows read too, as in a matrix product
  bool storesInside = false;
};

Reductions reductionsOf(const Kernel& k, const Nest& nest, AxisSet rows) {
  Reductions r;
  for (const Store& s : nest.stores) r.storesInside |= (k.dependsOn(s.address) & ~rows) != 0;
  forEachNode(k, rootsOf(k, nest), [&](NodeId n) {
    const AxisSet axes = k.dependsOn(n);
    if (k[n].kind == NodeKind::Load) r.reuse |= (axes & ~rows) != 0 && (axes & rows) != rows;
    if (k[n].kind != NodeKind::Reduce) return;
    int64_t elements = 1;
    for (AxisId a : k[n].axes) {
      const Size& e = k.axes[a].extent;
      elements *= std::min<int64_t>(e.isStatic() ? e.number : 1 << 20, 1 << 20);
      elements = std::min<int64_t>(elements, 1 << 20);
    }
    r.longest = std::max(r.longest, elements);
  });
  return r;
}

NestPlan planForThreads(const Kernel& k, const Nest& nest) {
  NestPlan plan = planNest(k, nest, kWarp, nest.ordered != 0 ? kStepElements : kUnitElements, true);
  if (plan.vector || nest.ordered != 0 || nest.sort) return plan;
  const Reductions r = reductionsOf(k, nest, plan.rows);
  const std::optional<AxisId> lane = mostContiguous(k, nest, plan.grid);
  if (!lane || r.storesInside || (r.longest > kShortReduction && !r.reuse)) return plan;
  return planNestAlong(k, nest, *lane, kWarp, kUnitElements);
}

// As many threads as the longest loop over a row keeps busy with four elements each.
int threadsFor(const Kernel& k) {
  int64_t threads = kWarp;
  for (const Nest& nest : k.nests) {
    const NestPlan plan = planForThreads(k, nest);
    int64_t elements = plan.vector ? kUnitElements : reductionsOf(k, nest, plan.rows).longest;
    if (plan.vector && nest.ordered != 0) elements = kStepElements;
    if (nest.sort) elements = nest.sort->extent.isStatic() ? 2 * nest.sort->extent.number : kUnitElements;
    for (const Store& s : nest.stores)
      for (AxisId a = 0; a < k.axes.size(); ++a)
        if (!plan.vector && ((k.dependsOn(s.address) & ~plan.rows) >> a & 1))
          elements =
              std::max(elements, k.axes[a].extent.isStatic() ? k.axes[a].extent.number : kUnitElements);
    while (threads < kMostThreads && threads * 4 < elements) threads *= 2;
  }
  return static_cast<int>(threads);
}

// Do the address and all that is summed up to it stay far enough below 2^31 for i32?
bool fits32(const Kernel& k, AffineId address) {
  constexpr int64_t most = (int64_t(1) << 31) - (1 << 16);
  int64_t sum = 0;
  for (const AffineTerm& t : k[address].terms) {
    int64_t reach = 1;
    if (t.kind == AffineTerm::OfNode || !t.coefficient.isStatic()) return false;
    if (t.kind == AffineTerm::OfAxis) {
      if (!k.axes[t.id].extent.isStatic()) return false;
      reach = k.axes[t.id].extent.number;
    }
    const int64_t size = std::abs(t.coefficient.number);
    if (reach > most || size > most) return false;
    sum += std::min(reach * size, most);
    if (sum >= most) return false;
  }
  return true;
}

// Are 32-bit indices enough? Where a size is not known, or an index comes with the data, they are not known to be.
bool smallIndices(const Kernel& k) {
  for (const Axis& a : k.axes)
    if (!a.extent.isStatic()) return false;
  for (uint32_t n = 0; n < k.numNodes(); ++n)
    if (const Node& node = k[NodeId(n)]; node.affine.valid() && !fits32(k, node.affine)) return false;
  for (const Nest& nest : k.nests) {
    if (nest.sort && (!fits32(k, nest.sort->keysAt) || !fits32(k, nest.sort->indicesAt))) return false;
    for (const Store& s : nest.stores)
      if (!fits32(k, s.address)) return false;
  }
  return true;
}

class CudaEmitter final : public Emitter {
public:
  explicit CudaEmitter(const Kernel& k)
      : Emitter(k), threads_(threadsFor(k)), index_(smallIndices(k) ? "i32" : "i64") {}

  PrintedKernel run() {
    Scope top;
    if (k_.attention && attentionTile(k_)) {
      emitAttention(top, out_);
      out_.body = top.text;
      out_.blocks = out_.units;
      return std::move(out_);
    }
    line(top, "const " + index_ + " unit = blockIdx.x;");
    for (const Nest& nest : k_.nests) printNest(nest, top);
    out_.body = top.text;
    out_.blocks = out_.units;
    out_.threadsPerBlock = threads_;
    return std::move(out_);
  }

private:
  void printNest(const Nest& nest, Scope& top);
  void decode(Scope& row, const std::string& unit);
  std::string countOf(AxisId a) const; // how many units the axis is cut into
  void countUnits();

  int lanes() const override { return 1; }
  std::string indexType() const override { return index_; }
  bool cooperative() const override { return true; }
  bool blocked(AxisId a) const { return plan_.blocked && *plan_.blocked == a; }
  std::string bound(AxisId a, bool last) const {
    if (blocked(a)) return axisText(a) + (last ? "_end" : "_begin");
    return last ? sizeText(k_.axes[a].extent) : "0";
  }
  std::string serialLoop(AxisId a) override {
    const std::string i = axisText(a);
    return "for (" + index_ + " " + i + " = " + bound(a, false) + "; " + i + " < " + bound(a, true) + "; ++" +
           i + ") {";
  }
  std::string lanesLoop(AxisId a) override {
    const std::string i = axisText(a), first = bound(a, false);
    return "for (" + index_ + " " + i + " = " + (first == "0" ? "" : first + " + ") + "threadIdx.x; " + i +
           " < " + bound(a, true) + "; " + i + " += " + std::to_string(threads_) + ") {";
  }
  Value loadText(const Node& node, Scope& s, bool) override {
    const Buffer& buffer = k_.buffers[node.buffer];
    std::string guard;
    if (!node.args.empty()) guard = wrapped(emit(node.args[0], s));
    const std::string at = affineText(node.affine, s);
    const bool narrow = isNarrowFloat(buffer.dtype);
    const std::string x = narrow ? "dtc_load(" + bufferText(node.buffer) + " + " + at + ")"
                                 : bufferText(node.buffer) + "[" + at + "]";
    if (guard.empty()) return {x, false, true};
    return {guard + " ? " + x + " : " + typeText(node.type) + "(0)", false, false};
  }
  void storeText(const Store& store, Scope& s) override {
    const DType dtype = k_.buffers[store.buffer].dtype;
    // What is copied is read where it is stored only: in place, the rest is for other blocks to write.
    const Node& copied = k_[store.value];
    const Value x =
        store.copied && copied.kind == NodeKind::Load ? loadText(copied, s, false) : emit(store.value, s);
    const std::string at = affineText(store.address, s), to = bufferText(store.buffer) + " + " + at;
    std::string value = x.text;
    if (!store.combine.empty()) value = "dtc_" + store.combine + "(dtc_load(" + to + "), " + value + ")";
    const std::string text = isNarrowFloat(dtype)
                                 ? "dtc_store(" + to + ", " + value + ");"
                                 : bufferText(store.buffer) + "[" + at + "] = " + value + ";";
    const std::string when = store.when.valid() ? wrapped(emit(store.when, s)) : "";
    // Outside of a lanes loop all threads have the value.
    const std::string one = s.vector < 0 ? "threadIdx.x == 0" : "";
    if (!one.empty() && mayOverwriteItsOwn(store)) line(s, "__syncthreads();");
    const std::string condition = one + (one.empty() || when.empty() ? "" : " && ") + when;
    line(s, (condition.empty() ? "" : "if (" + condition + ") ") + text);
  }
  void betweenStores(Scope& rows) override {
    if (rows.vector < 0) line(rows, "__syncthreads();");
  }
  std::string sortCall(const SortRow& sort) override {
    return std::string("dtc_block_sort_order<") + (sort.descending ? "true, " : "false, ") +
           std::to_string(threads_) + ">";
  }
  std::string acrossLanes(ReduceKind kind, const std::string& acc, DType) override {
    return std::string("dtc_block_") + reduceName(kind) + "<" + std::to_string(threads_) + ">(" + acc + ")";
  }

  // All threads read such an input, and one writes: in place, it must be the last.
  bool mayOverwriteItsOwn(const Store& store) const {
    bool found = false;
    forEachNode(k_, rootsOf(k_, *nest_), [&](NodeId n) {
      found |= k_[n].kind == NodeKind::Load && k_[n].affine == store.address &&
               k_.buffers[k_[n].buffer].dtype == k_.buffers[store.buffer].dtype;
    });
    return found;
  }

  int threads_;
  std::string index_; // the type of loop variables and addresses
  NestPlan plan_;
  PrintedKernel out_;
  std::string unitsBefore_;
};

std::string CudaEmitter::countOf(AxisId a) const {
  const std::string extent = sizeText(k_.axes[a].extent);
  return blocked(a) ? "dtc_blocks(" + extent + ", " + std::to_string(plan_.block) + ")" : extent;
}

// The coordinates of a unit, the last axis fastest.
void CudaEmitter::decode(Scope& row, const std::string& unit) {
  line(row, index_ + " rest = " + unit + ";");
  for (size_t i = plan_.grid.size(); i-- > 0;) {
    const AxisId a = plan_.grid[i];
    const std::string name = axisText(a), count = "(" + countOf(a) + ")",
                      at = i == 0 ? "rest" : "rest % " + count;
    if (blocked(a)) {
      const std::string block = std::to_string(plan_.block);
      line(row, "const " + index_ + " " + name + "_begin = (" + at + ") * " + block + ";");
      line(row, "const " + index_ + " " + name + "_end = dtc_least(" + name + "_begin + " + block + ", " +
                    sizeText(k_.axes[a].extent) + ");");
    } else {
      line(row, "const " + index_ + " " + name + " = " + at + ";");
    }
    if (i > 0) line(row, "rest /= " + count + ";");
  }
}

void CudaEmitter::countUnits() {
  std::vector<SizeFormula::Factor> units;
  for (AxisId a : plan_.grid) {
    std::vector<SizeFormula::Factor> factors = factorsOf(k_.axes[a].extent);
    if (blocked(a))
      for (SizeFormula::Factor& f : factors)
        f.per = plan_.block; // a blocked axis is one number or one argument
    units.insert(units.end(), factors.begin(), factors.end());
  }
  out_.units.terms.push_back(std::move(units));
}

void CudaEmitter::printNest(const Nest& nest, Scope& top) {
  countUses(nest);
  plan_ = planForThreads(k_, nest);
  countUnits();
  const bool several = k_.nests.size() > 1;
  std::string size;
  for (AxisId a : plan_.grid) size += (size.empty() ? "" : " * ") + countOf(a);
  if (size.empty()) size = "1";
  const std::string first = unitsBefore_.empty() ? "0" : unitsBefore_;
  Scope row;
  row.parent = several ? nullptr : &top; // what one nest loads is no other block's to read
  row.indent = top.indent + several;
  for (AxisId a : plan_.grid)
    if (!blocked(a)) row.bound |= AxisSet(1) << a;
  if (!plan_.grid.empty()) decode(row, several ? "unit - (" + first + ")" : "unit");
  std::deque<Scope> scopes;
  Scope& inner = openLoops(row, plan_.inner, plan_.vector, scopes);
  inner.axes.clear();
  if (nest.sort)
    emitSort(*nest.sort, inner);
  else
    emitStores(nest, inner);
  closeLoops(row, scopes);
  if (several) line(top, "if (unit >= " + first + " && unit < " + first + " + " + size + ") {");
  top.text += row.text;
  if (several) line(top, "}");
  unitsBefore_ += (unitsBefore_.empty() ? "" : " + ") + size;
}

} // namespace

PrintedKernel printCuda(const Kernel& k) { return CudaEmitter(k).run(); }

} // namespace dtc
