#pragma once
// `run --nan`: which op makes the first NaN, on which device, in which element and iteration, out of which operands.
#include "dtc/Runtime/Executable.h"
#include "dtc/Support/Diagnostics.h"

#include <optional>

namespace dtc {

// How many elements are NaN, and how many infinite (of complex numbers: with such a part). 0, 0 of integers and bools.
struct NonFinite {
  int64_t nan = 0, infinite = 0, firstNan = -1; // row-major index, or -1
};
[[nodiscard]] NonFinite countNonFinite(const Tensor& t);

// Looks at what each step of a run leaves. An op *makes* a NaN if its result has one though its operands, their own NaNs replaced
// by ordinary numbers, have none; otherwise NaNs only pass through it. Within a kernel the ops of its region are told apart by the
// reference evaluator, run on the operands that the kernel had.
class NanSearch {
public:
  // `ran` was loaded from `m` without reuseMemory and has its arguments. All must outlive this.
  NanSearch(Module& m, FuncId f, const Executable& ran);
  // After each step of a device, in the order of RunHooks::afterStep.
  void afterStep(uint32_t step, int64_t place);
  // Says what was found: an error at the op that makes the first NaN, or where the NaNs of results come from. True if an op
  // makes one.
  bool report(Diagnostics& diags) const;
  [[nodiscard]] std::string json() const;

private:
  struct Found {
    OpId op;
    int64_t place = 0, order = 0; // `order`: of the device's steps, how many came before
    std::string value, element;   // "%y", "[3, 1]"
    int64_t nan = 0, elements = 0;
    std::vector<std::string> operands; // "%x[3, 1] = -2"
    std::string iteration;             // "iteration 4 of 'while' at f.dt:7"; "" outside loops
    bool evaluated = true;             // false: of a kernel as a whole
  };
  struct Source { // NaNs that were there before
    ValueId value;
    SourceRange loc;
    std::string what; // "argument %x", "constant %c"
    int64_t nan = 0, elements = 0, place = 0;
    std::string first;
  };
  void sources();
  [[nodiscard]] std::optional<Found> looked(const StepInfo& step, int64_t place);
  [[nodiscard]] std::optional<Found> inKernel(OpId op, int64_t place, const std::vector<Tensor>& operands);
  [[nodiscard]] std::optional<Found> inCollective(const StepInfo& step, int64_t place);
  [[nodiscard]] Found describe(OpId op, size_t result, const Tensor& value,
                               const std::vector<Tensor>& operands) const;
  [[nodiscard]] std::string iterations(int64_t place) const;

  Module& m_;
  FuncId func_;
  const Executable& ran_;
  std::vector<int64_t> order_; // by place
  std::optional<Found> found_;
  std::vector<Source> sources_;
};

} // namespace dtc
