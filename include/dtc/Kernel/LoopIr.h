#pragma once
// The loop IR of one kernel: axes, a hash-consed graph of expressions over them, and nests of stores. An
// expression is not tied to a loop: where it is computed follows from the axes that it depends on, so
// hoisting, sharing and stages need no passes. lib/Kernel's lowering builds it from a region, Schedule.h
// transforms it, the printers print it.
#include "dtc/Support/DType.h"
#include "dtc/Support/Id.h"
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace dtc::loops {

using NodeId = Id<struct LoopNodeTag>;
using AffineId = Id<struct AffineTag>;
using AxisId = uint16_t;
using AxisSet = uint64_t; // a bit per axis
inline constexpr size_t kMaxAxes = 64;

// number * product of size arguments (sorted, repeats kept): an extent, a stride.
struct Size {
  int64_t number = 1;
  std::vector<uint32_t> args = {};
  [[nodiscard]] bool isStatic() const { return args.empty(); }
  [[nodiscard]] bool is(int64_t v) const { return args.empty() && number == v; }
  friend bool operator==(const Size&, const Size&) = default;
  friend auto operator<=>(const Size&, const Size&) = default;
};
[[nodiscard]] Size operator*(const Size& a,
                             // dims are below 2^31 and a tensor below 2^63 bytes: no overflow
                             const Size& b);

// How an axis is executed. Grid: split over the device's cores (CPU) or blocks (CUDA); Block: a run of one
// grid unit; Vector: the lanes of one CPU vector; Thread: spread over the threads of a CUDA block; Serial: a
// loop; Reduce: a reduction loop.
enum class AxisRole : uint8_t { Serial, Grid, Block, Thread, Vector, Reduce };

struct Axis {
  Size extent;
  AxisRole role = AxisRole::Serial;
};

// A sum of terms size * variable, variable an axis, an index computed by a node, or nothing (a constant).
struct AffineTerm {
  enum Kind : uint8_t { One, OfAxis, OfNode } kind = One;
  uint32_t id = 0; // of the axis or node
  Size coefficient;
  friend bool operator==(const AffineTerm&, const AffineTerm&) = default;
};
struct Affine {
  std::vector<AffineTerm> terms; // sorted by (kind, id, arguments), without zeros
  friend bool operator==(const Affine&, const Affine&) = default;
};

enum class ReduceKind : uint8_t { Sum, Prod, Max, Min, Any, All, LogAddExp, ArgMax, ArgMin, Last };

enum class NodeKind : uint8_t {
  Number,   // a constant: `number` (floats) or `integer`
  Index,    // `affine` as an i64
  FloorDiv, // args[0] / divisor, of i64 with a positive constant divisor
  Mod,      // args[0] - divisor * floor(args[0] / divisor)
  Load,     // buffer[affine]; args[0], if any, is a bool: false reads 0 instead
  Call,     // dtc_<function>(args…); with `function` "convert": to the dtype `target`
  // args[0] combined over `axes`, in order; ArgMax, ArgMin, Last (where it holds): the coordinate (i32) along
  // the first axis, or -1
  Reduce,
  // args[0] combined over the iterations so far of axes[0], an ordered axis that it depends on; `integer` 1:
  // excluding this one; args[1], if any, is the initial value
  Running,
};

struct Node {
  NodeKind kind = NodeKind::Number;
  DType type = DType::F32; // the dtype of the computation: bool, an integer type, f32 or f64
  DType target = DType::
      // of convert and bitcast: the (perhaps narrow) dtype of the result; of a call: narrow where lower
      // precision is allowed
      F32;
  DType source = DType::F32; // of bitcast: the dtype whose bits are meant
  ReduceKind reduce = ReduceKind::Sum;
  uint32_t buffer = 0;
  double number = 0;
  int64_t integer = 0; // Number of bool and integers; divisor of FloorDiv and Mod
  AffineId affine;
  std::string function;
  std::vector<NodeId> args;
  std::vector<AxisId> axes;
  friend bool operator==(const Node&, const Node&);
};

struct Store {
  uint32_t buffer = 0;
  AffineId address;
  NodeId value;
  NodeId when = {}; // a bool, or invalid: always
  std::string combine =
      {}; // the intrinsic that combines the present element with the value; "": the value alone
  std::optional<uint32_t> copied = {}; // skipped where this input is in the output's memory
};

// The sorted order of a row's elements, as indices: NaN is the max, the sort is stable.
struct SortRow {
  uint32_t keys = 0, indices = 0; // buffers
  AffineId keysAt, indicesAt;     // the offset of the row
  Size stride, extent;            // of the row in both
  bool descending = false;
};

// A pass of a radix sort over a tile of a row: the histogram of a byte of the keys, or (with `upto`) its
// elements moved to their positions in the order of that byte (lib/Ops/scan/SortDigits.cpp).
struct SortDigit {
  uint32_t keys = 0, result = 0; // buffers
  std::optional<uint32_t> upto;
  AffineId keysAt, uptoAt, resultAt; // the offset of the row; of counts, that of the tile
  AffineId tile;
  int64_t extent = 0; // of the row
  int digit = 0;
  bool descending = false;
};

// Loops around stores that share their outer axes. `domain` lists all axes of the fullest store, outermost
// first.
struct Nest {
  std::vector<AxisId> domain;
  std::vector<Store> stores;
  // Axes that one unit walks around its rows, outermost first: the rows of a part. A reduction over exactly
  // these is a column's: the value of a store, updated with each row (Schedule.h, walkRows).
  std::vector<AxisId> walked;
  AxisSet ordered = 0; // axes that are walked in order, one iteration after the other; the stores then too
  // The row, or the tile of one, at each point of the domain; there are no stores.
  std::optional<SortRow> sort;
  std::optional<SortDigit> sortDigit;
  [[nodiscard]] bool sorts() const { return sort || sortDigit; }
};

// A nest that is softmax(scores) times values, the scores being products of queries and keys: one kernel that
// walks over the keys once, tile by tile, and never materializes all scores (lib/Kernel/match/Attention.h
// matches it).
struct Attention {
  std::vector<AxisId> grid;    // each a loop around it, outermost first
  std::optional<AxisId> row;   // of the queries; none: there is only one
  AxisId key = 0, depth = 0;   // of the keys, and of the contraction of a query and a key
  std::optional<AxisId> width; // of a value and of the result; none: one element
  NodeId query;                // over grid, row, depth
  NodeId keys, values;         // plain loads, over grid, key, depth and grid, key, width
  NodeId product;              // the sum of their products, which `score` uses
  NodeId score;                // over grid, row, key
  std::vector<AffineId> begins,
      // over grid, row: the row attends to keys from the max of the lower to the min of the upper bounds
      ends;                  // over grid,
  AffineId keysAt, valuesAt; // the loads' addresses at key 0 and depth or width 0
  AffineId queryAt;          // the same for the query, where it is a plain load
  AffineId resultAt;         // and for the result, where its rows are strided
  bool lse = false;          // a second store takes the log of each row's sum of exponentials
  bool parts = false;        // for results rounded to the operands' dtype: weights may be rounded to it, too
};

// A nest that multiplies rows by the matrix of the group that each belongs to, or (gathered) computes a
// matrix product for each group over its rows: lib/Kernel/device/grouped_block.h processes it tile by tile.
// Numbers of buffers; -1: the shard is the whole dim.
struct GroupedProduct {
  bool gathered = false;
  uint32_t x = 0, w = 0, ends = 0, y = 0;
  int32_t firstRow = -1, firstGroup = -1;
  Size rows, depth, width, groups, numEnds;
};

// A concatenation as one kernel without nests: `outer` rows that consist of one run of each part, `run` times
// `inner` elements, inner a product of arguments. A part is a buffer that holds its runs of all rows.
struct Joined {
  struct Part {
    uint32_t buffer = 0;
    int64_t run = 0;
  };
  Size outer, inner;
  std::vector<Part> parts;
};

// The gradient of attention as one kernel without nests: q, k, v, lse, delta, dy are buffers by number; the
// results are dq, dk, dv, or the mask's gradient (lib/Kernel/match/AttentionGradient.h). lse and delta are
// contiguous and row-major ([batch, heads, rows]).
struct AttentionGradient {
  // A tensor as rows of contiguous elements, in elements of its buffer.
  struct Rows {
    std::vector<Size> offset; // their sum
    Size batch, head, row;    // strides; 0 for a dim of one element
    friend bool operator==(const Rows&, const Rows&) = default;
  };
  Size batch, heads, keyHeads, rows, keys;
  int64_t depth = 0, width = 0;
  bool causal = false;
  int64_t window = 0; // 0: none
  double scale = 1;
  uint32_t operands[6] = {}; // q, k, v, lse, delta, or y if the kernel computes delta from it, and dy
  bool ofResult = false;     // it does
  Rows q, k, v, y, dy, dq, dk, dv;
  int32_t mask = -1;        // a buffer, or -1
  Size maskStrides[4];      // along batch, heads, rows, keys; 0 repeats
  int32_t offset = -1;      // a buffer of one number: the offset of the rows; or -1
  int64_t offsetNumber = 0; // else this
  bool ofMask =
      false; // the result is the mask's gradient: summed along its dims with stride 0, batch and heads only
};

struct Buffer {
  DType dtype = DType::F32;
  bool output = false;
};

class Kernel {
public:
  std::vector<Buffer> buffers;
  uint32_t numInputs = 0, numSizes = 0;
  std::vector<Axis> axes;
  std::vector<Nest> nests;
  std::optional<Attention> attention;                 // what nests[0], then the only one, is
  std::optional<GroupedProduct> grouped;              // likewise; only for the CUDA form
  std::optional<AttentionGradient> attentionGradient; // there are no nests
  std::optional<Joined> joined;                       // the same
  bool fixedOrder =
      false;            // each element's reductions are sequential, by one lane: the same bits for all sizes
  bool inOrder = false; // an op's own stores (OpRecord::stores): only axes are joined

  [[nodiscard]] const Node& operator[](NodeId n) const { return nodes_[n.index]; }
  [[nodiscard]] const Affine& operator[](AffineId a) const { return affines_[a.index]; }
  [[nodiscard]] size_t numNodes() const { return nodes_.size(); }
  [[nodiscard]] AxisSet dependsOn(NodeId n) const { return deps_[n.index]; } // its free axes
  [[nodiscard]] AxisSet dependsOn(AffineId a) const;

  NodeId add(Node n); // returns the existing node where there is one
  AffineId add(Affine a);
  AxisId addAxis(Size extent, AxisRole role = AxisRole::Serial);

  // --- affine arithmetic; all results are interned and canonical ---
  AffineId constant(int64_t v);
  AffineId size(const Size& s);
  AffineId axis(AxisId a);
  AffineId ofNode(NodeId i64); // the node's affine form where it is an Index
  AffineId sum(AffineId a, AffineId b);
  AffineId scaled(AffineId a, const Size& by);
  // floor(a / divisor) and the rest, divisor > 0: exact where the terms split into multiples and a rest below
  // the divisor, otherwise a node.
  AffineId floorDiv(AffineId a, int64_t divisor);
  AffineId mod(AffineId a, int64_t divisor);
  // The same by a size that may be an argument. 0 is the size of a tensor without elements, whose index is
  // never evaluated.
  AffineId floorDiv(AffineId a, const Size& divisor);
  AffineId mod(AffineId a, const Size& divisor);
  // Min and max value where every axis in it is static, and every node in it is a quotient or a rest of such.
  struct Range {
    bool known = false;
    int64_t min = 0, max = 0;
  };
  [[nodiscard]] Range rangeOf(AffineId a) const;
  [[nodiscard]] Range rangeOf(NodeId n) const;

  // --- nodes, with the simplifications that keep the text short ---
  NodeId number(double v, DType type);
  NodeId integer(int64_t v, DType type);
  NodeId index(AffineId a);
  NodeId call(std::string function, DType type, std::vector<NodeId> args);
  NodeId convert(NodeId x, DType to); // to any dtype; the node's type is the one in which `to` is computed
  NodeId load(uint32_t buffer, AffineId address, NodeId guard);

  // The coefficient of an axis in an affine form; {0} where it does not occur. `mixed`: several terms
  // (different size arguments) or inside a node.
  struct Stride {
    Size size{0, {}};
    bool mixed = false;
  };
  [[nodiscard]] Stride strideOf(AffineId a, AxisId axis) const;

private:
  std::vector<Node> nodes_;
  std::vector<AxisSet> deps_;
  std::vector<Affine> affines_;
  std::unordered_multimap<size_t, uint32_t> nodesByHash_, affinesByHash_;
  AffineId rejoined(AffineId a);
  [[nodiscard]] bool splitTerms(AffineId a, int64_t divisor, Affine& quotient, Affine& rest);
  void splitTerms(AffineId a, const Size& divisor, Affine& quotient, Affine& rest) const;
  [[nodiscard]] bool staysBelow(const Affine& rest, const Size& bound) const;
  // A node that is floor(number / divisor) or, with `rest`, the remainder.
  struct Division {
    NodeId number;
    Size divisor;
    bool rest = false;
  };
  [[nodiscard]] std::optional<Division> divisionOf(NodeId n) const;
};

// The dtype in which values of a dtype are computed: f32 for the narrow floats.
[[nodiscard]] inline DType computeType(DType d) { return accumulationType(d); }

} // namespace dtc::loops
