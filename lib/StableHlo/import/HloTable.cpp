#include "import/HloTable.h"

#include <map>

namespace dtc {

namespace {

using Family = std::span<const HloRow> (*)();
constexpr std::string_view kMhloCall = "custom_call @mhlo.";
constexpr Family kFamilies[] = {
    hloElementwiseRows, hloShapeRows,         hloContractRows, hloControlRows,    hloNormalizeRows,
    hloCheckRows,       hloReduceRows,        hloWindowRows,   hloSortRows,       hloSliceRows,
    hloScatterRows,     hloComplexRows,       hloShardyRows,   hloCollectiveRows, hloMathRows,
    hloConvolutionRows, hloLinearAlgebraRows, hloRandomRows,   hloDynamicRows,    hloOlderRows,
    hloFactorRows,      hloRaggedRows,        hloParallelRows, hloFunctionRows,
};

using RowsByName = std::map<std::string, const HloRow*, std::less<>>;
const RowsByName& rowsByName() {
  static const RowsByName rows = [] {
    RowsByName all;
    for (Family f : kFamilies)
      for (const HloRow& r : f()) {
        std::string name = r.name;
        const size_t letter = name.find('?');
        for (const char dtype : std::string_view("sdcz")) {
          if (letter != name.npos) name[letter] = dtype;
          all.emplace(name, &r);
        }
      }
    return all;
  }();
  return rows;
}

} // namespace

const HloRow* findHloRow(std::string_view name) {
  const auto row = [](std::string_view dialect, std::string_view op) -> const HloRow* {
    const auto found = rowsByName().find(std::string(dialect) + std::string(op));
    return found == rowsByName().end() ? nullptr : found->second;
  };
  if (const HloRow* own = row("", name)) return own;
  if (name.starts_with(kMhloCall)) return row("chlo.", name.substr(kMhloCall.size()));
  if (name.starts_with(kHloBroadcast) && hloBroadcastRow(name)) return row("", kHloBroadcast);
  if (!name.starts_with("mhlo.")) return nullptr;
  const HloRow* stable = row("stablehlo.", name.substr(5));
  return stable ? stable : row("chlo.", name.substr(5));
}

const HloRow* hloBroadcastRow(std::string_view name) {
  const std::string op(name.substr(kHloBroadcast.size()));
  const HloRow* stable = findHloRow("stablehlo." + op);
  return stable ? stable : findHloRow("chlo." + op);
}

std::vector<std::string_view> hloNames() {
  std::vector<std::string_view> names;
  for (const auto& [name, row] : rowsByName()) names.emplace_back(name);
  return names;
}

} // namespace dtc
