#pragma once
// The names that values of a lowered program have in the text that the user has.
#include "dtc/IR/text/Naming.h"
#include <optional>
#include <unordered_map>

namespace dtc {

// Passes insert values, after which the printer's numbers differ from those of the text. Reports name a value
// by the text at its location; a value that the text lacks, by the statement that it was generated for.
class TextNames {
public:
  // `m` must not change while this object is used.
  explicit TextNames(const Module& m) : m_(m), names_(m) {}

  // "%y"; "%a_y" for %y of a function that was inlined at %a; "@f:%3" where no value has that name, or those of
  // several calls; "%y" for a value generated for %y.
  [[nodiscard]] std::string operator()(ValueId) const;
  // The value is not in the text: its name is that of the statement that it was generated for.
  [[nodiscard]] bool isGenerated(ValueId) const;
  // The same as words of a report: "%y", "in %y".
  [[nodiscard]] std::string shown(ValueId v) const { return (isGenerated(v) ? "in " : "") + (*this)(v); }

private:
  [[nodiscard]] std::string written(ValueId) const;
  [[nodiscard]] std::string statement(ValueId) const;
  [[nodiscard]] std::string qualified(const std::string& name, const std::string& own, ValueId,
                                      uint32_t at) const;
  [[nodiscard]] std::string functionAt(uint32_t offset) const;
  [[nodiscard]] std::string instanceAt(FuncId in, uint32_t offset) const;

  const Module& m_;
  ValueNames names_;
  mutable std::optional<std::vector<std::pair<size_t, std::string>>>
      functions_; // by begin, made on first use
  // By function and place of a name in the text: the name of the value there, "" if several have different ones.
  mutable std::optional<std::unordered_map<uint64_t, std::string>> instances_;
};

// The name written in the text at `at`, with its '%'; "" if there is none.
[[nodiscard]] std::string nameAt(const SourceText&, SourceRange at);
// The first name of the statement whose op is written at `op`, with its '%'; "" if there is none.
[[nodiscard]] std::string statementAt(const SourceText&, SourceRange op);

} // namespace dtc
