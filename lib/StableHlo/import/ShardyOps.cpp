// The ops of the Shardy dialect: constraints, regions, and its collectives, which are changes of sharding.
#include "dtc/IR/LocalShape.h"
#include "import/HloImporter.h"
#include "import/HloTable.h"
#include "import/ShardyFollow.h"
#include "sharding/DeviceNumber.h"
#include "sharding/GspmdManual.h"
#include <algorithm>

namespace dtc {

namespace {

const MlirAttr* rawItem(const HloContext& c) {
  for (const MlirAttr& item : c.op.items)
    if (item.kind == MlirAttr::Raw && item.text.starts_with('<')) return &item;
  return nullptr;
}

// The sharding of an op: an attribute of one of these names, or (pretty) the text between the brackets.
std::optional<ShardingId> shardingOf(HloContext& c, std::initializer_list<const char*> names, TypeId type) {
  const MlirAttr* attr = nullptr;
  for (const char* name : names)
    if (!attr) attr = c.attr(name);
  if (!attr) attr = rawItem(c);
  if (!attr) {
    c.fail("needs a sharding");
    return std::nullopt;
  }
  auto text = c.importer.shardy.read(*attr);
  return text ? c.importer.shardy.sharding(*text, type) : std::nullopt;
}

bool constrained(HloContext& c, OpName op, std::initializer_list<const char*> names) {
  const ValueId x = c.operand(0);
  if (!x.valid()) return false;
  // A sharding of one element does not constrain the tensor, and one of a local shard does not constrain the
  // other shards.
  Shardy& shardy = c.importer.shardy;
  if (c.lifted() || (shardy.manualMesh().valid() && !shardy.freeAxes())) return c.setResult(x);
  auto s = shardingOf(c, names, c.module[x].type);
  if (!s) return false;
  if (shardy.manualMesh().valid()) {
    ValueId same = x;
    return shardy.annotate(same, *s, 0, c.op.loc) && c.setResult(same);
  }
  const ValueId y = c.emit(op, {x});
  if (!y.valid()) return false;
  c.module[y].sharding = *s;
  return c.setResult(y);
}

bool constraint(HloContext& c) { return constrained(c, "shard", {"sharding"}); }
bool reshard(HloContext& c) { return constrained(c, "reshard", {"sharding", "out_sharding"}); }

// The op has no result: later uses of the operand are those of the group's value.
bool group(HloContext& c) {
  const ValueId x = c.operand(0);
  auto id = c.integer("group_id");
  if (!x.valid() || !id) return false;
  if (c.lifted() || c.importer.shardy.manualMesh().valid()) return true;
  const ValueId y = c.emit("shard", {x}, {{"group", c.intAttr(*id)}});
  if (y.valid()) c.importer.redefine(c.op.operands[0], y);
  return y.valid();
}

bool barrier(HloContext& c) {
  const ValueId x = c.operand(0);
  const std::string_view allowed = c.word("allowed_direction");
  const char* blocked = allowed == "FORWARD"    ? "backward"
                        : allowed == "BACKWARD" ? "forward"
                        : allowed == "NONE"     ? "both"
                                                : nullptr;
  if (!blocked && allowed != "BOTH")
    return c.failAttr("allowed_direction", "is not FORWARD, BACKWARD or NONE");
  if (!blocked || c.lifted() || c.importer.shardy.manualMesh().valid()) return c.setResult(x);
  return c.setResult(c.emit("barrier", {x}, {{"direction", c.stringAttr(blocked)}}));
}

// Applies the shardings of an attribute to values, each by a constraint.
bool constrain(HloContext& c, const char* attribute, std::vector<HloValue>& values, bool asConstraint) {
  const MlirAttr* attr = c.attr(attribute);
  if (!attr) return true;
  auto all = c.importer.shardy.readAll(*attr);
  if (!all) return false;
  if (all->size() < values.size()) return c.failAttr(attribute, "has fewer shardings than values");
  size_t at = 0;
  for (HloValue& v : values) {
    const ShardyText& text = (*all)[at++];
    if (v.parts.size() != 1) continue; // a token
    auto s = c.importer.shardy.sharding(text, c.module[v.parts[0]].type);
    const auto fresh = asConstraint ? UINT32_MAX : 0;
    if (!s || !c.importer.shardy.annotate(v.parts[0], *s, fresh, c.op.loc)) return false;
  }
  return true;
}

std::vector<HloValue> operandValues(const HloContext& c) {
  std::vector<HloValue> values;
  for (size_t i = 0; i < c.numOperands(); ++i) values.push_back(c.value(i));
  return values;
}

// A region's values as results; tokens are dropped.
bool resultsFrom(HloContext& c, const std::vector<ValueId>& values, std::vector<HloValue>& results) {
  size_t at = 0;
  for (const MlirType* t : c.op.resultTypes) {
    results.push_back({t, {}});
    if (t && t->kind == MlirType::Token) continue;
    if (at == values.size()) break;
    results.back().parts.push_back(values[at++]);
  }
  if (at == values.size() && results.size() == c.numResults()) return true;
  return c.fail("has a different number of results than result types");
}

bool setResults(HloContext& c, const std::vector<HloValue>& results) {
  for (size_t i = 0; i < results.size(); ++i)
    if (!results[i].parts.empty() && !c.setResult(i, results[i].parts[0])) return false;
  return true;
}

// Inlines the region: its arguments are the operands constrained to `in_shardings`, its results are
// constrained to `out_shardings`.
bool inlineRegion(HloContext& c) {
  if (!c.expectRegions(1)) return false;
  std::vector<HloValue> args = operandValues(c);
  if (!constrain(c, "in_shardings", args, true)) return false;
  auto values = c.importer.regionInto(c.op.regions[0], c.importer.block(), args);
  if (!values) return false;
  std::vector<HloValue> results;
  return resultsFrom(c, *values, results) && constrain(c, "out_shardings", results, true) &&
         setResults(c, results);
}

// --- manual computations ---

// The remainder of a sharding restricted to the manual axes: per-device code sees its shard along those.
Sharding manualPart(const Module& m, ShardingId id, std::span<const AxisRef> manual) {
  Sharding s = m.shardings[id];
  const Mesh& mesh = m.shardings.mesh(s.mesh);
  auto isManual = [&](const AxisRef& a) {
    return std::ranges::any_of(manual, [&](const AxisRef& x) { return overlaps(a, x, mesh); });
  };
  for (DimSharding& d : s.dims) {
    PartList kept;
    for (const DimPart& p : d.parts)
      if (p.isAxis() && isManual(p.axis)) kept.push_back(p);
    d.parts = std::move(kept);
    d.open = false;
    d.priority = -1;
  }
  std::erase_if(s.pending, [&](const PendingAxis& p) { return !isManual(p.axis); });
  s.replicated.clear();
  return s;
}

struct Manual {
  MeshId mesh;
  std::vector<AxisRef> axes;
};

// For per-device code from GSPMD's calls (GspmdManual.h): reports the error at the call it concerns.
constexpr DiagKind kCall{"gspmd-manual", "in a manual computation this {0}"};
constexpr const char* kOtherShape =
    "has a local shape that differs from the global shape sharded along the manual axes";
bool failCall(HloContext& c, SourceRange where, const std::string& why) {
  return c.diags.fail(kCall, where, why);
}

// Every GSPMD call that begins or ends the code must state it.
bool gspmdManualAxes(HloContext& c, const MlirAttr& calls, MeshId mesh, std::vector<AxisRef>& out) {
  for (size_t i = 0; i < calls.list.size(); ++i)
    for (const MlirNamedAttr& a : calls.list[i].dict) {
      if (a.name != kGspmdManual || a.value.kind != MlirAttr::String) continue;
      auto axes = c.importer.gspmd.manualAxes(a.value, mesh);
      if (!axes) return false;
      if (axes->empty())
        return failCall(c, a.value.range, "must be manual, since it begins or ends the computation");
      if (!out.empty() && *axes != out)
        return failCall(c, a.value.range, "is manual along other axes than the values it is used with");
      out = std::move(*axes);
    }
  return !out.empty() || c.fail("has no manual sharding: expected {manual} or last_tile_dims={manual}");
}

bool manualAxes(HloContext& c, MeshId mesh, std::vector<AxisRef>& out) {
  if (const MlirAttr* calls = c.attr(kGspmdManual)) return gspmdManualAxes(c, *calls, mesh, out);
  const MlirAttr* attr = c.attr("manual_axes");
  std::vector<ShardyAxis> axes;
  if (!attr || !c.importer.shardy.readAxes(*attr, axes)) return attr ? false : c.fail("needs manual_axes");
  for (const ShardyAxis& a : axes) {
    auto axis = c.importer.shardy.axisOf(a, mesh);
    if (!axis) return false;
    out.push_back(*axis);
  }
  return true;
}

// The attributes of GSPMD's calls, one per value.
bool gspmdShardings(HloContext& c, const MlirAttr& attr, std::span<const TypeId> types,
                    const std::vector<bool>& token, std::vector<ShardingId>& out) {
  if (attr.list.size() != token.size()) return c.fail("needs one sharding per value");
  size_t at = 0;
  for (size_t i = 0; i < token.size(); ++i) {
    if (token[i]) continue;
    auto s = c.importer.gspmd.sharding(attr.list[i].dict, types[at++]);
    if (!s) return false;
    if (!s->valid())
      return failCall(c, attr.list[i].range, "has no sharding that states the number of devices");
    out.push_back(*s);
  }
  return true;
}

// One per value; those of tokens are ignored.
bool shardingsOf(HloContext& c, const char* attribute, std::span<const TypeId> types,
                 const std::vector<bool>& token, std::vector<ShardingId>& out) {
  const MlirAttr* attr = c.attr(attribute);
  if (attr && c.attr(kGspmdManual)) return gspmdShardings(c, *attr, types, token, out);
  auto all = attr ? c.importer.shardy.readAll(*attr) : std::nullopt;
  if (!all) return attr ? false : c.fail(std::string("needs ") + attribute);
  if (all->size() == token.size())
    for (size_t i = token.size(); i-- > 0;)
      if (token[i]) all->erase(all->begin() + static_cast<ptrdiff_t>(i));
  if (all->size() != types.size()) return c.failAttr(attribute, "needs one sharding per value");
  for (size_t i = 0; i < types.size(); ++i) {
    auto s = c.importer.shardy.shardingOnOwnMesh((*all)[i], types[i]);
    if (!s) return false;
    if (!s->valid()) return c.failAttr(attribute, "does not name a mesh with axes");
    out.push_back(*s);
  }
  return true;
}

bool localBody(HloContext& c, OpId o, const Manual& manual, std::span<const ShardingId> in) {
  const MlirRegion& region = c.op.regions[0];
  const BlockId block = c.module.region(o);
  std::vector<HloValue> args;
  size_t at = 0;
  for (size_t i = 0; i < region.args.size(); ++i) {
    if (region.args[i].type && region.args[i].type->kind == MlirType::Token) {
      args.push_back({region.args[i].type, {}});
      continue;
    }
    const TypeId type = c.typeFrom(region.args[i].type, region.args[i].range);
    if (!type.valid() || at == in.size()) return false;
    const std::string name = c.importer.validName(region.args[i].name);
    const ValueId arg =
        c.module.makeBlockArg(block, type, name.empty() ? StrId() : c.module.strings.intern(name));
    c.module[arg].sharding = c.module.shardings.intern(manualPart(c.module, in[at++], manual.axes));
    c.module[arg].loc = region.args[i].range;
    args.push_back({region.args[i].type, {arg}});
  }
  c.importer.shardy.enterManual(manual.mesh, c.module.attr(o, "free").valid());
  auto values = c.importer.regionInto(region, block, args);
  c.importer.shardy.enterManual(MeshId(), false);
  if (!values) return false;
  c.module[block].yields = *values;
  c.module[block].terminatorLoc = region.ops.empty() ? region.range : region.ops.back().nameRange;
  foldDeviceNumbers(c.module, block, c.module.shardings.mesh(manual.mesh));
  return true;
}

// The axes of the mesh that are not manual, as an attribute; invalid where there are none.
AttrId freeAxes(HloContext& c, const Manual& manual) {
  const Mesh& mesh = c.module.shardings.mesh(manual.mesh);
  std::vector<AttrId> free;
  for (const MeshAxis& a : mesh.axes)
    if (a.size > 1 &&
        std::ranges::none_of(manual.axes, [&](const AxisRef& m) { return overlaps(m, {a.name}, mesh); }))
      free.push_back(c.wordAttr(c.module.strings[a.name]));
  return free.empty() ? AttrId() : c.listAttr(free);
}

// Per dim of a value: those of the given axes that shard it.
bool reshardBy(HloContext& c, OpName name, ValueId& v, const Sharding& s) {
  for (size_t d = 0; d < s.dims.size() && v.valid(); ++d) {
    std::vector<AxisRef> axes;
    for (const DimPart& p : s.dims[d].parts) axes.push_back(p.axis);
    if (!axes.empty())
      v = c.emit(name, {v},
                 {{"axes", axesAttr(c.module, axes)}, {"dim", c.intAttr(static_cast<int64_t>(d))}});
  }
  return v.valid();
}
bool reshardBy(HloContext& c, OpName name, ValueId& v, const ShardyText& text, const Manual& manual) {
  auto id = c.importer.shardy.shardingOnOwnMesh(text, c.module[v].type);
  return id && reshardBy(c, name, v, manualPart(c.module, *id, manual.axes));
}

// The same for GSPMD's calls in a function called by per-device code: the dims of each call's sharding shard
// the value further.
bool reshardByCalls(HloContext& c, OpName name, const char* attribute, std::vector<HloValue>& values) {
  const MlirAttr* calls = c.attr(attribute);
  if (!calls || calls->list.size() != values.size()) return c.fail("needs one sharding per value");
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].parts.size() != 1) continue;
    ValueId& v = values[i].parts[0];
    auto s = c.importer.gspmd.sharding(calls->list[i].dict, c.module[v].type, true);
    if (!s) return false;
    if (!s->valid())
      return failCall(c, calls->list[i].range, "has no sharding that explains its local shape");
    const Sharding sharding = c.module.shardings[*s];
    if (!reshardBy(c, name, v, sharding)) return false;
  }
  return true;
}

