#include "explain/ProgramTime.h"

#include "dtc/IR/LocalShape.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/IR/text/Text.h"
#include "dtc/Passes/analysis/Branches.h"
#include "dtc/Passes/analysis/OpWork.h"
#include "dtc/Support/Words.h"
#include "explain/Exposure.h"

#include <algorithm>

namespace dtc {

namespace {

// Simulates the program in order with two clocks: the device's, and one per axis for its messages. A message
// starts when its operand is available and its axes are free; an op starts when its operands are available.
// The time that the device waits for messages is exposed.
class Clock {
public:
  Clock(CollectiveTrace& t, const NominalMachine& machine) : m_(t.local), machine_(machine) {
    for (const TracedCollective& c : t.collectives) collectives_.emplace(c.op, &c);
  }

  ProgramTime run() {
    for (FuncId f : m_.order) {
      if (!m_[f].spmd) continue;
      mesh_ = meshValueOf(m_, f);
      func_ = f;
      for (const MeshAxis& a : mesh_.axes) costOf(std::string(m_.strings[a.name]));
      State s;
      block(m_[f].body, 1, s);
    }
    std::erase_if(out_.axes, [](const AxisCost& a) { return a.count == 0; });
    return std::move(out_);
  }

private:
  struct Message {
    OpId op;
    double times = 1, begin = 0, seconds = 0;
    std::vector<size_t> after; // the messages of its operands, and those that use its axes before it
    [[nodiscard]] double end() const { return begin + seconds; }
  };
  struct State {
    double now = 0; // the device's clock
    std::vector<Message> messages;
    std::unordered_map<StrId, size_t> lastOf;    // by axis: the last message
    std::unordered_map<ValueId, size_t> bringer; // the message of a result
  };

  AxisCost& costOf(const std::string& axes) {
    const auto known = std::ranges::find(out_.axes, axes, &AxisCost::axis);
    if (known != out_.axes.end()) return *known;
    out_.axes.push_back({axes});
    return out_.axes.back();
  }

  // A message over several axes counts once, for them together.
  AxisCost& costOf(OpId message) {
    return costOf(joined(collectiveAxes(m_, message), ", ",
                         [&](const AxisRef& a) { return printAxis(a, m_.strings); }));
  }

  // The device needs `v` at this point.
  void await(ValueId v, State& s) {
    const auto it = s.bringer.find(v);
    if (it == s.bringer.end()) return;
    divideWait(s.messages, it->second, s.now, [&](size_t part, double exposed, double /*idle*/) {
      const Message& message = s.messages[part];
      out_.exposed[message.op] += message.times * exposed;
      costOf(message.op).exposedSeconds += message.times * exposed;
    });
    s.now = std::max(s.now, s.messages[it->second].end());
  }

  void block(BlockId b, int64_t executions, State& s) {
    const auto times = static_cast<double>(executions);
    for (OpId o : m_[b].ops) {
      if (auto it = collectives_.find(o); it != collectives_.end()) {
        message(*it->second, executions, s);
        continue;
      }
      for (ValueId v : m_.operands(o)) await(v, s);
      if (m_[o].numRegions != 0) {
        regions(o, executions, s);
        continue;
      }
      const double seconds = compute(o);
      s.now += seconds;
      out_.computeSeconds += times * seconds;
      if (seconds > 0) out_.compute[o] += times * seconds;
    }
    for (ValueId v : m_[b].yields) await(v, s);
  }

  void regions(OpId o, int64_t executions, State& s) {
    const auto known = executionsOf(m_, o);
    if (!known) out_.complete = false;
    const auto iterations = static_cast<double>(known.value_or(1));
    const double before = s.now;
    for (BlockId b : countedBlocks(m_, o, mesh_, machine_)) block(b, countedExecutions(m_, o, executions), s);
    s.now = before + boundedProduct(iterations, s.now - before);
  }

  void message(const TracedCollective& c, int64_t executions, State& s) {
    const auto times = static_cast<double>(executions);
    const std::vector<AxisRef> axes = collectiveAxes(m_, c.op);
    Message own{c.op, times, s.now};
    for (ValueId v : m_.operands(c.op))
      if (auto it = s.bringer.find(v); it != s.bringer.end()) own.after.push_back(it->second);
    for (const AxisRef& a : axes)
      if (auto it = s.lastOf.find(a.name); it != s.lastOf.end()) own.after.push_back(it->second);
    for (size_t before : own.after) own.begin = std::max(own.begin, s.messages[before].end());
    if (!c.price) out_.complete = false;
    const CollectivePrice price = c.price.value_or(CollectivePrice());
    AxisCost& cost = costOf(c.op);
    cost.count += executions;
    cost.bytesReceived += rounded(times * static_cast<double>(price.bytesReceived));
    cost.seconds += times * price.seconds;
    cost.latencySeconds += times * price.latencySeconds;
    for (const AxisRef& a : axes) s.lastOf[a.name] = s.messages.size();
    out_.commSeconds += times * price.seconds;
    for (uint32_t r = 0; r < m_[c.op].numResults; ++r) s.bringer[m_.result(c.op, r)] = s.messages.size();
    own.seconds = price.seconds;
    s.messages.push_back(std::move(own));
  }

  // A sum of a few hundred of these does not exceed 2^63.
  static int64_t rounded(double n) { return static_cast<int64_t>(std::min(n, 1e15)); }

  double compute(OpId o) {
    const OpRecord& rec = m_.record(o);
    const bool copies = rec.collective == CollectiveKind::AllSlice;
    if (rec.isCall || (rec.isCollective() && !copies) || rec.lowering == Lowering::Annotation) return 0;
    const auto work = localWork(m_, o, mesh_);
    if (work) return work->seconds(machine_);
    out_.complete = false;
    return 0;
  }

  Module& m_;
  const NominalMachine& machine_;
  std::unordered_map<OpId, const TracedCollective*> collectives_;
  FuncId func_;
  Mesh mesh_;
  ProgramTime out_;
};

} // namespace

ProgramTime timeOf(CollectiveTrace& t, const NominalMachine& machine) { return Clock(t, machine).run(); }

} // namespace dtc
