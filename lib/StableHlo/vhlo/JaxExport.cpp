#include "vhlo/JaxExport.h"

#include <cstdint>
#include <optional>

namespace dtc {

namespace {

// The fields of the root table that refer to other data, in all versions of the schema: strings, tables, and vectors
// with elements of so many bytes.
enum class Kind : uint8_t { String, Table, Vector };
struct Field {
  uint16_t slot;
  Kind kind;
  uint8_t elementBytes;
  const char* name;
};
constexpr uint16_t kModuleField = 13;
constexpr Field kFields[] = {
    {1, Kind::String, 1, "function_name"},
    {2, Kind::Table, 0, "in_tree"},
    {3, Kind::Vector, 4, "in_avals"},
    {4, Kind::Table, 0, "out_tree"},
    {5, Kind::Vector, 4, "out_avals"},
    {7, Kind::Vector, 4, "in_shardings"},
    {8, Kind::Vector, 4, "out_shardings"},
    {9, Kind::Vector, 4, "platforms"},
    {10, Kind::Vector, 4, "ordered_effects"},
    {11, Kind::Vector, 4, "unordered_effects"},
    {12, Kind::Vector, 4, "disabled_checks"},
    {kModuleField, Kind::Vector, 1, "mlir_module_serialized"},
    {15, Kind::Vector, 2, "module_kept_var_idx"},
    {17, Kind::Table, 0, "vjp"},
};

// A little-endian number of `size` bytes, if it lies within the content.
std::optional<uint64_t> numberAt(std::string_view content, uint64_t at, size_t size) {
  if (at > content.size() || size > content.size() - at) return std::nullopt;
  uint64_t value = 0;
  for (size_t i = size; i-- > 0;) value = value << 8 | static_cast<uint8_t>(content[at + i]);
  return value;
}

// The root begins with the (signed) distance back to its table of field offsets, which begins with its own size
// and the root's.
struct Root {
  uint64_t at = 0, table = 0, tableBytes = 0;
};
std::optional<Root> rootOf(std::string_view content) {
  const auto at = numberAt(content, 0, 4);
  const auto back = at ? numberAt(content, *at, 4) : std::nullopt;
  if (!back) return std::nullopt;
  const int64_t table = static_cast<int64_t>(*at) - static_cast<int32_t>(*back);
  if (table < 0) return std::nullopt;
  const auto size = numberAt(content, static_cast<uint64_t>(table), 2);
  if (!size || *size < 4 + 2 * (kModuleField + 1)) return std::nullopt;
  return Root{*at, static_cast<uint64_t>(table), *size};
}

// Where the data of a field begin, which may be past the content; nothing if the root has no such field.
std::optional<uint64_t> dataOf(std::string_view content, const Root& root, uint16_t slot) {
  if (4 + 2 * (uint64_t(slot) + 1) > root.tableBytes) return std::nullopt;
  const auto field = numberAt(content, root.table + 4 + 2 * uint64_t(slot), 2);
  if (!field || *field == 0) return std::nullopt;
  const auto offset = numberAt(content, root.at + *field, 4);
  return offset ? std::optional(root.at + *field + *offset) : std::nullopt;
}

// One past the last byte of a field's own data; a string ends with a zero byte.
uint64_t endOf(std::string_view content, const Field& field, uint64_t at) {
  if (field.kind == Kind::Table) return at + 4;
  const auto length = numberAt(content, at, 4);
  return at + 4 + length.value_or(0) * field.elementBytes + (field.kind == Kind::String ? 1 : 0);
}

} // namespace

// A vector begins with its length. The module may be cut off.
std::string_view jaxExportModule(std::string_view content) {
  const auto root = rootOf(content);
  const auto at = root ? dataOf(content, *root, kModuleField) : std::nullopt;
  const auto length = at ? numberAt(content, *at, 4) : std::nullopt;
  if (!length) return {};
  const std::string_view module = content.substr(*at + 4, *length);
  return module.starts_with("ML\xefR") ? module : std::string_view();
}

// JAX writes a file from its end: the function's name is last, and padded like all data.
bool isWholeJaxExport(std::string_view content, ByteFault& fault) {
  const auto root = rootOf(content);
  for (const Field& field : kFields) {
    const auto at = root ? dataOf(content, *root, field.slot) : std::nullopt;
    if (!at || endOf(content, field, *at) <= content.size()) continue;
    fault = {true, content.size(),
             "the file ends within the field '" + std::string(field.name) + "' of a jax.export artifact"};
    return false;
  }
  if (content.size() % 4 == 0) return true;
  fault = {true, content.size(), "a jax.export artifact has a multiple of 4 bytes: the file is not complete"};
  return false;
}

} // namespace dtc
