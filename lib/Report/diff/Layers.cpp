#include "diff/Layers.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

namespace dtc {

namespace {

constexpr size_t kFewestOps = 3; // of a layer: fewer are reported one by one

using Numbers = std::set<int64_t>;

std::map<std::string, Numbers> numbersOf(const Statements& all) {
  std::map<std::string, Numbers> out;
  for (const SnapshotStatement& s : all)
    if (const LayerName layer = layerName(s); !layer.base.empty()) out[layer.base].insert(layer.number);
  return out;
}

class Layers {
public:
  Layers(const Statements& all, const Statements& others)
      : all_(all), own_(numbersOf(all)), others_(numbersOf(others)) {}

  // "%step_blocks_" belongs to "%blocks_".
  std::map<std::string, std::string> families() const {
    std::map<std::string, std::string> out;
    for (const auto& [base, numbers] : own_) {
      std::string family = base;
      for (const auto& [other, unused] : own_)
        if (other.size() < family.size() && base.ends_with("_" + other.substr(1))) family = other;
      out.emplace(base, family);
    }
    return out;
  }

  std::vector<std::string> run() {
    const std::map<std::string, std::string> family = families();
    using Parts = std::set<std::string>;
    std::map<std::pair<std::string, int64_t>, Parts> ops; // by family and number
    for (const SnapshotStatement& s : all_) {
      const LayerName layer = layerName(s);
      if (layer.base.empty() || isBoundary(s)) continue;
      const size_t length = layer.base.size() + std::to_string(layer.number).size();
      ops[{family.at(layer.base), layer.number}].insert(s.function + "|" + s.op + "|" + layer.base +
                                                        s.name.substr(std::min(length, s.name.size())));
    }
    std::set<std::pair<std::string, int64_t>> alone;
    for (const auto& [layer, parts] : ops)
      if (parts.size() >= kFewestOps && isAlone(layer.first, layer.second) &&
          std::ranges::any_of(ops, [&, p = &parts, l = &layer](const auto& o) {
            return o.first.first == l->first && isShared(l->first, o.first.second) && alike(*p, o.second);
          }))
        alone.insert(layer);
    std::vector<std::string> out;
    for (const SnapshotStatement& s : all_) {
      const LayerName layer = layerName(s);
      const bool is = !layer.base.empty() && alone.contains({family.at(layer.base), layer.number});
      out.push_back(is ? family.at(layer.base) + std::to_string(layer.number) : "");
    }
    return out;
  }

private:
  bool isShared(const std::string& base, int64_t number) const {
    const auto it = others_.find(base);
    return it != others_.end() && it->second.contains(number);
  }
  bool isAlone(const std::string& base, int64_t number) const {
    return others_.contains(base) && !isShared(base, number);
  }

  // Most statements of one are those of the other.
  static bool alike(const std::set<std::string>& a, const std::set<std::string>& b) {
    const auto both = std::ranges::count_if(a, [&](const std::string& part) { return b.contains(part); });
    return static_cast<size_t>(both) * 4 >= a.size() * 3;
  }

  const Statements& all_;
  std::map<std::string, Numbers> own_, others_;
};

} // namespace

LayerName layerName(const SnapshotStatement& s) {
  if (!isNamed(s)) return {};
  const size_t begin = s.name.find_first_of("0123456789");
  const size_t end = begin == s.name.npos ? begin : s.name.find_first_not_of("0123456789", begin);
  if (end == s.name.npos) return {};
  LayerName out{s.name.substr(0, begin)};
  if (std::from_chars(s.name.data() + begin, s.name.data() + end, out.number).ec != std::errc()) return {};
  return out;
}

std::vector<std::string> layersAlone(const MatchedStatements& m, bool inB) {
  std::vector<std::string> out = inB ? Layers(m.b, m.a).run() : Layers(m.a, m.b).run();
  for (size_t i = 0; i < out.size(); ++i) {
    const size_t node = inB ? m.nodeB(i) : m.nodeA(i);
    if (m.inA(node) && m.inB(node)) out[i].clear();
  }
  return out;
}

} // namespace dtc
