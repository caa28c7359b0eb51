// cumsum cumprod cummax cummin logcumsumexp: prefix scans along a dim.
#include "dtc/Ops/record/Scalar.h"
#include "record/CarriedSum.h"
#include "record/ShapeParts.h"
#include "reduce/Merge.h"
#include "rows/SplitRows.h"

#include <cmath>
#include <limits>

namespace dtc {
namespace {

using Running = ElementBuilder::Running;

struct ScanKind {
  const char* name;
  const char* summary;
  Running running;
  bool indices = false; // also returns the index of the value
};

constexpr ScanKind kScans[] = {
    {"cumsum", "cumulative sum along `dim`", Running::Sum},
    {"cumprod", "cumulative product along `dim`", Running::Prod},
    {"cummax", "cumulative maximum along `dim`, and the index of its last occurrence", Running::Max, true},
    {"cummin", "cumulative minimum along `dim`, and the index of its last occurrence", Running::Min, true},
    {"logcumsumexp", "cumulative log-sum-exp along `dim`", Running::LogAddExp},
};

// scan_part: a scan that continues from a start value per row.
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
  row.dims[at] = freeDim(addUnsharded(rule, Dim(1), "one"));
  for (size_t i = 1; i < q.operandTypes.size(); ++i) {
    const std::vector<Dim>& dims = q.type(i).dims;
    bool fits = dims.size() == row.dims.size();
    for (size_t d = 0; fits && d < dims.size(); ++d) fits = dims[d] == (d == at ? Dim(1) : q.type(0).dims[d]);
    if (!fits) return reportShape(q, "takes one start element per row");
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

// The state of one row of a scan: the value before or after the current element. `A`: the type of the
// computation.
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
    const A larger = std::max(a, x);
    if (std::isnan(a) || std::isnan(x)) return a + x;
    return std::isinf(larger) ? larger : larger + std::log1p(std::exp(-std::fabs(a - x)));
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
  // one element per row, in row order, as are all operands after it
  const Tensor* const start = in.size() > 1 ? in[1] : nullptr;
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
      floats(FloatState<float>{kind.running}); // as kernels accumulate
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
  if (kind.name != q.textAttr("scan")) return reportShape(q, "does not support this scan");
  const DType x = q.type(0).dtype, start = q.type(1).dtype;
  if (start != x && start != accumulationType(x))
    return reportShape(q, "takes a start of x's dtype or of its accumulation dtype");
  if (kind.running == Running::LogAddExp && !isFloat(x))
    return reportShape(q, "needs floats for logcumsumexp");
  if (q.operandTypes.size() != (kind.indices ? 4 : 2))
    return reportShape(q, kind.indices ? "takes start, place and begin for this scan"
                                       : "takes only a start for this scan");
  const Dim n = q.type(0).dims[static_cast<size_t>(*q.dimAttr("dim", q.type(0).rank()))];
  return (n.isStatic() && n.value() > 1) || reportShape(q, "needs rows of more than one element");
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
  std::vector<ElementNode> row = at; // the index of the row's start
  row[dim] = b.index(0);
  const ElementNode first = isPart(q) ? b.load(1, row, true) : ElementBuilder::kAlways;
  b.store(0, at, b.running(kind.running, element, step, exclusive, first));
  if (!kind.indices) return true;
  ElementNode same = b.call("eq", {element, b.running(kind.running, element, step, false, first)});
  if (isFloat(x.dtype)) same = b.call("or", {same, b.call("is_nan", {element})});
  ElementNode index = b.running(Running::LastWhere, same, step, exclusive);
  if (reverse) {
    const ElementNode last = b.convert(b.sub(b.size(x.dims[dim]), b.index(1)), DType::I32);
    const ElementNode reversed = b.call("sub", {last, index});
    const ElementNode none = b.number(-1, DType::I32);
    index = exclusive || isPart(q)
                ? b.call("select", {b.call("lt", {index, b.number(0, DType::I32)}), none, reversed})
                : reversed;
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
      : b(b), m(b.module), x(b, m.operand(op, 0)), y(b, m.result(op)), dim(m.attr(op, "dim")) {
    Diagnostics none;
    const OpQuery q = queryOf(m, op, none);
    reverse = q.boolAttr("reverse"), exclusive = q.boolAttr("exclusive");
  }
  Expr back(Expr v) { return cumsum(v, {.dim = dim, .reverse = !reverse, .exclusive = exclusive}); }
  Builder& b;
  Module& m;
  Expr x, y;
  AttrId dim;
  bool reverse = false, exclusive = false;
};

bool sumGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  dx.push_back(ScanParts(b, op).back(Expr(b, dy[0])));
  return true;
}

// The sum of dy * y / x; at the first zero of x, the sum of dy times the products without it; after it,
// nothing.
bool productGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  ScanParts s(b, op);
  const Expr isZero = eq(s.x, 0);
  const Expr ones = convert(isZero, DType::I32);
  const Expr before = cumsum(ones, {.dim = s.dim, .reverse = s.reverse, .exclusive = true});
  const Expr none = eq(before, 0);
  const Expr first = isZero & none;
  const Expr without =
      cumprod(select(first, 1, s.x), {.dim = s.dim, .reverse = s.reverse, .exclusive = s.exclusive});
  const Expr divisor = select(isZero, 1, s.x);
  const Expr plain = s.back(dy[0] * s.y) / divisor;
  const Expr atZero = s.back(dy[0] * without);
  dx.push_back(select(none, select(isZero, atZero, plain), 0));
  return true;
}

// Each cotangent goes to the source of its value.
bool extremeGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  ScanParts s(b, op);
  if (!dy[0].valid()) {
    dx.push_back(ValueId());
    return true;
  }
  Expr index(b, b.module.result(op, 1)), d(b, dy[0]);
  if (s.exclusive) { // the first element has no predecessor
    d = select(index < 0, 0, d);
    index = max(index, 0);
  }
  const Expr zeros(b, b.constant(0, s.x.typeId()));
  dx.push_back(scatter(zeros, index, d, {.dim = s.dim, .reduce = "sum"}));
  return true;
}

