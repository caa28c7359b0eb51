#include "dtc/Runtime/trace/Trace.h"

#include "dtc/Files/TensorText.h"
#include "dtc/IR/DevicePrograms.h"
#include "dtc/IR/text/Statements.h"
#include "dtc/IR/text/Text.h"
#include "dtc/Support/Cores.h"
#include "dtc/Support/Json.h"
#include "dtc/Support/Words.h"
#include "dtc/Version.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <sys/utsname.h>
#include <unordered_map>

namespace dtc {
namespace {

// Microseconds with three decimals, which is exact: intervals that are disjoint in ns stay disjoint in the
// text.
std::string micros(int64_t ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%lld.%03d", static_cast<long long>(ns / 1000),
                static_cast<int>(ns % 1000));
  return text;
}

// The container runtime, detected from local files only.
std::string containerText() {
  if (access("/.dockerenv", F_OK) == 0) return "docker";
  if (access("/run/.containerenv", F_OK) == 0) return "podman";
  return "none";
}

struct Writer {
  const Executable& e;
  const Module& m;
  const TraceInfo& info;
  std::string out = "{\"displayTimeUnit\":\"ns\",\n";
  bool first = true;
  std::map<std::string, int> streams = {{"compute", 1}}; // thread numbers
  std::unordered_map<OpId, int64_t> statements = {};     // their numbers in the function's text

  void event(const std::string& fields) {
    out += first ? "\n{" : ",\n{";
    first = false;
    out += fields;
    out += '}';
  }
  void name(const char* what, int64_t pid, int tid, const std::string& text) {
    event("\"ph\":\"M\",\"name\":\"" + std::string(what) + "\",\"pid\":" + std::to_string(pid) +
          ",\"tid\":" + std::to_string(tid) + ",\"args\":{\"name\":" + jsonString(text) + "}");
  }
  static std::string at(int64_t pid, int tid, int64_t ns) {
    return "\"pid\":" + std::to_string(pid) + ",\"tid\":" + std::to_string(tid) + ",\"ts\":" + micros(ns);
  }

  void otherData() {
    struct utsname system = {};
    uname(&system);
    std::string mesh;
    for (const MeshAxis& a : e.mesh().axes)
      mesh += (mesh.empty() ? "" : " ") + std::string(m.strings[a.name]) + "=" + std::to_string(a.size);
    out += "\"otherData\":{\"dtc\":\"" DTC_VERSION "\",\"program\":" + jsonString(info.program) +
           ",\"backend\":" + jsonString(info.backend) + ",\"mesh\":" + jsonString(mesh) +
           ",\"host\":" + jsonString(system.nodename) + ",\"container\":" + jsonString(containerText()) +
           ",\"system\":" +
           jsonString(std::string(system.sysname) + " " + system.release + " " + system.machine) +
           ",\"cores\":" + std::to_string(availableCores()) +
           ",\"arena_bytes\":" + std::to_string(e.arenaBytes());
    if (info.rate.bytesPerNs > 0) {
      const auto devices = static_cast<double>(e.mesh().numDevices());
      out += ",\"machine\":{\"flops_per_second\":" + jsonNumber(info.rate.flopsPerNs * 1e9 / devices) +
             ",\"memory_bytes_per_second\":" + jsonNumber(info.rate.bytesPerNs * 1e9 / devices) + "}";
    }
    out += ",\"entry\":" + jsonString(m.strings[m[info.entry].name]) +
           ",\"scheduled\":" + jsonString(printModule(m)) + stepTexts() + "},\n";
  }

  std::string stepTexts() const {
    if (info.steps.empty()) return {};
    const auto list = [](const auto& all, const auto& text) { return "[" + joined(all, ",", text) + "]"; };
    const auto ofStep = [](const StepText& s) {
      return "[" + jsonString(s.value) + "," + jsonString(s.place) + "]";
    };
    const auto ofFunction = [&](const std::vector<StepText>& steps) { return list(steps, ofStep); };
    return ",\"steps\":" + list(info.steps, ofFunction);
  }

  void numberStatements() {
    for (FuncId f : functionsOfProgram(m, info.entry))
      for (int64_t next = 0; OpId o : statementsOf(m, f)) statements[o] = next++;
  }

