// Rows: passes over elements that a thread keeps from one pass to the next (RowSchedule.h). Columns that are
// reduced over the rows of a unit belong to the thread that has their packs.
#include "print/CudaEmitter.h"
#include "print/RowLoops.h"
#include "print/RowThreads.h"
#include <algorithm>
#include <utility>

namespace dtc {

using namespace loops;

namespace {

using Keep = RowSchedule::Keep;

class RowEmitter final : public CudaEmitter {
public:
  RowEmitter(const Kernel& k, KernelText& out, int threads, const RowNest& row, const RowSchedule& schedule)
      : CudaEmitter(k, out, threads), row_(row), schedule_(schedule), sharing_(row, schedule, index_),
        loops_(k, row, schedule, index_), along_(row.axes.back()), lane_(schedule.pack == 1 ? "0" : "lane") {
    thread_ = schedule.perRow == 1 ? "0" : "thread";
    rowThreads_ = schedule.perRow;
    movesBits_ = false; // rows are read ahead
  }

private:
  // The loop over the row's elements that is being printed: over steps, in each over the pack's elements.
  struct Pass {
    Scope *home = nullptr, *step = nullptr, *element = nullptr;
    std::vector<const Store*> packed;  // stores executed when the pack is complete
    std::vector<std::string> finished; // statements executed then
    Text arrays, loads; // the loads at the start, where the loop over the row is one over parts of it
  };
  // Where a value of each element is kept: an array of packs, one per step.
  struct Kept {
    std::string array;
    bool written = false;
  };

  // --- units: one or more rows, or a part of one ---

  std::string countUnits() override {
    std::string size = CudaEmitter::countUnits();
    std::vector<SizeFormula::Factor>& units = out_.printed.units.terms.back();
    if (schedule_.rows() > 1) {
      units = {factorsOf(row_.count).front()};
      units[0].per = schedule_.rows();
    } else if (schedule_.cluster > 1) {
      units.push_back({schedule_.cluster, -1, 1});
    }
    return size;
  }

  std::string beginUnit(Scope& top, Scope& row, const std::string& unit) override {
    const RowSchedule& s = schedule_;
    out_.printed.schedule = describe(s);
    out_.printed.cluster = s.cluster, out_.printed.minBlocks = s.minBlocks;
    const bool several = k_.nests.size() > 1;
    lineIf(top, sharing_.unit());
    lineIf(several ? row : top, sharing_.thread());
    const std::string present = sharing_.present();
    lineIf(top, sharing_.presentLanes());
    row.indent += !present.empty();
    CudaEmitter::beginUnit(top, row, unit);
    rowBound_ = row.bound;
    if (row_.edged && nest_->walked.empty()) beginEdges(row.bound == 0 && !several ? top : row);
    return present;
  }

  // The begin and end of the row's packs, and the number of elements before and after them.
  void beginEdges(Scope& row) {
    const std::string n = sizeText(row_.length), pack = text(row_.pack);
    atZero_ = along_;
    const std::string begin = affineText(row_.origin, row);
    atZero_.reset();
    line(row, "const " + index_ + " head = dtc_index_min((i32)(-(u32)(" + begin + ") % " + pack + "), " + n +
                  ");");
    line(row, "const " + index_ + " tail = head + (" + n + " - head) / " + pack + " * " + pack + ";");
    line(row, "const " + index_ + " edges = " + n + " - tail + head;");
  }

  std::string barrier() const override { return sharing_.barrier(); }

  std::string acrossLanes(ReduceKind kind, const std::string& acc) override {
    if (!afterRowPass_ && schedule_.rows() == 1) return CudaEmitter::acrossLanes(kind, acc);
    return sharing_.combined(kind, acc, out_.reductions, threads_);
  }

  // --- arrays of packs ---

