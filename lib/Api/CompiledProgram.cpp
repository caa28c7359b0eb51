#include "dtc/Api/CompiledProgram.h"
#include "dtc/Api/PackageFile.h"

#include "dtc/Files/TensorArchive.h"
#include "dtc/Files/TensorFiles.h"
#include "dtc/IR/verify/Verify.h"
#include "dtc/Ops/record/Ops.h"
#include "dtc/Report/FileFormat.h"
#include "dtc/Runtime/backend/cpu/CpuBackend.h"
#include "dtc/Runtime/comm/SameProgram.h"
#include "dtc/Session/ArgumentSizes.h"
#include "dtc/StableHlo/vhlo/Vhlo.h"
#include "dtc/Version.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace dtc {
namespace {

double msSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

void printToStdout(void*, const std::string& text) { (void)std::fwrite(text.data(), 1, text.size(), stdout); }

// All processes have the same program, and the mesh is shared equally by them.
Status joinProgram(const CompileOptions& o, Session& session, ProcessGroup& group) {
  if (o.backend.name != "cpu" && o.backend.name != "cuda")
    return usageError("several processes need the backend cpu or cuda, not " + o.backend.name);
  if (o.backend.cuda.comm == "local")
    return usageError("comm=local is for the devices of one process: several processes use nccl");
  if (Status s = checkShares(session.numDevices(), group.processes().size()); !s) return s;
  const Module& m = session.module();
  return group.agreeOnProgram("dtc " DTC_VERSION ", opt-level " + std::to_string(o.lowering.optLevel) +
                              ", reduction-order " + o.lowering.reductionOrder + "\n" +
                              numberedLines(m.source.name, m.source.text) + printModule(m));
}

// The same for a package, with the list of its weights.
Status joinPackage(const Package& package, const SourceText& program, int64_t devices, ProcessGroup& group) {
  if (package.needs.target != "cpu")
    return usageError("packages for GPUs cannot run in several processes yet: compile the program");
  if (Status s = checkShares(devices, group.processes().size()); !s) return s;
  return group.agreeOnProgram("dtc " DTC_VERSION ", a package\n" + numberedLines(program.name, program.text) +
                              numberedLines("manifest.json", package.manifest));
}

// Of several processes: a program may be used as long as they are together.
Status usableTogether(ProcessGroup* group) {
  if (!group) return Ok{};
  const auto turn = group->turn();
  return group->usable();
}

bool mayHaveShape(const Type& type, std::span<const int64_t> shape) {
  return std::equal(type.dims.begin(), type.dims.end(), shape.begin(), shape.end(),
                    [](Dim d, int64_t size) { return !d.isStatic() || d.value() == size; });
}

} // namespace

CompiledProgram::~CompiledProgram() = default;

Result<std::vector<std::pair<std::string, int64_t>>> sizesOf(const Module& m, FuncId f,
                                                             const CompileOptions& o) {
  ArgumentSizes sizes(m, f);
  for (size_t i = 0; i < o.argumentShapes.size(); ++i) {
    if (!o.argumentShapes[i]) continue;
    if (i >= m[f].args.size())
      return usageError("a shape is given for argument " + std::to_string(i) + ", but @" +
                        std::string(m.strings[m[f].name]) + " has " + std::to_string(m[f].args.size()) +
                        " of them");
    const std::vector<int64_t>& shape = *o.argumentShapes[i];
    const FuncArg& a = m[f].args[i];
    if (const Type& type = globalTypeOf(m, a); !mayHaveShape(type, shape))
      return inputError("argument " + printValueName(m, a.value) + ": expected " +
                        printType(m, a.globalType ? a.globalType : m[a.value].type) + ", got " +
                        std::string(dtypeName(type.dtype)) + "[" + joined(shape) + "]");
    if (Status s = sizes.add(i, shape, "the given shape"); !s) return s.error();
  }
  return sizes.sizes();
}

