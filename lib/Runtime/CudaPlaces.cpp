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
    place.gpu = static_cast<size_t>(p) % made->gpus_.size();
    auto stream = made->gpus_[place.gpu].stream();
    if (!stream) return stream.error();
    auto event = made->gpus_[place.gpu].event();
    if (!event) return event.error();
    place.stream = *stream, place.event = *event;
    made->places_.push_back(std::move(place));
  }
  return made;
}

Status CudaPlaces::load(std::span<const SourceUnit> units) {
  for (const CudaDevice& gpu : gpus_) {
    auto binaries = nvrtc_.compile(units, gpu.info().arch(), CudaImage::Cubin);
    if (!binaries) return binaries.error();
    std::map<std::string_view, CudaModule> modules; // units that were compiled together have one image
    for (size_t i = 0; i < units.size(); ++i) {
      auto& module = modules[(*binaries)[i].image];
      if (!module.get) {
        auto loaded = gpu.load((*binaries)[i].image);
        if (!loaded) return loaded.error();
        module = *loaded;
      }
      auto function = gpu.function(module, units[i].name);
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
    if (Status s = gpus_[p.gpu].synchronize(p.stream); !s) return s;
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

Status CudaPlaces::clear(int64_t place, std::byte* to, int64_t bytes) {
  return start(place, [&](const CudaDevice& d, const CudaStream& s) {
    return d.fill(to, 0, static_cast<size_t>(bytes), s);
  });
}

Status CudaPlaces::waitFor(int64_t place, std::span<const int64_t> others) {
  for (int64_t o : others) {
    if (o == place) continue;
    Place& other = at(o);
    if (!other.recorded)
      if (Status s = device(o).record(other.event, other.stream); !s) return s;
    other.recorded = true;
    // Not start(): what the others wait for is work, and this is none. Each waits for all whose work it needs.
    if (Status s = device(place).wait(stream(place), other.event); !s) return s;
  }
  return Ok{};
}

// All streams go on from the first, and come back to it.
Status CudaPlaces::fork() {
  const int64_t first = 0;
  at(first).recorded = false;
  for (int64_t p = 1; p < count(); ++p)
    if (Status s = waitFor(p, std::span(&first, 1)); !s) return s;
  return Ok{};
}

Status CudaPlaces::join() {
  for (int64_t p = 1; p < count(); ++p) {
    at(p).recorded = false;
    if (Status s = waitFor(0, std::span(&p, 1)); !s) return s;
  }
  at(0).recorded = false;
  return Ok{};
}

Status CudaPlaces::beginCapture(bool together) {
  for (Place& p : places_) p.recorded = false; // an event from outside has no meaning within
  for (int64_t p = 0; p < (together ? 1 : count()); ++p)
    if (Status s = device(p).beginCapture(stream(p)); !s) return s;
  return together ? fork() : Status(Ok{});
}

Result<CudaPlaces::Graph> CudaPlaces::endCapture(bool together) {
  Graph graph;
  graph.together = together;
  Status joined = together ? join() : Status(Ok{});
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
  for (Place& p : places_) p.recorded = false;
  if (wrong) return *wrong;
  return graph;
}

Status CudaPlaces::launch(const Graph& graph) {
  if (graph.together)
    if (Status s = join(); !s) return s;
  for (size_t i = 0; i < graph.parts.size(); ++i) {
    const auto place = static_cast<int64_t>(i);
    Status s =
        start(place, [&](const CudaDevice& d, const CudaStream& to) { return d.launch(graph.parts[i], to); });
    if (!s) return s;
  }
  return graph.together ? fork() : Status(Ok{});
}

Result<CudaEvent> CudaPlaces::mark(int64_t place) {
  auto event = device(place).event(true);
  if (!event) return event;
  if (Status s = device(place).record(*event, stream(place)); !s) return s.error();
  return event;
}

} // namespace dtc
