#include "dtc/Passes/trace/CommContracts.h"

#include "analysis/Within.h"
#include "dtc/IR/text/Text.h"
#include "dtc/IR/verify/CommContract.h"
#include "dtc/Passes/propagate/Reasons.h"
#include "dtc/Support/Units.h"
#include "dtc/Support/Words.h"

#include <algorithm>

namespace dtc {

static constexpr DiagKind kBroken{"communication-contract", "@{0}{1} violates its contract '{2}': {3}"};
static constexpr const char* kNoReasons =
    "the input is already propagated, so the reasons for its collectives are not available";

static constexpr size_t kShown = 4; // collectives listed per violated contract

namespace {

// The collective kinds that a contract counts.
class Counter {
public:
  Counter(const Module& m, const CommContract& contract) : m_(m), contract_(contract) {}

  std::vector<OpId> count(FuncId f) {
    block(m_[f].body, contract_.within.empty());
    return std::move(found_);
  }

private:
  void block(BlockId b, bool all) {
    for (OpId o : m_[b].ops) {
      const bool part = all || isWithin(o);
      if (part && counts(o)) found_.push_back(o);
      for (uint32_t r = 0; r < m_[o].numRegions; ++r) block(m_.region(o, r), all);
      if (!m_.record(o).isCall) continue;
      if (FuncId callee = m_.findFunction(m_.strings[m_[o].callee]); callee.valid())
        block(m_[callee].body, part);
    }
  }

  bool isWithin(OpId o) const {
    for (std::string_view path : withinPaths(m_, o))
      if (isPartOfCall(path, contract_.within)) return true;
    return false;
  }

  bool counts(OpId o) const {
    const OpRecord& rec = m_.record(o);
    if (rec.async != AsyncForm::Start && !isContractCollective(rec)) return false;
    const bool counted = contract_.what == CommContract::kAny
                             ? rec.collective != CollectiveKind::AllSlice
                             : contract_.what == collectiveName(rec.collective);
    if (!counted) return false;
    if (contract_.axes.empty()) return true;
    for (const AxisRef& a : collectiveAxes(m_, o))
      for (const CommContract::Axis& wanted : contract_.axes)
        if (m_.strings[a.name] == wanted.name) return true;
    return false;
  }

  const Module& m_;
  const CommContract& contract_;
  std::vector<OpId> found_;
};

std::string axesText(const Module& m, std::span<const AxisRef> axes) {
  return joined(axes, ", ", [&](const AxisRef& a) { return printAxis(a, m.strings); });
}

// "all_reduce over tp, 8.0 KiB received per device"
std::string describe(const Module& m, const TracedCollective& c) {
  std::string text = std::string(collectiveName(m.record(c.op).collective)) + " over " +
                     axesText(m, collectiveAxes(m, c.op));
  if (c.price) text += ", " + bytesText(c.price->bytesReceived) + " received per device";
  if (c.sources.size() > 1) text += ", one message for " + std::to_string(c.sources.size());
  return text;
}

// The notes for one collective, back to the annotations.
class Story {
public:
  Story(const CollectiveTrace& t) : t_(t), m_(t.propagated), reasons_(t.propagated, t.report) {}

  void tell(const TracedCollective& c, size_t number, Diagnostic& error) {
    const std::string head = std::to_string(number) + ": " + describe(t_.local, c);
    if (c.sources.empty()) error.noteAt(t_.local[c.op].loc, head);
    for (size_t i = 0; i < c.sources.size() && i < kShown; ++i) {
      const OpId source = c.sources[i];
      const ReshardReason* r = reasons_.reshard(source);
      error.noteAt(locationOf(source, r), i == 0 ? head + ": " + why(source, r) : "and " + why(source, r));
      const auto uses =
          r ? reasons_.annotations(*r) : reasons_.annotations(source, collectiveAxes(t_.local, c.op));
      for (const AnnotationUse& use : uses) error.noteAt(use.range, annotation(use));
    }
  }

private:
  SourceRange locationOf(OpId source, const ReshardReason* r) const {
    if (!r) return m_[source].loc;
    const bool reads = r->kind == ReshardReason::Operand || r->kind == ReshardReason::Boundary;
    const OpId at = reads && r->needs.valid() ? r->needs : r->cause;
    return at.valid() ? m_[at].loc : m_[source].loc;
  }

  // For an op made by autodiff or decompose, also the user's op that it replaces.
  std::string name(OpId o) const {
    if (!o.valid()) return "";
    const std::string_view name = m_.record(o).name;
    const SourceRange at = m_[o].loc;
    std::string_view there;
    if (at.valid() && at.end <= m_.source.text.size())
      there = std::string_view(m_.source.text).substr(at.begin, at.end - at.begin);
    const bool other = there != name && m_.registry->find(there) != kNoOpKind;
    return "'" + std::string(name) + "'" + (other ? " (made for this '" + std::string(there) + "')" : "");
  }

