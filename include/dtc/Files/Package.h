#pragma once
// A compiled program as one file, `.dtcpkg`: a zip archive with
//   manifest.json   what it is, what it needs, its arguments and results
//   program.dt      the scheduled program with its memory plan
//   kernels/KEY.o   the machine code of each kernel, as the JIT's cache has it
// (docs/ahead-of-time.md). The text is read as any other; the machine code is executed: a package is as trusted as a
// binary.
#include "dtc/Files/InputFile.h"
#include <map>

namespace dtc {

inline constexpr int64_t kPackageFormat = 1;

// What a reader needs of the manifest; the rest is for people and tools.
struct PackageNeeds {
  int64_t format = 0;
  std::string version;  // of dtc; kernels are found only by the same version
  std::string target;   // "cpu"
  std::string cpuLevel; // "avx2"
  std::string entry;    // function of the program, without @
  int optLevel = 1;
};

struct Package {
  PackageNeeds needs;
  std::string manifest, program;
  std::map<std::string, std::string> kernels; // by key
};

// Whether a file's first bytes are those of a package.
[[nodiscard]] bool looksLikePackage(std::string_view content);
// Errors (Input): not a package, damaged, or without a part.
[[nodiscard]] Result<Package> readPackage(const InputFile& file);
// `needs` is not written: it is part of the manifest.
[[nodiscard]] std::string packageBytes(const Package& package);

} // namespace dtc
