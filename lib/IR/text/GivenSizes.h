#pragma once
// Sizes given on the command line (--dim B=64). They apply to the module, not to functions whose calls bind them.
#include "dtc/IR/text/Text.h"
#include "text/TokenReader.h"
#include <unordered_set>

namespace dtc {

class GivenSizes : TokenReader {
public:
  GivenSizes(const TokenReader& in, const ParseOptions& options) : TokenReader(in), options_(options) {}

  // The call graph, scanned before types are parsed: `@g(` in a body, `grad = @g` after a signature.
  void scanCalls();
  // Whether the function calls the entry, so that it is not parsed.
  [[nodiscard]] bool skips(StrId function) const { return skipped_.contains(function); }
  // The number given for a name; nothing if calls bind it, or none was given.
  [[nodiscard]] std::optional<int64_t> of(StrId name) const;

  // Before the signature of a function: the sizes of a called function stay symbolic.
  void enterSignature(StrId function) { keep_ = called_.contains(function); }
  // After it: binds the symbols that belong to the module. Returns those that each call binds.
  [[nodiscard]] std::vector<StrId> leaveSignature(Function&, MeshId);
  // Before a body, with what leaveSignature returned.
  void enterBody(const std::vector<StrId>* own) { own_ = own; }
  [[nodiscard]] const std::vector<StrId>* body() const { return own_; }

private:
  const ParseOptions& options_;
  // If sizes are given: functions with callers, and the callers of the entry.
  std::unordered_set<StrId> called_, skipped_;
  const std::vector<StrId>* own_ = nullptr; // of the function being parsed
  bool keep_ = false;                       // in the signature of a called function
};

} // namespace dtc
