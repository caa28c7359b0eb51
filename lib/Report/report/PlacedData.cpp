#include "report/PlacedData.h"

#include "dtc/IR/DevicePrograms.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/Kernel/Kernel.h"
#include "dtc/Passes/analysis/Frozen.h"
#include "dtc/Passes/analysis/OpWork.h"
#include "dtc/Passes/analysis/TargetOf.h"
#include "dtc/Passes/memory/PlanMemory.h"
#include "dtc/Support/Words.h"
#include "explain/MessageNames.h"
#include "explain/StepNames.h"
#include "explain/StepParts.h"
#include "timeline/Timeline.h"
#include "trace/TraceDrawing.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace dtc {

namespace {

constexpr size_t kManySteps = 10000; // of which times are shortened

// Words that many rows have are numbers: indices of `list`.
struct Words {
  std::map<std::string, size_t> ids;
  ReportValue list = ReportValue::array();
  size_t operator()(const std::string& text) {
    const auto [it, isNew] = ids.emplace(text, list.size());
    if (isNew) list.push_back(text);
    return it->second;
  }
};

// A table: the names of the columns once, then rows of values.
ReportValue table(std::initializer_list<const char*> columns) {
  ReportValue out = {{"columns", ReportValue::array()}, {"rows", ReportValue::array()}};
  for (const char* c : columns) out["columns"].push_back(c);
  return out;
}

// A long table has these columns once for all rows that have the same values there: `shared`, a table whose index is the
// first column of the rows.
void shareColumns(ReportValue& table, const std::set<std::string>& shared) {
  if (table["rows"].size() <= kManySteps) return;
  ReportValue own = {{"columns", {"shared"}}, {"rows", ReportValue::array()}},
              common = {{"columns", ReportValue::array()}, {"rows", ReportValue::array()}};
  const ReportValue columns = table["columns"];
  for (const ReportValue& c : columns) (shared.contains(c) ? common : own)["columns"].push_back(c);
  std::map<std::string, size_t> ids;
  for (const ReportValue& row : table["rows"]) {
    ReportValue mine = {0}, theirs = ReportValue::array();
    for (size_t i = 0; i < columns.size(); ++i)
      (shared.contains(columns[i]) ? theirs : mine).push_back(row[i]);
    const auto [at, isNew] = ids.emplace(theirs.dump(), ids.size());
    if (isNew) common["rows"].push_back(std::move(theirs));
    mine[0] = at->second;
    own["rows"].push_back(std::move(mine));
  }
  own["shared"] = std::move(common);
  table = std::move(own);
}

// Microseconds: five digits of a short time, to the nanosecond for a long one.
ReportValue microseconds(double seconds) {
  const double us = seconds < 1e-4 ? std::round(seconds * 1e12) / 1e6 : std::round(seconds * 1e9) / 1e3;
  return us == std::floor(us) ? ReportValue(static_cast<int64_t>(us)) : ReportValue(us); // short text
}

// Microseconds with one digit.
ReportValue shortTime(double seconds) { return microseconds(std::round(seconds * 1e7) / 1e7); }

constexpr size_t kMaxTracedDevices = 8;      // of a trace
constexpr int64_t kSmallBuffer = 5000;       // a buffer of less than this part of the arena is not listed
constexpr size_t kMaxComputed = 1000;        // names of results of a kernel
constexpr size_t kMaxLines = 1000;           // of a kernel
constexpr size_t kMaxSourceBytes = 1u << 20; // of all kernels
// In a larger module kernels have no comments: each prints names, which takes time in proportion to the module.
constexpr size_t kMaxCommented = 20000;

class PlacedMaker {
public:
  PlacedMaker(Module& m, FuncId entry, const LineMap& lines, const GlobalData* global,
              const MeasuredTrace* trace)
      : m_(m), trace_(trace), entry_(entry), lines_(lines), target_(targetOf(m, entry)),
        staged_(m.strings.find("microbatch").valid()),
        kernelSet_({.target = generated(target_), .comments = m.ops.size() < kMaxCommented}),
        matcher_(global ? global->identities : std::vector<MessageIdentity>()) {}

