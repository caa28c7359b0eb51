#include "diff/StatementDiff.h"

#include "dtc/IR/infer/RuleText.h"
#include "dtc/Ops/record/Ops.h"
#include "explain/ExplainGroups.h"

#include <algorithm>

namespace dtc {

StatementDiff::StatementDiff(const ProgramSnapshot& a, const ProgramSnapshot& b)
    : a_(a), b_(b), equal_(a, b), written_(a.written, b.written), compiled_(a.statements, b.statements),
      own_(compiled_.numNodes(), kNoCause), cause_(own_), shardingCause_(own_), users_(compiled_.numNodes()) {
}

void StatementDiff::run(ProgramDiff& out) {
  if (out.comparesStatements) causes_ = findCauses(a_, b_, written_, equal_, compiledNames());
  for (const FoundCause& f : causes_.found) out.causes.push_back(f.cause);
  out.types = causes_.types;
  statements(out);
  if (!out.comparesStatements || !out.comparesCosts) return;
  seed();
  spread();
  shardings(out);
  compiledFacts(out);
  for (size_t n = 0; n < compiled_.numNodes(); ++n) {
    const SnapshotStatement *a = compiled_.inA(n), *b = compiled_.inB(n);
    if ((a != nullptr) != (b != nullptr)) ++out.generated;
  }
}

// "%a_h" and "%y_h" for %h of a function that is called for %a and %y. What a gradient computes has the place of its
// statement, too.
CompiledNames StatementDiff::compiledNames() const {
  CompiledNames out(written_.numNodes());
  const auto visit = [&](const ProgramSnapshot& p, bool inB) {
    std::vector<std::vector<std::string>> others(p.written.size()), own(p.written.size());
    for (const SnapshotStatement& s : p.statements) {
      if (s.origin < 0 || s.generated || s.op == "argument" || s.op == "result") continue;
      const auto origin = static_cast<size_t>(s.origin);
      const SnapshotStatement& text = p.written[origin];
      if (text.op != s.op || text.name.empty()) continue;
      std::vector<std::string>& names = (s.name.ends_with("_" + text.name.substr(1)) ? own : others)[origin];
      if (std::ranges::find(names, s.name) == names.end()) names.push_back(s.name);
    }
    for (size_t i = 0; i < own.size(); ++i) {
      std::vector<std::string>& names = out[inB ? written_.nodeB(i) : written_.nodeA(i)];
      if (names.empty()) names = own[i].empty() ? others[i] : own[i];
    }
  };
  visit(b_, true);
  visit(a_, false);
  return out;
}

void StatementDiff::statements(ProgramDiff& out) {
  row_.assign(written_.numNodes(), 0);
  for (size_t n = 0; n < written_.numNodes(); ++n) {
    const SnapshotStatement *a = written_.inA(n), *b = written_.inB(n);
    if (!a && !b) continue;
    row_[n] = out.statements.size();
    DiffStatement& s = out.statements.emplace_back();
    if (a) s.a = static_cast<int32_t>(a - a_.written.data());
    if (b) s.b = static_cast<int32_t>(b - b_.written.data());
  }
  for (size_t c = 0; c < causes_.found.size(); ++c)
    for (size_t n : causes_.found[c].nodes) {
      std::vector<int>& all = out.statements[row_[n]].causes;
      if (all.empty() || all.back() != static_cast<int>(c)) all.push_back(static_cast<int>(c));
    }
}

DiffRowsOf StatementDiff::writtenOf(std::span<const size_t> nodes) const {
  DiffRowsOf out;
  const auto add = [&](size_t written) {
    if (std::ranges::find(out, row_[written]) == out.end()) out.push_back(row_[written]);
  };
  for (size_t n : nodes) {
    const SnapshotStatement *a = compiled_.inA(n), *b = compiled_.inB(n);
    if (b && b->origin >= 0) add(written_.nodeB(static_cast<size_t>(b->origin)));
    if (a && a->origin >= 0) add(written_.nodeA(static_cast<size_t>(a->origin)));
  }
  return out;
}

// Shardings and times of the statements of the text: those of what was compiled from them. A function that is
// called several times has the shardings of its first call.
void StatementDiff::compiledFacts(ProgramDiff& out) const {
  const auto visit = [&](const Statements& all, bool inB) {
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i].origin < 0) continue;
      const auto origin = static_cast<size_t>(all[i].origin);
      DiffStatement& s = out.statements[row_[inB ? written_.nodeB(origin) : written_.nodeA(origin)]];
      std::string& sharding = inB ? s.shardingB : s.shardingA;
      if (sharding.empty() && !all[i].generated) sharding = all[i].sharding;
      (inB ? s.secondsB : s.secondsA) += all[i].seconds;
      const size_t node = inB ? compiled_.nodeB(i) : compiled_.nodeA(i);
      if (s.follows == kNoCause && s.causes.empty() && (affected(node) || isRepeated(node)))
        s.follows = isResharded(node) ? shardingCause_[node] : cause_[node];
    }
  };
  visit(compiled_.b, true);
  visit(compiled_.a, false);
}

