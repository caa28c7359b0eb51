#include "dtc/Report/diff/ProgramDiff.h"

#include "diff/Rows.h"
#include "diff/StatementDiff.h"
#include "explain/ExplainGroups.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>

namespace dtc {

namespace {

DiffSums sumsOf(const SnapshotCollective& c) {
  DiffSums s;
  s.messages = c.count, s.seconds = c.seconds, s.exposed = c.exposed;
  if (__builtin_mul_overflow(c.count, c.bytes, &s.bytes)) s.bytes = INT64_MAX;
  return s;
}

DiffSums sumsOf(const SnapshotMessages& s) { return {s.messages, s.bytes, s.seconds, 0}; }

// Whether the schedule sends as many messages of each kind as the collectives say.
bool sendsCollectives(const ProgramSnapshot& p) {
  std::map<std::string, int64_t> before, after;
  for (const SnapshotCollective& c : p.collectives) before[c.kind] += c.count;
  for (const SnapshotMessages& s : *p.scheduleMessages) after[s.kind] += s.messages;
  return before == after;
}

int64_t saturatedSum(int64_t a, int64_t b) {
  int64_t out = 0;
  return __builtin_add_overflow(a, b, &out) ? INT64_MAX : out;
}

double computeSeconds(const ProgramSnapshot& p) {
  double seconds = p.otherSeconds;
  for (const SnapshotStatement& s : p.statements) seconds += s.seconds;
  return seconds;
}

DiffTotals totalsOf(const ProgramSnapshot& p) {
  DiffTotals t;
  for (const SnapshotCollective& c : p.collectives) t.communication.add(sumsOf(c));
  t.computeSeconds = computeSeconds(p);
  t.scheduleSeconds = p.scheduleSeconds, t.scheduleBytes = p.scheduleBytes;
  const double before = t.computeSeconds + t.communication.exposed;
  if (same(before + t.scheduleSeconds, before)) t.scheduleSeconds = 0; // the last bits of sums
  t.seconds = t.computeSeconds + t.communication.exposed + t.scheduleSeconds;
  t.receivedBytes = saturatedSum(t.communication.bytes, t.scheduleBytes);
  if (p.memory) t.peakBytes = p.memory->peakBytes;
  return t;
}

// Collects rows with equal keys, in the order of their first.
template <class Row> class Groups {
public:
  explicit Groups(std::vector<Row>& rows) : rows_(rows) {}
  // The row of this key, which is `row` if it is new.
  Row& at(const std::string& key, Row row, const std::string& name) {
    const auto [it, isNew] = byKey_.try_emplace(key, rows_.size());
    if (isNew)
      rows_.push_back(std::move(row)), names_.emplace_back();
    else
      ++rows_[it->second].count;
    names_[it->second].push_back(name);
    return rows_[it->second];
  }
  void nameAll() {
    for (size_t i = 0; i < names_.size(); ++i) rows_[i].what = namesText(names_[i]);
  }

private:
  std::vector<Row>& rows_;
  std::unordered_map<std::string, size_t> byKey_;
  std::vector<std::vector<std::string>> names_;
};

class Differ {
public:
  Differ(const ProgramSnapshot& a, const ProgramSnapshot& b) : a_(a), b_(b), statements_(a, b) {}

  ProgramDiff run() {
    out_.nameA = a_.name, out_.nameB = b_.name, out_.versionA = a_.version, out_.versionB = b_.version;
    out_.comparesStatements = a_.extent != ProgramSnapshot::Costs && b_.extent != ProgramSnapshot::Costs;
    out_.comparesCosts = a_.extent != ProgramSnapshot::Written && b_.extent != ProgramSnapshot::Written;
    out_.complete = a_.complete && b_.complete;
    statements_.run(out_);
    if (!out_.comparesCosts) return std::move(out_);
    out_.a = totalsOf(a_), out_.b = totalsOf(b_);
    if (!a_.memory || !b_.memory) {
      out_.noMemory = !a_.memory && !a_.noMemory.empty() ? a_.noMemory : b_.noMemory;
      if (a_.memory || b_.memory) out_.noMemory = (a_.memory ? "of B, " : "of A, ") + out_.noMemory;
    }
    collectives();
    computations();
    if (a_.memory && b_.memory && out_.comparesStatements) buffers(); // a report of explain has only the peak
    rows();
    return std::move(out_);
  }

private:
  using Key = std::string;

