#pragma once
// A program as one fixed list of tasks (-O2). The parts of each step, their devices and dependencies are
// computed once, at load time. A run takes no locks, wakes no threads between steps and allocates nothing:
// workers take tasks in order, each when its dependencies are done. A worker owns only its current task, so a
// preempted worker delays no others.
#include "dtc/Runtime/run/Executable.h"
#include "program/Program.h"

#include <atomic>

namespace dtc {

class FixedSchedule {
public:
  // Of a program of one function. Null if the order of steps is dynamic (control flow, host ops).
  [[nodiscard]] static std::unique_ptr<FixedSchedule> make(Module& m, const Program& program,
                                                           Backend& backend, ThreadPool& pool);
  // `events`, if not null, receives the times of each step of each device; synchronous backends only.
  [[nodiscard]] Status run(const RunHooks& hooks, std::vector<StepEvent>* events);
  // The number of phases: each waits for all tasks of the previous one.
  [[nodiscard]] size_t numPhases() const { return phases_; }

private:
  struct Task {
    enum Kind : uint8_t { Kernel, Gemm, Copy, Share, Settle, Begin, End, Join } kind = Kernel;
    uint32_t index =
        0; // the backend's step, an index into Program::copies or Program::rendezvousSteps, or a join number
    uint32_t part = 0; // Kernel, Gemm: part of the step; Settle: the group
    int32_t coordinate = 0;
    uint32_t info = 0;
    uint32_t after = 0; // number of leading tasks of the list that must be done first
  };
  FixedSchedule(Module& m, const Program& program, Backend& backend, ThreadPool& pool)
      : m_(m), program_(program), backend_(backend), pool_(pool) {}
  bool add(const Step& step);
  void addPhase(const std::vector<Task>& tasks);
  void addPhaseOfAll(Task::Kind kind, uint32_t index, uint32_t info); // one task per device
  [[nodiscard]] std::vector<StepEvent> eventsOfRun() const;
  static void workerBody(void* self, int worker) { static_cast<FixedSchedule*>(self)->work(worker); }
  void work(int worker);
  void perform(size_t i, int worker);
  void interrupt();
  [[nodiscard]] Status start(const Task& task, int worker);

  Module& m_;
  const Program& program_;
  Backend& backend_;
  ThreadPool& pool_;
  const RunHooks* hooks_ = nullptr; // of the run
  std::vector<Task> tasks_;
  struct Span {
    int64_t begin = 0, end = 0; // ns on the steady clock
  };
  std::vector<Span> spans_; // by task, in timed runs
  bool timed_ = false;
  size_t phases_ = 0;
  bool serial_ = true; // each phase has one task
  alignas(64) std::atomic<uint32_t> next_{0};
  alignas(64) std::atomic<uint32_t> done_{0};
  std::atomic<bool> failed_{false};
  std::mutex errors_;
  std::optional<Error> error_;
  std::exception_ptr thrown_; // std::bad_alloc
};

} // namespace dtc
