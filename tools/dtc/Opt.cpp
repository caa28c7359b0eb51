// dtc opt: run passes, print the IR.

#include "ExpectedDiagnostics.h"
#include "Program.h"
#include "Timing.h"
#include "Verbs.h"
#include "dtc/Check/Equivalence.h"
#include "dtc/IR/Text.h"
#include "dtc/Ops/Ops.h"
#include "dtc/Passes/Inline.h"
#include "dtc/Passes/PassText.h"
#include "dtc/Passes/Pipeline.h"

#include <CLI/CLI.hpp>
#include <memory>

namespace dtc {

namespace {

struct Options {
  ProgramOptions program;
  std::string passes, helpPass, style = "dim";
  std::vector<std::string> printAfter;
  bool printAfterAll = false, verifyEach = false, timing = false, types = false, splitInput = false;
  bool verifyDiagnostics = false, listPasses = false, listOps = false, opsPage = false, passesPage = false;
  bool verifyEquivalence = false;
};

int listPasses(Environment& env) {
  size_t width = 0;
  for (const PassInfo& p : passTable()) width = std::max(width, std::string_view(p.name).size());
  for (const PassInfo& p : passTable()) {
    std::string name = p.name;
    env.out(name + std::string(width - name.size() + 2, ' ') + p.summary + "\n");
  }
  return kExitDone;
}

int listOps(Environment& env) {
  const OpRegistry& ops = standardOps();
  for (size_t k = 0; k < ops.size(); ++k) env.out(std::string(ops[static_cast<OpKind>(k)].name) + "\n");
  return kExitDone;
}

int helpPass(Environment& env, const std::string& name) {
  const PassInfo* p = findPass(name);
  if (p) return env.out(passText(*p)), kExitDone;
  std::vector<std::string_view> known;
  for (const PassInfo& other : passTable()) known.emplace_back(other.name);
  return env.fail(usageError("--help-pass: " + unknownWord("pass", name, known)));
}

class OptRun {
public:
  OptRun(Environment& env, const Options& o, const ParseOptions& parse, const std::vector<PassStep>& steps)
      : env_(env), o_(o), parse_(parse), steps_(steps) {
    print_.style = o.style == "mesh" ? ShardingStyle::Mesh : ShardingStyle::Dim;
    print_.types = o.types;
  }

  // One module; its text is appended to `printed`.
  int part(SourceText source, std::string& printed) {
    env_.currentSource = source;
    Module m(standardOps());
    Diagnostics diags;
    LapClock clock;
    bool good = readText(std::move(source), parse_, m, diags);
    time("parse", clock.lap());
    good = good && verifyModule(m, diags);
    time("verify", clock.lap());
    if (Status s = overrideProblem(m, parse_, diags); !s) return env_.fail(s.error());
    int code = good ? kExitDone : kExitInput;
    if (auto fits = checkOverrides(m, parse_); good && !fits) code = env_.fail(fits.error());
    if (code == kExitDone && !o_.program.entry.empty()) code = keepEntry(m);
    if (good && code == kExitDone) code = o_.verifyEquivalence ? checkedPasses(m, diags) : passes(m, diags);
    clock.lap();
    if (code == kExitDone) printed += printModule(m, print_);
    time("print", clock.lap());
    return said(code, diags, m.source);
  }

  Timing timing;

private:
  void time(std::string_view what, double ms) {
    if (o_.timing) timing.add(std::string(what), ms);
  }

  int said(int code, const Diagnostics& diags, const SourceText& source) {
    if (o_.verifyDiagnostics) {
      if (code == kExitUsage || code == kExitBug) return code;
      std::string problems = unexpectedDiagnostics(diags, source);
      env_.err(problems);
      return problems.empty() ? kExitDone : kExitInput;
    }
    int reported = env_.report(diags, source);
    return code ? code : reported;
  }

  // Only the entry and what it calls.
  int keepEntry(Module& m) {
    auto entry = entryOf(m, o_.program.entry);
    if (!entry) return env_.fail(entry.error());
    keepReached(m, *entry);
    return kExitDone;
  }

  int passes(Module& m, Diagnostics& diags) {
    PipelineHooks hooks;
    hooks.progress = env_.status.progress();
    hooks.verifyEach = o_.verifyEach;
    hooks.after = [&](const PassStep& step, const Module& after, double ms) {
      std::string_view name = step.pass->name;
      time(name, ms);
      if (o_.printAfterAll ||
          std::find(o_.printAfter.begin(), o_.printAfter.end(), name) != o_.printAfter.end())
        env_.err("// after " + std::string(name) + "\n" + printModule(after, print_));
    };
    auto done = runPipeline(m, steps_, diags, hooks);
    if (done) return kExitDone;
    if (done.error().kind == Error::Bug) bugAt(__FILE__, __LINE__, done.error().message.c_str());
    if (done.error().message.empty()) return kExitInput;
    return env_.fail(done.error());
  }

