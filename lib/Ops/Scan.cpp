// cumsum cumprod cummax cummin logcumsumexp: what an operation makes of all elements up to each one along a dim.
#include "CarriedSum.h"
#include "Merge.h"
#include "ShapeParts.h"
#include "dtc/Ops/Scalar.h"

#include <cmath>
#include <limits>

namespace dtc {
namespace {

using Running = ElementBuilder::Running;

struct ScanKind {
  const char* name;
  const char* summary;
  Running running;
  bool indices = false; // gives where the value stands, too
};

constexpr ScanKind kScans[] = {
    {"cumsum", "the sum of x up to each element along `dim`", Running::Sum},
    {"cumprod", "the product of x up to each element along `dim`", Running::Prod},
    {"cummax", "the maximum of x up to each element along `dim`, and the index of the last of them",
     Running::Max, true},
    {"cummin", "the minimum of x up to each element along `dim`, and the index of the last of them",
     Running::Min, true},
    {"logcumsumexp", "log of the sum of exp(x) up to each element along `dim`", Running::LogAddExp},
};

// scan_part: a scan that goes on from what stands before its rows.
bool isPart(const OpQuery& q) { return std::string_view(q.record->name) == "scan_part"; }

const ScanKind& kindOf(const OpQuery& q) {
  const std::string_view name = isPart(q) ? q.textAttr("scan") : q.record->name;
  for (const ScanKind& k : kScans)
    if (name == k.name) return k;
  return kScans[0];
}

bool scanRule(const OpQuery& q, Rule& rule) {
  const auto dim = q.dimAttr("dim", q.type(0).rank());
  if (!dim) return false;
  addOperandFactors(q, 0, rule);
  const auto at = static_cast<size_t>(*dim);
  rule.factors[rule.operands[0].dims[at].terms[0].factor].kind = FactorKind::Prefix;
  rule.operands[0].dims[at].form = DimMap::Free;
  rule.results.assign(kindOf(q).indices ? 2 : 1, rule.operands[0]);
  if (!isPart(q)) return true;
  TensorMap row = rule.operands[0];
  row.dims[at] = freeDim(addWhole(rule, Dim(1), "one"));
  for (size_t i = 1; i < q.operandTypes.size(); ++i) {
    const std::vector<Dim>& dims = q.type(i).dims;
    bool fits = dims.size() == row.dims.size();
    for (size_t d = 0; fits && d < dims.size(); ++d) fits = dims[d] == (d == at ? Dim(1) : q.type(0).dims[d]);
    if (!fits) return reportShape(q, "takes one element a row of what stands before it");
    rule.operands.push_back(row);
  }
  return true;
}

bool scanInfer(const OpQuery& q, std::vector<TypeId>& results) {
  Rule rule;
  if (!ruleOf(q, rule)) return false;
  results = {q.operandTypes[0], q.module->tensorType(DType::I32, q.type(0).dims)};
  return true;
}

// One row of a scan: the value so far, before or after the present element; `A`: what it is calculated in.
template <class A> struct FloatState {
  A initial() const {
    switch (kind) {
    case Running::Sum: return 0;
    case Running::Prod: return 1;
    case Running::Min: return std::numeric_limits<A>::infinity();
    default: return -std::numeric_limits<A>::infinity();
    }
  }
  A combined(A a, A x) const {
    switch (kind) {
    case Running::Sum: return a + x;
    case Running::Prod: return a * x;
    case Running::Min:
      return std::isnan(a) || std::isnan(x) ? std::numeric_limits<A>::quiet_NaN() : std::min(a, x);
    case Running::Max:
      return std::isnan(a) || std::isnan(x) ? std::numeric_limits<A>::quiet_NaN() : std::max(a, x);
    default: break;
    }
    const A most = std::max(a, x);
    if (std::isnan(a) || std::isnan(x)) return a + x;
    return std::isinf(most) ? most : most + std::log1p(std::exp(-std::fabs(a - x)));
  }
  static bool same(A value, A x) { return x == value || std::isnan(x); }
  Running kind;
};
struct IntState {
  int64_t initial() const {
    switch (kind) {
    case Running::Sum: return 0;
    case Running::Prod: return 1;
    case Running::Min: return intMax(dtype);
    default: return intMin(dtype);
    }
  }
  int64_t combined(int64_t a, int64_t x) const {
    static constexpr PendingKind kinds[] = {PendingKind::Sum, PendingKind::Prod, PendingKind::Max,
                                            PendingKind::Min};
    return reduceCombine(kinds[static_cast<size_t>(kind)], dtype, {0, a}, {0, x}).i;
  }
  static bool same(int64_t value, int64_t x) { return x == value; }
  Running kind;
  DType dtype;
};

template <class State, class A, class Get, class Set>
void scanRow(const OpQuery& q, const State& state, A acc, int64_t n, Get&& get, Set&& set) {
  const bool reverse = q.boolAttr("reverse"), exclusive = q.boolAttr("exclusive");
  int64_t where = -1;
  for (int64_t step = 0; step < n; ++step) {
    const int64_t i = reverse ? n - 1 - step : step;
    if (exclusive) set(i, acc, where);
    const auto x = get(i);
    acc = state.combined(acc, x);
    if (State::same(acc, x)) where = i;
    if (!exclusive) set(i, acc, where);
  }
}

bool scanEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  const Tensor& x = *in[0];
  const auto dim = static_cast<size_t>(*q.dimAttr("dim", x.rank()));
  std::vector<int64_t> rows = x.shape();
  const int64_t n = rows[dim], stride = x.strides()[dim];
  rows[dim] = 1;
  const ScanKind& kind = kindOf(q);
  const Tensor* const start =
      in.size() > 1 ? in[1] : nullptr; // one element a row, in the rows' order, as all behind it
  forEachElement(rows, [&](std::span<const int64_t> at, int64_t row) {
    const int64_t base = flatten(at, x.strides());
    auto setIndex = [&](int64_t i, int64_t where) {
      if (start && kind.indices) where = where < 0 ? in[2]->getInt(row) : where + in[3]->getInt(row);
      if (kind.indices) out[1]->setInt(base + i * stride, where);
    };
    auto floats = [&](auto state) {
      using A = decltype(state.initial());
      scanRow(
          q, state, start ? static_cast<A>(start->getFloat(row)) : state.initial(), n,
          [&](int64_t i) { return static_cast<A>(x.getFloat(base + i * stride)); },
          [&](int64_t i, A v, int64_t where) {
            out[0]->setFloat(base + i * stride, static_cast<double>(v));
            setIndex(i, where);
          });
    };
    if (isFloat(x.dtype()) && isExtended(q))
      floats(FloatState<long double>{kind.running});
    else if (isFloat(x.dtype()) && !q.exact && accumulationType(x.dtype()) == DType::F32)
      floats(FloatState<float>{kind.running}); // as a kernel carries it
    else if (isFloat(x.dtype()))
      floats(FloatState<double>{kind.running});
    else
      scanRow(
          q, IntState{kind.running, x.dtype()},
          start ? start->getInt(row) : IntState{kind.running, x.dtype()}.initial(), n,
          [&](int64_t i) { return x.getInt(base + i * stride); },
          [&](int64_t i, int64_t v, int64_t where) {
            out[0]->setInt(base + i * stride, v);
            setIndex(i, where);
          });
  });
  return true;
}

bool scanPartInfer(const OpQuery& q, std::vector<TypeId>& results) {
  Rule rule;
  if (!ruleOf(q, rule)) return false;
  results = {q.operandTypes[0]};
  if (kindOf(q).indices) results.push_back(q.module->tensorType(DType::I32, q.type(0).dims));
  return true;
}

bool scanPartVerify(const OpQuery& q) {
  const ScanKind& kind = kindOf(q);
  if (kind.name != q.textAttr("scan")) return reportShape(q, "knows no such scan");
  const DType x = q.type(0).dtype, start = q.type(1).dtype;
  if (start != x && start != accumulationType(x)) return reportShape(q, "takes starts of another dtype");
  if (kind.running == Running::LogAddExp && !isFloat(x)) return reportShape(q, "takes logarithms of floats");
  if (q.operandTypes.size() != (kind.indices ? 4 : 2))
    return reportShape(q, kind.indices ? "takes where each row's start stood, and where it begins"
                                       : "takes a start alone");
  const Dim n = q.type(0).dims[static_cast<size_t>(*q.dimAttr("dim", q.type(0).rank()))];
  return (n.isStatic() && n.value() > 1) || reportShape(q, "takes rows of more than one element");
}

bool scanStores(const OpQuery& q, ElementBuilder& b) {
  const Type x = q.type(0);
  const auto dim = static_cast<size_t>(*q.dimAttr("dim", x.rank()));
  const ScanKind& kind = kindOf(q);
  const bool reverse = q.boolAttr("reverse"), exclusive = q.boolAttr("exclusive");
  b.begin();
  std::vector<ElementNode> at;
  ElementNode step = 0;
  for (size_t d = 0; d < x.rank(); ++d) {
    at.push_back(d == dim ? b.steps(x.dims[d]) : b.axis(x.dims[d]));
    if (d != dim) continue;
    step = at[d];
    if (reverse) at[d] = b.sub(b.sub(b.size(x.dims[d]), b.index(1)), step);
  }
  const ElementNode element = b.load(0, at, true);
  std::vector<ElementNode> row = at; // of what stands before
  row[dim] = b.index(0);
  const ElementNode first = isPart(q) ? b.load(1, row, true) : ElementBuilder::kAlways;
  b.store(0, at, b.running(kind.running, element, step, exclusive, first));
  if (!kind.indices) return true;
  ElementNode same = b.call("eq", {element, b.running(kind.running, element, step, false, first)});
  if (isFloat(x.dtype)) same = b.call("or", {same, b.call("is_nan", {element})});
  ElementNode index = b.running(Running::LastWhere, same, step, exclusive);
  if (reverse) {
    const ElementNode last = b.convert(b.sub(b.size(x.dims[dim]), b.index(1)), DType::I32);
    const ElementNode turned = b.call("sub", {last, index});
    const ElementNode none = b.number(-1, DType::I32);
    index = exclusive || isPart(q)
                ? b.call("select", {b.call("lt", {index, b.number(0, DType::I32)}), none, turned})
                : turned;
  }
  if (isPart(q))
    index = b.call("select", {b.call("lt", {index, b.number(0, DType::I32)}), b.load(2, row, true),
                              b.call("add", {index, b.load(3, row, true)})});
  b.store(1, at, index);
  return true;
}

// --- gradients ---

struct ScanParts {
  ScanParts(Builder& b, OpId op)
      : b(b), m(b.module), x(m.operand(op, 0)), y(m.result(op)), dim(m.attr(op, "dim")),
        dtype(m.typeOf(x).dtype) {
    Diagnostics none;
    const OpQuery q = queryOf(m, op, none);
    reverse = q.boolAttr("reverse"), exclusive = q.boolAttr("exclusive");
  }
  ValueId scan(const char* name, ValueId v, bool back, bool without) {
    return b.value(
        name, {v},
        {{"dim", dim}, {"reverse", b.boolean(back ? !reverse : reverse)}, {"exclusive", b.boolean(without)}});
  }
  ValueId back(ValueId v) { return scan("cumsum", v, true, exclusive); }
  ValueId number(double v) { return b.literal(v, dtype); }
  Builder& b;
  Module& m;
  ValueId x, y;
  AttrId dim;
  DType dtype;
  bool reverse = false, exclusive = false;
};

bool sumGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  dx.push_back(ScanParts(b, op).back(dy[0]));
  return true;
}

