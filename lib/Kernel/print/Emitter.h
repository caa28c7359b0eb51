#pragma once
// The part that both printers share: from nests and their plans to the statements of a kernel.
#include "dtc/Kernel/schedule/Schedule.h"
#include "print/Text.h"
#include <deque>
#include <unordered_map>

namespace dtc {

// A kernel that is being printed, nest by nest.
struct KernelText {
  PrintedKernel printed;
  std::string unitsBefore;                    // the number of units of the nests so far
  std::unordered_map<std::string, int> names; // with this beginning
  int reductions = 0;                         // across the threads of several warps
};

// One emitter prints nests for one target. A node is printed in the outermost scope where its axes are bound,
// at its first use, once; so statements are hoisted and in order.
class Emitter {
public:
  using NodeId = loops::NodeId;
  using AffineId = loops::AffineId;
  using AxisId = loops::AxisId;
  using AxisSet = loops::AxisSet;
  struct Value {
    std::string text;
    bool vector = false; // of lanes
    bool atom = true;    // needs no parentheses
  };
  struct Scope : Text {
    Scope* parent = nullptr;
    AxisSet bound = 0;        // axes with a value here
    int vector = -1;          // the axis of the lanes, or -1
    std::vector<AxisId> axes; // of the loop whose innermost body this scope is
    std::string close;        // the end of its loop
    std::unordered_map<uint32_t, Value> names;
    [[nodiscard]] static Scope within(Scope& parent) { // in braces
      Scope s;
      s.parent = &parent, s.bound = parent.bound, s.indent = parent.indent + 1;
      return s;
    }
  };

  Emitter(const loops::Kernel& k, KernelText& out) : k_(k), out_(out) {}
  virtual ~Emitter() = default;

  void begin(const loops::Nest& nest); // the nodes that are emitted next are those of `nest`
  Value emit(NodeId n, Scope& s);
  // An index as text, optionally without the terms that differ by lane. Nodes in it are printed in `s` first.
  std::string affineText(AffineId a, Scope& s, bool scalarOnly = false);
  [[nodiscard]] std::string axisText(AxisId a) const {
    return axisName(a) + (firstOfPack_ == a ? "_at" : "");
  }
  [[nodiscard]] std::string splat(const Value& v, DType type, bool wanted) const; // in lanes where `wanted`
  [[nodiscard]] virtual int lanes() const = 0;                                    // 1: no vectors
  [[nodiscard]] virtual std::string vectorType(DType d) const { return typeText(d); }

protected:
  Value compute(NodeId n, Scope& s);
  Value callText(const loops::Node& node, Scope& s, bool vector);
  bool inLanes(const loops::AffineTerm& t, const Scope& s) const;
  Value indexValue(AffineId a, Scope& s);
  std::string bufferText(uint32_t b) const { return dtc::bufferText(k_, b); }
  std::string fresh(const std::string& base) { return base + std::to_string(out_.names[base]++); }
  static std::string wrapped(const Value& v) { return v.atom ? v.text : "(" + v.text + ")"; }

  // The plan's units, and the loops inside of them.
  [[nodiscard]] bool blocked(AxisId a) const { return plan_.blocked && *plan_.blocked == a; }
  [[nodiscard]] std::string countOf(AxisId a) const; // the number of units along the axis
  [[nodiscard]] std::string unitsText() const;       // their number
  [[nodiscard]] virtual std::string bound(AxisId a, bool last) const;

