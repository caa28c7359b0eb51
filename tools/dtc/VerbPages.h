#pragma once
// Manual pages and completion scripts, generated from the options of the verbs.
#include "Environment.h"
#include "dtc/Support/Result.h"

namespace dtc {

// The manual page of a verb, dtc-VERB(1), or of dtc itself for "", in roff (man(7)). Error (Usage): unknown verb.
[[nodiscard]] Result<std::string> manualPage(std::string_view verb);

// A script that completes verbs, flags, values and names. `shell`: bash, zsh or fish.
[[nodiscard]] std::string completionScript(std::string_view shell);

} // namespace dtc