  void tracks() {
    for (const StepInfo& s : e.steps()) streams.emplace(s.stream, static_cast<int>(streams.size()) + 1);
    name("process_name", 0, 0, "host");
    name("thread_name", 0, 1, "compile");
    for (int64_t p = 0; p < e.mesh().numDevices(); ++p) {
      name("process_name", p + 1, 0, "device " + deviceText(e.mesh(), m.strings, p));
      event("\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":" + std::to_string(p + 1) +
            ",\"tid\":0,\"args\":{\"sort_index\":" + std::to_string(p + 1) + "}");
      if (const std::string process = e.processOf(p); !process.empty())
        event("\"ph\":\"M\",\"name\":\"process_labels\",\"pid\":" + std::to_string(p + 1) +
              ",\"tid\":0,\"args\":{\"labels\":" + jsonString(process) + "}");
      for (auto& [stream, tid] : streams) name("thread_name", p + 1, tid, stream);
    }
  }

  int64_t host() {
    int64_t begin = 0;
    for (const Backend::Phase& phase : info.phases) {
      int64_t ns = std::max<int64_t>(0, static_cast<int64_t>(phase.milliseconds * 1e6));
      event("\"ph\":\"X\",\"cat\":\"host\",\"name\":" + jsonString(phase.name) + "," + at(0, 1, begin) +
            ",\"dur\":" + micros(ns));
      begin += ns;
    }
    return begin;
  }

  void step(const StepEvent& ev, int64_t offset) {
    const StepInfo& s = e.steps()[ev.step];
    int64_t ns = ev.endNs - ev.beginNs, work = ev.workNs ? ev.endNs - ev.workNs : ns;
    std::string args = "\"op\":" + jsonString(s.op) + ",\"line\":" + jsonString(s.where());
    if (const auto at = statements.find(s.id); at != statements.end())
      args += ",\"statement\":" + std::to_string(at->second);
    if (s.bytes) args += ",\"bytes\":" + std::to_string(s.bytes);
    if (s.flops) args += ",\"flops\":" + std::to_string(s.flops);
    if (s.bytes && work > 0)
      args += ",\"GB/s\":" + jsonNumber(static_cast<double>(s.bytes) / static_cast<double>(work));
    if (s.flops && work > 0)
      args += ",\"GFLOP/s\":" + jsonNumber(static_cast<double>(s.flops) / static_cast<double>(work));
    if (ev.workNs) args += ",\"waited_us\":" + micros(std::max<int64_t>(0, ev.workNs - ev.beginNs));
    event("\"ph\":\"X\",\"cat\":" + jsonString(s.what) + ",\"name\":" + jsonString(s.name) + "," +
          at(ev.coordinate + 1, streams[s.stream], offset + ev.beginNs) + ",\"dur\":" + micros(ns) +
          ",\"args\":{" + args + "}");
    int64_t live = e.liveBytes()[ev.step];
    if (live >= 0)
      event("\"ph\":\"C\",\"name\":\"live memory\"," + at(ev.coordinate + 1, 0, offset + ev.endNs) +
            ",\"args\":{\"bytes\":" + std::to_string(live) + "}");
  }

  // Flow arrows from the first member of a rendezvous to each other member.
  void arrows(int64_t offset) {
    std::map<uint64_t, std::vector<const StepEvent*>> rendezvous;
    for (const StepEvent& ev : e.events())
      if (ev.rendezvous && e.steps()[ev.step].what == "collective") rendezvous[ev.rendezvous].push_back(&ev);
    uint64_t id = 0;
    for (auto& [number, members] : rendezvous)
      for (size_t i = 1; i < members.size(); ++i) {
        const StepInfo& s = e.steps()[members[i]->step];
        std::string common = ",\"cat\":\"collective\",\"name\":" + jsonString(s.name) +
                             ",\"id\":" + std::to_string(++id) + ",";
        int tid = streams[s.stream];
        auto middle = [](const StepEvent& ev) { return ev.workNs + (ev.endNs - ev.workNs) / 2; };
        event("\"ph\":\"s\"" + common + at(members[0]->coordinate + 1, tid, offset + members[0]->workNs));
        event("\"ph\":\"f\",\"bp\":\"e\"" + common +
              at(members[i]->coordinate + 1, tid, offset + middle(*members[i])));
      }
  }

  std::string write() {
    otherData();
    numberStatements();
    out += "\"traceEvents\":[";
    tracks();
    int64_t offset = host();
    for (const StepEvent& ev : e.events()) step(ev, offset);
    arrows(offset);
    return std::move(out) + "\n]}\n";
  }
};

} // namespace

std::string traceJson(const Executable& e, const Module& m, const TraceInfo& info) {
  return Writer{e, m, info}.write();
}

} // namespace dtc
