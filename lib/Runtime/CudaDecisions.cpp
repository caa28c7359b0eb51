#include "CudaDecisions.h"

#include <algorithm>

namespace dtc {
namespace {

constexpr size_t kCounters = 2; // the words before the counts of trips
constexpr uint32_t kNoLimit = UINT32_MAX;

} // namespace

bool CudaDecisions::possible(Group places) const {
  return places_.device(places[0]).hasConditionals() &&
         std::ranges::all_of(places, [&](int64_t p) { return places_.gpuOf(p) == places_.gpuOf(places[0]); });
}

Status CudaDecisions::prepare(size_t depth, size_t counters) {
  if (!words_.empty()) return Ok{};
  if (Status s = places_.reserveBodies(depth); !s) return s;
  gpus_.resize(places_.numGpus());
  const size_t bytes = (kCounters + counters) * sizeof(uint32_t);
  for (int64_t p = 0; p < places_.count(); ++p) {
    const CudaDevice& d = places_.device(p);
    Gpu& gpu = gpus_[places_.gpuOf(p)];
    if (!gpu.module.get) {
      auto module = d.load(CudaDevice::conditionKernels());
      if (!module) return module.error();
      auto set = d.function(*module, "dtc_set_condition"), next = d.function(*module, "dtc_next_trip");
      if (!set || !next) return (set ? next : set).error();
      gpu = {*module, *set, *next};
    }
    auto memory = d.allocate(bytes);
    if (!memory) return memory.error();
    words_.push_back(*memory);
    if (Status s = places_.clear(p, static_cast<std::byte*>(memory->get), static_cast<int64_t>(bytes)); !s)
      return s;
  }
  return places_.synchronize();
}

Status CudaDecisions::set(int64_t place, uint64_t handle, uint64_t otherwise,
                          const GraphBackend::Loop& loop) {
  const void* predicate = loop.predicate;
  uint32_t *own = words(place), *trips = own + kCounters + loop.counter;
  uint32_t limit = loop.limit < 0 || loop.limit >= kNoLimit ? kNoLimit : static_cast<uint32_t>(loop.limit);
  uint32_t number = loop.counter + 1;
  void* arguments[] = {&handle,
                       &otherwise,
                       static_cast<void*>(&predicate),
                       static_cast<void*>(&own),
                       static_cast<void*>(&trips),
                       &limit,
                       &number};
  return places_.start(place, [&](const CudaDevice& d, const CudaStream& s) {
    return d.launch(gpus_[places_.gpuOf(place)].set, {}, {}, 0, arguments, s);
  });
}

Status CudaDecisions::next(Group places, std::span<std::byte* const> indices, uint64_t handle,
                           GraphBackend::Trips trips, bool first) {
  auto begin = static_cast<int32_t>(trips.begin), end = static_cast<int32_t>(trips.end);
  uint32_t isFirst = first ? 1 : 0;
  for (size_t i = 0; i < places.size(); ++i) {
    uint64_t decides = i == 0 ? handle : 0;
    std::byte* index = indices[i];
    void* arguments[] = {&decides, static_cast<void*>(&index), &begin, &end, &isFirst};
    Status s = places_.start(places[i], [&](const CudaDevice& d, const CudaStream& to) {
      return d.launch(gpus_[places_.gpuOf(places[i])].next, {}, {}, 0, arguments, to);
    });
    if (!s) return s;
  }
  return Ok{};
}

Status CudaDecisions::node(Group places, uint64_t handle, bool loop, const GraphBackend::Body& body) {
  const CudaDevice& d = places_.device(places[0]);
  auto graph = d.addConditional(places_.stream(places[0]), handle, loop);
  if (!graph) return graph.error();
  if (Status s = places_.enterBody(places, *graph); !s) return s;
  const Status done = body();
  const Status left = places_.leaveBody(places); // in any case: what is captured must be ended
  return done ? left : done;
}

// Two nodes of one body each: one node with both needs a driver of CUDA 12.8.
Status CudaDecisions::branch(Group places, const std::byte* predicate, const GraphBackend::Body& then,
                             const GraphBackend::Body& otherwise) {
  if (Status s = places_.gather(places); !s) return s;
  const CudaDevice& d = places_.device(places[0]);
  const CudaStream& stream = places_.stream(places[0]);
  auto holds = d.conditionHandle(stream), fails = d.conditionHandle(stream);
  if (!holds || !fails) return (holds ? fails : holds).error();
  if (Status s = set(places[0], *holds, *fails, {predicate, -1, 0}); !s) return s;
  if (Status s = node(places, *holds, false, then); !s) return s;
  if (Status s = node(places, *fails, false, otherwise); !s) return s;
  return places_.spread(places);
}

Status CudaDecisions::loop(Group places, const GraphBackend::Loop& loop, const GraphBackend::Body& body) {
  if (Status s = places_.gather(places); !s) return s;
  const int64_t first = places[0];
  auto handle = places_.device(first).conditionHandle(places_.stream(first));
  if (!handle) return handle.error();
  auto* trips = reinterpret_cast<std::byte*>(words(first) + kCounters + loop.counter);
  if (Status s = places_.clear(first, trips, sizeof(uint32_t)); !s) return s;
  if (Status s = set(first, *handle, 0, loop); !s) return s;
  const auto withDecision = [&]() -> Status {
    if (Status s = body(); !s) return s;
    if (Status s = places_.gather(places); !s) return s;
    return set(first, *handle, 0, loop);
  };
  if (Status s = node(places, *handle, true, withDecision); !s) return s;
  return places_.spread(places);
}

Status CudaDecisions::count(Group places, std::span<std::byte* const> indices, GraphBackend::Trips trips,
                            const GraphBackend::Body& body) {
  if (Status s = places_.gather(places); !s) return s;
  const int64_t first = places[0];
  auto handle = places_.device(first).conditionHandle(places_.stream(first));
  if (!handle) return handle.error();
  if (Status s = places_.spread(places); !s) return s;
  if (Status s = next(places, indices, *handle, trips, true); !s) return s;
  if (Status s = places_.gather(places); !s) return s;
  const auto withCount = [&]() -> Status {
    if (Status s = body(); !s) return s;
    return next(places, indices, *handle, trips, false);
  };
  if (Status s = node(places, *handle, true, withCount); !s) return s;
  return places_.spread(places);
}

Result<GraphBackend::Decided> CudaDecisions::decided() {
  GraphBackend::Decided out;
  uint64_t asked = 0;
  for (int64_t p = 0; p < places_.count(); ++p) {
    uint32_t got[kCounters] = {};
    Status s = places_.start(p, [&](const CudaDevice& d, const CudaStream& stream) {
      return d.copyOut(got, words(p), sizeof got, stream);
    });
    if (s) s = places_.synchronize(p);
    if (!s) return s.error();
    asked += got[0];
    if (got[1] && out.tooMany == 0) out.tooMany = got[1];
    if (got[1])
      if (Status cleared =
              places_.start(p, [&](const CudaDevice& d,
                                   const CudaStream& stream) { return d.fillWord(words(p) + 1, 0, stream); });
          !cleared)
        return cleared.error();
  }
  out.asked = static_cast<int64_t>(asked - asked_);
  asked_ = asked;
  return out;
}

} // namespace dtc
