#include "Execute.h"
#include "Sizes.h"
#include "Timing.h"

#include "dtc/Check/NanSearch.h"
#include "dtc/Check/RunCheck.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/Import/Import.h"
#include "dtc/Ops/Ops.h"
#include "dtc/Passes/Inline.h"
#include "dtc/Passes/PlanMemory.h"
#include "dtc/Passes/StandardPipeline.h"
#include "dtc/Runtime/CpuBackend.h"
#include "dtc/Runtime/CudaBackend.h"
#include "dtc/Runtime/CudaEmuBackend.h"
#include "dtc/Runtime/Inputs.h"
#include "dtc/Runtime/TensorArchive.h"
#include "dtc/Runtime/TensorFiles.h"
#include "dtc/Runtime/TensorText.h"
#include "dtc/Runtime/Trace.h"
#include "dtc/Support/Json.h"
#include "dtc/Support/Suggest.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace dtc {
namespace {

using Clock = std::chrono::steady_clock;
double msSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

// One entry function, from its text to its results.
class Execution {
public:
  Execution(Environment& env, const RunOptions& o, Module m, FuncId f, ThreadPool& pool, const CpuJit& jit)
      : env_(env), o_(o), pool_(pool), jit_(jit), scheduled_(std::move(m)), func_(f) {}

  int run();
  void took(const char* phase, double ms) { phases_.push_back({phase, ms}); }

  std::string json;   // of this entry, where asked for
  bool passed = true; // --check and --nan

private:
  Status names();
  [[nodiscard]] std::optional<size_t> resultNamed(std::string_view name) const;
  Status loopCarries();
  Status bind();
  Status passes(const std::vector<PassStep>& steps);
  Status compile();
  Status makeBackend(std::unique_ptr<Backend>& out);
  Status execute();
  Status setArguments(bool first);
  Status runOnce(bool counts, bool last);
  Status collect();
  [[nodiscard]] Status write(const std::string& output) const;
  Status checkIndices();
  Status checkRun();
  void reportNans();
  [[nodiscard]] bool wantsReference() const { return o_.check || o_.nan; }
  Status report();
  std::string resultJson(size_t i) const;
  [[nodiscard]] bool printed(size_t i) const;
  // On CPUs and the emulator f32 products are of f32, whatever is allowed.
  [[nodiscard]] bool cutsToTf32() const { return o_.matmulPrecision == "tf32" && o_.backend == "cuda"; }
  [[nodiscard]] bool quiet() const {
    return o_.json || o_.trace == "-";
  } // standard output belongs to one document

  static void printHook(void* self, const std::string& text);
  static void stepHook(void* self, uint32_t step, int64_t place);
  void logStep(const StepInfo& s, int64_t place);