Status readEntry(SourceText text, const CompileOptions& o, ReadOptions& parse, Module& m, FuncId& entry,
                 SourceText& source, Diagnostics& diags) {
  DTC_TRY(parse, parseOptionsOf(o.program));
  if (Status s = checkNoBindings(o.program); !s) return s;
  if (text.text.size() > kMaxProgramBytes)
    return inputError(text.name + " has more than " + std::to_string(kMaxProgramBytes) + " bytes");
  if (looksLikeVhlo(text.text)) {
    DTC_TRY(auto hlo, vhloText(text.name, text.text));
    text = {text.name + " (as text)", std::move(hlo)};
  }
  if (const std::string format = foreignFormat(text.text); !format.empty())
    return inputError(text.name + " is " + format);
  Status loaded = loadText(std::move(text), parse, m, diags);
  source = m.source;
  if (!loaded) return loaded;
  DTC_TRY(entry, entryOf(m, o.program.entry));
  return Ok{};
}

Status CompiledProgram::read(SourceText text, const CompileOptions& o, Module& m, FuncId& entry,
                             Diagnostics& diags) {
  ReadOptions parse;
  if (Status s = readEntry(std::move(text), o, parse, m, entry, source_, diags); !s) return s;
  DTC_TRY(auto sizes, sizesOf(m, entry, o));
  if (!sizes.empty()) {
    parse.sizes.insert(parse.sizes.end(), sizes.begin(), sizes.end());
    parse.entry = m.strings[m[entry].name];
    SourceText again = m.source;
    m = Module(standardOps());
    Status bound = loadText(std::move(again), parse, m, diags);
    source_ = m.source;
    if (!bound) return bound;
    entry = m.findFunction(parse.entry);
  }
  const Status bound =
      requireSizes(m, entry,
                   "bind each with the option dim (NAME=SIZE), or with the shape of an argument "
                   "that contains it (dtc_options_set_argument_shape)");
  unboundSizes_ = !bound;
  return bound;
}

Status CompiledProgram::load(SourceText text, const CompileOptions& o, Diagnostics& diags) {
  if (Status s = checkChoices(o.lowering); !s) return s;
  auto begin = std::chrono::steady_clock::now();
  Module m(standardOps());
  FuncId entry;
  if (Status s = read(std::move(text), o, m, entry, diags); !s) return s;
  DTC_TRY(auto target, targetOfBackend(o.backend.name));
  phases_.push_back({"parse", msSince(begin)});
  StandardPipelineOptions pipeline = o.lowering.pipeline(std::move(target));
  pipeline.resultsApart = o.backend.name == "cpu"; // runs write results in the memory of the caller
  Session session(std::move(m), entry, std::move(pipeline));
  session.hooks.after = [&](const PassStep& step, const Module&, double ms) {
    phases_.push_back({step.pass->name, ms});
  };
  if (Status s = session.lower(Stage::Placed, diags); !s) return s;
  if (machine_->group)
    if (Status s = joinProgram(o, session, *machine_->group); !s) return s;
  BackendChoice choice = o.backend;
  if (machine_->group) {
    choice.processes = &machine_->group->processes();
    if (choice.name == "cuda") choice.cuda.comm = "nccl";
  }
  choice.fixedReductionOrder = o.lowering.reductionOrder == "fixed";
  choice.optLevel = o.lowering.optLevel;
  choice.cuda.measureSchedules = o.lowering.optLevel >= 3;
  DTC_TRY(backend_, machine_->backend(choice, session.numDevices()));
  module_ = std::move(session.module());
  entry_ = session.entry();
  DTC_TRY(executable_, Executable::load(*module_, entry_, *backend_, machine_->pool,
                                        {.fixedSchedule = o.lowering.optLevel >= 2,
                                         .graphs = o.graphs,
                                         .hostPredicates = o.hostPredicates}));
  for (const Backend::Phase& p : executable_->phases()) phases_.push_back(p);
  if (machine_->group) number_ = machine_->group->nextProgram();
  describe();
  return Ok{};
}

std::unique_ptr<CompiledProgram> CompiledProgram::compile(SourceText text, const CompileOptions& o,
                                                          std::shared_ptr<Machine> machine,
                                                          ApiError& error) noexcept {
  try {
    std::unique_ptr<CompiledProgram> made(new CompiledProgram(std::move(machine)));
    Diagnostics diags;
    const Status loaded = made->load(std::move(text), o, diags);
    if (loaded) {
      made->warnings_ = recordsOf(diags, made->source_);
      made->warningText_ = renderDiagnostics(diags, made->source_, false);
      return made;
    }
    error = apiError(loaded.error(), diags, made->source_);
    if (made->unboundSizes_ && !error.records.empty()) error.records.back().kind = kUnboundSizesKind;
  } catch (...) {
    error = apiError(errorOfException());
  }
  return nullptr;
}

