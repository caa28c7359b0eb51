#pragma once
// One cluster of blocks of a launch under cuda-emu (usually one block): its threads as fibres, its barriers
// and warp operations, and the checks of its accesses.
//
// A fibre runs threads one after the other; it stays with a thread that waits, and another fibre takes the
// threads that have not started. So a kernel without barriers runs on one stack without a switch. Waiting
// threads are woken by the arrival that completes a barrier or a warp's mask; if no thread can run and some
// wait, the kernel has a deadlock.
#include "EmuChecks.h"
#include "EmuFences.h"
#include "EmuWarp.h"
#include <algorithm>

namespace dtc {

// Fibres and memory of one OS thread, reused from launch to launch.
struct EmuWorkspace {
  std::vector<std::unique_ptr<Fibre>> fibres;
  std::vector<Fibre*> idle;
  std::vector<EmuThread> threads;
  EmuSharedPool shared;
  EmuGlobal::Memory global[2]; // of the two orders
};

class EmuCluster {
public:
  // `global`: the memory the launch may access; null where its global accesses are not checked. `reversed`:
  // the second order.
  EmuCluster(EmuWorkspace& workspace, const EmuKernel& kernel, const EmuLaunch& launch, void* const* args,
             EmuGlobal* global, bool reversed);
  [[nodiscard]] bool ok() const { return shared_.ok(); } // false: no memory
  // Runs cluster `number` of the grid; "" or the kernel's error (without its name).
  [[nodiscard]] std::string run(uint32_t number);
  [[nodiscard]] uint64_t clusters() const {
    return uint64_t{launch_.grid.x} * launch_.grid.y * launch_.grid.z / numBlocks_;
  }
  // True if it used atomics whose result depends on their order.
  [[nodiscard]] bool inexact() const { return inexact_; }
  [[nodiscard]] bool noStack() const { return noStack_; } // no memory for one

  // Called from the running thread, through emu.h.
  int32_t barrier(EmuBarrier kind, int32_t value, int32_t line, const char* location);
  void namedBarrier(uint32_t id, uint32_t count, int32_t line, const char* location);
  void clusterBarrier(int32_t line, const char* location);
  uint64_t warp(EmuWarpOp op, uint32_t mask, uint64_t value, int32_t argument, int32_t width, int32_t line,
                const char* location);
  void* mapShared(const void* p, uint32_t rank, int32_t line, const char* location);
  void copyAsync(void* to, const void* from, int32_t bytes, const char* location);
  void copyCommit() { ++me().copyGroup; }
  void copyWait(int32_t left);
  void access(const void* p, uint64_t code, const char* location);
  void own(const emu::OwnVariable* variables, uint64_t count) { me().own = variables, me().numOwn = count; }
  void fence(bool blocks);
  void enter(const void* frame, const char* location); // a function that calls itself
  void leaves() { me().leaves = true; }
  void fault(emu::Fault what, int64_t number, const char* variable, const char* location);
  // The checks after each of these: do not return after an error, and nothing on the stack is destroyed.
  void abandonIfFailed() {
    if (failed()) abandon();
  }
  [[nodiscard]] bool failed() const { return !error_.empty(); }
  [[nodiscard]] uint32_t activeLanes() { return warpOf(current_).present; }
  [[nodiscard]] const EmuThreadView* self() const { return &threads_[current_].view; }
  [[nodiscard]] uint8_t* shared() const { return shared_.of(blockOf(current_)); }
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
    // A thread of another block that has used this block's shared memory since the last cluster barrier.
    bool used = false;
    uint32_t user = 0;
    const char* userLocation = nullptr;
  };

  // --- threads and fibres ---
  static void fibreEntry(void* cluster);
  void begin(uint32_t number);
  void runThreads();
  void leave(bool toNew = false); // `toNew`: prefers a thread that has not started to those that were woken
  void yield();
  void wait(EmuState state);
  void wake(uint32_t thread);
  Fibre* newFibre();
  void threadDone();
  // The threads of the cluster: usually of one block, and this is on the path of every access.
  [[nodiscard]] uint32_t blockOf(uint32_t thread) const { return numBlocks_ == 1 ? 0 : thread / perBlock_; }
  [[nodiscard]] uint32_t laneOf(uint32_t thread) const { return (thread - blockOf(thread) * perBlock_) % 32; }
  [[nodiscard]] Warp& warpOf(uint32_t thread) {
    const uint32_t block = blockOf(thread);
    return warps_[block * warpsPerBlock_ + (thread - block * perBlock_) / 32];
  }
  [[nodiscard]] std::span<EmuThread> lanesOf(uint32_t begin) { // of the warp that begins with thread `begin`
    return std::span(threads_).subspan(begin, std::min(32u, perBlock_ - begin % perBlock_));
  }
  [[nodiscard]] std::span<EmuThread> threadsOf(uint32_t block) {
    return std::span(threads_).subspan(size_t{block} * perBlock_, perBlock_);
  }
  [[nodiscard]] EmuThread& me() { return threads_[current_]; }
  [[nodiscard]] EmuActor actor() const;

  // --- errors: the caller returns to generated code's call, which then leaves the cluster ---
  void fail(uint32_t thread, const std::string& text);
  void refuse(int32_t line, const char* location, const std::string& why); // the running thread's operation
  void failAt(const char* location, const std::string& text);              // its error there
  void failAccess(const EmuAccess& a, const std::string& text);            // "": none
  void failDeadlock();
  [[nodiscard]] std::string says(uint32_t thread) const { return describe(threads_[thread]); }
  [[noreturn]] void abandon();

  // --- barriers and warps ---
  void releaseBarrier(uint32_t block);
  void releaseNamed(uint32_t block, uint32_t id);
  bool tryReleaseCluster();
  uint32_t nextClock(std::span<const EmuThread> threads); // above all of theirs
  // completes the operation in which `number` waits if all lanes of its mask have arrived
  bool tryWarpOp(uint32_t number);
  // Shared memory of another block of the cluster: "" or why it may not be accessed now.
  [[nodiscard]] std::string useRemote(const EmuAccess& a, uint32_t block);

  EmuWorkspace& workspace_;
  const EmuKernel& kernel_;
  const EmuLaunch& launch_;
  void* const* args_;
  const bool reversed_;
  const uint32_t perBlock_, numBlocks_, warpsPerBlock_;
  EmuShared shared_;
  EmuChecks checks_;
  EmuFences fences_;
  std::vector<EmuThread>& threads_; // of all blocks, contiguous
  std::vector<Block> blocks_;
  std::vector<Warp> warps_;
  MainFibre main_;
  Fibre* running_ = nullptr;
  std::vector<uint32_t> ready_; // a queue: [head_, size)
  size_t head_ = 0;
  uint32_t next_ = 0, current_ = 0, done_ = 0, atCluster_ = 0;
  uint32_t number_ = 0, clusterClock_ = 0;
  bool inexact_ = false;
  // the location of the last atomic or volatile access, and its number of repetitions
  const void* watched_ = nullptr;
  uint32_t looks_ = 0, yields_ = 0;
  std::string error_;
  bool noStack_ = false;
};

} // namespace dtc
