#pragma once
// Arenas in host memory: zeroed, page-aligned, committed on first touch.
#include "dtc/Support/NonCopyable.h"
#include "dtc/Support/Result.h"
#include <cstddef>
#include <utility>
#include <vector>

namespace dtc {

// Rows of a matrix are on many pages: with small pages, matmuls wait for the translation of their addresses.
void adviseHugePages(void* p, size_t bytes);
// 64-byte aligned, to be released with free(); null: out of memory.
[[nodiscard]] void* allocateAligned(size_t bytes);

class HostMemory : NonCopyable {
public:
  HostMemory() = default;
  ~HostMemory();
  [[nodiscard]] Result<std::byte*> allocate(int64_t bytes); // Error (Machine): out of memory

private:
  std::vector<std::pair<void*, size_t>> blocks_;
};

} // namespace dtc