  // A part of the block's dynamic shared memory. A block has rows of one nest, unless its warps have their own.
  void declareShared(Scope& s, const std::string& type, const std::string& name, int64_t bytes) {
    if (!shared_) {
      line(s, "extern __shared__ uint4 row_memory[];");
      shared_ = schedule_.rows() > 1 ? out_.printed.sharedBytes : 0;
    }
    line(s, type + "* const " + name + " = (" + type + "*)((u8*)row_memory + " + text(*shared_) + ");");
    *shared_ += static_cast<int>(bytes);
    out_.printed.sharedBytes = std::max(out_.printed.sharedBytes, *shared_);
  }
  std::string packType(DType type) const {
    return "dtc_pack<" + typeText(type) + ", " + text(row_.pack) + ">";
  }

  // Loaded packs of narrow floats are kept as words.
  bool keepsWords(DType type) const { return isNarrowFloat(type) && row_.pack * dtypeBytes(type) % 4 == 0; }
  std::string loadedType(DType type) const {
    return keepsWords(type) ? "dtc_kept<" + typeText(type) + ", " + text(row_.pack) + ">" : packType(type);
  }

  // One pack per step and one for the edges, for a value per element.
  std::string declareArray(NodeId n, Scope& home, bool passOnly) {
    const Node& node = k_[n];
    const bool load = isRowPack(k_, row_, n), streamed = schedule_.keep == Keep::Nothing;
    const DType type = load ? k_.buffers[node.buffer].dtype : node.type;
    const std::string pack = load ? loadedType(type) : packType(type);
    const std::string array = fresh(load                          ? "row"
                                    : node.kind == NodeKind::Call ? node.function + "_row"
                                                                  : "x_row");
    if (schedule_.keep == Keep::Shared && !passOnly)
      declareShared(home, pack, array,
                    (schedule_.steps + schedule_.edged) * schedule_.threads * schedule_.pack *
                        (load ? dtypeBytes(type) : std::max(4, dtypeBytes(type))));
    else
      line(home, pack + " " + array + "[" + text(schedule_.steps + (schedule_.edged && !streamed)) + "];");
    return array;
  }

  std::string packOfStep(const std::string& array, bool shared, Text& s) const {
    return array + "[" + use(s, "step") +
           (shared ? " * " + text(schedule_.threads) + " + threadIdx.x]" : "]");
  }
  // The pack that `pack` names in the innermost scope of a step: shared memory is read once.
  std::string readOnce(const std::string& array, Scope& step, Scope& element) {
    if (schedule_.keep != Keep::Shared) return packOfStep(array, false, element);
    const std::string here = fresh("pack");
    line(step, "const auto " + here + " = " + packOfStep(array, true, step) + ";");
    return here;
  }

  // --- passes over the row ---

  bool isRowScope(const Scope& s) const { return s.vector < 0 && s.bound == rowBound_; }
  bool inPass(const Scope& s) const { return !passes_.empty() && passes_.back().element == &s; }

  // The packs that are read for `roots` and have no name yet.
  std::vector<NodeId> packsBelow(std::span<const NodeId> roots, const Scope& home) const {
    std::vector<NodeId> found, work(roots.begin(), roots.end());
    std::vector<bool> seen(k_.numNodes());
    auto named = [&](NodeId n) {
      for (const Scope* p = &home; p; p = p->parent)
        if (p->names.contains(n.index)) return true;
      const auto kept = kept_.find(n.index);
      return kept != kept_.end() && kept->second.written && !isRowPack(k_, row_, n);
    };
    while (!work.empty()) {
      const NodeId n = work.back();
      work.pop_back();
      if (seen[n.index] || (k_.dependsOn(n) & row_.set) == 0 || named(n)) continue;
      seen[n.index] = true;
      const Node& node = k_[n];
      if (isRowPack(k_, row_, n) && (k_.dependsOn(n) & ~(rowBound_ | row_.set)) == 0) found.push_back(n);
      for (NodeId a : node.args) work.push_back(a);
      if (node.affine.valid())
        for (const AffineTerm& t : k_[node.affine].terms)
          if (t.kind == AffineTerm::OfNode) work.push_back(NodeId(t.id));
    }
    std::sort(found.begin(), found.end(), [](NodeId a, NodeId b) { return a.index < b.index; });
    return found;
  }

