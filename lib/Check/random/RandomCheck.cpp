#include "dtc/Check/random/RandomCheck.h"
#include "dtc/IR/verify/Verify.h"

#include "dtc/Check/run/RunCheck.h"
#include "dtc/Eval/Eval.h"
#include "dtc/Files/Inputs.h"
#include "dtc/IR/text/Text.h"
#include "dtc/Passes/pipeline/StandardPipeline.h"
#include "dtc/Session/Session.h"

namespace dtc {
namespace {

class RandomRun {
public:
  RandomRun(RandomCheckReport& report, const OpRegistry& ops, Machine& machine)
      : report_(report), ops_(ops), machine_(machine) {}

  void run(const RandomCheckOptions& options) {
    if (!prepare()) return;
    if (options.evaluator) {
      for (int level : {0, 1}) evaluated(level);
      for (const char* policy : {"dtensor", "cost"}) evaluated(1, policy);
    }
    constexpr int kOthers[] = {0, 2, 3}; // one of them per run
    for (const std::string& backend : options.backends) {
      compiled(backend, 1);
      if (backend == "cpu") compiled(backend, kOthers[report_.program.seed % 3]);
    }
  }

private:
  void fail(std::string how, std::string why) {
    report_.failures.push_back({std::move(how), std::move(why)});
  }

  [[nodiscard]] std::optional<Module> parse() {
    Module m(ops_);
    Diagnostics diags;
    if (parseModule({"random.dt", report_.program.text}, ops_, m, diags) && verifyModule(m, diags)) return m;
    fail("parse", renderDiagnostics(diags, m.source, false));
    return std::nullopt;
  }

  bool lower(Session& session, Stage to, const std::string& how) {
    Diagnostics diags;
    session.hooks.verifyEach = true;
    const Status done = session.lower(to, diags);
    if (!done) fail(how, done.error().message + renderDiagnostics(diags, session.module().source, false));
    return done.ok();
  }

  // Inputs and the reference. False where there is nothing to compare with.
  bool prepare() {
    auto m = parse();
    if (!m) return false;
    FuncId f = m->findFunction("main");
    std::vector<InputBinding> bindings;
    for (const std::string& text : report_.program.inputs) {
      auto binding = parseInputBinding(text);
      if (!binding) return fail("inputs", binding.error().message), false;
      bindings.push_back(std::move(*binding));
    }
    std::vector<InputArgument> arguments;
    for (const FuncArg& a : (*m)[f].args) {
      const Type& type = m->typeOf(a.value);
      arguments.push_back({std::string(m->strings[(*m)[a.value].name]), "", type.dtype, type.staticShape()});
    }
    auto inputs = bindInputs(bindings, arguments);
    if (!inputs) return fail("inputs", inputs.error().message), false;
    for (const TensorSource& source : *inputs) {
      auto t = source.tensor();
      if (!t) return fail("inputs", t.error().message), false;
      inputs_.push_back(std::move(*t));
    }
    Session session(std::move(*m), f);
    if (!lower(session, Stage::Reference, "autodiff")) return false;
    unsharded_ = session.module();
    auto reference = runReference(*unsharded_, session.entry(), inputs_);
    if (!reference) {
      if (reference.error().kind == Error::Bug) fail("reference", reference.error().message);
      return false;
    }
    reference_ = std::move(*reference);
    return true;
  }

  // The program as it is executed at -O`level`.
  std::optional<Session> schedule(const std::string& how, StandardPipelineOptions options) {
    auto m = parse();
    if (!m) return std::nullopt;
    const FuncId f = m->findFunction("main");
    Session session(std::move(*m), f, std::move(options));
    if (!lower(session, Stage::Propagated, how)) return std::nullopt;
    propagated_ = session.module();
    if (!lower(session, Stage::Placed, how)) return std::nullopt;
    return session;
  }

  void compare(const std::string& how, Module& m, FuncId f, std::span<const Tensor> got,
               const Executable* ran = nullptr) {
    ++report_.runs;
    NamedTensors values;
    for (size_t i = 0; i < got.size(); ++i) values.emplace_back("y" + std::to_string(i), &got[i]);
    reference_.unpromised.clear(), reference_.commErrors.clear();
    const CheckedRun run{*unsharded_, &*propagated_, m, "main", inputs_};
    auto report = checkRunResults(reference_, run, values, CommRounding(m, f), ran);
    if (!report) return fail(how, report.error().message);
    for (const ResultCheck& r : report->results)
      if (!r.report.pass) fail(how, r.name + ": " + r.report.reason);
  }

  void evaluated(int level, const std::string& policy = "") {
    const std::string how =
        "evaluator -O" + std::to_string(level) + (policy.empty() ? "" : " --policy " + policy);
    auto session = schedule(how, {.optLevel = level, .policy = policy});
    if (!session) return;
    auto results = runReference(session->module(), session->entry(), inputs_);
    if (!results) return fail(how, results.error().message);
    compare(how, session->module(), session->entry(), results->rd);
  }

  void compiled(const std::string& backendName, int level) {
    const std::string how = backendName + " -O" + std::to_string(level);
    auto target = targetOfBackend(backendName);
    if (!target) return fail(how, target.error().message);
    auto session = schedule(how, {.optLevel = level, .target = *target});
    if (!session) return;
    auto backend = machine_.backend({.name = backendName, .optLevel = level}, session->numDevices());
    if (!backend) return fail(how, backend.error().message);
    auto loaded = session->load(**backend, machine_.pool, {.fixedSchedule = level >= 2});
    if (!loaded) return fail(how, loaded.error().message);
    std::vector<Tensor> first;
    for (int run = 0; run < 2; ++run) {
      auto got = runOnce(**loaded, inputs_, run > 0);
      if (!got) return fail(how, got.error().message);
      if (run == 0)
        compare(how, session->module(), session->entry(), first = std::move(*got), loaded->get());
      else if (!sameBits(first, *got))
        fail(how, "the bits of the second run differ from the first");
    }
    const double ratio = (*loaded)->memoryReports()[0].ratio();
    if ((*loaded)->arenaBytes() > 65536 && ratio > 1.05)
      fail(how, "the memory plan is " + std::to_string(ratio) + " of its lower bound");
  }

  static bool sameBits(std::span<const Tensor> a, std::span<const Tensor> b) {
    for (size_t i = 0; i < a.size(); ++i)
      if (!std::equal(a[i].bytes().begin(), a[i].bytes().end(), b[i].bytes().begin(), b[i].bytes().end()))
        return false;
    return true;
  }

  RandomCheckReport& report_;
  const OpRegistry& ops_;
  Machine& machine_;
  std::vector<Tensor> inputs_;
  std::optional<Module> unsharded_;  // gradients and decompositions done: the reference program
  std::optional<Module> propagated_; // the last scheduled program
  Reference reference_;
};

} // namespace

RandomCheckReport checkRandomProgram(uint64_t seed, const OpRegistry& ops, Machine& machine,
                                     const RandomCheckOptions& options) {
  RandomCheckReport report;
  report.program = makeRandomProgram(seed, ops, options.program);
  RandomRun(report, ops, machine).run(options);
  return report;
}

} // namespace dtc