// Compiled statements that were made from a changed one, and those that have it as a user.
void StatementDiff::seed() {
  std::vector<int> ofWritten(written_.numNodes(), kNoCause);
  for (size_t c = 0; c < causes_.found.size(); ++c)
    for (size_t n : causes_.found[c].nodes)
      if (ofWritten[n] == kNoCause) ofWritten[n] = static_cast<int>(c);
  const auto visit = [&](const Statements& all, bool inB) {
    for (size_t i = 0; i < all.size(); ++i) {
      const size_t node = inB ? compiled_.nodeB(i) : compiled_.nodeA(i);
      if (all[i].origin >= 0 && own_[node] == kNoCause) {
        const auto origin = static_cast<size_t>(all[i].origin);
        own_[node] = ofWritten[inB ? written_.nodeB(origin) : written_.nodeA(origin)];
      }
      for (int32_t o : all[i].operands) {
        const auto operand = static_cast<size_t>(o);
        users_[inB ? compiled_.nodeB(operand) : compiled_.nodeA(operand)].push_back(node);
      }
    }
  };
  visit(compiled_.b, true);
  visit(compiled_.a, false);
}

bool StatementDiff::isResharded(size_t node) const {
  const SnapshotStatement *a = compiled_.inA(node), *b = compiled_.inB(node);
  return !a || !b || !equal_(a->sharding, b->sharding);
}

bool StatementDiff::affected(size_t node) const {
  const SnapshotStatement *a = compiled_.inA(node), *b = compiled_.inB(node);
  return isResharded(node) || a->type != b->type || a->attributes != b->attributes;
}

// Whether it runs another number of times, which follows from the loop that it is in.
bool StatementDiff::isRepeated(size_t node) const {
  const SnapshotStatement *a = compiled_.inA(node), *b = compiled_.inB(node);
  return a && b && a->executions > 0 && b->executions > 0 && a->executions != b->executions;
}

// The nodes that its sharding was propagated from, if it changed, then its operands.
std::vector<size_t> StatementDiff::sourcesOf(size_t node) const {
  std::vector<size_t> out;
  const auto add = [&](const std::vector<int32_t>& statements, bool inB) {
    for (int32_t s : statements) {
      const auto i = static_cast<size_t>(s);
      out.push_back(inB ? compiled_.nodeB(i) : compiled_.nodeA(i));
    }
  };
  const SnapshotStatement *a = compiled_.inA(node), *b = compiled_.inB(node);
  const bool resharded = isResharded(node);
  if (b && resharded) add(b->from, true);
  if (a && resharded) add(a->from, false);
  if (b) add(b->operands, true);
  if (a) add(a->operands, false);
  return out;
}

