// Export of a module: meshes, functions, and the dispatch of one op.
#include "dtc/StableHlo/export/Export.h"
#include "dtc/IR/infer/RuleText.h"
#include "dtc/Ops/Expr.h"
#include "dtc/Ops/record/Ops.h"
#include "dtc/Passes/analysis/MemoryPlan.h"
#include "dtc/Passes/autodiff/Autodiff.h"
#include "dtc/Passes/complex/SplitComplex.h"
#include "dtc/Passes/simplify/Inline.h"
#include "dtc/Passes/simplify/Specialize.h"
#include "dtc/Support/Result.h"
#include "export/ExportContext.h"
#include <algorithm>

namespace dtc {

static constexpr DiagKind kExportOp{"export-op", "'{0}' cannot be exported: {1}"};
static constexpr DiagKind kExportSize{
    "export-size", "StableHLO has no symbolic sizes: {0} must be a number; bind each with --dim NAME=SIZE"};
static constexpr DiagKind kExportShard{
    "export-uneven",
    "the shards of {0} differ in size, which StableHLO cannot express: export the program before "
    "partitioning it, or choose sizes that the mesh divides"};

bool ExportContext::refuse(OpId o, std::string_view why) {
  return diags.fail(kExportOp, m[o].loc, m.record(o).name, why);
}

std::optional<Dims> ExportContext::shapeOf(TypeId id, SourceRange at) {
  const Type& t = m.types[id];
  if (t.isStatic()) return t.staticShape();
  for (Dim d : t.dims)
    if (!d.isStatic()) {
      const bool symbolic = m.dims.expr(d).axes.empty();
      diags.error(symbolic ? kExportSize : kExportShard, at, typeText(m, id));
      break;
    }
  return std::nullopt;
}

Dims ExportContext::resultShape(OpId o, size_t i) { return m.typeOf(m.result(o, i)).staticShape(); }

ExportValue ExportContext::splatOf(ValueId literal, const Dims& global) {
  const Attr& a = m.attrs[m[literal].literal];
  const DType d = m.typeOf(literal).dtype;
  if (a.kind == Attr::Float || !isInteger(d))
    return w.splat(a.kind == Attr::Float ? a.f : static_cast<double>(a.i), d, global);
  return w.dense(isUnsignedInt(d) ? std::to_string(static_cast<uint64_t>(a.i)) : std::to_string(a.i), d,
                 global);
}

ExportValue ExportContext::value(ValueId v) {
  if (m[v].kind == ValueKind::Literal) return splatOf(v, {});
  return values_.at(v);
}

bool ExportContext::setResult(OpId o, ExportValue h) { return setResult(o, 0, std::move(h)); }
bool ExportContext::setResult(OpId o, uint32_t result, ExportValue h) {
  const ValueId v = m.result(o, result);
  w.call(h, nameOf(v));
  define(v, std::move(h));
  return true;
}

// A sharding written on a result becomes a sharding constraint.
bool ExportContext::sharded(OpId o) {
  if (m.record(o).constraint != Constraint::None || m.record(o).regions == RegionKind::Local) return true;
  for (uint32_t r = 0; r < m[o].numResults; ++r) {
    const ValueId v = m.result(o, r);
    if (!m[v].sharding.valid() || manual.valid()) continue;
    const auto s = exportSharding(m, m[v].sharding, m[o].loc, diags);
    if (!s) return false;
    const ExportValue x = value(v);
    ExportValue y{w.fresh(nameOf(v)), x.dtype, x.shape};
    w.line(y.name + " = sdy.sharding_constraint " + x.name + " " + *s + " : " + hloType(x));
    define(v, std::move(y));
  }
  return true;
}

// The op on operands converted to f32 where they are narrower, so that its intermediate results are not
// rounded.
static OpId widened(Module& m, OpId o, Builder& b) {
  auto narrow = [&](ValueId v) { return isNarrowFloat(m.typeOf(v).dtype); };
  auto wide = [&](ValueId v) {
    Type t = m.typeOf(v);
    if (isNarrowFloat(t.dtype)) t.dtype = DType::F32;
    return m.types.intern(std::move(t));
  };
  std::vector<ValueId> operands(m.operands(o).begin(), m.operands(o).end());
  if (std::none_of(operands.begin(), operands.end(), narrow)) return o;
  for (ValueId& v : operands)
    if (narrow(v)) v = Expr(b, v).as(DType::F32);
  const OpId copy = m.makeOp(m[o].kind, operands, m[o].numResults, m[o].attrs, 0, m[o].loc);
  m[copy].parent = m[o].parent;
  for (uint32_t r = 0; r < m[o].numResults; ++r) m[m.result(copy, r)].type = wide(m.result(o, r));
  return copy;
}

bool ExportContext::decomposed(OpId o) {
  std::vector<OpId> parts;
  std::vector<ValueId> results;
  Builder b(m, m[o].parent, parts, diags);
  b.loc = m[o].loc;
  const OpId wide = widened(m, o, b);
  if (!m.record(o).decompose(b, wide, results))
    return refuse(o, "StableHLO cannot express it with these attributes");
  if (results.empty()) return false; // kept unchanged
  for (OpId part : parts)
    if (!op(part)) return false;
  for (uint32_t r = 0; r < m[o].numResults; ++r)
    setResult(o, r, w.convert(value(results[r]), resultType(o, r)));
  return true;
}

static const ExportRow* rowOf(std::string_view op) {
  static const auto table = [] {
    std::unordered_map<std::string_view, const ExportRow*> t;
    for (auto family : {exportsOfShapes(), exportsOfIndices(), exportsOfConvolutions(), exportsOfPooling(),
                        exportsOfControl(), exportsOfFactors()})
      for (const ExportRow& r : family) {
        DTC_CHECK(standardOps().find(r.op) != kNoOpKind, r.op);
        t.emplace(r.op, &r);
      }
    return t;
  }();
  const auto it = table.find(op);
  return it == table.end() ? nullptr : it->second;
}

bool ExportContext::op(OpId o) {
  const OpRecord& record = m.record(o);
  for (uint32_t r = 0; r < m[o].numResults; ++r)
    if (!shapeOf(m[m.result(o, r)].type, m[o].loc)) return false;
  for (ValueId v : std::vector<ValueId>(m.operands(o).begin(), m.operands(o).end()))
    if (m[v].kind == ValueKind::Symbol)
      return refuse(o, "it depends on a symbolic size; bind it with --dim NAME=SIZE");
  if (record.collective != CollectiveKind::None) return exportCollective(*this, o) && sharded(o);
  if (const ExportRow* row = rowOf(record.name)) return row->write(*this, o) && sharded(o);
  if (record.decompose && decomposed(o)) return sharded(o);
  if (diags.hasErrors()) return false;
  if (record.lowering == Lowering::Loops || record.lowering == Lowering::Library) {
    if (record.element ? exportByElement(*this, o)
                       : (record.scalar || record.scalarFor) && exportByRule(*this, o))
      return sharded(o);
    if (diags.hasErrors()) return false;
  }
  return refuse(o, record.sideEffect ? "StableHLO has no such op; remove it before the export"
                                     : "StableHLO has no such op, and dtc has no decomposition of it");
}

bool ExportContext::ops(BlockId block) {
  bool good = true;
  for (OpId o : std::vector<OpId>(m[block].ops)) {
    good = op(o) && good;
    if (!good) return false;
  }
  return good;
}

namespace {

std::string quotedMlir(std::string_view text) {
  static constexpr char digits[] = "0123456789ABCDEF";
  std::string out = "\"";
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\' || byte < 32)
      out += {'\\', digits[byte >> 4], digits[byte & 15]};
    else
      out += c;
  }
  return out + '"';
}

class ModuleExport {
public:
  ModuleExport(Module& m, Diagnostics& diags, FuncId entry) : m_(m), diags_(diags), entry_(entry) {}

