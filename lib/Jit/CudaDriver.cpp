#include "dtc/Jit/CudaDriver.h"
#include "CudaLibrary.h"
#include "CudaTable.h"
#include <algorithm>
#include <bit>

namespace dtc {
namespace {

// Values of cuda.h.
constexpr int kMultiprocessors = 16, kMajor = 75, kMinor = 76, kSharedOptIn = 97, kPciBus = 33,
              kPciDevice = 34, kPciDomain = 50;
constexpr int kMaxDynamicShared = 8;      // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
constexpr unsigned kNonBlocking = 1;      // CU_STREAM_NON_BLOCKING
constexpr unsigned kNoTiming = 2;         // CU_EVENT_DISABLE_TIMING
constexpr unsigned kPortable = 1;         // CU_MEMHOSTALLOC_PORTABLE
constexpr int kThreadLocalCapture = 1;    // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
constexpr CuResult kReachedAlready = 704; // CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
constexpr CuResult kNotReady = 600;       // CUDA_ERROR_NOT_READY
constexpr int kConditionals = 12040;      // the first driver whose conditional nodes are known to work
constexpr unsigned kSetDependencies = 1;  // CU_STREAM_SET_CAPTURE_DEPENDENCIES
constexpr int kSharedWithoutAsking = 48 << 10;

std::string reason(const CudaTable& table, CuResult code) {
  const char *name = nullptr, *text = nullptr;
  table.errorName(code, &name);
  table.errorString(code, &text);
  return (name ? name : "error " + std::to_string(code)) + (text ? std::string(": ") + text : "");
}

Result<std::shared_ptr<const CudaTable>> bind(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return machineError(
        "no GPU can be used: the NVIDIA driver's " + path +
        " cannot be opened (it comes with the driver, not with the CUDA toolkit): " + dlerror());
  auto table = std::make_shared<CudaTable>();
  std::string missing;
#define DTC_BIND(member, symbol, parameters)                                                                 \
  if (!bindSymbol(library, #symbol, table->member)) missing += missing.empty() ? #symbol : ", " #symbol;
  DTC_CUDA_FUNCTIONS(DTC_BIND)
#undef DTC_BIND
  if (!missing.empty())
    return machineError(path + " has no " + missing + ": dtc needs a driver of CUDA 12 or later");
  bool all = true;
#define DTC_BIND(member, symbol, parameters) all = bindSymbol(library, #symbol, table->member) && all;
  DTC_CUDA_CONDITIONALS(DTC_BIND)
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
  auto table = bind(library);
  if (!table) return table.error();
  CudaDriver driver;
  driver.table_ = *table;
  const CudaTable& t = **table;
  const auto failed = [&](const char* what, CuResult code) {
    return machineError(std::string("no GPU can be used: ") + what + ": " + reason(t, code));
  };
  if (CuResult code = t.init(0)) return failed("cuInit", code);
  int count = 0;
  if (CuResult code = t.driverVersion(&driver.version_)) return failed("cuDriverGetVersion", code);
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
    const std::pair<int, int*> attributes[] = {{kMajor, &info.major},
                                               {kMinor, &info.minor},
                                               {kMultiprocessors, &info.multiprocessors},
                                               {kSharedOptIn, &info.sharedPerBlock},
                                               {kPciBus, &info.pciBus},
                                               {kPciDevice, &info.pciDevice},
                                               {kPciDomain, &info.pciDomain}};
    for (auto [attribute, to] : attributes)
      if (!code) code = t.deviceAttribute(to, attribute, device);
    if (code) return failed(("asking GPU " + std::to_string(i) + " what it is").c_str(), code);
    info.name = name, info.memoryBytes = bytes;
    driver.devices_.push_back(std::move(info));
  }
  if (driver.devices_.empty())
    return machineError("no GPU can be used: the driver has no device (is CUDA_VISIBLE_DEVICES empty?)");
  return driver;
}

bool CudaDriver::reaches(int from, int to) const {
  int can = 0;
  return from == to || (table_->canAccessPeer(&can, from, to) == 0 && can != 0);
}

struct CudaDevice::Impl {
  std::shared_ptr<const CudaTable> table;
  CudaDeviceInfo device;
  void* context = nullptr;

  Impl(std::shared_ptr<const CudaTable> t, CudaDeviceInfo d) : table(std::move(t)), device(std::move(d)) {}
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    if (context) table->contextRelease(device.ordinal);
  }

  Error error(const std::string& what, CuResult code) const {
    return machineError(what + " on GPU " + std::to_string(device.ordinal) + " (" + device.name +
                        "): " + reason(*table, code));
  }
  // Calls `function` with the context current.
  template <class... P, class... A>
  Status call(const std::string& what, CuResult (*function)(P...), A... arguments) const {
    CuResult code = table->contextSet(context);
    if (!code) code = function(arguments...);
    if (code) return error(what, code);
    return Ok{};
  }
};

namespace {

// Owns `get` until the last copy goes; `destroy` is called with the context current.
template <class Handle, class Argument>
void own(Handle& handle, std::shared_ptr<const CudaDevice::Impl> impl, CuResult (*destroy)(Argument),
         Argument value) {
  auto* const marker = handle.get; // never null: a shared_ptr to it runs its deleter
  handle.owner = std::shared_ptr<const void>(marker, [impl = std::move(impl), destroy, value](const void*) {
    if (impl->table->contextSet(impl->context) == 0) destroy(value);
  });
}

std::string bytesText(size_t bytes) { return std::to_string(bytes) + " bytes"; }

} // namespace

Result<CudaDevice> CudaDevice::open(const CudaDriver& driver, int ordinal) {
  if (ordinal < 0 || static_cast<size_t>(ordinal) >= driver.devices().size())
    return machineError("there is no GPU " + std::to_string(ordinal) + "; this machine has " +
                        std::to_string(driver.devices().size()));
  auto impl = std::make_shared<Impl>(driver.table(), driver.devices()[static_cast<size_t>(ordinal)]);
  if (CuResult code = impl->table->contextRetain(&impl->context, ordinal)) {
    impl->context = nullptr;
    return impl->error("cuDevicePrimaryCtxRetain", code);
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

Result<CudaHostMemory> CudaDevice::allocateHost(size_t bytes) const {
  CudaHostMemory memory;
  if (auto s = impl_->call("page-locking " + bytesText(bytes), impl_->table->hostAlloc, &memory.get,
                           std::max<size_t>(bytes, 1), kPortable);
      !s)
    return s.error();
  memory.bytes = bytes;
  own(memory, impl_, impl_->table->hostFree, memory.get);
  return memory;
}

Result<CudaStream> CudaDevice::stream() const {
  CudaStream stream;
  if (auto s = impl_->call("cuStreamCreate", impl_->table->streamCreate, &stream.get, kNonBlocking); !s)
    return s.error();
  own(stream, impl_, impl_->table->streamDestroy, stream.get);
  return stream;
}

Result<CudaEvent> CudaDevice::event(bool timing) const {
  CudaEvent event;
  if (auto s = impl_->call("cuEventCreate", impl_->table->eventCreate, &event.get, timing ? 0u : kNoTiming);
      !s)
    return s.error();
  own(event, impl_, impl_->table->eventDestroy, event.get);
  return event;
}

Result<CudaModule> CudaDevice::load(std::string_view image) const {
  const std::string terminated(image); // PTX ends with a zero
  CudaModule module;
  if (auto s = impl_->call("loading a kernel's code of " + bytesText(image.size()), impl_->table->moduleLoad,
                           &module.get, static_cast<const void*>(terminated.c_str()));
      !s)
    return s.error();
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
  if (dynamicShared > kSharedWithoutAsking)
    if (auto s = impl_->call("giving kernel '" + name + "' " + bytesText(static_cast<size_t>(dynamicShared)) +
                                 " of shared memory",
                             impl_->table->functionSet, function.get, kMaxDynamicShared, dynamicShared);
        !s)
      return s.error();
  function.owner = module.owner;
  return function;
}

Status CudaDevice::copyIn(void* device, const void* host, size_t bytes, const CudaStream& stream) const {
  if (!bytes) return Ok{};
  return impl_->call("copying " + bytesText(bytes) + " to the device", impl_->table->copyIn, address(device),
                     host, bytes, stream.get);
}

Status CudaDevice::copyOut(void* host, const void* device, size_t bytes, const CudaStream& stream) const {
  if (!bytes) return Ok{};
  return impl_->call("copying " + bytesText(bytes) + " from the device", impl_->table->copyOut, host,
                     address(device), bytes, stream.get);
}

Status CudaDevice::copy(void* to, const void* from, size_t bytes, const CudaStream& stream) const {
  if (!bytes) return Ok{};
  return impl_->call("copying " + bytesText(bytes) + " on the device", impl_->table->copy, address(to),
                     address(from), bytes, stream.get);
}

Status CudaDevice::copyPeer(void* to, const CudaDevice& toDevice, const void* from,
                            const CudaDevice& fromDevice, size_t bytes, const CudaStream& stream) const {
  if (!bytes) return Ok{};
  return impl_->call("copying " + bytesText(bytes) + " between GPUs", impl_->table->copyPeer, address(to),
                     toDevice.impl_->context, address(from), fromDevice.impl_->context, bytes, stream.get);
}

Status CudaDevice::reach(const CudaDevice& other) const {
  CuResult code = impl_->table->contextSet(impl_->context);
  if (!code) code = impl_->table->enablePeer(other.impl_->context, 0);
  if (code && code != kReachedAlready) return impl_->error("cuCtxEnablePeerAccess", code);
  return Ok{};
}

Status CudaDevice::fill(void* device, uint8_t byte, size_t bytes, const CudaStream& stream) const {
  if (!bytes) return Ok{};
  return impl_->call("filling " + bytesText(bytes), impl_->table->fill, address(device), byte, bytes,
                     stream.get);
}

Status CudaDevice::fillWord(void* device, uint32_t word, const CudaStream& stream) const {
  return impl_->call("writing a number", impl_->table->fillWords, address(device), word, size_t{1},
                     stream.get);
}

Status CudaDevice::launch(const CudaFunction& function, CudaDim grid, CudaDim block, uint32_t sharedBytes,
                          void** args, const CudaStream& stream) const {
  return impl_->call("launching a kernel", impl_->table->launch, function.get, grid.x, grid.y, grid.z,
                     block.x, block.y, block.z, sharedBytes, stream.get, args, static_cast<void**>(nullptr));
}

Status CudaDevice::record(const CudaEvent& event, const CudaStream& stream) const {
  return impl_->call("cuEventRecord", impl_->table->eventRecord, event.get, stream.get);
}

Status CudaDevice::wait(const CudaStream& stream, const CudaEvent& event) const {
  return impl_->call("cuStreamWaitEvent", impl_->table->streamWait, stream.get, event.get, 0u);
}

Status CudaDevice::synchronize(const CudaStream& stream) const {
  return impl_->call("waiting for a stream", impl_->table->streamSynchronize, stream.get);
}

Result<bool> CudaDevice::idle(const CudaStream& stream) const {
  CuResult code = impl_->table->contextSet(impl_->context);
  if (!code) code = impl_->table->streamQuery(stream.get);
  if (code && code != kNotReady) return impl_->error("asking whether a stream is done", code);
  return code == 0;
}

Status CudaDevice::synchronize(const CudaEvent& event) const {
  return impl_->call("waiting for an event", impl_->table->eventSynchronize, event.get);
}

Result<float> CudaDevice::milliseconds(const CudaEvent& begin, const CudaEvent& end) const {
  float time = 0;
  if (auto s = impl_->call("cuEventElapsedTime", impl_->table->eventElapsed, &time, begin.get, end.get); !s)
    return s.error();
  return time;
}

Status CudaDevice::beginCapture(const CudaStream& stream) const {
  return impl_->call("cuStreamBeginCapture", impl_->table->captureBegin, stream.get, kThreadLocalCapture);
}

Result<CudaGraph> CudaDevice::endCapture(const CudaStream& stream) const {
  void* captured = nullptr;
  if (auto s = impl_->call("cuStreamEndCapture", impl_->table->captureEnd, stream.get, &captured); !s)
    return s.error();
  CudaGraph graph;
  auto instantiated =
      impl_->call("cuGraphInstantiate", impl_->table->graphInstantiate, &graph.get, captured, 0ull);
  impl_->table->graphDestroy(captured);
  if (!instantiated) return instantiated.error();
  own(graph, impl_, impl_->table->graphExecDestroy, graph.get);
  return graph;
}

Status CudaDevice::launch(const CudaGraph& graph, const CudaStream& stream) const {
  return impl_->call("cuGraphLaunch", impl_->table->graphLaunch, graph.get, stream.get);
}

bool CudaDevice::hasConditionals() const { return impl_->table->graphCondition != nullptr; }

namespace {

// What a captured stream stands at.
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
  node.handle = handle, node.kind = loop ? 1 : 0, node.context = impl_->context;
  void* added = nullptr;
  auto done = impl_->call("cuStreamGetCaptureInfo", impl_->table->captureInfo, stream.get, &c.status, &c.id,
                          &c.graph, &c.after, &c.edges, &c.count);
  if (done)
    done = impl_->call("cuGraphAddNode", impl_->table->graphAddNode, &added, c.graph, c.after, c.edges,
                       c.count, &node);
  if (done)
    done = impl_->call("cuStreamUpdateCaptureDependencies", impl_->table->captureUpdate, stream.get, &added,
                       static_cast<const void*>(nullptr), size_t{1}, kSetDependencies);
  if (!done) return done.error();
  return node.bodies[0];
}

Status CudaDevice::beginBody(const CudaStream& stream, void* body) const {
  return impl_->call("cuStreamBeginCaptureToGraph", impl_->table->captureTo, stream.get, body,
                     static_cast<void* const*>(nullptr), static_cast<const void*>(nullptr), size_t{0},
                     kThreadLocalCapture);
}

Status CudaDevice::endBody(const CudaStream& stream) const {
  void* body = nullptr; // belongs to its node
  return impl_->call("cuStreamEndCapture", impl_->table->captureEnd, stream.get, &body);
}

} // namespace dtc
