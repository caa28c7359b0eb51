#pragma once
// One cluster of blocks of a launch under cuda-emu (mostly one block): its threads as fibres, its barriers and warp
// operations, and the checks of its accesses.
//
// A fibre runs threads one after the other; it gets stuck with one where that thread waits, and another fibre takes the
// threads that have not begun. A kernel without barriers so runs on one stack without a switch. Who waits is woken by the
// arrival that completes a barrier or a warp's mask; where nobody can run and somebody waits, the kernel is wrong.
#include "ElfLoader.h"
#include "EmuGlobal.h"
#include "EmuShadow.h"
#include "Fibre.h"
#include "dtc/Jit/CudaEmu.h"
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
  MatricesTurned
};

// What generated code sees of its thread: `__emu_thread` of emu.h.
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

// 16 bytes on their way to shared memory.
struct EmuCopy {
  uint8_t* to = nullptr;
  const uint8_t* from = nullptr;
  uint32_t count = 0; // bytes from there; the rest is zero
  std::array<uint8_t, 16> bytes{};
  const char* place = nullptr;
  uint32_t group = 0;
};

struct EmuThread {
  EmuThreadView view;
  EmuState state = EmuState::New;
  Fibre* fibre = nullptr;
  // What it waits in.
  int32_t kind = 0, line = 0, argument = 0, width = 32;
  const char* place = nullptr; // "14 (device.h:73)", or null: `line` alone is known
  uint32_t mask = 0;
  uint64_t value = 0;
  uint64_t result = 0;
  // For shadow memory (EmuActor).
  uint32_t clock = 1, blockClock = 0;
  std::unique_ptr<std::array<uint32_t, 32>> laneClocks, warpClocks; // where the kernel uses such barriers
  std::vector<EmuCopy> copies;                                      // in the order they were started
  const emu::OwnVariable* own = nullptr;                            // what it points at of its own
  uint64_t numOwn = 0;
  // By fences: what it knows; what it has seen and knows behind the next fence or barrier; what its writes publish.
  EmuKnowledge known, seen, released;
  bool leaves = false;    // by a `return` before the kernel's end
  uint32_t copyGroup = 0; // of those that are not committed
};

// A compiled kernel.
struct EmuKernel {
  using Call = void(void* const*);
  struct Variable {
    std::string name;
    size_t offset = 0, bytes = 0; // in a block's shared memory; the dynamic part has no size here
  };
  std::string name;
  Call* call = nullptr;
  size_t numArgs = 0;
  size_t sharedBytes = 0;          // what its unit's static shared variables take on a GPU
  size_t sharedSpan = 0;           // and here, where they may lie apart; the dynamic part begins there
  std::vector<Variable> variables; // of its unit
  uint32_t bound = 1024;           // __launch_bounds__, 1024 where there is none
  Dim3 cluster;
  std::shared_ptr<const LoadedObject> object; // of its code and constants
  bool checked = false;
  size_t granule = 1;             // no access is smaller
  size_t localBytes = 0;          // of a thread's own variables
  std::vector<std::string> lines; // of its unit's text
};

// Fibres, shared memory and shadows of one OS thread, reused from launch to launch.
struct EmuWorkspace {
  std::vector<std::unique_ptr<Fibre>> fibres;
  std::vector<Fibre*> idle;
  std::vector<EmuThread> threads;
  struct FreeAligned {
    void operator()(void* p) const;
  };
  std::unique_ptr<uint8_t, FreeAligned> shared; // aligned to kSharedAlign
  size_t sharedBytes = 0;
  std::vector<EmuCell> sharedCells;
  uint32_t tag = 0;            // of the present cluster's run, for sharedCells
  EmuGlobal::Memory global[2]; // of the two orders
};

inline constexpr size_t kSharedAlign = 1024; // also the room before each block's shared memory

class EmuCluster {
public:
  // `global`: what the launch may touch; null where its global accesses are not checked. `reversed`: the second order.
  EmuCluster(EmuWorkspace& workspace, const EmuKernel& kernel, const EmuLaunch& launch, void* const* args,
             EmuGlobal* global, bool reversed);
  [[nodiscard]] bool ok() const { return stride_ != 0; } // false: no memory
  // Runs cluster `number` of the grid; "" or what the kernel did wrong (without its name).
  [[nodiscard]] std::string run(uint32_t number);
  [[nodiscard]] uint64_t clusters() const;
  // Did it ask for atomics whose result depends on their order?
  [[nodiscard]] bool inexact() const { return inexact_; }
  [[nodiscard]] bool noStack() const { return noStack_; } // no memory for one

