#include "dtc/Jit/HostSymbols.h"
#include <cmath>
#include <cstring>

namespace dtc {
namespace {

struct Entry {
  std::string_view name;
  const void* address;
};

template <class R, class... A> const void* addressOf(R (*f)(A...)) {
  return reinterpret_cast<const void*>(f);
}

using F1 = float (*)(float);
using F2 = float (*)(float, float);
using F3 = float (*)(float, float, float);
using D1 = double (*)(double);
using D2 = double (*)(double, double);
using D3 = double (*)(double, double, double);

#define DTC_UNARY(name)                                                                                      \
  {#name, addressOf(static_cast<D1>(::name))}, { #name "f", addressOf(static_cast<F1>(::name##f)) }
#define DTC_BINARY(name)                                                                                     \
  {#name, addressOf(static_cast<D2>(::name))}, { #name "f", addressOf(static_cast<F2>(::name##f)) }

template <class T> void sinAndCos(T x, T* sine, T* cosine) {
  *sine = std::sin(x);
  *cosine = std::cos(x);
}

const void* find(std::string_view name) {
  static const Entry entries[] = {
      {"memcpy", addressOf(static_cast<void* (*)(void*, const void*, size_t)>(::memcpy))},
      {"memmove", addressOf(static_cast<void* (*)(void*, const void*, size_t)>(::memmove))},
      {"memset", addressOf(static_cast<void* (*)(void*, int, size_t)>(::memset))},
      {"memcmp", addressOf(static_cast<int (*)(const void*, const void*, size_t)>(::memcmp))},
      // Calls that LLVM creates from the above: sin and cos of one number, multiplications with powers of
      // two, comparisons with 0.
      {"bcmp", addressOf(static_cast<int (*)(const void*, const void*, size_t)>(::memcmp))},
      {"sincos", addressOf(sinAndCos<double>)},
      {"sincosf", addressOf(sinAndCos<float>)},
      {"ldexp", addressOf(static_cast<double (*)(double, int)>(::ldexp))},
      {"ldexpf", addressOf(static_cast<float (*)(float, int)>(::ldexpf))},
      {"fma", addressOf(static_cast<D3>(::fma))},
      {"fmaf", addressOf(static_cast<F3>(::fmaf))},
      DTC_UNARY(exp),
      DTC_UNARY(exp2),
      DTC_UNARY(expm1),
      DTC_UNARY(log),
      DTC_UNARY(log2),
      DTC_UNARY(log10),
      DTC_UNARY(log1p),
      DTC_UNARY(sqrt),
      DTC_UNARY(cbrt),
      DTC_UNARY(sin),
      DTC_UNARY(cos),
      DTC_UNARY(tan),
      DTC_UNARY(asin),
      DTC_UNARY(acos),
      DTC_UNARY(atan),
      DTC_UNARY(sinh),
      DTC_UNARY(cosh),
      DTC_UNARY(tanh),
      DTC_UNARY(asinh),
      DTC_UNARY(acosh),
      DTC_UNARY(atanh),
      DTC_UNARY(erf),
      DTC_UNARY(erfc),
      DTC_UNARY(floor),
      DTC_UNARY(ceil),
      DTC_UNARY(trunc),
      DTC_UNARY(round),
      DTC_UNARY(rint),
      DTC_UNARY(nearbyint),
      DTC_UNARY(fabs),
      DTC_UNARY(tgamma),
      DTC_BINARY(pow),
      DTC_BINARY(fmod),
      DTC_BINARY(atan2),
      DTC_BINARY(fmin),
      DTC_BINARY(fmax),
      DTC_BINARY(hypot),
      DTC_BINARY(remainder),
      DTC_BINARY(copysign),
  };
  for (const Entry& entry : entries)
    if (entry.name == name) return entry.address;
  return nullptr;
}

// x86-64 below SSE4.1 has no instruction for it, and older C libraries no function of this name.
double roundEven(double v) { return __builtin_nearbyint(v); }
float roundEvenF(float v) { return __builtin_nearbyintf(v); }

} // namespace

const void* hostFunction(std::string_view name) {
  if (name == "roundeven") return addressOf(roundEven);
  if (name == "roundevenf") return addressOf(roundEvenF);
  return find(name);
}

} // namespace dtc
