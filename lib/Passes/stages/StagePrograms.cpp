#include "stages/StagePrograms.h"

#include "dtc/IR/LocalShape.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/IR/build/Builder.h"
#include "dtc/Passes/analysis/Clone.h"
#include "dtc/Passes/analysis/MemoryPlan.h"
#include "dtc/Support/Result.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

namespace dtc {
namespace {

constexpr DiagKind kOrder{"pipeline-order",
                          "'{0}' of micro-batch {1} needs a value that stage {2} computes after it"};

constexpr DiagKind kComplex{"pipeline-complex",
                            "the result of '{0}' is complex and not that of all stages: use its real and "
                            "imaginary parts, or --pipeline-schedule none"};

// The position of an op or a message in the order that all devices share. Each device follows it, so that no two wait
// for each other, even if a message blocks its sender.
struct Place {
  StagedStep::Part part = StagedStep::Part::Before;
  double time = 0;   // of the schedule, inside
  bool acts = false; // an op; a message is before the ops that begin at its time
  size_t index = 0;  // of the step; of a message: of the step that produces its last value
  size_t target = 0; // of a message: the first device that receives it
  friend auto operator<=>(const Place& a, const Place& b) {
    return std::tuple(a.part, a.time, a.acts, a.index, a.target) <=>
           std::tuple(b.part, b.time, b.acts, b.index, b.target);
  }
  friend bool operator==(const Place&, const Place&) = default;
};

// Values that one device sends to others at once.
struct Message {
  size_t from = 0;
  std::map<ValueId, std::set<size_t>> to; // the devices that receive each
};

class StagePrograms {
public:
  StagePrograms(Module& m, FuncId entry, const StagedFunction& f,
                const std::vector<std::vector<PipelineAction>>& order, StrId axis, Diagnostics& diags)
      : m_(m), entry_(entry), f_(f), mesh_(meshValueOf(m, entry)), axis_(axis), diags_(diags),
        numDevices_(order.size()), argUsers_(m[entry].args.size()), included_(numDevices_) {
    for (size_t i = 0; i < f.steps.size(); ++i)
      for (uint32_t r = 0; r < m[f.steps[i].op].numResults; ++r) stepOf_[m.result(f.steps[i].op, r)] = i;
    for (size_t i = 0; i < m[entry].args.size(); ++i) argOf_[m[entry].args[i].value] = i;
    for (const auto& actions : order)
      for (const PipelineAction& a : actions) actions_[{a.phase, a.stage, a.microbatch}] = a;
    returns_.resize(f.results.size());
  }

  bool run() {
    findReads();
    if (!isReal()) return false;
    placeSteps();
    placeMessages();
    std::vector<FuncId> functions = makeFunctions();
    for (size_t d = 0; d < numDevices_; ++d)
      if (!write(d, functions[d])) return false;
    return true;
  }

private:
  // Constants that stand for values of other devices are real.
  bool isReal() {
    const auto check = [&](ValueId v) -> bool {
      const OpId made = m_.definingOp(v);
      if (!made.valid() || !isComplex(m_.typeOf(v).dtype)) return true;
      return diags_.fail(kComplex, m_[made].loc, m_.record(made).name);
    };
    for (const auto& [v, devices] : receivers_)
      if (!check(v)) return false;
    for (size_t r = 0; r < returns_.size(); ++r)
      if (!returns_[r].empty() && returns_[r].size() < numDevices_ && !check(f_.results[r])) return false;
    return true;
  }

  size_t deviceOf(const StagedStep& s) const { return static_cast<size_t>(s.stage) % numDevices_; }
  // The step that computes the value on one device only; null for arguments and what is computed anywhere.
  const StagedStep* ownedStep(ValueId v) const {
    const auto at = stepOf_.find(v);
    if (at == stepOf_.end() || f_.steps[at->second].stage == StagedStep::kAnywhere) return nullptr;
    return &f_.steps[at->second];
  }

  // --- What each device reads ---

  // A device reads the value: it computes it, has it as an argument, or receives it.
  void read(size_t device, ValueId v) {
    std::vector<ValueId> open = {v};
    while (!open.empty()) {
      const ValueId x = open.back();
      open.pop_back();
      if (const auto arg = argOf_.find(x); arg != argOf_.end()) {
        argUsers_[arg->second].insert(device);
        continue;
      }
      const auto at = stepOf_.find(x);
      if (at == stepOf_.end()) continue; // a literal
      const StagedStep& s = f_.steps[at->second];
      if (s.stage != StagedStep::kAnywhere) {
        if (deviceOf(s) != device) receivers_[x].insert(device);
      } else if (included_[device].insert(at->second).second) {
        forEachRead(m_, s.op, [&](ValueId y) { open.push_back(y); });
      }
    }
  }