// Another type of a constant is what others require of it: the zero that a sum starts from has the type of its terms.
bool StatementDiff::isRequired(int cause) const {
  const DiffCause& c = causes_.found[static_cast<size_t>(cause)].cause;
  return c.kind == DiffCause::Type && c.op != "argument" && c.op != "result";
}

// A function of one element, whose result has the sharding of its operands whichever it is.
static bool isElementwise(const std::string& op) {
  const OpKind kind = standardOps().find(op);
  if (kind == kNoOpKind) return false;
  const OpRecord& record = standardOps()[kind];
  return record.rule == pointwiseRule ||
         (record.ruleText && std::string_view(record.ruleText) == "pointwise");
}

// Of causes that reach a statement, those of the first round count. Sizes explain a sharding, as another function of
// one element does, and constants and numbers that ops compute with anything, that no other cause reaches.
int StatementDiff::roundOf(int cause, bool ofShardings) const {
  const FoundCause& f = causes_.found[static_cast<size_t>(cause)];
  const bool keepsShardings = ofShardings && f.cause.kind == DiffCause::Op && isElementwise(f.cause.before) &&
                              isElementwise(f.cause.after);
  return isRequired(cause) || f.values || keepsShardings  ? 2
         : f.cause.kind == DiffCause::Type && ofShardings ? 1
                                                          : 0;
}

// From each cause to all affected statements that follow from it, breadth first: the nearest cause counts. A loop that
// runs another number of times is the cause of the times of its statements.
std::vector<int> StatementDiff::spread(const std::vector<std::vector<size_t>>& followers,
                                       bool ofShardings) const {
  std::vector<std::pair<int, size_t>> seeds;
  for (size_t n = 0; n < compiled_.numNodes(); ++n)
    if (own_[n] != kNoCause && (compiled_.inA(n) || compiled_.inB(n))) seeds.emplace_back(own_[n], n);
  std::ranges::sort(seeds);
  std::vector<int> causes(compiled_.numNodes(), kNoCause);
  for (const int round : {0, 1, 2}) {
    std::vector<size_t> queue;
    for (const auto& [cause, node] : seeds)
      if (roundOf(cause, ofShardings) == round && causes[node] == kNoCause)
        causes[node] = cause, queue.push_back(node);
    const auto follows = [&](size_t n) {
      return causes[n] == kNoCause && (own_[n] == kNoCause || roundOf(own_[n], ofShardings) > round);
    };
    for (size_t at = 0; at < queue.size(); ++at)
      for (size_t n : followers[queue[at]])
        if (follows(n)) causes[n] = causes[queue[at]], queue.push_back(n);
  }
  return causes;
}

void StatementDiff::spread() {
  std::vector<std::vector<size_t>> followers(compiled_.numNodes());
  for (size_t n = 0; n < compiled_.numNodes(); ++n)
    if ((compiled_.inA(n) || compiled_.inB(n)) && affected(n))
      for (size_t source : sourcesOf(n)) followers[source].push_back(n);
  shardingCause_ = spread(followers, true);
  for (size_t n = 0; n < compiled_.numNodes(); ++n) {
    if (!isRepeated(n)) continue;
    const SnapshotStatement *a = compiled_.inA(n), *b = compiled_.inB(n);
    if (b->within >= 0) followers[compiled_.nodeB(static_cast<size_t>(b->within))].push_back(n);
    if (a->within >= 0) followers[compiled_.nodeA(static_cast<size_t>(a->within))].push_back(n);
  }
  cause_ = spread(followers, false);
  originCause_.assign(written_.numNodes(), kNoCause);
  const auto origins = [&](const Statements& all, bool inB) {
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i].origin < 0) continue;
      const auto origin = static_cast<size_t>(all[i].origin);
      int& cause = originCause_[inB ? written_.nodeB(origin) : written_.nodeA(origin)];
      if (cause == kNoCause) cause = cause_[inB ? compiled_.nodeB(i) : compiled_.nodeA(i)];
    }
  };
  origins(compiled_.b, true);
  origins(compiled_.a, false);
}

