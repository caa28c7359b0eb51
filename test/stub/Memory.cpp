// A machine without memory, to be preloaded: the allocation of number DTC_FAIL_ALLOCATION fails, counted from 1 over the whole
// process, and with DTC_FAIL_AFTER=1 every later one too. Mappings (mmap) are counted with the others.
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <dlfcn.h>
#include <new>
#include <sys/mman.h>

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void __libc_free(void*);
}

namespace {

std::atomic<long> count = 0;

long wanted(const char* name) {
  const char* text = std::getenv(name);
  return text ? std::strtol(text, nullptr, 10) : 0;
}

bool fails() {
  static const long at = wanted("DTC_FAIL_ALLOCATION");
  static const bool after = wanted("DTC_FAIL_AFTER") != 0;
  const long n = ++count;
  if (at == 0 || n < at || (n > at && !after)) return false;
  errno = ENOMEM;
  return true;
}

} // namespace

#pragma GCC visibility push(default) // the build hides what is not asked for
extern "C" {
void* malloc(size_t size) { return fails() ? nullptr : __libc_malloc(size); }
void* calloc(size_t n, size_t size) { return fails() ? nullptr : __libc_calloc(n, size); }
void* realloc(void* p, size_t size) { return fails() ? nullptr : __libc_realloc(p, size); }
void* memalign(size_t align, size_t size) { return fails() ? nullptr : __libc_memalign(align, size); }
void* aligned_alloc(size_t align, size_t size) { return memalign(align, size); }
// dtc is linked with an allocator that would not know these blocks.
void free(void* p) { __libc_free(p); }
int posix_memalign(void** p, size_t align, size_t size) {
  void* made = memalign(align, size);
  if (!made) return ENOMEM;
  *p = made;
  return 0;
}

void* mmap(void* address, size_t size, int access, int flags, int file, off_t offset) {
  using Map = void* (*)(void*, size_t, int, int, int, off_t);
  static const auto real = reinterpret_cast<Map>(dlsym(RTLD_NEXT, "mmap"));
  return fails() ? MAP_FAILED : real(address, size, access, flags, file, offset);
}
}

// That allocator also has these, which do not call its malloc.
template <class Allocate> static void* allocated(const Allocate& allocate) {
  for (;;) {
    if (void* p = allocate()) return p;
    const std::new_handler handler = std::get_new_handler();
    if (!handler) throw std::bad_alloc();
    handler();
  }
}
void* operator new(size_t size) {
  return allocated([&] { return malloc(size); });
}
void* operator new[](size_t size) {
  return allocated([&] { return malloc(size); });
}
void* operator new(size_t size, const std::nothrow_t&) noexcept { return malloc(size); }
void* operator new[](size_t size, const std::nothrow_t&) noexcept { return malloc(size); }
void* operator new(size_t size, std::align_val_t align) {
  return allocated([&] { return memalign(static_cast<size_t>(align), size); });
}
void* operator new[](size_t size, std::align_val_t align) {
  return allocated([&] { return memalign(static_cast<size_t>(align), size); });
}
void operator delete(void* p) noexcept { free(p); }
void operator delete[](void* p) noexcept { free(p); }
void operator delete(void* p, size_t) noexcept { free(p); }
void operator delete[](void* p, size_t) noexcept { free(p); }
void operator delete(void* p, std::align_val_t) noexcept { free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { free(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { free(p); }
void operator delete[](void* p, size_t, std::align_val_t) noexcept { free(p); }
#pragma GCC visibility pop
