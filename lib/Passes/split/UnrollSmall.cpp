#include "split/UnrollSmall.h"
#include "analysis/FusionForm.h"
#include "dtc/IR/build/Builder.h"
#include "dtc/Ops/OpFunctions.h"
#include "dtc/Passes/analysis/Clone.h"
#include <algorithm>

namespace dtc {
namespace {

constexpr int64_t kMinIterations = 256; // below, the loop takes microseconds
constexpr int64_t kMaxElements = 16;    // of each value
constexpr int64_t kMaxOps = 64;         // of an unrolled block: no more than one kernel has
constexpr int64_t kMinCopies = 4;

class SmallLoops {
public:
  SmallLoops(Module& m, Diagnostics& diags) : m_(m), diags_(diags) {}

  void run(BlockId block) {
    std::vector<OpId> out;
    for (OpId o : std::vector<OpId>(m_[block].ops)) {
      for (uint32_t r = 0; r < m_[o].numRegions; ++r) run(m_.region(o, r));
      if (const int64_t copies = copiesOf(o); copies > 1) unroll(o, copies, block, out);
      out.push_back(o);
    }
    m_[block].ops = std::move(out);
  }

private:
  bool isSmall(ValueId v) const {
    const Type& t = m_.typeOf(v);
    const auto n = t.isStatic() ? t.numElements() : std::nullopt;
    return n && *n <= kMaxElements;
  }

  [[nodiscard]] bool isConstant(OpId o) const { return m_[o].numOperands == 0; }

  bool isElementwise(OpId o) {
    const OpRecord& record = m_.record(o);
    if (m_[o].numRegions != 0 || m_[o].numResults != 1 || record.sideEffect || !isSmall(m_.result(o)))
      return false;
    if (isConstant(o)) return true;
    const FusionForm form = fusionFormOf(m_, o);
    return form.loops && record.scalar && !form.move && !form.reduces && !form.contracts && !form.ordered &&
           !form.alone && !form.joins && !form.indexed &&
           std::ranges::all_of(m_.operands(o), [&](ValueId v) { return isSmall(v); });
  }

  int64_t bound(OpId o, size_t i) const { return m_.attrs[m_[m_.operand(o, i)].literal].i; }

  // Iterations per iteration of the new loop; 1: it stays as it is.
  int64_t copiesOf(OpId o) {
    if (m_.record(o).regions != RegionKind::For) return 1;
    const BlockId body = m_.region(o);
    for (size_t i = 0; i < 2; ++i)
      if (m_[m_.operand(o, i)].kind != ValueKind::Literal) return 1;
    if (m_[o].numResults != m_[body].args.size() - 1) return 1; // stacked results
    if (bound(o, 1) - bound(o, 0) < kMinIterations || bound(o, 1) > INT32_MAX / 2) return 1;
    for (OpId other : m_[body].ops)
      if (!isElementwise(other)) return 1;
    const auto ops = static_cast<int64_t>(m_[body].ops.size()) + (readsIndex(body) ? 1 : 0);
    const int64_t copies = kMaxOps / std::max<int64_t>(ops, 2);
    return copies < kMinCopies ? 1 : copies;
  }

  bool readsIndex(BlockId body) const {
    const ValueId i = m_[body].args[0];
    return std::ranges::find(m_[body].yields, i) != m_[body].yields.end() ||
           std::ranges::any_of(m_[body].ops, [&](OpId o) {
             return std::ranges::find(m_.operands(o), i) != m_.operands(o).end();
           });
  }

  // A copy of one iteration; `carried`: its carried values, then those of the next one.
  void copy(BlockId body, ValueId index, std::vector<ValueId>& carried, BlockId parent,
            std::vector<OpId>& out) {
    ValueMap map;
    if (index.valid()) map.set(m_[body].args[0], index);
    for (size_t k = 0; k < carried.size(); ++k) map.set(m_[body].args[k + 1], carried[k]);
    cloneOps(m_, body, parent, out, map, {});
    for (size_t k = 0; k < carried.size(); ++k) carried[k] = map(m_[body].yields[k]);
  }

  // The first iterations, of which the new loop has no multiple, run before it.
  void unroll(OpId o, int64_t copies, BlockId block, std::vector<OpId>& out) {
    const BlockId body = m_.region(o);
    const bool indexed = readsIndex(body);
    std::vector<OpId> varying;
    for (OpId other : m_[body].ops) (isConstant(other) ? out : varying).push_back(other);
    for (OpId other : m_[body].ops)
      if (isConstant(other)) m_[other].parent = block;
    m_[body].ops = std::move(varying);
    const int64_t iterations = bound(o, 1) - bound(o, 0), first = iterations % copies;
    Builder before(m_, block, out, diags_);
    before.loc = m_[o].loc;
    const TypeId i32 = m_.tensorType(DType::I32, std::initializer_list<int64_t>{});
    std::vector<ValueId> carried;
    for (size_t k = 2; first > 0 && k < m_[o].numOperands; ++k) {
      const ValueId v = m_.operand(o, k);
      carried.push_back(
          m_[v].kind == ValueKind::Literal ? ValueId(ops::constant(before, m_[v].type, m_[v].literal)) : v);
    }
    for (int64_t i = 0; i < first; ++i)
      copy(body, indexed ? before.constant(static_cast<double>(bound(o, 0) + i), i32) : ValueId(), carried,
           block, out);
    for (size_t k = 0; k < carried.size(); ++k) m_.operands(o)[k + 2] = carried[k];

    std::vector<OpId> list;
    Builder in(m_, body, list, diags_);
    in.loc = m_[o].loc;
    std::vector<ValueId> now(m_[body].args.begin() + 1, m_[body].args.end());
    const auto begin = static_cast<double>(bound(o, 0) + first);
    const Expr index = indexed ? Expr(in, m_[body].args[0]) * static_cast<double>(copies) + begin : Expr();
    for (int64_t i = 0; i < copies; ++i)
      copy(body,
           !indexed ? ValueId()
           : i == 0 ? ValueId(index)
                    : ValueId(index + static_cast<double>(i)),
           now, body, list);
    m_[body].ops = std::move(list);
    m_[body].yields = std::move(now);
    m_.operands(o)[0] = m_.makeLiteral(m_.attrs.integer(0), DType::I32, m_[o].loc);
    m_.operands(o)[1] = m_.makeLiteral(m_.attrs.integer(iterations / copies), DType::I32, m_[o].loc);
  }

  Module& m_;
  Diagnostics& diags_;
};

} // namespace

void unrollSmall(Module& m, BlockId block, Diagnostics& diags) { SmallLoops(m, diags).run(block); }

} // namespace dtc
