// Every op's gradient against central differences in f64, over the samples of its record.
#include "dtc/Eval/Eval.h"
#include "dtc/Eval/RandomInputs.h"
#include "dtc/Ops/record/Ops.h"
#include "dtc/Ops/record/Samples.h"
#include "dtc/Passes/Pass.h"
#include <cmath>

namespace dtc::test {
namespace {

// @f is the op weighted by %w and summed; @main its value and gradients.
struct GradientProgram {
  std::string source;
  std::vector<size_t> floats; // positions of the arguments that gradients are asked for
};

std::string typeOf(const Module& m, ValueId v) { return printType(m, m[v].type); }

std::optional<GradientProgram> programOf(OpSample& s) {
  Module& m = s.module;
  if (m[s.op].numResults == 0 || m.typeOf(m.result(s.op)).dtype != DType::F64)
    return std::nullopt; // differences need f64
  GradientProgram p;
  std::string args, names;
  for (size_t i = 0; i < m[s.func].args.size(); ++i) {
    ValueId v = m[s.func].args[i].value;
    args += printValueName(m, v) + ": " + typeOf(m, v) + ", ";
    names += printValueName(m, v) + ", ";
    if (isFloat(m.typeOf(v).dtype)) p.floats.push_back(i);
  }
  if (p.floats.empty()) return std::nullopt;
  std::string w = "%weights: " + typeOf(m, m.result(s.op)), y = printValueName(m, m.result(s.op));
  std::string grads, gradTypes, wrt;
  for (size_t i : p.floats) {
    grads += ", %g" + std::to_string(i);
    gradTypes += ", " + typeOf(m, m[s.func].args[i].value);
    wrt += (wrt.empty() ? "" : ", ") + std::to_string(i);
  }
  p.source = "func @f(" + args + w + ") -> (f64[]) {\n  " + printOp(m, s.op) + "\n  %weighted = mul " + y +
             ", %weights\n  %l = sum %weighted\n  return %l\n}\nfunc @main(" + args + w + ") -> (f64[]" +
             gradTypes + ") {\n  %l" + grads + " = value_and_grad @f(" + names + "%weights) {wrt = [" + wrt +
             "]}\n  return %l" + grads + "\n}\n";
  return p;
}

Tensor inputFor(const Type& t, OpSample::Range range, double lo, double hi, uint64_t stream) {
  InputSpec spec{InputSpec::Uniform, 11, lo, hi};
  if (!isFloat(t.dtype))
    spec = {InputSpec::Randint, 11, range.hi > range.lo ? double(range.lo) : 0.0,
            range.hi > range.lo ? double(range.hi) : 3.0};
  return makeInput(spec, t.dtype, t.staticShape(), stream);
}

double lossAt(Module& m, FuncId f, std::span<const Tensor> args) {
  auto r = evaluate(m, f, args, {});
  EXPECT_TRUE(r.ok()) << (r.ok() ? "" : r.error().message);
  return r.ok() ? (*r)[0].getFloat(0) : NAN;
}

// False where the values are not finite: the sample says nothing there.
bool compareGradients(OpSample& s, const GradientProgram& p, double lo, double hi) {
  Diagnostics diags;
  Module m(standardOps());
  if (!parseModule({s.text, p.source}, standardOps(), m, diags)) {
    ADD_FAILURE() << renderDiagnostics(diags, m.source, false);
    return false;
  }
  Module plain = m;
  if (!findPass("autodiff")->run(m, {}, diags)) {
    // A variant without a gradient says so.
    EXPECT_EQ(std::string_view(diags.all()[0].kind->id), "no-gradient")
        << s.text << ": " << renderDiagnostics(diags, m.source, false);
    return false;
  }
  FuncId f = plain.findFunction("f"), main = m.findFunction("main");
  std::vector<Tensor> args;
  for (size_t i = 0; i < plain[f].args.size(); ++i)
    args.push_back(inputFor(plain.typeOf(plain[f].args[i].value),
                            i < s.ranges.size() ? s.ranges[i] : OpSample::Range{}, lo, hi, i));
  auto got = evaluate(m, main, args, {});
  if (!got.ok()) {
    ADD_FAILURE() << s.text << ": " << got.error().message << "\n" << printModule(m);
    return false;
  }
  if (!std::isfinite((*got)[0].getFloat(0))) return false;
  for (size_t g = 0; g < p.floats.size(); ++g)
    for (int64_t e = 0; e < args[p.floats[g]].numElements(); ++e) {
      Tensor& x = args[p.floats[g]];
      const double at = x.getFloat(e), h = 1e-6;
      x.setFloat(e, at + h);
      double up = lossAt(plain, f, args);
      x.setFloat(e, at - h);
      double down = lossAt(plain, f, args);
      x.setFloat(e, at);
      double want = (up - down) / (2 * h), have = (*got)[g + 1].getFloat(e);
      EXPECT_NEAR(have, want, 1e-5 * (1 + std::fabs(want)))
          << s.text << " argument " << p.floats[g] << " element " << e;
      if (std::fabs(have - want) > 1e-5 * (1 + std::fabs(want))) return true; // one element says it
    }
  return true;
}

TEST(Gradient, OfEveryOpAgreesWithCentralDifferences) {
  const OpRegistry& ops = standardOps();
  size_t compared = 0;
  for (size_t k = 0; k < ops.size(); ++k) {
    const OpRecord& r = ops[static_cast<OpKind>(k)];
    const bool differentiable = r.grad || r.gradFn || r.gradFromRule || (r.decompose && !r.gradNone);
    // What is rounded has no slope of its own; the gradient is that of what was rounded.
    if (r.name == std::string_view("reduce_precision")) continue;
    if (!differentiable || r.name == std::string_view("stop_gradient")) continue;
    bool said = false;
    for (OpSample& s : opSamples(ops, static_cast<OpKind>(k), DType::F64)) {
      auto p = programOf(s);
      if (!p) continue;
      said |= compareGradients(s, *p, 0.2, 0.8);
      said |= compareGradients(s, *p, -1.7, 1.9);
      if (!said) said = compareGradients(s, *p, 1.2, 2.4); // acosh
    }
    EXPECT_TRUE(said) << r.name << " has a gradient and no sample that shows it";
    compared += said;
  }
  EXPECT_GT(compared, 50u);
}

TEST(Gradient, StopsWhereItIsTold) {
  Diagnostics diags;
  Module m(standardOps());
  ASSERT_TRUE(parseModule({"t", R"(
func @f(%x: f64[2]) -> (f64[]) {
  %s = stop_gradient %x
  %p = mul %s, %x
  %l = sum %p
  return %l
}
func @main(%x: f64[2]) -> (f64[], f64[2]) {
  %l, %g = value_and_grad @f(%x)
  return %l, %g
}
)"},
                          standardOps(), m, diags))
      << renderDiagnostics(diags, m.source, false);
  ASSERT_TRUE(findPass("autodiff")->run(m, {}, diags));
  Tensor x(DType::F64, {2});
  x.setFloat(0, 3);
  x.setFloat(1, 5);
  auto r = evaluate(m, m.findFunction("main"), std::span(&x, 1), {});
  ASSERT_TRUE(r.ok());
  EXPECT_EQ((*r)[1].getFloat(0), 3);
  EXPECT_EQ((*r)[1].getFloat(1), 5);
}

} // namespace
} // namespace dtc::test
