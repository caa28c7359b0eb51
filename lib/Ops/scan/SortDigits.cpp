// sort_counts sort_digit: the two halves of one radix sort pass, parallel over tiles on all cores or on the
// whole GPU (lib/Passes/split/SortRows.cpp composes the passes). An element is an i64 word: its key above its
// index in the row.
#include "index/IndexParts.h"

#include <cstring>

namespace dtc {
namespace {

bool movesElements(const OpQuery& q) { return std::string_view(q.record->name) == "sort_digit"; }

// [rows .., n], and for sort_digit also [rows .., tiles, 256].
bool digitRule(const OpQuery& q, Rule& rule) {
  const std::vector<Dim>& x = q.type(0).dims;
  if (x.empty() || !x.back().isStatic()) return reportShape(q, "needs rows of a static size");
  addOperandFactors(q, 0, rule);
  const TensorMap own = rule.operands[0];
  rule.factors[own.dims.back().terms[0].factor].kind = FactorKind::Whole;
  rule.operands[0].dims.back().form = DimMap::Free;
  TensorMap counts = own;
  const Dim tiles((x.back().value() + kSortTile - 1) / kSortTile);
  counts.dims.back() = freeDim(addUnsharded(rule, tiles, "tiles"));
  counts.dims.push_back(freeDim(addUnsharded(rule, Dim(kSortDigits), "digits")));
  if (!movesElements(q)) {
    rule.results = {counts};
    return true;
  }
  const std::vector<Dim>& upto = q.type(1).dims;
  bool fits = upto.size() == counts.dims.size();
  for (size_t d = 0; fits && d < upto.size(); ++d)
    fits = upto[d] == rule.factors[counts.dims[d].terms[0].factor].size;
  if (!fits) return reportShape(q, "takes the counts of sort_counts, summed along the tiles");
  rule.operands.push_back(counts);
  rule.results = {rule.operands[0]};
  return true;
}

bool digitInfer(const OpQuery& q, std::vector<TypeId>& results) {
  Rule rule;
  if (!ruleOf(q, rule)) return false;
  std::vector<Dim> dims;
  for (const DimMap& d : rule.results[0].dims) dims.push_back(rule.factors[d.terms[0].factor].size);
  const bool words = movesElements(q) && !q.boolAttr("last");
  results = {q.module->tensorType(words ? DType::I64 : DType::I32, dims)};
  return true;
}

bool digitVerify(const OpQuery& q) {
  const DType dtype = q.type(0).dtype;
  if (dtype != DType::I64 && dtypeBytes(dtype) > 4)
    return reportShape(q, "takes keys of up to four bytes, or words of i64");
  const int64_t digit = q.intAttr("digit"), digits = dtype == DType::I64 ? 4 : dtypeBytes(dtype);
  if (digit < 0 || digit >= digits)
    return reportShape(q, "has no digit " + std::to_string(digit) + " of " + std::to_string(digits));
  return true;
}

// An unsigned integer of the same width that orders as the elements of the dtype (lib/Kernel/device/ops.h,
// dtc_digit_key).
uint64_t keyOf(DType dtype, const Tensor& x, int64_t i, bool descending) {
  const int bits = 8 * dtypeBytes(dtype);
  const uint64_t top = uint64_t(1) << (bits - 1), all = top | (top - 1);
  uint64_t key = 0;
  if (isFloat(dtype)) {
    const double v = x.getFloat(i);
    Tensor one(dtype, {1}); // the evaluator may store wider floats
    one.setFloat(0, v);
    std::memcpy(&key, one.bytes().data(), static_cast<size_t>(dtypeBytes(dtype)));
    key = v != v ? all : v == 0 ? top : (key & top) != 0 ? ~key : key | top;
  } else {
    key = static_cast<uint64_t>(x.getInt(i));
    if (!isBool(dtype) && !isUnsignedInt(dtype)) key ^= top;
  }
  return (descending ? ~key : key) & all;
}

// Of element `i` of the row that begins at `row`.
uint64_t wordOf(const OpQuery& q, const Tensor& x, int64_t row, int64_t i) {
  const DType dtype = q.type(0).dtype;
  if (dtype == DType::I64) return static_cast<uint64_t>(x.getInt(row + i));
  return keyOf(dtype, x, row + i, q.boolAttr("descending")) << 32 | static_cast<uint64_t>(i);
}

struct Rows {
  explicit Rows(const Tensor& x)
      : n(x.shape().back()), rows(n == 0 ? 0 : x.numElements() / n), tiles((n + kSortTile - 1) / kSortTile) {}
  int64_t n, rows, tiles;
};

bool countsEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  const Rows of(*in[0]);
  const int64_t shift = 32 + 8 * q.intAttr("digit");
  for (int64_t r = 0; r < of.rows; ++r)
    for (int64_t i = 0; i < of.n; ++i) {
      const auto digit = static_cast<int64_t>(wordOf(q, *in[0], r * of.n, i) >> shift & (kSortDigits - 1));
      const int64_t at = (r * of.tiles + i / kSortTile) * kSortDigits + digit;
      out[0]->setInt(at, out[0]->getInt(at) + 1);
    }
  return true;
}

bool indicesEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  const Rows of(*in[0]);
  const int64_t shift = 32 + 8 * q.intAttr("digit");
  std::vector<int64_t> first(kSortDigits), next(kSortDigits);
  for (int64_t r = 0; r < of.rows; ++r) {
    auto upto = [&](int64_t tile, int64_t d) {
      return tile < 0 ? 0 : in[1]->getInt((r * of.tiles + tile) * kSortDigits + d);
    };
    int64_t less = 0;
    for (int64_t d = 0; d < kSortDigits; less += upto(of.tiles - 1, d++))
      first[static_cast<size_t>(d)] = less;
    for (int64_t i = 0; i < of.n; ++i) {
      if (i % kSortTile == 0)
        for (int64_t d = 0; d < kSortDigits; ++d)
          next[static_cast<size_t>(d)] = first[static_cast<size_t>(d)] + upto(i / kSortTile - 1, d);
      const uint64_t word = wordOf(q, *in[0], r * of.n, i);
      const int64_t slot = next[word >> shift & (kSortDigits - 1)]++;
      if (slot >= 0 && slot < of.n) out[0]->setInt(r * of.n + slot, static_cast<int64_t>(word));
    }
  }
  return true;
}

