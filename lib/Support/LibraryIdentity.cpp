#include "dtc/Support/LibraryIdentity.h"

#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <link.h>
#include <sys/stat.h>

namespace dtc {

std::string libraryIdentity(const std::string& path) {
  struct stat info;
  if (path.empty() || stat(path.c_str(), &info) != 0) return {};
  return path + " " + std::to_string(info.st_size) + " " + std::to_string(info.st_mtim.tv_sec) + "." +
         std::to_string(info.st_mtim.tv_nsec);
}

std::vector<std::string> pluginFolders() {
  Dl_info info;
  link_map* loaded = nullptr;
  void* here = reinterpret_cast<void*>(&pluginFolders);
  const bool found = dladdr1(here, &info, reinterpret_cast<void**>(&loaded), RTLD_DL_LINKMAP) != 0;
  const bool library = found && loaded && loaded->l_name && *loaded->l_name; // the binary's name is empty
  std::error_code error;
  const auto file = library ? std::filesystem::canonical(loaded->l_name, error)
                            : std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return {};
  const auto folder = file.parent_path(), other = folder / (library ? "dtc" : "../lib/dtc");
  return {folder.string(), other.lexically_normal().string()};
}

std::string userPluginFolder() {
  if (const char* data = std::getenv("XDG_DATA_HOME"); data && data[0] == '/')
    return std::string(data) + "/dtc/plugins";
  const char* home = std::getenv("HOME");
  return home && home[0] == '/' ? std::string(home) + "/.local/share/dtc/plugins" : "";
}

} // namespace dtc
