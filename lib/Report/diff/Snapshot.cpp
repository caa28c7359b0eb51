// Compiles a program and records its statements, collectives and memory.
#include "diff/MatchedStatements.h"
#include "diff/SnapshotStatements.h"
#include "dtc/IR/DevicePrograms.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/Passes/analysis/PipelineText.h"
#include "dtc/Passes/analysis/TargetOf.h"
#include "dtc/Passes/memory/MemoryReport.h"
#include "dtc/Passes/trace/CommContracts.h"
#include "dtc/Report/explain/StepCost.h"
#include "dtc/Session/Session.h"
#include "dtc/Support/Units.h"
#include "dtc/Support/Words.h"
#include "dtc/Version.h"
#include "explain/MessageNames.h"
#include "explain/ProgramTime.h"
#include "explain/StepNames.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace dtc {

namespace {

PropagateOptions propagationOf(const LoweringFlags& flags) {
  PropagateOptions options;
  options.reduceDType = parseDType(flags.reduceDType);
  if (auto policy = parsePolicy(flags.policy)) options.policy = *policy;
  if (flags.strictNonFinite) options.nonFinite = NonFinite::Strict;
  return options;
}

// The one that the text states, else `target`.
std::string targetFor(const Module& written, FuncId entry, const std::string& target) {
  const std::string stated = writtenTarget(written, entry);
  return stated.empty() ? target : stated;
}

class Recorder {
public:
  Recorder(const Module& written, FuncId entry, const LoweringFlags& flags, const std::string& target,
           Diagnostics& diags)
      : written_(written), entry_(entry), name_(written.strings[written[entry].name]), flags_(flags),
        target_(targetFor(written, entry, target)), options_(propagationOf(flags)), diags_(diags) {}

  ProgramSnapshot run(ProgramSnapshot::Extent extent) {
    out_.name = written_.source.name;
    out_.version = DTC_VERSION;
    settings();
    if (extent == ProgramSnapshot::Written) { // the text may have errors
      StatementReader reader(written_, entry_);
      statements(reader);
    } else {
      const Session only(written_, entry_); // without functions that the entry does not reach
      StatementReader reader(only.module(), only.entry());
      statements(reader);
      if (compile(reader.places())) return std::move(out_);
    }
    out_.extent = ProgramSnapshot::Written;
    out_.statements.clear(), out_.collectives.clear();
    out_.noMemory = "it was not compiled";
    return std::move(out_);
  }

private:
  void statements(StatementReader& reader) {
    out_.written = reader.run();
    for (size_t i = 0; i < out_.written.size(); ++i) out_.written[i].offset = reader.offsets()[i];
  }

  void set(const char* name, const std::string& value) { out_.settings.emplace_back(name, value); }

  void settings() {
    set("entry", "@" + name_);
    for (uint32_t i = 0; i < written_.shardings.numMeshes(); ++i) {
      const Mesh& mesh = written_.shardings.mesh(MeshId(i));
      set(("mesh " + std::string(written_.strings[mesh.name])).c_str(),
          joined(mesh.axes, ", ", [&](const MeshAxis& a) {
            return std::string(written_.strings[a.name]) + "=" + std::to_string(a.size);
          }));
    }
    const auto orUsual = [](const std::string& text, const char* value) {
      return text.empty() ? value : text;
    };
    set("-O", std::to_string(flags_.optLevel));
    set("--target", target_);
    set("--policy", orUsual(flags_.policy, "shardy"));
    set("--reduce-dtype", orUsual(flags_.reduceDType, "of the sum"));
    set("--reduction-order", flags_.reductionOrder);
    set("--recompute", orUsual(flags_.recompute, "gathers"));
    if (hasStages(written_, entry_)) set("--pipeline-schedule", orUsual(flags_.pipelineSchedule, "1f1b"));
    set("--strict-nonfinite", flags_.strictNonFinite ? "yes" : "no");
    set("--rings", orUsual(flags_.rings, "auto"));
    set("--no-overlap", flags_.noOverlap ? "yes" : "no");
    set("--library-gelu", flags_.libraryGelu ? "yes" : "no");
    const NominalMachine& machine = options_.machine;
    const auto rate = [](double v) { return significant(v, 6); };
    set("machine link",
        rate(machine.link.bytesPerSecond) + " B/s, " + rate(machine.link.latencySeconds) + " s");
    set("machine launch", rate(machine.launchSeconds) + " s");
    set("machine memory", rate(machine.memoryBytesPerSecond) + " B/s");
    set("machine arithmetic", rate(machine.flopsPerSecond) + " flop/s");
  }

