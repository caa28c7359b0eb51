// Regions, calls, constraints and checks.
#include "dtc/IR/Region.h"
#include "export/ExportContext.h"
#include <algorithm>
#include <cmath>

namespace dtc {

namespace {

std::vector<ExportValue> valuesOf(ExportContext& c, std::span<const ValueId> ids) {
  std::vector<ExportValue> all;
  for (ValueId v : ids) all.push_back(c.value(v));
  return all;
}

// Names for the results of an op: "%a, %b = ", or "" of none.
std::string resultNames(ExportContext& c, OpId o, uint32_t first = 0) {
  std::string text;
  for (uint32_t r = first; r < c.m[o].numResults; ++r) {
    const ValueId v = c.m.result(o, r);
    c.define(v, {c.w.fresh(c.nameOf(v)), c.m.typeOf(v).dtype, c.resultShape(o, r)});
    text += (text.empty() ? "" : ", ") + c.value(v).name;
  }
  return text.empty() ? "" : text + " = ";
}

std::string typesOf(ExportContext& c, OpId o) {
  std::string text;
  for (uint32_t r = 0; r < c.m[o].numResults; ++r)
    text += (r ? ", " : "") + hloType(c.value(c.m.result(o, r)));
  return c.m[o].numResults == 1 ? text : "(" + text + ")";
}

// The block's ops and its results, ended by `terminator`.
bool block(ExportContext& c, BlockId b, std::string_view terminator) {
  if (!c.ops(b)) return false;
  const auto given = valuesOf(c, std::vector<ValueId>(c.m[b].yields));
  c.w.line(std::string(terminator) + (given.empty() ? "" : " " + namesOf(given) + " : " + hloTypes(given)));
  return true;
}

bool cond(ExportContext& c, OpId o) {
  const ExportValue p = c.operand(o, 0);
  const std::string names = resultNames(c, o);
  c.w.open(names + "\"stablehlo.if\"(" + p.name + ") ({");
  if (!block(c, c.m.region(o, 0), "stablehlo.return")) return false;
  c.w.between("}, {");
  if (!block(c, c.m.region(o, 1), "stablehlo.return")) return false;
  c.w.close("}) : (tensor<i1>) -> " + typesOf(c, o));
  return true;
}

// "%x = %start, …"; each block's arguments get these names.
struct Binds {
  std::string text;
  std::vector<ExportValue> starts, args;
};
Binds bindAll(ExportContext& c, std::vector<ExportValue> starts, std::span<const ValueId> args) {
  Binds b{.text = {}, .starts = std::move(starts), .args = {}};
  for (size_t i = 0; i < b.starts.size(); ++i) {
    ExportValue arg = b.starts[i];
    arg.name = c.w.fresh(i < args.size() ? c.nameOf(args[i]) : "");
    b.text += (i ? ", " : "") + arg.name + " = " + b.starts[i].name;
    if (i < args.size()) c.define(args[i], arg);
    b.args.push_back(std::move(arg));
  }
  return b;
}

bool whileLoop(ExportContext& c, OpId o) {
  const BlockId condition = c.m.region(o, 0), body = c.m.region(o, 1);
  const std::vector<ValueId> args = c.m[body].args;
  const Binds binds = bindAll(c, valuesOf(c, c.m.operands(o)), args);
  for (size_t i = 0; i < binds.args.size(); ++i) c.define(c.m[condition].args[i], binds.args[i]);
  c.w.line(resultNames(c, o) + "stablehlo.while(" + binds.text + ") : " + hloTypes(binds.args));
  c.w.open("cond {");
  if (!block(c, condition, "stablehlo.return")) return false;
  c.w.between("} do {");
  if (!block(c, body, "stablehlo.return")) return false;
  c.w.close("}");
  return true;
}

// A counting `while`; stacked results are written into buffers, one row per iteration.
class ForExport {
public:
  ForExport(ExportContext& c, OpId o)
      : c_(c), op_(o), body_(c.m.region(o)), carried_(c.m[body_].args.size() - 1) {}

