#pragma once
// Meshes and shardings of the text as ours: the Shardy dialect's attributes, and GSPMD's strings. Private to lib/Import.
#include "MlirTree.h"
#include "ShardyText.h"
#include "dtc/IR/Module.h"
#include <string>
#include <unordered_map>

namespace dtc {

class HloImporter;

class Shardy {
public:
  explicit Shardy(HloImporter& importer) : im_(importer) {}

  // The meshes of all sdy.mesh ops of the text, and the one that its GSPMD strings imply. False after a report.
  bool declareMeshes();
  // Does the text have meshes?
  [[nodiscard]] bool used() const { return !meshes_.empty(); }
  // What the attributes of a function say of its arguments and results; `parts`: how many of ours each is made of is one.
  bool annotateFunction(const MlirOp& op, FuncId f);
  // What an op's attributes (sdy.sharding, mhlo.sharding) say of its results. Values made since `fresh` take it as their
  // annotation; before that they are constrained by a `shard`.
  bool annotateResults(const MlirOp& op, std::span<ValueId* const> results, uint32_t fresh);
  // The same of one value: a sharding's attribute, or a raw <@mesh, …>.
  bool annotate(ValueId& v, ShardingId sharding, uint32_t fresh, uint32_t loc);

  // The sharding that a text says, of a value of so many dims. Nothing after a report.
  std::optional<ShardingId> sharding(const ShardyText& text, TypeId type);
  std::optional<ShardyText> read(const MlirAttr& attr);
  std::optional<std::vector<ShardyText>> readAll(const MlirAttr& attr);
  bool readAxes(const MlirAttr& attr, std::vector<ShardyAxis>& out);
  // A GSPMD string on values of these types; invalid ids where it says nothing: manual. Of what is a piece along last_tile_dims={manual}
  // it says something only where pieces are asked for.
  std::optional<std::vector<ShardingId>> gspmd(const MlirAttr& attr, std::span<const TypeId> types,
                                               bool ofPieces = false);
  // What the attributes of a call @Sharding or its kin say of a value: whole where they say nothing. Invalid where it is manual, or no
  // string says how many devices there are.
  std::optional<ShardingId> gspmdOf(const std::vector<MlirNamedAttr>& attrs, TypeId type,
                                    bool ofPieces = false);
  // The axes along which a string's value is one device's piece, major to minor.
  std::optional<std::vector<AxisRef>> gspmdManualAxes(const MlirAttr& attr, MeshId mesh);

  // Which device stands at each place of the mesh that a function's argument or result is sharded on; empty: in order.
  [[nodiscard]] std::vector<int64_t> devicesOf(const std::vector<MlirNamedAttr>& attrs);
  // A mesh of this name, or of one like it that is free.
  MeshId addMesh(const std::string& name, Mesh mesh);
  // The mesh that a text names; invalid and no report where it is one without axes.
  bool meshOf(const ShardyText& text, MeshId& out);
  std::optional<AxisRef> axisOf(const ShardyAxis& axis, MeshId mesh);
  // The mesh of the per-device code at hand (a manual computation, an spmd function); invalid outside.
  [[nodiscard]] MeshId manualMesh() const { return manual_; }
  // Does that code leave axes free, along which its values may be annotated?
  [[nodiscard]] bool freeAxes() const { return free_; }
  void enterManual(MeshId mesh, bool free) {
    manual_ = mesh;
    free_ = free;
  }
  // Of the function at hand: where a sharding names none.
  [[nodiscard]] MeshId functionMesh() const { return functionMesh_; }
  void enterFunction(const MlirOp& op);

private:
  struct Named {
    MeshId mesh; // invalid: without axes
    std::vector<std::pair<std::string, StrId>> axes;
    std::vector<int64_t> devices; // in an order of its own; else empty
  };
  bool declareGspmdMesh();
  [[nodiscard]] static bool sameAxes(const Mesh& a, const Mesh& b);
  // A mesh that is no other but by its name.
  [[nodiscard]] MeshId meshLike(const Mesh& mesh) const;
  bool declare(const std::string& name, const ShardyMesh& text, SourceRange where);
  const MlirAttr* firstSharding(const MlirOp& op) const;
  AttrId symbolAttr(StrId name);
  void openUnspecified(const std::vector<MlirNamedAttr>& attrs, std::vector<ShardingId>& shardings);
  bool annotateOne(const MlirAttr* attr, TypeId type, ShardingId& out);

  HloImporter& im_;
  std::unordered_map<std::string, Named> meshes_;
  bool free_ = false;
  MeshId manual_, functionMesh_, gspmdMesh_;
};

} // namespace dtc
