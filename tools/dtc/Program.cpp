#include "Program.h"

#include "Verbs.h"
#include "dtc/Files/TensorFiles.h"
#include "dtc/IR/DevicePrograms.h"
#include "dtc/IR/verify/Verify.h"
#include "dtc/Ops/record/Ops.h"
#include "dtc/Passes/pipeline/Pipeline.h"
#include "dtc/Passes/propagate/Propagate.h"
#include "dtc/Report/FileFormat.h"
#include "dtc/Report/audit/XlaHlo.h"
#include "dtc/StableHlo/import/Import.h"
#include "dtc/Support/Words.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <unordered_set>

namespace dtc {

namespace {

constexpr size_t kMaxFileBytes = 256u << 20; // the parser's limit

std::optional<int64_t> positive(std::string_view text) {
  const auto n = parseNumber<int64_t>(text);
  return n && *n >= 0 ? n : std::nullopt;
}

std::vector<std::string_view> splitAt(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// "pod=dp:4,tp:2"
Result<ParseOptions::MeshSizes> meshSizes(std::string_view text) {
  Error malformed =
      usageError("--mesh " + std::string(text) + ": expected MESH=AXIS:SIZE,…, as in --mesh pod=dp:4,tp:2");
  size_t equal = text.find('=');
  if (equal == std::string_view::npos || equal == 0) return malformed;
  ParseOptions::MeshSizes sizes;
  std::string_view name = text.substr(0, equal);
  sizes.mesh = name.starts_with('@') ? name.substr(1) : name;
  for (std::string_view axis : splitAt(text.substr(equal + 1), ',')) {
    size_t colon = axis.find(':');
    if (colon == std::string_view::npos || colon == 0) return malformed;
    auto size = positive(axis.substr(colon + 1));
    if (!size || *size < 1 || *size > INT32_MAX)
      return usageError("--mesh " + std::string(text) + ": expected a size of axis '" +
                        std::string(axis.substr(0, colon)) + "' in [1, 2147483647], got '" +
                        std::string(axis.substr(colon + 1)) + "'");
    if (std::ranges::find(sizes.axes, axis.substr(0, colon), &std::pair<std::string, int64_t>::first) !=
        sizes.axes.end())
      return usageError("--mesh " + std::string(text) + " gives axis '" + std::string(axis.substr(0, colon)) +
                        "' twice");
    sizes.axes.emplace_back(axis.substr(0, colon), *size);
  }
  return sizes;
}

void collectCalled(const Module& m, std::unordered_set<StrId>& called) {
  for (FuncId f : m.order)
    if (m[f].body.valid())
      forEachOp(m, m[f].body, [&](OpId o) {
        if (m[o].callee.valid() && m[o].callee != m[f].name) called.insert(m[o].callee);
      });
}

std::string nameOf(const Module& m, FuncId f) { return "@" + std::string(m.strings[m[f].name]); }

} // namespace

int writeOut(Environment& env, const std::string& path, const std::string& text) {
  if (path == "-") {
    env.out(text);
    return kExitDone;
  }
  Status written = writeFileAtomically(path, text);
  return written ? kExitDone : env.fail(written.error());
}

void addProgramOptions(CLI::App& app, ProgramOptions& o) {
  app.add_option("FILE", o.file, "a .dt or StableHLO program; - is standard input")->type_name("");
  app.add_option("--entry", o.entry, "entry function (default: @main, or the only uncalled function)")
      ->type_name("@f");
  app.add_option("--mesh", o.meshes, "override the sizes of a mesh: pod=dp:4,tp:2")
      ->type_name("SIZES")
      ->allow_extra_args(false);
  app.add_option("--dim", o.dims, "bind a symbolic size: B=64")->type_name("NAME=N")->allow_extra_args(false);
}

Result<ParseOptions> parseOptionsOf(const ProgramOptions& o) {
  ParseOptions options;
  for (const std::string& text : o.meshes) {
    DTC_TRY(auto sizes, meshSizes(text));
    if (std::ranges::find(options.meshes, sizes.mesh, &ParseOptions::MeshSizes::mesh) != options.meshes.end())
      return usageError("--mesh gives mesh '" + sizes.mesh + "' twice");
    options.meshes.push_back(std::move(sizes));
  }
  for (std::string_view text : o.dims)
    for (std::string_view one : splitAt(text, ',')) {
      size_t equal = one.find('=');
      auto size =
          equal == std::string_view::npos || equal == 0 ? std::nullopt : positive(one.substr(equal + 1));
      if (!size) return usageError("--dim " + std::string(text) + ": expected NAME=NUMBER, as in --dim B=64");
      const std::string name(one.substr(0, equal));
      if (std::ranges::find(options.sizes, name, &std::pair<std::string, int64_t>::first) !=
          options.sizes.end())
        return usageError("--dim gives size '" + name + "' twice");
      options.sizes.emplace_back(name, *size);
    }
  options.entry = o.entry.starts_with('@') ? o.entry.substr(1) : o.entry;
  if (!options.sizes.empty()) options.symbols = std::make_shared<std::set<std::string, std::less<>>>();
  return options;
}

static FuncId partitioned(const Module& m) {
  const auto found = std::ranges::find_if(m.order, [&](FuncId f) { return m[f].spmd; });
  return found == m.order.end() ? FuncId() : *found;
}

// Whether the text itself has meshes of these sizes.
static bool hasMeshes(const SourceText& source, const ParseOptions& options) {
  Module m(standardOps());
  Diagnostics quiet;
  if (!parseModule(source, standardOps(), m, quiet)) return false;
  for (const ParseOptions::MeshSizes& sizes : options.meshes) {
    const MeshId id = m.shardings.findMesh(m.strings.find(sizes.mesh));
    if (!id.valid()) return false;
    const Mesh& mesh = m.shardings.mesh(id);
    for (const auto& [name, size] : sizes.axes) {
      const int i = mesh.axisIndex(m.strings.find(name));
      if (i < 0 || mesh.axes[static_cast<size_t>(i)].size != size) return false;
    }
  }
  return true;
}

// The local types of an spmd function depend on the mesh: --mesh may only repeat its sizes.
static Status partitionedAlready(const Module& m, const ParseOptions& options) {
  const FuncId f = options.meshes.empty() ? FuncId() : partitioned(m);
  if (!f.valid() || hasMeshes(m.source, options)) return Ok{};
  return usageError("--mesh needs a global program, but " + nameOf(m, f) +
                    " is already partitioned (an spmd function) for other sizes");
}

Status validateOverrides(const Module& m, const ParseOptions& options, const Diagnostics& diags) {
  if (options.meshes.empty()) return Ok{};
  for (const Diagnostic& d : diags.all())
    if (d.severity == Severity::Error && d.kind &&
        (std::string_view(d.kind->id) == "mesh-override" || std::string_view(d.kind->id) == "mesh-too-large"))
      return usageError("--mesh: " + d.message());
  return partitionedAlready(m, options);
}

Status checkChoices(const LoweringFlags& o) {
  if (!o.policy.empty() && !parsePolicy(o.policy))
    return usageError("--policy: " +
                      unknownWord("policy", o.policy, {"shardy", "dtensor", "cost", "explicit"}));
  const auto dtype = parseDType(o.reduceDType);
  if (!o.reduceDType.empty() && (!dtype || !isFloat(*dtype)))
    return usageError("--reduce-dtype: expected a float dtype such as bf16 or f32, got '" + o.reduceDType +
                      "'");
  return Ok{};
}

StandardPipelineOptions LoweringFlags::pipeline(std::string target) const {
  return {.optLevel = optLevel,
          .policy = policy,
          .reduceDType = reduceDType,
          .fixedReductionOrder = reductionOrder == "fixed",
          .target = std::move(target),
          .libraryGelu = libraryGelu,
          .strictNonFinite = strictNonFinite,
          .overlap = !noOverlap};
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
  app.add_flag("--no-overlap", o.noOverlap, "do not overlap collectives with kernels");
}

Status checkOverrides(const Module& m, const ParseOptions& options) {
  for (const auto& [name, size] : options.sizes)
    if (options.symbols && !options.symbols->contains(name)) {
      if (options.symbols->empty() && partitioned(m).valid()) continue; // bound when it was compiled
      const std::vector<std::string_view> symbols(options.symbols->begin(), options.symbols->end());
      return usageError("--dim: " + unknownWord("symbolic size", name, symbols));
    }
  if (options.meshes.empty()) return Ok{};
  std::vector<std::string_view> known;
  for (uint32_t i = 0; i < m.shardings.numMeshes(); ++i)
    known.push_back(m.strings[m.shardings.mesh(MeshId(i)).name]);
  for (const ParseOptions::MeshSizes& o : options.meshes)
    if (std::find(known.begin(), known.end(), o.mesh) == known.end())
      return usageError("--mesh: " + unknownWord("mesh", o.mesh, known));
  return partitionedAlready(m, options);
}

bool readText(SourceText source, const ParseOptions& options, Module& m, Diagnostics& diags) {
  if (!looksLikeMlir(source.text)) {
    std::vector<FuncId> sound;
    const bool parsed = parseModule(std::move(source), standardOps(), m, diags, options, &sound);
    if (!parsed) verifyFunctions(m, sound, diags);
    return parsed;
  }
  if (!importMlir(std::move(source), standardOps(), m, diags)) return false;
  if (options.meshes.empty() && options.sizes.empty()) return true;
  if (!verifyModule(m, diags)) return false;
  SourceText text{m.source.name + " (imported)", printModule(m)}; // sizes are bound when .dt text is parsed
  m = Module(standardOps());
  return parseModule(std::move(text), standardOps(), m, diags, options);
}

static Result<Module> verified(Environment& env, bool good, Module& m, Diagnostics& diags,
                               const ParseOptions& options) {
  good = good && verifyText(m, diags);
  if (Status s = validateOverrides(m, options, diags); !s) return s.error();
  const bool errors = env.report(diags, m.source) != kExitDone;
  if (!good || errors) return inputError("");
  return std::move(m);
}

Result<Module> loadText(Environment& env, SourceText source, const ParseOptions& options) {
  env.currentSource = source;
  Module m(standardOps());
  Diagnostics diags;
  bool good = readText(std::move(source), options, m, diags);
  DTC_TRY(auto read, verified(env, good, m, diags, options));
  if (auto fits = checkOverrides(read, options); !fits) return fits.error();
  if (options.symbols && options.symbols->empty())
    env.err("note: --dim does not change this program, whose sizes are bound already\n");
  return read;
}

Result<Module> loadImported(Environment& env, SourceText source) {
  env.currentSource = source;
  Module m(standardOps());
  Diagnostics diags;
  bool good = importMlir(std::move(source), standardOps(), m, diags);
  return verified(env, good, m, diags, {});
}

Result<SourceText> readProgram(Environment& env, const ProgramOptions& o, bool hlo) {
  if (o.file.empty()) return usageError("missing program: name a .dt file, or - for standard input");
  DTC_TRY(auto source, env.read(o.file, kMaxFileBytes));
  if (hlo && looksLikeXlaHlo(source.text)) return source;
  if (const std::string format = foreignFormat(source.text); !format.empty())
    return inputError(source.name + " is " + format);
  return source;
}

Result<Module> loadProgram(Environment& env, const ProgramOptions& o) {
  DTC_TRY(const auto options, parseOptionsOf(o));
  DTC_TRY(auto source, readProgram(env, o));
  return loadText(env, std::move(source), options);
}

Result<std::vector<FuncId>> entriesOf(const Module& m, const std::string& entry) {
  std::vector<FuncId> all;
  for (FuncId f : m.order)
    if (m[f].body.valid()) all.push_back(f);
  if (!entry.empty()) {
    std::string_view name = entry;
    if (name.starts_with('@')) name.remove_prefix(1);
    if (FuncId f = m.findFunction(name); f.valid()) return std::vector<FuncId>{entryOfProgram(m, f)};
    std::vector<std::string_view> known;
    for (FuncId f : all) known.push_back(m.strings[m[f].name]);
    return usageError("--entry: " + unknownWord("function", name, known));
  }
  if (FuncId f = m.findFunction("main"); f.valid()) return std::vector<FuncId>{f};
  std::unordered_set<StrId> called;
  collectCalled(m, called);
  std::vector<FuncId> roots;
  for (FuncId f : all)
    if (!called.contains(m[f].name) && entryOfProgram(m, f) == f) roots.push_back(f);
  if (m.source.text.find_first_not_of(" \t\r\n") == std::string::npos)
    return inputError(m.source.name + " is empty; expected a program");
  if (roots.empty()) return inputError(m.source.name + " has no function to run");
  return roots;
}

Status runsOnAllDevices(const Module& m, const std::string& verb) {
  for (FuncId f : m.order)
    if (const std::string devices = devicesText(m, f); !devices.empty())
      return inputError(verb + " takes one function for all devices, but " + nameOf(m, f) + " runs on " +
                        devices);
  return Ok{};
}

Result<FuncId> entryOf(const Module& m, const std::string& entry) {
  DTC_TRY(auto entries, entriesOf(m, entry));
  if (entries.size() == 1) return entries.front();
  const std::string names = joined(entries, ", ", [&](FuncId f) { return nameOf(m, f); });
  return usageError("the module has several uncalled functions: " + names + "; choose one with --entry");
}

} // namespace dtc
