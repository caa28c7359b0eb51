// Collectives: local types with sharded dims (ir.md).
#include "dtc/IR/Element.h"
#include "dtc/IR/Homomorphism.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/Sharding/Canonical.h"
#include "dtc/Support/Words.h"
#include "record/RecordParts.h"
#include <algorithm>

namespace dtc {

namespace {

inline constexpr DiagKind kNoMesh{"collective-mesh", "'{0}': no mesh has the axes {1}"};
inline constexpr DiagKind kAxisTwice{"duplicate-axis", "'{0}': axis {1} is listed twice in axes"};
inline constexpr DiagKind kCollectiveOpType{"collective-op-dtype",
                                            "'{0}': op = \"{1}\" is not defined on {2}"};
inline constexpr DiagKind kGatherSharding{
    "collective-sharding", "'{0}': dim {1} of {2} is {3}, which is not sharded last along {4}"};
inline constexpr DiagKind kTooLong{"collective-size",
                                   "'{0}': dim {1} of {2}, gathered along {3}, is longer than 2^63-1"};
inline constexpr DiagKind kWrittenType{"result-type", "the result of '{0}' is {1}, but {2} is written"};
inline constexpr DiagKind kPairs{"collective-pairs", "'{0}': {1}"};
inline constexpr DiagKind kCommDTypeMismatch{
    "communication-dtype",
    "'{0}': {1} cannot be sent as {2}: only floats can change dtype, to another float"};
inline constexpr DiagKind kRoot{
    "attribute-value", "'{0}': root = {1} is not one of the {2} devices along axes, which count from 0"};

std::vector<AxisRef> axesOf(const OpQuery& q) {
  std::vector<AxisRef> axes;
  AttrId id = q.rawAttr("axes");
  if (!id.valid() || q.module->attrs[id].kind != Attr::List) return axes;
  for (AttrId e : q.module->attrs[id].list) {
    const Attr& a = q.module->attrs[e];
    axes.push_back(a.kind == Attr::Axis ? a.axis : AxisRef{a.text});
  }
  return axes;
}

std::string axesText(const OpQuery& q, std::span<const AxisRef> axes) {
  return "[" + joined(axes, ", ", [&](const AxisRef& a) { return printAxis(a, q.module->strings); }) + "]";
}

// The mesh of the enclosing function, or if unknown the first that has the axes.
const Mesh* meshOf(const OpQuery& q, std::span<const AxisRef> axes) {
  const ShardingTable& table = q.module->shardings;
  auto has = [&](const Mesh& m) {
    return std::ranges::all_of(axes, [&](const AxisRef& a) {
      int at = m.axisIndex(a.name);
      if (at < 0) return false;
      return a.isFullAxis() ||
             (a.pre > 0 && a.size > 0 && m.axes[static_cast<size_t>(at)].size % a.pre == 0 &&
              m.axes[static_cast<size_t>(at)].size / a.pre % a.size == 0);
    });
  };
  if (q.mesh.valid()) return has(table.mesh(q.mesh)) ? &table.mesh(q.mesh) : nullptr;
  for (uint32_t i = 0; i < table.numMeshes(); ++i)
    if (has(table.mesh(MeshId(i)))) return &table.mesh(MeshId(i));
  return nullptr;
}

struct Group {
  std::vector<AxisRef> axes;
  const Mesh* mesh = nullptr;
  int64_t size = 1;
};

std::optional<Group> groupOf(const OpQuery& q) {
  Group g{axesOf(q)};
  g.mesh = meshOf(q, g.axes);
  if (!g.mesh) return q.diags->fail(kNoMesh, q.loc, q.record->name, axesText(q, g.axes));
  for (size_t i = 0; i < g.axes.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (overlaps(g.axes[i], g.axes[j], *g.mesh))
        return q.diags->fail(kAxisTwice, q.loc, q.record->name, printAxis(g.axes[i], q.module->strings));
  std::erase_if(g.axes, [&](const AxisRef& a) { return isUnit(a, *g.mesh); });
  for (AxisRef& a : g.axes) a = g.mesh->canonical(a);
  g.size = g.mesh->sizeOf(g.axes);
  return g;
}

DimSharding shardedBy(std::span<const AxisRef> axes) {
  DimSharding d;
  for (const AxisRef& a : axes) d.parts.push_back({a, 0});
  return d;
}

// A local dim, further sharded along the group's axes.
Dim sliced(const OpQuery& q, const Group& g, size_t operand, size_t dim) {
  DimTable& dims = q.module->dims;
  DimExpr e = dims.expr(q.type(operand).dims[dim]);
  divideOut(e, *g.mesh);
  e.axes.insert(e.axes.end(), g.axes.begin(), g.axes.end());
  return canonicalShard(std::move(e), *g.mesh, dims);
}

// Removes the group's axes from the end of a shard's axes. Axes of the group that are major to all shard axes
// gather shards of equal size.
bool takeTail(DimExpr& e, const Group& g, bool& overflow) {
  for (size_t i = g.axes.size(); i-- > 0;) {
    divideOut(e, *g.mesh);
    const AxisRef& a = g.axes[i];
    if (!e.axes.empty() && takeMinor(e.axes, a, *g.mesh)) continue;
    int64_t grows = g.mesh->axisSize(a);
    if (!e.axes.empty()) { // n/a:(p)s is n*p/a:(1)ps, from which a minor part of the axis is removed
      const AxisRef last = e.axes.back();
      if (e.axes.size() > 1 || last.name != a.name || a.pre * grows != last.pre * g.mesh->axisSize(last))
        return false;
      e.axes = {{a.name, 1, a.pre}};
      grows = last.pre;
    }
    const auto grown = checkedMul(e.coefficient, grows);
    overflow = !grown;
    if (overflow) return false;
    e.coefficient = *grown;
  }
  return true;
}

// Removes the minor shard axes; beyond them the size is multiplied.
std::optional<Dim> gathered(const OpQuery& q, const Group& g, size_t operand, size_t dim) {
  DimTable& dims = q.module->dims;
  const Dim d = q.type(operand).dims[dim];
  DimExpr e = dims.expr(d);
  bool overflow = false;
  if (takeTail(e, g, overflow)) return canonicalShard(std::move(e), *g.mesh, dims);
  if (overflow)
    q.diags->error(kTooLong, q.loc, q.record->name, dim, q.operandText(operand), axesText(q, g.axes));
  else
    q.diags->error(kGatherSharding, q.loc, q.record->name, dim, q.operandText(operand),
                   printDim(d, dims, q.module->strings), axesText(q, g.axes));
  return std::nullopt;
}

// Whether the sizes are equal on every device, possibly along different axes (1/(a, b) and 1/(b, a)).
bool sameSizes(const OpQuery& q, const Mesh& mesh, TypeId a, TypeId b) {
  constexpr int64_t kMaxCoordinates = 1 << 16;
  const Module& m = *q.module;
  if (m.types[a].dtype != m.types[b].dtype || m.types[a].rank() != m.types[b].rank()) return false;
  for (size_t d = 0; d < m.types[a].rank(); ++d) {
    Dim x = m.types[a].dims[d], y = m.types[b].dims[d];
    if (x == y) continue;
    if (mesh.numDevices() > kMaxCoordinates) return false;
    for (int64_t p = 0; p < mesh.numDevices(); ++p) {
      auto sizeX = dimAt(m, x, mesh, p), sizeY = dimAt(m, y, mesh, p);
      if (!sizeX || !sizeY || *sizeX != *sizeY) return false;
    }
  }
  return true;
}

// A written type is kept if it has the same sizes.
bool addLocalType(const OpQuery& q, const Mesh& mesh, Type type, std::vector<TypeId>& results) {
  TypeId inferred = q.module->types.intern(std::move(type));
  size_t i = results.size();
  if (i >= q.writtenTypes.size() || q.writtenTypes[i] == inferred) {
    results.push_back(inferred);
    return true;
  }
  if (sameSizes(q, mesh, inferred, q.writtenTypes[i])) {
    results.push_back(q.writtenTypes[i]);
    return true;
  }
  return q.diags->fail(kWrittenType, q.loc, q.record->name, typeText(*q.module, inferred),
                       typeText(*q.module, q.writtenTypes[i]));
}

bool checkOp(const OpQuery& q) {
  if (!textChoice(q, "op", {"sum", "avg", "prod", "max", "min", "any", "all"})) return false;
  const auto kind = parsePendingKind(q.textAttr("op"));
  DType d = q.type(0).dtype;
  if (hasPendingKind(d, *kind)) return true;
  return q.diags->fail(kCollectiveOpType, q.loc, q.record->name, q.textAttr("op"), dtypeName(d));
}

bool checkCommDType(const OpQuery& q) {
  if (!q.has("wire")) return true;
  const DType d = partType(q.type(0).dtype), commDType = q.dtypeAttr("wire").value_or(d);
  if (d == commDType || (isFloat(d) && isFloat(commDType))) return true;
  return q.diags->fail(kCommDTypeMismatch, q.loc, q.record->name, dtypeName(d), dtypeName(commDType));
}

// --- inference, one function per shape of the result ---

enum class Shape : uint8_t { Alike, Gather, Slice, Exchange };

template <Shape S, bool Reduces> bool inferCollective(const OpQuery& q, std::vector<TypeId>& results) {
  auto g = groupOf(q);
  if (!g || (Reduces && !checkOp(q)) || !checkCommDType(q)) return false;
  Type t = q.type(0);
  auto dimOf = [&](std::string_view name) { return q.dimAttr(name, t.rank()); };
  if constexpr (S == Shape::Gather || S == Shape::Slice) {
    auto dim = dimOf("dim");
    if (!dim) return false;
    size_t d = static_cast<size_t>(*dim);
    const std::optional<Dim> size = S == Shape::Gather ? gathered(q, *g, 0, d) : sliced(q, *g, 0, d);
    if (!size) return false;
    t.dims[d] = *size;
  }
  if constexpr (S == Shape::Exchange) {
    auto split = dimOf("split_dim"), concat = dimOf("concat_dim");
    if (!split || !concat) return false;
    if (*split == *concat)
      return q.diags->fail(kPairs, q.loc, q.record->name, "split_dim and concat_dim must differ");
    const std::optional<Dim> more = gathered(q, *g, 0, static_cast<size_t>(*concat));
    if (!more) return false;
    t.dims[static_cast<size_t>(*split)] = sliced(q, *g, 0, static_cast<size_t>(*split));
    t.dims[static_cast<size_t>(*concat)] = *more;
  }
  return addLocalType(q, *g->mesh, std::move(t), results);
}

bool inferBroadcastFrom(const OpQuery& q, std::vector<TypeId>& results) {
  auto g = groupOf(q);
  if (!g || !checkCommDType(q)) return false;
  int64_t root = q.intAttr("root");
  if (root >= 0 && root < g->size) return addLocalType(q, *g->mesh, q.type(0), results);
  return q.diags->fail(kRoot, q.loc, q.record->name, root, g->size);
}

// Checks the entries of `pairs` and `sends`: indices in range, no duplicate receiver (per operand).
bool checkSends(const OpQuery& q, const char* attr, int64_t numDevices, bool namesOperand) {
  size_t width = namesOperand ? 3 : 2;
  std::vector<std::pair<int64_t, int64_t>> receivers;
  auto report = [&](std::string_view what) { return q.diags->fail(kPairs, q.loc, q.record->name, what); };
  for (AttrId entry : q.module->attrs[q.rawAttr(attr)].list) {
    std::vector<int64_t> n;
    for (AttrId e : q.module->attrs[entry].list) n.push_back(q.module->attrs[e].i);
    if (n.size() != width)
      return report(namesOperand ? "each of sends is [operand, from, to]" : "each of pairs is [from, to]");
    int64_t operand = namesOperand ? n[0] : 0, from = n[width - 2], to = n[width - 1];
    if (operand < 0 || operand >= static_cast<int64_t>(q.operandTypes.size()))
      return report("operand " + std::to_string(operand) + " does not exist");
    if (from < 0 || to < 0 || from >= numDevices || to >= numDevices)
      return report("[" + std::to_string(from) + ", " + std::to_string(to) + "] is outside the " +
                    std::to_string(numDevices) + " devices along axes");
    receivers.emplace_back(operand, to);
  }
  std::ranges::sort(receivers);
  auto twice = std::adjacent_find(receivers.begin(), receivers.end());
  if (twice != receivers.end())
    return report("device " + std::to_string(twice->second) + " receives " +
                  (namesOperand ? "operand " + std::to_string(twice->first) + " " : "") + "twice");
  return true;
}

// The size sent must be the size received: a dim that is unevenly sharded along the group's axes needs
// fill_piece first; along other axes all shards of the group have the same size.
bool checkEqualSizes(const OpQuery& q, const Group& g) {
  auto varies = [&](Dim d) {
    DimExpr e = q.module->dims.expr(d);
    divideOut(e, *g.mesh);
    return std::ranges::any_of(e.axes, [&](const AxisRef& a) {
      return std::ranges::any_of(g.axes, [&](const AxisRef& b) { return overlaps(a, b, *g.mesh); });
    });
  };
  for (size_t i = 0; i < q.operandTypes.size(); ++i)
    for (size_t d = 0; d < q.type(i).rank(); ++d)
      if (varies(q.type(i).dims[d]))
        return q.diags->fail(kPairs, q.loc, q.record->name,
                             "needs equal sizes on every device, but dim " + std::to_string(d) + " of " +
                                 q.operandText(i) + " is " +
                                 printDim(q.type(i).dims[d], q.module->dims, q.module->strings) +
                                 ": use `fill_piece` before and `trim_piece` after");
  return true;
}

template <bool P2p> bool inferSends(const OpQuery& q, std::vector<TypeId>& results) {
  auto g = groupOf(q);
  if (!g || !checkSends(q, P2p ? "sends" : "pairs", g->size, P2p) || !checkEqualSizes(q, *g)) return false;
  if (!P2p && !checkCommDType(q)) return false;
  for (size_t i = 0; i < q.operandTypes.size(); ++i)
    if (!addLocalType(q, *g->mesh, q.type(i), results)) return false;
  return true;
}

bool inferIndex(const OpQuery& q, std::vector<TypeId>& results) {
  if (!groupOf(q)) return false;
  results.push_back(q.module->tensorType(DType::I32, std::initializer_list<int64_t>{}));
  return true;
}

bool inferFill(const OpQuery& q, std::vector<TypeId>& results) {
  Type t = q.type(0);
  auto dim = q.dimAttr("dim", t.rank());
  if (!dim) return false;
  Dim& d = t.dims[static_cast<size_t>(*dim)];
  DimExpr e = q.module->dims.expr(d);
  if (e.axes.empty()) {
    results.push_back(q.operandTypes[0]);
    return true;
  }
  const Mesh* mesh = meshOf(q, e.axes);
  if (!mesh || !e.symbols.empty()) return q.diags->fail(kNoMesh, q.loc, q.record->name, axesText(q, e.axes));
  int64_t k = mesh->sizeOf(e.axes);
  d = Dim(e.coefficient / k + (e.coefficient % k != 0));
  return addLocalType(q, *mesh, std::move(t), results);
}

bool inferTrim(const OpQuery& q, std::vector<TypeId>& results) {
  auto g = groupOf(q);
  Type t = q.type(0);
  auto dim = g ? q.dimAttr("dim", t.rank()) : std::nullopt;
  if (!dim) return false;
  size_t d = static_cast<size_t>(*dim);
  Dim size = q.sizeAttr("size");
  auto result = localDim(shardedBy(g->axes), *g->mesh, size, q.module->dims);
  bool fits =
      result && size.isStatic() && t.dims[d] == Dim(size.value() / g->size + (size.value() % g->size != 0));
  if (!fits)
    return q.diags->fail(kPairs, q.loc, q.record->name,
                         "dim " + std::to_string(d) + " of " + q.operandText(0) +
                             " is not the largest shard of size along axes");
  t.dims[d] = *result;
  return addLocalType(q, *g->mesh, std::move(t), results);
}

// The shard's dim is handled by the op; other dims pass.
template <bool (*Infer)(const OpQuery&, std::vector<TypeId>&)> bool shardRule(const OpQuery& q, Rule& rule) {
  std::vector<TypeId> results;
  auto dim = q.dimAttr("dim", q.type(0).rank());
  if (!dim || !Infer(q, results)) return false;
  const Type from = q.type(0), to = q.module->types[results[0]];
  auto add = [&](Dim size) {
    rule.factors.push_back({"", size, FactorKind::Whole, PendingKind::None});
    return Term{static_cast<uint16_t>(rule.factors.size() - 1), 1};
  };
  TensorMap in, out;
  for (size_t d = 0; d < from.rank(); ++d) {
    const bool own = d == static_cast<size_t>(*dim);
    const DimMap::Form form = own ? DimMap::Free : DimMap::Compound;
    const Term term = add(from.dims[d]);
    in.dims.push_back({form, {term}, 0});
    out.dims.push_back({form, {own ? add(to.dims[d]) : term}, 0});
  }
  rule.operands.push_back(std::move(in));
  rule.results.push_back(std::move(out));
  return true;
}

// On one device: its own elements, padded to the largest shard; and back.
uint32_t fillElement(const OpQuery& q, ElementBuilder& b, size_t) {
  size_t dim = static_cast<size_t>(*q.dimAttr("dim", q.type(0).rank()));
  std::vector<ElementBuilder::Node> at;
  for (size_t d = 0; d < q.type(0).rank(); ++d) at.push_back(b.at(d));
  auto own = b.call("lt", {at[dim], b.size(q.type(0).dims[dim])});
  return b.call("select", {own, b.load(0, at), b.number(q.floatAttr("value"), q.type(0).dtype)});
}
uint32_t trimElement(const OpQuery& q, ElementBuilder& b, size_t) {
  std::vector<ElementBuilder::Node> at;
  for (size_t d = 0; d < q.type(0).rank(); ++d) at.push_back(b.at(d));
  return b.load(0, at, true);
}

bool inferSame(const OpQuery& q, std::vector<TypeId>& results) {
  results.assign(q.operandTypes.begin(), q.operandTypes.end());
  return true;
}

// Collectives are local text only: no factor can be sharded.
bool localRule(const OpQuery& q, Rule& rule) {
  for (size_t i = 0; i < q.operandTypes.size(); ++i) addOperandFactors(q, i, rule);
  for (Factor& f : rule.factors) f.kind = FactorKind::Whole;
  return true;
}

// --- the records ---

const AttrSpec kAxes{"axes", AttrType::Axes, nullptr, "mesh axes, major to minor; sub-axes too: [a:(1)2]"};
const AttrSpec kCommDType{"wire", AttrType::DTypeName, "",
                          "communication dtype, a float; by default sums of f16 and f8 are sent as f32"};
const AttrSpec kReduceOp{"op", AttrType::String, "sum", "sum avg prod max min any all"};

constexpr const char* kNames[] = {
    "",           "all_reduce",     "all_gather", "all_slice",  "reduce_scatter", "all_to_all",
    "permute",    "broadcast_from", "p2p",        "axis_index", "piece_offset",   "piece_size",
    "fill_piece", "trim_piece"};

OpRecord collective(CollectiveKind kind, const char* summary, std::vector<AttrSpec> attrs) {
  OpRecord r{.name = collectiveName(kind), .family = "collective", .summary = summary};
  r.collective = kind;
  r.complex = OpRecord::ComplexForm::Planes;
  r.attrs = std::move(attrs);
  r.rule = localRule;
  r.resultType = OpRecord::ResultType::Custom;
  r.gradNone = true;
  r.lowering = Lowering::Collective;
  r.flopsPerPoint = 0;
  return r;
}

// NAME and NAME_start.
void addBoth(OpRegistry& ops, OpRecord r, const char* startName) {
  OpRecord start = r;
  start.name = startName;
  start.summary = "starts the collective of this name; `done` returns its result";
  start.async = AsyncForm::Start;
  ops.add(std::move(r));
  ops.add(std::move(start));
}

void addDataMovement(OpRegistry& ops) {
  using enum CollectiveKind;
  auto add = [&](CollectiveKind kind, const char* start, const char* summary, std::vector<AttrSpec> attrs,
                 bool (*infer)(const OpQuery&, std::vector<TypeId>&)) {
    OpRecord r = collective(kind, summary, std::move(attrs));
    r.infer = infer;
    r.uniform = kind == AllReduce || kind == AllGather || kind == BroadcastFrom;
    addBoth(ops, std::move(r), start);
  };
  AttrSpec dim{"dim", AttrType::Dim, nullptr, "the dim that is sharded or gathered"};
  add(AllReduce, "all_reduce_start", "the reduced value on every device", {kAxes, kReduceOp, kCommDType},
      inferCollective<Shape::Alike, true>);
  add(AllGather, "all_gather_start", "gathers the shards of a dim on every device", {kAxes, dim, kCommDType},
      inferCollective<Shape::Gather, false>);
  add(AllSlice, "all_slice_start", "this device's shard of a dim, without communication", {kAxes, dim},
      inferCollective<Shape::Slice, false>);
  add(ReduceScatter, "reduce_scatter_start", "this device's shard of the reduced value",
      {kAxes, dim, kReduceOp, kCommDType}, inferCollective<Shape::Slice, true>);
  add(AllToAll, "all_to_all_start", "moves the sharding of one dim to another dim",
      {kAxes,
       {"split_dim", AttrType::Dim, nullptr, "the dim that becomes sharded"},
       {"concat_dim", AttrType::Dim, nullptr, "the dim that is gathered"},
       kCommDType},
      inferCollective<Shape::Exchange, false>);
  add(Permute, "permute_start", "x of another device; zeros on devices that receive nothing",
      {kAxes, {"pairs", AttrType::Pairs, nullptr, "[[from, to], …], indices along axes"}, kCommDType},
      inferSends<false>);
  add(BroadcastFrom, "broadcast_from_start", "x of one device",
      {kAxes, {"root", AttrType::Int, "0", "its index along axes"}, kCommDType}, inferBroadcastFrom);
  OpRecord p2p = collective(
      P2p, "a batch of sends and receives; zeros on devices that receive nothing",
      {kAxes, {"sends", AttrType::Pairs, nullptr, "[[operand, from, to], …], indices along axes"}});
  p2p.operands = "xs...";
  p2p.results = "ys...";
  p2p.sameDType = false;
  p2p.infer = inferSends<true>;
  addBoth(ops, std::move(p2p), "p2p_start");
}

void addIndices(OpRegistry& ops) {
  using enum CollectiveKind;
  static constexpr std::pair<CollectiveKind, const char*> kinds[] = {
      {AxisIndex, "this device's index along axes"},
      {ShardOffset, "the offset of this device's shard of size along axes"},
      {ShardSize, "the size of this device's shard of size along axes"}};
  for (auto& [kind, summary] : kinds) {
    OpRecord& r = ops.add(collective(kind, summary, {}));
    if (kind != AxisIndex) r.attrs.push_back({"size", AttrType::Size, nullptr, "the global size"});
    r.attrs.push_back(kAxes);
    r.operands = "";
    r.infer = inferIndex;
  }
}

} // namespace

const char* collectiveName(CollectiveKind k) { return kNames[static_cast<size_t>(k)]; }

void addCollectiveOps(OpRegistry& ops) {
  addDataMovement(ops);
  addIndices(ops);
  OpRecord& fill =
      ops.add(collective(CollectiveKind::FillShard, "pads this device's shard to the largest shard",
                         {{"dim", AttrType::Dim, nullptr, "the sharded dim"},
                          {"value", AttrType::Value, "0", "the padding value"}}));
  fill.rule = shardRule<inferFill>;
  fill.infer = inferFill;
  fill.element = fillElement;
  OpRecord& trim = ops.add(collective(CollectiveKind::TrimShard, "removes the padding that fill_piece added",
                                      {{"dim", AttrType::Dim, nullptr, "the dim"},
                                       {"size", AttrType::Size, nullptr, "the global size"},
                                       kAxes}));
  trim.rule = shardRule<inferTrim>;
  trim.infer = inferTrim;
  trim.element = trimElement;
  OpRecord done = collective(CollectiveKind::None, "waits for a …_start and returns its result", {});
  done.name = "done";
  done.operands = "handles...";
  done.results = "ys...";
  done.sameDType = false;
  done.infer = inferSame;
  done.async = AsyncForm::Done;
  ops.add(std::move(done));
}

} // namespace dtc
