// Verifies local text (ir.md): shards, collectives, varying values, handles.
#include "verify/Verifier.h"

#include "dtc/IR/DevicePrograms.h"
#include "dtc/IR/text/Text.h"
#include "dtc/Target/Target.h"

#include <algorithm>

namespace dtc {

namespace {

constexpr DiagKind kOpenShard{
    "open-sharding",
    "{0} is open, and only a closed sharding has shards: write '_' or an axis in place of '?'"};
constexpr DiagKind kShardingInLocal{
    "sharding-in-local", "{0} is local: only arguments and results of an spmd function have shardings"};
constexpr DiagKind kOnlyLocal{"only-local",
                              "'{0}' is valid only in local text: use it in an spmd function or a 'local' "
                              "block, or let 'propagate' and 'partition' insert it"};
constexpr DiagKind kOneDevice{"only-local",
                              "'{0}' describes the program of one device: use it in an spmd function, or let "
                              "the pass '{1}' write it"};
constexpr DiagKind kStreams{"stream-number",
                            "a device has 1 stream, or 2 where collectives overlap other steps, not {0}"};
constexpr DiagKind kStream{
    "stream-number", "{0} is on stream {1}, not {2}: stream 1 is that of '…_start' ops, stream 0 that of "
                     "all others"};
constexpr DiagKind kOneStream{"stream-number",
                              "'{0}' overlaps other steps, on a second stream: write streams = 2"};
constexpr DiagKind kOnlyGlobal{"only-global",
                               "'{0}' is valid only in global text: use a collective in local text"};
constexpr DiagKind kVaryingPredicate{"varying-predicate",
                                     "{0} may differ between devices along {1}, but {3} in this '{2}' needs "
                                     "all of them: the program would deadlock"};
constexpr DiagKind kVaryingResult{
    "varying-result", "result {0} {3} and so is equal along {2}, but {1} may differ there: insert a "
                      "collective, or shard the result along {2}"};
constexpr DiagKind kVaryingArgument{
    "varying-argument", "argument {0} of @{1} {4} and so is equal along {3}, but {2} may differ there"};
constexpr DiagKind kYieldVaries{"local-yield-varies",
                                "'local' yields {0} as replicated along {1}, but it varies there: insert a "
                                "collective, or shard the result along {1}"};
constexpr DiagKind kYieldPending{
    "local-yield-pending", "'local' yields {0} as reduced over {2}, but it is a partial {1} there: insert an "
                           "all_reduce before it, or write '| {1}({2})' in the result's sharding"};
constexpr DiagKind kYieldKind{"local-yield-kind",
                              "'local' yields {0}, a partial {1} over {2}, as a partial {3}"};
constexpr DiagKind kYieldSame{
    "local-yield-same",
    "'local' yields {0} as pending along {1}, but it is replicated there: the {2} would count it {3} times"};
constexpr DiagKind kPendingLost{
    "pending-lost", "'{0}' {4}, but {1} is a partial {3} over {2}: insert an all_reduce before it"};
constexpr DiagKind kHandleUse{"handle-use", "{0} is a handle of '{1}': only 'done' may use it"};
constexpr DiagKind kHandleTwice{"duplicate-done", "the handle {0} has more than one 'done'"};
constexpr DiagKind kHandleUnused{"handle-unused",
                                 "the handle {0} of '{1}' has no 'done', which returns its result"};
constexpr DiagKind kNotAHandle{"not-a-handle", "'done' takes the handle of a …_start op, but {0} is not one"};
constexpr DiagKind kHandleElsewhere{"handle-use",
                                    "{0} is a handle of '{1}' in another block: its 'done' must be there"};

// Why an op cannot be applied to the parts of a reduction of this kind.
std::string whyLost(PendingKind k) {
  if (k == PendingKind::Sum || k == PendingKind::Avg) return "is not linear";
  return "does not commute with " + std::string(pendingName(k));
}

// Which varying values of a function's block differ between devices along one part of an axis for sure, given
// generic data. The analysis of varying values is conservative: exchanges of shards, what devices select by
// their index, and slices of a concatenation may end in equal values.
class Differs {
public:
  Differs(const Module& m, const Varying& varying, AxisSet part) : m_(m), varying_(varying), part_(part) {}
  bool operator()(const Function& f, ValueId v) {
    for (const FuncArg& a : f.args) from_[a.value] = From::Data;
    for (OpId o : m_[f.body].ops) op(o);
    const auto it = from_.find(v);
    return it != from_.end() && it->second != From::Unknown;
  }

private:
  // Part: some elements of it are data that varies, others may be equal.
  enum class From : uint8_t { Data, Part, Index, Unknown };

