#pragma once
// Executes a collective of one group by NCCL: packs operands that NCCL does not support (strided or uneven
// shards, another communication dtype), makes the calls in one NCCL group, and unpacks results. Everything is
// in stream order.
#include "backend/BlockKernel.h"
#include "backend/cuda/CudaDeviceQueue.h"
#include "dtc/Cuda/Nccl.h"
#include "dtc/Runtime/comm/Collective.h"

namespace dtc {

// The representation of elements during communication.
struct NcclCommDType {
  DType type = DType::U8; // dtype of reductions; data movement transfers its bytes
  bool packs = false;     // operands are converted and packed
  bool unpacks = false;   // results are unpacked and converted back
  bool ordered = false;   // floats as integers of the same order, because NCCL's max and min drop NaN
};
[[nodiscard]] NcclCommDType ncclCommDType(const CollectivePlan& plan);

// The kernels that a collective may need, by name, and the bytes per member for packed operands (and the same
// for packed results).
[[nodiscard]] std::vector<SourceUnit> ncclKernels(const CollectivePlan& plan);
[[nodiscard]] int64_t ncclStageBytes(const CollectivePlan& plan, const CollectiveGroup& group);

class NcclExchange {
public:
  struct Buffers {
    std::span<const std::byte* const> operands; // see Communicator::share
    std::span<std::byte* const> results;
    std::vector<std::byte*> sent, received; // by member, ncclStageBytes() each
  };
  // `ranks`, and the buffers: by member; of members in other processes, not set.
  NcclExchange(const Nccl& library, CudaDeviceQueue& queue, std::vector<NcclRank> ranks,
               const CollectivePlan& plan, const CollectiveGroup& group, Buffers buffers)
      : nccl_(library), queue_(queue), ranks_(std::move(ranks)), plan_(plan), group_(group),
        comm_(ncclCommDType(plan)), buffers_(std::move(buffers)) {}
  // Enqueues the collective.
  [[nodiscard]] Status start();

private:
  [[nodiscard]] Status allReduce();
  [[nodiscard]] Status reduceScatter();
  [[nodiscard]] Status allGather();
  [[nodiscard]] Status broadcast();
  [[nodiscard]] Status moveData();
  // Calls call(member, rank, stream) for each member, in one NCCL group.
  template <class Call> [[nodiscard]] Status inGroup(const Call& call);
  [[nodiscard]] Status pack(size_t member, const BlockCopy& block, std::byte* to);
  [[nodiscard]] Status unpack(size_t member, const BlockCopy& block, const std::byte* from);
  [[nodiscard]] Status rearrange(size_t member, const BlockKernel& kernel, std::byte* to,
                                 const std::byte* from, const BlockCopy& block);
  // Whether this process runs the member.
  [[nodiscard]] bool isHere(size_t member) const { return queue_.slice().contains(coordinate(member)); }
  [[nodiscard]] size_t members() const { return group_.coordinates.size(); }
  [[nodiscard]] int64_t coordinate(size_t member) const { return group_.coordinates[member]; }
  [[nodiscard]] int64_t commBytes(const BlockCopy& b) const; // per element
  const std::byte* operand(const BlockCopy& b) const {
    return buffers_.operands[b.from * plan_.numOperands + b.operand];
  }
  std::byte* result(size_t member, const BlockCopy& b) const {
    return buffers_.results[member * plan_.numOperands + b.operand];
  }

  const Nccl& nccl_;
  CudaDeviceQueue& queue_;
  std::vector<NcclRank> ranks_;
  const CollectivePlan& plan_;
  const CollectiveGroup& group_;
  NcclCommDType comm_;
  Buffers buffers_;
};

} // namespace dtc