Status CompiledProgram::loadPackage(const std::string& path, const BackendChoice* backend,
                                    Diagnostics& diags) {
  DTC_TRY(auto opened, InputFile::open(path));
  const auto file = std::make_shared<const InputFile>(std::move(opened));
  DTC_TRY(auto package, readPackage(file));
  if (Status s = checkFits(package, path); !s) return s;
  source_ = {path + "/program.dt", package.program};
  module_.emplace(standardOps());
  if (!parseModule(source_, standardOps(), *module_, diags) || !verifyModule(*module_, diags))
    return inputError("");
  entry_ = module_->findFunction(package.needs.entry);
  if (!entry_.valid() || levelOf(*module_, entry_) != Level::Placed)
    return inputError(quotedPath(path) + " is not a valid package: its program has no placed function @" +
                      package.needs.entry);
  if (ProcessGroup* const group = machine_->group.get()) {
    const int64_t devices = meshValueOf(*module_, entry_).numDevices();
    if (Status s = joinPackage(package, source_, devices, *group); !s) return s;
  }
  if (Status s = makePackagedBackend(package, path, backend); !s) return s;
  DTC_TRY(executable_, Executable::load(*module_, entry_, *backend_, machine_->pool,
                                        {.fixedSchedule = package.needs.optLevel >= 2}));
  if (machine_->group) number_ = machine_->group->nextProgram();
  for (const Backend::Phase& p : executable_->phases()) phases_.push_back(p);
  describe();
  if (!package.weights.empty()) mapping_ = file->map();
  for (const PackageWeight& w : package.weights)
    if (Status s = setWeight(w, path); !s) return s;
  return Ok{};
}

Status CompiledProgram::makePackagedBackend(const Package& package, const std::string& path,
                                            const BackendChoice* backend) {
  const JitConfig config = packagedKernels(package);
  const int64_t devices = meshValueOf(*module_, entry_).numDevices();
  const bool forCpu = package.needs.target == "cpu";
  if (backend && (backend->name == "cpu") != forCpu)
    return usageError(quotedPath(path) + " is a package, which runs as it was compiled: for " +
                      package.needs.target + ", not with the backend " + backend->name);
  if (backend && backend->name == "cuda-emu") {
    DTC_TRY(backend_, machine_->backend(*backend, devices));
    return Ok{};
  }
  if (forCpu) {
    packaged_ = std::make_unique<CpuJit>(config);
    if (machine_->group) {
      Processes& processes = machine_->group->processes();
      const int64_t each = devices / processes.size();
      backend_ = makeCpuBackend(*packaged_, machine_->pool, each, config, package.needs.optLevel,
                                makeProcessCommunicator(processes, each, {}));
      return Ok{};
    }
    backend_ = makeCpuBackend(*packaged_, machine_->pool, devices, config, package.needs.optLevel);
    return Ok{};
  }
  packagedCuda_ = std::make_unique<Nvrtc>(config);
  CudaOptions options = packagedCuda(package);
  options.numDevices = devices;
  auto made = makeCudaBackend(*packagedCuda_, options);
  if (!made)
    return Error{made.error().kind,
                 quotedPath(path) + " is compiled for " + package.needs.target + ": " + made.error().message};
  backend_ = *std::move(made);
  return Ok{};
}

// In place if it is mapped, is only read and lies as the program's buffers do. Bools are copied: any number but 0 is
// true in a file.
Status CompiledProgram::setWeight(const PackageWeight& w, const std::string& path) {
  const auto at = std::ranges::find(info_.arguments, w.argument, &TensorInfo::name);
  if (at == info_.arguments.end() || at->dtype != w.value.dtype() || at->shape != w.value.shape())
    return inputError(quotedPath(path) + " is not a valid package: its program has no argument %" +
                      w.argument + " of type " + typeText(w.value.dtype(), w.value.shape()));
  const auto i = static_cast<size_t>(at - info_.arguments.begin());
  const bool mapped = mapping_ && kept_[i] && !isBool(at->dtype) &&
                      executable_->lendArgument(i, mapping_->data() + w.value.offset());
  if (!mapped)
    if (Status s = executable_->setArgument(i, w.value); !s) return s;
  set_[i] = true;
  return Ok{};
}