  std::string run(const std::string& name) {
    text_ = "module @" + name + " {\n";
    for (uint32_t i = 0; i < m_.shardings.numMeshes(); ++i)
      text_ += "  " + exportMesh(m_, m_.shardings.mesh(MeshId(i))) + "\n";
    for (FuncId f : m_.order)
      if (m_[f].body.valid()) function(f);
    return diags_.hasErrors() ? "" : text_ + "}\n";
  }

private:
  // `{sdy.sharding = …, jax.buffer_donor = true}`, or "".
  std::optional<std::string> attributes(ShardingId s, std::vector<std::string> more, SourceRange loc) {
    if (s.valid()) {
      const auto text = exportSharding(m_, s, loc, diags_);
      if (!text) return std::nullopt;
      more.insert(more.begin(), "sdy.sharding = #sdy.sharding" + *text);
    }
    std::string all;
    for (const std::string& a : more) all += (all.empty() ? " {" : ", ") + a;
    return all.empty() ? all : all + "}";
  }

  [[nodiscard]] bool flag(const AttrList& attrs, std::string_view name) const {
    const AttrId a = findAttr(attrs, m_.strings.find(name));
    return a.valid() && m_.attrs[a].i != 0;
  }

  [[nodiscard]] std::string textOf(const AttrList& attrs, std::string_view name) const {
    const AttrId a = findAttr(attrs, m_.strings.find(name));
    return a.valid() ? std::string(m_.strings[m_.attrs[a].text]) : std::string();
  }

