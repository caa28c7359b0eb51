#include "backend/cuda/NcclCommunicator.h"

#include "dtc/Files/TensorFiles.h"

#include <chrono>
#include <cstdio>
#include <thread>

namespace dtc {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kSpin = std::chrono::milliseconds(2);   // spin before sleeping
constexpr auto kNap = std::chrono::microseconds(50);   // sleep between polls after that
constexpr auto kLook = std::chrono::milliseconds(200); // interval of progress checks

} // namespace

Result<std::unique_ptr<NcclCommunicator>> NcclCommunicator::make(const Nccl& library, CudaDeviceQueue& queue,
                                                                 const Options& options) {
  std::unique_ptr<NcclCommunicator> made(new NcclCommunicator(library, queue, options));
  Communicators all;
  for (int64_t p = 0; p < made->numDevices_; ++p)
    all.colors.push_back(0), all.keys.push_back(static_cast<int>(p));
  for (int64_t p : queue.all()) {
    DTC_TRY(auto word, queue.device(p).allocate(sizeof(uint32_t)));
    DTC_TRY(auto stream, queue.device(p).stream());
    made->words_.push_back(word), made->watch_.push_back(stream), made->lastWrites_.emplace_back();
    if (Status s = made->tell(p, 0); !s) return s.error();
  }
  auto ranks = made->createRanks();
  if (!ranks && made->across_) return ranks.error();
  if (!ranks) {
    const bool shared = queue.numGpus() < static_cast<size_t>(queue.count());
    return machineError(ranks.error().message +
                        (shared ? "; " + std::to_string(queue.count()) + " devices on " +
                                      std::to_string(queue.numGpus()) +
                                      (queue.numGpus() == 1 ? " GPU" : " GPUs") + " can run with --comm local"
                                : ""));
  }
  all.ranks = std::move(*ranks);
  made->communicators_.push_back(std::move(all));
  return made;
}

Result<std::vector<NcclRank>> NcclCommunicator::createRanks() {
  std::vector<CudaDevice> devices;
  for (int64_t p : queue_.all()) devices.push_back(queue_.device(p));
  const auto first = static_cast<int>(queue_.all()[0]), count = static_cast<int>(numDevices_);
  if (!across_) {
    DTC_TRY(const auto id, nccl_.newId());
    return nccl_.create(devices, id, first, count);
  }
  DTC_TRY(const auto id, across_->id(nccl_));
  return across_->together(
      "the creation of NCCL's communicators",
      [library = nccl_, devices, id, first, count] { return library.create(devices, id, first, count); });
}

bool NcclCommunicator::isLocal(const CollectivePlan& plan) const {
  return plan.kind == CollectiveKind::AllSlice || (!plan.synchronizes() && numDevices_ > 1);
}

Result<size_t> NcclCommunicator::communicatorsFor(const CollectivePlan& plan) {
  Communicators wanted;
  for (size_t p = 0; p < plan.groupOf.size(); ++p) {
    wanted.colors.push_back(static_cast<int>(plan.groupOf[p]));
    wanted.keys.push_back(static_cast<int>(plan.memberOf[p]));
  }
  for (size_t i = 0; i < communicators_.size(); ++i)
    if (communicators_[i].colors == wanted.colors && communicators_[i].keys == wanted.keys) return i;
  const auto split = [library = nccl_, parent = communicators_[0].ranks, colors = wanted.colors,
                      keys = wanted.keys] { return library.split(parent, colors, keys); };
  DTC_TRY(wanted.ranks, across_ ? across_->together("the creation of NCCL's communicators", split) : split());
  communicators_.push_back(std::move(wanted));
  return communicators_.size() - 1;
}

Status NcclCommunicator::growStage(int64_t bytes) {
  if (bytes <= stageBytes_) return Ok{};
  stage_.clear(); // no enqueued work uses it
  for (int64_t p : queue_.all()) {
    DTC_TRY(auto memory, queue_.device(p).allocate(static_cast<size_t>(2 * bytes)));
    stage_.push_back(memory);
  }
  stageBytes_ = bytes;
  return Ok{};
}

