// dtc view: draws programs, meshes, shardings and schedules.
#include "dtc/Report/view/View.h"
#include "CalledValues.h"
#include "Program.h"
#include "Verbs.h"
#include "ViewLogs.h"
#include "ViewTrace.h"
#include "dtc/IR/DevicePrograms.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/IR/text/GivenNames.h"
#include "dtc/IR/text/TextNames.h"
#include "dtc/Passes/analysis/TargetOf.h"
#include "dtc/Passes/analysis/ValuePrograms.h"
#include "dtc/Report/explain/StepCost.h"
#include "dtc/Report/report/Report.h"
#include "dtc/Session/Session.h"
#include "dtc/Support/Suggest.h"
#include "dtc/Support/Words.h"
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <sys/ioctl.h>
#include <unistd.h>
#include <unordered_map>
#include <unordered_set>

namespace dtc {

namespace {

struct ViewOptions {
  ProgramOptions program;
  std::vector<std::string> values, named;
  LoweringFlags lowering;
  std::string what, format, out = "-"; // empty if not given
  std::string target = kReportTarget;
  std::string traced, machine; // of a trace: --program, --machine
  bool json = false;
};

// The terminal's width, else $COLUMNS, else 80.
size_t columnsOfOutput() {
  winsize size{};
  if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    return size.ws_col;
  const char* set = std::getenv("COLUMNS");
  const long columns = set ? std::strtol(set, nullptr, 10) : 0;
  return columns > 0 && columns < 10000 ? static_cast<size_t>(columns) : 80;
}

// A value to draw: its name, the user's own behind it, global type and sharding.
struct Shown {
  std::string name, user;
  TypeId global;
  ShardingId sharding;
  ViewHolders having;
  SourceRange loc;
  ShardingId before = {}; // as its op computes it, if it is resharded then
};

// Values have the names of the text: an argument, and the result of a statement, after its reshards where it has no
// name before. Other values of these have the printer's names, which the text lacks; or, of imported text, whose numbers the printer uses again, the
// same name.
class ShownNames {
public:
  ShownNames(const Module& m, FuncId f) : m_(m), printed_(m, f), texts_(m) {
    for (const FuncArg& a : m[f].args) add(a.value);
    forEachOp(m, m[f].body, [&](OpId o) {
      for (uint32_t r = 0; r < m[o].numResults; ++r) add(m.result(o, r));
    });
  }
  std::string operator()(ValueId v) const {
    return !texts_.isGenerated(v) && (!isOther(v) || isTaken(v)) ? texts_(v) : printed_(v);
  }
  std::string behind(ValueId v) const {
    if (texts_.isGenerated(v) || !isOther(v) || !isTaken(v)) return "";
    return isReshard(m_.definingOp(v)) ? " (resharded)" : " (before its reshard)";
  }
  // The value that its op computes, where the reshard of that has its name; otherwise the value itself.
  ValueId computed(ValueId v) const {
    ValueId of = v;
    for (OpId by = m_.definingOp(of); isReshard(by) && !keepsName(m_.operand(by, 0)); by = m_.definingOp(of))
      of = m_.operand(by, 0);
    return of != v && isOther(of) && named_.at(m_[of].loc.begin) == v ? of : v;
  }

private:
  void add(ValueId v) {
    if (texts_.isGenerated(v)) return;
    taken_.insert(texts_(v));
    if (!m_[v].loc.valid()) return;
    const auto [named, isNew] = named_.emplace(m_[v].loc.begin, v);
    if (!isNew && !keepsName(named->second)) named->second = v;
  }
  bool isReshard(OpId o) const { return o.valid() && m_.record(o).constraint == Constraint::Reshard; }
  bool keepsName(ValueId v) const { return m_[v].kind == ValueKind::BlockArg || m_[v].name.valid(); }
  bool isOther(ValueId v) const {
    const auto named = named_.find(m_[v].loc.begin);
    return !keepsName(v) && m_[v].loc.valid() && named != named_.end() && named->second != v;
  }
  bool isTaken(ValueId v) const { return taken_.contains(printed_(v)); }

  const Module& m_;
  Naming printed_;
  TextNames texts_;
  std::unordered_map<uint32_t, ValueId> named_; // by place in the text
  std::unordered_set<std::string> taken_;
};

class Viewer {
public:
  // By name, "@f:%v": values of functions that are inlined.
  using Called = std::map<std::string, CalledValue>;

