// custom: a call to a function outside of the program, as in programs of other compilers. Its types are as
// written, and shardings propagate through it by a rule in Shardy's notation. It is executed if the process has a
// function of that name, such as a Python function of a JAX program.
#include "dtc/Support/HostCall.h"
#include "record/RecordParts.h"

namespace dtc {
namespace {

inline constexpr DiagKind kCustom{"opaque-call",
                                  "the custom call @{0} cannot be executed: dtc does not implement "
                                  "it"};
inline constexpr DiagKind kCustomFailed{"opaque-call", "the function @{0} failed: {1}"};

bool infer(const OpQuery& q, std::vector<TypeId>& results) {
  results.assign(q.writtenTypes.begin(), q.writtenTypes.end());
  return true;
}

// The dims are opaque: each tensor is passed unsharded.
bool opaqueRule(const OpQuery& q, Rule& rule) {
  auto addUnsharded = [&](TypeId type, std::vector<TensorMap>& to) {
    TensorMap& map = to.emplace_back();
    for (Dim d : q.module->types[type].dims)
      map.dims.push_back(
          plainDim(addFactor(rule, d, "w" + std::to_string(rule.factors.size()), FactorKind::Whole)));
  };
  for (TypeId t : q.operandTypes) addUnsharded(t, rule.operands);
  for (TypeId t : q.writtenTypes) addUnsharded(t, rule.results);
  return true;
}

bool followRule(const OpQuery& q, Rule& rule) {
  const std::string text(q.textAttr("rule"));
  return text.empty() ? opaqueRule(q, rule) : readShardyRule(q, text, q.writtenTypes, rule);
}

bool verify(const OpQuery& q) {
  Rule rule;
  return followRule(q, rule);
}

bool eval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  std::string error;
  switch (callHostFunction(q.textAttr("target"), in, out, error)) {
  case HostCallOutcome::Done: return true;
  case HostCallOutcome::Failed: return q.diags->fail(kCustomFailed, q.loc, q.textAttr("target"), error);
  case HostCallOutcome::Unknown: break;
  }
  return q.diags->fail(kCustom, q.loc, q.textAttr("target"));
}

} // namespace

void addCustomOps(OpRegistry& ops) {
  OpRecord& r = ops.add(
      {.name = "custom",
       .family = "custom",
       .summary = "a call to a function outside of the program: shardings propagate through it; it is "
                  "executed, once for all devices, if the process has that function"});
  r.operands = "xs...";
  r.results = "ys...";
  r.attrs = {{"target", AttrType::String, nullptr, "name of the target"},
             {"rule", AttrType::String, "",
              "sharding rule in Shardy's notation: ([i, k], [k, j])->([i, j]) {i=8, j=4, k=2} "
              "reduction={k}"},
             {"per_device", AttrType::Bool, "false", "called for each device with its own operands"}};
  r.rule = opaqueRule;
  r.follow = followRule;
  r.infer = infer;
  r.resultType = OpRecord::ResultType::Custom;
  r.verify = verify;
  r.eval = eval;
  r.sameDType = false;
  r.gradNone = true;
  r.lowering = Lowering::Host;
  r.sideEffect = true;
  r.complex = OpRecord::ComplexForm::Own;
}

} // namespace dtc
