// The possible forms of an op as text, with prices: the choices of the policy `explicit`, and the reasons
// that every policy reports.
#include "dtc/IR/text/Text.h"
#include "dtc/Passes/propagate/Reasons.h"
#include "dtc/Sharding/Reshard.h"
#include "propagate/Policies.h"
#include <algorithm>
#include <cstdio>

namespace dtc {

static constexpr DiagKind kConflict{
    "explicit-conflict",
    "the shardings around '{0}' conflict, and policy 'explicit' does not resolve conflicts"};
static constexpr DiagKind kBoundary{
    "explicit-boundary", "{0} is {1} here, but {2} is needed, and policy 'explicit' inserts no reshard"};

static constexpr size_t kShown = 6; // choices

namespace {

// Describes one form and its data movement, planned on the nominal machine.
class FormWords {
public:
  FormWords(PropagationState& s, const Relation& rel) : s_(s), rel_(rel) {}

  FormChoice choice(const OpForm& form, bool taken) {
    FormChoice c;
    c.taken = taken;
    for (size_t f = 0; f < form.factors.size(); ++f) {
      if (form.factors[f].empty()) continue;
      c.shardings +=
          (c.shardings.empty() ? "" : ", ") + factorText(f) + " over " + partsText(form.factors[f]);
    }
    if (c.shardings.empty()) c.shardings = "no sharding";
    const size_t n = rel_.rule.operands.size();
    for (size_t t = 0; t < rel_.tensors.size(); ++t) {
      if (rel_.tensors[t] == kNoVar) continue;
      const ShardingVar& var = s_.vars[rel_.tensors[t]];
      Sharding held{var.mesh, var.dims, {}, {}},
          runs{var.mesh, t < n ? form.operands[t] : form.results[t - n], {}, {}};
      if (t >= n) takeOpenDims(held, runs, s_.m.shardings.mesh(var.mesh));
      for (Sharding* sharding : {&held, &runs})
        for (DimSharding& d : sharding->dims) d.open = false, d.priority = -1;
      if (t >= n) runs.pending = form.reducedOn[t - n];
      t < n ? addMove(t, held, runs, c) : addMove(t, runs, held, c);
    }
    if (rel_.op.valid() && communicates(rel_.rule, form.factors)) addOwn(form, c);
    return c;
  }

  std::string partsText(const PartList& parts) const {
    std::string out;
    for (const DimPart& p : parts)
      out += (out.empty() ? "" : ", ") +
             (p.isAxis() ? printAxis(p.axis, s_.m.strings) : std::to_string(p.blocks));
    return parts.size() > 1 ? "(" + out + ")" : out;
  }

private:
  // The factor's letter in the rule's text, or the dim of a result (else of an operand) that the factor is.
  std::string factorText(size_t factor) const {
    if (!rel_.rule.factors[factor].name.empty()) return rel_.rule.factors[factor].name;
    for (const auto* maps : {&rel_.rule.results, &rel_.rule.operands})
      for (const TensorMap& map : *maps)
        for (size_t d = 0; d < map.dims.size(); ++d)
          for (const Term& term : map.dims[d].sharded())
            if (term.factor == factor) return "dim " + std::to_string(d);
    return "a dim";
  }

  // The communication that the op itself performs.
  void addOwn(const OpForm& form, FormChoice& c) {
    for (VarId v : rel_.tensors) {
      if (v == kNoVar) continue;
      const ShardedOpPrice own = s_.shardedPrograms.price(rel_.op, rel_.rule, form.factors, s_.vars[v].mesh);
      c.bytes += own.bytes;
      c.seconds += own.seconds;
      c.moves += (c.moves.empty() ? "" : ", ") + std::string("communication inside the op") +
                 (own.choice.empty() ? "" : " (" + own.choice + ")");
      return;
    }
  }

