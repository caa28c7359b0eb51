// Splits rows into equal parts that fit a block, and a remainder as one more part.
#include "reduce/SplitNorms.h"
#include "dtc/Ops/OpFunctions.h"
#include <algorithm>
#include <cmath>
#include <string_view>

namespace dtc {
namespace {

// Otherwise one row uses up to 8 blocks of a GPU: with up to 8 rows of half a million elements, or up to 32
// rows that do not fit on chip, most of the GPU is idle, so that one more read and two more kernels cost less
// (estimated for 132 processors, not measured).
constexpr int64_t kMinAll = 1 << 20, kMinLong = 1 << 19, kMaxNormRows = 8;
constexpr int64_t kNotKept = 1 << 20, kMaxRowsNotKept = 32;
// The max number of parts, and the max length of one: what fits into the registers of a block.
constexpr int64_t kParts = 1 << 10, kLongestPart = 1 << 14, kPack = 8;
// Variances of columns: one thread per column of a part, 1,024 columns per block; their parts may be short.
constexpr int64_t kMinOfColumns = 1 << 18, kMaxNormColumns = 1 << 17, kNormColumns = 1 << 10, kMinPart = 32;

class NormSplitter {
public:
  NormSplitter(Module& m, OpId o, Builder& b)
      : m_(m), o_(o), b_(b), name_(m.record(o).name), type_(m.typeOf(m.result(o))) {}
  // The value of the result, once the rows are split.
  using Form = Expr (NormSplitter::*)(const OpQuery&);
  Expr softmax(const OpQuery& q);
  Expr logsumexp(const OpQuery& q);
  Expr variance(const OpQuery& q);
  Expr norm(const OpQuery& q);
  Expr entropy(const OpQuery& q);
  bool run(Form form, std::vector<ValueId>& results);

private:
  // The shape of per-part results, or of combined ones: [rows, parts] or [rows, 1]; for columns [parts,
  // columns] or [1, columns].
  struct Exponentials {
    Expr maximum, sum;
  };
  struct Squares {
    Expr mean, sum; // of squared differences from the mean
  };

  bool chooseParts(const OpQuery& q);
  bool splitRowsEvenly();
  bool splitColumnsEvenly();
  void takeParts();
  Exponentials exponentialsOf(Expr part, bool infinite);
  Exponentials exponentials(bool infinite); // `maximum`: the subtracted max
  Squares squares();
  Expr logSum(bool infinite);

  // --- Ops ---
  Expr reshaped(Expr x, const std::vector<int64_t>& shape) {
    return x.type().staticShape() == shape ? x : ops::reshape(x, shape);
  }
  static Expr maximumOver(Expr x, int64_t dim) { return ops::max(x, {.dims = {dim}, .keepdim = true}); }
  static Expr sumOver(Expr x, int64_t dim) { return ops::sum(x, {.dims = {dim}, .keepdim = true}); }
  static Expr meanOver(Expr x, int64_t dim) { return ops::mean(x, {.dims = {dim}, .keepdim = true}); }
  // x as [rows, elements] or [elements, columns], and a range of the elements of each row, as parts of equal
  // length.
  Expr partsOf(int64_t from, int64_t to, int64_t parts) {
    const std::vector<int64_t> all = columns_ ? std::vector{n_, rows_} : std::vector{rows_, n_};
    Expr v = reshaped(operand(0), all);
    if (to - from < n_) {
      std::vector<int64_t> start = {0, 0}, limit = all;
      start[columns_ ? 0 : 1] = from, limit[columns_ ? 0 : 1] = to;
      v = ops::slice(v, {.start = start, .limit = limit});
    }
    const int64_t length = (to - from) / parts;
    return reshaped(v, columns_ ? std::vector{parts, length, rows_} : std::vector{rows_, parts, length})
        .as(wide_);
  }
  [[nodiscard]] int64_t across() const { return columns_ ? 0 : 1; } // the dim of the parts
  [[nodiscard]] int64_t along() const { return columns_ ? 1 : 2; }  // the dim of the elements within a part
  // x in the accumulation dtype, converted separately for each kernel, so that it is never stored.
  Expr x() { return operand(0).as(wide_); }
  Expr operand(size_t i) { return {b_, m_.operand(o_, i)}; }
  // The results of a kernel over parts, for the next kernel.
  Expr ofParts(Expr v) {
    std::vector<int64_t> shape = v.type().staticShape();
    shape.erase(shape.begin() + along());
    return reshaped(v, shape);
  }
  // Reshapes one value per row so that it broadcasts against x.
  Expr perRow(Expr v) {
    std::vector<int64_t> shape = shape_;
    for (size_t d = outerDims_; d < shape.size(); ++d) shape[d] = 1;
    return reshaped(v, shape);
  }
  Expr asResult(Expr v) { return reshaped(v, type_.staticShape()).as(type_.dtype); }
  [[nodiscard]] bool is(std::string_view name) const { return name_ == name; }

