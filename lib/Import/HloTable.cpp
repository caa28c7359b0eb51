#include "HloTable.h"

#include <unordered_map>

namespace dtc {

namespace {

using Family = std::span<const HloRow> (*)();
constexpr Family kFamilies[] = {
    hloElementwiseRows, hloShapeRows,         hloContractRows, hloControlRows,    hloNormaliseRows,
    hloCheckRows,       hloReduceRows,        hloWindowRows,   hloSortRows,       hloSliceRows,
    hloScatterRows,     hloComplexRows,       hloShardyRows,   hloCollectiveRows, hloMathRows,
    hloConvolutionRows, hloLinearAlgebraRows, hloRandomRows,   hloDynamicRows,    hloOlderRows,
    hloFactorRows,      hloSpectralRows,      hloRaggedRows,   hloParallelRows,
};

const std::unordered_map<std::string_view, const HloRow*>& rowsByName() {
  static const std::unordered_map<std::string_view, const HloRow*> rows = [] {
    std::unordered_map<std::string_view, const HloRow*> all;
    for (Family f : kFamilies)
      for (const HloRow& r : f()) all.emplace(r.name, &r);
    return all;
  }();
  return rows;
}

} // namespace

const HloRow* findHloRow(std::string_view name) {
  auto found = rowsByName().find(name);
  return found == rowsByName().end() ? nullptr : found->second;
}

std::vector<std::string_view> hloNames() {
  std::vector<std::string_view> names;
  for (Family f : kFamilies)
    for (const HloRow& r : f()) names.emplace_back(r.name);
  return names;
}

} // namespace dtc