  // An argument tied to a result aliases its buffer; one that is only donated may alias any.
  [[nodiscard]] std::vector<std::string> donation(FuncId f, std::span<const CarriedResult> carried,
                                                  size_t argument) const {
    const auto of = std::ranges::find(carried, argument, &CarriedResult::argument);
    if (of != carried.end()) return {"tf.aliasing_output = " + std::to_string(of->result) + " : i32"};
    if (flag(m_[f].args[argument].attrs, "donate")) return {"jax.buffer_donor = true"};
    return {};
  }

  // Value numbers restart in the body, so that none collides with an argument's name.
  static std::string argumentName(std::string_view name) {
    const bool numbered = name.empty() || std::isdigit(static_cast<unsigned char>(name[0]));
    return (numbered ? "arg" : "") + std::string(name);
  }

  void function(FuncId id) {
    const Function& f = m_[id];
    ExportWriter w("    ");
    ExportContext c(m_, diags_, w);
    const bool global = !f.spmd;
    std::string head = "  func.func " + std::string(isEntry(id) ? "public" : "private") + " @" +
                       std::string(m_.strings[f.name]) + "(";
    const std::vector<CarriedResult> carried = carriedResults(m_, id);
    for (size_t i = 0; i < f.args.size(); ++i) {
      const FuncArg& a = f.args[i];
      const TypeId type = a.globalType.valid() ? a.globalType : m_[a.value].type;
      const auto shape = c.shapeOf(type, f.loc);
      if (!shape) return;
      ExportValue v{w.fresh(argumentName(c.nameOf(a.value))), m_.types[type].dtype, *shape};
      const auto attrs = attributes(m_[a.value].sharding, donation(id, carried, i), f.loc);
      if (!attrs) return;
      const std::string user = textOf(a.attrs, "name");
      head += (i ? ", " : "") + v.name + ": " + hloType(v) + *attrs +
              (user.empty() ? "" : " loc(" + quotedMlir(user) + ")");
      c.define(a.value, std::move(v));
    }
    const auto results = resultsText(c, f);
    if (!results) return;
    text_ += head + ") -> (" + *results + ") {\n";
    if (global ? body(c, f) : perDevice(c, f)) text_ += w.take() + "  }\n";
  }

  [[nodiscard]] bool isEntry(FuncId id) const {
    if (entry_.valid()) return id == entry_;
    for (FuncId f : m_.order) {
      bool calls = false;
      if (m_[f].body.valid())
        forEachOp(m_, m_[f].body,
                  [&](OpId o) { calls |= m_.record(o).isCall && m_[o].callee == m_[id].name; });
      if (calls) return false;
    }
    return true;
  }

  std::optional<std::string> resultsText(ExportContext& c, const Function& f) {
    std::string text;
    for (size_t r = 0; r < f.results.size(); ++r) {
      const FuncResult& result = f.results[r];
      const TypeId type = result.globalType.valid() ? result.globalType : result.type;
      const auto shape = c.shapeOf(type, f.loc);
      std::vector<std::string> more;
      const std::string user = textOf(result.attrs, "name");
      if (!user.empty() || result.label.valid())
        more.push_back("jax.result_info = " + quotedMlir(user.empty() ? m_.strings[result.label] : user));
      const auto attrs = attributes(result.sharding, std::move(more), f.loc);
      if (!shape || !attrs) return std::nullopt;
      text += (r ? ", " : "") + hloType(m_.types[type].dtype, *shape) + *attrs;
    }
    return text;
  }

  bool body(ExportContext& c, const Function& f) {
    if (!c.ops(f.body)) return false;
    std::string names, types;
    for (ValueId v : std::vector<ValueId>(m_[f.body].yields)) {
      const ExportValue h = c.value(v);
      names += (names.empty() ? "" : ", ") + h.name;
      types += (types.empty() ? "" : ", ") + hloType(h);
    }
    c.w.line(names.empty() ? "return" : "return " + names + " : " + types);
    return true;
  }

