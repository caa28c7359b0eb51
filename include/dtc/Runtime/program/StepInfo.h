#pragma once
// What reports, traces and errors say of a step, and what a run calls after each.
#include "dtc/IR/Module.h"
#include <string>
#include <vector>

namespace dtc {

// The description of a step in reports; sizes are those of the first device that runs it.
struct StepInfo {
  std::string name;  // "gelu_1" (a kernel), "matmul", "all_reduce(tp)", "copy"
  std::string what;  // "kernel", "library", "collective", "copy", "host", "control"
  std::string op;    // the statement's result and op: "%h = fused"
  std::string place; // "FILE:LINE" in the program's text
  std::string user;  // the user's source location and name, if the program records them (IR/UserLocation.h)
  [[nodiscard]] const std::string& where() const { return user.empty() ? place : user; }
  OpId id;
  std::vector<ValueId> results;
  FuncId function;
  int64_t bytes = 0; // read and written (kernels, library), or sent (collectives)
  int64_t flops = 0;
  std::string stream = "compute"; // or "comm tp" for a communicator
  bool overlapped = false;        // a collective overlapped with later steps
};

struct RunHooks {
  bool time = false; // fill events()
  // Called after each step of a device. Makes the run serial, so that the order of calls is deterministic.
  void (*afterStep)(void* self, uint32_t step, int64_t coordinate) = nullptr;
  void* self = nullptr;
  // Receives the output of `print`.
  void (*print)(void* self, const std::string& text) = nullptr;
  void* printSelf = nullptr;
  // Asked between steps by the thread that called run(), about once per step: true ends the run with an error.
  bool (*interrupted)(void* self) = nullptr;
  void* interruptedSelf = nullptr;
  [[nodiscard]] bool isInterrupted() const { return interrupted && interrupted(interruptedSelf); }
};

inline constexpr const char* kInterrupted = "the run was interrupted";

} // namespace dtc
