// Local text (ir.md §2.3): pieces, collectives, what varies between devices, handles.
#include "Verifier.h"

#include "dtc/IR/Text.h"

#include <algorithm>

namespace dtc {

namespace {

constexpr DiagKind kOpenPiece{
    "open-sharding",
    "{0} is open, and only a closed sharding has shards: write '_' or an axis in place of '?'"};
constexpr DiagKind kShardingInLocal{
    "sharding-in-local", "{0} is local: only arguments and results of an spmd function have shardings"};
constexpr DiagKind kOnlyLocal{"only-local", "'{0}' belongs to local text: write it in an spmd function or a "
                                            "'local' block, or let 'propagate' and 'partition' find it"};
constexpr DiagKind kOnlyGlobal{"only-global",
                               "'{0}' belongs to global text: in local text write a collective"};
constexpr DiagKind kVaryingPredicate{"varying-predicate",
                                     "{0} may differ between devices along {1}, but {3} in this "
                                     "'{2}' needs all of them: some would wait forever"};
constexpr DiagKind kVaryingResult{
    "varying-result", "result {0} has no 'of' and so is equal on all devices, but {1} may differ along {2}"};
constexpr DiagKind kVaryingArgument{
    "varying-argument",
    "argument {0} of @{1} has no 'of' and so is equal on all devices, but {2} may differ along {3}"};
constexpr DiagKind kYieldVaries{"local-yield-varies",
                                "'local' gives {0} as the same along {1}, but it varies there: insert a "
                                "collective, or shard the result along {1}"};
constexpr DiagKind kYieldPending{"local-yield-pending",
                                 "'local' gives {0} as reduced along {2}, but it is a {1} pending there: put "
                                 "'all_reduce' before, or write '| {1}({2})' in the result's sharding"};
constexpr DiagKind kYieldKind{"local-yield-kind",
                              "'local' gives {0}, a {1} pending along {2}, as a pending {3}"};
constexpr DiagKind kYieldSame{
    "local-yield-same", "'local' gives {0} as pending along {1}, but it is the same there: the {2} would "
                        "count it {3} times"};
constexpr DiagKind kPendingLost{
    "pending-lost", "'{0}' {4}, but {1} is a partial {3} over {2}: insert an all_reduce before it"};
constexpr DiagKind kHandleUse{"handle-use", "{0} is a handle of '{1}': only 'done' may use it"};
constexpr DiagKind kHandleTwice{"duplicate-done", "the handle {0} is waited for twice"};
constexpr DiagKind kHandleUnused{"handle-unused",
                                 "the handle {0} of '{1}' is never waited for: 'done' gives its result"};
constexpr DiagKind kNotAHandle{"not-a-handle",
                               "'done' waits for what a …_start began, but {0} is no such handle"};

// Why an op cannot be applied to the parts of a reduction of this kind.
std::string whyLost(PendingKind k) {
  if (k == PendingKind::Sum || k == PendingKind::Avg) return "is not linear";
  return "does not commute with " + std::string(pendingName(k));
}

} // namespace

TypeId Verifier::pieceType(TypeId global, ShardingId id, SourceRange range) {
  const Sharding& s = m_.shardings[id];
  if (!s.closed()) {
    error(kOpenPiece, range, printSharding(m_, id));
    return {};
  }
  Type t = m_.types[global];
  if (s.dims.size() != t.dims.size()) return {}; // shardingProblem has said it
  for (size_t d = 0; d < t.dims.size(); ++d) {
    auto piece = localDim(s.dims[d], m_.shardings.mesh(s.mesh), t.dims[d], m_.dims);
    if (!piece) return {}; // shardingProblem, or what is asked of global types, has said it
    t.dims[d] = *piece;
  }
  return m_.types.intern(std::move(t));
}

void Verifier::localOp(OpId o) {
  const OpRecord& record = m_.record(o);
  if (!local_) {
    if (record.isCollective()) error(kOnlyLocal, m_[o].loc, record.name);
    return;
  }
  if (record.constraint == Constraint::Shard || record.constraint == Constraint::Reshard)
    error(kOnlyGlobal, m_[o].loc, record.name);
  for (uint32_t i = 0; i < m_[o].numResults && !freeAxes_; ++i)
    if (ValueId v = m_.result(o, i); m_[v].sharding.valid()) error(kShardingInLocal, m_[v].loc, name(v));
}

// Predicates and bounds that differ between devices which a collective inside brings together; and values that a called
// function takes for equal.
void Verifier::varying(const Varying& v, BlockId b) {
  for (OpId o : m_[b].ops) {
    if (diags_.full()) return;
    RegionKind kind = m_.record(o).regions;
    AxisSet used = 0;
    for (uint32_t r = 0; r < m_[o].numRegions; ++r) used |= v.usedBy(m_.region(o, r));
    auto check = [&](ValueId p) {
      const AxisSet both = v(p) & used;
      if (!both) return;
      OpId needs; // the first that does
      for (uint32_t r = 0; r < m_[o].numRegions; ++r)
        forEachOp(m_, m_.region(o, r), [&](OpId inner) {
          if (!needs.valid() && (v.usedByOp(inner) & both)) needs = inner;
        });
      const bool host = m_.record(needs).lowering == Lowering::Host;
      error(kVaryingPredicate, m_[o].loc, name(p), v.text(both), m_.record(o).name,
            host ? "'" + std::string(m_.record(needs).name) + "'" : "a collective")
          .noteAt(m_[needs].loc, "they would meet in '" + std::string(m_.record(needs).name) + "'");
    };
    if (kind == RegionKind::Cond) check(m_.operand(o, 0));
    if (kind == RegionKind::While && !m_[m_.region(o, 0)].yields.empty())
      check(m_[m_.region(o, 0)].yields[0]);
    if (kind == RegionKind::For) check(m_.operand(o, 0)), check(m_.operand(o, 1));
    for (uint32_t r = 0; r < m_[o].numRegions; ++r) varying(v, m_.region(o, r));
    if (!m_.record(o).isCall) continue;
    FuncId callee = m_.findFunction(m_.strings[m_[o].callee]);
    for (size_t i = 0; callee.valid() && i < m_[o].numOperands && i < m_[callee].args.size(); ++i)
      if (AxisSet set = v(m_.operand(o, i)); set && !m_[callee].args[i].globalType.valid())
        error(kVaryingArgument, m_[o].loc, i, m_.strings[m_[callee].name], name(m_.operand(o, i)),
              v.text(set));
  }
}

void Verifier::localYields(OpId o, const LocalTypes& types) {
  for (const LocalTypes::Lost& l : types.lost())
    error(kPendingLost, m_[l.op].loc, m_.record(l.op).name, name(l.value), types.varying().text(l.axes),
          pendingName(types.pending(l.value).kind), whyLost(types.pending(l.value).kind));
  for (uint32_t r = 0; r < m_[o].numResults; ++r)
    for (AxisSet part : types.varying().allParts()) localYield(o, types, r, part);
}

void Verifier::localYield(OpId o, const LocalTypes& types, uint32_t result, AxisSet part) {
  const BlockId body = m_.region(o);
  const ValueId v = m_[body].yields[result];
  const Sharding& s = m_.shardings[m_[m_.result(o, result)].sharding];
  const Varying& varying = types.varying();
  const LocalTypes::Pending p = types.pending(v);
  const bool isPending = p.axes & part;
  const SourceRange at = m_[body].terminatorLoc;
  PendingKind wanted = PendingKind::None;
  for (const PendingAxis& a : s.pending)
    if (varying.ofAxis(a.axis) & part) wanted = a.kind;
  if (wanted != PendingKind::None) {
    const bool counts = wanted == PendingKind::Sum || wanted == PendingKind::Prod;
    if (isPending && (p.declared & part) && p.kind != wanted)
      error(kYieldKind, at, name(v), pendingName(p.kind), varying.text(part), pendingName(wanted));
    else if (!(varying(v) & part) && counts && varying.sizeOf(part) > 1)
      error(kYieldSame, at, name(v), varying.text(part), pendingName(wanted), varying.sizeOf(part));
    return;
  }
  const bool cut = varying.ofSharding(m_[m_.result(o, result)].sharding) & part;
  if (!(varying(v) & part) || (cut && !(p.declared & part))) return;
  const std::string_view kind = pendingName(p.kind);
  if (isPending)
    error(kYieldPending, at, name(v), kind, varying.text(part))
        .note(types.origin(v, part, true), "it is pending from here on");
  else
    error(kYieldVaries, at, name(v), varying.text(part))
        .note(types.origin(v, part, false), "it begins to vary here");
}

void Verifier::varyingResults(const Function& f, const Varying& v) {
  const std::vector<ValueId>& yields = m_[f.body].yields;
  for (size_t i = 0; i < yields.size() && i < f.results.size(); ++i) {
    if (f.results[i].globalType.valid()) continue;
    if (AxisSet set = v(yields[i]))
      error(kVaryingResult, m_[f.body].terminatorLoc, i, name(yields[i]), v.text(set))
          .note(f.results[i].loc, "the result is declared here");
  }
}

// A handle is used once, by `done`, in the block that made it.
void Verifier::handles(BlockId b) {
  auto isHandle = [&](ValueId v) {
    OpId made = m_.definingOp(v);
    return made.valid() && m_.record(made).async == AsyncForm::Start;
  };
  std::unordered_map<ValueId, bool> waited;
  for (OpId o : m_[b].ops) {
    bool done = m_.record(o).async == AsyncForm::Done;
    for (ValueId v : m_.operands(o)) {
      if (!isHandle(v)) {
        if (done) error(kNotAHandle, m_[o].loc, name(v));
        continue;
      }
      if (!done)
        error(kHandleUse, m_[o].loc, name(v), m_.record(m_.definingOp(v)).name);
      else if (auto it = waited.find(v); it == waited.end())
        error(kNotAHandle, m_[o].loc, name(v) + " of another block");
      else if (it->second)
        error(kHandleTwice, m_[o].loc, name(v));
      else
        it->second = true;
    }
    if (m_.record(o).async == AsyncForm::Start)
      for (uint32_t i = 0; i < m_[o].numResults; ++i) waited.emplace(m_.result(o, i), false);
    for (uint32_t r = 0; r < m_[o].numRegions; ++r) handles(m_.region(o, r));
  }
  for (ValueId v : m_[b].yields)
    if (isHandle(v)) error(kHandleUse, m_[b].terminatorLoc, name(v), m_.record(m_.definingOp(v)).name);
  for (OpId o : m_[b].ops)
    if (m_.record(o).async == AsyncForm::Start)
      for (uint32_t i = 0; i < m_[o].numResults; ++i)
        if (auto it = waited.find(m_.result(o, i)); it != waited.end() && !it->second)
          error(kHandleUnused, m_[o].loc, name(it->first), m_.record(o).name);
}

} // namespace dtc
