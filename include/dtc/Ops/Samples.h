#pragma once
// Small programs of one op each, from OpRecord::samples: what the rule prover, the gradient test and docs/ops.md try.
//
//   samples := sample { "\n" sample }      sample := [ operand { "," operand } ] [ attributes ] [ ":" types ]
//   operand := type [ "in" INT ".." INT ] | LITERAL
//
// The dtype T stands for each dtype that the op takes; `in lo..hi` (hi excluded) says what integers make sense (indices).
// Pointwise ops have equal shapes and broadcast ones besides what their record says.
#include "dtc/IR/Text.h"

namespace dtc {

struct OpSample {
  Module module; // of one function, @sample, whose arguments are the op's operands that are no literals
  FuncId func;
  OpId op;
  struct Range {
    int64_t lo = 0, hi = 0; // hi excluded; lo == hi: any value
  };
  std::vector<Range> ranges; // one per argument of @sample
  std::string text;          // "exp f32[5, 3]": for reports
  std::string pattern;       // its line of the samples, with T
};

// The samples of an op with T = dtype; none where the op does not take it (or has none: collectives, regions).
[[nodiscard]] std::vector<OpSample> opSamples(const OpRegistry&, OpKind, DType t);
// The same from a text of samples that someone else wrote; lines that do not fit give none.
[[nodiscard]] std::vector<OpSample> opSamples(const OpRegistry&, OpKind, DType t, std::string_view samples);
// Why one line of such a text fits no op of this kind and dtype; "" where it does.
[[nodiscard]] std::string sampleProblem(const OpRegistry&, OpKind, DType t, std::string_view sample);
// The text of an op's samples: those of its record, after the defaults of pointwise ops.
[[nodiscard]] std::string sampleText(const OpRecord&);

} // namespace dtc
