#pragma once
// Windows of convolutions, in the layout that oneDNN's implementation reads, packed once as long as the argument that
// they are part of does not change.
#include "backend/cpu/OneDnnLibrary.h"
#include "dtc/Runtime/backend/Backend.h"
#include "dtc/Support/NonCopyable.h"
#include <memory>

namespace dtc {

class PackedWindows : NonCopyable {
public:
  // At most `limit` bytes in all.
  explicit PackedWindows(int64_t limit) : left_(limit) {}

  // `conv`, a convolution of the plugin, reads the window at `at`, an address of a range. It must outlive this.
  void add(const DtcOneDnnTable& oneDnn, void* conv, const void* at, size_t range);
  // The contents of the range have changed, and do not change until the next call of either function: its windows are
  // packed, as far as the memory allows.
  void keep(size_t range);
  // The contents of the range may change at any time.
  void release(size_t range);
  [[nodiscard]] bool isPacked(const void* conv, size_t range) const;

private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  struct Window {
    const void* at = nullptr;
    size_t bytes = 0;
    std::vector<void*> convs; // that read it in the same layout
    std::unique_ptr<std::byte, Free> packed;
  };
  [[nodiscard]] bool pack(Window& w);
  void unpack(Window& w);

  const DtcOneDnnTable* oneDnn_ = nullptr;
  std::vector<std::vector<Window>> windowsOf_; // by range
  int64_t left_;                               // of the limit, in bytes
};

} // namespace dtc
