#include "explain/ExplainGroups.h"
#include "dtc/Support/Words.h"

#include <algorithm>
#include <map>
#include <set>

namespace dtc {

namespace {

constexpr size_t kMaxDigits = 18; // longer numbers are not layer numbers

bool isDigit(char c) { return c >= '0' && c <= '9'; }

bool isNumber(std::string_view s) { return std::ranges::all_of(s, isDigit); }

// The key of equal collectives.
std::string keyOf(const ProgramCollective& c) {
  std::string key = c.kind;
  for (const std::string& a : c.axes) key += " " + a;
  key += "|" + std::to_string(c.price ? c.price->bytesReceived : -1) + "|" + (c.count ? "" : "unknown ") +
         std::to_string(c.counted) + "|" + std::to_string(c.sources.size());
  if (c.sources.empty()) return key + "|" + c.value;
  const ProgramCollective::Source& s = c.sources[0];
  key += "|" + s.op + "|" + patternOf(s.why).text + "|" + patternOf(c.purpose).text + "|";
  if (!s.user.empty()) return key + s.user.file + "|" + patternOf(s.user.path).text;
  return key + (isNumber(s.statement) ? s.statement : patternOf(s.statement).text);
}

// The name that says to which layer a collective belongs: the path in the user's program, "layers.0.attn", or
// else the name in the text, "blocks_0_h".
std::string layerName(const ProgramCollective& c) {
  if (c.sources.empty()) return "";
  const ProgramCollective::Source& s = c.sources[0];
  return s.user.empty() ? s.statement : s.user.path;
}

// A number at the end of a name in the text tells equal names apart: "mm_3" is not in a layer.
bool isLayer(const ProgramCollective& c, const std::string& prefix, const std::string& name) {
  return !c.sources[0].user.empty() || prefix.size() < name.size();
}

// The first number in which the names differ, or -1.
int firstDifference(const std::vector<NamePattern>& names) {
  for (size_t i = 0; i < names[0].numbers.size(); ++i)
    for (const NamePattern& n : names)
      if (n.numbers[i] != names[0].numbers[i]) return static_cast<int>(i);
  return -1;
}

// The pattern up to and including number `last`: "blocks_#".
std::string prefixOf(const std::string& pattern, int last) {
  size_t at = 0;
  for (int seen = -1; at < pattern.size(); ++at)
    if (pattern[at] == '#' && ++seen == last) return pattern.substr(0, at + 1);
  return pattern;
}

class Grouper {
public:
  explicit Grouper(ProgramReport& r) : r_(r) {}

  void run() {
    std::map<std::string, size_t> byKey;
    for (size_t i = 0; i < r_.collectives.size(); ++i) {
      auto [it, isNew] = byKey.try_emplace(keyOf(r_.collectives[i]), r_.groups.size());
      if (isNew) r_.groups.emplace_back();
      r_.groups[it->second].members.push_back(i);
      r_.collectives[i].group = it->second;
    }
    for (ExplainGroup& g : r_.groups) describe(g);
    nameLayers();
    summarize();
  }

private:
  const ProgramCollective& at(size_t i) const { return r_.collectives[i]; }

  std::vector<NamePattern> layerNames(const ExplainGroup& g) const {
    std::vector<NamePattern> out;
    for (size_t i : g.members)
      if (!at(i).sources.empty()) out.push_back(patternOf(layerName(at(i))));
    return out;
  }

  // The range of the members' names; "" where their patterns differ.
  std::string namesOf(const ExplainGroup& g, std::string ProgramCollective::* name) const {
    std::vector<NamePattern> names;
    for (size_t i : g.members) {
      names.push_back(patternOf(at(i).*name));
      if (names.back().text != names[0].text) return "";
    }
    return names.size() > 1 && names[0].text == "%#" ? "" : rangeText(names); // unnamed
  }

  void describe(ExplainGroup& g) {
    for (size_t i : g.members) add(g.total, at(i));
    g.value = namesOf(g, &ProgramCollective::value);
    g.purpose = namesOf(g, &ProgramCollective::purpose);
    const std::vector<NamePattern> names = layerNames(g);
    if (names.size() != g.members.size()) return;
    const int layer = firstDifference(names);
    if (layer < 0) return;
    if (const std::string prefix = prefixOf(names[0].text, layer);
        isLayer(at(g.members[0]), prefix, names[0].text))
      layerAt_.emplace(prefix, layer);
  }