  const RowValue* valueOf(NodeId n) const {
    for (const RowValue& v : row_.kept(schedule_.costly))
      if (v.node == n) return &v;
    return nullptr;
  }

  // The work on each of the thread's packs; closeStep prints the loop around it.
  Scope& openStep(Scope& home, std::deque<Scope>& scopes) const {
    Scope step;
    step.parent = &home;
    step.bound = home.bound | (row_.set & ~(AxisSet(1) << along_));
    step.indent = home.indent + 1 + (schedule_.keep == Keep::Nothing);
    scopes.push_back(std::move(step));
    return scopes.back();
  }
  void closeStep(Scope& home, std::deque<Scope>& scopes) const {
    const Text body = std::move(scopes.back());
    scopes.pop_back();
    loops_.eachPack(home, body);
    loops_.eachEdge(home, body);
  }

  void loadPack(NodeId load, const std::string& to, Scope& step, const std::string& further = "") {
    const Node& node = k_[load];
    const DType type = k_.buffers[node.buffer].dtype;
    const std::string kind = keepsWords(type) ? "kept" : "pack",
                      call = !row_.edged        ? "dtc_load_" + kind + "<"
                             : keepsWords(type) ? "dtc_load_kept_row<" + use(step, "edge") + ", "
                                                : "dtc_load_row<" + use(step, "edge") + ", ",
                      x = call + text(row_.pack) + ">(" + packAt(node.buffer, node.affine, along_, step) +
                          further + ")";
    line(step, to + " = " + loadedPack(node, x, loadedType(type), step) + ";");
  }

  // All loads that this pass is the first to need are issued before the first is used.
  void readFirst(const std::vector<NodeId>& loads, Scope& home, Pass& pass) {
    const bool shared = schedule_.keep == Keep::Shared, streamed = schedule_.keep == Keep::Nothing;
    struct First {
      NodeId load;
      std::string array;
      bool shared;
    };
    std::vector<First> first;
    passLoads_.clear();
    Scope chunk;
    chunk.indent = home.indent + 1;
    for (NodeId n : loads) {
      const RowValue* value = valueOf(n);
      const bool later = !streamed && value && value->first != value->last;
      if (kept_.contains(n.index) || (!later && !schedule_.together)) continue;
      if (row_.onceBytes > 0 && !schedule_.once && isSameForRows(n)) continue;
      first.push_back({n, declareArray(n, streamed ? chunk : home, !later), shared && later});
      if (later)
        kept_[n.index] = {first.back().array, true};
      else
        passLoads_[n.index] = first.back().array;
    }
    if (first.empty()) return;
    std::deque<Scope> scopes;
    Scope& step = openStep(home, scopes);
    for (const First& f : first) {
      const std::string to = packOfStep(f.array, f.shared, step);
      if (!loadOnce(f.load, to, step) && !loadAhead(f.load, to, step)) loadPack(f.load, to, step);
    }
    if (!streamed) {
      closeStep(home, scopes);
      return readNextRow(home);
    }
    pass.arrays = chunk;
    pass.loads = step;
  }

  Scope& openPass(Scope& home, const std::vector<AxisId>& axes, std::optional<AxisId> lanes,
                  std::span<const NodeId> roots, std::deque<Scope>& scopes) override {
    afterRowPass_ = false;
    AxisSet set = 0;
    for (AxisId a : axes) set |= AxisSet(1) << a;
    if (!isRowScope(home) || !lanes || set != row_.set) {
      // The threads of this loop have other elements: in place, all must have read before they write. A value
      // of the row itself has no loop, and its store waits where it has to (storeText).
      if (isRowScope(home) && rowPassSeen_ && !axes.empty()) line(home, barrier());
      if (isRowScope(home)) rowPassSeen_ = false;
      return openLoops(home, axes, lanes, scopes);
    }
    Pass pass;
    const std::vector<NodeId> loads = packsBelow(roots, home);
    readFirst(loads, home, pass);
    pass.home = &home;
    Scope& step = openStep(home, scopes);
    Scope element;
    element.parent = &step;
    element.bound = step.bound | AxisSet(1) << along_;
    element.vector = along_;
    element.indent = step.indent + (schedule_.pack > 1);
    element.axes = axes;
    pass.step = &step;
    scopes.push_back(std::move(element));
    pass.element = &scopes.back();
    nameLoads(loads, step, scopes.back());
    passes_.push_back(std::move(pass));
    return *passes_.back().element;
  }

