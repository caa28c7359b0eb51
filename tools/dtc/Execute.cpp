#include "Execute.h"
#include "CollectResults.h"
#include "GraphFiles.h"
#include "Interrupt.h"
#include "OpLog.h"
#include "RunModule.h"
#include "RunReport.h"
#include "SameFiles.h"
#include "Sizes.h"
#include "Timing.h"
#include "TrainRun.h"

#include "dtc/Api/PackageFile.h"
#include "dtc/Check/run/RunCheck.h"
#include "dtc/Files/Inputs.h"
#include "dtc/Files/TensorFiles.h"
#include "dtc/Files/TensorText.h"
#include "dtc/Passes/memory/PlanMemory.h"
#include "dtc/Passes/simplify/Inline.h"
#include "dtc/Report/trace/TraceComparison.h"
#include "dtc/Runtime/trace/Trace.h"
#include "dtc/Session/ArgumentSizes.h"
#include "dtc/Session/Session.h"
#include "dtc/StableHlo/import/Import.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>

namespace dtc {
namespace {

using Clock = std::chrono::steady_clock;
double msSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

// Compiles and runs one entry function.
class Execution {
public:
  // `target`: the backend's target (targetOfBackend).
  // `evaluation`: for --eval. `job`: null for a run of one process.
  Execution(Environment& env, const RunOptions& o, Module m, FuncId f, Machine& machine, std::string target,
            std::unique_ptr<Evaluation> evaluation, Job* job)
      : env_(env), o_(o), machine_(machine), job_(job), evaluation_(std::move(evaluation)),
        session_(std::move(m), f, o.lowering.pipeline(std::move(target))), scheduled_(session_.module()),
        results_(scheduled_, session_.entry()) {}

  int run();
  void took(const char* phase, double ms) { phases_.push_back({phase, ms}); }

  std::string json;   // the entry's report with --json
  bool passed = true; // the verdict of --check and --nan

private:
  Status loopCarries() { return checkCarries(env_, o_, scheduled_, func(), results_); }
  Status openTraining();
  Status bind();
  Status lower(Stage to);
  Status compile();
  Result<std::unique_ptr<Backend>> makeBackend();
  [[nodiscard]] FuncId func() const { return session_.entry(); }
  Status placeWithoutReuse();
  Status execute();
  Status setArguments(Executable& e, bool first);
  Status runOnce(bool counts, bool last);
  Status runSteps();
  Status runTraining();
  Status endTogether(const Status&);
  Status explainNan(int64_t step);
  Status joinNans(std::optional<NanSearch>& nans);
  [[nodiscard]] Executable::Options loadOptions() const;
  Status collect();
  Status checkIndices();
  Status checkRun();
  void reportNans();
  [[nodiscard]] bool trains() const { return training_ && o_.loop; }
  [[nodiscard]] bool speaks() const { return !job_ || job_->speaks(); }
  [[nodiscard]] bool wantsReference() const { return (o_.check || o_.nan) && speaks(); }
  Status checkWritten();
  Status report();
  [[nodiscard]] std::vector<const RunResult*> printed() const;
  // The CPU and the emulator always compute f32 matmuls in f32.
  [[nodiscard]] bool roundsToTf32() const { return o_.matmulPrecision == "tf32" && o_.backend == "cuda"; }
  [[nodiscard]] bool quiet() const {
    return o_.json || o_.trace == "-" || o_.train.log == "-";
  } // standard output holds one document

  static void printHook(void* self, const std::string& text);
  static void stepHook(void* self, uint32_t step, int64_t coordinate);

