#include "print/PrintCpp.h"
#include "dtc/IR/Element.h"
#include "dtc/Ops/record/Scalar.h"
#include "print/CpuLanes.h"
#include "print/PrintAttention.h"
#include "print/PrintCalls.h"
#include <algorithm>
#include <map>
#include <set>

namespace dtc {

using namespace loops;

namespace {

constexpr int64_t kUnitElements = 8192; // a unit's work outweighs the cost of computing its offset
// Rows of fewer bytes are prefetched by the processor; for longer ones the next would evict the current one,
// from the first-level cache already where it is longer than kNearRow.
constexpr int64_t kShortRow = 2048, kNearRow = 4096, kLongRow = int64_t(1) << 18;

class CppEmitter final : public Emitter {
public:
  CppEmitter(const Kernel& k, KernelText& out, int vectorBytes, const CpuSchedule& schedule)
      : Emitter(k, out), vectorBytes_(vectorBytes), lanes_(vectorBytes / widest(k)), schedule_(schedule) {}

  void run() {
    Scope top;
    if (k_.attention) {
      printAttention(*this, k_, out_.printed);
    } else {
      columnLanes_ = columnRegisters(k_, lanes_);
      lanes_ *= columnLanes_ > 1 ? columnLanes_ : rowRegisters(k_, lanes_, vectorBytes_);
      for (size_t i = 0; i < k_.nests.size(); ++i) printNest(k_.nests[i], top);
    }
    std::string header;
    for (DType d : vectorTypes_)
      header += (isComplex(d) ? "  typedef dtc_planes<" : "  typedef Vec<") + typeText(partType(d)) + ", " +
                std::to_string(lanes_) + "> " + typeText(d) + "v;\n";
    std::string end;
    for (uint32_t b : streams_) {
      const std::string flag = "stream" + std::to_string(b - k_.numInputs), out = bufferText(b);
      header += "  const bool " + flag + " = (u64)" + out + " % 64 == 0";
      for (uint32_t in = 0; in < k_.numInputs; ++in)
        header += " && (const void*)" + out + " != " + bufferText(in);
      header += ";\n";
      end += "  if (" + flag + ") dtc_stream_fence();\n";
    }
    out_.printed.body = header + scratchText_ + out_.printed.body + top.text + end;
  }

private:
  // Bytes of the widest type that a loop accesses; indices and loop-invariant loads are not counted.
  static int widest(const Kernel& k) {
    int bytes = 1;
    auto count = [&](uint32_t buffer) {
      const DType d = k.buffers[buffer].dtype;
      bytes = std::max(bytes, dtypeBytes(isBool(d) ? DType::U8 : computeType(partType(d))));
    };
    for (uint32_t b = k.numInputs; b < k.buffers.size(); ++b) count(b);
    for (uint32_t n = 0; n < k.numNodes(); ++n)
      if (const Node& node = k[NodeId(n)]; node.kind == NodeKind::Load && k.dependsOn(node.affine) != 0)
        count(node.buffer);
    return bytes;
  }

  void printNest(const Nest& nest, Scope& top);
  void decode(Scope& row, bool offset);
  void findScratch(const Nest& nest);
  void countUnits(const Nest& nest);
  void planTranspose(const Nest& nest, const CpuTranspose& t);
  void emitTranspose(const Nest& nest, const CpuTranspose& t, Scope& unit);

