#include "dtc/Cuda/CudaDriver.h"
#include "CudaLibrary.h"
#include "CudaTable.h"
#include "dtc/Support/NonCopyable.h"
#include "dtc/Support/OutOfMemory.h"
#include <algorithm>
#include <bit>
#include <cstdlib>
#include <type_traits>

namespace dtc {
namespace {

constexpr int kOldestDriver = 12000; // of the driver
constexpr int kConditionals = 12040; // the first driver whose conditional nodes are known to work

std::string reason(const CudaTable& table, CuResult code) {
  const char *name = nullptr, *text = nullptr;
  table.errorName(code, &name);
  table.errorString(code, &text);
  return (name ? name : "error " + std::to_string(code)) + (text ? std::string(": ") + text : "");
}

std::string driverVersionText(int version) { // 12040 is 12.4
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// Advice for the user; "" where the driver's message suffices.
std::string advice(CuResult code) {
  switch (code) {
  case kCudaNoDevice: {
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    return visible ? "; CUDA_VISIBLE_DEVICES is '" + std::string(visible) + "'" : "";
  }
  case kCudaStubLibrary:
    return "; the libcuda.so.1 that was found is the toolkit's, for linking only: remove its "
           "folder (stubs) from LD_LIBRARY_PATH";
  case kCudaDeviceUnavailable: return "; another process uses the GPU exclusively (nvidia-smi -q -d COMPUTE)";
  case kCudaSystemNotReady:
    return "; GPUs connected by NVSwitch need the service nvidia-fabricmanager, in the driver's version";
  case kCudaDriverMismatch:
    return "; libcuda.so.1 and the kernel's driver have different versions: restart the machine, or mount "
           "the host's library into the container";
  case kCudaCompatNotSupported:
    return "; the libcuda.so.1 that was found belongs to a package cuda-compat, which these GPUs do not "
           "support: remove its folder from LD_LIBRARY_PATH";
  case kCudaOperatingSystem:
  case kCudaUnknown:
    return "; check that this user may open /dev/nvidia* (also /dev/nvidia-uvm), and that nvidia-smi works";
  default: return "";
  }
}

Result<std::shared_ptr<const CudaTable>> bind(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return machineError("no usable GPU: the NVIDIA driver's " + path +
                        " cannot be opened (it comes with the driver, not with the CUDA toolkit): " +
                        whyNotOpened(dlerror()));
  auto table = std::make_shared<CudaTable>();
  std::string missing;
#define DTC_BIND(member, symbol, parameters)                                                                 \
  if (!bindSymbol(library, #symbol, table->member)) missing += missing.empty() ? #symbol : ", " #symbol;
  DTC_CUDA_FUNCTIONS(DTC_BIND)
#undef DTC_BIND
  if (!missing.empty())
    return machineError(path + " has no " + missing + ": dtc needs a driver for CUDA 12 or later");
  bool all = true;
#define DTC_BIND(member, symbol, parameters) all = bindSymbol(library, #symbol, table->member) && all;
  DTC_CUDA_CONDITIONALS(DTC_BIND)
#undef DTC_BIND
#define DTC_BIND(member, symbol, parameters) (void)bindSymbol(library, #symbol, table->member);
  DTC_CUDA_OPTIONAL(DTC_BIND)
#undef DTC_BIND
  int version = 0;
  if (!all || table->driverVersion(&version) != 0 || version < kConditionals) table->graphCondition = nullptr;
  return std::shared_ptr<const CudaTable>(std::move(table));
}

void* pointer(uint64_t address) { return std::bit_cast<void*>(address); }
uint64_t address(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

} // namespace

std::string CudaDeviceInfo::arch() const {
  const std::string number = std::to_string(major) + std::to_string(minor);
  const bool hasOwnTarget = major >= 10 || number == "90"; // architecture-specific instructions
  return "sm_" + number + (hasOwnTarget ? "a" : "");
}

Result<CudaDriver> CudaDriver::open(const std::string& library) {
  DTC_TRY(auto table, bind(library));
  CudaDriver driver;
  driver.table_ = table;
  const CudaTable& t = *table;
  const auto failed = [&](const char* what, CuResult code) {
    return machineError(std::string("no usable GPU: ") + what + ": " + reason(t, code) + advice(code));
  };
  int count = 0;
  if (CuResult code = t.driverVersion(&driver.version_)) return failed("cuDriverGetVersion", code);
  if (driver.version_ < kOldestDriver)
    return machineError("no usable GPU: the driver supports CUDA " + driverVersionText(driver.version_) +
                        ", but dtc needs one for CUDA 12 or later");
  if (CuResult code = t.init(0)) return failed("cuInit", code);
  if (CuResult code = t.deviceCount(&count)) return failed("cuDeviceGetCount", code);
  for (int i = 0; i < count; ++i) {
    CudaDeviceInfo info;
    char name[256] = {};
    size_t bytes = 0;
    int device = 0;
    CuResult code = t.deviceGet(&device, i);
    info.ordinal = i;
    if (!code) code = t.deviceName(name, sizeof name, device);
    if (!code) code = t.deviceMemory(&bytes, device);
    const std::pair<int, int*> attributes[] = {{kAttributeMajor, &info.major},
                                               {kAttributeMinor, &info.minor},
                                               {kAttributeMultiprocessors, &info.multiprocessors},
                                               {kAttributeSharedOptIn, &info.sharedPerBlock},
                                               {kAttributePciBus, &info.pciBus},
                                               {kAttributePciDevice, &info.pciDevice},
                                               {kAttributePciDomain, &info.pciDomain}};
    for (auto [attribute, to] : attributes)
      if (!code) code = t.deviceAttribute(to, attribute, device);
    if (code) return failed(("querying GPU " + std::to_string(i)).c_str(), code);
    info.name = name, info.memoryBytes = bytes;
    driver.devices_.push_back(std::move(info));
  }
  if (driver.devices_.empty())
    return machineError("no usable GPU: the driver reports no device (is CUDA_VISIBLE_DEVICES empty?)");
  return driver;
}

bool CudaDriver::reaches(int from, int to) const {
  int can = 0;
  return from == to || (table_->canAccessPeer(&can, from, to) == 0 && can != 0);
}

struct CudaDevice::Impl : NonCopyable {
  std::shared_ptr<const CudaTable> table;
  CudaDeviceInfo device;
  void* context = nullptr;

  Impl(std::shared_ptr<const CudaTable> t, CudaDeviceInfo d) : table(std::move(t)), device(std::move(d)) {}
  ~Impl() {
    if (context) table->contextRelease(device.ordinal);
  }

  Error error(const std::string& what, CuResult code) const {
    return machineError(what + " on GPU " + std::to_string(device.ordinal) + " (" + device.name +
                        "): " + reason(*table, code));
  }
  // Calls `function` with the context current. `what`: a text, or a function that builds it on demand.
  template <class What, class... P, class... A>
  Status call(const What& what, CuResult (*function)(P...), A... arguments) const {
    CuResult code = table->contextSet(context);
    if (!code) code = function(arguments...);
    if (!code) return Ok{};
    if constexpr (std::is_invocable_v<What>)
      return error(what(), code);
    else
      return error(what, code);
  }
};

namespace {

// Owns `get` until the last copy is destroyed; `destroy` is called with the context current.
template <class Handle, class Argument>
void own(Handle& handle, std::shared_ptr<const CudaDevice::Impl> impl, CuResult (*destroy)(Argument),
         Argument value) {
  auto* const marker = handle.get; // never null, so that the shared_ptr runs its deleter
  handle.owner = std::shared_ptr<const void>(marker, [impl = std::move(impl), destroy, value](const void*) {
    if (impl->table->contextSet(impl->context) == 0) destroy(value);
  });
}

std::string bytesText(size_t bytes) { return std::to_string(bytes) + " bytes"; }

} // namespace

Result<CudaDevice> CudaDevice::open(const CudaDriver& driver, int ordinal) {
  if (ordinal < 0 || static_cast<size_t>(ordinal) >= driver.devices().size())
    return machineError("no GPU " + std::to_string(ordinal) + "; this machine has " +
                        std::to_string(driver.devices().size()));
  auto impl = std::make_shared<Impl>(driver.table(), driver.devices()[static_cast<size_t>(ordinal)]);
  if (CuResult code = impl->table->contextRetain(&impl->context, ordinal)) {
    impl->context = nullptr;
    Error error = impl->error("cuDevicePrimaryCtxRetain", code);
    error.message += advice(code);
    return error;
  }
  return CudaDevice(std::move(impl));
}

const CudaDeviceInfo& CudaDevice::info() const { return impl_->device; }

Status CudaDevice::makeCurrent() const {
  if (CuResult code = impl_->table->contextSet(impl_->context)) return impl_->error("cuCtxSetCurrent", code);
  return Ok{};
}

Result<CudaMemory> CudaDevice::allocate(size_t bytes) const {
  uint64_t at = 0;
  if (auto s = impl_->call("allocating " + bytesText(bytes), impl_->table->memAlloc, &at,
                           std::max<size_t>(bytes, 1));
      !s)
    return s.error();
  CudaMemory memory;
  memory.get = pointer(at), memory.bytes = bytes;
  own(memory, impl_, impl_->table->memFree, at);
  return memory;
}

Result<CudaStream> CudaDevice::stream(bool first) const {
  CudaStream stream;
  if (auto s = impl_->call("cuStreamCreateWithPriority", impl_->table->streamCreate, &stream.get,
                           static_cast<unsigned>(kStreamNonBlocking), first ? -1 : 0);
      !s)
    return s.error();
  own(stream, impl_, impl_->table->streamDestroy, stream.get);
  return stream;
}

Result<CudaEvent> CudaDevice::event(bool timing) const {
  CudaEvent event;
  if (auto s = impl_->call("cuEventCreate", impl_->table->eventCreate, &event.get,
                           timing ? 0u : static_cast<unsigned>(kEventNoTiming));
      !s)
    return s.error();
  own(event, impl_, impl_->table->eventDestroy, event.get);
  return event;
}

Result<CudaModule> CudaDevice::load(std::string_view image) const {
  const std::string terminated(image); // PTX is null-terminated
  CudaModule module;
  if (auto s = makeCurrent(); !s) return s.error();
  if (CuResult code = impl_->table->moduleLoad(&module.get, terminated.c_str())) {
    Error error = impl_->error("loading a kernel's code of " + bytesText(image.size()), code);
    int version = 0;
    if ((code == kCudaInvalidImage || code == kCudaNoBinary || code == kCudaUnsupportedPtx) &&
        impl_->table->driverVersion(&version) == 0)
      error.message += "; the driver supports CUDA " + driverVersionText(version) +
                       ": check whether `dtc devices` shows a newer NVRTC";
    return error;
  }
  own(module, impl_, impl_->table->moduleUnload, module.get);
  return module;
}

Result<CudaFunction> CudaDevice::function(const CudaModule& module, const std::string& name,
                                          int dynamicShared) const {
  CudaFunction function;
  if (auto s = impl_->call("looking up kernel '" + name + "'", impl_->table->moduleFunction, &function.get,
                           module.get, name.c_str());
      !s)
    return s.error();
  if (impl_->table->functionLoad)
    if (auto s = impl_->call("loading kernel '" + name + "'", impl_->table->functionLoad, function.get); !s)
      return s.error();
  // Without this attribute a kernel gets at most 48 KiB, which include its static variables; their size is
  // unknown to the caller.
  if (dynamicShared > 0)
    if (auto s =
            impl_->call("setting the shared memory of kernel '" + name + "' to " +
                            bytesText(static_cast<size_t>(dynamicShared)),
                        impl_->table->functionSet, function.get, int{kFunctionDynamicShared}, dynamicShared);
        !s)
      return s.error();
  function.owner = module.owner;
  function.name = name;
  return function;
}

Status CudaDevice::copyIn(void* device, const void* host, size_t bytes, const CudaStream& stream) const {
  if (!bytes) return Ok{};
  return impl_->call([&] { return "copying " + bytesText(bytes) + " to the device"; }, impl_->table->copyIn,
                     address(device), host, bytes, stream.get);
}

Status CudaDevice::copyOut(void* host, const void* device, size_t bytes, const CudaStream& stream) const {
  if (!bytes) return Ok{};
  return impl_->call([&] { return "copying " + bytesText(bytes) + " from the device"; },
                     impl_->table->copyOut, host, address(device), bytes, stream.get);
}

Status CudaDevice::copy(void* to, const void* from, size_t bytes, const CudaStream& stream) const {
  if (!bytes) return Ok{};
  return impl_->call([&] { return "copying " + bytesText(bytes) + " on the device"; }, impl_->table->copy,
                     address(to), address(from), bytes, stream.get);
}

Status CudaDevice::copyPeer(void* to, const CudaDevice& toDevice, const void* from,
                            const CudaDevice& fromDevice, size_t bytes, const CudaStream& stream) const {
  if (!bytes) return Ok{};
  return impl_->call([&] { return "copying " + bytesText(bytes) + " between GPUs"; }, impl_->table->copyPeer,
                     address(to), toDevice.impl_->context, address(from), fromDevice.impl_->context, bytes,
                     stream.get);
}

Status CudaDevice::reach(const CudaDevice& other) const {
  CuResult code = impl_->table->contextSet(impl_->context);
  if (!code) code = impl_->table->enablePeer(other.impl_->context, 0);
  if (code && code != kCudaPeerAlready) return impl_->error("cuCtxEnablePeerAccess", code);
  return Ok{};
}

Status CudaDevice::fill(void* device, uint8_t byte, size_t bytes, const CudaStream& stream) const {
  if (!bytes) return Ok{};
  return impl_->call([&] { return "filling " + bytesText(bytes); }, impl_->table->fill, address(device), byte,
                     bytes, stream.get);
}

Status CudaDevice::fillWord(void* device, uint32_t word, const CudaStream& stream) const {
  return impl_->call("writing a word", impl_->table->fillWords, address(device), word, size_t{1}, stream.get);
}

Status CudaDevice::launch(const CudaFunction& function, CudaDim grid, CudaDim block, uint32_t sharedBytes,
                          void** args, const CudaStream& stream) const {
  return impl_->call([&] { return "launching kernel '" + function.name + "'"; }, impl_->table->launch,
                     function.get, grid.x, grid.y, grid.z, block.x, block.y, block.z, sharedBytes, stream.get,
                     args, static_cast<void**>(nullptr));
}

Status CudaDevice::record(const CudaEvent& event, const CudaStream& stream) const {
  return impl_->call("cuEventRecord", impl_->table->eventRecord, event.get, stream.get);
}

Status CudaDevice::wait(const CudaStream& stream, const CudaEvent& event) const {
  return impl_->call("cuStreamWaitEvent", impl_->table->streamWait, stream.get, event.get, 0u);
}

Status CudaDevice::synchronize(const CudaStream& stream) const {
  return impl_->call("synchronizing a stream", impl_->table->streamSynchronize, stream.get);
}

Result<bool> CudaDevice::idle(const CudaStream& stream) const {
  CuResult code = impl_->table->contextSet(impl_->context);
  if (!code) code = impl_->table->streamQuery(stream.get);
  if (code && code != kCudaNotReady) return impl_->error("querying a stream", code);
  return code == 0;
}

Result<float> CudaDevice::milliseconds(const CudaEvent& begin, const CudaEvent& end) const {
  float time = 0;
  if (auto s = impl_->call("cuEventElapsedTime", impl_->table->eventElapsed, &time, begin.get, end.get); !s)
    return s.error();
  return time;
}

Status CudaDevice::beginCapture(const CudaStream& stream) const {
  return impl_->call("cuStreamBeginCapture", impl_->table->captureBegin, stream.get,
                     int{kCaptureThreadLocal});
}

Result<CudaCapture> CudaDevice::endCapture(const CudaStream& stream) const {
  CudaCapture captured;
  if (auto s = impl_->call("cuStreamEndCapture", impl_->table->captureEnd, stream.get, &captured.get); !s)
    return s.error();
  own(captured, impl_, impl_->table->graphDestroy, captured.get);
  return captured;
}

Result<CudaGraph> CudaDevice::instantiate(const CudaCapture& captured, const CudaStream& stream) const {
  CudaGraph graph;
  if (auto s = impl_->call("cuGraphInstantiate", impl_->table->graphInstantiate, &graph.get, captured.get,
                           static_cast<unsigned long long>(kGraphNodePriorities));
      !s)
    return s.error();
  own(graph, impl_, impl_->table->graphExecDestroy, graph.get);
  // Allocates the event's device resources now: at its first launch, kernels of another GPU may already be
  // waiting for it.
  if (auto s = impl_->call("cuGraphUpload", impl_->table->graphUpload, graph.get, stream.get); !s)
    return s.error();
  return graph;
}

Status CudaDevice::launch(const CudaGraph& graph, const CudaStream& stream) const {
  return impl_->call("cuGraphLaunch", impl_->table->graphLaunch, graph.get, stream.get);
}

bool CudaDevice::hasConditionals() const { return impl_->table->graphCondition != nullptr; }

namespace {

// The state of a captured stream.
struct Capture {
  int status = 0;
  uint64_t id = 0;
  void* graph = nullptr;
  void* const* after = nullptr;
  const void* edges = nullptr;
  size_t count = 0;
};

} // namespace

Result<uint64_t> CudaDevice::conditionHandle(const CudaStream& stream) const {
  Capture c;
  uint64_t handle = 0;
  auto done = impl_->call("cuStreamGetCaptureInfo", impl_->table->captureInfo, stream.get, &c.status, &c.id,
                          &c.graph, &c.after, &c.edges, &c.count);
  if (done)
    done = impl_->call("cuGraphConditionalHandleCreate", impl_->table->graphCondition, &handle, c.graph,
                       impl_->context, 0u, 0u);
  if (!done) return done.error();
  return handle;
}

Result<void*> CudaDevice::addConditional(const CudaStream& stream, uint64_t handle, bool loop) const {
  Capture c;
  CudaNodeParams node;
  node.handle = handle, node.kind = loop ? kConditionalWhile : kConditionalIf, node.context = impl_->context;
  void* added = nullptr;
  auto done = impl_->call("cuStreamGetCaptureInfo", impl_->table->captureInfo, stream.get, &c.status, &c.id,
                          &c.graph, &c.after, &c.edges, &c.count);
  if (done)
    done = impl_->call("cuGraphAddNode", impl_->table->graphAddNode, &added, c.graph, c.after, c.edges,
                       c.count, &node);
  if (done)
    done = impl_->call("cuStreamUpdateCaptureDependencies", impl_->table->captureUpdate, stream.get, &added,
                       static_cast<const void*>(nullptr), size_t{1},
                       static_cast<unsigned>(kCaptureSetDependencies));
  if (!done) return done.error();
  return node.bodies[0];
}

Status CudaDevice::fillWordAside(void* device, uint32_t word, const CudaStream& stream, Aside& last) const {
  if (!impl_->table->graphAddNode || !impl_->table->captureInfo) return fillWord(device, word, stream);
  Capture c;
  auto done = impl_->call("cuStreamGetCaptureInfo", impl_->table->captureInfo, stream.get, &c.status, &c.id,
                          &c.graph, &c.after, &c.edges, &c.count);
  if (!done) return done;
  // All edges are plain (null): the write waits until the other nodes have completed.
  std::vector<void*> after(c.after, c.after + c.count);
  if (last.node && last.capture == c.id && last.graph == c.graph) after.push_back(last.node);
  CudaMemsetParams node;
  node.to = address(device), node.value = word, node.context = impl_->context;
  last = {c.id, c.graph, nullptr};
  return impl_->call("cuGraphAddNode", impl_->table->graphAddNode, &last.node, c.graph,
                     static_cast<void* const*>(after.data()), static_cast<const void*>(nullptr), after.size(),
                     reinterpret_cast<CudaNodeParams*>(&node));
}

Status CudaDevice::beginBody(const CudaStream& stream, void* body) const {
  return impl_->call("cuStreamBeginCaptureToGraph", impl_->table->captureTo, stream.get, body,
                     static_cast<void* const*>(nullptr), static_cast<const void*>(nullptr), size_t{0},
                     int{kCaptureThreadLocal});
}

Status CudaDevice::endBody(const CudaStream& stream) const {
  void* body = nullptr; // owned by its node
  return impl_->call("cuStreamEndCapture", impl_->table->captureEnd, stream.get, &body);
}

} // namespace dtc