  Environment& env_;
  const RunOptions& o_;
  PassPrinter printer_{env_, o_.printAfter};
  Machine& machine_;
  Job* job_;
  std::unique_ptr<Evaluation> evaluation_; // null without --eval
  Session session_;
  Module& scheduled_; // session_.module()
  std::optional<Module> reference_, propagated_;
  bool diagnosed_ = false;             // diagnostics have been printed
  std::vector<TensorSource> sources_;  // by argument
  std::unique_ptr<Training> training_; // null: no flag of training runs is given
  bool complete_ = false;              // all steps have been taken by an earlier run
  std::vector<Tensor> inputs_;         // the sources in memory, if the reference needs them
  RunResults results_;
  ResultCollection collection_{results_, o_.outputs, job_};
  OpLog log_{env_, job_};
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Executable> executable_;
  RunStats stats_;
  std::vector<Backend::Phase> phases_;
  CheckReport check_;
  std::optional<NanSearch> nans_;
};

// Opens the data, the log and the checkpoints: what is wrong with them is known before anything is compiled.
Status Execution::openTraining() {
  if (o_.train == TrainFlags()) return Ok{};
  DTC_TRY(auto options, trainOptionsOf(env_, o_));
  options.print = [this](const std::string& line) {
    env_.out(line);
    return env_.finish();
  };
  if (job_) options.processes = &job_->processes();
  if (env_.status.progress() && speaks())
    options.progress = [this](std::string_view what) { env_.status.at(what); };
  if (evaluation_) options.evaluate = [this](Executable& trained) { return evaluation_->run(trained); };
  DTC_TRY(training_, Training::open(std::move(options), trainProgramOf(scheduled_, func())));
  env_.err(training_->warnings());
  complete_ = training_->firstStep() > 0 && training_->firstStep() >= o_.loop;
  if (complete_) env_.err(resumedText(*training_, true));
  for (const std::string& output : o_.outputs) {
    const std::string path = output.substr(output.find('=') + 1); // all of it without '='
    if (complete_ && !std::filesystem::exists(path))
      return usageError("--output: " + path +
                        " was not written, and no step is left to compute it: add steps "
                        "to --loop, or write the state with dtc checkpoint convert");
  }
  return Ok{};
}

Status Execution::bind() {
  std::vector<InputBinding> bindings;
  for (const std::string& text : o_.inputs) {
    DTC_TRY(auto b, parseInputBinding(text));
    bindings.push_back(std::move(b));
  }
  if (holdsProgram(o_.program.file)) // the program's own weights
    bindings.push_back(
        {.pattern = "", .kind = InputBinding::Archive, .path = o_.program.file, .byDefault = true});
  const std::vector<InputArgument> arguments = inputArgumentsOf(scheduled_, func());
  for (size_t i = 0; i < arguments.size(); ++i) // they get their values from the data
    if (training_ && training_->feeds(i)) bindings.push_back({.pattern = arguments[i].name});
  DTC_TRY(sources_, bindInputs(bindings, arguments, job_ ? job_->share() : ReaderShare()));
  if (training_)
    if (Status s = training_->bind(sources_); !s) return s;
  for (TensorSource& source : sources_) {
    if (!wantsReference()) break;
    DTC_TRY(auto t, source.tensor());
    inputs_.push_back(std::move(t));
    if (!source.inFile()) source = {}; // held once
  }
  return Ok{};
}

Status Execution::lower(Stage to) {
  Diagnostics diags;
  const Status done = session_.lower(to, diags);
  diagnosed_ = env_.report(diags, scheduled_.source) != 0;
  return done;
}

Status Execution::compile() {
  session_.hooks.after = [&](const PassStep& step, const Module& after, double ms) {
    phases_.push_back({step.pass->name, ms});
    printer_(step, after);
  };
  if (o_.stats) session_.hooks.remarks = &stats_.remarks;
  session_.hooks.progress = env_.status.progress();
  // Complex programs without gradients are checked against the evaluator's native complex arithmetic.
  const bool native = wantsReference() && hasComplexNumbers(scheduled_) && !takesGradients(scheduled_);
  if (native) reference_ = scheduled_;
  if (Status s = lower(Stage::Reference); !s) return s;
  if (wantsReference() && !native) reference_ = scheduled_;
  if (Status s = lower(Stage::Propagated); !s) return s;
  if (o_.check && !scheduled_[func()].spmd) propagated_ = scheduled_;
  if (Status s = lower(Stage::Placed); !s) return s;
  printer_.finish();
  return Ok{};
}

Result<std::unique_ptr<Backend>> Execution::makeBackend() {
  BackendChoice choice{.name = o_.backend,
                       .optLevel = o_.lowering.optLevel,
                       .emulatorChecks = !o_.noEmuChecks,
                       .cuda = {.comm = o_.comm,
                                .timeoutSeconds = o_.commTimeout,
                                .dump = o_.commDump,
                                .deterministic = o_.deterministic,
                                .tf32 = o_.matmulPrecision == "tf32",
                                .cudnn = !o_.noCudnn,
                                .relu = o_.libraryRelu,
                                .measureSchedules = o_.lowering.optLevel >= 3}};
  if (env_.package && o_.backend == "cuda") { // the kernels of the package
    choice.cuda.target = packagedCuda(*env_.package).target;
    choice.cuda.measureSchedules = false;
  }
  if (job_) {
    choice.processes = &job_->processes();
    choice.fixedReductionOrder = o_.lowering.reductionOrder == "fixed";
  }
  auto backend = machine_.backend(choice, session_.numDevices());
  if (backend && o_.backend == "cuda" && session_.numDevices() > 1)
    env_.err("note: " + (*backend)->describe() + "\n");
  return backend;
}

void Execution::printHook(void* self, const std::string& text) {
  auto& x = *static_cast<Execution*>(self);
  x.quiet() ? x.env_.err(text) : x.env_.out(text);
}

void Execution::stepHook(void* self, uint32_t step, int64_t coordinate) {
  auto& x = *static_cast<Execution*>(self);
  if (x.o_.logOps)
    x.log_.step(*x.executable_, x.scheduled_.strings, x.executable_->steps()[step], coordinate);
  if (x.nans_) x.nans_->afterStep(step, coordinate);
}

// Steps inside a CUDA graph cannot be timed one by one: with graphs, only the last run is timed per step.
Status Execution::runOnce(bool counts, bool last) {
  RunHooks hooks;
  hooks.time = counts && (o_.stats || !o_.trace.empty()) && (last || !executable_->hasGraphs());
  hooks.print = &printHook;
  hooks.printSelf = this;
  if (o_.logOps || nans_) hooks.afterStep = &stepHook;
  hooks.self = this;
  if (hooks.time) // all processes begin together, so that their times can be compared
    if (Status s = backend_->communicator().synchronizeClocks(); !s) return s;
  auto begin = Clock::now();
  Status ran = executable_->run(hooks);
  if (!ran && job_) ran = job_->failureOf(ran, scheduled_.source.name);
  const double ms = msSince(begin);
  if (Status s = log_.end(backend_->communicator(), ran.ok() && o_.logOps); !ran || !s) return ran ? s : ran;
  if (!counts) return Ok{};
  if (hooks.time)
    if (Status s = executable_->gatherEvents(); !s) return s;
  if (hooks.time && speaks()) stats_.add(*executable_);
  if (hooks.time && executable_->hasGraphs() && !stats_.runMs.empty()) return Ok{};
  stats_.runMs.push_back(ms);
  stats_.host.push_back(executable_->hostCost());
  return Ok{};
}

// Sets all arguments before the first run; later, only those whose buffers the last run may have overwritten, or with
// --loop those that are not carried.
Status Execution::setArguments(Executable& e, bool first) {
  if (!first && o_.loop)
    if (Status s = e.carryOver(); !s) return s;
  const std::vector<bool> constant = e.keptArguments();
  std::vector<bool> keeps = first ? std::vector<bool>(constant.size()) : constant;
  if (!first && o_.loop)
    for (auto [result, argument] : carriedResults(scheduled_, func())) keeps[argument] = true;
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (keeps[i] || (trains() && training_->feeds(i))) continue;
    const bool held = wantsReference() && !sources_[i].inFile(); // `bind` has read it
    Status s = held ? e.setArgument(i, inputs_[i]) : e.setArgument(i, sources_[i]);
    if (s && constant[i]) s = e.keepArgument(i);
    if (!s) return s;
  }
  return Ok{};
}

// Gives each value its own buffer, so that it can be inspected after the run.
Status Execution::placeWithoutReuse() {
  Diagnostics diags;
  if (planWithoutReuse(scheduled_, diags)) return Ok{};
  return inputError(diags.all()[0].message());
}

Executable::Options Execution::loadOptions() const {
  return {.fixedSchedule = o_.lowering.optLevel >= 2 && !o_.nan,
          .graphs = !o_.noGraphs,
          .hostPredicates = o_.hostPredicates};
}

Status Execution::runSteps() {
  const int runs = o_.loop ? o_.loop : o_.warmup + o_.repeat;
  for (int i = 0; i < runs; ++i) {
    env_.status.at("running", static_cast<size_t>(i), static_cast<size_t>(runs));
    if (i > 0)
      if (Status s = setArguments(*executable_, false); !s) return s;
    if (Status s = runOnce(i >= o_.warmup, i + 1 == runs); !s) return s;
  }
  return Ok{};
}

Status Execution::runTraining() {
  if (evaluation_) {
    Diagnostics diags;
    DTC_TRY(auto backend, makeBackend());
    Status s =
        evaluation_->load(std::move(backend), machine_.pool, loadOptions(), *training_, sources_, diags);
    diagnosed_ = env_.report(diags, scheduled_.source) != 0;
    if (!s) return s;
  }
  std::optional<InterruptRequests> interrupts;
  if (!o_.train.checkpoint.empty()) interrupts.emplace();
  if (job_) job_->processes().endsInOrder(interrupts.has_value());
  env_.err(resumedText(*training_, false)); // nothing can fail before the first step
  const auto first = static_cast<int>(training_->firstStep());
  env_.status.at("running step " + std::to_string(first + 1) + " of " + std::to_string(o_.loop));
  for (int i = first; i < o_.loop; ++i) {
    const auto begin = Clock::now();
    if (i > first)
      if (Status s = setArguments(*executable_, false); !s) return s;
    if (Status s = training_->setData(*executable_, i); !s) return s;
    if (Status s = runOnce(true, i + 1 == o_.loop); !s) return s;
    DTC_TRY(const auto verdict, training_->after(*executable_, i, msSince(begin) / 1e3));
    if (verdict != Training::Verdict::NotANumber && training_->wantedCheckpoint() == i + 1)
      env_.err("note: SIGUSR1: a checkpoint after step " + std::to_string(i + 1) + "\n");
    if (verdict == Training::Verdict::Continue) continue;
    if (verdict == Training::Verdict::NotANumber) return explainNan(i);
    if (Status s = training_->finish(); !s) return endTogether(s);
    if (verdict == Training::Verdict::Failed)
      return endTogether(machineError("a checkpoint was not written"));
    reportStopped(env_, i + 1);
    return Ok{};
  }
  return endTogether(training_->finish());
}

// For a status that all processes have, error or not: they need not be ended by each other.
Status Execution::endTogether(const Status& s) {
  if (!s && job_) job_->ran();
  return s;
}

// After a NaN in step `step`: takes the steps from the last checkpoint on again, keeps the state before the
// first of them that makes a NaN, and searches that step. Always returns an error.
Status Execution::explainNan(int64_t step) {
  if (o_.nan || o_.check) { // --nan has searched already
    if (Status s = joinNans(nans_); !s) return s;
    if (speaks()) reportNans();
    return endTogether(nanError(*training_, step));
  }
  env_.status.at("looking for the step that makes the first NaN");
  Module placed = scheduled_;
  Diagnostics diags;
  if (!planWithoutReuse(placed, diags)) return inputError(diags.all()[0].message());
  DTC_TRY(const auto backend, makeBackend());
  DTC_TRY(auto inspected, Executable::load(placed, func(), *backend, machine_.pool, {}));
  const auto set = [this](Executable& e, bool first) { return setArguments(e, first); };
  DTC_TRY(const int64_t at, firstNanStep(*training_, sources_, step, *executable_, *inspected, set));
  DTC_TRY(const std::string kept, training_->keepState(at, sources_));
  std::optional<NanSearch> search(std::in_place, placed, func(), *inspected);
  if (Status s = inspectRun(*search, *inspected); !s) return s;
  if (Status s = joinNans(search); !s) return s;
  (void)search->report(diags);
  env_.report(diags, scheduled_.source);
  if (!kept.empty())
    env_.err("note: '" + kept + "' is the state before step " + std::to_string(at + 1) + "\n");
  env_.err("note: to take this step again: " + (job_ ? job_->starter() : "") +
           nanCommand(env_, at + 1, !kept.empty()) + "\n");
  return endTogether(nanError(*training_, at));
}

// Process 0 gets what all have found.
Status Execution::joinNans(std::optional<NanSearch>& nans) {
  if (!nans || !job_) return Ok{};
  DTC_TRY(const auto texts, job_->processes().gather(nans->text()));
  return nans->join(texts), Ok{};
}

Status Execution::execute() {
  if (Status s = job_ ? checkProcesses(o_, session_.numDevices(), job_->processes().size()) : Ok{}; !s)
    return s;
  DTC_TRY(backend_, makeBackend());
  env_.status.at("compiling kernels");
  if (o_.nan) // operands are inspected after their last use
    if (Status s = placeWithoutReuse(); !s) return s;
  DTC_TRY(executable_, session_.load(*backend_, machine_.pool, loadOptions()));
  for (const Backend::Phase& p : executable_->phases()) phases_.push_back(p);
  env_.status.at("reading and placing inputs");
  auto begin = Clock::now();
  if (Status s = setArguments(*executable_, true); !s) return s;
  phases_.push_back({"inputs", msSince(begin)});
  if (o_.logOps)
    for (const StepInfo& s : executable_->loadTimeSteps())
      for (int64_t p = 0; p < executable_->mesh().numDevices(); ++p)
        if (executable_->functionAt(p) == s.function && backend_->communicator().devices().contains(p))
          log_.step(*executable_, scheduled_.strings, s, p);
  if (o_.nan) nans_.emplace(scheduled_, func(), *executable_);
  if (job_) {
    DTC_TRY(const std::string files, filesText(o_, sources_));
    if (Status s = job_->start(scheduled_, files, backend_->communicator()); !s) return s;
  }
  if (Status s = trains() ? runTraining() : runSteps(); !s) return backend_->communicator().dump(), s;
  if (Status s = joinNans(nans_); !s) return s;
  std::vector<const RunResult*> needed = printed();
  if (!o_.texts.empty()) std::ranges::copy(results_.chosen(o_.texts), std::back_inserter(needed));
  if (Status s = collection_.gather(*executable_, needed, o_.check); !s) return s;
  if (job_) job_->ran();
  if ((o_.stats || !o_.trace.empty()) && backend_->name() == "cpu") stats_.rate = measureHost(machine_.pool);
  stats_.phases = phases_;
  stats_.about = backend_->describe();
  for (const std::string& note : backend_->notes()) stats_.about += (stats_.about.empty() ? "" : "\n") + note;
  return Ok{};
}

Status Execution::collect() { return collection_.collect(scheduled_, func(), *executable_); }

Status Execution::checkIndices() {
  if (!o_.nan || o_.check || !reference_ || !usesDataIndices(*reference_)) return Ok{};
  env_.status.at("looking for indices out of range");
  FuncId f = reference_->findFunction(scheduled_.strings[scheduled_[func()].name]);
  auto reference = runReference(*reference_, f, inputs_, std::max(1, o_.loop));
  return reference ? Status(Ok{}) : Status(reference.error());
}

// NaNs are legal results, but rarely intended: reports them as notes.
void Execution::reportNans() {
  for (RunResult& r : results_.all) {
    const NonFiniteCount& n = r.nonFinite;
    if (n.nan == 0) continue;
    env_.err("note: " + r.name + ": " + std::to_string(n.nan) + " of " + std::to_string(r.elements) +
             " elements are NaN" + (n.infinite ? ", " + std::to_string(n.infinite) + " are infinite" : "") +
             (o_.nan ? "" : " (--nan finds the op that produces the first)") + "\n");
  }
  if (!nans_) return;
  Diagnostics diags;
  if (nans_->report(diags)) passed = false;
  env_.report(diags, scheduled_.source);
  const bool any = std::ranges::any_of(results_.all, [](const RunResult& r) { return r.nonFinite.nan > 0; });
  if (passed && diags.all().empty())
    env_.err(any ? "note: no op produces the NaN: it is a constant of the program\n"
                 : "note: no NaN found\n");
}

Status Execution::checkRun() {
  const std::string_view name = scheduled_.strings[scheduled_[func()].name];
  const int steps = std::max(1, o_.loop);
  env_.status.at("evaluating the reference");
  DTC_TRY(auto reference,
          runReference(*reference_, reference_->findFunction(name), inputs_, steps, roundsToTf32()));
  const CommRounding rounding(scheduled_, func(), steps);
  const CheckedRun run{*reference_,   propagated_ ? &*propagated_ : nullptr, scheduled_, name, inputs_, steps,
                       roundsToTf32()};
  DTC_TRY(check_, checkRunResults(reference, run, results_.values(), rounding, executable_.get()));
  passed = check_.pass;
  if (passed || !propagated_ || steps > 1 || job_) return Ok{};
  // Runs again without buffer reuse to find the first value that differs.
  env_.status.at("looking for the first difference");
  DTC_TRY(auto backend, makeBackend());
  if (Status s = placeWithoutReuse(); !s) return s;
  DTC_TRY(auto again, session_.load(*backend, machine_.pool));
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (Status s = again->setArgument(i, inputs_[i]); !s) return s;
  if (Status s = again->run(); !s) return s;
  check_.firstDifference = findFirstDifference(*propagated_, propagated_->findFunction(name), inputs_,
                                               scheduled_, func(), *again, rounding, roundsToTf32());
  return Ok{};
}

// Empty where results are written to files, or only reports are asked for.
std::vector<const RunResult*> Execution::printed() const {
  const bool reports = !o_.outputs.empty() || !o_.texts.empty() || (o_.json && (o_.stats || o_.check));
  if (o_.prints.empty() && reports) return {};
  return results_.chosen(o_.prints);
}

Status Execution::report() {
  if (!o_.trace.empty()) {
    std::string text = traceJson(
        *executable_, scheduled_,
        {scheduled_.source.name, o_.backend, func(), stats_.rate, phases_, stepTextsOf(scheduled_, func())});
    if (o_.trace == "-")
      env_.out(text);
    else if (Status s = writeFileAtomically(o_.trace, text); !s)
      return s;
  }
  if (o_.timing) {
    Timing timing;
    for (const Backend::Phase& p : phases_) timing.add(p.name, p.milliseconds);
    env_.err(timing.table());
  }
  const RunReport report{.module = scheduled_,
                         .entry = func(),
                         .backend = o_.backend,
                         .results = results_,
                         .printed = printed(),
                         .texts = o_.texts,
                         .stats = stats_,
                         .timed = o_.stats ? executable_.get() : nullptr,
                         .nans = nans_ ? &*nans_ : nullptr,
                         .check = o_.check ? &check_ : nullptr};
  if (o_.json) {
    json = report.json();
    return Ok{};
  }
  quiet() ? env_.err(report.text()) : env_.out(report.text());
  env_.err(report.times());
  return Ok{};
}

// By the file system of process 0.
Status Execution::checkWritten() {
  if (!job_) return checkWrittenFolders(o_);
  Status s = job_->ofFirst(speaks() ? checkWrittenFolders(o_) : Ok{});
  if (!s) job_->failed(env_); // another error may be that of a process
  return s;
}

int Execution::run() {
  Status (Execution::* const stages[])() = {
      &Execution::loopCarries,  &Execution::openTraining, &Execution::bind,   &Execution::compile,
      &Execution::checkIndices, &Execution::execute,      &Execution::collect};
  if (Status s = results_.validate(o_.prints, o_.texts, o_.outputs); !s) return env_.fail(s.error());
  if (Status s = checkWritten(); !s) return env_.fail(s.error());
  for (auto stage : stages)
    if (Status s = (this->*stage)(); !s) {
      if (job_) job_->failed(env_);
      if (s.error().kind == Error::Bug) bugAt(__FILE__, __LINE__, s.error().message.c_str());
      return diagnosed_ && s.error().message.empty() ? kExitInput : env_.fail(s.error());
    } else if (complete_) {
      return kExitDone;
    }
  if (!speaks()) return kExitDone;
  if (o_.check)
    if (Status s = checkRun(); !s) return env_.fail(s.error());
  reportNans();
  if (Status s = report(); !s) return env_.fail(s.error());
  return passed ? kExitDone : kExitInput;
}

} // namespace

