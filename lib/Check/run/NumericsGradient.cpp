#include "run/NumericsGradient.h"
#include "dtc/Check/run/Compare.h"
#include "dtc/Eval/Eval.h"
#include "dtc/Eval/RandomInputs.h"
#include "dtc/IR/build/Builder.h"
#include "dtc/IR/text/Text.h"
#include "dtc/Ops/OpName.h"
#include "dtc/Passes/autodiff/Autodiff.h"
#include "dtc/Passes/complex/SplitComplex.h"
#include "dtc/Passes/simplify/Inline.h"
#include "dtc/Support/Units.h"
#include "run/RandomArguments.h"
#include <algorithm>
#include <cmath>
#include <set>

namespace dtc {

namespace {

constexpr int64_t kElements = 16; // of each argument, compared one by one
constexpr double kStep = 1e-6;

using Tensors = std::vector<Tensor>;

// --- generated programs for comparison ---

// A new function of the module with arguments of these types; its body is still empty.
FuncId addFunction(Module& m, const char* name, std::span<const TypeId> argTypes) {
  const FuncId id(static_cast<uint32_t>(m.functions.size()));
  Function f;
  f.name = m.strings.intern(name);
  f.body = m.makeBlock();
  m[f.body].parentFunc = id;
  for (size_t i = 0; i < argTypes.size(); ++i)
    f.args.push_back(
        {m.makeBlockArg(f.body, argTypes[i], m.strings.intern("arg" + std::to_string(i))), {}, {}});
  m.functions.push_back(std::move(f));
  m.order.push_back(id);
  return id;
}

void returnValues(Module& m, FuncId f, std::vector<OpId> ops, std::span<const ValueId> values) {
  m[m[f].body].ops = std::move(ops);
  m[m[f].body].yields.assign(values.begin(), values.end());
  for (ValueId v : values) m[f].results.push_back({{}, m[v].type, {}, {}, {}, {}});
}

// The op `kind` (call, value_and_grad) of @callee with results of these types.
OpId callOp(Module& m, OpName kind, FuncId callee, std::span<const ValueId> args,
            std::span<const TypeId> types, BlockId block) {
  const OpId o =
      m.makeOp(m.registry->find(kind), args, static_cast<uint32_t>(types.size()), {}, 0, m[callee].loc);
  m[o].callee = m[callee].name;
  m[o].parent = block;
  for (uint32_t r = 0; r < types.size(); ++r) m[m.result(o, r)].type = types[r];
  return o;
}

std::vector<TypeId> argTypesOf(const Module& m, FuncId f) {
  std::vector<TypeId> types;
  for (const FuncArg& a : m[f].args) types.push_back(m[a.value].type);
  return types;
}

std::vector<ValueId> argsOf(const Module& m, FuncId f) {
  std::vector<ValueId> values;
  for (const FuncArg& a : m[f].args) values.push_back(a.value);
  return values;
}

// @gradient_of: value_and_grad @f with respect to the arguments `wrt`.
FuncId addGradient(Module& m, FuncId f, std::span<const size_t> wrt) {
  const FuncId g = addFunction(m, "gradient_of", argTypesOf(m, f));
  std::vector<TypeId> types;
  std::vector<int64_t> positions;
  for (const FuncResult& r : m[f].results) types.push_back(r.type);
  for (size_t i : wrt)
    types.push_back(m[m[f].args[i].value].type), positions.push_back(static_cast<int64_t>(i));
  const OpId o = callOp(m, "value_and_grad", f, argsOf(m, g), types, m[g].body);
  m.setAttr(o, "wrt", m.attrs.integers(positions));
  std::vector<ValueId> results;
  for (uint32_t r = 0; r < m[o].numResults; ++r) results.push_back(m.result(o, r));
  returnValues(m, g, {o}, results);
  return g;
}

// @weighted: the sum in f64 of the float results of @f, each times a further argument.
FuncId addWeighted(Module& m, FuncId f, Diagnostics& diags) {
  std::vector<TypeId> types = argTypesOf(m, f), results;
  for (const FuncResult& r : m[f].results) {
    results.push_back(r.type);
    if (isFloat(m.types[r.type].dtype)) types.push_back(r.type);
  }
  const FuncId w = addFunction(m, "weighted", types);
  const std::vector<ValueId> args = argsOf(m, w);
  const size_t own = m[f].args.size();
  const OpId o = callOp(m, "call", f, std::span(args).first(own), results, m[w].body);
  std::vector<OpId> ops = {o};
  Builder b(m, m[w].body, ops, diags);
  b.loc = m[f].loc;
  Expr sum;
  size_t next = own;
  for (uint32_t r = 0; r < m[o].numResults; ++r) {
    if (!isFloat(m.typeOf(m.result(o, r)).dtype)) continue;
    const Expr v = ops::convert(ops::sum(Expr(b, m.result(o, r)) * args[next++]), DType::F64);
    sum = sum.valid() ? sum + v : v;
  }
  if (!sum.valid()) sum = {b, b.constant(0, m.tensorType(DType::F64, std::initializer_list<int64_t>{}))};
  returnValues(m, w, std::move(ops), std::array<ValueId, 1>{sum});
  return w;
}

Result<Tensors> evaluateExactly(Module& m, FuncId f, const Tensors& args) {
  EvalOptions options;
  options.precision = Precision::R64;
  return evaluate(m, f, args, options);
}

Tensor inF64(const Tensor& t) {
  if (!isFloat(t.dtype())) return t;
  Tensor out(DType::F64, t.shape());
  for (int64_t i = 0; i < t.numElements(); ++i) out.setFloat(i, t.getFloat(i));
  return out;
}

// --- against central differences ---

// Slopes of the first result of a function.
class Slopes {
public:
  Slopes(Module& m, FuncId f, Tensors args) : m_(m), f_(f), args_(std::move(args)) {}

