#include "import/HloImporter.h"
#include "import/HloCarry.h"
#include "sharding/GspmdManual.h"
#include "sharding/PerDevice.h"

#include "dtc/Import/graph/Problem.h"
#include "dtc/Support/Checked.h"
#include "import/HloTable.h"
#include "import/ShardyFollow.h"
#include "mlir/MlirLexer.h"

#include <algorithm>

namespace dtc {

namespace {

constexpr DiagKind kUnknownValue{"mlir-unknown-value", "%{0} is not defined here"};
constexpr DiagKind kPerDevice{"per-device", "per-device code cannot be imported for {0}"};
constexpr int64_t kMaxDevices = int64_t(1) << 20;
constexpr DiagKind kImportFunction{"import-function", "this does not import: {0}"};
constexpr int kMaxInlineDepth = 64;
constexpr size_t kMaxLiftedOps = 1u << 20;

bool isTerminator(std::string_view name) { return name == "return" || name.ends_with(".return"); }

bool isFunction(const MlirOp& op) { return op.name == "func.func"; }

std::string_view symbolOf(const MlirOp& op) {
  for (const MlirNamedAttr& a : op.attrs)
    if (a.name == "sym_name") return a.value.text;
  return {};
}

// The remark about an op without a row.
std::string unknownHint(std::string_view name) {
  if (name.starts_with("vhlo."))
    return ": it belongs to StableHLO's storage form; print the program as stablehlo first";
  if (isPythonCallback(name)) return std::string(": ") + kPythonCallback;
  size_t point = name.find('.');
  std::string_view dialect = name.substr(0, point == std::string_view::npos ? 0 : point + 1);
  std::vector<std::string_view> known;
  for (std::string_view n : hloNames())
    if (n.starts_with(dialect)) known.push_back(n.substr(dialect.size()));
  std::string_view near = nearestWord(name.substr(dialect.size()), known);
  if (near.empty()) return ": express it with other ops of StableHLO, or compute it outside and pass it in";
  return "; did you mean '" + std::string(dialect) + std::string(near) + "'?";
}

std::string_view textOf(const Module& m, const MlirType* t) {
  return std::string_view(m.source.text).substr(t->range.begin, t->range.end - t->range.begin).substr(0, 80);
}

// Compares the types of the text only: types without a shape are skipped.
bool sameType(const MlirType* a, const MlirType* b) {
  if (!a || !b || a == b) return true;
  if (a->kind == MlirType::Other || b->kind == MlirType::Other) return true;
  if (a->kind != b->kind || a->element != b->element || a->dims != b->dims || a->unranked != b->unranked)
    return false;
  if (a->kind != MlirType::Tuple) return true;
  return std::ranges::equal(a->inputs, b->inputs, sameType);
}

} // namespace

HloImporter::HloImporter(const MlirTree& tree, Module& module, Diagnostics& diags)
    : tree(tree), module(module), diags(diags) {}

bool HloImporter::run() {
  bool ok = shardy.declareMeshes() && enterPerDevice();
  if (!ok) return false;
  for (const MlirOp& op : tree.ops)
    if (isFunction(op)) ok &= declare(op);
  if (!ok && !problems) return false;
  for (const MlirOp& op : tree.ops) {
    if (diags.full()) break;
    if (!isFunction(op)) {
      ok &= convert(op);
      continue;
    }
    auto f = functions_.find(symbolOf(op)); // if two have one name, the first
    if (f != functions_.end() && functionText_[f->first] == &op) ok &= body(op, f->second);
  }
  if (ok && perDevice_.valid()) makePerDevice(module, perDevice_);
  if (ok && functions_.empty() && !diags.hasErrors()) {
    diags.error(kImportFunction, SourceRange{0, 0}, "there is no function in this file");
    ok = false;
  }
  return ok;
}

// A per-device text is imported as one, on a mesh of one axis, or of two: replicas, partitions.
bool HloImporter::enterPerDevice() {
  inner_ = deviceFunctions(tree);
  const auto text = perDeviceText(tree, inner_);
  if (!text) return true;
  const int64_t r = text->replicas, p = text->partitions;
  if (r < 1 || p < 1 || r > kMaxDevices || p > kMaxDevices / r)
    return diags.fail(kPerDevice, text->op->nameRange, "no devices, or more than a million");
  if (hasManualComputations(tree))
    return diags.fail(kPerDevice, text->op->nameRange,
                      "a per-device op outside of the regions that @SPMDFullToShardShape begins");
  devices_ = {r, p};
  Mesh mesh;
  if (r > 1 && p > 1) {
    mesh.axes.push_back({module.strings.intern("replica"), r});
    mesh.axes.push_back({module.strings.intern("partition"), p});
  } else {
    mesh.axes.push_back({module.strings.intern("device"), r * p});
  }
  perDevice_ = shardy.addMesh("devices", std::move(mesh));
  shardy.enterManual(perDevice_, false);
  return true;
}

// --- types ---

TypeId HloImporter::typeFrom(const MlirType* t, SourceRange where, std::string_view opName) {
  if (!t) return {};
  auto bad = [&](const char* why) {
    diags.error(kImportType, where.valid() ? where : t->range, opName, textOf(module, t), why);
    return TypeId();
  };
  if (t->kind != MlirType::Tensor && t->kind != MlirType::Element) return bad("only tensors are supported");
  if (t->unranked) return bad("it is unranked; only static shapes are imported");
  auto dtype = hloDType(t->element);
  if (!dtype)
    return bad(t->element.find("quant") != std::string_view::npos
                   ? "quantized types are not imported; dequantize in the program"
                   : "expected i1 to i64, ui2 to ui64, floats of 8 bits, "
                     "f4E2M1FN, bf16, f16, "
                     "f32, f64, complex<f32> or complex<f64>; convert in the program");
  for (int64_t d : t->dims)
    if (d == MlirType::kDynamic)
      return bad("only static shapes are imported, and --dim binds no size of StableHLO; lower or export the "
                 "program "
                 "for fixed sizes");
  auto n = checkedProduct(t->dims);
  if (!n || !checkedMul(*n, dtypeBytes(*dtype))) return bad("it has more than 2^63-1 bytes");
  std::vector<Dim> dims(t->dims.begin(), t->dims.end());
  return module.tensorType(*dtype, dims);
}

bool HloImporter::flatten(const MlirType* t, SourceRange where, std::string_view opName,
                          std::vector<TypeId>& out) {
  if (!t) return diags.fail(kImportFunction, where, "a type is missing");
  if (t->kind == MlirType::Token) return true;
  if (t->kind == MlirType::Tuple) {
    for (const MlirType* inner : t->inputs)
      if (!flatten(inner, where, opName, out)) return false;
    return true;
  }
  out.push_back(typeFrom(t, where, opName));
  return out.back().valid();
}

// --- names and locations ---

std::string HloImporter::validName(std::string_view name) const {
  std::string out;
  for (char c : name) {
    bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (good)
      out.push_back(c);
    else if (!out.empty() && out.back() != '_')
      out.push_back('_');
    if (out.size() > 80) break;
  }
  while (!out.empty() && out.back() == '_') out.pop_back();
  return out;
}

void HloImporter::readLocation(uint32_t loc, UserLocation& out, int depth) {
  if (loc >= tree.locs.size() || depth > kMlirMaxNesting) return;
  const MlirLoc& l = tree.locs[loc];
  if (!l.alias.empty()) {
    auto found = tree.locAliases.find(l.alias);
    if (found != tree.locAliases.end()) readLocation(found->second, out, depth + 1);
    return;
  }
  if (out.name.empty() && !l.name.empty()) out.name = l.name;
  if (out.file.empty() && !l.file.empty()) {
    out.file = l.file;
    out.line = l.line;
    out.column = l.column;
  }
  for (uint32_t inner : l.of)
    if (out.file.empty()) readLocation(inner, out, depth + 1);
}

AttrList HloImporter::locationOf(uint32_t loc) {
  AttrList out;
  if (loc == 0) return out;
  UserLocation p;
  readLocation(loc, p, 0);
  auto add = [&](const char* name, const std::string& text) {
    out.push_back({module.strings.intern(name), module.attrs.string(module.strings.intern(text))});
  };
  if (!p.name.empty()) add("name", p.name);
  if (!p.file.empty()) add("loc", p.file + ":" + std::to_string(p.line) + ":" + std::to_string(p.column));
  return out;
}

const HloValue* HloImporter::lookup(const MlirUse& use) {
  auto found = names_.find(use.name);
  if (found != names_.end() && !found->second.empty() && use.number < found->second.back().size())
    return &found->second.back()[use.number];
  diags.error(kUnknownValue, use.range, use.name);
  return nullptr;
}

void HloImporter::define(std::string_view name, std::vector<HloValue> values) {
  names_[name].push_back(std::move(values));
  defined_.push_back(name);
}

void HloImporter::redefine(const MlirUse& use, ValueId tensor) {
  std::vector<HloValue> values = names_[use.name].back();
  values[use.number].parts = {tensor};
  define(use.name, std::move(values));
}

FuncId HloImporter::function(std::string_view symbol) const {
  auto found = functions_.find(symbol);
  return found == functions_.end() ? FuncId() : found->second;
}

const MlirOp* HloImporter::functionText(std::string_view symbol) const {
  auto found = functionText_.find(symbol);
  return found == functionText_.end() ? nullptr : found->second;
}

// --- functions ---

bool HloImporter::declare(const MlirOp& op) {
  std::string_view symbol = symbolOf(op);
  std::string name = validName(symbol);
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) name = "f_" + name;
  while (module.findFunction(name).valid()) name += "_";
  if (symbol.empty() || functions_.contains(symbol))
    return diags.fail(kImportFunction, op.nameRange, "a function with this name exists already");
  if (op.regions.empty()) return true; // declared only: an error where it is called
  if (inner_.contains(symbol)) return functionText_[symbol] = &op, true;
  FuncId f(static_cast<uint32_t>(module.functions.size()));
  Function& made = module.functions.emplace_back();
  made.name = module.strings.intern(name);
  made.loc = op.nameRange;
  made.body = module.makeBlock();
  module[made.body].parentFunc = f;
  std::vector<DonatedArgument> donated;
  bool ok = declareArgs(op, f, donated) && declareResults(op, f, donated) &&
            (perDevice_.valid() || shardy.annotateFunction(op, f));
  if (!ok) {
    module.functions.pop_back();
    return false;
  }
  carryDonated(module, f, donated);
  module.order.push_back(f);
  functions_[symbol] = f;
  functionText_[symbol] = &op;
  return true;
}