  int lanes() const override { return lanes_; }
  bool cooperative() const override { return lanes_ > 1; }
  std::string vectorType(DType d) const override {
    vectorTypes_.insert(d);
    return typeText(d) + "v";
  }
  // a block is a multiple of the vector, so only the extent has a remainder
  std::string lanesLoop(AxisId a) override {
    const Size& extent = k_.axes[a].extent;
    const bool full = extent.isStatic() && extent.number % lanes_ == 0;
    const bool one = extent.isStatic() && extent.number > 0 && extent.number < lanes_ && !blocked(a);
    return std::string(full  ? "dtc_each_full<"
                       : one ? "dtc_each_one<"
                             : "dtc_each<") +
           std::to_string(lanes_) + ">(" + bound(a, false) + ", " + bound(a, true) + ", [&](i64 " +
           axisText(a) + ", auto lanes) DTC_INLINE {";
  }
  std::string lanesClose() const override { return "});"; }
  Value loadText(const Node& node, Scope& s, bool vector) override;
  void storeText(const Store& store, Scope& s) override;
  void plainStore(const Store& store, Scope& s, const std::string& value, bool contiguous);
  static std::string conditionText(const Value& v) { return v.vector ? "" : "(" + v.text + ")"; }
  void enterStores(Scope& body, bool /*last*/) override { enterPass(body, true); }
  void enterReduce(Scope& body) override;
  void enterPass(Scope& body, bool stores);
  size_t fetchingPass(size_t reader) const;
  void noteLoad(const Node& node, Scope& s);
  void finishRow(std::string& text);
  static std::string passMark(size_t pass) { return "\1" + std::to_string(pass) + "\n"; }
  bool streams(const Store& store, const Scope& s) const;
  std::string keepText(const std::string& x, const std::string& identity) const override {
    return "lanes.keep(" + x + ", " + identity + ")";
  }
  std::string sortCall(const SortRow& sort) override {
    const DType type = k_.buffers[sort.keys].dtype;
    const int bytes = 2 * (dtypeBytes(computeType(type)) + 4); // dtc_sort_bytes
    out_.printed.scratchBytes.terms.push_back(factorsOf(sort.extent * Size{bytes, {}}));
    return std::string("dtc_sort_order<") + (sort.descending ? "true" : "false") + ">";
  }
  std::string sortScratch() const override { return ", scratch"; }
  std::string sortDigitCall() const override { return "dtc_sort_"; }
  std::string acrossLanes(ReduceKind kind, const std::string& acc) override {
    return std::string("dtc_reduce_") + reduceName(kind) + "(" + acc + ")";
  }
  std::optional<Value> cached(NodeId n, Scope& s) override;
  void computed(NodeId n, Scope& s, const Value& v) override;
  std::string scratchElement(NodeId n, Scope& s);

