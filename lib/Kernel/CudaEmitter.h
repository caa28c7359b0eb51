#pragma once
// The printer of CUDA text (private to lib/Kernel).
#include "ColumnSchedule.h"
#include "CudaPlan.h"
#include "Emit.h"
#include "RowSchedule.h"
#include "ScanSchedule.h"
#include <algorithm>

namespace dtc {

class CudaEmitter final : public Emitter {
public:
  using Kernel = loops::Kernel;
  using Nest = loops::Nest;
  using Node = loops::Node;
  using Store = loops::Store;
  // `rows`: how each nest walks its rows; nothing where it has none, or where they are walked by plain loops.
  // `packs`: may a thread take several elements of a nest without reductions at once.
  CudaEmitter(const Kernel& k, int threads, std::vector<std::optional<RowSchedule>> rows, bool packs = true)
      : Emitter(k), packs_(packs), rows_(std::move(rows)), threads_(threads),
        index_(smallIndices(k) ? "i32" : "i64") {}
  CudaEmitter(const Kernel& k, ScanSchedule scan) : CudaEmitter(k, scan.threads, {}) {
    scan_ = std::move(scan);
  }

  PrintedKernel run();
  // The blocks of a cluster share a row that is put in order.
  CudaEmitter& shareSort(int blocks) {
    sorters_ = out_.cluster = blocks;
    return *this;
  }

private:
  // --- rows (PrintCudaRows.cpp) ---
  // A loop over the row's elements that is being printed: over steps, in each over the pack's elements.
  struct RowPass {
    Scope *home = nullptr, *step = nullptr, *element = nullptr;
    std::vector<const Store*> packed;  // stores that are done when the pack is complete
    std::vector<std::string> finished; // statements that then are due
    std::string arrays, loads; // what is read first, where the loop over the row is one over parts of it
  };
  // Where a value of each element is kept: an array of packs, one a step.
  struct Kept {
    std::string array;
    bool written = false;
  };
  bool isRowScope(const Scope& s) const { return schedule_ && s.vector < 0 && s.bound == rowBound_; }
  bool inRowPass(const Scope& s) const { return !passes_.empty() && passes_.back().element == &s; }
  Scope& openPass(Scope& home, const std::vector<AxisId>& axes, std::optional<AxisId> lanes,
                  std::span<const NodeId> roots, std::deque<Scope>& scopes) override;
  void closePass(Scope& home, std::deque<Scope>& scopes) override;
  std::vector<OnlineSum> onlineSums(const std::vector<NodeId>& group, Scope& home) override;
  std::optional<Value> cached(NodeId n, Scope& s) override;
  void computed(NodeId n, Scope& s, const Value& v) override;
  std::string acrossLanes(loops::ReduceKind kind, const std::string& acc, const Scope& home) override;
  std::string beginRow(Scope& top, Scope& row); // the condition under which the row is there, "": always
  void countRows();
  std::vector<NodeId> packsBelow(std::span<const NodeId> roots, const Scope& home) const;
  const RowValue* valueOf(NodeId n) const;
  Scope& openStep(Scope& home, std::deque<Scope>& scopes);
  void endStep(Scope& home, std::deque<Scope>& scopes);
  std::string packCoordinates(const std::string& body, int indent) const;
  std::string stepText(const std::string& body, int indent) const;
  void beginEdges(Scope& row); // RowNest::edged
  std::string edgeText(const std::string& body, int indent) const;
  std::string passText(const RowPass& pass, const std::string& all, const std::string& one, int indent) const;
  void readFirst(const std::vector<NodeId>& loads, Scope& home, RowPass& pass);
  void loadPack(NodeId load, const std::string& to, Scope& step, const std::string& further = "");
  bool loadAhead(NodeId load, const std::string& to, Scope& step); // RowSchedule::ahead
  void readEdged(Scope& home, const std::vector<std::pair<NodeId, std::string>>& loads);
  void readNextRow(Scope& home);
  std::string declareArray(NodeId n, Scope& home, bool passOnly);
  std::string arrayPlace(const std::string& array, bool shared) const;
  void nameLoads(const std::vector<NodeId>& loads, Scope& step, Scope& element);
  void beginPack(const Store& store);
  bool isPackedStore(const Store& store, const Scope& s) const;

