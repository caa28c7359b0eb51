#include "analysis/StageMarks.h"

#include <algorithm>

namespace dtc {

std::optional<int64_t> stageMarkOf(const Module& m, OpId o) {
  const StrId key = m.strings.find("stage");
  if (!key.valid()) return std::nullopt;
  if (const AttrId mark = findAttr(m[o].attrs, key); mark.valid()) return m.attrs[mark].i;
  std::optional<int64_t> all;
  for (uint32_t r = 0; r < m[o].numRegions; ++r)
    forEachOp(m, m.region(o, r), [&](OpId inner) {
      if (const AttrId mark = findAttr(m[inner].attrs, key); mark.valid())
        all = !all || *all == m.attrs[mark].i ? m.attrs[mark].i : -1;
    });
  return all;
}

int64_t numStageMarks(const Module& m, FuncId f) {
  const StrId key = m.strings.find("stage");
  int64_t count = 0;
  if (key.valid())
    forEachOp(m, m[f].body, [&](OpId o) {
      if (const AttrId mark = findAttr(m[o].attrs, key); mark.valid())
        count = std::max(count, m.attrs[mark].i + 1);
    });
  return count;
}

} // namespace dtc