Status NcclCommunicator::prepare(const CollectivePlan& plan) {
  if (plan.host) return messages().prepare(plan);
  if (isLocal(plan)) return local_->prepare(plan);
  DTC_TRY(auto ranks, communicatorsFor(plan));
  prepared_[&plan] = {recorder_.declare(plan), ranks};
  if (across_) across_->declare(prepared_[&plan].number, plan);
  for (const SourceUnit& unit : ncclKernels(plan))
    if (!queue_.has(unit.name))
      if (Status s = queue_.compile(unit); !s) return s;
  for (const CollectiveGroup& g : plan.groups)
    if (Status s = growStage(ncclStageBytes(plan, g)); !s) return s;
  return Ok{};
}

Status NcclCommunicator::share(const CollectivePlan& plan, const CollectiveGroup& group, size_t member,
                               std::span<const std::byte* const> operands,
                               std::span<std::byte* const> results) {
  if (broken_) return *broken_;
  if (isLocal(plan)) return local_->share(plan, group, member, operands, results);
  if (!plan.synchronizes()) return begin(plan, group, {operands, results});
  waiting_[&group] = {operands, results};
  return Ok{};
}

Status NcclCommunicator::settle(const CollectivePlan& plan, const CollectiveGroup& group) {
  auto at = waiting_.find(&group);
  if (at == waiting_.end()) return Error{Error::Bug, "a collective was settled without any part"};
  const Waiting waiting = at->second;
  waiting_.erase(at);
  return begin(plan, group, waiting);
}

Result<bool> NcclCommunicator::exchange(const CollectivePlan& plan, const CollectiveGroup& group,
                                        std::span<const std::byte* const> operands,
                                        std::span<std::byte* const> results, const ExchangeWake& wake) {
  if (broken_) return *broken_;
  if (plan.host) {
    if (Status s = finish(); !s) return s.error();
    return across_->exchange(plan, group, operands, results, wake);
  }
  if (Status s = begin(plan, group, {operands, results}); !s) return s.error();
  return true;
}

// In a graph, the collective does not wait for the write.
Status NcclCommunicator::tell(int64_t coordinate, uint32_t word) {
  const size_t p = queue_.indexOf(coordinate);
  return queue_.start(coordinate, [&](const CudaDevice& d, const CudaStream& s) {
    return recorder_.inGraph() ? d.fillWordAside(words_[p].get, word, s, lastWrites_[p])
                               : d.fillWord(words_[p].get, word, s);
  });
}

Status NcclCommunicator::begin(const CollectivePlan& plan, const CollectiveGroup& group,
                               const Waiting& waiting) {
  auto at = prepared_.find(&plan);
  if (at == prepared_.end()) return Error{Error::Bug, "a collective was not prepared for NCCL"};
  NcclExchange::Buffers buffers{waiting.operands, waiting.results, {}, {}};
  std::vector<NcclRank> ranks;
  std::vector<int64_t> here;
  for (int64_t p : group.coordinates) {
    if (!queue_.slice().contains(p)) {
      buffers.sent.push_back(nullptr), buffers.received.push_back(nullptr), ranks.emplace_back();
      continue;
    }
    here.push_back(p);
    const size_t coordinate = queue_.indexOf(p);
    auto* stage = stage_.empty() ? nullptr : static_cast<std::byte*>(stage_[coordinate].get);
    buffers.sent.push_back(stage), buffers.received.push_back(stage + stageBytes_);
    ranks.push_back(communicators_[at->second.ranks].ranks[coordinate]);
    if (Status s = tell(p, FlightRecorder::arrivedWord(at->second.number)); !s) return s;
  }
  recorder_.started(at->second.number, here);
  if (across_) across_->enqueued(at->second.number, plan, group);
  NcclExchange exchange(nccl_, queue_, std::move(ranks), plan, group, std::move(buffers));
  if (Status s = exchange.start(); !s) return s;
  for (int64_t p : here)
    if (Status s = tell(p, FlightRecorder::throughWord(at->second.number)); !s) return s;
  return Ok{};
}

Result<std::vector<uint32_t>> NcclCommunicator::readWords() const {
  std::vector<uint32_t> words(words_.size(), 0);
  for (size_t p = 0; p < words.size(); ++p) {
    const CudaDevice& d = queue_.device(queue_.all()[p]);
    if (Status s = d.copyOut(&words[p], words_[p].get, sizeof words[p], watch_[p]); !s) return s.error();
    if (Status s = d.synchronize(watch_[p]); !s) return s.error();
  }
  return words;
}

void NcclCommunicator::abandon() {
  if (!broken_) (void)broken("the run was aborted");
}