  std::string why(OpId source, const ReshardReason* r) const {
    if (!r) return name(source) + " communicates internally here";
    const ValueId operand = m_.operand(source, 0);
    const Sharding& from = m_.shardings[m_[operand].sharding];
    const std::string value = printValueName(m_, reasons_.shown(reasons_.source(operand)));
    if (!from.pending.empty()) {
      std::vector<AxisRef> axes;
      for (const PendingAxis& p : from.pending) axes.push_back(p.axis);
      return (r->cause.valid() ? name(r->cause) + " leaves " : "") + value + " a partial " +
             std::string(pendingName(from.pendingKind())) + " over " + axesText(m_, axes);
    }
    const std::string has = printSharding(m_, m_[operand].sharding),
                      wants = printSharding(m_, m_[m_.result(source)].sharding);
    if (r->kind == ReshardReason::Operand)
      return name(r->needs) + " reads " + value + " as " + wants + ", but it is " + has;
    return value + " is " + has + ", but " + wants + " is required here";
  }

  std::string annotation(const AnnotationUse& use) const {
    const std::vector<AxisRef> axes = DimSharding{use.parts}.axes();
    return (use.ofResult ? "because the result is" : "because " + written(use.value) + " is") +
           " sharded along " + axesText(m_, axes) + " in dim " + std::to_string(use.dim) + " here";
  }

  // As in the text: a constraint that inlining inserted for a call has no name of its own.
  std::string written(ValueId v) const {
    const SourceRange r = m_[v].loc;
    if (r.valid() && r.end <= m_.source.text.size() && m_.source.text[r.begin] == '%')
      return m_.source.text.substr(
          r.begin,
          std::min(r.end, static_cast<uint32_t>(m_.source.text.find_first_of(": ", r.begin))) - r.begin);
    return printValueName(m_, reasons_.shown(v));
  }

  const CollectiveTrace& t_;
  const Module& m_;
  Reasons reasons_;
};

// "is 2 of them" …
std::string verdict(const CommContract& c, size_t found) {
  const std::string n = found == 0 ? "no" : std::to_string(found);
  const std::string what = c.what == CommContract::kAny ? "collective" : c.what;
  std::string axes;
  for (const CommContract::Axis& a : c.axes) axes += (axes.empty() ? " over " : " or ") + a.name;
  return "there " + std::string(found == 1 ? "is " : "are ") + n + " " + what + (found == 1 ? "" : "s") +
         axes;
}

// "layer.1" is the second call of @layer.
std::string callText(std::string_view within, std::string& function) {
  if (within.empty()) return "";
  const ContractCall call = lastCall(within);
  function = call.function;
  return std::string(" (") + (call.ofGradient ? "gradient of " : "") + "call " +
         std::to_string(call.index + 1) + ")";
}

// The contract as written by the user: without the call prefix.
std::string shownText(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon != std::string_view::npos) text.remove_prefix(colon + 1);
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  return std::string(text);
}

// A contract on a gradient applies to the calls that are differentiated.
bool speaks(const Module& m, FuncId f, const CommContract& contract) {
  if (contract.within == CommContract::kGradient) return false;
  if (contract.within.empty() || !lastCall(contract.within).ofGradient) return true;
  bool taken = false;
  forEachOp(m, m[f].body, [&](OpId o) {
    for (std::string_view path : withinPaths(m, o)) taken = taken || isPartOfCall(path, contract.within);
  });
  return taken;
}

class Checker {
public:
  Checker(Module& m, const OptimizeCollectivesOptions& options, const Unpropagated* before,
          Diagnostics& diags)
      : m_(m), options_(options), before_(before), diags_(diags) {}

  bool run() {
    const size_t errors = diags_.numErrors();
    for (FuncId f : m_.order) {
      if (!m_[f].spmd) continue;
      for (const WrittenContract& written : contractsOf(m_, m_[f])) check(f, written);
    }
    return diags_.numErrors() == errors;
  }

private:
  void check(FuncId f, const WrittenContract& written) {
    const std::string text(m_.strings[m_.attrs[written.attr].text]);
    ContractError problem;
    const auto contract = parseCommContract(text, problem);
    if (!contract) return; // reported by the verifier
    if (!speaks(m_, f, *contract)) return;
    const std::vector<OpId> found = Counter(m_, *contract).count(f);
    const auto n = static_cast<int64_t>(found.size());
    if (contract->exactly ? n == contract->count : n <= contract->count) return;
    std::string function(m_.strings[m_[f].name]);
    const std::string call = callText(contract->within, function);
    Diagnostic& error = diags_.error(kBroken, written.text, function, call, shownText(text),
                                     verdict(*contract, found.size()));
    explain(f, *contract, found, error);
  }