bool digitStores(const OpQuery& q, ElementBuilder& b) {
  b.sortDigit(static_cast<int>(q.intAttr("digit")), q.boolAttr("descending"));
  return true;
}

OpRecord digitOp(const char* name, const char* summary) {
  OpRecord r{.name = name, .family = "index", .summary = summary};
  r.operandClasses = kAnyDType;
  r.attrs = {{"digit", AttrType::Int, nullptr, "which byte of the keys, least significant first"},
             {"descending", AttrType::Bool, "false", "for keys only: words are ordered already"}};
  r.rule = digitRule;
  r.resultType = OpRecord::ResultType::Custom;
  r.infer = digitInfer;
  r.verify = digitVerify;
  r.stores = digitStores;
  r.checks.coincidences = {kNeverPending};
  r.gradNone = true;
  r.flopsPerPoint = 0;
  return r;
}

} // namespace

void addSortDigitOps(OpRegistry& ops) {
  OpRecord& counts = ops.add(
      digitOp("sort_counts", "histogram of one byte of the keys in each tile of "
                             "4096 elements of a row, x's last dim; x: keys of up to four bytes, or words as "
                             "sort_digit makes them"));
  counts.results = "counts";
  counts.eval = countsEval;
  counts.samples = "f32[2, 70] {digit = 3}\n"
                   "bf16[3, 5] {digit = 0, descending = true}\n"
                   "i64[5000] {digit = 1}";

  OpRecord& digit = ops.add(digitOp(
      "sort_digit",
      "sorts the elements of each row stably by one byte of their keys, as words: "
      "the key, as an integer of x's order, over the index in the row, in 32 bits each; `upto` is what "
      "sort_counts returns for x, summed along the tiles; elements that this places outside of the row are "
      "dropped"));
  digit.operands = "x, upto";
  digit.operandTypes = "T, i32";
  digit.attrs.push_back({"last", AttrType::Bool, "false", "return only the indices, as i32"});
  digit.eval = indicesEval;
  digit.samples = "f32[2, 1], i32[2, 1, 256] in 0..1 {digit = 3}\n"
                  "bf16[1], i32[1, 256] in 0..1 {digit = 1, descending = true, last = true}\n"
                  "i64[3, 1], i32[3, 1, 256] in 0..1 {digit = 2}";
}

} // namespace dtc
