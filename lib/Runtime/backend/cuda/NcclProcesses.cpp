#include "backend/cuda/NcclProcesses.h"

#include "dtc/Support/Counted.h"
#include "dtc/Support/Words.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <set>
#include <thread>

namespace dtc {

constexpr size_t kKeptEnqueued = 2000;

static int64_t steadyNs() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

Result<ProcessGpus> gpusOfProcess(Processes& processes, std::span<const CudaDeviceInfo> visible,
                                  int64_t perProcess) {
  std::string mine;
  for (const CudaDeviceInfo& d : visible)
    mine += std::to_string(d.pciDomain) + ":" + std::to_string(d.pciBus) + ":" + std::to_string(d.pciDevice) +
            "\n";
  DTC_TRY(const auto all, processes.round(mine));
  const std::string& host = processes.host(processes.rank());
  std::set<std::string_view> taken, seen; // of this host
  ProcessGpus out;
  size_t devices = 0;
  for (int rank = 0; rank < processes.size(); ++rank) {
    if (processes.host(rank) != host) continue;
    devices += static_cast<size_t>(perProcess);
    const auto gpus = linesOf(all[static_cast<size_t>(rank)]);
    std::vector<int> own;
    for (size_t i = 0; i < gpus.size(); ++i) {
      if (gpus[i].empty()) continue;
      seen.insert(gpus[i]);
      if (own.size() < static_cast<size_t>(perProcess) && taken.insert(gpus[i]).second)
        own.push_back(static_cast<int>(i));
    }
    if (own.empty()) own.push_back(0); // shared with another process
    if (rank == processes.rank()) out.ordinals = std::move(own);
  }
  if (seen.size() < devices)
    out.few = "the " + counted(devices, "device") + " on " + host + " need " + counted(devices, "GPU") +
              ", and there " + (seen.size() == 1 ? "is 1" : "are " + std::to_string(seen.size()));
  return out;
}

NcclProcesses::Ranks NcclProcesses::together(const std::string& what, std::function<Ranks()> call) {
  std::promise<Ranks> made;
  auto result = made.get_future();
  std::string others;
  for (int r = 0; r < processes_.size(); ++r)
    if (r != processes_.rank()) others += (others.empty() ? "" : ",") + std::to_string(r);
  processes_.waits({{steadyNs(), others + " " + what}});
  std::thread([made = std::move(made), call = std::move(call)]() mutable {
    made.set_value(call());
  }).detach();
  while (result.wait_for(std::chrono::milliseconds(5)) != std::future_status::ready)
    if (Status s = processes_.failure(); !s) return s.error();
  processes_.waits(std::nullopt);
  Ranks ranks = result.get();
  if (ranks) return ranks;
  const std::string why = ranks.error().message + (fewGpus_.empty() ? "" : "; " + fewGpus_);
  processes_.fail(3, why); // the others may wait for this process
  processes_.endUse(why);
  return machineError(why);
}

Result<std::string> NcclProcesses::id(const Nccl& library) {
  std::string own;
  if (processes_.rank() == 0) {
    DTC_TRY(own, library.newId());
  }
  DTC_TRY(const auto all, processes_.round(own));
  return all[0];
}

Result<bool> NcclProcesses::exchange(const CollectivePlan& plan, const CollectiveGroup& group,
                                     std::span<const std::byte* const> operands,
                                     std::span<std::byte* const> results, const ExchangeWake& wake) {
  auto [at, begins] = staged_.try_emplace(&group, operands.size());
  std::vector<std::vector<std::byte>>& held = at->second;
  std::vector<const std::byte*> onHost(operands.size());
  if (begins)
    for (const CollectiveMember& to : group.members)
      for (const BlockCopy& b : to.blocks) {
        const size_t i = b.from * plan.numOperands + b.operand;
        const int64_t p = group.coordinates[b.from];
        if (!queue_.slice().contains(p) || !held[i].empty()) continue;
        held[i].resize(static_cast<size_t>(b.length));
        Status s = queue_.start(p, [&](const CudaDevice& d, const CudaStream& stream) {
          return d.copyOut(held[i].data(), operands[i], held[i].size(), stream);
        });
        if (s) s = queue_.synchronize(p);
        if (!s) return s.error();
      }
  for (size_t i = 0; i < held.size(); ++i) onHost[i] = held[i].data();
  auto done = messages_->exchange(plan, group, onHost, results, wake);
  if (!done || *done) staged_.erase(at);
  return done;
}

void NcclProcesses::declare(uint32_t, const CollectivePlan& plan) {
  if (!recorded_) return;
  for (const CollectiveGroup& g : plan.groups)
    if (g.coordinates.size() > 1) declared_[&g] = messages_->declare(plan, g, "nccl");
}

void NcclProcesses::enqueued(uint32_t collective, const CollectivePlan&, const CollectiveGroup& group) {
  const auto at = declared_.find(&group);
  if (at == declared_.end()) return;
  enqueued_.push_back({collective, messages_->arrived(at->second), &group.coordinates});
  if (enqueued_.size() > kKeptEnqueued) enqueued_.pop_front();
}

void NcclProcesses::waits(int64_t sinceNs, const std::optional<FlightRecorder::Place>& at) {
  std::string what;
  if (at) {
    std::set<int64_t> others;
    for (const int64_t p : at->devices)
      if (!queue_.slice().contains(p)) others.insert(p / queue_.count());
    if (others.empty()) others.insert(processes_.rank()); // all of its devices are here
    for (const int64_t r : others) what += (what.empty() ? "" : ",") + std::to_string(r);
    what += " " + at->where;
  }
  processes_.waits({{sinceNs, what}});
}

// By each device's word, from the latest collective on: what precedes the one that it refers to is complete.
void NcclProcesses::recordCompleted(std::span<const uint32_t> words) {
  std::vector<bool> reached(words.size());
  for (auto e = enqueued_.rbegin(); e != enqueued_.rend(); ++e) {
    bool complete = true;
    for (const int64_t p : *e->devices) {
      if (!queue_.slice().contains(p)) continue;
      const size_t i = queue_.indexOf(p);
      const bool before = reached[i];
      if (words[i] != 0 && (words[i] - 1) / 2 == e->collective) reached[i] = true;
      complete = complete && (before || (reached[i] && words[i] % 2 == 0));
    }
    if (complete) messages_->completed(e->arrival);
  }
}

Error NcclProcesses::failed(const Error& why, const std::optional<FlightRecorder::Place>& at,
                            std::span<const uint32_t> words) {
  if (!words.empty()) recordCompleted(words);
  messages_->dump();
  processes_.waits(std::nullopt);
  return at ? Error{why.kind, at->where + ": " + why.message} : why;
}

} // namespace dtc
