// libcuda.so.1 of the tests: the entry points that dtc binds, over Streams.h. A device's memory is the host's, filled with
// NaNs; kernels are the text that the stub of NVRTC hands through, executed by cuda-emu. DTC_STUB_GPUS says how many devices
// there are (1), of which CUDA_VISIBLE_DEVICES chooses, DTC_STUB_NO_PEERS=1 that they do not reach each other's memory,
// DTC_STUB_CUDA which CUDA the driver is of (13000), DTC_STUB_GPU their compute capability (90), DTC_STUB_INIT what cuInit
// returns (0). DTC_STUB_FORGET=N leaves out the Nth wait of a stream for an event (from 1).
#include "KernelImage.h"
#include "Streams.h"

#include "../../lib/Cuda/CudaTable.h"
#include "dtc/Emu/CudaEmu.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>
#include <unordered_map>

#define STUB_CUDA extern "C" STUB_API int

namespace stub {
namespace {

std::vector<Device>& devices() {
  static std::vector<Device> list = [] {
    const char* wanted = std::getenv("DTC_STUB_GPUS");
    std::vector<Device> made(static_cast<size_t>(std::clamp(wanted ? std::atoi(wanted) : 1, 0, 64)));
    for (size_t i = 0; i < made.size(); ++i) made[i].ordinal = made[i].physical = static_cast<int>(i);
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    if (!visible) return made;
    size_t count = 0;
    for (std::istringstream list(visible); count < made.size() && list >> made[count].physical; list.get())
      ++count;
    made.resize(count);
    return made;
  }();
  return list;
}

struct Allocation {
  size_t bytes = 0;
  const Device* device = nullptr;
};
std::map<uintptr_t, Allocation>& memory() {
  static std::map<uintptr_t, Allocation> m;
  return m;
}

struct Kernel {
  std::string name;
  std::vector<size_t> parameters; // bytes of each
};
struct Module {
  const Device* device = nullptr;
  std::shared_ptr<dtc::EmuModule> code;
  std::map<std::string, std::unique_ptr<struct Function>> functions;
  std::vector<Kernel> kernels;
};
struct Function {
  Module* module = nullptr;
  Kernel kernel;
  size_t own = 0;      // bytes of its shared variables
  size_t dynamic = 0;  // the most that launches may ask for
  bool loaded = false; // by cuFuncLoad, or by a launch outside of a capture
};
constexpr size_t kSharedWithoutAsking = 48 << 10, kSharedOptIn = 227 << 10;

int capability() {
  const char* wanted = std::getenv("DTC_STUB_GPU");
  return wanted ? std::atoi(wanted) : 90;
}

// Would a GPU take what was compiled for `target`: "sm_90a", "sm_90" or "compute_90"? ("CUDA Compatibility")
bool runs(const std::string& target) {
  const size_t digits = target.find('_') + 1;
  const int number = std::atoi(target.c_str() + digits);
  if (target.ends_with('a')) return number == capability();
  return number <= capability() && (target.starts_with("compute") || number / 10 == capability() / 10);
}

// Modules of one text share their code: compiling takes a tenth of a second.
dtc::Result<std::shared_ptr<dtc::EmuModule>> compiled(const std::string& name, const std::string& text);

// The values of handles of conditional nodes.
std::map<uint64_t, std::shared_ptr<uint32_t>>& conditions() {
  static std::map<uint64_t, std::shared_ptr<uint32_t>> list;
  return list;
}

template <class T> T valueOf(const std::string& bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

std::string set(uint64_t handle, bool value) {
  auto at = conditions().find(handle);
  if (at == conditions().end()) return "a kernel sets an unknown condition";
  *at->second = value ? 1 : 0;
  return "";
}

// The twins of lib/Cuda/CudaConditions.cpp.
std::string setCondition(const std::vector<std::string>& p) {
  auto* words = valueOf<uint32_t*>(p[3]);
  auto* trips = valueOf<uint32_t*>(p[4]);
  const auto limit = valueOf<uint32_t>(p[5]);
  const void* touched[] = {valueOf<char*>(p[2]), words + 1};
  for (const void* at : touched)
    if (!isDeviceMemory(at, 1)) return "a condition is read outside of an allocation";
  words[0] += 1;
  bool value = *valueOf<const char*>(p[2]) != 0;
  if (value && limit != UINT32_MAX) {
    if (*trips >= limit) words[1] = valueOf<uint32_t>(p[6]), value = false;
    *trips += 1;
  }
  std::string wrong = set(valueOf<uint64_t>(p[0]), value);
  if (wrong.empty() && valueOf<uint64_t>(p[1])) wrong = set(valueOf<uint64_t>(p[1]), !value);
  return wrong;
}
std::string nextTrip(const std::vector<std::string>& p) {
  auto* index = valueOf<int32_t*>(p[1]);
  if (!isDeviceMemory(index, 4)) return "the index of a loop is outside of an allocation";
  *index = valueOf<uint32_t>(p[4]) ? valueOf<int32_t>(p[2]) : *index + 1;
  return valueOf<uint64_t>(p[0]) ? set(valueOf<uint64_t>(p[0]), *index < valueOf<int32_t>(p[3])) : "";
}

} // namespace

Device*& current() {
  thread_local Device* device = nullptr;
  return device;
}

bool isDeviceMemory(const void* at, size_t bytes) {
  std::lock_guard guard(lock());
  const auto address = reinterpret_cast<uintptr_t>(at);
  auto next = memory().upper_bound(address);
  if (next == memory().begin()) return false;
  const auto& [begin, a] = *std::prev(next);
  return address - begin + bytes <= a.bytes;
}

namespace {

dtc::Result<std::shared_ptr<dtc::EmuModule>> compiled(const std::string& name, const std::string& text) {
  static std::map<std::string, std::shared_ptr<dtc::EmuModule>> known;
  // With the plugins of the build tree: the stub is in a folder of its own. Never destroyed: code outlives main().
  static const dtc::CpuJit* jit = new dtc::CpuJit({.pluginDir = DTC_PLUGINS});
  auto at = known.find(text);
  if (at != known.end()) return at->second;
  const dtc::SourceUnit unit{name, text};
  auto made = dtc::CudaEmu(*jit, false).compile({&unit, 1});
  if (!made) return made.error();
  return known[text] = std::make_shared<dtc::EmuModule>(std::move(*made));
}

int outside(const char* what, const void* at, size_t bytes) {
  char text[160];
  std::snprintf(text, sizeof text, "%s: %zu bytes at %p are not within an allocation", what, bytes, at);
  return problem(kIllegalAddress, text);
}

// The device whose memory it is, or null.
const Device* ownerOf(uint64_t address) {
  std::lock_guard guard(lock());
  auto next = memory().upper_bound(address);
  if (next == memory().begin()) return nullptr;
  const auto& [begin, a] = *std::prev(next);
  return address - begin < std::max<size_t>(a.bytes, 1) ? a.device : nullptr;
}

// May work of the current device touch it?
bool reached(uint64_t address) {
  const Device* owner = ownerOf(address);
  return !owner || owner == current() || current()->reaches.contains(owner);
}

int uncaptured(const char* what) {
  if (!capturing()) return kSuccess;
  return problem(kCaptureUnsupported, std::string(what) + " while a stream is captured");
}

int withContext(const char* what) {
  return current() ? int{kSuccess} : problem(kNoContext, std::string(what) + ": no context is current");
}

constexpr const char* kPageable =
    "a copy from or to pageable memory of the host while the stream is captured";

Stream& streamOf(void* handle) { return **static_cast<std::shared_ptr<Stream>*>(handle); }

void* at(uint64_t address) { return std::bit_cast<void*>(address); }

} // namespace
} // namespace stub

using namespace stub;

STUB_CUDA cuInit(unsigned) {
  const char* wanted = std::getenv("DTC_STUB_INIT");
  return wanted ? problem(std::atoi(wanted), "cuInit was made to fail") : kSuccess;
}
STUB_CUDA cuDriverGetVersion(int* out) {
  const char* wanted = std::getenv("DTC_STUB_CUDA");
  return *out = wanted ? std::atoi(wanted) : 13000, kSuccess;
}
STUB_CUDA cuDeviceGetCount(int* out) { return *out = static_cast<int>(devices().size()), kSuccess; }
STUB_CUDA cuDeviceGet(int* out, int ordinal) { return *out = ordinal, kSuccess; }
STUB_CUDA cuDeviceGetName(char* out, int size, int) {
  std::snprintf(out, static_cast<size_t>(size), "stub GPU");
  return kSuccess;
}
STUB_CUDA cuDeviceTotalMem_v2(size_t* out, int) { return *out = size_t{1} << 32, kSuccess; }
STUB_CUDA cuDeviceGetAttribute(int* out, int attribute, int device) {
  const std::pair<int, int> known[] = {
      {dtc::kAttributeMultiprocessors, 4},
      {dtc::kAttributeMajor, capability() / 10},
      {dtc::kAttributeMinor, capability() % 10},
      {dtc::kAttributeSharedOptIn, kSharedOptIn},
      {dtc::kAttributePciBus, devices()[static_cast<size_t>(device)].physical},
      {dtc::kAttributePciDevice, 0},
      {dtc::kAttributePciDomain, 0}};
  for (auto [number, value] : known)
    if (number == attribute) return *out = value, kSuccess;
  return problem(kInvalidValue, "the stub knows no attribute " + std::to_string(attribute));
}
STUB_CUDA cuDeviceCanAccessPeer(int* out, int a, int b) {
  return *out = a != b && !std::getenv("DTC_STUB_NO_PEERS"), kSuccess;
}
STUB_CUDA cuCtxEnablePeerAccess(void* context, unsigned) {
  if (std::getenv("DTC_STUB_NO_PEERS")) return problem(217, "the devices cannot reach each other");
  return current()->reaches.insert(static_cast<const Device*>(context)).second ? int{kSuccess} : 704;
}
STUB_CUDA cuDevicePrimaryCtxRetain(void** out, int device) {
  return *out = &devices()[static_cast<size_t>(device)], kSuccess;
}
STUB_CUDA cuDevicePrimaryCtxRelease_v2(int) { return kSuccess; }
STUB_CUDA cuCtxSetCurrent(void* context) { return current() = static_cast<Device*>(context), kSuccess; }
STUB_CUDA cuCtxGetDevice(int* out) {
  if (!current()) return problem(kNoContext, "no context is current");
  return *out = current()->ordinal, kSuccess;
}

STUB_CUDA cuMemAlloc_v2(uint64_t* out, size_t bytes) {
  std::lock_guard guard(lock());
  if (int code = withContext("cuMemAlloc")) return code;
  if (int code = uncaptured("cuMemAlloc")) return code;
  if (fails("alloc") || bytes > size_t{1} << 32) return problem(kOutOfMemory, "out of memory");
  void* p = std::aligned_alloc(256, (bytes + 255) & ~size_t{255});
  if (!p) return problem(kOutOfMemory, "out of memory");
  std::memset(p, 0xff, bytes);
  memory()[reinterpret_cast<uintptr_t>(p)] = {bytes, current()};
  return *out = reinterpret_cast<uint64_t>(p), kSuccess;
}
STUB_CUDA cuMemFree_v2(uint64_t address) {
  std::lock_guard guard(lock());
  if (int code = uncaptured("cuMemFree")) return code;
  if (!memory().erase(address)) return outside("cuMemFree", at(address), 1);
  std::free(at(address));
  return kSuccess;
}

STUB_CUDA cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, void* stream) {
  if (fails("copy")) return problem(kIllegalAddress, "the copy was made to fail");
  if (!isDeviceMemory(at(to), bytes)) return outside("cuMemcpyHtoDAsync", at(to), bytes);
  if (streamOf(stream).capture) return problem(kCaptureUnsupported, kPageable);
  const auto* begin = static_cast<const char*>(from);
  Op op; // pageable memory is read before the return
  op.work = [to, kept = std::string(begin, begin + bytes)]() -> std::string {
    std::memcpy(at(to), kept.data(), kept.size());
    return "";
  };
  return enqueue(streamOf(stream), std::move(op));
}
STUB_CUDA cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, void* stream) {
  if (fails("copy")) return problem(kIllegalAddress, "the copy was made to fail");
  if (!isDeviceMemory(at(from), bytes)) return outside("cuMemcpyDtoHAsync", at(from), bytes);
  if (streamOf(stream).capture) return problem(kCaptureUnsupported, kPageable);
  Op op;
  op.work = [=]() -> std::string {
    std::memcpy(to, at(from), bytes);
    return "";
  };
  return enqueue(streamOf(stream), std::move(op));
}
STUB_CUDA cuMemcpyPeerAsync(uint64_t to, void* toContext, uint64_t from, void* fromContext, size_t bytes,
                            void* stream) {
  for (auto [p, context] : {std::pair(to, toContext), std::pair(from, fromContext)})
    if (!isDeviceMemory(at(p), bytes) || ownerOf(p) != context)
      return outside("cuMemcpyPeerAsync", at(p), bytes);
  Op op;
  op.work = [=]() -> std::string {
    std::memcpy(at(to), at(from), bytes);
    return "";
  };
  return enqueue(streamOf(stream), std::move(op));
}
STUB_CUDA cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void* stream) {
  for (uint64_t p : {to, from})
    if (!isDeviceMemory(at(p), bytes) || !reached(p)) return outside("cuMemcpyDtoDAsync", at(p), bytes);
  Op op;
  op.work = [=]() -> std::string {
    std::memcpy(at(to), at(from), bytes);
    return "";
  };
  return enqueue(streamOf(stream), std::move(op));
}
STUB_CUDA cuMemsetD8Async(uint64_t to, unsigned char byte, size_t bytes, void* stream) {
  if (!isDeviceMemory(at(to), bytes)) return outside("cuMemsetD8Async", at(to), bytes);
  Op op;
  op.work = [=]() -> std::string {
    std::memset(at(to), byte, bytes);
    return "";
  };
  return enqueue(streamOf(stream), std::move(op));
}
STUB_CUDA cuMemsetD32Async(uint64_t to, unsigned value, size_t count, void* stream) {
  if (!isDeviceMemory(at(to), 4 * count)) return outside("cuMemsetD32Async", at(to), 4 * count);
  Op op;
  op.work = [=]() -> std::string {
    for (size_t i = 0; i < count; ++i) std::memcpy(at(to + 4 * i), &value, 4);
    return "";
  };
  return enqueue(streamOf(stream), std::move(op));
}

