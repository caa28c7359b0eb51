#include "RunModule.h"
#include "GraphFiles.h"
#include "Sizes.h"

#include "dtc/Api/PackageFile.h"
#include "dtc/StableHlo/import/Import.h"

#include <algorithm>

namespace dtc {

static bool anyOp(const Module& m, auto&& holds) {
  bool found = false;
  for (FuncId f : m.order) forEachOp(m, m[f].body, [&](OpId o) { found = found || holds(o); });
  return found;
}

bool hasComplexNumbers(const Module& m) {
  return anyOp(m, [&](OpId o) {
    for (uint32_t r = 0; r < m[o].numResults; ++r)
      if (isComplex(m.typeOf(m.result(o, r)).dtype)) return true;
    return std::ranges::any_of(m.operands(o), [&](ValueId v) { return isComplex(m.typeOf(v).dtype); });
  });
}

bool usesDataIndices(const Module& m) {
  const auto isIndex = [&](ValueId v) {
    return m[v].kind != ValueKind::Literal && isInteger(m.typeOf(v).dtype);
  };
  return anyOp(m, [&](OpId o) { return m.record(o).eval && std::ranges::any_of(m.operands(o), isIndex); });
}

Result<Module> withSizes(Environment& env, const RunOptions& o, const Module& m, FuncId f) {
  DTC_TRY(auto sizes, sizesFromInputs(m, f, o.inputs));
  DTC_TRY(auto options, parseOptionsOf(o.program));
  if (sizes.empty()) return m;
  options.sizes.insert(options.sizes.end(), sizes.begin(), sizes.end());
  options.entry = m.strings[m[f].name];
  if (const GraphFormat* format = graphFormatOf(env, o.program.file))
    return loadGraph(env, *format, o.program.file, options);
  return loadText(env, m.source, options);
}

Result<RunOptions> withBoundSizes(Environment& env, const RunOptions& o) {
  RunOptions out = o;
  const GraphFormat* format = o.inputs.empty() ? nullptr : graphFormatOf(env, o.program.file);
  if (!format) return out;
  DTC_TRY(auto options, parseOptionsOf(o.program));
  DTC_TRY(const auto imported, graphProblems(env, *format, o.program.file, options));
  const FuncId main = imported.module.findFunction("main");
  if (imported.complete || imported.symbols.empty() || !main.valid()) return out;
  DTC_TRY(const auto sizes, sizesFromInputs(imported.module, main, o.inputs));
  for (const auto& [name, size] : sizes) out.program.dims.push_back(name + "=" + std::to_string(size));
  return out;
}

Status checkCarries(Environment& env, const RunOptions& o, const Module& m, FuncId f,
                    const RunResults& results) {
  if (o.loop < 2) return Ok{};
  std::vector<std::string> carried;
  for (auto [r, argument] : carriedResults(m, f))
    carried.push_back((results.all[r].userName.empty() ? results.all[r].name : results.all[r].userName) +
                      " into %" + std::string(m.strings[m[m[f].args[argument].value].name]));
  const std::string n = std::to_string(o.loop);
  if (carried.empty())
    return usageError("--loop " + n + " would repeat the same step " + n + " times: no result of @" +
                      std::string(m.strings[m[f].name]) +
                      " is carried into an argument\n  in .dt, add {carry = true} to each result that is the "
                      "next step's argument of the same name\n  in JAX, donate the state: jax.jit(step, "
                      "donate_argnums=...)\n  to time the same step, use --repeat " +
                      n);
  if (!looksLikeMlir(m.source.text)) return Ok{};
  std::string list; // the importer paired them: show the pairs
  for (size_t i = 0; i < std::min<size_t>(carried.size(), 4); ++i) list += (i ? ", " : "") + carried[i];
  if (carried.size() > 4) list += " and " + std::to_string(carried.size() - 4) + " more";
  env.err("note: --loop carries " + list + " (from the donated arguments)\n");
  return Ok{};
}

Status usePackage(Environment& env, RunOptions& o) {
  if (!env.package) return Ok{};
  if (Status s = checkFits(*env.package, o.program.file); !s) return s;
  const std::string& target = env.package->needs.target;
  if (target == "cpu" && o.backend != "cpu")
    return usageError("a package runs with --backend cpu, for which its kernels are compiled");
  if (target != "cpu" && o.backend == "cpu")
    return usageError("the package is compiled for " + target +
                      ": add --backend cuda, or cuda-emu to compile its text for the emulator");
  o.lowering.optLevel = env.package->needs.optLevel;
  if (o.program.entry.empty()) o.program.entry = env.package->needs.entry;
  return Ok{};
}

} // namespace dtc
