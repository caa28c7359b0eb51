// dtc compile: runs the standard pipeline and writes its output as text or machine code.
#include "PrintAfter.h"
#include "Program.h"
#include "Timing.h"
#include "Verbs.h"
#include "dtc/Api/PackageFile.h"
#include "dtc/Cuda/FitKernels.h"
#include "dtc/Cuda/Nvrtc.h"
#include "dtc/Files/TensorFiles.h"
#include "dtc/IR/DevicePrograms.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/Jit/CpuJit.h"
#include "dtc/Kernel/Kernel.h"
#include "dtc/Passes/analysis/TargetOf.h"
#include "dtc/Passes/memory/MemoryReport.h"
#include "dtc/Report/kernels/KernelReport.h"
#include "dtc/Runtime/trace/Trace.h"
#include "dtc/Session/ArgumentSizes.h"
#include "dtc/Session/Session.h"
#include "dtc/Support/Json.h"
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <sstream>
#include <unistd.h>

namespace dtc {

namespace {

struct CompileOptions {
  ProgramOptions program;
  LoweringFlags lowering;
  PrintAfterFlags printAfter;
  std::string emit = "schedule", target = "cpu", out, weights;
  bool timing = false, stats = false, json = false;
};

// One output file.
struct OutputFile {
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

// Programs that load a package write results in the memory of the caller, as those that compile.
StandardPipelineOptions pipelineOf(const CompileOptions& o) {
  StandardPipelineOptions pipeline = o.lowering.pipeline(o.target);
  pipeline.resultsApart = o.emit == "package" && o.target == "cpu";
  return pipeline;
}

class Compilation {
public:
  Compilation(Environment& env, const CompileOptions& o, Module m, FuncId func)
      : env_(env), o_(o), session_(std::move(m), func, pipelineOf(o)), m_(session_.module()) {}

  int run() {
    if (o_.emit == "package") return package();
    if (Status s = lower(); !s) return diagnosed_ ? kExitInput : env_.fail(s.error());
    auto outputs = makeFiles();
    if (!outputs) return env_.fail(outputs.error());
    if (o_.timing) env_.err(timing.table());
    if (o_.json && o_.out.empty()) return report(); // the report takes standard output
    const int code = write(*outputs);
    return code == kExitDone && o_.stats ? report() : code;
  }

  Timing timing;

private:
  // Reports the kernels' work and the memory plan of one device.
  int report() {
    Diagnostics diags;
    std::vector<MemoryReport> memory;
    for (FuncId f : functionsOfProgram(m_, func())) {
      auto plan = readMemoryPlan(m_, f, diags);
      if (!plan) {
        env_.report(diags, m_.source);
        return kExitInput;
      }
      memory.push_back(memoryReport(m_, f, *plan, plan->arenaBytes));
    }
    ProgramKernels kernels;
    if (cuda()) {
      auto analyzed = programKernels(m_, func(), *targetNamed(o_.target));
      if (!analyzed) return env_.fail(analyzed.error());
      kernels = *std::move(analyzed);
    }
    if (o_.json)
      env_.out("{\"program\": " + jsonString(m_.source.name) + ",\n\"kernels\": " + workJson(workRows()) +
               (cuda() ? ",\n\"gpu\": " + kernelsJson(kernels) : "") + ",\n\"materialized\": " +
               remarksJson(remarks_, m_) + ",\n\"memory\": " + memoryJson(memory) + "}\n");
    else
      env_.err(workText(workRows()) + (cuda() ? kernelsText(kernels, o_.target) : "") +
               (remarks_.empty() ? "" : "materialized:\n" + remarksText(remarks_, m_)) + memoryText(memory));
    return kExitDone;
  }

  int package() {
    Diagnostics diags;
    env_.status.at("compiling kernels");
    auto weights = openWeights();
    if (!weights) return env_.fail(weights.error());
    const auto package = makePackage(session_, o_.target, o_.lowering.optLevel, weights->get(), diags);
    if (env_.report(diags, m_.source) != kExitDone) return kExitInput;
    if (!package) return env_.fail(package.error());
    env_.status.at("writing");
    const Status written =
        writeFileAtomically(o_.out, [&](const ByteSink& sink) { return writePackage(*package, sink); });
    return written ? kExitDone : env_.fail(written.error());
  }

  // The file whose tensors travel in the package; null: none.
  Result<std::unique_ptr<TensorArchive>> openWeights() {
    std::string path = o_.weights;
    if (path.empty() && holdsProgram(o_.program.file)) path = o_.program.file;
    if (path.empty() || path == "none") return std::unique_ptr<TensorArchive>();
    return openTensorArchive(path);
  }

