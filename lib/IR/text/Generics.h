#pragma once
// Functions that are parsed where they are called: generic ones, once per binding of their parameters to dtypes
// and sizes, and those of imported files (docs/ir.md).
#include "text/TokenReader.h"
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <unordered_set>

namespace dtc {

// What one call gives for the parameters of a generic function.
struct GenericBinding {
  std::unordered_map<StrId, DType> dtypes;
  std::unordered_map<StrId, Dim> sizes;
  std::unordered_map<StrId, std::vector<Dim>> packs; // of `S...`
};

struct FunctionOnCall {
  struct Parameter {
    ParsedName name;
    bool pack = false;
  };
  ParsedName name;
  size_t firstToken = 0, arguments = 0; // indices of `func` or `spmd`, and of the "(" of the arguments
  std::vector<Parameter> parameters;    // empty: a function of an imported file
  std::map<std::string, FuncId> instances = {}; // by the text of the binding
  bool failed = false;                          // an instance has errors, which have been reported
};

// The functions of a module by name.
struct FunctionNames {
  std::unordered_map<StrId, FuncId> parsed;
  std::unordered_map<StrId, FunctionOnCall> onCall;
  std::unordered_set<StrId> instances; // the names of `parsed` that no text has
  // Parses the signature of an instance and queues its body. False after an error, which is reported at `call`
  // unless it was before.
  std::function<bool(FunctionOnCall&, std::span<const TypeId> given, SourceRange call, FuncId& out)> instance;
};

class Generics : TokenReader {
public:
  explicit Generics(const TokenReader& in) : TokenReader(in) {}

  // At the first token of a function: whether it has parameters. Leaves the position where it is.
  bool read(FunctionOnCall&, bool& isGeneric);
  // Binds the parameters to the types of a call's operands; an operand without a type binds nothing. False after
  // an error, at `call`: another number of operands, a rank that cannot fit, a parameter that is in no type.
  bool bind(const FunctionOnCall&, std::span<const TypeId> given, SourceRange call, GenericBinding& out);
  // A name for the instance, "adamw_f32_256x128"; others may have it.
  [[nodiscard]] std::string nameOf(const FunctionOnCall&, const GenericBinding&) const;
  // "T = f32, S = [256, 128]"
  [[nodiscard]] std::string textOf(const FunctionOnCall&, const GenericBinding&) const;

private:
  bool parameters(FunctionOnCall&);
  [[nodiscard]] std::string valueOf(const FunctionOnCall::Parameter&, const GenericBinding&,
                                    std::string_view between) const;
  // The first tokens of the elements between a "(" or "[" and its match.
  [[nodiscard]] std::vector<size_t> elements(size_t open) const;
  bool bindDims(const FunctionOnCall&, size_t open, size_t argument, const Type& given, SourceRange call,
                GenericBinding&);
};

} // namespace dtc
