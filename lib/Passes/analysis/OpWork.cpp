#include "dtc/Passes/analysis/OpWork.h"

#include "dtc/IR/LocalShape.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/IR/Region.h"
#include "dtc/Passes/analysis/MemoryPlan.h"
#include "dtc/Support/Checked.h"

#include <algorithm>

namespace dtc {

// Factors that are not axes of the iteration space: the source coordinates of a window (represented by the
// result's coordinate), and looked-up coordinates (a token selects one expert).
static bool isAxis(const Rule& rule, size_t factor) {
  const Factor& f = rule.factors[factor];
  const bool byNumber = f.kind == FactorKind::Reduce || f.kind == FactorKind::Place;
  if (f.alongside >= 0 && byNumber) return false;
  bool lookedUp = f.needsOffset(), broadcast = true, used = false;
  for (const std::vector<TensorMap>* maps : {&rule.operands, &rule.results})
    for (const TensorMap& t : *maps)
      for (const DimMap& d : t.dims)
        for (const Term& term : d.terms) {
          if (term.factor != factor) continue;
          used = true;
          lookedUp = lookedUp && d.form == DimMap::Free;
          broadcast =
              broadcast && d.form == DimMap::Free && !d.shardedAs.empty() && d.shardedAs[0].factor != factor;
        }
  return !used || (!lookedUp && !broadcast);
}

double boundedProduct(double a, double b) { return std::min(a * b, kMaxWork); }

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
    if (t.map->dims[d].form == DimMap::Affine) { // a slice reads as much as it returns
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
    out.bytes = std::min(out.bytes + boundedProduct(*n, tensors_[i].bytesPerElement), kMaxWork);
  }
  out.flops = flopsPerPoint_;
  for (size_t f : axes_) {
    const auto size = sizes.factor(f);
    if (!size) return std::nullopt;
    out.flops = boundedProduct(out.flops, *size);
  }
  return out;
}

static std::optional<OpWork> trafficOnly(const Module& m, OpId o, const Mesh& mesh) {
  OpWork work;
  const auto add = [&](ValueId v) {
    const auto bytes = largestBytes(m, m[v].type, mesh);
    if (bytes) work.bytes += static_cast<double>(*bytes);
    return bytes.has_value();
  };
  for (ValueId v : m.operands(o))
    if (!add(v)) return std::nullopt;
  for (uint32_t r = 0; r < m[o].numResults; ++r)
    if (!add(m.result(o, r))) return std::nullopt;
  return work;
}

static std::optional<OpWork> fusedWork(Module& m, OpId fused, const Mesh& mesh) {
  if (isViewRegion(m, fused)) return OpWork(); // another name for a part of a buffer
  auto work = trafficOnly(m, fused, mesh);
  if (!work) return std::nullopt;
  for (OpId o : m[m.region(fused)].ops)
    if (const auto inner = localWork(m, o, mesh))
      work->flops = std::min(work->flops + inner->flops, kMaxWork);
  return work;
}

// A device copies its shard.
static std::optional<OpWork> sliceWork(const Module& m, OpId o, const Mesh& mesh) {
  const auto bytes = largestBytes(m, m[m.result(o)].type, mesh);
  return bytes ? std::optional(OpWork{0, 2 * static_cast<double>(*bytes)}) : std::nullopt;
}

std::optional<OpWork> localWork(Module& m, OpId o, const Mesh& mesh) {
  if (m.record(o).regions == RegionKind::Fused) return fusedWork(m, o, mesh);
  if (m.record(o).collective == CollectiveKind::AllSlice) return sliceWork(m, o, mesh);
  std::vector<TypeId> results;
  for (uint32_t r = 0; r < m[o].numResults; ++r) results.push_back(m[m.result(o, r)].type);
  Diagnostics quiet;
  const OpQuery q = queryOf(m, o, quiet);
  Rule rule;
  if (!ruleOf(q, rule)) return trafficOnly(m, o, mesh);
  const auto number = [](std::optional<int64_t> n) {
    return n ? std::optional(static_cast<double>(*n)) : std::nullopt;
  };
  return OpWorkModel(q, rule, results)
      .at({[&](size_t f) { return number(dimAt(m, rule.factors[f].size, mesh, mesh.numDevices() - 1)); },
           [&](size_t tensor, size_t d) {
             const size_t operands = q.operandTypes.size();
             const TypeId t = tensor < operands ? q.operandTypes[tensor] : results[tensor - operands];
             return number(largestDim(m, m.types[t].dims[d], mesh));
           }});
}

std::optional<int64_t> executionsOf(const Module& m, OpId loop) {
  const RegionKind kind = m.record(loop).regions;
  if (kind == RegionKind::For) {
    const std::optional<Dim> iterations = iterationCount(m, loop);
    return iterations && iterations->isStatic() ? std::optional(iterations->value()) : std::nullopt;
  }
  return kind == RegionKind::While ? std::nullopt : std::optional<int64_t>(1);
}

int64_t countedExecutions(const Module& m, OpId o, int64_t times) {
  return std::min(checkedMul(times, executionsOf(m, o).value_or(1)).value_or(kMostExecutions),
                  kMostExecutions);
}

} // namespace dtc
