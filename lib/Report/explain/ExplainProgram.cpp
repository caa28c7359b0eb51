#include "dtc/Report/explain/ExplainProgram.h"

#include "dtc/IR/OpRecord.h"
#include "dtc/IR/text/UserLocation.h"
#include "dtc/Passes/trace/CommContracts.h"
#include "explain/ChangeSearch.h"
#include "explain/ExplainGroups.h"
#include "explain/UserNames.h"

#include <algorithm>
#include <set>

namespace dtc {

namespace {

class ProgramExplainer {
public:
  ProgramExplainer(const Module& prepared, CollectiveTrace& t, const ExplainOptions& options,
                   const PrepareProgram& prepare)
      : prepared_(prepared), t_(t), options_(options), prepare_(prepare), reasons_(t.propagated, t.report),
        localNames_(t.local), chains_(explainChains(t.propagated, t.report)), userNames_(t.propagated) {
    const OpCollectives runs = opCollectives(t);
    reshards_ = explainProgram(t.propagated, t.report, &runs, options.chains);
    for (size_t i = 0; i < t.report.reshards.size(); ++i) byOp_.emplace(t.report.reshards[i].reshard, i);
  }

  ProgramReport run() {
    ProgramReport out;
    const ProgramTime time = timeOf(t_, options_.propagation.machine);
    out.axes = time.axes;
    out.computeSeconds = time.computeSeconds, out.commSeconds = time.commSeconds;
    out.complete = time.complete, out.assumed = t_.assumed;
    for (const ContractCount& c : countContracts(t_))
      out.contracts.push_back({c.of, c.contract, locationText(c.location), c.limit, c.found, c.exactly});
    double bytes = 0;
    for (const TracedCollective& c : t_.collectives) {
      out.collectives.push_back(describe(c));
      if (const auto it = time.exposed.find(c.op); it != time.exposed.end())
        out.collectives.back().exposedSeconds = it->second;
      if (c.price) bytes += static_cast<double>(c.price->bytesReceived) * static_cast<double>(c.counted);
    }
    out.differs = out.collectives.size() > 1 && std::ranges::any_of(t_.collectives, [](const auto& c) {
                    return c.price && c.price->differs;
                  });
    out.bytesReceived = static_cast<int64_t>(std::min(bytes, 9e18));
    groupCollectives(out);
    if (options_.changes && prepare_) findChanges(out);
    return out;
  }

private:
  // Tries one collective of each group, in order of decreasing time: the number of trials is bounded.
  void findChanges(ProgramReport& out) {
    ChangeSearch changes(prepared_, t_, reasons_, options_, prepare_);
    std::vector<size_t> order;
    for (size_t i = 0; i < out.groups.size(); ++i) order.push_back(i);
    const bool bounded = static_cast<int64_t>(prepared_.ops.size() * out.groups.size()) > options_.work;
    if (bounded && !options_.full) order = byTime(out.groups);
    size_t done = 0;
    for (size_t i : order)
      for (size_t member : out.groups[i].members) {
        if (options_.progress) options_.progress("explaining collectives", done, out.collectives.size());
        ++done;
        ProgramCollective& c = out.collectives[member];
        const size_t first = out.groups[i].members[0];
        if (options_.full || isSmall(out) || member == first)
          changes.search(t_.collectives[member], c);
        else
          c.noChange = "equal to collective " + std::to_string(first + 1) + ", for which changes were tried";
      }
    for (size_t i = 0; i < out.collectives.size(); ++i)
      if (options_.full || isSmall(out) || out.groups[out.collectives[i].group].members[0] == i)
        changes.retry(t_.collectives[i], out.collectives[i]);
  }

  ProgramCollective describe(const TracedCollective& c) {
    ProgramCollective e;
    e.kind = collectiveName(t_.local.record(c.op).collective);
    for (const AxisRef& a : collectiveAxes(t_.local, c.op)) e.axes.push_back(printAxis(a, t_.local.strings));
    nameValue(e, c);
    e.count = c.count, e.counted = c.counted;
    e.price = c.price;
    for (OpId source : c.sources) e.sources.push_back(sourceOf(source, c));
    return e;
  }

