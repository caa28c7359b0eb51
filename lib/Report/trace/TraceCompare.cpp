#include "dtc/IR/DevicePrograms.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/IR/text/Statements.h"
#include "dtc/IR/text/Text.h"
#include "dtc/Passes/analysis/Collectives.h"
#include "dtc/Report/trace/TraceComparison.h"
#include "dtc/Support/Units.h"
#include "dtc/Support/Words.h"
#include "explain/StepNames.h"
#include "explain/StepParts.h"
#include "timeline/Timeline.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <tuple>
#include <unordered_map>

namespace dtc {
namespace {

constexpr DiagKind kProgram{"trace-program", "the trace is of another program: {0}"};

std::string meshText(const Module& m, const Mesh& mesh) {
  std::string text;
  for (const MeshAxis& a : mesh.axes)
    text += (text.empty() ? "" : " ") + std::string(m.strings[a.name]) + "=" + std::to_string(a.size);
  return text;
}

// What the trace calls a function's ops.
struct FunctionNames {
  std::vector<OpId> statements;
  std::vector<std::string> texts;                      // "%h = fused"
  std::unordered_map<std::string, std::size_t> byText; // the first one
  std::unordered_map<OpId, std::size_t> number;
};

// "comm tp" is the stream of messages over tp.
std::string streamName(const std::string& written) {
  return written.starts_with("comm ") ? written.substr(5) : written;
}

class Comparer {
public:
  Comparer(Module& m, FuncId entry, const MeasuredTrace& trace, Diagnostics& problems)
      : m_(m), trace_(trace), problems_(problems), programs_(programsOf(m, entry)),
        mesh_(meshValueOf(m, entry)), entry_(entry) {}

  std::optional<TraceComparison> run(const TraceMachine& machine) {
    out_.program = trace_.program, out_.backend = trace_.backend, out_.mesh = meshText(m_, mesh_);
    if (!sameMesh()) return std::nullopt;
    setMachine(machine);
    for (FuncId f : programs_.functions) {
      out_.functions.push_back("@" + std::string(m_.strings[m_[f].name]));
      nameOps(f);
    }
    out_.devices = trace_.devices, out_.functionOf = programs_.of;
    out_.streams.emplace_back("compute");
    if (!measure()) return std::nullopt;
    model();
    sortOps();
    return std::move(out_);
  }

private:
  bool sameMesh() {
    const auto count = static_cast<size_t>(mesh_.numDevices());
    if (trace_.devices.size() == count && (trace_.mesh.empty() || trace_.mesh == out_.mesh)) return true;
    problems_.error(kProgram, {0, 1},
                    "it ran on " + std::to_string(trace_.devices.size()) + " devices, mesh [" + trace_.mesh +
                        "], but the program's mesh is [" + out_.mesh + "]");
    return false;
  }

  void setMachine(const TraceMachine& given) {
    NominalMachine& machine = out_.machine;
    if (trace_.machine && !given.nominal) {
      machine.flopsPerSecond = trace_.machine->flopsPerSecond;
      machine.memoryBytesPerSecond = trace_.machine->memoryBytesPerSecond;
      machine.link.bytesPerSecond = machine.memoryBytesPerSecond / 2; // a message is read and written
      out_.machineOf = TraceComparison::Of::Measured;
    }
    for (const auto& [value, at] : {std::pair(given.flops, &machine.flopsPerSecond),
                                    std::pair(given.memory, &machine.memoryBytesPerSecond),
                                    std::pair(given.link, &machine.link.bytesPerSecond),
                                    std::pair(given.latency, &machine.link.latencySeconds),
                                    std::pair(given.launch, &machine.launchSeconds)})
      if (value) *at = *value, out_.machineOf = TraceComparison::Of::Given;
  }

  void nameOps(FuncId f) {
    FunctionNames& names = names_.emplace_back();
    stepNames_.emplace_back(m_, f);
    names.statements = statementsOf(m_, f);
    const Naming naming(m_, f);
    for (OpId o : names.statements) {
      names.texts.push_back(statementText(m_, o, naming));
      names.byText.emplace(names.texts.back(), names.texts.size() - 1);
      names.number.emplace(o, names.texts.size() - 1);
    }
  }

  uint32_t stream(const std::string& name) {
    const auto at = std::ranges::find(out_.streams, name);
    if (at != out_.streams.end()) return static_cast<uint32_t>(at - out_.streams.begin());
    out_.streams.push_back(name);
    return static_cast<uint32_t>(out_.streams.size() - 1);
  }

