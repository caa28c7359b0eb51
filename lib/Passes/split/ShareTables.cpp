#include "split/ShareTables.h"
#include "analysis/ByValue.h"
#include "analysis/Costly.h"
#include "analysis/Within.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/Passes/analysis/Clone.h"
#include <map>
#include <unordered_set>

namespace dtc {
namespace {

// A reader with this many elements per element of the value broadcasts it: what is kept is small next to the
// data.
constexpr int64_t kBroadcast = 2;

class TableSharer {
public:
  explicit TableSharer(Module& m) : m_(m) {}
  void run(BlockId body) {
    addReaders(body);
    readers_.group();
    findTables(body);
    if (tables_.empty()) return;
    hoist(body);
    share(body);
  }

private:
  void addReaders(BlockId block) {
    for (OpId o : m_[block].ops) {
      for (ValueId v : m_.operands(o)) readers_.add(v, o);
      for (uint32_t r = 0; r < m_[o].numRegions; ++r) addReaders(m_.region(o, r));
    }
    for (ValueId v : m_[block].yields) readers_.add(v, OpId());
  }

  [[nodiscard]] bool movable(OpId o) const {
    const OpRecord& r = m_.record(o);
    return r.lowering == Lowering::Loops && !r.sideEffect && !r.isCollective() &&
           r.regions == RegionKind::None && m_[o].numRegions == 0 && m_[o].numResults == 1;
  }
  [[nodiscard]] std::optional<int64_t> elementsOf(ValueId v) const {
    const Type& t = m_.typeOf(v);
    return t.isStatic() ? t.numElements() : std::nullopt;
  }

  // Costly ops whose value is broadcast, with the ops of the same size between the value and the broadcast,
  // and the ops that only compute smaller or equal values for them.
  void findTables(BlockId block) {
    for (OpId o : m_[block].ops) {
      for (uint32_t r = 0; r < m_[o].numRegions; ++r) findTables(m_.region(o, r));
      std::vector<OpId> all = {o};
      if (!movable(o) || !costly_.is(m_, o) || !broadcast(o, all)) continue;
      const int64_t size = *elementsOf(m_.result(o));
      for (size_t i = 0; i < all.size(); ++i) {
        if (!tables_.insert(all[i]).second && i > 0) continue;
        for (ValueId v : m_.operands(all[i])) {
          const OpId made = m_.definingOp(v);
          if (made.valid() && movable(made) && elementsOf(v).value_or(size + 1) <= size) all.push_back(made);
        }
      }
    }
  }

  // Adds the ops between. False if a reader uses the value as it is.
  bool broadcast(OpId o, std::vector<OpId>& all) const {
    constexpr size_t kMostOps = 16;
    const auto size = elementsOf(m_.result(o));
    if (!size || *size == 0) return false;
    for (size_t i = 0; i < all.size(); ++i)
      for (OpId reader : readers_.of(m_.result(all[i]))) {
        if (!reader.valid() || !movable(reader) || all.size() > kMostOps) return false;
        const auto wide = elementsOf(m_.result(reader));
        if (!wide || (*wide != *size && *wide / kBroadcast < *size)) return false;
        if (*wide == *size && std::ranges::find(all, reader) == all.end()) all.push_back(reader);
      }
    return true;
  }

  // Inner loops first, so that a table that leaves one may leave the next.
  void hoist(BlockId block) {
    std::vector<OpId> out;
    for (OpId o : m_[block].ops) {
      const RegionKind kind = m_.record(o).regions;
      for (uint32_t r = 0; r < m_[o].numRegions && !isIsolated(kind); ++r) {
        hoist(m_.region(o, r));
        if (kind == RegionKind::For || kind == RegionKind::While) takeOut(m_.region(o, r), block, out);
      }
      out.push_back(o);
    }
    m_[block].ops = std::move(out);
  }

  // Moves the costly tables that do not vary, the ops that they need, and the invariant ones that read them.
  void takeOut(BlockId body, BlockId parent, std::vector<OpId>& out) {
    std::unordered_set<OpId> fixed, moves;
    const auto invariant = [&](OpId o, const std::unordered_set<OpId>& among) {
      return std::ranges::all_of(m_.operands(o), [&](ValueId v) {
        const Value& value = m_[v];
        if (value.kind == ValueKind::BlockArg) return BlockId(value.owner) != body;
        const OpId made = m_.definingOp(v);
        return !made.valid() || m_[made].parent != body || among.contains(made);
      });
    };
    for (OpId o : m_[body].ops)
      if (tables_.contains(o) && invariant(o, fixed)) fixed.insert(o);
    const std::vector<OpId> ops = m_[body].ops;
    for (OpId o : ops)
      if (fixed.contains(o) && (costly_.is(m_, o) || readsAny(o, moves))) moves.insert(o);
    for (size_t i = ops.size(); i-- > 0;)
      if (moves.contains(ops[i]))
        for (ValueId v : m_.operands(ops[i]))
          if (const OpId made = m_.definingOp(v); fixed.contains(made)) moves.insert(made);
    for (OpId o : ops)
      if (moves.contains(o)) m_[o].parent = parent, out.push_back(o);
    std::erase_if(m_[body].ops, [&](OpId o) { return moves.contains(o); });
  }
  [[nodiscard]] bool readsAny(OpId o, const std::unordered_set<OpId>& ops) const {
    return std::ranges::any_of(m_.operands(o), [&](ValueId v) { return ops.contains(m_.definingOp(v)); });
  }

  // Equal ops become one; those of a block are seen by the blocks inside it.
  void share(BlockId block) {
    std::vector<OpId> out;
    std::vector<std::vector<uint32_t>> added;
    for (OpId o : m_[block].ops) {
      for (ValueId& v : m_.operands(o)) v = map_(v);
      for (uint32_t r = 0; r < m_[o].numRegions && !isIsolated(m_.record(o).regions); ++r)
        share(m_.region(o, r));
      if (tables_.contains(o)) {
        const auto [twin, first] = seen_.try_emplace(keyOf(o), o);
        if (!first) {
          map_.set(m_.result(o), m_.result(twin->second));
          addWithin(m_, twin->second, withinOf(m_, o));
          continue;
        }
        added.push_back(twin->first);
      }
      out.push_back(o);
    }
    m_[block].ops = std::move(out);
    for (ValueId& v : m_[block].yields) v = map_(v);
    for (const std::vector<uint32_t>& key : added) seen_.erase(key);
  }

  [[nodiscard]] std::vector<uint32_t> keyOf(OpId o) {
    std::vector<uint32_t> key = {m_[o].kind, m_[m_.result(o)].type.index};
    for (ValueId v : m_.operands(o)) {
      const Value& value = m_[v];
      const bool literal = value.kind == ValueKind::Literal;
      key.insert(key.end(), {literal ? 1u : 0u, literal ? value.literal.index : v.index, value.type.index});
    }
    for (const NamedAttr& a : withoutOrigin(m_, m_[o].attrs))
      key.insert(key.end(), {a.name.index, a.value.index});
    return key;
  }

  Module& m_;
  CostlyOps costly_;
  ByValue<OpId> readers_; // invalid: the block's terminator
  std::unordered_set<OpId> tables_;
  std::map<std::vector<uint32_t>, OpId> seen_;
  ValueMap map_;
};

} // namespace

void shareTables(Module& m, BlockId block) { TableSharer(m).run(block); }

} // namespace dtc
