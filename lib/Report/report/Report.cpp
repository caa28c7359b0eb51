#include "dtc/Report/report/Report.h"

#include "dtc/IR/DevicePrograms.h"
#include "dtc/Ops/record/Ops.h"
#include "dtc/Passes/analysis/TargetOf.h"
#include "dtc/Report/explain/StepCost.h"
#include "dtc/Report/trace/TraceComparison.h"
#include "dtc/Session/Session.h"
#include "dtc/Support/DiagnosticsJson.h"
#include "dtc/Support/Words.h"
#include "dtc/Version.h"
#include "explain/ReportText.h"
#include "report/Closed.h"
#include "report/GraphData.h"
#include "report/PageFiles.h"
#include "report/PlacedData.h"

#include <algorithm>
#include <cmath>

namespace dtc {

namespace {

constexpr size_t kFoldedLines = 700; // of a text that is longer, equal layers are shown once

std::string dumped(const ReportValue& v) {
  return v.dump(-1, ' ', false, ReportValue::error_handler_t::replace);
}

class ProgramMaker {
public:
  ProgramMaker(ProgramData& data, const ReportOptions& options)
      : data_(data), options_(options), module_(standardOps()) {}

  Status run(SourceText source) {
    out_ = {{"name", source.name}, {"reached", "nothing"}};
    const Status loaded = loadText(std::move(source), options_.read, module_, data_.problems);
    data_.source = module_.source;
    if (!loaded && !data_.problems.hasErrors()) return loaded.error();
    if (loaded) {
      Status made = compile();
      if (!made && !made.error().message.empty()) {
        if (made.error().kind == Error::Usage) return made;
        data_.error = made.error().message;
      }
    }
    finish();
    return Ok{};
  }

private:
  // As far as it goes; diagnostics say why not further.
  Status compile() {
    out_["reached"] = "text";
    const bool ofTrace =
        options_.entry.empty() && options_.trace && module_.findFunction(options_.trace->entry).valid();
    DTC_TRY(const FuncId entry, entryOf(module_, ofTrace ? options_.trace->entry : options_.entry));
    if (Status s = checkChoices(options_.lowering); !s) return s;
    out_["entry"] = "@" + std::string(module_.strings[module_[entry].name]);
    name_ = module_.strings[module_[entry].name];
    out_["meshes"] = meshData(module_);
    if (levelOf(module_, entry) < Level::Local) {
      if (Status s = global(entry); !s) return s;
      out_["reached"] = "propagated";
    }
    if (Status s = placed(entry); !s) return s;
    if (data_.problems.hasErrors()) return Ok{};
    out_["reached"] = "scheduled";
    data_.complete = true;
    return Ok{};
  }

  [[nodiscard]] PropagateOptions propagation() const {
    PropagateOptions p;
    p.reduceDType = parseDType(options_.lowering.reduceDType);
    if (auto policy = parsePolicy(options_.lowering.policy)) p.policy = *policy;
    if (options_.lowering.strictNonFinite) p.nonFinite = NonFinite::Strict;
    return p;
  }

  Status global(FuncId entry) {
    const bool annotated = levelOf(module_, entry) == Level::Global;
    std::optional<Module> written;
    auto prepared = closedModule(module_, entry, data_.problems, &written);
    if (!prepared) return Error{Error::Input, ""};
    const FuncId own = prepared->findFunction(module_.strings[module_[entry].name]);
    auto trace = traceCollectives(*prepared, propagation(), {}, data_.problems, own);
    if (!trace || data_.problems.hasErrors()) return Error{Error::Input, ""};
    ExplainOptions how;
    how.propagation = propagation();
    how.progress = options_.progress;
    how.changes = annotated;
    how.links = AnnotationLinks(module_);
    const PrepareProgram again = [&](SourceText text) -> std::optional<Module> {
      Module edited(standardOps());
      Diagnostics quiet;
      if (!loadText(std::move(text), options_.read, edited, quiet)) return std::nullopt;
      const FuncId f = edited.findFunction(name_);
      return f.valid() ? closedModule(std::move(edited), f, quiet) : std::nullopt;
    };
    how.scheduleCost = [&](const Module& program) {
      return scheduleCostOf(program, program.findFunction(name_), options_.lowering, options_.target);
    };
    report_ = explainCollectives(*prepared, *trace, how, again);
    index_.emplace(data_.source);
    global_ =
        globalData(*trace, report_, *index_, written ? &*written : nullptr, callResults(module_, entry));
    out_["meshes"] = meshData(trace->propagated);
    return Ok{};
  }