// The sum of dy * y / x; where x is 0 for the first time, of dy times the products without it; behind it, nothing.
bool productGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  ScanParts s(b, op);
  const ValueId isZero = b.value("eq", {s.x, s.number(0)});
  const ValueId ones = b.value("convert", {isZero}, {{"dtype", b.word("i32")}});
  const ValueId before = s.scan("cumsum", ones, false, true);
  const ValueId none = b.value("eq", {before, b.literal(0, DType::I32)});
  const ValueId first = b.value("and", {isZero, none});
  const ValueId without = s.scan("cumprod", b.value("select", {first, s.number(1), s.x}), false, s.exclusive);
  const ValueId divisor = b.value("select", {isZero, s.number(1), s.x});
  const ValueId plain = b.value("div", {s.back(b.value("mul", {dy[0], s.y})), divisor});
  const ValueId atZero = s.back(b.value("mul", {dy[0], without}));
  dx.push_back(b.value("select", {none, b.value("select", {isZero, atZero, plain}), s.number(0)}));
  return true;
}

// Each cotangent goes where its value came from.
bool extremeGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  ScanParts s(b, op);
  if (!dy[0].valid()) {
    dx.push_back(ValueId());
    return true;
  }
  ValueId index = b.module.result(op, 1), d = dy[0];
  if (s.exclusive) { // nothing stands before the first
    const ValueId zero = b.literal(0, DType::I32);
    d = b.value("select", {b.value("lt", {index, zero}), s.number(0), d});
    index = b.value("max", {index, zero});
  }
  dx.push_back(b.value("scatter", {b.constant(0, b.module[s.x].type), index, d},
                       {{"dim", s.dim}, {"reduce", b.module.attrs.string(b.module.strings.intern("sum"))}}));
  return true;
}