  // The per-device body of a function whose arguments and results are global.
  bool perDevice(ExportContext& c, const Function& f) {
    std::string given, givenTypes, in, head, out, outTypes;
    MeshId mesh;
    auto add = [](std::string& list, const std::string& item) { list += (list.empty() ? "" : ", ") + item; };
    auto sharding = [&](ShardingId s, std::string& list) {
      mesh = m_.shardings[s].mesh;
      const auto text = exportSharding(m_, s, f.loc, diags_);
      if (text) add(list, *text);
      return text.has_value();
    };
    for (const FuncArg& a : f.args) {
      const ExportValue global = c.value(a.value);
      const auto shape = c.shapeOf(m_[a.value].type, f.loc);
      if (!shape || !m_[a.value].sharding.valid() || !sharding(m_[a.value].sharding, in)) return refuse(f);
      add(given, global.name);
      add(givenTypes, hloType(global));
      ExportValue local{c.w.fresh(c.nameOf(a.value)), global.dtype, *shape};
      add(head, local.name + ": " + hloType(local));
      c.define(a.value, std::move(local));
    }
    std::vector<std::string> names;
    for (const FuncResult& r : f.results) {
      if (!r.sharding.valid() || !sharding(r.sharding, out)) return refuse(f);
      const TypeId type = r.globalType.valid() ? r.globalType : r.type;
      add(outTypes, hloType(m_.types[type].dtype, m_.types[type].staticShape()));
      names.push_back(c.w.fresh(r.label.valid() ? m_.strings[r.label] : std::string_view()));
    }
    if (!mesh.valid()) return refuse(f);
    return manual(c, f, names, given, "in_shardings=[" + in + "] out_shardings=[" + out + "]", mesh, head,
                  "(" + givenTypes + ") -> " + (names.size() == 1 ? outTypes : "(" + outTypes + ")"),
                  outTypes);
  }

  bool manual(ExportContext& c, const Function& f, const std::vector<std::string>& names,
              const std::string& given, const std::string& shardings, MeshId mesh, const std::string& head,
              const std::string& types, const std::string& outTypes) {
    std::string results, axes;
    for (const std::string& n : names) results += (results.empty() ? "" : ", ") + n;
    for (const MeshAxis& a : m_.shardings.mesh(mesh).axes)
      axes += (axes.empty() ? "\"" : ", \"") + std::string(m_.strings[a.name]) + "\"";
    c.manual = mesh;
    c.w.open((results.empty() ? "" : results + " = ") + "sdy.manual_computation(" + given + ") " + shardings +
             " manual_axes={" + axes + "} (" + head + ") {");
    if (!c.ops(f.body)) return false;
    std::string yields, yieldTypes;
    for (ValueId v : std::vector<ValueId>(m_[f.body].yields)) {
      const ExportValue h = c.value(v);
      yields += (yields.empty() ? "" : ", ") + h.name;
      yieldTypes += (yieldTypes.empty() ? "" : ", ") + hloType(h);
    }
    c.w.line("sdy.return " + yields + " : " + yieldTypes);
    c.w.close("} : " + types);
    c.w.line("return " + results + " : " + outTypes);
    return true;
  }

  bool refuse(const Function& f) {
    static constexpr DiagKind kSpmd{"export-shard",
                                    "@{0} does not declare the global sharding of each argument and result"};
    if (!diags_.hasErrors()) diags_.error(kSpmd, f.loc, m_.strings[f.name]);
    return false;
  }

  Module& m_;
  Diagnostics& diags_;
  FuncId entry_;
  std::string text_;
};

// Differentiates first, since StableHLO has no gradients. Complex values are removed except at the function's
// boundary.
bool prepared(Module& m, Diagnostics& diags) {
  if (!specialize(m, diags)) return false; // sizes are static there
  const bool asked = takesGradients(m);
  bool local = false; // set if a per-device function is called: functions take and return global values
  for (FuncId f : m.order)
    if (m[f].body.valid()) forEachOp(m, m[f].body, [&](OpId o) { local |= m[f].spmd && m.record(o).isCall; });
  if ((asked || local) && !inlinePass(m, {}, diags)) return false;
  return splitComplexPass(m, {}, diags) && (!asked || autodiffPass(m, {}, diags));
}

} // namespace

static void rename(Module& m, FuncId f, const std::string& name) {
  const StrId from = m[f].name, to = m.strings.intern(name);
  for (FuncId g : m.order)
    if (m[g].body.valid())
      forEachOp(m, m[g].body, [&](OpId o) {
        if (m[o].callee == from) m[o].callee = to;
      });
  m[f].name = to;
}

static void nameMain(Module& m, FuncId entry) {
  if (const FuncId other = m.findFunction("main"); other.valid() && other != entry) {
    std::string name = "main_1";
    for (int n = 2; m.findFunction(name).valid(); ++n) name = "main_" + std::to_string(n);
    rename(m, other, name);
  }
  rename(m, entry, "main");
}

std::string exportStablehlo(Module m, Diagnostics& diags, FuncId entry) {
  if (!prepared(m, diags)) return "";
  const std::string name(entry.valid()     ? m.strings[m[entry].name]
                         : m.order.empty() ? "empty"
                                           : m.strings[m[m.order.back()].name]);
  if (entry.valid()) nameMain(m, entry);
  return ModuleExport(m, diags, entry).run(name);
}

} // namespace dtc
