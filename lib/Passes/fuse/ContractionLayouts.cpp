#include "fuse/ContractionLayouts.h"
#include "dtc/IR/build/Builder.h"
#include "dtc/Ops/OpFunctions.h"
#include <algorithm>
#include <numeric>
#include <ranges>

namespace dtc {
namespace {

// How often each element is read, at least: products of matrices, not of vectors.
constexpr int64_t kMinReuse = 8;

class ContractionLayouter {
public:
  ContractionLayouter(Module& m, BlockId block, FusionForms& forms, OperandLayouts& out)
      : m_(m), block_(block), forms_(forms), out_(out) {}

  void run() {
    std::vector<OpId> ops;
    for (OpId o : m_[block_].ops) here_.insert(o.index);
    for (OpId o : std::vector<OpId>(m_[block_].ops)) {
      for (uint32_t r = 0; r < m_[o].numRegions && m_.record(o).regions != RegionKind::Fused; ++r)
        layOutContractions(m_, m_.region(o, r), forms_, out_);
      if (forms_.of(o).library) contraction(o, ops);
      ops.push_back(o);
    }
    m_[block_].ops = std::move(ops);
  }

private:
  // The contracted factors of an operand, in the order of memory.
  struct Contracted {
    std::vector<int> factors;
    bool adjacent = true;
  };
  Contracted contractedBy(ValueId v, const Rule& rule, const TensorMap& map) {
    Contracted c;
    bool after = false; // another dim follows the last contracted one
    for (int64_t d : throughTransposes(m_, forms_, out_, here_, v).order) {
      const auto dim = static_cast<size_t>(d);
      if (m_.typeOf(v).dims[dim] == Dim(1)) continue;
      const int factor = rule.factorOf(map, dim);
      if (factor < 0 || rule.factors[static_cast<size_t>(factor)].reduce == PendingKind::None) {
        after = !c.factors.empty();
        continue;
      }
      c.adjacent &= !after;
      c.factors.push_back(factor);
    }
    return c;
  }

  // The number of elements along the dims that `map` has and `other` does not.
  static int64_t freeElements(const Rule& rule, const TensorMap& map, const TensorMap& other) {
    int64_t n = 1;
    for (size_t d = 0; d < map.dims.size(); ++d) {
      const int factor = rule.factorOf(map, d);
      const auto isSame = [&](size_t e) { return rule.factorOf(other, e) == factor; };
      if (factor < 0 || std::ranges::any_of(std::views::iota(size_t{0}, other.dims.size()), isSame)) continue;
      const Dim size = rule.factors[static_cast<size_t>(factor)].size;
      n *= std::min<int64_t>(size.isStatic() ? size.value() : kMinReuse, kMinReuse);
    }
    return n;
  }

  void contraction(OpId o, std::vector<OpId>& ops) {
    const Rule rule = forms_.of(o).rule;
    if (rule.operands.size() != 2 || m_[o].numOperands != 2) return;
    Contracted sides[2];
    for (size_t i = 0; i < 2; ++i) sides[i] = contractedBy(m_.operand(o, i), rule, rule.operands[i]);
    if (sides[0].factors.size() < 2 || sides[0].factors.size() != sides[1].factors.size()) return;
    for (size_t i = 0; i < 2; ++i)
      if (freeElements(rule, rule.operands[i], rule.operands[1 - i]) < kMinReuse) return;
    const std::vector<int> wanted = sides[sides[1].adjacent && !sides[0].adjacent ? 1 : 0].factors;
    if (!std::ranges::is_permutation(wanted, sides[sides[1].adjacent && !sides[0].adjacent ? 0 : 1].factors))
      return;
    Diagnostics quiet;
    Builder b(m_, block_, ops, quiet);
    b.loc = m_[o].loc;
    for (size_t i = 0; i < 2; ++i)
      if (!sides[i].adjacent || sides[i].factors != wanted)
        m_.operands(o)[i] = copied(m_.operand(o, i), rule, rule.operands[i], wanted, b);
  }

  // The value with its contracted dims last, in this order, in memory; in its own order of dims.
  ValueId copied(ValueId v, const Rule& rule, const TensorMap& map, const std::vector<int>& wanted,
                 Builder& b) {
    const auto rankOf = [&](int64_t d) {
      const auto at = std::ranges::find(wanted, rule.factorOf(map, static_cast<size_t>(d)));
      return at == wanted.end() ? -1 : at - wanted.begin();
    };
    DimOrder perm(m_.typeOf(v).rank());
    std::iota(perm.begin(), perm.end(), int64_t{0});
    std::ranges::sort(perm, {}, [&](int64_t d) { return std::pair(rankOf(d), d); });
    if (std::ranges::is_sorted(perm)) return v; // its own order will do: storeForOneWalk stores it
    const ValueId stored = ops::transpose(Expr(b, v), perm);
    out_.stored.insert(m_[stored].owner);
    return ops::transpose(Expr(b, stored), inverse(perm));
  }

  Module& m_;
  BlockId block_;
  FusionForms& forms_;
  OperandLayouts& out_;
  std::unordered_set<uint32_t> here_; // the block's ops
};

} // namespace

void layOutContractions(Module& m, BlockId block, FusionForms& forms, OperandLayouts& out) {
  ContractionLayouter(m, block, forms, out).run();
}

} // namespace dtc
