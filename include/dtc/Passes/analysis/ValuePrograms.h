#pragma once
// Which devices have a value of the text, where devices run different functions (stages of a pipeline).
#include "dtc/IR/DevicePrograms.h"

#include <map>
#include <string>
#include <unordered_map>

namespace dtc {

// Where a value comes from in the text.
struct ValueOrigin {
  std::string argument;   // its name: "%w"; "" for the result of an op
  SourceRange op;         // else the op
  int64_t stageMark = -1; // the op's mark, -1 without one
  static ValueOrigin of(const Module&,
                        ValueId); // of a function's argument, or an op's result; a reshard's is its operand's
};

// Reads a program at level local or lower. All lists are ascending indices of functionsOfProgram; what no function has
// is in none, such as an op that is merged with another.
class ValuePrograms {
public:
  // `numStageMarks`: of the text, see below.
  ValuePrograms(const Module& local, FuncId entry, int64_t numStageMarks);

  [[nodiscard]] bool differ() const { return programs_.differ(); }
  // Those with memory for the argument, or that compute the op: values that are received for it do not count.
  [[nodiscard]] std::vector<size_t> having(const ValueOrigin&) const;
  // Those that return a result.
  [[nodiscard]] std::vector<size_t> returning(size_t result) const;
  // By device coordinate.
  [[nodiscard]] std::vector<bool> devices(std::span<const size_t> functions) const;

private:
  struct Computed {
    size_t function;
    int64_t stage; // -1 without a mark
  };
  DevicePrograms programs_;
  int64_t numMarks_, numStages_ = 0;
  std::map<std::string, std::vector<size_t>> arguments_;
  std::vector<std::vector<size_t>> results_;
  std::unordered_map<uint32_t, std::vector<Computed>> ops_; // by location
  std::map<int64_t, std::vector<size_t>> stages_;           // functions with ops of a stage
};

// The number of stages that the text marks; 0 without marks.
[[nodiscard]] int64_t numStageMarks(const Module&, FuncId);

} // namespace dtc
