#include "dtc/IR/CutOp.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/Sharding/Reshard.h"
#include "dtc/Sharding/Wire.h"
#include "dtc/Support/Result.h"
#include <algorithm>

namespace dtc {

CutOp::CutOp(Builder& builder, const OpQuery& whole, const Rule& rule, std::vector<ValueId> operands,
             std::vector<TypeId> results, std::vector<CutFactor> factors)
    : b(builder), whole(whole), rule(rule), operands(std::move(operands)), results(std::move(results)),
      factors(std::move(factors)) {
  auto exchanged = [&](size_t f) {
    const int beside = rule.factors[f].alongside;
    if (beside < 0 || rule.factors[f].communicates() || this->factors[f].axes.empty()) return false;
    const std::vector<AxisRef>& theirs = this->factors[static_cast<size_t>(beside)].axes;
    return std::ranges::find(theirs, this->factors[f].axes[0]) != theirs.end();
  };
  for (size_t f = 0; f < this->factors.size(); ++f)
    if (rule.factors[f].communicates() || exchanged(f))
      for (const AxisRef& a : this->factors[f].axes) axes_.push_back(a);
}

const Mesh& CutOp::mesh() const { return b.module.shardings.mesh(b.mesh); }
int64_t CutOp::devices() const { return mesh().sizeOf(axes_); }

const CutFactor& CutOp::cutOf(const TensorMap& map, size_t dim) const {
  static const CutFactor uncut;
  const std::span<const Term> terms = map.dims[dim].sharded();
  return terms.size() == 1 ? factors[terms[0].factor] : uncut;
}
const CutFactor& CutOp::operandCut(size_t operand, size_t dim) const {
  return cutOf(rule.operands[operand], dim);
}
const CutFactor& CutOp::resultCut(size_t result, size_t dim) const {
  return cutOf(rule.results[result], dim);
}

DType CutOp::dtypeOf(ValueId v) const { return typeOf(v).dtype; }
const Type& CutOp::typeOf(ValueId v) const { return b.module.typeOf(v); }

ValueId CutOp::convert(ValueId v, DType d) {
  return dtypeOf(v) == d ? v : b.value("convert", {v}, {{"dtype", b.word(dtypeName(d))}});
}

ValueId CutOp::over(const char* reduction, ValueId v, std::span<const int64_t> dims, bool keepdim) {
  return b.value(reduction, {v}, {{"dims", b.ints(dims)}, {"keepdim", b.boolean(keepdim)}});
}

ValueId CutOp::allReduce(ValueId v, PendingKind kind, std::span<const AxisRef> axes) {
  if (mesh().sizeOf(axes) == 1) return v;
  const AttrId op = b.module.attrs.string(b.module.strings.intern(pendingName(kind)));
  const DType own = partType(dtypeOf(v));
  const bool narrows =
      reduceDType && kind == PendingKind::Sum && isFloat(own) && *reduceDType != wireDType(kind, own);
  const AttrId wire = narrows ? b.word(dtypeName(*reduceDType)) : AttrId();
  return b.value("all_reduce", {v}, {{"axes", axesAttr(b.module, axes)}, {"op", op}, {"wire", wire}});
}

ValueId CutOp::fromOne(ValueId v) {
  if (devices() == 1) return v;
  const PendingKind kind = isBool(dtypeOf(v)) ? PendingKind::Any : PendingKind::Sum;
  const AttrId op = b.module.attrs.string(b.module.strings.intern(pendingName(kind)));
  return b.value("all_reduce", {v}, {{"axes", axesAttr(b.module, axes_)}, {"op", op}});
}

ValueId CutOp::allGather(ValueId v, int64_t dim, std::span<const AxisRef> axes) {
  if (mesh().sizeOf(axes) == 1) return v;
  return b.value("all_gather", {v}, {{"axes", axesAttr(b.module, axes)}, {"dim", b.integer(dim)}});
}

ValueId CutOp::gatherAll(ValueId v) {
  const int64_t first = 0;
  return allGather(b.value("expand_dims", {v}, {{"dims", b.ints({&first, 1})}}), 0, axes_);
}

ValueId CutOp::index(std::span<const AxisRef> axes) {
  return b.value("axis_index", {}, {{"axes", axesAttr(b.module, axes)}});
}
ValueId CutOp::pieceOffset(Dim size, std::span<const AxisRef> axes) {
  return b.value("piece_offset", {},
                 {{"size", sizeAttr(b.module, size)}, {"axes", axesAttr(b.module, axes)}});
}
ValueId CutOp::pieceSize(Dim size, std::span<const AxisRef> axes) {
  return b.value("piece_size", {}, {{"size", sizeAttr(b.module, size)}, {"axes", axesAttr(b.module, axes)}});
}

ValueId CutOp::row(ValueId v, int64_t row) {
  return b.value("index_select", {v, b.literal(static_cast<double>(row), DType::I32)},
                 {{"dim", b.integer(0)}});
}

bool CutOp::gatherIsCheaper(ValueId summary, int count) const {
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

bool writeCut(CutOp& op, std::vector<ValueId>& results) {
  const OpRecord& record = *op.whole.record;
  if (!record.cut || !record.cut(op, results)) return false;
  const Module& m = op.b.module;
  DTC_CHECK(results.size() == op.results.size(), "a cut op gives another number of results");
  for (size_t r = 0; r < results.size(); ++r) {
    const Type &got = m.types[m[results[r]].type], &want = m.types[op.results[r]];
    DTC_CHECK(got.dtype == want.dtype && got.rank() == want.rank(), "a cut op gives another type");
  }
  return true;
}

bool exchanges(const Rule& rule, std::span<const PartList> factors, size_t f) {
  const int beside = rule.factors[f].alongside;
  if (beside < 0 || rule.factors[f].communicates()) return false;
  const PartList& theirs = factors[static_cast<size_t>(beside)];
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
  // Also along windows and keys that are summed over (a convolution's own); what merges otherwise is reduced by the op itself.
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

std::optional<std::vector<CutFactor>> cutFactors(const Rule& rule, std::span<const PartList> factors,
                                                 const Mesh& mesh) {
  std::vector<CutFactor> cuts(factors.size());
  for (size_t f = 0; f < factors.size(); ++f) {
    const DimSharding list{factors[f]};
    if (list.strided()) {
      if (rule.factors[f].communicates()) return std::nullopt;
      continue;
    }
    cuts[f].axes = list.axes();
    cuts[f].devices = mesh.sizeOf(cuts[f].axes);
  }
  return cuts;
}

} // namespace dtc
