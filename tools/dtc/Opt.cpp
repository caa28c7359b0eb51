// dtc opt: runs passes and prints the IR.

#include "ExpectedDiagnostics.h"
#include "PrintAfter.h"
#include "Program.h"
#include "Timing.h"
#include "Verbs.h"
#include "dtc/Check/run/Equivalence.h"
#include "dtc/IR/text/Text.h"
#include "dtc/Ops/record/Ops.h"
#include "dtc/Passes/pipeline/PassText.h"
#include "dtc/Passes/pipeline/Pipeline.h"
#include "dtc/Passes/simplify/Inline.h"

#include "dtc/Passes/split/Split.h"
#include "dtc/Target/Target.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

namespace dtc {

namespace {

struct OptOptions {
  ProgramOptions program;
  LoweringFlags lowering;
  std::string passes, helpPass, style = "dim", target;
  bool pipeline = false;
  PrintAfterFlags printAfter;
  bool verifyEach = false, timing = false, types = false, splitInput = false;
  bool verifyDiagnostics = false, listPasses = false, listOps = false, opsPage = false, opFunctions = false;
  bool verifyEquivalence = false;
};

Result<int> listPasses(Environment& env) {
  size_t width = 0;
  for (const PassInfo& p : passTable()) width = std::max(width, std::string_view(p.name).size());
  for (const PassInfo& p : passTable()) {
    std::string name = p.name;
    env.out(name + std::string(width - name.size() + 2, ' ') + p.summary + "\n");
  }
  return kExitDone;
}

Result<int> listOps(Environment& env) {
  const OpRegistry& ops = standardOps();
  for (size_t k = 0; k < ops.size(); ++k) env.out(std::string(ops[static_cast<OpKind>(k)].name) + "\n");
  return kExitDone;
}

std::vector<std::string_view> passNames() {
  std::vector<std::string_view> names;
  for (const PassInfo& p : passTable()) names.emplace_back(p.name);
  return names;
}

Result<int> helpPass(Environment& env, const std::string& name) {
  const PassInfo* p = findPass(name);
  if (p) return env.out(passText(*p)), kExitDone;
  return usageError("--help-pass: " + unknownWord("pass", name, passNames()) +
                    " (`dtc opt --list-passes` lists them)");
}

class OptRun {
public:
  OptRun(Environment& env, const OptOptions& o, const ReadOptions& parse, const std::vector<PassStep>& steps)
      : env_(env), o_(o), parse_(parse), steps_(steps) {
    print_.style = o.style == "mesh" ? ShardingStyle::Mesh : ShardingStyle::Dim;
    print_.types = o.types;
  }