bool nestedCalls(HloContext& c) {
  std::vector<HloValue> args = operandValues(c), results;
  if (!reshardByCalls(c, "all_slice", "in_shardings", args)) return false;
  const MlirRegion& region = c.op.regions[0];
  for (size_t i = 0; i < args.size() && i < region.args.size(); ++i)
    if (args[i].parts.size() == 1 &&
        c.typeFrom(region.args[i].type, region.args[i].range) != c.module[args[i].parts[0]].type)
      return failCall(c, region.args[i].range, kOtherShape);
  auto values = c.importer.regionInto(region, c.importer.block(), args);
  return values && resultsFrom(c, *values, results) &&
         reshardByCalls(c, "all_gather", "out_shardings", results) && setResults(c, results);
}

// A manual computation within per-device code, where all devices along the inner axes hold the same values:
// each slices its shard along those axes, and the results are gathered.
bool nestedManual(HloContext& c) {
  if (c.attr(kGspmdManual)) return nestedCalls(c);
  const MlirAttr *in = c.attr("in_shardings"), *out = c.attr("out_shardings");
  auto ins = in ? c.importer.shardy.readAll(*in) : std::nullopt;
  auto outs = out ? c.importer.shardy.readAll(*out) : std::nullopt;
  if (!ins || !outs) return (in && out) ? false : c.fail("needs in_shardings and out_shardings");
  Manual manual{c.importer.shardy.manualMesh(), {}};
  if (!manualAxes(c, manual.mesh, manual.axes)) return false;
  std::vector<HloValue> args = operandValues(c), results;
  if (ins->size() != args.size() || outs->size() != c.numResults())
    return c.fail("needs one sharding per value");
  for (size_t i = 0; i < args.size(); ++i)
    if (args[i].parts.size() == 1 && !reshardBy(c, "all_slice", args[i].parts[0], (*ins)[i], manual))
      return false;
  auto values = c.importer.regionInto(c.op.regions[0], c.importer.block(), args);
  if (!values || !resultsFrom(c, *values, results)) return false;
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].parts.empty()) continue;
    // The local value has the result's rank: its sharding is read like that of the global one.
    if (!reshardBy(c, "all_gather", results[i].parts[0], (*outs)[i], manual)) return false;
  }
  return setResults(c, results);
}

