// dtc check: checks programs, sharding rules and random programs.

#include "Program.h"
#include "Verbs.h"
#include "dtc/Check/random/RandomCheck.h"
#include "dtc/Check/rules/RuleProver.h"
#include "dtc/Check/run/Determinism.h"
#include "dtc/Check/run/Numerics.h"
#include "dtc/Files/TensorFiles.h"
#include "dtc/Ops/record/Ops.h"
#include "dtc/Session/Session.h"
#include "dtc/Support/Json.h"
#include "dtc/Support/Words.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

namespace dtc {

namespace {

struct CheckOptions {
  ProgramOptions program;
  bool rules = false, numerics = false, determinism = false, json = false;
  bool mutate = false, strictNonFinite = false;
  [[nodiscard]] NonFinite nonFinite() const {
    return strictNonFinite ? NonFinite::Strict : NonFinite::Promised;
  }
  std::string reductionOrder = "any";
  std::string claims, keep;
  int64_t random = 0;
  uint64_t seed = 1;
  std::vector<std::string> backends;
  std::vector<std::string> ops;
};

std::string findingsJson(const std::vector<RuleFinding>& findings) {
  return "[" +
         joined(findings, ", ",
                [](const RuleFinding& f) {
                  return "{\"claim\": " + jsonString(f.text) + ", \"why\": " + jsonString(f.why) + "}";
                }) +
         "]";
}

std::string plural(size_t n, const char* what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

std::string mutantsJson(const RuleReport& r, const CheckOptions& o) {
  if (!o.mutate) return "";
  return ", \"mutants\": " + std::to_string(r.mutants) + ", \"caught\": " + std::to_string(r.caught) +
         ", \"silent\": " + findingsJson(r.silent) + ", \"sound\": " + findingsJson(r.sound);
}

std::string mutantsText(const RuleReport& r) {
  std::string out;
  for (const RuleFinding& f : r.silent) out += "equivalent mutant: " + f.text + ": " + f.why + "\n";
  for (const RuleFinding& f : r.sound) out += "sound mutant: " + f.text + ": " + f.why + "\n";
  return out + plural(static_cast<size_t>(r.mutants), "mutant") + ": " + std::to_string(r.caught) +
         " killed, " + std::to_string(r.silent.size()) + " equivalent, " + std::to_string(r.sound.size()) +
         " sound\n";
}

Result<int> runRules(Environment& env, const CheckOptions& o) {
  for (const std::string& name : o.ops)
    if (standardOps().find(name) == kNoOpKind) {
      std::vector<std::string_view> known;
      for (size_t k = 0; k < standardOps().size(); ++k)
        known.emplace_back(standardOps()[static_cast<OpKind>(k)].name);
      return usageError(unknownWord("op", name, known));
    }
  RuleReport report = proveRules(standardOps(), {o.ops, env.status.progress(), o.nonFinite(), o.mutate});
  if (o.json) {
    env.out("{\"wrong\": " + findingsJson(report.wrong) + ", \"missing\": " + findingsJson(report.missing) +
            ", \"ops\": " + std::to_string(report.ops) + ", \"cases\": " + std::to_string(report.cases) +
            mutantsJson(report, o) + "}\n");
  } else {
    for (const RuleFinding& f : report.wrong) env.out("wrong: " + f.text + "\n  " + f.why + "\n");
    for (const RuleFinding& f : report.missing) env.out("missing: " + f.text + "\n");
    env.out(plural(static_cast<size_t>(report.ops), "op") + ", " +
            plural(static_cast<size_t>(report.cases), "case") + ": " +
            plural(report.wrong.size(), "wrong rule") + ", " + plural(report.missing.size(), "missing rule") +
            "\n");
    if (o.mutate) env.out(mutantsText(report));
  }
  return report.wrong.empty() && report.missing.empty() ? kExitDone : kExitInput;
}

constexpr size_t kMaxClaimBytes = 16 << 20;

Result<int> runClaims(Environment& env, const CheckOptions& o) {
  auto text = env.read(o.claims, kMaxClaimBytes);
  if (!text.ok()) return text.error();
  auto verdicts = judgeClaims(text->text, standardOps(), o.nonFinite());
  size_t failed = 0, unjudged = 0;
  std::string out;
  for (const ClaimVerdict& v : verdicts) {
    const LineCol at = lineColumn(text->text, static_cast<uint32_t>(v.begin));
    const std::string location =
        text->name + ":" + std::to_string(at.line) + ":" + std::to_string(at.column) + ": ";
    failed += v.judged && !v.holds;
    unjudged += !v.judged;
    if (o.json)
      out += (out.empty() ? "" : ", ") + ("{\"claim\": " + jsonString(v.claim)) +
             ", \"holds\": " + (v.holds ? "true" : "false") +
             ", \"judged\": " + (v.judged ? "true" : "false") + ", \"why\": " + jsonString(v.why) +
             ", \"line\": " + std::to_string(at.line) + ", \"column\": " + std::to_string(at.column) + "}";
    else
      out +=
          std::string(!v.judged ? "unjudged: "
                      : v.holds ? "true:  "
                                : "false: ") +
          v.claim + "\n" +
          (v.why.empty() ? ""
                         : "       " + (v.malformed ? location + "error: " : std::string()) + v.why + "\n");
  }
  if (o.json)
    env.out("{\"claims\": [" + out + "]}\n");
  else
    env.out(out + plural(verdicts.size(), "claim") + ", " + std::to_string(failed) + " false" +
            (unjudged ? ", " + std::to_string(unjudged) + " not judged" : "") + "\n");
  return failed + unjudged ? kExitInput : kExitDone;
}

std::string indented(const std::string& text) {
  std::string out = "  ";
  for (char c : text.substr(0, text.find_last_not_of('\n') + 1))
    out += c == '\n' ? std::string("\n  ") : std::string(1, c);
  return out + "\n";
}

// Generates programs from `seed`, `seed`+1, …; all configurations of each must agree.
Result<int> runRandom(Environment& env, const CheckOptions& o) {
  RandomCheckOptions options;
  if (!o.backends.empty()) {
    options.backends = o.backends;
    options.evaluator = std::erase(options.backends, "evaluator") > 0;
  }
  Machine machine;
  int64_t runs = 0, failed = 0;
  std::string list;
  std::error_code error;
  if (!o.keep.empty())
    std::filesystem::create_directories(o.keep, error); // a failure shows when files are written
  for (int64_t i = 0; i < o.random; ++i) {
    env.status.at("random programs", static_cast<size_t>(i), static_cast<size_t>(o.random));
    RandomCheckReport r =
        checkRandomProgram(o.seed + static_cast<uint64_t>(i), standardOps(), machine, options);
    runs += r.runs;
    if (!r.failures.empty()) {
      ++failed;
      const std::string name = "random-" + std::to_string(r.program.seed) + ".dt";
      if (!o.keep.empty())
        if (Status s = writeFileAtomically(o.keep + "/" + name, r.program.text); !s) return s.error();
      if (!o.json)
        env.out("seed " + std::to_string(r.program.seed) +
                (o.keep.empty() ? "" : ", " + o.keep + "/" + name) + ":\n");
    }
    for (const RandomFailure& f : r.failures) {
      if (!o.json) env.out(indented(f.how + ": " + f.why));
      list += (list.empty() ? "" : ", ") + ("{\"seed\": " + std::to_string(r.program.seed)) +
              ", \"how\": " + jsonString(f.how) + ", \"why\": " + jsonString(f.why) + "}";
    }
  }
  if (o.json)
    env.out("{\"failures\": [" + list + "], \"programs\": " + std::to_string(o.random) +
            ", \"runs\": " + std::to_string(runs) + "}\n");
  else
    env.out(plural(static_cast<size_t>(o.random), "program") + ", " +
            plural(static_cast<size_t>(runs), "run") + ": " + std::to_string(failed) + " failed\n");
  return failed ? kExitInput : kExitDone;
}

Result<int> runNumerics(Environment& env, const CheckOptions& o) {
  DTC_TRY(auto loaded, loadProgram(env, o.program));
  DTC_TRY(auto entries, entriesOf(loaded, o.program.entry));
  Diagnostics diags;
  auto report = checkNumerics(loaded, entries, diags);
  if (int failed = env.report(diags, loaded.source)) return failed;
  if (!report) return report.error();
  env.out(o.json ? report->json() : report->text());
  return report->pass() ? kExitDone : kExitInput;
}

// Mesh sizes to test besides those of the text: unsharded, and device counts that are not powers of two.
std::vector<std::vector<ParseOptions::MeshSizes>> otherMeshes(const Module& m) {
  std::vector<std::vector<ParseOptions::MeshSizes>> out;
  for (auto size : {+[](size_t) -> int64_t { return 1; }, +[](size_t i) -> int64_t { return i == 0 ? 3 : 1; },
                    +[](size_t i) -> int64_t { return i == 0 ? 2 : 3; },
                    +[](size_t i) -> int64_t { return i == 0 ? 5 : 2; },
                    +[](size_t i) -> int64_t { return i == 0 ? 4 : 2; }}) {
    std::vector<ParseOptions::MeshSizes>& sizes = out.emplace_back();
    for (uint32_t k = 0; k < m.shardings.numMeshes(); ++k) {
      const Mesh& mesh = m.shardings.mesh(MeshId(k));
      ParseOptions::MeshSizes one{std::string(m.strings[mesh.name]), {}};
      for (size_t i = 0; i < mesh.axes.size(); ++i)
        one.axes.emplace_back(m.strings[mesh.axes[i].name], i < 2 ? size(i) : 1);
      sizes.push_back(std::move(one));
    }
  }
  return out;
}

std::string meshesText(const std::vector<ParseOptions::MeshSizes>& sizes) {
  std::string out;
  for (const ParseOptions::MeshSizes& s : sizes) {
    out += (out.empty() ? "mesh " : " ") + s.mesh + "=";
    for (size_t i = 0; i < s.axes.size(); ++i)
      out += (i ? "," : "") + s.axes[i].first + ":" + std::to_string(s.axes[i].second);
  }
  return out;
}

Result<int> runDeterminism(Environment& env, const CheckOptions& o) {
  DTC_TRY(auto source, readProgram(env, o.program));
  DTC_TRY(auto parse, parseOptionsOf(o.program));
  DTC_TRY(auto loaded, loadText(env, source, parse));
  DTC_TRY(auto entries, entriesOf(loaded, o.program.entry));
  DeterminismOptions options;
  options.fixedOrder = o.reductionOrder == "fixed";
  if (!o.backends.empty()) options.backends = o.backends;
  bool pass = true;
  for (FuncId f : entries) {
    if (options.fixedOrder && levelOf(loaded, f) != Level::Global)
      return inputError("--reduction-order fixed needs a global program, but this one is already " +
                        std::string(levelName(levelOf(loaded, f))));
    std::vector<DeterminismVariant> variants;
    variants.push_back({"", loaded, f});
    for (auto& sizes :
         options.fixedOrder ? otherMeshes(loaded) : std::vector<std::vector<ParseOptions::MeshSizes>>()) {
      ReadOptions other = parse;
      other.meshes = sizes;
      DTC_TRY(auto m, loadText(env, source, other));
      const FuncId same = m.findFunction(loaded.strings[loaded[f].name]);
      variants.push_back({meshesText(sizes), std::move(m), same});
    }
    Diagnostics diags;
    auto report = checkDeterminism(std::move(variants), options, diags);
    if (int failed = env.report(diags, loaded.source)) return failed;
    if (!report) return report.error();
    env.out(o.json ? report->json() : report->text());
    pass = pass && report->pass();
  }
  return pass ? kExitDone : kExitInput;
}

// An error for a flag that the requested check does not read.
std::optional<Error> idleFlag(const CheckOptions& o) {
  struct Use {
    bool given;
    const char* flag;
    bool read;
    const char* by;
  };
  const bool rules = o.rules && o.claims.empty();
  const Use uses[] = {
      {o.reductionOrder != "any", "--reduction-order", o.determinism, "--determinism"},
      {o.mutate, "--mutate", rules, "--rules"},
      {o.strictNonFinite, "--strict-nonfinite", o.rules || !o.claims.empty(), "--rules and --claims"},
      {!o.ops.empty(), "--op", rules, "--rules"},
      {o.seed != 1, "--seed", o.random > 0, "--random"},
      {!o.keep.empty(), "--keep", o.random > 0, "--random"},
      {!o.backends.empty(), "--backend", o.random > 0 || o.determinism, "--random and --determinism"},
      {!o.program.meshes.empty(), "--mesh", o.numerics || o.determinism, "--numerics and --determinism"},
      {!o.program.dims.empty(), "--dim", o.numerics || o.determinism, "--numerics and --determinism"},
      {!o.program.entry.empty(), "--entry", o.numerics || o.determinism, "--numerics and --determinism"},
  };
  for (const Use& u : uses)
    if (u.given && !u.read)
      return usageError(std::string(u.flag) + " has no effect here: it is a flag of " + u.by);
  const bool ofFile = o.numerics || o.determinism, ofRules = o.rules || !o.claims.empty();
  if (ofFile + ofRules + (o.random > 0) > 1)
    return usageError(
        "checks of a program (--numerics, --determinism), of the rules (--rules, --claims) and of "
        "random programs (--random) are separate commands");
  return std::nullopt;
}

// Runs the requested checks of a program and prints the report of each.
Result<int> runFile(Environment& env, const CheckOptions& o) {
  if (o.json && o.numerics && o.determinism)
    return usageError("--json prints one report: choose --numerics or --determinism");
  DTC_TRY(const int first, o.numerics ? runNumerics(env, o) : kExitDone);
  DTC_TRY(const int second, o.determinism ? runDeterminism(env, o) : kExitDone);
  return second == kExitDone ? first : second;
}

Result<int> runCheck(Environment& env, const CheckOptions& o) {
  if (o.random && std::ranges::find(o.backends, "cuda") != o.backends.end())
    return usageError("--random supports evaluator, cpu and cuda-emu; --backend cuda requires --determinism");
  if (o.determinism && o.program.file.empty())
    return usageError("--determinism needs a program: dtc check FILE --determinism");
  if (o.numerics && o.program.file.empty())
    return usageError("--numerics needs a program: dtc check FILE --numerics");
  if (!o.numerics && !o.determinism && !o.program.file.empty())
    return usageError("choose a check of '" + o.program.file + "': --numerics or --determinism");
  if (const auto idle = idleFlag(o)) return *idle;
  if (o.numerics || o.determinism) return runFile(env, o);
  if (o.random > 0) return runRandom(env, o);
  if (!o.claims.empty()) return runClaims(env, o);
  if (o.rules) return runRules(env, o);
  return usageError("choose a check: FILE --numerics, FILE --determinism, --rules, --rules --claims FILE, "
                    "or --random N");
}

} // namespace

Verb checkVerb() {
  Verb v;
  v.name = "check";
  v.usage = "FILE --numerics | FILE --determinism | --rules [--claims FILE] | --random N [flags]";
  v.summary = "test a program's results and gradients; prove sharding rules; test random programs";
  v.examples = "  dtc check examples/mlp-grad.dt --numerics --mesh pod=dp:3,tp:5\n"
               "  dtc check examples/mlp-grad.dt --determinism --reduction-order fixed\n"
               "  dtc check --rules\n"
               "  dtc check --rules --op matmul --op add\n"
               "  dtc check --rules --claims claims.txt\n"
               "  dtc check --random 100 --seed 1 --keep /tmp";
  v.declare = [](CLI::App& app) -> std::function<Result<int>(Environment&)> {
    auto o = std::make_shared<CheckOptions>();
    addProgramOptions(app, o->program);
    app.add_flag(
        "--numerics", o->numerics,
        "on random inputs, compare FILE sharded with unsharded and gradients with finite differences");
    app.add_flag("--determinism", o->determinism,
                 "check that FILE is bitwise reproducible across runs, loads and thread counts");
    app.add_option("--reduction-order", o->reductionOrder,
                   "fixed: require the same bits on every mesh as well")
        ->type_name("any|fixed")
        ->check(CLI::IsMember({"any", "fixed"}));
    app.add_flag("--rules", o->rules,
                 "prove each op's sharding rule on meshes of 2 and 3 devices, for all placements");
    app.add_flag("--mutate", o->mutate,
                 "mutation-test --rules: mutate each sharding rule and report mutants that survive");
    app.add_flag("--strict-nonfinite", o->strictNonFinite,
                 "require --rules and --claims to hold for infinities and NaN too");
    app.add_option("--op", o->ops, "check only this op's rule")->type_name("NAME")->allow_extra_args(false);
    app.add_option("--claims", o->claims, "judge the claims in FILE, one per line: neg | P(max) -> P(min)")
        ->type_name("FILE");
    app.add_option("--random", o->random,
                   "generate N random programs; each must give the same results in all configurations")
        ->type_name("N")
        ->check(CLI::Range(1, 1000000000));
    app.add_option("--seed", o->seed, "seed of the first random program (1)")->type_name("SEED");
    app.add_option("--backend", o->backends,
                   "restrict --random or --determinism to these: evaluator, cpu, cuda-emu; cuda with "
                   "--determinism only")
        ->type_name("evaluator|cpu|cuda-emu|cuda")
        ->allow_extra_args(false)
        ->check(CLI::IsMember({"evaluator", "cpu", "cuda-emu", "cuda"}));
    app.add_option("--keep", o->keep, "write failing programs to this folder")->type_name("FOLDER");
    app.add_flag("--json", o->json, "print the report as JSON");
    return [o](Environment& env) { return runCheck(env, *o); };
  };
  return v;
}

} // namespace dtc
