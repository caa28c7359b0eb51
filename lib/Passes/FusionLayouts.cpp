// In which order a value lies in memory, by bytes. It is written once. Where a kernel reads it through a move (a transpose), one of
// the two strides: the reader, or, if the value is stored moved, the writer. So a value that nothing but one move of it reads is stored
// moved as soon as more bytes are read so than are written. A library's product and attention read strides at no cost; they do not
// count. A product also writes either order at no cost: a single reader is enough.
#include "FusionGroups.h"
#include <algorithm>

namespace dtc {

// Do all readers take the value by way of this move?
bool FusionGroups::onlyMovedBy(OpId move) const {
  for (ValueId v = m_.operand(move, 0); stateOf(v); v = m_.operand(OpId(m_[v].owner), 0)) {
    if (uses_.at(v.index) != 1) return false;
    const OpState* s = stateOf(v);
    if (s->group >= 0) return true;
    if (!s->form.compound) return false;
  }
  return false;
}

void FusionGroups::chooseLayouts() {
  const Readings all = readings();
  for (OpId o : m_[block_].ops) {
    OpState& s = state_[o.index];
    if (!s.form.compound || s.group >= 0 || m_[o].numResults != 1 || !onlyMovedBy(o)) continue;
    const ValueId moved = m_.result(o), source = sourceOf(moved).value;
    auto it = all.find(source.index);
    std::string_view kind;
    if (it == all.end() || !joinMove(o, kind) || kind == "view") continue;
    const auto maker = static_cast<uint32_t>(groupOf(source));
    std::vector<uint32_t> kernels; // that read it so
    bool apart = true;
    for (const Reading& r : it->second) {
      const int at = state_.at(r.reader.index).group;
      apart &= at >= 0 && at != static_cast<int>(maker) && r.moved;
      const auto g = static_cast<uint32_t>(at);
      const bool free = at >= 0 && (groups_[g].kind == "gemm" || groups_[g].kind == "attention");
      if (apart && !free && std::find(kernels.begin(), kernels.end(), g) == kernels.end())
        kernels.push_back(g);
    }
    if (!apart || kernels.size() < (groups_[maker].kind == "gemm" ? 1U : 2U)) continue;
    store(moved);
    s.chosen = true;
    for (const Reading& r : it->second)
      note(r.reader, moved, "stored as these read it: more bytes than are written");
  }
}

} // namespace dtc
