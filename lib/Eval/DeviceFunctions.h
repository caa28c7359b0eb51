#pragma once
// Programs whose devices differ (IR/DevicePrograms.h): each function has an interpreter on its own thread. One
// thread runs at a time, until its function waits at a collective for devices of other functions.
#include "Interpreter.h"
#include "dtc/IR/DevicePrograms.h"

#include <condition_variable>
#include <map>
#include <mutex>

namespace dtc {

class DeviceFunctions {
public:
  DeviceFunctions(Module& m, const Mesh& mesh, DevicePrograms programs, const EvalOptions& options)
      : m_(m), mesh_(mesh), programs_(std::move(programs)), options_(options),
        states_(programs_.functions.size()) {}
  // `args` and `results` by device. Error: that of an op, or devices that wait for each other.
  [[nodiscard]] Status run(std::span<const std::vector<TensorRef>> args,
                           std::vector<std::vector<TensorRef>>& results);

private:
  enum class State : uint8_t { Ready, Waiting, Done };
  using Functions = std::vector<uint32_t>; // ascending
  struct Arrival {
    uint32_t function;
    Interpreter* interpreter;
    const Interpreter::OpRun* run;
  };
  [[nodiscard]] Status runFunction(uint32_t function, std::span<const std::vector<TensorRef>> args,
                                   std::vector<std::vector<TensorRef>>& results);
  // A collective of one function; the last of those that share it runs it for all.
  [[nodiscard]] Status collective(uint32_t function, Interpreter&, const Interpreter::OpRun&);
  [[nodiscard]] Status runTogether(std::span<const Arrival> arrivals);
  [[nodiscard]] Functions sharing(uint32_t function, const Interpreter::OpRun&) const;
  void passTurn(); // to the next function that is ready
  void awaitTurn(uint32_t function);

  Module& m_;
  const Mesh& mesh_;
  DevicePrograms programs_;
  const EvalOptions& options_;
  // The members below belong to the function whose turn it is; `turn_` is guarded by the mutex.
  std::mutex mutex_;
  std::condition_variable turned_;
  std::vector<State> states_;
  uint32_t turn_ = 0;
  bool stuck_ = false; // all unfinished functions wait
  std::map<Functions, std::vector<Arrival>> arrived_;
};

} // namespace dtc
