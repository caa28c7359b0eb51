#pragma once
// Small programs of a single op, from OpRecord::samples, for the rule prover, the gradient test and
// docs/ops.md.
//
//   samples := sample { "\n" sample }      sample := [ operand { "," operand } ] [ attributes ] [ ":" types ]
//   operand := type [ "in" INT ".." INT ] | LITERAL
//
// The dtype T stands for each dtype that the op takes; `in lo..hi` (hi excluded) is the valid range of
// integers (indices). Pointwise ops have default samples of equal and of broadcast shapes, besides those of
// their record.
#include "dtc/IR/text/Text.h"

namespace dtc {

struct OpSample {
  Module module; // of one function, @sample, whose arguments are the op's non-literal operands
  FuncId func;
  OpId op;
  struct Range {
    int64_t lo = 0, hi = 0; // hi excluded; lo == hi: any value
  };
  std::vector<Range> ranges; // one per argument of @sample
  std::string text;          // "exp f32[5, 3]", for reports
  std::string pattern;       // its line of the samples, with T
};

// The samples of an op with T = dtype; none if the op does not take it, or has no samples (collectives,
// regions).
[[nodiscard]] std::vector<OpSample> opSamples(const OpRegistry&, OpKind, DType t);
// The same from another text of samples; invalid lines are skipped.
[[nodiscard]] std::vector<OpSample> opSamples(const OpRegistry&, OpKind, DType t, std::string_view samples);
// Validates one line of such a text for an op of this kind and dtype: a message, or "".
[[nodiscard]] std::string validateSample(const OpRegistry&, OpKind, DType t, std::string_view sample);
// The samples of an op: the defaults of pointwise ops, then those of its record.
[[nodiscard]] std::string sampleText(const OpRecord&);

} // namespace dtc
