#include "dtc/IR/LocalShape.h"

#include "dtc/IR/OpRecord.h"
#include "dtc/Support/ElementCount.h"
#include "dtc/Support/Result.h"

namespace dtc {
namespace {

template <class SizeOf>
std::optional<std::vector<int64_t>> shapeWith(const Module& m, TypeId type, SizeOf&& sizeOf) {
  std::vector<int64_t> shape;
  for (Dim d : m.types[type].dims) {
    std::optional<int64_t> size = sizeOf(d);
    if (!size) return std::nullopt;
    shape.push_back(*size);
  }
  return shape;
}

} // namespace

MeshId meshOfFunction(const Module& m, FuncId f) {
  const Function& fn = m[f];
  StrId key = m.strings.find("mesh");
  if (AttrId id = key ? findAttr(fn.attrs, key) : AttrId()) return m.shardings.findMesh(m.attrs[id].text);
  for (const FuncArg& a : fn.args)
    if (ShardingId s = m[a.value].sharding) return m.shardings[s].mesh;
  for (const FuncResult& r : fn.results)
    if (r.sharding) return m.shardings[r.sharding].mesh;
  return m.shardings.numMeshes() == 1 ? MeshId(0) : MeshId();
}

MeshId meshOfBlock(const Module& m, BlockId b) {
  while (m[b].parentOp.valid()) {
    OpId op = m[b].parentOp;
    if (m.record(op).regions == RegionKind::Local)
      for (ValueId a : m[b].args)
        if (ShardingId s = m[a].sharding) return m.shardings[s].mesh;
    if (m.record(op).regions == RegionKind::Local)
      for (uint32_t i = 0; i < m[op].numResults; ++i)
        if (ShardingId s = m[m.result(op, i)].sharding) return m.shardings[s].mesh;
    if (!m[op].parent.valid()) break;
    b = m[op].parent;
  }
  return m[b].parentFunc.valid() ? meshOfFunction(m, m[b].parentFunc) : MeshId();
}

Mesh meshValueOf(const Module& m, FuncId f) {
  MeshId id = meshOfFunction(m, f);
  return id ? m.shardings.mesh(id) : Mesh{};
}

std::optional<int64_t> dimAt(const Module& m, Dim d, const Mesh& mesh, int64_t coordinate) {
  if (d.isStatic()) return d.value();
  const DimExpr& e = m.dims.dynamic(d);
  if (!e.symbols.empty()) return std::nullopt;
  return shardInterval(e.coefficient, mesh.sizeOf(e.axes), mesh.indexAlong(e.axes, coordinate)).size();
}

std::optional<std::vector<int64_t>> shapeAt(const Module& m, TypeId type, const Mesh& mesh,
                                            int64_t coordinate) {
  return shapeWith(m, type, [&](Dim d) { return dimAt(m, d, mesh, coordinate); });
}

std::optional<int64_t> largestDim(const Module& m, Dim d, const Mesh& mesh) {
  if (d.isStatic()) return d.value();
  const DimExpr& e = m.dims.dynamic(d);
  if (!e.symbols.empty()) return std::nullopt;
  const int64_t k = mesh.sizeOf(e.axes);
  return e.coefficient / k + (e.coefficient % k != 0);
}

std::optional<std::vector<int64_t>> largestShape(const Module& m, TypeId type, const Mesh& mesh) {
  return shapeWith(m, type, [&](Dim d) { return largestDim(m, d, mesh); });
}

std::optional<int64_t> largestBytes(const Module& m, TypeId type, const Mesh& mesh) {
  auto shape = largestShape(m, type, mesh);
  auto count = shape ? elementCount(*shape) : std::nullopt;
  return count ? checkedMul(*count, dtypeBytes(m.types[type].dtype)) : std::nullopt;
}

AttrId axesAttr(Module& m, std::span<const AxisRef> axes) {
  std::vector<AttrId> list;
  for (const AxisRef& axis : axes) list.push_back(m.attrs.axis(axis));
  return m.attrs.list(std::move(list));
}

AttrId sizeAttr(Module& m, Dim d) {
  if (d.isStatic()) return m.attrs.integer(d.value());
  const DimExpr e = m.dims.expr(d);
  if (e.axes.empty() && e.coefficient == 1 && e.symbols.size() == 1) return m.attrs.word(e.symbols[0]);
  return m.attrs.intern({.kind = Attr::Size, .dim = d});
}

AttrId sizesAttr(Module& m, std::span<const Dim> dims) {
  std::vector<AttrId> list;
  for (Dim d : dims) list.push_back(sizeAttr(m, d));
  return m.attrs.list(std::move(list));
}

TypeId localTypeOf(Module& m, TypeId global, const Sharding& s) {
  Type t = m.types[global];
  for (size_t d = 0; d < t.rank(); ++d) {
    auto dim = localDim(s.dims[d], m.shardings.mesh(s.mesh), t.dims[d], m.dims);
    DTC_CHECK(dim, "a strided sharding must divide its dim");
    t.dims[d] = *dim;
  }
  return m.types.intern(std::move(t));
}

} // namespace dtc
