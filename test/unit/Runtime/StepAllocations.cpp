// A step allocates nothing: kernels, collectives, copies and control flow run from what loading made ready. (oneDNN's own
// bookkeeping in a matrix product is not ours to count.)
#include "dtc/Eval/RandomInputs.h"
#include "dtc/IR/text/Text.h"
#include "dtc/IR/verify/Verify.h"
#include "dtc/Ops/record/Ops.h"
#include "dtc/Passes/pipeline/StandardPipeline.h"
#include "dtc/Runtime/backend/cpu/CpuBackend.h"
#include "dtc/Runtime/run/Executable.h"

#include <atomic>
#include <gtest/gtest.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define DTC_OTHER_ALLOCATOR
#endif
#endif

#ifndef DTC_OTHER_ALLOCATOR

namespace {
std::atomic<bool> counting{false};
std::atomic<int64_t> allocations{0};
} // namespace

// glibc lets a program put its own malloc in the place of the library's; operator new calls it too. (The tree's symbols are
// hidden, which would leave the libraries with theirs.)
#pragma GCC visibility push(default)
extern "C" {
void* libcMalloc(size_t) __asm__("__libc_malloc");
void* libcCalloc(size_t, size_t) __asm__("__libc_calloc");
void* libcRealloc(void*, size_t) __asm__("__libc_realloc");
void* malloc(size_t bytes) {
  if (counting.load(std::memory_order_relaxed)) ++allocations;
  return libcMalloc(bytes);
}
void* calloc(size_t n, size_t bytes) {
  if (counting.load(std::memory_order_relaxed)) ++allocations;
  return libcCalloc(n, bytes);
}
void* realloc(void* p, size_t bytes) {
  if (counting.load(std::memory_order_relaxed)) ++allocations;
  return libcRealloc(p, bytes);
}
}
#pragma GCC visibility pop

using namespace dtc;

namespace {

const char* const kProgram = R"(mesh @m = [a=3]
func @main(%x: f32[7, 37] @m{a, _}, %w: f32[37, 37] @m{_, a}, %n: i32[]) -> (%y: f32[7, 37], %t: f32[37] @m{a}, %z: f32[7, 37] @m{_, a}) {
  %h = for %i in 0..3 (%c = %x) {
    %s = softmax %c {dims = [-1]}
    %e = exp %s
    yield %e
  }
  %v, %k = while (%a = %h, %j = %n) {
    %again = gt %j, 0
    yield %again
  } {
    %m1 = sub %j, 1
    %b = mul %a, 0.5
    yield %b, %m1
  }
  %big = sum %v
  %up = gt %big, 0.0
  %r = cond %up {
    %p = neg %v
    yield %p
  } {
    yield %v
  }
  %col = sum %r {dims = [0]}
  %row = add %r, %col
  %z = tanh %row
  return %row, %col, %z
}
)";

TEST(StepAllocations, AreNone) {
  Module m(standardOps());
  Diagnostics diags;
  SourceText source{"steps.dt", kProgram};
  ASSERT_TRUE(parseModule(source, standardOps(), m, diags) && verifyModule(m, diags))
      << renderDiagnostics(diags, source, false);
  FuncId f = m.findFunction("main");
  StandardPipeline pipeline = standardPipeline(levelOf(m, f), 1, "");
  for (const auto* steps : {&pipeline.reference, &pipeline.propagate, &pipeline.lower})
    ASSERT_TRUE(runPipeline(m, *steps, diags, {})) << renderDiagnostics(diags, source, false);
  f = m.findFunction("main");
  ThreadPool pool(2);
  CpuJit jit;
  auto backend = makeCpuBackend(jit, pool, 3, {}, 1);
  auto loaded = Executable::load(m, f, *backend, pool, {});
  ASSERT_TRUE(loaded) << loaded.error().message;
  ASSERT_TRUE((*loaded)->setArgument(0, makeInput({InputSpec::Randn, 1, 1.0, 0.0}, DType::F32, {7, 37}, 0)));
  ASSERT_TRUE((*loaded)->setArgument(1, makeInput({InputSpec::Randn, 2, 1.0, 0.0}, DType::F32, {37, 37}, 0)));
  ASSERT_TRUE((*loaded)->setArgument(2, makeInput({InputSpec::Const, 0, 4.0, 0.0}, DType::I32, {}, 0)));
  RunHooks hooks;
  for (int i = 0; i < 2; ++i) ASSERT_TRUE((*loaded)->run(hooks));
  allocations = 0;
  counting = true;
  for (int i = 0; i < 5; ++i)
    if (!(*loaded)->run(hooks)) break;
  counting = false;
  EXPECT_EQ(allocations, 0);
  counting = true; // and the count counts: through operator new, too
  void* probe = ::operator new(16);
  counting = false;
  ::operator delete(probe);
  EXPECT_GT(allocations, 0);
}

} // namespace

#endif
