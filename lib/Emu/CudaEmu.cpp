#include "dtc/Emu/CudaEmu.h"
#include "EmuCluster.h"
#include "dtc/Jit/CpuJitImpl.h"
#include "dtc/Jit/KernelScan.h"
#include "dtc/Jit/Prologue.h"
#include "dtc/Support/Words.h"
#include <algorithm>
#include <cstdlib>
#include <mutex>

namespace dtc {
namespace {

// The cluster that this OS thread runs: generated code reaches it through the functions below. Fibres stay on
// their OS thread, so it is constant while one of them runs.
thread_local EmuCluster* running = nullptr;

extern "C" {
const EmuThreadView* dtcEmuSelf() { return running->self(); }
void* dtcEmuShared() { return running->shared(); }
void dtcEmuInexact() { running->noteInexact(); }
uint32_t dtcEmuActive() { return running->activeLanes(); }
int32_t dtcEmuBarrier(int32_t kind, int32_t value, int32_t line, const char* location) {
  const int32_t result = running->barrier(static_cast<EmuBarrier>(kind), value, line, location);
  running->abandonIfFailed();
  return result;
}
void dtcEmuNamedBarrier(uint32_t id, uint32_t count, int32_t line, const char* location) {
  running->namedBarrier(id, count, line, location);
  running->abandonIfFailed();
}
void dtcEmuClusterBarrier(int32_t line, const char* location) {
  running->clusterBarrier(line, location);
  running->abandonIfFailed();
}
uint64_t dtcEmuWarp(int32_t kind, uint32_t mask, uint64_t value, int32_t argument, int32_t width,
                    int32_t line, const char* location) {
  const uint64_t result =
      running->warp(static_cast<EmuWarpOp>(kind), mask, value, argument, width, line, location);
  running->abandonIfFailed();
  return result;
}
void* dtcEmuMapShared(const void* p, uint32_t rank, int32_t line, const char* location) {
  void* result = running->mapShared(p, rank, line, location);
  running->abandonIfFailed();
  return result;
}
void dtcEmuCopyAsync(void* to, const void* from, int32_t bytes, int32_t, const char* location) {
  running->copyAsync(to, from, bytes, location);
  running->abandonIfFailed();
}
void dtcEmuCopyCommit() { running->copyCommit(); }
void dtcEmuCopyWait(int32_t left, int32_t, const char*) {
  running->copyWait(left);
  running->abandonIfFailed();
}
void dtcEmuFault(int32_t what, int64_t number, const char* variable, const char* location) {
  running->fault(static_cast<emu::Fault>(what), number, variable, location);
  running->abandonIfFailed();
}
void dtcEmuFence(int32_t blocks) {
  running->fence(blocks != 0);
  running->abandonIfFailed();
}
void dtcEmuLeaves() { running->leaves(); }
void dtcEmuOwn(const emu::OwnVariable* variables, uint64_t count) { running->own(variables, count); }
void dtcEmuEnter(const void* frame, const char* location) {
  running->enter(frame, location);
  running->abandonIfFailed();
}
void dtcEmuAccess(const void* p, uint64_t code, const char* location) {
  running->access(p, code, location);
  running->abandonIfFailed();
}
}

const HostSymbol kHosts[] = {{emu::kSelf, reinterpret_cast<const void*>(&dtcEmuSelf)},
                             {emu::kShared, reinterpret_cast<const void*>(&dtcEmuShared)},
                             {emu::kAccess, reinterpret_cast<const void*>(&dtcEmuAccess)},
                             {emu::kFault, reinterpret_cast<const void*>(&dtcEmuFault)},
                             {emu::kLeaves, reinterpret_cast<const void*>(&dtcEmuLeaves)},
                             {emu::kOwn, reinterpret_cast<const void*>(&dtcEmuOwn)},
                             {emu::kEnter, reinterpret_cast<const void*>(&dtcEmuEnter)},
                             {"__emu_active", reinterpret_cast<const void*>(&dtcEmuActive)},
                             {"__emu_fence", reinterpret_cast<const void*>(&dtcEmuFence)},
                             {"__emu_inexact", reinterpret_cast<const void*>(&dtcEmuInexact)},
                             {"__emu_barrier", reinterpret_cast<const void*>(&dtcEmuBarrier)},
                             {"__emu_named_barrier", reinterpret_cast<const void*>(&dtcEmuNamedBarrier)},
                             {"__emu_cluster_barrier", reinterpret_cast<const void*>(&dtcEmuClusterBarrier)},
                             {"__emu_map_shared", reinterpret_cast<const void*>(&dtcEmuMapShared)},
                             {"__emu_copy_async", reinterpret_cast<const void*>(&dtcEmuCopyAsync)},
                             {"__emu_copy_commit", reinterpret_cast<const void*>(&dtcEmuCopyCommit)},
                             {"__emu_copy_wait", reinterpret_cast<const void*>(&dtcEmuCopyWait)},
                             {"__emu_warp", reinterpret_cast<const void*>(&dtcEmuWarp)}};

constexpr size_t kMaxShared = 227 << 10; // the maximum per block on sm_90 and sm_100
constexpr size_t kMaxStatic = 48 << 10;  // of that, in variables of static size
constexpr size_t kMaxLocal = Fibre::kStackBytes - (16 << 10);
constexpr uint32_t kMaxBlocks = 8; // of a cluster, on every GPU that supports them

// "" or the reason why a GPU would refuse the launch, or should.
std::string refuse(const EmuKernel& kernel, const EmuLaunch& launch) {
  const Dim3 grid = launch.grid, block = launch.block;
  const size_t shared = kernel.sharedBytes + launch.sharedBytes;
  if (launch.numArgs && launch.numArgs != kernel.numArgs)
    return "it takes " + std::to_string(kernel.numArgs) + (kernel.numArgs == 1 ? " argument" : " arguments") +
           ", but the launch has " + std::to_string(launch.numArgs);
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  const Dim3 c = kernel.cluster;
  if (!grid.x || !grid.y || !grid.z || grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535)
    return "invalid grid " + emuTuple(grid);
  if (!threads || block.x > 1024 || block.y > 1024 || block.z > 64 || threads > 1024)
    return "invalid block " + emuTuple(block);
  if (threads > kernel.bound)
    return "the block " + emuTuple(block) + " is larger than its __launch_bounds__(" +
           std::to_string(kernel.bound) + ")";
  if (kernel.sharedBytes > kMaxStatic)
    return std::to_string(kernel.sharedBytes) + " bytes of shared variables exceed the limit of a kernel (" +
           std::to_string(kMaxStatic) + ")";
  if (kernel.localBytes > kMaxLocal)
    return std::to_string(kernel.localBytes) +
           " bytes of a thread's local variables exceed the limit of cuda-emu (" + std::to_string(kMaxLocal) +
           ")";
  if (shared > kMaxShared)
    return std::to_string(shared) + " bytes of shared memory exceed the limit of a block (" +
           std::to_string(kMaxShared) + ")";
  if (uint64_t{c.x} * c.y * c.z > kMaxBlocks)
    return "a cluster of " + emuTuple(c) + " blocks is larger than " + std::to_string(kMaxBlocks);
  if (grid.x % c.x || grid.y % c.y || grid.z % c.z)
    return "the grid " + emuTuple(grid) + " is not a multiple of the cluster " + emuTuple(c);
  return {};
}

// "name offset bytes\n" of each variable.
std::vector<EmuKernel::Variable> readVariables(std::string_view text) {
  std::vector<EmuKernel::Variable> out;
  while (!text.empty()) {
    const std::string line(text.substr(0, text.find('\n')));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    EmuKernel::Variable& v = out.emplace_back();
    const size_t first = line.find(' '), second = line.find(' ', first + 1);
    v.name = line.substr(0, first);
    v.offset = std::strtoull(line.c_str() + first, nullptr, 10);
    v.bytes = std::strtoull(line.c_str() + second, nullptr, 10);
  }
  return out;
}

// Runs the whole grid in one order; "" or the error.
std::string runGrid(EmuCluster& cluster, bool reversed) {
  EmuCluster* const outer = running;
  running = &cluster;
  std::string error;
  const uint64_t count = cluster.clusters();
  for (uint64_t i = 0; i < count && error.empty(); ++i)
    error = cluster.run(static_cast<uint32_t>(reversed ? count - 1 - i : i));
  running = outer;
  return error;
}

} // namespace

struct EmuModule::Impl {
  std::vector<std::shared_ptr<const LoadedObject>> objects;
  std::vector<EmuKernel> kernels;