  PlacedData make() {
    out_.schedule = out_.memory = out_.kernels = ReportValue::array();
    const std::vector<Timeline> timelines = timelinesOf(m_, entry_);
    const std::vector<FuncId> functions = functionsOfProgram(m_, entry_);
    for (size_t i = 0; i < functions.size(); ++i) function(functions[i], timelines[i]);
    out_.idleShare = idleShare(m_, entry_, timelines);
    for (const auto& [collective, called] : messages_) out_.messages[collective] = namesOfSteps(called);
    if (trace_) measured(timelines);
    kernelSources();
    return std::move(out_);
  }

private:
  // Convolution and attention are shown as the generated kernels that run without cuDNN and oneDNN.
  static Target generated(Target t) {
    t.convDTypes = t.attentionDTypes = 0;
    return t;
  }

  void function(FuncId f, const Timeline& t) {
    long_ = t.steps.size() > kManySteps;
    Diagnostics diags;
    const auto plan = readMemoryPlan(m_, f, diags);
    if (!plan) out_.error = diags.all().empty() ? "the program has no memory plan" : diags.all()[0].message();
    const StepNames names(m_, f);
    ReportValue one = {{"function", "@" + std::string(m_.strings[m_[f].name])}};
    if (const auto devices = devicesOf(m_, f); !devices.empty()) one["devices"] = devices;
    one["streams"] = t.streams;
    one["us"] = microseconds(t.seconds), one["compute_us"] = microseconds(t.computeSeconds);
    one["exposed_us"] = microseconds(t.exposedSeconds), one["complete"] = t.complete;
    one["waited_us"] = microseconds(t.waitSeconds);
    one["steps"] = table({"kind", "stream", "what", "value", "number", "begin_us", "us", "exposed_us",
                          "waited_us", "times", "line", "collective", "kernel", "live_bytes"});
    if (staged_) one["steps"]["columns"].push_back("part");
    std::vector<int64_t> live = plan ? liveBytes(*plan) : std::vector<int64_t>();
    const std::vector<int> collectives = collectivesOf(f, t);
    for (size_t i = 0; i < t.steps.size(); ++i)
      one["steps"]["rows"].push_back(row(t.steps[i], collectives[i], names, plan ? &*plan : nullptr, live));
    shareColumns(one["steps"], {"kind", "stream", "what", "value", "us", "exposed_us", "waited_us", "times",
                                "line", "collective", "kernel", "part"});
    out_.schedule.push_back(std::move(one));
    out_.schedule.back()["words"] = words_.list;
    if (plan) out_.memory.push_back(memory(*plan, t, f, names));
  }

  ReportValue row(const TimelineStep& s, int collective, const StepNames& names, const MemoryPlan* plan,
                  const std::vector<int64_t>& live) {
    static constexpr const char* kKinds[] = {"compute", "communicate", "repeat", "host"};
    const std::string text = names.step(s.op);
    const auto value = numbered(text);
    const int line = lineOf(s.op, names);
    if (collective >= 0) messages_[collective].push_back(text);
    int64_t bytes = 0;
    if (plan)
      if (auto at = plan->position.find(s.op); at != plan->position.end())
        bytes = live[at->second[s.kind == TimelineStep::Repeat]];
    ReportValue out = {words_(kKinds[s.kind]),
                       s.stream,
                       words_(names.kind(s.op)),
                       words_(value.first),
                       value.second,
                       long_ ? shortTime(s.begin) : microseconds(s.begin),
                       long_ ? shortTime(s.seconds) : microseconds(s.seconds),
                       long_ ? shortTime(s.exposed) : microseconds(s.exposed),
                       long_ ? shortTime(s.waited) : microseconds(s.waited),
                       static_cast<int64_t>(s.times),
                       line,
                       collective,
                       s.kind == TimelineStep::Compute ? kernelOf(s, names) : -1,
                       bytes};
    if (staged_) out.push_back(words_(stepPart(m_, s.op)));
    return out;
  }

