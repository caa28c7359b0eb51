#pragma once
// Meshes and shardings of the text as dtc's: the Shardy dialect's attributes, and GSPMD's strings (Gspmd.h).
#include "dtc/IR/Module.h"
#include "mlir/MlirTree.h"
#include "sharding/ShardyText.h"
#include <string>
#include <unordered_map>

namespace dtc {

class HloImporter;

class Shardy {
public:
  explicit Shardy(HloImporter& importer) : im_(importer) {}

  // The meshes of all sdy.mesh ops of the text, and the one that its GSPMD strings imply. False after a
  // report.
  bool declareMeshes();
  // True if the text has meshes.
  [[nodiscard]] bool used() const { return !meshes_.empty(); }
  // The shardings that a function's attributes give its arguments and results; `parts`: the number of dtc
  // values of each is one.
  bool annotateFunction(const MlirOp& op, FuncId f);
  // Applies the shardings in an op's attributes (sdy.sharding, mhlo.sharding) to its results. Values created
  // since `fresh` take it as their annotation; older ones are constrained by a `shard`.
  bool annotateResults(const MlirOp& op, std::span<ValueId* const> results, uint32_t fresh);
  // The same for one value: a sharding's attribute, or a raw <@mesh, …>.
  bool annotate(ValueId& v, ShardingId sharding, uint32_t fresh, uint32_t loc);

  // The sharding of a text for a value of that rank, on the function's mesh if that has the same devices in an
  // order that the axes of the text's mesh can follow, else on the text's mesh. Nothing after a report.
  std::optional<ShardingId> sharding(const ShardyText& text, TypeId type);
  // The same on the text's mesh: per-device code names its axes.
  std::optional<ShardingId> shardingOnOwnMesh(const ShardyText& text, TypeId type);
  [[nodiscard]] ShardingId onFunctionMesh(ShardingId sharding) const;
  std::optional<ShardyText> read(const MlirAttr& attr);
  std::optional<std::vector<ShardyText>> readAll(const MlirAttr& attr);
  bool readAxes(const MlirAttr& attr, std::vector<ShardyAxis>& out);
  // The device order of the mesh on which a function's argument or result is sharded; empty: row-major.
  [[nodiscard]] std::vector<int64_t> devicesOf(const std::vector<MlirNamedAttr>& attrs);
  // A mesh of this name, or with a suffix where the name is taken.
  MeshId addMesh(const std::string& name, Mesh mesh);
  // The mesh named in a text; invalid without a report where it has no axes.
  bool meshOf(const ShardyText& text, MeshId& out);
  std::optional<AxisRef> axisOf(const ShardyAxis& axis, MeshId mesh);
  // The mesh of the enclosing per-device code (a manual computation, an spmd function); invalid outside.
  [[nodiscard]] MeshId manualMesh() const { return manual_; }
  // True if that code leaves axes free, along which its values may be annotated.
  [[nodiscard]] bool freeAxes() const { return free_; }
  void enterManual(MeshId mesh, bool free) {
    manual_ = mesh;
    free_ = free;
  }
  // Of the current function, for shardings that name no mesh.
  [[nodiscard]] MeshId functionMesh() const { return functionMesh_; }
  void enterFunction(const MlirOp& op);

private:
  struct Named {
    MeshId mesh; // invalid: without axes
    std::vector<std::pair<std::string, StrId>> axes;
    std::vector<int64_t> devices; // the device order, if not row-major; else empty
  };
  [[nodiscard]] static bool sameAxes(const Mesh& a, const Mesh& b);
  // A mesh that differs from another only by its name.
  [[nodiscard]] MeshId meshLike(const Mesh& mesh) const;
  bool declare(const std::string& name, const ShardyMesh& text, SourceRange where);
  const MlirAttr* firstSharding(const MlirOp& op) const;
  [[nodiscard]] MeshId meshOfFunction(const MlirOp& op) const;
  [[nodiscard]] MeshId meshNamed(std::string_view body) const;
  bool annotateOne(const MlirAttr* attr, TypeId type, ShardingId& out);

  HloImporter& im_;
  std::unordered_map<std::string, Named> meshes_;
  bool free_ = false;
  MeshId manual_, functionMesh_;
};

} // namespace dtc
