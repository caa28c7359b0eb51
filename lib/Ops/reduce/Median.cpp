// median nanmedian: selection by the bits of the keys.
#include "dtc/Ops/ShardedOp.h"
#include "reduce/ReduceParts.h"
#include <algorithm>
#include <array>
#include <cmath>

namespace dtc {

namespace {

bool ignoresNan(const OpRecord& r) { return std::string_view(r.name) == "nanmedian"; }

bool medianRule(const OpQuery& q, Rule& rule) {
  auto dim = q.dimAttr("dim", q.type(0).rank());
  if (!dim || !indexesWithI32(q, static_cast<size_t>(*dim)) ||
      !reduceRuleOf(q, rule, {*dim}, FactorKind::Select, PendingKind::None))
    return false;
  rule.results.assign(2, TensorMap(rule.results[0]));
  return true;
}

bool medianInfer(const OpQuery& q, std::vector<TypeId>& results) {
  Rule rule;
  if (!ruleOf(q, rule)) return false;
  std::vector<Dim> dims;
  for (const DimMap& d : rule.results[0].dims)
    dims.push_back(d.terms.empty() ? Dim(1) : rule.factors[d.terms[0].factor].size);
  results = {q.module->tensorType(q.type(0).dtype, dims), q.module->tensorType(DType::I32, dims)};
  return true;
}

// --- evaluation ---

// The rank of the lower middle among n sorted elements, the last `nans` of which are NaN.
int64_t middle(int64_t n, int64_t nans, bool ignores) {
  if (ignores) return std::max<int64_t>(n - nans - 1, 0) / 2;
  return nans > 0 ? n - 1 : (n - 1) / 2;
}

template <class Less> int64_t firstOfMiddle(const std::vector<int64_t>& row, int64_t at, Less&& less) {
  std::vector<int64_t> order(row.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  auto before = [&](int64_t i, int64_t j) {
    return less(row[static_cast<size_t>(i)], row[static_cast<size_t>(j)]);
  };
  std::nth_element(order.begin(), order.begin() + at, order.end(), before);
  const int64_t found = order[static_cast<size_t>(at)];
  for (int64_t i = 0;; ++i)
    if (!before(i, found) && !before(found, i)) return i;
}

bool medianEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  const Tensor& x = *in[0];
  const auto dim = q.dimAttr("dim", x.rank());
  const bool floats = isFloat(x.dtype()), isUnsigned = isUnsignedInt(x.dtype());
  auto less = [&](int64_t i, int64_t j) {
    if (floats) {
      const double a = x.getFloat(i), b = x.getFloat(j);
      return std::isnan(b) ? !std::isnan(a) : a < b;
    }
    if (isUnsigned) return static_cast<uint64_t>(x.getInt(i)) < static_cast<uint64_t>(x.getInt(j));
    return x.getInt(i) < x.getInt(j);
  };
  forEachRow(x, {*dim}, [&](int64_t r, const std::vector<int64_t>& row) {
    const auto nans =
        floats ? std::ranges::count_if(row, [&](int64_t i) { return std::isnan(x.getFloat(i)); }) : 0;
    const auto n = static_cast<int64_t>(row.size());
    const int64_t index = firstOfMiddle(row, middle(n, nans, ignoresNan(*q.record)), less);
    const int64_t from = row[static_cast<size_t>(index)];
    if (floats)
      out[0]->setFloat(r, x.getFloat(from) + 0.0); // -0.0 becomes 0.0
    else
      out[0]->setInt(r, x.getInt(from));
    out[1]->setInt(r, index);
  });
  return true;
}

// --- by counting, without sorting ---

DType signedOf(DType d) {
  switch (dtypeBytes(d)) {
  case 1: return DType::I8;
  case 2: return DType::I16;
  case 4: return DType::I32;
  default: return DType::I64;
  }
}

// Integers of the same order as the elements of x: NaN is the max, the zeros are equal.
class OrderedKeys {
public:
  OrderedKeys(Builder& b, DType dtype) : b_(b), dtype_(dtype), key_(signedOf(dtype)) {}
  [[nodiscard]] DType type() const { return key_; }
  [[nodiscard]] int bits() const { return dtypeBytes(key_) * 8; }
  Expr number(int64_t v) const {
    return {b_, b_.module.makeLiteral(b_.module.attrs.integer(v), key_, b_.loc)};
  }