  // Called from the running thread, through emu.h.
  int32_t barrier(EmuBarrier kind, int32_t value, int32_t line, const char* place);
  void namedBarrier(uint32_t id, uint32_t count, int32_t line, const char* place);
  void clusterBarrier(int32_t line, const char* place);
  uint64_t warp(EmuWarpOp op, uint32_t mask, uint64_t value, int32_t argument, int32_t width, int32_t line,
                const char* place);
  void* mapShared(const void* p, uint32_t rank, int32_t line, const char* place);
  void copyAsync(void* to, const void* from, int32_t bytes, const char* place);
  void copyCommit();
  void copyWait(int32_t left, const char* place);
  void access(const void* p, uint64_t code, const char* place);
  void own(const emu::OwnVariable* variables, uint64_t count) {
    threads_[current_].own = variables, threads_[current_].numOwn = count;
  }
  void fence(bool blocks);
  void enter(const void* frame, const char* place); // a function that is called anew by itself
  void leaves() { threads_[current_].leaves = true; }
  void fault(emu::Fault what, int64_t number, const char* variable, const char* place);
  // Behind each of these: does not come back after an error, and nothing on the stack is destroyed.
  void abandonIfFailed() {
    if (failed()) abandon();
  }
  [[nodiscard]] bool failed() const { return !error_.empty(); }
  [[nodiscard]] uint32_t activeLanes() const { return warpOf(current_).present; }
  [[nodiscard]] const EmuThreadView* self() const { return &threads_[current_].view; }
  [[nodiscard]] uint8_t* shared() const { return sharedOf(blockOf(current_)); }
  void noteInexact() { inexact_ = true; }

private:
  struct Warp {
    uint32_t present = 0; // lanes that exist and have not returned
    uint32_t waiting = 0; // lanes in a warp operation
  };
  struct Named {
    uint32_t count = 0, arrived = 0;
  };
  struct Block {
    Dim3 index;
    uint32_t atBarrier = 0, done = 0;
    std::array<Named, 16> named;
    // A thread of another block that has used its shared memory since the last cluster barrier.
    bool used = false;
    uint32_t user = 0;
    const char* userPlace = nullptr;
  };
  struct Access {
    const void* at = nullptr;
    uint32_t bytes = 0, align = 1;
    emu::AccessKind kind = emu::Read;
    const char* place = nullptr;
  };

  // --- threads and fibres ---
  static void fibreEntry(void* cluster);
  void begin(uint32_t number);
  void runThreads();
  void leave(bool toNew = false); // `toNew`: a thread that has not begun before those that were woken
  void yield();
  void publish(const void* at, emu::AccessKind kind);
  void shareKnowledge(uint32_t begin, uint32_t end);
  void wait(EmuState state);
  void wake(uint32_t thread);
  // What thread `thread` did wrong. The caller returns to generated code's call, which then leaves the cluster for good.
  void fail(uint32_t thread, const std::string& text);
  [[noreturn]] void abandon();
  Fibre* newFibre();
  void threadDone();

