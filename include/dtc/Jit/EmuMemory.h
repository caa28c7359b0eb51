#pragma once
// Which bytes of the emulated GPU's memory have been written: a bit each.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace dtc {

// Allocations, and which of their bytes are defined. Safe from several threads, as long as no two write the same bytes.
class EmuMemory {
public:
  // Memory that kernels may touch from now on, nothing of it defined.
  void add(const void* begin, size_t bytes);
  // What a copy or a kernel wrote, or (`defined` false) what nobody may read any more. Bytes outside of all
  // allocations are passed over.
  void set(const void* begin, size_t bytes, bool defined);
  // The bytes at `to` are as defined as those at `from`.
  void copy(const void* to, const void* from, size_t bytes);
  // Is all of it within one allocation?
  [[nodiscard]] bool holds(const void* begin, size_t bytes) const;
  // Are all these bytes defined? Those outside of all allocations are.
  [[nodiscard]] bool defined(const void* begin, size_t bytes) const;

private:
  struct Area {
    uintptr_t begin = 0;
    size_t bytes = 0;
    std::unique_ptr<uint64_t[]> bits;
  };
  [[nodiscard]] const Area* areaOf(const void* begin, size_t bytes) const;
  std::vector<Area> areas_;
};

} // namespace dtc
