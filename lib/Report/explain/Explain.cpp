#include "dtc/Report/explain/Explain.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/IR/text/Text.h"
#include "dtc/IR/text/UserLocation.h"
#include "dtc/Passes/propagate/Reasons.h"
#include "dtc/Sharding/MeshView.h"
#include "dtc/Sharding/Reshard.h"
#include "explain/UserNames.h"

#include <memory>
#include <set>

namespace dtc {

namespace {

class Explainer {
public:
  Explainer(Module& m, const PropagationReport& report, const OpCollectives* runs = nullptr,
            bool chains = true)
      : m_(m), report_(report), runs_(runs), hasChains_(chains), reasons_(m, report), names_(m) {}

  std::vector<ExplainStep> chain(ValueId v, uint16_t d) const { return steps(reasons_.chain(v, d), ""); }
  std::vector<ExplainStep> sourceChain(ValueId v, uint16_t d) const { return chain(reasons_.source(v), d); }

  ExplainValue value(ValueId v) {
    ExplainValue out;
    const ValueId root = reasons_.source(v);
    v = reasons_.shown(v);
    out.value = reasons_.lookupName(v);
    out.generated = reasons_.isGenerated(v);
    out.userName = names_.argument(root, out.value);
    out.type = printType(m_, m_[v].type);
    out.sharding = m_[v].sharding.valid() ? printSharding(m_, m_[v].sharding) : "";
    out.location = location(v);
    const Type& t = m_.typeOf(v);
    for (uint16_t d = 0; d < t.rank(); ++d) {
      ExplainDim dim;
      dim.size = printDim(t.dims[d], m_.dims, m_.strings);
      if (m_[v].sharding.valid()) dim.parts = partsText(m_.shardings[m_[v].sharding].dims[d].parts);
      if (!dim.parts.empty()) dim.chain = chain(reasons_.source(v), d);
      out.dims.push_back(std::move(dim));
    }
    for (const ReshardReason& r : report_.reshards)
      if (isOf(m_.operand(r.reshard, 0), root, out.value)) out.reshards.push_back(reshard(r));
    if (runs_)
      for (const auto& [op, collectives] : *runs_)
        if (!reasons_.reshard(op) && m_[op].numResults > 0 && isOf(m_.result(op), root, out.value))
          out.reshards.push_back(ownOf(op, collectives));
    std::set<OpId> seen;
    made(root, kMadeDepth, seen, out.made);
    for (const FormDecision& d : report_.decisions)
      if (concerns(d, root)) out.decisions.push_back(decision(d));
    return out;
  }

  ExplainReshard reshard(const ReshardReason& r) {
    ExplainReshard out;
    ValueId from = m_.operand(r.reshard, 0), to = m_.result(r.reshard);
    out.value = reasons_.name(reasons_.shown(reasons_.source(from)));
    out.userName = names_.argument(reasons_.source(from), out.value);
    out.from = printSharding(m_, m_[from].sharding);
    out.to = printSharding(m_, m_[to].sharding);
    if (r.cause.valid()) out.cause = m_.record(r.cause).name, out.causeLocation = location(r.cause);
    if (r.needs.valid()) out.needs = m_.record(r.needs).name, out.needsLocation = location(r.needs);
    out.why = sentence(r, out);
    if (hasChains_) out.chain = pendingChains(r);
    if (!runs_)
      planSteps(from, to, out);
    else if (const auto* runs = runsFor(r.reshard))
      out.steps = *runs;
    return out;
  }

  ExplainDecision decision(const FormDecision& d) const {
    return {m_.record(d.op).name, location(d.op), d.choices, reasonOf(d)};
  }

private:
  static constexpr int kMadeDepth = 8; // ops between a value and the collectives that it is computed from

