#pragma once
// explain: why a value is sharded so, what each collective costs and who caused it. Reads the reasons that propagate left.
#include "dtc/Passes/Propagate.h"
#include "dtc/Support/Result.h"
#include <functional>

namespace dtc {

// One step of a chain of reasons, from the value asked about back to an annotation.
struct ExplainStep {
  std::string value; // "%h"
  uint16_t dim = 0;
  std::string parts;  // "tp", "(dp, tp)"
  std::string via;    // op that carried it, or "" at an annotation
  std::string factor; // of that op's rule
  std::string place;  // "mlp.dt:9:8"
  enum Kind : uint8_t { Annotation, ResultAnnotation, Through, Boundary, Cheapest, ByPrice } kind = Through;
  double secondsBefore = 0, secondsAfter = 0; // ByPrice
};

// An op that could not run on its tensors as they are, and the ways it could have run; the first is how it does.
struct ExplainDecision {
  std::string op, place;
  std::vector<FormChoice> choices;
};

struct ExplainDim {
  std::string size;  // "512"
  std::string parts; // "" where it is whole
  std::vector<ExplainStep> chain;
};

// One planned step of a reshard.
struct ExplainCollective {
  std::string kind;   // "all_reduce"
  std::string axes;   // "tp"
  int64_t bytes = 0;  // received per device
  double seconds = 0; // on the nominal machine
};

struct ExplainReshard {
  std::string value, from, to;    // "%y", "@pod{dp, _ | sum(tp)}", "@pod{dp, _}"
  std::string cause, causePlace;  // the op whose result it changes
  std::string needs, needsPlace;  // the op that wants it so, or ""
  std::string why;                // a sentence
  std::vector<ExplainStep> chain; // why the axis that is reduced or gathered cuts that op
  std::vector<ExplainCollective> steps;
};

struct ExplainValue {
  std::string value, type, sharding, place;
  std::vector<ExplainDim> dims;
  std::vector<ExplainReshard> reshards; // that make this value, and those that its users ask for
  std::vector<ExplainDecision>
      decisions; // of the op that makes it, and of those that ask for a reshard of it
};

// `m` has been propagated and `report` is what that left; `v` is a value of it.
[[nodiscard]] ExplainValue explainValue(Module& m, const PropagationReport& report, ValueId v);
// Every reshard of the program, in program order.
[[nodiscard]] std::vector<ExplainReshard> explainProgram(Module& m, const PropagationReport& report);
// Why dim `dim` of `v` is cut, back to an annotation: asked often of one program, which stays as it is meanwhile.
using ChainExplainer = std::function<std::vector<ExplainStep>(ValueId v, uint16_t dim)>;
[[nodiscard]] ChainExplainer explainChains(Module& m, const PropagationReport& report);
// Every decision of the program, in program order.
[[nodiscard]] std::vector<ExplainDecision> explainDecisions(Module& m, const PropagationReport& report);

[[nodiscard]] std::string explainText(const ExplainValue&);
[[nodiscard]] std::string explainText(const std::vector<ExplainDecision>&);
[[nodiscard]] std::string explainJson(const ExplainValue&);

// Mental arithmetic: `equation` as einsum's, one "NAME SHARDING" per operand ("w {tp, _}"). The answer says the result's
// sharding and both gradients', each with its communication. Axes that are named have a nominal size.
[[nodiscard]] Result<std::string> explainEquation(std::string_view equation,
                                                  const std::vector<std::string>& operands, const OpRegistry&,
                                                  bool json);

} // namespace dtc
