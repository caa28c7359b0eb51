#include "Program.h"

#include "Verbs.h"
#include "dtc/Import/FileFormat.h"
#include "dtc/Import/Import.h"
#include "dtc/Import/XlaHlo.h"
#include "dtc/Ops/Ops.h"
#include "dtc/Passes/Propagate.h"
#include "dtc/Runtime/TensorFiles.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <unordered_set>

namespace dtc {

namespace {

constexpr size_t kMaxFileBytes = 256u << 20; // as much as the parser takes

std::optional<int64_t> positive(std::string_view text) {
  int64_t n = 0;
  auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (bad != std::errc() || end != text.data() + text.size() || n < 0) return std::nullopt;
  return n;
}

std::vector<std::string_view> cutAt(std::string_view text, char separator) {
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
  for (std::string_view axis : cutAt(text.substr(equal + 1), ',')) {
    size_t colon = axis.find(':');
    if (colon == std::string_view::npos || colon == 0) return malformed;
    auto size = positive(axis.substr(colon + 1));
    if (!size || *size < 1 || *size > INT32_MAX)
      return usageError("--mesh " + std::string(text) + ": expected a size of axis '" +
                        std::string(axis.substr(0, colon)) + "' in [1, 2147483647], got '" +
                        std::string(axis.substr(colon + 1)) + "'");
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
  app.add_option("FILE", o.file, "the program, a .dt file; - is standard input")->type_name("");
  app.add_option("--entry", o.entry, "the function to work on")->type_name("@f");
  app.add_option("--mesh", o.meshes, "other sizes for a mesh: pod=dp:4,tp:2")
      ->type_name("SIZES")
      ->allow_extra_args(false);
  app.add_option("--dim", o.dims, "a number for a symbolic size: B=64")
      ->type_name("NAME=N")
      ->allow_extra_args(false);
}

Result<ParseOptions> parseOptionsOf(const ProgramOptions& o) {
  ParseOptions options;
  for (const std::string& text : o.meshes) {
    auto sizes = meshSizes(text);
    if (!sizes) return sizes.error();
    options.meshes.push_back(std::move(*sizes));
  }
  for (std::string_view text : o.dims)
    for (std::string_view one : cutAt(text, ',')) {
      size_t equal = one.find('=');
      auto size =
          equal == std::string_view::npos || equal == 0 ? std::nullopt : positive(one.substr(equal + 1));
      if (!size) return usageError("--dim " + std::string(text) + ": expected NAME=NUMBER, as in --dim B=64");
      options.sizes.emplace_back(one.substr(0, equal), *size);
    }
  options.entry = o.entry.starts_with('@') ? o.entry.substr(1) : o.entry;
  if (!options.sizes.empty()) options.symbols = std::make_shared<std::set<std::string, std::less<>>>();
  return options;
}

// --mesh changes the sizes of a global program; the types of an spmd function already have the mesh's sizes in them.
static Status partitionedAlready(const Module& m, const ParseOptions& options) {
  if (options.meshes.empty()) return Ok{};
  for (FuncId f : m.order)
    if (m[f].spmd)
      return usageError("--mesh takes a global program; this one is partitioned (" + nameOf(m, f) +
                        " is an spmd function): give the text that it was made from");
  return Ok{};
}

Status overrideProblem(const Module& m, const ParseOptions& options, const Diagnostics& diags) {
  if (options.meshes.empty()) return Ok{};
  for (const Diagnostic& d : diags.all())
    if (d.severity == Severity::Error && d.kind &&
        (std::string_view(d.kind->id) == "mesh-override" || std::string_view(d.kind->id) == "mesh-too-large"))
      return usageError("--mesh: " + d.message());
  return partitionedAlready(m, options);
}

Status checkChoices(const std::string& policy, const std::string& reduceDType) {
  if (!policy.empty() && !parsePolicy(policy))
    return usageError("--policy: " +
                      unknownWord("policy", policy, {"shardy", "dtensor", "cost", "explicit"}));
  const auto dtype = parseDType(reduceDType);
  if (!reduceDType.empty() && (!dtype || !isFloat(*dtype)))
    return usageError("--reduce-dtype takes a float dtype such as bf16 or f32, not '" + reduceDType + "'");
  return Ok{};
}

Status checkOverrides(const Module& m, const ParseOptions& options) {
  for (const auto& [name, size] : options.sizes)
    if (options.symbols && !options.symbols->contains(name)) {
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
  if (!looksLikeMlir(source.text)) return parseModule(std::move(source), standardOps(), m, diags, options);
  if (!importMlir(std::move(source), standardOps(), m, diags)) return false;
  if (options.meshes.empty() && options.sizes.empty()) return true;
  if (!verifyModule(m, diags)) return false;
  SourceText text{m.source.name + " (imported)", printModule(m)}; // sizes are bound where .dt text is read
  m = Module(standardOps());
  return parseModule(std::move(text), standardOps(), m, diags, options);
}

namespace {

std::optional<Module> verified(Environment& env, bool good, Module& m, Diagnostics& diags,
                               const ParseOptions& options, int& exitCode) {
  good = good && verifyModule(m, diags);
  if (Status s = overrideProblem(m, options, diags); !s) {
    exitCode = env.fail(s.error());
    return std::nullopt;
  }
  exitCode = env.report(diags, m.source);
  if (good && !exitCode) return std::move(m);
  exitCode = kExitInput;
  return std::nullopt;
}

} // namespace

std::optional<Module> loadText(Environment& env, SourceText source, const ParseOptions& options,
                               int& exitCode) {
  env.currentSource = source;
  Module m(standardOps());
  Diagnostics diags;
  bool good = readText(std::move(source), options, m, diags);
  std::optional<Module> read = verified(env, good, m, diags, options, exitCode);
  if (!read) return read;
  if (auto fits = checkOverrides(*read, options); !fits) {
    exitCode = env.fail(fits.error());
    return std::nullopt;
  }
  return read;
}

std::optional<Module> loadImported(Environment& env, SourceText source, int& exitCode) {
  env.currentSource = source;
  Module m(standardOps());
  Diagnostics diags;
  bool good = importMlir(std::move(source), standardOps(), m, diags);
  return verified(env, good, m, diags, {}, exitCode);
}

std::optional<SourceText> readProgram(Environment& env, const ProgramOptions& o, int& exitCode, bool hlo) {
  if (o.file.empty()) {
    exitCode = env.fail(usageError("which program? Name a .dt file, or - for standard input"));
    return std::nullopt;
  }
  auto source = env.read(o.file, kMaxFileBytes);
  if (!source) {
    exitCode = env.fail(source.error());
    return std::nullopt;
  }
  if (hlo && looksLikeXlaHlo(source->text)) return std::move(*source);
  if (const std::string format = foreignFormat(source->text); !format.empty()) {
    exitCode = env.fail(inputError(source->name + " is " + format));
    return std::nullopt;
  }
  return std::move(*source);
}

std::optional<Module> loadProgram(Environment& env, const ProgramOptions& o, int& exitCode) {
  auto options = parseOptionsOf(o);
  if (!options) {
    exitCode = env.fail(options.error());
    return std::nullopt;
  }
  auto source = readProgram(env, o, exitCode);
  return source ? loadText(env, std::move(*source), *options, exitCode) : std::nullopt;
}

Result<std::vector<FuncId>> entriesOf(const Module& m, const std::string& entry) {
  std::vector<FuncId> all;
  for (FuncId f : m.order)
    if (m[f].body.valid()) all.push_back(f);
  if (!entry.empty()) {
    std::string_view name = entry;
    if (name.starts_with('@')) name.remove_prefix(1);
    if (FuncId f = m.findFunction(name); f.valid()) return std::vector<FuncId>{f};
    std::vector<std::string_view> known;
    for (FuncId f : all) known.push_back(m.strings[m[f].name]);
    return usageError("--entry: " + unknownWord("function", name, known));
  }
  if (FuncId f = m.findFunction("main"); f.valid()) return std::vector<FuncId>{f};
  std::unordered_set<StrId> called;
  collectCalled(m, called);
  std::vector<FuncId> roots;
  for (FuncId f : all)
    if (!called.contains(m[f].name)) roots.push_back(f);
  if (roots.empty()) return inputError("the module has no function to run");
  return roots;
}

Result<FuncId> entryOf(const Module& m, const std::string& entry) {
  auto entries = entriesOf(m, entry);
  if (!entries) return entries.error();
  if (entries->size() == 1) return entries->front();
  std::string names;
  for (FuncId f : *entries) names += (names.empty() ? "" : ", ") + nameOf(m, f);
  return usageError("the module has several functions that no other calls: " + names +
                    "; choose one with --entry");
}

} // namespace dtc
