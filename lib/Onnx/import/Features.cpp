// Features of classical models: ops of ai.onnx.ml on plain tensors, and n-grams of integers.
#include "import/OnnxContext.h"

#include <algorithm>

namespace dtc::onnx {

namespace {

ImportResults binarizer(OnnxContext& c) {
  const Expr x = c.in(0);
  return gt(x, c.scalar(c.real("threshold", 0), x.dtype())).as(x.dtype());
}

ImportResults arrayFeatureExtractor(OnnxContext& c) {
  Expr x = c.in(0);
  if (x.rank() == 1) x = withDim(x, 0);
  const Expr indices = reshapeTo(c.in(1), {elementsOf(c.b, c.in(1).dims())});
  return index_select(x, indices, {.dim = static_cast<int64_t>(x.rank()) - 1});
}

// The n-grams of one length in the pool, and their columns in the result.
struct Grams {
  int64_t length = 0, first = 0, count = 0; // elements of the pool; n-grams before these
  std::vector<int64_t> pool;
};

std::vector<Grams> gramsOf(OnnxContext& c) {
  if (!c.has("pool_int64s")) c.fail("has a pool of strings, which dtc does not support");
  const std::vector<int64_t> starts = c.ints("ngram_counts"), pool = c.ints("pool_int64s");
  const int64_t shortest = c.integer("min_gram_length"), longest = c.integer("max_gram_length");
  std::vector<Grams> out;
  int64_t before = 0;
  for (size_t i = 0; i < starts.size(); ++i) {
    const int64_t begin = starts[i];
    const int64_t end = i + 1 < starts.size() ? starts[i + 1] : static_cast<int64_t>(pool.size());
    const auto length = static_cast<int64_t>(i) + 1;
    if (begin < 0 || end < begin || end > static_cast<int64_t>(pool.size()) || (end - begin) % length)
      c.fail("has ngram_counts that do not divide the pool");
    const int64_t count = (end - begin) / length;
    if (count > 0 && length >= shortest && length <= longest)
      out.push_back({length, before, count, {pool.begin() + begin, pool.begin() + end}});
    before += count;
  }
  return out;
}

// How often each n-gram occurs in each row of x, with up to `skips` elements between its own.
Expr occurrences(OnnxContext& c, Expr x, const Grams& g, int64_t skips) {
  const int64_t rows = c.shapeOf(x).at(0), columns = c.shapeOf(x).at(1);
  Tensor pool(DType::I64, {1, 1, g.count, g.length});
  for (size_t i = 0; i < g.pool.size(); ++i) pool.setInt(static_cast<int64_t>(i), g.pool[i]);
  const Expr grams = constantOf(c.b, pool);
  Expr total = filled(c.b, DType::F32, {rows, g.count}, 0);
  for (int64_t skip = 0; skip <= (g.length == 1 ? 0 : skips); ++skip) {
    const int64_t windows = columns - (skip + 1) * (g.length - 1);
    if (windows <= 0) break;
    Expr same;
    for (int64_t k = 0; k < g.length; ++k) {
      const Expr at = reshapeTo(sliceOf(x, 1, k * (skip + 1), k * (skip + 1) + windows), {rows, windows, 1});
      const Expr equal = eq(at, reshapeTo(sliceOf(grams, 3, k, k + 1), {1, 1, g.count}));
      same = same.valid() ? same & equal : equal;
    }
    total = total + sum(same.as(DType::F32), {.dims = {1}});
  }
  return total;
}

ImportResults tfIdfVectorizer(OnnxContext& c) {
  Expr x = c.in(0);
  if (x.rank() != 1 && x.rank() != 2) c.fail("has an operand of neither rank 1 nor 2");
  const bool flat = x.rank() == 1;
  x = (flat ? withDim(x, 0) : x).as(DType::I64);
  const std::vector<int64_t> columns = c.ints("ngram_indexes");
  const std::string mode = c.text("mode", "");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF") c.fail("has the unsupported mode '" + mode + "'");
  const auto weights = c.has("weights") ? c.reals("weights") : std::vector<double>();
  if (!weights.empty() && weights.size() != columns.size())
    c.fail("has another number of weights than of n-grams");
  constexpr int64_t kMaxColumns = 1 << 16, kMaxSkips = 256, kMaxLength = 64;
  int64_t width = 0;
  for (int64_t column : columns) width = std::max(width, column + 1);
  const int64_t skips = c.integer("max_skip_count");
  if (columns.empty() || std::ranges::min(columns) < 0 || width > kMaxColumns || skips < 0 ||
      skips > kMaxSkips)
    c.fail("has ngram_indexes or a max_skip_count that is out of range");
  Expr y = filled(c.b, DType::F32, {c.shapeOf(x).at(0), width}, 0);
  for (const Grams& g : gramsOf(c)) {
    if (g.length > kMaxLength || g.first + g.count > static_cast<int64_t>(columns.size()))
      c.fail("has more n-grams than ngram_indexes, or longer ones than 64");
    Expr found = occurrences(c, x, g, skips);
    if (mode == "IDF") found = gt(found, 0.0).as(DType::F32);
    Tensor place(DType::F32, {g.count, width}); // of each n-gram, times its weight
    for (int64_t i = 0; i < g.count; ++i) {
      const auto gram = static_cast<size_t>(g.first + i);
      place.setFloat(i * width + columns[gram], mode == "TF" || weights.empty() ? 1 : weights[gram]);
    }
    y = y + matmul(found, constantOf(c.b, place));
  }
  return flat ? withoutDim(y, 0) : y;
}

constexpr OnnxRow kFeatureRows[] = {{"ai.onnx.ml.Binarizer", binarizer, 1},
                                    {"ai.onnx.ml.ArrayFeatureExtractor", arrayFeatureExtractor, 1},
                                    {"TfIdfVectorizer", tfIdfVectorizer, 9}};

} // namespace

std::span<const OnnxRow> featureRows() { return kFeatureRows; }

} // namespace dtc::onnx
