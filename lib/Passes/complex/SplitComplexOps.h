#pragma once
// split-complex for single ops: the planes of a complex value, and the real ops that replace an op.
#include "dtc/IR/build/Builder.h"
#include "dtc/Passes/analysis/Clone.h"
#include <array>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace dtc {

using Planes = std::array<ValueId, 2>; // real, imaginary

// The values of one function while it is rebuilt.
class ComplexValues {
public:
  ComplexValues(Module& m, FuncId f); // reserves the names in `f`
  // The replacement of a value that is not complex.
  [[nodiscard]] ValueId real(ValueId v) const { return map_(v); }
  // The planes of a complex value; for an argument that stays complex, created at the start of the function.
  [[nodiscard]] Planes planes(ValueId v);
  // A complex value, assembled from its planes at the end of the builder's list; any other value unchanged.
  [[nodiscard]] ValueId complexValue(ValueId v, Builder& b);
  // Two values for each complex one, the replacement for each other.
  [[nodiscard]] std::vector<ValueId> expanded(std::span<const ValueId> values);

  // Redefines the value, by one value or by its planes (created since the module had `before` values).
  void set(ValueId old, ValueId now, size_t before, Builder& b);
  void set(ValueId old, Planes now, size_t before, Builder& b);
  void setComplex(ValueId old, ValueId now, Builder& b);
  // Adds arguments to `to` for an argument of a block: one, or two planes.
  std::vector<ValueId> splitArgument(ValueId old, BlockId to);
  // The number of results of a new op, from `first` on, that replace one old result.
  uint32_t splitResult(ValueId old, ValueId first);
  // The ops that read the parts of arguments.
  [[nodiscard]] std::vector<OpId> takePrologue();
  void clone(OpId o, Builder& b); // an op without complex operands and results

private:
  [[nodiscard]] ValueId widened(ValueId old, ValueId plane, Builder& b);
  [[nodiscard]] ValueId constrained(ValueId old, ValueId now, size_t before, Builder& b);
  void name(ValueId v, StrId base, const char* suffix);

  Module& m_;
  ValueMap map_;
  std::unordered_map<ValueId, Planes> planes_;
  std::unordered_map<ValueId, ValueId> complexValues_;
  std::unordered_set<std::string> names_;
  std::set<std::pair<uint32_t, uint32_t>> madeFrom_; // the name of a plane, and that of its value
  std::vector<OpId> prologue_;
  Diagnostics none_; // `real` and `imag` never fail
};

// Appends the real form of `o`, an op without regions and callee. False, with a diagnostic, if it has none.
[[nodiscard]] bool splitOp(OpId o, Builder& b, ComplexValues& values);

} // namespace dtc
