#include "dtc/Support/LibraryIdentity.h"

#include <sys/stat.h>

namespace dtc {

std::string libraryIdentity(const std::string& path) {
  struct stat info;
  if (path.empty() || stat(path.c_str(), &info) != 0) return {};
  return path + " " + std::to_string(info.st_size) + " " + std::to_string(info.st_mtim.tv_sec) + "." +
         std::to_string(info.st_mtim.tv_nsec);
}

} // namespace dtc