  // --- a trace ---

  // The bars of each function's devices, as executions of its steps.
  void measured(const std::vector<Timeline>& timelines) {
    Diagnostics problems;
    const auto compared = compareTrace(m_, entry_, *trace_, {}, problems);
    if (!compared) {
      out_.error = problems.all()[0].message();
      return;
    }
    const std::vector<size_t> devices = devicesToDraw(*compared, kMaxTracedDevices);
    for (size_t f = 0; f < timelines.size(); ++f) {
      std::unordered_map<OpId, size_t> stepOf;
      for (size_t s = 0; s < timelines[f].steps.size(); ++s)
        if (timelines[f].steps[s].kind != TimelineStep::Repeat) stepOf.emplace(timelines[f].steps[s].op, s);
      ReportValue& schedule = out_.schedule[f];
      ReportValue list = ReportValue::array();
      for (size_t d : devices)
        if (compared->functionOf[d] == f) list.push_back(traced(*compared, d, stepOf, schedule["streams"]));
      schedule["measured"] = {{"us", microseconds(compared->seconds)}, {"devices", std::move(list)}};
    }
  }

  static ReportValue traced(const TraceComparison& c, size_t device,
                            const std::unordered_map<OpId, size_t>& stepOf, ReportValue& streams) {
    const DeviceTime& time = c.measured[device];
    ReportValue out = {{"device", device},
                       {"name", c.devices[device]},
                       {"compute_us", microseconds(time.computing)},
                       {"exposed_us", microseconds(time.exposed - time.waiting)},
                       {"waited_us", microseconds(time.waiting)}};
    out["steps"] = table({"step", "stream", "begin_us", "us", "exposed_us", "waited_us"});
    for (const TraceBar& b : c.measuredBars[device]) {
      int64_t step = -1;
      if (b.op >= 0)
        if (const auto at = stepOf.find(c.ops[static_cast<size_t>(b.op)].id); at != stepOf.end())
          step = static_cast<int64_t>(at->second);
      size_t stream = 0;
      while (stream < streams.size() && streams[stream] != c.streams[b.stream]) ++stream;
      if (stream == streams.size()) streams.push_back(c.streams[b.stream]);
      out["steps"]["rows"].push_back({step, stream, microseconds(b.begin), microseconds(b.seconds),
                                      microseconds(b.exposed - b.waited), microseconds(b.waited)});
    }
    return out;
  }

  // "%blocks_#_h" and 7 for "%blocks_7_h", so that the names of equal layers are one word; -1: without a number.
  static std::pair<std::string, int64_t> numbered(const std::string& name) {
    const size_t at = name.find_first_of("0123456789");
    if (at == std::string::npos) return {name, -1};
    const size_t end = std::min(name.find_first_not_of("0123456789", at), name.size());
    if (name[at] == '0' && end - at > 1) return {name, -1};
    const auto number = parseNumber<int64_t>(name.substr(at, end - at));
    if (!number) return {name, -1};
    return {name.substr(0, at) + "#" + name.substr(end), *number};
  }

  // Of a kernel: the line of the statement that its result is named after, or else of its last op that the text has.
  int lineOf(OpId o, const StepNames& names) const {
    int line = lines_.own(m_[o].loc);
    if (m_.record(o).regions != RegionKind::Fused) return line;
    if (m_[o].numResults > 0)
      if (const int named = lines_.own(names.location(m_.result(o))); named >= 0) return named;
    forEachOp(m_, m_.region(o), [&](OpId inner) {
      if (const int l = lines_.own(m_[inner].loc); l >= 0) line = l;
    });
    return line;
  }
  // Of the value that names a buffer.
  int lineOf(ValueId v, const StepNames& names) const {
    const int line = lines_.own(names.location(v));
    const OpId by = m_.definingOp(v);
    return line < 0 && by.valid() ? lineOf(by, names) : line;
  }

