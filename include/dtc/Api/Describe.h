#pragma once
// The arguments, results and mesh of a lowered program.
#include "dtc/Files/TensorArchive.h"
#include "dtc/IR/Module.h"

namespace dtc {

// An argument or a result.
struct TensorInfo {
  std::string name;           // in the program; for a result without a name its position
  std::string userName;       // {name = "…"}: its name in the program that was imported; may be empty
  DType dtype = DType::F32;   // of the whole tensor
  std::vector<int64_t> shape; // likewise
  std::string sharding;       // "{dp, _}"; empty if all devices hold the whole tensor
  bool donated = false;       // an argument: its value is undefined after a run
  int64_t carried = -1;       // the result that the next step takes as this argument, and the other way round
};

// The name under which a file has an argument: the one in the program that was imported takes precedence. "": it has none.
[[nodiscard]] std::string nameIn(const TensorArchive&, const TensorInfo& argument);

struct MeshInfo {
  std::string name; // empty: a program without a mesh
  std::vector<std::pair<std::string, int64_t>> axes;
  std::vector<int64_t> devices; // as written; empty: 0, 1, 2, …
  int64_t numDevices = 1;
};

struct ProgramInfo {
  std::vector<TensorInfo> arguments, results;
  MeshInfo mesh;
};

// A program before it is compiled: symbolic sizes are -1 in shapes.
struct ProgramSignature {
  ProgramInfo info;
  std::vector<std::vector<std::string>> argumentSizes,
      resultSizes; // of each dim as written: "B", "2*B", "64"
};
[[nodiscard]] ProgramSignature signatureOf(const Module&, FuncId entry);

// `kept`: which arguments have the same value after a run (Executable::keptArguments).
[[nodiscard]] ProgramInfo describeProgram(const Module&, FuncId entry, const std::vector<bool>& kept);

// Error (Input): a file of tensors has one of no argument. The weights of a program's file may all be unused.
[[nodiscard]] Status checkMatches(const TensorArchive&, const ProgramInfo&);

} // namespace dtc
