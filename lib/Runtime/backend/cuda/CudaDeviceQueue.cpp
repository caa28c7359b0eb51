#include "backend/cuda/CudaDeviceQueue.h"

namespace dtc {
constexpr int64_t kThreads = 256; // threads per block of collective kernels

Result<std::unique_ptr<CudaDeviceQueue>> CudaDeviceQueue::make(std::vector<CudaDevice> gpus,
                                                               DeviceSlice devices, const Nvrtc& nvrtc) {
  std::unique_ptr<CudaDeviceQueue> made(new CudaDeviceQueue(std::move(gpus), nvrtc));
  made->first_ = devices.begin;
  for (int64_t p = devices.begin; p < devices.end; ++p) {
    DeviceState state;
    state.gpu = made->indexOf(p) * made->gpus_.size() / static_cast<size_t>(devices.end - devices.begin);
    DTC_TRY(auto lane, made->lane(state.gpu, false));
    state.lanes.push_back(std::move(lane));
    made->devices_.push_back(std::move(state));
    made->all_.push_back(p);
  }
  return made;
}

Result<std::vector<CudaDevice>> openGpus(const CudaDriver& driver, std::span<const int> ordinals) {
  std::vector<CudaDevice> out;
  for (const int ordinal : ordinals) {
    DTC_TRY(auto device, CudaDevice::open(driver, ordinal));
    out.push_back(device);
  }
  return out;
}

Result<CudaDeviceQueue::Lane> CudaDeviceQueue::lane(size_t gpu, bool overlapped) const {
  DTC_TRY(auto stream, gpus_[gpu].stream(overlapped));
  DTC_TRY(auto event, gpus_[gpu].event());
  return Lane{stream, event, false};
}

Status CudaDeviceQueue::load(std::span<const SourceUnit> units, std::span<const int> shared) {
  for (const CudaDevice& gpu : gpus_) {
    DTC_TRY(auto code, nvrtc_.codeFor(gpu.info().major, gpu.info().minor));
    DTC_TRY(auto binaries, nvrtc_.compile(units, code.arch, code.image));
    std::map<std::string_view, CudaModule> modules; // units compiled together share one image
    for (size_t i = 0; i < units.size(); ++i) {
      auto& module = modules[binaries[i].image];
      if (!module.get) {
        DTC_TRY(module, gpu.load(binaries[i].image));
      }
      DTC_TRY(auto function, gpu.function(module, units[i].name, shared.empty() ? 0 : shared[i]));
      kernels_[units[i].name].push_back(function);
    }
  }
  return Ok{};
}

const CudaFunction& CudaDeviceQueue::function(int64_t coordinate, const std::string& kernel) const {
  return kernels_.at(kernel)[gpuOf(coordinate)];
}

Status CudaDeviceQueue::growLanes(DeviceState& p, std::vector<Lane>& lanes, size_t depth) const {
  while (lanes.size() < depth) {
    DTC_TRY(auto made, lane(p.gpu, &lanes == &p.commLanes));
    lanes.push_back(std::move(made));
  }
  return Ok{};
}

// Also synchronizes communication streams: after an error they may not have been joined.
Status CudaDeviceQueue::synchronize() {
  for (DeviceState& p : devices_) {
    p.overlapped = false;
    for (const std::vector<Lane>* lanes : {&p.lanes, &p.commLanes})
      if (!lanes->empty())
        if (Status s = gpus_[p.gpu].synchronize((*lanes)[p.depth].stream); !s) return s;
  }
  return Ok{};
}

Result<bool> CudaDeviceQueue::idle(int64_t coordinate) const {
  const DeviceState& p = at(coordinate);
  bool all = true;
  for (const std::vector<Lane>* lanes : {&p.lanes, &p.commLanes}) {
    if (lanes->empty()) continue;
    auto idle = gpus_[p.gpu].idle((*lanes)[p.depth].stream);
    if (!idle) return idle;
    all = all && *idle;
  }
  return all;
}

Status CudaDeviceQueue::launch(int64_t coordinate, const std::string& kernel, int64_t elements,
                               std::span<void*> arguments, std::span<const DeviceBuffer> /*buffers*/) {
  const int64_t blocks = (elements + kThreads - 1) / kThreads;
  if (blocks > INT32_MAX) return machineError("kernel '" + kernel + "' needs more than 2^31-1 blocks");
  return start(coordinate, [&](const CudaDevice& d, const CudaStream& s) {
    return d.launch(function(coordinate, kernel), {static_cast<uint32_t>(blocks)},
                    {static_cast<uint32_t>(kThreads)}, 0, arguments.data(), s);
  });
}

Status CudaDeviceQueue::copy(int64_t coordinate, std::byte* to, const std::byte* from, int64_t bytes) {
  return start(coordinate, [&](const CudaDevice& d, const CudaStream& s) {
    return d.copy(to, from, static_cast<size_t>(bytes), s);
  });
}

Status CudaDeviceQueue::copyBetween(int64_t coordinate, std::byte* to, int64_t toCoordinate,
                                    const std::byte* from, int64_t fromCoordinate, int64_t bytes) {
  // With peer access a plain copy works, which graphs can capture; for peer copies that is undocumented.
  if (reaches(coordinate, toCoordinate) && reaches(coordinate, fromCoordinate))
    return copy(coordinate, to, from, bytes);
  return start(coordinate, [&](const CudaDevice& d, const CudaStream& s) {
    return d.copyPeer(to, device(toCoordinate), from, device(fromCoordinate), static_cast<size_t>(bytes), s);
  });
}

Result<size_t> CudaDeviceQueue::connect(const CudaDriver& driver) {
  size_t unconnected = 0;
  for (size_t a = 0; a < gpus_.size(); ++a)
    for (size_t b = 0; b < gpus_.size(); ++b) {
      if (a == b) continue;
      if (!driver.reaches(gpus_[a].info().ordinal, gpus_[b].info().ordinal)) {
        ++unconnected;
        continue;
      }
      if (Status s = gpus_[a].reach(gpus_[b]); !s) return s.error();
      reaches_.emplace(a, b);
    }
  return unconnected;
}

Status CudaDeviceQueue::reserve(int64_t coordinate, int64_t bytes) {
  if (!slice().contains(coordinate)) return Ok{};
  if (static_cast<int64_t>(at(coordinate).room.bytes) >= bytes) return Ok{};
  auto memory =
      device(coordinate).allocate(static_cast<size_t>(bytes)); // no enqueued work uses the old memory
  if (!memory) return memory.error();
  at(coordinate).room = *memory;
  return Ok{};
}

Status CudaDeviceQueue::clear(int64_t coordinate, std::byte* to, int64_t bytes) {
  return start(coordinate, [&](const CudaDevice& d, const CudaStream& s) {
    return d.fill(to, 0, static_cast<size_t>(bytes), s);
  });
}

Status CudaDeviceQueue::recordNow(DeviceState& p) {
  Lane& lane = p.now();
  if (!lane.recorded)
    if (Status s = gpus_[p.gpu].record(lane.event, lane.stream); !s) return s;
  lane.recorded = true;
  return Ok{};
}

Status CudaDeviceQueue::waitFor(int64_t coordinate, std::span<const int64_t> others) {
  for (int64_t o : others) {
    if (o == coordinate) continue;
    if (Status s = recordNow(at(o)); !s) return s;
    if (Status s = device(coordinate).wait(stream(coordinate), at(o).now().event); !s) return s;
    // Waits are transitive: a later waiter for `coordinate`, perhaps in another group, also waits for `o`, because
    // it may write memory of `coordinate` that `o` reads.
    at(coordinate).now().recorded = false;
  }
  return Ok{};
}

Status CudaDeviceQueue::waitForStream(void* stream) {
  CudaStream theirs;
  theirs.get = stream; // without an owner: it is not destroyed here
  if (!external_) {
    DTC_TRY(external_, device(first_).event());
  }
  if (Status s = device(first_).record(*external_, theirs); !s) return s;
  for (int64_t p : all_)
    if (Status s =
            start(p, [&](const CudaDevice& d, const CudaStream& own) { return d.wait(own, *external_); });
        !s)
      return s;
  return Ok{};
}

// Records all events before any wait, so that no device waits for the wait of another.
Status CudaDeviceQueue::rendezvous(std::span<const int64_t> coordinates) {
  for (int64_t p : coordinates)
    if (Status s = recordNow(at(p)); !s) return s;
  for (int64_t p : coordinates)
    for (int64_t o : coordinates)
      if (o != p)
        if (Status s = device(p).wait(stream(p), at(o).now().event); !s) return s;
  if (coordinates.size() > 1)
    for (int64_t p : coordinates) at(p).now().recorded = false;
  return Ok{};
}

Status CudaDeviceQueue::reserveOverlap(size_t joins) {
  for (DeviceState& p : devices_) {
    if (Status s = growLanes(p, p.commLanes, p.lanes.size()); !s) return s;
    while (p.arrived.size() < joins) {
      DTC_TRY(auto event, gpus_[p.gpu].event());
      p.arrived.push_back(std::move(event));
    }
  }
  return Ok{};
}

// The communication stream now includes all work of the compute stream: earlier events are stale.
Status CudaDeviceQueue::beginOverlap(int64_t coordinate) {
  DeviceState& p = at(coordinate);
  if (Status s = recordNow(p); !s) return s;
  const Lane& before = p.now();
  p.overlapped = true;
  p.now().recorded = false;
  return gpus_[p.gpu].wait(p.now().stream, before.event);
}

Status CudaDeviceQueue::endOverlap(int64_t coordinate, uint32_t join) {
  DeviceState& p = at(coordinate);
  const Status recorded = gpus_[p.gpu].record(p.arrived[join], p.now().stream);
  p.overlapped = false;
  return recorded;
}

Status CudaDeviceQueue::join(int64_t coordinate, uint32_t join) {
  DeviceState& p = at(coordinate);
  p.now().recorded = false;
  return gpus_[p.gpu].wait(p.now().stream, p.arrived[join]);
}

// Includes what the others have waited for, so that their earlier events are stale.
Status CudaDeviceQueue::gather(std::span<const int64_t> coordinates) {
  for (int64_t p : coordinates.subspan(1)) at(p).now().recorded = false;
  const Status done = waitFor(coordinates[0], coordinates);
  at(coordinates[0]).now().recorded = false;
  return done;
}

Status CudaDeviceQueue::spread(std::span<const int64_t> coordinates) {
  at(coordinates[0]).now().recorded = false;
  for (int64_t p : coordinates.subspan(1))
    if (Status s = waitFor(p, coordinates.first(1)); !s) return s;
  return Ok{};
}

Status CudaDeviceQueue::reserveBodies(size_t depth) {
  for (DeviceState& p : devices_) {
    if (Status s = growLanes(p, p.lanes, depth + 1); !s) return s;
    if (!p.commLanes.empty())
      if (Status s = growLanes(p, p.commLanes, depth + 1); !s) return s;
  }
  return Ok{};
}

Status CudaDeviceQueue::enterBody(std::span<const int64_t> coordinates, void* body) {
  for (int64_t p : coordinates) {
    ++at(p).depth;
    at(p).now().recorded = false;
  }
  Status begun = device(coordinates[0]).beginBody(stream(coordinates[0]), body);
  if (begun) {
    Status forked = spread(coordinates);
    if (!forked) (void)leaveBody(coordinates); // the first error is returned
    return forked;
  }
  for (int64_t p : coordinates) --at(p).depth;
  return begun;
}

Status CudaDeviceQueue::leaveBody(std::span<const int64_t> coordinates) {
  for (int64_t p : coordinates) at(p).overlapped = false; // may be set after an error
  const Status joined = gather(coordinates), ended = device(coordinates[0]).endBody(stream(coordinates[0]));
  for (int64_t p : coordinates) {
    at(p).now().recorded = false; // events from the capture are invalid outside
    --at(p).depth;
  }
  return joined ? ended : joined;
}

Status CudaDeviceQueue::beginCapture(bool together) {
  for (DeviceState& p : devices_) p.now().recorded = false; // events from outside are invalid in the capture
  for (int64_t p = first_; p < first_ + (together ? 1 : count()); ++p)
    if (Status s = device(p).beginCapture(stream(p)); !s) return s;
  return together ? spread(all_) : Status(Ok{});
}

Result<CudaDeviceQueue::Graph> CudaDeviceQueue::endCapture(bool together) {
  Graph graph;
  graph.together = together;
  for (DeviceState& p : devices_) p.overlapped = false; // may be set after an error
  Status joined = together ? gather(all_) : Status(Ok{});
  // Ends every capture, also after an error: a capturing stream cannot be used otherwise.
  std::optional<Error> wrong;
  if (!joined) wrong = joined.error();
  std::vector<CudaCapture> captured;
  for (int64_t p = first_; p < first_ + (together ? 1 : count()); ++p) {
    auto part = device(p).endCapture(stream(p));
    if (part)
      captured.push_back(*part);
    else if (!wrong)
      wrong = part.error();
  }
  for (DeviceState& p : devices_) p.now().recorded = false;
  if (wrong) return *wrong;
  for (size_t i = 0; i < captured.size(); ++i) {
    const int64_t coordinate = first_ + static_cast<int64_t>(i);
    DTC_TRY(auto part, device(coordinate).instantiate(captured[i], stream(coordinate)));
    graph.parts.push_back(part);
  }
  return graph;
}

Status CudaDeviceQueue::launch(const Graph& graph) {
  if (graph.together)
    if (Status s = gather(all_); !s) return s;
  for (size_t i = 0; i < graph.parts.size(); ++i) {
    const int64_t coordinate = first_ + static_cast<int64_t>(i);
    Status s = start(coordinate,
                     [&](const CudaDevice& d, const CudaStream& to) { return d.launch(graph.parts[i], to); });
    if (!s) return s;
  }
  return graph.together ? spread(all_) : Status(Ok{});
}

Status CudaDeviceQueue::occupy(int64_t coordinate) {
  constexpr size_t kMost = size_t{128} << 20, kLeast = size_t{1} << 20; // H100: 50 MiB of L2, 3 TB/s
  occupied_.resize(gpus_.size());
  CudaMemory& memory = occupied_[at(coordinate).gpu];
  for (size_t bytes = kMost; !memory.get && bytes >= kLeast; bytes /= 2) // the program may need the rest
    if (auto got = device(coordinate).allocate(bytes)) memory = *got;
  return memory.get
             ? clear(coordinate, static_cast<std::byte*>(memory.get), static_cast<int64_t>(memory.bytes))
             : Ok{};
}

Result<CudaEvent> CudaDeviceQueue::mark(int64_t coordinate) {
  auto event = device(coordinate).event(true);
  if (!event) return event;
  if (Status s = device(coordinate).record(*event, stream(coordinate)); !s) return s.error();
  return event;
}

static std::string countText(int64_t n, const char* what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

std::string CudaDeviceQueue::layoutText() const {
  std::string text = countText(count(), "device") + " on " +
                     countText(static_cast<int64_t>(numGpus()), "GPU") + " (" + device(first_).info().name;
  if (numGpus() == 1 || numGpus() == static_cast<size_t>(count())) return text + ")";
  text += "; devices ";
  for (int64_t p = first_, first = first_; p < first_ + count(); ++p) {
    const bool last = p + 1 == first_ + count();
    if (!last && gpuOf(p + 1) == gpuOf(p)) continue;
    text += std::to_string(first) + (first < p ? "-" + std::to_string(p) : "") + (last ? ")" : ", ");
    first = p + 1;
  }
  return text;
}

} // namespace dtc
