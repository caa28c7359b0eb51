#pragma once
// Finds the plugin dtc-mpi.so.
#include "comm/MpiPlugin.h"
#include "dtc/Support/Result.h"

namespace dtc {

// Error (Machine): it is missing (with what to install), or belongs to another version of dtc.
[[nodiscard]] Result<const DtcMpiTable*> openMpiPlugin();

// Error (Usage): srun has started this process and others, which MPI cannot connect; its initialization would abort.
[[nodiscard]] Status checkSrun();

// Error (Usage): a launcher has started several processes, but the MPI of the plugin, which has this version, sees one.
[[nodiscard]] Status checkLauncher(int size, const std::string& version);

} // namespace dtc
