#pragma once
// Text to module and back (ir.md). parse(print(m)) is m, print(parse(t)) is t on canonical text.
#include "dtc/IR/OpRecord.h"
#include <memory>
#include <set>

namespace dtc {

// Command-line overrides of what the text declares.
struct ParseOptions {
  struct MeshSizes { // --mesh pod=dp:4,tp:2
    std::string mesh;
    std::vector<std::pair<std::string, int64_t>> axes;
  };
  std::vector<MeshSizes> meshes;
  std::vector<std::pair<std::string, int64_t>> sizes; // --dim B=64: the symbol is parsed as this number
  // If set: the function that `sizes` apply to. Functions that call it are then not parsed, because each call
  // would bind its sizes differently. Otherwise `sizes` apply to all functions without callers.
  std::string entry = {};
  // If set: receives the names of the symbolic sizes that can be bound, including those in `sizes`.
  std::shared_ptr<std::set<std::string, std::less<>>> symbols = nullptr;
};

// Parses and infers all types, including the dtypes of literals; reports as many errors as possible to
// `diags`. The module is valid only if there were none. Bounded: nesting 256, memory proportional to the
// text. `sound` receives the functions without an error, for verifyFunctions().
[[nodiscard]] bool parseModule(SourceText source, const OpRegistry&, Module& out, Diagnostics& diags,
                               const ParseOptions& options = {}, std::vector<FuncId>* sound = nullptr);

struct PrintOptions {
  ShardingStyle style = ShardingStyle::Dim;
  // appends a comment to each local value: R, I, V or P along each axis (docs/control-flow.md)
  bool types = false;
};
[[nodiscard]] std::string printModule(const Module&, const PrintOptions& = {});
// one statement, without a newline
[[nodiscard]] std::string printOp(const Module&, OpId, const PrintOptions& = {});
[[nodiscard]] std::string printType(const Module&, TypeId);
[[nodiscard]] std::string printSharding(const Module&, ShardingId, const PrintOptions& = {}); // with "@mesh"
// "%h"; for an unnamed value the number that the printer gives it.
[[nodiscard]] std::string printValueName(const Module&, ValueId);
// The shortest decimal that parses back to the same value of `dtype`, with a point or an exponent ("1.0",
// "1e-05", "inf").
[[nodiscard]] std::string printFloat(double v, DType dtype = DType::F64);

// A standalone sharding ("{dp, _ | sum(tp)}", "@pod[S(0), R]"), for command lines and equations.
[[nodiscard]] bool parseSharding(std::string_view text, Module& m, MeshId defaultMesh, Sharding& out,
                                 Diagnostics& diags);

} // namespace dtc
