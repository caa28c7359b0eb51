#pragma once
// The files that the processes of a run read, which are to be the same on all hosts.
#include "Execute.h"
#include "dtc/Files/TensorSource.h"
#include <span>
#include <string>

namespace dtc {

// A line for each relative path that all processes write to: they need the same working directory.
[[nodiscard]] std::string writtenFolders(const RunOptions&);

// A line for each file of --input, --data and --eval, with what tells it from a file of other content
// (InputFile::digest). `sources`: the values of the arguments, which may be in files that others name.
[[nodiscard]] Result<std::string> filesText(const RunOptions&, std::span<const TensorSource> sources);

} // namespace dtc
