#pragma once
// Executes a Program: the workers of one pool serve all devices. A device runs its steps in order; at a
// rendezvous it is suspended until the last member has arrived. Results do not depend on the assignment of
// work or its timing.
#include "dtc/Runtime/run/Executable.h"
#include "program/Program.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>

namespace dtc {

class Runner {
public:
  Runner(Module& m, const Program& program, Backend& backend, ThreadPool& pool);
  // Each device runs this list of its own program.
  [[nodiscard]] Status run(StepList DeviceProgram::* steps, const RunHooks& hooks,
                           std::vector<StepEvent>& events);
  [[nodiscard]] const HostCost& cost() const { return cost_; } // of the last run
  [[nodiscard]] int64_t startNs() const { return startNs_; }   // of the last run, by the steady clock
  [[nodiscard]] std::vector<Executable::Iteration> iterations(int64_t coordinate) const;

private:
  // A step list that a device is executing; `kind` determines what follows its end.
  struct Frame {
    enum Kind : uint8_t { Body, Condition, WhileBody, ForBody } kind = Body;
    const StepList* list = nullptr;
    const Step* step = nullptr; // the loop
    uint32_t next = 0;
    uint32_t control = 0;             // index of the WhileStep or ForStep
    int64_t iteration = 0, count = 0; // current iteration, from 0, and their number
    int64_t lo = 0;
  };
  struct Device {
    std::vector<Frame> frames;
    const Step* current = nullptr; // the current step, for the deadlock report
    std::atomic<uint32_t> partsLeft{0};
    int64_t beganNs = 0;
    int64_t hostNs = 0;    // of the current step, if `marks_`
    bool inspects = false; // afterStep() of the current step is to be called
    std::vector<StepEvent> events;
  };
  struct RendezvousState {
    uint32_t arrived = 0;
    std::atomic<uint32_t> sharesLeft{0};
    int64_t workNs = 0;
    uint64_t number = 0;
    uint32_t count = 0; // in this run
  };
  struct Work {
    enum Kind : uint8_t { Advance, Part, Share, Exchange } kind = Advance;
    int32_t coordinate = 0;
    uint32_t part = 0;
  };
  // Pending work: a ring buffer that grows only during warm-up, so that steps do not allocate.
  class Queue {
  public:
    [[nodiscard]] bool empty() const { return count_ == 0; }
    void clear() { count_ = 0; }
    void pushBack(Work w) {
      grow();
      ring_[(head_ + count_++) % ring_.size()] = w;
    }
    void pushFront(Work w) {
      grow();
      head_ = (head_ + ring_.size() - 1) % ring_.size();
      ring_[head_] = w;
      ++count_;
    }
    Work popFront() {
      Work w = ring_[head_];
      head_ = (head_ + 1) % ring_.size();
      --count_;
      return w;
    }

  private:
    void grow() {
      if (count_ < ring_.size()) return;
      std::vector<Work> larger(std::max<size_t>(64, 2 * ring_.size()));
      for (size_t i = 0; i < count_; ++i) larger[i] = ring_[(head_ + i) % ring_.size()];
      ring_ = std::move(larger);
      head_ = 0;
    }
    std::vector<Work> ring_;
    size_t head_ = 0;
    std::atomic<size_t> count_{0}; // a thread that spins reads it without the lock
  };

  // Starts a device's step and adds the host time, without that of timing marks.
  template <typename Start> [[nodiscard]] Status start(int64_t coordinate, Start work) {
    if (!marks_) return work();
    const int64_t began = now();
    Status done = work();
    device(coordinate).hostNs += now() - began;
    return done;
  }

  static void workerBody(void* self, int worker) {
    auto& runner = *static_cast<Runner*>(self);
    try {
      runner.work(worker);
    } catch (...) { // out of memory: stop the other workers
      runner.stop();
      throw;
    }
  }
  void stop();
  void work(int worker);
  void waitForWork(std::unique_lock<std::mutex>& lock, int worker);
  void advance(int64_t coordinate, int worker);
  // Runs one step; false if the device waits or failed. The worker that ends the wait resumes the device.
  bool step(int64_t coordinate, const Step& s, int worker);
  bool parts(int64_t coordinate, const Step& s, const Backend::Placed& placed, int worker);
  bool part(int64_t coordinate, uint32_t part, int worker);
  bool rendezvous(int64_t coordinate, const Step& s, int worker);
  bool join(int64_t coordinate, const Step& s);
  [[nodiscard]] OverlapBackend* overlapped(const RendezvousStep& m) const; // null: in step order
  bool share(int64_t coordinate, int worker);
  bool exchange(int64_t coordinate);
  static void wakeExchange(void* self, uint32_t coordinate);
  bool complete(int64_t coordinate);
  bool enter(int64_t coordinate, const Step& s);
  bool nextFrame(int64_t coordinate); // at the end of a list; false if the device is done
  bool startIteration(int64_t coordinate, Frame& f);
  // Whether a device is to go on later, because reading its memory would keep others of this process waiting, for which
  // other processes may wait.
  [[nodiscard]] bool defers(int64_t coordinate);
  // False: a device is to be inspected later.
  bool inspect(int64_t coordinate);
  Result<int64_t> readNumber(int64_t coordinate, int64_t offset, DType dtype);
  void ended(int64_t coordinate, const Step& s, uint64_t rendezvous = 0, int64_t workNs = 0);
  void push(Work w);
  void fail(const Error& e, const Step* s);
  std::string deadlockText() const;
  [[nodiscard]] int64_t now() const;
  // The current time of a device; on an asynchronous backend, a mark that resolve() converts to a time.
  int64_t stamp(int64_t coordinate);
  [[nodiscard]] Status resolve();
  Device& device(int64_t coordinate) { return *devices_[static_cast<size_t>(coordinate)]; }

  Module& m_;
  const Program& program_;
  Backend& backend_;
  ThreadPool& pool_;
  const RunHooks* hooks_ = nullptr;
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<std::unique_ptr<RendezvousState>> rendezvous_;
  int workers_ = 1;
  bool serial_ = false; // there is never work for two workers
  bool spins_ = false;  // each worker has a core of its own

  std::mutex mutex_; // guards all members below
  std::condition_variable wake_;
  Queue queue_;
  int idle_ = 0;
  int64_t finished_ = 0;
  int64_t exchanges_ = 0; // between processes, that wait for messages
  uint64_t rendezvousNumber_ = 0;
  std::atomic<bool> over_{false}; // read without the lock by a thread that spins
  std::optional<Error> error_;
  int64_t startNs_ = 0;
  bool marks_ = false; // times are marks
  HostCost cost_;      // with one worker
};

} // namespace dtc
