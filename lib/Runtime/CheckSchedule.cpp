// Loader's last sweep before anything is compiled: does every device issue the same collectives in the same order?
#include "Loader.h"

#include "dtc/IR/Varying.h"
#include "dtc/Runtime/RankSchedule.h"

namespace dtc {

namespace {

// The schedules of all devices, read off the loaded steps; a loop's body once, both branches of a `cond` one after the
// other, for those who meet in one take the same (which is checked on the way).
class ScheduleReader {
public:
  ScheduleReader(const Module& m, FuncId f, const Program& program)
      : m_(m), program_(program), varying_(m, f), ranks_(static_cast<size_t>(program.mesh.numDevices())) {}

  // What decides over meetings, and differs between devices that meet there.
  struct Parting {
    OpId control;
    ValueId decides;
    OpId meeting;
    int64_t places[2] = {0, 0};
  };

  [[nodiscard]] std::optional<Parting> read(const StepList& steps) {
    for (const Step& s : steps) {
      if (s.kind == StepKind::Collective || s.kind == StepKind::Host)
        if (auto parting = meeting(program_.meetings[s.index])) return parting;
      if (auto parting = control(s)) return parting;
    }
    return std::nullopt;
  }
  [[nodiscard]] const std::vector<RankSchedule>& ranks() const { return ranks_; }

private:
  struct Decision {
    OpId control;
    ValueId value;
    std::vector<AxisRef> axes; // along which it varies
  };

  std::optional<Parting> control(const Step& s) {
    const OpId o = program_.infos[s.info].id;
    const size_t before = decisions_.size();
    std::optional<Parting> out;
    if (s.kind == StepKind::Cond) {
      decide(o, m_.operand(o, 0));
      for (const StepList& branch : program_.conds[s.index].branch)
        if (!out) out = read(branch);
    } else if (s.kind == StepKind::While) {
      decide(o, m_[m_.region(o, 0)].yields[0]);
      out = read(program_.whiles[s.index].condition);
      if (!out) out = read(program_.whiles[s.index].body);
    } else if (s.kind == StepKind::For) {
      decide(o, m_.operand(o, 0));
      decide(o, m_.operand(o, 1));
      out = read(program_.fors[s.index].body);
    }
    decisions_.resize(before);
    return out;
  }

  void decide(OpId control, ValueId v) {
    if (const AxisSet set = varying_(v)) decisions_.push_back({control, v, varying_.axes(set)});
  }

  std::optional<Parting> meeting(const MeetingStep& step) {
    const bool meets = step.host || step.plan.meets();
    for (size_t g = 0; meets && g < step.plan.groups.size(); ++g) {
      const CollectiveGroup& group = step.plan.groups[g];
      for (const Decision& d : decisions_)
        for (int64_t p : group.places)
          if (program_.mesh.indexAlong(d.axes, p) != program_.mesh.indexAlong(d.axes, group.places[0]))
            return Parting{d.control, d.value, step.op, {group.places[0], p}};
    }
    const std::string what = std::string(m_.record(step.op).name) + " of " +
                             std::string(dtypeName(step.plan.dtype)) + " as " +
                             std::string(dtypeName(step.plan.wire));
    for (size_t p = 0; meets && p < ranks_.size(); ++p) {
      const uint32_t g = step.plan.groupOf[p];
      ranks_[p].push_back({step.firstMeeting + g, step.plan.groups[g].places, what, step.op});
    }
    return std::nullopt;
  }

  const Module& m_;
  const Program& program_;
  Varying varying_;
  std::vector<RankSchedule> ranks_;
  std::vector<Decision> decisions_;
};

std::string deviceText(int64_t place) { return "device " + std::to_string(place); }

} // namespace

Status Loader::checkSchedule() {
  ScheduleReader reader(m_, func_, program_);
  if (auto p = reader.read(program_.steps))
    return at(p->control, names_(p->decides) + " may send " + deviceText(p->places[0]) + " and " +
                              deviceText(p->places[1]) + " different ways, but they meet in " +
                              whereText(m_, p->meeting) + ": one would wait forever");
  const std::optional<RankProblem> problem = problemOfRanks(reader.ranks());
  if (!problem) return Ok{};
  const std::string other = deviceText(problem->other);
  switch (problem->kind) {
  case RankProblem::Stranger:
    return at(problem->op, deviceText(problem->place) + " comes to a meeting that does not expect it",
              Error::Bug);
  case RankProblem::Differs:
    return at(problem->op,
              deviceText(problem->place) + " meets " + other + " here, which is in " +
                  whereText(m_, problem->otherOp),
              Error::Bug);
  case RankProblem::Waits: break;
  }
  return at(problem->op,
            deviceText(problem->place) + " would wait here forever for " + other + ", which " +
                (problem->otherOp.valid() ? "waits in " + whereText(m_, problem->otherOp) : "is at its end"),
            Error::Bug);
}

} // namespace dtc