  bool compile(const std::unordered_map<uint32_t, int32_t>& places) {
    Session session(written_, entry_, flags_.pipeline(target_));
    if (!session.lower(Stage::Closed, diags_).ok() || diags_.hasErrors()) return false;
    const Module prepared = session.module();
    const FuncId entry = prepared.findFunction(name_);
    if (hasCommContracts(prepared)) // an error, but the program compiles
      (void)Session(prepared, entry, flags_.pipeline(target_)).lower(Stage::Local, diags_);
    const size_t errors = diags_.numErrors();
    auto trace = traceCollectives(prepared, options_, {}, diags_, entry);
    if (!trace || diags_.numErrors() > errors) return false;
    StatementReader reader(trace->propagated, trace->propagated.findFunction(name_), &prepared,
                           &trace->report);
    out_.statements = reader.run();
    for (size_t i = 0; i < out_.statements.size(); ++i) {
      const auto own = places.find(reader.offsets()[i]), value = places.find(reader.valueOffsets()[i]);
      const bool bounds =
          value != places.end() && isBoundary(out_.written[static_cast<size_t>(value->second)]);
      if (bounds || own != places.end()) out_.statements[i].origin = (bounds ? value : own)->second;
    }
    collectives(prepared, *trace, reader);
    memory(std::move(*trace), prepared);
    return true;
  }

  void collectives(const Module& prepared, CollectiveTrace& trace, const StatementReader& reader) {
    const ProgramTime time = timeOf(trace, options_.machine);
    ExplainOptions how;
    how.propagation = options_;
    how.changes = how.chains = false;
    const ProgramReport report = explainCollectives(prepared, trace, how, {});
    matcher_.emplace(messageIdentities(trace));
    for (size_t i = 0; i < report.collectives.size(); ++i) {
      const ProgramCollective& c = report.collectives[i];
      if (c.moreValues > 0) buckets_.insert(static_cast<int>(i));
      SnapshotCollective s;
      s.kind = c.kind, s.axes = joined(c.axes);
      s.value = (c.generated ? "in " : "") + c.value;
      if (!c.sources.empty()) {
        const ProgramCollective::Source& source = c.sources[0];
        s.op = source.op, s.location = source.location, s.from = source.from, s.to = source.to;
      }
      s.layer = report.groups[c.group].layer;
      s.count = c.counted;
      if (c.price) {
        s.bytes = c.price->bytesReceived;
        s.seconds = c.price->seconds * static_cast<double>(s.count);
      }
      const TracedCollective& traced = trace.collectives[i];
      if (const auto it = time.exposed.find(traced.op); it != time.exposed.end()) s.exposed = it->second;
      s.statements = reader.statementsOf(traced.sources);
      out_.complete = out_.complete && c.price && c.count;
      out_.collectives.push_back(std::move(s));
    }
    out_.complete = out_.complete && time.complete && trace.assumed.empty();
    std::vector<std::pair<OpId, double>> work(time.compute.begin(), time.compute.end());
    std::ranges::sort(work, {}, [](const auto& w) { return w.first.index; }); // equal programs, equal sums
    for (const auto& [op, seconds] : work) {
      const std::vector<int32_t> of = reader.statementsOf(sourcesOf(trace.local, op));
      (of.empty() ? out_.otherSeconds : out_.statements[static_cast<size_t>(of[0])].seconds) += seconds;
    }
  }

