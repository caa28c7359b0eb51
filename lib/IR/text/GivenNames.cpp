#include "dtc/IR/text/GivenNames.h"

#include "dtc/IR/OpRecord.h"
#include "dtc/IR/text/TextNames.h"
#include "dtc/IR/text/UserLocation.h"

#include <algorithm>

namespace dtc {

std::vector<std::string> argumentNames(const Module& m, const FuncArg& a) {
  std::vector<std::string> out;
  const auto add = [&](std::string name) {
    if (!name.empty() && std::ranges::find(out, name) == out.end()) out.push_back(std::move(name));
  };
  const std::string text = nameAt(m.source, m[a.value].loc);
  add(text.empty() ? "" : text.substr(1));
  if (m[a.value].name.valid()) add(std::string(m.strings[m[a.value].name]));
  add(userName(m, a.attrs));
  return out;
}

template <class Fn> static void forEachValue(const Module& m, FuncId f, Fn&& fn) {
  for (const FuncArg& a : m[f].args) fn(a.value);
  forEachOp(m, m[f].body, [&](OpId o) {
    for (uint32_t r = 0; r < m[o].numResults; ++r) fn(m.result(o, r));
    for (uint32_t k = 0; k < m[o].numRegions; ++k)
      for (ValueId a : m[m.region(o, k)].args) fn(a);
  });
}

std::vector<ValueId> valuesNamed(const Module& m, FuncId f, std::string_view name) {
  std::vector<ValueId> written, printed;
  const TextNames texts(m);
  const Naming names(m, f);
  forEachValue(m, f, [&](ValueId v) {
    if (!texts.isGenerated(v) && texts(v) == name) written.push_back(v);
    if (names(v) == name) printed.push_back(v);
  });
  if (!written.empty()) return written;
  for (size_t r = 0; r < m[f].results.size() && printed.empty(); ++r)
    if (m[f].results[r].label.valid() && "%" + std::string(m.strings[m[f].results[r].label]) == name)
      printed.push_back(m[m[f].body].yields[r]);
  return printed;
}

std::string nameInText(const Module& m, FuncId f, const std::string& name) {
  const std::string bare = name.starts_with('%') ? name.substr(1) : name;
  const TextNames texts(m);
  const auto text = [&](std::string_view of) -> std::string {
    const std::vector<ValueId> values = valuesNamed(m, f, of);
    for (const FuncResult& r : m[f].results)
      if (r.label.valid() && "%" + std::string(m.strings[r.label]) == of) return std::string(of);
    return values.empty() ? "" : texts(values[0]);
  };
  if (std::string found = text("%" + bare); !found.empty()) return found;
  for (const FuncArg& a : m[f].args)
    if (userName(m, a.attrs) == bare) return texts(a.value);
  for (const FuncResult& r : m[f].results)
    if (userName(m, r.attrs) == bare && r.label.valid()) return "%" + std::string(m.strings[r.label]);
  std::string plain = bare; // "a.weight" is imported as "a_weight"
  std::ranges::replace(plain, '.', '_');
  return text("%" + plain);
}

std::string userNameBehind(const Module& m, const AttrList& attrs, std::string_view shown) {
  const std::string user = userName(m, attrs);
  return user.empty() || "%" + user == shown ? "" : " (" + user + ")";
}

} // namespace dtc
