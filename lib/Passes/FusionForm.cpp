#include "FusionForm.h"
#include <algorithm>

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

// Every factor of the operand stands in the result: a move by whole factors.
bool keepsFactors(const Rule& rule) {
  const std::vector<bool> result = factorsIn(rule.results[0], rule.factors.size());
  const std::vector<bool> operand = factorsIn(rule.operands[0], rule.factors.size());
  for (size_t f = 0; f < rule.factors.size(); ++f)
    if (operand[f] && !result[f] && rule.factors[f].size != Dim(1)) return false;
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
  for (const TensorMap& t : rule.operands) // looked up by number, not looped over
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

} // namespace

FusionForm fusionFormOf(Module& m, OpId o) {
  FusionForm form;
  const OpRecord& record = m.record(o);
  const bool made = record.lowering == Lowering::Loops || record.lowering == Lowering::Rows ||
                    record.lowering == Lowering::Library || record.lowering == Lowering::Annotation ||
                    record.element; // fill_piece and its kin: with the collectives, but of one device
  const bool said = record.element || record.scalar || record.stores ||
                    (record.lowering == Lowering::Rows && record.decompose) || !record.eval;
  if (!made || !said || record.sideEffect || m[o].numRegions != 0 || m[o].numResults == 0) return form;
  Diagnostics quiet;
  if (!ruleOf(queryOf(m, o, quiet), form.rule) || form.rule.results.empty()) return form;
  form.loops = true;
  form.ordered = record.stores != nullptr;
  if (form.ordered) return form;
  form.library = record.lowering == Lowering::Library && isFloat(m.typeOf(m.result(o)).dtype);
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
  if (form.reduces || form.contracts) return form;
  form.move = one;
  form.indexed = record.element != nullptr || one;
  return form;
}

StridedView::StridedView(const Type& t) {
  for (size_t d = 0; d < t.rank(); ++d) {
    dims_.emplace_back();
    if (t.dims[d] != Dim(1)) dims_.back().push_back({t.dims[d], {static_cast<int64_t>(d)}, false});
  }
}

// Takes the minor digits of product `minor` off the end.
bool StridedView::split(Digits& digits, Dim minor, Digits& taken) {
  if (minor == Dim(1)) return true;
  if (digits.empty()) return false;
  if (digits.back().size == minor) {
    taken.insert(taken.begin(), digits.back());
    digits.pop_back();
    return true;
  }
  if (!minor.isStatic() || !digits.back().size.isStatic()) return false;
  const int64_t want = minor.value(), have = digits.back().size.value();
  if (have == 0 || want == 0) return false;
  if (want % have == 0) {
    taken.insert(taken.begin(), digits.back());
    digits.pop_back();
    return split(digits, Dim(want / have), taken);
  }
  if (have % want != 0) return false;
  Digit major = digits.back(), low = digits.back();
  major.size = Dim(have / want), low.size = Dim(want);
  major.order.push_back(0), low.order.push_back(1);
  digits.back() = major;
  taken.insert(taken.begin(), low);
  return true;
}

bool StridedView::apply(const Rule& rule) {
  std::vector<Digits> factors(rule.factors.size());
  std::vector<bool> known(rule.factors.size());
  for (size_t d = 0; d < dims_.size(); ++d) {
    const DimMap& map = rule.operands[0].dims[d];
    Digits digits = dims_[d];
    for (size_t t = map.terms.size(); t-- > 0;) {
      const uint16_t f = map.terms[t].factor;
      known[f] = true;
      if (t == 0)
        factors[f] = digits;
      else if (!split(digits, rule.factors[f].size, factors[f]))
        return false;
    }
  }
  std::vector<Digits> result;
  for (const DimMap& map : rule.results[0].dims) {
    result.emplace_back();
    for (const Term& t : map.terms) {
      if (!known[t.factor] && rule.factors[t.factor].size != Dim(1))
        result.back().push_back({rule.factors[t.factor].size, {}, true});
      result.back().insert(result.back().end(), factors[t.factor].begin(), factors[t.factor].end());
    }
  }
  dims_ = std::move(result);
  return true;
}

std::vector<StridedView::Digit> StridedView::inOrder() const {
  std::vector<Digit> all;
  for (const Digits& d : dims_)
    for (const Digit& x : d)
      if (!x.repeated) all.push_back(x);
  std::sort(all.begin(), all.end(), [](const Digit& a, const Digit& b) { return a.order < b.order; });
  return all;
}

bool StridedView::strided() const {
  const std::vector<Digit> order = inOrder();
  for (const Digits& d : dims_) {
    if (d.size() < 2) continue;
    for (size_t i = 0; i + 1 < d.size(); ++i) {
      if (d[i].repeated || d[i + 1].repeated) return false;
      auto at =
          std::find_if(order.begin(), order.end(), [&](const Digit& x) { return x.order == d[i].order; });
      if (at + 1 == order.end() || at[1].order != d[i + 1].order) return false;
    }
  }
  return true;
}

bool StridedView::identity() const {
  std::vector<Digit> here;
  for (const Digits& d : dims_)
    for (const Digit& x : d) {
      if (x.repeated) return false;
      here.push_back(x);
    }
  const std::vector<Digit> order = inOrder();
  for (size_t i = 0; i < here.size(); ++i)
    if (here[i].order != order[i].order) return false;
  return true;
}

} // namespace dtc
