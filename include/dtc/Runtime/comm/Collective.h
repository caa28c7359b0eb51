#pragma once
// The plan of a collective, computed once at load time: groups of devices, and for each member the strided
// blocks that it receives from each other member. Communicators execute it.
#include "dtc/IR/DevicePrograms.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/Sharding/CommDType.h"
#include "dtc/Support/Result.h"
#include <string>
#include <vector>

namespace dtc {

// The attributes and local shapes of a collective op; shapes are those of each device's shard.
struct CollectiveSpec {
  CollectiveKind kind = CollectiveKind::AllReduce;
  DType dtype = DType::F32;
  DType commDType = DType::F32;      // the communication dtype (Sharding/CommDType.h)
  std::vector<DType> dtypes;         // P2p: by operand; empty: all are `dtype`
  PendingKind op = PendingKind::Sum; // AllReduce, ReduceScatter
  std::vector<AxisRef> axes;         // major to minor
  // P2p: the devices that wait for each other, by device (rendezvousOf); empty: those of a group along `axes`.
  std::vector<std::vector<int64_t>> groups;
  size_t dim = 0;             // AllGather, AllSlice, ReduceScatter; AllToAll: the dim that is split
  size_t concatDim = 0;       // AllToAll
  int64_t root = 0;           // BroadcastFrom
  std::vector<P2pSend> sends; // Permute (operand 0), P2p
  // operandShapes[operand][device], resultShapes[result][device]
  std::vector<std::vector<std::vector<int64_t>>> operandShapes, resultShapes;
};

// A strided block: `slabs` x `rows` x `length` elements; strides and offsets in elements.
struct BlockCopy {
  uint32_t from = 0;    // the member whose operand is read
  uint32_t operand = 0; // index of the operand read and the result written
  int64_t source = 0, target = 0;
  int64_t slabs = 1, sourceSlab = 0, targetSlab = 0;
  int64_t rows = 1, sourceRow = 0, targetRow = 0;
  int64_t length = 0;
  [[nodiscard]] int64_t elements() const { return slabs * rows * length; }
};

struct CollectiveMember {
  std::vector<BlockCopy> blocks; // blocks copied to its results; ReduceScatter: one per member, to be reduced
  std::vector<uint32_t> zeroResults; // results filled with zeros
  std::vector<int64_t> resultElements;
  int64_t sentBytes =
      0; // lower bound of bytes sent by this device (ring or direct exchange), in the communication dtype
};

struct CollectiveGroup {
  std::vector<int64_t> coordinates; // in the order of the axes
  std::vector<CollectiveMember> members;
};

struct CollectivePlan {
  CollectiveKind kind = CollectiveKind::AllReduce;
  DType dtype = DType::F32, commDType = DType::F32;
  PendingKind op = PendingKind::Sum;
  size_t numOperands = 1;
  std::vector<int64_t> widths; // element size in bytes, by operand
  std::string where; // source location of the op, for errors: "gpt.dt:12: 'all_reduce'"; may be empty
  std::vector<CollectiveGroup> groups;
  std::vector<uint32_t> groupOf, memberOf; // by device
  bool host = false;                       // of the operands of a host op, to memory of the host
  // Whether values are rounded to a narrower communication dtype.
  [[nodiscard]] bool rounds() const;
  // Whether it needs a rendezvous; false for AllSlice and groups of one device.
  [[nodiscard]] bool synchronizes() const;
};

// Error (Input): inconsistent shard shapes, or an index outside its axes; the message does not name the op.
[[nodiscard]] Result<CollectivePlan> planCollective(const CollectiveSpec& spec, const Mesh& mesh);

// Reads the op's attributes and shapes on all devices of the mesh. Error (Input): as above, or an unbound
// size.
[[nodiscard]] Result<CollectiveSpec> collectiveSpec(Module& m, OpId op, const Mesh& mesh);

// The value of an `axes` attribute: a list of axes and sub-axes, in the mesh's canonical form.
[[nodiscard]] std::vector<AxisRef> axesOfAttr(const Module& m, AttrId id, const Mesh& mesh);

} // namespace dtc
