#pragma once
// split-complex, op by op: which planes stand for a complex value, and what an op is over planes.
#include "dtc/IR/Builder.h"
#include "dtc/Passes/Clone.h"
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
  ComplexValues(Module& m, FuncId f); // the names of `f` are in use
  // What stands for a value that is not complex.
  [[nodiscard]] ValueId real(ValueId v) const { return map_(v); }
  // The planes of a complex value: of an argument that stayed whole, made where the function begins.
  [[nodiscard]] Planes planes(ValueId v);
  // A complex value as a whole, put together at the end of the builder's list; any other value as it is.
  [[nodiscard]] ValueId whole(ValueId v, Builder& b);
  // Two values for each complex one, what stands for it for each other.
  [[nodiscard]] std::vector<ValueId> expanded(std::span<const ValueId> values);

  // The value is defined anew, by one value or by its planes (made since `before` values were in the module).
  void set(ValueId old, ValueId now, size_t before, Builder& b);
  void set(ValueId old, Planes now, size_t before, Builder& b);
  void setWhole(ValueId old, ValueId now, Builder& b);
  // Arguments of `to` for an argument of a block: one, or two planes.
  std::vector<ValueId> splitArgument(ValueId old, BlockId to);
  // The results of a new op, from `first` on, that stand for one old result: how many.
  uint32_t splitResult(ValueId old, ValueId first);
  // The ops that read the parts of arguments.
  [[nodiscard]] std::vector<OpId> takePrologue();
  void clone(OpId o, Builder& b); // an op without complex operands and results, as it is

private:
  [[nodiscard]] ValueId constrained(ValueId old, ValueId now, size_t before, Builder& b);
  void name(ValueId v, StrId base, const char* suffix);

  Module& m_;
  ValueMap map_;
  std::unordered_map<ValueId, Planes> planes_;
  std::unordered_map<ValueId, ValueId> wholes_;
  std::unordered_set<std::string> names_;
  std::set<std::pair<uint32_t, uint32_t>> madeFrom_; // a plane's name and that of its value
  std::vector<OpId> prologue_;
  Diagnostics none_; // `real` and `imag` always fit
};

// Appends what `o`, an op without regions and callee, is over planes. False with a diagnostic where it has none.
[[nodiscard]] bool splitOp(OpId o, Builder& b, ComplexValues& values);

} // namespace dtc
