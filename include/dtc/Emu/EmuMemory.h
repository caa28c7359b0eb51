#pragma once
// The written bytes of the emulated GPU's memory: a bit each.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace dtc {

inline uintptr_t addressOf(const void* p) { return reinterpret_cast<uintptr_t>(p); }

// Allocations, and their defined bytes. Thread-safe, as long as no two threads write the same bytes.
class EmuMemory {
public:
  // Memory that kernels may access from now on, initially undefined.
  void add(const void* begin, size_t bytes);
  // Marks bytes as written by a copy or a kernel, or (`defined` false) as undefined. Bytes outside of all
  // allocations are ignored.
  void set(const void* begin, size_t bytes, bool defined);
  // Copies the definedness of the bytes at `from` to those at `to`.
  void copy(const void* to, const void* from, size_t bytes);
  // True if all of it is within one allocation.
  [[nodiscard]] bool holds(const void* begin, size_t bytes) const;
  // True if all these bytes are defined; those outside of all allocations are.
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