// Checks that the local shape is the global one sharded along the manual axes; else reports an error at the
// call.
bool shapeFits(HloContext& c, const MlirAttr& call, TypeId global, const MlirType* local, const Sharding& s) {
  const Type& t = c.module.types[global];
  const Mesh& mesh = c.module.shardings.mesh(s.mesh);
  bool fits = local && local->dims.size() == t.rank();
  for (size_t d = 0; fits && d < t.rank(); ++d) {
    int64_t parts = 1;
    for (const DimPart& p : s.dims[d].parts) parts *= mesh.axisSize(p.axis);
    fits = t.dims[d].value() % parts == 0 && local->dims[d] == t.dims[d].value() / parts;
  }
  return fits || failCall(c, call.range, kOtherShape);
}

// The same for all values of GSPMD's calls. Only tensors have shardings; tokens have attributes and types,
// too.
bool shapesFit(HloContext& c, const Manual& manual, const char* attribute, std::span<const TypeId> globals,
               std::span<const ShardingId> shardings, const std::vector<const MlirType*>& locals) {
  const MlirAttr* calls = c.attr(attribute);
  if (!calls || !c.attr(kGspmdManual)) return true;
  size_t at = 0;
  for (size_t i = 0; i < std::min(locals.size(), calls->list.size()) && at < globals.size(); ++i) {
    if (locals[i] && locals[i]->kind == MlirType::Token) continue;
    const Sharding s = manualPart(c.module, shardings[at], manual.axes);
    if (!shapeFits(c, calls->list[i], globals[at++], locals[i], s)) return false;
  }
  return true;
}