// dy exp(x - y), summed backwards in logarithms, for the positive and the negative cotangents by themselves: no exponential
// overflows.
bool logGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  ScanParts s(b, op);
  const ValueId nothing = s.number(-std::numeric_limits<double>::infinity());
  const ValueId empty = b.value("eq", {s.y, nothing});
  auto part = [&](ValueId d) {
    const ValueId zero = b.value("or", {empty, b.value("le", {d, s.number(0)})});
    const ValueId safe = b.value("select", {zero, s.number(1), d}),
                  y = b.value("select", {zero, s.number(0), s.y});
    const ValueId logs = b.value("select", {zero, nothing, b.value("sub", {b.value("log", {safe}), y})});
    return b.value("exp", {b.value("add", {s.scan("logcumsumexp", logs, true, s.exclusive), s.x})});
  };
  dx.push_back(b.value("sub", {part(dy[0]), part(b.value("neg", {dy[0]}))}));
  return true;
}

} // namespace

void addScanPartOp(OpRegistry& ops) {
  OpRecord r{.name = "scan_part",
             .family = "scan",
             .summary =
                 "a scan of x that goes on from `start`, what stands before each row, kept along `dim` with "
                 "size 1; of cummax "
                 "and cummin also from `place`, where that stood, with each row's first element at `begin`"};
  r.operands = "x, start, place?, begin?";
  r.results = "y, indices?";
  r.operandTypes = "T, any, i32, i32";
  r.operandClasses = kNumbers;
  r.attrs = {{"scan", AttrType::String, nullptr, "the op's name"},
             {"dim", AttrType::Dim},
             {"reverse", AttrType::Bool, "false", "from the last to the first"},
             {"exclusive", AttrType::Bool, "false", "without the element itself"}};
  r.rule = scanRule;
  r.resultType = OpRecord::ResultType::Custom;
  r.infer = scanPartInfer;
  r.verify = scanPartVerify;
  r.eval = scanEval;
  r.stores = scanStores;
  r.gradNone = true; // it is made of what has its gradient already
  r.throughNone = true;
  r.samples =
      "T[2, 5, 3], T[2, 1, 3] {scan = \"cumsum\", dim = 1}\n"
      "f32[4, 5], f32[4, 1] {scan = \"logcumsumexp\", dim = 1, reverse = true}\n"
      "T[4, 5], T[1, 5], i32[1, 5] in 0..9, i32[1, 5] in 0..9 {scan = \"cummax\", dim = 0, reverse = true}";
  ops.add(std::move(r));
}

