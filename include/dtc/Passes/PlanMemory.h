#pragma once
// plan-memory: gives every buffer of a scheduled function its place in the device's arena.
//
// Needs scheduled text; runs last, because before it ops still move and buffers come and go; afterwards only text that
// is executed may follow, since any change of order breaks the plan. It writes `at = [offset, …]` on ops, arguments and
// results and `arena = N` on the function: byte offsets, equal on all devices, every buffer for its largest piece.
//
// A buffer lives from the op that writes it to the last that reads it; what is used in a loop but made outside lives to
// the loop's end. Arguments are never overwritten unless they say {donate = true}; results live to the end; what an op
// without operands makes is made once, when the program is loaded, and lives throughout. A region of kind "view" shares
// the buffer of its operand, a loop's result that of the value that it carries. Buffers get the lowest place that is free
// for their whole life, in the order in which they are made (first fit).
#include "dtc/Passes/Pass.h"
#include <array>
#include <optional>
#include <unordered_map>

namespace dtc {

[[nodiscard]] bool planMemory(Module& m, const PassOptions& options, Diagnostics& diags);
[[nodiscard]] PassInfo planMemoryInfo();

// The buffers of one function, as plan-memory found them: what a trace draws and a report adds up.
struct MemoryPlan {
  struct Buffer {
    ValueId value; // the first value that it holds
    int64_t bytes = 0, offset = 0;
    uint32_t first = 0, last = 0; // positions in which it lives, both ends included
  };
  std::vector<Buffer> buffers;
  std::unordered_map<ValueId, uint32_t> bufferOf;             // of every value that has one
  std::unordered_map<OpId, std::array<uint32_t, 2>> position; // where an op begins and (with regions) ends
  uint32_t numPositions = 0;
  int64_t arenaBytes = 0;
  int64_t lowerBound = 0; // the most bytes that live at one position
};
// Nothing, with diagnostics, where a size is not bound or all buffers together pass 2^63-1 bytes. Without `reuse` every
// buffer keeps its place to the end, so that a check can look at all of them afterwards.
[[nodiscard]] std::optional<MemoryPlan> makeMemoryPlan(const Module& m, FuncId f, Diagnostics& diags,
                                                       bool reuse = true);

inline constexpr int64_t kBufferAlignment = 64; // of every buffer, in bytes
// Does this fused region only give its operand another shape (the same bytes in the same order)?
[[nodiscard]] bool isViewRegion(const Module& m, OpId op);
// Is this op evaluated once, when the program is loaded (constants, a device's indices)?
[[nodiscard]] bool isLoadTimeOp(const Module& m, OpId op);

} // namespace dtc
