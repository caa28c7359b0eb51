#include "PrintCuda.h"
#include "AttentionGradient.h"

#include <algorithm>

namespace dtc {

using namespace loops;

namespace {

constexpr int kMostThreads = 256, kWarp = 32;
constexpr int64_t kAccessBytes = 16;                // the widest access of a thread
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

// Elements that fit the widest access, of the widest buffer that the nest stores to or loads from.
int64_t elementsOfAccess(const Kernel& k, const Nest& nest) {
  int64_t bytes = 1;
  for (const Store& s : nest.stores) bytes = std::max<int64_t>(bytes, dtypeBytes(k.buffers[s.buffer].dtype));
  forEachNode(k, rootsOf(k, nest), [&](NodeId n) {
    if (k[n].kind == NodeKind::Load)
      bytes = std::max<int64_t>(bytes, dtypeBytes(k.buffers[k[n].buffer].dtype));
  });
  return kAccessBytes / bytes;
}

// How many neighbours along the threads' axis one thread takes at once, so that each access has up to 16 bytes; 1: none.
// Only elements that are computed each by itself.
int64_t packOf(const Kernel& k, const Nest& nest, const NestPlan& plan) {
  if (!plan.vector || plan.inner.size() != 1 || nest.ordered != 0 || nest.sort) return 1;
  const int64_t count = elementsOfAccess(k, nest);
  const Size& extent = k.axes[*plan.vector].extent;
  bool fine = count > 1 && (!extent.isStatic() || extent.number >= 2 * count);
  for (const Store& s : nest.stores)
    fine &=
        !s.when.valid() && s.combine.empty() && !s.copied && liesInPacks(k, s.address, *plan.vector, count);
  forEachNode(k, rootsOf(k, nest),
              [&](NodeId n) { fine &= k[n].kind != NodeKind::Reduce && k[n].kind != NodeKind::Running; });
  return fine ? count : 1;
}

NestPlan planForThreads(const Kernel& k, const Nest& nest) {
  const int64_t unit = std::max(kUnitElements, kMostThreads * elementsOfAccess(k, nest));
  NestPlan plan = planNest(k, nest, kWarp, nest.ordered != 0 ? kStepElements : unit, true);
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
    if (k_.grouped) {
      emitGrouped(top, out_);
      out_.body = top.text;
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
  int64_t flatElements(int64_t count) const;
  int64_t flatUnit(int64_t count) const { return threads_ * count; }
  std::string openPacks(int64_t count, const std::string& unit, Scope& row, Scope& pack);
  void printPacks(const Nest& nest, int64_t count, const std::string& unit, Scope& row);
  void decode(Scope& row, const std::string& unit);
  std::string countOf(AxisId a) const; // how many units the axis is cut into
  void countUnits();

  int lanes() const override { return 1; }
  std::string indexType() const override { return index_; }
  bool cooperative() const override { return true; }
  bool blocked(AxisId a) const { return plan_.blocked && *plan_.blocked == a; }
  std::string bound(AxisId a, bool last) const {
    if (!last && !behindPacks_.empty()) return behindPacks_;
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
    if (packing_) {
      const std::string to = packText(store);
      return line(s, isNarrowFloat(dtype) ? "dtc_store(" + to + ".at + lane, " + x.text + ");"
                                          : to + ".at[lane] = " + x.text + ";");
    }
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

  std::string packText(const Store& store) const {
    return "packed" + std::to_string(&store - nest_->stores.data());
  }

  bool packing_ = false;    // stores go to the pack of a thread
  std::string behindPacks_; // where the elements begin that no pack takes
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

// Rows of fewer elements than a block takes, walked as if they were one: 0 where they cannot be, else the elements in all.
int64_t CudaEmitter::flatElements(int64_t count) const {
  if (plan_.blocked || plan_.grid.empty()) return 0;
  const Size& lane = k_.axes[*plan_.vector].extent;
  if (!lane.isStatic() || lane.number % count != 0) return 0; // a pack lies within one row
  int64_t elements = lane.number;
  for (AxisId a : plan_.grid) {
    const Size& extent = k_.axes[a].extent;
    if (!extent.isStatic() || extent.number == 0 || elements > INT32_MAX / extent.number) return 0;
    elements *= extent.number;
  }
  return elements;
}

// Where a thread's packs begin: the head of the loop over them, in `row`, and the coordinates of each, in `pack`.
std::string CudaEmitter::openPacks(int64_t count, const std::string& unit, Scope& row, Scope& pack) {
  const AxisId lane = *plan_.vector;
  const std::string i = axisText(lane), n = std::to_string(count), step = std::to_string(threads_ * count);
  auto loop = [&](const std::string& at, const std::string& first, const std::string& last) {
    return "for (" + index_ + " " + at + " = " + (first == "0" ? "" : first + " + ") + "threadIdx.x * " + n +
           "; " + at + " < " + last + "; " + at + " += " + step + ") {";
  };
  if (const int64_t elements = flatElements(count)) {
    const std::string most = std::to_string(flatUnit(count));
    line(row, "const " + index_ + " first = (" + unit + ") * " + most + ";");
    line(row,
         "const " + index_ + " last = dtc_least(first + " + most + ", " + std::to_string(elements) + ");");
    const std::string extent = sizeText(k_.axes[lane].extent);
    line(pack, "const " + index_ + " " + i + "_at = at % " + extent + ";");
    line(pack, index_ + " rest = at / " + extent + ";");
    for (size_t a = plan_.grid.size(); a-- > 0;) {
      const std::string size = sizeText(k_.axes[plan_.grid[a]].extent);
      line(pack,
           "const " + index_ + " " + axisText(plan_.grid[a]) + " = rest" + (a ? " % " + size : "") + ";");
      if (a) line(pack, "rest /= " + size + ";");
      pack.bound |= AxisSet(1) << plan_.grid[a];
    }
    return loop("at", "first", "last");
  }
  const std::string first = bound(lane, false), end = bound(lane, true);
  std::string last = end;
  if (const Size& extent = k_.axes[lane].extent; !extent.isStatic() || extent.number % count != 0) {
    behindPacks_ = last = i + "_packed";
    line(row, "const " + index_ + " " + last + " = " +
                  (first == "0" ? "(" + end + ")" : first + " + (" + end + " - " + first + ")") + " / " + n +
                  " * " + n + ";");
  }
  return loop(i + "_at", first, last);
}

// A loop over packs: each is loaded at once, computed element by element, and stored at once.
void CudaEmitter::printPacks(const Nest& nest, int64_t count, const std::string& unit, Scope& row) {
  const AxisId lane = *plan_.vector;
  const std::string i = axisText(lane), n = std::to_string(count);
  Scope pack, inner;
  pack.parent = &row, pack.bound = row.bound, pack.indent = row.indent + 1;
  const std::string head = openPacks(count, unit, row, pack);
  inner.parent = &pack, inner.bound = pack.bound | AxisSet(1) << lane, inner.vector = lane;
  inner.indent = pack.indent + 1;
  firstOfPack_ = lane;
  forEachNode(k_, rootsOf(k_, nest), [&](NodeId node) {
    const Node& load = k_[node];
    if (load.kind != NodeKind::Load || !load.args.empty() || !liesInPacks(k_, load.affine, lane, count))
      return;
    const std::string x = fresh("pack");
    line(pack, "const auto " + x + " = dtc_load_pack<" + n + ">(" + bufferText(load.buffer) + " + " +
                   affineText(load.affine, pack) + ");");
    const bool narrow = isNarrowFloat(k_.buffers[load.buffer].dtype);
    inner.names[node.index] = {narrow ? "dtc_load(" + x + ".at + lane)" : x + ".at[lane]", false, true};
  });
  std::string stores;
  for (const Store& s : nest.stores) {
    const std::string type = typeText(k_.buffers[s.buffer].dtype);
    line(pack, "dtc_pack<" + type + ", " + n + "> " + packText(s) + ";");
    stores += indentText(pack.indent) + "dtc_store_pack(" + bufferText(s.buffer) + " + " +
              affineText(s.address, pack) + ", " + packText(s) + ");\n";
  }
  firstOfPack_.reset();
  packing_ = true;
  emitStores(nest, inner);
  packing_ = false;
  line(row, head);
  row.text += pack.text + "#pragma unroll\n" + indentText(pack.indent) + "for (i32 lane = 0; lane < " + n +
              "; ++lane) {\n";
  if (inner.text.find(i) != std::string::npos)
    line(row, "    const " + index_ + " " + i + " = " + i + "_at + lane;");
  row.text += inner.text + indentText(pack.indent) + "}\n" + stores;
  line(row, "}");
}

void CudaEmitter::printNest(const Nest& nest, Scope& top) {
  countUses(nest);
  plan_ = planForThreads(k_, nest);
  const int64_t pack = packOf(k_, nest, plan_), flat = pack > 1 ? flatElements(pack) : 0;
  const bool several = k_.nests.size() > 1;
  std::string size;
  if (flat) {
    out_.units.terms.push_back({{flat, -1, flatUnit(pack)}});
    size = std::to_string((flat + flatUnit(pack) - 1) / flatUnit(pack));
  } else {
    countUnits();
    for (AxisId a : plan_.grid) size += (size.empty() ? "" : " * ") + countOf(a);
  }
  if (size.empty()) size = "1";
  const std::string first = unitsBefore_.empty() ? "0" : unitsBefore_;
  const std::string unit = several ? "unit - (" + first + ")" : "unit";
  Scope row;
  row.parent = several ? nullptr : &top; // what one nest loads is no other block's to read
  row.indent = top.indent + several;
  for (AxisId a : plan_.grid)
    if (!blocked(a) && !flat) row.bound |= AxisSet(1) << a;
  if (!plan_.grid.empty() && !flat) decode(row, unit);
  if (pack > 1) printPacks(nest, pack, unit, row);
  if (pack == 1 || !behindPacks_.empty()) {
    std::deque<Scope> scopes;
    Scope& inner = openLoops(row, plan_.inner, plan_.vector, scopes);
    inner.axes.clear();
    if (nest.sort)
      emitSort(*nest.sort, inner);
    else
      emitUnit(nest, inner);
    closeLoops(row, scopes);
  }
  behindPacks_.clear();
  if (several) line(top, "if (unit >= " + first + " && unit < " + first + " + " + size + ") {");
  top.text += row.text;
  if (several) line(top, "}");
  unitsBefore_ += (unitsBefore_.empty() ? "" : " + ") + size;
}

} // namespace

PrintedKernel printCuda(const Kernel& k) {
  return k.attentionGradient ? printAttentionGradient(k) : CudaEmitter(k).run();
}

} // namespace dtc
