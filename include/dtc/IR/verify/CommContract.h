#pragma once
// Communication contracts: bounds on the collectives of a function, written as `{comm = ["all_reduce(tp) <=
// 1", "none(dp)"]}`. This file defines their meaning; lib/Passes counts.
#include "dtc/IR/OpRecord.h"

namespace dtc {

// "none", "none(dp)", "all_reduce(tp) <= 1", "any(dp, tp) == 2". "grad: none(dp)" is about the function's
// gradient, if one is taken, "layer.0: none" about the ops of one inlined call, "layer.0.grad: none" about
// their gradient.
struct CommContract {
  static constexpr std::string_view kAny = "any", kNone = "none", kGradient = "grad";
  struct Axis {
    std::string name;
    uint32_t begin = 0, end = 0; // in the text
  };
  std::string within; // the scope: "grad", "block.0/layer.1", "block.0/layer.1.grad"; "": the whole function
  std::string what;   // the name of a collective, or kAny
  std::vector<Axis> axes; // collectives over any of these axes count; empty: all collectives count
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
// The last call of a path like "block.0/layer.1.grad".
[[nodiscard]] ContractCall lastCall(std::string_view path);

// Whether an op at `path` is within the scope of a contract about `within`. The gradient of a call is not
// part of the call; a gradient taken inside the call is.
[[nodiscard]] bool isPartOfCall(std::string_view path, std::string_view within);

// The suffix of a call in a path that denotes the ops of its gradient.
inline constexpr std::string_view kGradientOfCall = ".grad";

// The range of an error in a contract's text, and what was expected.
struct ContractError {
  uint32_t begin = 0, end = 0;
  std::string message;
};

[[nodiscard]] std::optional<CommContract> parseCommContract(std::string_view text, ContractError&);

// Whether contracts can name this op: a collective over axes, in its blocking form.
[[nodiscard]] bool isContractCollective(const OpRecord&);

// A contract of a function.
struct WrittenContract {
  AttrId attr; // a string
  // the text between the quotes if the function was written with it, otherwise the function's name
  SourceRange text;
  bool exact = true; // `text` is the string, character for character
  // The range of a part of the string, given in bytes.
  [[nodiscard]] SourceRange range(uint32_t begin, uint32_t end) const {
    if (!exact || !text.valid()) return text;
    return {text.begin + begin, text.begin + std::max(end, begin + 1)};
  }
};

// In the order written. The contract of an inlined call is located at the called function.
[[nodiscard]] std::vector<WrittenContract> contractsOf(const Module&, const Function&);

} // namespace dtc