  // By step; -1: none.
  std::vector<int> collectivesOf(FuncId f, const Timeline& t) const {
    std::vector<size_t> steps;
    std::vector<OpId> messages;
    for (size_t i = 0; i < t.steps.size(); ++i)
      if (t.steps[i].kind == TimelineStep::Communicate) steps.push_back(i), messages.push_back(t.steps[i].op);
    const std::vector<int> own = matcher_.collectivesOf(m_, f, messages);
    std::vector<int> found(t.steps.size(), -1);
    for (size_t i = 0; i < steps.size(); ++i) found[steps[i]] = own[i];
    return found;
  }

  static std::vector<int64_t> liveBytes(const MemoryPlan& plan) {
    std::vector<int64_t> change(plan.numPositions + 2, 0);
    for (const MemoryPlan::Buffer& b : plan.buffers)
      for (const MemoryPlan::Range& r : b.live) {
        change[std::min(r.first, plan.numPositions)] += b.bytes;
        change[std::min(r.last, plan.numPositions) + 1] -= b.bytes;
      }
    for (size_t i = 1; i < change.size(); ++i) change[i] += change[i - 1];
    return change;
  }

  ReportValue memory(const MemoryPlan& plan, const Timeline& t, FuncId f, const StepNames& names) {
    // By position: the first step that is not before it.
    std::vector<size_t> stepAt(plan.numPositions + 1, t.steps.empty() ? 0 : t.steps.size() - 1);
    size_t filled = 0;
    for (size_t s = 0; s < t.steps.size(); ++s)
      if (auto at = plan.position.find(t.steps[s].op); at != plan.position.end())
        for (const uint32_t end = at->second[t.steps[s].kind == TimelineStep::Repeat];
             filled <= end && filled < stepAt.size(); ++filled)
          stepAt[filled] = s;
    ReportValue out = {{"function", "@" + std::string(m_.strings[m_[f].name])},
                       {"arena_bytes", plan.arenaBytes},
                       {"least_bytes", plan.lowerBound},
                       {"peak_step", stepAt[std::min(plan.peakPosition, plan.numPositions)]}};
    out["buffers"] = table({"value", "number", "what", "offset", "bytes", "first_step", "last_step", "line",
                            "at_peak", "kernels"});
    Words words;
    std::unordered_map<ValueId, bool> isResult;
    for (ValueId v : m_[m_[f].body].yields) isResult[v] = true;
    std::vector<ValueId> named(plan.buffers.size());
    for (const MemoryPlan::Held& h : plan.values) {
      ValueId& v = named[h.buffer];
      if (!v.valid() || (!m_[v].name.valid() && m_[h.value].name.valid())) v = h.value; // a name of the text
    }
    const auto kernels = kernelsOfBuffers(plan, t);
    int64_t small = 0, smallBytes = 0;
    for (size_t b = 0; b < plan.buffers.size(); ++b) {
      const MemoryPlan::Buffer& buffer = plan.buffers[b];
      const ValueId v = named[b].valid() ? named[b] : buffer.value;
      const bool argument =
          m_[buffer.value].kind == ValueKind::BlockArg && BlockId(m_[buffer.value].owner) == m_[f].body;
      const OpId by = m_.definingOp(buffer.value);
      const char* what = argument                                                     ? "argument"
                         : isResult.contains(v)                                       ? "result"
                         : by.valid() && (isLoadTimeOp(m_, by) || isFrozenOp(m_, by)) ? "constant"
                                                                                      : "value";
      const int line = lineOf(v, names);
      if (buffer.bytes < plan.arenaBytes / kSmallBuffer) {
        ++small, smallBytes += buffer.bytes;
        continue;
      }
      const auto name = numbered(names.buffer(v));
      for (const MemoryPlan::Range& r : buffer.live) {
        const size_t first = stepAt[std::min(r.first, plan.numPositions)],
                     last = stepAt[std::min(r.last, plan.numPositions)];
        const bool peak = r.first <= plan.peakPosition && plan.peakPosition <= r.last;
        out["buffers"]["rows"].push_back({words(name.first), name.second, words(what), buffer.offset,
                                          buffer.bytes, first, last, line, peak ? 1 : 0,
                                          kernelsIn(kernels[b], first, last)});
      }
    }
    shareColumns(out["buffers"], {"value", "what", "bytes", "line", "at_peak", "kernels"});
    out["words"] = std::move(words.list);
    out["left_out"] = {{"buffers", small}, {"bytes", smallBytes}};
    return out;
  }

