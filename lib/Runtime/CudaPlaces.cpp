#include "CudaPlaces.h"

namespace dtc {
namespace {

constexpr int64_t kThreads = 256; // of the kernels of collectives

} // namespace

Result<std::unique_ptr<CudaPlaces>> CudaPlaces::make(std::vector<CudaDevice> gpus, int64_t places,
                                                     const Nvrtc& nvrtc) {
  std::unique_ptr<CudaPlaces> made(new CudaPlaces(std::move(gpus), nvrtc));
  for (int64_t p = 0; p < places; ++p) {
    Place place;
    place.gpu = static_cast<size_t>(p) * made->gpus_.size() / static_cast<size_t>(places);
    auto lane = made->lane(place.gpu, false);
    if (!lane) return lane.error();
    place.lanes.push_back(std::move(*lane));
    made->places_.push_back(std::move(place));
    made->all_.push_back(p);
  }
  return made;
}

Result<std::vector<CudaDevice>> openGpus(const CudaDriver& driver, size_t count) {
  std::vector<CudaDevice> out;
  for (size_t i = 0; i < count; ++i) {
    auto device = CudaDevice::open(driver, static_cast<int>(i));
    if (!device) return device.error();
    out.push_back(*device);
  }
  return out;
}

Result<CudaPlaces::Lane> CudaPlaces::lane(size_t gpu, bool aside) const {
  auto stream = gpus_[gpu].stream(aside);
  if (!stream) return stream.error();
  auto event = gpus_[gpu].event();
  if (!event) return event.error();
  return Lane{*stream, *event, false};
}

Status CudaPlaces::load(std::span<const SourceUnit> units, std::span<const int> shared) {
  for (const CudaDevice& gpu : gpus_) {
    auto code = nvrtc_.codeFor(gpu.info().major, gpu.info().minor);
    if (!code) return code.error();
    auto binaries = nvrtc_.compile(units, code->arch, code->image);
    if (!binaries) return binaries.error();
    std::map<std::string_view, CudaModule> modules; // units that were compiled together have one image
    for (size_t i = 0; i < units.size(); ++i) {
      auto& module = modules[(*binaries)[i].image];
      if (!module.get) {
        auto loaded = gpu.load((*binaries)[i].image);
        if (!loaded) return loaded.error();
        module = *loaded;
      }
      auto function = gpu.function(module, units[i].name, shared.empty() ? 0 : shared[i]);
      if (!function) return function.error();
      kernels_[units[i].name].push_back(*function);
    }
  }
  return Ok{};
}

const CudaFunction& CudaPlaces::function(int64_t place, const std::string& kernel) const {
  return kernels_.at(kernel)[gpuOf(place)];
}

Status CudaPlaces::growLanes(Place& p, std::vector<Lane>& lanes, size_t depth) const {
  while (lanes.size() < depth) {
    auto made = lane(p.gpu, &lanes == &p.sideLanes);
    if (!made) return made.error();
    lanes.push_back(std::move(*made));
  }
  return Ok{};
}

// Streams for communication are waited for, too: after an error nobody may have joined them.
Status CudaPlaces::synchronize() {
  for (Place& p : places_) {
    p.aside = false;
    for (const std::vector<Lane>* lanes : {&p.lanes, &p.sideLanes})
      if (!lanes->empty())
        if (Status s = gpus_[p.gpu].synchronize((*lanes)[p.depth].stream); !s) return s;
  }
  return Ok{};
}

Result<bool> CudaPlaces::idle(int64_t place) const {
  const Place& p = at(place);
  bool all = true;
  for (const std::vector<Lane>* lanes : {&p.lanes, &p.sideLanes}) {
    if (lanes->empty()) continue;
    auto idle = gpus_[p.gpu].idle((*lanes)[p.depth].stream);
    if (!idle) return idle;
    all = all && *idle;
  }
  return all;
}

Status CudaPlaces::launch(int64_t place, const std::string& kernel, int64_t elements,
                          std::span<void*> arguments, std::span<const DeviceBuffer> /*buffers*/) {
  const int64_t blocks = (elements + kThreads - 1) / kThreads;
  if (blocks > INT32_MAX) return machineError("kernel '" + kernel + "' asks for more than 2^31-1 blocks");
  return start(place, [&](const CudaDevice& d, const CudaStream& s) {
    return d.launch(function(place, kernel), {static_cast<uint32_t>(blocks)},
                    {static_cast<uint32_t>(kThreads)}, 0, arguments.data(), s);
  });
}

Status CudaPlaces::copy(int64_t place, std::byte* to, const std::byte* from, int64_t bytes) {
  return start(place, [&](const CudaDevice& d, const CudaStream& s) {
    return d.copy(to, from, static_cast<size_t>(bytes), s);
  });
}

Status CudaPlaces::copyBetween(int64_t place, std::byte* to, int64_t toPlace, const std::byte* from,
                               int64_t fromPlace, int64_t bytes) {
  // Memory that the place's GPU reaches is like its own. A graph takes such a copy; of the other kind no documentation says it.
  if (reaches(place, toPlace) && reaches(place, fromPlace)) return copy(place, to, from, bytes);
  return start(place, [&](const CudaDevice& d, const CudaStream& s) {
    return d.copyPeer(to, device(toPlace), from, device(fromPlace), static_cast<size_t>(bytes), s);
  });
}

Result<size_t> CudaPlaces::connect(const CudaDriver& driver) {
  size_t apart = 0;
  for (size_t a = 0; a < gpus_.size(); ++a)
    for (size_t b = 0; b < gpus_.size(); ++b) {
      if (a == b) continue;
      if (!driver.reaches(gpus_[a].info().ordinal, gpus_[b].info().ordinal)) {
        ++apart;
        continue;
      }
      if (Status s = gpus_[a].reach(gpus_[b]); !s) return s.error();
      reaches_.emplace(a, b);
    }
  return apart;
}

Status CudaPlaces::reserve(int64_t place, int64_t bytes) {
  if (static_cast<int64_t>(at(place).room.bytes) >= bytes) return Ok{};
  auto memory =
      device(place).allocate(static_cast<size_t>(bytes)); // nothing has been started that uses the old
  if (!memory) return memory.error();
  at(place).room = *memory;
  return Ok{};
}

Status CudaPlaces::clear(int64_t place, std::byte* to, int64_t bytes) {
  return start(place, [&](const CudaDevice& d, const CudaStream& s) {
    return d.fill(to, 0, static_cast<size_t>(bytes), s);
  });
}

Status CudaPlaces::recordNow(Place& p) {
  Lane& lane = p.now();
  if (!lane.recorded)
    if (Status s = gpus_[p.gpu].record(lane.event, lane.stream); !s) return s;
  lane.recorded = true;
  return Ok{};
}

Status CudaPlaces::waitFor(int64_t place, std::span<const int64_t> others) {
  for (int64_t o : others) {
    if (o == place) continue;
    if (Status s = recordNow(at(o)); !s) return s;
    if (Status s = device(place).wait(stream(place), at(o).now().event); !s) return s;
    // Who waits for `place` next, in another group perhaps, waits for `o`, too: it may write what `o` reads of `place`.
    at(place).now().recorded = false;
  }
  return Ok{};
}

// All are recorded before any waits, so that none waits for another's waiting.
Status CudaPlaces::meet(std::span<const int64_t> places) {
  for (int64_t p : places)
    if (Status s = recordNow(at(p)); !s) return s;
  for (int64_t p : places)
    for (int64_t o : places)
      if (o != p)
        if (Status s = device(p).wait(stream(p), at(o).now().event); !s) return s;
  if (places.size() > 1)
    for (int64_t p : places) at(p).now().recorded = false;
  return Ok{};
}

Status CudaPlaces::reserveAside(size_t joins) {
  for (Place& p : places_) {
    if (Status s = growLanes(p, p.sideLanes, p.lanes.size()); !s) return s;
    while (p.arrived.size() < joins) {
      auto event = gpus_[p.gpu].event();
      if (!event) return event.error();
      p.arrived.push_back(std::move(*event));
    }
  }
  return Ok{};
}

// From here on the place's stream for communication has all that its other one has: an event from before says nothing.
Status CudaPlaces::beginAside(int64_t place) {
  Place& p = at(place);
  if (Status s = recordNow(p); !s) return s;
  const Lane& before = p.now();
  p.aside = true;
  p.now().recorded = false;
  return gpus_[p.gpu].wait(p.now().stream, before.event);
}

Status CudaPlaces::endAside(int64_t place, uint32_t join) {
  Place& p = at(place);
  const Status recorded = gpus_[p.gpu].record(p.arrived[join], p.now().stream);
  p.aside = false;
  return recorded;
}

Status CudaPlaces::join(int64_t place, uint32_t join) {
  Place& p = at(place);
  p.now().recorded = false;
  return gpus_[p.gpu].wait(p.now().stream, p.arrived[join]);
}

// What the others have waited for is meant too, so that what they recorded before says nothing.
Status CudaPlaces::gather(std::span<const int64_t> places) {
  for (int64_t p : places.subspan(1)) at(p).now().recorded = false;
  const Status done = waitFor(places[0], places);
  at(places[0]).now().recorded = false;
  return done;
}

Status CudaPlaces::spread(std::span<const int64_t> places) {
  at(places[0]).now().recorded = false;
  for (int64_t p : places.subspan(1))
    if (Status s = waitFor(p, places.first(1)); !s) return s;
  return Ok{};
}

Status CudaPlaces::reserveBodies(size_t depth) {
  for (Place& p : places_) {
    if (Status s = growLanes(p, p.lanes, depth + 1); !s) return s;
    if (!p.sideLanes.empty())
      if (Status s = growLanes(p, p.sideLanes, depth + 1); !s) return s;
  }
  return Ok{};
}

Status CudaPlaces::enterBody(std::span<const int64_t> places, void* body) {
  for (int64_t p : places) {
    ++at(p).depth;
    at(p).now().recorded = false;
  }
  Status begun = device(places[0]).beginBody(stream(places[0]), body);
  if (begun) {
    Status forked = spread(places);
    if (!forked) (void)leaveBody(places); // what went wrong is known
    return forked;
  }
  for (int64_t p : places) --at(p).depth;
  return begun;
}

Status CudaPlaces::leaveBody(std::span<const int64_t> places) {
  for (int64_t p : places) at(p).aside = false; // after an error
  const Status joined = gather(places), ended = device(places[0]).endBody(stream(places[0]));
  for (int64_t p : places) {
    at(p).now().recorded = false; // an event from within has no meaning outside
    --at(p).depth;
  }
  return joined ? ended : joined;
}

Status CudaPlaces::beginCapture(bool together) {
  for (Place& p : places_) p.now().recorded = false; // an event from outside has no meaning within
  for (int64_t p = 0; p < (together ? 1 : count()); ++p)
    if (Status s = device(p).beginCapture(stream(p)); !s) return s;
  return together ? spread(all_) : Status(Ok{});
}

Result<CudaPlaces::Graph> CudaPlaces::endCapture(bool together) {
  Graph graph;
  graph.together = together;
  for (Place& p : places_) p.aside = false; // after an error
  Status joined = together ? gather(all_) : Status(Ok{});
  // Each capture is ended, whatever went wrong: a stream that is captured is of no use.
  std::optional<Error> wrong;
  if (!joined) wrong = joined.error();
  std::vector<CudaCapture> captured;
  for (int64_t p = 0; p < (together ? 1 : count()); ++p) {
    auto part = device(p).endCapture(stream(p));
    if (part)
      captured.push_back(*part);
    else if (!wrong)
      wrong = part.error();
  }
  for (Place& p : places_) p.now().recorded = false;
  if (wrong) return *wrong;
  for (size_t i = 0; i < captured.size(); ++i) {
    const auto place = static_cast<int64_t>(i);
    auto part = device(place).instantiate(captured[i], stream(place));
    if (!part) return part.error();
    graph.parts.push_back(*part);
  }
  return graph;
}

Status CudaPlaces::launch(const Graph& graph) {
  if (graph.together)
    if (Status s = gather(all_); !s) return s;
  for (size_t i = 0; i < graph.parts.size(); ++i) {
    const auto place = static_cast<int64_t>(i);
    Status s =
        start(place, [&](const CudaDevice& d, const CudaStream& to) { return d.launch(graph.parts[i], to); });
    if (!s) return s;
  }
  return graph.together ? spread(all_) : Status(Ok{});
}

Result<CudaEvent> CudaPlaces::mark(int64_t place) {
  auto event = device(place).event(true);
  if (!event) return event;
  if (Status s = device(place).record(*event, stream(place)); !s) return s.error();
  return event;
}

static std::string countText(int64_t n, const char* what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

std::string CudaPlaces::layoutText() const {
  std::string text = countText(count(), "device") + " on " +
                     countText(static_cast<int64_t>(numGpus()), "GPU") + " (" + device(0).info().name;
  if (numGpus() == 1 || numGpus() == static_cast<size_t>(count())) return text + ")";
  text += "; devices ";
  for (int64_t p = 0, first = 0; p < count(); ++p) {
    const bool last = p + 1 == count();
    if (!last && gpuOf(p + 1) == gpuOf(p)) continue;
    text += std::to_string(first) + (first < p ? "-" + std::to_string(p) : "") + (last ? ")" : ", ");
    first = p + 1;
  }
  return text;
}

} // namespace dtc
