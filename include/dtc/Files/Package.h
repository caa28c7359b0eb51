#pragma once
// A compiled program as one file, `.dtcpkg`: a zip archive with
//   manifest.json   what it is, what it needs, its arguments, results and weights
//   program.dt      the scheduled program with its memory plan
//   kernels/KEY.*   the machine code of each kernel: .o for the CPU, .cubin and its report .txt for a GPU
//   weights/N       the bytes of an argument that travels with the program, aligned to be mapped
// (docs/ahead-of-time.md). The text is read as any other; the machine code is executed: a package is as trusted as a
// binary.
#include "dtc/Files/TensorArchive.h"
#include "dtc/Files/TensorFiles.h"
#include <map>

namespace dtc {

inline constexpr int64_t kPackageFormat = 2;

// What a reader needs of the manifest; the rest is for people and tools.
struct PackageNeeds {
  int64_t format = 0;
  std::string version;  // of dtc; kernels are found only by the same version
  std::string target;   // "cpu", "sm_90a"
  std::string cpuLevel; // "avx2"
  std::string entry;    // function of the program, without @
  int optLevel = 1;
};

// An argument whose value is in the package.
struct PackageWeight {
  std::string argument; // without %
  std::string entry;    // "weights/0"; arguments of one value share it
  TensorSource value;   // a range of the package, when it is read
};

struct Package {
  PackageNeeds needs;
  std::string manifest, program;
  std::map<std::string, std::string> kernels; // by key
  std::vector<PackageWeight> weights;
};

// Whether a file's first bytes are those of a package.
[[nodiscard]] bool looksLikePackage(std::string_view content);
// Of the file at a path; false if it cannot be read.
[[nodiscard]] bool isPackageFile(const std::string& path);
// The manifest is read first. Errors (Input): of another format or version, which the message names, before anything
// else is read; not a package, damaged, or without a part. The checksums of weights are not compared.
[[nodiscard]] Result<Package> readPackage(std::shared_ptr<const InputFile> file);
// `needs` is not written: it is part of the manifest, as are the weights (weightsJson); its target names the entries.
[[nodiscard]] Status writePackage(const Package& package, const ByteSink& sink);
// The manifest's list of the weights.
[[nodiscard]] std::string weightsJson(std::span<const PackageWeight> weights);

// The weights of a package as a file of tensors, by the names of the arguments.
[[nodiscard]] Result<std::unique_ptr<TensorArchive>> openPackageWeights(InputFile);

} // namespace dtc