StrId HloImporter::freshLabel(const std::string& wanted, Labels& taken) {
  std::string name = wanted;
  for (uint32_t& n = taken[wanted]; n > 0 && taken.contains(name); ++n)
    name = wanted + "_" + std::to_string(n);
  ++taken[name];
  return module.strings.intern(name);
}

bool HloImporter::declareArgs(const MlirOp& op, FuncId f, std::vector<DonatedArgument>& donated) {
  Labels taken;
  for (const MlirArg& a : op.regions[0].args) {
    std::vector<TypeId> types;
    if (!flatten(a.type, a.range, op.name, types)) return false;
    UserLocation p;
    readLocation(a.loc, p, 0);
    std::string name = validName(p.name);
    if (name.empty() || (name[0] >= '0' && name[0] <= '9')) name = validName(a.name);
    for (size_t i = 0; i < types.size(); ++i) {
      std::string own = types.size() == 1 ? name : name + "_" + std::to_string(i);
      FuncArg& arg = module[f].args.emplace_back();
      arg.value =
          module.makeBlockArg(module[f].body, types[i], own.empty() ? StrId() : freshLabel(own, taken));
      module[arg.value].loc = a.range;
      arg.attrs = locationOf(a.loc);
      const MlirAttr* donor = findAttr(a.attrs, "jax.buffer_donor");
      const MlirAttr* aliased = findAttr(a.attrs, "tf.aliasing_output");
      if (!aliased && !(donor && (donor->kind == MlirAttr::Unit || donor->integer))) continue;
      arg.attrs.push_back({module.strings.intern("donate"), module.attrs.boolean(true)});
      if (types.size() > 1) continue; // a tuple's elements are not paired
      DonatedArgument& d = donated.emplace_back();
      d.argument = module[f].args.size() - 1;
      if (aliased && aliased->integer >= 0) d.aliased = static_cast<size_t>(aliased->integer);
    }
  }
  return true;
}