  // The value of the text that it communicates; a bucket has several.
  void nameValue(ProgramCollective& e, const TracedCollective& c) const {
    const Module& m = t_.propagated;
    std::set<ValueId> values;
    for (OpId source : c.sources) {
      const bool reshard = byOp_.contains(source);
      if (!reshard && m[source].numResults == 0) continue;
      const ValueId v = reasons_.shown(reasons_.source(reshard ? m.operand(source, 0) : m.result(source)));
      if (e.value.empty()) {
        e.value = reasons_.lookupName(v), e.generated = reasons_.isGenerated(v);
        e.userName = userNames_.argument(reasons_.source(v), e.value);
        e.purpose = userNames_.purpose(m.result(source), e.generated);
      }
      values.insert(v);
    }
    e.moreValues = values.size() - std::min<size_t>(values.size(), 1);
    if (e.value.empty() && t_.local[c.op].numResults > 0) e.value = localNames_(t_.local.result(c.op));
  }

  ProgramCollective::Source sourceOf(OpId source, const TracedCollective& c) {
    const Module& m = t_.propagated;
    if (auto it = byOp_.find(source); it != byOp_.end()) {
      const ExplainReshard& r = reshards_[it->second];
      const bool pending = !m.shardings[m[m.operand(source, 0)].sharding].pending.empty();
      const bool byCause = !r.cause.empty() && (pending || r.needs.empty());
      ProgramCollective::Source s;
      s.op = byCause ? r.cause : r.needs.empty() ? "return" : r.needs;
      s.location = byCause ? r.causeLocation : r.needsLocation;
      s.why = r.why, s.value = r.value, s.from = r.from, s.to = r.to;
      const ValueId communicated = m.operand(source, 0);
      s.userName = userNames_.argument(reasons_.source(communicated), s.value);
      s.purpose = userNames_.purpose(m.result(source),
                                     reasons_.isGenerated(reasons_.shown(reasons_.source(communicated))));
      std::ranges::copy_if(r.chain, std::back_inserter(s.chain), [&](const ExplainStep& step) {
        return std::ranges::any_of(collectiveAxes(t_.local, c.op),
                                   [&](const AxisRef& a) { return t_.local.strings[a.name] == step.axis; });
      });
      const ReshardReason& reason = t_.report.reshards[it->second];
      const OpId op = byCause ? reason.cause : reason.needs;
      if (op.valid()) nameStatement(s, op);
      return s;
    }
    ProgramCollective::Source s;
    s.op = m.record(source).name;
    const std::string user = userLocation(m, source);
    s.location = user.empty() ? locationText(m[source].loc) : user;
    nameStatement(s, source);
    if (m.record(source).isCollective() || m.record(source).constraint != Constraint::None) {
      s.why = "it is written in the program";
      return s;
    }
    s.why = "'" + s.op + "' communicates itself, because a dim that it reduces or shifts along is sharded";
    if (!options_.chains) return s;
    const std::vector<AxisRef> axes = collectiveAxes(t_.local, c.op);
    for (ValueId v : m.operands(source)) {
      if (!m[v].sharding.valid() || !s.chain.empty()) continue;
      const Sharding& sharding = m.shardings[m[v].sharding];
      for (uint16_t d = 0; d < sharding.dims.size(); ++d)
        for (const AxisRef& a : sharding.dims[d].axes())
          for (const AxisRef& wanted : axes)
            if (a.name == wanted.name && s.chain.empty()) s.chain = chains_(v, d);
    }
    return s;
  }

  // The name before the op in the text; for ops generated by gradients and decompositions, that of the
  // statement they were generated for.
  void nameStatement(ProgramCollective::Source& s, OpId o) const {
    const Module& m = t_.propagated;
    s.user = userPlace(m, o);
    if (const std::string name = statementAt(m.source, m[o].loc); !name.empty()) s.statement = name.substr(1);
  }

  std::string locationText(SourceRange r) const { return reasons_.place(r); }

  const Module& prepared_;
  CollectiveTrace& t_;
  const ExplainOptions& options_;
  const PrepareProgram& prepare_;
  Reasons reasons_;
  ValueNames localNames_;
  ChainExplainer chains_;
  UserNames userNames_;
  std::vector<ExplainReshard> reshards_;
  std::unordered_map<OpId, size_t> byOp_;
};

} // namespace

ProgramReport explainCollectives(const Module& prepared, CollectiveTrace& trace,
                                 const ExplainOptions& options, const PrepareProgram& prepare) {
  return ProgramExplainer(prepared, trace, options, prepare).run();
}

} // namespace dtc