  Status placed(FuncId entry) {
    if (!index_) index_.emplace(data_.source);
    const std::string written = writtenTarget(module_, entry);
    const std::string target = written.empty() ? options_.target : written;
    if (auto known = targetNamed(target); !known) return known.error();
    Session session(std::move(module_), entry, options_.lowering.pipeline(target));
    session.hooks.progress = options_.progress;
    if (Status s = session.lower(Stage::Local, data_.problems); !s) return s;
    const auto pipeline = readPipeline(session.module(), session.entry()); // before steps are reordered
    addPrograms(session.module(), session.entry());
    if (Status s = session.lower(Stage::Placed, data_.problems); !s) return s;
    if (data_.problems.hasErrors()) return Ok{};
    foldLines();
    const LineMap lines{*index_, standsFor_};
    out_["target"] = target;
    if (options_.trace && !isProgramOf(session.module(), session.entry(), *options_.trace, data_.problems))
      return Ok{};
    PlacedData placed =
        placedData(session.module(), session.entry(), lines, global_ ? &*global_ : nullptr, options_.trace);
    if (pipeline) {
      placed.schedule[0]["pipeline"] = pipelineData(*pipeline);
      placed.schedule[0]["pipeline"]["idle_share"] = placed.idleShare;
    }
    if (const auto cost = stepCostOf(session.module(), session.entry()))
      out_["step"] = ReportValue(stepCostJson(*cost));
    data_.error = placed.error;
    for (auto& [collective, name] : placed.messages)
      global_->collectives[static_cast<size_t>(collective)]["name"] = std::move(name);
    out_["schedule"] = std::move(placed.schedule);
    out_["memory"] = std::move(placed.memory);
    out_["kernels"] = std::move(placed.kernels);
    return Ok{};
  }

  // Of values that not all devices have: which functions of the schedule have them.
  void addPrograms(const Module& local, FuncId entry) {
    if (!global_) return;
    const ValuePrograms programs(local, entry, global_->numStageMarks);
    const size_t all = functionsOfProgram(local, entry).size();
    if (!programs.differ()) return;
    for (size_t v = 0; v < global_->values.size(); ++v)
      if (auto having = programs.having(global_->origins[v]); having.size() < all) {
        // Layers of different stages are not equal.
        if (const int line = global_->valueLines[v]; line >= 0)
          global_->lines[static_cast<size_t>(line)].shape += joined(having, ",") + ";";
        global_->values[v]["programs"] = std::move(having);
      }
  }

  // The lines of layers that are shown once, and which lines stand for them.
  void foldLines() {
    if (!global_ || !layers_.of.empty()) return;
    layers_ = layersOf(*index_, global_->lines);
    if (index_->size() <= kFoldedLines) return;
    for (size_t l = 0; l < index_->size(); ++l) standsFor_.push_back(static_cast<int>(l));
    for (const SourceLayer& layer : layers_.layers)
      if (layer.equalTo >= 0)
        for (size_t i = 0; i < layer.lines.size(); ++i)
          standsFor_[static_cast<size_t>(layer.lines[i])] =
              layers_.layers[static_cast<size_t>(layer.equalTo)].lines[i];
  }

  [[nodiscard]] bool hidden(int line) const {
    return line >= 0 && !standsFor_.empty() && standsFor_[static_cast<size_t>(line)] != line;
  }

  void finish() {
    if (!index_) index_.emplace(data_.source);
    foldLines();
    out_["error"] = data_.error;
    out_["machine"] = machine();
    source();
    if (global_) values();
    out_["diagnostics"] = diagnostics();
    data_.json = dumped(out_);
  }

  static ReportValue machine() {
    const NominalMachine m;
    return {{"flops_per_second", m.flopsPerSecond},
            {"memory_bytes_per_second", m.memoryBytesPerSecond},
            {"link_bytes_per_second", m.link.bytesPerSecond},
            {"link_latency_seconds", m.link.latencySeconds},
            {"launch_seconds", m.launchSeconds}};
  }

  void source() {
    ReportValue lines = ReportValue::array(), layers = ReportValue::array();
    for (size_t l = 0; l < index_->size(); ++l) {
      if (hidden(static_cast<int>(l))) continue;
      ReportValue one = {{"line", l}, {"text", std::string(index_->text(l))}};
      if (global_) facts(global_->lines[l], one);
      if (!layers_.of.empty() && layers_.of[l] >= 0) one["layer"] = layers_.of[l];
      lines.push_back(std::move(one));
    }
    for (const SourceLayer& layer : layers_.layers) {
      ReportValue one = {{"name", layer.name()}, {"lines", layer.lines.size()}};
      if (layer.equalTo >= 0) one["equal_to"] = layer.equalTo;
      layers.push_back(std::move(one));
    }
    out_["source"] = {{"files", index_->files()},
                      {"folded", !standsFor_.empty()},
                      {"left_out", leftOut()},
                      {"layers", std::move(layers)},
                      {"lines", std::move(lines)}};
  }

