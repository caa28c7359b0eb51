#include "ProgramTime.h"

#include "dtc/IR/LocalShape.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/IR/Region.h"
#include "dtc/Passes/OpWork.h"

#include <algorithm>

namespace dtc {

namespace {

// Walks the program in order with two clocks: the device's own, and that of each axis' messages. A message begins when its
// operand is there and its axes are free; an op begins when its operands are there. What the device waits for a message is
// what is exposed.
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
      for (const MeshAxis& a : mesh_.axes) axisOf(a.name);
      State s;
      block(m_[f].body, 1, s);
    }
    std::erase_if(out_.axes, [](const AxisCost& a) { return a.count == 0; });
    return std::move(out_);
  }

private:
  struct State {
    double now = 0;                            // the device's
    std::unordered_map<StrId, double> free;    // by axis: when it is
    std::unordered_map<ValueId, double> ready; // of what messages bring
    std::unordered_map<ValueId, OpId> bringer; // the message
  };

  AxisCost& axisOf(StrId name) {
    for (size_t i = 0; i < names_.size(); ++i)
      if (names_[i] == name) return out_.axes[i];
    names_.push_back(name);
    out_.axes.push_back({std::string(m_.strings[name])});
    return out_.axes.back();
  }

  // The device needs `v` now.
  void await(ValueId v, double times, State& s) {
    auto it = s.ready.find(v);
    if (it == s.ready.end() || it->second <= s.now) return;
    const std::vector<AxisRef> axes = collectiveAxes(m_, s.bringer.at(v));
    for (const AxisRef& a : axes)
      axisOf(a.name).exposedSeconds += times * (it->second - s.now) / static_cast<double>(axes.size());
    s.now = it->second;
  }

  void block(BlockId b, double times, State& s) {
    for (OpId o : m_[b].ops) {
      if (auto it = collectives_.find(o); it != collectives_.end()) {
        message(*it->second, times, s);
        continue;
      }
      for (ValueId v : m_.operands(o)) await(v, times, s);
      if (m_[o].numRegions != 0) {
        regions(o, times, s);
        continue;
      }
      const double seconds = compute(o);
      s.now += seconds;
      out_.computeSeconds += times * seconds;
    }
    for (ValueId v : m_[b].yields) await(v, times, s);
  }

  void regions(OpId o, double times, State& s) {
    double trips = 1;
    const RegionKind kind = m_.record(o).regions;
    if (kind == RegionKind::For || kind == RegionKind::While) {
      const std::optional<Dim> n = kind == RegionKind::For ? tripCount(m_, o) : std::nullopt;
      if (n && n->isStatic())
        trips = static_cast<double>(n->value());
      else
        out_.complete = false;
    }
    const double before = s.now;
    for (uint32_t r = 0; r < m_[o].numRegions; ++r) block(m_.region(o, r), boundedProduct(times, trips), s);
    s.now = before + boundedProduct(trips, s.now - before);
  }

  void message(const TracedCollective& c, double times, State& s) {
    const std::vector<AxisRef> axes = collectiveAxes(m_, c.op);
    double start = s.now;
    for (ValueId v : m_.operands(c.op))
      if (auto it = s.ready.find(v); it != s.ready.end()) start = std::max(start, it->second);
    for (const AxisRef& a : axes) start = std::max(start, s.free[a.name]);
    if (!c.price) out_.complete = false;
    const CollectivePrice price = c.price.value_or(CollectivePrice());
    for (const AxisRef& a : axes) {
      AxisCost& cost = axisOf(a.name);
      const double share = times / static_cast<double>(axes.size());
      cost.count += whole(times);
      cost.bytesReceived += whole(share * static_cast<double>(price.bytesReceived));
      cost.seconds += share * price.seconds;
      cost.latencySeconds += share * price.latencySeconds;
      s.free[a.name] = start + price.seconds;
    }
    out_.commSeconds += times * price.seconds;
    for (uint32_t r = 0; r < m_[c.op].numResults; ++r) {
      s.ready[m_.result(c.op, r)] = start + price.seconds;
      s.bringer[m_.result(c.op, r)] = c.op;
    }
  }

  // Counts of loops in loops pass 2^63; a sum of a few hundred of these does not.
  static int64_t whole(double n) { return static_cast<int64_t>(std::min(n, 1e15)); }

  double compute(OpId o) {
    const OpRecord& rec = m_.record(o);
    if (rec.isCall || rec.isCollective() || rec.lowering == Lowering::Annotation) return 0;
    std::vector<TypeId> results;
    for (uint32_t r = 0; r < m_[o].numResults; ++r) results.push_back(m_[m_.result(o, r)].type);
    Diagnostics quiet;
    const OpQuery q = queryOf(m_, o, quiet);
    Rule rule;
    const auto work =
        ruleOf(q, rule) ? OpWorkModel(q, rule, results).at(sizesOf(q, rule, results)) : trafficOnly(o);
    if (work) return work->seconds(machine_);
    out_.complete = false;
    return 0;
  }

  // On the device that has the least of each dim that is sharded unevenly, as far as arithmetic goes; buffers are as large as
  // the largest.
  OpSizes sizesOf(const OpQuery& q, const Rule& rule, const std::vector<TypeId>& results) const {
    auto number = [](std::optional<int64_t> n) {
      return n ? std::optional(static_cast<double>(*n)) : std::nullopt;
    };
    return {[this, &rule, number](size_t f) {
              return number(dimAt(m_, rule.factors[f].size, mesh_, mesh_.numDevices() - 1));
            },
            [this, &q, &results, number](size_t tensor, size_t d) {
              const size_t operands = q.operandTypes.size();
              const TypeId t = tensor < operands ? q.operandTypes[tensor] : results[tensor - operands];
              return number(largestDim(m_, m_.types[t].dims[d], mesh_));
            }};
  }

  // An op without a rule (linear algebra, ops of the runtime's) is priced by its operands and results.
  std::optional<OpWork> trafficOnly(OpId o) const {
    OpWork work;
    auto add = [&](ValueId v) {
      const auto bytes = largestBytes(m_, m_[v].type, mesh_);
      if (bytes) work.bytes += static_cast<double>(*bytes);
      return bytes.has_value();
    };
    for (ValueId v : m_.operands(o))
      if (!add(v)) return std::nullopt;
    for (uint32_t r = 0; r < m_[o].numResults; ++r)
      if (!add(m_.result(o, r))) return std::nullopt;
    return work;
  }

  Module& m_;
  const NominalMachine& machine_;
  std::unordered_map<OpId, const TracedCollective*> collectives_;
  FuncId func_;
  Mesh mesh_;
  std::vector<StrId> names_;
  ProgramTime out_;
};

} // namespace

ProgramTime timeOf(CollectiveTrace& t, const NominalMachine& machine) { return Clock(t, machine).run(); }

} // namespace dtc
