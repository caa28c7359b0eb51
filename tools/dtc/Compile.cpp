// dtc compile: the whole pipeline, and what it makes, as text or machine code.
#include "Program.h"
#include "Sizes.h"
#include "Timing.h"
#include "Verbs.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/Jit/CpuJit.h"
#include "dtc/Jit/FitKernels.h"
#include "dtc/Jit/Nvrtc.h"
#include "dtc/Kernel/Kernel.h"
#include "dtc/Passes/MemoryReport.h"
#include "dtc/Passes/StandardPipeline.h"
#include "dtc/Runtime/TensorFiles.h"
#include "dtc/Runtime/Trace.h"
#include "dtc/Support/Json.h"
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <unistd.h>

namespace dtc {

namespace {

struct Options {
  ProgramOptions program;
  std::string emit = "schedule", target = "cpu", out, policy, reduceDType, reductionOrder = "any";
  int optLevel = 1;
  bool timing = false, stats = false, json = false, strictNonFinite = false;
};

// What goes to one file, or to standard output.
struct Piece {
  std::string fileName, text;
};

std::string usageText(std::span<const KernelUsage> kernels) {
  std::string text;
  for (const KernelUsage& u : kernels) {
    text += u.kernel + ": " + std::to_string(u.registers) + " registers, " + std::to_string(u.sharedBytes) +
            " bytes shared";
    if (u.spillStoreBytes + u.spillLoadBytes > 0)
      text += ", " + std::to_string(u.spillStoreBytes) + " bytes spilled";
    text += "\n";
  }
  return text;
}

std::string usageJson(std::span<const KernelUsage> kernels) {
  std::string text = "[";
  for (const KernelUsage& u : kernels)
    text += (text.size() > 1 ? ",\n  " : "") + ("{\"kernel\": " + jsonString(u.kernel)) +
            ", \"registers\": " + std::to_string(u.registers) +
            ", \"shared_bytes\": " + std::to_string(u.sharedBytes) +
            ", \"spilled_bytes\": " + std::to_string(u.spillStoreBytes) +
            ", \"stack_bytes\": " + std::to_string(u.stackBytes) + "}";
  return text + "]";
}

class Compilation {
public:
  Compilation(Environment& env, const Options& o, Module& m, FuncId func)
      : env_(env), o_(o), m_(m), func_(func) {}

  int run() {
    if (Status s = lower(); !s) return diagnosed_ ? kExitInput : env_.fail(s.error());
    auto pieces = makePieces();
    if (!pieces) return env_.fail(pieces.error());
    if (o_.timing) env_.err(timing.table());
    if (o_.json && o_.out.empty()) return report(); // standard output is the report's
    const int code = write(*pieces);
    return code == kExitDone && o_.stats ? report() : code;
  }

  Timing timing;

private:
  // What the kernels do and the memory plan comes to, on one device.
  int report() {
    Diagnostics diags;
    auto plan = makeMemoryPlan(m_, func_, diags);
    if (!plan) {
      env_.report(diags, m_.source);
      return kExitInput;
    }
    const MemoryReport memory = memoryReport(m_, func_, *plan, plan->arenaBytes);
    auto usage = kernelUsage();
    if (!usage) return env_.fail(usage.error());
    if (o_.json)
      env_.out("{\"program\": " + jsonString(m_.source.name) + ",\n\"kernels\": " + workJson(workRows()) +
               (cuda() ? ",\n\"resources\": " + usageJson(*usage) : "") +
               ",\n\"kept_apart\": " + remarksJson(remarks_, m_) + ",\n\"memory\": " + memory.json() + "}\n");
    else
      env_.err(workText(workRows()) + (cuda() ? usageText(*usage) : "") +
               (remarks_.empty() ? "" : "kept apart, by way of memory:\n" + remarksText(remarks_, m_)) +
               memory.text());
    return kExitDone;
  }

  bool cuda() const { return o_.target != "cpu"; }

