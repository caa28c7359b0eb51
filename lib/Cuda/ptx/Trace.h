#pragma once
// Executes the index arithmetic of one thread of a kernel, to count what the thread does: its accesses of
// global memory with their addresses, its instructions, and how long it waits. Integers and predicates are
// computed. Data is not: every loaded value is 0, and arithmetic of floats gives 0. No value is NaN.
#include "Ptx.h"
#include "dtc/Target/GpuModel.h"

namespace dtc::ptx {

struct Launch {
  int threads = 0, cluster = 1;
  int64_t blocks = 0;
  std::vector<uint64_t> params; // by number; pointers are addressOf(argument)
  std::vector<bool> cached;     // by argument: small, and so in L2
};

// Arguments are 2^40 bytes apart.
[[nodiscard]] constexpr uint64_t addressOf(uint32_t argument) { return (uint64_t(argument) + 1) << 40; }
// -1: the address is not in an argument.
[[nodiscard]] constexpr int argumentAt(uint64_t address) { return static_cast<int>(address >> 40) - 1; }

struct Access {
  int instruction = 0;
  int64_t visit = 0; // the how manieth execution of the instruction
  uint64_t address = 0;
  int bytes = 0;
  bool store = false, ofData = false; // ofData: the address depends on loaded values
};

struct ThreadTrace {
  std::vector<Access> accesses;
  int64_t steps = 0; // instructions executed
  double issue = 0;  // issue slots, as machine instructions
  double special = 0, f64 = 0;
  int64_t sharedBytes = 0, flops = 0; // flops: of mma, of the warp
  int64_t loadedBytes = 0;            // of arguments that are not cached
  int64_t waits = 0;                  // for loads of global memory, one after the other
  double cycles = 0;                  // of the thread, alone on its multiprocessor
  bool cutOff = false;                // the limit was reached
  bool byData = false;                // a branch depended on loaded values
};

struct Limits {
  int64_t steps = 100000;
  bool firstAccess = false; // stop at the first access of global memory
};

[[nodiscard]] ThreadTrace traceThread(const Kernel&, const Launch&, const GpuModel&, int64_t block,
                                      int thread, const Limits&);

// Machine instructions of one of PTX, roughly: a move is none, a 64-bit sum two, a 64-bit division a hundred.
[[nodiscard]] double issueSlots(const Instruction&);

} // namespace dtc::ptx
