#include "dtc/Check/RandomCheck.h"

#include "dtc/Check/RunCheck.h"
#include "dtc/Eval/Eval.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/IR/Text.h"
#include "dtc/Passes/StandardPipeline.h"
#include "dtc/Runtime/CpuBackend.h"
#include "dtc/Runtime/CudaEmuBackend.h"
#include "dtc/Runtime/Inputs.h"

#include <memory>

namespace dtc {
namespace {

class RandomRun {
public:
  RandomRun(RandomCheckReport& report, const OpRegistry& ops, const CpuJit& jit, ThreadPool& pool)
      : report_(report), ops_(ops), jit_(jit), pool_(pool) {}

  void run(const RandomCheckOptions& options) {
    if (!prepare()) return;
    if (options.evaluator) {
      for (int level : {0, 1}) evaluated(level);
      for (const char* policy : {"dtensor", "cost"}) evaluated(1, policy);
    }
    constexpr int kOthers[] = {0, 2, 3}; // one of them each time
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

  bool passes(Module& m, const std::vector<PassStep>& steps, const std::string& how) {
    Diagnostics diags;
    PipelineHooks hooks;
    hooks.verifyEach = true;
    Status done = runPipeline(m, steps, diags, hooks);
    if (done && !diags.hasErrors()) return true;
    fail(how, done ? renderDiagnostics(diags, m.source, false)
                   : done.error().message + renderDiagnostics(diags, m.source, false));
    return false;
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
      auto t = source.whole();
      if (!t) return fail("inputs", t.error().message), false;
      inputs_.push_back(std::move(*t));
    }
    if (!passes(*m, standardPipeline(Level::Global, 1, "").reference, "autodiff")) return false;
    unsharded_ = *m;
    auto reference = runReference(*m, m->findFunction("main"), inputs_);
    if (!reference) {
      if (reference.error().kind == Error::Bug) fail("reference", reference.error().message);
      return false;
    }
    reference_ = std::move(*reference);
    for (size_t i = 0; i < reference_.r64.size(); ++i) names_.push_back("y" + std::to_string(i));
    return true;
  }

  // The program as it is executed at -O`level`.
  std::optional<Module> schedule(int level, const std::string& how, const std::string& policy = "") {
    auto m = parse();
    if (!m) return std::nullopt;
    StandardPipeline pipeline = standardPipeline(Level::Global, level, policy);
    for (const auto* steps : {&pipeline.reference, &pipeline.propagate})
      if (!passes(*m, *steps, how)) return std::nullopt;
    propagated_ = *m;
    if (!passes(*m, pipeline.lower, how)) return std::nullopt;
    return m;
  }

  void compare(const std::string& how, Module& m, FuncId f, std::span<const Tensor> got) {
    ++report_.runs;
    const std::vector<CompareOptions> options = WireRounding(m, f).ofResults();
    reference_.unpromised.clear();
    CheckReport report = checkResults(reference_, got, names_, options);
    if (!report.pass)
      if (Status s = addUnpromised(reference_, *propagated_, propagated_->findFunction("main"), inputs_); !s)
        return fail(how, s.error().message);
    if (!report.pass && !reference_.unpromised.empty())
      report = checkResults(reference_, got, names_, options);
    if (!report.pass && reference_.nudged.empty())
      if (Status s = addNudged(reference_, *unsharded_, unsharded_->findFunction("main"), inputs_); !s)
        return fail(how, s.error().message);
    if (!report.pass) report = checkResults(reference_, got, names_, options);
    for (const ResultCheck& r : report.results)
      if (!r.report.pass) fail(how, r.name + ": " + r.report.reason);
  }

  void evaluated(int level, const std::string& policy = "") {
    const std::string how =
        "evaluator -O" + std::to_string(level) + (policy.empty() ? "" : " --policy " + policy);
    auto m = schedule(level, how, policy);
    if (!m) return;
    FuncId f = m->findFunction("main");
    auto results = runReference(*m, f, inputs_);
    if (!results) return fail(how, results.error().message);
    compare(how, *m, f, results->rd);
  }

  void compiled(const std::string& backendName, int level) {
    const std::string how = backendName + " -O" + std::to_string(level);
    auto m = schedule(level, how);
    if (!m) return;
    FuncId f = m->findFunction("main");
    std::unique_ptr<Backend> backend;
    if (backendName == "cuda-emu")
      backend = makeCudaEmuBackend(jit_);
    else
      backend = makeCpuBackend(jit_, pool_, meshValueOf(*m, f).numDevices(), {}, level);
    auto loaded = Executable::load(*m, f, *backend, pool_, {.fixedSchedule = level >= 2});
    if (!loaded) return fail(how, loaded.error().message);
    std::vector<Tensor> first;
    for (int run = 0; run < 2; ++run) {
      for (size_t i = 0; i < inputs_.size(); ++i)
        if (run == 0 || !(*loaded)->keepsArgument(i))
          if (Status s = (*loaded)->setArgument(i, inputs_[i]); !s) return fail(how, s.error().message);
      if (Status s = (*loaded)->run(); !s) return fail(how, s.error().message);
      std::vector<Tensor> got;
      for (size_t i = 0; i < names_.size(); ++i) {
        auto t = (*loaded)->result(i);
        if (!t) return fail(how, t.error().message);
        got.push_back(std::move(*t));
      }
      if (run == 0)
        compare(how, *m, f, first = std::move(got));
      else if (!sameBits(first, got))
        fail(how, "the second run gives other bits than the first");
    }
    const double ratio = (*loaded)->memoryReport().ratio();
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
  const CpuJit& jit_;
  ThreadPool& pool_;
  std::vector<Tensor> inputs_;
  std::optional<Module> unsharded_;  // gradients and decompositions done: what the reference runs
  std::optional<Module> propagated_; // as it was scheduled last
  Reference reference_;
  std::vector<std::string> names_;
};

} // namespace

RandomCheckReport checkRandomProgram(uint64_t seed, const OpRegistry& ops, const CpuJit& jit,
                                     ThreadPool& pool, const RandomCheckOptions& options) {
  RandomCheckReport report;
  report.program = makeRandomProgram(seed, ops, options.program);
  RandomRun(report, ops, jit, pool).run(options);
  return report;
}

} // namespace dtc
