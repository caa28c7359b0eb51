#include "dtc/Ops/ShardedOp.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/Ops/Reduce.h"
#include "dtc/Sharding/CommDType.h"
#include "dtc/Sharding/Reshard.h"
#include "dtc/Support/Result.h"
#include <algorithm>

namespace dtc {

ShardedOp::ShardedOp(Builder& builder, const OpQuery& global, const Rule& rule, std::vector<ValueId> operands,
                     std::vector<TypeId> results, std::vector<ShardedFactor> factors)
    : b(builder), global(global), rule(rule), operands(std::move(operands)), results(std::move(results)),
      factors(std::move(factors)) {
  auto exchanged = [&](size_t f) {
    const int alongside = rule.factors[f].alongside;
    if (alongside < 0 || rule.factors[f].communicates() || this->factors[f].axes.empty()) return false;
    const std::vector<AxisRef>& theirs = this->factors[static_cast<size_t>(alongside)].axes;
    return std::ranges::find(theirs, this->factors[f].axes[0]) != theirs.end();
  };
  for (size_t f = 0; f < this->factors.size(); ++f)
    if (rule.factors[f].communicates() || exchanged(f))
      for (const AxisRef& a : this->factors[f].axes) axes_.push_back(a);
}

const Mesh& ShardedOp::mesh() const { return b.module.shardings.mesh(b.mesh); }
int64_t ShardedOp::devices() const { return mesh().sizeOf(axes_); }

const ShardedFactor& ShardedOp::shardedOf(const TensorMap& map, size_t dim) const {
  static const ShardedFactor unsharded;
  const std::span<const Term> terms = map.dims[dim].sharded();
  return terms.size() == 1 ? factors[terms[0].factor] : unsharded;
}
const ShardedFactor& ShardedOp::operandFactor(size_t operand, size_t dim) const {
  return shardedOf(rule.operands[operand], dim);
}
const ShardedFactor& ShardedOp::resultFactor(size_t result, size_t dim) const {
  return shardedOf(rule.results[result], dim);
}

DType ShardedOp::dtypeOf(ValueId v) const { return typeOf(v).dtype; }
const Type& ShardedOp::typeOf(ValueId v) const { return b.module.typeOf(v); }

Expr ShardedOp::over(PendingKind kind, ValueId v, std::span<const int64_t> dims, bool keepdim) {
  return reduced(kind, value(v), {.dims = dims, .keepdim = keepdim});
}

Expr ShardedOp::allReduce(ValueId v, PendingKind kind, std::span<const AxisRef> axes) {
  if (mesh().sizeOf(axes) == 1) return value(v);
  const DType own = partType(dtypeOf(v));
  const bool narrows =
      reduceDType && kind == PendingKind::Sum && isFloat(own) && *reduceDType != defaultCommDType(kind, own);
  const ops::DTypeAttr commDType = narrows ? ops::DTypeAttr(*reduceDType) : ops::kDefault;
  return all_reduce(value(v), {.axes = axes, .op = pendingName(kind), .wire = commDType});
}

Expr ShardedOp::fromOne(ValueId v) {
  if (devices() == 1) return value(v);
  const PendingKind kind = isBool(dtypeOf(v)) ? PendingKind::Any : PendingKind::Sum;
  return all_reduce(value(v), {.axes = axes_, .op = pendingName(kind)});
}

Expr ShardedOp::allGather(ValueId v, int64_t dim, std::span<const AxisRef> axes) {
  if (mesh().sizeOf(axes) == 1) return value(v);
  return all_gather(value(v), {.axes = axes, .dim = dim});
}

Expr ShardedOp::gatherAll(ValueId v) { return allGather(expand_dims(value(v), {0}), 0, axes_); }

Expr ShardedOp::index(std::span<const AxisRef> axes) { return ops::axis_index(b, axes); }
Expr ShardedOp::shardOffset(Dim size, std::span<const AxisRef> axes) {
  return ops::piece_offset(b, {.size = size, .axes = axes});
}
Expr ShardedOp::shardSize(Dim size, std::span<const AxisRef> axes) {
  return ops::piece_size(b, {.size = size, .axes = axes});
}

Expr ShardedOp::row(ValueId v, int64_t row) { return index_select(value(v), row, {.dim = 0}); }

bool ShardedOp::gatherIsCheaper(ValueId summary, int count) const {
  const Module& m = b.module;
  const int64_t bytes = largestBytes(m, m[summary].type, mesh()).value_or(0), n = devices();
  const NominalMachine machine;
  const auto seconds = [&](StepKind kind, int64_t in, int64_t out) {
    return priceOf(kind, axes_, in, out, mesh(), machine).seconds;
  };
  const int64_t all = checkedMul(bytes, n * count).value_or(INT64_MAX);
  return seconds(StepKind::AllGather, bytes * count, all) <=
         count * seconds(StepKind::AllReduce, bytes, bytes);
}

bool writeSharded(ShardedOp& op, std::vector<ValueId>& results) {
  const OpRecord& record = *op.global.record;
  if (!record.shard || !record.shard(op, results)) return false;
  const Module& m = op.b.module;
  DTC_CHECK(results.size() == op.results.size(), "a sharded op returned a different number of results");
  for (size_t r = 0; r < results.size(); ++r) {
    const Type &got = m.types[m[results[r]].type], &want = m.types[op.results[r]];
    DTC_CHECK(got.dtype == want.dtype && got.rank() == want.rank(), "a sharded op returned a different type");
  }
  return true;
}

bool exchanges(const Rule& rule, std::span<const PartList> factors, size_t f) {
  const int alongside = rule.factors[f].alongside;
  if (alongside < 0 || rule.factors[f].communicates()) return false;
  const PartList& theirs = factors[static_cast<size_t>(alongside)];
  return std::ranges::any_of(factors[f],
                             [&](const DimPart& p) { return std::ranges::find(theirs, p) != theirs.end(); });
}

bool communicates(const Rule& rule, std::span<const PartList> factors) {
  for (size_t f = 0; f < factors.size(); ++f)
    if ((rule.factors[f].communicates() && !factors[f].empty()) || exchanges(rule, factors, f)) return true;
  return false;
}

PartList leftPending(const Rule& rule, std::span<const PartList> factors, size_t f) {
  const Factor& own = rule.factors[f];
  PartList out;
  // Includes sums over windows and keys (those of a convolution); other merges are reduced by the op itself.
  if (own.kind != FactorKind::Reduce && !(own.communicates() && own.reduce != PendingKind::None)) return out;
  if (exchanges(rule, factors, f)) return out;
  for (const DimPart& p : factors[f]) {
    bool pending = p.isAxis();
    for (size_t g = 0; g < factors.size(); ++g)
      if (rule.factors[g].alongside == static_cast<int>(f) && exchanges(rule, factors, g))
        pending = pending && std::ranges::find(factors[g], p) == factors[g].end();
    if (pending) out.push_back(p);
  }
  return out;
}

std::optional<std::vector<ShardedFactor>> shardedFactors(const Rule& rule, std::span<const PartList> factors,
                                                         const Mesh& mesh) {
  std::vector<ShardedFactor> sharded(factors.size());
  for (size_t f = 0; f < factors.size(); ++f) {
    const DimSharding list{factors[f]};
    if (list.strided()) {
      if (rule.factors[f].communicates()) return std::nullopt;
      continue;
    }
    sharded[f].axes = list.axes();
    sharded[f].devices = mesh.sizeOf(sharded[f].axes);
  }
  return sharded;
}

} // namespace dtc
