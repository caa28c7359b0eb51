// Collectives between devices of several processes (docs/internals/multi-process.md).
#include "comm/ProcessClocks.h"
#include "comm/ProcessExchanges.h"
#include "comm/ProcessRecorder.h"
#include "dtc/Files/TensorFiles.h"
#include "dtc/Runtime/comm/Communicator.h"

#include <chrono>
#include <filesystem>
#include <map>
#include <mutex>
#include <unordered_map>

namespace dtc {
namespace {

class MessageCommunicator final : public ProcessCommunicator {
public:
  MessageCommunicator(Processes& processes, int64_t perProcess, const ProcessCommunicatorOptions& options)
      : processes_(processes), perProcess_(perProcess), options_(options), local_(makeLocalCommunicator()) {}

  std::string_view name() const override { return "mpi"; }
  DeviceSlice devices() const override {
    return {processes_.rank() * perProcess_, (processes_.rank() + 1) * perProcess_};
  }

  // All processes prepare all collectives in the same order, so they number groups alike. Each group of each collective
  // has a tag of its own: processes that come to different collectives never exchange their data. Where tags run out,
  // collectives of the same devices share one.
  Status prepare(const CollectivePlan& plan) override {
    for (const CollectiveGroup& g : plan.groups) {
      int& tag = tags_[g.coordinates];
      // The last tag is that of the background.
      if (const int unused = lastTag_ + 1; unused < processes_.maxTag()) tag = lastTag_ = unused;
      if (tag == 0)
        return machineError("this MPI has too few message tags for " + std::to_string(tags_.size()) +
                            " groups of devices");
      std::vector<int> processOf = processesOf(g);
      if (std::ranges::count(processOf, processOf[0]) == std::ssize(processOf)) continue; // local
      const uint32_t number = options_.dump.empty() ? 0 : recorder_.declare(plan, g, processOf, "mpi");
      if (std::ranges::count(processOf, processes_.rank()) == 0) continue;
      exchanges_[&g] = {
          makeGroupExchange(plan, g, {processes_, std::move(processOf), tag, options_.fixedOrder}), number};
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
    Exchange& x = exchanges_.at(&group);
    const bool records = !options_.dump.empty();
    if (records && !x.active) recorder_.arrived(x.number);
    x.active = true;
    auto done = x.exchange->advance(operands, results, wake);
    if (done && !*done) return false;
    if (records && done) recorder_.completed(x.number);
    if (!done) dump();
    x.active = false;
    return done;
  }

  uint32_t declare(const CollectivePlan& plan, const CollectiveGroup& group,
                   const std::string& library) override {
    return recorder_.declare(plan, group, processesOf(group), library);
  }
  uint64_t arrived(uint32_t number) override { return recorder_.arrived(number); }
  void completed(uint64_t arrival) override { recorder_.completedArrival(arrival); }
  void dump() override {
    if (!options_.dump.empty()) std::call_once(dumped_, [this] { writeDump(); });
  }

  OnHost onHost() const override { return {processes_.indexOnHost(), processes_.sizeOnHost()}; }
  Status barrier() override {
    DTC_TRY(const auto all, processes_.round(""));
    return Ok{};
  }
  Status synchronizeClocks() override {
    const int64_t now = steadyNs();
    const bool old = now - comparedNs_ > kOldNs;
    DTC_TRY(const auto all, processes_.round(old ? "old" : "")); // process 0 decides
    if (all[0].empty()) return Ok{};
    comparedNs_ = now;
    if (Status s = clocks_.compare(processes_); !s) return s;
    return barrier();
  }
  int64_t inProcess0(int64_t ns) const override { return clocks_.inProcess0(ns); }
  std::string processOf(int64_t coordinate) const override {
    return processes_.size() == 1 ? "" : processes_.name(static_cast<int>(coordinate / perProcess_));
  }
  Result<std::vector<std::string>> gather(std::string_view mine) override { return processes_.gather(mine); }
  Result<std::vector<std::string>> gatherToAll(std::string_view mine) override {
    return processes_.round(mine);
  }

private:
  static constexpr int64_t kOldNs = 1'000'000'000;

  [[nodiscard]] std::vector<int> processesOf(const CollectiveGroup& group) const {
    std::vector<int> out;
    for (int64_t p : group.coordinates) out.push_back(static_cast<int>(p / perProcess_));
    return out;
  }

  // The run has failed already: that this file cannot be written must not hide why.
  void writeDump() const {
    const std::filesystem::path path = options_.dump;
    std::filesystem::path own = path;
    own.replace_filename(path.stem().string() + "-" + std::to_string(processes_.rank()) +
                         path.extension().string());
    (void)writeFileAtomically(own.string(), recorder_.json(processes_, clocks_));
  }

  struct Exchange {
    std::unique_ptr<GroupExchange> exchange;
    uint32_t number = 0; // of the recorder
    bool active = false;
  };

  Processes& processes_;
  int64_t perProcess_;
  ProcessCommunicatorOptions options_;
  std::unique_ptr<Communicator> local_;
  std::map<std::vector<int64_t>, int> tags_; // by the devices of a group, of its last collective
  int lastTag_ = 0;
  std::unordered_map<const CollectiveGroup*, Exchange> exchanges_;
  ProcessClocks clocks_;
  int64_t comparedNs_ = -kOldNs;
  ProcessRecorder recorder_;
  std::once_flag dumped_;
};

} // namespace

std::unique_ptr<ProcessCommunicator> makeProcessCommunicator(Processes& processes, int64_t perProcess,
                                                             const ProcessCommunicatorOptions& options) {
  return std::make_unique<MessageCommunicator>(processes, perProcess, options);
}

} // namespace dtc
