#include "dtc/IR/text/UserLocation.h"

#include "dtc/IR/OpRecord.h"

namespace dtc {

static std::string ownLocation(const Module& m, OpId o) {
  auto text = [&](const char* name) {
    AttrId a = m.attr(o, name);
    return a.valid() && m.attrs[a].kind == Attr::String ? std::string(m.strings[m.attrs[a].text])
                                                        : std::string();
  };
  std::string location = text("loc"), name = text("name");
  if (location.empty() || name.empty()) return location + name;
  return location + " (" + name + ")";
}

std::string userLocation(const Module& m, OpId o) {
  if (!o.valid()) return "";
  std::string location = ownLocation(m, o);
  for (uint32_t r = 0; location.empty() && r < m[o].numRegions; ++r)
    forEachOp(m, m.region(o, r), [&](OpId inner) {
      if (location.empty()) location = ownLocation(m, inner);
    });
  return location;
}

} // namespace dtc
