#include "analysis/Within.h"

#include "dtc/IR/Phase.h"
#include "dtc/IR/verify/CommContract.h"

#include <algorithm>

namespace dtc {

static AttrId stringsAttr(Module& m, std::span<const std::string> texts) {
  std::vector<AttrId> list;
  for (const std::string& s : texts) list.push_back(m.attrs.string(m.strings.intern(s)));
  return m.attrs.list(std::move(list));
}

static std::vector<std::string> texts(const Module& m, AttrId list) {
  std::vector<std::string> out;
  if (list.valid())
    for (AttrId a : m.attrs[list].list) out.emplace_back(m.strings[m.attrs[a].text]);
  return out;
}

// "block.0/layer.1" within "block.0" is "block.0/layer.1.grad".
static std::string gradientPath(std::string_view path, std::span<const std::string> taker) {
  size_t at = 0; // the common prefix with the taker's calls
  for (const std::string& t : taker)
    if (path.starts_with(t) && path.size() > t.size() && path[t.size()] == '/')
      at = std::max(at, t.size() + 1);
  std::string out(path.substr(0, at));
  while (at < path.size()) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string_view call = path.substr(at, end - at);
    if (!out.empty() && out.back() != '/') out += '/';
    out += call;
    if (!call.ends_with(kGradientOfCall)) out += kGradientOfCall;
    at = end + 1;
  }
  return out;
}

// "layer.2", if the caller already has contracts of two calls of @layer.
static std::string nameOfCall(const std::vector<std::string>& taken, const std::string& base,
                              std::string_view callee) {
  for (size_t n = 0;; ++n) {
    std::string name = base + std::string(callee) + "." + std::to_string(n);
    if (std::ranges::none_of(taken, [&](const std::string& c) {
          return c.starts_with(name) &&
                 std::string_view(":/.").find(c[name.size()]) != std::string_view::npos;
        }))
      return name;
  }
}

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

static constexpr std::string_view kInherited[] = {"within", "name",       "loc",   "stage",
                                                  "phase",  "microbatch", "frozen"};
static constexpr size_t kOrigin = 3; // the first of them: where an op comes from, not what it computes

static bool isOneOf(const Module& m, const NamedAttr& a, std::span<const std::string_view> names) {
  return std::ranges::find(names, m.strings[a.name]) != names.end();
}

AttrList inheritedAttrs(const Module& m, OpId o) {
  AttrList out = m[o].attrs;
  std::erase_if(out, [&](const NamedAttr& a) { return !isOneOf(m, a, kInherited); });
  return out;
}

AttrList withoutOrigin(const Module& m, const AttrList& attrs) {
  AttrList out = attrs;
  std::erase_if(out, [&](const NamedAttr& a) { return isOneOf(m, a, std::span(kInherited, kOrigin)); });
  return out;
}

AttrList gradientAttrs(Module& m, OpId forward, const AttrList& taker) {
  AttrList attrs = gradientWithin(m, forward, taker);
  const StrId stage = m.strings.find("stage");
  if (const AttrId mark = stage.valid() ? findAttr(m[forward].attrs, stage) : AttrId(); mark.valid()) {
    attrs.push_back({stage, mark});
    attrs.push_back(
        {m.strings.intern("phase"), m.attrs.string(m.strings.intern(phaseWord(PipelinePhase::Backward)))});
  }
  return attrs;
}

AttrList gradientWithin(Module& m, OpId forward, const AttrList& taker) {
  const StrId name = m.strings.find("within");
  if (!name.valid()) return {}; // no function has a contract
  std::vector<std::string> of;
  if (!taker.empty()) of = texts(m, taker[0].value);
  std::vector<std::string> paths = of;
  for (std::string_view p : withinPaths(m, forward))
    if (std::ranges::find(of, p) == of.end()) paths.push_back(gradientPath(p, of));
  return paths.empty() ? AttrList() : AttrList{{name, stringsAttr(m, paths)}};
}

void markRecomputed(Module& m, OpId o, const AttrList& taker) {
  auto mark = [&](OpId made) {
    const AttrList within = gradientWithin(m, made, taker);
    setWithin(m, made, {});
    m[made].attrs.insert(m[made].attrs.end(), within.begin(), within.end());
    const StrId stage = m.strings.find("stage");
    if (stage.valid() && findAttr(m[made].attrs, stage).valid())
      m.setAttr(made, "phase", m.attrs.string(m.strings.intern(phaseWord(PipelinePhase::Backward))));
  };
  mark(o);
  for (uint32_t r = 0; r < m[o].numRegions; ++r) forEachOp(m, m.region(o, r), mark);
}

void enterCall(Module& m, FuncId caller, OpId call, FuncId callee, std::span<const OpId> ops) {
  const StrId comm = m.strings.find("comm");
  if (!comm.valid()) return; // no function has a contract
  const AttrId promised = findAttr(m[callee].attrs, comm), own = findAttr(m[caller].attrs, comm);
  const std::vector<std::string> callees = texts(m, promised);
  std::vector<std::string> contracts = texts(m, own), around;
  for (std::string_view p : withinPaths(m, call)) around.emplace_back(p);
  const std::string base = around.empty() ? "" : around[0] + "/";
  const std::string name =
      callees.empty() ? std::string() : nameOfCall(contracts, base, m.strings[m[callee].name]);
  auto enter = [&](OpId o) {
    std::vector<std::string> paths;
    for (std::string_view p : withinPaths(m, o)) paths.push_back(name + "/" + std::string(p));
    if (paths.empty() && !name.empty()) paths.push_back(name);
    paths.insert(paths.end(),
                 around.begin() + (name.empty() ? 0 : std::min<ptrdiff_t>(1, std::ssize(around))),
                 around.end());
    setWithin(m, o, paths);
  };
  for (OpId o : ops) {
    enter(o);
    for (uint32_t r = 0; r < m[o].numRegions; ++r) forEachOp(m, m.region(o, r), enter);
  }
  if (callees.empty()) return;
  // "layer.0: none" of the callee is "block.0/layer.0: none" here, "grad: none" is "block.0.grad: none".
  for (const std::string& c : callees) {
    const bool ofGradient =
        c.starts_with(CommContract::kGradient) && c.find(':') == CommContract::kGradient.size();
    contracts.push_back(name + (ofGradient ? "." : c.find(':') == std::string::npos ? ": " : "/") + c);
  }
  const AttrId all = stringsAttr(m, contracts);
  if (!own.valid()) {
    m[caller].attrs.push_back({comm, all});
    return;
  }
  for (NamedAttr& a : m[caller].attrs)
    if (a.name == comm) a.value = all;
}

} // namespace dtc
