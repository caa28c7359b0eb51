#pragma once
// `run --nan`: the op that produces the first NaN, with its device, element, iteration and operands.
#include "dtc/Runtime/run/Executable.h"
#include "dtc/Support/Diagnostics.h"

#include <optional>

namespace dtc {

// The number of NaN and of infinite elements (for complex numbers: in either part). 0, 0 for integers and
// bools.
struct NonFiniteCount {
  int64_t nan = 0, infinite = 0, firstNan = -1; // row-major index, or -1
};
[[nodiscard]] NonFiniteCount countNonFinite(const Tensor& t);

// Inspects the results of each step of a run. An op *produces* a NaN if its result has one although its
// operands, with their own NaNs replaced by ordinary numbers, have none; otherwise NaNs only propagate
// through it. Within a kernel the ops of its region are distinguished by the reference evaluator, run on the
// operands of the kernel.
class NanSearch {
public:
  // `ran` was loaded from `m` without reuseMemory and has its arguments. All must outlive this object.
  NanSearch(Module& m, FuncId f, const Executable& ran);
  // After each step of a device, in the order of RunHooks::afterStep.
  void afterStep(uint32_t step, int64_t device);
  // Reports the findings: an error at the op that produces the first NaN, or the origin of the NaNs of
  // results. True if an op produces one.
  bool report(Diagnostics& diags) const;
  [[nodiscard]] std::string json() const;
  // In a run of several processes, each has the findings of its devices: as a text, and those of all in place of its own.
  // A NaN that a collective between processes makes of infinities is not found.
  [[nodiscard]] std::string text() const;
  void join(const std::vector<std::string>& texts);

private:
  struct Found {
    OpId op;
    int64_t device = 0, order = 0; // `order`: the number of earlier steps of the device
    std::string value, element;    // "%y", "[3, 1]"
    int64_t nan = 0, elements = 0;
    std::vector<std::string> operands; // "%x[3, 1] = -2"
    std::string iteration;             // "iteration 4 of 'while' at f.dt:7"; "" outside loops
    bool evaluated = true;             // false: of the kernel as a whole
  };
  struct Source { // initial NaNs
    ValueId value;
    SourceRange loc;
    std::string what; // "argument %x", "constant %c"
    int64_t nan = 0, elements = 0, device = 0;
    std::string first;
  };
  void sources();
  [[nodiscard]] std::optional<Found> inspect(const StepInfo& step, int64_t device);
  [[nodiscard]] std::optional<Found> inKernel(OpId op, int64_t device, const std::vector<Tensor>& operands);
  [[nodiscard]] std::optional<Found> inCollective(const StepInfo& step, int64_t device);
  [[nodiscard]] Found describe(OpId op, size_t result, const Tensor& value,
                               const std::vector<Tensor>& operands) const;
  [[nodiscard]] std::string iterations(int64_t device) const;
  [[nodiscard]] std::string deviceName(int64_t device) const;

  Module& m_;
  FuncId func_;
  const Executable& ran_;
  std::vector<int64_t> order_; // by device coordinate
  std::optional<Found> found_;
  std::vector<Source> sources_;
};

} // namespace dtc