  // The loops around a nest's stores and reductions, with the values computed in each.
  Value emitReduce(NodeId n, Scope& home);
  void emitArg(NodeId n, Scope& home, const std::vector<AxisId>& axes);
  std::string firstOfThreads(const loops::Node& node, DType type, const std::string& best,
                             const std::string& at, Scope& home);
  std::vector<NodeId> groupOf(NodeId n, const Scope& home);
  void emitStores(const loops::Nest& nest, Scope& rows);
  virtual void emitUnit(const loops::Nest& nest, Scope& unit); // its stores, row by row where it walks them
  void emitColumn(const loops::Store& store, Scope& body);     // where columns are fused with rows
  std::vector<AxisId> laneAxes(std::vector<AxisId> axes, std::span<const NodeId> roots,
                               const Scope& rows) const;
  void emitStoreLoop(const loops::Nest& nest, std::span<const loops::Store* const> stores,
                     std::vector<AxisId> axes, bool last, Scope& rows);
  // Scans over the iterations of the loops around `body`: declared before them, updated in them.
  void emitRunning(std::span<const loops::Store* const> stores, Scope& rows, Scope& body);
  void emitSort(const loops::Nest& nest, Scope& row);
  std::string bufferAt(uint32_t buffer, AffineId at, Scope& s) {
    return pointerText(k_, buffer, affineText(at, s));
  }
  // Opens loops over `axes` in `home` (deque: addresses stay), the cooperative one, if any, innermost.
  Scope& openLoops(Scope& home, std::vector<AxisId> axes, std::optional<AxisId> lanes,
                   std::deque<Scope>& scopes);
  static void closeLoops(std::deque<Scope>& scopes);
  // The loops of a reduction or of stores, which need `roots` per element; a target may have loops of its
  // own.
  virtual Scope& openPass(Scope& home, const std::vector<AxisId>& axes, std::optional<AxisId> lanes,
                          std::span<const NodeId>, std::deque<Scope>& scopes) {
    return openLoops(home, axes, lanes, scopes);
  }
  virtual void closePass(Scope&, std::deque<Scope>& scopes) { closeLoops(scopes); }
  // Single-pass sums relative to a value c that is known only after the pass:
  // - of exp(x - c), c a function of the max x: each lane sums exp(x - the lane's max so far), and multiplies
  // by the correction when c is known (Milakov and Gimelshein 2018);
  // - of (x - c)^2, c a function of the sum of x: each lane sums about the mean of its own elements (Welford
  // 1962), and shifts to c when that is known (Chan, Golub and LeVeque 1979).
  struct OnlineSum {
    NodeId node;
    size_t of = 0;            // of the group: the max, or the sum of x
    std::string sum, present; // of a lane; whether the row has elements
    bool squares = false;
    NodeId relativeTo; // c
  };
  virtual std::vector<OnlineSum> onlineSums(const std::vector<NodeId>&, Scope&) { return {}; }
  void finishOnline(const OnlineSum& s, const std::string& laneMax, Scope& home);

  // --- target-specific parts ---
  virtual std::string indexType() const { return "i64"; }
  virtual std::string serialLoop(AxisId a);    // "for (…) {"
  virtual std::string lanesLoop(AxisId a) = 0; // for a cooperative axis inside of a row
  virtual std::string lanesClose() const { return "}"; }
  virtual bool cooperative() const = 0; // whether loops inside of a row may be spread over lanes
  // The function that replaces a call whose result is a narrow float, or "".
  virtual std::string nearFunction(const loops::Node&) const { return ""; }
  virtual Value loadText(const loops::Node& node, Scope& s, bool vector) = 0;
  virtual void storeText(const loops::Store& store, Scope& s) = 0;
  // True if columns begin with the identity, not with the first row's values.
  virtual bool columnsBegin() const { return false; }
  virtual std::string columnVariable(const loops::Store& store, Scope& body);
  // `body`: the innermost of the loops of a reduction that was just opened.
  virtual void enterReduce(Scope&) {}
  // `body`: the innermost of the loops around stores that were just opened; `last`: no loop over the row
  // comes after it.
  virtual void enterStores(Scope&, bool) {}
  virtual void betweenStores(Scope&) {} // of one nest that is in order
  // "dtc_…<…", to which (keys, order, stride, n are added
  virtual std::string sortCall(const loops::SortRow& sort) = 0;
  virtual std::string sortScratch() const { return ""; }
  // "dtc_…sort_", to which "counts" or "digit" is added
  [[nodiscard]] virtual std::string sortDigitCall() const = 0;
  virtual std::string keepText(const std::string& x, const std::string&) const {
    return x;
  } // or the identity
  // Of the lanes of a loop in `home`.
  virtual std::string acrossLanes(loops::ReduceKind kind, const std::string& acc) = 0;
  virtual std::optional<Value> cached(NodeId, Scope&) { return std::nullopt; }
  virtual void computed(NodeId, Scope&, const Value&) {}

  const loops::Kernel& k_;
  KernelText& out_;
  const loops::Nest* nest_ = nullptr;
  loops::NestPlan plan_; // of the current nest
  // its coordinate is that of the first element that a thread processes at once
  std::optional<AxisId> firstOfPack_;
  std::optional<AxisId> atZero_;   // its coordinate is omitted from addresses
  std::vector<uint32_t> uses_;     // by node, in the current nest
  std::vector<int> level_;         // of reductions: nesting depth
  std::vector<NodeId> reductions_; // of the current nest, arguments first
};

} // namespace dtc