  void nameLoads(const std::vector<NodeId>& loads, Scope& step, Scope& element) {
    for (NodeId n : loads) {
      std::string pack;
      if (const auto kept = kept_.find(n.index); kept != kept_.end()) {
        pack = readOnce(kept->second.array, step, element);
      } else if (const auto here = passLoads_.find(n.index); here != passLoads_.end()) {
        pack = packOfStep(here->second, false, element);
      } else {
        pack = fresh("pack");
        loadPack(n, "const auto " + pack, step);
      }
      const DType dtype = k_.buffers[k_[n].buffer].dtype;
      std::string x = laneText(dtype, pack, use(element, lane_));
      if (isNarrowFloat(dtype)) {
        const std::string read = std::exchange(x, fresh("x"));
        line(element, "const f32 " + x + " = " + read + ";");
      }
      element.names[n.index] = {x, false, true};
    }
  }

  void closePass(Scope& home, std::deque<Scope>& scopes) override {
    if (passes_.empty() || passes_.back().home != &home) return closeLoops(scopes);
    const Pass pass = std::move(passes_.back());
    passes_.pop_back();
    const Text& element = *pass.element;
    Scope& step = *pass.step;
    const Text before = step;
    step.text.clear();
    for (const Store* s : pass.packed)
      line(step, (row_.edged ? "dtc_store_row<" + use(step, "edge") + ">(" : std::string("dtc_store_pack(")) +
                     packAt(s->buffer, s->address, along_, step) + ", " +
                     (row_.edged ? packText(*s) : packResult(*s)) + ");");
    for (const std::string& statement : pass.finished) line(step, statement);
    const std::string i = axisText(along_);
    const bool several = row_.pack > 1;
    auto elements = [&](bool all) { // of a pack, or only the first
      Text body = before;
      if (all) body.text += "#pragma unroll\n";
      if (all) line(body, "for (i32 lane = 0; lane < " + text(row_.pack) + "; ++lane) {");
      if (element.uses(i))
        line(body, (several ? "  const " : "const ") + index_ + " " + i + " = " + use(body, loops_.first()) +
                       (all ? " + lane;" : ";"));
      append(body, element);
      if (all) line(body, "}");
      append(body, step);
      return body;
    };
    const Text all = elements(several), one = elements(false);
    scopes.clear();
    loops_.pass(home, pass.arrays, pass.loads, all, one);
    afterRowPass_ = rowPassSeen_ = true;
  }

  // Rows of which nothing is kept are read once less.
  std::vector<OnlineSum> onlineSums(const std::vector<NodeId>& group, Scope& home) override {
    std::vector<OnlineSum> found;
    if (schedule_.keep != Keep::Nothing || !isRowScope(home)) return found;
    for (NodeId sum : reductions_) {
      const Node& node = k_[sum];
      const auto relative = relativeSum(node);
      if (!relative || (k_.dependsOn(sum) & ~home.bound) != 0) continue;
      const auto& [x, c] = *relative;
      const bool squares = isCallOf(k_, node.args[0], "mul");
      for (size_t i = 0; i < group.size(); ++i) {
        const Node& of = k_[group[i]];
        bool below = false;
        forEachNode(k_, std::span(&c, 1), [&](NodeId n) { below |= n == group[i]; });
        below &= std::none_of(found.begin(), found.end(), [&](const OnlineSum& o) { return o.of == i; });
        if (!below || of.reduce != (squares ? ReduceKind::Sum : ReduceKind::Max) || of.args[0] != x ||
            of.axes != node.axes || (k_.dependsOn(c) & row_.set) != 0)
          continue;
        const std::string type = typeText(node.type), acc = fresh(squares ? "squares" : "sum");
        line(home, squares ? "dtc_squares<" + type + "> " + acc + ";" : type + " " + acc + " = 0;");
        found.push_back({sum, i, acc, sizeText(row_.length) + " > 0", squares, c});
        break;
      }
    }
    return found;
  }