  // What the target's compiler says that each kernel takes; nothing for CPUs.
  Result<std::vector<KernelUsage>> kernelUsage() {
    std::vector<KernelUsage> out;
    if (!cuda()) return out;
    KernelSet set({.cpp = false,
                   .cuda = true,
                   .target = cudaTargetOf(o_.target),
                   .otherSchedules = true,
                   .gemmDTypes = kCublasDTypes,
                   .gemmEpilogues = true});
    for (OpId o : fusedOps())
      if (auto call = set.add(m_, o); !call) return call.error();
    auto fitted = fitKernels(Nvrtc(), set.kernels(), o_.target);
    if (!fitted) return fitted.error();
    for (FittedKernel& k : *fitted)
      if (!k.usage.kernel.empty()) out.push_back(std::move(k.usage));
    return out;
  }

  Status lower() {
    StandardPipeline pipeline =
        standardPipeline(levelOf(m_, func_), {o_.optLevel, o_.policy, o_.reduceDType,
                                              o_.reductionOrder == "fixed", cuda(), o_.strictNonFinite});
    if (o_.reductionOrder == "fixed" && levelOf(m_, func_) != Level::Global)
      return inputError("--reduction-order fixed: this text is propagated already; give the global program");
    std::vector<PassStep> steps = pipeline.reference;
    steps.insert(steps.end(), pipeline.propagate.begin(), pipeline.propagate.end());
    for (const PassStep& s :
         pipeline.lower) // `ir` is the program of one device, before it is grouped into kernels
      if (o_.emit != "ir" || s.pass->gives < Level::Scheduled) steps.push_back(s);
    PipelineHooks hooks;
    hooks.progress = env_.status.progress();
    hooks.after = [&](const PassStep& step, const Module&, double ms) { note(step.pass->name, ms); };
    if (o_.stats || o_.json) hooks.remarks = &remarks_;
    Diagnostics diags;
    Status done = runPipeline(m_, steps, diags, hooks);
    diagnosed_ = env_.report(diags, m_.source) != 0;
    if (!done) return done;
    if (diagnosed_) return inputError("");
    auto entry = entriesOf(m_, "@" + std::string(m_.strings[m_[func_].name]));
    if (!entry) return entry.error();
    func_ = entry->front();
    return o_.emit == "ir" || o_.emit == "schedule" ? Status(Ok{}) : checkLowered(m_, func_);
  }

  void note(const std::string& phase, double ms) { timing.add(phase, ms); }

  Result<std::vector<Piece>> makePieces() {
    if (o_.emit == "ir" || o_.emit == "schedule")
      return std::vector<Piece>{{o_.emit + ".dt", printModule(m_)}};
    KernelOptions options;
    options.cpp = !cuda();
    options.cuda = cuda();
    options.gemmEpilogues = cuda();
    if (cuda()) options.gemmDTypes = kCublasDTypes;
    options.comments = true;
    if (cuda()) options.target = cudaTargetOf(o_.target), options.otherSchedules = true;
    options.vectorBytes = vectorBytes(hostCpuLevel());
    KernelSet set(options);
    std::vector<Piece> libraryCalls;
    if (Status s = collect(set, libraryCalls); !s) return s.error();
    env_.status.at("compiling kernels");
    LapClock clock;
    std::vector<Piece> pieces;
    if (o_.emit == "kernels") pieces = std::move(libraryCalls);
    Status made = Ok{};
    if (o_.emit == "kernels" && cuda()) {
      made = cudaText(set, pieces);
    } else if (o_.emit == "kernels") {
      for (const KernelSource& k : set.kernels())
        if (!k.standby) pieces.push_back({k.name + ".cpp", k.cpp});
    } else if (o_.emit == "llvm" || o_.emit == "asm") {
      made = cpuText(set, pieces);
    } else {
      made = cudaImage(set, pieces);
    }
    if (!made) return made.error();
    if (o_.emit != "kernels") note(o_.emit, clock.lap());
    return pieces;
  }

