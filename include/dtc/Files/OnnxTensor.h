#pragma once
// The elements of a TensorProto.
#include "dtc/Files/OnnxTypes.h"
#include "dtc/Files/TensorSource.h"

namespace dtc::onnx {

// Where a model and its external data are.
struct ModelPlace {
  std::shared_ptr<const InputFile> file; // the model itself; may be in memory
  std::string folder;                    // of external data; "" is the working directory
};

// Its shape, and the dtype that holds it. Errors: a type or a size that is not supported.
[[nodiscard]] Status checkTensor(const TensorProto&);
// Its value. `checkTensor` holds. Data of a file (external, and raw_data of types that are not held in another)
// stay there. Errors (Input) name the tensor: too few or too many elements, an external file that is not below
// the model's folder or too short.
[[nodiscard]] Result<TensorSource> tensorSource(const TensorProto&, const ModelPlace&);
// The same, in memory.
[[nodiscard]] Result<Tensor> tensorOf(const TensorProto&, const ModelPlace&);

} // namespace dtc::onnx