// Aborts all communicators in one group: an abort waits for streams with work of its communicator, in which
// an earlier collective of another communicator completes only after that one is aborted too. A group signals
// all before waiting.
void NcclCommunicator::abortAll() {
  if (dropGraphs_) dropGraphs_();
  const bool grouped = nccl_.beginGroup().ok();
  for (const Communicators& c : communicators_)
    for (const NcclRank& rank : c.ranks) nccl_.abort(rank);
  if (grouped) (void)nccl_.endGroup(); // nothing can be done if this fails
}

std::optional<FlightRecorder::Place> NcclCommunicator::placeOf(const std::vector<uint32_t>& words) const {
  for (size_t i = 0; i < words.size(); ++i)
    if (auto place = recorder_.placeOf(queue_.all()[i], words[i])) return place;
  return std::nullopt;
}

Error NcclCommunicator::brokenAcross(const Error& why) {
  const auto words = readWords();
  const std::vector<uint32_t> known = words ? *words : std::vector<uint32_t>();
  Error error = across_->failed(why, placeOf(known), known);
  abortAll();
  broken_ = error;
  return error;
}

// An error of NCCL may be the end of another process: the processes find out which.
Status NcclCommunicator::lookAcross(const Status& health, const std::vector<uint32_t>& words,
                                    int64_t movedNs) {
  if (Status s = across_->processes().failure(); !s) return brokenAcross(s.error());
  across_->waits(movedNs, placeOf(words));
  if (health) return Ok{};
  across_->processes().suspect(health.error().message);
  while (across_->processes().failure()) std::this_thread::sleep_for(kNap);
  return brokenAcross(across_->processes().failure().error());
}

Error NcclCommunicator::broken(const std::string& why) {
  if (across_) return brokenAcross(machineError(why));
  const auto words = readWords();
  std::string text = why;
  if (words) text += ": " + recorder_.diagnosis(*words);
  abortAll();
  text += "; the communicator was aborted";
  if (words && !options_.dump.empty()) {
    const std::string json = recorder_.json(*words, nccl_.version(), options_.timeoutSeconds);
    const Status written = writeFileAtomically(options_.dump, json);
    text += written ? "; the last collectives of each device are in " + options_.dump
                    : "; " + written.error().message;
  }
  broken_ = machineError(text);
  return *broken_;
}

// Polls all devices each time, so that a blocked device does not delay the others.
Result<bool> NcclCommunicator::isIdle(std::span<const int64_t> coordinates) {
  bool all = true;
  for (int64_t p : coordinates) {
    auto idle = queue_.idle(p);
    if (!idle) return idle;
    all = all && *idle;
  }
  return all;
}

Status NcclCommunicator::finish() { return waitFor(queue_.all()); }

Status NcclCommunicator::finish(int64_t coordinate) { return waitFor({&coordinate, 1}); }

Status NcclCommunicator::waitFor(std::span<const int64_t> coordinates) {
  if (broken_) return *broken_;
  const Clock::time_point begin = Clock::now();
  Clock::time_point looked = begin, moved = begin;
  std::vector<uint32_t> last;
  while (true) {
    auto idle = isIdle(coordinates);
    if (!idle) return broken(idle.error().message);
    if (*idle) {
      if (across_ && looked != begin) across_->goesOn();
      return Ok{};
    }
    const Clock::time_point now = Clock::now();
    if (now - begin < kSpin) continue;
    std::this_thread::sleep_for(kNap);
    if (across_ && !across_->processes().failure())
      return brokenAcross(across_->processes().failure().error());
    if (now - looked < kLook) continue;
    looked = now;
    Status health = Ok{};
    for (const Communicators& c : communicators_)
      for (const NcclRank& rank : c.ranks)
        if (health) health = nccl_.health(rank);
    if (!health && !across_) return broken(health.error().message);
    auto words = readWords();
    if (!words) return broken(words.error().message);
    if (*words != last) last = *words, moved = now;
    if (across_) {
      const auto movedNs =
          std::chrono::duration_cast<std::chrono::nanoseconds>(moved.time_since_epoch()).count();
      if (Status s = lookAcross(health, *words, movedNs); !s) return s;
      continue;
    }
    const double seconds = std::chrono::duration<double>(now - moved).count();
    if (seconds > options_.timeoutSeconds) {
      char text[80];
      std::snprintf(text, sizeof text, "no device made progress for %.*f s", seconds < 10 ? 1 : 0, seconds);
      return broken(text);
    }
  }
}

} // namespace dtc
