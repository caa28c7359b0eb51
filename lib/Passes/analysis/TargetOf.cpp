#include "dtc/Passes/analysis/TargetOf.h"

namespace dtc {

std::string writtenTarget(const Module& m, FuncId f) {
  const StrId key = m.strings.find("target");
  const AttrId named = key.valid() ? findAttr(m[f].attrs, key) : AttrId();
  return named.valid() ? std::string(m.strings[m.attrs[named].text]) : "";
}

Target targetOf(const Module& m, FuncId f) {
  auto target = targetNamed(writtenTarget(m, f));
  return target ? *target : Target();
}

} // namespace dtc
