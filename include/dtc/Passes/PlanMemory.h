#pragma once
// plan-memory: gives every buffer of a scheduled function its place in the device's arena.
//
// Needs scheduled text; runs last, because before it ops still move and buffers come and go; afterwards only text that
// is executed may follow, since any change of order breaks the plan. It writes `at = [offset, …]` on ops, arguments and
// results and `arena = N` on the function: byte offsets, equal on all devices, every buffer for its largest piece.
//
// A value lives from the op that writes it to the last that reads it; what is used in a loop but made outside lives to
// the loop's end. Arguments keep their buffers, unless they say {donate = true} or a result of their name says
// {carry = true}; results live to the end; what an op without operands makes is made once, when the program is loaded,
// and lives throughout.
//
// Values share one buffer where nothing is lost by it: a region of kind "view" and its operand; what a loop carries; an
// elementwise result and an operand that dies with it, element by element in place; and, where their lives allow it, the
// value that a loop starts with or yields and the one that it carries, what the branches of a `cond` yield and its result,
// a carried result and its argument. Where they do not, a copy is made.
//
// The lower bound is the most bytes that live at one position, buffers counted once. Places are found by several quick
// sweeps over time (best fit, the long-lived from below, the short-lived from above), and where none reaches the bound and
// the program is small enough by a search over orders (largest first, then what did not fit goes first).
#include "dtc/Passes/Pass.h"
#include <array>
#include <optional>
#include <unordered_map>

namespace dtc {

[[nodiscard]] bool planMemory(Module& m, const PassOptions& options, Diagnostics& diags);
[[nodiscard]] PassInfo planMemoryInfo();

// The buffers of one function, as plan-memory found them: what a runtime allocates, a trace draws and a report adds up.
struct MemoryPlan {
  struct Range {
    uint32_t first = 0, last = 0; // positions, both ends included
    friend bool operator==(const Range&, const Range&) = default;
  };
  struct Buffer {
    ValueId value; // the first value that it holds
    int64_t bytes = 0, offset = 0;
    std::vector<Range> live; // ascending, with gaps between
  };
  struct Held { // one value, in the order in which they are made
    ValueId value;
    uint32_t buffer = 0;
    Range live;
  };
  std::vector<Buffer> buffers;
  std::vector<Held> values;
  std::unordered_map<ValueId, uint32_t> bufferOf;             // of every value that has one
  std::unordered_map<OpId, std::array<uint32_t, 2>> position; // where an op begins and (with regions) ends
  uint32_t numPositions = 0;
  int64_t arenaBytes = 0;
  int64_t lowerBound =
      0; // the most bytes that live at one position, each buffer a multiple of kBufferAlignment
  uint32_t peakPosition = 0; // the first such position
};
// Nothing, with diagnostics, where a size is not bound or all buffers together pass 2^61-1 bytes. Without `reuse` every
// value keeps a place of its own to the end, so that a check can look at all of them afterwards. What a collective reads stays
// until something else reads what it makes, but for at most `inFlight` more positions: other ops may then run beside it.
[[nodiscard]] std::optional<MemoryPlan> makeMemoryPlan(const Module& m, FuncId f, Diagnostics& diags,
                                                       bool reuse = true, uint32_t inFlight = 0);

inline constexpr int64_t kBufferAlignment = 64; // of every buffer, in bytes
// Does this fused region only give its operand another shape (the same bytes in the same order)?
[[nodiscard]] bool isViewRegion(const Module& m, OpId op);
// Is this op evaluated once, when the program is loaded (constants, a device's indices)?
[[nodiscard]] bool isLoadTimeOp(const Module& m, OpId op);
// The argument that a result with {carry = true} becomes in the next step; nothing where it says no such thing.
[[nodiscard]] std::optional<size_t> carriedArgument(const Module& m, FuncId f, size_t result);

// May the kernel of a fused region write this result over this operand, which nothing reads afterwards? Where all that the
// region makes of the operand are elementwise ops of its shape, the result among them, and every result has that shape:
// then a kernel reads each element in the loop that stores it, before it does. Reductions and norms of the operand's rows
// may stand in between where that result is the only one: they are done with a row before the first of it is stored.
[[nodiscard]] bool canWriteInPlace(const Module& m, OpId fused, uint32_t operand, uint32_t result);

} // namespace dtc
