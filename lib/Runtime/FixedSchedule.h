#pragma once
// A program as fixed work lists (-O2): which worker does which part of which step is decided once, when the program is loaded.
// A run takes no lock, wakes nobody between steps, and allocates nothing: the workers walk their lists and wait for each
// other only where a step needs what another worker made.
#include "Program.h"

#include <atomic>

namespace dtc {

class FixedSchedule {
public:
  // Nothing where the order of the steps is not known before the run (control flow, ops of the host).
  [[nodiscard]] static std::unique_ptr<FixedSchedule> make(Module& m, const Program& program,
                                                           Backend& backend, ThreadPool& pool);
  [[nodiscard]] Status run();
  // Stretches of work with a meeting of all workers between them.
  [[nodiscard]] size_t numPhases() const { return phases_; }

private:
  struct Task {
    enum Kind : uint8_t { Kernel, Gemm, Copy, Share, Settle, Meet } kind = Meet;
    uint32_t index = 0; // the backend's step, or into Program::copies, Program::meetings
    uint32_t part = 0;  // of Kernel, Gemm; the group of Settle
    int32_t place = 0;
    uint32_t info = 0;
  };
  FixedSchedule(Module& m, const Program& program, Backend& backend, ThreadPool& pool);
  bool add(const Step& step);
  void addTasks(const std::vector<Task>& tasks);
  static void workerBody(void* self, int worker) { static_cast<FixedSchedule*>(self)->work(worker); }
  void work(int worker);
  [[nodiscard]] Status perform(const Task& task, int worker);
  void meet(uint32_t& round);

  Module& m_;
  const Program& program_;
  Backend& backend_;
  ThreadPool& pool_;
  int workers_;
  std::vector<std::vector<Task>> lists_; // by worker
  bool onlyFirst_ = true;                // since the last meeting only worker 0 was given work
  size_t phases_ = 1;
  std::atomic<uint32_t> arrived_{0}, round_{0};
  std::atomic<bool> failed_{false};
  std::mutex errors_;
  std::optional<Error> error_;
};

} // namespace dtc