  [[nodiscard]] From of(ValueId v) const {
    const auto it = from_.find(v);
    return it == from_.end() ? From::Unknown : it->second;
  }
  [[nodiscard]] bool varies(ValueId v) const { return varying_(v) & part_; }

  void op(OpId o) {
    if (m_.record(o).regions != RegionKind::Fused) {
      const From from = resultOf(o);
      for (uint32_t r = 0; r < m_[o].numResults; ++r) from_[m_.result(o, r)] = from;
      return;
    }
    const Block& body = m_[m_.region(o)];
    for (uint32_t i = 0; i < m_[o].numOperands && i < body.args.size(); ++i)
      from_[body.args[i]] = of(m_.operand(o, i));
    for (OpId inner : body.ops) op(inner);
    for (uint32_t r = 0; r < m_[o].numResults && r < body.yields.size(); ++r)
      from_[m_.result(o, r)] = of(body.yields[r]);
  }

  [[nodiscard]] From resultOf(OpId o) const {
    const OpRecord& record = m_.record(o);
    if (m_[o].numRegions > 0 || record.isCall) return From::Unknown;
    if (record.isCollective() && !record.operands[0]) return From::Index; // axis_index
    if (record.isCollective() && !record.uniform) return From::Unknown;
    From all = From::Data;
    bool equal = false; // whether an operand does not vary
    for (uint32_t i = 0; i < m_[o].numOperands; ++i) {
      const ValueId v = m_.operand(o, i);
      equal = equal || !varies(v);
      if (!varies(v)) continue;
      // Not every result needs every operand: attention's log-sum-exp does not depend on its values.
      if (m_[o].numResults > 1) return From::Unknown;
      all = std::max(all, through(o, i, of(v)));
    }
    return all == From::Data && equal && has(o, {ThroughRow::Moving}) ? From::Part : all;
  }

  [[nodiscard]] From through(OpId o, uint32_t i, From from) const {
    const Type &x = m_.typeOf(m_.operand(o, i)), &y = m_.typeOf(m_.result(o));
    if (from == From::Part) // a slice may take the other elements
      return has(o, {ThroughRow::Moving}) && x.numElements() != y.numElements() ? From::Unknown : From::Part;
    // A linear function of an index is as different as the index.
    const bool linear = has(o, {ThroughRow::Linear, ThroughRow::Affine, ThroughRow::Moving}, 1u << i);
    return from == From::Index && !linear ? From::Unknown : from;
  }

  [[nodiscard]] bool has(OpId o, std::initializer_list<ThroughRow> rows, uint32_t operands = ~0u) const {
    return std::ranges::any_of(m_.record(o).through, [&](const Through& t) {
      return std::ranges::find(rows, t.row) != rows.end() && (t.operands & operands);
    });
  }

