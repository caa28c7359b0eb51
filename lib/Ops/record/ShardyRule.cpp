// Sharding rules in Shardy's notation, for `custom` and `barrier`.
#include "record/RecordParts.h"

#include <cctype>

namespace dtc {
namespace {

inline constexpr DiagKind kCustomRule{"custom-rule", "this sharding rule does not fit the call: {0}"};

// "([i, jk], [])->([i]) {i=8, j=4, k=2} reduction={j} need_replication={k} permutation={}
// blocked_propagation={i}, custom": a dim is a list of factors, major to minor, each a letter or z_1, z_2, …
class RuleReader {
public:
  RuleReader(const OpQuery& q, std::string_view text, std::span<const TypeId> results, Rule& rule)
      : q_(q), text_(text), results_(results), rule_(rule) {}

  bool run() {
    return side(rule_.operands, q_.operandTypes) && word("->") && side(rule_.results, results_) && sizes() &&
           kinds();
  }

private:
  bool fail(const char* why) { return q_.diags->fail(kCustomRule, q_.loc, why); }
  void blanks() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool accept(std::string_view w) {
    blanks();
    if (!text_.substr(at_).starts_with(w)) return false;
    at_ += w.size();
    return true;
  }
  bool word(std::string_view w) { return accept(w) || fail("expected a rule such as ([i])->([i]) {i=8}"); }
  std::string name() {
    blanks();
    const size_t begin = at_;
    if (at_ < text_.size() && std::islower(static_cast<unsigned char>(text_[at_]))) ++at_;
    if (at_ > begin && at_ < text_.size() && text_[at_] == '_')
      for (++at_; at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_]));) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }
  int find(const std::string& factor) const {
    for (size_t f = 0; f < rule_.factors.size(); ++f)
      if (rule_.factors[f].name == factor) return static_cast<int>(f);
    return -1;
  }

  bool side(std::vector<TensorMap>& maps, std::span<const TypeId> types) {
    if (!word("(")) return false;
    while (!accept(")")) {
      if (maps.size() == types.size()) return fail("it has more tensors than the call");
      TensorMap& map = maps.emplace_back();
      if (!word("[")) return false;
      while (!accept("]")) {
        DimMap& dim = map.dims.emplace_back();
        for (std::string f = name(); !f.empty(); f = name()) {
          const int known = find(f);
          dim.terms.push_back({known >= 0 ? static_cast<uint16_t>(known) : addFactor(rule_, Dim(1), f), 1});
        }
        if (dim.terms.empty()) return fail("it has a dim without factors");
        accept(",");
      }
      if (map.dims.size() != q_.module->types[types[maps.size() - 1]].rank())
        return fail("it has a tensor with a different rank");
      accept(",");
    }
    return maps.size() == types.size() || fail("it has fewer tensors than the call");
  }

  bool sizes() {
    if (!accept("{")) return rule_.factors.empty() || fail("it lacks the sizes of the factors");
    while (!accept("}")) {
      const int f = find(name());
      if (f < 0 || !word("=")) return fail("it gives a size to an unknown factor");
      blanks();
      int64_t n = 0;
      for (; at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) &&
             n < (int64_t{1} << 48);
           ++at_)
        n = n * 10 + (text_[at_] - '0');
      rule_.factors[static_cast<size_t>(f)].size = Dim(n);
      accept(",");
    }
    return true;
  }

  bool kinds() {
    static constexpr std::pair<std::string_view, FactorKind> kWords[] = {
        {"reduction", FactorKind::Reduce},
        {"need_replication", FactorKind::Exchange},
        {"permutation", FactorKind::Permute},
        {"blocked_propagation", FactorKind::Whole}};
    for (bool any = true; any;) {
      accept(",");
      any = accept("custom");
      for (auto [w, kind] : kWords) {
        if (!accept(w)) continue;
        any = true;
        if (!word("=") || !word("{")) return false;
        while (!accept("}")) {
          const int f = find(name());
          if (f < 0) return fail("it names an unknown factor");
          Factor& factor = rule_.factors[static_cast<size_t>(f)];
          if (factor.kind != FactorKind::Whole) factor.kind = kind;
          accept(",");
        }
      }
    }
    blanks();
    return at_ == text_.size() || fail("unexpected text after the rule");
  }

  const OpQuery& q_;
  std::string_view text_;
  std::span<const TypeId> results_;
  Rule& rule_;
  size_t at_ = 0;
};

} // namespace

bool readShardyRule(const OpQuery& q, std::string_view text, std::span<const TypeId> results, Rule& rule) {
  return RuleReader(q, text, results, rule).run();
}

} // namespace dtc
