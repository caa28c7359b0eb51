#include "vhlo/JaxExport.h"

#include <cstdint>
#include <optional>

namespace dtc {

namespace {

constexpr size_t kModuleField = 13; // mlir_module_serialized, in all versions of the schema

// A little-endian number of `size` bytes, if it lies within the content.
std::optional<uint64_t> numberAt(std::string_view content, uint64_t at, size_t size) {
  if (at > content.size() || size > content.size() - at) return std::nullopt;
  uint64_t value = 0;
  for (size_t i = size; i-- > 0;) value = value << 8 | static_cast<uint8_t>(content[at + i]);
  return value;
}

} // namespace

// The root's offset; the root begins with the (signed) distance back to its table of field offsets, which
// begins with its own size and the root's; a vector begins with its length.
std::string_view jaxExportModule(std::string_view content) {
  const auto root = numberAt(content, 0, 4);
  const auto back = root ? numberAt(content, *root, 4) : std::nullopt;
  if (!back) return {};
  const int64_t table = static_cast<int64_t>(*root) - static_cast<int32_t>(*back);
  if (table < 0) return {};
  const auto size = numberAt(content, static_cast<uint64_t>(table), 2);
  if (!size || *size < 4 + 2 * (kModuleField + 1)) return {};
  const auto field = numberAt(content, static_cast<uint64_t>(table) + 4 + 2 * kModuleField, 2);
  if (!field || *field == 0) return {};
  const auto offset = numberAt(content, *root + *field, 4);
  const uint64_t at = offset ? *root + *field + *offset : 0;
  const auto length = offset ? numberAt(content, at, 4) : std::nullopt;
  if (!length || *length > content.size() - at - 4) return {};
  const std::string_view module = content.substr(at + 4, *length);
  return module.starts_with("ML\xefR") ? module : std::string_view();
}

} // namespace dtc
