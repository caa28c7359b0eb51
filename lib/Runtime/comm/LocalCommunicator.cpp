// Collectives between devices in one address space.
#include "dtc/Runtime/comm/Communicator.h"

#include "comm/Reduction.h"

namespace dtc {
namespace {

class LocalCommunicator final : public Communicator {
public:
  std::string_view name() const override { return "local"; }

  Status share(const CollectivePlan& plan, const CollectiveGroup& group, size_t member,
               std::span<const std::byte* const> operands, std::span<std::byte* const> results) override {
    const CollectiveMember& me = group.members[member];
    if (plan.kind == CollectiveKind::AllReduce) {
      allReduce(plan, group, member, operands, results);
      return Ok{};
    }
    if (plan.kind == CollectiveKind::ReduceScatter) {
      reduceScatter(plan, me, operands, results[member]);
      return Ok{};
    }
    for (uint32_t k : me.zeroResults)
      if (std::byte* const result = results[member * plan.numOperands + k]; result) // else it has no memory
        std::memset(result, 0, static_cast<size_t>(me.resultElements[k] * plan.widths[k]));
    for (const BlockCopy& c : me.blocks) {
      const std::byte* source = operands[c.from * plan.numOperands + c.operand];
      std::byte* target = results[member * plan.numOperands + c.operand];
      forEachRow(c, plan.widths[c.operand],
                 [&](int64_t from, int64_t to) { copyRow(plan, c, source + from, target + to); });
    }
    return Ok{};
  }

private:
  // Each member reduces its range of elements and writes it to all members.
  static void allReduce(const CollectivePlan& plan, const CollectiveGroup& group, size_t member,
                        std::span<const std::byte* const> operands, std::span<std::byte* const> results) {
    int64_t width = dtypeBytes(plan.dtype);
    Interval part =
        shardInterval(group.members[member].resultElements[0], static_cast<int64_t>(group.coordinates.size()),
                      static_cast<int64_t>(member));
    reduceElements(plan, {operands, {}, part.begin * width}, {results, part.begin * width}, part.size());
  }

  static void reduceScatter(const CollectivePlan& plan, const CollectiveMember& me,
                            std::span<const std::byte* const> operands, std::byte* result) {
    if (me.blocks.empty()) return; // an empty shard
    int64_t width = dtypeBytes(plan.dtype);
    forEachRow(me.blocks[0], width, [&](int64_t from, int64_t to) {
      reduceElements(plan, {operands, me.blocks, from}, {std::span(&result, 1), to}, me.blocks[0].length);
    });
  }
};

} // namespace

std::unique_ptr<Communicator> makeLocalCommunicator() { return std::make_unique<LocalCommunicator>(); }

} // namespace dtc