  // --- reductions of columns, and columns beside rows (PrintCudaColumns.cpp) ---
  void printColumns(const Nest& nest, Scope& unit);
  void overColumns(Scope& home, const Scope& element);
  void loadColumns(Scope& row, Scope& element);
  std::string storeRow(const Nest& nest, Scope& row, Scope& element);
  // Is it of each element that columns reduce?
  bool columnStore(const Store& s) const { return k_.dependsOn(s.address) >> columns_->shared & 1; }
  void beginColumns(Scope& unit) override;
  void placeColumns(Scope& unit); // RowSchedule::placed
  void writePlaced(Scope& unit);
  void enterRow(Scope& row) override;
  void leaveRow(Scope& row) override;
  void endColumns(Scope& unit) override;
  bool columnsBegin() const override { return schedule_ && schedule_->columns != RowSchedule::Keep::Nothing; }
  std::string columnPlace(const Store& store, Scope& body) override;
  std::string columnName(const Store& store) const {
    return "column" + std::to_string(store.buffer - k_.numInputs);
  }

  // --- scans (PrintCudaScan.cpp) ---
  struct ScanPass;
  void printScan(Scope& top);
  void beginScan(Scope& top);
  bool scanGuarded() const;
  std::string beforeThread(loops::ReduceKind kind, const std::string& type, const std::string& name);
  void loadScan(const Nest& nest, Scope& chunk, Scope& names);
  void printRunning(NodeId running, Scope& top, Scope& chunk, Scope& names);
  void storeScan(const Nest& nest, Scope& chunk, const Scope& names);
  void openScanPass(Scope& chunk, ScanPass& pass);
  void closeScanPass(Scope& chunk, ScanPass& pass, const std::string& packsBehind);
  std::string scanLane(AffineId address) const;
  std::string scanPackAt(uint32_t buffer, AffineId address, Scope& inside);

  void printNest(const Nest& nest, Scope& top);
  int64_t flatElements(int64_t count) const;
  int64_t flatUnit(int64_t count) const { return threads_ * count; }
  std::string openPacks(int64_t count, const std::string& unit, Scope& row, Scope& pack);
  void printPacks(const Nest& nest, int64_t count, const std::string& unit, Scope& row);
  void drawPacks(const Nest& nest, int64_t count, Scope& pack, Scope& inner);
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
    if (columns_ && columns_->shared == a && columns_->down > 1)
      return "for (" + index_ + " " + i + " = down; " + i + " < " + bound(a, true) + "; " + i +
             " += " + std::to_string(columns_->down) + ") {";
    return "for (" + index_ + " " + i + " = " + bound(a, false) + "; " + i + " < " + bound(a, true) + "; ++" +
           i + ") {";
  }
  std::string lanesLoop(AxisId a) override {
    const std::string i = axisText(a), first = bound(a, false);
    return "for (" + index_ + " " + i + " = " + (first == "0" ? "" : first + " + ") + thread_ + "; " + i +
           " < " + bound(a, true) + "; " + i +
           " += " + std::to_string(schedule_ ? schedule_->perRow : threads_) + ") {";
  }
  bool dividesByExp(const Node& div) const {
    const Node& by = k_[div.args[1]];
    return by.kind == loops::NodeKind::Call && by.function == "add" &&
           std::any_of(by.args.begin(), by.args.end(), [&](NodeId a) {
             return k_[a].kind == loops::NodeKind::Call && k_[a].function == "exp";
           });
  }
  // The op's own result is rounded to a narrow float wherever it is kept: then device.h has it in few instructions, which is what
  // kernels of 2 bytes an element are short of.
  std::string nearFunction(const Node& call) const override {
    if (!isNarrowFloat(call.target) || call.type != DType::F32) return "";
    // A quotient may be a whole number, of which something else asks whether it is one: only one by a sum with exp is none.
    if (call.function == "div" && !dividesByExp(call)) return "";
    const Node& x = k_[call.args[0]];
    const bool below = call.function == "exp" && x.kind == loops::NodeKind::Call && x.function == "sub" &&
                       k_[x.args[1]].kind == loops::NodeKind::Reduce &&
                       k_[x.args[1]].reduce == loops::ReduceKind::Max;
    return "near_" + call.function + (below ? "_below" : "");
  }
  Value loadText(const Node& node, Scope& s, bool) override {
    const loops::Buffer& buffer = k_.buffers[node.buffer];
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
    const Value x = store.copied && copied.kind == loops::NodeKind::Load ? loadText(copied, s, false)
                                                                         : emit(store.value, s);
    if (isPackedStore(store, s)) beginPack(store);
    if (packing_ || isPackedStore(store, s)) {
      const std::string to = packText(store);
      return line(s, to + ".at[" + lane_ + "] = " + x.text + ";");
    }
    const std::string at = affineText(store.address, s), to = bufferText(store.buffer) + " + " + at;
    std::string value = x.text;
    if (!store.combine.empty()) value = "dtc_" + store.combine + "(dtc_load(" + to + "), " + value + ")";
    const std::string text = isNarrowFloat(dtype)
                                 ? "dtc_store(" + to + ", " + value + ");"
                                 : bufferText(store.buffer) + "[" + at + "] = " + value + ";";
    const std::string when = store.when.valid() ? wrapped(emit(store.when, s)) : "";
    // Outside of a lanes loop all threads have the value.
    const std::string one = s.vector < 0 ? thread_ + " == 0" : "";
    if (!one.empty() && mayOverwriteItsOwn(store)) line(s, barrier());
    const std::string condition = one + (one.empty() || when.empty() ? "" : " && ") + when;
    line(s, (condition.empty() ? "" : "if (" + condition + ") ") + text);
  }
  void betweenStores(Scope& rows) override {
    if (rows.vector < 0) line(rows, "__syncthreads();");
  }
  std::string sortCall(const loops::SortRow& sort) override {
    return std::string("dtc_block_sort_order<") + (sort.descending ? "true, " : "false, ") +
           std::to_string(threads_) + ", " + std::to_string(sortRoom(k_, sort)) + ", " +
           std::to_string(sorters_) + ">";
  }
  std::string sortDigitCall() const override { return "dtc_block_sort_"; }
  std::string barrier() const; // of the threads of a row

