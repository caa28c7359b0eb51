#include "dtc/Session/Session.h"

#include "dtc/IR/DevicePrograms.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/Passes/analysis/PipelineOrder.h"
#include "dtc/Passes/analysis/PipelineText.h"
#include "dtc/Passes/simplify/Inline.h"
#include "dtc/Runtime/backend/cpu/CpuBackend.h"
#include "dtc/Runtime/backend/emu/CudaEmuBackend.h"

namespace dtc {

Session::Session(Module m, FuncId entry, StandardPipelineOptions options)
    : m_(std::move(m)), entry_(entry), name_(m_.strings[m_[entry].name]) {
  removeUnreachable(m_, entry_); // callers would inline and remove the entry, and may be at other levels
  entry_ = m_.findFunction(name_);
  Level from = Level::Placed;
  for (FuncId f : functionsOfProgram(m_, entry_)) from = std::min(from, levelOf(m_, f));
  fixedOrderOfLocal_ = options.fixedReductionOrder && from != Level::Global && !hasFixedOrder();
  if (options.pipeline.empty() && hasStages(m_, entry_)) options.pipeline = pipelineWordOf(kDefaultPipeline);
  StandardPipeline pipeline = standardPipeline(from, options);
  for (PassStep& s : pipeline.reference) steps_.push_back({std::move(s), Stage::Reference});
  for (PassStep& s : pipeline.propagate)
    steps_.push_back({s, s.pass->produces < Level::Propagated ? Stage::Closed : Stage::Propagated});
  for (PassStep& s : pipeline.lower)
    steps_.push_back({s, s.pass->produces <= Level::Local ? Stage::Local : Stage::Placed});
}

static bool addsFloats(const Module& m, OpId reducing) {
  const AttrId op = m.attr(reducing, "op"); // absent: a sum
  const auto kind = op.valid() ? parsePendingKind(m.strings[m.attrs[op].text]) : PendingKind::Sum;
  const bool ordered = kind == PendingKind::Sum || kind == PendingKind::Avg || kind == PendingKind::Prod;
  return ordered && isFloat(partType(m.typeOf(m.operand(reducing, 0)).dtype));
}

// Fused text records a fixed order on its regions; its collectives only move values.
bool Session::hasFixedOrder() const {
  const StrId kind = m_.strings.find("kind");
  bool fixed = true;
  for (FuncId f : functionsOfProgram(m_, entry_)) {
    fixed = fixed && levelOf(m_, f) >= Level::Fused;
    forEachOp(m_, m_[f].body, [&](OpId o) {
      if (reduces(m_.record(o).collective)) fixed = fixed && !addsFloats(m_, o);
      if (m_.record(o).regions != RegionKind::Fused || m_.attr(o, "order").valid()) return;
      const AttrId own = findAttr(m_[o].attrs, kind);
      const std::string_view word = own.valid() ? m_.strings[m_.attrs[own].text] : "";
      fixed = fixed && (word == "pointwise" || word == "view");
    });
  }
  return fixed;
}

Status Session::lower(Stage to, Diagnostics& diags) {
  if (fixedOrderOfLocal_)
    return inputError("--reduction-order fixed needs a global program, but this one is already " +
                      std::string(levelName(levelOf(m_, entry_))));
  std::vector<PassStep> chosen;
  for (; next_ < steps_.size() && steps_[next_].produces <= to; ++next_)
    if (!skips || !skips(steps_[next_].step)) chosen.push_back(steps_[next_].step);
  hooks.state = &state_;
  const Status done = runPipeline(m_, chosen, diags, hooks);
  if (!done || diags.hasErrors()) return done ? Status(inputError("")) : done;
  entry_ = m_.findFunction(name_);
  if (!entry_.valid()) return Error{Error::Bug, "the passes removed the entry function"};
  return Ok{};
}

Result<std::unique_ptr<Executable>> Session::load(Backend& backend, ThreadPool& pool,
                                                  const Executable::Options& options) {
  if (!m_[entry_].spmd) return Error{Error::Bug, "the pipeline did not partition the entry function"};
  return Executable::load(m_, entry_, backend, pool, options);
}

// Each device has buffers and messages of its own: 16,384 of them take more than a minute.
constexpr int64_t kMaxLocalDevices = 1 << 16;

Result<std::unique_ptr<Backend>> Machine::backend(const BackendChoice& choice, int64_t numDevices) {
  if (numDevices > kMaxLocalDevices)
    return usageError("the mesh has " + std::to_string(numDevices) + " devices, but a run has at most " +
                      std::to_string(kMaxLocalDevices) +
                      ", all in this process; `dtc explain` and `dtc opt` take meshes of any size");
  if (choice.name == "cuda-emu") return makeCudaEmuBackend(jit, choice.emulatorChecks);
  if (choice.processes && choice.name == "cpu") {
    const int64_t each = numDevices / choice.processes->size();
    return makeCpuBackend(
        jit, pool, each, config_, choice.optLevel,
        makeProcessCommunicator(*choice.processes, each, {choice.fixedReductionOrder, choice.cuda.dump}));
  }
  if (choice.name == "cpu") return makeCpuBackend(jit, pool, numDevices, config_, choice.optLevel);
  {
    const std::lock_guard lock(mutex_);
    if (!nvrtc_) nvrtc_ = std::make_unique<Nvrtc>(config_);
  }
  CudaOptions options = choice.cuda;
  options.numDevices = numDevices;
  options.processes = choice.processes;
  return makeCudaBackend(*nvrtc_, options);
}

Result<std::vector<Tensor>> runOnce(Executable& program, std::span<const Tensor> arguments, bool again) {
  const std::vector<bool> kept = again ? program.keptArguments() : std::vector<bool>(arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i)
    if (!kept[i])
      if (Status s = program.setArgument(i, arguments[i]); !s) return s.error();
  if (Status s = program.run(); !s) return s.error();
  std::vector<Tensor> results;
  for (size_t i = 0; i < program.numResults(); ++i) {
    DTC_TRY(auto t, program.result(i));
    results.push_back(std::move(t));
  }
  return results;
}

} // namespace dtc
