// custom: a call of something that is not known here, as programs of other compilers have them. Its types are as written, and
// shardings go through it by a rule in Shardy's words; nothing can be computed.
#include "RecordParts.h"

namespace dtc {
namespace {

inline constexpr DiagKind kCustom{"opaque-call",
                                  "the custom call @{0} cannot be computed: dtc does not know what "
                                  "it does"};

bool infer(const OpQuery& q, std::vector<TypeId>& results) {
  results.assign(q.writtenTypes.begin(), q.writtenTypes.end());
  return true;
}

// Nothing is known of the dims: each tensor is handed over whole.
bool wholeRule(const OpQuery& q, Rule& rule) {
  auto whole = [&](TypeId type, std::vector<TensorMap>& to) {
    TensorMap& map = to.emplace_back();
    for (Dim d : q.module->types[type].dims)
      map.dims.push_back(
          plainDim(addFactor(rule, d, "w" + std::to_string(rule.factors.size()), FactorKind::Whole)));
  };
  for (TypeId t : q.operandTypes) whole(t, rule.operands);
  for (TypeId t : q.writtenTypes) whole(t, rule.results);
  return true;
}

bool followRule(const OpQuery& q, Rule& rule) {
  const std::string text(q.textAttr("rule"));
  return text.empty() ? wholeRule(q, rule) : readShardyRule(q, text, q.writtenTypes, rule);
}

bool verify(const OpQuery& q) {
  Rule rule;
  return followRule(q, rule);
}

bool eval(const OpQuery& q, std::span<const Tensor* const>, std::span<Tensor* const>) {
  q.diags->error(kCustom, q.loc, q.textAttr("target"));
  return false;
}

} // namespace

void addCustomOps(OpRegistry& ops) {
  OpRecord r{.name = "custom",
             .family = "custom",
             .summary =
                 "a call of something outside of this program: shardings go through it, nothing is computed"};
  r.operands = "xs...";
  r.results = "ys...";
  r.attrs = {{"target", AttrType::String, nullptr, "what is called"},
             {"rule", AttrType::String, "",
              "how shardings go through it, in Shardy's words: ([i, k], [k, j])->([i, j]) {i=8, j=4, k=2} "
              "reduction={k}"}};
  r.rule = wholeRule;
  r.follow = followRule;
  r.infer = infer;
  r.resultType = OpRecord::ResultType::Custom;
  r.verify = verify;
  r.eval = eval;
  r.sameDType = false;
  r.throughNone = true;
  r.gradNone = true;
  r.lowering = Lowering::Host;
  r.sideEffect = true;
  ops.add(std::move(r));
}

} // namespace dtc
