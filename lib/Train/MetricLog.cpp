#include "dtc/Train/MetricLog.h"

#include "dtc/Files/TensorFiles.h"

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace dtc {

static Error cannotWrite(const std::string& path) {
  return machineError("cannot write " + quotedPath(path) + ": " + std::strerror(errno));
}

// The complete lines of the first `steps` steps.
static std::string linesUntil(const std::string& text, int64_t steps) {
  std::string kept;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    if (end == text.npos) break;
    const std::string line = text.substr(begin, end + 1 - begin);
    begin = end + 1;
    const auto object = nlohmann::json::parse(line, nullptr, false);
    const auto step = object.is_object() ? object.find("step") : object.end();
    if (!object.is_object() || step == object.end() || !step->is_number_integer() || *step <= steps)
      kept += line;
  }
  return kept;
}

Result<std::unique_ptr<MetricLog>> MetricLog::open(const std::string& path, int64_t steps) {
  struct stat info;
  const bool exists = lstat(path.c_str(), &info) == 0;
  const bool regular = stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
  if (steps > 0 && regular) {
    DTC_TRY(const auto file, InputFile::open(path));
    DTC_TRY(const auto text, file.text(0, file.size()));
    if (Status s = writeFileAtomically(path, linesUntil(text, steps)); !s) return s.error();
  }
  std::FILE* const file = std::fopen(path.c_str(), steps > 0 ? "ae" : "we");
  if (!file) return cannotWrite(path);
  return std::unique_ptr<MetricLog>(new MetricLog(path, file, !exists));
}

MetricLog::~MetricLog() {
  if (file_) std::fclose(file_);
  struct stat info;
  if (created_ && stat(path_.c_str(), &info) == 0 && info.st_size == 0) unlink(path_.c_str());
}

Status MetricLog::add(const std::string& line) {
  if (print_) return print_(line);
  if (std::fwrite(line.data(), 1, line.size(), file_) == line.size() && std::fflush(file_) == 0) return Ok{};
  return cannotWrite(path_);
}

Status MetricLog::close() {
  std::FILE* const file = std::exchange(file_, nullptr);
  return !file || std::fclose(file) == 0 ? Status(Ok{}) : cannotWrite(path_);
}

} // namespace dtc