  // `several`: a full name of each name that several of these functions have.
  Viewer(Environment& env, const ViewOptions& o, Module& m, FuncId f, Called called,
         std::map<std::string, std::string> several)
      : env_(env), o_(o), m_(m), func_(f), called_(std::move(called)), several_(std::move(several)) {}

  int run() {
    if (o_.what == "mesh") return meshes();
    if (o_.what == "graph") return graph();
    if (o_.what == "schedule") return schedule();
    return values();
  }

private:
  bool text() const { return o_.format == "text"; }

  int finish(std::string_view title, std::string drawing) {
    if (o_.format == "html") drawing = htmlPage(title, drawing);
    return writeOut(env_, o_.out, drawing);
  }

  int grids(const std::vector<ViewGrid>& list) {
    if (!text()) return finish(m_.source.name, gridsSvg(list));
    return finish("", joined(list, "\n", [](const ViewGrid& g) { return gridText(g, columnsOfOutput()); }));
  }

  int meshes() {
    if (m_.shardings.numMeshes() == 0) return env_.fail(inputError("this program has no mesh"));
    std::vector<ViewGrid> list;
    for (uint32_t i = 0; i < m_.shardings.numMeshes(); ++i) list.push_back(meshGrid(m_, MeshId(i)));
    return grids(list);
  }

  // As the report draws it; of local text, or a program whose shardings do not propagate, the statements alone.
  int graph() {
    int code = kExitDone;
    if (o_.format != "dot" && !text() && levelOf(m_, func_) < Level::Local) {
      Diagnostics problems;
      auto drawing = programGraphSvg(m_, func_, {}, problems);
      if (drawing) return finish("func @" + std::string(m_.strings[m_[func_].name]), std::move(*drawing));
      env_.report(problems, m_.source);
      code = drawing.error().message.empty() ? static_cast<int>(kExitInput) : env_.fail(drawing.error());
    }
    if (const int drawn = statements(); drawn != kExitDone) return drawn;
    return code;
  }

  int statements() {
    ViewGraph g = viewGraph(m_, func_);
    constexpr size_t kMaxNodes = 2000;
    if (o_.format != "dot" && !text() && g.nodes.size() > kMaxNodes)
      return env_.fail(inputError("a graph of " + std::to_string(g.nodes.size()) +
                                  " ops is too large to draw: use --format text or dot"));
    return finish(g.title, text()               ? graphText(g, columnsOfOutput())
                           : o_.format == "dot" ? graphDot(g)
                                                : graphSvg(g));
  }

  int schedule() {
    std::optional<PipelineRun> pipeline;
    if (!lower(Stage::Placed, &pipeline)) return kExitInput;
    std::string all = pipeline ? pipelineText(*pipeline, columnsOfOutput()) : "";
    if (!pipeline && isPipeline(m_, func_))
      env_.err(
          "note: the pipeline is not drawn: its text does not have each part of each micro-batch in an order "
          "in which stages can compute them\n");
    const auto step = stepCostOf(m_, func_);
    const ViewTimelines timelines = viewTimelines(m_, func_);
    if (timelines.functions.size() > 1)
      all += (all.empty() ? "" : "\n") + timelinesText(timelines, columnsOfOutput());
    const auto functions = viewSchedules(m_, func_);
    if (!functions) return env_.fail(functions.error());
    for (const ViewSchedule& s : *functions)
      all += (all.empty() ? "" : "\n") + scheduleText(s, columnsOfOutput());
    if (step) all += "\n" + stepCostText(*step);
    if (o_.json && step) return writeOut(env_, o_.out, scheduleJson(*functions, *step));
    return finish((*functions)[0].title,
                  text() ? all : scheduleSvg(*functions, timelines, pipeline ? &*pipeline : nullptr));
  }

  // That a schedule is compiled for.
  std::string target() const {
    const std::string stated = writtenTarget(m_, func_);
    return stated.empty() ? o_.target : stated;
  }