  // Runs of lines that are not shown: the first one, how many, and the line that stands for the first.
  [[nodiscard]] ReportValue leftOut() const {
    ReportValue runs = ReportValue::array();
    for (int l = 0; l < static_cast<int>(standsFor_.size()); ++l) {
      if (!hidden(l)) continue;
      const int first = l, shown = standsFor_[static_cast<size_t>(l)];
      while (l + 1 < static_cast<int>(standsFor_.size()) && hidden(l + 1) &&
             standsFor_[static_cast<size_t>(l) + 1] - (l + 1) == shown - first)
        ++l;
      runs.push_back({first, l - first + 1, shown});
    }
    return runs;
  }

  // To five digits.
  static double rounded(double v) {
    const double unit = std::pow(10, std::floor(std::log10(v)) - 4);
    return unit >= 1 ? std::round(v) : std::round(v / unit) * unit;
  }

  static void facts(const LineFacts& f, ReportValue& one) {
    if (!f.values.empty()) one["values"] = f.values;
    for (const auto& [row, messages] : f.messages)
      one["collectives"].push_back(row), one["messages"].push_back(messages);
    if (!f.user.empty()) one["user"] = f.user;
    for (const auto& [name, value] :
         {std::pair("flops", f.flops), std::pair("bytes", f.bytes), std::pair("us", f.seconds * 1e6),
          std::pair("comm_bytes", f.commBytes), std::pair("comm_us", f.commSeconds * 1e6),
          std::pair("result_bytes", f.resultBytes)})
      if (value > 0) one[name] = rounded(value);
  }

  void values() {
    out_["graph"] = graphData(global_->graph, layers_, global_->values, global_->collectives, index_->files(),
                              !standsFor_.empty());
    ReportValue list = ReportValue::array();
    for (size_t v = 0; v < global_->values.size(); ++v) // ids are indices: hidden ones are null
      list.push_back(hidden(global_->valueLines[v]) ? ReportValue() : std::move(global_->values[v]));
    out_["values"] = std::move(list);
    for (auto& c : global_->collectives) {
      std::set<int> lines;
      for (const auto& l : c["lines"])
        lines.insert(standsFor_.empty() ? l.get<int>() : standsFor_[l.get<size_t>()]);
      c["lines"] = lines;
    }
    out_["communication"] = {{"collectives", std::move(global_->collectives)},
                             {"summary", std::move(global_->summary)},
                             {"us", report_.commSeconds * 1e6},
                             {"compute_us", report_.computeSeconds * 1e6},
                             {"bytes", report_.bytesReceived},
                             {"complete", report_.complete},
                             {"assumed_sizes", report_.assumed}};
  }

  [[nodiscard]] ReportValue diagnostics() const {
    ReportValue out = ReportValue::parse(diagnosticsJson(recordsOf(data_.problems, data_.source)));
    for (size_t i = 0; i < out.size() && i < data_.problems.all().size(); ++i)
      out[i]["source_line"] = index_->at(data_.problems.all()[i].range);
    return out;
  }

  ProgramData& data_;
  const ReportOptions& options_;
  Module module_;
  std::string name_;
  ReportValue out_;
  ProgramReport report_;
  std::optional<SourceIndex> index_;
  std::optional<GlobalData> global_;
  SourceLayers layers_;
  std::vector<int> standsFor_; // by line; empty if all are shown
};

} // namespace

Result<ProgramData> programData(SourceText source, const ReportOptions& options) {
  ProgramData data;
  if (Status s = ProgramMaker(data, options).run(std::move(source)); !s) return s.error();
  return data;
}

std::string reportJson(std::span<const ProgramData> programs) {
  std::string out = "{\"format\": 1, \"dtc\": \"" DTC_VERSION "\", \"programs\": [";
  for (size_t i = 0; i < programs.size(); ++i) out += (i ? ",\n" : "\n") + programs[i].json;
  return out + "\n]}\n";
}

std::string reportPage(std::span<const ProgramData> programs) {
  // Panes are in the order of their tabs.
  constexpr const char* kScripts[] = {"core.js",     "links.js",  "source.js", "graph.js", "tensors.js",
                                      "schedule.js", "memory.js", "tables.js", "frame.js", "start.js"};
  return pageOf("dtc report", kScripts, reportJson(programs));
}

} // namespace dtc
