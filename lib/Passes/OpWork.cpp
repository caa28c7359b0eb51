#include "dtc/Passes/OpWork.h"

#include <algorithm>

namespace dtc {

namespace {

// Factors that the iteration space does not have as axes of their own: the source coordinates of a window (the result's
// coordinate stands for them), and coordinates that are looked up by number (a token names one expert).
bool isAxis(const Rule& rule, size_t factor) {
  const Factor& f = rule.factors[factor];
  const bool byNumber = f.kind == FactorKind::Reduce || f.kind == FactorKind::Place;
  if (f.alongside >= 0 && byNumber) return false;
  bool lookedUp = f.needsOffset(), standsForOther = true, used = false;
  for (const std::vector<TensorMap>* maps : {&rule.operands, &rule.results})
    for (const TensorMap& t : *maps)
      for (const DimMap& d : t.dims)
        for (const Term& term : d.terms) {
          if (term.factor != factor) continue;
          used = true;
          lookedUp = lookedUp && d.form == DimMap::Free;
          standsForOther =
              standsForOther && d.form == DimMap::Free && !d.cutAs.empty() && d.cutAs[0].factor != factor;
        }
  return !used || (!lookedUp && !standsForOther);
}

} // namespace

double boundedProduct(double a, double b) { return std::min(a * b, kMostWork); }

double OpWork::seconds(const NominalMachine& machine) const {
  return std::max(flops / machine.flopsPerSecond, bytes / machine.memoryBytesPerSecond);
}

OpWorkModel::OpWorkModel(const OpQuery& q, const Rule& rule, std::span<const TypeId> results)
    : moves_(q.record->flopsPerPoint == 0 && q.record->rewrites < 0) {
  auto add = [&](const TensorMap& map, TypeId type) {
    const bool lookedUp =
        std::ranges::any_of(map.dims, [](const DimMap& d) { return d.form == DimMap::Free; });
    tensors_.push_back({&map, static_cast<double>(dtypeBytes(q.module->types[type].dtype)), lookedUp});
  };
  numOperands_ = std::min(q.operandTypes.size(), rule.operands.size());
  for (size_t i = 0; i < numOperands_; ++i) add(rule.operands[i], q.operandTypes[i]);
  for (size_t r = 0; r < std::min(results.size(), rule.results.size()); ++r) add(rule.results[r], results[r]);
  const auto derived = q.record->derive ? q.record->derive(q, "flops per point") : std::optional<double>();
  flopsPerPoint_ = derived.value_or(q.record->flopsPerPoint);
  for (size_t f = 0; flopsPerPoint_ > 0 && f < rule.factors.size(); ++f)
    if (isAxis(rule, f)) axes_.push_back(f);
}

std::optional<double> OpWorkModel::elements(const Tensor& t, size_t index, const OpSizes& sizes) {
  double n = 1;
  for (size_t d = 0; d < t.map->dims.size(); ++d) {
    auto size = sizes.dim(index, d);
    if (!size) return std::nullopt;
    if (t.map->dims[d].form == DimMap::Affine) { // a slice reads what it gives
      double read = 1;
      for (const Term& term : t.map->dims[d].terms) {
        const auto f = sizes.factor(term.factor);
        if (!f) return std::nullopt;
        read = boundedProduct(read, *f);
      }
      size = std::min(*size, read);
    }
    n = boundedProduct(n, *size);
  }
  return n;
}

std::optional<OpWork> OpWorkModel::at(const OpSizes& sizes) const {
  OpWork out;
  double written = 0;
  for (size_t i = tensors_.size(); i-- > 0;) { // results first
    auto n = elements(tensors_[i], i, sizes);
    if (!n) return std::nullopt;
    if (i >= numOperands_)
      written += *n;
    else if (moves_ && tensors_[i].lookedUp)
      n = std::min(*n, written);
    out.bytes = std::min(out.bytes + boundedProduct(*n, tensors_[i].bytesPerElement), kMostWork);
  }
  out.flops = flopsPerPoint_;
  for (size_t f : axes_) {
    const auto size = sizes.factor(f);
    if (!size) return std::nullopt;
    out.flops = boundedProduct(out.flops, *size);
  }
  return out;
}

} // namespace dtc
