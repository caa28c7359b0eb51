#pragma once
// Where the tensors of a program are, in the member "dtc" of its JSON, which dtc's Python package writes:
//
//   {"mesh": {"name": "m", "axes": [["dp", 2], ["tp", 4]]},
//    "inputs": {"primals_1": "{tp, _}"}, "outputs": {"mm": "{dp, _}"},
//    "names": {"mm": "up.weight.grad"},
//    "local": true, "groups": {"3": ["tp"]}, "captured": true, "frozen": ["arg0_1"]}
//
// A local program is that of one device: its shapes are those of shards. A captured one is not a file of the
// user: torch.compile or dtc's Python package made it. Frozen inputs seldom change.
#include "dtc/Import/graph/Graph.h"
#include "dtc/Support/Result.h"
#include <map>
#include <nlohmann/json.hpp>

namespace dtc {

struct TorchPlacement {
  std::string mesh; // "": none
  std::vector<std::pair<std::string, int64_t>> axes;
  std::map<std::string, std::string, std::less<>> inputs, outputs; // shardings, by the values' names
  std::map<std::string, std::string, std::less<>> names;           // the user's, of inputs and outputs
  bool local = false, captured = false;
  std::vector<std::string> frozen;                                     // inputs
  std::map<std::string, std::vector<std::string>, std::less<>> groups; // axes of process groups
};

// Throws TorchSchemaError.
[[nodiscard]] TorchPlacement readPlacement(const nlohmann::json& program);

// Declares the mesh, before the import.
void declareMesh(Module&, const TorchPlacement&);
// Gives collectives the argument "dtc.axes", where the axes of their group are known.
void nameGroups(ImportFile&, const TorchPlacement&);
// Marks frozen arguments of @main, the imported graph.
void markFrozen(Module&, const ImportFile&, const TorchPlacement&);
// Gives the arguments and results of @main, the imported graph, their shardings; makes a local program
// `spmd`. Errors complete "FILE … its program".
[[nodiscard]] Status placeArguments(Module&, const ImportFile&, const TorchPlacement&);

} // namespace dtc