  TraceOp& opOf(size_t function, OpId o) {
    const auto [at, isNew] = opIds_.emplace(o, out_.ops.size());
    if (isNew) {
      TraceOp& op = out_.ops.emplace_back();
      op.function = function, op.id = o, op.name = stepNames_[function].kind(o), op.part = stepPart(m_, o);
      if (const auto axes = collectiveAxes(m_, o); !axes.empty()) // as a run calls it
        op.name += "(" + joined(axes, ",", [&](const AxisRef& a) { return printAxis(a, m_.strings); }) + ")";
      if (const StepText* step = stepOf(function, o))
        op.value = step->value, op.place = step->place;
      else
        op.value = stepNames_[function].step(o), op.place = placeText(m_.source, m_[o].loc);
    }
    return out_.ops[at->second];
  }

  // What the run calls it: the text that ran does not have the names of the program's text.
  const StepText* stepOf(size_t function, OpId o) const {
    const FunctionNames& names = names_[function];
    const auto at = names.number.find(o);
    if (function >= trace_.steps.size() || at == names.number.end()) return nullptr;
    const auto& steps = trace_.steps[function];
    return steps.size() == names.statements.size() ? &steps[at->second] : nullptr;
  }

  // --- the measurement ---

  // The op of an event; invalid for a copy of a carried result.
  bool find(const TraceEvent& e, OpId& op) {
    const std::string& text = trace_.words[e.op];
    const uint32_t function = programs_.of[e.device];
    const FunctionNames& names = names_[function];
    if (text.empty() && e.statement < 0) return true;
    size_t at = static_cast<size_t>(e.statement);
    if (e.statement < 0) {
      const auto known = names.byText.find(text);
      at = known == names.byText.end() ? names.texts.size() : known->second;
    }
    if (at < names.texts.size() && names.texts[at] == text) {
      op = names.statements[at];
      return true;
    }
    std::string here = out_.functions[function] + " has no such op";
    if (at < names.texts.size())
      here = out_.functions[function] + " has '" + names.texts[at] + "' there (" +
             placeText(m_.source, m_[names.statements[at]].loc) + ")";
    problems_.error(kProgram, e.range, "it ran '" + text + "', but " + here);
    return false;
  }

  bool measure() {
    out_.seconds = trace_.seconds;
    out_.measured.assign(trace_.devices.size(), {});
    out_.measuredBars.resize(trace_.devices.size());
    std::vector<uint32_t> streams;
    for (const std::string& name : trace_.streams) streams.push_back(stream(streamName(name)));
    for (size_t first = 0, last = 0; first < trace_.events.size(); first = last) {
      const size_t device = trace_.events[first].device;
      for (; last < trace_.events.size() && trace_.events[last].device == device; ++last) {
        const TraceEvent& e = trace_.events[last];
        OpId o;
        if (!find(e, o)) return false;
        TraceBar bar{streams[e.stream], -1, e.begin, e.seconds};
        if (o.valid()) {
          TraceOp& op = opOf(programs_.of[device], o);
          bar.op = static_cast<int>(&op - out_.ops.data());
          describe(op, e);
        }
        out_.measuredBars[device].push_back(bar);
      }
      addDevice(device, {trace_.events.begin() + static_cast<std::ptrdiff_t>(first),
                         trace_.events.begin() + static_cast<std::ptrdiff_t>(last)});
    }
    for (DeviceTime& t : out_.measured) t.seconds = trace_.seconds;
    return true;
  }

  void describe(TraceOp& op, const TraceEvent& e) {
    if (op.runs > 0) return;
    op.name = trace_.words[e.name], op.message = e.message;
    if (!trace_.words[e.place].empty()) op.place = trace_.words[e.place];
  }