  bool run() {
    ExportWriter& w = c_.w;
    const ExportValue lo = c_.operand(op_, 0), hi = c_.operand(op_, 1);
    c_.ranges.addIndex(op_);
    std::vector<ExportValue> starts = {lo};
    for (size_t i = 0; i < carried_; ++i) starts.push_back(c_.operand(op_, i + 2));
    for (size_t r = carried_; r < c_.m[op_].numResults; ++r)
      starts.push_back(w.splat(0, c_.resultType(op_, r), c_.resultShape(op_, r)));
    const Binds binds = bindAll(c_, starts, c_.m[body_].args);
    const std::string counter = w.fresh();
    w.line(counter + ", " + resultNames(c_, op_) + "stablehlo.while(" + binds.text +
           ") : " + hloTypes(binds.args));
    w.open("cond {");
    const ExportValue more = w.compare("LT", binds.args[0], hi);
    w.line("stablehlo.return " + more.name + " : " + hloType(more));
    w.between("} do {");
    if (!iteration(binds.args, lo)) return false;
    w.close("}");
    return true;
  }

private:
  bool iteration(const std::vector<ExportValue>& args, const ExportValue& lo) {
    if (!c_.ops(body_)) return false;
    ExportWriter& w = c_.w;
    const auto yields = valuesOf(c_, std::vector<ValueId>(c_.m[body_].yields));
    const ExportValue one = w.splat(1, DType::I32, {});
    std::vector<ExportValue> next = {w.binary("add", args[0], one)};
    next.insert(next.end(), yields.begin(), yields.begin() + static_cast<ptrdiff_t>(carried_));
    if (yields.size() > carried_) {
      const ExportValue row = w.binary("subtract", args[0], lo), zero = w.splat(0, DType::I32, {});
      for (size_t k = carried_; k < yields.size(); ++k) {
        if (args[1 + k].shape[0] == 0) { // no iterations, and no row to write
          next.push_back(args[1 + k]);
          continue;
        }
        Dims thin = yields[k].shape;
        thin.insert(thin.begin(), 1);
        std::vector<ExportValue> all = {args[1 + k], w.reshape(yields[k], thin), row};
        all.resize(2 + thin.size(), zero);
        next.push_back(w.typed("dynamic_update_slice", all, "", args[1 + k].dtype, args[1 + k].shape));
      }
    }
    w.line("stablehlo.return " + namesOf(next) + " : " + hloTypes(next));
    return true;
  }

  ExportContext& c_;
  OpId op_;
  BlockId body_;
  size_t carried_;
};
bool forLoop(ExportContext& c, OpId o) { return ForExport(c, o).run(); }

bool call(ExportContext& c, OpId o) {
  const auto args = valuesOf(c, c.m.operands(o));
  const std::string callee(c.m.strings[c.m[o].callee]);
  c.w.line(resultNames(c, o) + "func.call @" + callee + "(" + namesOf(args) + ") : (" + hloTypes(args) +
           ") -> " + typesOf(c, o));
  return true;
}

// A forward op is exported as its block.
bool recompute(ExportContext& c, OpId o) {
  const BlockId b = c.m.region(o);
  for (size_t i = 0; i < c.m[b].args.size(); ++i) c.define(c.m[b].args[i], c.operand(o, i));
  if (!c.ops(b)) return false;
  for (uint32_t r = 0; r < c.m[o].numResults; ++r) c.define(c.m.result(o, r), c.value(c.m[b].yields[r]));
  return true;
}

std::optional<std::string> shardings(ExportContext& c, const std::vector<ValueId>& values,
                                     const std::vector<TypeId>& types, MeshId mesh, SourceRange loc) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    ShardingId s = c.m[values[i]].sharding;
    if (!s.valid()) s = c.m.shardings.replicated(mesh, c.m.types[types[i]].rank());
    const auto one = exportSharding(c.m, s, loc, c.diags);
    if (!one) return std::nullopt;
    text += (i ? ", " : "") + *one;
  }
  return text + "]";
}

