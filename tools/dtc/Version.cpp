// dtc --version: the version, the commit, and the libraries that programs are compiled with.
#include "Version.h"

#include "dtc/Commit.h"
#include "dtc/Cuda/Nvrtc.h"
#include "dtc/Runtime/backend/cpu/CpuBackend.h"
#include "dtc/Version.h"

namespace dtc {

std::string versionText() {
  std::string text = "dtc " DTC_VERSION "\n";
  if (const std::string_view commit = DTC_COMMIT; !commit.empty())
    text += "commit " + std::string(commit) + "\n";
  for (const CpuLibraryInfo& library : cpuLibraries())
    text += library.name + (library.version.empty() ? " not found" : " " + library.version) + "\n";
  const auto nvrtc = Nvrtc().version();
  return text + "NVRTC " + (nvrtc ? *nvrtc : "not found") + "\n";
}

} // namespace dtc