  static std::string reasonOf(const FormDecision& d) {
    const FormChoice& taken = d.choices[0];
    const auto any = [&](auto&& better) {
      return std::ranges::any_of(d.choices, [&](const FormChoice& c) { return !c.taken && better(c); });
    };
    const bool faster = any([&](const FormChoice& c) { return c.seconds < taken.seconds * (1 - 1e-9); });
    const bool fewer = any([&](const FormChoice& c) { return c.bytes < taken.bytes; });
    if (!faster && !fewer) return "";
    switch (d.why) {
    case FormDecision::Votes:
      return "it keeps the sharding of most bytes of its tensors; only --policy cost compares times";
    case FormDecision::Time: return "it takes the least time with its computation and its memory traffic";
    case FormDecision::Bytes: break;
    }
    return std::string("it receives the fewest bytes") +
           (fewer ? ", as estimated before they are planned" : "") + "; only --policy cost compares times";
  }

  // The value, or one that was generated for its statement.
  bool isOf(ValueId v, ValueId root, const std::string& name) const {
    v = reasons_.source(v);
    if (v == root) return true;
    const ValueId shown = reasons_.shown(v);
    return reasons_.isGenerated(shown) && reasons_.lookupName(shown) == name;
  }

  ExplainReshard ownOf(OpId o, const std::vector<ExplainCollective>& collectives) const {
    ExplainReshard out;
    out.value = reasons_.name(reasons_.shown(m_.result(o)));
    out.cause = m_.record(o).name, out.causeLocation = location(o);
    out.why = "'" + out.cause + "' (" + out.causeLocation +
              ") communicates itself, because a dim that it reduces or shifts along is sharded";
    out.steps = collectives;
    return out;
  }

  // The reshards that v is computed from, through ops that keep the number of elements.
  void made(ValueId v, int depth, std::set<OpId>& seen, std::vector<ExplainReshard>& out) {
    const OpId o = m_.definingOp(v);
    if (depth == 0 || !o.valid() || m_[o].numRegions > 0 || !seen.insert(o).second) return;
    const auto elements = m_.typeOf(v).numElements();
    for (ValueId operand : m_.operands(o)) {
      if (m_.typeOf(operand).numElements() != elements) continue;
      const size_t before = out.size();
      ValueId at = operand;
      for (OpId d = m_.definingOp(at); d.valid() && reasons_.reshard(d); d = m_.definingOp(at)) {
        if (seen.insert(d).second)
          if (ExplainReshard one = reshard(*reasons_.reshard(d)); !one.steps.empty())
            out.push_back(std::move(one));
        at = m_.operand(d, 0);
      }
      const OpId source = m_.definingOp(at);
      if (const auto* runs = runsFor(source)) {
        if (seen.insert(source).second) out.push_back(ownOf(source, *runs));
      } else if (out.size() == before) {
        made(at, depth - 1, seen, out);
      }
    }
  }

  // What the compiled program runs for the op, or nullptr.
  const std::vector<ExplainCollective>* runsFor(OpId o) const {
    if (!runs_ || !o.valid()) return nullptr;
    const auto it = runs_->find(o);
    return it == runs_->end() ? nullptr : &it->second;
  }

  std::vector<ExplainStep> pendingChains(const ReshardReason& r) const {
    const Sharding& from = m_.shardings[m_[m_.operand(r.reshard, 0)].sharding];
    std::vector<ExplainStep> out;
    for (const PendingAxis& p : from.pending) {
      const auto one = steps(reasons_.pendingChain(r, p.axis), std::string(m_.strings[p.axis.name]));
      out.insert(out.end(), one.begin(), one.end());
    }
    return out;
  }

  // For the op that defines v, or for a user that needs a reshard of it.
  bool concerns(const FormDecision& d, ValueId v) const {
    if (m_.definingOp(reasons_.source(v)) == d.op) return true;
    for (const ReshardReason& r : report_.reshards)
      if (r.needs == d.op && reasons_.source(m_.operand(r.reshard, 0)) == v) return true;
    return false;
  }