  void addMove(size_t tensor, const Sharding& from, const Sharding& to, FormChoice& c) {
    const Type& type = s_.m.typeOf(rel_.values[tensor]);
    const ShardingId a = s_.m.shardings.intern(from), b = s_.m.shardings.intern(to);
    auto [known, isNew] = s_.plans.try_emplace({a.index, b.index, s_.m[rel_.values[tensor]].type.index});
    if (isNew)
      known->second = planReshard(from, to, s_.m.shardings.mesh(from.mesh),
                                  plannedSizes(type.dims, s_.m.dims), type.dtype);
    const ReshardPlan& plan = known->second;
    if (plan.bytesReceived == 0) return;
    c.bytes += plan.bytesReceived;
    c.seconds += plan.price;
    std::string kinds;
    for (const ReshardStep& step : plan.steps)
      if (step.bytesReceived > 0) kinds += (kinds.empty() ? "" : " and ") + std::string(stepName(step.kind));
    const ValueId v = rel_.values[tensor];
    c.moves +=
        (c.moves.empty() ? "" : ", ") + kinds + (s_.names.isGenerated(v) ? " " : " of ") + s_.names.shown(v);
  }

  PropagationState& s_;
  const Relation& rel_;
};

std::string priceText(const FormChoice& c) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%lld B received per device, %.1f us", static_cast<long long>(c.bytes),
                c.seconds * 1e6);
  return buffer;
}

// The reasons found so far, back to the annotation that sharded dim `d` of `v`; nullptr if there is none.
const ShardingReason* annotationOf(const PropagationState& s, ValueId v, uint16_t d) {
  const std::vector<ShardingReason>& all = s.report.shardings;
  for (size_t at = all.size(); at-- > 0;) {
    const ShardingReason& r = all[at];
    if (r.dim != d || s.varOf[r.value.index] != s.varOf[v.index]) continue;
    if (r.kind == ShardingReason::Annotation || r.kind == ShardingReason::ResultAnnotation) return &r;
    if (r.kind != ShardingReason::Propagated || !r.from.valid() || s.varOf[r.from.index] == kNoVar)
      return nullptr;
    const std::vector<DimSharding>& dims = s.vars[s.varOf[r.from.index]].dims;
    auto has = [&](const DimSharding& from) {
      return std::ranges::any_of(from.parts, [&](const DimPart& p) {
        return std::ranges::any_of(r.parts, [&](const DimPart& q) { return p.isAxis() && p == q; });
      });
    };
    const auto from = std::ranges::find_if(dims, has);
    if (from == dims.end()) return nullptr;
    d = static_cast<uint16_t>(from - dims.begin());
    v = r.from;
  }
  return nullptr;
}

// The location of the annotation: on the value, or on the function's result that returns it.
SourceRange locationOf(const PropagationState& s, const ShardingReason& r) {
  if (r.kind == ShardingReason::ResultAnnotation)
    for (FuncId f : s.m.order)
      for (size_t k = 0; k < s.m[f].results.size(); ++k)
        if (s.m[s.m[f].body].yields[k] == r.value) return shardingRange(s.m.source, s.m[f].results[k].loc);
  return shardingRange(s.m.source, s.m[r.value].loc);
}

// Notes every annotation that shards one of the relation's tensors, with its line.
void noteAnnotations(PropagationState& s, const Relation& rel, Diagnostic& error) {
  std::vector<uint32_t> noted;
  FormWords words(s, rel);
  for (size_t t = 0; t < rel.tensors.size(); ++t) {
    if (rel.tensors[t] == kNoVar) continue;
    for (uint16_t d = 0; d < s.vars[rel.tensors[t]].dims.size(); ++d) {
      const ShardingReason* r = annotationOf(s, rel.values[t], d);
      if (!r) continue;
      const SourceRange location = locationOf(s, *r);
      if (std::ranges::find(noted, location.begin) != noted.end()) continue;
      noted.push_back(location.begin);
      error.noteAt(location, printValueName(s.m, rel.values[t]) + " is sharded over " +
                                 words.partsText(r->parts) + " because of this annotation");
    }
  }
}

