#pragma once
// The manifest of a package, as far as a reader needs it.
#include "dtc/Files/Package.h"

namespace dtc {

// Only the format and the version, if they are of another dtc. Error (Input): invalid.
[[nodiscard]] Result<PackageNeeds> neededBy(const std::string& manifest);
// Why this dtc does not read such a package, "is a package of format 3, …"; "" if it does.
[[nodiscard]] std::string ofOtherDtc(const PackageNeeds& needs);

struct ListedWeight {
  std::string argument, entry;
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  int64_t bytes = 0;
};
[[nodiscard]] Result<std::vector<ListedWeight>> listedWeights(const std::string& manifest);

} // namespace dtc
