#pragma once
// Results of a run as tensors of a Python package; all of them share the memory that the run wrote.
#include "dtc/dtc.h"
#include <nanobind/nanobind.h>

namespace dtc::python {

// `like`: a tensor type with DLPack's exchange functions, or a function that takes an object with __dlpack__
// (jax.dlpack.from_dlpack), or None for NumPy arrays. Takes the tensor.
[[nodiscard]] nanobind::object toPython(dtc_tensor* tensor, nanobind::handle like);

// A row-major copy as a NumPy array; of dtypes that NumPy lacks, the bits. `name`: the argument's.
[[nodiscard]] nanobind::object copiedToNumpy(const dtc_buffer&, const char* name);

} // namespace dtc::python