  // Every collective whose statement belongs to a layer counts for that layer, even if it is the only one of
  // its pattern.
  void nameLayers() {
    std::vector<std::string> layerOf(r_.collectives.size());
    std::vector<int64_t> own(r_.collectives.size()); // numbers of layers
    for (size_t i = 0; i < r_.collectives.size(); ++i) {
      const NamePattern name = patternOf(layerName(at(i)));
      for (const auto& [prefix, number] : layerAt_)
        if (name.text.starts_with(prefix) && isLayer(at(i), prefix, name.text)) {
          layerOf[i] = prefix;
          own[i] = name.numbers[static_cast<size_t>(number)];
          numbers_[prefix].insert(own[i]);
          break;
        }
    }
    for (size_t i = 0; i < r_.collectives.size(); ++i) {
      SummaryRow& row = rowOf(r_.summary.layers,
                              layerOf[i].empty() ? kElsewhere : layerText(layerOf[i], numbers_[layerOf[i]]));
      add(row, at(i));
      row.layers = layerOf[i].empty() ? 1 : numbers_[layerOf[i]].size();
    }
    auto& layers = r_.summary.layers;
    if (auto it = std::ranges::find(layers, kElsewhere, &SummaryRow::label); it != layers.end())
      std::rotate(it, it + 1, layers.end());
    for (ExplainGroup& g : r_.groups)
      if (const std::string& layer = layerOf[g.members[0]]; !layer.empty()) {
        std::set<int64_t> numbers;
        for (size_t i : g.members)
          if (layerOf[i] == layer) numbers.insert(own[i]);
        g.layer = layerText(layer, numbers);
      }
  }

  static constexpr const char* kElsewhere = "elsewhere";

  static std::string layerText(const std::string& prefix, const std::set<int64_t>& numbers) {
    std::vector<NamePattern> ends = {patternOf(prefix), patternOf(prefix)};
    ends[0].text = ends[1].text = prefix.substr(prefix.rfind('#'));
    ends[0].numbers = {*numbers.begin()}, ends[1].numbers = {*numbers.rbegin()};
    return prefix.substr(0, prefix.rfind('#')) + rangeText(ends);
  }

  void summarize() {
    for (const ProgramCollective& c : r_.collectives) {
      const std::string axes = joined(c.axes);
      add(rowOf(r_.summary.axes, axes), c);
      add(rowOf(r_.summary.kinds, c.kind), c);
    }
    for (auto* rows : {&r_.summary.axes, &r_.summary.kinds})
      std::ranges::sort(*rows, [](const SummaryRow& a, const SummaryRow& b) {
        return std::pair(-a.seconds, a.label) < std::pair(-b.seconds, b.label);
      });
  }

  static SummaryRow& rowOf(std::vector<SummaryRow>& rows, const std::string& label) {
    for (SummaryRow& r : rows)
      if (r.label == label) return r;
    rows.emplace_back().label = label;
    return rows.back();
  }

  // An unknown size is taken as 0 bytes.
  static void add(SummaryRow& row, const ProgramCollective& c) {
    const int64_t n = c.counted;
    row.count += n;
    if (!c.price) row.unknown = true;
    if (!c.price) return;
    row.bytes += static_cast<double>(n) * static_cast<double>(c.price->bytesReceived);
    row.seconds += static_cast<double>(n) * c.price->seconds;
  }

  ProgramReport& r_;
  std::map<std::string, int> layerAt_;               // by prefix: which of a name's numbers is the layer's
  std::map<std::string, std::set<int64_t>> numbers_; // by prefix: the layer numbers
};

} // namespace

NamePattern patternOf(std::string_view name) {
  NamePattern out;
  for (size_t i = 0; i < name.size();) {
    size_t end = i;
    while (end < name.size() && isDigit(name[end])) ++end;
    if (end == i || end - i > kMaxDigits) {
      out.text += name[i];
      ++i;
      continue;
    }
    out.text += '#';
    out.numbers.push_back(std::stoll(std::string(name.substr(i, end - i))));
    i = end;
  }
  return out;
}

std::string rangeText(const std::vector<NamePattern>& names) {
  std::string out;
  size_t number = 0;
  for (char c : names[0].text) {
    if (c != '#' || number >= names[0].numbers.size()) {
      out += c;
      continue;
    }
    int64_t min = names[0].numbers[number], max = min;
    for (const NamePattern& n : names)
      min = std::min(min, n.numbers[number]), max = std::max(max, n.numbers[number]);
    out += min == max ? std::to_string(min) : "{" + std::to_string(min) + ".." + std::to_string(max) + "}";
    ++number;
  }
  return out;
}

std::vector<size_t> byTime(const std::vector<ExplainGroup>& groups) {
  std::vector<size_t> order;
  for (size_t i = 0; i < groups.size(); ++i) order.push_back(i);
  std::ranges::sort(order, {}, [&](size_t i) { return std::pair(-groups[i].total.seconds, i); });
  return order;
}

void groupCollectives(ProgramReport& r) { Grouper(r).run(); }

} // namespace dtc
