#pragma once
// What both printers share: from nests and their plans to the statements of a kernel (private to lib/Kernel).
#include "dtc/Kernel/Kernel.h"
#include "dtc/Kernel/Schedule.h"
#include <deque>

namespace dtc {

struct PrintedKernel {
  std::string body; // between the braces
  SizeFormula units, unitElements, scratchBytes, blocks;
  int threadsPerBlock = 0, sharedBytes = 0, cluster = 1;
  int leastBlocks = 0; // of CUDA, that a multiprocessor is to have registers for; 0: the compiler's choice
  std::string schedule;
};

// How the CUDA form cuts an attention: rows and keys of a tile. Nothing where no tile fits shared memory or the sizes of a row
// are not known: then the loops run as they stand.
struct AttentionTile {
  int64_t rows = 0, keys = 0;
  int multiple = 0; // on tensor cores: a warp has so many times 16 rows; 0: not on them
  int split = 1;    // warps that share a tile's keys
  [[nodiscard]] int threads() const {
    return multiple ? static_cast<int>(rows) / (16 * multiple) * split * 32 : 128;
  }
};
[[nodiscard]] std::optional<AttentionTile> attentionTile(const loops::Kernel& k);

// One emitter prints one kernel for one target. A node is printed in the outermost scope where its axes are bound, at its
// first use, once; so statements come out hoisted and in order.
class Emitter {
public:
  explicit Emitter(const loops::Kernel& k) : k_(k) {}
  virtual ~Emitter() = default;

protected:
  using NodeId = loops::NodeId;
  using AffineId = loops::AffineId;
  using AxisId = loops::AxisId;
  using AxisSet = loops::AxisSet;
  struct Value {
    std::string text;
    bool vector = false; // of lanes
    bool atom = true;    // needs no parentheses
  };
  struct Scope {
    Scope* parent = nullptr;
    AxisSet bound = 0;        // axes with a value here
    int vector = -1;          // the axis in the lanes, or -1
    std::vector<AxisId> axes; // of the loop that this scope is the innermost body of
    int indent = 1;
    std::string close; // what ends its loop
    std::string text;
    std::unordered_map<uint32_t, Value> names;
  };

  Value emit(NodeId n, Scope& s);
  Value compute(NodeId n, Scope& s);
  Value callText(const loops::Node& node, Scope& s, bool vector);
  // An index as text, where asked without the terms that differ by lane. Nodes in it are printed in `s` first.
  std::string affineText(AffineId a, Scope& s, bool scalarOnly = false);
  bool inLanes(const loops::AffineTerm& t, const Scope& s) const;
  Value indexValue(AffineId a, Scope& s);
  std::string sizeText(const loops::Size& s) const;
  static std::string literalText(const loops::Node& n);
  // What an accumulator is before the first element: of a sum 0, as is a sum of no elements.
  static std::string identityText(loops::ReduceKind kind, DType type);
  // What changes no value when combined with it: of sums -0.0, as 0.0 would make 0.0 of -0.0.
  static std::string neutralText(loops::ReduceKind kind, DType type);
  static std::string typeText(DType d) { return std::string(dtypeName(d)); }
  std::string bufferText(uint32_t b) const;
  std::string axisText(AxisId a) const { return "i" + std::to_string(a) + (firstOfPack_ == a ? "_at" : ""); }
  std::string fresh(const std::string& base);
  std::string splat(const Value& v, DType type, bool wanted) const; // as a lanes value where `wanted`
  static std::string wrapped(const Value& v) { return v.atom ? v.text : "(" + v.text + ")"; }
  static void line(Scope& s, const std::string& text);
  static std::string indentText(int n) { return std::string(static_cast<size_t>(2 * n), ' '); }

