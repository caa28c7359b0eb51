#include "dtc/IR/text/UserLocation.h"

#include "dtc/IR/OpRecord.h"

namespace dtc {

static std::string stringAttr(const Module& m, const AttrList& attrs, std::string_view name) {
  const StrId key = m.strings.find(name);
  const AttrId a = key.valid() ? findAttr(attrs, key) : AttrId();
  return a.valid() && m.attrs[a].kind == Attr::String ? std::string(m.strings[m.attrs[a].text]) : "";
}

static UserPlace ownPlace(const Module& m, OpId o) {
  return {stringAttr(m, m[o].attrs, "loc"), stringAttr(m, m[o].attrs, "name")};
}

UserPlace userPlace(const Module& m, OpId o) {
  if (!o.valid()) return {};
  UserPlace place = ownPlace(m, o);
  for (uint32_t r = 0; place.empty() && r < m[o].numRegions; ++r)
    forEachOp(m, m.region(o, r), [&](OpId inner) {
      if (place.empty()) place = ownPlace(m, inner);
    });
  return place;
}

std::string userLocation(const Module& m, OpId o) {
  const UserPlace place = userPlace(m, o);
  if (place.file.empty() || place.path.empty()) return place.file + place.path;
  return place.file + " (" + place.path + ")";
}

std::string userName(const Module& m, const AttrList& attrs) { return stringAttr(m, attrs, "name"); }

} // namespace dtc
