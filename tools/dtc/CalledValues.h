#pragma once
// The values of a function that the entry calls, which is inlined: by their places in the text.
#include "dtc/IR/Module.h"

namespace dtc {

// Whether the entry calls the function, also through others.
[[nodiscard]] bool isCalled(const Module& written, FuncId entry, FuncId f);

struct CalledValue {
  std::vector<SourceRange> places; // in the text
  std::vector<std::string> passed; // for an argument, what the entry's calls pass: "%x"
  [[nodiscard]] bool empty() const { return places.empty() && passed.empty(); }
};

// The values of this name ("%h") of the function, and for an argument what its calls pass.
[[nodiscard]] CalledValue calledValue(const Module& written, FuncId entry, FuncId f, std::string_view name);

// "@f:%h" of each function that the entry calls and that has the value, if the entry has none of this name.
[[nodiscard]] std::vector<std::string> calledNames(const Module& written, FuncId entry,
                                                   const std::string& name);

} // namespace dtc
