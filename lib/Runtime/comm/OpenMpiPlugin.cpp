#include "comm/OpenMpiPlugin.h"

#include "dtc/Runtime/comm/Processes.h"
#include "dtc/Support/LibraryIdentity.h"
#include "dtc/Support/OutOfMemory.h"

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

namespace dtc {

Result<const DtcMpiTable*> openMpiPlugin() {
  std::string searched;
  std::vector<std::string> folders = pluginFolders();
  if (std::string own = userPluginFolder(); !own.empty()) folders.push_back(std::move(own));
  for (const std::string& folder : folders) {
    searched += (searched.empty() ? "" : " and ") + folder;
    const std::string path = folder + "/dtc-mpi.so";
    if (libraryIdentity(path).empty()) continue;
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) return machineError("cannot open the plugin " + path + ": " + whyNotOpened(dlerror()));
    const auto entry = reinterpret_cast<DtcMpiEntry>(dlsym(library, "dtcMpiTable"));
    if (!entry || entry()->abi != kDtcMpiAbi)
      return machineError("the plugin " + path +
                          " belongs to another version of dtc: run `dtc plugin build mpi`");
    return entry();
  }
  return machineError("--comm mpi needs the plugin dtc-mpi.so, which was not found in " + searched +
                      "; install MPI (libopenmpi-dev and openmpi-bin), then run `dtc plugin build mpi`");
}

ProcessTransport transportOfLauncher() {
  const auto several = [](const char* variable) {
    const char* count = std::getenv(variable);
    return count && std::atoi(count) > 1;
  };
  if (several("OMPI_COMM_WORLD_SIZE") || several("PMI_SIZE") ||
      (std::getenv("PMIX_RANK") && several("SLURM_NTASKS")))
    return ProcessTransport::Mpi;
  const char* size = std::getenv("WORLD_SIZE");
  const bool one = size && std::strcmp(size, "1") == 0;
  return std::getenv("RANK") && size && !one ? ProcessTransport::Tcp : ProcessTransport::None;
}

LaunchedProcess launchedProcess() {
  const auto number = [](const char* variable) {
    const char* value = std::getenv(variable);
    return value ? std::atoi(value) : -1;
  };
  struct Variables {
    const char *launcher, *rank, *size;
  };
  constexpr Variables kKnown[] = {{"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                  {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
                                  {"mpirun", "PMI_RANK", "PMI_SIZE"},
                                  {"torchrun", "RANK", "WORLD_SIZE"}};
  for (const Variables& v : kKnown)
    if (number(v.rank) >= 0 && number(v.size) > 1) return {v.launcher, number(v.rank), number(v.size)};
  return {};
}

Status checkSrun() {
  const char* count = std::getenv("SLURM_STEP_NUM_TASKS");
  if (!count || std::atoi(count) <= 1) return Ok{};
  for (const char* variable : {"PMIX_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_MPI_TYPE"})
    if (const char* given = std::getenv(variable); given && std::strcmp(given, "none") != 0) return Ok{};
  return usageError(
      "srun has started " + std::string(count) +
      " processes without an interface to MPI: add --mpi=pmix to srun (`srun --mpi=list` prints "
      "the interfaces that Slurm has)");
}

Status checkLauncher(int size, const std::string& version) {
  if (size > 1) return Ok{};
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "WORLD_SIZE"}) {
    const char* count = std::getenv(variable);
    if (!count || std::atoi(count) <= 1) continue;
    if (variable[0] == 'W')
      return usageError("WORLD_SIZE is " + std::string(count) +
                        ", but MPI has one process: torchrun does not start MPI, use mpirun or srun");
    return usageError(
        std::string(variable) + " is " + count + ", but " + version.substr(0, version.find(',')) +
        " has one process: the plugin dtc-mpi.so is for another MPI than mpirun; build it again with "
        "`dtc plugin build mpi`");
  }
  return Ok{};
}

} // namespace dtc