bool shapesFit(HloContext& c, const Manual& manual, std::span<const TypeId> inTypes,
               std::span<const ShardingId> in, std::span<const TypeId> outTypes,
               std::span<const ShardingId> out) {
  const MlirRegion& region = c.op.regions[0];
  std::vector<const MlirType*> args;
  for (const MlirArg& a : region.args) args.push_back(a.type);
  return shapesFit(c, manual, "in_shardings", inTypes, in, args) &&
         (region.ops.empty() ||
          shapesFit(c, manual, "out_shardings", outTypes, out, region.ops.back().operandTypes));
}

bool reshard(HloContext& c, ValueId& v, ShardingId sharding) {
  v = c.emit("reshard", {v});
  if (v.valid()) c.module[v].sharding = sharding;
  return v.valid();
}

// A manual computation: a `local` region. In dtc all axes are manual; along those that the text leaves free
// every device does the same work, and the results are resharded after the region.
bool manualComputation(HloContext& c) {
  if (!c.expectRegions(1)) return false;
  if (c.importer.shardy.manualMesh().valid()) return nestedManual(c);
  std::vector<ValueId> operands = c.tensors();
  std::vector<TypeId> inTypes, outTypes;
  std::vector<bool> inTokens, outTokens;
  for (ValueId v : operands) inTypes.push_back(c.module[v].type);
  for (size_t i = 0; i < c.numOperands(); ++i) inTokens.push_back(c.value(i).parts.empty());
  for (size_t i = 0; i < c.numResults(); ++i) {
    outTokens.push_back(c.op.resultTypes[i] && c.op.resultTypes[i]->kind == MlirType::Token);
    if (!outTokens.back()) outTypes.push_back(c.resultType(i));
  }
  if (std::ranges::any_of(outTypes, [](TypeId t) { return !t.valid(); })) return false;
  const MlirAttr* attr = c.attr("manual_axes");
  std::vector<ShardyAxis> written;
  if (attr && !c.importer.shardy.readAxes(*attr, written)) return false;
  if (written.empty() && !c.attr(kGspmdManual)) return inlineRegion(c); // nothing is manual
  std::vector<ShardingId> in, out;
  if (!shardingsOf(c, "in_shardings", inTypes, inTokens, in) ||
      !shardingsOf(c, "out_shardings", outTypes, outTokens, out))
    return false;
  if (in.empty() && out.empty()) return c.fail("needs operands or results");
  Manual manual{c.module.shardings[in.empty() ? out[0] : in[0]].mesh, {}};
  if (!manualAxes(c, manual.mesh, manual.axes)) return false;
  if (c.op.regions[0].args.size() != c.numOperands()) return c.fail("needs one region argument per operand");
  if (!shapesFit(c, manual, inTypes, in, outTypes, out)) return false;
  const MeshId outside = c.importer.shardy.functionMesh();
  const bool otherMesh = outside.valid() && outside != manual.mesh;
  for (size_t i = 0; i < operands.size(); ++i) {
    const ShardingId bound = c.module.shardings.intern(manualPart(c.module, in[i], manual.axes));
    if (otherMesh && !reshard(c, operands[i], in[i])) return false;
    if (bound != in[i] && !c.importer.shardy.annotate(operands[i], in[i], UINT32_MAX, c.op.loc)) return false;
  }
  AttrList attrs = c.importer.locationOf(c.op.loc);
  if (const AttrId free = freeAxes(c, manual); free.valid())
    attrs.insert(attrs.begin(), {c.module.strings.intern("free"), free});
  const OpId o = c.importer.appendOp("local", operands, std::move(attrs), outTypes, c.op.nameRange, 1);
  if (!o.valid() || !localBody(c, o, manual, in)) return false;
  size_t to = 0;
  for (size_t i = 0; i < out.size(); ++i, ++to) {
    while (outTokens[to]) ++to;
    ValueId v = c.module.result(o, i);
    c.module[v].sharding = c.module.shardings.intern(manualPart(c.module, out[i], manual.axes));
    if (c.module[v].sharding != out[i] && !c.importer.shardy.annotate(v, out[i], UINT32_MAX, c.op.loc))
      return false;
    if (otherMesh && !reshard(c, v, c.importer.shardy.onFunctionMesh(out[i]))) return false;
    if (!c.setResult(to, v)) return false;
  }
  return true;
}

