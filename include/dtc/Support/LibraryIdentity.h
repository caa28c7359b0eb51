#pragma once
// Identifies the version of a shared library.
#include <string>

namespace dtc {

// A library's path, size and time: distinguishes what was produced with different versions without opening
// the library. "": no such file.
[[nodiscard]] std::string libraryIdentity(const std::string& path);

} // namespace dtc
