#pragma once
// One group's collective as NCCL calls: operands are packed where NCCL cannot take them as they lie (strided or uneven pieces, and
// values that are something else on the wire), calls are made in one group, results unpacked. All in the order of the streams.
#include "BlockKernel.h"
#include "CudaPlaces.h"
#include "dtc/Jit/Nccl.h"
#include "dtc/Runtime/Collective.h"

namespace dtc {

// What the elements of a collective are while NCCL has them.
struct NcclWire {
  DType type = DType::U8; // of reductions; moves carry bytes of it
  bool packs = false;     // operands are turned into it
  bool unpacks = false;   // results are turned back
  bool ordered = false;   // floats as integers of the same order, because NCCL's max and min drop NaN
};
[[nodiscard]] NcclWire ncclWire(const CollectivePlan& plan);

// The kernels that a collective may need, by name, and the bytes that each member needs for packed operands (and again for
// packed results).
[[nodiscard]] std::vector<SourceUnit> ncclKernels(const CollectivePlan& plan);
[[nodiscard]] int64_t ncclStageBytes(const CollectivePlan& plan, const CollectiveGroup& group);

class NcclExchange {
public:
  struct Buffers {
    std::span<const std::byte* const> operands; // as Communicator::share has them
    std::span<std::byte* const> results;
    std::vector<std::byte*> sent, received; // by member, ncclStageBytes() each
  };
  // `ranks`: by member.
  NcclExchange(const Nccl& library, CudaPlaces& places, std::vector<NcclRank> ranks,
               const CollectivePlan& plan, const CollectiveGroup& group, Buffers buffers)
      : nccl_(library), places_(places), ranks_(std::move(ranks)), plan_(plan), group_(group),
        wire_(ncclWire(plan)), buffers_(std::move(buffers)) {}
  // Starts all of it.
  [[nodiscard]] Status start();

private:
  [[nodiscard]] Status allReduce();
  [[nodiscard]] Status reduceScatter();
  [[nodiscard]] Status allGather();
  [[nodiscard]] Status broadcast();
  [[nodiscard]] Status moves();
  // call(member, its rank, its stream) for each, as one group.
  template <class Call> [[nodiscard]] Status inGroup(const Call& call);
  [[nodiscard]] Status pack(size_t member, const BlockCopy& block, std::byte* to);
  [[nodiscard]] Status unpack(size_t member, const BlockCopy& block, const std::byte* from);
  [[nodiscard]] Status rearrange(size_t member, const BlockKernel& kernel, std::byte* to,
                                 const std::byte* from, const BlockCopy& block);
  [[nodiscard]] size_t members() const { return group_.places.size(); }
  [[nodiscard]] int64_t place(size_t member) const { return group_.places[member]; }
  [[nodiscard]] int64_t wireBytes(const BlockCopy& b) const; // of one element
  const std::byte* operand(const BlockCopy& b) const {
    return buffers_.operands[b.from * plan_.numOperands + b.operand];
  }
  std::byte* result(size_t member, const BlockCopy& b) const {
    return buffers_.results[member * plan_.numOperands + b.operand];
  }

  const Nccl& nccl_;
  CudaPlaces& places_;
  std::vector<NcclRank> ranks_;
  const CollectivePlan& plan_;
  const CollectiveGroup& group_;
  NcclWire wire_;
  Buffers buffers_;
};

} // namespace dtc
