#pragma once
// Communication contracts: what a function promises of the collectives that its ops need, as
// `{comm = ["all_reduce(tp) <= 1", "none(dp)"]}` says it. Here is what the text means; who counts is in Passes.
#include "dtc/IR/OpRecord.h"

namespace dtc {

// "none", "none(dp)", "all_reduce(tp) <= 1", "any(dp, tp) == 2"; "layer.0: none" speaks of the ops of one inlined call.
struct CommContract {
  static constexpr std::string_view kAny = "any", kNone = "none";
  struct Axis {
    std::string name;
    uint32_t begin = 0, end = 0; // in the text
  };
  std::string within;     // the calls that it speaks of, "block.0/layer.1"; "" the whole function
  std::string what;       // a collective's name, or kAny
  std::vector<Axis> axes; // a collective counts that uses one of them; empty: every collective does
  bool exactly = false;   // == count, else <= count
  int64_t count = 0;
  uint32_t whatBegin = 0, whatEnd = 0; // in the text
};

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