// --- the rest ---

bool dataFlowEdge(HloContext& c) {
  if (!c.attr("sharding")) return c.setResult(c.operand(0));
  return constraint(c);
}

bool nothing(HloContext&) { return true; } // sdy.mesh: read before all functions

// Annotations of layout or placement, and @Sharding, whose sharding is the call's attribute, as for any op.
bool sameValue(HloContext& c) { return c.setResult(c.operand(0)); }

// The halves of a 64-bit integer.
bool combineHalves(HloContext& c) {
  const DType wide = c.resultDType();
  const ValueId low = c.convert(c.convert(c.operand(0), DType::U32), DType::U64),
                high = c.convert(c.convert(c.operand(1), DType::U32), DType::U64);
  const ValueId both = c.emit("or", {c.emit("shl", {high, c.literal(32, DType::U64)}), low});
  return c.setResult(c.convert(both, wide));
}
bool half(HloContext& c, bool high) {
  if (!c.expectOperands(1)) return false;
  ValueId x = c.convert(c.operand(0), DType::U64);
  if (high) x = c.emit("shr", {x, c.literal(32, DType::U64)});
  return c.setResult(c.convert(x, c.resultDType()));
}
bool lowHalf(HloContext& c) { return half(c, false); }
bool highHalf(HloContext& c) { return half(c, true); }

