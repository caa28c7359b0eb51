#include "dtc/Files/Package.h"

#include "Zip.h"
#include "dtc/Support/Json.h"

#include <nlohmann/json.hpp>

namespace dtc {
namespace {

using std::string_view_literals::operator""sv;

constexpr const char *kManifest = "manifest.json", *kProgram = "program.dt";
constexpr std::string_view kKernels = "kernels/", kObject = ".o";
// A package is in memory as a whole. Its entries are stored, so that it has the size of the file.
constexpr int64_t kMaxManifest = int64_t{4} << 20, kMaxProgram = int64_t{256} << 20,
                  kMaxKernel = int64_t{256} << 20;

Result<std::string> contentOf(const InputFile& file, const ZipEntry& e, int64_t max) {
  if (e.size > max)
    return inputError("its entry " + jsonString(e.name) + " has " + std::to_string(e.size) +
                      " bytes, more than " + std::to_string(max));
  if (e.deflated)
    return inputError("its entry " + jsonString(e.name) + " is compressed; expected a stored one");
  std::string bytes(static_cast<size_t>(e.size), '\0');
  ZipReader reader(file, e);
  if (Status s = reader.read(std::as_writable_bytes(std::span(bytes))); !s) return s.error();
  if (Status s = reader.finish(); !s) return s.error();
  return bytes;
}

// A key is the digest of what a kernel was compiled from.
bool isKey(std::string_view name) {
  constexpr size_t kDigits = 64;
  return name.size() == kDigits && name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Status readNeeds(const std::string& manifest, PackageNeeds& needs) {
  const nlohmann::json json = nlohmann::json::parse(manifest, nullptr, false);
  if (!json.is_object()) return inputError("its manifest is not a JSON object");
  const auto text = [&](const char* name, std::string& to) {
    const auto at = json.find(name);
    if (at == json.end() || !at->is_string()) return false;
    to = at->get<std::string>();
    return true;
  };
  const auto number = [&](const char* name, int64_t low, int64_t high, int64_t& to) {
    const auto at = json.find(name);
    if (at == json.end() || !at->is_number_integer()) return false;
    to = at->get<int64_t>();
    return to >= low && to <= high;
  };
  if (!number("format", 1, INT32_MAX, needs.format)) return inputError("its manifest has no format number");
  if (!text("dtc", needs.version))
    return inputError("its manifest does not say which version of dtc made it");
  if (needs.format != kPackageFormat) return Ok{}; // the caller says so; the rest may differ
  int64_t level = 0;
  if (!text("target", needs.target) || !text("cpu", needs.cpuLevel) || !text("entry", needs.entry) ||
      !number("optLevel", 0, 3, level))
    return inputError("its manifest lacks one of: target, cpu, entry, optLevel");
  needs.optLevel = static_cast<int>(level);
  return Ok{};
}

Result<Package> read(const InputFile& file) {
  DTC_TRY(auto entries, readZipDirectory(file));
  Package p;
  bool manifest = false, program = false;
  for (const ZipEntry& e : entries) {
    const std::string_view name = e.name;
    if (name == kManifest) {
      DTC_TRY(p.manifest, contentOf(file, e, kMaxManifest));
      manifest = true;
    } else if (name == kProgram) {
      DTC_TRY(p.program, contentOf(file, e, kMaxProgram));
      program = true;
    } else if (name.starts_with(kKernels) && name.ends_with(kObject)) {
      const std::string_view key =
          name.substr(kKernels.size(), name.size() - kKernels.size() - kObject.size());
      if (!isKey(key)) return inputError("its entry " + jsonString(name) + " is not named by a digest");
      DTC_TRY(p.kernels[std::string(key)], contentOf(file, e, kMaxKernel));
    } else {
      return inputError("it has an unexpected entry " + jsonString(name));
    }
  }
  if (!manifest || !program)
    return inputError(std::string("it has no entry ") + (manifest ? kProgram : kManifest));
  if (Status s = readNeeds(p.manifest, p.needs); !s) return s.error();
  return p;
}

} // namespace

bool looksLikePackage(std::string_view content) {
  constexpr size_t kNameOffset = 30; // in the first local header
  return content.starts_with("PK\x03\x04"sv) && content.size() > kNameOffset &&
         content.substr(kNameOffset).starts_with(kManifest);
}

Result<Package> readPackage(const InputFile& file) {
  auto package = read(file);
  if (package || package.error().kind != Error::Input) return package;
  return inputError(quotedPath(file.path()) + " is not a valid package: " + package.error().message);
}

std::string packageBytes(const Package& package) {
  std::vector<ZipContent> contents = {{kManifest, package.manifest}, {kProgram, package.program}};
  for (const auto& [key, object] : package.kernels)
    contents.push_back({std::string(kKernels) + key + std::string(kObject), object});
  return zipBytes(contents);
}

} // namespace dtc
