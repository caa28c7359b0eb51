// Calls, branches, loops, tuples.
#include "import/HloImporter.h"
#include "import/HloTable.h"

namespace dtc {

namespace {

// Groups the results of a dtc op into results of the text: each takes as many as its type has tensors.
bool setFlatResults(HloContext& c, std::span<const ValueId> values) {
  size_t at = 0;
  for (size_t i = 0; i < c.numResults(); ++i) {
    std::vector<TypeId> types;
    if (!c.importer.flatten(c.op.resultTypes[i], c.op.nameRange, c.op.name, types)) return false;
    if (at + types.size() > values.size()) return c.fail("has results that differ from its declared types");
    if (!c.setResultParts(i, {values.begin() + static_cast<std::ptrdiff_t>(at),
                              values.begin() + static_cast<std::ptrdiff_t>(at + types.size())}))
      return false;
    at += types.size();
  }
  return at == values.size() || c.fail("has results that differ from its declared types");
}

std::vector<ValueId> resultsOf(const Module& m, OpId o) {
  std::vector<ValueId> out;
  for (uint32_t i = 0; i < m[o].numResults; ++i) out.push_back(m.result(o, i));
  return out;
}

bool resultTypes(HloContext& c, std::vector<TypeId>& out) {
  for (const MlirType* t : c.op.resultTypes)
    if (!c.importer.flatten(t, c.op.nameRange, c.op.name, out)) return false;
  return true;
}

bool callFunction(HloContext& c, const char* attribute) {
  std::string name = c.text(attribute);
  constexpr std::string_view sharded = "sequential_",
                             unsharded =
                                 "parallel_"; // Shardy's tests use this name for the unsharded function
  if (name.starts_with(sharded) && !c.importer.functionText(name) &&
      c.importer.functionText(std::string(unsharded) + name.substr(sharded.size())))
    name = std::string(unsharded) + name.substr(sharded.size());
  FuncId f = c.importer.function(name);
  const MlirOp* text = c.importer.functionText(name);
  const bool inlined = c.lifted() || (text && c.importer.shardy.manualMesh().valid() &&
                                      // a `local` region contains no calls
                                      (!f.valid() || !c.importer.perDevice()));
  if (!text || (!f.valid() && !inlined))
    return c.fail("calls @" + name + ", which is only declared in this file" +
                  (text ? ", but one for manual computations" : ""));
  std::vector<ValueId> args = c.tensors();
  if (inlined) { // calls in elementwise regions, too
    std::vector<HloValue> values;
    for (size_t i = 0; i < c.numOperands(); ++i) values.push_back(c.value(i));
    auto out = c.importer.inlineFunction(*text, values);
    return out && c.setResults(*out);
  }
  if (args.size() != c.module[f].args.size())
    return c.fail("passes @" + name + " the wrong number of arguments");
  std::vector<TypeId> types;
  if (!resultTypes(c, types)) return false;
  OpId o = c.importer.appendOp("call", args, c.importer.locationOf(c.op.loc), types, c.op.nameRange);
  if (!o.valid()) return false;
  c.module[o].callee = c.module[f].name;
  return setFlatResults(c, resultsOf(c.module, o));
}

bool call(HloContext& c) { return callFunction(c, "callee"); }
bool composite(HloContext& c) { return callFunction(c, "decomposition"); }

// --- branches ---

bool branchInto(HloContext& c, const MlirRegion& region, BlockId block) {
  auto values = c.importer.regionInto(region, block, {});
  if (!values) return false;
  c.module[block].yields = *values;
  c.module[block].terminatorLoc = region.ops.back().nameRange;
  return true;
}

// Branch `first` where the index matches, else the others; the last branch is also the default for an index
// out of range.
std::optional<std::vector<ValueId>> branches(HloContext& c, ValueId index, size_t first,
                                             std::span<const TypeId> types) {
  size_t n = c.op.regions.size();
  ValueId is = c.emit("eq", {index, c.literal(static_cast<double>(first), DType::I32)});
  if (!is.valid()) return std::nullopt;
  OpId o = c.importer.appendOp("cond", {&is, 1}, c.importer.locationOf(c.op.loc), types, c.op.nameRange, 2);
  if (!o.valid() || !branchInto(c, c.op.regions[first], c.module.region(o, 0))) return std::nullopt;
  BlockId other = c.module.region(o, 1);
  if (first + 2 == n) {
    if (!branchInto(c, c.op.regions[first + 1], other)) return std::nullopt;
    return resultsOf(c.module, o);
  }
  BlockId outer = c.importer.enter(other);
  auto rest = branches(c, index, first + 1, types);
  c.importer.enter(outer);
  if (!rest) return std::nullopt;
  c.module[other].yields = *rest;
  c.module[other].terminatorLoc = c.op.nameRange;
  return resultsOf(c.module, o);
}

bool caseOp(HloContext& c) {
  if (c.lifted()) return c.fail("branches, but an elementwise function is expected here");
  std::vector<TypeId> types;
  if (!resultTypes(c, types)) return false;
  if (c.op.regions.empty()) return c.fail("needs branches");
  if (c.op.regions.size() > 128) return c.fail("has more than 128 branches");
  if (c.op.regions.size() == 1) {
    auto values = c.importer.regionInto(c.op.regions[0], c.importer.block(), {});
    return values && setFlatResults(c, *values);
  }
  auto values = branches(c, c.operand(0), 0, types);
  return values && setFlatResults(c, *values);
}

bool ifOp(HloContext& c) {
  if (!c.expectOperands(1) || !c.expectRegions(2)) return false;
  if (c.lifted()) return c.fail("branches, but an elementwise function is expected here");
  std::vector<TypeId> types;
  ValueId p = c.operand(0);
  if (!p.valid() || !resultTypes(c, types)) return false;
  OpId o = c.importer.appendOp("cond", {&p, 1}, c.importer.locationOf(c.op.loc), types, c.op.nameRange, 2);
  if (!o.valid()) return false;
  for (size_t r = 0; r < 2; ++r)
    if (!branchInto(c, c.op.regions[r], c.module.region(o, r))) return false;
  return setFlatResults(c, resultsOf(c.module, o));
}

// --- loops ---

bool whileOp(HloContext& c) {
  if (!c.expectRegions(2)) return false;
  if (c.lifted()) return c.fail("loops, but an elementwise function is expected here");
  std::vector<ValueId> starts = c.tensors();
  std::vector<TypeId> types;
  if (!resultTypes(c, types)) return false;
  OpId o = c.importer.appendOp("while", starts, c.importer.locationOf(c.op.loc), types, c.op.nameRange, 2);
  if (!o.valid()) return false;
  for (size_t r = 0; r < 2; ++r) {
    const MlirRegion& region = c.op.regions[r];
    BlockId block = c.module.region(o, r);
    if (region.args.size() != c.numOperands()) return c.fail("needs one region argument per initial value");
    std::vector<HloValue> args;
    for (size_t i = 0; i < region.args.size(); ++i) {
      HloValue v{region.args[i].type, {}};
      for (ValueId start : c.value(i).parts) {
        std::string name = c.importer.validName(region.args[i].name);
        StrId id = name.empty() ? StrId() : c.module.strings.intern(name);
        v.parts.push_back(c.module.makeBlockArg(block, c.module[start].type, id));
        c.module[v.parts.back()].loc = region.args[i].range;
      }
      args.push_back(std::move(v));
    }
    auto values = c.importer.regionInto(region, block, args);
    if (!values) return false;
    c.module[block].yields = *values;
    c.module[block].terminatorLoc = region.ops.back().nameRange;
  }
  return setFlatResults(c, resultsOf(c.module, o));
}

// --- ops that import as nothing ---

bool optimizationBarrier(HloContext& c) {
  if (c.numOperands() != c.numResults()) return c.fail("needs one result per operand");
  for (size_t i = 0; i < c.numOperands(); ++i)
    if (c.lifted() ? !c.setResult(i, c.operand(i)) : !c.setResultParts(i, c.value(i).parts)) return false;
  return true;
}

// An asynchronous op is imported as the synchronous one: `schedule` overlaps collectives with other ops.
bool asyncStart(HloContext& c) {
  if (!c.expectRegions(1)) return false;
  if (c.lifted()) return c.fail("is asynchronous, but an elementwise function is expected here");
  const MlirRegion& region = c.op.regions[0];
  if (region.args.size() != c.numOperands()) return c.fail("needs one region argument per operand");
  std::vector<HloValue> args;
  for (size_t i = 0; i < c.numOperands(); ++i) args.push_back(c.value(i));
  const auto values = c.importer.regionInto(region, c.importer.block(), args);
  return values && setFlatResults(c, *values);
}
bool asyncDone(HloContext& c) { return setFlatResults(c, c.tensors()); }

bool tuple(HloContext& c) { return c.setResultParts(0, c.tensors()); }

bool getTupleElement(HloContext& c) {
  auto index = c.integer("index");
  if (!index || !c.expectOperands(1)) return false;
  const HloValue& sharded = c.value(0);
  if (!sharded.type || sharded.type->kind != MlirType::Tuple || *index < 0 ||
      *index >= static_cast<int64_t>(sharded.type->inputs.size()))
    return c.fail("takes an element beyond the end of the tuple");
  size_t at = 0, size = 0;
  for (size_t i = 0; i <= static_cast<size_t>(*index); ++i) {
    std::vector<TypeId> types;
    if (!c.importer.flatten(sharded.type->inputs[i], c.op.nameRange, c.op.name, types)) return false;
    at += size;
    size = types.size();
  }
  if (at + size > sharded.parts.size()) return c.fail("takes an element of an unknown tuple");
  return c.setResultParts(0, {sharded.parts.begin() + static_cast<std::ptrdiff_t>(at),
                              sharded.parts.begin() + static_cast<std::ptrdiff_t>(at + size)});
}

// Tokens only order effects, which dtc keeps in order anyway; a sink only keeps its operand from being removed.
bool token(HloContext&) { return true; }

const HloRow kControlRows[] = {
    {"func.call", call},
    {"call", call},
    {"custom_call @dce_sink", token, 1},
    {"stablehlo.after_all", token},
    {"stablehlo.async_done", asyncDone},
    {"stablehlo.async_start", asyncStart},
    {"stablehlo.case", caseOp, 1},
    {"stablehlo.composite", composite},
    {"stablehlo.create_token", token},
    {"stablehlo.get_tuple_element", getTupleElement},
    {"stablehlo.if", ifOp},
    {"stablehlo.optimization_barrier", optimizationBarrier},
    {"stablehlo.tuple", tuple},
    {"stablehlo.while", whileOp},
};

} // namespace

std::span<const HloRow> hloControlRows() { return kControlRows; }

} // namespace dtc