  // Of one argument, one gradient.
  Status compare(size_t argument, const Tensor& gradient, NumericsRow& row) {
    const int64_t n = gradient.numElements(), step = std::max<int64_t>(1, (n + kElements - 1) / kElements);
    double scale = 0;
    for (int64_t i = 0; i < n; ++i) scale = std::max(scale, std::fabs(gradient.getFloat(i)));
    int64_t compared = 0, kinks = 0;
    Tensor along(DType::F64, gradient.shape());
    for (int64_t e = 0; e < n; e += step) {
      along.setFloat(e, 1);
      auto slope = slopeAlong(argument, along);
      along.setFloat(e, 0);
      if (!slope) return slope.error();
      ++compared;
      judge(*slope, gradient.getFloat(e), scale, indexText(e, gradient.shape()), row, kinks);
    }
    if (n > 1) {
      along = makeInput({InputSpec::Uniform, 17, -1, 1}, DType::F64, gradient.shape(), argument);
      DTC_TRY(auto slope, slopeAlong(argument, along));
      double product = 0;
      for (int64_t i = 0; i < n; ++i) product += gradient.getFloat(i) * along.getFloat(i);
      judge(slope, product, scale * std::sqrt(static_cast<double>(n)), "along a direction", row, kinks);
    }
    const std::string how = std::to_string(compared) + " of " + std::to_string(n) +
                            (n == 1 ? " element" : " elements") +
                            (n > 1 ? " and a direction through all" : "") +
                            (kinks ? ", " + std::to_string(kinks) + " of them not differentiable" : "");
    row.detail = row.detail.empty() ? how : row.detail + "; " + how;
    return Ok{};
  }

private:
  struct Slope {
    double near, far; // with one step size, and with twice that
    double value;     // of the function, in magnitude
  };

  Result<Slope> slopeAlong(size_t argument, const Tensor& along) {
    double at[4];
    const double steps[4] = {kStep, -kStep, 2 * kStep, -2 * kStep};
    const Tensor before = args_[argument];
    for (int k = 0; k < 4; ++k) {
      for (int64_t i = 0; i < before.numElements(); ++i)
        args_[argument].setFloat(i, before.getFloat(i) + steps[k] * along.getFloat(i));
      auto results = evaluateExactly(m_, f_, args_);
      args_[argument] = before;
      if (!results) return results.error();
      at[k] = (*results)[0].getFloat(0);
    }
    return Slope{(at[0] - at[1]) / (2 * kStep), (at[2] - at[3]) / (4 * kStep), std::fabs(at[0])};
  }

