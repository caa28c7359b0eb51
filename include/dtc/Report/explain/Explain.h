#pragma once
// explain: why a value has its sharding, what each collective costs and what caused it. Uses the reasons
// recorded by propagate.
#include "dtc/Passes/propagate/Propagate.h"
#include "dtc/Support/Result.h"
#include <functional>
#include <unordered_map>

namespace dtc {

// One step of a chain of reasons, from the value asked about back to an annotation.
struct ExplainStep {
  std::string value;    // "%h"
  std::string userName; // of an argument, where the text has another: "layers.0.weight"
  uint16_t dim = 0;
  std::string parts;    // "tp", "(dp, tp)"
  std::string via;      // the op that carried it, or "" at an annotation
  std::string factor;   // of that op's rule
  std::string location; // "mlp.dt:9:8"
  std::string axis;     // "tp": of the collective that the chain explains; "" for a chain of a dim
  bool first = false;   // of its chain
  enum Kind : uint8_t { Annotation, ResultAnnotation, Through, Boundary, Cheapest, ByPrice } kind = Through;
  double secondsBefore = 0, secondsAfter = 0; // ByPrice
};

// An op that could not run with the shardings of its tensors, and its options; the first is the chosen one.
struct ExplainDecision {
  std::string op, location;
  std::vector<FormChoice> choices;
  std::string reason; // where a choice that is not taken receives fewer bytes or takes less time
};

struct ExplainDim {
  std::string size;  // "512"
  std::string parts; // "" where unsharded
  std::vector<ExplainStep> chain;
};

// One step of a reshard: as it runs where the program was traced, as planned otherwise.
struct ExplainCollective {
  std::string kind;   // "all_reduce"
  std::string axes;   // "tp"
  int64_t bytes = 0;  // received per device
  double seconds = 0; // on the nominal machine
  size_t shared = 0;  // other reshards that the same message serves: bytes and seconds are those of all
};

struct ExplainReshard {
  std::string value, from, to;      // "%y", "@pod{dp, _ | sum(tp)}", "@pod{dp, _}"
  std::string userName;             // of an argument, where the text has another: "params['head']"
  std::string cause, causeLocation; // the op whose result it reshards
  std::string needs, needsLocation; // the op that requires it, or ""
  std::string why;                  // a sentence
  std::vector<ExplainStep> chain;   // why the reduced axes shard that op: one chain for each axis
  std::vector<ExplainCollective> steps;
};

struct ExplainValue {
  std::string value, type, sharding, location;
  std::string userName; // of an argument, where the text has another: "params['head']"
  std::vector<ExplainDim> dims;
  bool generated = false;               // not in the text; `value` is the statement that it was generated for
  std::vector<ExplainReshard> reshards; // that produce this value, and those that its users require
  // The collectives of the ops that compute this value, where it has none itself: the nearest ones.
  std::vector<ExplainReshard> made;
  std::vector<std::string> assumed;       // symbolic sizes that costs take as kNominalSymbol
  std::vector<ExplainDecision> decisions; // of the defining op, and of users that require a reshard
};

// A value as a user names it.
struct ValueQuery {
  std::string name;                   // "%y"
  std::vector<SourceRange> locations; // of values of functions that are inlined
};
// The values that are meant, without reshards of them: those with this name in the text; otherwise the results
// of functions with it; otherwise the last value that was generated for that statement.
[[nodiscard]] std::vector<ValueId> valuesOf(const Module& m, const PropagationReport&, const ValueQuery&);

// By op: the collectives that run for it, of reshards and of ops that communicate themselves.
using OpCollectives = std::unordered_map<OpId, std::vector<ExplainCollective>>;

// `m` has been propagated and `report` is the result of that pass; `v` is a value of it. `runs`: what the
// compiled program runs; without it reshards have the steps of their plans.
[[nodiscard]] ExplainValue explainValue(Module& m, const PropagationReport& report, ValueId v,
                                        const OpCollectives* runs = nullptr);
// Every reshard of the program, in program order. Without `chains` these are empty, which takes less time.
[[nodiscard]] std::vector<ExplainReshard> explainProgram(Module& m, const PropagationReport& report,
                                                         const OpCollectives* runs = nullptr,
                                                         bool chains = true);
// Why dim `dim` of `v` is sharded, back to an annotation. Caches: for many queries about one unchanged
// program.
using ChainExplainer = std::function<std::vector<ExplainStep>(ValueId v, uint16_t dim)>;
[[nodiscard]] ChainExplainer explainChains(Module& m, const PropagationReport& report);
// Every decision of the program, in program order.
[[nodiscard]] std::vector<ExplainDecision> explainDecisions(Module& m, const PropagationReport& report);

[[nodiscard]] std::string explainText(const ExplainValue&);
[[nodiscard]] std::string explainText(const std::vector<ExplainDecision>&);
[[nodiscard]] std::string explainJson(const ExplainValue&);

// `equation` as for einsum, one "NAME SHARDING" per operand ("w {tp, _}"). The answer gives the sharding and
// the communication of the result and of the gradients. The named axes have a nominal size.
[[nodiscard]] Result<std::string> explainEquation(std::string_view equation,
                                                  const std::vector<std::string>& operands, const OpRegistry&,
                                                  bool json);

} // namespace dtc
