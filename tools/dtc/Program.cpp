#include "Program.h"

#include "GraphFiles.h"
#include "Verbs.h"
#include "dtc/Files/TensorFiles.h"
#include "dtc/IR/verify/Verify.h"
#include "dtc/Ops/record/Ops.h"
#include "dtc/Passes/analysis/PipelineOrder.h"
#include "dtc/Passes/pipeline/Pipeline.h"
#include "dtc/Report/FileFormat.h"
#include "dtc/Report/audit/XlaHlo.h"
#include "dtc/StableHlo/import/Import.h"
#include "dtc/StableHlo/vhlo/Vhlo.h"
#include "dtc/Support/Words.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

namespace dtc {

Status checkPageName(const std::string& out) {
  const std::string ending = std::filesystem::path(out).extension().string();
  if (ending.empty() || ending == ".html" || ending == ".json") return Ok{};
  return usageError("cannot write " + ending + " files: -o takes .html, or .json for the data of the page");
}

int writeOut(Environment& env, const std::string& path, const std::string& text) {
  if (path == "-") {
    env.out(text);
    return kExitDone;
  }
  Status written = writeFileAtomically(path, text);
  return written ? kExitDone : env.fail(written.error());
}

void addBindOption(CLI::App& app, ProgramOptions& o) {
  app.add_option("--bind", o.bindings,
                 "the value of an input that shapes of an ONNX model depend on: axes=axes.npy")
      ->type_name("INPUT=FILE.npy")
      ->allow_extra_args(false);
}

void addProgramOptions(CLI::App& app, ProgramOptions& o) {
  app.add_option("FILE", o.file, "a .dt, StableHLO or PyTorch (.pt2) program; - is standard input")
      ->type_name("");
  app.add_option("--entry", o.entry, "entry function (default: @main, or the only uncalled function)")
      ->type_name("@f");
  app.add_option("--mesh", o.meshes, "override the sizes of a mesh, or declare it: pod=dp:4,tp:2")
      ->type_name("SIZES")
      ->allow_extra_args(false);
  app.add_option("--dim", o.dims, "bind a symbolic size: B=64")->type_name("NAME=N")->allow_extra_args(false);
  app.add_option("--sharding", o.shardings, "shard an argument, or those of a pattern: 'w=@pod{_, tp}'")
      ->type_name("ARG=SHARDING")
      ->allow_extra_args(false);
  addBindOption(app, o);
}

void noteIdleFlags(Environment& env, const LoweringFlags& given, Level from) {
  const LoweringFlags none;
  const auto passes = [](Level level, const LoweringFlags& flags) {
    return pipelineText(standardPipeline(level, flags.pipeline()).all());
  };
  const auto one = [&](const std::string& flag, auto LoweringFlags::* field) {
    LoweringFlags alone;
    alone.*field = given.*field;
    if (passes(Level::Global, alone) != passes(Level::Global, none) &&
        passes(from, alone) == passes(from, none))
      env.err("note: " + flag + " does not change the text of this program, which is already " +
              std::string(levelName(from)) + "\n");
  };
  one("-O" + std::to_string(given.optLevel), &LoweringFlags::optLevel);
  one("--policy " + given.policy, &LoweringFlags::policy);
  one("--reduce-dtype " + given.reduceDType, &LoweringFlags::reduceDType);
  one("--strict-nonfinite", &LoweringFlags::strictNonFinite);
  one("--library-gelu", &LoweringFlags::libraryGelu);
  one("--recompute " + given.recompute, &LoweringFlags::recompute);
  one("--rings " + given.rings, &LoweringFlags::rings);
  one("--pipeline-schedule " + given.pipelineSchedule, &LoweringFlags::pipelineSchedule);
  one("--no-overlap", &LoweringFlags::noOverlap);
}

void addPropagationOptions(CLI::App& app, LoweringFlags& o) {
  app.add_option("--policy", o.policy, "how propagation resolves sharding conflicts")
      ->type_name("shardy|dtensor|cost|explicit");
  app.add_option("--reduce-dtype", o.reduceDType, "communication dtype of sums over devices, a float dtype")
      ->type_name("DTYPE");
  app.add_flag("--strict-nonfinite", o.strictNonFinite,
               "use only sharding rules that preserve infinities and NaN");
}

void addPipelineOption(CLI::App& app, LoweringFlags& o) {
  app.add_option("--pipeline-schedule", o.pipelineSchedule,
                 "the order of micro-batches on a mesh with an axis 'pp' (default " +
                     std::string(pipelineWordOf(kDefaultPipeline)) +
                     "); none: every device computes all stages")
      ->type_name(joined(kPipelineWords, "|") + "|" + kNoPipeline);
}

void addLoweringOptions(CLI::App& app, LoweringFlags& o) {
  app.add_option(
         "-O", o.optLevel,
         "0: no fusion, fast compilation; 1: fusion; 2: also a fixed schedule or CUDA graphs; 3: also "
         "autotuned kernel schedules")
      ->type_name("0..3")
      ->check(CLI::Range(0, 3));
  addPropagationOptions(app, o);
  app.add_option("--reduction-order", o.reductionOrder, "fixed: bitwise reproducible across meshes")
      ->type_name("any|fixed")
      ->check(CLI::IsMember({"any", "fixed"}));
  app.add_flag("--library-gelu", o.libraryGelu,
               "fuse gelu's tanh form and its gradient into the cuBLASLt epilogue (tanh within 2^-11)");
  app.add_option("--recompute", o.recompute,
                 "compute values again in the backward part: nothing, gathered ones (default), cheap ones, "
                 "or as this "
                 "memory needs")
      ->type_name("none|gathers|cheap|BYTES");
  app.add_option(
         "--rings", o.rings,
         "overlap matmuls with their all_gather or reduce_scatter, as rings of chunks (default auto: on a "
         "GPU, where it is faster)")
      ->type_name("auto|on|off");
  addPipelineOption(app, o);
  app.add_flag("--no-overlap", o.noOverlap, "do not overlap collectives with kernels");
}

Result<Module> loadText(Environment& env, SourceText source, const ReadOptions& options) {
  env.currentSource = source;
  Module m(standardOps());
  Diagnostics diags;
  const Status loaded = loadText(std::move(source), options, m, diags);
  env.report(diags, m.source);
  if (!loaded) return loaded.error();
  if (options.symbols && options.symbols->empty())
    env.err("note: --dim does not change this program, whose sizes are bound already\n");
  return m;
}

Result<Module> loadImported(Environment& env, SourceText source) {
  env.currentSource = source;
  Module m(standardOps());
  Diagnostics diags;
  const bool good = importMlir(std::move(source), standardOps(), m, diags) && verifyText(m, diags);
  const bool errors = env.report(diags, m.source) != kExitDone;
  if (!good || errors) return inputError("");
  return m;
}

static Result<SourceText> packageText(Environment& env, std::shared_ptr<const InputFile> file) {
  const std::string name = file->path() + "/program.dt";
  DTC_TRY(env.package, readPackage(std::move(file)));
  return SourceText{name, std::move(env.package->program)};
}

Result<SourceText> readProgram(Environment& env, const ProgramOptions& o, bool hlo) {
  if (o.file.empty()) return usageError("missing program: name a .dt file, or - for standard input");
  if (const GraphFormat* format = graphFormatOf(env, o.file)) {
    DTC_TRY(const auto options, parseOptionsOf(o));
    ReadOptions own; // sizes and meshes are bound when the text is parsed
    own.bindings = options.bindings;
    DTC_TRY(auto m, loadGraph(env, *format, o.file, own));
    return SourceText{o.file + " (imported)", printModule(m)};
  }
  if (Status s = checkNoBindings(o); !s) return s.error();
  if (isPackageFile(o.file)) {
    DTC_TRY(auto file, InputFile::open(o.file));
    return packageText(env, std::make_shared<const InputFile>(std::move(file)));
  }
  DTC_TRY(auto source, env.read(o.file, kMaxProgramBytes));
  if (hlo && looksLikeXlaHlo(source.text)) return source;
  if (looksLikeVhlo(source.text)) {
    DTC_TRY(auto text, vhloText(source.name, source.text));
    return SourceText{source.name + " (as text)", std::move(text)};
  }
  if (looksLikePackage(source.text)) // standard input
    return usageError("a package is read from a file, not from standard input: give its path");
  if (const std::string format = foreignFormat(source.text); !format.empty())
    return inputError(source.name + " is " + format);
  return source;
}

Result<Module> loadPartly(Environment& env, const ProgramOptions& o, Diagnostics& diags) {
  DTC_TRY(const auto options, parseOptionsOf(o));
  if (const GraphFormat* format = graphFormatOf(env, o.file)) return loadGraph(env, *format, o.file, options);
  DTC_TRY(auto source, readProgram(env, o));
  env.currentSource = source;
  Module m(standardOps());
  const Status loaded = loadText(std::move(source), options, m, diags);
  env.report(diags, m.source);
  const bool parsed =
      std::ranges::any_of(m.order, [&](FuncId f) { return m[f].body.valid() && !m[m[f].body].ops.empty(); });
  if (!loaded && (!diags.hasErrors() || !parsed)) return loaded.error();
  return m;
}

Result<Module> loadProgram(Environment& env, const ProgramOptions& o) {
  DTC_TRY(const auto options, parseOptionsOf(o));
  if (const GraphFormat* format = graphFormatOf(env, o.file)) return loadGraph(env, *format, o.file, options);
  DTC_TRY(auto source, readProgram(env, o));
  return loadText(env, std::move(source), options);
}

} // namespace dtc
