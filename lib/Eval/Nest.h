#pragma once
// The loop nest of an op: one loop per factor; the element offset of every tensor is a linear function of the
// loop coordinates.
#include "Env.h"

namespace dtc {

// base + sum coefficient[l] * coordinate of loop l, in elements.
struct LinearForm {
  int64_t base = 0;
  std::vector<int64_t> coefficients;
};

struct Nest {
  std::vector<int64_t> sizes; // of the loops, outer first: the factors of the results, then the reduced ones
  size_t numOuter = 0;        // the number of loops over the results
  std::vector<LinearForm> operands;
  LinearForm result;
  std::vector<LinearForm> indices;       // the result's coordinate along each of its dims
  PendingKind reduce = PendingKind::Sum; // of the loops from numOuter on

  [[nodiscard]] int64_t count(size_t from, size_t to) const; // product of sizes
  // Loops `order[0]`, `order[1]`, … of this nest, in that order.
  [[nodiscard]] Nest reordered(std::span<const size_t> order, size_t outer) const;
  // Merges adjacent loops of [from, to) that are contiguous in all forms.
  void coalesce(size_t from, size_t to);
};

// For an op whose first result is defined by rule and scalar. Fails if sizes do not match or the op handles a
// map itself.
[[nodiscard]] Result<Nest> buildNest(const Rule&, std::span<const Tensor* const> operands,
                                     std::span<const int64_t> resultShape, const Env&);

// Calls fn(offsets…) for each point of loops [0, outer) of the nest, in order; `forms` give the running
// offsets.
template <class Fn>
void forEachPoint(std::span<const int64_t> sizes, std::span<const LinearForm* const> forms, Fn&& fn) {
  std::vector<int64_t> at(sizes.size()), offsets;
  for (const LinearForm* f : forms) offsets.push_back(f->base);
  for (int64_t n : sizes)
    if (n == 0) return;
  while (true) {
    fn(offsets);
    size_t l = sizes.size();
    while (l-- > 0) {
      if (++at[l] < sizes[l]) {
        for (size_t k = 0; k < forms.size(); ++k) offsets[k] += forms[k]->coefficients[l];
        break;
      }
      for (size_t k = 0; k < forms.size(); ++k) offsets[k] -= (sizes[l] - 1) * forms[k]->coefficients[l];
      at[l] = 0;
    }
    if (l == static_cast<size_t>(-1)) return;
  }
}

} // namespace dtc
