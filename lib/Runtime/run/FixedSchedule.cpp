#include "run/FixedSchedule.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace dtc {
constexpr int kSpins = 5000; // polls of a counter: a few microseconds, about the cost of waking a thread

std::unique_ptr<FixedSchedule> FixedSchedule::make(Module& m, const Program& program, Backend& backend,
                                                   ThreadPool& pool) {
  std::unique_ptr<FixedSchedule> made(new FixedSchedule(m, program, backend, pool));
  for (const Step& s : program.programs[0].steps)
    if (!made->add(s)) return nullptr;
  return made;
}

bool FixedSchedule::add(const Step& s) {
  std::vector<Task> tasks;
  const auto numDevices = static_cast<int32_t>(program_.numDevices());
  switch (s.kind) {
  case ProgramStepKind::Kernel:
  case ProgramStepKind::Gemm: {
    const bool kernel = s.kind == ProgramStepKind::Kernel;
    const PlacedStep& placed = (kernel ? program_.kernels : program_.gemms)[s.index];
    for (int32_t p = 0; p < numDevices; ++p) {
      const Backend::Placed& at = placed.at[static_cast<size_t>(p)];
      for (uint32_t part = 0; part < at.parts; ++part)
        tasks.push_back({kernel ? Task::Kernel : Task::Gemm, at.step, part, p, s.info});
    }
    addPhase(tasks);
    return true;
  }
  case ProgramStepKind::Copy:
    if (program_.copies[s.index].stacked) return false;
    addPhaseOfAll(Task::Copy, s.index, s.info);
    return true;
  case ProgramStepKind::Collective: {
    const RendezvousStep& m = program_.rendezvousSteps[s.index];
    if (m.overlapped) addPhaseOfAll(Task::Begin, *m.overlapped, s.info);
    addPhaseOfAll(Task::Share, s.index, s.info);
    if (!m.plan.synchronizes()) return true;
    for (uint32_t g = 0; g < m.plan.groups.size(); ++g)
      tasks.push_back({Task::Settle, s.index, g, 0, s.info});
    addPhase(tasks);
    if (m.overlapped) addPhaseOfAll(Task::End, *m.overlapped, s.info);
    return true;
  }
  case ProgramStepKind::Join: addPhaseOfAll(Task::Join, s.index, s.info); return true;
  default: return false;
  }
}

void FixedSchedule::addPhaseOfAll(Task::Kind kind, uint32_t index, uint32_t info) {
  std::vector<Task> tasks;
  for (int32_t p = 0; p < static_cast<int32_t>(program_.numDevices()); ++p)
    tasks.push_back({kind, index, 0, p, info});
  addPhase(tasks);
}

void FixedSchedule::addPhase(const std::vector<Task>& tasks) {
  if (tasks.empty()) return;
  const auto before = static_cast<uint32_t>(tasks_.size());
  for (Task t : tasks) {
    t.after = before;
    tasks_.push_back(t);
  }
  serial_ = serial_ && tasks.size() == 1;
  ++phases_;
}

Status FixedSchedule::start(const Task& t, int worker) {
  const auto coordinate = static_cast<size_t>(t.coordinate);
  switch (t.kind) {
  case Task::Kernel: return backend_.runKernel(t.index, t.part, worker);
  case Task::Gemm: return backend_.runGemm(t.index, t.part, worker);
  case Task::Copy: {
    const CopyStep& c = program_.copies[t.index];
    return backend_.copy(t.coordinate, program_.address(t.coordinate, c.to),
                         program_.address(t.coordinate, c.from), c.bytes[coordinate]);
  }
  case Task::Share: {
    const RendezvousStep& m = program_.rendezvousSteps[t.index];
    const uint32_t group = m.plan.groupOf[coordinate];
    const Rendezvous& r = program_.rendezvous[m.rendezvous[group]];
    return backend_.communicator().share(m.plan, m.plan.groups[group], m.plan.memberOf[coordinate],
                                         r.operands, r.results);
  }
  case Task::Settle: {
    const RendezvousStep& m = program_.rendezvousSteps[t.index];
    return backend_.communicator().settle(m.plan, m.plan.groups[t.part]);
  }
  case Task::Begin: return backend_.overlap()->beginOverlap(t.coordinate);
  case Task::End: return backend_.overlap()->endOverlap(t.coordinate, t.index);
  case Task::Join: return backend_.overlap()->join(t.coordinate, t.index);
  }
  return Ok{};
}