  // Runs the passes on one module and appends its text to `printed`.
  int part(SourceText source, std::string& printed) {
    env_.currentSource = source;
    Module m(standardOps());
    Diagnostics diags;
    LapClock clock;
    bool good = readText(std::move(source), parse_, m, diags);
    if (good)
      if (Status s = annotate(m, parse_); !s) return env_.fail(s.error());
    time("parse", clock.lap());
    good = good && verifyText(m, diags);
    time("verify", clock.lap());
    if (Status s = validateOverrides(m, parse_, diags); !s) return env_.fail(s.error());
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

  // Removes all functions but the entry and its callees.
  int keepEntry(Module& m) {
    auto entry = entryOf(m, o_.program.entry);
    if (!entry) return env_.fail(entry.error());
    removeUnreachable(m, *entry);
    return kExitDone;
  }

  int passes(Module& m, Diagnostics& diags) {
    PipelineHooks hooks;
    hooks.progress = env_.status.progress();
    hooks.verifyEach = o_.verifyEach;
    PassPrinter printer(env_, o_.printAfter, print_);
    hooks.after = [&](const PassStep& step, const Module& after, double ms) {
      time(step.pass->name, ms);
      printer(step, after);
    };
    auto done = runPipeline(m, steps_, diags, hooks);
    if (done) return kExitDone;
    if (done.error().kind == Error::Bug) bugAt(__FILE__, __LINE__, done.error().message.c_str());
    if (done.error().message.empty()) return kExitInput;
    return env_.fail(done.error());
  }

  // Runs the passes and checks that the program still computes the same results.
  int checkedPasses(Module& m, Diagnostics& diags) {
    Module before = m;
    if (int code = passes(m, diags)) return code;
    auto report = checkEquivalence(before, m);
    if (!report) return env_.fail(report.error());
    for (const std::string& difference : report->differences)
      env_.err("error: the passes changed the results of the program: " + difference + "\n");
    return report->differences.empty() ? kExitDone : kExitInput;
  }

  Environment& env_;
  const OptOptions& o_;
  const ReadOptions& parse_;
  const std::vector<PassStep>& steps_;
  PrintOptions print_;
};

// Splits a text at lines `// -----`. Each part is padded with empty lines so that line numbers stay the same.
std::vector<std::string> splitInput(std::string_view text) {
  std::vector<std::string> parts(1);
  size_t line = 0;
  for (size_t at = 0; at < text.size(); ++line) {
    size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    std::string_view one = text.substr(at, end - at);
    if (one.starts_with("// -----"))
      parts.emplace_back(line + 1, '\n');
    else
      parts.back() += one;
    at = end;
  }
  return parts;
}

// Prints the pipeline of `dtc run` and `dtc compile` with these flags in -p syntax, from the level of FILE
// (global if none is given).
Result<int> printPipeline(Environment& env, const OptOptions& o) {
  Level from = Level::Global;
  if (!o.program.file.empty()) {
    DTC_TRY(auto m, loadProgram(env, o.program));
    DTC_TRY(auto entry, entryOf(m, o.program.entry));
    from = levelOf(m, entry);
  }
  noteIdleFlags(env, o.lowering, from);
  const std::string target = o.target.empty() ? "cpu" : o.target;
  env.out(pipelineText(standardPipeline(from, o.lowering.pipeline(target)).all()) + "\n");
  return kExitDone;
}

Result<int> runOpt(Environment& env, const OptOptions& o) {
  if (o.listPasses) return listPasses(env);
  if (o.listOps) return listOps(env);
  if (o.opsPage) {
    env.out(opsMarkdown(standardOps()));
    return kExitDone;
  }
  if (o.opFunctions) {
    env.out(opFunctions(standardOps()));
    return kExitDone;
  }
  if (!o.helpPass.empty()) return helpPass(env, o.helpPass);
  if (Status s = checkPasses(o.printAfter); !s) return s.error();
  if (!o.target.empty())
    if (auto target = targetNamed(o.target); !target) return target.error();
  if (Status s = checkChoices(o.lowering); !s) return s.error();
  if (o.pipeline && !o.passes.empty())
    return usageError("--pipeline prints the pipeline of `dtc run`; it does not run the passes of -p");
  if (o.pipeline) return printPipeline(env, o);
  if (!(o.lowering == LoweringFlags()))
    return usageError(
        "-O, --policy, --reduce-dtype, --strict-nonfinite, --reduction-order, --rings and --no-overlap "
        "need --pipeline; with -p, use pass options instead: propagate{policy=cost}");
  DTC_TRY(auto steps, parsePipeline(o.passes));
  const auto runs = [&](auto&& holds) { return std::ranges::any_of(steps, holds); };
  for (const std::string& name : o.printAfter.passes)
    if (!runs([&](const PassStep& s) { return s.pass->name == name; }))
      return usageError("--print-after " + name + ": -p does not run this pass");
  const auto readsTarget = [](const PassStep& s) {
    return std::ranges::any_of(s.pass->options, &PassOption::isTarget);
  };
  if (!o.target.empty() && !runs(readsTarget))
    env.err("note: --target has no effect: -p runs neither 'split' nor 'collective-matmul', which read it\n");
  if (!o.target.empty())
    for (PassStep& s : steps)
      if (readsTarget(s)) s.options.values.try_emplace("target", o.target);
  DTC_TRY(auto source, readProgram(env, o.program));
  DTC_TRY(auto parse, parseOptionsOf(o.program));
  OptRun runner(env, o, parse, steps);
  std::string printed;
  int code = kExitDone;
  if (!o.splitInput) {
    code = runner.part(std::move(source), printed);
  } else {
    for (std::string& text : splitInput(source.text)) {
      if (!printed.empty()) printed += "// -----\n";
      code = std::max(code, runner.part({source.name, std::move(text)}, printed));
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
  v.summary = "run passes and print the IR";
  v.examples = "  dtc opt mlp.dt -p propagate\n"
               "  dtc opt mlp.dt -p 'propagate{policy=shardy},partition' --print-after propagate\n"
               "  cat mlp.dt | dtc opt - -p propagate | dtc opt - -p partition\n"
               "  dtc opt --help-pass propagate";
  v.declare = [](CLI::App& app) -> std::function<Result<int>(Environment&)> {
    auto o = std::make_shared<OptOptions>();
    addProgramOptions(app, o->program);
    app.add_option("-p,--passes", o->passes, "passes to run, in order: a,b{opt=v},c")->type_name("PASSES");
    app.add_option("--target", o->target, "target of passes that depend on it, such as split")
        ->type_name("cpu|sm_80|sm_90|sm_90a|sm_100|sm_100a");
    app.add_flag("--pipeline", o->pipeline, "print the pipeline of `dtc run` with these flags, in -p syntax");
    addLoweringOptions(app, o->lowering);
    addPrintAfterOptions(app, o->printAfter);
    app.add_flag("--verify-each", o->verifyEach, "verify after each pass");
    app.add_flag("--timing", o->timing, "print the time of each pass to stderr");
    app.add_option("--sharding-style", o->style, "print shardings as {dp, _} (dim) or [S(0), R] (mesh)")
        ->type_name("dim|mesh")
        ->check(CLI::IsMember({"dim", "mesh"}));
    app.add_flag("--types", o->types, "print the axes along which each local value varies");
    app.add_flag("--split-input", o->splitInput, "FILE contains several modules separated by // -----")
        ->group("Testing");
    app.add_flag("--verify-diagnostics", o->verifyDiagnostics,
                 "check diagnostics against // expected-error@+1 {{…}} comments")
        ->group("Testing");
    app.add_flag("--list-passes", o->listPasses, "list all passes in pipeline order");
    app.add_option("--help-pass", o->helpPass, "describe a pass, with an example")->type_name("PASS");
    app.add_flag("--list-ops", o->listOps, "list all ops; `dtc help OP` describes one");
    app.add_flag("--ops-page", o->opsPage)->group("");         // docs/ops.md
    app.add_flag("--op-functions", o->opFunctions)->group(""); // include/dtc/Ops/OpFunctions.h
    // Used by tests: %dtc-opt (test/lit.cfg.py).
    app.add_flag("--verify-equivalence", o->verifyEquivalence)->group("");
    return [o](Environment& env) { return runOpt(env, *o); };
  };
  return v;
}

} // namespace dtc