bool local(ExportContext& c, OpId o) {
  Module& m = c.m;
  const BlockId b = m.region(o);
  MeshId mesh;
  std::vector<ValueId> args = m[b].args, results;
  std::vector<TypeId> argTypes, resultTypes;
  for (uint32_t r = 0; r < m[o].numResults; ++r) results.push_back(m.result(o, r));
  for (ValueId v : results) resultTypes.push_back(m[v].type);
  for (ValueId v : m.operands(o)) argTypes.push_back(m[v].type);
  for (const auto& list : {args, results})
    for (ValueId v : list)
      if (m[v].sharding.valid()) mesh = m.shardings[m[v].sharding].mesh;
  if (!mesh.valid()) return c.refuse(o, "none of the shardings of its operands and results names its mesh");
  const auto in = shardings(c, args, argTypes, mesh, m[o].loc),
             out = shardings(c, results, resultTypes, mesh, m[o].loc);
  if (!in || !out) return false;
  const auto given = valuesOf(c, m.operands(o));
  std::string head, axes;
  for (ValueId v : args) {
    const auto shape = c.shapeOf(m[v].type, m[o].loc);
    if (!shape) return false;
    ExportValue arg{c.w.fresh(c.nameOf(v)), m.typeOf(v).dtype, *shape};
    head += (head.empty() ? "" : ", ") + arg.name + ": " + hloType(arg);
    c.define(v, std::move(arg));
  }
  for (const MeshAxis& a : m.shardings.mesh(mesh).axes)
    axes += (axes.empty() ? "\"" : ", \"") + std::string(m.strings[a.name]) + "\"";
  const std::string names = resultNames(c, o);
  c.w.open(names + "sdy.manual_computation(" + namesOf(given) + ") in_shardings=" + *in +
           " out_shardings=" + *out + " manual_axes={" + axes + "} (" + head + ") {");
  c.manual = mesh;
  const bool good = block(c, b, "sdy.return");
  c.manual = {};
  c.w.close("} : (" + hloTypes(given) + ") -> " + typesOf(c, o));
  return good;
}

// --- annotations ---

bool same(ExportContext& c, OpId o) {
  c.define(c.m.result(o), c.operand(o, 0));
  return true;
}

ExportValue annotated(ExportContext& c, const std::string& op, const ExportValue& x, const std::string& rest,
                      std::string_view name) {
  ExportValue r{c.w.fresh(name), x.dtype, x.shape};
  c.w.line(r.name + " = " + op + " " + x.name + " " + rest + " : " + hloType(x));
  return r;
}

bool constrained(ExportContext& c, OpId o) {
  const ValueId v = c.m.result(o);
  ExportValue x = c.operand(o, 0);
  if (AttrId group = c.m.attr(o, "group"); group.valid())
    c.w.line("sdy.sharding_group " + x.name + " group_id=" + std::to_string(c.m.attrs[group].i) + " : " +
             hloType(x));
  if (c.m[v].sharding.valid()) {
    const auto s = exportSharding(c.m, c.m[v].sharding, c.m[o].loc, c.diags);
    if (!s) return false;
    const bool reshards = c.m.record(o).constraint == Constraint::Reshard;
    x = annotated(c, reshards ? "sdy.reshard" : "sdy.sharding_constraint", x, *s, c.nameOf(v));
  }
  c.define(v, x);
  return true;
}

