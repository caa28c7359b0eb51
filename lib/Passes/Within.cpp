#include "Within.h"

#include <algorithm>

namespace dtc {

namespace {

AttrId stringsAttr(Module& m, std::span<const std::string> texts) {
  Attr list;
  list.kind = Attr::List;
  for (const std::string& s : texts) list.list.push_back(m.attrs.string(m.strings.intern(s)));
  return m.attrs.intern(std::move(list));
}

std::vector<std::string> texts(const Module& m, AttrId list) {
  std::vector<std::string> out;
  if (list.valid())
    for (AttrId a : m.attrs[list].list) out.emplace_back(m.strings[m.attrs[a].text]);
  return out;
}

// "layer.2", where the caller has taken over contracts of two calls of @layer.
std::string nameOfCall(const std::vector<std::string>& taken, const std::string& base,
                       std::string_view callee) {
  for (size_t n = 0;; ++n) {
    std::string name = base + std::string(callee) + "." + std::to_string(n);
    if (std::ranges::none_of(taken, [&](const std::string& c) {
          return c.starts_with(name) && (c[name.size()] == ':' || c[name.size()] == '/');
        }))
      return name;
  }
}

} // namespace

AttrList withinOf(const Module& m, OpId o) {
  const StrId name = m.strings.find("within");
  const AttrId value = name.valid() ? findAttr(m[o].attrs, name) : AttrId();
  return value.valid() ? AttrList{{name, value}} : AttrList();
}

std::vector<std::string_view> withinPaths(const Module& m, OpId o) {
  std::vector<std::string_view> out;
  for (const NamedAttr& a : withinOf(m, o))
    for (AttrId e : m.attrs[a.value].list) out.push_back(m.strings[m.attrs[e].text]);
  return out;
}

void setWithin(Module& m, OpId o, std::span<const std::string> paths) {
  const StrId name = m.strings.intern("within");
  if (paths.empty())
    std::erase_if(m[o].attrs, [&](const NamedAttr& a) { return a.name == name; });
  else
    m.setAttr(o, "within", stringsAttr(m, paths));
}

void addWithin(Module& m, OpId to, const AttrList& from) {
  for (const NamedAttr& a : from) {
    std::vector<std::string> paths;
    for (std::string_view p : withinPaths(m, to)) paths.emplace_back(p);
    for (const std::string& p : texts(m, a.value))
      if (std::ranges::find(paths, p) == paths.end()) paths.push_back(p);
    setWithin(m, to, paths);
  }
}

AttrList withoutWithin(const Module& m, const AttrList& attrs) {
  const StrId name = m.strings.find("within");
  AttrList out = attrs;
  if (name.valid()) std::erase_if(out, [&](const NamedAttr& a) { return a.name == name; });
  return out;
}

void enterCall(Module& m, FuncId caller, OpId call, FuncId callee, std::span<const OpId> ops) {
  const StrId comm = m.strings.find("comm");
  const AttrId promised = comm.valid() ? findAttr(m[callee].attrs, comm) : AttrId();
  if (!promised.valid() || m.attrs[promised].list.empty()) return;
  const AttrId own = findAttr(m[caller].attrs, comm);
  std::vector<std::string> contracts = texts(m, own);
  const std::vector<std::string_view> around = withinPaths(m, call);
  const std::string base = around.empty() ? "" : std::string(around[0]) + "/";
  const std::string name = nameOfCall(contracts, base, m.strings[m[callee].name]);
  auto enter = [&](OpId o) {
    std::vector<std::string> paths;
    for (std::string_view p : withinPaths(m, o)) paths.push_back(name + "/" + std::string(p));
    if (paths.empty()) paths.push_back(name);
    setWithin(m, o, paths);
  };
  for (OpId o : ops) {
    enter(o);
    for (uint32_t r = 0; r < m[o].numRegions; ++r) forEachOp(m, m.region(o, r), enter);
  }
  for (const std::string& c :
       texts(m, promised)) // "layer.0: none" of the callee is "block.0/layer.0: none" here
    contracts.push_back(name + (c.find(':') == std::string::npos ? ": " : "/") + c);
  const AttrId all = stringsAttr(m, contracts);
  if (!own.valid()) {
    m[caller].attrs.push_back({comm, all});
    return;
  }
  for (NamedAttr& a : m[caller].attrs)
    if (a.name == comm) a.value = all;
}

} // namespace dtc