  static void judge(const Slope& s, double gradient, double scale, const std::string& where, NumericsRow& row,
                    int64_t& kinks) {
    const double size = std::max({std::fabs(s.near), std::fabs(s.far), scale});
    const double allowed = 1e-5 * size + 1e-8 * s.value + 1e-9, error = std::fabs(s.near - gradient);
    if (std::fabs(s.near - s.far) > 10 * allowed) { // not differentiable at any point tried
      ++kinks;
      return;
    }
    const bool holds = error <= allowed;
    if (row.pass && (!holds || row.where.empty() || error - allowed > row.error - row.allowed)) {
      row.error = error;
      row.allowed = allowed;
      row.where = where;
    }
    if (row.pass && !holds)
      row.detail =
          "the gradient is " + significant(gradient, 6) + ", the difference " + significant(s.near, 6);
    row.pass = row.pass && holds;
  }

  Module& m_;
  FuncId f_;
  Tensors args_;
};

// --- the sections ---

class GradientSections {
public:
  GradientSections(const Module& m, NumericsReport& report, Diagnostics& diags)
      : original_(m), report_(report), diags_(diags) {}

  Status run() {
    std::set<std::pair<uint32_t, std::vector<size_t>>> done;
    for (FuncId f : original_.order) {
      std::vector<OpId> gradients;
      forEachOp(original_, original_[f].body, [&](OpId o) {
        if (original_.record(o).differentiates) gradients.push_back(o);
      });
      for (OpId o : gradients) {
        const FuncId callee = original_.findFunction(original_.strings[original_[o].callee]);
        std::vector<size_t> wrt = wrtOf(o, callee);
        if (!done.emplace(callee.index, wrt).second) continue;
        if (Status s = differences(callee, wrt); !s) return s;
      }
    }
    for (FuncId f : original_.order)
      if (AttrId a = findAttr(original_[f].attrs, original_.strings.find("grad")); a.valid())
        if (Status s = derived(f, original_.findFunction(original_.strings[original_.attrs[a].text])); !s)
          return s;
    return Ok{};
  }

private:
  [[nodiscard]] std::vector<size_t> wrtOf(OpId o, FuncId callee) const {
    std::vector<size_t> wrt;
    if (AttrId a = original_.attr(o, "wrt"); a.valid()) {
      for (AttrId e : original_.attrs[a].list) wrt.push_back(static_cast<size_t>(original_.attrs[e].i));
      return wrt;
    }
    return floatArgs(original_, callee);
  }

  static std::vector<size_t> floatArgs(const Module& m, FuncId f) {
    std::vector<size_t> out;
    for (size_t i = 0; i < m[f].args.size(); ++i)
      if (isFloat(m.typeOf(m[f].args[i].value).dtype)) out.push_back(i);
    return out;
  }

  [[nodiscard]] std::string nameOf(FuncId f) const {
    return "@" + std::string(original_.strings[original_[f].name]);
  }

  NumericsSection& section(NumericsSection::Kind kind, FuncId f, std::string title) {
    NumericsSection& s = report_.sections.emplace_back();
    s.kind = kind;
    s.function = nameOf(f);
    s.title = std::move(title);
    return s;
  }

  // Gradients of the first result of `f` and random arguments for it; nothing where `f` cannot be
  // differentiated.
  struct Gradients {
    Tensors args, results; // those of f, then the gradients
  };
  Result<Gradients> gradientsOf(Module& m, FuncId f, std::span<const size_t> wrt, Diagnostics& diags) {
    const FuncId g = addGradient(m, f, wrt);
    removeUnreachable(m, g);
    if (!autodiffPass(m, {}, diags)) return inputError("");
    DTC_TRY(auto args, randomArguments(m, g));
    for (Tensor& t : args) t = inF64(t);
    DTC_TRY(auto results, evaluateExactly(m, g, args));
    return Gradients{std::move(args), std::move(results)};
  }

  // The program of the function itself, for finite differences.
  static bool plain(Module& m, FuncId f, Diagnostics& diags) {
    removeUnreachable(m, f);
    return autodiffPass(m, {}, diags); // it may take gradients itself
  }

  Status differences(FuncId f, const std::vector<size_t>& wrt) {
    Module differentiated = original_, m = original_;
    DTC_TRY(auto gradients, gradientsOf(differentiated, f, wrt, diags_));
    if (!plain(m, f, diags_)) return inputError("");
    NumericsSection& s =
        section(NumericsSection::Differences, f, "gradients against central differences in f64");
    Slopes slopes(m, f, gradients.args);
    for (size_t i = 0; i < wrt.size(); ++i) {
      NumericsRow& row = s.rows.emplace_back();
      row.name = printValueName(original_, original_[f].args[wrt[i]].value);
      if (Status done = slopes.compare(wrt[i], gradients.results[original_[f].results.size() + i], row);
          !done)
        return done;
    }
    return Ok{};
  }