bool gspmdManual(HloContext& c) {
  return c.fail("begins or ends a manual computation, but is not part of a complete one");
}

// Sends and receives: calls of unknown functions, in a program that is sharded.
bool elsewhere(HloContext& c) {
  if (c.importer.shardy.used() && !c.lifted()) return unknownCall(c);
  return c.fail("is unsupported: it sends to or receives from outside of the program");
}

const HloRow kRows[] = {
    {"sdy.mesh", nothing},
    {"stablehlo.send", elsewhere},
    {"stablehlo.recv", elsewhere},
    {"stablehlo.infeed", elsewhere},
    {"stablehlo.outfeed", elsewhere},
    {"custom_call", unknownCall},
    {"custom_call @CompactWyHelper", unknownCall},
    {"custom_call @Eigh", unknownCall},
    {"custom_call @InspectSharding", sameValue, 1},
    {"custom_call @LayoutConstraint", sameValue, 1},
    {"custom_call @MoveToDevice", sameValue, 1},
    {"custom_call @MoveToHost", sameValue, 1},
    {"custom_call @PartialReduce", unknownCall},
    {"custom_call @ProductOfElementaryHouseholderReflectors", unknownCall},
    {"custom_call @Qr", unknownCall},
    {"custom_call @QrDecompositionBlock", unknownCall},
    {"custom_call @Sharding", sameValue, 1},
    {"custom_call @X64Combine", combineHalves, 2},
    {"custom_call @X64SplitHigh", highHalf},
    {"custom_call @X64SplitLow", lowHalf},
    {"custom_call @annotate_device_placement", sameValue, 1},
    {"custom_call @SPMDFullToShardShape", gspmdManual},
    {"custom_call @SPMDShardToFullShape", gspmdManual},
    {"sdy.sharding_constraint", constraint},
    {"sdy.reshard", reshard},
    {"sdy.sharding_group", group},
    {"sdy.propagation_barrier", barrier},
    {"sdy.named_computation", inlineRegion},
    {"sdy.manual_computation", manualComputation},
    {"sdy.data_flow_edge", dataFlowEdge},
    {"sdy.func_data_flow_edge", dataFlowEdge},
    {"sdy.all_gather", reshard},
    {"sdy.all_slice", reshard},
    {"sdy.all_to_all", reshard},
    {"sdy.all_reduce", reshard},
    {"sdy.reduce_scatter", reshard},
    {"sdy.collective_permute", reshard},
    {"sdy.replicated_to_unreduced", reshard},
    {"sdy.sharded_to_unreduced", reshard},
};

} // namespace

