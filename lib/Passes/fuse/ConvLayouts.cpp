#include "fuse/ConvLayouts.h"
#include "dtc/IR/build/Builder.h"
#include "dtc/Ops/OpFunctions.h"
#include "dtc/Ops/window/Convolution.h"
#include "dtc/Target/Target.h"
#include "fuse/FusionGroups.h"
#include <algorithm>
#include <numeric>

namespace dtc {
namespace {

class Layouter {
public:
  Layouter(Module& m, BlockId block, FusionForms& forms, uint32_t dtypes, OperandLayouts& out)
      : m_(m), block_(block), forms_(forms), dtypes_(dtypes), out_(out) {}

  void run() {
    for (OpId o : m_[block_].ops) {
      here_.insert(o.index);
      for (ValueId v : ValuesRead(m_, o)) readers_[v.index].push_back(o);
      for (uint32_t r = 0; r < m_[o].numRegions && m_.record(o).regions != RegionKind::Fused; ++r)
        layOutConvolutions(m_, m_.region(o, r), forms_, dtypes_, out_);
    }
    for (ValueId v : m_[block_].yields) readers_[v.index].push_back(OpId());
    std::vector<OpId> ops;
    for (OpId o : std::vector<OpId>(m_[block_].ops)) {
      if (forms_.of(o).window)
        convolution(o, ops);
      else
        ops.push_back(o);
    }
    m_[block_].ops = std::move(ops);
  }

private:
  TransposedValue memoryOf(ValueId v) { return throughTransposes(m_, forms_, out_, here_, v); }

  // Dims of size 1 are anywhere.
  bool same(const Type& t, DimOrder a, DimOrder b) const {
    const auto one = [&](int64_t d) { return t.dims[static_cast<size_t>(d)] == Dim(1); };
    std::erase_if(a, one), std::erase_if(b, one);
    return a == b;
  }

  // The transpose that alone reads the convolution's result.
  [[nodiscard]] OpId onlyTranspose(ValueId y) {
    const std::vector<OpId>& readers = readers_[y.index];
    const bool one = readers.size() == 1 && readers[0].valid() && here_.contains(readers[0].index);
    return one && permutationOf(forms_.of(readers[0])) ? readers[0] : OpId();
  }
  DimOrder orderOfReader(OpId transpose) {
    const std::vector<size_t> from = *permutationOf(forms_.of(transpose));
    return {from.begin(), from.end()};
  }

  static int64_t elements(const Type& t) {
    int64_t n = 1;
    for (Dim d : t.dims) n = d.isStatic() ? n * d.value() : n;
    return n;
  }

  void convolution(OpId o, std::vector<OpId>& ops) {
    const ValueId x = m_.operand(o, 0), w = m_.operand(o, 1), y = m_.result(o);
    Diagnostics quiet;
    const auto shape = convolutionOf(queryOf(m_, o, quiet));
    const size_t rank = m_.typeOf(y).rank();
    const bool gradient = shape && m_[o].numOperands == 2 && isWindowGradient(*shape, memoryOf(w).dims);
    if (!shape || rank < 3 || rank > 5 || !(dtypes_ & dtypeBit(m_.typeOf(y).dtype)) ||
        (gradient && shape->groups > 1))
      return ops.push_back(o);
    out_.convolutions.insert(o.index);
    // A window gradient's images are the channels of the op.
    DimOrder layouts[2]; // first, last
    for (DimOrder& layout : layouts) layout = gradient ? DimOrder{1} : DimOrder{0};
    layouts[0].push_back(gradient ? 0 : 1);
    for (DimOrder& layout : layouts)
      for (size_t d = 2; d < rank; ++d) layout.push_back(static_cast<int64_t>(d));
    layouts[1].push_back(gradient ? 0 : 1);

    const OpId transpose = onlyTranspose(y);
    const DimOrder orders[] = {memoryOf(x).order, memoryOf(w).order,
                               transpose ? orderOfReader(transpose) : memoryOf(y).order};
    const ValueId values[] = {x, w, y};
    int64_t cost[2] = {0, 0};
    for (size_t l = 0; l < 2; ++l)
      for (size_t i = 0; i < 3; ++i)
        if (!same(m_.typeOf(values[i]), orders[i], layouts[l])) cost[l] += elements(m_.typeOf(values[i]));
    if (dtypeBytes(m_.typeOf(y).dtype) == 2)
      cost[0] += elements(m_.typeOf(x)) + elements(m_.typeOf(gradient ? w : y));
    const DimOrder& layout = layouts[cost[1] < cost[0] ? 1 : 0];

    Builder b(m_, block_, ops, quiet);
    b.loc = m_[o].loc;
    for (size_t i = 0; i < 2; ++i)
      if (!same(m_.typeOf(values[i]), orders[i], layout))
        m_.operands(o)[i] = copied(m_.operand(o, i), layout, b);
    ops.push_back(o);
    DimOrder plain(rank);
    std::iota(plain.begin(), plain.end(), int64_t{0});
    if (same(m_.typeOf(y), layout, plain)) return;
    if (transpose && same(m_.typeOf(y), orders[2], layout)) {
      out_.stored.insert(transpose.index);
      return;
    }
    const ValueId back = copied(y, layout, b);
    rename(m_[block_].ops, o, y, back);
    for (ValueId& v : m_[block_].yields)
      if (v == y) v = back;
    readers_.erase(y.index);
  }

  // The value in another layout, in its own order of dims. Equal copies are shared.
  ValueId copied(ValueId v, const DimOrder& layout, Builder& b) {
    const TransposedValue from = memoryOf(v);
    DimOrder perm;
    for (int64_t d : layout) perm.push_back(from.dims[static_cast<size_t>(d)]);
    auto& known = copies_[from.base.index];
    auto at = std::ranges::find(known, perm, &std::pair<DimOrder, ValueId>::first);
    if (at == known.end()) {
      const ValueId stored = ops::transpose(Expr(b, from.base), perm);
      here_.insert(m_[stored].owner), out_.stored.insert(m_[stored].owner);
      at = known.insert(at, {perm, stored});
    }
    const ValueId back = ops::transpose(Expr(b, at->second), inverse(layout));
    here_.insert(m_[back].owner);
    return back;
  }

  // Ops after `o` read `to` instead of `from`.
  void rename(const std::vector<OpId>& ops, OpId o, ValueId from, ValueId to) {
    bool after = !o.valid();
    for (OpId reader : ops) {
      if (after) {
        for (ValueId& v : m_.operands(reader))
          if (v == from) v = to;
        for (uint32_t r = 0; r < m_[reader].numRegions; ++r) {
          const BlockId inner = m_.region(reader, r);
          rename(m_[inner].ops, OpId(), from, to);
          for (ValueId& v : m_[inner].yields)
            if (v == from) v = to;
        }
      }
      after |= reader == o;
    }
  }

  Module& m_;
  BlockId block_;
  FusionForms& forms_;
  uint32_t dtypes_;
  OperandLayouts& out_;
  std::unordered_set<uint32_t> here_;                       // the block's ops
  std::unordered_map<uint32_t, std::vector<OpId>> readers_; // by value; an invalid op: a yield
  std::unordered_map<uint32_t, std::vector<std::pair<DimOrder, ValueId>>> copies_; // by value
};

} // namespace

void layOutConvolutions(Module& m, BlockId block, FusionForms& forms, uint32_t dtypes, OperandLayouts& out) {
  Layouter(m, block, forms, dtypes, out).run();
}

} // namespace dtc