  // The custom gradient: its arguments are those of f, then f's results if it takes them, then the
  // cotangents.
  Result<Tensors> ownGradients(FuncId f, FuncId own, const Tensors& args) {
    Module m = original_;
    Tensors given(args.begin(), args.begin() + static_cast<ptrdiff_t>(m[f].args.size()));
    if (m[own].args.size() > args.size()) {
      Diagnostics none;
      Module forward = original_;
      if (!plain(forward, f, none)) return inputError(nameOf(f) + " cannot be evaluated");
      DTC_TRY(auto results, evaluateExactly(forward, f, given));
      given.insert(given.end(), results.begin(), results.end());
    }
    given.insert(given.end(), args.begin() + static_cast<ptrdiff_t>(m[f].args.size()), args.end());
    if (!plain(m, own, diags_)) return inputError("");
    return evaluateExactly(m, own, given);
  }

  Status derived(FuncId f, FuncId own) {
    const std::vector<size_t> wrt = floatArgs(original_, f);
    Module m = original_;
    std::erase_if(m[f].attrs, [&](const NamedAttr& a) { return m.strings[a.name] == "grad"; });
    Module forward = m;
    Diagnostics refused;
    auto gradients = gradientsOf(m, addWeighted(m, f, diags_), wrt, refused);
    if (!gradients && !refused.hasErrors()) return gradients.error();
    if (!gradients) return ownAgainstDifferences(forward, f, own, wrt);
    DTC_TRY(auto got, ownGradients(f, own, gradients->args));
    NumericsSection& s = section(NumericsSection::Derived, f,
                                 "its custom gradient " + nameOf(own) + " against the derived one");
    for (size_t i = 0; i < wrt.size(); ++i)
      s.rows.push_back(compared(printValueName(original_, original_[f].args[wrt[i]].value), got[i],
                                gradients->results[1 + i]));
    return Ok{};
  }

  static NumericsRow compared(std::string name, const Tensor& got, const Tensor& want) {
    NumericsRow row;
    row.name = std::move(name);
    double scale = 0;
    int64_t worst = -1;
    for (int64_t i = 0; i < want.numElements(); ++i) scale = std::max(scale, std::fabs(want.getFloat(i)));
    row.allowed = 1e-6 * scale + 1e-9;
    for (int64_t i = 0; i < want.numElements(); ++i) {
      const double error = std::fabs(got.getFloat(i) - want.getFloat(i));
      if (worst >= 0 && error <= row.error) continue;
      row.error = std::isnan(error) ? INFINITY : error;
      worst = i;
    }
    row.pass = row.error <= row.allowed;
    row.detail = "all " + std::to_string(want.numElements()) + " elements";
    if (worst < 0) return row;
    row.where = indexText(worst, want.shape());
    if (!row.pass)
      row.detail = "it returns " + significant(got.getFloat(worst), 6) + ", the derived one " +
                   significant(want.getFloat(worst), 6) + "; " + row.detail;
    return row;
  }

  // Where nothing can be derived, finite differences of the weighted results are the reference.
  Status ownAgainstDifferences(Module& m, FuncId f, FuncId own, const std::vector<size_t>& wrt) {
    const FuncId weighted = addWeighted(m, f, diags_);
    if (!plain(m, weighted, diags_)) return inputError("");
    DTC_TRY(auto args, randomArguments(m, weighted));
    for (Tensor& t : args) t = inF64(t);
    DTC_TRY(auto got, ownGradients(f, own, args));
    NumericsSection& s =
        section(NumericsSection::Derived, f,
                "its custom gradient " + nameOf(own) + " against finite differences (none can be derived)");
    Slopes slopes(m, weighted, args);
    for (size_t i = 0; i < wrt.size(); ++i) {
      NumericsRow& row = s.rows.emplace_back();
      row.name = printValueName(original_, original_[f].args[wrt[i]].value);
      if (Status done = slopes.compare(wrt[i], got[i], row); !done) return done;
    }
    return Ok{};
  }

  const Module& original_;
  NumericsReport& report_;
  Diagnostics& diags_;
};

} // namespace

Status checkGradients(const Module& m, NumericsReport& report, Diagnostics& diags) {
  Module planes = m; // complex arguments are checked part by part
  if (!splitComplexPass(planes, {}, diags)) return inputError("");
  return GradientSections(planes, report, diags).run();
}

} // namespace dtc
