#include "dtc/Session/ProgramText.h"

#include "dtc/IR/DevicePrograms.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/IR/verify/Verify.h"
#include "dtc/Ops/record/Ops.h"
#include "dtc/Passes/analysis/PipelineOrder.h"
#include "dtc/Passes/analysis/PipelineText.h"
#include "dtc/Passes/propagate/Propagate.h"
#include "dtc/Session/Imports.h"
#include "dtc/StableHlo/import/Import.h"
#include "dtc/Support/OutOfMemory.h"
#include "dtc/Support/Suggest.h"
#include "dtc/Support/Units.h"
#include "dtc/Support/Words.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <unordered_set>

namespace dtc {

namespace {

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

// The byte offset of a 1-based line and column (in characters).
std::optional<uint32_t> offsetOf(std::string_view text, LineCol at) {
  size_t begin = 0;
  for (uint32_t line = 1; line < at.line; ++line) {
    begin = text.find('\n', begin);
    if (begin == std::string_view::npos) return std::nullopt;
    ++begin;
  }
  for (uint32_t column = 1; column < at.column && begin < text.size(); ++column) do
      ++begin;
    while (begin < text.size() && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80);
  return static_cast<uint32_t>(std::min(begin, text.size()));
}

Error cannotRead(const std::string& path, int number) {
  return {isMachineErrno(number) ? Error::Machine : Error::Input,
          "cannot read " + path + ": " + std::strerror(number)};
}

} // namespace

std::string readStream(std::FILE* file, size_t limit) {
  std::string text;
  char buffer[1 << 16];
  while (text.size() <= limit) {
    size_t n = std::fread(buffer, 1, sizeof buffer, file);
    if (n == 0) break;
    text.append(buffer, n);
  }
  return text;
}

Result<SourceText> readFile(const std::string& path, size_t limit) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (!file) return cannotRead(path, errno);
  errno = 0;
  SourceText source{path, readStream(file, limit)};
  bool failed = std::ferror(file) != 0;
  int why = errno;
  std::fclose(file);
  if (failed) return cannotRead(path, why);
  return source;
}

Result<ReadOptions> parseOptionsOf(const ProgramOptions& o) {
  ReadOptions options;
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
  for (const std::string& text : o.shardings) {
    const size_t equal = text.find('=');
    if (equal == std::string::npos || equal == 0)
      return usageError("--sharding " + text +
                        ": expected ARGUMENT=SHARDING, as in --sharding 'w=@pod{_, tp}'");
    options.shardings.push_back({text.substr(0, equal), text.substr(equal + 1)});
  }
  for (const std::string& text : o.bindings) {
    const size_t equal = text.find('=');
    if (equal == std::string::npos || equal == 0 || equal + 1 == text.size())
      return usageError("--bind " + text + ": expected INPUT=FILE.npy, as in --bind axes=axes.npy");
    const std::string name = text.substr(0, equal);
    if (std::ranges::find(options.bindings, name, &std::pair<std::string, std::string>::first) !=
        options.bindings.end())
      return usageError("--bind gives input '" + name + "' twice");
    options.bindings.emplace_back(name, text.substr(equal + 1));
  }
  options.entry = o.entry.starts_with('@') ? o.entry.substr(1) : o.entry;
  if (!options.sizes.empty()) options.symbols = std::make_shared<std::set<std::string, std::less<>>>();
  return options;
}

Status checkNoBindings(const ProgramOptions& o) {
  if (o.bindings.empty()) return Ok{};
  return usageError("--bind " + o.bindings[0].substr(0, o.bindings[0].find('=')) +
                    ": only inputs of ONNX models are bound at import");
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
  return usageError(
      "--mesh needs a global program, but " + nameOf(m, f) +
      " is already partitioned (an spmd function) for other sizes, as the program of a package is: "
      "compile the global program again with --mesh");
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
  const bool known = o.recompute == "none" || o.recompute == "gathers" || o.recompute == "cheap";
  if (!o.recompute.empty() && !known && !parseBytes(o.recompute))
    return usageError("--recompute: expected none, gathers, cheap or bytes such as 8GiB, got '" +
                      o.recompute + "'");
  const std::vector<std::string_view> rings = {"auto", "on", "off"};
  if (!o.rings.empty() && std::ranges::find(rings, o.rings) == rings.end())
    return usageError("--rings: " + unknownWord("choice", o.rings, rings));
  std::vector<std::string_view> schedules = {kNoPipeline};
  schedules.insert(schedules.end(), std::begin(kPipelineWords), std::end(kPipelineWords));
  if (!o.pipelineSchedule.empty() && std::ranges::find(schedules, o.pipelineSchedule) == schedules.end())
    return usageError("--pipeline-schedule: " + unknownWord("schedule", o.pipelineSchedule, schedules));
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
          .wholeAxisResults = wholeAxisResults,
          .recompute = recompute,
          .rings = rings,
          .pipeline = pipelineSchedule,
          .overlap = !noOverlap};
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
    if (!appendImports(source, diags)) {
      m.source = std::move(source);
      return false;
    }
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

Status annotate(Module& m, const ReadOptions& options) {
  if (Status s = declareMeshes(m, options); !s || options.shardings.empty()) return s;
  DTC_TRY(auto entries, entriesOf(m, options.entry));
  return shardArguments(m, entries, options);
}

Status loadText(SourceText source, const ReadOptions& options, Module& m, Diagnostics& diags) {
  bool good = readText(std::move(source), options, m, diags);
  if (good)
    if (Status s = annotate(m, options); !s) return s;
  good = good && verifyText(m, diags);
  if (Status s = validateOverrides(m, options, diags); !s) {
    diags.clear();
    return s;
  }
  if (!good || diags.hasErrors()) return inputError("");
  return checkOverrides(m, options);
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
      return inputError(
          placeText(m.source, m[f].loc, true) + ": " + verb + " takes one function for all devices, but " +
          nameOf(m, f) + " runs on " + devices +
          (isPipeline(m, f) ? ", a stage of a pipeline: compile it with --pipeline-schedule none" : ""));
  return Ok{};
}

Result<FuncId> entryOf(const Module& m, const std::string& entry) {
  DTC_TRY(auto entries, entriesOf(m, entry));
  if (entries.size() == 1) return entries.front();
  const std::string names = joined(entries, ", ", [&](FuncId f) { return nameOf(m, f); });
  return usageError("the module has several uncalled functions: " + names + "; choose one with --entry");
}

std::optional<Diagnostic> locatedDiagnostic(const Error& error, const SourceText& source) {
  static constexpr DiagKind kRun{"run-time", "{0}"};
  std::string_view rest = error.message;
  if (source.name.empty() || !rest.starts_with(source.name + ":")) return std::nullopt;
  rest.remove_prefix(source.name.size() + 1);
  LineCol at;
  for (uint32_t* number : {&at.line, &at.column}) {
    const auto n = takeNumber<uint32_t>(rest);
    if (!n || !rest.starts_with(':')) return std::nullopt;
    *number = *n;
    rest.remove_prefix(1);
  }
  const auto offset = offsetOf(source.text, at);
  if (!offset || !rest.starts_with(" ")) return std::nullopt;
  uint32_t end = *offset;
  auto isWord = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; };
  while (end < source.text.size() && isWord(source.text[end])) ++end;
  Diagnostic d;
  d.kind = &kRun;
  d.range = {*offset, std::max(end, *offset + 1)};
  d.args = {std::string(rest.substr(1))};
  return d;
}

} // namespace dtc
