#pragma once
// The statements of a program as its text has them. canonicalize removes, merges and rewrites some before shardings are
// propagated: what they are then.
#include "dtc/IR/text/TextNames.h"
#include "dtc/Passes/propagate/Reasons.h"

#include <optional>
#include <unordered_map>
#include <unordered_set>

namespace dtc {

// `written`: the module before canonicalize. Its ops and values have the same ids as those that `propagated` still has.
class WrittenProgram {
public:
  WrittenProgram(Module& written, const Module& propagated, FuncId function, const Reasons&);

  [[nodiscard]] Module& module() const { return m_; }
  [[nodiscard]] const TextNames& names() const { return names_; }
  [[nodiscard]] BlockId body() const { return body_; }
  [[nodiscard]] bool has(OpId o) const { return ops_.contains(o); }
  // The propagated program has the op, too.
  [[nodiscard]] bool isKept(OpId o) const { return kept_.contains(o); }

  // What a value of an op that is not kept is in the propagated program: dim d is dim `dims[d]` of `value`, if there are
  // `dims`. Nothing if the propagated program does not compute it.
  struct Replaced {
    ValueId value;
    std::vector<int64_t> dims;
  };
  [[nodiscard]] const Replaced* replaced(ValueId) const;
  // The written value that a value of a new op replaces.
  [[nodiscard]] ValueId replacedBy(ValueId) const;

private:
  void compare(ValueId written, ValueId propagated, const Reasons&);
  void compareOps(const Module& propagated, const Reasons&);
  void findPermuted();

  Module& m_; // rules of ops may add to its tables
  TextNames names_;
  BlockId body_;
  std::unordered_set<OpId> ops_, kept_;
  std::unordered_map<ValueId, Replaced> replaced_;
  std::unordered_map<ValueId, ValueId> replacedBy_;
};

// A call of the text, and a result of it: a value of its callee, under the caller's name.
struct CallResult {
  SourceRange loc; // of the call
  std::string name;
  bool isGradient = false; // which value_and_grad adds to the results of its function
};
// By the name in the inlined program: "loss_eq" is %eq of a call in @loss. `m`: with its calls.
[[nodiscard]] std::unordered_map<std::string, CallResult> callResults(const Module& m, FuncId entry);

} // namespace dtc
