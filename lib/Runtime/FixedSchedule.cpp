#include "FixedSchedule.h"

#include <thread>

namespace dtc {

FixedSchedule::FixedSchedule(Module& m, const Program& program, Backend& backend, ThreadPool& pool)
    : m_(m), program_(program), backend_(backend), pool_(pool),
      workers_(backend.asynchronous() ? 1 : pool.size()), lists_(static_cast<size_t>(workers_)) {}

std::unique_ptr<FixedSchedule> FixedSchedule::make(Module& m, const Program& program, Backend& backend,
                                                   ThreadPool& pool) {
  std::unique_ptr<FixedSchedule> made(new FixedSchedule(m, program, backend, pool));
  for (const Step& s : program.steps)
    if (!made->add(s)) return nullptr;
  return made;
}

bool FixedSchedule::add(const Step& s) {
  std::vector<Task> tasks;
  const auto places = static_cast<int32_t>(program_.places());
  switch (s.kind) {
  case StepKind::Kernel:
  case StepKind::Gemm: {
    const bool kernel = s.kind == StepKind::Kernel;
    const PlacedStep& placed = (kernel ? program_.kernels : program_.gemms)[s.index];
    for (int32_t p = 0; p < places; ++p) {
      const Backend::Placed& at = placed.at[static_cast<size_t>(p)];
      for (uint32_t part = 0; part < at.parts; ++part)
        tasks.push_back({kernel ? Task::Kernel : Task::Gemm, at.step, part, p, s.info});
    }
    addTasks(tasks);
    return true;
  }
  case StepKind::Copy:
    if (program_.copies[s.index].stacked) return false;
    for (int32_t p = 0; p < places; ++p) tasks.push_back({Task::Copy, s.index, 0, p, s.info});
    addTasks(tasks);
    return true;
  case StepKind::Collective: {
    const MeetingStep& m = program_.meetings[s.index];
    for (int32_t p = 0; p < places; ++p) tasks.push_back({Task::Share, s.index, 0, p, s.info});
    addTasks(tasks);
    if (!m.plan.meets()) return true;
    tasks.clear();
    for (uint32_t g = 0; g < m.plan.groups.size(); ++g)
      tasks.push_back({Task::Settle, s.index, g, 0, s.info});
    addTasks(tasks);
    return true;
  }
  default: return false;
  }
}

// Neighbouring tasks go to one worker, the same in every step: what a device's step leaves in a core's cache is there for
// its next one. All workers meet between two steps, but where worker 0 alone has done the one and does the other.
void FixedSchedule::addTasks(const std::vector<Task>& tasks) {
  if (tasks.empty()) return;
  const bool first = tasks.size() == 1 || workers_ == 1;
  bool started = false;
  for (const auto& list : lists_) started = started || !list.empty();
  if (started && !(first && onlyFirst_)) {
    for (auto& list : lists_) list.push_back({});
    ++phases_;
  }
  onlyFirst_ = first;
  const size_t workers = first ? 1 : static_cast<size_t>(workers_);
  for (size_t i = 0; i < tasks.size(); ++i) lists_[i * workers / tasks.size()].push_back(tasks[i]);
}

Status FixedSchedule::perform(const Task& t, int worker) {
  const auto place = static_cast<size_t>(t.place);
  switch (t.kind) {
  case Task::Kernel: return backend_.runKernel(t.index, t.part, worker);
  case Task::Gemm: return backend_.runGemm(t.index, t.part, worker);
  case Task::Copy: {
    const CopyStep& c = program_.copies[t.index];
    std::byte* base = program_.arenas[place];
    return backend_.copy(t.place, base + c.to, base + c.from, c.bytes[place]);
  }
  case Task::Share: {
    const MeetingStep& m = program_.meetings[t.index];
    const uint32_t group = m.plan.groupOf[place];
    return backend_.communicator().share(m.plan, m.plan.groups[group], m.plan.memberOf[place],
                                         m.operands[group], m.results[group]);
  }
  case Task::Settle: {
    const MeetingStep& m = program_.meetings[t.index];
    return backend_.communicator().settle(m.plan, m.plan.groups[t.part]);
  }
  case Task::Meet: break;
  }
  return Ok{};
}

// The last to come opens the round for all. A short wait spins; where a core is shared with others, the waiting one gives way.
void FixedSchedule::meet(uint32_t& round) {
  const uint32_t mine = round++;
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<uint32_t>(workers_)) {
    arrived_.store(0, std::memory_order_relaxed);
    round_.store(mine + 1, std::memory_order_release);
    return;
  }
  for (int spin = 0; round_.load(std::memory_order_acquire) == mine; ++spin) {
    if (spin < 4000)
      __builtin_ia32_pause();
    else
      std::this_thread::yield();
  }
}

void FixedSchedule::work(int worker) {
  if (worker >= workers_) return;
  uint32_t round = 0;
  for (const Task& t : lists_[static_cast<size_t>(worker)]) {
    if (t.kind == Task::Meet) {
      meet(round);
      continue;
    }
    if (failed_.load(std::memory_order_relaxed)) continue; // the others still have to be met
    if (Status done = perform(t, worker); !done) {
      std::lock_guard lock(errors_);
      if (!error_) error_ = located(m_, program_.infos[t.info].id, done.error());
      failed_.store(true, std::memory_order_relaxed);
    }
  }
}

Status FixedSchedule::run() {
  arrived_ = 0;
  round_ = 0;
  failed_ = false;
  error_.reset();
  if (phases_ == 1 && onlyFirst_)
    work(0);
  else if (workers_ == 1)
    work(0);
  else
    pool_.runOnAll(&FixedSchedule::workerBody, this);
  if (Status s = backend_.finish(); !s && !error_) return s;
  if (error_) return *error_;
  return Ok{};
}

} // namespace dtc