std::unique_ptr<CompiledProgram> CompiledProgram::loadPackage(const std::string& path,
                                                              std::shared_ptr<Machine> machine,
                                                              ApiError& error,
                                                              const BackendChoice* backend) noexcept {
  try {
    std::unique_ptr<CompiledProgram> made(new CompiledProgram(std::move(machine)));
    Diagnostics diags;
    const Status loaded = made->loadPackage(path, backend, diags);
    if (loaded) return made;
    error = apiError(loaded.error(), diags, made->source_);
  } catch (...) {
    error = apiError(errorOfException());
  }
  return nullptr;
}

void CompiledProgram::describe() {
  kept_ = executable_->keptArguments();
  info_ = describeProgram(*module_, entry_, kept_);
  set_.assign(kept_.size(), false);
}

std::span<const int64_t> CompiledProgram::argumentShape(size_t i, int64_t device) const {
  return executable_->argumentShape(i, device);
}

std::span<const int64_t> CompiledProgram::resultShape(size_t i, int64_t device) const {
  return executable_->resultShape(i, device);
}

std::vector<bool> CompiledProgram::setArguments() {
  const std::lock_guard lock(mutex_);
  return set_;
}

void CompiledProgram::setPrint(PrintTarget target) {
  const std::lock_guard lock(mutex_);
  print_ = target;
}

void CompiledProgram::setInterrupt(InterruptQuery query) {
  const std::lock_guard lock(mutex_);
  interrupt_ = query;
}

// Error (Usage): an argument that is skipped has no value.
Status CompiledProgram::checkSkipped(const RunRequest& r) const {
  const DeviceSlice here = devices();
  const size_t each = r.tensors.argumentShards ? static_cast<size_t>(here.end - here.begin) : 1;
  if (r.tensors.arguments.size() != each * info_.arguments.size()) return Ok{}; // reported by the executable
  for (size_t i = 0; i < r.tensors.arguments.size(); ++i) {
    const BorrowedTensor& t = r.tensors.arguments[i];
    if (t.skip && !set_[i / each])
      return usageError(
          "argument %" + info_.arguments[i / each].name +
          " is given no tensor (None in Python, DTC_SKIP in C), which stands for the value that an "
          "earlier run has kept or carried over, and there is none");
  }
  return Ok{};
}

// Notes which arguments have values after the call, and takes the tensors over.
Status CompiledProgram::take(const RunRequest& r) {
  hasResults_ = false;
  const DeviceSlice here = devices();
  const size_t each = r.tensors.argumentShards ? static_cast<size_t>(here.end - here.begin) : 1;
  for (size_t i = 0; i < info_.arguments.size(); ++i) {
    const std::span<const BorrowedTensor> own = r.tensors.arguments.subspan(i * each, each);
    set_[i] =
        executable_->lendsArgument(i) ||
        (kept_[i] && std::ranges::all_of(own, [](const BorrowedTensor& t) { return t.skip || t.keep; }));
  }
  return executable_->borrow(r.tensors);
}

// Changes nothing: after an error, and after one of another process, kept and carried values are still there.
Status CompiledProgram::prepare(const RunRequest& r) {
  if (broken_) return usageError("an internal error ended an earlier run: compile the program again");
  if (r.stream)
    if (Status s = executable_->waitForStream(r.stream); !s) return s;
  if (Status s = checkSkipped(r); !s) return s;
  return executable_->checkTensors(r.tensors);
}