  void findReads() {
    for (const StagedStep& s : f_.steps)
      if (s.stage != StagedStep::kAnywhere) forEachRead(m_, s.op, [&](ValueId v) { read(deviceOf(s), v); });
    const std::vector<CarriedResult> carried = carriedResults(m_, entry_);
    std::unordered_map<size_t, size_t> argumentOf;
    for (const CarriedResult& c : carried) argumentOf[c.result] = c.argument;
    for (size_t r = 0; r < f_.results.size(); ++r) {
      const StagedStep* s = ownedStep(f_.results[r]);
      if (s && argumentOf.contains(r)) argUsers_[argumentOf[r]].insert(deviceOf(*s));
      if (argumentOf.contains(r)) continue;
      for (size_t d = 0; d < numDevices_; ++d)
        if (!s || deviceOf(*s) == d) returns_[r].insert(d), read(d, f_.results[r]);
    }
    // A carried result is needed wherever its argument is, and may itself read further arguments there.
    for (bool changed = true; changed;) {
      changed = false;
      for (const CarriedResult& c : carried) {
        std::set<size_t>& holders = argUsers_[c.argument];
        if (holders.empty() && returns_[c.result].empty()) // nothing reads it: each device passes it on
          for (size_t d = 0; d < numDevices_; ++d) holders.insert(d);
        for (size_t d : std::set<size_t>(holders))
          if (returns_[c.result].insert(d).second) read(d, f_.results[c.result]), changed = true;
      }
    }
  }

  // --- The order ---

  Place placeOf(size_t index) const {
    const StagedStep& s = f_.steps[index];
    Place p{s.part, 0, true, index, 0};
    if (s.part == StagedStep::Part::Inside) p.time = actions_.at({s.phase, s.stage, s.microbatch}).begin;
    return p;
  }

  void placeSteps() {
    for (size_t i = 0; i < f_.steps.size(); ++i)
      if (const StagedStep& s = f_.steps[i]; s.stage != StagedStep::kAnywhere)
        steps_[deviceOf(s)].insert({placeOf(i), i});
  }

  // Values of one part of a micro-batch travel together, at its end; others one by one, after their op.
  void placeMessages() {
    std::map<std::tuple<PipelinePhase, int, int, size_t>, std::pair<Place, Message>> ofActions;
    for (const auto& [v, devices] : receivers_) {
      const size_t index = stepOf_.at(v);
      const StagedStep& s = f_.steps[index];
      if (s.part != StagedStep::Part::Inside) {
        Place p{s.part, 0, true, index, *devices.begin() + 1};
        auto& message = messages_.try_emplace(p, Message{deviceOf(s), {}}).first->second;
        message.to[v] = devices;
        continue;
      }
      for (size_t d : devices) {
        auto& [p, message] = ofActions[{s.phase, s.stage, s.microbatch, d}];
        p = {s.part, actions_.at({s.phase, s.stage, s.microbatch}).end, false, std::max(p.index, index), d};
        message.from = deviceOf(s);
        message.to[v].insert(d);
      }
    }
    for (auto& [key, placed] : ofActions) messages_.emplace(placed.first, std::move(placed.second));
  }

  // --- The functions ---

  std::vector<FuncId> makeFunctions() {
    setHolders();
    std::vector<FuncId> functions = {entry_};
    m_[m_[entry_].body].ops.clear(); // clones of the signature have no ops
    m_[m_[entry_].body].yields.clear();
    const StrId program = m_.strings.intern("program"), devices = m_.strings.intern("devices");
    for (size_t d = 1; d < numDevices_; ++d) {
      const FuncId made = cloneFunction(m_, entry_, freeName());
      m_[made].attrs.push_back({program, m_.attrs.symbol(m_[entry_].name)});
      functions.push_back(made);
    }
    for (size_t d = 0; d < numDevices_; ++d)
      m_[functions[d]].attrs.push_back({devices, m_.attrs.integers(devicesAt({d}))});
    return functions;
  }

  StrId freeName() const {
    const std::string name(m_.strings[m_[entry_].name]);
    int number = 1;
    while (m_.findFunction(name + "_" + std::to_string(number)).valid()) ++number;
    return m_.strings.intern(name + "_" + std::to_string(number));
  }

