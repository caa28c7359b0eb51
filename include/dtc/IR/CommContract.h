#pragma once
// Communication contracts: what a function promises of the collectives that its ops need, as
// `{comm = ["all_reduce(tp) <= 1", "none(dp)"]}` says it. Here is what the text means; who counts is in Passes.
#include "dtc/IR/OpRecord.h"

namespace dtc {

// "none", "none(dp)", "all_reduce(tp) <= 1", "any(dp, tp) == 2"; "grad: none(dp)" speaks of the function's gradient, where
// one is taken, "layer.0: none" of the ops of one inlined call, "layer.0.grad: none" of their gradient.
struct CommContract {
  static constexpr std::string_view kAny = "any", kNone = "none", kGradient = "grad";
  struct Axis {
    std::string name;
    uint32_t begin = 0, end = 0; // in the text
  };
  std::string
      within; // what it speaks of, "grad", "block.0/layer.1", "block.0/layer.1.grad"; "" the whole function
  std::string what;       // a collective's name, or kAny
  std::vector<Axis> axes; // a collective counts that uses one of them; empty: every collective does
  bool exactly = false;   // == count, else <= count
  int64_t count = 0;
  uint32_t whatBegin = 0, whatEnd = 0; // in the text
};

// "layer.1.grad": the gradient of the second call of @layer.
struct ContractCall {
  std::string function;
  int64_t index = 0;
  bool ofGradient = false;
};
// The last of the calls in a path like "block.0/layer.1.grad".
[[nodiscard]] ContractCall lastCall(std::string_view path);

// Is an op that is part of `path` one of those that a contract about `within` speaks of? A gradient of a call is no part of
// the call; a gradient taken in it is.
[[nodiscard]] bool isPartOfCall(std::string_view path, std::string_view within);

// Behind a call in a path: the ops of its gradient.
inline constexpr std::string_view kGradientOfCall = ".grad";

// Where in a contract's text it is wrong, and what was expected there.
struct ContractProblem {
  uint32_t begin = 0, end = 0;
  std::string message;
};

[[nodiscard]] std::optional<CommContract> parseCommContract(std::string_view text, ContractProblem&);

// Can a contract name it: a collective over axes, in its blocking form?
[[nodiscard]] bool isContractCollective(const OpRecord&);

// A contract that stands on a function.
struct WrittenContract {
  AttrId attr; // a string
  SourceRange
      text; // of what stands between the quotes, of the function that was written so; else of the function's name
  bool exact = true; // `text` is the string, character for character
  // Of a part of it, in bytes of the string.
  [[nodiscard]] SourceRange range(uint32_t begin, uint32_t end) const {
    if (!exact || !text.valid()) return text;
    return {text.begin + begin, text.begin + std::max(end, begin + 1)};
  }
};

// In the order written. That of an inlined call is shown where the called function has it.
[[nodiscard]] std::vector<WrittenContract> contractsOf(const Module&, const Function&);

} // namespace dtc