  std::string nodesKey(const SnapshotCollective& c, bool inB) const {
    std::string key;
    if (!out_.comparesStatements || c.statements.empty()) return c.value + "|" + c.op;
    for (int32_t s : c.statements) key += std::to_string(node(s, inB)) + " ";
    return key;
  }

  size_t node(int32_t s, bool inB) const {
    const auto i = static_cast<size_t>(s);
    return inB ? statements_.compiled().nodeB(i) : statements_.compiled().nodeA(i);
  }

  // What is compared for equality, from the strictest to the loosest.
  std::string keyOf(const SnapshotCollective& c, bool inB, int pass) const {
    const std::string kind = c.kind + "|" + c.axes + "|";
    // An op that communicates itself is not what reshards its result.
    const bool inside = out_.comparesStatements && c.from.empty() && c.to.empty();
    std::string reason = nodesKey(c, inB) + (inside ? "|inside" : "");
    switch (pass) {
    case 0: return kind + reason + "|" + c.from + "|" + c.to;
    case 1: return kind + reason;
    case 2: return c.kind + "|" + reason;
    case 3: return reason;
    case 4:
      return out_.comparesStatements && !c.statements.empty()
                 ? kind + "first " + std::to_string(node(c.statements[0], inB)) + (inside ? "|inside" : "")
                 : kind + c.value;
    default: return kind + c.op + "|" + std::to_string(c.bytes) + "|" + std::to_string(c.count);
    }
  }

  void collectives() {
    std::vector<int32_t> ab(a_.collectives.size(), -1);
    std::vector<bool> taken(b_.collectives.size(), false);
    for (int pass = 0; pass < 6; ++pass) {
      std::unordered_map<std::string, std::deque<size_t>> free;
      for (size_t i = 0; i < ab.size(); ++i)
        if (ab[i] < 0) free[keyOf(a_.collectives[i], false, pass)].push_back(i);
      for (size_t j = 0; j < taken.size(); ++j) {
        if (taken[j]) continue;
        const auto it = free.find(keyOf(b_.collectives[j], true, pass));
        if (it == free.end() || it->second.empty()) continue;
        ab[it->second.front()] = static_cast<int32_t>(j), taken[j] = true;
        it->second.pop_front();
      }
    }
    Groups<DiffCollective> groups(out_.collectives);
    for (size_t i = 0; i < ab.size(); ++i)
      add(&a_.collectives[i], ab[i] >= 0 ? &b_.collectives[static_cast<size_t>(ab[i])] : nullptr, groups);
    for (size_t j = 0; j < taken.size(); ++j)
      if (!taken[j]) add(nullptr, &b_.collectives[j], groups);
    groups.nameAll();
    sortRows(out_.collectives, [](const DiffCollective& c) {
      const double bytes = static_cast<double>(c.b.bytes) - static_cast<double>(c.a.bytes);
      return std::pair(-std::abs(c.b.seconds - c.a.seconds), -std::abs(bytes));
    });
  }

