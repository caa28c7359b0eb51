#include "SameFiles.h"
#include "TrainRun.h"

#include "dtc/Files/Inputs.h"

#include <filesystem>
#include <set>

namespace dtc {

Result<std::string> filesText(const RunOptions& o, std::span<const TensorSource> sources) {
  std::set<std::string> paths;
  for (const TensorSource& s : sources)
    if (s.file()) paths.insert(s.file()->path());
  for (const std::string& text : o.inputs) {
    DTC_TRY(const auto binding, parseInputBinding(text));
    paths.insert(binding.path);
  }
  if (holdsProgram(o.program.file)) paths.insert(o.program.file);
  for (const auto& [flag, texts] : {std::pair("--data", &o.train.data), std::pair("--eval", &o.train.eval)})
    for (const std::string& text : *texts) {
      DTC_TRY(const auto spec, parseDataSpec(flag, text));
      paths.insert(spec.path);
    }
  std::string lines;
  for (const std::string& path : paths) {
    std::error_code unknown;
    if (!std::filesystem::is_regular_file(path, unknown)) continue; // a folder, whose files are in `sources`
    DTC_TRY(const auto file, InputFile::open(path));
    DTC_TRY(const std::string digest, file.digest());
    lines += path + ": " + digest + "\n";
  }
  return lines;
}

} // namespace dtc