// Process 0 prints. After an error, no process can go on: messages of the run may still be on their way.
Status CompiledProgram::runTogether(const RunRequest& r, const RunHooks& given, const Status& ready) {
  ProcessGroup& group = *machine_->group;
  const auto turn = group.turn();
  const std::string what =
      "the run of " + module_->source.name + " (program " + std::to_string(number_) + ")";
  if (Status s = group.agree(what, ready); !s) return s;
  RunHooks hooks = given;
  if (group.rank() != 0) hooks.print = [](void*, const std::string&) {};
  Status done = take(r);
  if (done) done = executable_->runBorrowed(r.tensors, hooks);
  if (!done) group.endRun(done.error());
  return done;
}

Status CompiledProgram::runLocked(const RunRequest& r) {
  Status ready = r.made ? prepare(r) : r.made;
  if (!machine_->group) {
    if (ready) ready = take(r);
    if (!ready) return ready;
  }
  RunHooks hooks;
  hooks.time = r.timed;
  hooks.print = print_.print ? print_.print : &printToStdout;
  hooks.printSelf = print_.self;
  hooks.interrupted = interrupt_.interrupted;
  hooks.interruptedSelf = interrupt_.self;
  Status done = machine_->group ? runTogether(r, hooks, ready) : executable_->runBorrowed(r.tensors, hooks);
  copiedBytes_ = executable_->copiedBytes();
  hasResults_ = hasResults_ || done.ok();
  return done;
}

// Runs fn(), which returns a Status, with the program to itself; no exception leaves it.
template <class Fn> bool CompiledProgram::locked(ApiError& error, Fn&& fn) noexcept {
  const std::lock_guard lock(mutex_);
  try {
    const Status usable = usableTogether(machine_->group.get());
    const Status done = usable ? fn() : usable;
    if (done) return true;
    error = apiError(done.error(), {}, source_);
  } catch (...) {
    broken_ = true; // its state is unknown
    error = apiError(errorOfException());
    if (machine_->group) machine_->group->endRun({error.kind, error.text});
  }
  return false;
}

bool CompiledProgram::run(const RunRequest& request, ApiError& error) noexcept {
  return locked(error, [&] { return runLocked(request); });
}

Status CompiledProgram::bindLocked(const char* path, std::vector<bool>& bound) {
  if (!path) return usageError("path is null");
  DTC_TRY(const auto archive, openTensorArchive(path));
  if (Status s = checkMatches(*archive, info_); !s) return s;
  bound.assign(info_.arguments.size(), false);
  for (size_t i = 0; i < bound.size(); ++i) {
    const TensorInfo& a = info_.arguments[i];
    const std::string name = nameIn(*archive, a);
    if (name.empty()) continue;
    DTC_TRY(const auto value, archive->tensor(name, a.dtype, &a.shape));
    set_[i] = false; // should reading fail
    if (Status s = executable_->setArgument(i, value); !s) return s;
    bound[i] = set_[i] = true;
  }
  return Ok{};
}

Status CompiledProgram::bindTogether(const char* path, std::vector<bool>& bound) {
  Status done = bindLocked(path, bound);
  if (!machine_->group) return done;
  const auto turn = machine_->group->turn();
  return machine_->group->agree("the binding of a file to program " + std::to_string(number_), done);
}

bool CompiledProgram::bindFile(const char* path, std::vector<bool>& bound, ApiError& error) noexcept {
  return locked(error, [&] { return bindTogether(path, bound); });
}

bool CompiledProgram::carryOver(ApiError& error) noexcept {
  return locked(error, [&] { return carryOverTogether(); });
}

// Without a round of the processes, for it is called once per step.
Status CompiledProgram::carryOverTogether() {
  const Status done = carryOverLocked();
  if (done || !machine_->group) return done;
  const auto turn = machine_->group->turn();
  machine_->group->owe(done.error());
  return done;
}

Status CompiledProgram::carryOverLocked() {
  const auto carried = std::ranges::find_if(info_.arguments, [](const auto& a) { return a.carried >= 0; });
  const bool carries = carried != info_.arguments.end();
  if (!hasResults_)
    return usageError((carries ? "argument %" + carried->name + " has no value to take over: " : "") +
                      "carry_over needs a successful run since the last carry_over");
  hasResults_ = false; // their memory may now be that of arguments
  Status done = executable_->carryOver();
  for (size_t i = 0; i < set_.size(); ++i)
    if (info_.arguments[i].carried >= 0) set_[i] = done.ok();
  return done;
}

} // namespace dtc
