#pragma once
// One group of a collective whose members are in several processes: which messages are sent when, and what is computed
// from them.
#include "dtc/Runtime/comm/Communicator.h"

#include <algorithm>
#include <atomic>

namespace dtc {

struct GroupPlacement {
  Processes& processes;
  std::vector<int> processOf; // by member
  int tag = 0;
  bool fixedOrder = false;
};

class GroupExchange {
public:
  GroupExchange(const CollectivePlan& plan, const CollectiveGroup& group, GroupPlacement placement);
  virtual ~GroupExchange() = default;
  // As Communicator::exchange.
  [[nodiscard]] Result<bool> advance(std::span<const std::byte* const> operands,
                                     std::span<std::byte* const> results, const ExchangeWake& wake);

protected:
  // Fills messages() for a stage, beginning with 0, and computes what they send. False: the exchange is complete.
  virtual bool stage(int number) = 0;
  // Work that needs no message of the stage; runs while they are under way.
  virtual void meanwhile(int) {}

  [[nodiscard]] std::vector<ProcessMessage>& messages() { return exchange_.messages; }
  void send(int peer, const std::byte* data, int64_t bytes) {
    if (bytes > 0) messages().push_back({peer, true, const_cast<std::byte*>(data), bytes});
  }
  void receive(int peer, std::byte* data, int64_t bytes) {
    if (bytes > 0) messages().push_back({peer, false, data, bytes});
  }
  [[nodiscard]] bool isHere(size_t member) const { return processOf_[member] == processes_.rank(); }
  [[nodiscard]] const std::byte* operand(size_t member, size_t k = 0) const {
    return operands_[member * plan_.numOperands + k];
  }
  [[nodiscard]] std::byte* result(size_t member, size_t k = 0) const {
    return results_[member * plan_.numOperands + k];
  }

  const CollectivePlan& plan_;
  const CollectiveGroup& group_;
  Processes& processes_;
  std::vector<int> processOf_; // by member
  std::vector<size_t> here_;   // the members of this process, ascending
  std::vector<int> peers_;     // the other processes, ascending
  bool fixedOrder_ = false;

private:
  static void done(void* self);

  ProcessExchange exchange_;
  std::span<const std::byte* const> operands_;
  std::span<std::byte* const> results_;
  ExchangeWake wake_;
  int stage_ = 0;
  std::atomic<int> pending_{0}; // the messages, and the work meanwhile
};

[[nodiscard]] std::unique_ptr<GroupExchange>
makeGroupExchange(const CollectivePlan& plan, const CollectiveGroup& group, GroupPlacement placement);

// Uninitialized memory that grows.
class ExchangeBuffer {
public:
  std::byte* sized(int64_t bytes) {
    if (bytes > size_)
      data_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(size_ = bytes));
    return data_.get();
  }
  [[nodiscard]] std::byte* data() const { return data_.get(); }

private:
  std::unique_ptr<std::byte[]> data_;
  int64_t size_ = 0;
};

} // namespace dtc
