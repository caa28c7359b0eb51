// Communication between the devices of a mesh: local types with their cut dims (ir.md §2.3).
#include "RecordParts.h"
#include "dtc/IR/Element.h"
#include "dtc/IR/Homomorphism.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/Sharding/Canonical.h"
#include <algorithm>

namespace dtc {

namespace {

inline constexpr DiagKind kNoMesh{"collective-mesh", "'{0}': no mesh has the axes {1}"};
inline constexpr DiagKind kAxisTwice{"duplicate-axis", "'{0}': axis {1} is listed twice in axes"};
inline constexpr DiagKind kCollectiveOp{
    "attribute-value",
    "'{0}' takes op = \"sum\", \"avg\", \"prod\", \"max\", \"min\", \"any\" or \"all\", not \"{1}\""};
inline constexpr DiagKind kCollectiveOpType{"collective-op-dtype",
                                            "'{0}': op = \"{1}\" is not defined on {2}"};
inline constexpr DiagKind kGatherCut{"collective-sharding",
                                     "'{0}': dim {1} of {2} is {3}, which is not sharded last along {4}"};
inline constexpr DiagKind kTooLong{"collective-size",
                                   "'{0}': dim {1} of {2}, gathered along {3}, is longer than 2^63-1"};
inline constexpr DiagKind kWrittenType{"result-type", "'{0}' gives {1}, but {2} is written"};
inline constexpr DiagKind kPairs{"collective-pairs", "'{0}': {1}"};
inline constexpr DiagKind kWireType{
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
  std::string text = "[";
  for (size_t i = 0; i < axes.size(); ++i) text += (i ? ", " : "") + printAxis(axes[i], q.module->strings);
  return text + "]";
}

// The mesh of the function around; where it is not known, the first that has the axes.
const Mesh* meshOf(const OpQuery& q, std::span<const AxisRef> axes) {
  const ShardingTable& table = q.module->shardings;
  auto has = [&](const Mesh& m) {
    return std::all_of(axes.begin(), axes.end(), [&](const AxisRef& a) {
      int at = m.axisIndex(a.name);
      if (at < 0) return false;
      return a.whole() || (a.pre > 0 && a.size > 0 && m.axes[static_cast<size_t>(at)].size % a.pre == 0 &&
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
  if (!g.mesh) {
    q.diags->error(kNoMesh, q.loc, q.record->name, axesText(q, g.axes));
    return std::nullopt;
  }
  for (size_t i = 0; i < g.axes.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (overlaps(g.axes[i], g.axes[j], *g.mesh)) {
        q.diags->error(kAxisTwice, q.loc, q.record->name, printAxis(g.axes[i], q.module->strings));
        return std::nullopt;
      }
  std::erase_if(g.axes, [&](const AxisRef& a) { return isUnit(a, *g.mesh); });
  for (AxisRef& a : g.axes) a = g.mesh->canonical(a);
  g.size = g.mesh->sizeOf(g.axes);
  return g;
}

DimSharding cutBy(std::span<const AxisRef> axes) {
  DimSharding d;
  for (const AxisRef& a : axes) d.parts.push_back({a, 0});
  return d;
}

// A local dim cut further along the group's axes.
Dim sliced(const OpQuery& q, const Group& g, size_t operand, size_t dim) {
  DimTable& dims = q.module->dims;
  DimExpr e = dims.expr(q.type(operand).dims[dim]);
  divideOut(e, *g.mesh);
  e.cut.insert(e.cut.end(), g.axes.begin(), g.axes.end());
  return canonicalPiece(std::move(e), *g.mesh, dims);
}

// Takes the group's axes off the end of a piece's cut; axes of the group that are major to all that is cut put pieces of one size together.
bool takeTail(DimExpr& e, const Group& g, bool& overflow) {
  for (size_t i = g.axes.size(); i-- > 0;) {
    divideOut(e, *g.mesh);
    const AxisRef& a = g.axes[i];
    if (!e.cut.empty() && takeMinor(e.cut, a, *g.mesh)) continue;
    int64_t grows = g.mesh->axisSize(a);
    if (!e.cut.empty()) { // n/a:(p)s is n*p/a:(1)ps, of which a minor part of the axis is taken
      const AxisRef last = e.cut.back();
      if (e.cut.size() > 1 || last.name != a.name || a.pre * grows != last.pre * g.mesh->axisSize(last))
        return false;
      e.cut = {{a.name, 1, a.pre}};
      grows = last.pre;
    }
    const auto grown = checkedMul(e.coefficient, grows);
    overflow = !grown;
    if (overflow) return false;
    e.coefficient = *grown;
  }
  return true;
}

// The minor axes of a cut taken away; past the cut, as many times as large.
std::optional<Dim> gathered(const OpQuery& q, const Group& g, size_t operand, size_t dim) {
  DimTable& dims = q.module->dims;
  const Dim d = q.type(operand).dims[dim];
  DimExpr e = dims.expr(d);
  bool overflow = false;
  if (takeTail(e, g, overflow)) return canonicalPiece(std::move(e), *g.mesh, dims);
  if (overflow)
    q.diags->error(kTooLong, q.loc, q.record->name, dim, q.operandText(operand), axesText(q, g.axes));
  else
    q.diags->error(kGatherCut, q.loc, q.record->name, dim, q.operandText(operand),
                   printDim(d, dims, q.module->strings), axesText(q, g.axes));
  return std::nullopt;
}

// The same size on every device, though of other axes (1/(a, b) and 1/(b, a)).
bool sameSizes(const OpQuery& q, const Mesh& mesh, TypeId a, TypeId b) {
  constexpr int64_t kMostPlaces = 1 << 16;
  const Module& m = *q.module;
  if (m.types[a].dtype != m.types[b].dtype || m.types[a].rank() != m.types[b].rank()) return false;
  for (size_t d = 0; d < m.types[a].rank(); ++d) {
    Dim x = m.types[a].dims[d], y = m.types[b].dims[d];
    if (x == y) continue;
    if (mesh.numDevices() > kMostPlaces) return false;
    for (int64_t p = 0; p < mesh.numDevices(); ++p) {
      auto sizeX = dimAt(m, x, mesh, p), sizeY = dimAt(m, y, mesh, p);
      if (!sizeX || !sizeY || *sizeX != *sizeY) return false;
    }
  }
  return true;
}

// Where a type is written it stands, if it has the same sizes.
bool give(const OpQuery& q, const Mesh& mesh, Type type, std::vector<TypeId>& results) {
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
  q.diags->error(kWrittenType, q.loc, q.record->name, typeText(*q.module, inferred),
                 typeText(*q.module, q.writtenTypes[i]));
  return false;
}

bool checkOp(const OpQuery& q) {
  auto kind = parsePendingKind(q.textAttr("op"));
  if (!kind) {
    q.diags->error(kCollectiveOp, q.loc, q.record->name, q.textAttr("op"));
    return false;
  }
  DType d = q.type(0).dtype;
  if (hasPendingKind(d, *kind)) return true;
  q.diags->error(kCollectiveOpType, q.loc, q.record->name, q.textAttr("op"), dtypeName(d));
  return false;
}

bool checkWire(const OpQuery& q) {
  if (!q.has("wire")) return true;
  const DType d = partType(q.type(0).dtype), wire = q.dtypeAttr("wire").value_or(d);
  if (d == wire || (isFloat(d) && isFloat(wire))) return true;
  q.diags->error(kWireType, q.loc, q.record->name, dtypeName(d), dtypeName(wire));
  return false;
}

// --- inference, one function per shape of result ---

enum class Shape : uint8_t { Alike, Gather, Slice, Exchange };

template <Shape S, bool Reduces> bool inferCollective(const OpQuery& q, std::vector<TypeId>& results) {
  auto g = groupOf(q);
  if (!g || (Reduces && !checkOp(q)) || !checkWire(q)) return false;
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
    if (*split == *concat) {
      q.diags->error(kPairs, q.loc, q.record->name, "split_dim and concat_dim must differ");
      return false;
    }
    const std::optional<Dim> more = gathered(q, *g, 0, static_cast<size_t>(*concat));
    if (!more) return false;
    t.dims[static_cast<size_t>(*split)] = sliced(q, *g, 0, static_cast<size_t>(*split));
    t.dims[static_cast<size_t>(*concat)] = *more;
  }
  return give(q, *g->mesh, std::move(t), results);
}

bool inferBroadcastFrom(const OpQuery& q, std::vector<TypeId>& results) {
  auto g = groupOf(q);
  if (!g || !checkWire(q)) return false;
  int64_t root = q.intAttr("root");
  if (root >= 0 && root < g->size) return give(q, *g->mesh, q.type(0), results);
  q.diags->error(kRoot, q.loc, q.record->name, root, g->size);
  return false;
}

// Entries of `pairs` and `sends`: indices in range, no receiver twice (per operand).
bool checkSends(const OpQuery& q, const char* attr, int64_t numDevices, bool namesOperand) {
  size_t width = namesOperand ? 3 : 2;
  std::vector<std::pair<int64_t, int64_t>> receivers;
  auto report = [&](std::string_view what) {
    q.diags->error(kPairs, q.loc, q.record->name, what);
    return false;
  };
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
  std::sort(receivers.begin(), receivers.end());
  auto twice = std::adjacent_find(receivers.begin(), receivers.end());
  if (twice != receivers.end())
    return report("device " + std::to_string(twice->second) + " receives " +
                  (namesOperand ? "operand " + std::to_string(twice->first) + " " : "") + "twice");
  return true;
}

// What a device sends has the size of what the other receives: a dim that is cut unevenly along the group's axes takes fill_piece
// first; along others all of the group have pieces of one size.
bool checkEqualSizes(const OpQuery& q, const Group& g) {
  auto varies = [&](Dim d) {
    DimExpr e = q.module->dims.expr(d);
    divideOut(e, *g.mesh);
    return std::any_of(e.cut.begin(), e.cut.end(), [&](const AxisRef& a) {
      return std::any_of(g.axes.begin(), g.axes.end(),
                         [&](const AxisRef& b) { return overlaps(a, b, *g.mesh); });
    });
  };
  for (size_t i = 0; i < q.operandTypes.size(); ++i)
    for (size_t d = 0; d < q.type(i).rank(); ++d)
      if (varies(q.type(i).dims[d])) {
        q.diags->error(kPairs, q.loc, q.record->name,
                       "needs equal sizes on every device, but dim " + std::to_string(d) + " of " +
                           q.operandText(i) + " is " +
                           printDim(q.type(i).dims[d], q.module->dims, q.module->strings) +
                           ": use `fill_piece` before and `trim_piece` after");
        return false;
      }
  return true;
}

template <bool P2p> bool inferSends(const OpQuery& q, std::vector<TypeId>& results) {
  auto g = groupOf(q);
  if (!g || !checkSends(q, P2p ? "sends" : "pairs", g->size, P2p) || !checkEqualSizes(q, *g)) return false;
  if (!P2p && !checkWire(q)) return false;
  for (size_t i = 0; i < q.operandTypes.size(); ++i)
    if (!give(q, *g->mesh, q.type(i), results)) return false;
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
  if (e.cut.empty()) {
    results.push_back(q.operandTypes[0]);
    return true;
  }
  const Mesh* mesh = meshOf(q, e.cut);
  if (!mesh || !e.symbols.empty()) {
    q.diags->error(kNoMesh, q.loc, q.record->name, axesText(q, e.cut));
    return false;
  }
  int64_t k = mesh->sizeOf(e.cut);
  d = Dim(e.coefficient / k + (e.coefficient % k != 0));
  return give(q, *mesh, std::move(t), results);
}

bool inferTrim(const OpQuery& q, std::vector<TypeId>& results) {
  auto g = groupOf(q);
  Type t = q.type(0);
  auto dim = g ? q.dimAttr("dim", t.rank()) : std::nullopt;
  if (!dim) return false;
  size_t d = static_cast<size_t>(*dim);
  Dim size = q.sizeAttr("size");
  auto result = localDim(cutBy(g->axes), *g->mesh, size, q.module->dims);
  bool fits =
      result && size.isStatic() && t.dims[d] == Dim(size.value() / g->size + (size.value() % g->size != 0));
  if (!fits) {
    q.diags->error(kPairs, q.loc, q.record->name,
                   "dim " + std::to_string(d) + " of " + q.operandText(0) +
                       " is not the largest piece of size along axes");
    return false;
  }
  t.dims[d] = *result;
  return give(q, *g->mesh, std::move(t), results);
}

// The piece's dim is the op's own business; the others are as they are.
template <bool (*Infer)(const OpQuery&, std::vector<TypeId>&)> bool pieceRule(const OpQuery& q, Rule& rule) {
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

// On a device: its own elements, then the value up to the largest piece; and back.
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

// Collectives stand in local text only: no factor is theirs to cut.
bool localRule(const OpQuery& q, Rule& rule) {
  for (size_t i = 0; i < q.operandTypes.size(); ++i) addOperandFactors(q, i, rule);
  for (Factor& f : rule.factors) f.kind = FactorKind::Whole;
  return true;
}

// --- the records ---

const AttrSpec kAxes{"axes", AttrType::Axes, nullptr, "mesh axes, major to minor; sub-axes too: [a:(1)2]"};
const AttrSpec kWire{"wire", AttrType::DTypeName, "",
                     "float dtype on the wire; sums of f16 and f8 travel in f32 unless it says another"};
const AttrSpec kReduceOp{"op", AttrType::String, "sum", "sum avg prod max min any all"};

OpRecord collective(const char* name, const char* summary, std::vector<AttrSpec> attrs) {
  OpRecord r{.name = name, .family = "collective", .summary = summary};
  r.complex = OpRecord::ComplexForm::Planes;
  r.attrs = std::move(attrs);
  r.rule = localRule;
  r.resultType = OpRecord::ResultType::Custom;
  r.throughNone = true;
  r.gradNone = true;
  r.lowering = Lowering::Collective;
  r.flopsPerPoint = 0;
  return r;
}

// NAME and NAME_start.
void addBoth(OpRegistry& ops, OpRecord r, const char* startName) {
  OpRecord start = r;
  start.name = startName;
  start.summary = "begins the collective of this name; `done` gives its result";
  start.async = AsyncForm::Start;
  ops.add(std::move(r));
  ops.add(std::move(start));
}

void addMovers(OpRegistry& ops) {
  auto add = [&](const char* name, const char* start, const char* summary, std::vector<AttrSpec> attrs,
                 bool (*infer)(const OpQuery&, std::vector<TypeId>&)) {
    OpRecord r = collective(name, summary, std::move(attrs));
    r.infer = infer;
    std::string_view word = name;
    r.uniform = word == "all_reduce" || word == "all_gather" || word == "broadcast_from";
    addBoth(ops, std::move(r), start);
  };
  AttrSpec dim{"dim", AttrType::Dim, nullptr, "the dim that is cut or put together"};
  add("all_reduce", "all_reduce_start", "the combined value on every device", {kAxes, kReduceOp, kWire},
      inferCollective<Shape::Alike, true>);
  add("all_gather", "all_gather_start", "the pieces of a dim put together on every device",
      {kAxes, dim, kWire}, inferCollective<Shape::Gather, false>);
  add("all_slice", "all_slice_start", "this device's piece of a dim: no communication", {kAxes, dim},
      inferCollective<Shape::Slice, false>);
  add("reduce_scatter", "reduce_scatter_start", "this device's piece of the combined value",
      {kAxes, dim, kReduceOp, kWire}, inferCollective<Shape::Slice, true>);
  add("all_to_all", "all_to_all_start", "one dim's cut moved to another dim",
      {kAxes,
       {"split_dim", AttrType::Dim, nullptr, "the dim that is cut"},
       {"concat_dim", AttrType::Dim, nullptr, "the dim that is put together"},
       kWire},
      inferCollective<Shape::Exchange, false>);
  add("permute", "permute_start", "x of another device; zeros where none sends",
      {kAxes, {"pairs", AttrType::Pairs, nullptr, "[[from, to], …], indices along axes"}, kWire},
      inferSends<false>);
  add("broadcast_from", "broadcast_from_start", "x of one device",
      {kAxes, {"root", AttrType::Int, "0", "its index along axes"}, kWire}, inferBroadcastFrom);
  OpRecord p2p = collective(
      "p2p", "a batch of sends and receives; zeros where nothing is received",
      {kAxes, {"sends", AttrType::Pairs, nullptr, "[[operand, from, to], …], indices along axes"}});
  p2p.operands = "xs...";
  p2p.results = "ys...";
  p2p.sameDType = false;
  p2p.infer = inferSends<true>;
  addBoth(ops, std::move(p2p), "p2p_start");
}

void addIndices(OpRegistry& ops) {
  static constexpr std::pair<const char*, const char*> names[] = {
      {"axis_index", "this device's index along axes"},
      {"piece_offset", "where this device's piece of size along axes begins"},
      {"piece_size", "how long this device's piece of size along axes is"}};
  for (auto& [name, summary] : names) {
    OpRecord r = collective(name, summary, {});
    if (std::string_view(name) != "axis_index")
      r.attrs.push_back({"size", AttrType::Size, nullptr, "the global size"});
    r.attrs.push_back(kAxes);
    r.operands = "";
    r.infer = inferIndex;
    ops.add(std::move(r));
  }
}

} // namespace

void addCollectiveOps(OpRegistry& ops) {
  addMovers(ops);
  addIndices(ops);
  OpRecord fill = collective("fill_piece", "this device's piece lengthened to that of the largest",
                             {{"dim", AttrType::Dim, nullptr, "the cut dim"},
                              {"value", AttrType::Value, "0", "what the tail is set to"}});
  fill.rule = pieceRule<inferFill>;
  fill.infer = inferFill;
  fill.element = fillElement;
  ops.add(std::move(fill));
  OpRecord trim = collective("trim_piece", "the tail that fill_piece added forgotten",
                             {{"dim", AttrType::Dim, nullptr, "the dim"},
                              {"size", AttrType::Size, nullptr, "the global size"},
                              kAxes});
  trim.rule = pieceRule<inferTrim>;
  trim.infer = inferTrim;
  trim.element = trimElement;
  ops.add(std::move(trim));
  OpRecord done = collective("done", "waits for what a …_start began and gives its result", {});
  done.operands = "handles...";
  done.results = "ys...";
  done.sameDType = false;
  done.infer = inferSame;
  done.async = AsyncForm::Done;
  ops.add(std::move(done));
}

} // namespace dtc
