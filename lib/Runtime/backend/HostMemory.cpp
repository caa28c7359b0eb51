#include "backend/HostMemory.h"

#include <algorithm>
#include <cstdlib>
#include <sys/mman.h>

namespace dtc {

constexpr size_t kHugePage = size_t{2} << 20;

void adviseHugePages(void* p, size_t bytes) {
  if (bytes >= kHugePage) madvise(p, bytes, MADV_HUGEPAGE); // on failure, pages are small
}

void* allocateAligned(size_t bytes) {
  const size_t alignment = bytes < kHugePage ? 64 : kHugePage;
  void* p = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (p) adviseHugePages(p, bytes);
  return p;
}

HostMemory::~HostMemory() {
  for (auto [p, bytes] : blocks_) munmap(p, bytes);
}

Result<std::byte*> HostMemory::allocate(int64_t bytes) {
  size_t size = static_cast<size_t>(std::max<int64_t>(bytes, 64));
  void* p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED)
    return machineError("not enough memory for a device's arena of " + std::to_string(bytes) + " bytes");
  adviseHugePages(p, size);
  blocks_.emplace_back(p, size);
  return static_cast<std::byte*>(p);
}

} // namespace dtc
