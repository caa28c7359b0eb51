#pragma once
// The one interface to whatever carries bytes between devices. A collective is done in shares, one per member of a group.
#include "dtc/Runtime/Collective.h"
#include <memory>

namespace dtc {

class Communicator {
public:
  virtual ~Communicator() = default;
  [[nodiscard]] virtual std::string_view name() const = 0; // "local"

  // Called once for each collective of a program, while it is loaded: whatever the shares will need is made ready.
  [[nodiscard]] virtual Status prepare(const CollectivePlan&) { return Ok{}; }
  // Does the share of `member` in one group: afterwards, when all members' shares are done, every result is whole. Shares
  // of one group may run at the same time on several threads. A share begins only when all members have arrived (their
  // operands are written), and no operand is written again before all shares are done; where plan.meets() is false there
  // is nobody to wait for.
  // `operands[i * numOperands + k]` and `results[…]` are operand and result k of member i; no two overlap.
  // Results repeat bit for bit: members are combined in the order of their index.
  [[nodiscard]] virtual Status share(const CollectivePlan& plan, const CollectiveGroup& group, size_t member,
                                     std::span<const std::byte* const> operands,
                                     std::span<std::byte* const> results) = 0;
  // Called once when the shares of all members of a group have returned, before any of them goes on: a communicator
  // whose shares only start work makes the members wait for each other's here.
  [[nodiscard]] virtual Status settle(const CollectivePlan&, const CollectiveGroup&) { return Ok{}; }
};

// All members in one address space: plain copies and loops. Sums of f16, bf16 and f8 are made in f32 and rounded once.
// Max and min keep NaN, and take +0 above -0.
[[nodiscard]] std::unique_ptr<Communicator> makeLocalCommunicator();

} // namespace dtc