  Environment& env_;
  const RunOptions& o_;
  ThreadPool& pool_;
  const CpuJit& jit_;
  Module scheduled_;
  PipelineState passState_;
  FuncId func_;
  std::optional<Module> reference_, propagated_;
  bool diagnosed_ = false;            // what is wrong has been printed
  std::vector<TensorSource> sources_; // of the arguments
  std::vector<Tensor> inputs_;        // the same in memory, where the reference needs them
  std::vector<Tensor> results_;
  std::vector<std::string> resultNames_, userResultNames_;
  std::unique_ptr<Nvrtc> nvrtc_; // outlives the backend
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Executable> executable_;
  RunStats stats_;
  std::vector<Backend::Phase> phases_;
  CheckReport check_;
  std::optional<NanSearch> nans_;
  std::vector<NonFinite> nonFinite_; // by result
};

Status Execution::names() {
  const Function& f = scheduled_[func_];
  const StrId nameAttr = scheduled_.strings.find("name");
  for (size_t i = 0; i < f.results.size(); ++i) {
    resultNames_.push_back(f.results[i].label ? std::string(scheduled_.strings[f.results[i].label])
                                              : std::to_string(i));
    const AttrId user = nameAttr ? findAttr(f.results[i].attrs, nameAttr) : AttrId();
    userResultNames_.emplace_back(user ? scheduled_.strings[scheduled_.attrs[user].text] : "");
  }
  auto known = [&](std::string_view flag, std::string_view name) -> Status {
    if (name.starts_with('%')) name.remove_prefix(1);
    if (resultNamed(name)) return Ok{};
    const std::vector<std::string_view> names(resultNames_.begin(), resultNames_.end());
    return usageError(std::string(flag) + ": unknown result '" + std::string(name) + "'" +
                      suggestion(Vocabulary::Plain, name, names));
  };
  for (const std::string& name : o_.prints)
    if (Status s = known("--print", name); !s) return s;
  for (const std::string& text : o_.outputs) {
    size_t equals = text.find('=');
    if (text == "-" || (equals != std::string::npos && text.substr(equals + 1) == "-"))
      return usageError("--output '" + text +
                        "': tensor files are binary and are not written to standard output; "
                        "name a .npy, .npz or .safetensors file, or print numbers with --print or --json");
    if (equals == std::string::npos && isTensorArchive(text)) continue; // all results
    if (equals == std::string::npos || equals == 0 || (!text.ends_with(".npy") && !isTensorArchive(text)))
      return usageError("--output '" + text + "' is not NAME=FILE.npy, FILE.npz or FILE.safetensors");
    if (Status s = known("--output", std::string_view(text).substr(0, equals)); !s) return s;
  }
  return Ok{};
}

// By its name in the program, or by the user's own spelling of it ({name = "result['loss']"}).
std::optional<size_t> Execution::resultNamed(std::string_view name) const {
  if (name.starts_with('%')) name.remove_prefix(1);
  for (const std::vector<std::string>* names : {&resultNames_, &userResultNames_})
    if (auto found = std::find(names->begin(), names->end(), name); found != names->end() && !name.empty())
      return static_cast<size_t>(found - names->begin());
  return std::nullopt;
}

// What one step gives the next; without it --loop would run one step again and again.
Status Execution::loopCarries() {
  if (o_.loop < 2) return Ok{};
  std::vector<std::string> carried;
  for (size_t r = 0; r < resultNames_.size(); ++r)
    if (auto a = carriedArgument(scheduled_, func_, r))
      carried.push_back((userResultNames_[r].empty() ? resultNames_[r] : userResultNames_[r]) + " into %" +
                        std::string(scheduled_.strings[scheduled_[scheduled_[func_].args[*a].value].name]));
  const std::string n = std::to_string(o_.loop);
  if (carried.empty())
    return usageError("--loop " + n + " would run the same step " + n + " times: no result of @" +
                      std::string(scheduled_.strings[scheduled_[func_].name]) +
                      " carries into an argument\n  in .dt, write {carry = true} on each result that is the "
                      "next step's argument of the same name\n  in JAX, donate the state: jax.jit(step, "
                      "donate_argnums=...)\n  --repeat " +
                      n + " times the same step");
  if (!looksLikeMlir(scheduled_.source.text)) return Ok{};
  std::string list; // the import has paired them: let the user see how
  for (size_t i = 0; i < std::min<size_t>(carried.size(), 4); ++i) list += (i ? ", " : "") + carried[i];
  if (carried.size() > 4) list += " and " + std::to_string(carried.size() - 4) + " more";
  env_.err("note: --loop carries " + list + ", as the donated arguments say\n");
  return Ok{};
}

Status Execution::bind() {
  std::vector<InputBinding> bindings;
  for (const std::string& text : o_.inputs) {
    auto b = parseInputBinding(text);
    if (!b) return b.error();
    bindings.push_back(std::move(*b));
  }
  std::vector<InputArgument> arguments;
  StrId nameAttr = scheduled_.strings.find("name");
  for (const FuncArg& a : scheduled_[func_].args) {
    const Type& type = scheduled_.types[a.globalType ? a.globalType : scheduled_[a.value].type];
    std::string name(scheduled_.strings[scheduled_[a.value].name]);
    AttrId user = nameAttr ? findAttr(a.attrs, nameAttr) : AttrId();
    arguments.push_back({name, user ? std::string(scheduled_.strings[scheduled_.attrs[user].text]) : "",
                         type.dtype, type.staticShape()});
  }
  auto values = bindInputs(bindings, arguments);
  if (!values) return values.error();
  sources_ = std::move(*values);
  for (TensorSource& source : sources_) {
    if (!wantsReference()) break;
    auto t = source.whole();
    if (!t) return t.error();
    inputs_.push_back(std::move(*t));
    if (!source.inFile()) source = {}; // once is enough
  }
  return Ok{};
}

Status Execution::passes(const std::vector<PassStep>& steps) {
  Diagnostics diags;
  PipelineHooks hooks;
  hooks.after = [&](const PassStep& step, const Module&, double ms) {
    phases_.push_back({step.pass->name, ms});
  };
  if (o_.stats) hooks.remarks = &stats_.remarks;
  hooks.progress = env_.status.progress();
  hooks.state = &passState_;
  Status done = runPipeline(scheduled_, steps, diags, hooks);
  diagnosed_ = env_.report(diags, scheduled_.source) != 0;
  if (!done) return done;
  return diagnosed_ ? Status(inputError("")) : Status(Ok{});
}

static bool anyOp(const Module& m, auto&& holds) {
  bool found = false;
  for (FuncId f : m.order) forEachOp(m, m[f].body, [&](OpId o) { found = found || holds(o); });
  return found;
}

static bool hasComplexNumbers(const Module& m) {
  return anyOp(m, [&](OpId o) {
    for (uint32_t r = 0; r < m[o].numResults; ++r)
      if (isComplex(m.typeOf(m.result(o, r)).dtype)) return true;
    return std::ranges::any_of(m.operands(o), [&](ValueId v) { return isComplex(m.typeOf(v).dtype); });
  });
}

static bool takesGradients(const Module& m) {
  return anyOp(m, [&](OpId o) { return m.record(o).isCall && m.record(o).name != std::string_view("call"); });
}

Status Execution::compile() {
  StandardPipeline pipeline = standardPipeline(
      levelOf(scheduled_, func_), {o_.optLevel, o_.policy, o_.reduceDType, o_.reductionOrder == "fixed",
                                   o_.backend != "cpu", o_.strictNonFinite});
  if (o_.reductionOrder == "fixed" && levelOf(scheduled_, func_) != Level::Global)
    return inputError("--reduction-order fixed: this text is propagated already; give the global program");
  // Complex numbers are checked against what the evaluator knows of them itself, where no gradient is asked for.
  const bool native = wantsReference() && hasComplexNumbers(scheduled_) && !takesGradients(scheduled_);
  if (native) reference_ = scheduled_;
  if (Status s = passes(pipeline.reference); !s) return s;
  if (wantsReference() && !native) reference_ = scheduled_;
  if (Status s = passes(pipeline.propagate); !s) return s;
  if (o_.check && !scheduled_[func_].spmd) propagated_ = scheduled_;
  if (Status s = passes(pipeline.lower); !s) return s;
  auto entry = entriesOf(scheduled_, "@" + std::string(scheduled_.strings[scheduled_[func_].name]));
  if (!entry) return entry.error();
  func_ = entry->front();
  if (!scheduled_[func_].spmd) return Error{Error::Bug, "the pipeline left a function that is not local"};
  return Ok{};
}

Status Execution::makeBackend(std::unique_ptr<Backend>& out) {
  int64_t places = meshValueOf(scheduled_, func_).numDevices();
  if (o_.backend == "cuda-emu") {
    out = makeCudaEmuBackend(jit_, !o_.noEmuChecks);
    return Ok{};
  }
  if (o_.backend == "cuda") {
    if (!nvrtc_) nvrtc_ = std::make_unique<Nvrtc>();
    auto cuda = makeCudaBackend(*nvrtc_, {.places = places,
                                          .comm = o_.comm,
                                          .timeoutSeconds = o_.commTimeout,
                                          .dump = o_.commDump,
                                          .deterministic = o_.deterministic,
                                          .tf32 = o_.matmulPrecision == "tf32",
                                          .cudnn = !o_.noCudnn,
                                          .relu = o_.libraryRelu,
                                          .measureSchedules = o_.optLevel >= 3});
    if (!cuda) return cuda.error();
    out = std::move(*cuda);
    if (places > 1) env_.err("note: " + out->describe() + "\n");
    return Ok{};
  }
  out = makeCpuBackend(jit_, pool_, places, {}, o_.optLevel);
  return Ok{};
}

void Execution::printHook(void* self, const std::string& text) {
  auto& x = *static_cast<Execution*>(self);
  x.quiet() ? x.env_.err(text) : x.env_.out(text);
}

void Execution::stepHook(void* self, uint32_t step, int64_t place) {
  auto& x = *static_cast<Execution*>(self);
  if (x.o_.logOps) x.logStep(x.executable_->steps()[step], place);
  if (x.nans_) x.nans_->afterStep(step, place);
}

// "device d=0: %sum = all_reduce(d), sends 6 B -> 6"
void Execution::logStep(const StepInfo& s, int64_t place) {
  std::string line = "device " + deviceText(executable_->mesh(), scheduled_.strings, place) + ": ";
  size_t equals = s.op.rfind(" = ");
  line += (equals == std::string::npos ? "" : s.op.substr(0, equals + 3)) + s.name;
  if (s.what == "kernel" || s.what == "library") line += " (" + s.what + ")";
  if (s.bytes) line += (s.what == "collective" ? ", sends " : ", ") + bytesText(s.bytes);
  bool first = true;
  for (ValueId v : s.results)
    if (auto t = executable_->value(v, place); t) {
      line += first ? " -> " : ", ";
      first = false;
      line += t->numElements() <= 16 ? tensorText(*t) : std::to_string(t->numElements()) + " elements";
    }
  for (char& c : line)
    if (c == '\n') c = ' ';
  env_.err(line + "\n");
}

// Steps that are timed one by one are no graph: with graphs only the last run is timed so, the others as a whole.
Status Execution::runOnce(bool counts, bool last) {
  RunHooks hooks;
  hooks.time = counts && (o_.stats || !o_.trace.empty()) && (last || !executable_->hasGraphs());
  hooks.print = &printHook;
  hooks.printSelf = this;
  if (o_.logOps || nans_) hooks.afterStep = &stepHook;
  hooks.self = this;
  auto begin = Clock::now();
  if (Status s = executable_->run(hooks); !s) return s;
  if (!counts) return Ok{};
  if (hooks.time) stats_.add(*executable_);
  if (hooks.time && executable_->hasGraphs() && !stats_.runMs.empty()) return Ok{};
  stats_.runMs.push_back(msSince(begin));
  stats_.host.push_back(executable_->hostCost());
  return Ok{};
}

// Before the first run all; before a later one those whose buffers the run before it may have used. In a loop carried
// results take the place of their arguments.
Status Execution::setArguments(bool first) {
  if (!first && o_.loop)
    if (Status s = executable_->carryOver(); !s) return s;
  for (size_t i = 0; i < sources_.size(); ++i) {
    bool carried = false;
    for (size_t r = 0; r < resultNames_.size(); ++r)
      carried = carried || carriedArgument(scheduled_, func_, r) == i;
    if (!first && (executable_->keepsArgument(i) || (carried && o_.loop))) continue;
    const bool held = wantsReference() && !sources_[i].inFile();
    Status s = held ? executable_->setArgument(i, inputs_[i]) : executable_->setArgument(i, sources_[i]);
    if (!s) return s;
  }
  return Ok{};
}

Status Execution::execute() {
  if (Status s = makeBackend(backend_); !s) return s;
  env_.status.at("compiling kernels");
  auto loaded = Executable::load(scheduled_, func_, *backend_, pool_,
                                 {.reuseMemory = !o_.nan, // operands are looked at after their last use
                                  .fixedSchedule = o_.optLevel >= 2 && !o_.nan,
                                  .graphs = !o_.noGraphs,
                                  .hostPredicates = o_.hostPredicates,
                                  .overlap = !o_.noOverlap});
  if (!loaded) return loaded.error();
  executable_ = std::move(*loaded);
  for (const Backend::Phase& p : executable_->phases()) phases_.push_back(p);
  env_.status.at("reading and placing inputs");
  auto begin = Clock::now();
  if (Status s = setArguments(true); !s) return s;
  phases_.push_back({"inputs", msSince(begin)});
  if (o_.logOps)
    for (const StepInfo& s : executable_->loadTimeSteps())
      for (int64_t p = 0; p < executable_->mesh().numDevices(); ++p) logStep(s, p);
  if (o_.nan) nans_.emplace(scheduled_, func_, *executable_);
  const int runs = o_.loop ? o_.loop : o_.warmup + o_.repeat;
  for (int i = 0; i < runs; ++i) {
    env_.status.at("running", static_cast<size_t>(i), static_cast<size_t>(runs));
    if (i > 0)
      if (Status s = setArguments(false); !s) return s;
    if (Status s = runOnce(i >= o_.warmup, i + 1 == runs); !s) return s;
  }
  if (o_.stats && backend_->name() == "cpu") stats_.rate = measureHost(pool_);
  stats_.phases = phases_;
  stats_.about = backend_->describe();
  for (const std::string& note : backend_->notes()) stats_.about += (stats_.about.empty() ? "" : "\n") + note;
  return Ok{};
}

Status Execution::collect() {
  for (size_t i = 0; i < resultNames_.size(); ++i) {
    auto t = executable_->result(i);
    if (!t) return t.error();
    results_.push_back(std::move(*t));
  }
  for (const std::string& text : o_.outputs)
    if (Status s = write(text); !s) return s;
  return Ok{};
}

// One --output: NAME=FILE, or an archive of all results.
Status Execution::write(const std::string& text) const {
  size_t equals = text.find('=');
  if (equals == std::string::npos) {
    NamedTensors all;
    for (size_t i = 0; i < results_.size(); ++i) all.emplace_back(resultNames_[i], &results_[i]);
    return writeTensorArchive(text, all);
  }
  const size_t i = *resultNamed(std::string_view(text).substr(0, equals));
  const std::string path = text.substr(equals + 1);
  return isTensorArchive(path) ? writeTensorArchive(path, {{resultNames_[i], &results_[i]}})
                               : writeNpy(path, results_[i]);
}

// Does an op look elements up by numbers that are data? Kernels read 0 where there is none; the reference says so.
static bool looksUp(const Module& m) {
  const auto isIndex = [&](ValueId v) {
    return m[v].kind != ValueKind::Literal && isInteger(m.typeOf(v).dtype);
  };
  return anyOp(m, [&](OpId o) { return m.record(o).eval && std::ranges::any_of(m.operands(o), isIndex); });
}

Status Execution::checkIndices() {
  if (!o_.nan || o_.check || !looksUp(*reference_)) return Ok{};
  env_.status.at("looking for indices out of range");
  FuncId f = reference_->findFunction(scheduled_.strings[scheduled_[func_].name]);
  auto reference = runReference(*reference_, f, inputs_, std::max(1, o_.loop));
  return reference ? Status(Ok{}) : Status(reference.error());
}

// NaNs are numbers like others to a program, but rarely to a person.
void Execution::reportNans() {
  for (size_t i = 0; i < results_.size(); ++i) {
    const NonFinite& n = nonFinite_.emplace_back(countNonFinite(results_[i]));
    if (n.nan == 0) continue;
    env_.err("note: " + resultNames_[i] + ": " + std::to_string(n.nan) + " of " +
             std::to_string(results_[i].numElements()) + " elements are NaN" +
             (n.infinite ? ", " + std::to_string(n.infinite) + " are infinite" : "") +
             (o_.nan ? "" : " (--nan finds the op that makes the first)") + "\n");
  }
  if (!nans_) return;
  Diagnostics diags;
  if (nans_->report(diags)) passed = false;
  env_.report(diags, scheduled_.source);
  const bool any = std::ranges::any_of(nonFinite_, [](const NonFinite& n) { return n.nan > 0; });
  if (passed && diags.all().empty())
    env_.err(any ? "note: no op makes the NaN: it is written in the program\n" : "note: no NaN was made\n");
}

Status Execution::checkRun() {
  FuncId f = reference_->findFunction(scheduled_.strings[scheduled_[func_].name]);
  const int steps = std::max(1, o_.loop);
  env_.status.at("evaluating the reference");
  auto reference = runReference(*reference_, f, inputs_, steps, cutsToTf32());
  if (!reference) return reference.error();
  const WireRounding wire(scheduled_, func_, steps);
  check_ = checkResults(*reference, results_, resultNames_, wire.ofResults());
  if (!check_.pass && propagated_) {
    const FuncId global = propagated_->findFunction(scheduled_.strings[scheduled_[func_].name]);
    if (Status s = addUnpromised(*reference, *propagated_, global, inputs_, steps, cutsToTf32()); !s)
      return s;
    check_ = checkResults(*reference, results_, resultNames_, wire.ofResults());
  }
  // Sizes of rounded values are measured only where they decide; what the evaluator cannot run keeps the bound at the result's size.
  if (std::ranges::any_of(check_.results, &ResultCheck::byWire) &&
      addWireErrors(*reference, scheduled_, func_, inputs_, steps, wire))
    check_ = checkResults(*reference, results_, resultNames_, wire.ofResults());
  passed = check_.pass;
  if (passed || !propagated_ || steps > 1) return Ok{};
  // Once more, every value in a place of its own, to see where it goes wrong.
  env_.status.at("looking for where it differs first");
  std::unique_ptr<Backend> backend;
  if (Status s = makeBackend(backend); !s) return s;
  auto again = Executable::load(scheduled_, func_, *backend, pool_, {.reuseMemory = false});
  if (!again) return again.error();
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (Status s = (*again)->setArgument(i, inputs_[i]); !s) return s;
  if (Status s = (*again)->run(); !s) return s;
  FuncId global = propagated_->findFunction(scheduled_.strings[scheduled_[func_].name]);
  check_.firstDifference =
      findFirstDifference(*propagated_, global, inputs_, scheduled_, func_, **again, wire, cutsToTf32());
  return Ok{};
}

bool Execution::printed(size_t i) const {
  if (o_.prints.empty()) return o_.outputs.empty() && (!o_.json || !(o_.stats || o_.check));
  return std::any_of(o_.prints.begin(), o_.prints.end(),
                     [&](std::string_view name) { return resultNamed(name) == i; });
}

// A complex number is the list of its two parts.
static std::string elementJson(const Tensor& t, int64_t k) {
  if (isComplex(t.dtype())) {
    const Tensor parts = t.parts();
    return "[" + elementJson(parts, 2 * k) + ", " + elementJson(parts, 2 * k + 1) + "]";
  }
  return isFloat(t.dtype()) && !std::isfinite(t.getFloat(k)) ? jsonNumber(t.getFloat(k)) : elementText(t, k);
}

std::string Execution::resultJson(size_t i) const {
  const Tensor& t = results_[i];
  std::string shape, values;
  for (int64_t n : t.shape()) shape += (shape.empty() ? "" : ", ") + std::to_string(n);
  for (int64_t k = 0; k < t.numElements(); ++k) values += (k ? ", " : "") + elementJson(t, k);
  return jsonString(resultNames_[i]) + ": {\"dtype\": " + jsonString(dtypeName(t.dtype())) +
         ", \"shape\": [" + shape + "], \"values\": [" + values + "]}";
}

Status Execution::report() {
  if (!o_.trace.empty()) {
    std::string text = traceJson(*executable_, scheduled_, {scheduled_.source.name, o_.backend, phases_});
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
  if (o_.json) {
    json = "{\"program\": " + jsonString(scheduled_.source.name) +
           ", \"entry\": " + jsonString(scheduled_.strings[scheduled_[func_].name]) +
           ", \"backend\": " + jsonString(o_.backend);
    std::string list;
    for (size_t i = 0; i < results_.size(); ++i)
      if (printed(i)) list += (list.empty() ? "\n " : ",\n ") + resultJson(i);
    if (!list.empty()) json += ",\n\"results\": {" + list + "}";
    std::string nonFinite;
    for (size_t i = 0; i < results_.size(); ++i)
      if (nonFinite_[i].nan + nonFinite_[i].infinite > 0)
        nonFinite += (nonFinite.empty() ? "" : ", ") + jsonString(resultNames_[i]) +
                     ": {\"nan\": " + std::to_string(nonFinite_[i].nan) +
                     ", \"infinite\": " + std::to_string(nonFinite_[i].infinite) + "}";
    if (!nonFinite.empty()) json += ",\n\"nonfinite\": {" + nonFinite + "}";
    if (nans_) json += ",\n\"nan\": " + nans_->json();
    if (o_.check) json += ",\n\"check\": " + check_.json();
    if (o_.stats) json += ",\n\"stats\": " + stats_.json(*executable_, scheduled_);
    json += "}";
    return Ok{};
  }
  std::string text;
  for (size_t i = 0; i < results_.size(); ++i) {
    if (!printed(i)) continue;
    std::string value = tensorText(results_[i]);
    text += resultNames_[i] + (value.find('\n') == std::string::npos ? " = " : " =\n") + value + "\n";
  }
  if (o_.stats) text += stats_.text(*executable_, scheduled_);
  if (o_.check) text += check_.text();
  quiet() ? env_.err(text) : env_.out(text);
  if (stats_.runMs.size() > 1 && !o_.stats) {
    char line[96];
    std::vector<double> sorted = stats_.runMs;
    std::sort(sorted.begin(), sorted.end());
    std::snprintf(line, sizeof line, "%zu runs: median %.3f ms, least %.3f ms\n", sorted.size(),
                  sorted[sorted.size() / 2], sorted[0]);
    env_.err(line);
  }
  return Ok{};
}

int Execution::run() {
  Status (Execution::* const stages[])() = {
      &Execution::names,        &Execution::loopCarries, &Execution::bind,   &Execution::compile,
      &Execution::checkIndices, &Execution::execute,     &Execution::collect};
  for (auto stage : stages)
    if (Status s = (this->*stage)(); !s) {
      if (s.error().kind == Error::Bug) bugAt(__FILE__, __LINE__, s.error().message.c_str());
      return diagnosed_ && s.error().message.empty() ? kExitInput : env_.fail(s.error());
    }
  if (o_.check)
    if (Status s = checkRun(); !s) return env_.fail(s.error());
  reportNans();
  if (Status s = report(); !s) return env_.fail(s.error());
  return passed ? kExitDone : kExitInput;
}

// The module with the sizes that the inputs give read as numbers. Nothing after having said what is wrong.
std::optional<Module> withSizes(Environment& env, const RunOptions& o, const Module& m, FuncId f, int& code) {
  auto sizes = sizesFromInputs(m, f, o.inputs);
  auto options = parseOptionsOf(o.program);
  if (!sizes || !options) {
    code = env.fail(sizes ? options.error() : sizes.error());
    return std::nullopt;
  }
  if (sizes->empty()) return m;
  options->sizes.insert(options->sizes.end(), sizes->begin(), sizes->end());
  options->entry = m.strings[m[f].name];
  return loadText(env, m.source, *options, code);
}

} // namespace

int executeProgram(Environment& env, const RunOptions& o) {
  if (Status s = checkFlags(o); !s) return env.fail(s.error());
  int code = kExitDone;
  LapClock clock;
  auto m = loadProgram(env, o.program, code);
  if (!m) return code;
  const double parseMs = clock.lap();
  std::vector<FuncId> entries;
  if (o.check) {
    auto all = entriesOf(*m, o.program.entry);
    if (!all) return env.fail(all.error());
    entries = std::move(*all);
  } else {
    auto one = entryOf(*m, o.program.entry);
    if (!one) return env.fail(one.error());
    entries = {*one};
  }
  noteUnusedFlags(env, o);
  ThreadPool pool(o.threads);
  CpuJit jit;
  std::string json;
  for (FuncId f : entries) {
    auto one = withSizes(env, o, *m, f, code);
    if (!one) return code;
    const std::string_view name = m->strings[(*m)[f].name];
    const FuncId function = one->findFunction(name);
    keepReached(*one, function);
    if (Status s = requireSizes(*one, function); !s) return env.fail(s.error());
    if (entries.size() > 1) env.err("// @" + std::string(name) + "\n");
    Execution x(env, o, std::move(*one), function, pool, jit);
    x.took("parse", parseMs);
    code = std::max(code, x.run());
    json += x.json + (x.json.empty() ? "" : "\n");
  }
  env.out(json);
  return code;
}

} // namespace dtc
