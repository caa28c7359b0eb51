// Walks the blocks of a function. OpRecord::splitRows decides whether the rows of an op are long and appends
// the ops on their parts; readers get the combined results.
#include "split/SplitRows.h"
#include "analysis/ByValue.h"
#include "dtc/IR/build/Builder.h"
#include "dtc/Passes/analysis/Clone.h"

namespace dtc {
namespace {

class BlockSplitter {
public:
  BlockSplitter(Module& m, Diagnostics& diags, bool gpu) : m_(m), diags_(diags), gpu_(gpu) {}
  void runAll(BlockId block) {
    addReaders(block);
    readers_.group();
    run(block);
  }

private:
  void run(BlockId block);
  void addReaders(BlockId block);
  bool splitOp(OpId o, Builder& b);
  Module& m_;
  Diagnostics& diags_;
  bool gpu_;
  ValueMap map_;
  ByValue<OpId> readers_; // invalid: the block's terminator
};

void BlockSplitter::addReaders(BlockId block) {
  for (OpId o : m_[block].ops) {
    for (ValueId v : m_.operands(o)) readers_.add(v, o);
    for (uint32_t r = 0; r < m_[o].numRegions; ++r) addReaders(m_.region(o, r));
  }
  for (ValueId v : m_[block].yields) readers_.add(v, OpId());
}

bool BlockSplitter::splitOp(OpId o, Builder& b) {
  auto replace = [&](ValueId old, ValueId made) {
    if (!m_[made].name.valid()) m_[made].name = m_[old].name;
    map_.set(old, made);
  };
  const auto split = m_.record(o).splitRows;
  if (!split) return false;
  RowSplit use{gpu_, readers_.of(m_.result(o))};
  std::vector<ValueId> results;
  b.loc = m_[o].loc;
  if (!split(b, o, use, results)) return false;
  if (use.replacesReaders)
    for (OpId reader : use.readers) replace(m_.result(reader), results[0]);
  else
    for (uint32_t r = 0; r < results.size(); ++r) replace(m_.result(o, r), results[r]);
  return true;
}

void BlockSplitter::run(BlockId block) {
  std::vector<OpId> out;
  Builder b(m_, block, out, diags_);
  for (OpId o : std::vector<OpId>(m_[block].ops)) {
    if (m_[o].numResults == 1 && map_(m_.result(o)) != m_.result(o)) continue;
    for (ValueId& v : m_.operands(o)) v = map_(v);
    for (uint32_t r = 0; r < m_[o].numRegions; ++r)
      if (m_.record(o).regions != RegionKind::Fused) run(m_.region(o, r));
    if (!splitOp(o, b)) out.push_back(o);
  }
  m_[block].ops = std::move(out);
  for (ValueId& v : m_[block].yields) v = map_(v);
}

} // namespace

void splitRows(Module& m, BlockId block, bool gpu, Diagnostics& diags) {
  BlockSplitter(m, diags, gpu).runAll(block);
}

} // namespace dtc
