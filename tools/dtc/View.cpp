// dtc view: programs, meshes and shardings as drawings.
#include "dtc/Report/View.h"
#include "Program.h"
#include "Verbs.h"
#include "dtc/IR/Naming.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/Passes/Inline.h"
#include "dtc/Passes/StandardPipeline.h"
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <sys/ioctl.h>
#include <unistd.h>

namespace dtc {

namespace {

struct Options {
  ProgramOptions program;
  std::vector<std::string> values, named;
  std::string what = "sharding", format = "text", out = "-";
};

// The terminal's, else $COLUMNS, else 80.
size_t columnsOfOutput() {
  winsize size{};
  if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    return size.ws_col;
  const char* set = std::getenv("COLUMNS");
  const long columns = set ? std::strtol(set, nullptr, 10) : 0;
  return columns > 0 && columns < 10000 ? static_cast<size_t>(columns) : 80;
}

// What is drawn of a value: its name, and what it is a piece of.
struct Shown {
  std::string name;
  TypeId global;
  ShardingId sharding;
};

class Viewer {
public:
  Viewer(Environment& env, const Options& o, Module& m, FuncId f) : env_(env), o_(o), m_(m), func_(f) {}

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
    std::string all;
    for (const ViewGrid& g : list) all += (all.empty() ? "" : "\n") + gridText(g, columnsOfOutput());
    return finish("", all);
  }

  int meshes() {
    if (m_.shardings.numMeshes() == 0)
      return env_.fail(inputError("this program has no mesh: it is for one device"));
    std::vector<ViewGrid> list;
    for (uint32_t i = 0; i < m_.shardings.numMeshes(); ++i) list.push_back(meshGrid(m_, MeshId(i)));
    return grids(list);
  }

  int graph() {
    ViewGraph g = viewGraph(m_, func_);
    constexpr size_t kMost = 2000;
    if (o_.format != "dot" && !text() && g.nodes.size() > kMost)
      return env_.fail(inputError("a drawing of " + std::to_string(g.nodes.size()) +
                                  " ops would show nothing: take --format text or dot"));
    return finish(g.title, text()               ? graphText(g, columnsOfOutput())
                           : o_.format == "dot" ? graphDot(g)
                                                : graphSvg(g));
  }

  int schedule() {
    if (!lower(Level::Scheduled)) return kExitInput;
    auto s = viewSchedule(m_, func_);
    if (!s) return env_.fail(s.error());
    return finish(s->title, text() ? scheduleText(*s, columnsOfOutput()) : scheduleSvg(*s));
  }

  // Runs what of the standard pipeline the text still needs to come to this level.
  bool lower(Level to) {
    if (levelOf(m_, func_) >= to) return true;
    keepReached(m_, func_); // inlined into others it would be gone
    StandardPipeline pipeline = standardPipeline(levelOf(m_, func_), 1, "");
    std::vector<PassStep> steps = pipeline.reference;
    steps.insert(steps.end(), pipeline.propagate.begin(), pipeline.propagate.end());
    if (to == Level::Scheduled) steps.insert(steps.end(), pipeline.lower.begin(), pipeline.lower.end());
    if (to == Level::Propagated) // as people wrote it: no op is taken apart to see how it is cut
      std::erase_if(steps, [](const PassStep& s) {
        return s.pass->gives == Level::Global && std::string_view(s.pass->name) != "autodiff";
      });
    Diagnostics diags;
    Status done = runPipeline(m_, steps, diags, {});
    const bool diagnosed = env_.report(diags, m_.source) != 0;
    if (!done && !diagnosed) env_.fail(done.error());
    if (!done || diagnosed) return false;
    auto entry = entriesOf(m_, "@" + std::string(m_.strings[m_[func_].name]));
    if (entry) func_ = entry->front();
    return true;
  }

  int values() {
    if (!lower(Level::Propagated)) return kExitInput;
    std::vector<Shown> chosen;
    if (int code = choose(chosen)) return code;
    if (o_.what == "layout") {
      std::string all;
      for (const Shown& s : chosen) all += layoutView(m_, s.name, s.global, s.sharding);
      return writeOut(env_, o_.out, all);
    }
    std::vector<ViewGrid> list;
    for (const Shown& s : chosen) list.push_back(shardingGrid(m_, s.name, s.global, s.sharding));
    return grids(list);
  }

