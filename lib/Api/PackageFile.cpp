#include "dtc/Api/PackageFile.h"

#include "dtc/Api/Describe.h"
#include "dtc/IR/text/Text.h"
#include "dtc/IR/verify/Verify.h"
#include "dtc/Ops/record/Ops.h"
#include "dtc/Runtime/backend/cpu/CpuBackend.h"
#include "dtc/Support/Json.h"
#include "dtc/Support/Words.h"
#include "dtc/Version.h"

namespace dtc {
namespace {

std::string tensorsJson(const std::vector<TensorInfo>& tensors, const char* carried) {
  return joined(tensors, ",\n  ", [&](const TensorInfo& t) {
    return "{\"name\": " + jsonString(t.name) + ", \"userName\": " + jsonString(t.userName) +
           ", \"dtype\": " + jsonString(dtypeName(t.dtype)) + ", \"shape\": [" + joined(t.shape) +
           "], \"sharding\": " + jsonString(t.sharding) + (t.donated ? ", \"donated\": true" : "") +
           (t.carried >= 0 ? std::string(", \"") + carried + "\": " + std::to_string(t.carried) : "") + "}";
  });
}

std::string manifestOf(const Module& m, FuncId entry, const ProgramInfo& info, int optLevel,
                       std::span<const PackageWeight> weights) {
  const std::string axes = joined(info.mesh.axes, ", ", [](const auto& axis) {
    return jsonString(axis.first) + ": " + std::to_string(axis.second);
  });
  return "{\n \"format\": " + std::to_string(kPackageFormat) + ",\n \"dtc\": " + jsonString(DTC_VERSION) +
         ",\n \"target\": \"cpu\",\n \"cpu\": " + jsonString(cpuLevelName(hostCpuLevel())) +
         ",\n \"optLevel\": " + std::to_string(optLevel) +
         ",\n \"entry\": " + jsonString(m.strings[m[entry].name]) +
         ",\n \"mesh\": {\"name\": " + jsonString(info.mesh.name) + ", \"axes\": {" + axes +
         "}, \"devices\": " + std::to_string(info.mesh.numDevices) + "},\n \"arguments\": [" +
         tensorsJson(info.arguments, "carriedFrom") + "],\n \"results\": [" +
         tensorsJson(info.results, "carriedInto") + "],\n \"weights\": " + weightsJson(weights) + "\n}\n";
}

} // namespace

// The arguments of which the archive has a tensor, by their names in the imported program or here. One entry per value:
// tied weights share theirs.
static Result<std::vector<PackageWeight>> weightsFrom(TensorArchive& archive, const ProgramInfo& info) {
  std::vector<PackageWeight> weights;
  size_t entries = 0;
  for (const TensorInfo& a : info.arguments) {
    const std::string& name = archive.has(a.userName) ? a.userName : a.name;
    if (!archive.has(name)) continue;
    DTC_TRY(auto value, archive.tensor(name, a.dtype, &a.shape));
    const auto same = std::ranges::find_if(
        weights, [&](const PackageWeight& w) { return w.value.sharesBytes(value); });
    std::string entry = same != weights.end() ? same->entry : "weights/" + std::to_string(entries++);
    weights.push_back({a.name, std::move(entry), std::move(value)});
  }
  return weights;
}

Result<Package> makePackage(Session& session, int optLevel, TensorArchive* archive, Diagnostics& diags) {
  if (Status s = session.lower(Stage::Placed, diags); !s) return s.error();
  const auto objects = std::make_shared<KernelObjects>();
  JitConfig config;
  config.collected = objects;
  const CpuJit jit(config);
  ThreadPool pool(1);
  const auto backend = makeCpuBackend(jit, pool, session.numDevices(), config, optLevel);
  // What is loaded here is what a reader of the package loads: the text.
  Package package;
  package.program = printModule(session.module());
  const std::string entry(session.module().strings[session.module()[session.entry()].name]);
  Module m(standardOps());
  if (!parseModule({session.module().source.name, package.program}, standardOps(), m, diags) ||
      !verifyModule(m, diags))
    return inputError("");
  DTC_TRY(auto program, Executable::load(m, m.findFunction(entry), *backend, pool, {}));
  const ProgramInfo info = describeProgram(m, m.findFunction(entry), program->keptArguments());
  if (archive) {
    DTC_TRY(package.weights, weightsFrom(*archive, info));
  }
  package.manifest = manifestOf(m, m.findFunction(entry), info, optLevel, package.weights);
  package.kernels = objects->byKey;
  return package;
}

Status checkFits(const Package& package, const std::string& path) {
  const PackageNeeds& needs = package.needs;
  const std::string name = quotedPath(path);
  if (needs.target != "cpu")
    return inputError(name + " is compiled for the target " + needs.target + "; packages run on cpu");
  const auto level = parseCpuLevel(needs.cpuLevel);
  if (!level) return inputError(name + " needs an unknown instruction set: " + needs.cpuLevel);
  if (*level > hostCpuLevel())
    return machineError(name + " needs a CPU with " + needs.cpuLevel + ", but this one has " +
                        std::string(cpuLevelName(hostCpuLevel())) + ": compile it with " + kCpuLevelVariable +
                        "=" + std::string(cpuLevelName(hostCpuLevel())));
  return Ok{};
}

JitConfig packagedKernels(const Package& package, JitConfig config) {
  const auto objects = std::make_shared<KernelObjects>();
  objects->byKey = package.kernels;
  config.packaged = objects;
  config.level = parseCpuLevel(package.needs.cpuLevel);
  config.useCache = false;
  return config;
}

} // namespace dtc