static Result<int> executeEntries(Environment& env, const RunOptions& given, Job* job) {
  DTC_TRY(RunOptions o, withBoundSizes(env, given));
  int code = kExitDone;
  LapClock clock;
  DTC_TRY(auto m, loadProgram(env, o.program));
  const double parseMs = clock.lap();
  if (Status s = usePackage(env, o); !s) return s.error();
  std::vector<FuncId> entries;
  if (o.check) {
    DTC_TRY(entries, entriesOf(m, o.program.entry));
  } else {
    DTC_TRY(auto one, entryOf(m, o.program.entry));
    entries = {one};
  }
  noteUnusedFlags(env, o);
  const bool packaged = env.package && o.backend != "cuda-emu"; // which compiles the text
  Machine machine(o.threads == 0 && job ? job->threads() : o.threads,
                  packaged ? packagedKernels(*env.package) : JitConfig());
  DTC_TRY(auto target, targetOfBackend(o.backend));
  std::string json;
  for (FuncId f : entries) {
    DTC_TRY(auto one, withSizes(env, o, m, f));
    const std::string_view name = m.strings[m[f].name];
    const FuncId function = one.findFunction(name);
    std::unique_ptr<Evaluation> evaluation;
    if (!o.train.eval.empty()) {
      DTC_TRY(auto data, evalDataOf(o));
      DTC_TRY(evaluation, Evaluation::open(one, function, std::move(data), o.lowering.pipeline(target)));
    }
    removeUnreachable(one, function);
    if (Status s = requireSizes(one, function); !s) return s.error();
    if (entries.size() > 1) env.err("// @" + std::string(name) + "\n");
    noteIdleFlags(env, o.lowering, levelOf(one, function));
    if (job) job->next();
    Execution x(env, o, std::move(one), function, machine, target, std::move(evaluation), job);
    x.took("parse", parseMs);
    const int own = x.run();
    json += x.json + (x.json.empty() ? "" : "\n");
    code = std::max(code, own);
    if (!job || f == entries.back()) continue;
    DTC_TRY(code, job->codeOfAll(env, code)); // process 0 alone compares with the reference
    if (code != kExitDone) break;
  }
  env.out(json);
  return code;
}

Result<int> executeProgram(Environment& env, const RunOptions& o) {
  if (Status s = checkFlags(o); !s) return s.error();
  warnIfAlone(env, o);
  if (!o.inProcesses()) return executeEntries(env, o, nullptr);
  DTC_TRY(const auto job, Job::open(env, o.commTimeout, o.comm, writtenFolders(o)));
  const bool typed = o.program.file == "-" && job->processes().size() > 1;
  const Result<int> code = typed ? usageError("with --comm " + o.comm +
                                              ", only one process can read standard input: give the "
                                              "program as a file")
                                 : executeEntries(env, o, job.get());
  return job->finish(env, code ? *code : env.fail(code.error()));
}

} // namespace dtc
