#include "dtc/IR/UserPlace.h"

#include "dtc/IR/OpRecord.h"

namespace dtc {

namespace {

std::string ownPlace(const Module& m, OpId o) {
  auto text = [&](const char* name) {
    AttrId a = m.attr(o, name);
    return a.valid() && m.attrs[a].kind == Attr::String ? std::string(m.strings[m.attrs[a].text])
                                                        : std::string();
  };
  std::string place = text("loc"), name = text("name");
  if (place.empty() || name.empty()) return place + name;
  return place + " (" + name + ")";
}

} // namespace

std::string userPlace(const Module& m, OpId o) {
  if (!o.valid()) return "";
  std::string place = ownPlace(m, o);
  for (uint32_t r = 0; place.empty() && r < m[o].numRegions; ++r)
    forEachOp(m, m.region(o, r), [&](OpId inner) {
      if (place.empty()) place = ownPlace(m, inner);
    });
  return place;
}

} // namespace dtc
