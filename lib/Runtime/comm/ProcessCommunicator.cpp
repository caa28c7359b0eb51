// Collectives between devices of several processes (docs/internals/multi-process.md).
#include "comm/ProcessExchanges.h"
#include "dtc/Runtime/comm/Communicator.h"

#include <map>
#include <unordered_map>

namespace dtc {
namespace {

class ProcessCommunicator final : public Communicator {
public:
  ProcessCommunicator(Processes& processes, int64_t perProcess, bool fixedOrder)
      : processes_(processes), perProcess_(perProcess), fixedOrder_(fixedOrder),
        local_(makeLocalCommunicator()) {}

  std::string_view name() const override { return "mpi"; }
  DeviceSlice devices() const override {
    return {processes_.rank() * perProcess_, (processes_.rank() + 1) * perProcess_};
  }

  // All processes prepare all collectives in the same order, so they number groups alike.
  Status prepare(const CollectivePlan& plan) override {
    for (const CollectiveGroup& g : plan.groups) {
      const auto [tag, isNew] = tags_.try_emplace(g.coordinates, static_cast<int>(tags_.size()) + 1);
      if (tag->second > processes_.maxTag())
        return machineError("this MPI has too few message tags for " + std::to_string(tags_.size()) +
                            " groups of devices");
      std::vector<int> processOf;
      for (int64_t p : g.coordinates) processOf.push_back(static_cast<int>(p / perProcess_));
      if (std::ranges::count(processOf, processes_.rank()) == 0 ||
          std::ranges::count(processOf, processOf[0]) == std::ssize(processOf))
        continue; // local, or without this process
      exchanges_[&g] =
          makeGroupExchange(plan, g, {processes_, std::move(processOf), tag->second, fixedOrder_});
    }
    return Ok{};
  }

  Status share(const CollectivePlan& plan, const CollectiveGroup& group, size_t member,
               std::span<const std::byte* const> operands, std::span<std::byte* const> results) override {
    return local_->share(plan, group, member, operands, results);
  }

  Result<bool> exchange(const CollectivePlan&, const CollectiveGroup& group,
                        std::span<const std::byte* const> operands, std::span<std::byte* const> results,
                        const ExchangeWake& wake) override {
    return exchanges_.at(&group)->advance(operands, results, wake);
  }

  OnHost onHost() const override { return {processes_.indexOnHost(), processes_.sizeOnHost()}; }
  Status barrier() override {
    DTC_TRY(const auto all, processes_.round(""));
    return Ok{};
  }
  Result<std::vector<std::string>> gather(std::string_view mine) override { return processes_.gather(mine); }

private:
  Processes& processes_;
  int64_t perProcess_;
  bool fixedOrder_;
  std::unique_ptr<Communicator> local_;
  std::map<std::vector<int64_t>, int> tags_; // by the devices of a group
  std::unordered_map<const CollectiveGroup*, std::unique_ptr<GroupExchange>> exchanges_;
};

} // namespace

std::unique_ptr<Communicator> makeProcessCommunicator(Processes& processes, int64_t perProcess,
                                                      bool fixedOrder) {
  return std::make_unique<ProcessCommunicator>(processes, perProcess, fixedOrder);
}

} // namespace dtc