// "result['loss']", "result.loss", "['loss']", "result[0]['m']", "[1]", "result": the name is the part after
// `result`, with the prefix `result_` where it begins with a digit.
std::string HloImporter::resultName(std::string_view info) const {
  std::string_view path = info;
  if (path.starts_with("result[") || path.starts_with("result.")) path.remove_prefix(6);
  std::string name = validName(path);
  return !name.empty() && name[0] >= '0' && name[0] <= '9' ? "result_" + name : name;
}

// `donated` holds result numbers of the text; on return, those of the function.
bool HloImporter::declareResults(const MlirOp& op, FuncId f, std::vector<DonatedArgument>& donated) {
  Labels taken;
  std::vector<std::optional<size_t>> numbers; // for results that are one tensor
  for (size_t k = 0; k < op.resultTypes.size(); ++k) {
    SourceRange range = k < op.resultRanges.size() ? op.resultRanges[k] : op.nameRange;
    std::vector<TypeId> types;
    if (!flatten(op.resultTypes[k], range, op.name, types)) return false;
    std::string info;
    if (k < op.resultAttrs.size())
      if (const MlirAttr* a = findAttr(op.resultAttrs[k], "jax.result_info")) info = unescapeMlir(a->text);
    const std::string name = resultName(info);
    numbers.push_back(types.size() == 1 ? std::optional(module[f].results.size()) : std::nullopt);
    for (size_t i = 0; i < types.size(); ++i) {
      FuncResult& r = module[f].results.emplace_back();
      std::string own = types.size() == 1 || name.empty() ? name : name + "_" + std::to_string(i);
      if (!own.empty()) r.label = freshLabel(own, taken);
      r.type = types[i];
      r.loc = range;
      if (!info.empty())
        r.attrs.push_back({module.strings.intern("name"), module.attrs.string(module.strings.intern(info))});
    }
  }
  for (DonatedArgument& d : donated)
    if (d.aliased) d.aliased = *d.aliased < numbers.size() ? numbers[*d.aliased] : std::nullopt;
  return true;
}