  // Runs the remaining passes of the standard pipeline up to this stage.
  // `pipeline`: is read on the way, before steps are reordered.
  bool lower(Stage to, std::optional<PipelineRun>* pipeline = nullptr) {
    Session session(std::move(m_), func_, o_.lowering.pipeline(target()));
    if (to == Stage::Propagated) // show the program as written: ops are not decomposed
      session.skips = [](const PassStep& s) {
        return s.pass->produces == Level::Global && std::string_view(s.pass->name) != "autodiff";
      };
    Diagnostics diags;
    Status done = pipeline ? session.lower(Stage::Local, diags) : Ok{};
    if (pipeline && done) *pipeline = readPipeline(session.module(), session.entry());
    if (done) done = session.lower(to, diags);
    m_ = std::move(session.module());
    func_ = session.entry();
    const bool diagnosed = env_.report(diags, m_.source) != 0;
    if (!done && !diagnosed) env_.fail(done.error());
    return done && !diagnosed;
  }

  int values() {
    std::optional<Module> text;
    if (hasStages(m_, func_) && levelOf(m_, func_) < Level::Local) text = m_;
    const FuncId own = func_;
    const std::vector<std::string> wanted = namesInText();
    if (!lower(Stage::Propagated)) return kExitInput;
    if (text) findPrograms(std::move(*text), own);
    std::vector<Shown> chosen;
    if (int code = choose(wanted, chosen)) return code;
    if (o_.what == "layout") {
      std::string all;
      for (const Shown& s : chosen) all += layoutView(m_, s.name + s.user, s.global, s.sharding);
      return writeOut(env_, o_.out, all);
    }
    std::vector<ViewGrid> list;
    for (const Shown& s : chosen)
      list.push_back(shardingGrid(m_, s.name + s.user, s.global, s.sharding, s.having, s.before));
    return grids(list);
  }

  // The stages of a pipeline have programs of their own, which say who has a value.
  void findPrograms(Module text, FuncId entry) {
    Session session(std::move(text), entry, o_.lowering.pipeline(target()));
    Diagnostics diags;
    if (!session.lower(Stage::Local, diags) || diags.hasErrors()) {
      env_.report(diags, session.module().source);
      env_.err("note: the program does not compile further: the stages that have a value are not shown\n");
      return;
    }
    programs_.emplace(session.module(), session.entry(), numStageMarks(m_, func_));
  }

  // `attrs`: of an argument or a result; nullptr for the result of an op.
  ViewHolders holders(ShardingId sharding, const AttrList* attrs,
                      const std::vector<size_t>& functions) const {
    if (attrs && sharding.valid() && !holdersText(m_, *attrs).empty())
      return {holdersOf(m_, m_.shardings.meshOf(sharding), *attrs), true, false};
    if (!programs_ || !programs_->differ()) return {};
    if (functions.empty()) return {{}, false, !attrs};
    return {programs_->devices(functions), true, !attrs};
  }
  ViewHolders havingOf(ValueId v, const AttrList* attrs = nullptr) const {
    return holders(m_[v].sharding, attrs,
                   programs_ ? programs_->having(ValueOrigin::of(m_, v)) : std::vector<size_t>());
  }
  ViewHolders havingOfResult(size_t r) const {
    const FuncResult& result = m_[func_].results[r];
    return holders(result.sharding, &result.attrs,
                   programs_ ? programs_->returning(r) : std::vector<size_t>());
  }

