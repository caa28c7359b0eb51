#include "dtc/Api/PackageFile.h"

#include "dtc/Api/Describe.h"
#include "dtc/IR/text/Text.h"
#include "dtc/IR/verify/Verify.h"
#include "dtc/Ops/record/Ops.h"
#include "dtc/Runtime/backend/cpu/CpuBackend.h"
#include "dtc/Support/Json.h"
#include "dtc/Support/Words.h"
#include "dtc/Version.h"

#include <algorithm>

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

std::string manifestOf(const Package& package, const ProgramInfo& info) {
  const PackageNeeds& needs = package.needs;
  const std::string axes = joined(info.mesh.axes, ", ", [](const auto& axis) {
    return jsonString(axis.first) + ": " + std::to_string(axis.second);
  });
  return "{\n \"format\": " + std::to_string(kPackageFormat) + ",\n \"dtc\": " + jsonString(DTC_VERSION) +
         ",\n \"target\": " + jsonString(needs.target) + ",\n \"cpu\": " + jsonString(needs.cpuLevel) +
         ",\n \"optLevel\": " + std::to_string(needs.optLevel) + ",\n \"entry\": " + jsonString(needs.entry) +
         ",\n \"mesh\": {\"name\": " + jsonString(info.mesh.name) + ", \"axes\": {" + axes +
         "}, \"devices\": " + std::to_string(info.mesh.numDevices) + "},\n \"arguments\": [" +
         tensorsJson(info.arguments, "carriedFrom") + "],\n \"results\": [" +
         tensorsJson(info.results, "carriedInto") + "],\n \"weights\": " + weightsJson(package.weights) +
         "\n}\n";
}

} // namespace

// The arguments of which the archive has a tensor, by their names in the imported program or here. One entry per value:
// tied weights share theirs.
static Result<std::vector<PackageWeight>> weightsFrom(TensorArchive& archive, const ProgramInfo& info) {
  if (Status s = checkMatches(archive, info); !s) return s.error();
  std::vector<PackageWeight> weights;
  size_t entries = 0;
  for (const TensorInfo& a : info.arguments) {
    const std::string name = nameIn(archive, a);
    if (name.empty()) continue;
    DTC_TRY(auto value, archive.tensor(name, a.dtype, &a.shape));
    const auto same =
        std::ranges::find_if(weights, [&](const PackageWeight& w) { return w.value.sharesBytes(value); });
    std::string entry = same != weights.end() ? same->entry : "weights/" + std::to_string(entries++);
    weights.push_back({a.name, std::move(entry), std::move(value)});
  }
  return weights;
}

// The machine code of a placed program for this CPU.
static Status collectCpu(Module& m, FuncId entry, int optLevel,
                         const std::shared_ptr<KernelObjects>& objects) {
  JitConfig config;
  config.collected = objects;
  const CpuJit jit(config);
  ThreadPool pool(1);
  const auto backend = makeCpuBackend(jit, pool, meshValueOf(m, entry).numDevices(), config, optLevel);
  auto program = Executable::load(m, entry, *backend, pool, {});
  return program ? Status(Ok{}) : Status(program.error());
}

// The same for a GPU, which need not be here.
static Status collectCuda(Module& m, FuncId entry, const std::string& arch,
                          const std::shared_ptr<KernelObjects>& objects) {
  JitConfig config;
  config.collected = objects;
  const Nvrtc nvrtc(config);
  DTC_TRY(const auto backend, makeCudaCollector(nvrtc, arch));
  ThreadPool pool(1);
  auto program = Executable::load(m, entry, *backend, pool, {});
  return program ? Status(Ok{}) : Status(program.error());
}

Result<Package> makePackage(Session& session, const std::string& target, int optLevel, TensorArchive* archive,
                            Diagnostics& diags) {
  if (Status s = session.lower(Stage::Placed, diags); !s) return s.error();
  // What is loaded here is what a reader of the package loads: the text.
  Package package;
  package.program = printModule(session.module());
  const std::string name(session.module().strings[session.module()[session.entry()].name]);
  package.needs = {kPackageFormat, DTC_VERSION, target, std::string(cpuLevelName(hostCpuLevel())),
                   name,           optLevel};
  Module m(standardOps());
  if (!parseModule({session.module().source.name, package.program}, standardOps(), m, diags) ||
      !verifyModule(m, diags))
    return inputError("");
  const FuncId entry = m.findFunction(name);
  const auto objects = std::make_shared<KernelObjects>();
  if (Status s =
          target == "cpu" ? collectCpu(m, entry, optLevel, objects) : collectCuda(m, entry, target, objects);
      !s)
    return s.error();
  const ProgramInfo info = describeProgram(m, entry, keptArgumentsOf(m, entry));
  if (archive) {
    DTC_TRY(package.weights, weightsFrom(*archive, info));
  }
  package.manifest = manifestOf(package, info);
  package.kernels = objects->byKey;
  return package;
}

Status checkFits(const Package& package, const std::string& path) {
  const PackageNeeds& needs = package.needs;
  const std::string name = quotedPath(path);
  if (needs.target != "cpu")
    return isCudaArch(needs.target)
               ? Status(Ok{})
               : Status(inputError(name + " is compiled for an unknown target: " + needs.target));
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
  if (package.needs.target != "cpu") config.cudaArch = package.needs.target;
  config.useCache = false;
  return config;
}

CudaOptions packagedCuda(const Package& package) {
  CudaOptions options;
  if (auto target = targetNamed(package.needs.target)) options.target = *target;
  return options;
}

} // namespace dtc
