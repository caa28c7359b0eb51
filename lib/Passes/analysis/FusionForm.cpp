#include "analysis/FusionForm.h"
#include "dtc/Ops/attention/AttentionKeys.h"
#include "dtc/Ops/shape/Join.h"
#include "dtc/Ops/window/Convolution.h"
#include <algorithm>
#include <cmath>

namespace dtc {
namespace {

bool allCompound(const std::vector<TensorMap>& maps) {
  for (const TensorMap& t : maps)
    for (const DimMap& d : t.dims)
      if (d.form != DimMap::Compound) return false;
  return true;
}

std::vector<bool> factorsIn(const TensorMap& t, size_t count) {
  std::vector<bool> in(count);
  for (const DimMap& d : t.dims)
    for (const Term& term : d.terms) in[term.factor] = true;
  return in;
}

// A data-movement op by full factors: every factor of the operand is in the result. Only a dim of size 1 may
// be dropped, and not if it is reduced: the argmax of one element is 0, not that element.
bool keepsFactors(const Rule& rule) {
  const std::vector<bool> result = factorsIn(rule.results[0], rule.factors.size());
  const std::vector<bool> operand = factorsIn(rule.operands[0], rule.factors.size());
  for (size_t f = 0; f < rule.factors.size(); ++f)
    if (operand[f] && !result[f] &&
        (rule.factors[f].size != Dim(1) || rule.factors[f].kind == FactorKind::Merge))
      return false;
  return true;
}

// A slice: elements of operand 0 at constant steps from constant offsets. Unknown sizes might need a guard.
bool isSlice(const Rule& rule) {
  if (rule.operands.size() != 1 || rule.results.size() != 1) return false;
  for (const DimMap& d : rule.operands[0].dims) {
    const bool sliced = d.form == DimMap::Affine && d.terms.size() == 1 && d.terms[0].stride > 0 &&
                        d.offset >= 0 && rule.factors[d.terms[0].factor].size.isStatic();
    if (!d.plain() && !sliced) return false;
  }
  return keepsFactors(rule);
}

// A lookup: operand 1 is the index into one dim of operand 0; the other dims are the result's, in order.
bool isLookup(const Module& m, OpId o, const Rule& rule) {
  if (m[o].numOperands != 2 || m[o].numResults != 1 || !m.record(o).element || rule.results.size() != 1)
    return false;
  const Type& number = m.typeOf(m.operand(o, 1));
  if (number.rank() != 0 || (number.dtype != DType::I32 && number.dtype != DType::I64)) return false;
  std::vector<DimMap> kept;
  for (const DimMap& d : rule.operands[0].dims) {
    if (d.form != DimMap::Free && !d.plain()) return false;
    if (d.form != DimMap::Free) kept.push_back(d);
  }
  const std::vector<DimMap>& result = rule.results[0].dims;
  if (kept.size() + 1 != rule.operands[0].dims.size() || result.size() != kept.size()) return false;
  for (size_t i = 0; i < kept.size(); ++i)
    if (!result[i].plain() || result[i].terms[0].factor != kept[i].terms[0].factor) return false;
  return true;
}

void reductionForm(const Module& m, OpId o, FusionForm& form) {
  const Rule& rule = form.rule;
  const std::vector<bool> result = factorsIn(rule.results[0], rule.factors.size());
  const bool rows = m.record(o).lowering == Lowering::Rows;
  std::vector<bool> gone(rule.factors.size());
  for (size_t f = 0; f < rule.factors.size(); ++f)
    gone[f] = (!result[f] && rule.factors[f].reduce != PendingKind::None) ||
              rule.factors[f].kind == FactorKind::Merge || (rows && rule.factors[f].kind != FactorKind::Pass);
  for (const TensorMap& t : rule.operands) // an index operand, not iterated over
    for (const DimMap& d : t.dims)
      for (const Term& term : d.terms)
        if (d.form == DimMap::Free && m.record(o).element &&
            rule.factors[term.factor].kind != FactorKind::Merge)
          gone[term.factor] = false;
  size_t with = 0;
  for (const TensorMap& t : rule.operands) {
    const std::vector<bool> in = factorsIn(t, rule.factors.size());
    bool has = false;
    for (size_t f = 0; f < in.size(); ++f) has |= in[f] && gone[f];
    with += has;
  }
  if (with == 0) return;
  const std::vector<bool> first = factorsIn(rule.operands[0], rule.factors.size());
  bool inFirst = false, inOthers = false;
  for (size_t f = 0; f < gone.size(); ++f) inFirst |= first[f] && gone[f], inOthers |= !first[f] && gone[f];
  form.attention = rows && inOthers; // merges rows of its own with rows of others
  if ((with > 1 && !rows) || !inFirst || form.library || form.attention) {
    form.contracts = true;
    return;
  }
  form.reduces = true;
  for (const DimMap& d : rule.operands[0].dims) {
    bool reduced = false;
    for (const Term& t : d.terms) reduced |= gone[t.factor];
    form.reduced.push_back(reduced);
  }
}

// Stores in place: written elements stay in memory; readers materialize splats.
bool isLargeZeros(const Module& m, OpId o) {
  constexpr int64_t kLargeBytes = 4096;
  const AttrId value = m.attr(o, "value");
  const Type& t = m.typeOf(m.result(o));
  const auto n = t.isStatic() ? t.numElements() : std::nullopt;
  if (!value || !n || *n * dtypeBytes(t.dtype) < kLargeBytes) return false;
  const Attr& a = m.attrs[value];
  return (a.kind == Attr::Int && a.i == 0) || (a.kind == Attr::Float && a.f == 0 && !std::signbit(a.f));
}

// A fused concatenation selects the operand for each element in the loop; for a few operands that costs less
// than a pass of its own.
bool joinsMany(Module& m, OpId o) {
  constexpr uint32_t kFew = 4;
  Diagnostics quiet;
  return m[o].numOperands > kFew && joinOf(queryOf(m, o, quiet)).has_value();
}

} // namespace

bool mayHaveKernel(Module& m, OpId o) {
  const OpRecord& record = m.record(o);
  if (record.lowering != Lowering::Decompose || !record.derive) return false;
  Diagnostics quiet;
  return record.derive(queryOf(m, o, quiet), "one kernel").value_or(0) == 1;
}

FusionForm fusionFormOf(Module& m, OpId o) {
  FusionForm form;
  const OpRecord& record = m.record(o);
  const bool made = record.lowering == Lowering::Loops || record.lowering == Lowering::Rows ||
                    record.lowering == Lowering::Library || record.lowering == Lowering::Annotation ||
                    // fill_piece and the like: grouped with the collectives, but local to one device
                    record.element;
  const bool said = record.element || record.scalar || record.stores ||
                    (record.lowering == Lowering::Rows && record.decompose) || !record.eval;
  if (m[o].numOperands == 0 && record.element && !record.scalar && !isLargeZeros(m, o)) return form;
  // An op of a library that is not a contraction (a factorization) is a call by itself.
  if (mayHaveKernel(m, o) || (record.lowering == Lowering::Library && record.decompose)) {
    Diagnostics quiet;
    form.loops = form.alone = ruleOf(queryOf(m, o, quiet), form.rule);
    const AttentionForm attention = attentionForm(record);
    form.writesRows = attention == AttentionForm::Gradient;
    form.readsRows = form.writesRows || attention == AttentionForm::MaskGradient;
    return form;
  }
  if (!made || !said || record.sideEffect || m[o].numRegions != 0 || m[o].numResults == 0) return form;
  Diagnostics quiet;
  if (!ruleOf(queryOf(m, o, quiet), form.rule) || form.rule.results.empty()) return form;
  form.loops = true;
  form.joins = joinsMany(m, o);
  form.ordered = record.stores != nullptr;
  if (form.ordered) return form;
  const DType dtype = m.typeOf(m.result(o)).dtype;
  form.library = record.lowering == Lowering::Library && (isFloat(dtype) || dtype == DType::I32);
  if (m[o].numOperands == 0) {
    form.move = true;
    return form;
  }
  const bool one = m[o].numOperands == 1 && !record.scalar && record.lowering != Lowering::Rows;
  if (one && form.rule.operands.size() == 1 && allCompound(form.rule.operands) &&
      allCompound(form.rule.results) && keepsFactors(form.rule)) {
    form.move = form.compound = true;
    return form;
  }
  reductionForm(m, o, form);
  form.library &= form.contracts; // an einsum that sums nothing is a product of elements
  form.window = form.contracts && isConvolution(record) && isFloat(m.typeOf(m.result(o)).dtype);
  if (form.reduces || form.contracts) return form;
  form.slices = one && isSlice(form.rule);
  form.lookup = isLookup(m, o, form.rule);
  form.move = one || form.lookup;
  form.indexed = record.element != nullptr || one;
  return form;
}

size_t FusionForms::KeyHash::operator()(const std::vector<uint32_t>& key) const {
  size_t hash = key.size();
  for (uint32_t word : key) hash = (hash ^ word) * 0x9E3779B97F4A7C15u, hash ^= hash >> 29;
  return hash;
}

const FusionForm& FusionForms::of(OpId o) {
  const Op& op = m_[o];
  key_.assign({static_cast<uint32_t>(op.kind), op.numOperands, op.numResults});
  for (ValueId v : m_.operands(o)) {
    const Value& value = m_[v];
    key_.push_back(value.type.index);
    // A rule may read the number of a literal.
    key_.push_back(value.kind == ValueKind::Literal  ? value.literal.index
                   : value.kind == ValueKind::Symbol ? v.index
                                                     : ~static_cast<uint32_t>(value.kind));
  }
  for (uint32_t r = 0; r < op.numResults; ++r) key_.push_back(m_[m_.result(o, r)].type.index);
  for (const NamedAttr& a : op.attrs) key_.insert(key_.end(), {a.name.index, a.value.index});
  if (op.numRegions != 0) key_.push_back(o.index);
  if (auto known = forms_.find(key_); known != forms_.end()) return known->second;
  return forms_.emplace(key_, fusionFormOf(m_, o)).first->second;
}

const FusionForm& FusionForms::asMove(const FusionForm& form) {
  moves_.push_back(form);
  moves_.back().move = true, moves_.back().compound = false;
  return moves_.back();
}

std::optional<std::vector<size_t>> permutationOf(const FusionForm& move) {
  if (!move.compound || move.rule.operands.size() != 1) return std::nullopt;
  const std::vector<DimMap>&from = move.rule.operands[0].dims, &to = move.rule.results[0].dims;
  if (from.size() != to.size() || from.empty()) return std::nullopt;
  for (const std::vector<DimMap>* dims : {&from, &to})
    for (const DimMap& d : *dims)
      if (!d.plain()) return std::nullopt;
  std::vector<size_t> order;
  for (const DimMap& d : to)
    for (size_t i = 0; i < from.size(); ++i)
      if (from[i].terms[0].factor == d.terms[0].factor) order.push_back(i);
  if (order.size() != from.size()) return std::nullopt;
  return order;
}

bool permutesAllButLast(const FusionForm& move) {
  const auto order = permutationOf(move);
  return order && order->back() + 1 == order->size();
}

std::optional<int64_t> columnParts(const std::vector<bool>& rowReduced, const std::vector<Dim>& full,
                                   const std::vector<bool>& reduced, const std::vector<Dim>& parted) {
  if (rowReduced.empty() || !rowReduced.back() || parted.size() != full.size() + 1) return std::nullopt;
  size_t at = 0;
  while (at < full.size() && parted[at] == full[at]) ++at;
  if (at == full.size() || !std::equal(full.begin() + static_cast<std::ptrdiff_t>(at) + 1, full.end(),
                                       parted.begin() + static_cast<std::ptrdiff_t>(at) + 2))
    return std::nullopt;
  int64_t parts = 1;
  for (size_t d = 0; d < parted.size(); ++d) {
    if (!parted[d].isStatic()) return std::nullopt;
    const bool row = d > at ? rowReduced[d - 1] : d < at && rowReduced[d];
    if (row && reduced[d]) return std::nullopt;
    if (reduced[d] && d <= at) return std::nullopt; // the dim of parts is not reduced
    if (!row && !reduced[d] && d > at) return std::nullopt;
    if (!row && !reduced[d]) parts *= parted[d].value();
  }
  return rowReduced[at] || !reduced[at + 1] ? std::nullopt : std::optional(parts);
}

StridedView::StridedView(const Module& m, const Type& t) : m_(m) {
  for (Dim d : t.dims)
    known_.push_back(d.isStatic() ? d.value() : m.dims.expr(d).axes.empty() ? m.dims.expr(d).coefficient : 1);
  for (Dim d : t.dims) sizes_.push_back(number(d));
  if (!fits_) return;
  layout_ = rowMajor(sizes_);
  size_ = layout_.size();
}

int64_t StridedView::number(Dim d) {
  constexpr int64_t kPrimes[] = {251, 257, 263, 269, 271, 277, 281, 283, 293, 307, 311, 313};
  constexpr int64_t kLimit = int64_t(1) << 62;
  int64_t n = 1;
  auto times = [&](int64_t by) { fits_ &= by == 0 || n <= kLimit / by, n = fits_ ? n * by : 1; };
  auto unknown = [&](int64_t key) {
    auto it = primes_.find(key);
    if (it == primes_.end()) {
      const int64_t* prime = std::find_if(std::begin(kPrimes), std::end(kPrimes), [&](int64_t p) {
        const bool taken = std::ranges::any_of(primes_, [&](auto& x) { return x.second == p; });
        return !taken && std::ranges::none_of(known_, [&](int64_t k) { return k % p == 0; });
      });
      if (prime == std::end(kPrimes)) fits_ = false;
      it = primes_.emplace(key, fits_ ? *prime : 1).first;
    }
    times(it->second);
  };
  if (d.isStatic()) {
    n = d.value();
  } else if (const DimExpr e = m_.dims.expr(d); e.axes.empty()) {
    n = e.coefficient;
    for (StrId symbol : e.symbols) unknown(static_cast<int64_t>(symbol.index));
  } else {
    unknown(-1 - static_cast<int64_t>(d.tableIndex()));
  }
  return n;
}

bool StridedView::apply(const Rule& rule) {
  if (!fits_) return false;
  std::vector<std::optional<Layout>> factors(rule.factors.size());
  for (size_t d = 0; d < rule.operands[0].dims.size(); ++d) {
    const DimMap& map = rule.operands[0].dims[d];
    const Layout mode(std::vector<Layout>{layout_.mode(d)});
    allCompound_ &= map.form == DimMap::Compound;
    if (map.form == DimMap::Free || map.terms.empty()) continue;
    std::vector<int64_t> sizes;
    for (const Term& t : map.terms) sizes.push_back(number(rule.factors[t.factor].size));
    if (!fits_) return false;
    std::optional<Layout> parts;
    if (map.form == DimMap::Compound)
      parts = reshaped(mode, sizes);
    else if (auto slice = sliceOf(mode, 0, map.offset, sizes[0], map.terms[0].stride))
      parts = slice->layout;
    if (!parts) return false;
    for (size_t t = 0; t < map.terms.size(); ++t) factors[map.terms[t].factor] = parts->mode(t);
  }
  std::vector<Layout> result;
  for (const DimMap& map : rule.results[0].dims) {
    std::vector<Layout> modes;
    for (const Term& t : map.terms)
      modes.push_back(factors[t.factor] ? *factors[t.factor]
                                        : Layout(number(rule.factors[t.factor].size), 0));
    result.emplace_back(std::move(modes));
  }
  layout_ = Layout(std::move(result));
  return fits_;
}

bool StridedView::strided() const {
  if (!fits_) return false;
  for (const Layout& mode : layout_.modes())
    if (!coalesce(mode).isLeaf()) return false;
  return true;
}

bool StridedView::isRows() const {
  if (!strided() || layout_.rank() == 0) return false;
  const Layout last = coalesce(layout_.modes().back());
  return last.size() <= 1 || last.stride() == 1;
}

bool StridedView::keepsLines(DType dtype) const {
  constexpr int64_t kLine = 64;
  if (!fits_ || layout_.rank() == 0) return false;
  const Layout last = coalesce(layout_.modes().back());
  const Layout inner = last.rank() == 0 ? last : last.mode(last.rank() - 1);
  return inner.isLeaf() && inner.stride() == 1 && inner.size() * dtypeBytes(dtype) >= kLine;
}

std::vector<StridedView::Run> StridedView::runs() const {
  if (!fits_ || !allCompound_ || layout_.size() != size_) return {};
  std::vector<Run> runs;
  int64_t out = 1;
  const auto add = [&](const auto& self, const Layout& l) -> void {
    if (!l.isLeaf()) {
      for (size_t i = l.rank(); i-- > 0;) self(self, l.mode(i));
      return;
    }
    if (l.shape() != 1) runs.push_back({l.shape(), l.stride(), out});
    out *= l.shape();
  };
  add(add, layout_);
  std::sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) { return a.in < b.in; });
  int64_t in = 1;
  for (const Run& r : runs) {
    if (r.in != in) return {};
    in *= r.size;
  }
  return runs;
}