  // The loops around a nest's stores and reductions, each with what is made there.
  Value emitReduce(NodeId n, Scope& home);
  std::vector<NodeId> groupOf(NodeId n, const Scope& home);
  void emitStores(const loops::Nest& nest, Scope& rows);
  // Columns beside rows (EmitColumns.cpp).
  void emitUnit(const loops::Nest& nest, Scope& unit); // its stores, row after row where it walks them
  void emitColumn(const loops::Store& store, Scope& body);
  static std::string accumulated(loops::ReduceKind kind, DType type, const std::string& acc,
                                 const std::string& x); // a statement
  static std::string combined(loops::ReduceKind kind, DType type, const std::string& a, const std::string& b);
  void emitStoreLoop(const loops::Nest& nest, std::span<const loops::Store* const> stores,
                     std::vector<AxisId> axes, bool last, Scope& rows);
  // What runs over the steps of the loops that `body` is in: declared before them, brought up to this step in them.
  void emitRunning(std::span<const loops::Store* const> stores, Scope& rows, Scope& body);
  void emitSort(const loops::Nest& nest, Scope& row);
  void emitSortRow(const loops::SortRow& sort, Scope& row);
  void emitSortDigit(const loops::SortDigit& sort, Scope& tile);
  std::string bufferAt(uint32_t buffer, AffineId at, Scope& s);
  // Opens loops over `axes` in `home` (deque: addresses stay), the cooperative one, if any, innermost.
  Scope& openLoops(Scope& home, std::vector<AxisId> axes, std::optional<AxisId> lanes,
                   std::deque<Scope>& scopes);
  static void closeLoops(Scope& home, std::deque<Scope>& scopes);
  // The loops of a reduction or of stores, which need `roots` of each element; a target may have loops of its own.
  virtual Scope& openPass(Scope& home, const std::vector<AxisId>& axes, std::optional<AxisId> lanes,
                          std::span<const NodeId> roots, std::deque<Scope>& scopes) {
    (void)roots;
    return openLoops(home, axes, lanes, scopes);
  }
  virtual void closePass(Scope& home, std::deque<Scope>& scopes) { closeLoops(home, scopes); }
  // Sums that are found in one pass with what they are relative to, c:
  // - of exp(x - c), c made of the greatest x: each lane's is of exp(x - the greatest x of the lane so far), and multiplied by what that
  //   is off when c is known (Milakov and Gimelshein 2018);
  // - of (x - c)^2, c made of the sum of x: each lane's is about the mean of its own elements (Welford 1962), and moved to c when that
  //   is known (Chan, Golub and LeVeque 1979).
  struct OnlineSum {
    NodeId node;
    size_t of = 0;            // of the group: the greatest, or the sum of x
    std::string sum, present; // of a lane; whether the row has elements
    bool squares = false;
    NodeId relativeTo; // c
  };
  virtual std::vector<OnlineSum> onlineSums(const std::vector<NodeId>& group, Scope& home) {
    (void)group, (void)home;
    return {};
  }
  void finishOnline(const OnlineSum& s, const std::string& greatest, Scope& home);
  void countUses(const loops::Nest& nest);

  // Attention (EmitAttention.cpp): a call of the device header's function, told by lambdas where everything lies. By blocks of
  // rows with the rows in `lanes` lanes, or, where `lanes` is 1, by CUDA blocks.
  void emitAttention(Scope& top, PrintedKernel& out);
  void attentionUnit(const loops::Attention& a, const std::string& number, int64_t block, Scope& unit,
                     PrintedKernel& out);
  std::string attentionLambda(const std::string& parameters, Scope& body, const std::string& result);
  std::string attentionBound(const loops::Attention& a, bool begin, Scope& unit);
  std::string attentionScore(const loops::Attention& a, Scope& unit);
  std::string attentionMatrix(NodeId load, AffineId base, AxisId row, std::optional<AxisId> column,
                              Scope& unit);
  std::string attentionElement(NodeId n, std::optional<AxisId> row, std::optional<AxisId> column,
                               Scope& unit);
  std::string attentionRows(uint32_t buffer, AffineId address, AffineId base, std::optional<AxisId> row,
                            Scope& unit);
  bool liesInRows(const loops::Attention& a, const AttentionTile& tile, uint32_t buffer, AffineId address,
                  AxisId column) const;
  std::vector<std::string> attentionOperands(const loops::Attention& a, const AttentionTile& tile,
                                             Scope& unit);
  std::string attentionStore(const loops::Attention& a, size_t number, Scope& unit);
  // A grouped product, by CUDA blocks (Grouped.cpp).
  void emitGrouped(Scope& top, PrintedKernel& out);
  void emitJoin(Scope& top, PrintedKernel& out, bool blocks); // `blocks`: the CUDA form
  std::string attentionAxis(std::optional<AxisId> a) const { return a ? axisText(*a) : "none"; }
  void emitArg(NodeId n, Scope& home, const std::vector<AxisId>& axes);
  std::string firstOfThreads(const loops::Node& node, DType type, const std::string& best,
                             const std::string& at, Scope& home);

