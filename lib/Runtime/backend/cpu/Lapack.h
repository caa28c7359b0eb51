#pragma once
// Factorizations on the CPU by LAPACK, which is opened (dlopen) when the first one is placed.
#include "dtc/Runtime/backend/Backend.h"

namespace dtc {

class Lapack {
public:
  // Error (Machine): no LAPACK in the loader's path, with the package to install.
  [[nodiscard]] Status open();
  // Factorizes matrices [begin, end) of the batch, on the calling thread.
  void run(const PlacedFactorization& f, int64_t begin, int64_t end) const;

private:
  void* library_ = nullptr;
};

} // namespace dtc
