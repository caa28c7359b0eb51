#pragma once
// What a program computes from frozen arguments and constants alone: once, not in each run.
#include "dtc/IR/Module.h"

namespace dtc {

// An argument with {frozen = true} keeps its value over many runs: the weights of a model.
[[nodiscard]] bool isFrozenArgument(const Module&, const FuncArg&);
// The same by argument of the function.
[[nodiscard]] std::vector<bool> frozenArgumentsOf(const Module&, FuncId);
// An op with {frozen = true}: it runs before the others of its function, and again only after a frozen argument has
// changed. Its results stay in memory.
[[nodiscard]] bool isFrozenOp(const Module&, OpId);
void setFrozen(Module&, OpId);

// The values of a function's body that depend on frozen arguments and constants alone.
class FrozenValues {
public:
  FrozenValues(const Module&, FuncId);
  [[nodiscard]] bool operator()(ValueId) const;
  // Whether all operands are such values, and the op may run at another time than the ops around it.
  [[nodiscard]] bool computes(OpId) const;
  void add(OpId); // its results, too

private:
  const Module& m_;
  std::vector<bool> frozen_; // by value
};

// How many bytes frozen results of the function may have: those of the frozen arguments, and a few MiB for tables.
[[nodiscard]] int64_t frozenLimit(const Module&, FuncId);
// The bytes of an op's results on one device; nothing if a size is unknown.
[[nodiscard]] std::optional<int64_t> resultBytes(const Module&, OpId, const Mesh&);

} // namespace dtc
