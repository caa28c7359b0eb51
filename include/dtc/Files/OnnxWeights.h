#pragma once
// The weights of an ONNX model: the tensors that its program has as arguments.
#include "dtc/Files/OnnxTensor.h"
#include "dtc/Files/TensorArchive.h"

namespace dtc::onnx {

// Whether a tensor is a constant of the program rather than an argument: it is small, or of a type that only its
// reader can report.
[[nodiscard]] bool isInline(const TensorProto&);
// The tensor that a Constant node has in its attribute `value`; nullptr for other nodes.
[[nodiscard]] const TensorProto* constantTensor(const NodeProto&);
[[nodiscard]] bool isDefaultDomain(std::string_view domain);

// A tensor of the file that is an argument of the program, and its name there.
struct Weight {
  std::string name;
  const TensorProto* tensor = nullptr;
};
// The initializers (and constants) of a model that become arguments: all but small ones, which are constants of the
// program. In the order of the arguments.
[[nodiscard]] std::vector<Weight> weightsOf(const ModelProto&);

// Whether the first bytes of a file are those of a model: fields of the message that every model is, among them its
// version.
[[nodiscard]] bool looksLikeOnnx(std::string_view head);
// Reads a model for its weights.
[[nodiscard]] Result<std::unique_ptr<TensorArchive>> openOnnxWeights(InputFile, std::string folder);

} // namespace dtc::onnx
