#pragma once
// Who sends what to whom in one collective, worked out once when a program is loaded: groups of places, and for every
// member the strided blocks that it gets from each other. Communicators only carry it out.
#include "dtc/IR/Module.h"
#include "dtc/Sharding/Wire.h"
#include "dtc/Support/Result.h"
#include <string>
#include <vector>

namespace dtc {

enum class CollectiveKind : uint8_t {
  AllReduce,
  AllGather,
  AllSlice, // moves nothing between devices
  ReduceScatter,
  AllToAll,
  Permute,
  BroadcastFrom,
  P2p,
};
[[nodiscard]] std::optional<CollectiveKind>
parseCollectiveKind(std::string_view opName); // "all_reduce", or "…_start"
[[nodiscard]] std::string_view collectiveName(CollectiveKind);

// A collective as its op says it; shapes are of one place each (local, real piece sizes).
struct CollectiveSpec {
  CollectiveKind kind = CollectiveKind::AllReduce;
  DType dtype = DType::F32;
  DType wire = DType::F32;           // the dtype on the wire (Sharding/Wire.h)
  std::vector<DType> dtypes;         // P2p: of each operand; empty: all are of `dtype`
  PendingKind op = PendingKind::Sum; // of AllReduce, ReduceScatter
  std::vector<AxisRef> axes;         // major to minor
  size_t dim = 0;                    // AllGather, AllSlice, ReduceScatter; AllToAll: the dim that is split
  size_t concatDim = 0;              // AllToAll
  int64_t root = 0;                  // BroadcastFrom
  struct Send {
    size_t operand = 0;
    int64_t from = 0, to = 0; // indices along `axes`
  };
  std::vector<Send> sends; // Permute (operand 0), P2p
  // operandShapes[k][place], resultShapes[k][place]
  std::vector<std::vector<std::vector<int64_t>>> operandShapes, resultShapes;
};

// `length` elements, `rows` times, `slabs` times; strides and offsets in elements.
struct BlockCopy {
  uint32_t from = 0;    // member whose operand is read
  uint32_t operand = 0; // which operand, and which result is written
  int64_t source = 0, target = 0;
  int64_t slabs = 1, sourceSlab = 0, targetSlab = 0;
  int64_t rows = 1, sourceRow = 0, targetRow = 0;
  int64_t length = 0;
  [[nodiscard]] int64_t elements() const { return slabs * rows * length; }
};

struct CollectiveMember {
  std::vector<BlockCopy>
      blocks; // what goes into its results; of ReduceScatter: one per member, to be combined
  std::vector<uint32_t> zeroResults; // results that no block fills
  std::vector<int64_t> resultElements;
  int64_t sentBytes = 0; // what this device must send at least (a ring's or a direct exchange's), on the wire
};

struct CollectiveGroup {
  std::vector<int64_t> places; // in order of their index along the axes
  std::vector<CollectiveMember> members;
};

struct CollectivePlan {
  CollectiveKind kind = CollectiveKind::AllReduce;
  DType dtype = DType::F32, wire = DType::F32;
  PendingKind op = PendingKind::Sum;
  size_t numOperands = 1;
  std::vector<int64_t> widths; // by operand: bytes of an element
  std::string where; // the op in the program's text, for errors: "gpt.dt:12: 'all_reduce'"; may be empty
  std::vector<CollectiveGroup> groups;
  std::vector<uint32_t> groupOf, memberOf; // by place
  // Are values rounded to a narrower float for the way?
  [[nodiscard]] bool rounds() const;
  // False: each device does its share without the others (AllSlice, groups of one).
  [[nodiscard]] bool meets() const;
};

// Errors (Input): pieces that do not fit together, an index out of its axes' range; the message names no op.
[[nodiscard]] Result<CollectivePlan> planCollective(const CollectiveSpec& spec, const Mesh& mesh);

// What the op says, on every place of the mesh. Errors (Input) as above, and for what is not bound yet.
[[nodiscard]] Result<CollectiveSpec> collectiveSpec(Module& m, OpId op, const Mesh& mesh);

// The value of an `axes` attribute: a list of axes and sub-axes, in the mesh's canonical form.
[[nodiscard]] std::vector<AxisRef> axesOfAttr(const Module& m, AttrId id, const Mesh& mesh);

} // namespace dtc
