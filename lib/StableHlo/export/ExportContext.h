#pragma once
// State shared by the exporters of single ops: the module, the text so far, and the name of each value in the
// text.
#include "dtc/IR/OpRecord.h"
#include "export/ExportWriter.h"
#include "import/IndexRanges.h"
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
  IndexRanges ranges; // the text written so far, to see which indices stay within a tensor
  MeshId manual;      // the mesh of the per-device text being written; invalid in global text

  // The text of a value; a literal operand becomes a constant, with `shape` a splat of that shape.
  [[nodiscard]] ExportValue value(ValueId v);
  [[nodiscard]] ExportValue operand(OpId o, size_t i) { return value(m.operand(o, i)); }
  [[nodiscard]] ExportValue splatOf(ValueId literal, const Dims& shape);
  // A value that already has a name (a block argument, or a value just written).
  void define(ValueId v, ExportValue h) { values_[v] = std::move(h); }
  // Names a result of an op after the user's name.
  bool setResult(OpId o, ExportValue h);
  bool setResult(OpId o, uint32_t result, ExportValue h);
  [[nodiscard]] OpQuery query(OpId o) { return queryOf(m, o, diags); }
  // The sizes of a type. Nothing, after an error that names `at`, where a size is symbolic or differs between
  // devices.
  [[nodiscard]] std::optional<Dims> shapeOf(TypeId, SourceRange at);
  [[nodiscard]] Dims resultShape(OpId o, size_t i = 0); // the text of a type that shapeOf accepts
  [[nodiscard]] DType resultType(OpId o, size_t i = 0) const { return m.typeOf(m.result(o, i)).dtype; }
  // the user's name of a value as a name of the text, or ""
  [[nodiscard]] std::string_view nameOf(ValueId v) const {
    return m[v].name.valid() ? m.strings[m[v].name] : std::string_view();
  }
  // Reports that the op cannot be expressed in StableHLO, with the reason; returns false.
  bool refuse(OpId o, std::string_view why);

  // --- the families ---
  bool ops(BlockId block); // every op of a block, in order
  bool op(OpId o);
  bool decomposed(OpId o); // by the record's decomposition; false without an error if there is none

private:
  bool sharded(OpId o);
  std::unordered_map<ValueId, ExportValue> values_;
};

struct ExportRow {
  const char* op;
  bool (*write)(ExportContext&, OpId);
};
// Ops with neither a rule and scalar expression nor a decomposition, by family.
[[nodiscard]] std::span<const ExportRow> exportsOfShapes();
[[nodiscard]] std::span<const ExportRow> exportsOfIndices();
[[nodiscard]] std::span<const ExportRow> exportsOfConvolutions();
[[nodiscard]] std::span<const ExportRow> exportsOfPooling();
[[nodiscard]] std::span<const ExportRow> exportsOfControl();
[[nodiscard]] std::span<const ExportRow> exportsOfFactors();
[[nodiscard]] bool exportCollective(ExportContext&, OpId);
// By index rule and scalar expression; false without an error where these cannot express the op.
[[nodiscard]] bool exportByRule(ExportContext&, OpId);
// By the record's description of one element.
[[nodiscard]] bool exportByElement(ExportContext&, OpId);

// --- shardings ---
//
// `<@mesh, [{"dp"}, {?}], unreduced={"tp"}>`. Nothing, after an error, where Shardy cannot express it.
[[nodiscard]] std::optional<std::string> exportSharding(const Module&, ShardingId, SourceRange at,
                                                        Diagnostics&);
// `sdy.mesh @pod = <["dp"=2, "tp"=4]>`
[[nodiscard]] std::string exportMesh(const Module&, const Mesh&);

} // namespace dtc
