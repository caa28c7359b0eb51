#include "Nest.h"

#include <algorithm>

namespace dtc {
// Adds the contribution of one dim of a tensor. `size` is the tensor's own size along it.
static Status addDim(LinearForm& form, const DimMap& map, int64_t size, int64_t stride,
                     std::span<const int64_t> factorSizes) {
  if (map.form == DimMap::Free) return inputError("has no loops for a dim that the op handles itself");
  if (map.form == DimMap::Affine) {
    int64_t low = map.offset, high = map.offset;
    bool empty = false;
    for (const Term& t : map.terms) {
      int64_t reach = t.stride * (factorSizes[t.factor] - 1);
      (reach < 0 ? low : high) += reach;
      empty = empty || factorSizes[t.factor] == 0;
      form.coefficients[t.factor] += stride * t.stride;
    }
    form.base += stride * map.offset;
    if (!empty && (low < 0 || high >= size)) return inputError("reads past the end of an operand");
    return Ok{};
  }
  int64_t radix = 1;
  for (size_t i = map.terms.size(); i-- > 0;) {
    form.coefficients[map.terms[i].factor] += stride * radix;
    radix *= factorSizes[map.terms[i].factor];
  }
  if (radix != size) return inputError("has an operand whose size differs from its rule");
  return Ok{};
}

static Result<LinearForm> formOf(const TensorMap& map, std::span<const int64_t> shape,
                                 std::span<const int64_t> factorSizes) {
  LinearForm form;
  form.coefficients.assign(factorSizes.size(), 0);
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    if (Status s = addDim(form, map.dims[d], shape[d], stride, factorSizes); !s) return s.error();
    stride *= shape[d];
  }
  return form;
}

int64_t Nest::count(size_t from, size_t to) const {
  int64_t n = 1;
  for (size_t l = from; l < to; ++l) n *= sizes[l];
  return n;
}

Nest Nest::reordered(std::span<const size_t> order, size_t outer) const {
  Nest n;
  n.numOuter = outer;
  n.reduce = reduce;
  for (size_t l : order) n.sizes.push_back(sizes[l]);
  auto move = [&](const LinearForm& f) {
    LinearForm g{f.base, {}};
    for (size_t l : order) g.coefficients.push_back(f.coefficients[l]);
    return g;
  };
  for (const LinearForm& f : operands) n.operands.push_back(move(f));
  for (const LinearForm& f : indices) n.indices.push_back(move(f));
  n.result = move(result);
  return n;
}

void Nest::coalesce(size_t from, size_t to) {
  std::vector<LinearForm*> forms = {&result};
  for (LinearForm& f : operands) forms.push_back(&f);
  for (LinearForm& f : indices) forms.push_back(&f);
  auto erase = [&](size_t l) {
    sizes.erase(sizes.begin() + static_cast<ptrdiff_t>(l));
    for (LinearForm* f : forms) f->coefficients.erase(f->coefficients.begin() + static_cast<ptrdiff_t>(l));
    if (l < numOuter) --numOuter;
    --to;
  };
  for (size_t l = to; l-- > from;)
    if (sizes[l] == 1) erase(l);
  for (size_t l = to; l-- > from + 1;) {
    size_t outer = l - 1;
    bool one = std::ranges::all_of(
        forms, [&](LinearForm* f) { return f->coefficients[outer] == f->coefficients[l] * sizes[l]; });
    if (!one) continue;
    sizes[outer] *= sizes[l];
    for (LinearForm* f : forms) f->coefficients[outer] = f->coefficients[l];
    erase(l);
  }
}

Result<Nest> buildNest(const Rule& rule, std::span<const Tensor* const> operands,
                       std::span<const int64_t> resultShape, const Env& env) {
  std::vector<int64_t> factorSizes;
  for (const Factor& f : rule.factors) {
    auto size = env.sizeOf(f.size);
    if (!size) return inputError("has an unbound size; bind symbols with --dim NAME=SIZE");
    factorSizes.push_back(*size);
  }
  Nest all;
  all.sizes = factorSizes;
  for (size_t i = 0; i < rule.operands.size() && i < operands.size(); ++i) {
    DTC_TRY(auto form, formOf(rule.operands[i], operands[i]->shape(), factorSizes));
    all.operands.push_back(std::move(form));
  }
  DTC_TRY(all.result, formOf(rule.results[0], resultShape, factorSizes));
  std::vector<size_t> order;
  std::vector<bool> placed(rule.factors.size());
  for (size_t d = 0; d < resultShape.size(); ++d) {
    LinearForm index{0, std::vector<int64_t>(factorSizes.size(), 0)};
    if (Status s = addDim(index, rule.results[0].dims[d], resultShape[d], 1, factorSizes); !s)
      return s.error();
    all.indices.push_back(std::move(index));
    for (const Term& t : rule.results[0].dims[d].terms)
      if (!placed[t.factor]) order.push_back(t.factor), placed[t.factor] = true;
  }
  size_t outer = order.size();
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    if (placed[f]) continue;
    // also for factors that must be unsharded: a mean of integers
    if (rule.factors[f].reduce != PendingKind::None)
      all.reduce = rule.factors[f].reduce;
    else if (factorSizes[f] != 1)
      return inputError("has a dim that is neither in its result nor reduced");
    order.push_back(f);
  }
  return all.reordered(order, outer);
}

} // namespace dtc