// Shardy lists the axes that are let through, dtc those that are blocked.
bool barrier(ExportContext& c, OpId o) {
  const std::string_view held = c.query(o).textAttr("direction");
  const char* allowed = held == "forward" ? "BACKWARD" : held == "backward" ? "FORWARD" : "NONE";
  const ValueId v = c.m.result(o);
  c.define(v, annotated(c, "sdy.propagation_barrier", c.operand(o, 0),
                        "allowed_direction=" + std::string(allowed), c.nameOf(v)));
  return true;
}

// --- complex values at the function's boundary ---

bool complexNumber(ExportContext& c, OpId o) {
  const ExportValue both[] = {c.operand(o, 0), c.operand(o, 1)};
  const std::string type = hloType(c.resultType(o), both[0].shape);
  return c.setResult(o, c.w.plain("complex", both, type, c.resultType(o), both[0].shape));
}
bool part(ExportContext& c, OpId o) {
  const ExportValue z = c.operand(o, 0);
  const std::string_view op = c.m.record(o).name;
  return c.setResult(o, c.w.typed(op, {&z, 1}, "", c.resultType(o), z.shape));
}

// --- calls of unknown functions ---

bool custom(ExportContext& c, OpId o) {
  const OpQuery q = c.query(o);
  const auto args = valuesOf(c, c.m.operands(o));
  std::string attrs;
  if (!q.textAttr("rule").empty())
    attrs = " {sdy.sharding_rule = #sdy.op_sharding_rule<" + std::string(q.textAttr("rule")) + ">}";
  c.w.line(resultNames(c, o) + "stablehlo.custom_call @" + std::string(q.textAttr("target")) + "(" +
           namesOf(args) + ")" + attrs + " : (" + hloTypes(args) + ") -> " + typesOf(c, o));
  return true;
}

// --- checks ---

bool check(ExportContext& c, OpId o, const std::string& target, const std::string& attrs) {
  const auto args = valuesOf(c, c.m.operands(o));
  c.w.line("stablehlo.custom_call @check." + target + "(" + namesOf(args) + ") {has_side_effect = true" +
           attrs + "} : (" + hloTypes(args) + ") -> ()");
  return true;
}
bool expectEq(ExportContext& c, OpId o) { return check(c, o, "expect_eq", ""); }

// The check dialect supports units in the last place, or an absolute difference.
bool expectClose(ExportContext& c, OpId o) {
  const OpQuery q = c.query(o);
  const double atol = q.floatAttr("atol"), rtol = q.floatAttr("rtol");
  const double unit = std::ldexp(1.0, 1 - mantissaBits(c.m.typeOf(c.m.operand(o, 0)).dtype));
  if (q.has("atol") && atol > 0 && q.has("rtol") && rtol > 0)
    return c.refuse(o, "StableHLO's checks take a relative or an absolute tolerance; this op has both");
  if (q.has("atol") && atol > 0) {
    char number[32];
    std::snprintf(number, sizeof number, "%.9e", atol);
    return check(c, o, "expect_almost_eq", ", tolerance = " + std::string(number) + " : f64");
  }
  if (q.has("typical")) return check(c, o, "expect_close", ""); // as the importer reads such a text
  const double units = q.has("rtol") ? std::ceil(rtol / unit) : 16;
  if (!(units >= 0 && units < 9e15)) return c.refuse(o, "its tolerance is out of range");
  return check(c, o, "expect_close",
               ", max_ulp_difference = " + std::to_string(static_cast<int64_t>(units)) + " : i64");
}

} // namespace

std::span<const ExportRow> exportsOfControl() {
  static constexpr ExportRow rows[] = {
      {"cond", cond},
      {"while", whileLoop},
      {"for", forLoop},
      {"call", call},
      {"recompute", recompute},
      {"local", local},
      {"shard", constrained},
      {"reshard", constrained},
      {"barrier", barrier},
      {"stop_gradient", same},
      {"complex", complexNumber},
      {"real", part},
      {"imag", part},
      {"custom", custom},
      {"expect_eq", expectEq},
      {"expect_close", expectClose},
  };
  return rows;
}

} // namespace dtc