void addScanOps(OpRegistry& ops) {
  addScanPartOp(ops);
  for (const ScanKind& kind : kScans) {
    OpRecord r{.name = kind.name, .family = "scan", .summary = kind.summary};
    r.operandClasses = kind.running == Running::LogAddExp ? kFloats : kNumbers;
    r.attrs = {
        {"dim", AttrType::Dim},
        {"reverse", AttrType::Bool, "false", "from the last to the first"},
        {"exclusive", AttrType::Bool, "false", "without the element itself: the first gets what is neutral"}};
    r.rule = scanRule;
    r.eval = scanEval;
    r.stores = scanStores;
    r.cut = cutScan;
    r.gradFn = sumGrad;
    if (kind.indices) {
      r.results = "y, indices";
      r.resultType = OpRecord::ResultType::Custom;
      r.infer = scanInfer;
      r.gradFn = extremeGrad;
    }
    r.through = {linear()};
    switch (kind.running) {
    case Running::Prod:
      r.gradFn = productGrad;
      r.through = {{ThroughRow::Multiplicative, 1}};
      break;
    case Running::Sum: r.complex = OpRecord::ComplexForm::Planes; break;
    case Running::Max: r.through = {{ThroughRow::LatticeMax, 1, false, 1u}}; break;
    case Running::Min: r.through = {{ThroughRow::LatticeMin, 1, false, 1u}}; break;
    case Running::LogAddExp:
      r.gradFn = logGrad;
      r.through = {};
      r.throughNone = true;
      break;
    default: break;
    }
    r.samples = "T[5, 3] {dim = 0}\n"
                "T[4, 5] {dim = 1, reverse = true}\n"
                "T[3, 4] {dim = -1, exclusive = true}\n"
                "T[5] {dim = 0, reverse = true, exclusive = true}";
    ops.add(std::move(r));
  }
}

} // namespace dtc
