#include "split/ReductionChunks.h"
#include "dtc/Ops/Reduce.h"

#include "analysis/FusionForm.h"

#include <algorithm>
#include <numeric>

namespace dtc {

namespace {

// More chunks fit more meshes, but cost more: each is a partial result that is written and read.
constexpr int64_t kMaxChunks = 24, kMinTerms = 8;

class ChunkWriter {
public:
  ChunkWriter(Builder& b, OpId op, const Constrain& constrain)
      : b_(b), m_(b.module), op_(op), constrain_(constrain), form_(fusionFormOf(m_, op)) {}

  ValueId run() {
    if (!m_.typeOf(m_.result(op_)).isStatic()) return {};
    for (ValueId v : m_.operands(op_))
      if (!v.valid() || !m_.typeOf(v).isStatic()) return {};
    if (form_.reduces) return reduction();
    return form_.library ? contraction() : ValueId();
  }

private:
  // The chunk counts of the dims `sizes`, which are reduced together.
  static std::vector<int64_t> split(const std::vector<int64_t>& sizes) {
    const int64_t terms = std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<>());
    int64_t maxChunks = std::min(kMaxChunks, terms / kMinTerms);
    std::vector<int64_t> out;
    for (int64_t n : sizes) {
      out.push_back(chunksOf(n, maxChunks));
      maxChunks /= out.back();
    }
    return out;
  }
  static bool any(const std::vector<int64_t>& chunks) {
    return std::ranges::any_of(chunks, [](int64_t c) { return c > 1; });
  }

  ValueId reshape(ValueId v, std::span<const int64_t> shape) { return ops::reshape(Expr(b_, v), shape); }
  ValueId convert(ValueId v, DType to) { return Expr(b_, v).as(to); }
  std::vector<int64_t> shapeOf(ValueId v) const { return m_.typeOf(v).staticShape(); }

  // Dim `dim` holds one partial result per chunk: a tree combines neighbors, by the next radix at a time.
  // Odd radices come first, so that the remaining ones are powers of two, like most meshes.
  ValueId tree(ValueId v, size_t dim, PendingKind by) {
    for (int64_t left = shapeOf(v)[dim]; left > 1;) {
      int64_t radix = 3;
      while (left % radix != 0 && radix < left) radix += 2;
      if (left % radix != 0) radix = 2;
      left /= radix;
      std::vector<int64_t> shape = shapeOf(v);
      shape[dim] = left;
      shape.insert(shape.begin() + static_cast<ptrdiff_t>(dim) + 1, radix);
      const auto inner = static_cast<int64_t>(dim) + 1;
      v = reduced(by, Expr(b_, constrain_(reshape(v, shape), {&inner, 1})), {.dims = {inner}});
    }
    return v;
  }

  // Reductions of one tensor over the dims in an attribute: sum, prod, mean.
  ValueId reduction() {
    const OpRecord& rec = m_.record(op_);
    const bool mean = rec.combines == PendingKind::Avg;
    const bool plain = rec.scalar && rec.scalar == std::string_view("a") && rec.lowering == Lowering::Loops;
    if (!plain || (rec.finish && !mean) || rec.scalarFor || rec.element || rec.eval ||
        m_[op_].numOperands != 1)
      return {};
    const std::vector<int64_t> shape = shapeOf(m_.operand(op_, 0));
    std::vector<int64_t> dims, sizes;
    for (size_t d = 0; d < shape.size(); ++d)
      if (form_.reduced[d]) dims.push_back(static_cast<int64_t>(d)), sizes.push_back(shape[d]);
    const std::vector<int64_t> chunks = split(sizes);
    if (!any(chunks)) return {};
    const PendingKind by = mean ? PendingKind::Sum : rec.combines;
    std::vector<int64_t> splitShape, inner, outer;
    for (size_t d = 0, i = 0; d < shape.size(); ++d) {
      if (!form_.reduced[d]) {
        splitShape.push_back(shape[d]);
        continue;
      }
      outer.push_back(static_cast<int64_t>(d)); // after the inner dims are reduced
      splitShape.push_back(chunks[i]);
      inner.push_back(static_cast<int64_t>(splitShape.size()));
      splitShape.push_back(shape[d] / chunks[i++]);
    }
    ValueId v = reshape(convert(m_.operand(op_, 0), accumulationType(m_.typeOf(m_.operand(op_, 0)).dtype)),
                        splitShape);
    v = reduced(by, Expr(b_, constrain_(v, inner)), {.dims = inner});
    for (int64_t d : outer) v = tree(v, static_cast<size_t>(d), by);
    if (mean) {
      const int64_t count = std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<>());
      v = ops::mean(Expr(b_, v), {.dims = outer, .keepdim = true, .count = count});
    }
    return finish(v);
  }

