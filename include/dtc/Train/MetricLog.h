#pragma once
// `--log`: a file with a line of JSON per step of a training run.
#include "dtc/Support/NonCopyable.h"
#include "dtc/Support/Result.h"
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>

namespace dtc {

class MetricLog : NonCopyable {
public:
  // A run that begins at step 0 replaces the file. One that resumes after `steps` steps keeps the lines of
  // these, and drops later ones, of steps that are taken again, and an incomplete last one. Error
  // (Machine): it cannot be written.
  [[nodiscard]] static Result<std::unique_ptr<MetricLog>> open(const std::string& path, int64_t steps);
  // Lines go to `print` instead of a file.
  using Print = std::function<Status(const std::string&)>;
  explicit MetricLog(Print print) : print_(std::move(print)) {}
  ~MetricLog(); // removes the file if open() created it and it is empty, as after an error of its first line

  // Adds a line, and passes it on to the system.
  [[nodiscard]] Status add(const std::string& line);
  // After the last line. Some file systems report only then that they could not store a line.
  [[nodiscard]] Status close();

private:
  MetricLog(std::string path, std::FILE* file, bool created)
      : path_(std::move(path)), file_(file), created_(created) {}
  std::string path_;
  std::FILE* file_ = nullptr;
  bool created_ = false; // by open()
  Print print_;
};

} // namespace dtc
