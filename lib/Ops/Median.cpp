// median nanmedian: the element in the middle, found by its bits.
#include "ReduceParts.h"
#include "dtc/IR/CutOp.h"
#include <array>
#include <cmath>

namespace dtc {

namespace {

bool ignoresNan(const OpRecord& r) { return std::string_view(r.name) == "nanmedian"; }

bool medianRule(const OpQuery& q, Rule& rule) {
  auto dim = q.dimAttr("dim", q.type(0).rank());
  if (!dim || !reduceRuleOf(q, rule, {*dim}, FactorKind::Select, PendingKind::None)) return false;
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

// Where the lower of the two middles stands among n elements in order, the last `nans` of them NaN.
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
        floats ? std::count_if(row.begin(), row.end(), [&](int64_t i) { return std::isnan(x.getFloat(i)); })
               : 0;
    const auto n = static_cast<int64_t>(row.size());
    const int64_t index = firstOfMiddle(row, middle(n, nans, ignoresNan(*q.record)), less);
    const int64_t from = row[static_cast<size_t>(index)];
    if (floats)
      out[0]->setFloat(r, x.getFloat(from) + 0.0); // -0.0 is 0.0
    else
      out[0]->setInt(r, x.getInt(from));
    out[1]->setInt(r, index);
  });
  return true;
}

// --- as counts: no row is put in order ---

DType signedOf(DType d) {
  switch (dtypeBytes(d)) {
  case 1: return DType::I8;
  case 2: return DType::I16;
  case 4: return DType::I32;
  default: return DType::I64;
  }
}

// Integers that are in the order of x's elements: NaN greatest, the zeros equal.
class OrderedKeys {
public:
  OrderedKeys(Builder& b, DType dtype) : b_(b), dtype_(dtype), key_(signedOf(dtype)) {}
  [[nodiscard]] DType type() const { return key_; }
  [[nodiscard]] int bits() const { return dtypeBytes(key_) * 8; }
  ValueId number(int64_t v) const { return b_.module.makeLiteral(b_.module.attrs.integer(v), key_, b_.loc); }

  ValueId of(ValueId x) const {
    if (!isFloat(dtype_)) {
      const ValueId k = dtype_ == key_ ? x : bitcast(x, key_);
      return isUnsignedInt(dtype_) ? b_.value("xor", {k, number(intMin(key_))}) : k;
    }
    const ValueId zero = b_.literal(0, dtype_);
    const ValueId k = turned(bitcast(b_.value("select", {b_.value("eq", {x, zero}), zero, x}), key_));
    return b_.value("select", {b_.value("is_nan", {x}), number(intMax(key_)), k});
  }
  // The element of this key.
  ValueId back(ValueId key) const {
    if (isUnsignedInt(dtype_)) key = b_.value("xor", {key, number(intMin(key_))});
    if (isFloat(dtype_)) key = turned(key);
    return dtype_ == key_ ? key : bitcast(key, dtype_);
  }

private:
  // The bits of a negative float, but for the sign, the other way round; its own inverse.
  ValueId turned(ValueId k) const {
    const ValueId ones = b_.value("shr", {k, number(bits() - 1)});
    return b_.value("xor", {k, b_.value("and", {ones, number(intMax(key_))})});
  }
  ValueId bitcast(ValueId x, DType to) const {
    return b_.value("bitcast", {x}, {{"dtype", b_.word(dtypeName(to))}});
  }
  Builder& b_;
  DType dtype_, key_;
};

// Of whole rows, or of this device's piece of rows that are cut: then counts and first places are those of all devices.
struct MedianParts {
  MedianParts(Builder& b, OpId op) : b(b), m(b.module), x(m.operand(op, 0)), type(m.typeOf(x)) {
    Diagnostics none;
    read(queryOf(m, op, none));
  }
  explicit MedianParts(CutOp& op) : b(op.b), m(op.b.module), x(op.operands[0]), type(op.typeOf(x)), cut(&op) {
    read(op.whole);
  }
  void read(const OpQuery& q) {
    dim = *q.dimAttr("dim", type.rank());
    length = q.type(0).dims[static_cast<size_t>(dim)];
    ignores = ignoresNan(*q.record);
    keepdim = q.boolAttr("keepdim");
  }
  ValueId i32(int64_t v) const { return m.makeLiteral(m.attrs.integer(v), DType::I32, b.loc); }
  ValueId reduced(PendingKind kind, ValueId v) const {
    const ValueId own =
        b.value(pendingName(kind), {v}, {{"dims", b.ints({&dim, 1})}, {"keepdim", b.boolean(true)}});
    return cut ? cut->allReduce(own, kind) : own;
  }
  ValueId count(ValueId predicate) const {
    return reduced(PendingKind::Sum, b.value("convert", {predicate}, {{"dtype", b.word("i32")}}));
  }
  // How many elements stand before the middle.
  ValueId before() const {
    const Dim n = length;
    ValueId last, half;
    if (n.isStatic()) {
      last = i32(n.value() - 1), half = i32((n.value() - 1) / 2);
    } else {
      const ValueId one = b.constant(1, m.tensorType(DType::I32, std::initializer_list<int64_t>{}));
      last = b.value("sub", {b.value("mul", {one, m.makeSymbol(n, DType::I32, b.loc)}), i32(1)});
      half = b.value("div", {last, i32(2)});
    }
    if (!isFloat(type.dtype)) return half;
    const ValueId nans = count(b.value("is_nan", {x}));
    if (!ignores) return b.value("select", {b.value("gt", {nans, i32(0)}), last, half});
    return b.value("div", {b.value("max", {b.value("sub", {last, nans}), i32(0)}), i32(2)});
  }
  ValueId places() const {
    const TypeId types[] = {m.tensorType(DType::I32, type.dims)};
    const ValueId own = m.result(b.op("iota", {}, {{"dim", b.integer(dim)}}, types));
    if (!cut) return own;
    const std::vector<AxisRef>& axes = cut->operandCut(0, static_cast<size_t>(dim)).axes;
    return b.value("add", {own, cut->pieceOffset(length, axes)});
  }
  ValueId firstWhere(ValueId predicate) const {
    return reduced(PendingKind::Min, b.value("select", {predicate, places(), i32(intMax(DType::I32))}));
  }
  Builder& b;
  Module& m;
  ValueId x;
  const Type type;
  CutOp* cut = nullptr;
  int64_t dim = 0;
  Dim length; // of whole rows
  bool ignores = false, keepdim = false;
  // The element with this key and its place as the op's results.
  std::vector<ValueId> results(ValueId element, ValueId place) const {
    std::vector<ValueId> out = {element, place};
    if (keepdim) return out;
    for (ValueId& v : out) v = b.value("squeeze", {v}, {{"dims", b.ints({&dim, 1})}});
    return out;
  }
};