bool HloImporter::body(const MlirOp& op, FuncId f) {
  const MlirRegion& region = op.regions[0];
  names_.clear();
  defined_.clear();
  shardy.enterFunction(op);
  std::vector<HloValue> args;
  size_t at = 0;
  for (const MlirArg& a : region.args) {
    std::vector<TypeId> types;
    if (!flatten(a.type, a.range, op.name, types)) return false;
    HloValue& v = args.emplace_back();
    v.type = a.type;
    for (size_t i = 0; i < types.size(); ++i) v.parts.push_back(module[f].args[at++].value);
  }
  auto values = regionInto(region, module[f].body, args);
  if (!values) return false;
  Block& b = module[module[f].body];
  b.yields = *values;
  b.terminatorLoc = region.ops.empty() ? region.range : region.ops.back().nameRange;
  return true;
}

// --- regions ---

std::optional<std::vector<ValueId>> HloImporter::regionInto(const MlirRegion& region, BlockId block,
                                                            std::span<const HloValue> args) {
  BlockId outer = block_;
  block_ = block;
  if (outer.valid() && !module[block].parentFunc.valid()) module[block].parentFunc = module[outer].parentFunc;
  size_t mark = defined_.size();
  for (size_t i = 0; i < region.args.size() && i < args.size(); ++i) {
    const MlirArg& a = region.args[i];
    define(a.name, {{a.type ? a.type : args[i].type,
                     args[i].parts}}); // as the text has it: the local type, in per-device code
  }
  auto out = ops(region);
  for (; defined_.size() > mark; defined_.pop_back()) names_[defined_.back()].pop_back();
  block_ = outer;
  return out;
}

