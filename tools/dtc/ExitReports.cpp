#include "ExitReports.h"

#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace dtc {

constexpr const char* kVariable =
    "DTC_LAUNCH_REPORTS"; // the path; processes of other hosts do not have the file

void reportExit(int code) {
  const char* path = std::getenv(kVariable);
  const int fd = path ? open(path, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;
  if (fd < 0) return;
  const std::string line = std::to_string(code) + "\n";
  (void)!write(fd, line.data(), line.size());
  close(fd);
}

ExitReports::ExitReports() {
  std::error_code unknown;
  std::string path = std::filesystem::temp_directory_path(unknown) / "dtc-launch-XXXXXX";
  const int fd = mkostemp(path.data(), O_CLOEXEC);
  if (fd < 0) return;
  close(fd);
  path_ = path;
  setenv(kVariable, path.c_str(), 1);
}

ExitReports::~ExitReports() {
  if (path_.empty()) return;
  unsetenv(kVariable);
  unlink(path_.c_str());
}

std::vector<int> ExitReports::take() {
  std::vector<int> codes;
  if (path_.empty()) return codes;
  std::ifstream file(path_);
  for (int code = 0; file >> code;) codes.push_back(code);
  (void)!truncate(path_.c_str(), 0);
  return codes;
}

} // namespace dtc