  // The devices with these indices along the axis, in order.
  std::vector<int64_t> devicesAt(const std::set<size_t>& indices) const {
    std::vector<int64_t> out;
    for (int64_t p = 0; p < mesh_.numDevices(); ++p)
      if (indices.contains(static_cast<size_t>(mesh_.indexAlong(AxisRef{axis_}, p))))
        out.push_back(mesh_.devices.empty() ? p : mesh_.devices[static_cast<size_t>(p)]);
    std::ranges::sort(out);
    return out;
  }

  void setHolders() {
    const StrId devices = m_.strings.intern("devices");
    const auto set = [&](AttrList& attrs, const std::set<size_t>& holders) {
      if (!holders.empty() && holders.size() < numDevices_)
        attrs.push_back({devices, m_.attrs.integers(devicesAt(holders))});
    };
    for (size_t i = 0; i < argUsers_.size(); ++i) set(m_[entry_].args[i].attrs, argUsers_[i]);
    for (size_t r = 0; r < returns_.size(); ++r) set(m_[entry_].results[r].attrs, returns_[r]);
  }

  // The program of one device, as it is written.
  struct Program {
    size_t device;
    BlockId body;
    std::vector<OpId> ops;
    ValueMap map;                                  // from the entry's values
    std::unordered_set<ValueId> known;             // that have an entry in `map`
    std::unordered_map<TypeId, ValueId> constants; // operands that other devices send
    std::unordered_map<std::string, bool> names;
  };

  bool write(size_t device, FuncId f) {
    Program p{device, m_[f].body, {}, {}, {}, {}, {}};
    for (size_t i = 0; i < m_[f].args.size(); ++i) {
      const ValueId arg = m_[f].args[i].value;
      p.map.set(m_[entry_].args[i].value, arg), p.known.insert(m_[entry_].args[i].value);
      p.names.emplace(std::string(m_.strings[m_[arg].name]), true);
    }
    auto step = steps_[device].begin();
    const auto stepsBefore = [&](const Place* end) {
      for (; step != steps_[device].end() && (!end || step->first < *end); ++step)
        if (!emit(p, step->second)) return false;
      return true;
    };
    for (const auto& [place, message] : messages_) {
      if (!concerns(message, device)) continue;
      if (!stepsBefore(&place)) return false;
      send(p, message, place);
    }
    if (!stepsBefore(nullptr)) return false;
    std::vector<ValueId> yields;
    for (size_t r = 0; r < f_.results.size(); ++r) yields.push_back(returned(p, f, r));
    for (OpId o : p.ops) m_[o].parent = p.body;
    m_[p.body].ops = std::move(p.ops);
    m_[p.body].yields = std::move(yields);
    return true;
  }

  static bool concerns(const Message& message, size_t device) {
    return message.from == device ||
           std::ranges::any_of(message.to, [&](const auto& sent) { return sent.second.contains(device); });
  }

  // Defines the value in the program if it is computed anywhere. False if it is not there yet.
  bool define(Program& p, ValueId v, const StagedStep* reader) {
    if (p.known.contains(v)) return true;
    const auto at = stepOf_.find(v);
    if (at == stepOf_.end()) return true; // a literal
    return f_.steps[at->second].stage == StagedStep::kAnywhere && emit(p, at->second, reader);
  }

  // `reader`: of an op that is computed anywhere, the first op that reads it. Both belong to one part of a micro-batch.
  bool emit(Program& p, size_t index, const StagedStep* reader = nullptr) {
    const StagedStep& s = f_.steps[index];
    const StagedStep& place = s.stage == StagedStep::kAnywhere && reader ? *reader : s;
    bool defined = true;
    ValueId missing;
    std::vector<ValueId> read; // define() adds ops to the module
    forEachRead(m_, s.op, [&](ValueId v) { read.push_back(v); });
    for (ValueId v : read)
      if (!define(p, v, &place)) defined = false, missing = v;
    if (!defined) {
      const StagedStep* from = ownedStep(missing);
      return diags_.fail(kOrder, m_[s.op].loc, m_.record(s.op).name, s.microbatch, from ? from->stage : 0);
    }
    CloneNames names;
    names.taken = &p.names;
    const OpId made = cloneOp(m_, s.op, p.body, p.map, names);
    for (uint32_t r = 0; r < m_[made].numResults; ++r) {
      const ValueId v = m_.result(s.op, r);
      p.known.insert(v);
      nameAfter(p, m_[v].name, m_.result(made, r));
    }
    if (s.part == StagedStep::Part::Inside && m_[made].numOperands > 0) mark(made, place);
    p.ops.push_back(made);
    return true;
  }