  // All threads read such an input, and one writes: in place, it must be the last.
  bool mayOverwriteItsOwn(const Store& store) const {
    bool found = false;
    loops::forEachNode(k_, rootsOf(k_, *nest_), [&](NodeId n) {
      found |= k_[n].kind == loops::NodeKind::Load && k_[n].affine == store.address &&
               k_.buffers[k_[n].buffer].dtype == k_.buffers[store.buffer].dtype;
    });
    return found;
  }

  std::string packText(const Store& store) const {
    return "packed" + std::to_string(&store - nest_->stores.data());
  }
  // A pack of what is stored, as computed (narrow floats: in f32), and what of it goes to memory.
  std::string packType(const Store& store, int64_t n) const {
    const DType dtype = k_.buffers[store.buffer].dtype;
    return "dtc_pack<" + typeText(isNarrowFloat(dtype) ? DType::F32 : dtype) + ", " + std::to_string(n) + ">";
  }
  std::string packResult(const Store& store) const {
    const DType dtype = k_.buffers[store.buffer].dtype;
    if (!isNarrowFloat(dtype)) return packText(store);
    return "dtc_round_pack<" + typeText(dtype) + ">(" + packText(store) + ")";
  }
  // Element `lane` of a pack that was loaded, to compute with.
  static std::string laneText(DType dtype, const std::string& pack, const std::string& lane) {
    return isNarrowFloat(dtype) ? "dtc_lane(" + pack + ", " + lane + ")" : pack + ".at[" + lane + "]";
  }

  bool packs_;
  std::vector<std::optional<RowSchedule>> rows_; // by nest
  std::optional<RowSchedule> schedule_;          // of the present nest
  std::optional<RowNest> row_;
  AxisSet rowBound_ = 0;
  std::deque<RowPass> passes_; // an inner one while an outer is open
  std::unordered_map<uint32_t, Kept> kept_;
  std::unordered_map<uint32_t, std::string> passLoads_; // of the pass that is being opened
  std::vector<std::pair<NodeId, std::string>> nextRow_; // what is read ahead of edged rows, and to where
  bool afterRowPass_ = false, rowPassSeen_ = false;
  int reductionsAcross_ = 0;
  std::string lane_ = "lane";          // of a pack's elements
  std::string thread_ = "threadIdx.x"; // among those of a row
  bool apart_ = false;                 // a thread's elements lie a warp apart (apartOf)
  bool packing_ = false;               // stores go to the pack of a thread
  std::string behindPacks_;            // where the elements begin that no pack takes
  int threads_;
  std::string index_;                     // the type of loop variables and addresses
  Scope* walk_ = nullptr;                 // around the rows that are walked
  std::optional<ColumnSchedule> columns_; // of the present nest
  std::optional<ScanSchedule> scan_;      // of the only nest, a scan
  int sorters_ = 1;                       // blocks that share a row that is sorted
  loops::NestPlan plan_;
  PrintedKernel out_;
  std::string unitsBefore_;
};

} // namespace dtc
