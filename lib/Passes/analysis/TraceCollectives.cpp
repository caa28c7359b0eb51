#include "dtc/Passes/analysis/TraceCollectives.h"

#include "analysis/Collectives.h"
#include "analysis/Within.h"
#include "dtc/IR/Region.h"
#include "dtc/IR/verify/CommContract.h"
#include "dtc/IR/verify/LocalShape.h"
#include "dtc/Passes/partition/Partition.h"
#include "dtc/Sharding/CommDType.h"
#include "dtc/Support/Checked.h"

#include <algorithm>
#include <charconv>

namespace dtc {

namespace {

// A `within` path that identifies an op of the propagated program: "#17".
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

// The execution count of an op's blocks.
std::optional<int64_t> executionsOf(const Module& m, OpId loop) {
  const RegionKind kind = m.record(loop).regions;
  if (kind == RegionKind::For) {
    const std::optional<Dim> iterations = iterationCount(m, loop);
    return iterations && iterations->isStatic() ? std::optional(iterations->value()) : std::nullopt;
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
                         (isContractCollective(rec) && rec.collective != CollectiveKind::AllSlice);
      if (moves)
        out_.push_back({o, func_, markedOps(m_, o), times, priceOfCollective(m_, o, mesh_, machine_)});
      for (uint32_t r = 0; r < m_[o].numRegions; ++r) {
        const std::optional<int64_t> iterations = executionsOf(m_, o);
        block(m_.region(o, r), times && iterations ? checkedMul(*times, *iterations) : std::nullopt);
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
    return priceOf(kind, collectiveAxes(m, o), received, received, mesh, machine);
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