  // Messages are exposed where the device computes nothing; what two messages do at the same time counts once.
  void addDevice(size_t device, std::span<const TraceEvent> events) {
    std::vector<TraceBar>& bars = out_.measuredBars[device];
    std::vector<std::pair<double, double>> busy;
    for (size_t i = 0; i < events.size(); ++i) {
      if (events[i].message) continue;
      const double begin = events[i].begin, end = begin + events[i].seconds;
      if (busy.empty() || begin > busy.back().second)
        busy.emplace_back(begin, end);
      else
        busy.back().second = std::max(busy.back().second, end);
    }
    DeviceTime& time = out_.measured[device];
    for (const auto& [begin, end] : busy) time.computing += end - begin;
    const double share = 1 / static_cast<double>(programs_.coordinatesOf(programs_.of[device]).size());
    double counted = 0;
    for (size_t i = 0; i < events.size(); ++i) {
      TraceBar& bar = bars[i];
      if (events[i].message) {
        const double begin = std::max(bar.begin, counted), end = bar.begin + bar.seconds;
        bar.exposed = std::max(0.0, end - begin);
        auto next = std::ranges::upper_bound(busy, begin, {}, &std::pair<double, double>::second);
        for (; next != busy.end() && next->first < end; ++next)
          bar.exposed -= std::max(0.0, std::min(end, next->second) - std::max(begin, next->first));
        bar.exposed = std::max(0.0, bar.exposed);
        counted = std::max(counted, end);
        bar.waited = std::min(bar.exposed, events[i].waited);
        time.exposed += bar.exposed, time.waiting += bar.waited;
      }
      if (bar.op < 0) continue;
      TraceOp& op = out_.ops[static_cast<size_t>(bar.op)];
      op.runs += share, op.measured += share * bar.seconds, op.exposed += share * bar.exposed;
    }
  }

  // --- the model ---

  void model() {
    const std::vector<Timeline> timelines = timelinesOf(m_, entry_, out_.machine);
    for (size_t f = 0; f < timelines.size(); ++f) {
      const Timeline& t = timelines[f];
      DeviceTime time{t.seconds, t.computeSeconds, t.exposedSeconds};
      std::vector<TraceBar>& bars = out_.modelledBars.emplace_back();
      for (const TimelineStep& s : t.steps) {
        TraceBar bar{stream(t.streams[s.stream]), -1, s.begin, s.seconds, s.exposed, s.waited};
        if (s.kind == TimelineStep::Repeat) {
          bar.repeats = s.times - 1;
        } else {
          bar.op = add(f, s);
          time.exposed += s.times * s.waited, time.waiting += s.times * s.waited;
        }
        bars.push_back(bar);
      }
      out_.modelled.push_back(time);
      out_.modelledSeconds = std::max(out_.modelledSeconds, t.seconds);
      out_.complete = out_.complete && t.complete;
    }
  }

  int add(size_t function, const TimelineStep& s) {
    TraceOp& op = opOf(function, s.op);
    op.message = s.kind == TimelineStep::Communicate;
    op.modelled += s.times * s.seconds, op.modelledExposed += s.times * (s.exposed + s.waited);
    return static_cast<int>(&op - out_.ops.data());
  }

