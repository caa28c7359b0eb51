// Rows in parts of equal length that a block keeps, and the rest of the row as one more part.
#include "SplitNorms.h"
#include <algorithm>
#include <cmath>
#include <string_view>

namespace dtc {
namespace {

// A row is up to 8 blocks of a GPU elsewhere: of up to 8 rows of half a million elements, and of up to 32 that are too long to be kept
// on the way, most of it is idle, so that one more read and two more kernels cost less (reasoned for 132 processors, not measured).
constexpr int64_t kLeastAll = 1 << 20, kLeastLong = 1 << 19, kMostRows = 8;
constexpr int64_t kNotKept = 1 << 20, kMostRowsNotKept = 32;
// Parts in all, and the length of one at most: what a block keeps in registers.
constexpr int64_t kParts = 1 << 10, kLongestPart = 1 << 14, kPack = 8;
// Variances of columns: a thread has a column of a part, 1,024 columns a block; their parts may be short.
constexpr int64_t kLeastOfColumns = 1 << 18, kMostColumns = 1 << 17, kColumns = 1 << 10, kLeastPart = 32;

class NormSplitter {
public:
  NormSplitter(Module& m, OpId o, Builder& b)
      : m_(m), o_(o), b_(b), name_(m.record(o).name), type_(m.typeOf(m.result(o))) {}
  bool run(std::vector<ValueId>& results);

private:
  // What each part gives, or all of them together: [rows, parts] or [rows, 1]; of columns [parts, columns] or [1, columns].
  struct Exponentials {
    ValueId greatest, sum;
  };
  struct Squares {
    ValueId mean, sum; // about the mean
  };

  bool cut(const OpQuery& q);
  bool cutRows();
  bool cutColumns();
  void takeParts();
  Exponentials exponentialsOf(ValueId part, bool infinite);
  Exponentials exponentials(bool infinite); // `greatest`: what was subtracted
  Squares squares();
  ValueId softmax();
  ValueId logSum();
  ValueId variance(const OpQuery& q);
  ValueId norm(const OpQuery& q);
  ValueId entropy(const OpQuery& q);

  // --- ops ---
  ValueId binary(std::string_view op, ValueId x, ValueId y) { return b_.value(op, {x, y}); }
  ValueId unary(std::string_view op, ValueId x) { return b_.value(op, {x}); }
  ValueId number(double v) { return b_.literal(v, wide_); }
  ValueId convert(ValueId v, DType to) {
    return m_.typeOf(v).dtype == to ? v : b_.value("convert", {v}, {{"dtype", b_.word(dtypeName(to))}});
  }
  ValueId reshaped(ValueId x, const std::vector<int64_t>& shape) {
    return m_.typeOf(x).staticShape() == shape ? x : b_.value("reshape", {x}, {{"shape", b_.ints(shape)}});
  }
  ValueId over(std::string_view op, ValueId x, int64_t dim) {
    return b_.value(op, {x}, {{"dims", b_.ints({&dim, 1})}, {"keepdim", b_.boolean(true)}});
  }
  // x as [rows, elements] or [elements, columns], and of that some elements of each row, as parts of so many.
  ValueId partsOf(int64_t from, int64_t to, int64_t parts) {
    const std::vector<int64_t> all = columns_ ? std::vector{n_, rows_} : std::vector{rows_, n_};
    ValueId v = reshaped(m_.operand(o_, 0), all);
    if (to - from < n_) {
      std::vector<int64_t> start = {0, 0}, limit = all;
      start[columns_ ? 0 : 1] = from, limit[columns_ ? 0 : 1] = to;
      v = b_.value("slice", {v}, {{"start", b_.ints(start)}, {"limit", b_.ints(limit)}});
    }
    const int64_t length = (to - from) / parts;
    return convert(
        reshaped(v, columns_ ? std::vector{parts, length, rows_} : std::vector{rows_, parts, length}), wide_);
  }
  [[nodiscard]] int64_t across() const { return columns_ ? 0 : 1; } // the dim of the parts
  [[nodiscard]] int64_t along() const { return columns_ ? 1 : 2; }  // of what is in one
  // x in the dtype of sums, an op of its own for each kernel: none stores it for another.
  ValueId x() { return convert(m_.operand(o_, 0), wide_); }
  // What a kernel of parts makes of each, for the next kernel.
  ValueId ofParts(ValueId v) {
    std::vector<int64_t> shape = m_.typeOf(v).staticShape();
    shape.erase(shape.begin() + along());
    return reshaped(v, shape);
  }
  // One number a row, as it stands beside x.
  ValueId beside(ValueId v) {
    std::vector<int64_t> shape = shape_;
    for (size_t d = kept_; d < shape.size(); ++d) shape[d] = 1;
    return reshaped(v, shape);
  }
  ValueId asResult(ValueId v) { return convert(reshaped(v, type_.staticShape()), type_.dtype); }
  [[nodiscard]] bool is(std::string_view name) const { return name_ == name; }

