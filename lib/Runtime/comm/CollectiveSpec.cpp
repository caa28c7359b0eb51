// Reads the CollectiveSpec of a local op: its attributes, and the shapes on each device.
#include "dtc/IR/DevicePrograms.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/Runtime/comm/Collective.h"

namespace dtc {
// [[from, to], …]
static std::vector<P2pSend> sendsOfPairs(const Module& m, AttrId id) {
  std::vector<P2pSend> sends;
  if (!id) return sends;
  for (AttrId entry : m.attrs[id].list)
    if (const std::vector<AttrId>& n = m.attrs[entry].list;
        n.size() == 2) // else the verifier has reported it
      sends.push_back({0, m.attrs[n[0]].i, m.attrs[n[1]].i});
  return sends;
}

static size_t dimOf(const OpQuery& q, std::string_view name, size_t rank) {
  int64_t d = q.intAttr(name);
  return static_cast<size_t>(d < 0 ? d + static_cast<int64_t>(rank) : d);
}

std::vector<AxisRef> axesOfAttr(const Module& m, AttrId id, const Mesh& mesh) {
  std::vector<AxisRef> axes;
  if (!id) return axes;
  auto one = [&](AttrId a) {
    const Attr& attr = m.attrs[a];
    if (attr.kind == Attr::Axis) axes.push_back(mesh.canonical(attr.axis));
    if (attr.kind == Attr::Word) axes.push_back({attr.text});
  };
  if (m.attrs[id].kind == Attr::List)
    for (AttrId a : m.attrs[id].list) one(a);
  else
    one(id);
  return axes;
}

Result<CollectiveSpec> collectiveSpec(Module& m, OpId op, const Mesh& mesh) {
  Diagnostics diags;
  OpQuery q = queryOf(m, op, diags);
  const CollectiveKind kind = q.record->collective;
  DTC_CHECK(hasGroups(kind), "collectiveSpec needs a collective op");
  CollectiveSpec spec;
  spec.kind = kind;
  const Type& first = m.typeOf(m.operand(op, 0));
  spec.dtype = partType(first.dtype);
  if (kind == CollectiveKind::P2p)
    for (ValueId v : m.operands(op)) spec.dtypes.push_back(partType(m.typeOf(v).dtype));
  spec.axes = axesOfAttr(m, m.attr(op, "axes"), mesh);
  for (int64_t p = 0; kind == CollectiveKind::P2p && p < mesh.numDevices(); ++p)
    spec.groups.push_back(rendezvousOf(m, op, mesh, p));
  if (reduces(kind)) spec.op = parsePendingKind(q.textAttr("op")).value_or(PendingKind::Sum);
  spec.commDType = defaultCommDType(reduces(kind) ? spec.op : PendingKind::None, spec.dtype);
  if (AttrId commDType = m.attr(op, "wire"))
    spec.commDType = parseDType(m.strings[m.attrs[commDType].text]).value_or(spec.commDType);
  if (kind == CollectiveKind::AllGather || kind == CollectiveKind::AllSlice ||
      kind == CollectiveKind::ReduceScatter)
    spec.dim = dimOf(q, "dim", first.rank());
  if (kind == CollectiveKind::AllToAll) {
    spec.dim = dimOf(q, "split_dim", first.rank());
    spec.concatDim = dimOf(q, "concat_dim", first.rank());
  }
  if (kind == CollectiveKind::Permute) spec.sends = sendsOfPairs(m, m.attr(op, "pairs"));
  if (kind == CollectiveKind::P2p) spec.sends = sendsOf(m, op);
  if (kind == CollectiveKind::BroadcastFrom) spec.root = q.intAttr("root");
  auto shapes = [&](ValueId v, std::vector<std::vector<std::vector<int64_t>>>& out) {
    auto& shapes = out.emplace_back();
    for (int64_t p = 0; p < mesh.numDevices(); ++p) {
      auto s = shapeAt(m, m[v].type, mesh, p);
      if (!s) return false;
      if (isComplex(m.typeOf(v).dtype)) s->push_back(2); // real and imaginary parts become a last dim
      shapes.push_back(std::move(*s));
    }
    return true;
  };
  bool bound = true;
  for (ValueId v : m.operands(op)) bound = bound && shapes(v, spec.operandShapes);
  for (uint32_t r = 0; r < m[op].numResults; ++r) bound = bound && shapes(m.result(op, r), spec.resultShapes);
  if (!bound) return inputError("unbound symbolic size: bind it with --dim NAME=SIZE");
  return spec;
}

} // namespace dtc