bool unknownCall(HloContext& c) {
  if (c.lifted()) return c.fail("calls an unsupported function");
  std::vector<TypeId> types;
  for (size_t i = 0; i < c.numResults(); ++i) {
    if (c.op.resultTypes[i] && c.op.resultTypes[i]->kind == MlirType::Token) continue;
    types.push_back(c.resultType(i));
    if (!types.back().valid()) return false;
  }
  const MlirAttr* written = c.attr("sdy.sharding_rule");
  std::string called = c.text("call_target_name");
  if (called.empty()) called = c.op.name;
  std::string rule(written ? written->body : "");
  if (!written)
    if (auto known = FollowRule::of(c, "custom_call @" + called)) rule = known->text();
  const std::vector<ValueId> operands = c.tensors();
  const AttrId text = rule.empty() ? AttrId() : c.stringAttr(rule);
  const bool each = called.starts_with(kHostFunctionPerDevice);
  const OpId o = c.emitOp("custom", operands,
                          {{"target", c.stringAttr(called)},
                           {"rule", text, true},
                           {"per_device", each ? c.boolAttr(true) : AttrId(), true}},
                          types);
  if (!o.valid()) return false;
  size_t at = 0;
  for (size_t i = 0; i < c.numResults(); ++i)
    if (!(c.op.resultTypes[i] && c.op.resultTypes[i]->kind == MlirType::Token) &&
        !c.setResult(i, c.module.result(o, at++)))
      return false;
  return true;
}

std::span<const HloRow> hloShardyRows() { return kRows; }

} // namespace dtc