  bool cuda() const { return o_.target != "cpu"; }
  // The target with this CPU's vector width. Convolution and attention are shown as the generated kernels
  // that run without cuDNN and oneDNN.
  Target target() const {
    Target t = *targetNamed(o_.target);
    t.vectorBytes = vectorBytes(hostCpuLevel());
    t.convDTypes = t.attentionDTypes = 0;
    return t;
  }

  // Text for a target is not compiled for another one.
  Status checkTarget() {
    for (FuncId f : functionsOfProgram(m_, func()))
      if (const std::string text = writtenTarget(m_, f); !text.empty() && text != o_.target)
        return inputError("@" + std::string(m_.strings[m_[f].name]) + " is compiled for " + text +
                          ", but --target is " + o_.target + ": compile it with --target " + text);
    return Ok{};
  }

  Status lower() {
    if (Status s = checkTarget(); !s) return s;
    session_.hooks.progress = env_.status.progress();
    session_.hooks.after = [&](const PassStep& step, const Module& after, double ms) {
      note(step.pass->name, ms);
      printer_(step, after);
    };
    if (o_.stats || o_.json) session_.hooks.remarks = &remarks_;
    Diagnostics diags;
    Status done = session_.lower(o_.emit == "ir" ? Stage::Local : Stage::Placed, diags);
    diagnosed_ = env_.report(diags, m_.source) != 0;
    if (done) printer_.finish();
    if (!done || o_.emit == "ir" || o_.emit == "schedule") return done;
    return checkLowered(m_, func());
  }

  [[nodiscard]] FuncId func() const { return session_.entry(); }
  void note(const std::string& phase, double ms) { timing.add(phase, ms); }

  Result<std::vector<OutputFile>> makeFiles() {
    if (o_.emit == "ir" || o_.emit == "schedule")
      return std::vector<OutputFile>{{o_.emit + ".dt", printModule(m_)}};
    KernelSet set({.target = target(), .comments = true, .otherSchedules = cuda()});
    std::vector<OutputFile> libraryCalls;
    if (Status s = collect(set, libraryCalls); !s) return s.error();
    env_.status.at("compiling kernels");
    LapClock clock;
    std::vector<OutputFile> outputs;
    if (o_.emit == "kernels") outputs = std::move(libraryCalls);
    Status made = Ok{};
    if (o_.emit == "kernels" && cuda()) {
      made = cudaText(set, outputs);
    } else if (o_.emit == "kernels") {
      for (const KernelSource& k : set.kernels())
        if (!k.standby) outputs.push_back({k.name + ".cpp", k.cpp});
    } else if (o_.emit == "llvm" || o_.emit == "asm") {
      made = cpuText(set, outputs);
    } else {
      made = cudaImage(set, outputs);
    }
    if (!made) return made.error();
    if (o_.emit != "kernels") note(o_.emit, clock.lap());
    return outputs;
  }

  std::vector<OpId> fusedOps() const {
    std::vector<OpId> fused;
    for (FuncId f : functionsOfProgram(m_, func()))
      forEachOp(m_, m_[f].body, [&](OpId o) {
        if (m_.record(o).regions == RegionKind::Fused) fused.push_back(o);
      });
    return fused;
  }