  // --- what the targets do differently ---
  virtual int lanes() const = 0; // 1: no vectors
  virtual std::string vectorType(DType d) const { return typeText(d); }
  virtual std::string indexType() const { return "i64"; }
  virtual std::string serialLoop(AxisId a) = 0; // "for (…) {"
  virtual std::string lanesLoop(AxisId a) = 0;  // of a cooperative axis inside of a row
  virtual std::string lanesClose() const { return "}"; }
  virtual bool cooperative() const = 0; // may loops inside of a row be spread over lanes
  // The function that stands for a call whose result is a narrow float, or "".
  virtual std::string nearFunction(const loops::Node& call) const {
    (void)call;
    return "";
  }
  virtual Value loadText(const loops::Node& node, Scope& s, bool vector) = 0;
  virtual void storeText(const loops::Store& store, Scope& s) = 0;
  // Where a column's value stands while the unit walks its rows; made before the walk, and stored after it.
  virtual void beginColumns(Scope& unit) { (void)unit; }
  virtual void enterRow(Scope& row) { (void)row; }
  virtual void leaveRow(Scope& row) { (void)row; }
  virtual bool columnsBegin() const {
    return false;
  } // as what changes nothing, not as the first row's values
  virtual void endColumns(Scope& unit) { (void)unit; }
  virtual std::string columnPlace(const loops::Store& store, Scope& body);
  // `body`: the innermost of the loops of a reduction that was just opened.
  virtual void enterReduce(Scope& body) { (void)body; }
  // Between stores of one nest that is in order.
  virtual void betweenStores(Scope& rows) { (void)rows; }
  virtual std::string
  sortCall(const loops::SortRow& sort) = 0; // "dtc_…<…", to which (keys, order, stride, n are added
  virtual std::string sortScratch() const { return ""; }
  [[nodiscard]] virtual std::string
  sortDigitCall() const = 0; // "dtc_…sort_", to which "counts" or "digit" is added
  // `body`: the innermost of the loops around stores that were just opened; `last`: no loop over the row comes after it.
  virtual void enterStores(Scope& body, bool last) { (void)body, (void)last; }
  virtual std::string keepText(const std::string& x, const std::string& identity) const {
    (void)identity;
    return x;
  }
  // Of the lanes of a loop in `home`.
  virtual std::string acrossLanes(loops::ReduceKind kind, const std::string& acc, const Scope& home) = 0;
  virtual std::optional<Value> cached(NodeId n, Scope& s) {
    (void)n, (void)s;
    return std::nullopt;
  }
  virtual void computed(NodeId n, Scope& s, const Value& v) { (void)n, (void)s, (void)v; }

  const loops::Kernel& k_;
  const loops::Nest* nest_ = nullptr;
  std::unordered_map<std::string, int> freshCount_;
  std::optional<AxisId>
      firstOfPack_; // its coordinate is that of the first of the elements that a thread takes at once
  std::optional<AxisId> atZero_;   // its coordinate is left out of addresses
  std::vector<uint32_t> uses_;     // by node, in the present nest
  std::vector<int> level_;         // of reductions: how many stand below one another
  std::vector<NodeId> reductions_; // of the present nest, arguments first
};

// Do `count` neighbours along `lane` lie together, the first of them at a multiple of `count`, wherever the other axes are?
[[nodiscard]] bool liesInPacks(const loops::Kernel& k, loops::AffineId address, loops::AxisId lane,
                               int64_t count);

// Is a call dear enough to be kept from one pass over a row to the next?
bool isCostly(const std::string& function);
// Does the name stand in the text, as a whole and not as a member?
bool hasWord(const std::string& text, const std::string& word);
const char* reduceName(loops::ReduceKind kind); // "sum"
// Products of sizes as formulas.
std::vector<SizeFormula::Factor> factorsOf(const loops::Size& s);

} // namespace dtc