  int vectorBytes_, lanes_;
  int columnLanes_ = 1; // the number of registers of a lanes value
  CpuSchedule schedule_;
  mutable std::set<DType> vectorTypes_;
  std::string scratchText_;
  std::vector<Size> scratchSizes_;
  std::set<uint32_t> streams_; // outputs that may bypass the caches
  struct Scratch {
    std::string name;
    std::vector<AxisId> axes;
    bool written = false;
  };
  // A loop over the scratch's axes, one of them in the lanes: not inside of another loop's lanes.
  static bool lanesWithin(const Scratch& x, const Scope& s) {
    return s.vector >= 0 && s.axes == x.axes &&
           std::find(x.axes.begin(), x.axes.end(), static_cast<AxisId>(s.vector)) != x.axes.end();
  }
  std::unordered_map<uint32_t, Scratch> scratch_; // of the current nest
  struct Pass {
    int indent, vector;
    std::vector<AxisId> axes;
    bool stores;
  };
  std::vector<Pass> passes_;                        // over a row
  std::unordered_map<const Scope*, size_t> passOf_; // by the body of its loop
  std::map<std::string, size_t> lastPass_; // the prefetch of a row's values -> the last pass that reads them
};

Emitter::Value CppEmitter::loadText(const Node& node, Scope& s, bool vector) {
  const Buffer& buffer = k_.buffers[node.buffer];
  Value guard;
  if (!node.args.empty()) guard = emit(node.args[0], s);
  if (!vector) {
    const std::string at = affineText(node.affine, s);
    const bool plain = !isNarrowFloat(buffer.dtype) && !isBool(buffer.dtype);
    const std::string x = plain ? bufferText(node.buffer) + "[" + at + "]"
                                : "dtc_load(" + pointerText(k_, node.buffer, at) + ")";
    if (guard.text.empty()) return {x, false, true};
    return {wrapped(guard) + " ? " + x + " : " + typeText(node.type) + "(0)", false, false};
  }
  const Kernel::Stride stride = k_.strideOf(node.affine, static_cast<AxisId>(s.vector));
  if (!stride.mixed && stride.size.is(1) && !guard.vector) {
    noteLoad(node, s);
    const std::string x =
        use(s, "lanes") + ".load(" + pointerText(k_, node.buffer, affineText(node.affine, s)) + ")";
    if (guard.text.empty()) return {x, true, true};
    return {wrapped(guard) + " ? " + x + " : (" + vectorType(node.type) + ")0", true, false};
  }
  const std::string at = splat(indexValue(node.affine, s), DType::I64, true);
  if (guard.text.empty())
    return {"dtc_gather_lanes(" + use(s, "lanes") + ", " + bufferText(node.buffer) + ", " + at + ")", true,
            true};
  return {"dtc_gather_if(" + use(s, "lanes") + ", " + bufferText(node.buffer) + ", " + at + ", " +
              splat(guard, DType::Bool, true) + ")",
          true, true};
}

void CppEmitter::storeText(const Store& store, Scope& s) {
  const DType dtype = k_.buffers[store.buffer].dtype;
  const std::string when = store.when.valid() ? "if " + conditionText(emit(store.when, s)) + " " : "";
  const Value x = emit(store.value, s);
  if (s.vector < 0) {
    const std::string at = affineText(store.address, s), to = pointerText(k_, store.buffer, at);
    std::string value = x.text;
    if (!store.combine.empty()) value = "dtc_" + store.combine + "(dtc_load(" + to + "), " + value + ")";
    line(s, when + (isNarrowFloat(dtype) ? "dtc_store(" + to + ", " + value + ");"
                                         : bufferText(store.buffer) + "[" + at + "] = " + value + ";"));
    return;
  }
  std::string value = splat(x, computeType(dtype), true);
  const Kernel::Stride stride = k_.strideOf(store.address, static_cast<AxisId>(s.vector));
  const bool contiguous = !stride.mixed && stride.size.is(1);
  if (!store.when.valid() && store.combine.empty()) {
    plainStore(store, s, value, contiguous);
    return;
  }
  // Conditions are equal in all lanes (Schedule.h, planNest), or the lanes are executed one after the other.
  const std::string to = contiguous ? pointerText(k_, store.buffer, affineText(store.address, s))
                                    : indexValue(store.address, s).text;
  const std::string out = bufferText(store.buffer);
  if (!store.combine.empty())
    value = "dtc_" + store.combine + "(" +
            (contiguous ? "lanes.load(" + to + ")" : "dtc_gather_lanes(lanes, " + out + ", " + to + ")") +
            ", " + value + ")";
  if (store.when.valid() && emit(store.when, s).vector)
    line(s, "dtc_scatter_if(lanes, " + out + ", " + indexValue(store.address, s).text + ", " + value + ", " +
                emit(store.when, s).text + ");");
  else
    line(s, when + (contiguous ? "lanes.store(" + to + ", " + value + ");"
                               : "dtc_scatter_lanes(lanes, " + out + ", " + to + ", " + value + ");"));
}

void CppEmitter::plainStore(const Store& store, Scope& s, const std::string& value, bool contiguous) {
  if (contiguous) {
    std::string how;
    if (streams(store, s)) {
      streams_.insert(store.buffer);
      how = ", stream" + std::to_string(store.buffer - k_.numInputs);
    }
    line(s, "lanes.store(" + pointerText(k_, store.buffer, affineText(store.address, s)) + ", " + value +
                how + ");");
    return;
  }
  line(s, "dtc_scatter_lanes(lanes, " + bufferText(store.buffer) + ", " + indexValue(store.address, s).text +
              ", " + value + ");");
}

// True if the output is so large that it bypasses the caches, and every vector of it is aligned.
bool CppEmitter::streams(const Store& store, const Scope& s) const {
  // a larger one is as good, and its products would overflow
  constexpr int64_t kMaxBytes = int64_t(1) << 40;
  const int64_t width = dtypeBytes(k_.buffers[store.buffer].dtype);
  const int64_t aligned = std::min<int64_t>(vectorBytes_, lanes_ * width);
  int64_t bytes = width;
  for (const AffineTerm& t : k_[store.address].terms) {
    const bool lane = t.kind == AffineTerm::OfAxis && static_cast<int>(t.id) == s.vector;
    if (t.kind == AffineTerm::OfNode || !t.coefficient.isStatic()) return false;
    if (!lane && t.coefficient.number * width % aligned != 0) return false;
    if (t.kind != AffineTerm::OfAxis) continue;
    const Size& extent = k_.axes[t.id].extent;
    if (!extent.isStatic()) return false;
    bytes *= std::min(extent.number, kMaxBytes);
    bytes = std::min(bytes, kMaxBytes);
  }
  return bytes >= schedule_.streamBytes && aligned >= 32;
}

// The processor does not predict rows that are far apart.
void CppEmitter::enterReduce(Scope& body) {
  constexpr int64_t kFar = 2048, kAhead = 8; // bytes, rows
  enterPass(body, false);
  if (columnLanes_ == 1 || body.vector < 0 || body.axes.empty()) return;
  std::set<std::string> lines;
  for (NodeId r : reductions_)
    forEachNode(k_, std::span(&r, 1), [&](NodeId n) {
      const Node& node = k_[n];
      if (node.kind != NodeKind::Load || (k_.dependsOn(n) & ~body.bound) != 0) return;
      const Kernel::Stride lane = k_.strideOf(node.affine, static_cast<AxisId>(body.vector)),
                           next = k_.strideOf(node.affine, body.axes.back());
      const int64_t bytes = next.size.number * dtypeBytes(k_.buffers[node.buffer].dtype);
      if (lane.mixed || !lane.size.is(1) || next.mixed || !next.size.isStatic() || bytes < kFar) return;
      for (const AffineTerm& t : k_[node.affine].terms)
        if (t.kind == AffineTerm::OfNode) return;
      lines.insert("lanes.prefetch_far(" + pointerText(k_, node.buffer, affineText(node.affine, body)) +
                   " + " + sizeText(next.size * Size{kAhead, {}}) + ");");
    });
  for (const std::string& text : lines) line(body, text);
}

// Each row prefetches the next one in a pass that stores nothing: stores that miss and prefetches compete for
// the same buffers of the processor, and a row would take up to twice as long. Which pass that is is known
// when all are written: each begins with a mark, which finishRow replaces.
void CppEmitter::enterPass(Scope& body, bool stores) {
  if (!schedule_.prefetch || body.vector < 0 || plan_.vector || plan_.grid.empty()) return;
  passOf_[&body] = passes_.size();
  body.text += passMark(passes_.size());
  passes_.push_back({body.indent, body.vector, body.axes, stores});
}

void CppEmitter::noteLoad(const Node& node, Scope& s) {
  const auto pass = passOf_.find(&s);
  if (pass == passOf_.end()) return;
  int64_t elements = 1;
  for (AxisId a : s.axes) {
    const Size& extent = k_.axes[a].extent;
    elements = extent.isStatic() ? std::min(elements * extent.number, kLongRow) : kLongRow;
  }
  const int64_t bytes = elements * dtypeBytes(k_.buffers[node.buffer].dtype);
  const Kernel::Stride next =
      k_.strideOf(node.affine, nest_->walked.empty() ? plan_.grid.back() : nest_->walked.back());
  for (const AffineTerm& t : k_[node.affine].terms)
    if (t.kind == AffineTerm::OfNode) return;
  if (bytes < kShortRow || bytes > kLongRow || next.mixed || next.size.is(0)) return;
  const std::string text = std::string(bytes > kNearRow ? "lanes.prefetch_far(" : "lanes.prefetch(") +
                           pointerText(k_, node.buffer, affineText(node.affine, s)) + " + " +
                           sizeText(next.size) + ");";
  lastPass_[text] = pass->second;
}

// The last pass over the same axes that stores nothing; else the last that reads the prefetched values.
size_t CppEmitter::fetchingPass(size_t reader) const {
  const Pass& pass = passes_[reader];
  for (size_t i = passes_.size(); i-- > 0;)
    if (!passes_[i].stores && passes_[i].vector == pass.vector && passes_[i].axes == pass.axes) return i;
  return reader;
}

void CppEmitter::finishRow(std::string& text) {
  for (size_t i = 0; i < passes_.size(); ++i) {
    std::string lines;
    for (const auto& [fetch, pass] : lastPass_)
      if (fetchingPass(pass) == i) lines += indentText(passes_[i].indent) + fetch + "\n";
    const std::string mark = passMark(i);
    if (const size_t at = text.find(mark); at != std::string::npos) text.replace(at, mark.size(), lines);
  }
  passes_.clear(), passOf_.clear(), lastPass_.clear();
}

// Values of a row that are expensive and used by a later loop are kept in a scratch row.
void CppEmitter::findScratch(const Nest& nest) {
  scratch_.clear();
  struct Loop {
    std::vector<AxisId> axes;
    int level;
    std::vector<NodeId> roots;
  };
  std::vector<Loop> found;
  auto add = [&](std::vector<AxisId> axes, int level, NodeId root) {
    if (axes.empty()) return;
    for (Loop& l : found)
      if (l.axes == axes && l.level == level) return l.roots.push_back(root);
    found.push_back({std::move(axes), level, {root}});
  };
  for (NodeId r : reductions_)
    if (k_[r].reduce < ReduceKind::ArgMax && (nest.walked.empty() || k_[r].axes != nest.walked))
      add(k_[r].axes, level_[r.index], k_[r].args[0]);
  for (const Store& s : nest.stores) {
    std::vector<AxisId> axes;
    for (AxisId a : nest.domain)
      if ((k_.dependsOn(s.address) & ~plan_.rows) >> a & 1) axes.push_back(a);
    add(std::move(axes), INT32_MAX, isColumn(k_, nest, s) ? k_[s.value].args[0] : s.value);
  }
  std::sort(found.begin(), found.end(), [](const Loop& a, const Loop& b) {
    return a.level != b.level ? a.level < b.level : a.roots[0] < b.roots[0];
  });
  std::unordered_map<uint32_t, size_t> firstLoop;
  for (size_t i = 0; i < found.size(); ++i) {
    AxisSet set = 0;
    for (AxisId a : found[i].axes) set |= AxisSet(1) << a;
    std::vector<NodeId> work = found[i].roots;
    std::set<uint32_t> seen;
    while (!work.empty()) {
      const NodeId n = work.back();
      work.pop_back();
      const Node& node = k_[n];
      if (node.kind == NodeKind::Reduce || (k_.dependsOn(n) & set) == 0 || !seen.insert(n.index).second)
        continue;
      auto [it, first] = firstLoop.try_emplace(n.index, i);
      if (!first && it->second < i && found[it->second].axes == found[i].axes &&
          node.kind == NodeKind::Call && isCostly(node.function) && !isBool(node.type)) {
        scratch_.try_emplace(n.index, Scratch{"", found[i].axes, false});
        continue;
      }
      for (NodeId a : node.args) work.push_back(a);
    }
  }
}

std::string CppEmitter::scratchElement(NodeId n, Scope& s) {
  Scratch& scratch = scratch_.at(n.index);
  std::vector<AxisId> order = scratch.axes;
  std::erase(order, static_cast<AxisId>(s.vector));
  order.push_back(static_cast<AxisId>(s.vector));
  std::string at;
  Size stride;
  for (size_t i = order.size(); i-- > 0;) {
    at += " + " + axisText(order[i]) + (stride.is(1) ? "" : " * " + sizeText(stride));
    stride = stride * k_.axes[order[i]].extent;
  }
  if (scratch.name.empty()) {
    scratch.name = fresh("row");
    std::string offset;
    for (const auto& term : scratchSizes_) offset += " + " + sizeText(term);
    const std::string type = typeText(k_[n].type);
    scratchText_ +=
        "  " + type + "* const " + scratch.name + " = (" + type + "*)((char*)scratch" + offset + ");\n";
    const Size bytes = stride * Size{dtypeBytes(k_[n].type), {}};
    scratchSizes_.push_back(bytes);
    out_.printed.scratchBytes.terms.push_back(factorsOf(bytes));
  }
  return scratch.name + at;
}

std::optional<Emitter::Value> CppEmitter::cached(NodeId n, Scope& s) {
  auto it = scratch_.find(n.index);
  if (it == scratch_.end() || !it->second.written || !lanesWithin(it->second, s)) return std::nullopt;
  const std::string name = fresh(k_[n].function);
  line(s, "const " + vectorType(k_[n].type) + " " + name + " = lanes.load(" + scratchElement(n, s) + ");");
  return Value{name, true, true};
}
void CppEmitter::computed(NodeId n, Scope& s, const Value& v) {
  auto it = scratch_.find(n.index);
  if (it == scratch_.end() || it->second.written || !lanesWithin(it->second, s) || plan_.vector) return;
  line(s, "lanes.store(" + scratchElement(n, s) + ", " + v.text + ");");
  it->second.written = true;
}

// The begin and end of run number `at` of `block` elements.
static std::string blockedBounds(const std::string& axis, const std::string& at, int64_t block,
                                 const std::string& extent) {
  const std::string size = std::to_string(block);
  return "const i64 " + axis + "_begin = " + at + " * " + size + ", " + axis + "_end = dtc_index_min(" +
         axis + "_begin + " + size + ", " + extent + ");";
}

// The coordinates of a unit.
void CppEmitter::decode(Scope& row, bool offset) {
  std::string rest = offset ? "unit - first" : "unit";
  if (plan_.grid.size() > 1 || offset) {
    line(row, "i64 rest = " + rest + ";");
    rest = "rest";
  }
  for (size_t i = plan_.grid.size(); i-- > 0;) {
    const AxisId a = plan_.grid[i];
    const Size& extent = k_.axes[a].extent;
    const bool product = extent.args.size() + (extent.number != 1) > 1;
    const std::string count = countOf(a), factor = product ? "(" + count + ")" : count,
                      at = i == 0 ? rest : rest + " % " + factor;
    line(row, blocked(a)
                  ? blockedBounds(axisText(a), i == 0 ? rest : "(" + at + ")", plan_.block, sizeText(extent))
                  : "const i64 " + axisText(a) + " = " + at + ";");
    if (i > 0) line(row, "rest /= " + (blocked(a) ? count : factor) + ";");
  }
}

// The number of units, and the approximate number of elements of each.
void CppEmitter::countUnits(const Nest& nest) {
  std::vector<SizeFormula::Factor> units, elements;
  AxisSet inside = 0;
  for (const Store& s : nest.stores) inside |= k_.dependsOn(s.address);
  for (NodeId r : reductions_)
    for (AxisId a : k_[r].axes) inside |= AxisSet(1) << a;
  for (AxisId a : plan_.grid) {
    inside &= ~(AxisSet(1) << a);
    std::vector<SizeFormula::Factor> factors = factorsOf(k_.axes[a].extent);
    if (blocked(a)) {
      for (SizeFormula::Factor& f : factors)
        f.per = plan_.block; // a blocked axis is one constant or one argument
      elements.push_back({plan_.block, -1, 1});
    }
    units.insert(units.end(), factors.begin(), factors.end());
  }
  if (nest.sort)
    for (const SizeFormula::Factor& f : factorsOf(nest.sort->extent)) elements.push_back(f);
  if (nest.sortDigit) elements.push_back({kSortTile, -1, 1});
  for (size_t a = 0; a < k_.axes.size(); ++a)
    if (inside >> a & 1)
      for (const SizeFormula::Factor& f : factorsOf(k_.axes[a].extent)) elements.push_back(f);
  if (out_.printed.unitElements.terms.empty()) out_.printed.unitElements.terms.push_back(elements);
  out_.printed.units.terms.push_back(units);
}

void CppEmitter::planTranspose(const Nest& nest, const CpuTranspose& t) {
  plan_ = {};
  const AxisSet all = k_.dependsOn(nest.stores[0].address);
  for (AxisId a = 0; a < k_.axes.size(); ++a)
    if ((all >> a & 1) && a != t.read && a != t.written) plan_.grid.push_back(a);
  plan_.rows = all;
  plan_.grid.push_back(t.blocked);
  plan_.blocked = t.blocked;
  plan_.block = kTransposedBlock;
}

void CppEmitter::emitTranspose(const Nest& nest, const CpuTranspose& t, Scope& unit) {
  const Store& store = nest.stores[0];
  const Node& load = k_[store.value];
  for (AxisId a : {t.read, t.written}) {
    line(unit, "const i64 " + axisText(a) + " = " + bound(a, false) + ";");
    unit.bound |= AxisSet(1) << a;
  }
  auto count = [&](AxisId a) { return bound(a, true) + " - " + axisText(a); };
  line(unit, "dtc_transpose(" + pointerText(k_, store.buffer, affineText(store.address, unit)) + ", " +
                 pointerText(k_, load.buffer, affineText(load.affine, unit)) + ", " + count(t.read) + ", " +
                 count(t.written) + ", " + sizeText(k_.strideOf(store.address, t.read).size) + ", " +
                 sizeText(k_.strideOf(load.affine, t.written).size) + ");");
}

void CppEmitter::printNest(const Nest& nest, Scope& top) {
  begin(nest);
  const int64_t unit = reductions_.empty() && nest.ordered == 0 ? kUnitElements
                       : columnLanes_ > 1                       ? lanes_
                                                                : 4 * lanes_;
  plan_ = planNest(k_, nest, lanes_, unit);
  const std::optional<CpuTranspose> transpose = transposeOf(k_, nest);
  if (transpose)
    planTranspose(nest, *transpose);
  else if (!plan_.vector)
    findScratch(nest);
  countUnits(nest);
  const bool offset = k_.nests.size() > 1;
  Scope row;
  row.parent = &top;
  row.indent = top.indent + 1 + offset;
  for (AxisId a : plan_.grid)
    if (!blocked(a)) row.bound |= AxisSet(1) << a;
  decode(row, offset);
  std::deque<Scope> scopes;
  Scope& inner = openLoops(row, plan_.inner, plan_.vector, scopes);
  inner.axes.clear();
  if (transpose)
    emitTranspose(nest, *transpose, inner);
  else if (nest.sorts())
    emitSort(nest, inner);
  else
    emitUnit(nest, inner);
  closeLoops(scopes);
  finishRow(row.text);
  if (!offset) {
    line(top, "for (i64 unit = begin; unit < end; ++unit) {");
    append(top, row);
    line(top, "}");
    return;
  }
  const std::string size = unitsText();
  line(top, "{");
  line(top, "  const i64 first = " + (out_.unitsBefore.empty() ? "0" : out_.unitsBefore) +
                ", last = first + " + size + ";");
  line(top, "  for (i64 unit = begin > first ? begin : first; unit < dtc_index_min(end, last); ++unit) {");
  append(top, row);
  line(top, "  }");
  line(top, "}");
  out_.unitsBefore += (out_.unitsBefore.empty() ? "" : " + ") + size;
}

} // namespace

PrintedKernel printCpp(const Kernel& k, int vectorBytes, const CpuSchedule& schedule) {
  if (k.joined) return printJoin(k, false);
  KernelText out;
  CppEmitter(k, out, vectorBytes, schedule).run();
  return std::move(out.printed);
}

} // namespace dtc