  // Bytes and flops of each kernel and library call on the first device.
  std::vector<WorkRow> workRows() {
    const Mesh mesh = meshValueOf(m_, func());
    KernelSet set({.target = target()});
    std::vector<WorkRow> rows;
    for (OpId o : fusedOps()) {
      auto call = set.add(m_, o);
      if (!call) continue; // reported by makeFiles
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
        row = {"matmul", 1, g->bytes(sizes), g->flops(sizes)};
        if (g->epilogue) row.name = "matmul + " + set.kernels()[g->epilogue->kernel].name;
      } else if (const auto* f = std::get_if<FactorizationCall>(&*call)) {
        row = {f->what.name(), 1, f->batch(sizes) * f->what.bytes(), f->batch(sizes) * f->what.flops()};
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

  // Collects all fused regions of the entry in program order; library calls become comments.
  Status collect(KernelSet& set, std::vector<OutputFile>& libraryCalls) {
    LapClock clock;
    for (OpId o : fusedOps()) {
      DTC_TRY(auto call, set.add(m_, o));
      if (const auto* gemm = std::get_if<GemmCall>(&call))
        libraryCalls.push_back({"library-calls.txt", gemmText(o, *gemm, set)});
      if (const auto* f = std::get_if<FactorizationCall>(&call))
        libraryCalls.push_back(
            {"library-calls.txt",
             callText(o, 0, f->what.name(), f->what.dtype, cuda() ? "cuSOLVER" : "LAPACK") + "\n"});
    }
    note("print kernels", clock.lap());
    return Ok{};
  }

  std::string callText(OpId o, uint32_t result, const std::string& what, DType dtype,
                       std::string_view library) const {
    std::string where = placeText(m_.source, m_[o].loc);
    if (!where.empty()) where = " (" + where + ")";
    return "// library call: " + printValueName(m_, m_.result(o, result)) + " = " + what + ", " +
           std::string(dtypeName(dtype)) + where + ", by " + std::string(library);
  }

  std::string gemmText(OpId o, const GemmCall& g, const KernelSet& set) const {
    std::ostringstream factors; // short, as a program would write them
    if (g.alpha != 1) factors << " times " << g.alpha;
    if (g.bias >= 0) factors << " with bias";
    if (g.residual >= 0) factors << " with residual";
    if (g.residual >= 0 && g.beta != 1) factors << " times " << g.beta;
    if (g.activation == GemmActivation::GeluTanh) factors << " with gelu";
    if (g.activation == GemmActivation::GeluTanh && g.aux >= 0) factors << " and its operand";
    if (g.activation == GemmActivation::GeluTanhGradient) factors << " with gelu's gradient";
    return callText(o, g.y, "matmul" + factors.str(), g.dtype, cuda() ? "cuBLASLt" : "oneDNN") +
           (g.epilogue ? "; epilogue kernel " + set.kernels()[g.epilogue->kernel].name : "") + "\n";
  }

  Status cpuText(const KernelSet& set, std::vector<OutputFile>& outputs) {
    CpuJit jit;
    for (const KernelSource& k : set.kernels()) {
      DTC_TRY(auto text, jit.emit({k.name, k.cpp}, o_.emit == "llvm" ? CpuText::Llvm : CpuText::Asm));
      outputs.push_back({k.name + (o_.emit == "llvm" ? ".ll" : ".s"), text});
    }
    return Ok{};
  }

  // The source of each kernel under the selected schedule, with its resource usage. Without NVRTC, the first
  // schedule is printed.
  Status cudaText(const KernelSet& set, std::vector<OutputFile>& outputs) {
    const Nvrtc nvrtc;
    std::vector<FittedKernel> fitted;
    if (nvrtc.version()) {
      DTC_TRY(fitted, fitKernels(nvrtc, set.kernels(), o_.target));
    }
    for (size_t i = 0; i < set.kernels().size(); ++i) {
      const KernelSource& k = set.kernels()[i];
      if (k.standby) continue;
      std::string text = fitted.empty() ? k.cuda : fitted[i].schedule.cuda;
      if (!fitted.empty() && !fitted[i].usage.kernel.empty())
        text = "// " + o_.target + ", " + usageText(std::span(&fitted[i].usage, 1)) +
               (fitted[i].schedule.schedule.empty() ? "" : "// " + fitted[i].schedule.schedule + "\n") + text;
      outputs.push_back({k.name + ".cu", std::move(text)});
    }
    return Ok{};
  }

  // Compiles all kernels into one image.
  Status cudaImage(const KernelSet& set, std::vector<OutputFile>& outputs) {
    SourceUnit unit{"kernels", ""};
    const Nvrtc nvrtc;
    DTC_TRY(auto fitted, fitKernels(nvrtc, set.kernels(), o_.target));
    for (size_t i = 0; i < fitted.size(); ++i)
      if (!set.kernels()[i].standby) unit.text += fitted[i].schedule.cuda + "\n";
    const bool cubin = o_.emit == "cubin";
    DTC_TRY(auto made,
            nvrtc.compile(std::span(&unit, 1), o_.target, cubin ? CudaImage::Cubin : CudaImage::Ptx));
    CudaBinary& binary = made.front();
    env_.err(usageText(binary.usage));
    outputs.push_back({cubin ? "kernels.cubin" : "kernels.ptx", std::move(binary.image)});
    return Ok{};
  }

  int write(const std::vector<OutputFile>& outputs) {
    namespace fs = std::filesystem;
    std::string all;
    for (size_t i = 0; i < outputs.size(); ++i) {
      bool gap = i > 0 && (o_.emit != "kernels" || outputs[i].fileName != outputs[i - 1].fileName);
      all += (gap ? "\n" : "") + outputs[i].text;
    }
    if (o_.out.empty() || o_.out == "-") {
      if (o_.emit == "cubin" && isatty(STDOUT_FILENO))
        return env_.fail(usageError("a cubin is binary: write it to a file with -o"));
      env_.out(all);
      return kExitDone;
    }
    std::error_code ec;
    if (outputs.size() < 2 && !o_.out.ends_with("/") && !fs::is_directory(o_.out, ec))
      return writeOut(env_, o_.out, all);
    fs::create_directories(o_.out, ec);
    if (ec) return env_.fail(machineError("cannot create the folder '" + o_.out + "': " + ec.message()));
    std::vector<OutputFile> files; // texts with the same file name are concatenated
    for (const OutputFile& p : outputs) {
      if (files.empty() || files.back().fileName != p.fileName) files.push_back({p.fileName, ""});
      files.back().text += p.text;
    }
    for (const OutputFile& f : files)
      if (int code = writeOut(env_, (fs::path(o_.out) / f.fileName).string(), f.text)) return code;
    return kExitDone;
  }

  Environment& env_;
  const CompileOptions& o_;
  PassPrinter printer_{env_, o_.printAfter};
  Session session_;
  Module& m_;
  bool diagnosed_ = false;
  std::vector<PassRemark> remarks_;
};

Result<int> runCompile(Environment& env, const CompileOptions& o) {
  if (o.json && !o.stats) return usageError("--json needs a report: add --stats");
  if (o.stats && o.emit == "ir")
    return usageError("--stats needs a schedule, but --emit ir stops before scheduling");
  const bool cuda = o.target != "cpu";
  if (auto target = targetNamed(o.target); !target) return target.error();
  if (cuda && (o.emit == "llvm" || o.emit == "asm"))
    return usageError("--emit " + o.emit + " needs --target cpu; " + o.target +
                      " supports kernels, ptx and cubin");
  if (!cuda && (o.emit == "ptx" || o.emit == "cubin"))
    return usageError("--emit " + o.emit + " needs a GPU target such as --target sm_90");
  if (o.emit == "package" && (o.out.empty() || o.out == "-"))
    return usageError("a package is binary: write it to a file with -o, such as -o model.dtcpkg");
  if (o.emit != "package" && !o.weights.empty()) return usageError("--weights needs --emit package");
  if (o.emit == "package" && o.stats) return usageError("--stats has no report for --emit package");
  if (Status s = checkChoices(o.lowering); !s) return s.error();
  if (Status s = checkPasses(o.printAfter); !s) return s.error();
  LapClock clock;
  DTC_TRY(auto m, loadProgram(env, o.program));
  DTC_TRY(auto entry, entryOf(m, o.program.entry));
  if (o.emit != "ir") // the IR may keep symbolic sizes
    if (Status s = requireSizes(m, entry); !s) return s.error();
  noteIdleFlags(env, o.lowering, levelOf(m, entry));
  Compilation compilation(env, o, std::move(m), entry);
  compilation.timing.add("parse", clock.lap());
  return compilation.run();
}

} // namespace

Verb compileVerb() {
  Verb v;
  v.name = "compile";
  v.usage = "FILE [--emit WHAT] [--target T] [flags]";
  v.summary = "run the standard pipeline and print the IR, kernels or machine code";
  v.examples = "  dtc compile examples/linear-softmax.dt --emit kernels\n"
               "  dtc compile examples/gpt.dt --target sm_90 --emit ptx -o gpt.ptx\n"
               "  dtc compile examples/gpt.dt --emit kernels -o kernels/\n"
               "  dtc compile examples/mlp.dt --emit package -o mlp.dtcpkg";
  v.declare = [](CLI::App& app) -> std::function<Result<int>(Environment&)> {
    auto o = std::make_shared<CompileOptions>();
    addProgramOptions(app, o->program);
    app.add_option("--emit", o->emit,
                   "ir: the per-device program; schedule (default): fused regions and steps; kernels: their "
                   "source; package: one "
                   "file to run without a compiler")
        ->type_name("ir|schedule|kernels|llvm|asm|ptx|cubin|package")
        ->check(CLI::IsMember({"ir", "schedule", "kernels", "llvm", "asm", "ptx", "cubin", "package"}));
    app.add_option("--target", o->target, "target to compile for")->type_name("cpu|sm_NN[a]");
    app.add_option(
           "--weights", o->weights,
           "with --emit package: the arguments of which this file has a tensor travel in the package; "
           "default: those of a .pt2 or .onnx FILE")
        ->type_name("FILE|none");
    app.add_option("-o", o->out, "output file, or folder for several files; - is standard output")
        ->type_name("OUT");
    addLoweringOptions(app, o->lowering);
    addPrintAfterOptions(app, o->printAfter);
    app.add_flag("--timing", o->timing, "print the time of each pass and phase to stderr");
    app.add_flag("--stats", o->stats,
                 "print to stderr: bytes and flops of each kernel (on GPUs also what limits it), "
                 "which values are materialized and why, and the memory plan");
    app.add_flag("--json", o->json, "print the report of --stats as JSON to standard output");
    return [o](Environment& env) { return runCompile(env, *o); };
  };
  return v;
}

} // namespace dtc
