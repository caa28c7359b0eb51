#include "DeviceFunctions.h"

#include <algorithm>
#include <thread>

namespace dtc {

Status DeviceFunctions::run(std::span<const std::vector<TensorRef>> args,
                            std::vector<std::vector<TensorRef>>& results) {
  results.assign(programs_.of.size(), {});
  std::vector<Status> done(states_.size(), Ok{});
  std::vector<std::exception_ptr> thrown(states_.size());
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < states_.size(); ++i)
    threads.emplace_back([&, i] {
      try {
        done[i] = runFunction(i, args, results);
      } catch (...) { // out of memory
        thrown[i] = std::current_exception();
      }
      std::lock_guard lock(mutex_);
      states_[i] = State::Done;
      passTurn();
    });
  for (std::thread& t : threads) t.join();
  for (const std::exception_ptr& e : thrown)
    if (e) std::rethrow_exception(e);
  // A function that waits in vain reports it; the reason is the error of the one that it waits for.
  const auto failed = std::ranges::find_if(done, [](const Status& s) { return !s.ok(); });
  const auto reason =
      std::ranges::find_if(done, [](const Status& s) { return !s.ok() && s.error().kind != Error::Machine; });
  return reason != done.end() ? *reason : failed != done.end() ? *failed : Status(Ok{});
}

Status DeviceFunctions::runFunction(uint32_t function, std::span<const std::vector<TensorRef>> args,
                                    std::vector<std::vector<TensorRef>>& results) {
  awaitTurn(function);
  const DeviceSet devices = programs_.coordinatesOf(function);
  Interpreter interpreter(m_, options_);
  interpreter.collective = [&](const Interpreter::OpRun& run) {
    return collective(function, interpreter, run);
  };
  return interpreter.runFunction(programs_.functions[function],
                                 {&mesh_, mesh_.numDevices(), static_cast<int64_t>(devices.size())}, devices,
                                 args, results);
}

void DeviceFunctions::awaitTurn(uint32_t function) {
  std::unique_lock lock(mutex_);
  turned_.wait(lock, [&] { return turn_ == function; });
}

void DeviceFunctions::passTurn() {
  auto next = std::ranges::find(states_, State::Ready);
  if (next == states_.end() && std::ranges::find(states_, State::Waiting) != states_.end()) {
    stuck_ = true;
    std::ranges::replace(states_, State::Waiting, State::Ready);
    next = std::ranges::find(states_, State::Ready);
  }
  turn_ = static_cast<uint32_t>(next - states_.begin());
  turned_.notify_all();
}

// The functions whose devices are in a group of the op, directly or through those of another function.
DeviceFunctions::Functions DeviceFunctions::sharing(uint32_t function, const Interpreter::OpRun& run) const {
  Functions found = {function};
  for (size_t i = 0; i < found.size(); ++i)
    for (int64_t p : i == 0 ? run.devices : programs_.coordinatesOf(found[i]))
      for (int64_t other : rendezvousOf(m_, run.op, mesh_, p))
        if (const uint32_t of = programs_.of[static_cast<size_t>(other)];
            std::ranges::find(found, of) == found.end())
          found.push_back(of);
  std::ranges::sort(found);
  return found;
}

Status DeviceFunctions::collective(uint32_t function, Interpreter& interpreter,
                                   const Interpreter::OpRun& run) {
  const Functions members = sharing(function, run);
  if (members.size() == 1) return interpreter.runCollectiveHere(run);
  std::vector<Arrival>& arrivals = arrived_[members];
  arrivals.push_back({function, &interpreter, &run});
  if (arrivals.size() == members.size()) {
    for (const Arrival& a : arrivals) states_[a.function] = State::Ready;
    return runTogether(std::exchange(arrivals, {}));
  }
  {
    std::lock_guard lock(mutex_);
    states_[function] = State::Waiting;
    passTurn();
  }
  awaitTurn(function);
  if (!stuck_) return Ok{};
  return Error{Error::Machine, interpreter.errorAt(run.op, "waits for devices that do not reach it").message};
}

// Runs the op of the last to arrive, on all devices.
Status DeviceFunctions::runTogether(std::span<const Arrival> arrivals) {
  const Arrival& last = arrivals.back();
  DeviceSet devices;
  for (const Arrival& a : arrivals)
    for (int64_t d : a.run->devices) {
      devices.push_back(d);
      for (size_t k = 0; k < m_[last.run->op].numOperands && a.interpreter != last.interpreter; ++k)
        last.interpreter->setValue(m_.operand(last.run->op, k), d,
                                   a.interpreter->value(m_.operand(a.run->op, k), d));
    }
  std::ranges::sort(devices);
  if (Status s = last.interpreter->runCollectiveHere({last.run->context, last.run->op, devices}); !s)
    return s;
  for (const Arrival& a : arrivals)
    for (int64_t d : a.run->devices)
      for (uint32_t r = 0; r < m_[last.run->op].numResults && a.interpreter != last.interpreter; ++r)
        a.interpreter->setValue(m_.result(a.run->op, r), d,
                                last.interpreter->value(m_.result(last.run->op, r), d));
  return Ok{};
}

} // namespace dtc
