#include "diff/StatementDiff.h"

#include "diff/Match.h"
#include "diff/Rows.h"
#include "dtc/Support/Words.h"
#include "explain/ExplainGroups.h"

#include <algorithm>
#include <map>
#include <set>

namespace dtc {

namespace {

bool isDigits(std::string_view s) {
  return std::ranges::all_of(s, [](char c) { return c >= '0' && c <= '9'; });
}

// Whether the text names the statement, so that its name does not depend on its position.
bool isNamed(const SnapshotStatement& s) {
  const size_t percent = s.name.rfind('%');
  return !s.generated && !s.name.empty() && (percent == s.name.npos || !isDigits(s.name.substr(percent + 1)));
}

std::string nameKey(const SnapshotStatement& s) {
  return s.generated ? "in " + s.name : isNamed(s) ? s.name : "%#";
}

// "%blocks_12" of "%blocks_12_h": what statements of one layer begin with. A number at the end is not a layer's.
std::string layerOf(const SnapshotStatement& s) {
  if (!isNamed(s)) return "";
  const size_t begin = s.name.find_first_of("0123456789");
  const size_t end = begin == s.name.npos ? begin : s.name.find_first_not_of("0123456789", begin);
  return end == s.name.npos ? "" : s.name.substr(0, end);
}

// Keys of all statements of both programs, by level.
class Keys {
public:
  MatchKeys of(const ProgramSnapshot& p) {
    MatchKeys out(5);
    for (const SnapshotStatement& s : p.statements) {
      std::string exact, loose;
      for (int32_t o : s.operands) {
        const SnapshotStatement& operand = p.statements[static_cast<size_t>(o)];
        exact += "," + nameKey(operand);
        loose += "," + (operand.op == "argument" ? operand.name : patternOf(nameKey(operand)).text);
      }
      const std::string name = nameKey(s), pattern = patternOf(name).text;
      out[0].push_back(id("0" + s.op + "|" + name + "|" + exact + "|" + s.type + "|" + s.path));
      out[1].push_back(id("1" + s.op + "|" + pattern + "|" + loose + "|" + s.type + "|" + s.path));
      out[2].push_back(isNamed(s) ? id("2" + s.op + "|" + name) : 0);
      out[3].push_back(id("3" + s.op + "|" + pattern));
      out[4].push_back(id("4" + s.op + "|" + s.type));
    }
    return out;
  }