  std::unique_ptr<EmuWorkspace> borrow() const {
    std::lock_guard lock(mutex);
    if (idle.empty()) return std::make_unique<EmuWorkspace>();
    auto workspace = std::move(idle.back());
    idle.pop_back();
    return workspace;
  }
  void release(std::unique_ptr<EmuWorkspace> workspace) const {
    std::lock_guard lock(mutex);
    idle.push_back(std::move(workspace));
  }
  const EmuKernel* find(std::string_view name) const {
    for (const EmuKernel& kernel : kernels)
      if (kernel.name == name) return &kernel;
    return nullptr;
  }
  mutable std::mutex mutex;
  mutable std::vector<std::unique_ptr<EmuWorkspace>> idle;

  // "" or the kernel's error; a Status where the machine fails.
  Result<std::string> run(EmuWorkspace& workspace, const EmuKernel& kernel, const EmuLaunch& launch) const;
};

Result<std::string> EmuModule::Impl::run(EmuWorkspace& workspace, const EmuKernel& kernel,
                                         const EmuLaunch& launch) const {
  const Error noMemory{Error::Machine, "no memory for the shared memory of a block"};
  const Error noStack{Error::Machine, "no memory for the stack of an emulated thread"};
  if (!kernel.checked || launch.buffers.empty()) {
    EmuCluster cluster(workspace, kernel, launch, launch.args, nullptr, false);
    if (!cluster.ok()) return noMemory;
    std::string error = runGrid(cluster, false);
    return cluster.noStack() ? Result<std::string>(noStack) : Result<std::string>(std::move(error));
  }
  EmuGlobal forward(workspace.global[0], launch, kernel.granule),
      backward(workspace.global[1], launch, kernel.granule);
  bool inexact = false;
  for (EmuGlobal* global : {&forward, &backward}) {
    if (Status s = global->prepare(); !s) return s.error();
    EmuCluster cluster(workspace, kernel, launch, global->args(), global, global == &backward);
    if (!cluster.ok()) return noMemory;
    std::string error = runGrid(cluster, global == &backward);
    if (cluster.noStack()) return noStack;
    if (error.empty()) error = global->unwritten();
    if (!error.empty()) return error;
    inexact |= cluster.inexact();
  }
  if (!inexact)
    if (std::string difference = forward.differs(backward); !difference.empty()) return difference;
  forward.commit();
  return std::string();
}

Status EmuModule::launch(std::string_view name, const EmuLaunch& launch) const {
  const auto bug = [&](const std::string& what) {
    return Error{Error::Bug, "cuda-emu: kernel '" + std::string(name) + "': " + what};
  };
  const EmuKernel* kernel = impl_->find(name);
  if (!kernel) return bug("no such kernel");
  if (const std::string why = refuse(*kernel, launch); !why.empty()) return bug(why);
  auto workspace = impl_->borrow();
  auto error = impl_->run(*workspace, *kernel, launch);
  impl_->release(std::move(workspace));
  if (!error) return error.error();
  if (!error->empty()) return bug(*error);
  return Ok{};
}

size_t EmuModule::sharedBytes(std::string_view kernel) const {
  const EmuKernel* found = impl_->find(kernel);
  return found ? found->sharedBytes : 0;
}

std::vector<std::string> EmuModule::kernels() const {
  std::vector<std::string> out;
  for (const EmuKernel& kernel : impl_->kernels) out.push_back(kernel.name);
  return out;
}

Result<EmuModule> CudaEmu::compile(std::span<const SourceUnit> units) const {
  std::vector<SourceUnit> extended(units.begin(), units.end());
  std::vector<std::vector<ScannedKernel>> scanned;
  for (SourceUnit& unit : extended) {
    scanned.push_back(scanKernels(unit.text));
    unit.text += "\n#line 1 \"calls\"\n";
    for (const ScannedKernel& kernel : scanned.back())
      unit.text += "extern \"C\" void __emu_call_" + kernel.name +
                   "(void* const* __emu_args) { __emu_invoke(" + kernel.name + ", __emu_args); }\n" +
                   "extern \"C\" constexpr u64 " + emu::kArityPrefix + kernel.name + " = __emu_arity(" +
                   kernel.name + ");\n";
  }
  CompileMode mode{emuPrologue(), {"-fstack-clash-protection"}, {}, true, checks_};
  auto objects = jit_.impl().objects(extended, mode);
  if (!objects) return objects.error();
  auto impl = std::make_shared<EmuModule::Impl>();
  for (size_t i = 0; i < objects->size(); ++i) {
    auto loaded = loadObject((*objects)[i], kHosts);
    if (!loaded) return Error{loaded.error().kind, units[i].name + ": " + loaded.error().message};
    const auto symbol = [&](const std::string& name) -> void* {
      for (const auto& [known, address] : (*loaded)->symbols())
        if (known == name) return address;
      return nullptr;
    };
    const auto number = [&](const std::string& name) {
      const auto* value = static_cast<const uint64_t*>(symbol(name));
      return value ? static_cast<size_t>(*value) : 0;
    };
    const auto* map = static_cast<const char*>(symbol(emu::kSharedMap));
    for (const ScannedKernel& scan : scanned[i]) {
      EmuKernel& kernel = impl->kernels.emplace_back();
      kernel.name = scan.name, kernel.bound = scan.bound;
      kernel.cluster = {scan.cluster[0], scan.cluster[1], scan.cluster[2]};
      kernel.call = reinterpret_cast<EmuKernel::Call*>(symbol(emu::kCallPrefix + scan.name));
      kernel.numArgs = number(emu::kArityPrefix + scan.name);
      DTC_CHECK(kernel.call && map, "a compiled kernel is not in its object");
      // In a unit with several kernels it is unknown which uses a shared variable: none is rejected as too
      // large.
      kernel.sharedBytes = scanned[i].size() == 1 ? number(emu::kSharedBytes) : 0;
      kernel.sharedSpan = number(emu::kSharedSpan);
      kernel.variables = readVariables(map);
      kernel.checked = checks_, kernel.granule = std::max<size_t>(number(emu::kGranule), 1);
      kernel.localBytes = number(emu::kLocalBytes);
      for (std::string_view line : linesOf(units[i].text)) kernel.lines.emplace_back(line);
      kernel.object = *loaded;
    }
    impl->objects.push_back(std::move(*loaded));
  }
  return EmuModule(std::move(impl));
}

} // namespace dtc
