#pragma once
// MLIR text as a syntax tree, independent of the meaning of its ops. Views point into the source text, which
// outlives the tree. Pretty forms are converted to the generic form: attributes have their generic names,
// regions their arguments.
#include "dtc/Support/Diagnostics.h"
#include <deque>
#include <unordered_map>

namespace dtc {

struct MlirType {
  enum Kind : uint8_t { Tensor, Element, Tuple, Token, Function, Other } kind = Other;
  SourceRange range;
  std::string_view element;                     // Tensor, Element: "f32", "complex<f32>", "i1"
  std::vector<int64_t> dims;                    // Tensor: kDynamic where it is `?`
  bool unranked = false;                        // tensor<*xf32>
  std::vector<const MlirType*> inputs, results; // Function; Tuple: inputs
  static constexpr int64_t kDynamic = -1;
};

struct MlirNamedAttr;

struct MlirAttr {
  // Raw: pretty text that only its op can read, between its brackets; Dialect: #name<body>; Word: a bare
  // word.
  enum Kind : uint8_t {
    Unit,
    Bool,
    Int,
    Float,
    String,
    SymbolRef,
    TypeRef,
    List,
    Dict,
    Dense,
    Resource,
    Array,
    Dialect,
    Alias,
    Word,
    Raw
  } kind = Unit;
  SourceRange range;
  std::string_view
      // String: as written between the quotes; SymbolRef, Alias, Word, Dialect: the name; else all of it
      text;
  std::string_view
      body; // Dense, Dialect, Raw: the contents of the brackets; Array: the text after the element type
  int64_t integer = 0;            // Int, Bool
  double real = 0;                // Float
  const MlirType* type = nullptr; // the type after `:`; Array: its element type
  std::vector<MlirAttr> list;
  std::vector<MlirNamedAttr> dict;
};

struct MlirNamedAttr {
  std::string_view name;
  SourceRange nameRange;
  MlirAttr value;
};
// The attribute of that name, or null.
inline const MlirAttr* findAttr(const std::vector<MlirNamedAttr>& attrs, std::string_view name) {
  for (const MlirNamedAttr& a : attrs)
    if (a.name == name) return &a.value;
  return nullptr;
}

// "%0#1" is {"0", 1}.
struct MlirUse {
  std::string_view name;
  uint32_t number = 0;
  SourceRange range;
};

// "%0:2" is {"0", 2}.
struct MlirResult {
  std::string_view name;
  uint32_t count = 1;
  SourceRange range;
};

struct MlirOp;

struct MlirArg {
  std::string_view name;
  SourceRange range;
  const MlirType* type = nullptr;
  std::vector<MlirNamedAttr> attrs; // of a function's argument
  uint32_t loc = 0;
};

struct MlirRegion {
  std::vector<MlirArg> args;
  std::vector<MlirOp> ops; // the terminator last
  SourceRange range;
};

struct MlirOp {
  std::string_view name; // "stablehlo.add"
  SourceRange nameRange;
  std::vector<MlirResult> results;
  std::vector<MlirUse> operands;
  std::vector<MlirNamedAttr> attrs; // properties and dictionary together
  std::vector<MlirAttr> items;      // pretty forms: unnamed items in order (words, symbols, lists)
  std::vector<MlirRegion> regions;
  std::vector<const MlirType*> operandTypes;           // as far as they are written
  std::vector<const MlirType*> resultTypes;            // one per result value
  std::vector<std::vector<MlirNamedAttr>> resultAttrs; // of a function's results
  std::vector<SourceRange> resultRanges;
  uint32_t loc = 0; // MlirTree::locs
  [[nodiscard]] uint32_t numResults() const {
    uint32_t n = 0;
    for (const MlirResult& r : results) n += r.count;
    return n;
  }
};

// A location in the user's own program; 0 is unknown.
struct MlirLoc {
  std::string name; // "jit(step)/mul"
  std::string file;
  uint32_t line = 0, column = 0;
  std::string_view alias;   // loc(#loc3): the location it refers to
  std::vector<uint32_t> of; // nested locations: loc("name"(of)), callsite, fused
};

struct MlirTree {
  std::vector<MlirOp> ops; // of the module (functions and meshes, …)
  std::vector<MlirNamedAttr> moduleAttrs;
  std::unordered_map<std::string_view, MlirAttr> aliases; // without #
  std::unordered_map<std::string_view, const MlirType*> typeAliases;
  std::unordered_map<std::string_view, uint32_t> locAliases;
  std::unordered_map<std::string_view, std::string_view> resources; // name to "0x…", as written
  std::deque<MlirType> types;
  std::deque<std::string> texts; // synthesized names, absent from the text
  std::vector<MlirLoc> locs = std::vector<MlirLoc>(1);
  // The attribute with its aliases resolved; nullptr where one is not defined.
  [[nodiscard]] const MlirAttr* resolve(const MlirAttr&) const;
};

// Parses a text. False after reporting an error. Nesting is bounded (256), memory is proportional to the
// text.
[[nodiscard]] bool parseMlir(std::string_view source, MlirTree& out, Diagnostics& diags);

} // namespace dtc