  // A contraction over factors of both operands: an einsum with a letter for each chunked factor.
  ValueId contraction() {
    const Rule& rule = form_.rule;
    const bool biased = m_[op_].numOperands == 3 && addsLast(rule);
    if ((m_[op_].numOperands != 2 && !biased) || rule.factors.size() > 20) return {};
    std::vector<int64_t> sizes;
    std::vector<size_t> reduced;
    for (size_t f = 0; f < rule.factors.size(); ++f) {
      if (rule.factors[f].kind == FactorKind::Pass) continue;
      if (rule.factors[f].kind != FactorKind::Reduce || rule.factors[f].reduce != PendingKind::Sum) return {};
      reduced.push_back(f), sizes.push_back(rule.factors[f].size.value());
    }
    for (const auto* maps : {&rule.operands, &rule.results})
      for (const TensorMap& t : *maps)
        for (const DimMap& d : t.dims)
          if (!d.plain() && (d.form != DimMap::Compound || !d.terms.empty())) return {};
    const std::vector<int64_t> chunks = split(sizes);
    if (!any(chunks)) return {};
    std::vector<int64_t> chunksOfFactor(rule.factors.size(), 1);
    for (size_t i = 0; i < reduced.size(); ++i) chunksOfFactor[reduced[i]] = chunks[i];
    std::string equation, result;
    std::vector<ValueId> operands;
    for (uint32_t i = 0; i < 2; ++i)
      operands.push_back(
          chunked(m_.operand(op_, i), rule.operands[i], chunksOfFactor, equation += i ? "," : ""));
    size_t partials = 0;
    for (size_t f : reduced)
      if (chunksOfFactor[f] > 1) result += chunkLetter(f), ++partials;
    for (const DimMap& d : rule.results[0].dims)
      if (!d.terms.empty()) result += letter(d.terms[0].factor);
    equation += "->" + result;
    ValueId v = ops::einsum(b_, operands, equation);
    for (size_t d = 0; d < partials; ++d) v = tree(v, d, PendingKind::Sum);
    if (!biased) return finish(v);
    v = reshape(v, m_.typeOf(m_.result(op_)).staticShape());
    return finish(Expr(b_, v) + convert(m_.operand(op_, 2), m_.typeOf(v).dtype));
  }

  // True if operand 2 is added to the sums, along the last dims of the result (a bias).
  static bool addsLast(const Rule& rule) {
    if (rule.operands.size() != 3 || rule.joins.empty()) return false;
    const std::vector<DimMap>&bias = rule.operands[2].dims, &result = rule.results[0].dims;
    if (bias.size() > result.size() ||
        !std::ranges::all_of(rule.joins, [](const Join& j) { return j.operand == 2; }))
      return false;
    for (size_t d = 0; d < bias.size(); ++d)
      if (!bias[d].plain() || !result[result.size() - bias.size() + d].plain() ||
          bias[d].terms[0].factor != result[result.size() - bias.size() + d].terms[0].factor)
        return false;
    return true;
  }

  static char letter(size_t factor) { return static_cast<char>('a' + factor); }
  static char chunkLetter(size_t factor) { return static_cast<char>('A' + factor); }

  // The operand reshaped so that each chunked factor has a dim for chunks before the dim for the elements of
  // a chunk.
  ValueId chunked(ValueId v, const TensorMap& map, const std::vector<int64_t>& chunks,
                  std::string& equation) {
    std::vector<int64_t> shape, unsharded;
    const std::vector<int64_t> sizes = shapeOf(v);
    for (size_t d = 0; d < map.dims.size(); ++d) {
      if (map.dims[d].terms.empty()) continue; // of size 1
      const size_t f = map.dims[d].terms[0].factor;
      const bool reduces = form_.rule.factors[f].kind == FactorKind::Reduce;
      if (chunks[f] > 1) shape.push_back(chunks[f]), equation += chunkLetter(f);
      if (reduces) unsharded.push_back(static_cast<int64_t>(shape.size()));
      shape.push_back(sizes[d] / chunks[f]), equation += letter(f);
    }
    v = convert(v, accumulationType(m_.typeOf(v).dtype));
    if (shape != sizes) v = reshape(v, shape);
    return constrain_(v, unsharded);
  }

  ValueId finish(ValueId v) {
    const Type result = m_.typeOf(m_.result(op_));
    if (shapeOf(v) != result.staticShape()) v = reshape(v, result.staticShape());
    return convert(v, result.dtype);
  }

  Builder& b_;
  Module& m_;
  OpId op_;
  const Constrain& constrain_;
  FusionForm form_;
};

} // namespace

int64_t chunksOf(int64_t n, int64_t maxChunks) {
  auto divisors = [](int64_t x) {
    int64_t count = 0;
    for (int64_t d = 1; d <= x; ++d) count += x % d == 0;
    return count;
  };
  int64_t best = 1;
  for (int64_t c = 2; c <= std::min(n, maxChunks); ++c)
    if (n % c == 0 && divisors(c) >= divisors(best)) best = c;
  return best;
}

ValueId writeInChunks(Builder& b, OpId op, const Constrain& constrain) {
  return ChunkWriter(b, op, constrain).run();
}

} // namespace dtc
