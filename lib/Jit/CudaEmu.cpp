#include "dtc/Jit/CudaEmu.h"
#include "CpuJitImpl.h"
#include "EmuBlock.h"
#include "KernelScan.h"
#include "Prologue.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace dtc {
namespace {

// The block that this OS thread runs: generated code reaches it through the functions below. Fibres stay on their OS
// thread, so it is constant as long as one of them runs.
thread_local EmuBlock* running = nullptr;

extern "C" {
const EmuThreadView* dtcEmuSelf() { return running->self(); }
void* dtcEmuShared() { return running->shared(); }
uint32_t dtcEmuActive() { return running->activeLanes(); }
int32_t dtcEmuBarrier(int32_t kind, int32_t value, int32_t line) {
  return running->barrier(static_cast<EmuBarrier>(kind), value, line);
}
uint64_t dtcEmuWarp(int32_t kind, uint32_t mask, uint64_t value, int32_t argument, int32_t width,
                    int32_t line) {
  return running->warp(static_cast<EmuWarpOp>(kind), mask, value, argument, width, line);
}
}

const HostSymbol kHosts[] = {{"__emu_self", reinterpret_cast<const void*>(&dtcEmuSelf)},
                             {"__emu_shared", reinterpret_cast<const void*>(&dtcEmuShared)},
                             {"__emu_active", reinterpret_cast<const void*>(&dtcEmuActive)},
                             {"__emu_barrier", reinterpret_cast<const void*>(&dtcEmuBarrier)},
                             {"__emu_warp", reinterpret_cast<const void*>(&dtcEmuWarp)}};

constexpr size_t kMostShared = 227 << 10; // what a block may ask for on sm_90 and sm_100

struct Kernel {
  std::string name;
  EmuBlock::Kernel* call;
  size_t staticShared; // of its whole unit
  uint32_t bound;      // __launch_bounds__, 1024 where there is none
};

std::string tuple(const Dim3& d) {
  return "(" + std::to_string(d.x) + ", " + std::to_string(d.y) + ", " + std::to_string(d.z) + ")";
}

// "" or why a GPU would refuse the launch.
std::string refuse(const Kernel& kernel, Dim3 grid, Dim3 block, size_t shared) {
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (!grid.x || !grid.y || !grid.z || grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535)
    return "no GPU takes the grid " + tuple(grid);
  if (!threads || block.x > 1024 || block.y > 1024 || block.z > 64 || threads > 1024)
    return "no GPU takes the block " + tuple(block);
  if (threads > kernel.bound)
    return "the block " + tuple(block) + " is larger than its __launch_bounds__(" +
           std::to_string(kernel.bound) + ")";
  if (shared > kMostShared)
    return std::to_string(shared) + " bytes of shared memory are more than a block can have (" +
           std::to_string(kMostShared) + ")";
  return {};
}

} // namespace

struct EmuModule::Impl {
  std::vector<std::shared_ptr<const LoadedObject>> objects;
  std::vector<Kernel> kernels;

  std::unique_ptr<EmuWorkspace> borrow() const {
    std::lock_guard lock(mutex);
    if (idle.empty()) return std::make_unique<EmuWorkspace>();
    auto workspace = std::move(idle.back());
    idle.pop_back();
    return workspace;
  }
  void giveBack(std::unique_ptr<EmuWorkspace> workspace) const {
    std::lock_guard lock(mutex);
    idle.push_back(std::move(workspace));
  }
  const Kernel* find(std::string_view name) const {
    for (const Kernel& kernel : kernels)
      if (kernel.name == name) return &kernel;
    return nullptr;
  }
  mutable std::mutex mutex;
  mutable std::vector<std::unique_ptr<EmuWorkspace>> idle;
};

Status EmuModule::launch(std::string_view name, Dim3 grid, Dim3 block, uint32_t sharedBytes,
                         void* const* args) const {
  const auto bug = [&](const std::string& what) {
    return Error{Error::Bug, "cuda-emu: kernel '" + std::string(name) + "': " + what};
  };
  const Kernel* kernel = impl_->find(name);
  if (!kernel) return bug("there is no such kernel");
  const size_t shared = kernel->staticShared + sharedBytes;
  if (const std::string why = refuse(*kernel, grid, block, shared); !why.empty()) return bug(why);
  auto workspace = impl_->borrow();
  if (workspace->sharedBytes < shared || !workspace->shared) {
    workspace->sharedBytes = (shared + 128) & ~size_t{127};
    workspace->shared.reset(static_cast<uint8_t*>(std::aligned_alloc(128, workspace->sharedBytes)));
    if (!workspace->shared) return machineError("no memory for the shared memory of a block");
  }
  EmuBlock runner(*workspace, kernel->call, args, grid, block);
  EmuBlock* const outer = running;
  running = &runner;
  std::string error;
  Dim3 at{0, 0, 0};
  for (at.z = 0; at.z < grid.z && error.empty(); ++at.z)
    for (at.y = 0; at.y < grid.y && error.empty(); ++at.y)
      for (at.x = 0; at.x < grid.x && error.empty(); ++at.x) {
        std::memset(workspace->shared.get(), 0xff, shared); // shared memory begins undefined: NaN shows
        error = runner.run(at);
        if (!error.empty()) error.insert(0, "block " + tuple(at) + ": ");
      }
  running = outer;
  impl_->giveBack(std::move(workspace));
  if (!error.empty()) return bug(error);
  return Ok{};
}

bool EmuModule::has(std::string_view kernel) const { return impl_->find(kernel) != nullptr; }

std::vector<std::string> EmuModule::kernels() const {
  std::vector<std::string> out;
  for (const Kernel& kernel : impl_->kernels) out.push_back(kernel.name);
  return out;
}

Result<EmuModule> CudaEmu::compile(std::span<const SourceUnit> units) const {
  std::vector<SourceUnit> extended(units.begin(), units.end());
  std::vector<std::vector<ScannedKernel>> scanned;
  for (SourceUnit& unit : extended) {
    scanned.push_back(scanKernels(unit.text));
    unit.text += "\n#line 1 \"calls\"\n";
    for (const ScannedKernel& kernel : scanned.back())
      unit.text += "extern \"C\" void __emu_call_" + kernel.name + "(void* const* a) { __emu_invoke(" +
                   kernel.name + ", a); }\n";
  }
  CompileMode mode{emuPrologue(), {"-fstack-clash-protection"}, {}, true};
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
    const auto* shared = static_cast<const uint64_t*>(symbol("__emu_shared_bytes"));
    for (const ScannedKernel& kernel : scanned[i]) {
      auto* call = reinterpret_cast<EmuBlock::Kernel*>(symbol("__emu_call_" + kernel.name));
      DTC_CHECK(call && shared, "a compiled kernel is not in its object");
      impl->kernels.push_back({kernel.name, call, static_cast<size_t>(*shared), kernel.bound});
    }
    impl->objects.push_back(std::move(*loaded));
  }
  return EmuModule(std::move(impl));
}

} // namespace dtc