  // Collects arguments, results and all sharded values of the body.
  void collect(std::vector<Shown>& boundary, std::vector<Shown>& inside) {
    const Function& f = m_[func_];
    const ShownNames names(m_, func_);
    for (const FuncArg& a : f.args)
      boundary.push_back({names(a.value), userNameBehind(m_, a.attrs, names(a.value)),
                          a.globalType ? a.globalType : m_[a.value].type, m_[a.value].sharding,
                          havingOf(a.value, &a.attrs), m_[a.value].loc});
    std::unordered_set<ValueId> before; // are shown with the values that have their names
    forEachOp(m_, f.body, [&](OpId o) {
      for (uint32_t r = 0; r < m_[o].numResults; ++r)
        if (const ValueId v = m_.result(o, r); names.computed(v) != v) before.insert(names.computed(v));
    });
    forEachOp(m_, f.body, [&](OpId o) {
      for (uint32_t r = 0; r < m_[o].numResults; ++r) {
        const ValueId v = m_.result(o, r), of = names.computed(v);
        if (!m_[v].sharding.valid() || before.contains(v)) continue;
        const bool written = of != v || m_.record(o).constraint != Constraint::Reshard;
        inside.push_back({names(v), names.behind(v), m_[v].type, m_[v].sharding, havingOf(v),
                          written ? m_[v].loc : SourceRange(), of != v ? m_[of].sharding : ShardingId()});
      }
    });
    for (size_t r = 0; r < f.results.size(); ++r) {
      std::string label =
          f.results[r].label ? "%" + std::string(m_.strings[f.results[r].label]) : std::to_string(r);
      boundary.push_back({"result " + label,
                          userNameBehind(m_, f.results[r].attrs, label),
                          f.results[r].globalType ? f.results[r].globalType : f.results[r].type,
                          f.results[r].sharding,
                          havingOfResult(r),
                          {}});
    }
    std::erase_if(boundary, [](const Shown& s) { return !s.sharding.valid(); });
  }

  // The values that are asked for, "%h" or "*", as the text names them.
  std::vector<std::string> namesInText() const {
    std::vector<std::string> wanted = o_.named;
    wanted.insert(wanted.end(), o_.values.begin(), o_.values.end());
    for (std::string& name : wanted) {
      if (called_.contains(name)) continue;
      if (size_t colon = name.find(':'); name.starts_with("@") && colon != std::string::npos)
        name = name.substr(colon + 1);
      if (name == "*") continue;
      if (!name.starts_with("%")) name = "%" + name;
      if (std::string known = nameInText(m_, func_, name); !known.empty()) name = std::move(known);
    }
    return wanted;
  }

  int choose(const std::vector<std::string>& wanted, std::vector<Shown>& chosen) {
    std::vector<Shown> boundary, inside;
    collect(boundary, inside);
    if (wanted.empty()) {
      chosen = std::move(boundary);
      if (!inside.empty())
        env_.err("note: " + std::to_string(inside.size()) +
                 " values inside are not shown; name one (%h), or use --value '*' for all\n");
      return kExitDone;
    }
    std::vector<Shown> all = boundary;
    all.insert(all.end(), inside.begin(), inside.end());
    for (const std::string& name : wanted) {
      if (const auto called = called_.find(name); called != called_.end()) {
        const size_t before = chosen.size();
        chooseAt(name, called->second, all, chosen);
        if (chosen.size() == before)
          return env_.fail(
              inputError("the compiled program has no value '" + name + "': it was simplified away"));
        continue;
      }
      size_t before = chosen.size();
      for (const Shown& s : all)
        if (name == "*" || s.name == name) chosen.push_back(s);
      if (chosen.size() == before)
        for (const Shown& s : boundary)
          if (s.name == "result " + name) chosen.push_back(s);
      if (chosen.size() == before) return env_.fail(inputError(noSuch(name, all)));
    }
    return kExitDone;
  }

  // What a called function computes, once for each call, as it is compiled there; then what is passed for an argument.
  // The argument itself has the name that was asked for, as in explain.
  static void chooseAt(const std::string& name, const CalledValue& value, const std::vector<Shown>& all,
                       std::vector<Shown>& chosen) {
    const auto add = [&](const Shown& s) {
      const auto is = [&](const Shown& other) {
        return other.loc.begin == s.loc.begin && other.name == s.name && other.sharding == s.sharding;
      };
      if (std::ranges::none_of(chosen, is)) chosen.push_back(s);
    };
    const auto isThere = [&](const Shown& s) {
      return std::ranges::any_of(value.places, [&](SourceRange r) {
        return s.loc.valid() && r.begin == s.loc.begin && r.end == s.loc.end;
      });
    };
    for (Shown s : all) {
      if (!isThere(s)) continue;
      if (!value.passed.empty() && s.name.size() > 1 && s.name[1] >= '0' && s.name[1] <= '9') s.name = name;
      add(s);
    }
    for (const Shown& s : all)
      if (!isThere(s) && std::ranges::find(value.passed, s.name) != value.passed.end()) add(s);
  }

