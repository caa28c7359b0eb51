#pragma once
// Gradients of a program's @f against central differences in f64.
#include "dtc/Eval/Eval.h"
#include "dtc/Eval/RandomInputs.h"
#include "dtc/IR/text/Text.h"
#include "dtc/IR/verify/Verify.h"
#include "dtc/Ops/record/Ops.h"
#include "dtc/Passes/Pass.h"
#include <cmath>
#include <gtest/gtest.h>

namespace dtc::test {

// The program's @f and a @main that gives its value and the gradients of all its float arguments.
inline std::string withMain(const std::string& source) {
  Diagnostics diags;
  Module m(standardOps());
  EXPECT_TRUE(parseModule({"t", source}, standardOps(), m, diags))
      << renderDiagnostics(diags, m.source, false);
  const Function& f = m[m.findFunction("f")];
  std::string args, names, results, types;
  for (size_t i = 0; i < f.args.size(); ++i) {
    const std::string name = "%a" + std::to_string(i), type = printType(m, m[f.args[i].value].type);
    args += (i ? ", " : "") + name + ": " + type;
    names += (i ? ", " : "") + name;
    if (!isFloat(m.typeOf(f.args[i].value).dtype)) continue;
    results += ", %g" + std::to_string(i);
    types += ", " + type;
  }
  return source + "func @main(" + args + ") -> (f64[]" + types + ") {\n  %l" + results +
         " = value_and_grad @f(" + names + ")\n  return %l" + results + "\n}\n";
}

inline double lossAt(Module& m, std::span<const Tensor> args) {
  auto r = evaluate(m, m.findFunction("f"), args, {});
  EXPECT_TRUE(r.ok()) << (r.ok() ? "" : r.error().message);
  return r.ok() ? (*r)[0].getFloat(0) : NAN;
}

inline std::vector<Tensor> inputsOf(const Module& m, FuncId f) {
  std::vector<Tensor> args;
  for (size_t i = 0; i < m[f].args.size(); ++i) {
    const Type& t = m.typeOf(m[f].args[i].value);
    const InputSpec spec{isFloat(t.dtype) ? InputSpec::Uniform : InputSpec::Randint, 7 + i,
                         isFloat(t.dtype) ? -1.1 : 0, isFloat(t.dtype) ? 1.3 : 3};
    args.push_back(makeInput(spec, t.dtype, t.staticShape(), i));
  }
  return args;
}

// Gradients of @f by autodiff against differences; the program must verify before and after.
inline void expectGradients(const std::string& text) {
  SCOPED_TRACE(text);
  const std::string source = withMain(text);
  Diagnostics diags;
  Module m(standardOps());
  ASSERT_TRUE(parseModule({"t", source}, standardOps(), m, diags))
      << renderDiagnostics(diags, m.source, false);
  ASSERT_TRUE(verifyModule(m, diags)) << renderDiagnostics(diags, m.source, false);
  Module plain(standardOps());
  ASSERT_TRUE(parseModule({"t", text}, standardOps(), plain, diags));
  ASSERT_TRUE(findPass("autodiff")->run(plain, {}, diags)); // @f may take gradients itself
  ASSERT_TRUE(findPass("autodiff")->run(m, {}, diags)) << renderDiagnostics(diags, m.source, false);
  ASSERT_TRUE(verifyModule(m, diags)) << renderDiagnostics(diags, m.source, false) << printModule(m);
  Module again(standardOps());
  ASSERT_TRUE(parseModule({"t", printModule(m)}, standardOps(), again, diags))
      << renderDiagnostics(diags, again.source, false) << printModule(m);
  std::vector<Tensor> args = inputsOf(m, m.findFunction("main"));
  auto got = evaluate(m, m.findFunction("main"), args, {});
  ASSERT_TRUE(got.ok()) << got.error().message << "\n" << printModule(m);
  EXPECT_NEAR((*got)[0].getFloat(0), lossAt(plain, args), 1e-12);
  size_t g = 1;
  for (size_t i = 0; i < args.size(); ++i) {
    if (!isFloat(args[i].dtype())) continue;
    const Tensor& gradient = (*got)[g++];
    for (int64_t e = 0; e < args[i].numElements(); ++e) {
      const double at = args[i].getFloat(e), h = 1e-6;
      args[i].setFloat(e, at + h);
      const double up = lossAt(plain, args);
      args[i].setFloat(e, at - h);
      const double down = lossAt(plain, args);
      args[i].setFloat(e, at);
      const double want = (up - down) / (2 * h);
      ASSERT_NEAR(gradient.getFloat(e), want, 1e-6 * (1 + std::fabs(want)))
          << "argument " << i << ", element " << e << "\n"
          << printModule(m);
    }
  }
}

} // namespace dtc::test
