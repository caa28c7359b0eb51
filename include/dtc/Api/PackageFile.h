#pragma once
// Packages: programs that were compiled ahead of time (Files/Package.h), written and checked.
#include "dtc/Files/Package.h"
#include "dtc/Session/Session.h"

namespace dtc {

// Lowers the program and compiles its kernels for the target of the session, "cpu" or a GPU that need not be here. The
// package has the arguments of which `archive` has tensors; it may be null, and must live as long as the package. Errors
// in the program are reported as diagnostics.
[[nodiscard]] Result<Package> makePackage(Session& session, const std::string& target, int optLevel,
                                          TensorArchive* archive, Diagnostics& diags);

// Error (Input): the package is for an unknown target; (Machine): this CPU lacks instructions that it needs. The message
// says which.
[[nodiscard]] Status checkFits(const Package& package, const std::string& path);
// How the JIT finds the kernels of a package that fits.
[[nodiscard]] JitConfig packagedKernels(const Package& package, JitConfig config = {});
// The options of the cuda backend with which it makes the kernels that the package has.
[[nodiscard]] CudaOptions packagedCuda(const Package& package);

} // namespace dtc