  // Of several copies of a value, the first one has its name in the text.
  void nameAfter(Program& p, StrId name, ValueId v) {
    if (!name.valid()) return;
    p.names.emplace(std::string(m_.strings[name]), true);
    m_[v].name = name;
  }

  void mark(OpId o, const StagedStep& s) {
    if (s.stage == StagedStep::kAnywhere || s.part != StagedStep::Part::Inside) return;
    m_.setAttr(o, "stage", m_.attrs.integer(s.stage));
    m_.setAttr(o, "phase", m_.attrs.string(m_.strings.intern(phaseWord(s.phase))));
    m_.setAttr(o, "microbatch", m_.attrs.integer(s.microbatch));
  }

  void send(Program& p, const Message& message, const Place& place) {
    std::vector<ValueId> operands;
    std::vector<AttrId> sends;
    std::vector<TypeId> types;
    for (const auto& [v, devices] : message.to) {
      operands.push_back(message.from == p.device ? p.map(v) : constant(p, m_[v].type));
      types.push_back(m_[v].type);
      for (size_t d : devices) {
        const std::vector<int64_t> triple = {static_cast<int64_t>(operands.size()) - 1,
                                             static_cast<int64_t>(message.from), static_cast<int64_t>(d)};
        sends.push_back(m_.attrs.integers(triple));
      }
    }
    const StagedStep& producer = f_.steps[place.index];
    const AttrList attrs = {{m_.strings.intern("axes"), axesAttr(m_, std::array{AxisRef{axis_}})},
                            {m_.strings.intern("sends"), m_.attrs.list(std::move(sends))}};
    Builder b(m_, p.body, p.ops, diags_);
    b.loc = m_[producer.op].loc;
    b.mesh = meshOfFunction(m_, entry_);
    const OpId made = b.op(m_.registry->find(CollectiveKind::P2p), operands, attrs);
    mark(made, producer);
    size_t k = 0;
    for (const auto& [v, devices] : message.to) {
      const ValueId result = m_.result(made, static_cast<uint32_t>(k++));
      if (!devices.contains(p.device)) continue;
      p.map.set(v, result), p.known.insert(v);
      nameAfter(p, m_[v].name, result);
    }
  }

  ValueId constant(Program& p, TypeId type) {
    ValueId& made = p.constants[type];
    if (!made.valid()) {
      Builder b(m_, p.body, p.ops, diags_);
      b.mesh = meshOfFunction(m_, entry_);
      made = b.constant(0, type);
    }
    return made;
  }

  // What the device returns; of a result of other devices, anything of its type.
  ValueId returned(Program& p, FuncId f, size_t r) {
    if (returns_[r].empty() || returns_[r].contains(p.device)) {
      const bool defined = define(p, f_.results[r], nullptr);
      DTC_CHECK(defined, "a result without a value");
      return p.map(f_.results[r]);
    }
    const TypeId type = m_[f_.results[r]].type;
    for (const CarriedResult& c : carriedResults(m_, f))
      if (c.result == r) return m_[f].args[c.argument].value;
    for (size_t i = 0; i < argUsers_.size(); ++i)
      if (!argUsers_[i].empty() && !argUsers_[i].contains(p.device) && m_[m_[f].args[i].value].type == type)
        return m_[f].args[i].value;
    return constant(p, type);
  }

  Module& m_;
  FuncId entry_;
  const StagedFunction& f_;
  Mesh mesh_;
  StrId axis_;
  Diagnostics& diags_;
  size_t numDevices_;
  std::unordered_map<ValueId, size_t> stepOf_, argOf_;
  std::map<std::tuple<PipelinePhase, int, int>, PipelineAction> actions_; // by phase, stage and micro-batch
  std::vector<std::set<size_t>> argUsers_;                                // by argument: devices
  std::vector<std::set<size_t>> returns_;                                 // by result: devices
  std::map<ValueId, std::set<size_t>> receivers_;
  std::vector<std::unordered_set<size_t>> included_; // by device: steps that are computed anywhere
  std::map<size_t, std::map<Place, size_t>> steps_;  // by device, in order
  std::map<Place, Message> messages_;
};

} // namespace

bool writeStagePrograms(Module& m, FuncId entry, const StagedFunction& f,
                        const std::vector<std::vector<PipelineAction>>& order, StrId axis,
                        Diagnostics& diags) {
  return StagePrograms(m, entry, f, order, axis, diags).run();
}

} // namespace dtc
