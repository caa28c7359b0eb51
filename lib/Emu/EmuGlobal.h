#pragma once
// The global memory of one checked launch: a copy of each buffer, far from the others, with its shadow. The
// kernel's writes are copied to the real buffers once it has passed the checks.
#include "EmuShadow.h"
#include "dtc/Emu/CudaEmu.h"
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
    uintptr_t work = 0, real = 0; // the base addresses of the copy and of the buffer
    size_t bytes = 0;
    bool read = false, written = false, defined = false; // defined: all bytes were before the launch
    uint32_t argument = 0;                               // the first argument that points into it
    EmuStrips strips;
    EmuCell* cells = nullptr;
  };

  // `granule`: the bytes per shadow cell.
  EmuGlobal(Memory& memory, const EmuLaunch& launch, size_t granule);
  [[nodiscard]] Status prepare();
  [[nodiscard]] void* const* args() { return arguments_.data(); } // pointers into the copies
  // The region that contains `p`, or the nearest one (null where there is none).
  [[nodiscard]] const Region* nearest(uintptr_t p) const;
  [[nodiscard]] bool defined(const Region& region, size_t offset, size_t bytes) const;

  // "" or the part of a `writtenFully` buffer that no thread has written.
  [[nodiscard]] std::string unwritten() const;
  // "" or the difference to the results of the other order.
  [[nodiscard]] std::string differs(const EmuGlobal& other) const;
  void commit(); // copies to the real buffers, and updates the defined bytes

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
