#include "dtc/Passes/analysis/Collectives.h"

#include "dtc/Passes/analysis/OpWork.h"

#include "dtc/IR/LocalShape.h"
#include "dtc/Sharding/CommDType.h"
#include "dtc/Support/Checked.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace dtc {

// What each device receives from others; devices that receive nothing are missing.
static std::map<int64_t, int64_t> receivedBytes(const Module& m, AttrId sends,
                                                std::span<const int64_t> operandBytes) {
  std::map<int64_t, int64_t> byDevice;
  for (AttrId entry : m.attrs[sends].list) {
    const std::vector<AttrId>& n = m.attrs[entry].list;
    const int64_t from = m.attrs[n[1]].i, to = m.attrs[n[2]].i;
    if (from != to) byDevice[to] += operandBytes[static_cast<size_t>(m.attrs[n[0]].i)];
  }
  return byDevice;
}

int64_t maxReceivedBytes(const Module& m, OpId o, std::span<const int64_t> operandBytes) {
  const AttrId sends = m.attr(o, "sends");
  if (!sends.valid()) return std::reduce(operandBytes.begin(), operandBytes.end());
  int64_t max = 0;
  for (auto [device, bytes] : receivedBytes(m, sends, operandBytes)) max = std::max(max, bytes);
  return max;
}

