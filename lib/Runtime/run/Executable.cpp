#include "dtc/Runtime/run/Executable.h"

#include "program/Loader.h"
#include "run/BorrowedRun.h"
#include "run/FixedSchedule.h"
#include "run/GraphSchedule.h"
#include "run/Runner.h"

#include "dtc/Eval/Eval.h"
#include "dtc/IR/LocalShape.h"

#include "dtc/Support/ElementCount.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <ranges>
#include <set>

namespace dtc {

struct Executable::Impl {
  Module& m;
  Backend& backend;
  Program program;
  std::unique_ptr<Runner> runner;
  std::unique_ptr<GraphSchedule> graphs; // null if unsupported or disabled
  HostCost cost;
  std::unique_ptr<FixedSchedule> fixed; // null: dynamic scheduling
  std::vector<StepEvent> events;
  std::vector<int64_t> live;
  std::vector<Backend::Phase> phases;
  std::unique_ptr<BorrowedRun> borrowed;
  std::map<std::pair<ValueId, int64_t>, Tensor> remote; // results on devices of other processes

  [[nodiscard]] const Function& entry() const { return m[program.programs[0].func]; }
  const FuncArg& argument(size_t i) const { return entry().args[i]; }
  // The sharding of argument i; null if unsharded.
  const Sharding* shardedOf(size_t i) const {
    const ShardingId sharding = m[argument(i).value].sharding;
    return argument(i).globalType && sharding ? &m.shardings[sharding] : nullptr;
  }
  Status writeShard(size_t i, int64_t coordinate, const Tensor& shard) const {
    const DeviceProgram& own = program.at(coordinate);
    const ValueId v = m[own.func].args[i].value;
    auto shape = shapeAt(m, m[v].type, program.mesh, coordinate);
    if (!shape || shard.shape() != *shape || shard.dtype() != m.typeOf(v).dtype)
      return inputError("the value of argument %" + std::string(m.strings[m[v].name]) +
                        " has another type than the program declares");
    return backend.write(coordinate, program.address(coordinate, *own.offsetOf(v)), shard.bytes());
  }
};

// Live bytes after each top-level step: buffers whose live range includes the op's last position.
static std::vector<int64_t> liveBytesOf(const Program& program) {
  std::vector<int64_t> live(program.infos.size(), -1);
  for (const DeviceProgram& own : program.programs) {
    std::vector<int64_t> change(own.plan.numPositions + 1, 0);
    for (const MemoryPlan::Buffer& b : own.plan.buffers)
      for (const MemoryPlan::Range& r : b.live) change[r.first] += b.bytes, change[r.last + 1] -= b.bytes;
    for (size_t i = 1; i < change.size(); ++i) change[i] += change[i - 1];
    for (const Step& s : own.steps)
      if (auto it = own.plan.position.find(program.infos[s.info].id); it != own.plan.position.end())
        live[s.info] = change[it->second[1]];
  }
  return live;
}

Executable::Executable(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Executable::~Executable() = default;

Result<std::unique_ptr<Executable>> Executable::load(Module& m, FuncId f, Backend& backend, ThreadPool& pool,
                                                     const Options& options) {
  using Clock = std::chrono::steady_clock;
  auto impl = std::unique_ptr<Impl>(new Impl{m, backend});
  auto begin = Clock::now();
  Loader loader(m, f, backend, impl->program);
  if (Status s = loader.load(); !s) return s.error();
  double total = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  impl->phases = backend.phases;
  for (const Backend::Phase& p : backend.phases) total -= p.milliseconds;
  impl->phases.insert(impl->phases.begin(), {"print kernels", loader.printMs});
  impl->phases.push_back({"load", total - loader.printMs});
  impl->runner = std::make_unique<Runner>(m, impl->program, backend, pool);
  // Graphs and fixed schedules are one list of steps for all devices.
  const bool spans = impl->program.numHere() < impl->program.numDevices();
  const bool alike = impl->program.programs.size() == 1 && !spans;
  if (options.fixedSchedule && options.graphs && alike) {
    auto graphs = GraphSchedule::make(m, impl->program, backend, {options.hostPredicates});
    if (!graphs) return graphs.error();
    impl->graphs = std::move(*graphs);
  }
  if (options.fixedSchedule && !impl->graphs && alike) {
    auto fixing = Clock::now();
    impl->fixed = FixedSchedule::make(m, impl->program, backend, pool);
    if (impl->fixed)
      impl->phases.push_back({"fixed schedule of " + std::to_string(impl->fixed->numPhases()) + " phases",
                              std::chrono::duration<double, std::milli>(Clock::now() - fixing).count()});
  }
  impl->live = liveBytesOf(impl->program);
  std::unique_ptr<Executable> made(new Executable(std::move(impl)));
  Impl& x = *made->impl_;
  x.borrowed = std::make_unique<BorrowedRun>(m, x.program, backend, made->keptArguments());
  return made;
}

Status Executable::setArgument(size_t i, const Tensor& global) {
  impl_->borrowed->beforeSet(i);
  const std::vector<bool> holds = holdersOf(impl_->m, mesh(), impl_->entry().args[i].attrs);
  for (int64_t p = 0; p < impl_->program.numDevices(); ++p) {
    if (!holds[static_cast<size_t>(p)] || !impl_->program.here.contains(p)) continue;
    const Sharding* sharding = impl_->shardedOf(i);
    Status s = sharding ? impl_->writeShard(i, p, takeShard(global, *sharding, mesh(), p))
                        : impl_->writeShard(i, p, global);
    if (!s) return s;
  }
  return Ok{};
}

Status Executable::setArgument(size_t i, const TensorSource& global) {
  impl_->borrowed->beforeSet(i);
  const Sharding* sharding = impl_->shardedOf(i);
  const std::vector<bool> holds = holdersOf(impl_->m, mesh(), impl_->entry().args[i].attrs);
  std::optional<Result<Tensor>> read;
  for (int64_t p = 0; p < impl_->program.numDevices(); ++p) {
    if (!holds[static_cast<size_t>(p)] || !impl_->program.here.contains(p)) continue;
    if (sharding || !read) read = sharding ? global.shard(*sharding, mesh(), p) : global.tensor();
    if (!*read) return read->error();
    if (Status s = impl_->writeShard(i, p, **read); !s) return s;
  }
  return Ok{};
}

Status Executable::keepArgument(size_t i) { return impl_->borrowed->keep(i); }

Status Executable::runOn(const Borrowing& tensors, const RunHooks& hooks) {
  if (std::ranges::find(impl_->program.arenas, nullptr) != impl_->program.arenas.end())
    return usageError("tensors of the caller cannot be used in several processes yet");
  if (Status s = impl_->borrowed->begin(tensors); !s) return s;
  if (Status s = run(hooks); !s) return s;
  return impl_->borrowed->end(tensors);
}

bool Executable::lendArgument(size_t i, const std::byte* tensor) { return impl_->borrowed->lend(i, tensor); }

bool Executable::lendsArgument(size_t i) const { return impl_->borrowed->lends(i); }

int64_t Executable::copiedBytes() const { return impl_->borrowed->copiedBytes(); }

Status Executable::waitForStream(void* stream) { return impl_->backend.waitForStream(stream); }

std::span<const int64_t> Executable::argumentShape(size_t i, int64_t coordinate) const {
  return impl_->borrowed->arguments()[i].shards[static_cast<size_t>(coordinate)].shape;
}

std::span<const int64_t> Executable::resultShape(size_t i, int64_t coordinate) const {
  return impl_->borrowed->results()[i].shards[static_cast<size_t>(coordinate)].shape;
}

std::vector<bool> keptArgumentsOf(const Module& m, FuncId entry) {
  const StrId donate = m.strings.find("donate");
  std::vector<bool> kept;
  for (const FuncArg& a : m[entry].args) {
    const AttrId given = donate ? findAttr(a.attrs, donate) : AttrId();
    kept.push_back(!given || m.attrs[given].i == 0);
  }
  for (auto [result, argument] : carriedResults(m, entry)) kept[argument] = false;
  return kept;
}

std::vector<bool> Executable::keptArguments() const {
  return keptArgumentsOf(impl_->m, impl_->program.programs[0].func);
}

Status Executable::carryOver() {
  const auto& programs = impl_->program.programs;
  if (std::ranges::all_of(programs, [](const auto& p) { return p.carrySteps.empty(); })) return Ok{};
  std::vector<StepEvent> none;
  return impl_->runner->run(&DeviceProgram::carrySteps, {}, none);
}

Status Executable::run(const RunHooks& hooks) {
  Impl& x = *impl_;
  const bool plain = !hooks.time && !hooks.afterStep;
  x.cost = {};
  if (x.graphs && plain) {
    Status done = x.graphs->run(hooks);
    x.cost = x.graphs->cost();
    return done;
  }
  if (x.fixed && !hooks.afterStep && !(hooks.time && x.backend.asynchronous()))
    return x.fixed->run(hooks, hooks.time ? &x.events : nullptr);
  Status done = x.runner->run(&DeviceProgram::steps, hooks, x.events);
  if (x.backend.asynchronous()) x.cost = x.runner->cost();
  return done;
}

bool Executable::hasGraphs() const { return impl_->graphs != nullptr; }
const HostCost& Executable::hostCost() const { return impl_->cost; }

Result<Tensor> Executable::value(ValueId v, int64_t coordinate) const {
  const Impl& x = *impl_;
  if (auto at = x.remote.find({v, coordinate}); at != x.remote.end()) return at->second;
  if (!x.program.here.contains(coordinate))
    return Error{Error::Bug, "the requested value is on a device of another process"};
  auto shape = shapeAt(x.m, x.m[v].type, x.program.mesh, coordinate);
  const std::optional<int64_t> offset = x.program.at(coordinate).offsetOf(v);
  if (!shape || !offset) return Error{Error::Bug, "the requested value has no buffer"};
  Tensor t(x.m.typeOf(v).dtype, *shape);
  Status s = x.backend.read(coordinate, t.bytes(), x.program.address(coordinate, *offset));
  if (!s) return s.error();
  return t;
}

// Each process sends the results of its devices, in order.
Status Executable::gatherResults() {
  Impl& x = *impl_;
  if (x.program.numHere() == x.program.numDevices()) return Ok{};
  std::vector<std::vector<bool>> holds;
  for (const FuncResult& r : x.entry().results) holds.push_back(holdersOf(x.m, x.program.mesh, r.attrs));
  const auto forEach = [&](const DeviceSlice& of, auto&& each) -> Status {
    for (int64_t p = of.begin; p < std::min(of.end, x.program.numDevices()); ++p)
      for (size_t i = 0; i < holds.size(); ++i)
        if (holds[i][static_cast<size_t>(p)])
          if (Status s = each(x.m[x.m[x.program.at(p).func].body].yields[i], p); !s) return s;
    return Ok{};
  };
  std::string mine;
  x.remote.clear();
  Status read = forEach(x.program.here, [&](ValueId v, int64_t p) -> Status {
    DTC_TRY(const Tensor t, value(v, p));
    mine.append(reinterpret_cast<const char*>(t.bytes().data()), t.bytes().size());
    return Ok{};
  });
  if (!read) return read;
  DTC_TRY(const std::vector<std::string> all, x.backend.communicator().gather(mine));
  const int64_t each = x.program.here.end - x.program.here.begin;
  for (size_t process = 0; process < all.size(); ++process) {
    const DeviceSlice of{static_cast<int64_t>(process) * each, static_cast<int64_t>(process + 1) * each};
    if (of.begin == x.program.here.begin) continue;
    size_t at = 0;
    Status placed = forEach(of, [&](ValueId v, int64_t p) -> Status {
      Tensor t(x.m.typeOf(v).dtype, *shapeAt(x.m, x.m[v].type, x.program.mesh, p));
      if (at + t.bytes().size() > all[process].size())
        return Error{Error::Bug, "a process sent results of another size"};
      std::memcpy(t.bytes().data(), all[process].data() + at, t.bytes().size());
      at += t.bytes().size();
      x.remote.emplace(std::pair(v, p), std::move(t));
      return Ok{};
    });
    if (!placed) return placed;
  }
  return Ok{};
}

// Each process sends when its run began, by the clock of process 0, and its events.
Status Executable::gatherEvents() {
  Impl& x = *impl_;
  if (x.program.numHere() == x.program.numDevices()) return Ok{};
  std::vector<StepEvent>& events = x.events;
  Communicator& comm = x.backend.communicator();
  if (Status s = comm.synchronizeClocks(); !s) return s;
  const int64_t began = comm.inProcess0(x.runner->startNs());
  std::string mine(reinterpret_cast<const char*>(&began), sizeof began);
  mine.append(reinterpret_cast<const char*>(events.data()), events.size() * sizeof(StepEvent));
  DTC_TRY(const std::vector<std::string> all, comm.gather(mine));
  if (all.empty()) return Ok{};
  const auto beganAt = [](const std::string& text) {
    int64_t at = 0;
    std::memcpy(&at, text.data(), sizeof at);
    return at;
  };
  const int64_t first = std::ranges::min(all | std::views::transform(beganAt));
  events.clear();
  std::map<uint64_t, int64_t> work;     // by rendezvous: when its last member arrived
  for (const std::string& text : all) { // in the order of devices
    for (size_t at = sizeof began; at < text.size(); at += sizeof(StepEvent)) {
      StepEvent& e = events.emplace_back();
      std::memcpy(&e, text.data() + at, sizeof e);
      e.beginNs += beganAt(text) - first, e.endNs += beganAt(text) - first;
      if (e.workNs) e.workNs += beganAt(text) - first;
      work[e.rendezvous] = std::max(work[e.rendezvous], e.beginNs);
    }
  }
  for (StepEvent& e : events)
    if (e.rendezvous >> 32) e.workNs = std::min(work[e.rendezvous], e.endNs);
  return Ok{};
}

std::string Executable::processOf(int64_t coordinate) const {
  return impl_->backend.communicator().processOf(coordinate);
}

Result<std::vector<Replica>> Executable::replicas(size_t i) const {
  const Impl& x = *impl_;
  const FuncResult& r = x.entry().results[i];
  const std::vector<bool> holds = holdersOf(x.m, x.program.mesh, r.attrs);
  std::vector<Tensor> shards(holds.size());
  for (int64_t p = 0; p < x.program.numDevices(); ++p) {
    if (!holds[static_cast<size_t>(p)]) continue;
    auto t = value(x.m[x.m[x.program.at(p).func].body].yields[i], p);
    if (!t) return t.error();
    shards[static_cast<size_t>(p)] = std::move(*t);
  }
  if (r.globalType && r.sharding)
    return assembleReplicas(shards, x.m.shardings[r.sharding], x.program.mesh,
                            x.m.types[r.globalType].staticShape(), holds);
  const auto first = static_cast<size_t>(std::ranges::find(holds, true) - holds.begin());
  Sharding equal; // on all devices
  equal.dims.resize(shards[first].rank());
  return assembleReplicas(shards, equal, x.program.mesh, shards[first].shape(), holds);
}

Result<Tensor> Executable::result(size_t i) const {
  auto all = replicas(i);
  if (!all) return all.error();
  return std::move(all->front().value);
}

Result<std::vector<TensorPiece>> Executable::pieces(size_t i) const {
  const Impl& x = *impl_;
  const FuncResult& r = x.entry().results[i];
  const Sharding* sharding = r.globalType && r.sharding ? &x.m.shardings[r.sharding] : nullptr;
  std::vector<TensorPiece> out;
  if (sharding &&
      (!sharding->pending.empty() || std::ranges::any_of(sharding->dims, &DimSharding::strided))) {
    DTC_TRY(auto whole, result(i));
    out.push_back({std::vector<int64_t>(whole.rank()), std::move(whole), 0});
    return out;
  }
  std::set<std::vector<int64_t>> seen;
  const std::vector<bool> holds = holdersOf(x.m, x.program.mesh, r.attrs);
  for (int64_t p = 0; p < x.program.numDevices(); ++p) {
    if (!holds[static_cast<size_t>(p)]) continue;
    if (!sharding && !out.empty()) break; // equal on all of them
    std::vector<int64_t> offset(sharding ? sharding->dims.size() : 0);
    for (size_t d = 0; d < offset.size(); ++d)
      offset[d] =
          dimShards(sharding->dims[d], x.program.mesh, x.m.types[r.globalType].staticShape()[d], p)[0].begin;
    const ValueId v = x.m[x.m[x.program.at(p).func].body].yields[i];
    const auto shape = shapeAt(x.m, x.m[v].type, x.program.mesh, p);
    if (shape && elementCount(*shape) == 0) continue; // an empty shard has the offset of another
    if (!seen.insert(offset).second) continue;
    DTC_TRY(auto value, this->value(v, p));
    if (!sharding) offset.resize(value.rank());
    out.push_back({std::move(offset), std::move(value), p});
  }
  return out;
}

std::vector<Executable::Iteration> Executable::iterations(int64_t coordinate) const {
  return impl_->runner->iterations(coordinate);
}

const std::vector<StepInfo>& Executable::steps() const { return impl_->program.infos; }
size_t Executable::numResults() const { return impl_->entry().results.size(); }
const std::vector<StepInfo>& Executable::loadTimeSteps() const { return impl_->program.loadTime; }
const std::vector<StepEvent>& Executable::events() const { return impl_->events; }
const Mesh& Executable::mesh() const { return impl_->program.mesh; }
FuncId Executable::functionAt(int64_t coordinate) const { return impl_->program.at(coordinate).func; }
int64_t Executable::arenaBytes() const {
  int64_t max = 0;
  for (const DeviceProgram& own : impl_->program.programs) max = std::max(max, own.arenaBytes);
  return max;
}
int64_t Executable::memoryLowerBound() const {
  int64_t max = 0;
  for (const DeviceProgram& own : impl_->program.programs) max = std::max(max, own.plan.lowerBound);
  return max;
}
std::vector<MemoryReport> Executable::memoryReports() const {
  std::vector<MemoryReport> reports;
  for (const DeviceProgram& own : impl_->program.programs)
    reports.push_back(memoryReport(impl_->m, own.func, own.plan, own.arenaBytes));
  return reports;
}
const std::vector<int64_t>& Executable::liveBytes() const { return impl_->live; }
const std::vector<Backend::Phase>& Executable::phases() const { return impl_->phases; }

} // namespace dtc