  // The passes, and whether the program still computes what it did.
  int checkedPasses(Module& m, Diagnostics& diags) {
    Module before = m;
    if (int code = passes(m, diags)) return code;
    auto report = checkEquivalence(before, m);
    if (!report) return env_.fail(report.error());
    for (const std::string& difference : report->differences)
      env_.err("error: the passes changed what the program computes: " + difference + "\n");
    return report->differences.empty() ? kExitDone : kExitInput;
  }

  Environment& env_;
  const Options& o_;
  const ParseOptions& parse_;
  const std::vector<PassStep>& steps_;
  PrintOptions print_;
};

// The parts of a text between lines `// -----`, each with the lines before it left empty, so that places stay right.
std::vector<std::string> splitInput(std::string_view text) {
  std::vector<std::string> parts(1);
  size_t line = 0;
  for (size_t at = 0; at < text.size(); ++line) {
    size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    std::string_view whole = text.substr(at, end - at);
    if (whole.starts_with("// -----"))
      parts.emplace_back(line + 1, '\n');
    else
      parts.back() += whole;
    at = end;
  }
  return parts;
}

int run(Environment& env, const Options& o) {
  if (o.listPasses) return listPasses(env);
  if (o.listOps) return listOps(env);
  if (o.opsPage) {
    env.out(opsMarkdown(standardOps()));
    return kExitDone;
  }
  if (o.passesPage) {
    env.out(passesMarkdown());
    return kExitDone;
  }
  if (!o.helpPass.empty()) return helpPass(env, o.helpPass);
  for (const std::string& name : o.printAfter)
    if (!findPass(name)) return env.fail(parsePipeline(name).error());
  auto steps = parsePipeline(o.passes);
  if (!steps) return env.fail(steps.error());
  int code = kExitDone;
  auto source = readProgram(env, o.program, code);
  if (!source) return code;
  auto parse = parseOptionsOf(o.program);
  if (!parse) return env.fail(parse.error());
  OptRun runner(env, o, *parse, *steps);
  std::string printed;
  if (!o.splitInput) {
    code = runner.part(std::move(*source), printed);
  } else {
    for (std::string& text : splitInput(source->text)) {
      if (!printed.empty()) printed += "// -----\n";
      code = std::max(code, runner.part({source->name, std::move(text)}, printed));
    }
  }
  if (o.timing) env.err(runner.timing.table());
  env.out(printed);
  return code;
}

} // namespace

Verb optVerb() {
  Verb v;
  v.name = "opt";
  v.usage = "FILE [-p PASSES] [flags]";
  v.summary = "run passes, print the IR";
  v.examples = "  dtc opt mlp.dt -p propagate\n"
               "  dtc opt mlp.dt -p 'propagate{policy=shardy},partition' --print-after propagate\n"
               "  cat mlp.dt | dtc opt - -p propagate | dtc opt - -p partition\n"
               "  dtc opt --help-pass propagate";
  v.declare = [](CLI::App& app) -> std::function<int(Environment&)> {
    auto o = std::make_shared<Options>();
    addProgramOptions(app, o->program);
    app.add_option("-p,--passes", o->passes, "these passes, in this order: a,b{opt=v},c")
        ->type_name("PASSES");
    app.add_option("--print-after", o->printAfter, "print the IR after this pass, to stderr")
        ->type_name("PASS")
        ->allow_extra_args(false);
    app.add_flag("--print-after-all", o->printAfterAll, "print the IR after each pass, to stderr");
    app.add_flag("--verify-each", o->verifyEach, "verify after each pass");
    app.add_flag("--timing", o->timing, "time of each pass, to stderr");
    app.add_option("--sharding-style", o->style, "{dp, _} or [S(0), R]")
        ->type_name("dim|mesh")
        ->check(CLI::IsMember({"dim", "mesh"}));
    app.add_flag("--types", o->types, "say of each local value along which axes it varies");
    app.add_flag("--split-input", o->splitInput, "the file holds several modules, separated by // -----")
        ->group("Testing");
    app.add_flag("--verify-diagnostics", o->verifyDiagnostics,
                 "expect the errors that // expected-error@+1 {{…}} names")
        ->group("Testing");
    app.add_flag("--list-passes", o->listPasses, "the passes, in the order of the pipeline");
    app.add_option("--help-pass", o->helpPass, "what a pass does, and an example")->type_name("PASS");
    app.add_flag("--list-ops", o->listOps, "the names of all ops; `dtc help OP` explains one");
    app.add_flag("--ops-page", o->opsPage)->group("");       // docs/ops.md
    app.add_flag("--passes-page", o->passesPage)->group(""); // docs/passes.md
    // For the tests: %dtc-opt (test/lit.cfg.py).
    app.add_flag("--verify-equivalence", o->verifyEquivalence)->group("");
    return [o](Environment& env) { return run(env, *o); };
  };
  return v;
}

} // namespace dtc