static int64_t leastReceivedBytes(const Module& m, OpId o, int64_t numDevices,
                                  std::span<const int64_t> operandBytes) {
  const AttrId sends = m.attr(o, "sends");
  if (!sends.valid()) return maxReceivedBytes(m, o, operandBytes);
  const std::map<int64_t, int64_t> received = receivedBytes(m, sends, operandBytes);
  if (static_cast<int64_t>(received.size()) < numDevices) return 0;
  int64_t least = INT64_MAX;
  for (auto [device, bytes] : received) least = std::min(least, bytes);
  return least;
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

std::vector<AxisRef> collectiveAxes(const Module& m, OpId o) {
  return m.attr(o, "axes").valid() ? axesOf(m, o) : std::vector<AxisRef>();
}

// Bytes of one element.
static int64_t commElementBytes(const Module& m, OpId o, DType dtype) {
  if (const AttrId commDType = m.attr(o, "wire"); commDType.valid())
    if (const auto written = parseDType(m.strings[m.attrs[commDType].text]))
      return dtypeBytes(*written) * (isComplex(dtype) ? 2 : 1);
  if (!reduces(m.record(o).collective)) return commBytes(PendingKind::None, dtype);
  const AttrId op = m.attr(o, "op");
  const auto kind = op.valid() ? parsePendingKind(m.strings[m.attrs[op].text]) : PendingKind::Sum;
  return commBytes(kind.value_or(PendingKind::Sum), dtype);
}

StepKind stepOf(CollectiveKind kind) {
  switch (kind) {
  case CollectiveKind::AllReduce: return StepKind::AllReduce;
  case CollectiveKind::AllGather: return StepKind::AllGather;
  case CollectiveKind::AllSlice: return StepKind::AllSlice;
  case CollectiveKind::ReduceScatter: return StepKind::ReduceScatter;
  case CollectiveKind::AllToAll: return StepKind::AllToAll;
  default: return StepKind::Permute;
  }
}

// Elements that a device receives by an all_gather or all_to_all: of the result, those that its operand lacks. Empty
// if a size is unknown.
static std::optional<int64_t> elementsReceived(const Module& m, OpId o, const Mesh& mesh, int64_t device) {
  int64_t sum = 0;
  for (uint32_t r = 0; r < m[o].numResults; ++r) {
    const auto in = shapeAt(m, m[m.operand(o, r)].type, mesh, device);
    const auto out = shapeAt(m, m[m.result(o, r)].type, mesh, device);
    if (!in || !out || in->size() != out->size()) return std::nullopt;
    int64_t all = 1, own = 1;
    for (size_t d = 0; d < out->size(); ++d) all *= (*out)[d], own *= std::min((*in)[d], (*out)[d]);
    sum += all - own;
  }
  return sum;
}

static bool hasUnevenShards(const Module& m, OpId o, const Mesh& mesh) {
  const auto isUneven = [&](ValueId v) {
    return std::ranges::any_of(m.types[m[v].type].dims, [&](Dim d) {
      if (d.isStatic()) return false;
      const DimExpr& e = m.dims.dynamic(d);
      return e.symbols.empty() && e.coefficient % mesh.sizeOf(e.axes) != 0;
    });
  };
  for (uint32_t r = 0; r < m[o].numResults; ++r)
    if (isUneven(m.result(o, r))) return true;
  return std::ranges::any_of(m.operands(o), isUneven);
}

// With uneven shards, the device of the smallest receives most. `elementBytes`: as sent.
static void receiveUnevenly(const Module& m, OpId o, const Mesh& mesh, int64_t elementBytes,
                            const NominalMachine& machine, CollectivePrice& price) {
  const CollectiveKind kind = m.record(o).collective;
  if (kind != CollectiveKind::AllGather && kind != CollectiveKind::AllToAll) return;
  constexpr int64_t kMostDevices = 4096; // of larger meshes, one shard is a small part of the result
  if (mesh.numDevices() > kMostDevices) return;
  if (m[o].numResults != m.operands(o).size() || !hasUnevenShards(m, o, mesh)) return;
  int64_t most = 0, least = INT64_MAX;
  for (int64_t device = 0; device < mesh.numDevices(); ++device) {
    const auto received = elementsReceived(m, o, mesh, device);
    if (!received) return;
    most = std::max(most, *received), least = std::min(least, *received);
  }
  const auto bytes = checkedMul(most, elementBytes);
  if (!bytes) return;
  const CollectivePrice sent =
      priceOf(StepKind::Permute, collectiveAxes(m, o), *bytes, *bytes, mesh, machine);
  price.bytesReceived = *bytes;
  price.seconds = price.latencySeconds + sent.seconds - sent.latencySeconds;
  price.differs = least != most;
}

std::optional<CollectivePrice> priceOfCollective(const Module& m, OpId o, const Mesh& mesh,
                                                 const NominalMachine& machine) {
  const StepKind kind = stepOf(m.record(o).collective);
  int64_t in = 0, out = 0;
  std::vector<int64_t> operands;
  for (ValueId v : m.operands(o)) {
    const std::optional<int64_t> bytes = largestBytes(m, m[v].type, mesh);
    const std::optional<int64_t> sum = bytes ? checkedAdd(in, *bytes) : std::nullopt;
    if (!sum) return std::nullopt;
    in = *sum;
    operands.push_back(*bytes);
  }
  if (m.record(o).collective == CollectiveKind::P2p) {
    const int64_t received = maxReceivedBytes(m, o, operands);
    CollectivePrice price = priceOf(kind, collectiveAxes(m, o), received, received, mesh, machine);
    price.differs = leastReceivedBytes(m, o, mesh.sizeOf(collectiveAxes(m, o)), operands) != received;
    return price;
  }
  for (uint32_t r = 0; r < m[o].numResults; ++r) {
    const std::optional<int64_t> bytes = largestBytes(m, m[m.result(o, r)].type, mesh);
    const std::optional<int64_t> sum = bytes ? checkedAdd(out, *bytes) : std::nullopt;
    if (!sum) return std::nullopt;
    out = *sum;
  }
  const DType dtype = m.typeOf(m.operand(o, 0)).dtype;
  const int64_t held = dtypeBytes(dtype), sent = commElementBytes(m, o, dtype);
  in = in / held * sent, out = out / held * sent;
  CollectivePrice price = priceOf(kind, collectiveAxes(m, o), in, out, mesh, machine);
  receiveUnevenly(m, o, mesh, sent, machine, price);
  return price;
}

double nominalSeconds(Module& m, OpId o, const Mesh& mesh) {
  const NominalMachine machine;
  if (sendsMessages(m.record(o).collective)) {
    const auto price = priceOfCollective(m, o, mesh, machine);
    return price ? price->seconds : 0;
  }
  const auto work = localWork(m, o, mesh);
  return work ? work->seconds(machine) : 0;
}

} // namespace dtc
