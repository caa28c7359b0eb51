#pragma once
// What `dtc --version` prints.
#include <string>

namespace dtc {

// "dtc 0.1.0", the commit that it was built from, and LLVM, oneDNN and NVRTC, one per line; "not found" for a
// library that does not open.
[[nodiscard]] std::string versionText();

} // namespace dtc
