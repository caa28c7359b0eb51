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
    auto lane = made->lane(place.gpu);
    if (!lane) return lane.error();
    place.lanes.push_back(std::move(*lane));
    made->places_.push_back(std::move(place));
    made->all_.push_back(p);
  }
  return made;
}

Result<CudaPlaces::Lane> CudaPlaces::lane(size_t gpu) const {
  auto stream = gpus_[gpu].stream();
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

Status CudaPlaces::synchronize() {
  for (const Place& p : places_)
    if (Status s = gpus_[p.gpu].synchronize(p.now().stream); !s) return s;
  return Ok{};
}

Status CudaPlaces::launch(int64_t place, const std::string& kernel, int64_t elements, void** arguments) {
  const int64_t blocks = (elements + kThreads - 1) / kThreads;
  if (blocks > INT32_MAX) return machineError("kernel '" + kernel + "' asks for more than 2^31-1 blocks");
  return start(place, [&](const CudaDevice& d, const CudaStream& s) {
    return d.launch(function(place, kernel), {static_cast<uint32_t>(blocks)},
                    {static_cast<uint32_t>(kThreads)}, 0, arguments, s);
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

Status CudaPlaces::waitFor(int64_t place, std::span<const int64_t> others) {
  for (int64_t o : others) {
    if (o == place) continue;
    Lane& other = at(o).now();
    if (!other.recorded)
      if (Status s = device(o).record(other.event, other.stream); !s) return s;
    other.recorded = true;
    // Not start(): what the others wait for is work, and this is none. Each waits for all whose work it needs.
    if (Status s = device(place).wait(stream(place), other.event); !s) return s;
  }
  return Ok{};
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
  for (Place& p : places_)
    while (p.lanes.size() < depth + 1) {
      auto made = lane(p.gpu);
      if (!made) return made.error();
      p.lanes.push_back(std::move(*made));
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
  Status joined = together ? gather(all_) : Status(Ok{});
  // Each capture is ended, whatever went wrong: a stream that is captured is of no use.
  std::optional<Error> wrong;
  if (!joined) wrong = joined.error();
  for (int64_t p = 0; p < (together ? 1 : count()); ++p) {
    auto part = device(p).endCapture(stream(p));
    if (part)
      graph.parts.push_back(*part);
    else if (!wrong)
      wrong = part.error();
  }
  for (Place& p : places_) p.now().recorded = false;
  if (wrong) return *wrong;
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

} // namespace dtc
