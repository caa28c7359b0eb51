#pragma once
// The container of MLIR bytecode: its tables of strings, ops, attributes and types, decoded into nodes.
// https://mlir.llvm.org/docs/BytecodeFormat
#include "vhlo/ByteCursor.h"
#include "vhlo/Encodings.h"

#include <vector>

namespace dtc {

// An attribute or a type: a row of the encoding tables, and its fields in the order of the row.
struct BcNode {
  const BcEncoding* row = nullptr;
  std::vector<uint32_t> attrs, types; // indices into Bytecode
  std::vector<int64_t> ints;
  std::string_view text; // a string, or the bytes of a tensor
  [[nodiscard]] bool is(BcKind kind) const { return row->kind == kind; }
};

struct BcOpName {
  std::string_view dialect, name;
  bool registered = true;
};

struct Bytecode {
  static constexpr uint32_t kNone = 0xffffffffu;
  uint64_t version = 0;
  std::string_view producer; // "StableHLO_v1.17.0"
  std::vector<std::string_view> strings;
  std::vector<std::string_view> dialects;
  std::vector<BcOpName> ops;
  std::vector<BcNode> attrs, types;
  std::vector<std::string_view> properties;
  struct Resource {
    std::string_view key, bytes;
  };
  std::vector<Resource> resources;
  std::string_view ir;
};

// What changed with the version of the container.
constexpr uint64_t kBcDialectVersions = 1, kBcIsolatedSections = 2, kBcUseLists = 3, kBcElidedLocations = 4,
                   kBcProperties = 5, kBcNewest = 6;

[[nodiscard]] bool readBytecode(std::string_view file, Bytecode& out, ByteFault& fault);

} // namespace dtc