  void add(const SnapshotCollective* a, const SnapshotCollective* b, Groups<DiffCollective>& groups) {
    const SnapshotCollective& shown = b ? *b : *a;
    DiffCollective c;
    if (a) c.kindA = a->kind, c.axesA = a->axes, c.bytesA = a->bytes, c.a = sumsOf(*a);
    if (b) c.kindB = b->kind, c.axesB = b->axes, c.bytesB = b->bytes, c.b = sumsOf(*b);
    if (a && b && a->kind == b->kind && a->axes == b->axes && a->bytes == b->bytes && a->count == b->count &&
        same(a->seconds, b->seconds) && same(a->exposed, b->exposed))
      return;
    c.op = shown.op, c.location = shown.location, c.layer = shown.layer;
    std::vector<size_t> nodes;
    if (out_.comparesStatements) {
      if (b)
        for (int32_t s : b->statements) nodes.push_back(node(s, true));
      if (a)
        for (int32_t s : a->statements) nodes.push_back(node(s, false));
    }
    c.cause = statements_.causeOf(nodes, c.kindA != c.kindB || c.axesA != c.axesB);
    const Key key = c.kindA + "|" + c.axesA + "|" + std::to_string(c.bytesA) + "|" + c.kindB + "|" + c.axesB +
                    "|" + std::to_string(c.bytesB) + "|" + c.op + "|" + patternOf(shown.value).text + "|" +
                    std::to_string(c.cause) + "|" + std::to_string(c.a.messages) + "|" +
                    std::to_string(c.b.messages);
    DiffCollective empty = c;
    empty.a = empty.b = {};
    DiffCollective& row = groups.at(key, std::move(empty), shown.value);
    row.a.add(c.a), row.b.add(c.b);
    addRows(row.of, nodes);
  }

  void addRows(DiffRowsOf& rows, std::span<const size_t> nodes) const {
    if (!out_.comparesStatements) return;
    const DiffRowsOf of = statements_.writtenOf(nodes);
    rows.insert(rows.end(), of.begin(), of.end());
  }

  void computations() {
    if (!out_.comparesStatements) {
      const double a = computeSeconds(a_), b = computeSeconds(b_);
      if (!same(a, b)) out_.computations.push_back({"all ops", "", "", a, b, 1, statements_.causeOf({}), {}});
      return;
    }
    Groups<DiffComputation> groups(out_.computations);
    const MatchedStatements& compiled = statements_.compiled();
    for (size_t n = 0; n < compiled.numNodes(); ++n) {
      const SnapshotStatement *a = compiled.inA(n), *b = compiled.inB(n);
      if (!a && !b) continue;
      const double before = a ? a->seconds : 0, after = b ? b->seconds : 0;
      if (same(before, after)) continue;
      const SnapshotStatement& shown = b ? *b : *a;
      const size_t node[] = {n};
      DiffComputation c{"", shown.op, shown.location, 0, 0, 1, statements_.causeOf(node), {}};
      const std::string name = (shown.generated ? "in " : "") + shown.name;
      const Key key = c.op + "|" + patternOf(name).text + "|" + std::to_string(c.cause) + "|" +
                      (before < after ? "+" : "-") + (a ? "a" : "") + (b ? "b" : "");
      DiffComputation& row = groups.at(key, std::move(c), name);
      row.a += before, row.b += after;
      addRows(row.of, node);
    }
    groups.nameAll();
    if (!same(a_.otherSeconds, b_.otherSeconds))
      out_.computations.push_back({"copies for collectives and other ops that no statement has",
                                   "",
                                   "",
                                   a_.otherSeconds,
                                   b_.otherSeconds,
                                   1,
                                   statements_.causeOf({}),
                                   {}});
    sortRows(out_.computations, [](const DiffComputation& c) { return -std::abs(c.b - c.a); });
  }

  // By the name of its statement: the node, which renamed statements share.
  std::unordered_map<std::string, size_t> nodesByName(const ProgramSnapshot& p, bool inB) const {
    std::unordered_map<std::string, size_t> nodes;
    if (out_.comparesStatements)
      for (size_t i = 0; i < p.statements.size(); ++i)
        if (!p.statements[i].generated && p.statements[i].op != "result")
          nodes.emplace(p.statements[i].name, node(static_cast<int32_t>(i), inB));
    return nodes;
  }