std::optional<std::vector<ValueId>> HloImporter::regionLifted(const MlirRegion& region,
                                                              std::span<const HloValue> args) {
  if (depth_ >= kMaxInlineDepth)
    return diags.fail(kImportFunction, region.range, "calls are nested too deep here");
  ++lifted_;
  ++depth_;
  auto out = regionInto(region, block_, args);
  --depth_;
  --lifted_;
  return out;
}

// Each function has its own names: those of the enclosing one are saved.
std::optional<std::vector<ValueId>> HloImporter::inlineFunction(const MlirOp& function,
                                                                std::span<const HloValue> args) {
  auto names = std::exchange(names_, {});
  auto defined = std::exchange(defined_, {});
  const int outer = std::exchange(lifted_, lifted_ == 0 ? -1 : lifted_); // regionLifted increments it
  auto out = regionLifted(function.regions[0], args);
  lifted_ = outer;
  names_ = std::move(names);
  defined_ = std::move(defined);
  return out;
}

std::optional<std::vector<ValueId>> HloImporter::ops(const MlirRegion& region) {
  bool ok = true;
  for (const MlirOp& op : region.ops) {
    if (isTerminator(op.name)) {
      std::vector<ValueId> out;
      std::vector<HloValue> operands;
      for (const MlirUse& u : op.operands) {
        const HloValue* v = lookup(u);
        if (!v) return std::nullopt;
        operands.push_back(*v);
        out.insert(out.end(), v->parts.begin(), v->parts.end());
      }
      if (!operandsAsStated(op, operands)) return std::nullopt;
      if (!ok && !problems) return std::nullopt;
      return out;
    }
    ok &= convert(op);
    if (!ok && diags.full()) return std::nullopt;
  }
  return diags.fail(kImportFunction, region.range, "this region does not end with a return");
}

// --- ops ---

bool HloImporter::convert(const MlirOp& op) {
  bool ok = lifted_ == 0 || ++liftedOps_ <= kMaxLiftedOps;
  if (!ok)
    diags.error(kImportFunction, op.nameRange,
                "inlining regions and functions expands the program too much here");
  if (ok && !block_.valid() && op.name != "sdy.mesh") {
    diags.error(kImportFunction, op.nameRange, "an op outside of any function");
    ok = false;
  }
  ok = ok && convertRow(op);
  if (ok) return true;
  if (problems && diags.hasErrors()) {
    const Diagnostic& d = diags.all().front();
    problems->push_back({std::string(op.name), d.range, d.message()});
    diags.clear();
  }
  replaceByZeros(op);
  return false;
}

// Checks an op's operands against the types that it states: one each, or the last for all remaining operands
// and the result.
bool HloImporter::operandsAsStated(const MlirOp& op, std::span<const HloValue> operands) {
  const std::vector<const MlirType*>& stated = op.operandTypes;
  const bool shared = !stated.empty() && stated.size() < operands.size() && op.resultTypes.size() == 1 &&
                      op.resultTypes[0] == stated.back() && stated.back()->kind == MlirType::Tensor;
  if (!shared && stated.size() != operands.size()) return true;
  for (size_t i = 0; i < operands.size(); ++i) {
    const bool last = shared && i + 1 >= stated.size();
    const MlirType *want = last ? stated.back() : stated[i], *is = operands[i].type;
    // The dtype of the result may differ from that of its operands (complex).
    const bool same =
        last && is && is->kind == MlirType::Tensor ? is->dims == want->dims : sameType(want, is);
    if (same) continue;
    return diags.fail(kImportStatedType, op.operands[i].range, op.name, op.operands[i].name,
                      textOf(module, want), textOf(module, is));
  }
  return true;
}