  // The notes come from a trace: the same passes run on the same program, recording reasons.
  void explain(FuncId f, const CommContract& contract, const std::vector<OpId>& found, Diagnostic& error) {
    if (const CollectiveTrace* t = trace()) {
      const FuncId traced = t->local.findFunction(m_.strings[m_[f].name]);
      if (!traced.valid()) return;
      Story story(*t);
      size_t number = 0;
      for (OpId o : Counter(t->local, contract).count(traced)) {
        if (++number > kShown) break;
        for (const TracedCollective& c : t->collectives)
          if (c.op == o) story.tell(c, number, error);
      }
    } else {
      const std::vector<TracedCollective> all = collectivesOf(m_, options_.machine);
      size_t number = 0;
      for (OpId o : found) {
        if (++number > kShown) break;
        for (const TracedCollective& c : all)
          if (c.op == o) error.note(m_[o].loc, std::to_string(number) + ": " + describe(m_, c));
      }
      if (!found.empty()) error.note({}, kNoReasons);
    }
    if (found.size() > kShown)
      error.note({},
                 "and " + std::to_string(found.size() - kShown) + " more; `dtc explain` lists all of them");
  }

  const CollectiveTrace* trace() {
    if (traced_ || !before_ || !before_->module) return trace_ ? &*trace_ : nullptr;
    traced_ = true;
    PropagateOptions propagation;
    if (auto policy = parsePolicy(before_->policy)) propagation.policy = *policy;
    Diagnostics own;
    trace_ = traceCollectives(*before_->module, propagation, options_, own, before_->module->order.front());
    return trace_ ? &*trace_ : nullptr;
  }

  Module& m_;
  const OptimizeCollectivesOptions& options_;
  const Unpropagated* before_;
  Diagnostics& diags_;
  bool traced_ = false;
  std::optional<CollectiveTrace> trace_;
};

// Removes the attributes that only the check needs.
void forgetCalls(Module& m) {
  for (FuncId f : m.order) {
    forEachOp(m, m[f].body, [&](OpId o) { setWithin(m, o, {}); });
    const StrId comm = m.strings.find("comm");
    for (NamedAttr& a : m[f].attrs) {
      if (!comm.valid() || a.name != comm) continue;
      Attr own = m.attrs[a.value];
      std::erase_if(own.list,
                    [&](AttrId e) { return m.strings[m.attrs[e].text].find(':') != std::string_view::npos; });
      a.value = own.list.empty() ? AttrId() : m.attrs.intern(std::move(own));
    }
    std::erase_if(m[f].attrs, [](const NamedAttr& a) { return !a.value.valid(); });
  }
}

} // namespace

bool hasCommContracts(const Module& m) {
  const StrId comm = m.strings.find("comm");
  return comm.valid() &&
         std::ranges::any_of(m.order, [&](FuncId f) { return findAttr(m[f].attrs, comm).valid(); });
}

bool checkCommContracts(Module& m, const OptimizeCollectivesOptions& options,
                        const Unpropagated* unpropagated, Diagnostics& diags) {
  if (!hasCommContracts(m)) return true;
  const bool kept = Checker(m, options, unpropagated, diags).run();
  if (kept) forgetCalls(m);
  return kept;
}

std::vector<ContractCount> countContracts(const CollectiveTrace& t) {
  const Module& m = t.local;
  std::vector<ContractCount> out;
  for (FuncId f : m.order) {
    for (const WrittenContract& written : contractsOf(m, m[f])) {
      const std::string text(m.strings[m.attrs[written.attr].text]);
      ContractError problem;
      const auto contract = parseCommContract(text, problem);
      if (!contract || !speaks(m, f, *contract)) continue;
      std::string function(m.strings[m[f].name]);
      const std::string call = callText(contract->within, function);
      out.push_back({"@" + function + call, shownText(text), written.text, contract->count,
                     static_cast<int64_t>(Counter(m, *contract).count(f).size()), contract->exactly});
    }
  }
  return out;
}

bool optimizeCollectivesPass(Module& m, const PassOptions& written, Diagnostics& diags) {
  const OptimizeCollectivesOptions options = optimizeCollectivesOptions(written);
  return optimizeCollectives(m, diags, options) &&
         checkCommContracts(m, options, written.unpropagated, diags);
}

} // namespace dtc