  std::vector<OpId> fusedOps() const {
    std::vector<OpId> fused;
    forEachOp(m_, m_[func_].body, [&](OpId o) {
      if (m_.record(o).regions == RegionKind::Fused) fused.push_back(o);
    });
    return fused;
  }

  // What each kernel and library call touches and computes on the first device.
  std::vector<WorkRow> workRows() {
    const Mesh mesh = meshValueOf(m_, func_);
    KernelOptions options;
    options.cpp = !cuda(), options.cuda = cuda();
    options.vectorBytes = vectorBytes(hostCpuLevel());
    options.gemmEpilogues = cuda();
    if (cuda()) options.gemmDTypes = kCublasDTypes;
    if (cuda()) options.target = cudaTargetOf(o_.target);
    KernelSet set(options);
    std::vector<WorkRow> rows;
    for (OpId o : fusedOps()) {
      auto call = set.add(m_, o);
      if (!call) continue; // makePieces has said it, where it asked
      std::vector<int64_t> sizes;
      std::visit(
          [&](const auto& c) {
            for (Dim d : c.sizes) sizes.push_back(dimAt(m_, d, mesh, 0).value_or(0));
          },
          *call);
      WorkRow row{"view", 1};
      if (const auto* k = std::get_if<KernelCall>(&*call)) {
        const KernelSource& source = set.kernels()[k->kernel];
        row = {source.name, 1, source.bytes(sizes), source.flops(sizes)};
      } else if (const auto* g = std::get_if<GemmCall>(&*call)) {
        row = {"matrix product", 1, g->bytes(sizes), g->flops(sizes)};
        if (g->epilogue) row.name = "matmul + " + set.kernels()[g->epilogue->kernel].name;
      }
      auto same = std::find_if(rows.begin(), rows.end(), [&](const WorkRow& r) {
        return r.name == row.name && r.bytes == row.bytes && r.flops == row.flops;
      });
      if (same == rows.end())
        rows.push_back(row);
      else
        ++same->uses;
    }
    return rows;
  }

  // All fused regions of the entry, in program order; what a library does stands among the kernels as a comment.
  Status collect(KernelSet& set, std::vector<Piece>& libraryCalls) {
    LapClock clock;
    for (OpId o : fusedOps()) {
      auto call = set.add(m_, o);
      if (!call) return call.error();
      if (const auto* gemm = std::get_if<GemmCall>(&*call))
        libraryCalls.push_back({"library-calls.txt", gemmText(o, *gemm, set)});
    }
    note("print kernels", clock.lap());
    return Ok{};
  }

  std::string gemmText(OpId o, const GemmCall& g, const KernelSet& set) const {
    LineCol at = m_[o].loc.valid() ? lineColumn(m_.source.text, m_[o].loc.begin) : LineCol();
    std::string where = m_[o].loc.valid() ? " (" + m_.source.name + ":" + std::to_string(at.line) + ")" : "";
    return "// library call: " + printValueName(m_, m_.result(o, g.y)) + " = matrix product" +
           (g.bias >= 0 ? " with bias" : "") + (g.residual >= 0 ? " with residual" : "") +
           (g.activation == GemmActivation::GeluTanh ? " with gelu" : "") + ", " +
           std::string(dtypeName(g.dtype)) + where + ", by " + (cuda() ? "cuBLASLt" : "oneDNN") +
           (g.epilogue ? "; then, on what it wrote, " + set.kernels()[g.epilogue->kernel].name : "") + "\n";
  }

  Status cpuText(const KernelSet& set, std::vector<Piece>& pieces) {
    CpuJit jit;
    for (const KernelSource& k : set.kernels()) {
      auto text = jit.emit({k.name, k.cpp}, o_.emit == "llvm" ? CpuText::Llvm : CpuText::Asm);
      if (!text) return text.error();
      pieces.push_back({k.name + (o_.emit == "llvm" ? ".ll" : ".s"), *text});
    }
    return Ok{};
  }

