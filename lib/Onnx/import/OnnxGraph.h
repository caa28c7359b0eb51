#pragma once
// A model as a neutral graph (Import/graph/Graph.h): names resolved, functions inlined, initializers as weights
// or constants.
#include "dtc/Files/OnnxWeights.h"
#include "dtc/Import/graph/Graph.h"
#include "dtc/Import/program/Format.h"
#include <unordered_map>

namespace dtc::onnx {

struct NodeInfo {
  const NodeProto* proto = nullptr;
};

struct Program {
  ImportFile file;
  std::unordered_map<const ImportNode*, NodeInfo> nodes;
  std::vector<int32_t> elements; // ElementType of ImportFile::values; kUndefined: that of the dtype
  // The multi-device annotations of nodes, with the values that they name.
  struct Annotation {
    uint32_t value = 0;
    const ShardingSpec* sharding = nullptr;
    const ImportNode* node = nullptr;
  };
  std::vector<Annotation> annotations;
};

// `symbols`: the names of the symbolic sizes. Errors (Input): the model as a whole cannot be imported (no graph, an opset that is too old, an unknown name in
// `bindings`, …). Symbolic sizes are interned in the module's tables.
[[nodiscard]] Status buildProgram(const ModelProto&, const ModelPlace&, const ImportOptions&, Module&,
                                  Program& out, std::vector<std::string>& symbols);

} // namespace dtc::onnx