  // Arguments, results and, of propagated text, all values of the body.
  void collect(std::vector<Shown>& boundary, std::vector<Shown>& inside) {
    const Function& f = m_[func_];
    const Naming names(m_, func_);
    for (const FuncArg& a : f.args)
      boundary.push_back(
          {names(a.value), a.globalType ? a.globalType : m_[a.value].type, m_[a.value].sharding});
    forEachOp(m_, f.body, [&](OpId o) {
      for (uint32_t r = 0; r < m_[o].numResults; ++r)
        if (ValueId v = m_.result(o, r); m_[v].sharding.valid())
          inside.push_back({names(v), m_[v].type, m_[v].sharding});
    });
    for (size_t r = 0; r < f.results.size(); ++r) {
      std::string label =
          f.results[r].label ? "%" + std::string(m_.strings[f.results[r].label]) : std::to_string(r);
      boundary.push_back({"result " + label,
                          f.results[r].globalType ? f.results[r].globalType : f.results[r].type,
                          f.results[r].sharding});
    }
    std::erase_if(boundary, [](const Shown& s) { return !s.sharding.valid(); });
  }

  int choose(std::vector<Shown>& chosen) {
    std::vector<Shown> boundary, inside;
    collect(boundary, inside);
    std::vector<std::string> wanted = o_.named;
    wanted.insert(wanted.end(), o_.values.begin(), o_.values.end());
    if (wanted.empty()) {
      chosen = std::move(boundary);
      if (!inside.empty())
        env_.err("note: " + std::to_string(inside.size()) +
                 " values inside are not shown; name one (%h), or all with --value '*'\n");
      return kExitDone;
    }
    std::vector<Shown> all = boundary;
    all.insert(all.end(), inside.begin(), inside.end());
    for (std::string name : wanted) {
      if (size_t colon = name.find(':'); name.starts_with("@") && colon != std::string::npos)
        name = name.substr(colon + 1);
      if (!name.starts_with("%") && name != "*") name = "%" + name;
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

  std::string noSuch(const std::string& name, const std::vector<Shown>& all) {
    std::vector<std::string_view> known;
    for (const Shown& s : all) known.push_back(s.name);
    std::string_view near = nearestWord(name, known);
    return "function @" + std::string(m_.strings[m_[func_].name]) + " has no value '" + name +
           "' with a sharding" + (near.empty() ? "" : "; did you mean '" + std::string(near) + "'?");
  }

  Environment& env_;
  const Options& o_;
  Module& m_;
  FuncId func_;
};

int run(Environment& env, Options& o) {
  if (o.format == "dot" && o.what != "graph")
    return env.fail(usageError("--format dot draws graphs alone: --what graph"));
  if (o.what == "layout" && o.format != "text")
    return env.fail(usageError("--what layout is text: --format " + o.format + " does not draw it"));
  int code = kExitDone;
  auto m = loadProgram(env, o.program, code);
  if (!m) return code;
  for (const auto* names : {&o.named, &o.values})
    for (const std::string& name : *names)
      if (size_t colon = name.find(':'); name.starts_with("@") && colon != std::string::npos)
        o.program.entry = name.substr(0, colon);
  auto entry = entryOf(*m, o.program.entry);
  if (!entry) return env.fail(entry.error());
  return Viewer(env, o, *m, *entry).run();
}

} // namespace

Verb viewVerb() {
  Verb v;
  v.name = "view";
  v.usage = "FILE [%v] [--what WHAT] [--format FORMAT]";
  v.summary = "draw the pieces of tensors, the mesh, the program, its schedule";
  v.examples = "  dtc view examples/mlp.dt %h                         (which device holds which piece)\n"
               "  dtc view examples/mlp.dt --value '*' --format svg > pieces.svg\n"
               "  dtc view examples/mlp.dt --what mesh\n"
               "  dtc view examples/mlp.dt --what graph --format dot | dot -Tpdf > graph.pdf\n"
               "  dtc view examples/gpt.dt --what schedule --format html > steps.html\n"
               "text is as wide as the terminal, or $COLUMNS, or 80";
  v.declare = [](CLI::App& app) -> std::function<int(Environment&)> {
    auto o = std::make_shared<Options>();
    addProgramOptions(app, o->program);
    app.add_option("VALUE", o->named, "%v or @f:%v; arguments and results, where none is named");
    app.add_option("--value", o->values, "likewise; '*' is all values")
        ->type_name("%v")
        ->allow_extra_args(false);
    app.add_option("--what", o->what, "what is drawn")
        ->type_name("sharding|mesh|layout|graph|schedule")
        ->check(CLI::IsMember({"sharding", "mesh", "layout", "graph", "schedule"}).description(""));
    app.add_option("-o", o->out, "where the drawing goes; - is standard output")->type_name("OUT");
    app.add_option("--format", o->format, "as what; svg and html are one file that needs no other")
        ->type_name("text|svg|html|dot")
        ->check(CLI::IsMember({"text", "svg", "html", "dot"}).description(""));
    return [o](Environment& env) { return run(env, *o); };
  };
  return v;
}

} // namespace dtc