  // Each kernel under the schedule that it runs under, with what it takes where there is NVRTC to say it; without NVRTC the first.
  Status cudaText(const KernelSet& set, std::vector<Piece>& pieces) {
    const Nvrtc nvrtc;
    std::vector<FittedKernel> fitted;
    if (nvrtc.version()) {
      auto made = fitKernels(nvrtc, set.kernels(), o_.target);
      if (!made) return made.error();
      fitted = std::move(*made);
    }
    for (size_t i = 0; i < set.kernels().size(); ++i) {
      const KernelSource& k = set.kernels()[i];
      if (k.standby) continue;
      std::string text = fitted.empty() ? k.cuda : fitted[i].schedule.cuda;
      if (!fitted.empty() && !fitted[i].usage.kernel.empty())
        text = "// " + o_.target + ", " + usageText(std::span(&fitted[i].usage, 1)) +
               (fitted[i].schedule.schedule.empty() ? "" : "// " + fitted[i].schedule.schedule + "\n") + text;
      pieces.push_back({k.name + ".cu", std::move(text)});
    }
    return Ok{};
  }

  // All kernels in one image.
  Status cudaImage(const KernelSet& set, std::vector<Piece>& pieces) {
    SourceUnit unit{"kernels", ""};
    const Nvrtc nvrtc;
    auto fitted = fitKernels(nvrtc, set.kernels(), o_.target);
    if (!fitted) return fitted.error();
    for (size_t i = 0; i < fitted->size(); ++i)
      if (!set.kernels()[i].standby) unit.text += (*fitted)[i].schedule.cuda + "\n";
    const bool cubin = o_.emit == "cubin";
    auto made = nvrtc.compile(std::span(&unit, 1), o_.target, cubin ? CudaImage::Cubin : CudaImage::Ptx);
    if (!made) return made.error();
    CudaBinary& binary = made->front();
    env_.err(usageText(binary.usage));
    pieces.push_back({cubin ? "kernels.cubin" : "kernels.ptx", std::move(binary.image)});
    return Ok{};
  }

  int write(const std::vector<Piece>& pieces) {
    namespace fs = std::filesystem;
    std::string all;
    for (size_t i = 0; i < pieces.size(); ++i) {
      bool gap = i > 0 && (o_.emit != "kernels" || pieces[i].fileName != pieces[i - 1].fileName);
      all += (gap ? "\n" : "") + pieces[i].text;
    }
    if (o_.out.empty() || o_.out == "-") {
      if (o_.emit == "cubin" && isatty(STDOUT_FILENO))
        return env_.fail(usageError("a cubin is no text: give it a file with -o"));
      env_.out(all);
      return kExitDone;
    }
    std::error_code ec;
    if (pieces.size() < 2 && !o_.out.ends_with("/") && !fs::is_directory(o_.out, ec))
      return writeFile(o_.out, all);
    fs::create_directories(o_.out, ec);
    if (ec) return env_.fail(machineError("cannot make the folder '" + o_.out + "': " + ec.message()));
    std::vector<Piece> files; // texts of one file name stand in it together
    for (const Piece& p : pieces) {
      if (files.empty() || files.back().fileName != p.fileName) files.push_back({p.fileName, ""});
      files.back().text += p.text;
    }
    for (const Piece& f : files)
      if (int code = writeFile((fs::path(o_.out) / f.fileName).string(), f.text)) return code;
    return kExitDone;
  }

  int writeFile(const std::string& path, const std::string& text) {
    Status done = writeFileAtomically(path, text);
    return done ? kExitDone : env_.fail(done.error());
  }