  // Plans memory from the local program of the trace where it is what the pipeline would run.
  void memory(CollectiveTrace&& trace, const Module& prepared) {
    if (!trace.assumed.empty()) {
      const std::string& size = trace.assumed[0];
      out_.noMemory = "the size " + size + " is not bound, and costs assume " + size + " = " +
                      std::to_string(kNominalSymbol) + ": add --dim " + size + "=N";
      return;
    }
    const StandardPipelineOptions options = flags_.pipeline(target_);
    const bool stages = hasStages(prepared, prepared.findFunction(name_));
    const bool again = stages || options.fixedReductionOrder;
    Module from = again ? prepared : trace.local;
    const FuncId entry = from.findFunction(name_);
    Session session(std::move(from), entry, options);
    Diagnostics quiet;
    Status done = stages ? session.lower(Stage::Local, quiet) : Ok{};
    if (done && stages) pipeline(session);
    if (done) done = session.lower(Stage::Placed, quiet);
    if (!done) return noMemory(done, session, quiet);
    schedule(session);
    const Module& m = session.module();
    for (FuncId f : functionsOfProgram(m, session.entry())) {
      const auto plan = readMemoryPlan(m, f, quiet);
      if (!plan) return noMemory(Ok{}, session, quiet);
      if (out_.memory && out_.memory->peakBytes >= plan->arenaBytes) continue;
      SnapshotMemory memory;
      memory.peakBytes = plan->arenaBytes;
      const StepNames names(m, f);
      for (MemoryReport::Row& row : memoryReport(m, f, *plan, plan->arenaBytes).alive)
        memory.alive.push_back({names.buffer(row.id), std::move(row.what), std::move(row.type),
                                std::move(row.where), row.bytes});
      out_.memory = std::move(memory);
    }
  }

  void noMemory(const Status& done, const Session& session, const Diagnostics& diags) {
    out_.memory.reset();
    out_.noMemory = done || done.error().message.empty() ? "" : done.error().message;
    for (const Diagnostic& d : diags.all())
      if (out_.noMemory.empty() && d.severity == Severity::Error)
        out_.noMemory = placeText(session.module().source, d.range, true) + ": " + d.message();
    if (out_.noMemory.empty()) out_.noMemory = "it could not be planned";
  }

  // The schedule replaces the sums over ops and collectives, and names the messages of several values.
  void schedule(Session& session) {
    for (const auto& [collective, names] : messageNames(session.module(), session.entry(), *matcher_))
      if (buckets_.contains(collective))
        out_.collectives[static_cast<size_t>(collective)].value = namesOfSteps(names);
    const auto cost = stepCostOf(session.module(), session.entry());
    if (!cost) return;
    double seconds = out_.otherSeconds, bytes = 0;
    for (const SnapshotStatement& s : out_.statements) seconds += s.seconds;
    for (const SnapshotCollective& c : out_.collectives) {
      seconds += c.exposed;
      bytes += static_cast<double>(c.bytes) * static_cast<double>(c.count);
    }
    out_.scheduleSeconds = cost->seconds - seconds;
    if (bytes < 9e18) out_.scheduleBytes = cost->bytesReceived - static_cast<int64_t>(bytes);
    out_.complete = out_.complete && cost->complete;
    out_.scheduleMessages.emplace();
    for (const SummaryRow& r : cost->kinds)
      out_.scheduleMessages->push_back(
          {r.label, r.count, static_cast<int64_t>(std::llround(std::min(r.bytes, 9e18))), r.seconds});
  }

  void pipeline(Session& session) {
    const auto run = readPipeline(session.module(), session.entry());
    if (!run) return;
    set("pipeline", std::to_string(run->shape.devices) + " devices of " + std::to_string(run->shape.chunks) +
                        (run->shape.chunks == 1 ? " stage" : " stages") + ", " +
                        std::to_string(run->shape.microbatches) + " micro-batches");
  }

  const Module& written_;
  FuncId entry_;
  std::string name_;
  const LoweringFlags& flags_;
  std::string target_;
  PropagateOptions options_;
  Diagnostics& diags_;
  std::optional<MessageMatcher> matcher_;
  std::set<int> buckets_; // collectives
  ProgramSnapshot out_;
};

} // namespace

ProgramSnapshot takeSnapshot(const Module& written, FuncId entry, const LoweringFlags& flags,
                             const std::string& target, ProgramSnapshot::Extent extent, Diagnostics& diags) {
  return Recorder(written, entry, flags, target, diags).run(extent);
}

} // namespace dtc