bool HloImporter::convertRow(const MlirOp& op) {
  std::string_view name = op.name;
  std::string synonym;
  const HloRow* row = findHloRow(name);
  if (name.ends_with(".custom_call")) {
    for (const MlirNamedAttr& a : op.attrs)
      if (a.name == "call_target_name") synonym = "custom_call @" + std::string(a.value.text);
    row = findHloRow(synonym);
    const bool host = synonym.starts_with("custom_call @" + std::string(kHostFunction));
    if (!row && (host || shardy.used() || findAttr(op.attrs, "sdy.sharding_rule")))
      row = findHloRow("custom_call"); // opaque, but a function of the process or with a sharding rule
    name = synonym;
  }
  if (!row) {
    std::string hint = unknownHint(name);
    return diags.fail(kImportUnknownOp, op.nameRange, name, hint);
  }
  HloContext c(*this, op);
  for (const MlirUse& u : op.operands) {
    const HloValue* v = lookup(u);
    if (!v) return false;
    c.operands_.push_back(*v);
  }
  if (!operandsAsStated(op, c.operands_)) return false;
  const auto fresh = static_cast<uint32_t>(module.values.size());
  if (!row->run(c)) {
    if (!diags.hasErrors()) c.fail("could not be imported");
    return false;
  }
  for (size_t i = 0; i < c.given_.size(); ++i)
    if (!c.given_[i] && op.resultTypes[i] && op.resultTypes[i]->kind != MlirType::Token)
      return c.fail("was imported without its result " + std::to_string(i));
  for (size_t i = 0; i < c.results_.size(); ++i) c.results_[i].type = op.resultTypes[i];
  if (!followOperands(c, name, c.results_) || !annotateResults(op, c.results_, fresh)) return false;
  nameResults(op, c.results_);
  return true;
}

bool HloImporter::annotateResults(const MlirOp& op, std::vector<HloValue>& values, uint32_t fresh) {
  if (lifted()) return true;
  std::vector<ValueId*> results;
  for (HloValue& v : values) results.push_back(v.parts.size() == 1 ? v.parts.data() : nullptr);
  return shardy.annotateResults(op, results, fresh);
}

// Binds the results to their names, and names the values that have none.
void HloImporter::nameResults(const MlirOp& op, std::vector<HloValue>& values) {
  size_t at = 0;
  for (const MlirResult& r : op.results) {
    std::vector<HloValue> group;
    for (uint32_t n = 0; n < r.count && at < values.size(); ++n, ++at) {
      std::string name = validName(r.name);
      if (r.count > 1) name += "_" + std::to_string(n);
      for (ValueId v : values[at].parts)
        if (!name.empty() && module[v].kind == ValueKind::OpResult && !module[v].name.valid())
          module[v].name = module.strings.intern(name);
      group.push_back(std::move(values[at]));
    }
    define(r.name, std::move(group));
  }
}

// Placeholders for the results of an op that did not import, so that its users are checked, too.
void HloImporter::replaceByZeros(const MlirOp& op) {
  Diagnostics unheard;
  size_t at = 0;
  for (const MlirResult& r : op.results) {
    std::vector<HloValue> group;
    for (uint32_t n = 0; n < r.count && at < op.resultTypes.size(); ++n, ++at) {
      HloValue v{op.resultTypes[at], {}};
      std::vector<TypeId> types;
      HloImporter quiet(tree, module, unheard);
      if (quiet.flatten(v.type, op.nameRange, op.name, types))
        for (TypeId t : types) {
          Value& made = module.values.emplace_back();
          made.kind = ValueKind::BlockArg;
          made.type = t;
          v.parts.emplace_back(static_cast<uint32_t>(module.values.size() - 1));
        }
      group.push_back(std::move(v));
    }
    define(r.name, std::move(group));
  }
}

OpId HloImporter::appendOp(OpName name, std::span<const ValueId> operands, AttrList attrs,
                           std::span<const TypeId> written, SourceRange loc, uint32_t regions) {
  OpKind kind = module.registry->find(name, operands.size());
  if (kind == kNoOpKind) {
    diags.error(kImportUnknownOp, loc, name, ": dtc has no op of this name");
    return {};
  }
  OpId id = module.makeOp(kind, operands, 0, std::move(attrs), regions, loc);
  module[id].parent = block_;
  std::vector<TypeId> types(written.begin(), written.end());
  if (regions == 0 && !module.record(id).isCall) {
    OpQuery q = queryOf(module, id, diags);
    q.writtenTypes = written;
    types.clear();
    if (!inferResultTypes(q, types)) return {};
  }
  module.makeResults(id, types);
  for (uint32_t r = 0; r < regions; ++r) module[module.region(id, r)].parentFunc = module[block_].parentFunc;
  module[block_].ops.push_back(id);
  return id;
}

} // namespace dtc