  Module& m_;
  OpId o_;
  Builder& b_;
  std::string_view name_;
  Type type_;
  DType wide_ = DType::F32;
  std::vector<int64_t> shape_;
  size_t outerDims_ = 0; // dims before the reduced ones
  bool columns_ = false; // the reduced dims are the first ones: a row's elements are strided
  int64_t rows_ = 1, n_ = 1, parts_ = 0, length_ = 0, rest_ = 0;
  Expr main_, restPart_; // [rows, parts, length], and [rows, 1, rest] if there is a remainder
};

// The reduced dims are the last ones, so that rows are contiguous; or the first, for a variance.
bool NormSplitter::chooseParts(const OpQuery& q) {
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
  outerDims_ = static_cast<size_t>(dims.front());
  columns_ = dims.size() < shape_.size() && outerDims_ == 0;
  if (!columns_ && outerDims_ + dims.size() != shape_.size()) return false;
  for (size_t d = 0; d < shape_.size(); ++d) {
    int64_t& count = (d >= outerDims_ && d < outerDims_ + dims.size()) ? n_ : rows_;
    if (shape_[d] == 0 || count > INT32_MAX / shape_[d]) return false;
    count *= shape_[d];
  }
  columns_ &= rows_ > 1;
  return columns_ ? splitColumnsEvenly() : splitRowsEvenly();
}

bool NormSplitter::splitRowsEvenly() {
  if (n_ < kMinLong || rows_ * n_ < kMinAll) return false;
  if (rows_ > (n_ > kNotKept ? kMaxRowsNotKept : kMaxNormRows)) return false;
  const int64_t wanted = std::max(kParts / rows_, n_ / kLongestPart);
  for (parts_ = wanted; parts_ * 2 > wanted && n_ % (parts_ * kPack) != 0;) --parts_;
  if (parts_ * 2 <= wanted) parts_ = wanted;
  length_ = n_ / parts_ / kPack * kPack;
  rest_ = n_ - parts_ * length_;
  return true;
}

bool NormSplitter::splitColumnsEvenly() {
  if ((!is("var") && !is("std")) || rows_ * n_ < kMinOfColumns || rows_ > kMaxNormColumns) return false;
  const int64_t wanted = std::min(kParts / ((rows_ + kNormColumns - 1) / kNormColumns), n_ / kMinPart);
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

// If all elements of a part are -inf, nothing is subtracted: its sum is 0, regardless of other parts. With
// `infinite`, the same holds for inf (logsumexp); without it, the sum is NaN (softmax).
NormSplitter::Exponentials NormSplitter::exponentialsOf(Expr part, bool infinite) {
  const Expr maximum = maximumOver(part, along());
  const Expr nothing = infinite ? ops::is_inf(maximum) : ops::eq(maximum, -INFINITY);
  const Expr less = ops::select(nothing, 0, maximum), own = ofParts(maximum);
  return {own, ofParts(sumOver(ops::exp(part - less), along()))};
}

NormSplitter::Exponentials NormSplitter::exponentials(bool infinite) {
  const Exponentials own = exponentialsOf(main_, infinite);
  Expr maximum = maximumOver(own.maximum, across());
  Exponentials rest;
  if (rest_ > 0) {
    rest = exponentialsOf(restPart_, infinite);
    maximum = ops::max(maximum, rest.maximum);
  }
  if (infinite) maximum = ops::select(ops::is_inf(maximum), 0, maximum);
  auto scaled = [&](const Exponentials& e) { return e.sum * ops::exp(e.maximum - maximum); };
  Expr sum = sumOver(scaled(own), across());
  if (rest_ > 0) sum = sum + scaled(rest);
  return {maximum, sum};
}

// Chan, Golub and LeVeque 1979: each part's squared differences from its own mean, plus those of the means
// from the total mean.
NormSplitter::Squares NormSplitter::squares() {
  auto of = [&](Expr part) {
    const Expr mean = meanOver(part, along()), off = part - mean, own = ofParts(mean);
    return Squares{own, ofParts(sumOver(off * off, along()))};
  };
  const auto share = [&](int64_t elements) {
    return static_cast<double>(elements) / static_cast<double>(n_);
  };
  const Squares own = of(main_);
  Expr mean = meanOver(own.mean, across());
  Squares rest;
  if (rest_ > 0) {
    rest = of(restPart_);
    const Expr main = mean * share(n_ - rest_);
    mean = main + rest.mean * share(rest_);
  }
  auto moved = [&](const Squares& s, int64_t elements) {
    const Expr off = s.mean - mean;
    return s.sum + off * off * static_cast<double>(elements);
  };
  Expr sum = sumOver(moved(own, length_), across());
  if (rest_ > 0) sum = sum + moved(rest, rest_);
  return {mean, sum};
}

Expr NormSplitter::softmax(const OpQuery&) {
  const Exponentials e = exponentials(false);
  const Expr wide = x(), off = wide - perRow(e.maximum);
  if (is("log_softmax")) return off - perRow(ops::log(e.sum));
  const Expr power = ops::exp(off);
  return power * perRow(ops::reciprocal(e.sum));
}

Expr NormSplitter::logsumexp(const OpQuery&) { return logSum(true); }

Expr NormSplitter::logSum(bool infinite) {
  const Exponentials e = exponentials(infinite);
  return e.maximum + ops::log(e.sum);
}

Expr NormSplitter::variance(const OpQuery& q) {
  const int64_t freedom = std::max<int64_t>(n_ - q.intAttr("correction"), 0);
  const Expr v = squares().sum / static_cast<double>(freedom);
  return is("std") ? ops::sqrt(v) : v;
}

Expr NormSplitter::norm(const OpQuery& q) {
  Expr y, sum;
  if (is("layer_norm")) {
    const Squares s = squares();
    const Expr wide = x();
    y = wide - perRow(s.mean), sum = s.sum;
  } else {
    auto of = [&](Expr part) { return ofParts(sumOver(part * part, along())); };
    sum = sumOver(of(main_), across());
    if (rest_ > 0) sum = sum + of(restPart_);
    y = x();
  }
  y = y * perRow(ops::rsqrt(sum / static_cast<double>(n_) + q.floatAttr("eps")));
  if (m_[o_].numOperands > 1) y = y * operand(1).as(wide_);
  if (m_[o_].numOperands > 2) y = y + operand(2).as(wide_);
  return y;
}

// The max plus the log of the sum, minus the logit of the label.
Expr NormSplitter::entropy(const OpQuery& q) {
  const Type labels = q.type(1);
  const std::vector<int64_t> shape = labels.staticShape();
  const int64_t dim = static_cast<int64_t>(outerDims_), ignore = q.intAttr("ignore_index");
  Expr safe = operand(1), ignored;
  if (wrapToInt(labels.dtype, ignore) == ignore) {
    ignored = ops::eq(safe, ignore);
    safe = ops::select(ignored, 0, safe);
  }
  const Expr total = reshaped(logSum(false), shape);
  const Expr picked = ops::gather(operand(0), ops::expand_dims(safe, {dim}), {.dim = dim});
  Expr loss = total - reshaped(picked.as(wide_), shape);
  if (const double smoothing = q.floatAttr("label_smoothing"); smoothing != 0) {
    Expr all = sumOver(ofParts(sumOver(main_, along())), across());
    if (rest_ > 0) all = all + ofParts(sumOver(restPart_, along()));
    const Expr mean = reshaped(all, shape) / static_cast<double>(n_), sharp = loss * (1 - smoothing);
    loss = sharp + (total - mean) * smoothing;
  }
  return ignored.valid() ? ops::select(ignored, 0, loss) : loss;
}

bool NormSplitter::run(Form form, std::vector<ValueId>& results) {
  Diagnostics none;
  const OpQuery q = queryOf(m_, o_, none);
  if (!chooseParts(q)) return false;
  takeParts();
  results.push_back(asResult((this->*form)(q)));
  return true;
}

} // namespace

bool splitSoftmax(Builder& b, OpId o, RowSplit&, std::vector<ValueId>& results) {
  return NormSplitter(b.module, o, b).run(&NormSplitter::softmax, results);
}
bool splitLogsumexp(Builder& b, OpId o, RowSplit&, std::vector<ValueId>& results) {
  return NormSplitter(b.module, o, b).run(&NormSplitter::logsumexp, results);
}
bool splitMoment(Builder& b, OpId o, RowSplit&, std::vector<ValueId>& results) {
  return NormSplitter(b.module, o, b).run(&NormSplitter::variance, results);
}
bool splitNorm(Builder& b, OpId o, RowSplit&, std::vector<ValueId>& results) {
  return NormSplitter(b.module, o, b).run(&NormSplitter::norm, results);
}
bool splitCrossEntropy(Builder& b, OpId o, RowSplit&, std::vector<ValueId>& results) {
  return NormSplitter(b.module, o, b).run(&NormSplitter::entropy, results);
}

} // namespace dtc
