#pragma once
// Loads a relocatable x86-64 ELF object, as emitted by the plugin, into this process: sections into one
// mapping (code read-execute, constants read-only, data read-write), relocations applied, no thread-local
// storage, no unwinding tables. It replaces a linker, so that code from the cache is loaded in tens of
// microseconds without LLVM.
#include "dtc/Support/NonCopyable.h"
#include "dtc/Support/Result.h"
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dtc {

// A function or object of the process that loaded code may refer to.
struct HostSymbol {
  std::string_view name;
  const void* address;
};

class LoadedObject : NonCopyable {
public:
  ~LoadedObject();
  // Global functions and objects that the object defines.
  [[nodiscard]] const std::vector<std::pair<std::string, void*>>& symbols() const { return symbols_; }
  [[nodiscard]] size_t bytes() const { return size_; }
  // True if `p` is in its code or data.
  [[nodiscard]] bool holds(const void* p) const {
    return static_cast<size_t>(static_cast<const char*>(p) - static_cast<const char*>(base_)) < size_;
  }

private:
  LoadedObject() = default;
  friend class ElfLoader;
  void* base_ = nullptr;
  size_t size_ = 0;
  std::vector<std::pair<std::string, void*>> symbols_;
};

// `object` may come from a file: for any content, nothing outside of it is read and nothing outside of the
// new mapping is written. Errors (Bug): malformed, a symbol that is neither in it nor in `hosts` (looked up
// first) nor in the fixed list of libc and libm functions, a relocation of an unknown kind or out of range.
// Machine: no memory.
[[nodiscard]] Result<std::shared_ptr<const LoadedObject>> loadObject(std::string_view object,
                                                                     std::span<const HostSymbol> hosts = {});

} // namespace dtc
