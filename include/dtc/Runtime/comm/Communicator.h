#pragma once
// The interface of communication between devices. A collective consists of parts, one per member of a group.
#include "dtc/Runtime/comm/Collective.h"
#include <memory>

namespace dtc {

class Communicator {
public:
  virtual ~Communicator() = default;
  [[nodiscard]] virtual std::string_view name() const = 0; // "local"

  // Prepares a collective; called once for each collective at load time.
  [[nodiscard]] virtual Status prepare(const CollectivePlan&) { return Ok{}; }
  // Executes or enqueues the part of `member` in a group; results are complete when the parts of all members
  // are done. Parts of one group may run in parallel on several threads. A part is called only after all
  // members have arrived (their operands are written), and operands are not overwritten before all parts are
  // done; without a rendezvous (!plan.synchronizes()) parts are independent. `operands[i * numOperands + k]` and
  // `results[…]` are operand and result k of member i; no two overlap. Results are bitwise reproducible:
  // members are combined in index order.
  [[nodiscard]] virtual Status share(const CollectivePlan& plan, const CollectiveGroup& group, size_t member,
                                     std::span<const std::byte* const> operands,
                                     std::span<std::byte* const> results) = 0;
  // Called once after the parts of all members of a group have returned, before any member continues: an
  // asynchronous communicator synchronizes the members here.
  [[nodiscard]] virtual Status settle(const CollectivePlan&, const CollectiveGroup&) { return Ok{}; }
};

// A communicator for devices in one address space: copies and loops. Sums of f16, bf16 and f8 accumulate in
// f32 and are rounded once. Max and min propagate NaN and order +0 above -0.
[[nodiscard]] std::unique_ptr<Communicator> makeLocalCommunicator();

} // namespace dtc