  Expr of(Expr x) const {
    if (!isFloat(dtype_)) {
      const Expr k = dtype_ == key_ ? x : bitcast(x, key_);
      return isUnsignedInt(dtype_) ? k ^ intMin(key_) : k;
    }
    const Expr k = orderedBits(bitcast(select(eq(x, 0), 0, x), key_));
    return select(is_nan(x), intMax(key_), k);
  }
  // The element of this key.
  Expr back(Expr key) const {
    if (isUnsignedInt(dtype_)) key = key ^ intMin(key_);
    if (isFloat(dtype_)) key = orderedBits(key);
    return dtype_ == key_ ? key : bitcast(key, dtype_);
  }

private:
  // Flips the bits of a negative float except for the sign; its own inverse.
  Expr orderedBits(Expr k) const {
    const Expr ones = shr(k, bits() - 1);
    return k ^ (ones & intMax(key_));
  }
  Builder& b_;
  DType dtype_, key_;
};

// Of full rows, or of this device's shard of them: then counts and first positions are combined over all
// devices.
struct MedianParts {
  MedianParts(Builder& b, OpId op) : b(b), m(b.module), x(b, m.operand(op, 0)), type(x.type()) {
    Diagnostics none;
    read(queryOf(m, op, none));
  }
  explicit MedianParts(ShardedOp& op)
      : b(op.b), m(op.b.module), x(op.operand(0)), type(x.type()), sharded(&op) {
    read(op.global);
  }
  void read(const OpQuery& q) {
    dim = *q.dimAttr("dim", type.rank());
    length = q.type(0).dims[static_cast<size_t>(dim)];
    ignores = ignoresNan(*q.record);
    keepdim = q.boolAttr("keepdim");
  }
  Expr overRow(PendingKind kind, Expr v) const {
    const Expr own = reduced(kind, v, {.dims = {dim}, .keepdim = true});
    return sharded ? sharded->allReduce(own, kind) : own;
  }
  Expr count(Expr predicate) const { return overRow(PendingKind::Sum, convert(predicate, DType::I32)); }
  // The number of elements before the middle.
  Expr before() const {
    const bool known = length.isStatic();
    const int64_t n = known ? length.value() : 0;
    Expr last, half;
    if (!known) {
      const Expr one(b, b.constant(1, m.tensorType(DType::I32, std::initializer_list<int64_t>{})));
      last = one * m.makeSymbol(length, DType::I32, b.loc) - 1;
      half = last / 2;
    } else {
      last = Expr(b, b.literal(static_cast<double>(n - 1), DType::I32));
      half = last.literal((n - 1) / 2);
    }
    if (!isFloat(type.dtype)) return half;
    const Expr nans = count(is_nan(x));
    if (!ignores) return select(nans > 0, last, half);
    return max(last - nans, 0) / 2;
  }
  Expr positions() const {
    const Expr own = ops::iota(b, m.tensorType(DType::I32, type.dims), {.dim = dim});
    if (!sharded) return own;
    const std::vector<AxisRef>& axes = sharded->operandFactor(0, static_cast<size_t>(dim)).axes;
    return own + sharded->shardOffset(length, axes);
  }
  Expr firstWhere(Expr predicate) const {
    return overRow(PendingKind::Min, select(predicate, positions(), intMax(DType::I32)));
  }
  Builder& b;
  Module& m;
  Expr x;
  const Type type;
  ShardedOp* sharded = nullptr;
  int64_t dim = 0;
  Dim length; // of full rows
  bool ignores = false, keepdim = false;
  // The element with this key and its index, as the op's results.
  std::vector<ValueId> results(Expr element, Expr index) const {
    if (keepdim) return {element, index};
    element = squeeze(element, {dim});
    return {element, squeeze(index, {dim})};
  }
};

// For long rows, bit by bit from the most significant: a bit of the median key is 1 if at most the number of
// elements before the middle are less than the key with that bit set. Then finds the first index with this
// key.
std::array<Expr, 2> byBits(const MedianParts& p, const OrderedKeys& keys, Expr key, Expr before) {
  Expr found = keys.number(intMin(keys.type()));
  for (int bit = keys.bits() - 1; bit >= 0; --bit) {
    const bool first = bit == keys.bits() - 1;
    const Expr value = keys.number(first ? intMin(keys.type()) : int64_t(1) << bit);
    const Expr with = first ? keys.number(0) : found ^ value;
    const Expr takes = p.count(key < with) <= before;
    const Expr one = convert(takes, keys.type());
    found = (one * value) ^ found;
  }
  return {found, p.firstWhere(eq(key, found))};
}

// For short rows, compares each key with every other: the median is a key with at most as many smaller ones
// as stand before the middle, and more than that not greater.
std::array<Expr, 2> byPairs(const MedianParts& p, const OrderedKeys& keys, Expr key, Expr before) {
  const Expr one = expand_dims(key, {p.dim + 1}), other = expand_dims(key, {p.dim});
  auto count = [&](Expr is) { return sum(convert(is, DType::I32), {.dims = {p.dim + 1}}); };
  const Expr notAfter = count(other < one) <= before;
  const Expr index = p.firstWhere(notAfter & (count(other <= one) > before));
  const Expr chosen = select(eq(p.positions(), index), key, intMin(keys.type()));
  return {p.overRow(PendingKind::Max, chosen), index};
}

bool medianDecompose(Builder& b, OpId op, std::vector<ValueId>& results) {
  constexpr int64_t kShort = 64;
  const MedianParts p(b, op);
  const OrderedKeys keys(b, p.type.dtype);
  const bool isShort = p.length.isStatic() && p.length.value() <= kShort;
  const Expr key = keys.of(p.x);
  const auto [found, index] = (isShort ? byPairs : byBits)(p, keys, key, p.before());
  results = p.results(keys.back(found), index);
  return true;
}

// Sharded rows are not gathered: one count per row and bit of the key, then the first index.
bool shardMedian(ShardedOp& op, std::vector<ValueId>& results) {
  const MedianParts p(op);
  if (!p.length.isStatic()) return false;
  const OrderedKeys keys(op.b, p.type.dtype);
  const Expr key = keys.of(p.x);
  const auto [found, index] = byBits(p, keys, key, p.before());
  results = p.results(keys.back(found), index);
  return true;
}

bool medianGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  dx.push_back(putBack(b, op, Expr(b, b.module.result(op, 1)), Expr(b, dy[0])));
  return true;
}

} // namespace

void addMedianOps(OpRegistry& ops) {
  static constexpr const char* summaries[] = {
      "the median along `dim`, the lower of two middles, and the index of its first occurrence; "
      "NaN "
      "if there is one; -0.0 becomes 0.0",
      "as median, ignoring NaN; NaN if all elements are"};
  for (int i = 0; i < 2; ++i) {
    OpRecord& r = ops.add(reduction(i ? "nanmedian" : "median", summaries[i]));
    r.results = "y, indices";
    r.attrs.front() = {"dim", AttrType::Dim, nullptr, "the dim to search"};
    r.rule = medianRule;
    r.verify = searchedVerify;
    r.resultType = OpRecord::ResultType::Custom;
    r.infer = medianInfer;
    r.scalar = nullptr;
    r.checks = exactJump();
    r.eval = medianEval;
    r.decompose = medianDecompose;
    r.shard = shardMedian;
    r.gradFn = medianGrad;
    r.lowering = Lowering::Rows;
    r.flopsPerPoint = 64;
    r.samples = "T[5, 3] {dim = 0}\nT[4, 6] {dim = -1, keepdim = true}\nT[7] {dim = 0}";
  }
}

} // namespace dtc