STUB_CUDA cuStreamCreateWithPriority(void** out, unsigned, int) {
  if (int code = withContext("cuStreamCreateWithPriority")) return code;
  auto stream = std::make_shared<Stream>();
  stream->device = current();
  return *out = new std::shared_ptr<Stream>(stream), kSuccess;
}
// dtc does not call it, scripts that measure do.
STUB_CUDA cuStreamCreate(void** out, unsigned flags) { return cuStreamCreateWithPriority(out, flags, 0); }
STUB_CUDA cuStreamDestroy_v2(void* stream) {
  return delete static_cast<std::shared_ptr<Stream>*>(stream), kSuccess;
}
STUB_CUDA cuStreamSynchronize(void* stream) {
  if (int code = uncaptured("cuStreamSynchronize")) return code;
  return drain(streamOf(stream), streamOf(stream).end(), true);
}
STUB_CUDA cuStreamQuery(void* stream) { return drain(streamOf(stream), streamOf(stream).end(), false); }
// Seeds the fault that these stubs are there to find.
static bool isForgotten() {
  static const char* const wanted = std::getenv("DTC_STUB_FORGET");
  static int calls = 0;
  std::lock_guard guard(lock());
  return wanted && ++calls == std::atoi(wanted);
}
STUB_CUDA cuStreamWaitEvent(void* stream, void* event, unsigned) {
  if (isForgotten()) return kSuccess;
  return waitFor(streamOf(stream), *static_cast<Event*>(event));
}
STUB_CUDA cuStreamBeginCapture_v2(void* stream, int) { return beginCapture(streamOf(stream)); }
STUB_CUDA cuStreamEndCapture(void* stream, void** out) {
  std::shared_ptr<Graph> graph;
  const int code = endCapture(streamOf(stream), graph);
  streamOf(stream).captureHandle.reset();
  if (code) return code;
  if (graph->isBody) return *out = nullptr, kSuccess; // its node's
  return *out = new std::shared_ptr<Graph>(graph), kSuccess;
}
// It needs memory on the device, and no documentation says that it may while this thread captures: NCCL's tests end all captures first.
STUB_CUDA cuGraphInstantiateWithFlags(void** out, void* graph, unsigned long long) {
  if (int code = uncaptured("cuGraphInstantiate")) return code;
  if (int code = checkGraph(**static_cast<std::shared_ptr<Graph>*>(graph))) return code;
  return *out = new std::shared_ptr<Graph>(*static_cast<std::shared_ptr<Graph>*>(graph)), kSuccess;
}
STUB_CUDA cuStreamGetCaptureInfo_v3(void* handle, int* status, uint64_t* id, void** graph,
                                    void* const** after, const void** edges, size_t* count) {
  std::lock_guard guard(lock());
  Stream& stream = streamOf(handle);
  if (!stream.capture) return problem(kInvalidValue, "the stream is not captured");
  Graph& g = *stream.capture;
  g.nodes.push_back({stream.track, g.tracks[stream.track].ops.size()});
  g.dependencies = {&g.nodes.back()};
  // A stream's own capture is asked about until it ends; the answer lives as long.
  stream.captureHandle = stream.capture;
  *status = 1, *id = g.number, *graph = &stream.captureHandle;
  return *after = g.dependencies.data(), *edges = nullptr, *count = 1, kSuccess;
}
STUB_CUDA cuStreamUpdateCaptureDependencies_v2(void* stream, void** nodes, const void*, size_t count,
                                               unsigned flags) {
  if (count != 1 || flags != 1) return problem(kInvalidValue, "the stub sets one dependency");
  return dependOn(streamOf(stream), nodes[0]);
}
STUB_CUDA cuStreamBeginCaptureToGraph(void* stream, void* graph, void* const*, const void*, size_t count,
                                      int) {
  if (count) return problem(kInvalidValue, "the stub captures to a graph from its beginning");
  return beginCapture(streamOf(stream), *static_cast<std::shared_ptr<Graph>*>(graph));
}
STUB_CUDA cuGraphConditionalHandleCreate(uint64_t* out, void* graph, void* context, unsigned value,
                                         unsigned) {
  std::lock_guard guard(lock());
  static uint64_t next = 0;
  if (context != current()) return problem(kInvalidHandle, "the handle is for another context");
  auto& list = (*static_cast<std::shared_ptr<Graph>*>(graph))->handles;
  *out = ++next;
  conditions()[next] = list[next] = std::make_shared<uint32_t>(value);
  return kSuccess;
}
STUB_CUDA cuGraphAddNode_v2(void** out, void* handle, void* const* after, const void*, size_t count,
                            dtc::CudaNodeParams* node) {
  std::lock_guard guard(lock());
  Graph& graph = **static_cast<std::shared_ptr<Graph>*>(handle);
  if (node->type == 2) {
    const auto words = *reinterpret_cast<const dtc::CudaMemsetParams*>(node);
    if (words.width != 1 || words.height != 1 || words.elementBytes != 4 || words.context != current())
      return problem(kInvalidValue, "the stub adds nodes that write one word of the current device");
    if (!isDeviceMemory(at(words.to), 4)) return outside("cuGraphAddNode", at(words.to), 4);
    const auto write = [words]() -> std::string { return std::memcpy(at(words.to), &words.value, 4), ""; };
    return addWork(graph, {after, after + count}, write, *out);
  }
  auto value = graph.handles.extract(node->handle); // one node a handle
  if (node->type != 13 || node->size != 1 || value.empty())
    return problem(kInvalidValue,
                   "the stub adds conditional nodes of one body, each with a handle of its graph");
  auto body = std::make_shared<Graph>();
  body->isBody = true;
  graph.bodies.push_back(std::make_unique<std::shared_ptr<Graph>>(body));
  graph.bodyHandles.push_back(std::make_unique<void*>(graph.bodies.back().get()));
  node->bodies = graph.bodyHandles.back().get();
  return addConditional(graph, {after, after + count}, {value.mapped(), body, node->kind == 1}, *out);
}
STUB_CUDA cuGraphDestroy(void* graph) { return delete static_cast<std::shared_ptr<Graph>*>(graph), kSuccess; }
STUB_CUDA cuGraphExecDestroy(void* graph) { return cuGraphDestroy(graph); }
STUB_CUDA cuGraphUpload(void*, void* stream) {
  if (streamOf(stream).capture)
    return problem(kCaptureUnsupported, "a graph is uploaded to a captured stream");
  return streamOf(stream).device == current() ? int{kSuccess}
                                              : problem(kInvalidHandle, "another device's stream");
}
STUB_CUDA cuGraphLaunch(void* graph, void* stream) {
  return launchGraph(**static_cast<std::shared_ptr<Graph>*>(graph), streamOf(stream));
}

