#pragma once
// Arenas in host memory: zeroed, page-aligned, given by the system as they are touched.
#include "dtc/Support/Result.h"
#include <cstddef>
#include <utility>
#include <vector>

namespace dtc {

class HostMemory {
public:
  HostMemory() = default;
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  ~HostMemory();
  [[nodiscard]] Result<std::byte*> allocate(int64_t bytes); // Error (Machine): no memory left

private:
  std::vector<std::pair<void*, size_t>> blocks_;
};

} // namespace dtc
