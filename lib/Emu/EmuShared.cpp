#include "EmuShared.h"

#include <bit>
#include <cstring>

namespace dtc {

EmuShared::EmuShared(EmuSharedPool& pool, const EmuKernel& kernel, size_t dynamicBytes, uint32_t numBlocks)
    : pool_(pool), size_(kernel.sharedSpan + dynamicBytes), numBlocks_(numBlocks),
      shift_(static_cast<unsigned>(std::countr_zero(kernel.granule))), cells_((size_ >> shift_) + 1) {
  const size_t stride = 2 * kSharedAlign + (size_ + kSharedAlign - 1) / kSharedAlign * kSharedAlign;
  if (pool.bytes < stride * numBlocks || !pool.memory) {
    pool.bytes = stride * numBlocks;
    pool.memory.reset(static_cast<uint8_t*>(std::aligned_alloc(kSharedAlign, pool.bytes)));
    if (!pool.memory) return;
  }
  if (kernel.checked && size_ && pool.cells.size() < cells_ * numBlocks)
    pool.cells.resize(cells_ * numBlocks);
  stride_ = stride;
}

void EmuShared::begin() {
  ++pool_.tag;
  // Where accesses are not checked, it is filled with NaN.
  for (uint32_t b = 0; b < numBlocks_ && size_; ++b) std::memset(of(b), 0xff, size_);
}

} // namespace dtc