  // By buffer: the kernels that read or write it, with their steps.
  struct BufferUse {
    size_t step;
    int kernel;
  };
  std::vector<std::vector<BufferUse>> kernelsOfBuffers(const MemoryPlan& plan, const Timeline& t) const {
    std::vector<std::vector<BufferUse>> uses(plan.buffers.size());
    for (size_t s = 0; s < t.steps.size(); ++s) {
      const auto kernel = kernelOfOp_.find(t.steps[s].op);
      if (t.steps[s].kind != TimelineStep::Compute || kernel == kernelOfOp_.end()) continue;
      const auto add = [&](ValueId v) {
        if (const auto at = plan.bufferOf.find(v); at != plan.bufferOf.end())
          uses[at->second].push_back({s, kernel->second});
      };
      for (ValueId v : m_.operands(t.steps[s].op)) add(v);
      for (uint32_t r = 0; r < m_[t.steps[s].op].numResults; ++r) add(m_.result(t.steps[s].op, r));
    }
    return uses;
  }
  // Those of the steps from `first` to `last`.
  static std::set<int> kernelsIn(const std::vector<BufferUse>& uses, size_t first, size_t last) {
    std::set<int> kernels;
    for (const BufferUse& u : uses)
      if (first <= u.step && u.step <= last) kernels.insert(u.kernel);
    return kernels;
  }

  // --- kernels ---

  int kernelOf(const TimelineStep& s, const StepNames& names) {
    if (m_.record(s.op).regions != RegionKind::Fused || isViewRegion(m_, s.op)) return -1;
    auto call = kernelSet_.add(m_, s.op);
    std::string name = names.kind(s.op);
    int source = -1;
    if (call) std::visit([&](const auto& c) { describe(c, name, source); }, *call);
    const std::string key = name + "|" + std::to_string(s.flops) + "|" + std::to_string(s.bytes);
    const auto [it, isNew] = kernelIds_.emplace(key, static_cast<int>(out_.kernels.size()));
    if (isNew) {
      computed_.emplace_back();
      out_.kernels.push_back({{"name", name},
                              {"kind", names.kind(s.op)},
                              {"uses", 0.0},
                              {"flops", s.flops},
                              {"bytes", s.bytes},
                              {"us", microseconds(s.seconds)},
                              {"lines", ReportValue::array()},
                              {"line_uses", ReportValue::array()},
                              {"source", source}});
    }
    kernelOfOp_.emplace(s.op, it->second);
    ReportValue& kernel = out_.kernels[static_cast<size_t>(it->second)];
    kernel["uses"] = kernel["uses"].get<double>() + s.times;
    if (std::vector<std::string>& computed = computed_[static_cast<size_t>(it->second)];
        computed.size() < kMaxComputed)
      computed.push_back(names.step(s.op));
    addLines(kernel, s);
    return it->second;
  }

  // Of each line with an op in the step's region: the executions, in one run.
  void addLines(ReportValue& kernel, const TimelineStep& s) const {
    std::set<int> own;
    forEachOp(m_, m_.region(s.op), [&](OpId inner) {
      const int line = lines_(m_[inner].loc);
      if (line < 0 || !own.insert(line).second) return;
      ReportValue &lines = kernel["lines"], &uses = kernel["line_uses"];
      const auto at = static_cast<size_t>(std::ranges::find(lines, ReportValue(line)) - lines.begin());
      if (at == lines.size()) {
        if (at == kMaxLines) return;
        lines.push_back(line), uses.push_back(0.0);
      }
      uses[at] = uses[at].get<double>() + s.times;
    });
  }