  Environment& env_;
  const Options& o_;
  Module& m_;
  FuncId func_;
  bool diagnosed_ = false;
  std::vector<PassRemark> remarks_;
};

int run(Environment& env, const Options& o) {
  if (o.json && !o.stats)
    return env.fail(usageError("--json is the form of a report: ask for one with --stats"));
  if (o.stats && o.emit == "ir")
    return env.fail(usageError("--stats is of the schedule, which --emit ir stops before"));
  const bool cuda = o.target != "cpu";
  if (cuda && !isCudaArch(o.target))
    return env.fail(usageError("'" + o.target + "' is not a target; there are cpu, " + cudaArchList()));
  if (cuda && (o.emit == "llvm" || o.emit == "asm"))
    return env.fail(usageError("--emit " + o.emit + " is of CPUs; for " + o.target +
                               " there are kernels, ptx and cubin"));
  if (!cuda && (o.emit == "ptx" || o.emit == "cubin"))
    return env.fail(usageError("--emit " + o.emit + " needs a GPU's target, as --target sm_90"));
  if (Status s = checkChoices(o.policy, o.reduceDType); !s) return env.fail(s.error());
  int code = kExitDone;
  LapClock clock;
  auto m = loadProgram(env, o.program, code);
  if (!m) return code;
  auto entry = entryOf(*m, o.program.entry);
  if (!entry) return env.fail(entry.error());
  if (o.emit != "ir") // which may keep its symbols
    if (Status s = requireSizes(*m, *entry); !s) return env.fail(s.error());
  Compilation compilation(env, o, *m, *entry);
  compilation.timing.add("parse", clock.lap());
  return compilation.run();
}

} // namespace

Verb compileVerb() {
  Verb v;
  v.name = "compile";
  v.usage = "FILE [--emit WHAT] [--target T] [flags]";
  v.summary = "the whole pipeline, and what it makes";
  v.examples = "  dtc compile examples/linear-softmax.dt --emit kernels\n"
               "  dtc compile examples/gpt.dt --target sm_90 --emit ptx -o gpt.ptx\n"
               "  dtc compile examples/gpt.dt --emit kernels -o kernels/";
  v.declare = [](CLI::App& app) -> std::function<int(Environment&)> {
    auto o = std::make_shared<Options>();
    addProgramOptions(app, o->program);
    app.add_option("--emit", o->emit,
                   "ir: one device's program; schedule: its kernels as regions; kernels: their source")
        ->type_name("ir|schedule|kernels|llvm|asm|ptx|cubin")
        ->check(CLI::IsMember({"ir", "schedule", "kernels", "llvm", "asm", "ptx", "cubin"}));
    app.add_option("--target", o->target, "what it is compiled for")
        ->type_name("cpu|sm_80|sm_90|sm_90a|sm_100|sm_100a");
    app.add_option("-o", o->out, "a file, or a folder where there are several; - is standard output")
        ->type_name("OUT");
    app.add_option("-O", o->optLevel, kOptLevelHelp)->type_name("0..3")->check(CLI::Range(0, 3));
    app.add_option("--policy", o->policy, "how conflicts of shardings are settled")
        ->type_name("shardy|dtensor|cost|explicit");
    app.add_option("--reduce-dtype", o->reduceDType, "the float dtype that sums between devices travel in")
        ->type_name("DTYPE");
    app.add_flag("--strict-nonfinite", o->strictNonFinite,
                 "infinities and NaN are those of the unsharded program: no rule that holds for finite "
                 "values alone");
    app.add_option("--reduction-order", o->reductionOrder, "fixed: the same bits on every mesh too")
        ->type_name("any|fixed")
        ->check(CLI::IsMember({"any", "fixed"}));
    app.add_flag("--timing", o->timing, "time of each pass and phase, to stderr");
    app.add_flag(
        "--stats", o->stats,
        "each kernel's bytes and flops (for GPUs its registers, shared and spilled bytes), what was kept "
        "apart and why, the memory plan; to stderr");
    app.add_flag("--json", o->json, "the report of --stats as JSON, to standard output");
    return [o](Environment& env) { return run(env, *o); };
  };
  return v;
}

} // namespace dtc