  // Without ops that neither ran nor take time, such as views.
  void sortOps() {
    std::vector<size_t> order(out_.ops.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::sort(order, {}, [&](size_t i) { return std::pair(-out_.addedToRun(out_.ops[i]), i); });
    std::vector<int> place(order.size());
    std::vector<TraceOp> sorted;
    for (const size_t i : order) {
      const TraceOp& op = out_.ops[i];
      place[i] = op.runs > 0 || op.modelled > 0 ? static_cast<int>(sorted.size()) : -1;
      if (place[i] >= 0) sorted.push_back(op);
    }
    out_.ops = std::move(sorted);
    for (auto* lists : {&out_.measuredBars, &out_.modelledBars})
      for (std::vector<TraceBar>& bars : *lists) {
        std::erase_if(bars,
                      [&](const TraceBar& b) { return b.op >= 0 && place[static_cast<size_t>(b.op)] < 0; });
        for (TraceBar& bar : bars)
          if (bar.op >= 0) bar.op = place[static_cast<size_t>(bar.op)];
      }
  }

  Module& m_;
  const MeasuredTrace& trace_;
  Diagnostics& problems_;
  DevicePrograms programs_;
  Mesh mesh_;
  FuncId entry_;
  std::vector<FunctionNames> names_; // by function
  std::deque<StepNames> stepNames_;  // likewise
  std::unordered_map<OpId, size_t> opIds_;
  TraceComparison out_;
};

DeviceTime meanOf(std::span<const DeviceTime> times) {
  DeviceTime sum;
  const double share = times.empty() ? 0 : 1 / static_cast<double>(times.size());
  for (const DeviceTime& t : times) {
    sum.seconds += share * t.seconds, sum.computing += share * t.computing;
    sum.exposed += share * t.exposed, sum.waiting += share * t.waiting;
  }
  return sum;
}

// Of a printed module: the lines of ops.
std::vector<size_t> opLines(const std::vector<std::string_view>& lines) {
  std::vector<size_t> ops;
  for (size_t l = 0; l < lines.size(); ++l) {
    const std::string_view line = lines[l];
    const size_t equals = line.find(" = "), begin = line.find_first_not_of(' ');
    if (begin != line.npos && line[begin] == '%' && equals != line.npos && line.find(':') > equals)
      ops.push_back(l);
  }
  return ops;
}

std::string quoted(std::string_view line) {
  constexpr size_t kMost = 100;
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  return "'" + std::string(line.substr(0, kMost)) + (line.size() > kMost ? "..." : "") + "'";
}

// The place of the op that a line of a placed text is in.
SourceRange placeOfLine(const Module& m, FuncId entry, const std::vector<std::string_view>& lines,
                        size_t at) {
  for (FuncId f : functionsOfProgram(m, entry)) {
    const Naming names(m, f);
    std::unordered_map<std::string, OpId> ops;
    for (OpId o : statementsOf(m, f)) ops.emplace(statementText(m, o, names), o);
    for (size_t l = at + 1; l-- > 0 && !lines[l].starts_with("spmd func");) {
      std::string_view line = lines[l];
      line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
      const size_t equals = line.find(" = ");
      if (equals == line.npos) continue;
      const std::string key(line.substr(0, line.find_first_of(" (", equals + 3)));
      if (const auto op = ops.find(key); op != ops.end()) return m[op->second].loc;
    }
  }
  return {0, 1};
}

} // namespace

double DeviceTime::idle() const {
  const double rest = seconds - computing - exposed;
  return rest > seconds * 1e-9 ? rest : 0; // sums are rounded
}

double TraceComparison::addedToRun(const TraceOp& op) const {
  return op.added() * static_cast<double>(std::ranges::count(functionOf, op.function)) /
         static_cast<double>(functionOf.size());
}

DeviceTime TraceComparison::meanMeasured() const { return meanOf(measured); }

DeviceTime TraceComparison::meanModelled() const {
  std::vector<DeviceTime> times;
  for (uint32_t f : functionOf) times.push_back(modelled[f]);
  return meanOf(times);
}

std::optional<TraceComparison> compareTrace(Module& m, FuncId entry, const MeasuredTrace& trace,
                                            const TraceMachine& machine, Diagnostics& problems) {
  return Comparer(m, entry, trace, problems).run(machine);
}

std::vector<std::vector<StepText>> stepTextsOf(const Module& m, FuncId entry) {
  std::vector<std::vector<StepText>> out;
  for (FuncId f : functionsOfProgram(m, entry)) {
    const StepNames names(m, f);
    std::vector<StepText>& steps = out.emplace_back();
    for (OpId o : statementsOf(m, f)) steps.push_back({names.step(o), placeText(m.source, m[o].loc)});
  }
  return out;
}

bool isProgramOf(const Module& m, FuncId entry, const MeasuredTrace& trace, Diagnostics& problems) {
  const std::string text = printModule(m);
  if (trace.scheduled.empty() || trace.scheduled == text) return true;
  const std::vector<std::string_view> here = linesOf(text), there = linesOf(trace.scheduled);
  // The first op that differs, or the first line if all ops are the same.
  std::vector<size_t> own = opLines(here), other = opLines(there);
  const auto same = [&](size_t a, size_t b) { return here[a] == there[b]; };
  auto [a, b] = std::mismatch(own.begin(), own.end(), other.begin(), other.end(), same);
  if (a == own.end() && b == other.end()) {
    own.resize(here.size()), other.resize(there.size());
    std::iota(own.begin(), own.end(), size_t{0}), std::iota(other.begin(), other.end(), size_t{0});
    std::tie(a, b) = std::mismatch(own.begin(), own.end(), other.begin(), other.end(), same);
  }
  const std::string ran = b != other.end() ? quoted(there[*b]) : "nothing more";
  const std::string is = a != own.end() ? quoted(here[*a]) : "nothing more";
  problems
      .error(kProgram, a != own.end() ? placeOfLine(m, entry, here, *a) : SourceRange{0, 1},
             "it ran " + ran + ", this is " + is)
      .note({}, "compare with the program, the flags and the target of the run");
  return false;
}

} // namespace dtc
