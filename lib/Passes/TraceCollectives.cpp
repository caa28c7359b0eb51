#include "dtc/Passes/TraceCollectives.h"

#include "Collectives.h"
#include "Within.h"
#include "dtc/IR/CommContract.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/IR/Region.h"
#include "dtc/Passes/Partition.h"
#include "dtc/Sharding/Wire.h"
#include "dtc/Support/Checked.h"

#include <algorithm>
#include <charconv>

namespace dtc {

namespace {

// A path of `within` that names an op of the propagated program: "#17".
constexpr char kOpMark = '#';

void markOps(Module& m) {
  const auto count = static_cast<uint32_t>(m.ops.size());
  for (uint32_t i = 0; i < count; ++i) {
    const OpId o(i);
    std::vector<std::string> paths;
    for (std::string_view p : withinPaths(m, o)) paths.emplace_back(p);
    paths.push_back(kOpMark + std::to_string(i));
    setWithin(m, o, paths);
  }
}

std::vector<OpId> markedOps(const Module& m, OpId o) {
  std::vector<OpId> out;
  for (std::string_view p : withinPaths(m, o)) {
    if (!p.starts_with(kOpMark)) continue;
    uint32_t id = 0;
    std::from_chars(p.data() + 1, p.data() + p.size(), id);
    out.push_back(OpId(id));
  }
  std::ranges::sort(out, {}, &OpId::index);
  return out;
}

// How often the blocks of an op run.
std::optional<int64_t> tripsOf(const Module& m, OpId loop) {
  const RegionKind kind = m.record(loop).regions;
  if (kind == RegionKind::For) {
    const std::optional<Dim> trips = tripCount(m, loop);
    return trips && trips->isStatic() ? std::optional(trips->value()) : std::nullopt;
  }
  return kind == RegionKind::While ? std::nullopt : std::optional<int64_t>(1);
}

class CollectiveList {
public:
  CollectiveList(const Module& m, const NominalMachine& machine) : m_(m), machine_(machine) {}

  std::vector<TracedCollective> run() {
    for (FuncId f : m_.order) {
      if (!m_[f].spmd) continue;
      func_ = f;
      mesh_ = meshValueOf(m_, f);
      block(m_[f].body, 1);
    }
    return std::move(out_);
  }

private:
  void block(BlockId b, std::optional<int64_t> times) {
    for (OpId o : m_[b].ops) {
      const OpRecord& rec = m_.record(o);
      const bool moves = rec.async == AsyncForm::Start ||
                         (isContractCollective(rec) && collectiveName(m_, o) != "all_slice");
      if (moves)
        out_.push_back({o, func_, markedOps(m_, o), times, priceOfCollective(m_, o, mesh_, machine_)});
      for (uint32_t r = 0; r < m_[o].numRegions; ++r) {
        const std::optional<int64_t> trips = tripsOf(m_, o);
        block(m_.region(o, r), times && trips ? checkedMul(*times, *trips) : std::nullopt);
      }
    }
  }

  const Module& m_;
  const NominalMachine& machine_;
  FuncId func_;
  Mesh mesh_;
  std::vector<TracedCollective> out_;
};

} // namespace

std::string_view collectiveName(const Module& m, OpId o) {
  std::string_view name = m.record(o).name;
  if (name.ends_with("_start")) name.remove_suffix(6);
  return name;
}

std::vector<AxisRef> collectiveAxes(const Module& m, OpId o) {
  return m.attr(o, "axes").valid() ? axesOf(m, o) : std::vector<AxisRef>();
}

// Of one element.
static int64_t bytesOnWire(const Module& m, OpId o, DType dtype) {
  if (const AttrId wire = m.attr(o, "wire"); wire.valid())
    if (const auto written = parseDType(m.strings[m.attrs[wire].text]))
      return dtypeBytes(*written) * (isComplex(dtype) ? 2 : 1);
  const std::string_view name = collectiveName(m, o);
  if (name != "all_reduce" && name != "reduce_scatter") return wireBytes(PendingKind::None, dtype);
  const AttrId op = m.attr(o, "op");
  const auto kind = op.valid() ? parsePendingKind(m.strings[m.attrs[op].text]) : PendingKind::Sum;
  return wireBytes(kind.value_or(PendingKind::Sum), dtype);
}

std::optional<CollectivePrice> priceOfCollective(const Module& m, OpId o, const Mesh& mesh,
                                                 const NominalMachine& machine) {
  static constexpr std::pair<std::string_view, StepKind> kKinds[] = {
      {"all_reduce", StepKind::AllReduce}, {"all_gather", StepKind::AllGather},
      {"all_slice", StepKind::AllSlice},   {"reduce_scatter", StepKind::ReduceScatter},
      {"all_to_all", StepKind::AllToAll},
  };
  const std::string_view name = collectiveName(m, o);
  StepKind kind = StepKind::Permute; // permute, p2p, broadcast_from: a message for each operand
  for (auto [known, step] : kKinds)
    if (known == name) kind = step;
  int64_t in = 0, out = 0;
  std::vector<int64_t> operands;
  for (ValueId v : m.operands(o)) {
    const std::optional<int64_t> bytes = largestBytes(m, m[v].type, mesh);
    const std::optional<int64_t> sum = bytes ? checkedAdd(in, *bytes) : std::nullopt;
    if (!sum) return std::nullopt;
    in = *sum;
    operands.push_back(*bytes);
  }
  if (name == "p2p") {
    const int64_t received = mostReceived(m, o, operands);
    return priceOf(kind, collectiveAxes(m, o), received, received, mesh, machine);
  }
  for (uint32_t r = 0; r < m[o].numResults; ++r) {
    const std::optional<int64_t> bytes = largestBytes(m, m[m.result(o, r)].type, mesh);
    const std::optional<int64_t> sum = bytes ? checkedAdd(out, *bytes) : std::nullopt;
    if (!sum) return std::nullopt;
    out = *sum;
  }
  const DType dtype = m.typeOf(m.operand(o, 0)).dtype;
  const int64_t held = dtypeBytes(dtype), sent = bytesOnWire(m, o, dtype);
  in = in / held * sent, out = out / held * sent;
  return priceOf(kind, collectiveAxes(m, o), in, out, mesh, machine);
}

std::vector<TracedCollective> collectivesOf(const Module& local, const NominalMachine& machine) {
  return CollectiveList(local, machine).run();
}

std::optional<CollectiveTrace> traceCollectives(const Module& global, const PropagateOptions& propagation,
                                                const OptimizeCollectivesOptions& options,
                                                Diagnostics& diags) {
  CollectiveTrace trace{global, Module(*global.registry), {}, {}};
  if (!propagate(trace.propagated, diags, &trace.report, propagation)) return std::nullopt;
  trace.local = trace.propagated;
  markOps(trace.local);
  if (!partition(trace.local, diags, {propagation.reduceDType}) ||
      !optimizeCollectives(trace.local, diags, options))
    return std::nullopt;
  trace.collectives = collectivesOf(trace.local, options.machine);
  return trace;
}

} // namespace dtc
