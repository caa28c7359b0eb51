#pragma once
// Packages: programs that were compiled ahead of time (Files/Package.h), written and checked.
#include "dtc/Files/Package.h"
#include "dtc/Session/Session.h"

namespace dtc {

// Lowers and loads the program for the CPU, and returns the bytes of its package. Errors in the program are
// reported as diagnostics.
[[nodiscard]] Result<std::string> makePackage(Session& session, int optLevel, Diagnostics& diags);

// Error (Input): the package is of another format or version, or for another target; (Machine): this CPU lacks
// instructions that it needs. The message says which.
[[nodiscard]] Status checkFits(const Package& package, const std::string& path);
// How the JIT finds the kernels of a package that fits.
[[nodiscard]] JitConfig packagedKernels(const Package& package, JitConfig config = {});

} // namespace dtc
