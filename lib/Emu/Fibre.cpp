#include "Fibre.h"
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define DTC_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define DTC_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define DTC_TSAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define DTC_TSAN 1
#endif
#ifdef DTC_ASAN
#include <pthread.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef DTC_TSAN
#include <sanitizer/tsan_interface.h>
#endif

#if defined(__x86_64__)
// The callee-saved registers of the System V ABI; the floating-point control words are the same in all
// fibres.
asm(R"(
.text
.p2align 4
.type dtcFibreSwitch, @function
dtcFibreSwitch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  retq
.size dtcFibreSwitch, .-dtcFibreSwitch
.p2align 4
.type dtcFibreBegin, @function
dtcFibreBegin:
  movq %rbx, %rdi
  callq *%rbp
  ud2
.size dtcFibreBegin, .-dtcFibreBegin
)");
#endif
extern "C" {
void dtcFibreSwitch(void** saveSp, void* loadSp);
void dtcFibreBegin();
}

namespace dtc {

Fibre::Fibre(size_t number) {
#ifdef DTC_TSAN
  sanitizer_ = __tsan_create_fiber(0);
#endif
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* memory = mmap(nullptr, kStackBytes + page, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return;
  mprotect(memory, page, PROT_NONE);
  memory_ = memory;
  bottom_ = static_cast<char*>(memory) + page;
  size_ = kStackBytes;
  top_ = static_cast<char*>(memory) + page + kStackBytes - (number % 16) * 256;
}

Fibre::~Fibre() {
#ifdef DTC_TSAN
  if (sanitizer_ && memory_) __tsan_destroy_fiber(sanitizer_);
#endif
  if (memory_) munmap(memory_, kStackBytes + static_cast<size_t>(sysconf(_SC_PAGESIZE)));
}

MainFibre::MainFibre() {
#ifdef DTC_TSAN
  sanitizer_ = __tsan_get_current_fiber();
#endif
#ifdef DTC_ASAN
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
    void* bottom = nullptr;
    pthread_attr_getstack(&attributes, &bottom, &size_);
    bottom_ = bottom;
    pthread_attr_destroy(&attributes);
  }
#endif
}

void Fibre::begin(Fibre* self) {
#ifdef DTC_ASAN
  __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
  self->entry_(self->argument_);
}

void Fibre::start(void (*entry)(void*), void* argument) {
  entry_ = entry, argument_ = argument;
  // The stack layout that dtcFibreSwitch leaves: r15 … rbp, the return address; then a slot that aligns the
  // first call.
  void** sp = static_cast<void**>(top_) - 2;
  sp[0] = sp[1] = nullptr;
  *--sp = reinterpret_cast<void*>(&dtcFibreBegin);
  *--sp = reinterpret_cast<void*>(&Fibre::begin); // rbp
  *--sp = this;                                   // rbx
  for (int i = 0; i < 4; ++i) *--sp = nullptr;
  sp_ = static_cast<void*>(sp);
#ifdef DTC_ASAN
  sanitizer_ = nullptr;
#endif
}

void switchFibre(Fibre& from, Fibre& to) {
#ifdef DTC_ASAN
  __sanitizer_start_switch_fiber(&from.sanitizer_, to.bottom_, to.size_);
#endif
#ifdef DTC_TSAN
  __tsan_switch_to_fiber(to.sanitizer_, 0);
#endif
  dtcFibreSwitch(&from.sp_, to.sp_);
#ifdef DTC_ASAN
  __sanitizer_finish_switch_fiber(from.sanitizer_, nullptr, nullptr);
#endif
}

} // namespace dtc
