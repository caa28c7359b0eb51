#include "partition/UnifyMeshes.h"
#include "analysis/PartitionReshard.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/Sharding/MeshView.h"
#include "dtc/Sharding/Projection.h"
#include "dtc/Support/Result.h"

namespace dtc {

namespace {

constexpr DiagKind kOtherDevices{"mesh-devices", "mesh @{0} and mesh @{1} have different devices, and both "
                                                 "are used in @{2}: a function runs on one set of devices"};
constexpr DiagKind kWithinDigit{"mesh-sub-axes",
                                "a sub-axis of mesh @{0} straddles a sub-axis of mesh @{1}: use full axes"};

class MeshUnifier {
public:
  MeshUnifier(Module& m, FuncId f, MeshId target, Diagnostics& diags)
      : m_(m), func_(f), target_(target), diags_(diags) {}

  bool run() {
    for (FuncArg& a : m_[func_].args)
      if (!value(a.value)) return false;
    if (!block(m_[func_].body)) return false;
    for (FuncResult& r : m_[func_].results)
      if (!sharding(r.sharding, r.loc)) return false;
    return true;
  }

private:
  const Mesh& targetMesh() const { return m_.shardings.mesh(target_); }

  const MeshView* viewOf(MeshId id, SourceRange loc) {
    auto [entry, isNew] = views_.try_emplace(id);
    if (isNew) entry->second = viewMesh(m_.shardings.mesh(id), targetMesh());
    if (entry->second) return &*entry->second;
    diags_.error(kOtherDevices, loc, nameOf(id), nameOf(target_), m_.strings[m_[func_].name]);
    return nullptr;
  }
  [[nodiscard]] std::string_view nameOf(MeshId id) const { return m_.strings[m_.shardings.mesh(id).name]; }
  bool refuse(MeshId id, SourceRange loc) {
    return diags_.fail(kWithinDigit, loc, nameOf(id), nameOf(target_));
  }

  bool sharding(ShardingId& id, SourceRange loc) {
    if (!id.valid() || m_.shardings[id].mesh == target_) return true;
    const MeshId from = m_.shardings[id].mesh;
    const MeshView* view = viewOf(from, loc);
    if (!view) return false;
    auto seen = throughView(m_.shardings[id], m_.shardings.mesh(from), *view, target_, targetMesh());
    if (!seen) return refuse(from, loc);
    id = m_.shardings.intern(*std::move(seen));
    return true;
  }
  bool value(ValueId v) {
    ShardingId id = m_[v].sharding;
    const bool done = sharding(id, m_[v].loc);
    m_[v].sharding = id;
    return done;
  }

  bool block(BlockId b) {
    for (ValueId a : m_[b].args)
      if (!value(a)) return false;
    for (OpId o : std::vector<OpId>(m_[b].ops)) {
      const bool isLocal = m_.record(o).regions == RegionKind::Local;
      const MeshId inside = isLocal ? meshOfBlock(m_, m_.region(o)) : MeshId();
      if (inside.valid() && inside != target_ && !localText(o, inside)) return false;
      for (uint32_t r = 0; r < m_[o].numResults; ++r)
        if (!value(m_.result(o, r))) return false;
      for (uint32_t r = 0; r < m_[o].numRegions; ++r)
        if (!block(m_.region(o, r))) return false;
    }
    return true;
  }

  // The axes that the ops of a `local` region name, and the shardings of its local values.
  bool localText(OpId local, MeshId from) {
    bool good = axesOf(local, from); // its size attributes are global
    for (ValueId a : m_[m_.region(local)].args) good = good && shardThrough(a, from);
    forEachOp(m_, m_.region(local), [&](OpId o) {
      good = good && axesOf(o, from) && sizesOf(o, from);
      for (uint32_t r = 0; good && r < m_[o].numResults; ++r) good = shardThrough(m_.result(o, r), from);
      for (uint32_t r = 0; good && r < m_[o].numRegions; ++r)
        for (ValueId a : m_[m_.region(o, r)].args) good = good && shardThrough(a, from);
    });
    return good;
  }

