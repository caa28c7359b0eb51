#pragma once
// An emulated thread: what it does, what it waits for, and what it knows of the others' accesses.
#include "EmuShadow.h"
#include "Fibre.h"
#include "dtc/Emu/CudaEmu.h"
#include <array>
#include <memory>
#include <string>
#include <vector>

namespace dtc {

enum class EmuBarrier : int32_t { Plain, Count, And, Or };
enum class EmuWarpOp : int32_t {
  Sync,
  Shuffle,
  Up,
  Down,
  Xor,
  Ballot,
  Any,
  All,
  MmaBf16,
  MmaF16,
  Matrices,
  MatricesTransposed
};

// The state of the thread that generated code sees: `__emu_thread` of emu.h.
struct EmuThreadView {
  Dim3 thread, block, blockSize, gridSize;
  uint32_t clusterRank = 0, clusterSize = 1;
};

enum class EmuState : uint8_t {
  New,
  Running,
  Ready,
  AtBarrier,
  AtNamedBarrier,
  AtClusterBarrier,
  InWarpOp,
  Done
};

// 16 bytes of an asynchronous copy to shared memory.
struct EmuCopy {
  uint8_t* to = nullptr;
  const uint8_t* from = nullptr;
  uint32_t count = 0; // bytes copied; the rest is zero
  std::array<uint8_t, 16> bytes{};
  const char* location = nullptr;
  uint32_t group = 0;
};

struct EmuThread {
  EmuThreadView view;
  EmuState state = EmuState::New;
  Fibre* fibre = nullptr;
  // The operation in which it waits.
  int32_t kind = 0, line = 0, argument = 0, width = 32;
  const char* location = nullptr; // "14 (device.h:73)", or null: only `line` is known
  uint32_t mask = 0;
  uint64_t value = 0;
  uint64_t result = 0;
  // The thread's state for shadow memory (EmuActor).
  uint32_t clock = 1, blockClock = 0;
  std::unique_ptr<std::array<uint32_t, 32>> laneClocks, warpClocks; // if the kernel uses such barriers
  std::vector<EmuCopy> copies;                                      // in the order they were started
  const emu::OwnVariable* own = nullptr;                            // the local variable it points at
  uint64_t numOwn = 0;
  // For fences: ordered-before knowledge; knowledge acquired at the next fence or barrier; knowledge that its
  // writes publish.
  EmuKnowledge known, seen, released;
  bool leaves = false;    // by a `return` before the kernel's end
  uint32_t copyGroup = 0; // those not committed
};

[[nodiscard]] std::string emuTuple(const Dim3& d);                     // "(1, 2, 3)"
[[nodiscard]] Dim3 emuThreadIndex(const Dim3& block, uint32_t thread); // of a block's thread
[[nodiscard]] std::string emuLine(int32_t line, const char* location); // "14 (device.h:73)", or "14"
[[nodiscard]] std::string emuHex(uint32_t v);
[[nodiscard]] std::string describe(const EmuThread& t); // what it waits for
// True if both wait at the same barrier or operation of the text: each has a location of its own.
[[nodiscard]] bool sameLocation(const EmuThread& a, const EmuThread& b);

} // namespace dtc