  // A sum of exp(x - c) or of (x - c) * (x - c): x and c.
  std::optional<std::pair<NodeId, NodeId>> relativeSum(const Node& sum) const {
    if (sum.reduce != ReduceKind::Sum || !isFloat(sum.type)) return std::nullopt;
    const NodeId term = sum.args[0];
    if (!isCallOf(k_, term, "exp") && (!isCallOf(k_, term, "mul") || k_[term].args[0] != k_[term].args[1]))
      return std::nullopt;
    const NodeId less = k_[term].args[0];
    if (!isCallOf(k_, less, "sub")) return std::nullopt;
    return std::pair(k_[less].args[0], k_[less].args[1]);
  }

  // --- values kept from one pass to the next ---

  std::optional<Value> cached(NodeId n, Scope& s) override {
    if (!inPass(s)) return std::nullopt;
    const auto kept = kept_.find(n.index);
    if (kept == kept_.end() || !kept->second.written) return std::nullopt;
    const std::string pack = readOnce(kept->second.array, *passes_.back().step, s);
    return Value{pack + ".at[" + use(s, lane_) + "]", false, true};
  }

  void computed(NodeId n, Scope& s, const Value& v) override {
    if (!inPass(s) || kept_.contains(n.index) || schedule_.keep == Keep::Nothing) return;
    const RowValue* value = valueOf(n);
    if (!value || value->load || value->first == value->last) return;
    Pass& pass = passes_.back();
    const std::string array = declareArray(n, *pass.home, false);
    kept_[n.index] = {array, true};
    std::string to;
    if (schedule_.keep == Keep::Shared) {
      to = fresh("pack");
      line(*pass.step, packType(k_[n].type) + " " + to + ";");
      pass.finished.push_back(packOfStep(array, true, *pass.step) + " = " + to + ";");
    } else {
      to = packOfStep(array, false, s);
    }
    line(s, to + ".at[" + use(s, lane_) + "] = " + v.text + ";");
  }

  std::string packElement(const Store& store, Scope& s) override {
    if (!inPass(s) || store.when.valid() || !store.combine.empty() ||
        !isInRowPacks(k_, row_, store.address) ||
        (k_.dependsOn(store.address) & ~(rowBound_ | row_.set)) != 0)
      return "";
    passes_.back().packed.push_back(&store);
    declarePack(store, row_.pack, *passes_.back().step);
    return packText(store) + ".at[" + use(s, lane_) + "]";
  }

  // --- units that walk over rows, and reduce columns ---

  void emitUnit(const Nest& nest, Scope& unit) override {
    if (nest.walked.empty()) return emitStores(nest, unit);
    walk_ = &unit;
    if (columnsBegin()) schedule_.placed ? beginPlaced(unit) : beginColumns(unit);
    std::deque<Scope> scopes;
    Scope& row = openLoops(unit, nest.walked, std::nullopt, scopes);
    row.axes.clear();
    if (row_.edged) beginEdges(row);
    rowBound_ = row.bound;
    emitStores(nest, row);
    // The shared memory of a reduction across the threads is read before the next row's overwrites it.
    if (schedule_.threads > kWarp || schedule_.placed || schedule_.edged) line(row, "__syncthreads();");
    closeLoops(scopes);
    if (columnsBegin()) schedule_.placed ? endPlaced(unit) : endColumns(unit);
  }

