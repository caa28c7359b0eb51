#pragma once
// Executes a Program: the workers of one pool take turns at the devices. A device runs its steps in order; where it must
// meet others it is put aside until the last of them has come. What is computed never depends on who does it, or when.
#include "Program.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>

namespace dtc {

class Runner {
public:
  Runner(Module& m, const Program& program, Backend& backend, ThreadPool& pool);
  // `steps`: Program::steps, or its carrySteps.
  [[nodiscard]] Status run(const StepList& steps, const RunHooks& hooks, std::vector<StepEvent>& events);
  [[nodiscard]] const HostCost& cost() const { return cost_; } // of the last run
  [[nodiscard]] std::vector<Executable::Iteration> iterations(int64_t place) const;

private:
  // A list of steps that a device is within; what happens at its end depends on whose list it is.
  struct Frame {
    enum Kind : uint8_t { Body, Condition, WhileBody, ForBody } kind = Body;
    const StepList* list = nullptr;
    const Step* step = nullptr; // the loop
    uint32_t next = 0;
    uint32_t control = 0;        // index of the WhileStep or ForStep
    int64_t trip = 0, trips = 0; // counted from 0
    int64_t lo = 0;
  };
  struct Device {
    std::vector<Frame> frames;
    const Step* current = nullptr; // the step that it waits in, for the report of a standstill
    std::atomic<uint32_t> partsLeft{0};
    int64_t beganNs = 0;
    int64_t hostNs = 0; // of the step so far, where `marks_`
    std::vector<StepEvent> events;
  };
  struct Meeting {
    uint32_t arrived = 0;
    std::atomic<uint32_t> sharesLeft{0};
    int64_t workNs = 0;
    uint64_t number = 0;
  };
  struct Work {
    enum Kind : uint8_t { Advance, Part, Share } kind = Advance;
    int32_t place = 0;
    uint32_t part = 0;
  };
  // Work to be done, a ring that grows only while it is new: a step allocates nothing.
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
    size_t head_ = 0, count_ = 0;
  };

  // Starts work of a place's step; what the host takes for that is counted. The marks of timed runs are not in it.
  template <typename Start> [[nodiscard]] Status start(int64_t place, Start work) {
    if (!marks_) return work();
    const int64_t began = now();
    Status done = work();
    device(place).hostNs += now() - began;
    return done;
  }

  static void workerBody(void* self, int worker) {
    auto& runner = *static_cast<Runner*>(self);
    try {
      runner.work(worker);
    } catch (...) { // no memory: the other workers wait for nothing any more
      runner.stop();
      throw;
    }
  }
  void stop();
  void work(int worker);
  void advance(int64_t place, int worker);
  // Runs one step; false where the device has to wait (or failed), so that whoever ends the wait goes on with it.
  bool step(int64_t place, const Step& s, int worker);
  bool parts(int64_t place, const Step& s, const Backend::Placed& placed, int worker);
  bool part(int64_t place, uint32_t part, int worker);
  bool meet(int64_t place, const Step& s, int worker);
  bool join(int64_t place, const Step& s);
  [[nodiscard]] OverlapBackend* aside(const MeetingStep& m) const; // null: in the order of the steps
  bool share(int64_t place, int worker);
  bool enter(int64_t place, const Step& s);
  bool nextFrame(int64_t place); // at a list's end; false where the device is done
  bool startTrip(int64_t place, Frame& f);
  Result<int64_t> readNumber(int64_t place, int64_t offset, DType dtype);
  void ended(int64_t place, const Step& s, uint64_t meeting = 0, int64_t workNs = 0);
  void push(Work w);
  void fail(const Error& e, const Step* s);
  std::string standstill() const;
  [[nodiscard]] int64_t now() const;
  // The time at which a place is: now, or, where it does its steps later, the number of a mark that resolve() turns into one.
  int64_t stamp(int64_t place);
  [[nodiscard]] Status resolve();
  Device& device(int64_t place) { return *devices_[static_cast<size_t>(place)]; }

  Module& m_;
  const Program& program_;
  Backend& backend_;
  ThreadPool& pool_;
  const RunHooks* hooks_ = nullptr;
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<std::unique_ptr<Meeting>> meetings_;
  int workers_ = 1;

  std::mutex mutex_; // of all below
  std::condition_variable wake_;
  Queue queue_;
  int idle_ = 0;
  int64_t finished_ = 0;
  uint64_t meetingNumber_ = 0;
  bool over_ = false;
  std::optional<Error> error_;
  int64_t startNs_ = 0;
  bool marks_ = false; // times are marks
  HostCost cost_;      // where there is one worker
};

} // namespace dtc
