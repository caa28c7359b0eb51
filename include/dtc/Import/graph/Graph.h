#pragma once
// A program of another framework as data: what the readers of PyTorch and ONNX files produce and what the
// tables of ops (rows/Context.h) convert. Values of all graphs are in one table, so that a graph can use those
// of the graph around it.
#include "dtc/IR/Module.h"
#include "dtc/Support/Tensor.h"
#include <limits>
#include <string>
#include <variant>
#include <vector>

namespace dtc {

// An index into ImportFile::values.
struct ImportValueRef {
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max(); // an absent optional
  uint32_t index = kNone;
  [[nodiscard]] bool valid() const { return index != kNone; }
  friend bool operator==(ImportValueRef, ImportValueRef) = default;
};

// An integer, or a size.
struct ImportInt {
  int64_t number = 0;
  std::optional<Dim> size; // a symbolic one, in the module's tables
  std::string expression;  // not empty: over symbolic sizes, but no product of them, which is what dtc has
  ImportValueRef value;    // valid: computed by a node

  ImportInt() = default;
  ImportInt(int64_t n) : number(n) {}
  [[nodiscard]] bool isNumber() const { return !size && expression.empty() && !value.valid(); }
};

struct ImportGraphRef {
  uint32_t index = 0; // into ImportFile::graphs
};

// What dtc has no counterpart for. An error where a row reads it: "has the dtype float4_e2m1fn_x2, which …".
struct ImportUnsupported {
  std::string why;
};

using ImportAttribute =
    std::variant<std::monostate, ImportValueRef, std::vector<ImportValueRef>, bool, ImportInt, double,
                 std::string, DType, std::vector<bool>, std::vector<ImportInt>, std::vector<double>,
                 std::vector<std::string>, Tensor, ImportGraphRef, ImportUnsupported>;

struct ImportArgument {
  std::string name; // "" for one that only its position identifies
  ImportAttribute value;
};

struct ImportValue {
  std::string name;               // unique in its graph and those around it
  std::optional<Type> type;       // as the file declares it; absent: not declared, or unsupported
  std::string unsupported;        // why the declared type is unsupported: "has the dtype complex32"
  std::optional<Tensor> constant; // its elements, where they are few and the file has them
  bool rowMajor = true;           // not strided otherwise, on which results of a few ops depend
  bool contiguous = false;        // its strides are known to be row-major
  std::optional<std::vector<ImportInt>> strides; // as the file declares them
  ImportInt storageOffset = 0;                   // of its first element in its storage, likewise
  std::string device;                            // as the file declares it
};

struct ImportNode {
  std::string target;  // "aten.add.Tensor"
  int64_t version = 0; // of the op set of the target
  std::vector<ImportArgument> arguments;
  std::vector<ImportValueRef> results; // invalid: unused
  std::string name;                    // of the node or its module, for `name=`: "blocks.0.mlp"
  std::string location;                // of the user's source, for `loc=`: "model.py:12"
  SourceRange range;                   // in the listing
  std::string written;                 // the file's op, where `target` is the one that stands for it
  std::string refused;                 // not empty: why it does not import: "changes %x, which …"
};

struct ImportInput {
  ImportValueRef value;
  std::string label;   // the argument's name; "": made from the value's name
  std::string name;    // `name=`, the name that the user knows: "blocks.0.weight"
  bool weight = false; // the file has its value, under `name`
  SourceRange range;
};

// A type of which some sizes are not known: -1.
struct DeclaredType {
  DType dtype = DType::F32;
  std::vector<int64_t> sizes;
};

struct ImportOutput {
  ImportAttribute value; // a value or a constant
  std::string label, name;
  std::optional<size_t> carriedTo;      // the input whose next value it is
  std::optional<DeclaredType> declared; // as the file has it: a difference is a warning
  SourceRange range;
};

struct ImportGraph {
  std::string name;
  std::vector<ImportInput> inputs;
  std::vector<ImportNode> nodes;
  std::vector<ImportOutput> outputs;
};

struct ImportFile {
  std::vector<ImportValue> values;
  std::vector<ImportGraph> graphs; // the first is the program, the others belong to nodes
};

} // namespace dtc
