#pragma once
// A program's text as a verified module, the choice of its entry, and the options that change what the text
// says. Shared by the driver and lib/Api, so that both accept and refuse the same programs.
#include "dtc/IR/text/Text.h"
#include "dtc/Passes/pipeline/StandardPipeline.h"
#include "dtc/Session/Annotate.h"
#include "dtc/Support/Result.h"
#include <cstdio>

namespace dtc {

inline constexpr size_t kMaxProgramBytes = 256u << 20; // the parser's limit

struct ProgramOptions {
  std::string file;
  std::string entry; // "@f" or "f"; empty if not given
  std::vector<std::string> meshes, dims, shardings, bindings;
};

// The content of a file, or of a stream to its end. Stops soon after `limit` bytes: a longer text is how
// callers detect oversized input. Error: why it cannot be read (Machine, or Input for a wrong name).
[[nodiscard]] Result<SourceText> readFile(const std::string& path, size_t limit = kMaxProgramBytes);
[[nodiscard]] std::string readStream(std::FILE*, size_t limit);

// Converts --mesh, --dim, --sharding and --bind. Error (Usage): malformed values.
[[nodiscard]] Result<ReadOptions> parseOptionsOf(const ProgramOptions&);
// Of a program whose format has no inputs that are bound at import. Error (Usage): --bind is given.
[[nodiscard]] Status checkNoBindings(const ProgramOptions&);

// Parses .dt text or imports MLIR text, without verification.
[[nodiscard]] bool readText(SourceText, const ParseOptions&, Module&, Diagnostics&);
// Adds the meshes and shardings of the options (Annotate.h) to a program that was read.
[[nodiscard]] Status annotate(Module&, const ReadOptions&);
// Both, verified and with the overrides checked. `m` has the operations' registry and nothing else; its
// source is what diagnostics refer to, also after an error. Errors of the program are in the diagnostics; the
// error then has no message. Error (Usage): --mesh or --dim does not fit the program.
[[nodiscard]] Status loadText(SourceText, const ReadOptions&, Module& m, Diagnostics&);

// Error (Usage): --mesh names an unknown axis, exceeds the device limit, or contradicts a partitioned
// program.
[[nodiscard]] Status validateOverrides(const Module&, const ParseOptions&, const Diagnostics&);
// Error (Usage): an unknown mesh or symbolic size, or --mesh that contradicts a partitioned
// program. Sizes that a partitioned program no longer names are bound already.
[[nodiscard]] Status checkOverrides(const Module&, const ParseOptions&);

// The entry functions: the one named by --entry; else @main; else all functions that no other function calls.
[[nodiscard]] Result<std::vector<FuncId>> entriesOf(const Module&, const std::string& entry);
// The single entry function. Error (Usage): several candidates, which the message lists.
[[nodiscard]] Result<FuncId> entryOf(const Module&, const std::string& entry);
// Error: a function runs on a part of the devices, which the verb does not support.
[[nodiscard]] Status runsOnAllDevices(const Module&, const std::string& verb);

// Lowering flags, shared by all verbs that lower a program.
struct LoweringFlags {
  int optLevel = 1;
  std::string policy, reduceDType, reductionOrder = "any", recompute, rings;
  std::string pipelineSchedule; // empty: 1f1b for a program with stages and a mesh axis 'pp', else none
  bool libraryGelu = false;
  bool strictNonFinite = false, noOverlap = false;
  bool wholeAxisResults = false; // of JAX, whose shardings have no sub-axes and no shards of different sizes
  friend bool operator==(const LoweringFlags&, const LoweringFlags&) = default;
  [[nodiscard]] StandardPipelineOptions pipeline(std::string target = "cpu") const;
};
// Error (Usage): an invalid value of --policy, --reduce-dtype, --recompute, --rings or --pipeline-schedule.
[[nodiscard]] Status checkChoices(const LoweringFlags&);

// The diagnostic of an error of a run, whose message begins with the location of its op, "gpt.dt:12:8: …".
// Empty if it has no location in this text.
[[nodiscard]] std::optional<Diagnostic> locatedDiagnostic(const Error&, const SourceText&);

} // namespace dtc
