#include "program/StepLists.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace dtc {

static int64_t rootOf(const Leaders& parent, int64_t p) {
  while (parent[static_cast<size_t>(p)] != p) p = parent[static_cast<size_t>(p)];
  return p;
}

// Merges the leaders of devices that share a collective.
static void joinRendezvous(const Program& program, const StepList& steps, Leaders& leaders) {
  for (const Step& s : steps) {
    if (s.kind == ProgramStepKind::Cond)
      for (const StepList& branch : program.conds[s.index].branch) joinRendezvous(program, branch, leaders);
    if (s.kind == ProgramStepKind::While) {
      joinRendezvous(program, program.whiles[s.index].condition, leaders);
      joinRendezvous(program, program.whiles[s.index].body, leaders);
    }
    if (s.kind == ProgramStepKind::For) joinRendezvous(program, program.fors[s.index].body, leaders);
    if (s.kind == ProgramStepKind::Host) std::ranges::fill(leaders, 0); // a rendezvous of all devices
    if (s.kind != ProgramStepKind::Collective || !program.rendezvousSteps[s.index].plan.synchronizes())
      continue;
    for (const CollectiveGroup& g : program.rendezvousSteps[s.index].plan.groups)
      for (int64_t p : g.coordinates) {
        const int64_t a = rootOf(leaders, g.coordinates[0]), b = rootOf(leaders, p);
        leaders[static_cast<size_t>(std::max(a, b))] = std::min(a, b);
      }
  }
}

Leaders leadersIn(const Program& program, std::span<const StepList* const> lists) {
  Leaders leaders(static_cast<size_t>(program.mesh.numDevices()));
  std::iota(leaders.begin(), leaders.end(), 0);
  for (const StepList* list : lists) joinRendezvous(program, *list, leaders);
  for (int64_t& p : leaders) p = rootOf(leaders, p);
  return leaders;
}

// The broadcast is from the first device of each group: on a GPU, the last bit of a sum may differ between devices, and
// no process reads the memory of another.
std::optional<RendezvousStep> agreementIn(const Program& program, DeviceSlice here,
                                          std::initializer_list<const StepList*> lists, DType dtype) {
  const int64_t n = program.mesh.numDevices(), each = here.end - here.begin;
  if (here.begin == 0 && here.end >= n) return std::nullopt;
  const Leaders leaders = leadersIn(program, lists);
  bool any = false;
  for (int64_t p = 0; p < n; ++p) any = any || p / each != leaders[static_cast<size_t>(p)] / each;
  if (!any) return std::nullopt;
  RendezvousStep step;
  CollectivePlan& plan = step.plan;
  plan.kind = CollectiveKind::BroadcastFrom;
  plan.dtype = plan.commDType = dtype;
  plan.widths = {dtypeBytes(dtype)};
  std::map<int64_t, uint32_t> groups; // by leader
  for (int64_t p = 0; p < n; ++p) {
    const auto [at, isNew] =
        groups.try_emplace(leaders[static_cast<size_t>(p)], static_cast<uint32_t>(plan.groups.size()));
    if (isNew) plan.groups.emplace_back();
    CollectiveGroup& group = plan.groups[at->second];
    plan.groupOf.push_back(at->second);
    plan.memberOf.push_back(static_cast<uint32_t>(group.coordinates.size()));
    group.coordinates.push_back(p);
    CollectiveMember& member = group.members.emplace_back();
    member.blocks = {{.length = 1}};
    member.resultElements = {1};
    member.sentBytes = dtypeBytes(dtype);
  }
  return step;
}

// A step that cannot be captured ends the graph, and a graph must not end with a collective in flight: joins
// are inserted before such a step.
void joinBeforeGraphsEnd(Program& program, const GraphBackend& graphs, StepList& steps) {
  StepList out;
  std::vector<Step> open;
  for (const Step& s : steps) {
    const bool kept = s.kind != ProgramStepKind::Gemm ||
                      std::ranges::all_of(program.gemms[s.index].at, [&](const Backend::Placed& at) {
                        return at.parts == 0 || graphs.canKeep(at.step);
                      });
    if (!kept) out.insert(out.end(), open.begin(), open.end()), open.clear();
    if (s.kind == ProgramStepKind::Collective && program.rendezvousSteps[s.index].overlapped)
      open.push_back({ProgramStepKind::Join, *program.rendezvousSteps[s.index].overlapped, s.info});
    const auto joined = [&](const Step& j) { return s.kind == ProgramStepKind::Join && j.index == s.index; };
    const auto its = std::ranges::find_if(open, joined);
    if (s.kind == ProgramStepKind::Join && its == open.end()) continue; // already joined
    if (its != open.end()) open.erase(its);
    out.push_back(s);
    for (StepList* inner : innerLists(program, s)) joinBeforeGraphsEnd(program, graphs, *inner);
  }
  steps = std::move(out);
}

} // namespace dtc
