#pragma once
// One block of a launch under cuda-emu: its threads as fibres, its barriers and warp operations.
//
// A fibre runs threads one after the other; it gets stuck with one where that thread waits, and another fibre takes the
// threads that have not begun. A kernel without barriers so runs on one stack without a switch. Who waits is woken by the
// arrival that completes a barrier or a warp's mask; where nobody can run and somebody waits, the kernel is wrong.
#include "Fibre.h"
#include "dtc/Jit/CudaEmu.h"
#include <array>
#include <memory>
#include <string>
#include <vector>

namespace dtc {

enum class EmuBarrier : int32_t { Plain, Count, And, Or };
enum class EmuWarpOp : int32_t { Sync, Shuffle, Up, Down, Xor, Ballot, Any, All };

// What generated code sees of its thread: `__emu_thread` of emu.h.
struct EmuThreadView {
  Dim3 thread, block, blockSize, gridSize;
};

enum class EmuState : uint8_t { New, Running, Ready, AtBarrier, InWarpOp, Done };

struct EmuThread {
  EmuThreadView view;
  EmuState state = EmuState::New;
  Fibre* fibre = nullptr;
  // What it waits in.
  int32_t kind = 0, line = 0, argument = 0, width = 32;
  uint32_t mask = 0;
  uint64_t value = 0;
  uint64_t result = 0;
};

// Fibres and shared memory of one OS thread, reused from launch to launch.
struct EmuWorkspace {
  std::vector<std::unique_ptr<Fibre>> fibres;
  std::vector<Fibre*> idle;
  std::vector<EmuThread> threads;
  struct FreeAligned {
    void operator()(void* p) const;
  };
  std::unique_ptr<uint8_t, FreeAligned> shared; // aligned to 128
  size_t sharedBytes = 0;
};

class EmuBlock {
public:
  using Kernel = void(void* const*);

  EmuBlock(EmuWorkspace& workspace, Kernel* kernel, void* const* args, Dim3 grid, Dim3 block);
  // Runs block `index`; "" or what the kernel did wrong (without its name).
  [[nodiscard]] std::string run(Dim3 index);

  // Called from the running thread, through emu.h.
  int32_t barrier(EmuBarrier kind, int32_t value, int32_t line);
  uint64_t warp(EmuWarpOp op, uint32_t mask, uint64_t value, int32_t argument, int32_t width, int32_t line);
  [[nodiscard]] uint32_t activeLanes() const { return warps_[current_ / 32].present; }
  [[nodiscard]] const EmuThreadView* self() const { return &threads_[current_].view; }
  [[nodiscard]] uint8_t* shared() const { return workspace_.shared.get(); }

private:
  static void fibreEntry(void* block);
  void runThreads();
  void leave();
  void wait(EmuState state);
  // Leaves the block with error_ set, never to come back: nothing of the caller may need a destructor.
  [[noreturn]] void abandon();
  Fibre* newFibre();
  void threadDone();
  void releaseBarrier();
  bool tryWarpOp(uint32_t number); // completes what `number` waits in if all lanes of its mask are there
  void finishWarpOp(uint32_t begin, uint32_t lanes);
  [[nodiscard]] std::string describeDeadlock() const;
  [[nodiscard]] std::string describe(uint32_t number) const;

  EmuWorkspace& workspace_;
  Kernel* kernel_;
  void* const* args_;
  std::vector<EmuThread>& threads_;
  MainFibre main_;
  Fibre* running_ = nullptr;
  std::vector<uint32_t> ready_; // a queue: [head_, size)
  size_t head_ = 0;
  uint32_t next_ = 0, current_ = 0, done_ = 0, atBarrier_ = 0;
  struct Warp {
    uint32_t present = 0; // lanes that exist and have not returned
    uint32_t waiting = 0; // lanes in a warp operation
  };
  std::array<Warp, 32> warps_;
  std::string error_;
};

} // namespace dtc
