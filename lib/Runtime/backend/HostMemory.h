#pragma once
// Arenas in host memory: zeroed, page-aligned, committed on first touch.
#include "dtc/Support/NonCopyable.h"
#include "dtc/Support/Result.h"
#include <cstddef>
#include <utility>
#include <vector>

namespace dtc {

class HostMemory : NonCopyable {
public:
  HostMemory() = default;
  ~HostMemory();
  [[nodiscard]] Result<std::byte*> allocate(int64_t bytes); // Error (Machine): out of memory

private:
  std::vector<std::pair<void*, size_t>> blocks_;
};

} // namespace dtc
