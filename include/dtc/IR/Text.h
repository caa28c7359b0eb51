#pragma once
// Text to module and back (ir.md). parse(print(m)) is m, print(parse(t)) is t on canonical text.
#include "dtc/IR/OpRecord.h"
#include <memory>
#include <set>

namespace dtc {

// What the command line says in the text's place.
struct ParseOptions {
  struct MeshSizes { // --mesh pod=dp:4,tp:2
    std::string mesh;
    std::vector<std::pair<std::string, int64_t>> axes;
  };
  std::vector<MeshSizes> meshes;
  std::vector<std::pair<std::string, int64_t>> sizes; // --dim B=64: the symbol is read as this number
  // Where set: the function that `sizes` are for. Functions that call it are not read then: each call would bind its sizes
  // otherwise. Else they are for all functions that no other calls.
  std::string entry = {};
  // Where set: gets the names of the symbolic sizes that can be bound, those in `sizes` too.
  std::shared_ptr<std::set<std::string, std::less<>>> symbols = nullptr;
};

// Parses and infers all types (literals get their dtypes); reports every error it can to `diags`. The module may be used
// only where no error was reported. Bounded: nesting 256, memory proportional to the text.
[[nodiscard]] bool parseModule(SourceText source, const OpRegistry&, Module& out, Diagnostics& diags,
                               const ParseOptions& options = {});

struct PrintOptions {
  ShardingStyle style = ShardingStyle::Dim;
  bool types =
      false; // a comment behind each local value: along each axis R, I, V or P (docs/control-flow.md)
};
[[nodiscard]] std::string printModule(const Module&, const PrintOptions& = {});
[[nodiscard]] std::string printFunction(const Module&, FuncId, const PrintOptions& = {});
[[nodiscard]] std::string printOp(const Module&, OpId,
                                  const PrintOptions& = {}); // one statement, without a line end
[[nodiscard]] std::string printType(const Module&, TypeId);
[[nodiscard]] std::string printSharding(const Module&, ShardingId, const PrintOptions& = {}); // with "@mesh"
// "%h", with the number that the printer gives an unnamed value.
[[nodiscard]] std::string printValueName(const Module&, ValueId);
// The shortest decimal that reads back as the same value of `dtype`, with a point or an exponent ("1.0", "1e-05", "inf").
[[nodiscard]] std::string printFloat(double v, DType dtype = DType::F64);

// A sharding by itself ("{dp, _ | sum(tp)}", "@pod[S(0), R]"), for command lines and equations.
[[nodiscard]] bool parseSharding(std::string_view text, Module& m, MeshId defaultMesh, Sharding& out,
                                 Diagnostics& diags);

// Everything that the level asks for (ir.md §2, architecture.md §3). parseModule does not run it; the driver does, and
// after every pass in tests.
[[nodiscard]] bool verifyModule(Module&, Diagnostics& diags);

} // namespace dtc