  // The location in the user's own program, where known.
  std::string location(OpId o) const {
    std::string user = userLocation(m_, o);
    return user.empty() ? location(m_[o].loc) : user;
  }
  std::string location(ValueId v) const {
    std::string user = userLocation(m_, m_.definingOp(v));
    return user.empty() ? location(m_[v].loc) : user;
  }
  std::string location(SourceRange r) const { return reasons_.place(r); }

  std::string partsText(const PartList& parts) const {
    std::string out;
    for (const DimPart& p : parts) {
      if (!out.empty()) out += ", ";
      out += p.isAxis() ? printAxis(p.axis, m_.strings) : std::to_string(p.blocks);
    }
    return parts.size() > 1 ? "(" + out + ")" : out;
  }

  static ExplainStep::Kind kindOf(const ShardingReason& r) {
    switch (r.kind) {
    case ShardingReason::Annotation: return ExplainStep::Annotation;
    case ShardingReason::ResultAnnotation: return ExplainStep::ResultAnnotation;
    case ShardingReason::Cheapest: return ExplainStep::Cheapest;
    case ShardingReason::ByPrice: return ExplainStep::ByPrice;
    case ShardingReason::Propagated: break;
    }
    return r.via.valid() ? ExplainStep::Through : ExplainStep::Boundary;
  }

  std::vector<ExplainStep> steps(const std::vector<ReasonStep>& reasons, const std::string& axis) const {
    std::vector<ExplainStep> out;
    for (const ReasonStep& at : reasons) {
      const ShardingReason& r = *at.reason;
      ExplainStep step;
      step.value = reasons_.name(reasons_.shown(r.value));
      step.userName = names_.argument(reasons_.source(r.value), step.value);
      step.dim = at.dim;
      step.axis = axis;
      step.first = out.empty();
      step.parts = partsText(r.parts);
      step.kind = kindOf(r);
      if (r.via.valid()) step.via = m_.record(r.via).name;
      step.factor = r.factor;
      step.secondsBefore = r.secondsBefore, step.secondsAfter = r.secondsAfter;
      step.location = r.via.valid()                                ? location(r.via)
                      : r.kind == ShardingReason::ResultAnnotation ? location(reasons_.annotationLocation(r))
                                                                   : location(r.value);
      out.push_back(std::move(step));
    }
    return out;
  }

  std::string axesText(const std::vector<PendingAxis>& pending) const {
    PartList parts;
    for (const PendingAxis& p : pending) parts.push_back({p.axis, 0});
    return partsText(parts);
  }

  // "'add' (f.dt:4:8) passes on a partial sum over a, which 'einsum' (f.dt:5:8) produces, because a dim that
  // it reduces is sharded", "argument %g (f.dt:2:12) is annotated as a partial sum over dp".
  std::string pendingText(const ReshardReason& r, const std::string& cause, const std::string& partial,
                          const Sharding& from) const {
    std::vector<AxisRef> axes;
    for (const PendingAxis& p : from.pending) axes.push_back(p.axis);
    constexpr size_t kShown = 3;
    std::string ops, arguments;
    size_t numOps = 0, numArguments = 0;
    bool itself = false;
    for (const PendingOrigin& o : reasons_.pendingOrigins(m_.operand(r.reshard, 0), axes)) {
      std::string& list = o.op.valid() ? ops : arguments;
      size_t& count = o.op.valid() ? numOps : numArguments;
      itself |= o.op.valid() && o.op == r.cause;
      if (++count > kShown) continue;
      list += count == 1 ? "" : " and ";
      list += o.op.valid() ? "'" + std::string(m_.record(o.op).name) + "' (" + location(o.op) + ")"
                           : reasons_.name(o.value) + " (" + location(o.value) + ")";
    }
    if (itself || numOps + numArguments == 0)
      return cause + " produces a " + partial + ", because a dim that it reduces is sharded";
    const std::string annotated = (numArguments > 1 ? "arguments " : "argument ") + arguments +
                                  (numArguments > 1 ? " are" : " is") + " annotated as a " + partial;
    const std::string left = ops + (numOps > 1 ? " produce" : " produces") + " a " + partial +
                             ", because a dim that " + (numOps > 1 ? "each" : "it") + " reduces is sharded";
    const std::string why = !numArguments ? left : !numOps ? annotated : left + ", and " + annotated;
    return r.cause.valid() ? why + "; " + cause + " passes it on" : why;
  }