std::optional<std::vector<std::vector<StridedView::Run>>> StridedView::runsByDim() const {
  std::vector<std::vector<Run>> dims(sizes_.size());
  std::vector<Run> all = runs();
  size_t at = 0;
  int64_t in = 1;
  for (size_t d = sizes_.size(); d-- > 0;) {
    const int64_t end = in * sizes_[d];
    while (in < end && at < all.size()) {
      Run& run = all[at];
      const int64_t size = std::min(run.size, end / in); // a run may cross dims
      if (run.size % size != 0) return std::nullopt;
      dims[d].push_back({size, run.in, run.out});
      in *= size;
      run = {run.size / size, run.in * size, run.out * size};
      if (run.size == 1) ++at;
    }
    if (in != end) return std::nullopt; // or not each element once
  }
  return dims;
}

bool StridedView::storesRows() const {
  const auto dims = runsByDim();
  if (!dims || dims->empty()) return false;
  for (const std::vector<Run>& runs : *dims)
    for (size_t i = 0; i + 1 < runs.size(); ++i)
      if (runs[i + 1].out != runs[i].out * runs[i].size) return false;
  return dims->back().empty() || dims->back()[0].out == 1;
}

bool StridedView::identity() const {
  if (!fits_ || !allCompound_ || layout_.size() != size_) return false;
  const Layout walk = coalesce(layout_);
  return walk.isLeaf() && (walk.stride() == 1 || walk.size() <= 1);
}

} // namespace dtc
