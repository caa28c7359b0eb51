#pragma once
// The global memory of one checked launch: a copy of each buffer, far from the others, with its shadow. What the kernel writes
// reaches the real buffers once it has proved right.
#include "EmuShadow.h"
#include "dtc/Jit/CudaEmu.h"
#include <string>
#include <vector>

namespace dtc {

class EmuGlobal {
public:
  // Address space that grows, zero where nothing was written since the last clear().
  class Pool {
  public:
    Pool() = default;
    Pool(const Pool&) = delete;
    Pool& operator=(const Pool&) = delete;
    ~Pool();
    [[nodiscard]] bool reserve(size_t bytes); // false: no memory
    void clear(size_t bytes);
    [[nodiscard]] uint8_t* data() const { return static_cast<uint8_t*>(memory_); }

  private:
    void* memory_ = nullptr;
    size_t size_ = 0;
  };
  struct Memory {
    Pool copies, cells;
  };
  // Buffers that overlap are one region.
  struct Region {
    uintptr_t work = 0, real = 0; // where the copy and the buffer begin
    size_t bytes = 0;
    bool read = false, written = false, defined = false; // defined: all of it was before the launch
    uint32_t argument = 0;                               // the first that points into it
    EmuStrips strips;
    EmuCell* cells = nullptr;
  };

  // `granule`: what a cell stands for.
  EmuGlobal(Memory& memory, const EmuLaunch& launch, size_t granule);
  [[nodiscard]] Status prepare();
  [[nodiscard]] void* const* args() { return arguments_.data(); } // pointers into the copies
  // The region that `p` lies in, or the nearest one (null where there is none).
  [[nodiscard]] const Region* nearest(uintptr_t p) const;
  [[nodiscard]] bool defined(const Region& region, size_t offset, size_t bytes) const;

  // "" or which part of a buffer that is to be written whole nothing was written to.
  [[nodiscard]] std::string unwritten() const;
  // "" or how the results differ from those of the other order.
  [[nodiscard]] std::string differs(const EmuGlobal& other) const;
  void commit(); // to the real buffers, and to what is known to be defined

private:
  void joinOverlapping();
  void markDefined(const Region& region);

  Memory& memory_;
  const EmuLaunch& launch_;
  size_t granule_;
  std::vector<Region> regions_; // by address
  std::vector<void*> pointers_, arguments_;
};

} // namespace dtc
