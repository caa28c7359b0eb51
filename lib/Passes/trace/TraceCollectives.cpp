#include "dtc/Passes/trace/TraceCollectives.h"

#include "analysis/Within.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/IR/verify/CommContract.h"
#include "dtc/Passes/analysis/Branches.h"
#include "dtc/Passes/analysis/OpWork.h"
#include "dtc/Passes/partition/Partition.h"
#include "dtc/Sharding/Reshard.h"
#include "dtc/Support/Checked.h"

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

class CollectiveList {
public:
  CollectiveList(const Module& m, const NominalMachine& machine) : m_(m), machine_(machine) {}
  // Counts one branch of each conditional.
  CollectiveList(Module& m, const NominalMachine& machine) : m_(m), machine_(machine), counted_(&m) {}

  // `slices`: takes each all_slice.
  std::vector<TracedCollective> run(std::vector<TracedCollective>* slices = nullptr) {
    slices_ = slices;
    for (FuncId f : m_.order) {
      if (!m_[f].spmd) continue;
      func_ = f;
      mesh_ = meshValueOf(m_, f);
      block(m_[f].body, 1, 1);
    }
    return std::move(out_);
  }

private:
  void block(BlockId b, std::optional<int64_t> times, int64_t counted) {
    for (OpId o : m_[b].ops) {
      const OpRecord& rec = m_.record(o);
      const bool moves = rec.async == AsyncForm::Start ||
                         (isContractCollective(rec) && rec.collective != CollectiveKind::AllSlice);
      if (moves)
        out_.push_back({o, func_, markedOps(m_, o), times, counted, priceOfCollective(m_, o, mesh_, machine_),
                        position_++});
      else if (slices_ && rec.collective == CollectiveKind::AllSlice)
        slices_->push_back({o, func_, markedOps(m_, o), times, counted,
                            priceOfCollective(m_, o, mesh_, machine_), position_++});
      for (uint32_t r = 0; r < m_[o].numRegions; ++r) {
        const std::optional<int64_t> iterations = isCounted(o, r) ? executionsOf(m_, o) : 0;
        block(m_.region(o, r),
              iterations == 0       ? 0
              : times && iterations ? checkedMul(*times, *iterations)
                                    : std::nullopt,
              iterations == 0 ? 0 : countedExecutions(m_, o, counted));
      }
    }
  }

  bool isCounted(OpId o, uint32_t region) const {
    if (!counted_ || m_.record(o).regions != RegionKind::Cond) return true;
    const std::vector<BlockId> counted = countedBlocks(*counted_, o, mesh_, machine_);
    return std::ranges::find(counted, m_.region(o, region)) != counted.end();
  }

  const Module& m_;
  const NominalMachine& machine_;
  Module* counted_ = nullptr;
  FuncId func_;
  Mesh mesh_;
  std::vector<TracedCollective> out_;
  std::vector<TracedCollective>* slices_ = nullptr;
  size_t position_ = 0;
};

// The symbols in the types of a function's values.
std::vector<std::string> symbolsOf(const Module& m, FuncId f) {
  std::vector<std::string> names;
  const auto see = [&](ValueId v) {
    if (!m[v].type.valid()) return;
    for (const Dim d : m.types[m[v].type].dims) {
      if (d.isStatic()) continue;
      for (const StrId s : m.dims.expr(d).symbols)
        if (const std::string name(m.strings[s]); std::ranges::find(names, name) == names.end())
          names.push_back(name);
    }
  };
  for (const FuncArg& a : m[f].args) see(a.value);
  forEachOp(m, m[f].body, [&](OpId o) {
    for (uint32_t i = 0; i < m[o].numResults; ++i) see(m.result(o, i));
  });
  return names;
}

// Replaces symbols in the types of values by the size that the planner assumes, so that costs are known.
void assumeSizes(Module& m) {
  for (size_t i = 0; i < m.values.size(); ++i) {
    if (!m.values[i].type.valid()) continue;
    Type t = m.types[m.values[i].type];
    bool changed = false;
    for (Dim& d : t.dims) {
      if (d.isStatic()) continue;
      DimExpr e = m.dims.expr(d);
      changed |= !e.symbols.empty();
      for (size_t s = 0; s < e.symbols.size(); ++s)
        e.coefficient = checkedMul(e.coefficient, kNominalSymbol).value_or(e.coefficient);
      e.symbols.clear();
      d = m.dims.intern(std::move(e));
    }
    if (changed) m.values[i].type = m.types.intern(std::move(t));
  }
}

} // namespace

std::vector<OpId> sourcesOf(const Module& local, OpId o) { return markedOps(local, o); }

std::vector<TracedCollective> collectivesOf(const Module& local, const NominalMachine& machine) {
  return CollectiveList(local, machine).run();
}

std::vector<TracedCollective> countedCollectivesOf(Module& local, const NominalMachine& machine) {
  return CollectiveList(local, machine).run();
}

std::optional<CollectiveTrace> traceCollectives(const Module& global, const PropagateOptions& propagation,
                                                const OptimizeCollectivesOptions& options, Diagnostics& diags,
                                                FuncId entry) {
  CollectiveTrace trace{global, Module(*global.registry), {}, {}, {}, {}};
  if (!propagate(trace.propagated, diags, &trace.report, propagation)) return std::nullopt;
  trace.local = trace.propagated;
  markOps(trace.local);
  if (!partition(trace.local, diags, {propagation.reduceDType}) ||
      !optimizeCollectives(trace.local, diags, options))
    return std::nullopt;
  trace.assumed = symbolsOf(trace.local, entry);
  assumeSizes(trace.local);
  trace.collectives = CollectiveList(trace.local, options.machine).run(&trace.slices);
  return trace;
}

} // namespace dtc
