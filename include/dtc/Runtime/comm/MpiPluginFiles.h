#pragma once
// The sources of the plugin dtc-mpi.so, which is built against the MPI of a machine: `dtc plugin build mpi`.
#include "dtc/Support/EmbeddedFile.h"
#include <span>

namespace dtc {

[[nodiscard]] std::span<const EmbeddedFile> mpiPluginFiles(); // generated

} // namespace dtc