  bool columnsBegin() const override { return schedule_.columns != Keep::Nothing; }
  bool columnsShared() const { return schedule_.columns == Keep::Shared; }
  std::string columnName(const Store& store) const {
    return "column" + std::to_string(store.buffer - k_.numInputs);
  }
  template <class Fn> void eachColumn(Fn fn) const {
    for (const Store& s : nest_->stores)
      if (isColumn(k_, *nest_, s)) fn(s, k_[s.value].type, columnName(s));
  }
  std::string columnVariable(const Store& store, Scope& body) override {
    if (!columnsBegin()) return Emitter::columnVariable(store, body);
    if (schedule_.placed)
      return columnName(store) + "[dtc_column<" + text(row_.pack) + ", " + text(columnStride(row_)) + ">(" +
             use(body, axisText(along_)) + ")]";
    return packOfStep(columnName(store), columnsShared(), body) + ".at[" + use(body, lane_) + "]";
  }

  void beginColumns(Scope& unit) {
    std::deque<Scope> scopes;
    Scope& step = openStep(unit, scopes);
    eachColumn([&](const Store& s, DType type, const std::string& name) {
      if (columnsShared())
        declareShared(unit, packType(type), name,
                      schedule_.steps * schedule_.threads * schedule_.pack * dtypeBytes(type));
      else
        line(unit, packType(type) + " " + name + "[" + text(schedule_.steps) + "];");
      line(step, "for (i32 lane = 0; lane < " + text(row_.pack) + "; ++lane) " +
                     packOfStep(name, columnsShared(), step) +
                     ".at[lane] = " + identityText(k_[s.value].reduce, type) + ";");
    });
    closeStep(unit, scopes);
  }

  void endColumns(Scope& unit) {
    std::deque<Scope> scopes;
    Scope& step = openStep(unit, scopes);
    eachColumn([&](const Store& s, DType, const std::string& name) {
      line(step, "dtc_store_pack(" + packAt(s.buffer, s.address, along_, step) + ", " +
                     packOfStep(name, columnsShared(), step) + ");");
    });
    closeStep(unit, scopes);
  }

  // Shared memory has the columns by their position in the row: threads take turns at them from row to row.
  void beginPlaced(Scope& unit) {
    const int64_t elements = columnStride(row_) * row_.pack;
    Text target;
    target.indent = unit.indent + 1;
    eachColumn([&](const Store& s, DType type, const std::string& name) {
      declareShared(unit, typeText(type), name, elements * dtypeBytes(type));
      line(target, name + "[at] = " + identityText(k_[s.value].reduce, type) + ";");
    });
    line(unit,
         "for (i32 at = threadIdx.x; at < " + text(elements) + "; at += " + text(schedule_.threads) + ") {");
    append(unit, target);
    line(unit, "}");
    line(unit, barrier());
  }

  void endPlaced(Scope& unit) {
    const std::string i = axisText(along_);
    Scope element;
    element.parent = &unit, element.bound = unit.bound | AxisSet(1) << along_;
    element.indent = unit.indent + 1;
    eachColumn([&](const Store& s, DType, const std::string&) {
      line(element, bufferText(s.buffer) + "[" + affineText(s.address, element) +
                        "] = " + columnVariable(s, element) + ";");
    });
    line(unit, "for (" + index_ + " " + i + " = threadIdx.x; " + i + " < " + sizeText(row_.length) + "; " +
                   i + " += " + text(schedule_.threads) + ") {");
    append(unit, element);
    line(unit, "}");
  }

  bool isSameForRows(NodeId load) const { return isSameForWalked(k_, *nest_, load); }
  // Packs that are the same for all walked rows (weights) are read before the loop.
  bool loadOnce(NodeId load, const std::string& to, Scope& step) {
    if (!schedule_.once || !isSameForRows(load)) return false;
    const std::string once = fresh("once");
    line(*walk_,
         loadedType(k_.buffers[k_[load].buffer].dtype) + " " + once + "[" + text(schedule_.steps) + "];");
    std::deque<Scope> scopes;
    Scope& first = openStep(*walk_, scopes);
    loadPack(load, packOfStep(once, false, first), first);
    closeStep(*walk_, scopes);
    line(step, to + " = " + packOfStep(once, false, step) + ";");
    return true;
  }

