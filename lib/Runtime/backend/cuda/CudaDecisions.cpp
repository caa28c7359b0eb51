#include "backend/cuda/CudaDecisions.h"

#include <algorithm>

namespace dtc {
constexpr size_t kCounters = 2; // words before the iteration counts
constexpr uint32_t kNoLimit = UINT32_MAX;

bool CudaDecisions::possible(Group coordinates) {
  return queue_.device(coordinates[0]).hasConditionals() &&
         std::ranges::all_of(coordinates,
                             [&](int64_t p) { return queue_.gpuOf(p) == queue_.gpuOf(coordinates[0]); }) &&
         load();
}

// The kernels are PTX, which the driver compiles with a library of its own; a container may lack that library.
bool CudaDecisions::load() {
  if (!gpus_.empty()) return whyNot_.empty();
  gpus_.resize(queue_.numGpus());
  for (int64_t p : queue_.all()) {
    if (!whyNot_.empty()) break;
    Gpu& gpu = gpus_[queue_.gpuOf(p)];
    if (gpu.module.get) continue;
    const CudaDevice& d = queue_.device(p);
    auto module = d.load(cudaConditionKernels());
    if (!module) {
      whyNot_ = module.error().message;
      break;
    }
    auto set = d.function(*module, "dtc_set_condition"), next = d.function(*module, "dtc_next_trip");
    if (!set || !next)
      whyNot_ = (set ? next : set).error().message;
    else
      gpu = {*module, *set, *next};
  }
  return whyNot_.empty();
}

Status CudaDecisions::prepare(size_t depth, size_t counters) {
  if (!words_.empty()) return Ok{};
  if (Status s = queue_.reserveBodies(depth); !s) return s;
  const size_t bytes = (kCounters + counters) * sizeof(uint32_t);
  for (int64_t p : queue_.all()) {
    const CudaDevice& d = queue_.device(p);
    DTC_TRY(auto memory, d.allocate(bytes));
    words_.push_back(memory);
    if (Status s = queue_.clear(p, static_cast<std::byte*>(memory.get), static_cast<int64_t>(bytes)); !s)
      return s;
  }
  return queue_.synchronize();
}

Status CudaDecisions::set(int64_t coordinate, uint64_t handle, uint64_t otherwise,
                          const GraphBackend::Loop& loop) {
  const void* predicate = loop.predicate;
  uint32_t *own = words(coordinate), *iterations = own + kCounters + loop.counter;
  uint32_t limit = loop.limit < 0 || loop.limit >= kNoLimit ? kNoLimit : static_cast<uint32_t>(loop.limit);
  uint32_t number = loop.counter + 1;
  void* arguments[] = {&handle,
                       &otherwise,
                       static_cast<void*>(&predicate),
                       static_cast<void*>(&own),
                       static_cast<void*>(&iterations),
                       &limit,
                       &number};
  return queue_.start(coordinate, [&](const CudaDevice& d, const CudaStream& s) {
    return d.launch(gpus_[queue_.gpuOf(coordinate)].set, {}, {}, 0, arguments, s);
  });
}

Status CudaDecisions::next(Group coordinates, std::span<std::byte* const> indices, uint64_t handle,
                           GraphBackend::Range range, bool first) {
  auto begin = static_cast<int32_t>(range.begin), end = static_cast<int32_t>(range.end);
  uint32_t isFirst = first ? 1 : 0;
  for (size_t i = 0; i < coordinates.size(); ++i) {
    uint64_t decides = i == 0 ? handle : 0;
    std::byte* index = indices[i];
    void* arguments[] = {&decides, static_cast<void*>(&index), &begin, &end, &isFirst};
    Status s = queue_.start(coordinates[i], [&](const CudaDevice& d, const CudaStream& to) {
      return d.launch(gpus_[queue_.gpuOf(coordinates[i])].next, {}, {}, 0, arguments, to);
    });
    if (!s) return s;
  }
  return Ok{};
}

Status CudaDecisions::node(Group coordinates, uint64_t handle, bool loop, const GraphBackend::Body& body) {
  const CudaDevice& d = queue_.device(coordinates[0]);
  DTC_TRY(auto graph, d.addConditional(queue_.stream(coordinates[0]), handle, loop));
  if (Status s = queue_.enterBody(coordinates, graph); !s) return s;
  const Status done = body();
  const Status left = queue_.leaveBody(coordinates); // also after an error: the capture must be ended
  return done ? left : done;
}

// Two nodes with one body each: a node with both needs a CUDA 12.8 driver.
Status CudaDecisions::branch(Group coordinates, const std::byte* predicate, const GraphBackend::Body& then,
                             const GraphBackend::Body& otherwise) {
  if (Status s = queue_.gather(coordinates); !s) return s;
  const CudaDevice& d = queue_.device(coordinates[0]);
  const CudaStream& stream = queue_.stream(coordinates[0]);
  auto holds = d.conditionHandle(stream), fails = d.conditionHandle(stream);
  if (!holds || !fails) return (holds ? fails : holds).error();
  if (Status s = set(coordinates[0], *holds, *fails, {predicate, -1, 0}); !s) return s;
  if (Status s = node(coordinates, *holds, false, then); !s) return s;
  if (Status s = node(coordinates, *fails, false, otherwise); !s) return s;
  return queue_.spread(coordinates);
}

Status CudaDecisions::loop(Group coordinates, const GraphBackend::Loop& loop,
                           const GraphBackend::Body& body) {
  if (Status s = queue_.gather(coordinates); !s) return s;
  const int64_t first = coordinates[0];
  DTC_TRY(auto handle, queue_.device(first).conditionHandle(queue_.stream(first)));
  auto* iterations = reinterpret_cast<std::byte*>(words(first) + kCounters + loop.counter);
  if (Status s = queue_.clear(first, iterations, sizeof(uint32_t)); !s) return s;
  if (Status s = set(first, handle, 0, loop); !s) return s;
  const auto withDecision = [&]() -> Status {
    if (Status s = body(); !s) return s;
    if (Status s = queue_.gather(coordinates); !s) return s;
    return set(first, handle, 0, loop);
  };
  if (Status s = node(coordinates, handle, true, withDecision); !s) return s;
  return queue_.spread(coordinates);
}

Status CudaDecisions::count(Group coordinates, std::span<std::byte* const> indices, GraphBackend::Range range,
                            const GraphBackend::Body& body) {
  if (Status s = queue_.gather(coordinates); !s) return s;
  const int64_t first = coordinates[0];
  DTC_TRY(auto handle, queue_.device(first).conditionHandle(queue_.stream(first)));
  if (Status s = queue_.spread(coordinates); !s) return s;
  if (Status s = next(coordinates, indices, handle, range, true); !s) return s;
  if (Status s = queue_.gather(coordinates); !s) return s;
  const auto withCount = [&]() -> Status {
    if (Status s = body(); !s) return s;
    return next(coordinates, indices, handle, range, false);
  };
  if (Status s = node(coordinates, handle, true, withCount); !s) return s;
  return queue_.spread(coordinates);
}

Result<GraphBackend::Decided> CudaDecisions::decided() {
  GraphBackend::Decided out;
  uint64_t asked = 0;
  for (int64_t p : queue_.all()) {
    uint32_t got[kCounters] = {};
    Status s = queue_.start(p, [&](const CudaDevice& d, const CudaStream& stream) {
      return d.copyOut(got, words(p), sizeof got, stream);
    });
    if (s) s = queue_.synchronize(p);
    if (!s) return s.error();
    asked += got[0];
    if (got[1] && out.tooMany == 0) out.tooMany = got[1];
    if (got[1])
      if (Status cleared =
              queue_.start(p, [&](const CudaDevice& d,
                                  const CudaStream& stream) { return d.fillWord(words(p) + 1, 0, stream); });
          !cleared)
        return cleared.error();
  }
  out.asked = static_cast<int64_t>(asked - asked_);
  asked_ = asked;
  return out;
}

} // namespace dtc
