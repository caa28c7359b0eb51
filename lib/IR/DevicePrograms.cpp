#include "dtc/IR/DevicePrograms.h"

#include "dtc/IR/LocalShape.h"
#include "dtc/IR/OpRecord.h"

#include <algorithm>

namespace dtc {

std::vector<int64_t> devicesOf(const Module& m, FuncId f) {
  const StrId key = m.strings.find("devices");
  const AttrId written = key.valid() ? findAttr(m[f].attrs, key) : AttrId();
  std::vector<int64_t> devices;
  if (written.valid())
    for (AttrId a : m.attrs[written].list) devices.push_back(m.attrs[a].i);
  return devices;
}

std::string devicesText(const Module& m, FuncId f) {
  std::string text;
  for (int64_t device : devicesOf(m, f)) text += (text.empty() ? "devices [" : ", ") + std::to_string(device);
  return text.empty() ? text : text + "]";
}

FuncId entryOfProgram(const Module& m, FuncId f) {
  const StrId key = m.strings.find("program");
  const AttrId written = key.valid() ? findAttr(m[f].attrs, key) : AttrId();
  return written.valid() ? m.findFunction(m.strings[m.attrs[written].text]) : f;
}

std::vector<FuncId> functionsOfProgram(const Module& m, FuncId entry) {
  std::vector<FuncId> functions = {entry};
  if (!devicesOf(m, entry).empty())
    for (FuncId f : m.order)
      if (f != entry && m[f].body.valid() && entryOfProgram(m, f) == entry) functions.push_back(f);
  return functions;
}

DevicePrograms programsOf(const Module& m, FuncId entry) {
  const Mesh mesh = meshValueOf(m, entry);
  DevicePrograms programs{functionsOfProgram(m, entry), {}};
  programs.of.assign(static_cast<size_t>(mesh.numDevices()), 0);
  for (uint32_t i = 0; i < programs.functions.size(); ++i)
    for (int64_t device : devicesOf(m, programs.functions[i])) {
      const auto at = std::ranges::find(mesh.devices, device);
      const auto coordinate =
          mesh.devices.empty() ? static_cast<size_t>(device) : static_cast<size_t>(at - mesh.devices.begin());
      if (coordinate < programs.of.size()) programs.of[coordinate] = i;
    }
  return programs;
}

std::string holdersText(const Module& m, const AttrList& attrs) {
  const StrId key = m.strings.find("devices");
  const AttrId listed = key.valid() ? findAttr(attrs, key) : AttrId();
  std::string text;
  if (listed.valid())
    for (AttrId a : m.attrs[listed].list) text += (text.empty() ? "[" : ", ") + std::to_string(m.attrs[a].i);
  return text.empty() ? text : text + "]";
}

std::vector<bool> holdersOf(const Module& m, const Mesh& mesh, const AttrList& attrs) {
  const auto count = static_cast<size_t>(mesh.numDevices());
  const StrId key = m.strings.find("devices");
  const AttrId written = key.valid() ? findAttr(attrs, key) : AttrId();
  std::vector<bool> holds(count, !written.valid());
  if (!written.valid()) return holds;
  for (AttrId a : m.attrs[written].list) {
    const auto at = std::ranges::find(mesh.devices, m.attrs[a].i);
    const auto coordinate = mesh.devices.empty() ? static_cast<size_t>(m.attrs[a].i)
                                                 : static_cast<size_t>(at - mesh.devices.begin());
    if (coordinate < count) holds[coordinate] = true;
  }
  return holds;
}

std::vector<AxisRef> axesOfOp(const Module& m, OpId o) {
  std::vector<AxisRef> axes;
  for (const AttrSpec& spec : m.record(o).attrs) {
    if (spec.type != AttrType::Axes) continue;
    AttrId id = m.attr(o, spec.name);
    if (!id.valid()) continue;
    for (AttrId e : m.attrs[id].list) {
      const Attr& a = m.attrs[e];
      axes.push_back(a.kind == Attr::Axis ? a.axis : AxisRef{a.text});
    }
  }
  return axes;
}

std::vector<P2pSend> sendsOf(const Module& m, OpId p2p) {
  std::vector<P2pSend> sends;
  const AttrId list = m.attr(p2p, "sends");
  if (!list.valid()) return sends;
  for (AttrId entry : m.attrs[list].list)
    if (const std::vector<AttrId>& n = m.attrs[entry].list;
        n.size() == 3) // else the verifier has reported it
      sends.push_back({static_cast<size_t>(m.attrs[n[0]].i), m.attrs[n[1]].i, m.attrs[n[2]].i});
  return sends;
}

std::vector<int64_t> rendezvousOf(const Module& m, OpId o, const Mesh& mesh, int64_t coordinate) {
  std::vector<AxisRef> axes = axesOfOp(m, o);
  for (AxisRef& a : axes) a = mesh.canonical(a);
  std::vector<int64_t> group = mesh.groupOf(axes, coordinate);
  if (m.record(o).collective != CollectiveKind::P2p) return group;
  std::vector<bool> named(group.size(), false);
  for (const P2pSend& s : sendsOf(m, o))
    for (const int64_t end : {s.from, s.to})
      if (end >= 0 && end < static_cast<int64_t>(named.size())) named[static_cast<size_t>(end)] = true;
  if (!named[static_cast<size_t>(mesh.indexAlong(axes, coordinate))]) return {coordinate};
  size_t kept = 0;
  for (size_t i = 0; i < group.size(); ++i)
    if (named[i]) group[kept++] = group[i];
  group.resize(kept);
  return group;
}

namespace {

// Whether one of these devices sends, or receives, each tensor of a `p2p`.
struct P2pEnds {
  P2pEnds(const Module& m, OpId o, const Mesh& mesh, std::span<const int64_t> coordinates)
      : sends(m[o].numOperands, false), receives(m[o].numOperands, false) {
    std::vector<AxisRef> axes = axesOfOp(m, o);
    for (AxisRef& a : axes) a = mesh.canonical(a);
    std::vector<bool> own(static_cast<size_t>(mesh.sizeOf(axes)), false);
    for (int64_t p : coordinates) own[static_cast<size_t>(mesh.indexAlong(axes, p))] = true;
    const auto isOwn = [&](int64_t index) {
      return index >= 0 && index < static_cast<int64_t>(own.size()) && own[static_cast<size_t>(index)];
    };
    for (const P2pSend& s : sendsOf(m, o)) {
      if (s.operand >= sends.size()) continue;
      if (isOwn(s.from)) sends[s.operand] = true;
      if (isOwn(s.to)) receives[s.operand] = true;
    }
  }
  std::vector<bool> sends, receives;
};

} // namespace

AbsentValues::AbsentValues(const Module& m, FuncId f) {
  if (devicesOf(m, f).empty() || !entryOfProgram(m, f).valid() || !meshOfFunction(m, f).valid()) return;
  const Mesh mesh = meshValueOf(m, f);
  const DevicePrograms programs = programsOf(m, entryOfProgram(m, f));
  const auto own = static_cast<size_t>(std::ranges::find(programs.functions, f) - programs.functions.begin());
  const std::vector<int64_t> coordinates = programs.coordinatesOf(own);
  const auto holds = [&](const AttrList& attrs) {
    const std::vector<bool> holders = holdersOf(m, mesh, attrs);
    return std::ranges::any_of(coordinates, [&](int64_t p) { return holders[static_cast<size_t>(p)]; });
  };
  std::unordered_set<ValueId> read;
  std::vector<ValueId> candidates;
  std::vector<std::pair<ValueId, ValueId>> handles; // a result of `done`, and the handle that it waits for
  for (const FuncArg& a : m[f].args)
    if (!holds(a.attrs)) candidates.push_back(a.value);
  forEachOp(m, m[f].body, [&](OpId o) {
    const bool p2p = m.record(o).collective == CollectiveKind::P2p && m.record(o).async != AsyncForm::Done;
    std::optional<P2pEnds> ends;
    if (p2p) ends.emplace(m, o, mesh, coordinates);
    for (size_t k = 0; k < m[o].numOperands; ++k) {
      if (m.record(o).async == AsyncForm::Done)
        handles.push_back({m.result(o, static_cast<uint32_t>(k)), m.operand(o, k)});
      else if (!ends || ends->sends[k])
        read.insert(m.operand(o, k));
    }
    for (uint32_t r = 0; r < m[o].numRegions; ++r)
      for (ValueId v : m[m.region(o, r)].yields) read.insert(v);
    const bool constant = m[o].numOperands == 0 && m[o].numRegions == 0 && !m.record(o).sideEffect;
    for (uint32_t r = 0; r < m[o].numResults; ++r)
      if (constant || (ends && !ends->receives[r])) candidates.push_back(m.result(o, r));
  });
  for (size_t r = 0; r < m[f].results.size(); ++r)
    if (holds(m[f].results[r].attrs)) read.insert(m[m[f].body].yields[r]);
  for (const auto& [result, handle] : handles)
    if (read.contains(result)) read.insert(handle);
  for (ValueId v : candidates)
    if (!read.contains(v)) absent_.insert(v);
  for (const auto& [result, handle] : handles)
    if (absent_.contains(handle)) absent_.insert(result);
}

std::vector<int64_t> DevicePrograms::coordinatesOf(size_t function) const {
  std::vector<int64_t> coordinates;
  for (size_t p = 0; p < of.size(); ++p)
    if (of[p] == function) coordinates.push_back(static_cast<int64_t>(p));
  return coordinates;
}

} // namespace dtc
