#include "dtc/Passes/collectives/OptimizeCollectives.h"
#include "analysis/Collectives.h"
#include "dtc/IR/DevicePrograms.h"
#include "dtc/Passes/collectives/CommContracts.h"
#include <map>
#include <numeric>

namespace dtc {

int64_t maxReceivedBytes(const Module& m, OpId o, std::span<const int64_t> operandBytes) {
  const AttrId sends = m.attr(o, "sends");
  if (!sends.valid()) return std::reduce(operandBytes.begin(), operandBytes.end());
  std::map<int64_t, int64_t> byDevice;
  for (AttrId entry : m.attrs[sends].list) {
    const std::vector<AttrId>& n = m.attrs[entry].list;
    const int64_t from = m.attrs[n[1]].i, to = m.attrs[n[2]].i;
    if (from != to) byDevice[to] += operandBytes[static_cast<size_t>(m.attrs[n[0]].i)];
  }
  int64_t max = 0;
  for (auto [device, bytes] : byDevice) max = std::max(max, bytes);
  return max;
}

std::vector<AxisRef> axesOf(const Module& m, OpId o) {
  std::vector<AxisRef> axes;
  for (AttrId id : m.attrs[m.attr(o, "axes")].list) {
    const Attr& a = m.attrs[id];
    axes.push_back(a.kind == Attr::Axis ? a.axis : AxisRef{a.text});
  }
  return axes;
}

int64_t dimOf(const Module& m, OpId o, std::string_view name) {
  const int64_t d = m.attrs[m.attr(o, name)].i;
  return d < 0 ? d + static_cast<int64_t>(m.typeOf(m.operand(o, 0)).rank()) : d;
}

AttrId reductionOf(Module& m, OpId o) {
  const AttrId written = m.attr(o, "op");
  return written ? written : m.attrs.string(m.strings.intern("sum"));
}

bool optimizeCollectives(Module& m, Diagnostics& diags, const OptimizeCollectivesOptions& options) {
  std::vector<FuncId> functions;
  for (FuncId f : m.order)
    if (m[f].spmd && devicesOf(m, f).empty()) functions.push_back(f); // others must keep matching
  if (options.hoist) hoistCollectives(m, functions, diags);
  while (joinCollectives(m, functions, diags)) {}
  if (options.bucket)
    for (FuncId f : functions) bucketCollectives(m, f, options, diags);
  return !diags.hasErrors();
}

bool optimizeCollectivesPass(Module& m, const PassOptions& written, Diagnostics& diags) {
  OptimizeCollectivesOptions options;
  options.hoist = written.flag("hoist", true);
  options.bucket = written.word("bucket", "auto") != "off";
  options.bucketBytes = written.integer("bucket").value_or(options.bucketBytes);
  if (!optimizeCollectives(m, diags, options)) return false;
  return checkCommContracts(m, options, written.unpropagated, diags);
}

} // namespace dtc
