#pragma once
// Options shared by all verbs that read a program, and the functions that load it.
#include "Environment.h"
#include "dtc/IR/text/Text.h"
#include "dtc/Passes/pipeline/StandardPipeline.h"
#include <optional>

namespace CLI {
class App;
}

namespace dtc {

struct ProgramOptions {
  std::string file;
  std::string entry; // "@f" or "f"; empty if not given
  std::vector<std::string> meshes, dims;
};

// Writes a verb's output to the file of -o, or to standard output for "-". Returns the exit code.
[[nodiscard]] int writeOut(Environment&, const std::string& path, const std::string& text);

// Declares FILE, --entry, --mesh and --dim.
void addProgramOptions(CLI::App&, ProgramOptions&);

// Converts --mesh and --dim to parse options. Error (Usage): malformed values.
[[nodiscard]] Result<ParseOptions> parseOptionsOf(const ProgramOptions&);

// Reads the text of FILE. Error: for example an unsupported format. `hlo`: accept XLA's HLO text.
[[nodiscard]] Result<SourceText> readProgram(Environment&, const ProgramOptions&, bool hlo = false);
// Reads, parses and verifies FILE. Diagnostics are reported; the error then has no message.
[[nodiscard]] Result<Module> loadProgram(Environment&, const ProgramOptions&);
// The same for text in memory; text that looks like MLIR is imported.
[[nodiscard]] Result<Module> loadText(Environment&, SourceText, const ParseOptions&);
// The same, but always imports the text as MLIR.
[[nodiscard]] Result<Module> loadImported(Environment&, SourceText);
// Parses .dt text or imports MLIR text, without verification.
[[nodiscard]] bool readText(SourceText, const ParseOptions&, Module&, Diagnostics&);

// Lowering flags, shared by all verbs that lower a program.
struct LoweringFlags {
  int optLevel = 1;
  std::string policy, reduceDType, reductionOrder = "any";
  bool libraryGelu = false;
  bool strictNonFinite = false, noOverlap = false;
  friend bool operator==(const LoweringFlags&, const LoweringFlags&) = default;
  [[nodiscard]] StandardPipelineOptions pipeline(std::string target = "cpu") const;
};
// Declares -O, --policy, --reduce-dtype, --strict-nonfinite, --reduction-order and --no-overlap.
void addLoweringOptions(CLI::App&, LoweringFlags&);
// Declares the propagation flags: --policy, --reduce-dtype and --strict-nonfinite.
void addPropagationOptions(CLI::App&, LoweringFlags&);
// Error (Usage): an invalid value of --policy or --reduce-dtype.
[[nodiscard]] Status checkChoices(const LoweringFlags&);

// Notes each flag that only passes of lower levels than the text's read.
void noteIdleFlags(Environment&, const LoweringFlags&, Level from);

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

} // namespace dtc
