#include "dtc/IR/DevicePrograms.h"

#include "dtc/IR/LocalShape.h"

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

std::vector<int64_t> DevicePrograms::coordinatesOf(size_t function) const {
  std::vector<int64_t> coordinates;
  for (size_t p = 0; p < of.size(); ++p)
    if (of[p] == function) coordinates.push_back(static_cast<int64_t>(p));
  return coordinates;
}

} // namespace dtc
