#include "explain/ChangeSearch.h"

#include "dtc/IR/LocalShape.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/IR/text/Text.h"
#include "dtc/StableHlo/export/Export.h"

#include <algorithm>

namespace dtc {

constexpr size_t kMaxAnnotations = 8; // of one collective that are tried
constexpr size_t kMaxBoundary = 8;    // changes of results and arguments that do not cause it
constexpr size_t kMaxPriced = 3;      // changes whose schedules are compared
constexpr double kDeviceBytes =
    80e9; // memory of a device: what needs more for arguments alone is not advised

static OpId neededBy(const Module& m, const Reasons& reasons, OpId source) {
  const ReshardReason* r = reasons.reshard(source);
  if (!r) return source;
  const bool pending = !m.shardings[m[m.operand(source, 0)].sharding].pending.empty();
  const OpId first = pending ? r->cause : r->needs, second = pending ? r->needs : r->cause;
  return first.valid() ? first : second.valid() ? second : source;
}

static Sharding closed(Sharding s) {
  for (DimSharding& d : s.dims) d.open = false, d.priority = -1;
  s.pending.clear();
  return s;
}

// The text with the edits applied.
static std::string edited(const std::string& text, std::vector<AnnotationEdit> edits) {
  std::ranges::sort(edits, std::greater(), &AnnotationEdit::begin);
  std::string out = text;
  for (const AnnotationEdit& e : edits) out.replace(e.begin, e.end - e.begin, e.after);
  return out;
}

// Within attributes of StableHLO text: `#sdy.sharding<@mesh, [{"dp"}, {}]>`.
static std::optional<SourceRange> shardyRange(const std::string& text, SourceRange attributes) {
  constexpr std::string_view kOpen = "#sdy.sharding<";
  const size_t begin = text.find(kOpen, attributes.begin);
  if (begin == std::string::npos || begin >= attributes.end) return std::nullopt;
  int depth = 1;
  for (size_t at = begin + kOpen.size(); at < attributes.end; ++at) {
    depth += text[at] == '<' ? 1 : text[at] == '>' ? -1 : 0;
    if (depth == 0) return SourceRange{static_cast<uint32_t>(begin), static_cast<uint32_t>(at + 1)};
  }
  return std::nullopt;
}

ChangeSearch::ChangeSearch(const Module& prepared, CollectiveTrace& trace, const Reasons& reasons,
                           const ExplainOptions& options, const PrepareProgram& prepare)
    : prepared_(prepared), trace_(trace), reasons_(reasons), options_(options), prepare_(prepare),
      userNames_(trace.propagated), now_(judge(trace)) {}

std::vector<ChangeSearch::Need> ChangeSearch::needsOf(const CollectiveTrace& t, const Reasons& reasons,
                                                      const TracedCollective& c) {
  std::vector<Need> out;
  for (OpId source : c.sources) {
    const OpId o = neededBy(t.propagated, reasons, source);
    const SourceRange r = t.propagated[o].loc;
    out.push_back({reasons.line(r), t.propagated.record(o).name});
  }
  return out;
}

std::string ChangeSearch::keyOf(const CollectiveTrace& t, const Reasons& reasons, const TracedCollective& c) {
  std::string key(collectiveName(t.local.record(c.op).collective));
  for (const AxisRef& a : collectiveAxes(t.local, c.op)) key += " " + printAxis(a, t.local.strings);
  for (const Need& n : needsOf(t, reasons, c)) key += " " + n.op + ":" + std::to_string(n.line);
  for (OpId source : c.sources)
    if (t.propagated[source].numOperands > 0)
      key += " " + reasons.name(reasons.shown(reasons.source(t.propagated.operand(source, 0))));
  return key;
}

ChangeSearch::Trial ChangeSearch::judge(CollectiveTrace& t) const {
  Trial out;
  const ProgramTime time = timeOf(t, options_.propagation.machine);
  out.valid = true;
  out.seconds = time.computeSeconds + time.commSeconds;
  out.collectives = t.collectives.size();
  for (FuncId f : t.local.order) {
    if (!t.local[f].spmd) continue;
    const Mesh mesh = meshValueOf(t.local, f);
    for (const FuncArg& a : t.local[f].args)
      out.argumentBytes +=
          static_cast<double>(largestBytes(t.local, t.local[a.value].type, mesh).value_or(0));
  }
  const Reasons reasons(t.propagated, t.report);
  for (const TracedCollective& c : t.collectives) {
    for (const Need& n : needsOf(t, reasons, c))
      for (const AxisRef& a : collectiveAxes(t.local, c.op))
        ++out.needs[{n, std::string(t.local.strings[a.name])}];
    out.keys.insert(keyOf(t, reasons, c));
  }
  return out;
}

std::optional<Module> ChangeSearch::preparedWith(const Edits& edits) const {
  const SourceText& source = prepared_.source;
  return prepare_({source.name, edited(source.text, edits)});
}

ChangeSearch::Trial* ChangeSearch::trial(const Edits& edits) {
  std::string key;
  for (const AnnotationEdit& e : edits) key += std::to_string(e.begin) + e.after + ";";
  if (auto it = trials_.find(key); it != trials_.end()) return &it->second;
  const auto cost = static_cast<int64_t>(prepared_.ops.size());
  if (work_ + cost > options_.work) {
    exhausted_ = true;
    return nullptr;
  }
  work_ += cost;
  Trial& out = trials_[key];
  auto m = preparedWith(edits);
  Diagnostics quiet;
  if (!m) return &out;
  if (auto t = traceCollectives(*m, options_.propagation, {}, quiet, m->order.front())) out = judge(*t);
  return &out;
}

// The time of the changed program's schedule, as far as the work allows.
void ChangeSearch::price(const Edits& edits, Trial& t) {
  if (!options_.scheduleCost) return;
  if (!now_.priced) now_.priced = true, now_.step = options_.scheduleCost(prepared_);
  const auto cost = static_cast<int64_t>(prepared_.ops.size());
  if (t.priced || !now_.step || stepWork_ + cost > options_.stepWork) return;
  t.priced = true;
  stepWork_ += cost;
  if (const auto m = preparedWith(edits)) t.step = options_.scheduleCost(*m);
}

bool ChangeSearch::isRemovedBy(const TracedCollective& c, const Trial& t) const {
  if (!t.valid || t.keys.contains(keyOf(trace_, reasons_, c))) return false;
  for (const Need& n : needsOf(trace_, reasons_, c))
    for (const AxisRef& a : collectiveAxes(trace_.local, c.op)) {
      const std::pair at(n, std::string(trace_.local.strings[a.name]));
      auto before = now_.needs.find(at), after = t.needs.find(at);
      if (after != t.needs.end() && after->second >= before->second) return false;
    }
  return true;
}

// Replaces the sharding there; nothing if the text has none that can be edited, or has this one.
std::optional<AnnotationEdit> ChangeSearch::edit(SourceRange r, const Sharding& wanted) const {
  const std::string& text = prepared_.source.text;
  if (!r.valid() || r.end > text.size() || (text[r.begin] != '@' && text[r.begin] != '{'))
    return std::nullopt;
  const std::optional<SourceRange> shardy = shardyRange(text, r);
  if (shardy)
    r = *shardy;
  else if (text.substr(r.begin, r.end - r.begin).find('=') != std::string::npos)
    return std::nullopt; // attributes of another format
  if (!scratch_) scratch_ = trace_.propagated;
  Module& scratch = *scratch_; // copied once, since printing interns in it
  AnnotationEdit e;
  e.location = reasons_.place(r);
  e.begin = r.begin, e.end = r.end;
  e.before = text.substr(r.begin, r.end - r.begin);
  const ShardingId after = scratch.shardings.intern(wanted);
  if (shardy) {
    const auto written = shardySharding(scratch, after);
    if (!written) return std::nullopt;
    e.after = "#sdy.sharding" + *written;
  } else {
    e.after = printSharding(scratch, after);
    if (text[r.begin] == '{') e.after = e.after.substr(e.after.find('{'));
  }
  return e.after == e.before ? std::nullopt : std::optional(e);
}

std::optional<AnnotationEdit> ChangeSearch::insertion(SourceRange r, const Sharding& wanted) const {
  const std::string_view text = prepared_.source.text;
  if (!r.valid() || r.end > text.size() || r.end == 0) return std::nullopt;
  size_t end = r.end;
  if (text[end - 1] != ']') { // the name of an argument; its type follows
    if (text[r.begin] != '%' || end == text.size() || text[end] != ':') return std::nullopt;
    end = text.find_first_of("]\n,)", end);
    if (end == text.npos || text[end] != ']') return std::nullopt;
    ++end;
  }
  if (!scratch_) scratch_ = trace_.propagated;
  AnnotationEdit e;
  e.location = reasons_.place(r);
  e.begin = e.end = static_cast<uint32_t>(end);
  e.after = " " + printSharding(*scratch_, scratch_->shardings.intern(wanted));
  return e;
}

ChangeSearch::Edits ChangeSearch::editOf(SourceRange loc, bool annotated, const Sharding& wanted,
                                         std::string of) const {
  const SourceRange range = annotated ? shardingRange(prepared_.source, loc) : loc;
  std::optional<AnnotationEdit> own = annotated ? edit(range, wanted) : insertion(range, wanted);
  if (!own) return {};
  own->of = std::move(of);
  Edits all = {*own};
  for (const WrittenSharding& other : options_.links.others(range.begin))
    if (std::optional<AnnotationEdit> e = annotated ? edit(other.range, wanted) : std::nullopt) {
      e->of = other.of;
      all.push_back(*e);
    }
  std::ranges::sort(all, {}, &AnnotationEdit::begin);
  return all;
}

static bool isSameEdit(const AnnotationEdit& a, const AnnotationEdit& b) {
  return a.begin == b.begin && a.after == b.after;
}

static void addTo(std::vector<std::vector<AnnotationEdit>>& list, const std::vector<AnnotationEdit>& edits) {
  if (std::ranges::none_of(list,
                           [&](const auto& known) { return std::ranges::equal(known, edits, isSameEdit); }))
    list.push_back(edits);
}

std::string ChangeSearch::annotatedName(const AnnotationUse& use) const {
  const std::string& text = prepared_.source.text;
  if (const FuncId f = annotatedFunction(use); f.valid()) return resultText(prepared_, f, use.result);
  if (use.ofResult) return "the result";
  const SourceRange named = use.value.valid() ? trace_.propagated[use.value].loc : SourceRange();
  if (!named.valid() || text[named.begin] != '%') return reasons_.name(reasons_.shown(use.value));
  const size_t end = std::min<size_t>(named.end, text.find_first_of(": ", named.begin));
  return text.substr(named.begin, end - named.begin);
}

// A change of all annotations of the tensor, and one of this annotation alone if there are others.
void ChangeSearch::add(const AnnotationUse& use, const Sharding& written, const Resharded& change,
                       Candidates& out) const {
  std::optional<AnnotationEdit> own = edit(use.range, change(written));
  if (!own) return;
  own->of = annotatedName(use);
  if (use.value.valid() && !use.ofResult)
    own->userName = userNames_.argument(reasons_.source(use.value), own->of);
  Edits all = {*own};
  for (const WrittenSharding& other : options_.links.others(use.range.begin))
    if (std::optional<AnnotationEdit> e = edit(other.range, change(other.sharding))) {
      e->of = other.of;
      all.push_back(*e);
    }
  std::ranges::sort(all, {}, &AnnotationEdit::begin);
  addTo(out.tensors, all);
  if (all.size() > 1) addTo(out.single, {*own});
}

// The function whose result is annotated.
FuncId ChangeSearch::annotatedFunction(const AnnotationUse& use) const {
  const size_t rank = trace_.propagated.typeOf(use.value).rank();
  for (FuncId f : prepared_.order)
    if (use.ofResult && use.result < prepared_[f].results.size())
      if (const ShardingId s = prepared_[f].results[use.result].sharding;
          s.valid() && prepared_.shardings[s].dims.size() == rank)
        return f;
  return {};
}

Sharding ChangeSearch::writtenSharding(const AnnotationUse& use) const {
  const Module& m = trace_.propagated;
  if (const FuncId f = annotatedFunction(use); f.valid())
    return prepared_.shardings[prepared_[f].results[use.result].sharding];
  const bool isWritten =
      use.value.index < prepared_.values.size() && prepared_[use.value].sharding.valid() && !use.ofResult;
  return isWritten ? prepared_.shardings[prepared_[use.value].sharding] : m.shardings[m[use.value].sharding];
}

// The sharding without the axes.
static Sharding withoutAxes(Sharding s, const std::vector<AxisRef>& axes) {
  const auto isRemoved = [&](const AxisRef& axis) {
    return std::ranges::any_of(axes, [&](const AxisRef& a) { return a.name == axis.name; });
  };
  for (DimSharding& d : s.dims) {
    PartList kept;
    for (const DimPart& p : d.parts)
      if (!p.isAxis() || !isRemoved(p.axis)) kept.push_back(p);
    if (kept.size() != d.parts.size()) d.parts = DimSharding{kept}.strided() ? PartList() : kept;
  }
  std::erase_if(s.pending, [&](const PendingAxis& p) { return isRemoved(p.axis); });
  return s;
}

// For each annotation with a part in it: without the collective's axes, and as either side of the reshard.
void ChangeSearch::candidates(const TracedCollective& c, Candidates& out) const {
  const Module& m = trace_.propagated;
  const std::vector<AxisRef> axes = collectiveAxes(trace_.local, c.op);
  for (OpId source : c.sources) {
    const ReshardReason* r = reasons_.reshard(source);
    auto uses = r ? reasons_.annotations(*r) : reasons_.annotations(source, axes);
    if (uses.size() > kMaxAnnotations) uses.resize(kMaxAnnotations);
    if (r && r->kind == ReshardReason::Boundary && !r->needs.valid()) addResult(c, source, out);
    for (const AnnotationUse& use : uses) {
      const Sharding written = writtenSharding(use);
      add(use, written, [&](const Sharding& s) { return withoutAxes(s, axes); }, out);
      if (!r) continue;
      for (ValueId side : {m.operand(source, 0), m.result(source)}) {
        if (m.typeOf(side).rank() != m.typeOf(use.value).rank()) continue;
        const Sharding wanted = closed(m.shardings[m[side].sharding]);
        // An annotation that differs on purpose stays.
        add(use, written, [&](const Sharding& s) { return s == written ? wanted : s; }, out);
      }
    }
  }
}

// A result that is resharded at the end: as it is before that, and so along the collective's axes alone.
void ChangeSearch::addResult(const TracedCollective& c, OpId source, Candidates& out) const {
  const Module& m = trace_.propagated;
  const FuncId f = prepared_.order.front(), own = m.findFunction(prepared_.strings[prepared_[f].name]);
  if (!own.valid()) return;
  const auto& yields = m[m[own].body].yields;
  for (size_t k = 0; k < yields.size() && k < prepared_[f].results.size(); ++k) {
    if (yields[k] != m.result(source)) continue;
    const FuncResult& result = prepared_[f].results[k];
    const Sharding from = closed(m.shardings[m[m.operand(source, 0)].sharding]);
    const Sharding written = closed(m.shardings[m[yields[k]].sharding]);
    std::vector<AxisRef> others;
    for (const DimSharding& d : from.dims)
      for (const AxisRef& a : d.axes()) {
        const auto has = [&](const auto& axes) {
          return std::ranges::any_of(axes, [&](const AxisRef& x) { return x.name == a.name; });
        };
        const bool kept =
            std::ranges::any_of(written.dims, [&](const DimSharding& w) { return has(w.axes()); });
        if (!kept && !has(collectiveAxes(trace_.local, c.op))) others.push_back(a);
      }
    for (const Sharding& wanted : {from, withoutAxes(from, others)})
      if (Edits edits = editOf(result.loc, result.sharding.valid(), wanted, resultText(prepared_, f, k));
          !edits.empty())
        addTo(out.tensors, edits);
  }
}

// The collective's axes on each dim of each result of the entry, and of each argument that has no annotation.
void ChangeSearch::addBoundary(const TracedCollective& c, Candidates& out) const {
  const Function& f = prepared_[prepared_.order.front()];
  const std::vector<AxisRef> axes = collectiveAxes(trace_.local, c.op);
  MeshId mesh;
  for (const OpId source : c.sources)
    for (const ValueId v : trace_.propagated.operands(source))
      if (const ShardingId s = trace_.propagated[v].sharding; s.valid())
        mesh = trace_.propagated.shardings[s].mesh;
  const auto add = [&](SourceRange loc, TypeId type, ShardingId written, const std::string& of) {
    Sharding base;
    base.mesh = mesh;
    if (written.valid())
      base = closed(prepared_.shardings[written]);
    else
      base.dims.resize(prepared_.types[type].rank());
    const auto isUsed = [&](const AxisRef& axis) {
      return std::ranges::any_of(base.dims, [&](const DimSharding& d) {
        return std::ranges::any_of(d.axes(), [&](const AxisRef& a) { return a.name == axis.name; });
      });
    };
    if (!base.mesh.valid() || std::ranges::any_of(axes, isUsed)) return;
    for (size_t d = 0; d < base.dims.size() && out.boundary.size() < kMaxBoundary; ++d) {
      Sharding wanted = base;
      for (const AxisRef& a : axes) wanted.dims[d].parts.push_back({a, 0});
      if (Edits edits = editOf(loc, written.valid(), wanted, of); !edits.empty())
        out.boundary.push_back(std::move(edits));
    }
  };
  for (size_t k = 0; k < f.results.size(); ++k)
    add(f.results[k].loc, f.results[k].type, f.results[k].sharding,
        resultText(prepared_, prepared_.order.front(), k));
  for (const FuncArg& a : f.args)
    if (const Value& v = prepared_[a.value]; !v.sharding.valid())
      add(v.loc, v.type, {}, "%" + std::string(prepared_.strings[v.name]));
}

// All edits of both; nothing if they change the same annotation.
static std::vector<AnnotationEdit> together(std::vector<AnnotationEdit> a,
                                            const std::vector<AnnotationEdit>& b) {
  for (const AnnotationEdit& e : b) {
    if (std::ranges::any_of(a, [&](const AnnotationEdit& x) { return x.begin == e.begin; })) return {};
    a.push_back(e);
  }
  return a;
}

// Where several tensors shard an op's operands, such as the weights of gate and up, all of them without the axes.
void ChangeSearch::addReaching(const TracedCollective& c, Candidates& out) const {
  const std::vector<AxisRef> axes = collectiveAxes(trace_.local, c.op);
  Candidates found;
  for (OpId source : c.sources) {
    std::vector<OpId> ops;
    if (reasons_.reshard(source)) {
      for (const PendingOrigin& o : reasons_.pendingOrigins(trace_.propagated.operand(source, 0), axes))
        if (o.op.valid()) ops.push_back(o.op);
    } else {
      ops.push_back(source);
    }
    for (OpId o : ops)
      for (const AnnotationUse& use : reasons_.reaching(o, axes, kMaxAnnotations))
        add(use, writtenSharding(use), [&](const Sharding& s) { return withoutAxes(s, axes); }, found);
  }
  for (const Edits& e : found.tensors)
    if (Edits more = together(out.reaching, e); !more.empty()) out.reaching = std::move(more);
}

// Of those that remove it, the one with the shortest schedule; false if there is none that is not slower than now.
bool ChangeSearch::best(const TracedCollective& c, const std::vector<Edits>& tried, ProgramCollective& out) {
  std::vector<std::pair<Trial*, const Edits*>> found;
  for (const Edits& edits : tried) {
    Trial* t = trial(edits);
    if (!t || !isRemovedBy(c, *t)) continue;
    if (t->collectives >= now_.collectives && t->seconds >= now_.seconds) continue; // it only moves elsewhere
    if (t->argumentBytes > std::max(kDeviceBytes, now_.argumentBytes)) {
      tooLarge_ = true;
      continue;
    }
    found.emplace_back(t, &edits);
  }
  std::ranges::sort(found, {}, [](const auto& one) { return std::pair(one.first->seconds, one.second); });
  if (found.size() > kMaxPriced) found.resize(kMaxPriced);
  for (const auto& [t, edits] : found) {
    price(*edits, *t);
    const bool known = out.stepAfter && t->step;
    if (!out.change.empty() &&
        (known ? t->step->seconds >= out.stepAfter->seconds : t->seconds >= out.secondsAfter))
      continue;
    out.change = *edits;
    out.secondsAfter = t->seconds;
    out.collectivesAfter = t->collectives;
    out.stepAfter = t->step;
    out.stepBefore = t->step ? now_.step : std::nullopt;
  }
  if (!out.change.empty()) addTo(found_, out.change);
  return !out.change.empty() && !out.slows();
}

void ChangeSearch::retry(const TracedCollective& c, ProgramCollective& out) {
  if (!out.change.empty() || c.sources.empty()) return;
  if (const std::vector<Edits> others = found_; best(c, others, out) || !out.change.empty())
    out.noChange.clear();
}

void ChangeSearch::search(const TracedCollective& c, ProgramCollective& out) {
  Candidates found;
  tooLarge_ = false;
  if (!c.sources.empty()) candidates(c, found);
  const std::vector<Edits>& tensors = found.tensors;
  if (tensors.empty()) {
    const bool annotated = std::ranges::any_of(out.sources, [](const ProgramCollective::Source& s) {
      return std::ranges::any_of(s.chain, [](const ExplainStep& step) {
        return step.kind == ExplainStep::Annotation || step.kind == ExplainStep::ResultAnnotation;
      });
    });
    out.noChange = annotated ? "the text has no sharding at that place that could be changed"
                             : "no annotation causes it";
    return;
  }
  if (best(c, tensors, out)) return;
  // Two tensors that require the same are changed together; then all of them.
  std::vector<Edits> several;
  for (size_t i = 0; i < tensors.size() && tensors.size() <= kMaxAnnotations; ++i)
    for (size_t j = i + 1; j < tensors.size(); ++j)
      if (Edits both = together(tensors[i], tensors[j]); !both.empty()) several.push_back(std::move(both));
  Edits every;
  for (const Edits& e : tensors)
    if (Edits more = together(every, e); !more.empty()) every = std::move(more);
  several.push_back(every);
  addReaching(c, found);
  if (!found.reaching.empty()) several.push_back(found.reaching);
  if (best(c, several, out) || best(c, found.single, out)) return;
  addBoundary(c, found);
  if (best(c, found.boundary, out) || !out.change.empty()) return;
  out.noChange = tooLarge_
                     ? "each change of the annotations that removes it needs more than 80 GB of a device's "
                       "memory for arguments"
                 : exhausted_ ? "the program is too large to try more changes"
                              : "no change of the annotations that cause it, or of a result, removes it";
}

} // namespace dtc