  std::string noSuch(const std::string& name, const std::vector<Shown>& all) {
    std::vector<std::string_view> known;
    for (const Shown& s : all) known.push_back(s.name);
    std::string_view near = nearestWord(name, known);
    if (const auto full = several_.find(name); full != several_.end()) near = full->second;
    return "function @" + std::string(m_.strings[m_[func_].name]) + " has no value '" + name +
           "' with a sharding" + (near.empty() ? "" : "; did you mean '" + std::string(near) + "'?");
  }

  Environment& env_;
  const ViewOptions& o_;
  Module& m_;
  FuncId func_;
  Called called_;
  std::map<std::string, std::string> several_;
  std::optional<ValuePrograms> programs_;
};

// --format, or what the name of the output says, or text.
std::string formatOf(const ViewOptions& o) {
  if (!o.format.empty()) return o.format;
  for (std::string_view format : {"svg", "html", "dot"})
    if (o.out.ends_with("." + std::string(format))) return std::string(format);
  return "text";
}

// Error (Usage): the name of the output asks for a format that is not written, or for another than the flag.
Status checkOutput(const ViewOptions& o) {
  const std::string ending = std::filesystem::path(o.out).extension().string();
  constexpr std::string_view kWritten[] = {"", ".svg", ".html", ".dot", ".txt", ".json"};
  const bool known = std::ranges::find(kWritten, ending) != std::end(kWritten);
  const std::string format = o.json ? "json" : o.format, own = format == "text" ? ".txt" : "." + format;
  if (!format.empty() && known && !ending.empty() && ending != own)
    return usageError((o.json ? "--json" : "--format " + o.format) + " does not write " + ending +
                      " files: leave out the flag, or end the name of -o with " + own);
  if (!format.empty() || known) return Ok{};
  return usageError(
      "cannot write " + ending +
      " files: -o takes .svg, .html, .txt, .dot for graphs, and .json for schedules and traces; "
      "--format sets the format of other names");
}

Result<int> runViewLogs(Environment& env, const ViewOptions& o) {
  const ProgramOptions& p = o.program;
  const bool programFlags = !o.what.empty() || !p.entry.empty() || !p.meshes.empty() || !p.dims.empty() ||
                            !p.shardings.empty() || !p.bindings.empty();
  if (programFlags)
    return usageError(quotedPath(p.file) + " is the log of a run: only --value, --format and -o apply to it");
  ViewLogs logs{.files = {p.file},
                .metrics = o.values,
                .format = formatOf(o),
                .out = o.out,
                .columns = columnsOfOutput()};
  logs.files.insert(logs.files.end(), o.named.begin(), o.named.end());
  return viewLogs(env, logs);
}

Result<int> runViewTrace(Environment& env, const ViewOptions& o) {
  if (!o.what.empty() || !o.named.empty() || !o.values.empty())
    return usageError(quotedPath(o.program.file) +
                      " is a trace of a run: --what, --value and further files do not apply to it");
  ViewTrace trace{.file = o.program.file,
                  .program = o.traced,
                  .machine = o.machine,
                  .options = o.program,
                  .lowering = o.lowering,
                  .format = o.json ? "json" : formatOf(o),
                  .out = o.out,
                  .columns = columnsOfOutput()};
  if (trace.format == "dot") return usageError("--format dot draws graphs of programs, not traces");
  return viewTrace(env, trace);
}

std::string named(const std::string& value) { return value.starts_with("%") ? value : "%" + value; }

Result<int> runView(Environment& env, ViewOptions& o) {
  DTC_TRY(const bool trace, isTrace(env, o.program.file));
  if (Status s = checkOutput(o); !s) return s.error();
  if (o.format.empty() && o.out.ends_with(".json")) o.json = true;
  if (trace) return runViewTrace(env, o);
  if ((o.json && o.what != "schedule") || !o.traced.empty() || !o.machine.empty())
    return usageError("--program and --machine are for traces of `dtc run --trace`, --json for those and for "
                      "--what schedule");
  DTC_TRY(const bool log, isLog(env, o.program.file));
  if (log) return runViewLogs(env, o);
  if (o.what.empty()) o.what = "sharding";
  o.format = formatOf(o);
  if (o.format == "dot" && o.what != "graph") return usageError("--format dot needs --what graph");
  if (o.what == "layout" && o.format != "text")
    return usageError("--what layout supports --format text only, not " + o.format);
  if (Status s = checkChoices(o.lowering); !s) return s.error();
  if (auto known = targetNamed(o.target); !known) return known.error();
  DTC_TRY(auto m, loadProgram(env, o.program));
  Viewer::Called called;
  const auto whole = entryOf(m, o.program.entry);
  std::map<std::string, std::string> several;
  for (auto* names : {&o.named, &o.values})
    for (std::string& name : *names) {
      if (whole.ok() && name != "*" && !name.starts_with("@")) {
        const auto own = calledNames(m, *whole, named(name));
        if (own.size() > 1) several.emplace(named(name), own[0]);
        if (own.size() == 1) name = own[0];
      }
      const size_t colon = name.find(':');
      if (!name.starts_with("@") || colon == std::string::npos) continue;
      DTC_TRY(const FuncId f, entryOf(m, name.substr(0, colon)));
      if (!whole.ok() || !isCalled(m, *whole, f))
        o.program.entry = name.substr(0, colon);
      else if (auto value = calledValue(m, *whole, f, named(name.substr(colon + 1))); !value.empty())
        called.emplace(name, std::move(value));
      else
        return inputError("function " + name.substr(0, colon) + " has no value '" +
                          named(name.substr(colon + 1)) + "'");
    }
  DTC_TRY(auto entry, entryOf(m, o.program.entry));
  return Viewer(env, o, m, entry, std::move(called), std::move(several)).run();
}

} // namespace

Verb viewVerb() {
  Verb v;
  v.name = "view";
  v.usage = "FILE [%v] [--what WHAT] [--format FORMAT]";
  v.summary = "draw shards of tensors, the mesh, the program or its schedule, logs or traces of runs";
  v.examples =
      "  dtc view examples/mlp.dt %h                         (which device holds which shard)\n"
      "  dtc view examples/mlp.dt --value '*' --format svg > shards.svg\n"
      "  dtc view examples/mlp.dt --what mesh\n"
      "  dtc view examples/mlp.dt --what graph --format dot | dot -Tpdf > graph.pdf\n"
      "  dtc view examples/gpt.dt --what schedule --format html > steps.html\n"
      "  dtc view metrics.jsonl -o loss.svg                   (the log of a run, or of several)\n"
      "  dtc view a.jsonl b.jsonl --value loss\n"
      "  dtc view trace.json -o trace.svg     (a trace of dtc run --trace beside the machine model)\n"
      "text is as wide as the terminal, else $COLUMNS, else 80";
  v.declare = [](CLI::App& app) -> std::function<Result<int>(Environment&)> {
    auto o = std::make_shared<ViewOptions>();
    addProgramOptions(app, o->program);
    app.add_option("VALUE", o->named, "%v or @f:%v (default: arguments and results); or more logs");
    app.add_option("--value", o->values, "the same, or a metric of logs; '*' selects all")
        ->type_name("%v")
        ->allow_extra_args(false);
    app.add_option("--what", o->what, "what to draw (default: sharding); layout is text only")
        ->type_name("sharding|mesh|layout|graph|schedule")
        ->check(CLI::IsMember({"sharding", "mesh", "layout", "graph", "schedule"}).description(""));
    addPipelineOption(app, o->lowering);
    app.add_option("--target", o->target, "of a schedule: compile for it, if the text states none (sm_90a)")
        ->type_name("cpu|sm_NN[a]");
    app.add_option("-o", o->out, "output file; - is standard output")->type_name("OUT");
    app.add_flag("--json", o->json,
                 "of a schedule, or of a trace and its comparison: print it as JSON (docs/cli.md)");
    app.add_option("--program", o->traced, "of a trace: the program that ran, if the trace does not have it")
        ->type_name("FILE");
    app.add_option("--machine", o->machine, "of a trace: the model's machine, in 1/s and s")
        ->type_name("nominal|flops=N,memory=N,link=N,latency=N,launch=N");
    app.add_option("--format", o->format,
                   "output format (default: by OUT's name, or text); svg and html are self-contained, dot is "
                   "for graphs")
        ->type_name("text|svg|html|dot")
        ->check(CLI::IsMember({"text", "svg", "html", "dot"}).description(""));
    return [o](Environment& env) { return runView(env, *o); };
  };
  return v;
}

} // namespace dtc
