#pragma once
// A format of program files of another framework, and what an importer returns.
#include "dtc/Files/InputFile.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/Import/graph/Problem.h"
#include "dtc/Support/Tensor.h"

namespace dtc {

struct ImportOptions {
  // Values of symbolic sizes (--dim), as in ParseOptions::sizes. Sizes that are not products of symbols, such as
  // s0 + 1, import only if their symbols are bound.
  std::vector<std::pair<std::string, int64_t>> sizes;
  bool report = false; // list the problems instead of reporting them
  // Inputs whose values are known at import (--bind): the program has no such arguments.
  std::vector<std::pair<std::string, Tensor>> bindings = {};
  // Keep weights that are not used, so that the arguments are the same whatever the sizes are.
  bool keepWeights = false;
};

struct ImportedProgram {
  explicit ImportedProgram(const OpRegistry& registry) : module(registry) {}
  // @main; its source is a listing of the file's graph. Not verified. Incomplete if there were problems.
  Module module;
  std::vector<ImportProblem> problems; // with ImportOptions::report
  bool complete = false;               // everything was imported
  std::vector<std::string> symbols;    // the symbolic sizes of the file, bound or not
};

// A row of the driver's table of formats. A format whose files also have values of arguments is one of
// openTensorArchive, too: `dtc run FILE` binds them.
struct GraphFormat {
  std::string_view name;    // "pt2"
  std::string_view summary; // "a program of torch.export.save"
  // Whether a file is of this format, judged by its path and its first bytes (at most 64 KiB).
  bool (*detects)(std::string_view path, std::string_view head);
  // Errors (Input): the file is malformed, before there is a listing to point into. Problems of nodes are
  // reported to `diags`, whose ranges are of the module's source, and leave `complete` false.
  Result<ImportedProgram> (*import)(InputFile, const OpRegistry&, const ImportOptions&, Diagnostics& diags);
};

} // namespace dtc