// True if exactly one form needs no communication except the reduction of its pending results.
bool isClear(const std::vector<PricedForm>& forms) {
  return forms.empty() || (forms[0].moved == 0 && (forms.size() == 1 || forms[1].moved > 0));
}

void reportOp(PropagationState& s, const Relation& rel) {
  FormPricing pricing;
  pricing.freeResults = pricing.freeReductions = true;
  const std::vector<PricedForm> forms = pricedForms(s, rel, pricing);
  if (isClear(forms)) return;
  FormWords words(s, rel);
  Diagnostic& error = s.diags.error(kConflict, s.m[rel.op].loc, s.m.record(rel.op).name);
  for (size_t i = 0; i < forms.size() && i < kShown; ++i) {
    const FormChoice c = words.choice(forms[i].form, false);
    error.note({}, "it can run with " + c.shardings + ": " +
                       (c.moves.empty() ? "no communication" : c.moves + ", " + priceText(c)));
  }
  error.note({}, "write a `reshard` of an operand, or a `shard` of the result, to choose");
  noteAnnotations(s, rel, error);
}

// A return, a yield or a bind that needs another sharding than the value has. A `shard` is an explicit
// request.
void reportPair(PropagationState& s, const Relation& rel) {
  const ValueId from = rel.values[0], to = rel.values[1];
  const OpId made = s.m.definingOp(to);
  if (made.valid() && s.m.record(made).constraint == Constraint::Shard) return;
  FormWords words(s, rel);
  FormPricing pricing;
  const PricedForm form = cheapestForm(s, rel, pricing);
  if (form.moved == 0) return;
  const FormChoice c = words.choice(form.form, true);
  auto text = [&](VarId v) { return printSharding(s.m, s.shardingOf(v)); };
  Diagnostic& error = s.diags.error(kBoundary, s.m[from].loc, printValueName(s.m, from), text(rel.tensors[0]),
                                    text(rel.tensors[1]));
  error.note({}, c.moves + ": " + priceText(c));
  error.note({}, "write the `reshard`, or change one of the annotations");
  noteAnnotations(s, rel, error);
}

// Checks the values that flow into one, each against it.
void reportBoundary(PropagationState& s, const Relation& rel) {
  for (size_t i = 0; i + 1 < rel.tensors.size(); ++i) {
    Relation pair;
    pair.rule.factors = rel.rule.factors;
    pair.rule.operands = {rel.rule.operands[i]};
    pair.rule.results = rel.rule.results;
    pair.tensors = {rel.tensors[i], rel.tensors.back()};
    pair.values = {rel.values[i], rel.values.back()};
    reportPair(s, pair);
  }
}

} // namespace

bool reportConflicts(PropagationState& s) {
  const size_t before = s.diags.numErrors();
  for (const Relation& rel : s.relations) {
    if (!onOneMesh(s, rel)) continue;
    rel.op.valid() ? reportOp(s, rel) : reportBoundary(s, rel);
  }
  return s.diags.numErrors() == before;
}

void recordDecision(PropagationState& s, const Relation& rel, const PricedForm& taken,
                    const FormPricing& pricedWith) {
  if (!rel.op.valid() || taken.moved == 0 || !onOneMesh(s, rel)) return;
  FormPricing pricing;
  pricing.freeReductions = true;
  if (cheapestForm(s, rel, pricing).moved == 0) return; // only pending results are communicated
  std::vector<PricedForm> forms = pricedForms(s, rel, {});
  FormWords words(s, rel);
  FormDecision decision;
  decision.op = rel.op;
  decision.why = taken.voted          ? FormDecision::Votes
                 : pricedWith.machine ? FormDecision::Time
                                      : FormDecision::Bytes;
  decision.choices.push_back(words.choice(taken.form, true));
  for (const PricedForm& f : forms)
    if (f.form.factors != taken.form.factors && decision.choices.size() < kShown)
      decision.choices.push_back(words.choice(f.form, false));
  s.report.decisions.push_back(std::move(decision));
}

} // namespace dtc
