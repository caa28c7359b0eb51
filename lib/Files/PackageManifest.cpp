#include "PackageManifest.h"

#include "dtc/Support/ElementCount.h"
#include "dtc/Support/Json.h"
#include "dtc/Support/Words.h"
#include "dtc/Version.h"

#include <nlohmann/json.hpp>

namespace dtc {
namespace {

using json = nlohmann::json;
constexpr size_t kMaxRank = 64;

std::optional<std::string> textOf(const json& object, const char* name) {
  const auto at = object.find(name);
  if (at == object.end() || !at->is_string()) return std::nullopt;
  return at->get<std::string>();
}

std::optional<int64_t> numberOf(const json& object, const char* name, int64_t low, int64_t high) {
  const auto at = object.find(name);
  if (at == object.end() || !at->is_number_integer()) return std::nullopt;
  const auto n = at->get<int64_t>();
  return n < low || n > high ? std::nullopt : std::optional(n);
}

std::optional<std::vector<int64_t>> shapeOf(const json& object) {
  const auto at = object.find("shape");
  if (at == object.end() || !at->is_array() || at->size() > kMaxRank) return std::nullopt;
  std::vector<int64_t> shape;
  for (const json& n : *at) {
    if (!n.is_number_integer() || n.get<int64_t>() < 0) return std::nullopt;
    shape.push_back(n.get<int64_t>());
  }
  return shape;
}

std::optional<ListedWeight> weightOf(const json& object) {
  if (!object.is_object()) return std::nullopt;
  const auto argument = textOf(object, "argument"), entry = textOf(object, "entry"),
             dtype = textOf(object, "dtype");
  const auto shape = shapeOf(object);
  const auto known = dtype ? parseDType(*dtype) : std::nullopt;
  if (!argument || !entry || !known || !shape) return std::nullopt;
  const auto count = elementCount(*shape);
  const auto bytes = count ? checkedMul(*count, dtypeBytes(*known)) : std::nullopt;
  if (!bytes) return std::nullopt;
  return ListedWeight{*argument, *entry, *known, *shape, *bytes};
}

} // namespace

std::string ofOtherDtc(const PackageNeeds& needs) {
  constexpr const char* kAgain = ": compile it again with --emit package";
  if (needs.format != kPackageFormat)
    return "is a package of format " + std::to_string(needs.format) + ", but this dtc reads format " +
           std::to_string(kPackageFormat) + " only" + kAgain;
  if (needs.version != DTC_VERSION)
    return "was compiled by dtc " + needs.version + ", but this is dtc " DTC_VERSION + kAgain;
  return "";
}

Result<PackageNeeds> neededBy(const std::string& manifest) {
  const json object = json::parse(manifest, nullptr, false);
  if (!object.is_object()) return inputError("its manifest is not a JSON object");
  const auto format = numberOf(object, "format", 1, INT32_MAX);
  if (!format) return inputError("its manifest has no format number");
  const auto version = textOf(object, "dtc");
  if (!version) return inputError("its manifest does not say which version of dtc made it");
  PackageNeeds needs;
  needs.format = *format, needs.version = *version;
  if (!ofOtherDtc(needs).empty()) return needs; // the rest may differ
  const auto target = textOf(object, "target"), cpu = textOf(object, "cpu"), entry = textOf(object, "entry");
  const auto level = numberOf(object, "optLevel", 0, 3);
  if (!target || !cpu || !entry || !level)
    return inputError("its manifest lacks one of: target, cpu, entry, optLevel");
  return PackageNeeds{*format, *version, *target, *cpu, *entry, static_cast<int>(*level)};
}

Result<std::vector<ListedWeight>> listedWeights(const std::string& manifest) {
  const json object = json::parse(manifest, nullptr, false);
  std::vector<ListedWeight> out;
  const auto list = object.is_object() ? object.find("weights") : object.end();
  if (!object.is_object() || list == object.end()) return out;
  if (!list->is_array()) return inputError("its manifest has \"weights\" that are not a list");
  for (const json& one : *list) {
    auto weight = weightOf(one);
    if (!weight)
      return inputError("its manifest has an invalid weight, number " + std::to_string(out.size()) +
                        ": expected argument, entry, dtype and shape");
    out.push_back(*std::move(weight));
  }
  return out;
}

std::string weightsJson(std::span<const PackageWeight> weights) {
  return "[" +
         joined(weights, ",\n  ",
                [](const PackageWeight& w) {
                  return "{\"argument\": " + jsonString(w.argument) + ", \"entry\": " + jsonString(w.entry) +
                         ", \"dtype\": " + jsonString(dtypeName(w.value.dtype())) + ", \"shape\": [" +
                         joined(w.value.shape()) + "]}";
                }) +
         "]";
}

} // namespace dtc