  std::string sentence(const ReshardReason& r, const ExplainReshard& e) const {
    const Sharding& from = m_.shardings[m_[m_.operand(r.reshard, 0)].sharding];
    std::string cause = e.cause.empty() ? "an argument" : "'" + e.cause + "' (" + e.causeLocation + ")";
    std::string wants =
        e.needs.empty() ? "the function's result" : "'" + e.needs + "' (" + e.needsLocation + ")";
    switch (r.kind) {
    case ReshardReason::Reduce: {
      const std::string partial =
          "partial " + std::string(pendingName(from.pendingKind())) + " over " + axesText(from.pending);
      const std::string text = pendingText(r, cause, partial, from);
      return e.needs.empty() ? text : text + "; " + wants + " needs it reduced";
    }
    case ReshardReason::Operand: return wants + " needs this operand with another sharding";
    case ReshardReason::Result:
      return cause + " produces its result with a sharding other than the one annotated or inferred";
    case ReshardReason::Boundary: return wants + " requires this sharding";
    }
    return "";
  }

  // A sharding on another mesh, in terms of this mesh's axes.
  std::optional<Sharding> seenFrom(MeshId mesh, const Sharding& s) const {
    if (s.mesh == mesh) return s;
    const Mesh &own = m_.shardings.mesh(mesh), &other = m_.shardings.mesh(s.mesh);
    const auto view = viewMesh(other, own);
    return view ? throughView(s, other, *view, mesh, own) : std::nullopt;
  }

  void planSteps(ValueId from, ValueId to, ExplainReshard& out) {
    const Sharding& a = m_.shardings[m_[from].sharding];
    const auto b = seenFrom(a.mesh, m_.shardings[m_[to].sharding]);
    if (!b) return;
    const Type& t = m_.typeOf(from);
    auto [known, isNew] =
        plans_.try_emplace({m_[from].sharding.index, m_[to].sharding.index, m_[from].type.index});
    if (isNew)
      known->second = planReshard(a, *b, m_.shardings.mesh(a.mesh), plannedSizes(t.dims, m_.dims), t.dtype);
    for (const ReshardStep& s : known->second.steps) {
      PartList axes;
      for (const AxisRef& x : s.axes) axes.push_back({x, 0});
      out.steps.push_back({std::string(stepName(s.kind)), partsText(axes), s.bytesReceived, s.price});
    }
  }

  Module& m_;
  const PropagationReport& report_;
  const OpCollectives* runs_;
  bool hasChains_;
  Reasons reasons_;
  UserNames names_;
  std::map<std::array<uint32_t, 3>, ReshardPlan> plans_; // by from, to and type
};

} // namespace

ExplainValue explainValue(Module& m, const PropagationReport& report, ValueId v, const OpCollectives* runs) {
  return Explainer(m, report, runs).value(v);
}

ChainExplainer explainChains(Module& m, const PropagationReport& report) {
  auto e = std::make_shared<Explainer>(m, report);
  return [e](ValueId v, uint16_t dim) { return e->sourceChain(v, dim); };
}

std::vector<ExplainReshard> explainProgram(Module& m, const PropagationReport& report,
                                           const OpCollectives* runs, bool chains) {
  Explainer e(m, report, runs, chains);
  std::vector<ExplainReshard> out;
  for (const ReshardReason& r : report.reshards) out.push_back(e.reshard(r));
  return out;
}

std::vector<ExplainDecision> explainDecisions(Module& m, const PropagationReport& report) {
  Explainer e(m, report);
  std::vector<ExplainDecision> out;
  for (const FormDecision& d : report.decisions) out.push_back(e.decision(d));
  return out;
}

} // namespace dtc