  const Module& m_;
  const Varying& varying_;
  AxisSet part_;
  std::unordered_map<ValueId, From> from_;
};

// Why an argument or a result of a local function is equal along some axes.
std::string whyEqual(bool of, const std::string& axes) {
  return of ? "has a sharding that does not name " + axes : "has no 'of'";
}

} // namespace

TypeId LocalVerifier::shardType(TypeId global, ShardingId id, SourceRange range) {
  const Sharding& s = m_.shardings[id];
  if (!s.closed()) {
    error(kOpenShard, range, printSharding(m_, id));
    return {};
  }
  Type t = m_.types[global];
  if (s.dims.size() != t.dims.size()) return {}; // reported by validateSharding
  for (size_t d = 0; d < t.dims.size(); ++d) {
    auto shardDim = localDim(s.dims[d], m_.shardings.mesh(s.mesh), t.dims[d], m_.dims);
    if (!shardDim) return {}; // reported by validateSharding or by the checks of global types
    t.dims[d] = *shardDim;
  }
  return m_.types.intern(std::move(t));
}

void LocalVerifier::op(OpId o, bool local, bool freeAxes) {
  const OpRecord& record = m_.record(o);
  if (record.regions == RegionKind::Fused && !m_[function_].spmd)
    error(kOneDevice, m_[o].loc, record.name, "fuse");
  if (!local) {
    if (record.isCollective()) error(kOnlyLocal, m_[o].loc, record.name);
    return;
  }
  if (record.constraint == Constraint::Shard || record.constraint == Constraint::Reshard)
    error(kOnlyGlobal, m_[o].loc, record.name);
  for (uint32_t i = 0; i < m_[o].numResults && !freeAxes; ++i)
    if (ValueId v = m_.result(o, i); m_[v].sharding.valid()) error(kShardingInLocal, m_[v].loc, name(v));
}

// What the passes on one device's program wrote: the target, streams and offsets.
void LocalVerifier::placement() {
  const Function& f = m_[function_];
  const auto find = [&](const AttrList& attrs, const char* name) {
    return findAttr(attrs, m_.strings.find(name));
  };
  const auto written = [&](const AttrList& attrs, const char* name, const char* pass, SourceRange range) {
    if (!f.spmd && find(attrs, name)) error(kOneDevice, range, name, pass);
  };
  written(f.attrs, "target", "split", f.loc);
  written(f.attrs, "streams", "schedule", f.loc);
  written(f.attrs, "arena", "plan-memory", f.loc);
  const AttrId given = find(f.attrs, "streams");
  const int64_t streams = given ? m_.attrs[given].i : 2;
  if (streams != 1 && streams != 2) error(kStreams, f.loc, streams);
  const auto part = [&](const AttrList& attrs, SourceRange range, const auto& what, int64_t stream) {
    written(attrs, "at", "plan-memory", range);
    written(attrs, "stream", "schedule", range);
    if (AttrId a = find(attrs, "stream"); f.spmd && a && m_.attrs[a].i != stream)
      error(kStream, range, what(), stream, m_.attrs[a].i);
  };
  for (const FuncArg& a : f.args) part(a.attrs, m_[a.value].loc, [&] { return name(a.value); }, 0);
  for (const FuncResult& r : f.results) part(r.attrs, r.loc, [] { return std::string("a result"); }, 0);
  const AttrId target = find(f.attrs, "target");
  const auto device = target ? targetNamed(m_.strings[m_.attrs[target].text]) : Result<Target>(Target());
  forEachOp(m_, f.body, [&](OpId o) {
    const OpRecord& record = m_.record(o);
    const bool starts = record.async == AsyncForm::Start;
    part(m_[o].attrs, m_[o].loc, [&] { return "'" + std::string(record.name) + "'"; }, starts);
    if (starts && streams == 1 && device && device->gpu) error(kOneStream, m_[o].loc, record.name);
  });
}

// Reports predicates and bounds that vary between devices that a nested collective synchronizes, and varying
// values passed for parameters that must be equal.
void LocalVerifier::varying(const Varying& v, BlockId b) {
  for (OpId o : m_[b].ops) {
    if (diags_.full()) return;
    RegionKind kind = m_.record(o).regions;
    AxisSet used = 0;
    for (uint32_t r = 0; r < m_[o].numRegions; ++r) used |= v.usedBy(m_.region(o, r));
    auto check = [&](ValueId p) {
      const AxisSet both = v(p) & used;
      if (!both) return;
      OpId needs; // the first one
      for (uint32_t r = 0; r < m_[o].numRegions; ++r)
        forEachOp(m_, m_.region(o, r), [&](OpId inner) {
          if (!needs.valid() && (v.usedByOp(inner) & both)) needs = inner;
        });
      const bool host = m_.record(needs).lowering == Lowering::Host;
      error(kVaryingPredicate, m_[o].loc, name(p), v.text(both), m_.record(o).name,
            host ? "'" + std::string(m_.record(needs).name) + "'" : "a collective")
          .noteAt(m_[needs].loc, "the devices synchronize in '" + std::string(m_.record(needs).name) + "'");
    };
    if (kind == RegionKind::Cond) check(m_.operand(o, 0));
    if (kind == RegionKind::While && !m_[m_.region(o, 0)].yields.empty())
      check(m_[m_.region(o, 0)].yields[0]);
    if (kind == RegionKind::For) check(m_.operand(o, 0)), check(m_.operand(o, 1));
    for (uint32_t r = 0; r < m_[o].numRegions; ++r) varying(v, m_.region(o, r));
    if (!m_.record(o).isCall) continue;
    FuncId callee = m_.findFunction(m_.strings[m_[o].callee]);
    for (size_t i = 0; callee.valid() && i < m_[o].numOperands && i < m_[callee].args.size(); ++i) {
      const FuncArg& a = m_[callee].args[i];
      const AxisSet named = a.globalType.valid() ? v.ofSharding(m_[a.value].sharding) : 0;
      AxisSet set = v(m_.operand(o, i)) & ~named;
      for (AxisSet part : a.globalType.valid() && set ? v.allParts() : std::vector<AxisSet>())
        if ((set & part) && !Differs(m_, v, part)(m_[function_], m_.operand(o, i))) set &= ~part;
      if (set)
        error(kVaryingArgument, m_[o].loc, i, m_.strings[m_[callee].name], name(m_.operand(o, i)),
              v.text(set), whyEqual(a.globalType.valid(), v.text(set)));
    }
  }
}

void LocalVerifier::yields(OpId o, const LocalTypes& types) {
  for (const LocalTypes::Lost& l : types.lost())
    error(kPendingLost, m_[l.op].loc, m_.record(l.op).name, name(l.value), types.varying().text(l.axes),
          pendingName(types.pending(l.value).kind), whyLost(types.pending(l.value).kind));
  for (uint32_t r = 0; r < m_[o].numResults; ++r)
    for (AxisSet part : types.varying().allParts()) yield(o, types, r, part);
}

void LocalVerifier::yield(OpId o, const LocalTypes& types, uint32_t result, AxisSet part) {
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
  const bool sharded = varying.ofSharding(m_[m_.result(o, result)].sharding) & part;
  if (!(varying(v) & part) || (sharded && !(p.declared & part))) return;
  const std::string_view kind = pendingName(p.kind);
  if (isPending)
    error(kYieldPending, at, name(v), kind, varying.text(part))
        .note(types.origin(v, part, true), "it becomes pending here");
  else
    error(kYieldVaries, at, name(v), varying.text(part))
        .note(types.origin(v, part, false), "it becomes varying here");
}

void LocalVerifier::varyingResults(const Varying& v) {
  const Function& f = m_[function_];
  const std::vector<ValueId>& yields = m_[f.body].yields;
  const AbsentValues absent(m_, function_);
  for (size_t i = 0; i < yields.size() && i < f.results.size(); ++i) {
    if (absent(yields[i])) continue;
    const bool of = f.results[i].globalType.valid();
    AxisSet set = v(yields[i]) & ~(of ? v.ofSharding(f.results[i].sharding) : 0);
    for (AxisSet part : of&& set ? v.allParts() : std::vector<AxisSet>())
      if ((set & part) && !Differs(m_, v, part)(f, yields[i])) set &= ~part;
    if (set)
      error(kVaryingResult, m_[f.body].terminatorLoc, i, name(yields[i]), v.text(set),
            whyEqual(of, v.text(set)))
          .note(f.results[i].loc, "the result is declared here");
  }
}

// A handle has exactly one use, by `done`, in its own block.
void LocalVerifier::handles(BlockId b) {
  auto isHandle = [&](ValueId v) {
    OpId made = m_.definingOp(v);
    return made.valid() && m_.record(made).async == AsyncForm::Start;
  };
  std::unordered_map<ValueId, OpId> waited; // the `done` of each handle, once found
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
        error(kHandleElsewhere, m_[o].loc, name(v), m_.record(m_.definingOp(v)).name)
            .note(m_[m_.definingOp(v)].loc, name(v) + " is defined here");
      else if (it->second)
        error(kHandleTwice, m_[o].loc, name(v)).note(m_[it->second].loc, "the first is here");
      else
        it->second = o;
    }
    if (m_.record(o).async == AsyncForm::Start)
      for (uint32_t i = 0; i < m_[o].numResults; ++i) waited.emplace(m_.result(o, i), OpId());
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
