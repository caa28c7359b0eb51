#pragma once
// models/model.json of a .pt2 file, and the same JSON of an FX graph, as a graph of ATen ops.
#include "dtc/Import/graph/Graph.h"
#include "dtc/Support/Result.h"
#include "read/Placement.h"
#include "read/Symbols.h"

namespace dtc {

// Reads an ExportedProgram of schema version 8. Targets lose their prefix: "aten.add.Tensor". Errors (Input)
// complete "FILE …": they name the part that is malformed.
[[nodiscard]] Result<ImportFile> readTorchProgram(const std::string& text, TorchSymbols&, TorchPlacement&);

} // namespace dtc