  // --- barriers and warps (EmuSync.cpp) ---
  void releaseBarrier(uint32_t block);
  void releaseNamed(uint32_t block, uint32_t id);
  bool tryReleaseCluster();
  uint32_t nextClock(uint32_t begin, uint32_t end); // above all of these threads' clocks
  bool tryWarpOp(uint32_t number); // completes what `number` waits in if all lanes of its mask are there
  void finishWarpOp(uint32_t begin, uint32_t lanes);
  [[nodiscard]] bool sameMasks(uint32_t begin, uint32_t lanes); // else it has failed
  void orderLanes(uint32_t begin, uint32_t lanes);
  void noSource(uint32_t thread, int lane, int source); // fails: lane `source` does not take part
  void multiply(uint32_t begin, uint32_t lanes);        // dtc_mma of the warp that begins with thread `begin`
  void giveMatrices(uint32_t begin, uint32_t lanes);    // dtc_load_matrices likewise
  [[nodiscard]] bool wholeWarp(uint32_t begin, uint32_t lanes);
  [[nodiscard]] EmuCell* sharedCell(const void* p);                 // null where nothing is checked
  [[nodiscard]] bool inShared(const void* p, uint32_t block) const; // of that block
  void noteCopier(uint8_t* to, uint32_t copier, const char* place);
  [[nodiscard]] bool copySourceKept(const EmuCopy& copy); // else it has failed
  // Of the cluster: mostly the only one, and every access asks.
  [[nodiscard]] uint32_t blockOf(uint32_t thread) const { return numBlocks_ == 1 ? 0 : thread / perBlock_; }
  [[nodiscard]] Warp& warpOf(uint32_t thread) {
    const uint32_t block = blockOf(thread);
    return warps_[block * warpsPerBlock_ + (thread - block * perBlock_) / 32];
  }
  [[nodiscard]] const Warp& warpOf(uint32_t thread) const {
    return const_cast<EmuCluster*>(this)->warpOf(thread);
  }
  [[nodiscard]] uint32_t laneOf(uint32_t thread) const { return (thread - blockOf(thread) * perBlock_) % 32; }
  void failDeadlock();
  [[nodiscard]] std::string describe(uint32_t thread) const;
  [[nodiscard]] std::string lineOf(int32_t line, const char* place) const;

  // --- accesses (EmuAccess.cpp) ---
  [[nodiscard]] EmuActor actor() const;
  [[nodiscard]] uint8_t* sharedOf(uint32_t block) const {
    return workspace_.shared.get() + block * stride_ + kSharedAlign;
  }
  void ownAccess(const Access& a); // where only the run tells which variable of the thread's own it is
  void sharedAccess(const Access& a);
  void remoteAccess(const Access& a, uint32_t block);
  void trustedAccess(const Access& a, bool reads, bool writes); // of a launch without buffers
  void globalAccess(const Access& a);
  [[nodiscard]] bool aligned(const Access& a) const;
  void failAlignment(const Access& a, const std::string& what);
  [[nodiscard]] int32_t placeNumber(const char* place) const;
  void failAccess(const Access& a, const std::string& text);
  void failCopier(const Access& a, const EmuCell& cell, const std::string& what);
  void failAt(const char* place, const std::string& text); // what the running thread does wrong there
  void failConflict(const Access& a, const EmuConflict& c, const std::string& what);
  [[nodiscard]] std::string sharedText(size_t offset, uint32_t block) const;
  [[nodiscard]] Dim3 blockIndex(uint64_t cluster, uint32_t rank) const;

  EmuWorkspace& workspace_;
  const EmuKernel& kernel_;
  const EmuLaunch& launch_;
  void* const* args_;
  EmuGlobal* global_;
  const bool reversed_;
  const uint32_t perBlock_, numBlocks_, warpsPerBlock_;
  size_t sharedSize_ = 0, stride_ = 0; // of a block's shared memory, and from block to block
  unsigned granuleShift_ = 0;          // log2 of kernel_.granule
  size_t sharedCells_ = 0;             // of a block
  std::vector<EmuThread>& threads_;    // of all blocks, one block after the other
  std::vector<Block> blocks_;
  std::vector<Warp> warps_;
  MainFibre main_;
  Fibre* running_ = nullptr;
  std::vector<uint32_t> ready_; // a queue: [head_, size)
  size_t head_ = 0;
  uint32_t next_ = 0, current_ = 0, done_ = 0, atCluster_ = 0;
  uint32_t number_ = 0, clusterClock_ = 0;
  bool inexact_ = false;
  const EmuGlobal::Region* region_ = nullptr; // of the last access
  const void* watched_ = nullptr; // the place of the last atomic or volatile access, and how often in a row
  uint32_t looks_ = 0, yields_ = 0;
  std::unordered_map<const void*, EmuKnowledge> published_; // by all clusters of the launch
  bool fenced_ = false;                                     // has any thread of the launch come to a fence?
  std::string error_;
  bool noStack_ = false;
};

[[nodiscard]] std::string emuTuple(const Dim3& d); // "(1, 2, 3)"

} // namespace dtc