  Module& m_;
  OpId o_;
  Builder& b_;
  std::string_view name_;
  Type type_;
  DType wide_ = DType::F32;
  std::vector<int64_t> shape_;
  size_t kept_ = 0;      // dims before the row's
  bool columns_ = false; // the row's dims are the first, and its elements stand below each other
  int64_t rows_ = 1, n_ = 1, parts_ = 0, length_ = 0, rest_ = 0;
  ValueId main_, restPart_; // [rows, parts, length], and [rows, 1, rest] where there is a rest
};

// The row's dims are the last ones, so that its elements lie together; or the first, of a variance.
bool NormSplitter::cut(const OpQuery& q) {
  const Type x = q.type(0);
  if (!x.isStatic() || !isFloat(x.dtype) || isComplex(x.dtype)) return false;
  wide_ = accumulationType(x.dtype);
  shape_ = x.staticShape();
  std::vector<int64_t> dims;
  if (is("cross_entropy"))
    dims = {*q.dimAttr("dim", shape_.size())};
  else
    dims = *q.dimsAttr("dims", shape_.size());
  if (dims.empty() || dims.back() - dims.front() + 1 != static_cast<int64_t>(dims.size())) return false;
  kept_ = static_cast<size_t>(dims.front());
  columns_ = dims.size() < shape_.size() && kept_ == 0;
  if (!columns_ && kept_ + dims.size() != shape_.size()) return false;
  for (size_t d = 0; d < shape_.size(); ++d) {
    int64_t& count = (d >= kept_ && d < kept_ + dims.size()) ? n_ : rows_;
    if (shape_[d] == 0 || count > INT32_MAX / shape_[d]) return false;
    count *= shape_[d];
  }
  columns_ &= rows_ > 1;
  return columns_ ? cutColumns() : cutRows();
}

bool NormSplitter::cutRows() {
  if (n_ < kLeastLong || rows_ * n_ < kLeastAll) return false;
  if (rows_ > (n_ > kNotKept ? kMostRowsNotKept : kMostRows)) return false;
  const int64_t wanted = std::max(kParts / rows_, n_ / kLongestPart);
  for (parts_ = wanted; parts_ * 2 > wanted && n_ % (parts_ * kPack) != 0;) --parts_;
  if (parts_ * 2 <= wanted) parts_ = wanted;
  length_ = n_ / parts_ / kPack * kPack;
  rest_ = n_ - parts_ * length_;
  return true;
}

bool NormSplitter::cutColumns() {
  if ((!is("var") && !is("std")) || rows_ * n_ < kLeastOfColumns || rows_ > kMostColumns) return false;
  const int64_t wanted = std::min(kParts / ((rows_ + kColumns - 1) / kColumns), n_ / kLeastPart);
  if (wanted < 2) return false;
  for (parts_ = wanted; parts_ * 2 > wanted && n_ % parts_ != 0;) --parts_;
  if (parts_ * 2 <= wanted) parts_ = wanted;
  length_ = n_ / parts_;
  rest_ = n_ - parts_ * length_;
  return true;
}

void NormSplitter::takeParts() {
  main_ = partsOf(0, n_ - rest_, parts_);
  if (rest_ > 0) restPart_ = partsOf(n_ - rest_, n_, 1);
}

// Of a part of -inf only nothing is subtracted: its sum is 0, whatever other parts have. With `infinite` that is so of inf, too
// (logsumexp); without, the sum then is NaN (softmax).
NormSplitter::Exponentials NormSplitter::exponentialsOf(ValueId part, bool infinite) {
  const ValueId greatest = over("max", part, along());
  const ValueId nothing = infinite ? unary("is_inf", greatest) : binary("eq", greatest, number(-INFINITY));
  const ValueId less = b_.value("select", {nothing, number(0), greatest});
  return {ofParts(greatest), ofParts(over("sum", unary("exp", binary("sub", part, less)), along()))};
}

NormSplitter::Exponentials NormSplitter::exponentials(bool infinite) {
  const Exponentials own = exponentialsOf(main_, infinite);
  ValueId greatest = over("max", own.greatest, across());
  Exponentials rest;
  if (rest_ > 0) {
    rest = exponentialsOf(restPart_, infinite);
    greatest = binary("max", greatest, rest.greatest);
  }
  if (infinite) greatest = b_.value("select", {unary("is_inf", greatest), number(0), greatest});
  auto scaled = [&](const Exponentials& e) {
    return binary("mul", e.sum, unary("exp", binary("sub", e.greatest, greatest)));
  };
  ValueId sum = over("sum", scaled(own), across());
  if (rest_ > 0) sum = binary("add", sum, scaled(rest));
  return {greatest, sum};
}

// Chan, Golub and LeVeque 1979: each part's squares about its own mean, and the means' about that of all.
NormSplitter::Squares NormSplitter::squares() {
  auto of = [&](ValueId part) {
    const ValueId mean = over("mean", part, along()), off = binary("sub", part, mean);
    return Squares{ofParts(mean), ofParts(over("sum", binary("mul", off, off), along()))};
  };
  const auto share = [&](int64_t elements) {
    return number(static_cast<double>(elements) / static_cast<double>(n_));
  };
  const Squares own = of(main_);
  ValueId mean = over("mean", own.mean, across());
  Squares rest;
  if (rest_ > 0) {
    rest = of(restPart_);
    mean = binary("add", binary("mul", mean, share(n_ - rest_)), binary("mul", rest.mean, share(rest_)));
  }
  auto moved = [&](const Squares& s, int64_t elements) {
    const ValueId off = binary("sub", s.mean, mean);
    return binary("add", s.sum,
                  binary("mul", binary("mul", off, off), number(static_cast<double>(elements))));
  };
  ValueId sum = over("sum", moved(own, length_), across());
  if (rest_ > 0) sum = binary("add", sum, moved(rest, rest_));
  return {mean, sum};
}

ValueId NormSplitter::softmax() {
  const Exponentials e = exponentials(false);
  const ValueId off = binary("sub", x(), beside(e.greatest));
  return is("log_softmax") ? binary("sub", off, beside(unary("log", e.sum)))
                           : binary("mul", unary("exp", off), beside(unary("reciprocal", e.sum)));
}

ValueId NormSplitter::logSum() {
  const Exponentials e = exponentials(is("logsumexp"));
  return binary("add", e.greatest, unary("log", e.sum));
}

ValueId NormSplitter::variance(const OpQuery& q) {
  const int64_t freedom = std::max<int64_t>(n_ - q.intAttr("correction"), 0);
  const ValueId v = binary("div", squares().sum, number(static_cast<double>(freedom)));
  return is("std") ? unary("sqrt", v) : v;
}

ValueId NormSplitter::norm(const OpQuery& q) {
  ValueId y, sum;
  if (is("layer_norm")) {
    const Squares s = squares();
    y = binary("sub", x(), beside(s.mean)), sum = s.sum;
  } else {
    auto of = [&](ValueId part) { return ofParts(over("sum", binary("mul", part, part), along())); };
    sum = over("sum", of(main_), across());
    if (rest_ > 0) sum = binary("add", sum, of(restPart_));
    y = x();
  }
  const ValueId mean = binary("div", sum, number(static_cast<double>(n_)));
  const ValueId scale = unary("rsqrt", binary("add", mean, number(q.floatAttr("eps"))));
  y = binary("mul", y, beside(scale));
  if (m_[o_].numOperands > 1) y = binary("mul", y, convert(m_.operand(o_, 1), wide_));
  if (m_[o_].numOperands > 2) y = binary("add", y, convert(m_.operand(o_, 2), wide_));
  return y;
}

// The greatest and the log of the sum, less what stands at the label.
ValueId NormSplitter::entropy(const OpQuery& q) {
  const Type labels = q.type(1);
  const std::vector<int64_t> shape = labels.staticShape();
  const int64_t dim = static_cast<int64_t>(kept_), ignore = q.intAttr("ignore_index");
  auto label = [&](int64_t v) { return m_.makeLiteral(m_.attrs.integer(v), labels.dtype, b_.loc); };
  ValueId safe = m_.operand(o_, 1), ignored;
  if (wrapToInt(labels.dtype, ignore) == ignore) {
    ignored = binary("eq", safe, label(ignore));
    safe = b_.value("select", {ignored, label(0), safe});
  }
  const ValueId total = reshaped(logSum(), shape);
  const ValueId index = b_.value("expand_dims", {safe}, {{"dims", b_.ints({&dim, 1})}});
  const ValueId picked = b_.value("gather", {m_.operand(o_, 0), index}, {{"dim", b_.integer(dim)}});
  ValueId loss = binary("sub", total, reshaped(convert(picked, wide_), shape));
  if (const double smoothing = q.floatAttr("label_smoothing"); smoothing != 0) {
    ValueId all = over("sum", ofParts(over("sum", main_, along())), across());
    if (rest_ > 0) all = binary("add", all, ofParts(over("sum", restPart_, along())));
    const ValueId mean = binary("div", reshaped(all, shape), number(static_cast<double>(n_)));
    loss = binary("add", binary("mul", loss, number(1 - smoothing)),
                  binary("mul", binary("sub", total, mean), number(smoothing)));
  }
  return ignored.valid() ? b_.value("select", {ignored, number(0), loss}) : loss;
}

bool NormSplitter::run(std::vector<ValueId>& results) {
  const bool soft = is("softmax") || is("log_softmax"), norms = is("layer_norm") || is("rms_norm"),
             moments = is("var") || is("std"), loss = is("cross_entropy");
  if (!soft && !norms && !moments && !loss && !is("logsumexp")) return false;
  Diagnostics none;
  const OpQuery q = queryOf(m_, o_, none);
  if (!cut(q)) return false;
  takeParts();
  results.push_back(asResult(soft      ? softmax()
                             : norms   ? norm(q)
                             : moments ? variance(q)
                             : loss    ? entropy(q)
                                       : logSum()));
  return true;
}

} // namespace

bool splitNorm(Module& m, OpId o, Builder& b, std::vector<ValueId>& results) {
  return NormSplitter(m, o, b).run(results);
}

} // namespace dtc
