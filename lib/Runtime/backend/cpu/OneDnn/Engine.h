#pragma once
// Helpers shared by the plugin's primitives.
#include "../OneDnnPlugin.h"

#include <cstdio>
#include <new>
#include <oneapi/dnnl/dnnl.hpp>
#include <sys/mman.h>

namespace dtc::onednn {

inline dnnl::engine& engine() {
  static dnnl::engine one(dnnl::engine::kind::cpu, 0);
  return one;
}

// While it lives, oneDNN plans and executes on the calling thread alone. The thread may be the caller's own, whose
// number of OpenMP threads (PyTorch's torch.get_num_threads()) is then as before.
class OneThread {
public:
  OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;
  ~OneThread();

private:
  int before_ = 0; // 0: without OpenMP
};

inline dnnl::memory::data_type dataType(int type) {
  using Type = dnnl::memory::data_type;
  constexpr Type kTypes[] = {Type::f32, Type::bf16, Type::s8, Type::u8, Type::s32};
  return kTypes[type];
}

// Bytes in a scratch, so that what follows them is aligned.
inline size_t rounded(size_t bytes) {
  constexpr size_t kAlignment = 64;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// oneDNN requires plausible strides even for dims of size 1.
dnnl::memory::desc describe(dnnl::memory::data_type type, const dnnl::memory::dims& sizes,
                            dnnl::memory::dims strides);

// Throws std::bad_alloc if there is no room for the code that oneDNN generates once: it would crash.
inline void roomForCode() {
  constexpr size_t kBytes = size_t{16} << 20; // of the matmul kernels for AVX2: 6 to 9 MiB
  static const bool fits = [] {
    void* room = mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return room != MAP_FAILED && munmap(room, kBytes) == 0;
  }();
  if (!fits) throw std::bad_alloc();
}

// The result of `make`, or null with a message. A dnnl::error with status `quiet` leaves the message empty.
template <typename Make> void* guarded(char* error, size_t errorSize, dnnl_status_t quiet, Make make) {
  *error = 0;
  try {
    const OneThread alone;
    roomForCode();
    return make();
  } catch (const dnnl::error& e) {
    if (e.status != quiet)
      std::snprintf(error, errorSize, "%s", e.status == dnnl_out_of_memory ? "not enough memory" : e.what());
  } catch (const std::bad_alloc&) {
    std::snprintf(error, errorSize, "not enough memory");
  } catch (const std::exception& e) {
    std::snprintf(error, errorSize, "%s", e.what());
  }
  return nullptr;
}

void* createConv(const DtcConv*, char* error, size_t errorSize);
size_t convScratchBytes(void* conv);
int runConv(void* conv, void* scratch);
void destroyConv(void* conv);
void rebindConv(void* conv, const void* from, size_t bytes, void* to);
size_t packedBytes(void* conv);
bool packAlike(void* conv, void* other);
int packWindow(void* conv, void* to);
void usePacked(void* conv, void* packed);

// The address for a tensor that was created at `made`, if that is in [from, from + bytes); else null.
inline std::byte* rebound(const void* made, const void* from, size_t bytes, void* to) {
  const auto offset =
      static_cast<size_t>(static_cast<const std::byte*>(made) - static_cast<const std::byte*>(from));
  return made >= from && offset < bytes ? static_cast<std::byte*>(to) + offset : nullptr;
}

} // namespace dtc::onednn