  // A row's packs are read from where they were prefetched during the previous row, while the next row's
  // loads are in flight.
  bool loadAhead(NodeId load, const std::string& to, Scope& step) {
    const Node& node = k_[load];
    if (!schedule_.ahead || !node.args.empty()) return false;
    const AxisId walked = nest_->walked[0];
    const Kernel::Stride stride = k_.strideOf(node.affine, walked);
    if (stride.mixed || stride.size.is(0)) return false;
    for (const AffineTerm& t : k_[node.affine].terms)
      if (t.kind == AffineTerm::OfNode) return false;
    const std::string next = fresh("next"), i = axisText(walked);
    line(*walk_, loadedType(k_.buffers[node.buffer].dtype) + " " + next + "[" +
                     text(schedule_.steps + schedule_.edged) + "];");
    const std::string target = packOfStep(next, false, step);
    if (schedule_.edged) { // its packs begin elsewhere
      line(*walk_, "{");
      line(*walk_, "  const " + index_ + " " + i + " = 0;");
      readEdged(*walk_, {{load, next}});
      line(*walk_, "}");
      line(step, to + " = " + target + ";");
      nextRow_.emplace_back(load, next);
      return true;
    }
    std::deque<Scope> scopes;
    Scope& first = openStep(*walk_, scopes);
    line(first, "const " + index_ + " " + i + " = 0;");
    loadPack(load, packOfStep(next, false, first), first);
    closeStep(*walk_, scopes);
    line(step, to + " = " + target + ";");
    loadPack(load, "if (" + i + " + 1 < " + sizeText(k_.axes[walked].extent) + ") " + target, step,
             " + " + sizeText(stride.size));
    return true;
  }

  // Prefetches all packs and edges of a row, each load into its own array.
  void readEdged(Scope& home, const std::vector<std::pair<NodeId, std::string>>& loads) {
    Scope row = Scope::within(home);
    beginEdges(row);
    std::deque<Scope> scopes;
    Scope& step = openStep(row, scopes);
    for (const auto& [load, array] : loads) loadPack(load, packOfStep(array, false, step), step);
    closeStep(row, scopes);
    append(home, row);
  }

  // Follows the current row, after its values have been taken from the prefetch arrays.
  void readNextRow(Scope& home) {
    if (nextRow_.empty()) return;
    const std::string i = axisText(nest_->walked[0]), next = "next_" + i;
    line(home, "if (" + i + " + 1 < " + sizeText(k_.axes[nest_->walked[0]].extent) + ") {");
    line(home, "  const " + index_ + " " + next + " = " + i + " + 1;");
    line(home, "  {");
    Scope inside = Scope::within(home);
    line(inside, "  const " + index_ + " " + i + " = " + next + ";");
    readEdged(inside, std::exchange(nextRow_, {}));
    append(home, inside);
    line(home, "  }");
    line(home, "}");
  }

  const RowNest& row_;
  const RowSchedule& schedule_;
  const RowThreads sharing_;
  const RowLoops loops_;
  AxisId along_;     // the last axis of the row
  std::string lane_; // of a pack's elements
  AxisSet rowBound_ = 0;
  std::deque<Pass> passes_; // an inner one while an outer is open
  std::unordered_map<uint32_t, Kept> kept_;
  std::unordered_map<uint32_t, std::string> passLoads_; // of the pass that is being opened: their arrays
  std::vector<std::pair<NodeId, std::string>> nextRow_; // prefetches of edged rows, and their arrays
  bool afterRowPass_ = false, rowPassSeen_ = false;
  std::optional<int> shared_; // bytes of dynamic shared memory in use, once there are any
  Scope* walk_ = nullptr;     // around the walked rows
};

} // namespace

void printRows(const Kernel& k, const Nest& nest, int threads, const RowSchedule& rows, KernelText& out,
               Emitter::Scope& top) {
  const NestPlan plan = planForThreads(k, nest);
  const RowNest row = *rowNestOf(k, nest, plan, rows.edged);
  RowEmitter(k, out, threads, row, rows).print(nest, plan, top);
  if (rows.cluster > 1) line(top, "dtc_cluster_end(); // the other blocks read this one's shared memory");
}

} // namespace dtc
