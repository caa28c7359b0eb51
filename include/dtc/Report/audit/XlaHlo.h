#pragma once
// XLA's HLO text (`HloModule …`, as printed by `lowered.compile().as_text()`), parsed into a graph of
// instructions for audits. It is not imported and cannot be run.
#include "dtc/Support/Diagnostics.h"
#include <map>
#include <optional>

namespace dtc {

// One array of a shape; a tuple's shape is the list of its arrays, in order.
struct XlaArray {
  std::string dtype; // "f32", "pred", "token"
  std::vector<int64_t> dims;
  int64_t bits = 0;  // of an element; 0 for types without data (token, opaque)
  int64_t bytes = 0; // of all elements, in whole bytes
};
using XlaShape = std::vector<XlaArray>;

struct XlaInstruction {
  static constexpr uint32_t kUnknown = 0xffffffffu;
  std::string name, opcode; // "all-reduce.3", "all-reduce"
  XlaShape shape;
  std::vector<uint32_t>
      operands; // instructions of the module; parameters and literals of `parameter(0)` are not operands
  std::string literal; // the text in the parentheses if it is not an instruction name: "0"
  std::map<std::string, std::string, std::less<>> attributes; // as written: "{{0,1},{2,3}}", "%add"
  uint32_t computation = 0;
  SourceRange loc; // of the opcode
  bool root = false;
};

struct XlaComputation {
  std::string name;
  std::vector<uint32_t> instructions; // in order
  bool entry = false;
};

struct XlaModule {
  SourceText source;
  std::string name;
  int64_t replicas = 1, partitions = 1;
  std::vector<XlaComputation> computations;
  std::vector<XlaInstruction> instructions;
  std::map<int64_t, std::string> frameLocations; // by stack frame: "model.py:12"
  [[nodiscard]] uint32_t entry() const;          // the last one if none is marked ENTRY
};

// True if the text begins as HLO does (after white space and comments).
[[nodiscard]] bool looksLikeXlaHlo(std::string_view text);

// Parses untrusted text: errors are reported with their location; memory is proportional to the text.
[[nodiscard]] bool readXlaHlo(SourceText source, XlaModule& out, Diagnostics& diags);

// Parses `replica_groups`: {{0,1},{2,3}}, {} (all devices), the iota form [2,4]<=[4,2]T(1,0) or that of a
// mesh, mesh['a'=2,'b'=4] {'b'}. Nothing for any other form, a device that is listed twice or one outside of
// 0 … devices-1.
[[nodiscard]] std::optional<std::vector<std::vector<int64_t>>> parseXlaGroups(std::string_view text,
                                                                              int64_t devices);
// {{0,1},{1,0}}: source, destination.
[[nodiscard]] std::optional<std::vector<std::pair<int64_t, int64_t>>> parseXlaPairs(std::string_view text);
// "{0,2}" or "0": numbers.
[[nodiscard]] std::optional<std::vector<int64_t>> parseXlaInts(std::string_view text);
// A member of a value such as metadata={op_name="f" source_line=3}: the text without its quotes, or "".
[[nodiscard]] std::string xlaMember(std::string_view value, std::string_view name);

} // namespace dtc
