#pragma once
// What a compilation through the API can be asked for: the flags of `dtc run`, by the same names and with the
// same values, so that their documentation and messages apply.
#include "dtc/Session/ProgramText.h"
#include "dtc/Session/Session.h"

namespace dtc {

struct CompileOptions {
  ProgramOptions program; // entry, meshes, dims; `file` is unused
  LoweringFlags lowering;
  BackendChoice backend;
  bool graphs = true, hostPredicates = false;
  std::vector<std::string> given; // the names of options that were set
  // Shapes of arguments by position, from which symbolic sizes are inferred. Empty: not given.
  std::vector<std::optional<std::vector<int64_t>>> argumentShapes;

  // Sets an option, "opt-level" to "2". "mesh" and "dim" may be given several times. Flags without a value take
  // "true" and "false". Error (Usage): an unknown name, or a value that it does not take.
  [[nodiscard]] Status set(std::string_view name, std::string_view value);
  [[nodiscard]] static std::vector<std::string_view> names();
};

// Options of a context: "threads" (0: one per core), "cache-dir", "plugin-dir", "no-cache".
struct ContextOptions {
  int threads = 0;
  JitConfig jit;
  [[nodiscard]] Status set(std::string_view name, std::string_view value);
  [[nodiscard]] static std::vector<std::string_view> names();
};

} // namespace dtc