  // Buffers are matched by statement, then by name, and by type where they have none.
  void buffers() {
    const std::vector<SnapshotBuffer>& a = a_.memory->alive;
    const std::vector<SnapshotBuffer>& b = b_.memory->alive;
    std::vector<int32_t> ab(a.size(), -1);
    std::vector<bool> taken(b.size(), false);
    const auto nodesA = nodesByName(a_, false), nodesB = nodesByName(b_, true);
    enum Pass : uint8_t { Statement, Name, StatementOfAnyType, NameOfAnyType, Pattern };
    for (const Pass pass : {Statement, Name, StatementOfAnyType, NameOfAnyType, Pattern}) {
      const auto key = [&](const SnapshotBuffer& s, bool inB) -> std::string {
        const bool named = patternOf(s.value).text != "%#";
        const std::string type = pass == StatementOfAnyType || pass == NameOfAnyType ? "" : "|" + s.type;
        if (pass == Pattern) return s.what + "|" + patternOf(s.value).text + type;
        if (pass == Name || pass == NameOfAnyType) return named ? s.what + "|" + s.value + type : "";
        const auto& nodes = inB ? nodesB : nodesA;
        const auto at = nodes.find(s.value);
        return at == nodes.end() ? "" : s.what + "|" + std::to_string(at->second) + type;
      };
      std::unordered_map<std::string, std::deque<size_t>> free;
      for (size_t i = 0; i < a.size(); ++i)
        if (ab[i] < 0) free[key(a[i], false)].push_back(i);
      free.erase("");
      for (size_t j = 0; j < b.size(); ++j) {
        const auto it = taken[j] ? free.end() : free.find(key(b[j], true));
        if (it == free.end() || it->second.empty()) continue;
        ab[it->second.front()] = static_cast<int32_t>(j), taken[j] = true;
        it->second.pop_front();
      }
    }
    Groups<DiffBuffer> groups(out_.buffers);
    for (size_t i = 0; i < a.size(); ++i)
      add(&a[i], ab[i] >= 0 ? &b[static_cast<size_t>(ab[i])] : nullptr, groups);
    for (size_t j = 0; j < b.size(); ++j)
      if (!taken[j]) add(nullptr, &b[j], groups);
    groups.nameAll();
    addUnused();
    sortRows(out_.buffers, [](const DiffBuffer& r) { return -std::abs(r.b - r.a); });
  }

  static void add(const SnapshotBuffer* a, const SnapshotBuffer* b, Groups<DiffBuffer>& groups) {
    if (a && b && a->bytes == b->bytes) return;
    const SnapshotBuffer& shown = b ? *b : *a;
    DiffBuffer row{"", shown.what, a ? a->type : "", b ? b->type : "", shown.location, 0, 0, 1};
    const Key key = patternOf(shown.value).text + "|" + shown.what + "|" + row.typeA + "|" + row.typeB;
    DiffBuffer& sum = groups.at(key, std::move(row), shown.value);
    if (a) sum.a += a->bytes;
    if (b) sum.b += b->bytes;
  }

  // The arena has gaps between buffers.
  void addUnused() {
    const auto unused = [](const SnapshotMemory& m) {
      int64_t bytes = m.peakBytes;
      for (const SnapshotBuffer& s : m.alive) bytes -= s.bytes;
      return bytes;
    };
    const int64_t a = unused(*a_.memory), b = unused(*b_.memory);
    if (a != b) out_.buffers.push_back({"unused", "gaps", "", "", "", a, b, 1});
  }