// Of long rows, bit by bit from the highest: a bit of the key in the middle is 1 where no more keys are less than with it than
// stand before the middle. Then the first place that has this key.
std::array<ValueId, 2> byBits(const MedianParts& p, const OrderedKeys& keys, ValueId key, ValueId before) {
  Builder& b = p.b;
  ValueId found = keys.number(intMin(keys.type()));
  for (int bit = keys.bits() - 1; bit >= 0; --bit) {
    const bool first = bit == keys.bits() - 1;
    const ValueId place = keys.number(first ? intMin(keys.type()) : int64_t(1) << bit);
    const ValueId with = first ? keys.number(0) : b.value("xor", {found, place});
    const ValueId takes = b.value("le", {p.count(b.value("lt", {key, with})), before});
    const ValueId one = b.value("convert", {takes}, {{"dtype", b.word(dtypeName(keys.type()))}});
    found = b.value("xor", {b.value("mul", {one, place}), found});
  }
  return {found, p.firstWhere(b.value("eq", {key, found}))};
}

// Of short rows, each key beside each other one: that is in the middle which has no more less than it than stand before the
// middle, and more that are not greater.
std::array<ValueId, 2> byPairs(const MedianParts& p, const OrderedKeys& keys, ValueId key, ValueId before) {
  Builder& b = p.b;
  const int64_t beside[] = {p.dim + 1}, own[] = {p.dim};
  const ValueId one = b.value("expand_dims", {key}, {{"dims", b.ints(beside)}}),
                other = b.value("expand_dims", {key}, {{"dims", b.ints(own)}});
  auto count = [&](const char* compare) {
    const ValueId is = b.value("convert", {b.value(compare, {other, one})}, {{"dtype", b.word("i32")}});
    return b.value("sum", {is}, {{"dims", b.ints(beside)}});
  };
  const ValueId place = p.firstWhere(
      b.value("and", {b.value("le", {count("lt"), before}), b.value("gt", {count("le"), before})}));
  const ValueId chosen =
      b.value("select", {b.value("eq", {p.places(), place}), key, keys.number(intMin(keys.type()))});
  return {p.reduced(PendingKind::Max, chosen), place};
}

bool medianDecompose(Builder& b, OpId op, std::vector<ValueId>& results) {
  constexpr int64_t kShort = 64;
  const MedianParts p(b, op);
  const OrderedKeys keys(b, p.type.dtype);
  const bool isShort = p.length.isStatic() && p.length.value() <= kShort;
  const auto [found, place] = (isShort ? byPairs : byBits)(p, keys, keys.of(p.x), p.before());
  results = p.results(keys.back(found), place);
  return true;
}

// Rows that are cut are not gathered: a count of each row for each bit of the key, then the first place.
bool medianCut(CutOp& op, std::vector<ValueId>& results) {
  const MedianParts p(op);
  if (!p.length.isStatic()) return false;
  const OrderedKeys keys(op.b, p.type.dtype);
  const auto [found, place] = byBits(p, keys, keys.of(p.x), p.before());
  results = p.results(keys.back(found), place);
  return true;
}

bool medianGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  dx.push_back(putBack(b, op, b.module.result(op, 1), dy[0]));
  return true;
}

} // namespace

void addMedianOps(OpRegistry& ops) {
  static constexpr const char* summaries[] = {
      "the element in the middle along `dim`, the lower of two, and where the first of its equals stands; "
      "NaN "
      "where there is one; -0.0 is 0.0",
      "as median, of the elements that are not NaN; NaN where all are"};
  for (int i = 0; i < 2; ++i) {
    OpRecord r = reduction(i ? "nanmedian" : "median", summaries[i]);
    r.results = "y, indices";
    r.attrs.front() = {"dim", AttrType::Dim, nullptr, "the dim that is searched"};
    r.rule = medianRule;
    r.verify = searchedVerify;
    r.resultType = OpRecord::ResultType::Custom;
    r.infer = medianInfer;
    r.scalar = nullptr;
    r.eval = medianEval;
    r.decompose = medianDecompose;
    r.cut = medianCut;
    r.gradFn = medianGrad;
    r.throughNone = true;
    r.lowering = Lowering::Rows;
    r.flopsPerPoint = 64;
    r.samples = "T[5, 3] {dim = 0}\nT[4, 6] {dim = -1, keepdim = true}\nT[7] {dim = 0}";
    ops.add(std::move(r));
  }
}

} // namespace dtc
