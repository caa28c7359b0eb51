#pragma once
// What the exporters of single ops share: the module, the text so far, and the text's name of each value. Private to lib/Import.
#include "ExportWriter.h"
#include "IndexRanges.h"
#include "dtc/IR/OpRecord.h"
#include <optional>
#include <unordered_map>

namespace dtc {

class ExportContext {
public:
  ExportContext(Module& module, Diagnostics& diagnostics, ExportWriter& writer)
      : m(module), diags(diagnostics), w(writer), ranges(module) {}

  Module& m;
  Diagnostics& diags;
  ExportWriter& w;
  IndexRanges ranges; // of what is written, to see which indices cannot leave a tensor
  MeshId manual;      // the mesh of the per-device text that is being written; invalid in global text

  // A value of the text; a literal operand becomes a constant. In `whole` it is a splat of that shape.
  [[nodiscard]] ExportValue value(ValueId v);
  [[nodiscard]] ExportValue operand(OpId o, size_t i) { return value(m.operand(o, i)); }
  [[nodiscard]] ExportValue splatOf(ValueId literal, const Dims& whole);
  // The value, which has a name already (a block argument), or was just written.
  void define(ValueId v, ExportValue h) { values_[v] = std::move(h); }
  // A result of an op, under the user's name for it.
  bool give(OpId o, ExportValue h);
  bool give(OpId o, uint32_t result, ExportValue h);
  [[nodiscard]] OpQuery query(OpId o) { return queryOf(m, o, diags); }
  // Sizes of a type. Nothing, after an error that names `at`, where one is symbolic or a piece's that differs between devices.
  [[nodiscard]] std::optional<Dims> shapeOf(TypeId, SourceRange at);
  [[nodiscard]] Dims resultShape(OpId o, size_t i = 0); // of a type that shapeOf has passed
  [[nodiscard]] DType resultType(OpId o, size_t i = 0) const { return m.typeOf(m.result(o, i)).dtype; }
  // The text's name for the user's name of a value, or "".
  [[nodiscard]] std::string_view nameOf(ValueId v) const {
    return m[v].name.valid() ? m.strings[m[v].name] : std::string_view();
  }
  // False, with an error: the op cannot be said in StableHLO, because …
  bool refuse(OpId o, std::string_view why);

  // --- the families ---
  bool ops(BlockId block); // every op of a block, in order
  bool op(OpId o);
  bool
  byRule(OpId o); // by index rule and scalar expression; false without an error where these do not say it
  bool byElement(OpId o); // by what its record says of one element

private:
  bool decomposed(OpId o);
  bool sharded(OpId o);
  std::unordered_map<ValueId, ExportValue> values_;
};

struct ExportRow {
  const char* op;
  bool (*write)(ExportContext&, OpId);
};
// Ops that neither rule and scalar nor a decomposition can say, by family.
[[nodiscard]] std::span<const ExportRow> exportsOfShapes();
[[nodiscard]] std::span<const ExportRow> exportsOfIndices();
[[nodiscard]] std::span<const ExportRow> exportsOfConvolutions();
[[nodiscard]] std::span<const ExportRow> exportsOfPooling();
[[nodiscard]] std::span<const ExportRow> exportsOfControl();
[[nodiscard]] std::span<const ExportRow> exportsOfCollectives();

// --- shardings ---
// `<@mesh, [{"dp"}, {?}], unreduced={"tp"}>`. Nothing, after an error, where Shardy cannot say it.
[[nodiscard]] std::optional<std::string> exportSharding(const Module&, ShardingId, SourceRange at,
                                                        Diagnostics&);
// `sdy.mesh @pod = <["dp"=2, "tp"=4]>`
[[nodiscard]] std::string exportMesh(const Module&, const Mesh&);

} // namespace dtc
