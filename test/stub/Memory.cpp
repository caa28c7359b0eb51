// A machine without memory, to be preloaded: the allocation of number DTC_FAIL_ALLOCATION fails, counted from 1 over the whole
// process, and with DTC_FAIL_AFTER=1 every later one too. Mappings (mmap) are counted with the others.
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <dlfcn.h>
#include <sys/mman.h>

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
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

extern "C" {
void* malloc(size_t size) { return fails() ? nullptr : __libc_malloc(size); }
void* calloc(size_t n, size_t size) { return fails() ? nullptr : __libc_calloc(n, size); }
void* realloc(void* p, size_t size) { return fails() ? nullptr : __libc_realloc(p, size); }
void* memalign(size_t align, size_t size) { return fails() ? nullptr : __libc_memalign(align, size); }
void* aligned_alloc(size_t align, size_t size) { return memalign(align, size); }
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
