#include "backend/cpu/Lapack.h"
#include "dtc/Support/OutOfMemory.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <dlfcn.h>
#include <limits>
#include <numeric>

namespace dtc {
namespace {

using Kind = FactorizationKind;
using Int = int; // LP64, as in every distribution's LAPACK
// Fortran passes the lengths of strings after all arguments.
template <class T> using Getrf = void(const Int*, const Int*, T*, const Int*, Int*, Int*);
template <class T> using Geqrf = void(const Int*, const Int*, T*, const Int*, T*, T*, const Int*, Int*);
template <class T>
using Orgqr = void(const Int*, const Int*, const Int*, T*, const Int*, const T*, T*, const Int*, Int*);
template <class T, class P>
using Syevd = void(const char*, const char*, const Int*, T*, const Int*, P*, T*, const Int*, Int*, const Int*,
                   Int*, size_t, size_t);
template <class T, class P>
using Heevd = void(const char*, const char*, const Int*, T*, const Int*, P*, T*, const Int*, P*, const Int*,
                   Int*, const Int*, Int*, size_t, size_t);
template <class T, class P>
using RealGesdd = void(const char*, const Int*, const Int*, T*, const Int*, P*, T*, const Int*, T*,
                       const Int*, T*, const Int*, Int*, Int*, size_t);
template <class T, class P>
using ComplexGesdd = void(const char*, const Int*, const Int*, T*, const Int*, P*, T*, const Int*, T*,
                          const Int*, T*, const Int*, P*, Int*, Int*, size_t);

template <class T> struct PartOf {
  using Type = T;
};
template <class T> struct PartOf<std::complex<T>> {
  using Type = T;
};

Int sizeOf(double asked) { return static_cast<Int>(asked); }
template <class T> Int sizeOf(std::complex<T> asked) { return static_cast<Int>(asked.real()); }

template <class T> bool finite(const T* a, int64_t count) {
  return std::all_of(a, a + count,
                     [](T v) { return std::isfinite(std::real(v)) && std::isfinite(std::imag(v)); });
}

// "getrf" for c64 is cgetrf_.
template <class Function> Function* routineOf(void* library, DType dtype, const char* name) {
  const char letter = dtype == DType::F32 ? 's' : dtype == DType::F64 ? 'd' : dtype == DType::C64 ? 'c' : 'z';
  return reinterpret_cast<Function*>(dlsym(library, (letter + std::string(name) + "_").c_str()));
}

// The factorization of one matrix.
template <class T> class LapackCall {
public:
  LapackCall(void* library, const PlacedFactorization& f, int64_t matrix)
      : library_(library), f_(f), w_(f.what), matrix_(matrix), m_(static_cast<Int>(w_.rows)),
        n_(static_cast<Int>(w_.columns)), k_(std::min(m_, n_)), ld_(std::max(m_, 1)),
        elements_(static_cast<size_t>(w_.rows * w_.columns)) {}

  void run() {
    const bool spectrum = w_.kind == Kind::Eigen || w_.kind == Kind::Singular;
    a_ = part<T>(w_.numOperands()); // factorized in place
    std::vector<T> copy(spectrum ? elements_ : 0);
    if (spectrum) a_ = copy.data();
    std::copy_n(part<T>(0), elements_, a_);
    if (spectrum) return values();
    if (w_.kind == Kind::Lu) return lu();
    if (k_ == 0) return;
    twice([&](const Int* size) {
      if (w_.kind == Kind::Qr)
        routine<Geqrf<T>>("geqrf")(&m_, &n_, a_, &ld_, part<T>(2), work_.data(), size, &info_);
      else
        routine<Orgqr<T>>(kComplex ? "ungqr" : "orgqr")(&m_, &n_, &taus_, a_, &ld_, part<T>(1), work_.data(),
                                                        size, &info_);
    });
  }

private:
  using P = PartOf<T>::Type;
  static constexpr bool kComplex = !std::is_same_v<T, P>;

  // The part of buffer i (operands, then results) that belongs to the matrix.
  template <class U> U* part(size_t i) const {
    const size_t operands = w_.numOperands();
    const int64_t bytes = i < operands ? w_.operandBytes(i) : w_.resultBytes(i - operands);
    return reinterpret_cast<U*>(f_.buffers[i] + matrix_ * bytes);
  }
  template <class Function> Function* routine(const char* name) const {
    return routineOf<Function>(library_, w_.dtype, name);
  }
  // Asks for the size of the workspace, then computes.
  template <class Call> void twice(Call&& call) {
    const Int query = -1;
    work_.resize(1);
    call(&query);
    const Int size = std::max(sizeOf(work_[0]), 1);
    work_.resize(static_cast<size_t>(size));
    call(&size);
  }

  void lu() {
    Int *pivots = part<Int>(2), *rows = part<Int>(3);
    if (k_ > 0) routine<Getrf<T>>("getrf")(&m_, &n_, a_, &ld_, pivots, &info_);
    std::iota(rows, rows + m_, 0);
    for (Int i = 0; i < k_; ++i) std::swap(rows[i], rows[--pivots[i]]);
    *part<Int>(4) = info_;
  }

  void values() {
    info_ = !finite(a_, static_cast<int64_t>(elements_));
    if (k_ > 0 && info_ == 0) w_.kind == Kind::Eigen ? eigen() : singular();
    if (w_.kind == Kind::Eigen && w_.vectors) std::copy_n(a_, elements_, part<T>(2));
    if (info_ == 0) return;
    const P nan = std::numeric_limits<P>::quiet_NaN();
    std::fill_n(part<P>(1), k_, nan);
    for (size_t r = 1; r < w_.numResults(); ++r)
      std::fill_n(part<T>(1 + r), static_cast<size_t>(w_.resultBytes(r)) / sizeof(T), T(nan));
  }
  void eigen() {
    const char *job = w_.vectors ? "V" : "N", *half = w_.lower ? "L" : "U";
    const Int isize = 3 + 5 * n_, rsize = 1 + 5 * n_ + 2 * n_ * n_;
    std::vector<Int> iwork(static_cast<size_t>(isize));
    std::vector<P> rwork(kComplex ? static_cast<size_t>(rsize) : 0);
    twice([&](const Int* size) {
      if constexpr (kComplex)
        routine<Heevd<T, P>>("heevd")(job, half, &n_, a_, &ld_, part<P>(1), work_.data(), size, rwork.data(),
                                      &rsize, iwork.data(), &isize, &info_, 1, 1);
      else
        routine<Syevd<T, P>>("syevd")(job, half, &n_, a_, &ld_, part<P>(1), work_.data(), size, iwork.data(),
                                      &isize, &info_, 1, 1);
    });
  }
  void singular() {
    const char* job = w_.vectors ? "S" : "N";
    T *u = w_.vectors ? part<T>(2) : nullptr, *vh = w_.vectors ? part<T>(3) : nullptr;
    const auto k = static_cast<size_t>(k_);
    std::vector<Int> iwork(8 * k);
    std::vector<P> rwork(kComplex ? 5 * k * static_cast<size_t>(m_ + n_ + k_ + 1) : 0);
    twice([&](const Int* size) {
      if constexpr (kComplex)
        routine<ComplexGesdd<T, P>>("gesdd")(job, &m_, &n_, a_, &ld_, part<P>(1), u, &ld_, vh, &n_,
                                             work_.data(), size, rwork.data(), iwork.data(), &info_, 1);
      else
        routine<RealGesdd<T, P>>("gesdd")(job, &m_, &n_, a_, &ld_, part<P>(1), u, &ld_, vh, &n_, work_.data(),
                                          size, iwork.data(), &info_, 1);
    });
  }

  void* library_;
  const PlacedFactorization& f_;
  const Factorization& w_;
  int64_t matrix_;
  Int m_, n_, k_, ld_, taus_ = static_cast<Int>(w_.taus), info_ = 0;
  size_t elements_;
  T* a_ = nullptr;
  std::vector<T> work_;
};

} // namespace

Status Lapack::open() {
  if (library_) return Ok{};
  std::string why;
  for (const char* name : {"liblapack.so.3", "libopenblas.so.0", "libopenblas.so", "liblapack.so"}) {
    library_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library_) break;
    if (why.empty()) why = whyNotOpened(dlerror());
  }
  if (!library_)
    return machineError("factorizations on the CPU need LAPACK (liblapack.so.3): " + why +
                        "; install Debian's liblapack3 or libopenblas0, or Fedora's lapack or openblas");
  for (const char* name : {"sgetrf_", "zgesdd_"})
    if (!dlsym(library_, name))
      return library_ = nullptr, machineError(std::string("liblapack.so.3 has no ") + name);
  // Parallelism is over the batch; more threads would change the last bits.
  if (auto* threads = reinterpret_cast<void (*)(int)>(dlsym(library_, "openblas_set_num_threads")))
    threads(1);
  return Ok{};
}

void Lapack::run(const PlacedFactorization& f, int64_t begin, int64_t end) const {
  for (int64_t i = begin; i < end; ++i) switch (f.what.dtype) {
    case DType::F32: LapackCall<float>(library_, f, i).run(); break;
    case DType::F64: LapackCall<double>(library_, f, i).run(); break;
    case DType::C64: LapackCall<std::complex<float>>(library_, f, i).run(); break;
    default: LapackCall<std::complex<double>>(library_, f, i).run();
    }
}

} // namespace dtc
