#include "import/HloCarry.h"

#include <algorithm>
#include <unordered_set>

namespace dtc {

namespace {

// "state['m'].w[0]" has the root "state" and the keys "['m']", ".w", "[0]".
struct TreePath {
  std::string_view root;
  std::vector<std::string_view> keys;
};

TreePath treePath(std::string_view text) {
  TreePath out;
  const size_t end = std::min(text.find_first_of("[."), text.size());
  out.root = text.substr(0, end);
  text.remove_prefix(end);
  while (!text.empty()) {
    size_t n = 1;
    char quote = 0;
    for (; n < text.size(); ++n) {
      const char c = text[n];
      if (quote) {
        if (c == quote) quote = 0;
      } else if (c == '\'' || c == '"') {
        quote = c;
      } else if (c == '[' || c == '.') {
        break;
      }
    }
    out.keys.push_back(text.substr(0, n));
    text.remove_prefix(n);
  }
  return out;
}

bool endsWith(const std::vector<std::string_view>& keys, const std::vector<std::string_view>& tail) {
  return keys.size() >= tail.size() && std::equal(tail.rbegin(), tail.rend(), keys.rbegin());
}

class Carrier {
public:
  Carrier(Module& m, FuncId f, std::span<const DonatedArgument> donated)
      : m_(m), f_(m[f]), donated_(donated), from_(donated.size()), taken_(f_.results.size(), false) {
    for (const DonatedArgument& d : donated)
      arguments_.push_back(treePath(nameOf(f_.args[d.argument].attrs)));
    for (const FuncResult& r : f_.results) results_.push_back(treePath(nameOf(r.attrs)));
  }

  void run() {
    for (size_t i = 0; i < donated_.size(); ++i)
      if (!from_[i] && !arguments_[i].root.empty()) bySubtree(arguments_[i].root);
    for (size_t i = 0; i < donated_.size(); ++i)
      if (!from_[i] && donated_[i].aliased && fits(i, *donated_[i].aliased)) take(i, *donated_[i].aliased);
    for (size_t i = 0; i < donated_.size(); ++i)
      for (size_t r = 0; r < f_.results.size() && !from_[i]; ++r)
        if (!donated_[i].aliased && fits(i, r)) take(i, r);
    mark();
  }

private:
  using Keys = std::vector<std::string_view>;
  using Leaves = std::vector<size_t>; // of one root, in donated_; or the results they become

  [[nodiscard]] std::string_view nameOf(const AttrList& attrs) const {
    const StrId name = m_.strings.find("name");
    const AttrId a = name ? findAttr(attrs, name) : AttrId();
    return a ? m_.strings[m_.attrs[a].text] : std::string_view();
  }

  [[nodiscard]] const FuncArg& argument(size_t i) const { return f_.args[donated_[i].argument]; }

  [[nodiscard]] bool fits(size_t i, size_t r) const {
    const Value& v = m_[argument(i).value];
    const FuncResult& result = f_.results[r];
    return !taken_[r] && v.name.valid() && v.type == result.type &&
           argument(i).globalType == result.globalType &&
           (v.sharding == result.sharding || !v.sharding.valid() || !result.sharding.valid());
  }

  void take(size_t i, size_t r) {
    from_[i] = r;
    taken_[r] = true;
  }

  // The results below `prefix` with the keys of the leaves; empty where one of them is missing.
  [[nodiscard]] Leaves subtree(const Keys& prefix, const Leaves& leaves) const {
    Leaves out;
    for (size_t i : leaves) {
      Keys wanted = prefix;
      wanted.insert(wanted.end(), arguments_[i].keys.begin(), arguments_[i].keys.end());
      size_t r = 0;
      while (r < results_.size() && (results_[r].keys != wanted || !fits(i, r))) ++r;
      if (r == results_.size()) return {};
      out.push_back(r);
    }
    return out;
  }

  [[nodiscard]] bool agreesWithAliasing(const Leaves& leaves, const Leaves& results) const {
    for (size_t k = 0; k < leaves.size(); ++k)
      if (donated_[leaves[k]].aliased && *donated_[leaves[k]].aliased != results[k]) return false;
    return donated_[leaves[0]].aliased.has_value();
  }

  // "['w']" and ".w" are named like the root "w".
  [[nodiscard]] static bool isNamed(const Keys& prefix, std::string_view root) {
    if (prefix.empty()) return false;
    std::string_view last = prefix.back();
    while (!last.empty() && std::string_view("[.'\"").find(last.front()) != std::string_view::npos)
      last.remove_prefix(1);
    while (!last.empty() && std::string_view("]'\"").find(last.back()) != std::string_view::npos)
      last.remove_suffix(1);
    return last == root;
  }

  void bySubtree(std::string_view root) {
    Leaves leaves;
    for (size_t i = 0; i < donated_.size(); ++i)
      if (!from_[i] && arguments_[i].root == root) leaves.push_back(i);
    struct Candidate {
      Keys prefix;
      Leaves results;
    };
    std::vector<Candidate> found;
    const Keys& first = arguments_[leaves[0]].keys;
    for (const TreePath& r : results_) {
      if (r.root.empty() || !endsWith(r.keys, first)) continue;
      Keys prefix(r.keys.begin(), r.keys.end() - static_cast<std::ptrdiff_t>(first.size()));
      if (Leaves results = subtree(prefix, leaves); !results.empty())
        found.push_back({std::move(prefix), std::move(results)});
    }
    auto narrow = [&](auto holds) {
      if (found.size() > 1 && std::any_of(found.begin(), found.end(), holds))
        std::erase_if(found, [&](const Candidate& c) { return !holds(c); });
    };
    narrow([&](const Candidate& c) { return isNamed(c.prefix, root); });
    narrow([&](const Candidate& c) { return agreesWithAliasing(leaves, c.results); });
    if (found.size() != 1) return;
    for (size_t k = 0; k < leaves.size(); ++k) take(leaves[k], found[0].results[k]);
  }

  void mark() {
    std::unordered_set<StrId> labels;
    for (size_t i = 0; i < from_.size(); ++i) {
      if (!from_[i]) continue;
      Value& v = m_[argument(i).value];
      FuncResult& r = f_.results[*from_[i]];
      r.label = v.name;
      labels.insert(v.name);
      r.attrs.insert(r.attrs.begin(), {m_.strings.intern("carry"), m_.attrs.boolean(true)});
      if (v.sharding.valid())
        r.sharding = v.sharding;
      else
        v.sharding = r.sharding;
    }
    // No other result may have the name of a carried one.
    for (size_t r = 0; r < f_.results.size(); ++r) {
      StrId& label = f_.results[r].label;
      if (taken_[r] || !label.valid()) continue;
      const std::string wanted(m_.strings[label]);
      for (int n = 1; labels.contains(label); ++n)
        label = m_.strings.intern(wanted + "_" + std::to_string(n));
      labels.insert(label);
    }
  }

  Module& m_;
  Function& f_;
  std::span<const DonatedArgument> donated_;
  std::vector<std::optional<size_t>> from_; // the result that each donated argument becomes
  std::vector<bool> taken_;                 // results
  std::vector<TreePath> arguments_;         // of donated_
  std::vector<TreePath> results_;
};

} // namespace

void carryDonated(Module& m, FuncId f, std::span<const DonatedArgument> donated) {
  if (!donated.empty()) Carrier(m, f, donated).run();
}

} // namespace dtc
