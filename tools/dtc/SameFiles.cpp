#include "SameFiles.h"
#include "TrainRun.h"

#include "dtc/Files/Inputs.h"

#include <filesystem>
#include <set>

namespace dtc {

// Of an absolute path, hosts may have other names for the folder.
std::string writtenFolders(const RunOptions& o) {
  std::string lines;
  const auto add = [&](const char* flag, const std::string& path) {
    std::error_code unknown;
    if (!path.empty() && std::filesystem::path(path).is_relative())
      lines +=
          std::string(flag) + ": " + path + " in " + std::filesystem::current_path(unknown).string() + "\n";
  };
  add("--checkpoint", o.train.checkpoint);
  for (const std::string& output : o.outputs)
    if (!output.ends_with(".npz"))
      add("--output", output.substr(output.find('=') + 1)); // all of it without '='
  return lines;
}

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