  void rows() {
    const auto fill = [&](std::vector<DiffRow>& rows, auto&& label, auto&& keyOfLabel) {
      std::map<std::string, DiffRow> byKey;
      std::map<std::string, std::pair<std::string, std::string>> labels;
      const auto addAll = [&](const ProgramSnapshot& p, bool inB) {
        for (const SnapshotCollective& c : p.collectives) {
          const std::string text = label(c), key = keyOfLabel(text);
          (inB ? byKey[key].b : byKey[key].a).add(sumsOf(c));
          (inB ? labels[key].second : labels[key].first) = text;
        }
      };
      addAll(a_, false);
      addAll(b_, true);
      for (auto& [key, row] : byKey) {
        if (row.a.bytes == row.b.bytes && row.a.messages == row.b.messages &&
            same(row.a.seconds, row.b.seconds) && same(row.a.exposed, row.b.exposed))
          continue;
        const auto& [inA, inB] = labels[key];
        row.label = inA == inB || inA.empty() || inB.empty() ? (inB.empty() ? inA : inB) : inA + " -> " + inB;
        rows.push_back(std::move(row));
      }
      sortRows(rows, [](const DiffRow& r) { return -std::abs(r.b.seconds - r.a.seconds); });
    };
    const auto itself = [](const std::string& text) { return text; };
    fill(out_.axes, [](const SnapshotCollective& c) { return c.axes; }, itself);
    fill(out_.kinds, [](const SnapshotCollective& c) { return c.kind; }, itself);
    fill(
        out_.layers, [](const SnapshotCollective& c) { return c.layer; },
        [](const std::string& text) { return patternOf(text).text; });
    scheduleRows();
  }

  // Nothing where both schedules send what the collectives say.
  void scheduleRows() {
    if (!a_.scheduleMessages || !b_.scheduleMessages || (sendsCollectives(a_) && sendsCollectives(b_)))
      return;
    std::map<std::string, DiffRow> byKind;
    for (const SnapshotMessages& s : *a_.scheduleMessages) byKind[s.kind].a.add(sumsOf(s));
    for (const SnapshotMessages& s : *b_.scheduleMessages) byKind[s.kind].b.add(sumsOf(s));
    for (auto& [kind, row] : byKind) {
      if (row.a.bytes == row.b.bytes && row.a.messages == row.b.messages &&
          same(row.a.seconds, row.b.seconds))
        continue;
      row.label = kind;
      out_.scheduleKinds.push_back(std::move(row));
    }
    sortRows(out_.scheduleKinds, [](const DiffRow& r) { return -std::abs(r.b.seconds - r.a.seconds); });
  }

  const ProgramSnapshot& a_;
  const ProgramSnapshot& b_;
  StatementDiff statements_;
  ProgramDiff out_;
};

} // namespace

void DiffSums::add(const DiffSums& other) {
  messages = saturatedSum(messages, other.messages), bytes = saturatedSum(bytes, other.bytes);
  seconds += other.seconds, exposed += other.exposed;
}

bool ProgramDiff::empty() const {
  return causes.empty() && shardings.empty() && collectives.empty() && computations.empty() &&
         buffers.empty() && types == 0 && generated == 0 && same(a.scheduleSeconds, b.scheduleSeconds) &&
         a.scheduleBytes == b.scheduleBytes && (!a.peakBytes || !b.peakBytes || a.peakBytes == b.peakBytes);
}

static bool hasSchedule(const ProgramSnapshot& p) {
  return p.scheduleMessages || p.memory || p.scheduleSeconds != 0 || p.scheduleBytes != 0;
}

static ProgramSnapshot withoutSchedule(ProgramSnapshot p) {
  p.scheduleSeconds = 0, p.scheduleBytes = 0;
  p.scheduleMessages.reset();
  return p;
}

ProgramDiff diffPrograms(const ProgramSnapshot& a, const ProgramSnapshot& b) {
  const bool scheduled = hasSchedule(a) && hasSchedule(b);
  ProgramDiff out = scheduled ? Differ(a, b).run() : Differ(withoutSchedule(a), withoutSchedule(b)).run();
  out.beforeSchedule = !scheduled && out.comparesCosts;
  for (const ProgramSnapshot* p : {&a, &b})
    out.hasStages |= std::ranges::any_of(p->settings, [](const auto& s) { return s.first == "pipeline"; });
  return out;
}

} // namespace dtc
