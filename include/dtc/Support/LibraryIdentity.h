#pragma once
// Where shared libraries are, and which version of one this is.
#include <string>
#include <vector>

namespace dtc {

// A library's path, size and time: distinguishes what was produced with different versions without opening
// the library. "": no such file.
[[nodiscard]] std::string libraryIdentity(const std::string& path);

// The folders in which dtc's plugins are looked for. For a binary: its own folder (a build tree), then
// ../lib/dtc (an installation). For a shared library that contains this code: its own folder (a build tree, a
// Python wheel), then the folder dtc in it (an installation).
[[nodiscard]] std::vector<std::string> pluginFolders();

// Where plugins are that this user has built: $XDG_DATA_HOME/dtc/plugins, else ~/.local/share/dtc/plugins. "": neither
// variable is set.
[[nodiscard]] std::string userPluginFolder();

} // namespace dtc
