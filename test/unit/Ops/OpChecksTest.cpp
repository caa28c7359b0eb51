// OpRecord::checks against the values of the ops, and columns that every record must state.
#include "OpFixture.h"
#include "dtc/Eval/Eval.h"
#include "dtc/Ops/record/Samples.h"
#include "dtc/Ops/record/Scalar.h"
#include <cmath>

namespace dtc::test {
namespace {

// A function of floats: a pointwise op without attributes, on numbers.
class Function {
public:
  explicit Function(const OpRecord& r) : record_(r), any_("neg", {{DType::F64, {}}}) {
    const bool pointwise = r.ruleText && r.ruleText == std::string_view("pointwise");
    const Arity arity = operandArity(r);
    if (!pointwise || !r.scalar || !r.attrs.empty() || !(r.operandClasses & 4) || r.operandTypes ||
        arity.min != arity.max || r.complex == OpRecord::ComplexForm::Own)
      return;
    operands = arity.max;
    const std::vector<DType> types(operands, DType::F64);
    expr_ = typeScalar(parseScalar(r.scalar), types, DType::F64, any_.query());
    isFloatFunction = isFloat(expr_.nodes.back().dtype);
  }
  // With `x` as operand `at`, and a number of the domain as each other operand.
  double operator()(size_t at, double x) {
    std::vector<ScalarValue> values;
    for (size_t i = 0; i < operands; ++i)
      values.push_back({i == at ? x : record_.checks.domainOf(i) == Domain::AboveOne ? 1.5 : 0.5});
    std::vector<ScalarValue> scratch;
    return evalScalar(expr_, values, {}, scratch).f;
  }
  size_t operands = 0;
  bool isFloatFunction = false;

private:
  const OpRecord& record_;
  OpCase any_;
  ScalarExpr expr_;
};

bool contains(Domain d, double x) {
  switch (d) {
  case Domain::All: return true;
  case Domain::Positive: return x > 0;
  case Domain::Unit: return std::fabs(x) < 1;
  case Domain::AboveOne: return x > 1;
  case Domain::Small: return std::fabs(x) <= 2;
  }
  return false;
}

template <class Body> void forEachFunction(Body&& body) {
  const OpRegistry& ops = standardOps();
  size_t found = 0;
  for (size_t k = 0; k < ops.size(); ++k) {
    const OpRecord& r = ops[static_cast<OpKind>(k)];
    Function f(r);
    if (f.operands == 0 || !f.isFloatFunction) continue;
    ++found;
    for (size_t i = 0; i < f.operands; ++i) body(r, f, i);
  }
  EXPECT_GT(found, 50u);
}

// The default of a missing column would be a wrong result: the first operand, or no gradient.
TEST(OpRecords, StateDefinitionAndGradient) {
  const OpRegistry& ops = standardOps();
  for (size_t k = 0; k < ops.size(); ++k) {
    const OpRecord& r = ops[static_cast<OpKind>(k)];
    const bool pointwise = r.ruleText && r.ruleText == std::string_view("pointwise");
    EXPECT_TRUE(!pointwise || r.lowering == Lowering::Annotation || r.scalar || r.eval || r.decompose)
        << r.name << " is pointwise without scalar, eval or decompose";
    if (r.regions != RegionKind::None || r.isCall || r.collective != CollectiveKind::None) continue;
    EXPECT_TRUE(r.grad || r.gradFn || r.gradFromRule || r.gradNone || r.decompose)
        << r.name << " states no gradient: set grad, gradFn, gradFromRule or gradNone";
  }
}

TEST(OpChecks, ResultsAreFiniteInTheDomainAndNotOutside) {
  forEachFunction([](const OpRecord& r, Function& f, size_t i) {
    const Domain domain = r.checks.domainOf(i);
    bool outside = domain == Domain::All || domain == Domain::Small;
    for (double x : {-40.3, -2.0, -1.7, -1.0, -0.6, -0.1, 0.0, 0.1, 0.6, 1.3, 1.9, 40.3}) {
      const bool finite = std::isfinite(f(i, x));
      if (contains(domain, x))
        EXPECT_TRUE(finite || r.checks.discontinuous) << r.name << ", operand " << i << " is " << x;
      else
        outside = outside || !finite;
    }
    EXPECT_TRUE(outside) << r.name << " is finite outside of the domain of operand " << i;
  });
}

TEST(OpChecks, JumpsAreDeclared) {
  forEachFunction([](const OpRecord& r, Function& f, size_t i) {
    bool jumps = false;
    constexpr double step = 1e-12; // the cube root of 1e-12 is 1e-4
    for (double x = -4; x <= 4; x += 0.5) {
      if (!contains(r.checks.domainOf(i), x - step) || !contains(r.checks.domainOf(i), x + step)) continue;
      const double below = f(i, x - step), above = f(i, x + step);
      jumps = jumps || !std::isfinite(f(i, x)) || !(std::fabs(above - below) < 1e-3);
    }
    if (jumps) EXPECT_TRUE(r.checks.discontinuous) << r.name << ", operand " << i;
    const bool hasNoJump = r.checks.discontinuous && f.operands == 1 && !jumps;
    EXPECT_FALSE(hasNoJump) << r.name << " is declared to be discontinuous";
  });
}

// A float result is an element of an operand, its absolute value or negation, or an integer.
TEST(OpChecks, ExactOpsDoNotRound) {
  const OpRegistry& ops = standardOps();
  size_t samples = 0;
  for (size_t k = 0; k < ops.size(); ++k) {
    if (!ops[static_cast<OpKind>(k)].checks.exact) continue;
    for (OpSample& s : opSamples(ops, static_cast<OpKind>(k), DType::F32)) {
      std::vector<Tensor> args;
      std::vector<double> known = {0};
      for (size_t i = 0; i < s.ranges.size(); ++i) {
        const Type& type = s.module.typeOf(s.module[s.func].args[i].value);
        Tensor& t = args.emplace_back(type.dtype, type.staticShape());
        for (int64_t n = 0; n < t.numElements(); ++n) {
          const double v = std::sin(static_cast<double>(n + 17 * static_cast<int64_t>(i) + 1)) * 3;
          if (isFloat(type.dtype)) {
            t.setFloat(n, v);
            known.push_back(std::fabs(t.getFloat(n)));
          } else {
            t.setInt(n,
                     s.ranges[i].lo +
                         (s.ranges[i].hi > s.ranges[i].lo ? n % (s.ranges[i].hi - s.ranges[i].lo) : n % 2));
          }
        }
      }
      const Module& m = s.module;
      for (ValueId v : m.operands(s.op))
        if (m[v].kind == ValueKind::Literal) {
          const Attr& a = m.attrs[m[v].literal];
          known.push_back(std::fabs(a.kind == Attr::Float ? a.f : static_cast<double>(a.i)));
        }
      auto results = evaluate(s.module, s.func, args, {});
      ASSERT_TRUE(results) << s.text;
      ++samples;
      for (const Tensor& y : *results)
        for (int64_t n = 0; isFloat(y.dtype()) && n < y.numElements(); ++n) {
          const double v = std::fabs(y.getFloat(n));
          EXPECT_TRUE(!std::isfinite(v) || v == std::floor(v) || std::ranges::find(known, v) != known.end())
              << s.text << ": " << v;
        }
    }
  }
  EXPECT_GT(samples, 60u);
}

} // namespace
} // namespace dtc::test