void FixedSchedule::perform(size_t i, int worker) {
  if (failed_.load(std::memory_order_relaxed)) return; // remaining tasks are only counted
  const Task& t = tasks_[i];
  try {
    if (timed_) spans_[i].begin = clockNs();
    Status done = start(t, worker);
    if (timed_) spans_[i].end = clockNs();
    if (done) return;
    std::lock_guard lock(errors_);
    if (!error_) error_ = located(m_, program_.infos[t.info].id, done.error());
  } catch (...) { // out of memory; other workers must not wait for this task
    std::lock_guard lock(errors_);
    if (!thrown_) thrown_ = std::current_exception();
  }
  failed_.store(true, std::memory_order_relaxed);
}

void FixedSchedule::interrupt() {
  std::lock_guard lock(errors_);
  if (!error_) error_ = machineError(kInterrupted);
  failed_.store(true, std::memory_order_relaxed);
}

// Spins for short waits, then yields.
void FixedSchedule::work(int worker) {
  const auto count = static_cast<uint32_t>(tasks_.size());
  int idle = 0;
  for (uint32_t i = next_.load(std::memory_order_relaxed); i < count;
       i = next_.load(std::memory_order_relaxed)) {
    if (done_.load(std::memory_order_acquire) < tasks_[i].after) {
      if (++idle <= kSpins) continue;
      if (worker == 0 && hooks_->isInterrupted()) interrupt();
      std::this_thread::yield();
      continue;
    }
    if (!next_.compare_exchange_weak(i, i + 1, std::memory_order_relaxed)) continue;
    idle = 0;
    if (worker == 0 && hooks_->isInterrupted()) interrupt();
    perform(i, worker);
    done_.fetch_add(1, std::memory_order_acq_rel);
  }
}

// One event per step and device, from the begin of its first part to the end of its last part. For a
// collective, the device's own part: it contains no waiting, since a phase begins when the previous one is
// done.
std::vector<StepEvent> FixedSchedule::eventsOfRun() const {
  std::vector<StepEvent> events;
  int64_t start = spans_.empty() ? 0 : spans_[0].begin;
  for (const Span& s : spans_) start = std::min(start, s.begin);
  struct Last {
    size_t event = 0;
    uint32_t after = ~uint32_t(0); // identifies the event's phase
  };
  std::vector<Last> last(program_.numDevices());
  uint64_t rendezvous = 0;
  for (size_t i = 0; i < tasks_.size(); ++i) {
    const Task& t = tasks_[i];
    if (t.kind == Task::Settle) {
      ++rendezvous;
      for (int64_t coordinate : program_.rendezvousSteps[t.index].plan.groups[t.part].coordinates) {
        StepEvent& e = events[last[static_cast<size_t>(coordinate)].event];
        e.rendezvous = rendezvous, e.workNs = e.beginNs;
      }
      continue;
    }
    const Span span{spans_[i].begin - start, spans_[i].end - start};
    Last& of = last[static_cast<size_t>(t.coordinate)];
    if (of.after == t.after) {
      StepEvent& e = events[of.event];
      e.beginNs = std::min(e.beginNs, span.begin), e.endNs = std::max(e.endNs, span.end);
      continue;
    }
    of = {events.size(), t.after};
    events.push_back({t.info, t.coordinate, span.begin, span.end});
  }
  return events;
}

Status FixedSchedule::run(const RunHooks& hooks, std::vector<StepEvent>* events) {
  hooks_ = &hooks;
  timed_ = events != nullptr;
  if (timed_) spans_.resize(tasks_.size());
  next_ = 0;
  done_ = 0;
  failed_ = false;
  error_.reset();
  thrown_ = nullptr;
  if (serial_ || backend_.asynchronous())
    work(0);
  else
    pool_.runOnWorkers(&FixedSchedule::workerBody, this);
  if (!error_ && !thrown_) {
    if (timed_) *events = eventsOfRun();
    return backend_.finish();
  }
  backend_.abandon();
  if (thrown_) std::rethrow_exception(thrown_);
  return *error_;
}

} // namespace dtc