  void describe(const KernelCall& c, std::string& name, int& source) const {
    source = static_cast<int>(c.kernel);
    name = kernelSet_.kernels()[c.kernel].name;
  }
  void describe(const GemmCall& c, std::string& name, int& source) const {
    const GemmProblem<int64_t> sizes = c.bound(std::vector<int64_t>(c.sizes.size(), 1));
    const bool known = std::ranges::all_of(c.sizes, [](Dim d) { return d.isStatic(); });
    int64_t batch = 1;
    for (const auto& b : sizes.batch) batch *= b.extent;
    name = "matmul";
    if (known)
      name += " " + (batch > 1 ? std::to_string(batch) + "x" : "") + std::to_string(sizes.m.extent) + "x" +
              std::to_string(sizes.n.extent) + "x" + std::to_string(sizes.k.extent);
    if (!c.epilogue) return;
    source = static_cast<int>(c.epilogue->kernel);
    name += " + " + kernelSet_.kernels()[c.epilogue->kernel].name;
  }
  void describe(const FactorizationCall& c, std::string& name, int&) const { name = c.what.name(); }
  template <class Call> void describe(const Call&, std::string&, int&) const {}

  void kernelSources() {
    size_t total = 0;
    for (size_t i = 0; i < out_.kernels.size(); ++i) {
      ReportValue& k = out_.kernels[i];
      k["computes"] = namesOfSteps(computed_[i]);
      const int source = k["source"].get<int>();
      k.erase("source");
      if (source < 0) {
        if (k["kind"] == kindText("gemm")) k["library"] = target_.gpu ? "cuBLASLt" : "oneDNN";
        continue;
      }
      const KernelSource& text = kernelSet_.kernels()[static_cast<size_t>(source)];
      const std::string& code = target_.gpu ? text.cuda : text.cpp;
      total += code.size();
      if (total <= kMaxSourceBytes) k["source"] = code;
      if (target_.gpu && !text.schedule.empty()) k["schedule"] = text.schedule;
    }
  }

  Module& m_;
  const MeasuredTrace* trace_;
  FuncId entry_;
  const LineMap& lines_;
  Target target_;
  bool staged_;       // into micro-batches
  bool long_ = false; // the function has many steps
  KernelSet kernelSet_;
  std::map<std::string, int> kernelIds_;
  std::unordered_map<OpId, int> kernelOfOp_;
  std::vector<std::vector<std::string>> computed_;   // by kernel: the names of its results
  std::map<int, std::vector<std::string>> messages_; // by collective: the names of its steps
  Words words_;
  MessageMatcher matcher_;
  PlacedData out_;
};

} // namespace

ReportValue pipelineData(const PipelineRun& run) {
  ReportValue out = {{"title", pipelineTitle(run)}, {"devices", run.shape.devices},
                     {"chunks", run.shape.chunks},  {"microbatches", run.shape.microbatches},
                     {"bubble", run.bubble},        {"messages", run.messages},
                     {"bytes", run.bytes}};
  if (run.closedForm) out["closed_form_bubble"] = *run.closedForm;
  out["actions"] = table({"device", "phase", "stage", "microbatch", "begin_us", "us"});
  static constexpr const char* kPhases[] = {"F", "B", "W"};
  for (size_t d = 0; d < run.order.size(); ++d)
    for (const PipelineAction& a : run.order[d])
      out["actions"]["rows"].push_back({d, kPhases[static_cast<size_t>(a.phase)], a.stage, a.microbatch,
                                        microseconds(a.begin), microseconds(a.end - a.begin)});
  return out;
}

PlacedData placedData(Module& m, FuncId entry, const LineMap& lines, const GlobalData* global,
                      const MeasuredTrace* trace) {
  return PlacedMaker(m, entry, lines, global, trace).make();
}

} // namespace dtc