// A cause of everything that no other explains: the only one, or the only setting. The numbers of stages and
// micro-batches follow from another.
int StatementDiff::onlyCause() const {
  if (causes_.found.size() == 1) return 0;
  int setting = kNoCause;
  for (size_t i = 0; i < causes_.found.size(); ++i)
    if (const DiffCause& c = causes_.found[i].cause; c.kind == DiffCause::Setting && c.what != "pipeline") {
      if (setting != kNoCause) return kNoCause;
      setting = static_cast<int>(i);
    }
  return setting;
}

// Of others that were compiled from the same statement of the text.
int StatementDiff::causeOfOrigin(size_t node) const {
  const SnapshotStatement *a = compiled_.inA(node), *b = compiled_.inB(node);
  int cause = kNoCause;
  if (b && b->origin >= 0) cause = originCause_[written_.nodeB(static_cast<size_t>(b->origin))];
  if (cause == kNoCause && a && a->origin >= 0)
    cause = originCause_[written_.nodeA(static_cast<size_t>(a->origin))];
  return cause;
}

int StatementDiff::causeOf(std::span<const size_t> nodes, bool ofShardings) const {
  const std::vector<int>& causes = ofShardings ? shardingCause_ : cause_;
  if (ofShardings)
    for (size_t n : nodes)
      if (own_[n] != kNoCause && roundOf(own_[n], true) == 0) return own_[n];
  int later = kNoCause;
  for (size_t n : nodes) {
    if (causes[n] == kNoCause) continue;
    if (!ofShardings || roundOf(causes[n], true) == 0) return causes[n];
    if (later == kNoCause) later = causes[n];
  }
  const auto first = [&](const std::vector<size_t>& of) {
    for (size_t n : of) {
      if (causes[n] == kNoCause) continue;
      if (roundOf(causes[n], ofShardings) == 0) return causes[n];
      if (later == kNoCause) later = causes[n];
    }
    return kNoCause;
  };
  for (size_t n : nodes)
    if (const int c = first(sourcesOf(n)); c != kNoCause) return c;
  for (size_t n : nodes)
    if (const int c = first(users_[n]); c != kNoCause) return c;
  if (later != kNoCause) return later;
  for (size_t n : nodes)
    if (const int c = causeOfOrigin(n); c != kNoCause) return c;
  return onlyCause();
}

void StatementDiff::shardings(ProgramDiff& out) const {
  std::unordered_map<std::string, size_t> groups;
  std::vector<std::vector<std::string>> names;
  for (size_t n = 0; n < compiled_.b.size(); ++n) {
    const SnapshotStatement* a = compiled_.inA(n);
    const SnapshotStatement& b = compiled_.b[n];
    if (!a || equal_(a->sharding, b.sharding)) continue;
    if (!equal_(a->annotation, b.annotation)) continue; // a cause
    const size_t nodes[] = {n};
    DiffSharding s;
    s.what = (b.generated ? "in " : "") + b.name, s.op = b.op;
    s.before = shardingText(a->sharding), s.after = shardingText(b.sharding);
    s.location = b.location, s.cause = causeOf(nodes, true);
    const std::string key =
        s.op + "|" + patternOf(s.what).text + "|" + s.before + "|" + s.after + "|" + std::to_string(s.cause);
    const auto [it, isNew] = groups.try_emplace(key, out.shardings.size());
    const DiffRowsOf of = writtenOf(nodes);
    if (isNew) {
      out.shardings.push_back(s);
      names.push_back({s.what});
    } else {
      ++out.shardings[it->second].count;
      names[it->second].push_back(s.what);
    }
    DiffRowsOf& rows = out.shardings[it->second].of;
    rows.insert(rows.end(), of.begin(), of.end());
  }
  for (size_t k = 0; k < names.size(); ++k) out.shardings[k].what = namesText(names[k]);
}

} // namespace dtc
