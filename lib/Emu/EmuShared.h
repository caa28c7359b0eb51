#pragma once
// The shared memory of a cluster's blocks, with guard room around each, and its shadow.
#include "EmuKernel.h"
#include "EmuShadow.h"
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

namespace dtc {

inline constexpr size_t kSharedAlign = 1024; // includes the room before each block's shared memory

// What is reused from launch to launch.
struct EmuSharedPool {
  struct FreeAligned {
    void operator()(void* p) const { std::free(p); }
  };
  std::unique_ptr<uint8_t, FreeAligned> memory; // aligned to kSharedAlign
  size_t bytes = 0;
  std::vector<EmuCell> cells;
  uint32_t tag = 0; // of the current cluster's run
};

class EmuShared {
public:
  EmuShared(EmuSharedPool& pool, const EmuKernel& kernel, size_t dynamicBytes, uint32_t numBlocks);
  [[nodiscard]] bool ok() const { return stride_ != 0; } // false: no memory
  void begin();                                          // all of it is undefined

  [[nodiscard]] uint8_t* of(uint32_t block) const {
    return pool_.memory.get() + block * stride_ + kSharedAlign;
  }
  // Including the guard room, so that checks can identify such an access.
  [[nodiscard]] bool holds(const void* p) const { return offset(p) < stride_ * numBlocks_; }
  [[nodiscard]] std::span<const uint8_t> rangeOf(uint32_t block) const {
    return {of(block) - kSharedAlign, stride_};
  }
  [[nodiscard]] uint32_t blockOf(const void* p) const {
    return numBlocks_ == 1 ? 0 : static_cast<uint32_t>(offset(p) / stride_);
  }
  // Of an address in the block's memory: negative in the room before it.
  [[nodiscard]] int64_t offsetIn(uint32_t block, const void* p) const {
    return static_cast<int64_t>(offset(p) - block * stride_) - static_cast<int64_t>(kSharedAlign);
  }
  // The cells of the `bytes` from an offset in the block's memory: fn(cell), until one returns false.
  template <class Fn> void eachCell(uint32_t block, size_t offset, size_t bytes, Fn&& fn) {
    EmuCell* const cells = pool_.cells.data() + block * cells_;
    for (size_t i = offset >> shift_; i <= (offset + bytes - 1) >> shift_; ++i) {
      if (cells[i].tag != pool_.tag) cells[i] = {}, cells[i].tag = pool_.tag;
      if (!fn(cells[i])) return;
    }
  }

private:
  [[nodiscard]] size_t offset(const void* p) const { return addressOf(p) - addressOf(pool_.memory.get()); }

  EmuSharedPool& pool_;
  size_t size_ = 0, stride_ = 0; // of a block's shared memory, and between blocks
  uint32_t numBlocks_ = 1;
  unsigned shift_ = 0; // log2 of the bytes of a cell
  size_t cells_ = 0;   // of a block
};

} // namespace dtc