  bool axesOf(OpId o, MeshId from) {
    for (const AttrSpec& spec : m_.record(o).attrs) {
      const AttrId id = spec.type == AttrType::Axes ? m_.attr(o, spec.name) : AttrId();
      if (!id.valid() || m_.attrs[id].kind != Attr::List) continue;
      std::vector<AxisRef> axes;
      for (AttrId e : m_.attrs[id].list) {
        const Attr& a = m_.attrs[e];
        axes.push_back(a.kind == Attr::Axis ? a.axis : AxisRef{a.text});
      }
      auto seen = listThrough(axes, from, m_[o].loc);
      if (!seen) return false;
      for (NamedAttr& a : m_[o].attrs)
        if (m_.strings[a.name] == spec.name) a.value = axesAttr(m_, *seen);
    }
    return true;
  }

  std::optional<std::vector<AxisRef>> listThrough(std::span<const AxisRef> axes, MeshId from,
                                                  SourceRange loc) {
    const MeshView* view = viewOf(from, loc);
    if (!view) return std::nullopt;
    PartList parts;
    for (const AxisRef& axis : axes) {
      auto seen = throughView(axis, m_.shardings.mesh(from), *view, targetMesh());
      if (!seen) {
        refuse(from, loc);
        return std::nullopt;
      }
      for (const AxisRef& a : *seen) parts.push_back({a, 0});
    }
    canonicalizeParts(parts, targetMesh());
    return DimSharding{parts}.axes();
  }

  // The `shape = [11/x, 6]` of an op in the region, and `11/x` as an operand.
  bool sizesOf(OpId o, MeshId from) {
    for (ValueId v : m_.operands(o))
      if (m_[v].kind == ValueKind::Symbol && !size(m_[v].symbol, from, m_[o].loc)) return false;
    AttrList attrs = m_[o].attrs;
    for (NamedAttr& named : attrs) {
      Attr written = m_.attrs[named.value];
      bool good = true;
      if (written.kind == Attr::Size) good = size(written.dim, from, m_[o].loc);
      for (AttrId& element : written.list) {
        Attr e = m_.attrs[element];
        if (e.kind != Attr::Size) continue;
        good = good && size(e.dim, from, m_[o].loc);
        element = sizeAttr(m_, e.dim);
      }
      if (!good) return false;
      named.value =
          written.kind == Attr::Size ? sizeAttr(m_, written.dim) : m_.attrs.intern(std::move(written));
    }
    m_[o].attrs = std::move(attrs);
    return true;
  }

  bool shardThrough(ValueId v, MeshId from) {
    Type t = m_.typeOf(v);
    for (Dim& d : t.dims)
      if (!size(d, from, m_[v].loc)) return false;
    m_[v].type = m_.types.intern(std::move(t));
    return true;
  }

  // A shard size, in axes of the target mesh.
  bool size(Dim& d, MeshId from, SourceRange loc) {
    if (d.isStatic() || m_.dims.dynamic(d).axes.empty()) return true;
    auto seen = listThrough(m_.dims.expr(d).axes, from, loc);
    if (!seen) return false;
    DimSharding dimSharding;
    for (const AxisRef& a : *seen) dimSharding.parts.push_back({a, 0});
    const auto dim = localDim(dimSharding, targetMesh(), m_.dims.unsharded(d), m_.dims);
    DTC_CHECK(dim, "a sharding without blocks always has a shard size");
    d = *dim;
    return true;
  }

  Module& m_;
  FuncId func_;
  MeshId target_;
  Diagnostics& diags_;
  std::unordered_map<MeshId, std::optional<MeshView>> views_;
};

} // namespace

bool unifyMeshes(Module& m, FuncId f, Diagnostics& diags) {
  if (m.shardings.numMeshes() < 2) return true;
  MeshId target = meshOfFunction(m, f);
  forEachOp(m, m[f].body, [&](OpId o) {
    if (!target.valid() && m[o].numResults > 0 && m[m.result(o)].sharding.valid())
      target = m.shardings[m[m.result(o)].sharding].mesh;
  });
  return !target.valid() || MeshUnifier(m, f, target, diags).run();
}

} // namespace dtc
