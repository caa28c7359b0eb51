#pragma once
// Meshes and shardings that the command line adds to a program: a program without annotations, such as an imported one,
// is sharded without an edit of its text.
#include "dtc/IR/text/Text.h"
#include "dtc/Support/Result.h"

namespace dtc {

// What the command line says about a program.
struct ReadOptions : ParseOptions {
  struct ArgumentSharding { // --sharding 'w=@pod{_, tp}'
    std::string argument;   // its name, the name in the imported program, or a pattern with * and ?
    std::string sharding;
  };
  std::vector<ArgumentSharding> shardings;
  // --bind axes=FILE.npy: inputs whose values an import needs (ImportOptions::bindings), and their files.
  std::vector<std::pair<std::string, std::string>> bindings = {};
  bool keepWeights = false; // ImportOptions::keepWeights
};

// Declares the meshes of `options.meshes` in a program that has none. Error (Usage): not a name, too many devices.
[[nodiscard]] Status declareMeshes(Module&, const ReadOptions&);
// Shards the arguments of the entry functions, whatever the text says of them. Error (Usage): an unknown argument, or a
// sharding that does not parse or does not fit the argument's rank.
[[nodiscard]] Status shardArguments(Module&, std::span<const FuncId> entries, const ReadOptions&);

} // namespace dtc