// dy exp(x - y), summed in reverse in the log domain, separately for positive and negative cotangents, so
// that no exponential overflows.
bool logGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  ScanParts s(b, op);
  constexpr double nothing = -std::numeric_limits<double>::infinity();
  const Expr empty = eq(s.y, nothing);
  auto part = [&](Expr d) {
    const Expr zero = empty | (d <= 0);
    const Expr safe = select(zero, 1, d), y = select(zero, 0, s.y);
    const Expr logs = select(zero, nothing, log(safe) - y);
    return exp(logcumsumexp(logs, {.dim = s.dim, .reverse = !s.reverse, .exclusive = s.exclusive}) + s.x);
  };
  const Expr d(b, dy[0]), positive = part(d);
  dx.push_back(positive - part(-d));
  return true;
}

} // namespace

void addScanPartOp(OpRegistry& ops) {
  OpRecord& r = ops.add(
      {.name = "scan_part",
       .family = "scan",
       .summary = "a scan of x that continues from `start`, one element per row, kept along `dim` with "
                  "size 1; for cummax "
                  "and cummin also from `place`, the index of `start`, where a row begins at index `begin`"});
  r.operands = "x, start, place?, begin?";
  r.results = "y, indices?";
  r.operandTypes = "T, any, i32, i32";
  r.operandClasses = kNumbers;
  r.attrs = {{"scan", AttrType::String, nullptr, "name of the scan op"},
             {"dim", AttrType::Dim},
             {"reverse", AttrType::Bool, "false", "scan from the last element to the first"},
             {"exclusive", AttrType::Bool, "false", "exclude the element itself"}};
  r.rule = scanRule;
  r.resultType = OpRecord::ResultType::Custom;
  r.infer = scanPartInfer;
  r.verify = scanPartVerify;
  r.eval = scanEval;
  r.stores = scanStores;
  r.gradNone = true; // introduced after autodiff
  r.checks.coincidences = {kNeverPending};
  r.samples =
      "T[2, 5, 3], T[2, 1, 3] {scan = \"cumsum\", dim = 1}\n"
      "f32[4, 5], f32[4, 1] {scan = \"logcumsumexp\", dim = 1, reverse = true}\n"
      "T[4, 5], T[1, 5], i32[1, 5] in 0..9, i32[1, 5] in 0..9 {scan = \"cummax\", dim = 0, reverse = true}";
}

void addScanOps(OpRegistry& ops) {
  addScanPartOp(ops);
  for (const ScanKind& kind : kScans) {
    OpRecord& r = ops.add({.name = kind.name, .family = "scan", .summary = kind.summary});
    r.operandClasses = kind.running == Running::LogAddExp ? kFloats : kNumbers;
    r.attrs = {{"dim", AttrType::Dim},
               {"reverse", AttrType::Bool, "false", "scan from the last element to the first"},
               {"exclusive", AttrType::Bool, "false",
                "exclude the element itself; the first element becomes the neutral value"}};
    r.rule = scanRule;
    r.eval = scanEval;
    r.splitRows = splitScan;
    if (!kind.indices) r.checks = within({Domain::Small});
    r.stores = scanStores;
    r.shard = shardScan;
    r.gradFn = sumGrad;
    if (kind.indices) {
      r.results = "y, indices";
      r.resultType = OpRecord::ResultType::Custom;
      r.infer = scanInfer;
      r.checks = exactJump();
      r.gradFn = extremeGrad;
    }
    r.through = {linear()};
    switch (kind.running) {
    case Running::Prod:
      r.gradFn = productGrad;
      r.combines = PendingKind::Prod;
      r.through = {{ThroughRow::Multiplicative, 1}};
      break;
    case Running::Sum:
      r.combines = PendingKind::Sum;
      r.complex = OpRecord::ComplexForm::Planes;
      break;
    case Running::Max:
      r.combines = PendingKind::Max;
      r.through = {{ThroughRow::LatticeMax, 1, false, 1u}};
      break;
    case Running::Min:
      r.combines = PendingKind::Min;
      r.through = {{ThroughRow::LatticeMin, 1, false, 1u}};
      break;
    case Running::LogAddExp:
      r.gradFn = logGrad;
      r.through = {};
      break;
    default: break;
    }
    r.samples = "T[5, 3] {dim = 0}\n"
                "T[4, 5] {dim = 1, reverse = true}\n"
                "T[3, 4] {dim = -1, exclusive = true}\n"
                "T[5] {dim = 0, reverse = true, exclusive = true}";
  }
}

} // namespace dtc
