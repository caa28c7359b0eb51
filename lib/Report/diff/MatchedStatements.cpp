#include "diff/MatchedStatements.h"

#include "diff/Match.h"
#include "dtc/Support/Words.h"
#include "explain/ExplainGroups.h"

#include <algorithm>

namespace dtc {

namespace {

bool isDigits(std::string_view s) {
  return std::ranges::all_of(s, [](char c) { return c >= '0' && c <= '9'; });
}

std::string nameKey(const SnapshotStatement& s) {
  return "@" + s.function + (s.generated ? " in " + s.name : isNamed(s) ? s.name : "%#");
}

// Keys of all statements of both programs, by level.
class Keys {
public:
  MatchKeys of(const Statements& all) {
    MatchKeys out(6);
    for (const SnapshotStatement& s : all) {
      std::string exact, loose;
      for (int32_t o : s.operands) {
        const SnapshotStatement& operand = all[static_cast<size_t>(o)];
        exact += "," + nameKey(operand);
        loose += "," + (operand.op == "argument" ? operand.name : patternOf(nameKey(operand)).text);
      }
      const std::string name = nameKey(s), pattern = patternOf(name).text;
      out[0].push_back(id("0" + s.op + "|" + name + "|" + exact + "|" + s.type + "|" + s.path));
      out[1].push_back(id("1" + s.op + "|" + pattern + "|" + loose + "|" + s.type + "|" + s.path));
      out[2].push_back(isNamed(s) ? id("2" + s.op + "|" + name) : 0);
      out[3].push_back(id("3" + s.op + "|" + pattern));
      out[4].push_back(id("4" + s.op + "|" + s.type + "|" + s.function));
      const bool replaces = s.op != "argument" && s.op != "result" && !s.operands.empty(); // by another op
      out[5].push_back(replaces ? id("6" + loose + "|" + s.type + "|" + s.function) : 0);
    }
    return out;
  }

  // By name alone: the op may be another.
  std::vector<uint32_t> names(const Statements& all) {
    std::vector<uint32_t> out;
    for (const SnapshotStatement& s : all)
      out.push_back(isNamed(s) && s.op != "argument" && s.op != "result" ? id("5" + nameKey(s)) : 0);
    return out;
  }

private:
  uint32_t id(const std::string& key) {
    return ids_.try_emplace(key, static_cast<uint32_t>(ids_.size()) + 1).first->second;
  }
  std::unordered_map<std::string, uint32_t> ids_;
};

} // namespace

bool isNamed(const SnapshotStatement& s) {
  const size_t percent = s.name.rfind('%');
  return !s.generated && !s.name.empty() && (percent == s.name.npos || !isDigits(s.name.substr(percent + 1)));
}

std::string namesText(const std::vector<std::string>& names) {
  constexpr size_t kShown = 3; // patterns
  std::vector<std::vector<NamePattern>> groups;
  std::unordered_map<std::string, size_t> byText;
  for (const std::string& n : names) {
    NamePattern pattern = patternOf(n);
    const bool unnamed = pattern.text == "%#";
    const auto [it, isNew] = byText.try_emplace(pattern.text, groups.size());
    if (isNew) groups.emplace_back();
    if (isNew || !unnamed) groups[it->second].push_back(std::move(pattern));
  }
  const bool more = groups.size() > kShown;
  if (more) groups.resize(kShown);
  return joined(groups, ", ", [](const auto& g) { return rangeText(g); }) + (more ? ", ..." : "");
}

MatchedStatements::MatchedStatements(const Statements& inA, const Statements& inB)
    : a(inA), b(inB), ba_(inB.size(), -1) {
  Keys keys;
  const MatchKeys keysA = keys.of(a), keysB = keys.of(b);
  ab_ = matchSequences(keysA, keysB);
  matchMoved(keysA[2], keysB[2], ab_);
  matchMoved(keys.names(a), keys.names(b), ab_);
  for (size_t i = 0; i < ab_.size(); ++i)
    if (ab_[i] >= 0) ba_[static_cast<size_t>(ab_[i])] = static_cast<int32_t>(i);
}

const SnapshotStatement* MatchedStatements::inA(size_t node) const {
  if (node >= b.size()) return ab_[node - b.size()] < 0 ? &a[node - b.size()] : nullptr;
  return ba_[node] >= 0 ? &a[static_cast<size_t>(ba_[node])] : nullptr;
}

const SnapshotStatement* MatchedStatements::inB(size_t node) const {
  return node < b.size() ? &b[node] : nullptr;
}

} // namespace dtc
