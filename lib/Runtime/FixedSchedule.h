#pragma once
// A program as one fixed list of tasks (-O2): which parts every step has, on which device, and what each has to wait for is
// worked out once, when the program is loaded. A run takes no lock, wakes nobody between steps, and allocates nothing: the
// workers take the tasks in order, each when all that it needs is done. A worker holds nothing but what it works at, so that one
// whose core is taken away keeps nobody waiting.
#include "Program.h"
#include "dtc/Runtime/Executable.h"

#include <atomic>

namespace dtc {

class FixedSchedule {
public:
  // Nothing where the order of the steps is not known before the run (control flow, ops of the host).
  [[nodiscard]] static std::unique_ptr<FixedSchedule> make(Module& m, const Program& program,
                                                           Backend& backend, ThreadPool& pool);
  // `events`: filled, where given, with when each step of each device ran, on a backend whose steps are done when they return.
  [[nodiscard]] Status run(std::vector<StepEvent>* events);
  // Groups of tasks of which each waits for all of the one before.
  [[nodiscard]] size_t numPhases() const { return phases_; }

private:
  struct Task {
    enum Kind : uint8_t { Kernel, Gemm, Copy, Share, Settle, Begin, End, Join } kind = Kernel;
    uint32_t index =
        0; // the backend's step, or into Program::copies, Program::meetings, or a number of a join
    uint32_t part = 0; // of Kernel, Gemm; the group of Settle
    int32_t place = 0;
    uint32_t info = 0;
    uint32_t after = 0; // how many tasks, the first of the list, must be done before
  };
  FixedSchedule(Module& m, const Program& program, Backend& backend, ThreadPool& pool)
      : m_(m), program_(program), backend_(backend), pool_(pool) {}
  bool add(const Step& step);
  void addPhase(const std::vector<Task>& tasks);
  void addPhaseOfAll(Task::Kind kind, uint32_t index, uint32_t info); // a task for each device
  [[nodiscard]] std::vector<StepEvent> eventsOfRun() const;
  static void workerBody(void* self, int worker) { static_cast<FixedSchedule*>(self)->work(worker); }
  void work(int worker);
  void perform(size_t i, int worker);
  [[nodiscard]] Status start(const Task& task, int worker);

  Module& m_;
  const Program& program_;
  Backend& backend_;
  ThreadPool& pool_;
  std::vector<Task> tasks_;
  struct Span {
    int64_t begin = 0, end = 0; // ns on the steady clock
  };
  std::vector<Span> spans_; // of each task, in a run that is timed
  bool timed_ = false;
  size_t phases_ = 0;
  bool serial_ = true; // no phase has two tasks
  alignas(64) std::atomic<uint32_t> next_{0};
  alignas(64) std::atomic<uint32_t> done_{0};
  std::atomic<bool> failed_{false};
  std::mutex errors_;
  std::optional<Error> error_;
  std::exception_ptr thrown_; // no memory
};

} // namespace dtc