STUB_CUDA cuEventCreate(void** out, unsigned flags) {
  if (int code = withContext("cuEventCreate")) return code;
  auto* event = new Event();
  event->device = current(), event->timed = (flags & 2) == 0;
  return *out = event, kSuccess;
}
STUB_CUDA cuEventDestroy_v2(void* event) { return delete static_cast<Event*>(event), kSuccess; }
STUB_CUDA cuEventRecord(void* event, void* stream) {
  if (static_cast<Event*>(event)->device != streamOf(stream).device)
    return problem(kInvalidHandle, "the event belongs to another device than the stream");
  return record(*static_cast<Event*>(event), streamOf(stream));
}
STUB_CUDA cuEventElapsedTime(float* out, void* begin, void* end) {
  for (void* e : {begin, end}) {
    const Event& one = *static_cast<Event*>(e);
    if (!one.timed || !one.at.stream) return problem(kInvalidHandle, "the event has no time");
    if (one.at.stream->done < one.at.end) return problem(kNotReady, "the event is not over");
  }
  *out =
      static_cast<float>(*static_cast<Event*>(end)->milliseconds - *static_cast<Event*>(begin)->milliseconds);
  return kSuccess;
}

STUB_CUDA cuModuleLoadData(void** out, const void* image) {
  std::lock_guard guard(lock());
  if (int code = withContext("cuModuleLoadData")) return code;
  if (int code = uncaptured("cuModuleLoadData")) return code;
  const std::string text(static_cast<const char*>(image));
  if (text.find(".entry dtc_set_condition(") != std::string::npos) {
    auto module = std::make_unique<Module>();
    module->device = current();
    module->kernels = {{"dtc_set_condition", {8, 8, 8, 8, 8, 4, 4}}, {"dtc_next_trip", {8, 8, 4, 4, 4}}};
    return *out = module.release(), kSuccess;
  }
  const auto kernels = KernelImage::read(text);
  if (!kernels) return problem(kInvalidImage, "the image was not made by the stub of NVRTC");
  if (!runs(kernels->target)) return problem(kNoBinary, "the image is for " + kernels->target);
  auto code = compiled(kernels->name, kernels->source);
  if (!code) return problem(kInvalidImage, code.error().message);
  auto module = std::make_unique<Module>();
  module->device = current();
  module->code = *code;
  for (const std::string& kernel : (*code)->kernels())
    module->kernels.push_back({kernel, parametersOf(kernels->source, kernel)});
  return *out = module.release(), kSuccess;
}
STUB_CUDA cuModuleUnload(void* module) { return delete static_cast<Module*>(module), kSuccess; }
STUB_CUDA cuModuleGetFunction(void** out, void* handle, const char* name) {
  auto& module = *static_cast<Module*>(handle);
  for (const Kernel& k : module.kernels)
    if (k.name == name) {
      auto& function = module.functions[name];
      if (!function) function = std::make_unique<Function>(Function{&module, k, 0, 0});
      if (module.code) function->own = module.code->sharedBytes(name);
      return *out = function.get(), kSuccess;
    }
  return problem(kNotFound, std::string("there is no kernel '") + name + "'");
}
STUB_CUDA cuFuncLoad(void* handle) { return static_cast<Function*>(handle)->loaded = true, kSuccess; }
STUB_CUDA cuFuncSetAttribute(void* handle, int attribute, int value) {
  auto& function = *static_cast<Function*>(handle);
  if (attribute != dtc::kFunctionDynamicShared) return problem(kInvalidValue, "the stub sets one attribute");
  if (value < 0 || function.own + static_cast<size_t>(value) > kSharedOptIn)
    return problem(kInvalidValue, "more shared memory than a block can have");
  return function.dynamic = static_cast<size_t>(value), kSuccess;
}
STUB_CUDA cuLaunchKernel(void* handle, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                         unsigned bz, unsigned shared, void* stream, void** args, void**) {
  auto& function = *static_cast<Function*>(handle);
  if (fails("launch")) return problem(kLaunchFailed, "the launch was made to fail");
  if (!gx || !gy || !gz || gx > 0x7fffffffu || gy > 65535 || gz > 65535 || !bx || !by || !bz ||
      uint64_t{bx} * by * bz > 1024)
    return problem(kInvalidValue, "kernel '" + function.kernel.name + "': invalid grid or block");
  if (shared >
      std::max(function.dynamic, kSharedWithoutAsking - std::min(function.own, kSharedWithoutAsking)))
    return problem(kInvalidValue, "kernel '" + function.kernel.name + "' asks for " + std::to_string(shared) +
                                      " bytes of shared memory that cuFuncSetAttribute has not allowed");
  if (function.module->device != current())
    return problem(kInvalidHandle, "kernel '" + function.kernel.name + "' was loaded on another device");
  if (!function.loaded && capturing())
    return problem(kCaptureUnsupported,
                   "kernel '" + function.kernel.name + "' would be loaded inside of a capture");
  function.loaded = true;
  std::vector<std::string> values; // parameters are read before the return
  for (size_t i = 0; i < function.kernel.parameters.size(); ++i)
    values.emplace_back(static_cast<const char*>(args[i]), function.kernel.parameters[i]);
  for (const std::string& v : values)
    if (v.size() == 8 && !reached(valueOf<uint64_t>(v)))
      return problem(kIllegalAddress, "kernel '" + function.kernel.name +
                                          "' is given memory of a device that its own does not reach");
  Op op;
  op.kernel = current();
  if (!function.module->code) {
    op.work = [values, first = function.kernel.parameters.size() == 7]() -> std::string {
      return first ? setCondition(values) : nextTrip(values);
    };
    return enqueue(streamOf(stream), std::move(op));
  }
  op.work = [=, code = function.module->code, name = function.kernel.name]() -> std::string {
    std::vector<void*> pointers;
    std::vector<std::string> copy = values;
    for (std::string& v : copy) pointers.push_back(v.data());
    auto done = code->launch(name, {gx, gy, gz}, {bx, by, bz}, shared, pointers.data());
    return done ? "" : done.error().message;
  };
  return enqueue(streamOf(stream), std::move(op));
}

STUB_CUDA cuGetErrorName(int code, const char** out) {
  const std::pair<int, const char*> known[] = {
      {kInvalidValue, "CUDA_ERROR_INVALID_VALUE"},
      {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
      {kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE"},
      {kNotReady, "CUDA_ERROR_NOT_READY"},
      {kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS"},
      {kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED"},
      {kNoBinary, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
      {kNoContext, "CUDA_ERROR_INVALID_CONTEXT"},
      {dtc::kCudaSystemNotReady, "CUDA_ERROR_SYSTEM_NOT_READY"},
      {kCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
      {kCaptureUnjoined, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"},
      {kCaptureIsolation, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION"},
  };
  *out = "CUDA_ERROR_UNKNOWN";
  for (auto [number, name] : known)
    if (number == code) *out = name;
  return kSuccess;
}
STUB_CUDA cuGetErrorString(int, const char** out) { return *out = lastProblem().c_str(), kSuccess; }
