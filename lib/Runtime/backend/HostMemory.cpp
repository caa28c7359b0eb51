#include "backend/HostMemory.h"

#include <algorithm>
#include <sys/mman.h>

namespace dtc {

HostMemory::~HostMemory() {
  for (auto [p, bytes] : blocks_) munmap(p, bytes);
}

Result<std::byte*> HostMemory::allocate(int64_t bytes) {
  size_t size = static_cast<size_t>(std::max<int64_t>(bytes, 64));
  void* p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED)
    return machineError("not enough memory for a device's arena of " + std::to_string(bytes) + " bytes");
  blocks_.emplace_back(p, size);
  return static_cast<std::byte*>(p);
}

} // namespace dtc
