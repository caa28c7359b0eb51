#pragma once
// The value names that are visible at a position of the text (ir.md).
#include "text/TokenReader.h"

namespace dtc {

class ValueScope : TokenReader {
public:
  explicit ValueScope(const TokenReader& in) : TokenReader(in) {}

  struct Mark {
    size_t undo = 0, visibleFrom = 0;
  };
  [[nodiscard]] Mark enter(bool isolated); // isolated: outer names are hidden
  void leave(Mark);                        // Mark(): all names

  [[nodiscard]] ValueId find(StrId) const; // invalid: not visible
  // Whether it is a value outside of a block that sees only its own arguments.
  [[nodiscard]] bool isOutside(StrId) const;
  bool define(const ParsedName&, ValueId);                     // false if the name is already defined
  bool definePoisoned(const std::vector<ParsedName>&);         // as far as they are not defined; true
  [[nodiscard]] std::vector<std::string_view> visible() const; // without poisoned values

private:
  struct Binding {
    ValueId value;
    uint32_t serial = 0; // index in undo_; visible if at least visibleFrom_
  };
  Binding& slot(StrId); // valid until the next call

  std::vector<Binding> bindings_; // by StrId
  // used instead by a snippet: the module may have a million names
  std::vector<std::pair<StrId, Binding>> few_;
  std::vector<std::pair<StrId, Binding>> undo_;
  size_t visibleFrom_ = 0;
};

} // namespace dtc
