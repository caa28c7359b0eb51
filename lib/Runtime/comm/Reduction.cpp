#include "comm/Reduction.h"

#include "dtc/Support/DType.h"

#include <algorithm>
#include <cstring>

namespace dtc {
namespace {

using Sources = ReductionSources;
using Targets = ReductionTargets;

constexpr int64_t kBlock = 1024; // elements per reduction block, which stays in the L1 cache

// --- Conversion of elements to the accumulation type ---
template <class A> void widen(DType d, const std::byte* p, A* out, int64_t n) {
  auto each = [&](auto load) {
    // An i8 element is an integer, not a character.  NOLINTNEXTLINE(bugprone-signed-char-misuse)
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<A>(load(i));
  };
  auto at = [p]<class T>(T) { return [q = reinterpret_cast<const T*>(p)](int64_t i) { return q[i]; }; };
  switch (d) {
  case DType::BF16: return each([q = at(uint16_t())](int64_t i) { return bf16ToFloat(q(i)); });
  case DType::F16: return each([q = at(uint16_t())](int64_t i) { return f16ToFloat(q(i)); });
  case DType::F8E4M3: return each([q = at(uint8_t())](int64_t i) { return f8E4M3ToFloat(q(i)); });
  case DType::F8E5M2: return each([q = at(uint8_t())](int64_t i) { return f8E5M2ToFloat(q(i)); });
  case DType::F32: return each(at(float()));
  case DType::F64: return each(at(double()));
  case DType::I8: return each(at(int8_t()));
  case DType::I16: return each(at(int16_t()));
  case DType::I32: return each(at(int32_t()));
  case DType::I64: return each(at(int64_t()));
  case DType::U16: return each(at(uint16_t()));
  case DType::U32: return each(at(uint32_t()));
  case DType::U64: return each(at(uint64_t()));
  case DType::Bool:
  case DType::U8: return each(at(uint8_t()));
  case DType::C64: // plans use real and imaginary parts
  case DType::C128: break;
  }
}

template <class A> void narrow(DType d, const A* in, std::byte* p, int64_t n) {
  auto each = [&]<class T>(T, auto make) {
    T* q = reinterpret_cast<T*>(p);
    for (int64_t i = 0; i < n; ++i) q[i] = static_cast<T>(make(in[i]));
  };
  auto same = [](A v) { return v; };
  switch (d) {
  case DType::BF16: return each(uint16_t(), [](A v) { return doubleToBf16(static_cast<double>(v)); });
  case DType::F16: return each(uint16_t(), [](A v) { return doubleToF16(static_cast<double>(v)); });
  case DType::F8E4M3: return each(uint8_t(), [](A v) { return doubleToF8E4M3(static_cast<double>(v)); });
  case DType::F8E5M2: return each(uint8_t(), [](A v) { return doubleToF8E5M2(static_cast<double>(v)); });
  case DType::F32: return each(float(), same);
  case DType::F64: return each(double(), same);
  case DType::I8:
  case DType::U8: return each(uint8_t(), same);
  case DType::I16:
  case DType::U16: return each(uint16_t(), same);
  case DType::I32:
  case DType::U32: return each(uint32_t(), same);
  case DType::I64:
  case DType::U64: return each(uint64_t(), same);
  case DType::Bool: return each(uint8_t(), [](A v) { return v != A(0); });
  case DType::C64:
  case DType::C128: break;
  }
}

// --- One reduction step; A is float, double or an integer; float max and min are handled below ---
template <class A> void combine(PendingKind op, A* acc, const A* in, int64_t n) {
  auto each = [&](auto step) {
    for (int64_t i = 0; i < n; ++i) acc[i] = step(acc[i], in[i]);
  };
  switch (op) {
  case PendingKind::Prod: return each([](A a, A b) { return static_cast<A>(a * b); });
  case PendingKind::Max: return each([](A a, A b) { return std::max(a, b); });
  case PendingKind::Min: return each([](A a, A b) { return std::min(a, b); });
  case PendingKind::Any: return each([](A a, A b) { return static_cast<A>(a != A(0) || b != A(0)); });
  case PendingKind::All: return each([](A a, A b) { return static_cast<A>(a != A(0) && b != A(0)); });
  case PendingKind::None:
  case PendingKind::Sum:
  case PendingKind::Avg: return each([](A a, A b) { return static_cast<A>(a + b); });
  }
}

template <class A> void roundToCommDType(const CollectivePlan& plan, A* values, int64_t n) {
  if (!plan.rounds()) return;
  for (int64_t i = 0; i < n; ++i)
    values[i] = static_cast<A>(roundToFloat(plan.commDType, static_cast<double>(values[i])));
}

// Sums floats without converting each source. The order is that of reduceRun.
template <class T> void sumRun(const Sources& sources, const Targets& targets, int64_t n) {
  T acc[kBlock];
  const auto from = [&](size_t i, int64_t at) { return reinterpret_cast<const T*>(sources[i]) + at; };
  for (int64_t at = 0; at < n; at += kBlock) {
    const int64_t count = std::min(kBlock, n - at);
    const T *a = from(0, at), *b = from(1, at);
    for (int64_t k = 0; k < count; ++k) acc[k] = a[k] + b[k];
    for (size_t i = 2; i < sources.size(); ++i) {
      const T* c = from(i, at);
      for (int64_t k = 0; k < count; ++k) acc[k] += c[k];
    }
    const int64_t bytes = count * static_cast<int64_t>(sizeof(T));
    targets.put(at * static_cast<int64_t>(sizeof(T)), bytes,
                [&](std::byte* to) { std::memcpy(to, acc, static_cast<size_t>(bytes)); });
  }
}

// Combines `n` elements of each source in blocks.
template <class A>
void reduceRun(const CollectivePlan& plan, const Sources& sources, const Targets& targets, int64_t n) {
  A acc[kBlock], next[kBlock];
  int64_t width = dtypeBytes(plan.dtype);
  for (int64_t at = 0; at < n; at += kBlock) {
    int64_t count = std::min(kBlock, n - at);
    widen(plan.dtype, sources[0] + at * width, acc, count);
    roundToCommDType(plan, acc, count);
    for (size_t i = 1; i < sources.size(); ++i) {
      widen(plan.dtype, sources[i] + at * width, next, count);
      roundToCommDType(plan, next, count);
      combine(plan.op, acc, next, count);
    }
    if constexpr (std::is_floating_point_v<A>)
      if (plan.op == PendingKind::Avg)
        for (int64_t i = 0; i < count; ++i) acc[i] /= static_cast<A>(sources.size());
    roundToCommDType(plan, acc, count);
    targets.put(at * width, count * width, [&](std::byte* to) { narrow(plan.dtype, acc, to, count); });
  }
}

// Max and min of floats, reduced as order-preserving integers. NaN propagates.
template <class Float, class Int>
void reduceOrdered(const CollectivePlan& plan, const Sources& sources, const Targets& targets, int64_t n) {
  Float values[kBlock];
  Int acc[kBlock], next[kBlock];
  const int64_t width = dtypeBytes(plan.dtype);
  const bool isMax = plan.op == PendingKind::Max;
  for (int64_t at = 0; at < n; at += kBlock) {
    const int64_t count = std::min(kBlock, n - at);
    for (size_t i = 0; i < sources.size(); ++i) {
      widen(plan.dtype, sources[i] + at * width, values, count);
      roundToCommDType(plan, values, count);
      Int* to = i ? next : acc;
      for (int64_t k = 0; k < count; ++k) to[k] = orderedBits<Int>(values[k], isMax);
      if (i) combine(plan.op, acc, next, count);
    }
    for (int64_t k = 0; k < count; ++k) values[k] = floatOfOrdered<Float>(acc[k]);
    targets.put(at * width, count * width, [&](std::byte* to) { narrow(plan.dtype, values, to, count); });
  }
}

} // namespace

void reduceElements(const CollectivePlan& plan, const Sources& sources, const Targets& target, int64_t n) {
  const bool ordered = plan.op == PendingKind::Max || plan.op == PendingKind::Min;
  const bool sums = (plan.op == PendingKind::Sum || plan.op == PendingKind::None) && !plan.rounds();
  if (sums && sources.size() > 1 && plan.dtype == DType::F32) return sumRun<float>(sources, target, n);
  if (sums && sources.size() > 1 && plan.dtype == DType::F64) return sumRun<double>(sources, target, n);
  if (plan.dtype == DType::F64)
    return ordered ? reduceOrdered<double, int64_t>(plan, sources, target, n)
                   : reduceRun<double>(plan, sources, target, n);
  if (isFloat(plan.dtype))
    return ordered ? reduceOrdered<float, int32_t>(plan, sources, target, n)
                   : reduceRun<float>(plan, sources, target, n);
  if (ordered && isSignedInt(plan.dtype)) return reduceRun<int64_t>(plan, sources, target, n);
  return reduceRun<uint64_t>(plan, sources, target, n);
}

void copyRow(const CollectivePlan& plan, const BlockCopy& c, const std::byte* source, std::byte* target) {
  if (!plan.rounds()) {
    std::memcpy(target, source, static_cast<size_t>(c.length * plan.widths[c.operand]));
    return;
  }
  reduceElements(plan, {std::span(&source, 1), {}}, {std::span(&target, 1)}, c.length);
}

} // namespace dtc
