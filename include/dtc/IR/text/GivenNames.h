#pragma once
// The names by which a user may call the values of a program: that of its text ("%arg1" of a StableHLO module), that
// which `dtc import` prints ("%params_w1"), and the user's own ("params['w1']"). Reports print the first, and the last
// behind it.
#include "dtc/IR/Module.h"

namespace dtc {

// Without '%': that of the text first; each once.
[[nodiscard]] std::vector<std::string> argumentNames(const Module&, const FuncArg&);
// All values of a function with this name, "%h", in its text or as it is printed; also those in regions. A result's label
// stands for the returned value.
[[nodiscard]] std::vector<ValueId> valuesNamed(const Module&, FuncId, std::string_view name);
// The name in the text, "%arg1", of the argument, op or result that a name stands for: "%params_w1",
// "%params['w1']". "" if there is none.
[[nodiscard]] std::string nameInText(const Module&, FuncId, const std::string& name);
// " (params['w1'])" behind the name of an argument or a result in a report; "" if `shown`, "%x", is the user's own.
[[nodiscard]] std::string userNameBehind(const Module&, const AttrList&, std::string_view shown);

} // namespace dtc
