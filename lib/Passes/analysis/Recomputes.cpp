#include "dtc/Passes/analysis/Recomputes.h"

#include <algorithm>

namespace dtc {

constexpr std::string_view kRecomputes = "recomputes";

bool recomputes(const Module& m, FuncId f) {
  return std::ranges::any_of(m[f].attrs,
                             [&](const NamedAttr& a) { return m.strings[a.name] == kRecomputes; });
}

void setRecomputes(Module& m, FuncId f) {
  if (!recomputes(m, f)) m[f].attrs.push_back({m.strings.intern(kRecomputes), m.attrs.boolean(true)});
}

} // namespace dtc