  // By name alone: the op may be another.
  std::vector<uint32_t> names(const ProgramSnapshot& p) {
    std::vector<uint32_t> out;
    for (const SnapshotStatement& s : p.statements)
      out.push_back(isNamed(s) && s.op != "argument" && s.op != "result" ? id("5" + s.name) : 0);
    return out;
  }

private:
  uint32_t id(const std::string& key) {
    return ids_.try_emplace(key, static_cast<uint32_t>(ids_.size()) + 1).first->second;
  }
  std::unordered_map<std::string, uint32_t> ids_;
};

// "@pod{(dp, tp), _ | sum(tp)}" without the axis tp: "@pod{dp, _}".
std::string withoutAxes(const std::string& sharding, const std::set<std::string>& axes) {
  std::string out, word;
  size_t depth = 0, inGroup = 0; // of parentheses; axes written in the innermost one
  size_t groupBegin = 0;
  const auto flush = [&] {
    if (!word.empty() && axes.contains(word)) {
      if (depth == 0) out += "_";
    } else if (!word.empty()) {
      if (depth > 0 && inGroup++ > 0) out += ", ";
      out += word;
    }
    word.clear();
  };
  for (char c : sharding) {
    if (c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      word += c;
      continue;
    }
    if (c == '(') {
      out += word; // sum
      word.clear();
      ++depth, inGroup = 0, groupBegin = out.size();
      out += c;
      continue;
    }
    flush();
    if (depth > 0 && (c == ',' || c == ' ')) continue;
    if (c == ')' && depth > 0) {
      --depth;
      const size_t bar = out.rfind(" | ");
      const bool clause = bar != out.npos;
      if (inGroup == 0 && clause) out.erase(bar);
      if (inGroup == 0 && !clause) out.erase(groupBegin), out += "_";
      if (inGroup == 1 && !clause) out.erase(groupBegin, 1);
      if (inGroup != 1 || clause) out += inGroup == 0 ? "" : ")";
      continue;
    }
    out += c;
  }
  flush();
  return out;
}

std::string orNone(const std::string& sharding) { return sharding.empty() ? "none" : sharding; }

} // namespace

std::string namesText(const std::vector<std::string>& names) {
  std::vector<NamePattern> patterns;
  for (const std::string& n : names) {
    patterns.push_back(patternOf(n));
    if (patterns.back().text != patterns[0].text) return names[0];
  }
  return names.empty() ? "" : patterns[0].text == "%#" ? names[0] : rangeText(patterns);
}

// How often each location is the op of a statement of the text: more than once in functions that are inlined.
static std::unordered_map<std::string, size_t> locationsOf(const ProgramSnapshot& p) {
  std::unordered_map<std::string, size_t> out;
  for (const SnapshotStatement& s : p.statements)
    if (!s.generated && s.op != "argument" && s.op != "result" && !s.location.empty())
      ++out[s.op + s.location];
  return out;
}

StatementDiff::StatementDiff(const ProgramSnapshot& a, const ProgramSnapshot& b)
    : a_(a), b_(b), nB_(b.statements.size()), ab_(a.statements.size(), -1), ba_(nB_, -1),
      locationsA_(locationsOf(a)), locationsB_(locationsOf(b)), cause_(nB_ + a.statements.size(), kNoCause) {
  if (a.extent != ProgramSnapshot::Costs && b.extent != ProgramSnapshot::Costs) match();
}

void StatementDiff::match() {
  Keys keys;
  const MatchKeys a = keys.of(a_), b = keys.of(b_);
  ab_ = matchSequences(a, b);
  matchMoved(a[2], b[2], ab_);
  matchMoved(keys.names(a_), keys.names(b_), ab_);
  for (size_t i = 0; i < ab_.size(); ++i)
    if (ab_[i] >= 0) ba_[static_cast<size_t>(ab_[i])] = static_cast<int32_t>(i);
}

const SnapshotStatement* StatementDiff::inA(size_t node) const {
  if (node >= nB_) return &a_.statements[node - nB_];
  return ba_[node] >= 0 ? &a_.statements[static_cast<size_t>(ba_[node])] : nullptr;
}

const SnapshotStatement* StatementDiff::inB(size_t node) const {
  return node < nB_ ? &b_.statements[node] : nullptr;
}

void StatementDiff::run(ProgramDiff& out) {
  findTrivialAxes();
  settings();
  if (out.comparesStatements) {
    for (size_t j = 0; j < nB_; ++j)
      if (ba_[j] >= 0) compare(static_cast<size_t>(ba_[j]), j);
    unmatched(false);
    unmatched(true);
    mergeArguments();
  }
  order(out);
  spread();
  shardings(out);
  out.types = types_, out.generated = generated_;
}

void StatementDiff::settings() {
  std::map<std::string, std::string> inA(a_.settings.begin(), a_.settings.end());
  const auto add = [&](const std::string& what, const std::string& before, const std::string& after) {
    if (before == after) return;
    DiffCause c;
    c.what = what, c.before = before, c.after = after, c.statements = 0;
    addCause(std::move(c), "setting " + what, what, {});
  };
  if (a_.settings.empty() || b_.settings.empty()) return; // of explain --json
  for (const auto& [what, value] : b_.settings) {
    const auto it = inA.find(what);
    add(what, it == inA.end() ? "none" : it->second, value);
    if (it != inA.end()) inA.erase(it);
  }
  for (const auto& [what, value] : inA) add(what, value, "none");
}

void StatementDiff::addCause(DiffCause cause, const std::string& key, const std::string& name,
                             std::span<const size_t> nodes) {
  const auto [it, isNew] = byKey_.try_emplace(key, found_.size());
  if (isNew)
    found_.push_back({std::move(cause), {}, {}});
  else
    ++found_[it->second].cause.count, found_[it->second].cause.statements += cause.statements;
  Found& f = found_[it->second];
  f.names.push_back(name);
  f.nodes.insert(f.nodes.end(), nodes.begin(), nodes.end());
}

// Equal for statements that are one cause if they change in the same way: those of one line, or those whose
// names differ in numbers.
std::string StatementDiff::placeKey(const SnapshotStatement& s, bool inB) const {
  const auto& locations = inB ? locationsB_ : locationsA_;
  const auto it = locations.find(s.op + s.location);
  return it != locations.end() && it->second > 1 ? s.op + " at " + s.location
                                                 : s.op + " " + patternOf(nameKey(s)).text;
}

// Axes of size 1 in one of the programs: shardings do not mention them there.
void StatementDiff::findTrivialAxes() {
  for (const ProgramSnapshot* p : {&a_, &b_})
    for (const auto& [what, sizes] : p->settings) {
      if (!what.starts_with("mesh ")) continue;
      for (size_t begin = 0; begin < sizes.size();) {
        const size_t end = std::min(sizes.find(", ", begin), sizes.size());
        const std::string axis = sizes.substr(begin, end - begin);
        if (axis.ends_with("=1")) trivialAxes_.insert(axis.substr(0, axis.size() - 2));
        begin = end + 2;
      }
    }
}

bool StatementDiff::sameShardings(const std::string& a, const std::string& b) const {
  if (a == b || trivialAxes_.empty()) return a == b;
  return withoutAxes(a, trivialAxes_) == withoutAxes(b, trivialAxes_);
}

void StatementDiff::compare(size_t i, size_t j) {
  const SnapshotStatement& a = a_.statements[i];
  const SnapshotStatement& b = b_.statements[j];
  const size_t node[] = {nodeB(j)};
  const auto add = [&](DiffCause::Kind kind, const std::string& before, const std::string& after) {
    const std::string key = std::to_string(kind) + "|" + placeKey(b, true) + "|" + before + "|" + after;
    addCause({kind, b.name, b.op, before, after, b.location}, key, b.name, node);
  };
  if (!sameShardings(a.annotation, b.annotation) && !b.generated)
    add(DiffCause::Annotation, orNone(a.annotation), orNone(b.annotation));
  if (a.op != b.op) add(DiffCause::Op, a.op, b.op);
  bool follows = false;
  const bool operands = operandsDiffer(i, j, follows);
  const bool shaped = a.type != b.type && operandTypesDiffer(i, j);
  const bool attributes = a.attributes != b.attributes && a.op == b.op;
  if (attributes && !shaped && !b.generated)
    add(DiffCause::Attributes, a.attributes.empty() ? "none" : a.attributes,
        b.attributes.empty() ? "none" : b.attributes);
  if (operands && !follows && !b.generated) {
    const auto list = [](const ProgramSnapshot& p, const SnapshotStatement& s) {
      return joined(s.operands, ", ", [&](int32_t o) { return p.statements[static_cast<size_t>(o)].name; });
    };
    add(DiffCause::Operands, list(a_, a), list(b_, b));
  }
  if (a.type == b.type) return;
  if (shaped || attributes || operands || follows || b.generated || a.op != b.op)
    ++types_;
  else
    add(DiffCause::Type, a.type, b.type);
}

// `follows`: an operand was added or removed, which is the cause.
bool StatementDiff::operandsDiffer(size_t i, size_t j, bool& follows) const {
  const std::vector<int32_t>& a = a_.statements[i].operands;
  const std::vector<int32_t>& b = b_.statements[j].operands;
  bool differ = a.size() != b.size();
  for (size_t k = 0; k < std::min(a.size(), b.size()); ++k)
    differ = differ || ab_[static_cast<size_t>(a[k])] != b[k];
  if (!differ) return false;
  follows = std::ranges::any_of(a, [&](int32_t o) { return ab_[static_cast<size_t>(o)] < 0; }) ||
            std::ranges::any_of(b, [&](int32_t o) { return ba_[static_cast<size_t>(o)] < 0; });
  return !follows;
}

bool StatementDiff::operandTypesDiffer(size_t i, size_t j) const {
  const std::vector<int32_t>& a = a_.statements[i].operands;
  const std::vector<int32_t>& b = b_.statements[j].operands;
  for (size_t k = 0; k < std::min(a.size(), b.size()); ++k)
    if (a_.statements[static_cast<size_t>(a[k])].type != b_.statements[static_cast<size_t>(b[k])].type)
      return true;
  return false;
}

// Runs of statements of one program alone. Arguments and results stand for themselves, and a run ends where the
// layer changes, so that equal layers are one cause.
void StatementDiff::unmatched(bool inB) {
  const std::vector<SnapshotStatement>& all = inB ? b_.statements : a_.statements;
  const std::vector<int32_t>& matches = inB ? ba_ : ab_;
  std::vector<size_t> run;
  std::string layer;
  const auto flush = [&] {
    if (!run.empty()) addRun(inB, run);
    run.clear(), layer.clear();
  };
  for (size_t i = 0; i < all.size(); ++i) {
    if (matches[i] >= 0) {
      flush();
      continue;
    }
    if (all[i].generated) {
      ++generated_;
      continue;
    }
    const std::string own = layerOf(all[i]);
    const bool alone = all[i].op == "argument" || all[i].op == "result";
    if (alone || (!own.empty() && !layer.empty() && own != layer)) flush();
    if (!own.empty()) layer = own;
    run.push_back(i);
    if (alone) flush();
  }
  flush();
}

void StatementDiff::addRun(bool inB, std::span<const size_t> run) {
  const std::vector<SnapshotStatement>& all = inB ? b_.statements : a_.statements;
  const SnapshotStatement& first = all[run[0]];
  std::string key = inB ? "+" : "-";
  std::vector<std::string> ops;
  std::vector<size_t> nodes;
  for (size_t i : run) {
    key += "|" + placeKey(all[i], inB);
    if (std::ranges::find(ops, all[i].op) == ops.end()) ops.push_back(all[i].op);
    nodes.push_back(inB ? nodeB(i) : nodeA(i));
  }
  constexpr size_t kShownOps = 4;
  const bool more = ops.size() > kShownOps;
  if (more) ops.resize(kShownOps);
  std::string what = joined(ops) + (more ? ", ..." : "");
  if (run.size() == 1) {
    what = first.op == "argument" || first.op == "result" ? first.type : first.op;
    if (!first.annotation.empty()) what += " " + first.annotation;
    if (!first.attributes.empty()) what += " " + first.attributes;
    key += "|" + what;
  }
  DiffCause c;
  c.kind = inB ? DiffCause::Added : DiffCause::Removed;
  c.what = first.name, c.op = run.size() == 1 ? first.op : "";
  (inB ? c.after : c.before) = what;
  c.location = first.location;
  c.statements = run.size();
  addCause(std::move(c), key, first.name, nodes);
}

// Many kinds of added or removed arguments are one cause: the state of another optimizer, for example.
void StatementDiff::mergeArguments() {
  constexpr size_t kMostKinds = 3;
  for (const DiffCause::Kind kind : {DiffCause::Added, DiffCause::Removed})
    for (const char* op : {"argument", "result"}) {
      const auto isOne = [&](const Found& f) { return f.cause.kind == kind && f.cause.op == op; };
      if (static_cast<size_t>(std::ranges::count_if(found_, isOne)) <= kMostKinds) continue;
      Found all;
      std::vector<std::string> labels;
      for (const Found& f : found_) {
        if (!isOne(f)) continue;
        if (labels.empty())
          all.cause = f.cause;
        else
          all.cause.count += f.cause.count, all.cause.statements += f.cause.statements;
        if (labels.size() < kMostKinds) labels.push_back(namesText(f.names));
        all.nodes.insert(all.nodes.end(), f.nodes.begin(), f.nodes.end());
      }
      (kind == DiffCause::Added ? all.cause.after : all.cause.before) += " and others";
      all.names = {joined(labels) + ", ..."};
      std::erase_if(found_, isOne);
      found_.push_back(std::move(all));
    }
}

// The smallest cause first: settings, then by the number of statements.
void StatementDiff::order(ProgramDiff& out) {
  sortRows(found_, [](const Found& f) { return f.cause.statements; });
  for (Found& f : found_) {
    f.cause.what = namesText(f.names);
    for (size_t n : f.nodes)
      if (cause_[n] == kNoCause) cause_[n] = static_cast<int>(out.causes.size());
    out.causes.push_back(f.cause);
  }
}

bool StatementDiff::affected(size_t node) const {
  const SnapshotStatement* a = inA(node);
  const SnapshotStatement* b = inB(node);
  return !a || !b || !sameShardings(a->sharding, b->sharding) || a->type != b->type ||
         a->attributes != b->attributes;
}

// The nodes that its sharding was propagated from, then its operands.
std::vector<size_t> StatementDiff::sourcesOf(size_t node) const {
  std::vector<size_t> out;
  const auto add = [&](const std::vector<int32_t>& statements, bool inB) {
    for (int32_t s : statements) {
      const auto i = static_cast<size_t>(s);
      out.push_back(inB ? nodeB(i) : nodeA(i));
    }
  };
  const SnapshotStatement* a = inA(node);
  const SnapshotStatement* b = inB(node);
  if (b) add(b->from, true);
  if (a) add(a->from, false);
  if (b) add(b->operands, true);
  if (a) add(a->operands, false);
  return out;
}

// From each cause to all affected statements that follow from it, breadth first: the nearest cause counts.
void StatementDiff::spread() {
  users_.resize(numNodes());
  const auto use = [&](const ProgramSnapshot& p, bool inB) {
    for (size_t i = 0; i < p.statements.size(); ++i)
      for (int32_t o : p.statements[i].operands) {
        const auto operand = static_cast<size_t>(o);
        users_[inB ? nodeB(operand) : nodeA(operand)].push_back(inB ? nodeB(i) : nodeA(i));
      }
  };
  use(a_, false);
  use(b_, true);
  std::vector<std::vector<size_t>> followers(numNodes());
  for (size_t n = 0; n < numNodes(); ++n) {
    if (n >= nB_ && ab_[n - nB_] >= 0) continue; // counted in B
    if (cause_[n] != kNoCause || !affected(n)) continue;
    for (size_t source : sourcesOf(n)) followers[source].push_back(n);
  }
  std::vector<size_t> queue;
  for (const Found& f : found_) queue.insert(queue.end(), f.nodes.begin(), f.nodes.end());
  for (size_t at = 0; at < queue.size(); ++at)
    for (size_t n : followers[queue[at]])
      if (cause_[n] == kNoCause) cause_[n] = cause_[queue[at]], queue.push_back(n);
}

// A cause of everything that no other explains: the only one, or the only setting.
int StatementDiff::onlyCause() const {
  if (found_.size() == 1) return 0;
  int setting = kNoCause;
  for (size_t i = 0; i < found_.size(); ++i)
    if (found_[i].cause.kind == DiffCause::Setting) {
      if (setting != kNoCause) return kNoCause;
      setting = static_cast<int>(i);
    }
  return setting;
}

int StatementDiff::causeOf(std::span<const size_t> nodes) const {
  for (size_t n : nodes)
    if (cause_[n] != kNoCause) return cause_[n];
  for (size_t n : nodes)
    for (size_t source : sourcesOf(n))
      if (cause_[source] != kNoCause) return cause_[source];
  for (size_t n : nodes)
    for (size_t user : users_[n])
      if (cause_[user] != kNoCause) return cause_[user];
  return onlyCause();
}

void StatementDiff::shardings(ProgramDiff& out) const {
  if (a_.extent != ProgramSnapshot::Compiled || b_.extent != ProgramSnapshot::Compiled) return;
  std::unordered_map<std::string, size_t> groups;
  std::vector<std::vector<std::string>> names;
  for (size_t j = 0; j < nB_; ++j) {
    const SnapshotStatement* a = inA(j);
    const SnapshotStatement& b = b_.statements[j];
    if (!a || sameShardings(a->sharding, b.sharding)) continue;
    const bool annotated = !sameShardings(a->annotation, b.annotation) && a->annotation == a->sharding &&
                           b.annotation == b.sharding;
    if (annotated) continue; // a cause
    const size_t node[] = {j};
    DiffSharding s{(b.generated ? "in " : "") + b.name,
                   b.op,
                   orNone(a->sharding),
                   orNone(b.sharding),
                   b.location,
                   1,
                   causeOf(node)};
    const std::string key =
        s.op + "|" + patternOf(s.what).text + "|" + s.before + "|" + s.after + "|" + std::to_string(s.cause);
    const auto [it, isNew] = groups.try_emplace(key, out.shardings.size());
    if (isNew) {
      out.shardings.push_back(s);
      names.push_back({s.what});
    } else {
      ++out.shardings[it->second].count;
      names[it->second].push_back(s.what);
    }
  }
  for (size_t k = 0; k < names.size(); ++k) out.shardings[k].what = namesText(names[k]);
}

} // namespace dtc
