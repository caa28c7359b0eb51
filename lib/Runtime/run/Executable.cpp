#include "dtc/Runtime/run/Executable.h"

#include "program/Loader.h"
#include "run/BorrowedRun.h"
#include "run/FixedSchedule.h"
#include "run/GraphSchedule.h"
#include "run/ResultParts.h"
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
  bool frozenRan = false;
  std::map<std::pair<ValueId, int64_t>, Tensor> remote; // results on devices of other processes

  [[nodiscard]] bool hasFrozenSteps() const {
    return std::ranges::any_of(program.programs, [](const auto& p) { return !p.frozenSteps.empty(); });
  }
  // What is computed once, if it is not valid any more. Those who look at every step see it in each run.
  Status runFrozen(const RunHooks& hooks) {
    if (!borrowed->frozenChanged() && !hooks.afterStep) return Ok{};
    if (hasFrozenSteps()) {
      RunHooks untimed = hooks;
      untimed.time = false;
      std::vector<StepEvent> none;
      const int64_t begin = clockNs();
      borrowed->releaseFrozen();
      if (Status s = runner->run(&DeviceProgram::frozenSteps, untimed, none); !s) return s;
      if (!frozenRan) phases.push_back({"run frozen steps", static_cast<double>(clockNs() - begin) * 1e-6});
      frozenRan = true;
    }
    return borrowed->frozenIsComputed();
  }

  [[nodiscard]] const Function& entry() const { return m[program.programs[0].func]; }
  const FuncArg& argument(size_t i) const { return entry().args[i]; }
  // The process that runs a device.
  [[nodiscard]] int processOf(int64_t coordinate) const {
    return spans() ? static_cast<int>(coordinate / (program.here.end - program.here.begin)) : 0;
  }
  [[nodiscard]] int numProcesses() const { return processOf(program.numDevices() - 1) + 1; }
  [[nodiscard]] bool spans() const { return program.numHere() < program.numDevices(); }
  [[nodiscard]] ValueId resultAt(size_t i, int64_t coordinate) const {
    return m[m[program.at(coordinate).func].body].yields[i];
  }
  [[nodiscard]] std::vector<int64_t> shapeOf(const FuncResult& r) const {
    return m.types[r.globalType ? r.globalType : r.type].staticShape();
  }
  [[nodiscard]] std::vector<ResultPart> parts(size_t i) const {
    const FuncResult& r = entry().results[i];
    return partsOf(m, program, r, shapeOf(r));
  }
  // Where the block that begins at `global` is in the shard of a device.
  [[nodiscard]] std::vector<int64_t> localOf(size_t i, const std::vector<int64_t>& global, int64_t p) const {
    const FuncResult& r = entry().results[i];
    std::vector<int64_t> zeros(global.size());
    if (!r.globalType || !r.sharding) return zeros;
    for (const TensorBlock& b : blocksOf(m.shardings[r.sharding], program.mesh, shapeOf(r), p))
      if (b.global == global) return b.local;
    return zeros;
  }
  [[nodiscard]] bool hasValue(size_t i, int64_t coordinate) const {
    return program.here.contains(coordinate) || remote.contains({resultAt(i, coordinate), coordinate});
  }
  // The sharding of argument i; null if unsharded.
  const Sharding* shardedOf(size_t i) const {
    const ShardingId sharding = m[argument(i).value].sharding;
    return argument(i).globalType && sharding ? &m.shardings[sharding] : nullptr;
  }
  // The buffer of an argument, whose shard on the device has the given type.
  Result<std::byte*> bufferOf(size_t i, int64_t coordinate, DType dtype,
                              const std::vector<int64_t>& given) const {
    const DeviceProgram& own = program.at(coordinate);
    const ValueId v = m[own.func].args[i].value;
    auto shape = shapeAt(m, m[v].type, program.mesh, coordinate);
    if (!shape || given != *shape || dtype != m.typeOf(v).dtype)
      return inputError("the value of argument %" + std::string(m.strings[m[v].name]) +
                        " has another type than the program declares");
    return program.address(coordinate, *own.offsetOf(v));
  }
  Status writeShard(size_t i, int64_t coordinate, const Tensor& shard) const {
    DTC_TRY(std::byte* const to, bufferOf(i, coordinate, shard.dtype(), shard.shape()));
    return backend.write(coordinate, to, shard.bytes());
  }
  // Reads all of a tensor into the buffer of one device, which is in host memory, and copies it to the others.
  Status readInPlace(size_t i, std::span<const int64_t> devices, const TensorSource& global) const {
    std::span<const std::byte> first;
    for (const int64_t p : devices) {
      DTC_TRY(std::byte* const to, bufferOf(i, p, global.dtype(), global.shape()));
      if (first.data()) {
        if (Status s = backend.write(p, to, first); !s) return s;
        continue;
      }
      const std::span all(to,
                          static_cast<size_t>(*elementCount(global.shape()) * dtypeBytes(global.dtype())));
      if (Status s = global.read(0, all); !s) return s;
      first = all;
    }
    return Ok{};
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
    for (const StepList* steps : {&own.frozenSteps, &own.steps})
      for (const Step& s : *steps)
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
  std::map<std::vector<int64_t>, std::vector<int64_t>>
      equal; // devices with replicas of a shard, which is read once
  for (int64_t p = impl_->program.firstHere(); p < impl_->program.endHere(); ++p) {
    if (!holds[static_cast<size_t>(p)]) continue;
    const ValueId v = impl_->m[impl_->program.at(p).func].args[i].value;
    auto key =
        shapeAt(impl_->m, impl_->m[v].type, mesh(), p).value_or(std::vector<int64_t>()); // for empty shards
    for (const PendingAxis& axis : sharding ? sharding->pending : decltype(sharding->pending)())
      key.push_back(mesh().indexAlong(axis.axis, p));
    if (sharding)
      for (const TensorBlock& b : blocksOf(*sharding, mesh(), global.shape(), p))
        key.insert(key.end(), b.global.begin(), b.global.end());
    equal[std::move(key)].push_back(p);
  }
  for (const auto& [key, devices] : equal) {
    if (!sharding && global.inFile() && impl_->backend.isHostMemory()) {
      if (Status s = impl_->readInPlace(i, devices, global); !s) return s;
      continue;
    }
    const auto read = sharding ? global.shard(*sharding, mesh(), devices[0]) : global.tensor();
    if (!read) return read.error();
    for (const int64_t p : devices)
      if (Status s = impl_->writeShard(i, p, *read); !s) return s;
  }
  return Ok{};
}

// Where each device has the blocks of its shard in `from`, they are copied; else all processes get all of the result.
Status Executable::setArgument(size_t i, Executable& from, size_t result) {
  Impl& other = *from.impl_;
  if (!impl_->spans()) {
    DTC_TRY(const auto value, from.result(result));
    return setArgument(i, value);
  }
  const std::vector<int64_t> shape = other.shapeOf(other.entry().results[result]);
  const std::vector<bool> holds = holdersOf(impl_->m, mesh(), impl_->entry().args[i].attrs);
  const std::vector<int64_t> zeros(shape.size());
  const auto blocks = [&](int64_t p) {
    const Sharding* sharding = impl_->shardedOf(i);
    return sharding ? blocksOf(*sharding, mesh(), shape, p)
                    : std::vector<TensorBlock>{{zeros, zeros, {shape.begin(), shape.end()}}};
  };
  std::map<std::vector<int64_t>, const ResultPart*> parts;
  const std::vector<ResultPart> all = other.parts(result);
  for (const ResultPart& part : all) parts[part.block.global] = &part;
  // A device with the same block, in the process of device `p`; -1: none.
  const auto deviceWith = [&](const TensorBlock& b, int64_t p) -> int64_t {
    const auto at = parts.find(b.global);
    if (at == parts.end() || at->second->block.shape != b.shape) return -1;
    const auto near = std::ranges::find(at->second->devices, impl_->processOf(p),
                                        [&](int64_t d) { return impl_->processOf(d); });
    return near == at->second->devices.end() ? -1 : *near;
  };
  bool local = true;
  for (int64_t p = 0; p < impl_->program.numDevices() && local; ++p)
    local = !holds[static_cast<size_t>(p)] ||
            std::ranges::all_of(blocks(p), [&](const TensorBlock& b) { return deviceWith(b, p) >= 0; });
  if (!local || all.empty()) {
    std::vector<bool> which(from.numResults());
    which[result] = true;
    if (Status s = from.gather(which, false, true); !s) return s;
    DTC_TRY(const auto value, from.result(result));
    return setArgument(i, value);
  }
  impl_->borrowed->beforeSet(i);
  for (int64_t p = impl_->program.firstHere(); p < impl_->program.endHere(); ++p) {
    if (!holds[static_cast<size_t>(p)]) continue;
    const ValueId v = impl_->m[impl_->program.at(p).func].args[i].value;
    Tensor shard(impl_->m.typeOf(v).dtype, *shapeAt(impl_->m, impl_->m[v].type, mesh(), p));
    for (const TensorBlock& b : blocks(p)) {
      const int64_t device = deviceWith(b, p);
      DTC_TRY(const auto held, from.value(other.resultAt(result, device), device));
      placeBox(boxOf(held, {other.localOf(result, b.global, device), b.shape}), {b.local, b.shape}, shard);
    }
    if (Status s = impl_->writeShard(i, p, shard); !s) return s;
  }
  return Ok{};
}

Status Executable::keepArgument(size_t i) { return impl_->borrowed->keep(i); }

Status Executable::checkTensors(const Borrowing& tensors) const { return impl_->borrowed->check(tensors); }

Status Executable::borrow(const Borrowing& tensors) { return impl_->borrowed->begin(tensors); }

Status Executable::runBorrowed(const Borrowing& tensors, const RunHooks& hooks) {
  if (Status s = run(hooks); !s) return s;
  return impl_->borrowed->end(tensors);
}

DeviceSlice Executable::devices() const { return {impl_->program.firstHere(), impl_->program.endHere()}; }

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
  if (Status s = x.runFrozen(hooks); !s) return s;
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

Status Executable::gatherResults(const std::vector<bool>& which, bool replicas) {
  return gather(which, replicas, false);
}

// Each process sends the values of its devices that others need, in order.
Status Executable::gather(const std::vector<bool>& which, bool replicas, bool toAll) {
  Impl& x = *impl_;
  if (!x.spans()) return Ok{};
  std::vector<std::vector<std::pair<size_t, int64_t>>> values(
      static_cast<size_t>(x.numProcesses())); // of a process
  bool any = false;
  for (size_t i = 0; i < which.size(); ++i) {
    if (!which[i]) continue;
    const FuncResult& r = x.entry().results[i];
    const std::vector<bool> holds = holdersOf(x.m, x.program.mesh, r.attrs);
    std::set<int64_t> devices;
    for (int64_t p = 0; p < x.program.numDevices() && (replicas || isPartial(x.m, r)); ++p)
      if (holds[static_cast<size_t>(p)]) devices.insert(p);
    if (devices.empty())
      for (const ResultPart& part : x.parts(i)) devices.insert(part.devices[0]);
    for (const int64_t p : devices) {
      values[static_cast<size_t>(x.processOf(p))].emplace_back(i, p);
      any = any || toAll || x.processOf(p) != 0;
    }
  }
  x.remote.clear();
  if (!any) return Ok{}; // process 0 has all of them
  std::string mine;
  for (const auto& [i, p] : values[static_cast<size_t>(x.processOf(x.program.here.begin))]) {
    DTC_TRY(const Tensor t, value(x.resultAt(i, p), p));
    mine.append(reinterpret_cast<const char*>(t.bytes().data()), t.bytes().size());
  }
  Communicator& communicator = x.backend.communicator();
  DTC_TRY(const std::vector<std::string> all,
          toAll ? communicator.gatherToAll(mine) : communicator.gather(mine));
  for (size_t process = 0; process < all.size(); ++process) {
    size_t at = 0;
    for (const auto& [i, p] : values[process]) {
      if (x.program.here.contains(p)) continue;
      const ValueId v = x.resultAt(i, p);
      Tensor t(x.m.typeOf(v).dtype, *shapeAt(x.m, x.m[v].type, x.program.mesh, p));
      if (at + t.bytes().size() > all[process].size())
        return Error{Error::Bug, "a process sent results of another size"};
      std::memcpy(t.bytes().data(), all[process].data() + at, t.bytes().size());
      at += t.bytes().size();
      x.remote.emplace(std::pair(v, p), std::move(t));
    }
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

std::string Executable::ofProcess(int64_t coordinate) const {
  return impl_->backend.communicator().ofProcess(coordinate);
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
  const Impl& x = *impl_;
  const FuncResult& r = x.entry().results[i];
  if (isPartial(x.m, r)) {
    DTC_TRY(auto all, replicas(i));
    return std::move(all.front().value);
  }
  const ValueId first = x.resultAt(i, x.program.firstHere());
  Tensor whole(x.m.typeOf(first).dtype, x.shapeOf(r));
  for (const ResultPart& part : x.parts(i)) {
    const auto has = [&](int64_t p) { return x.hasValue(i, p); };
    const auto device = std::ranges::find_if(part.devices, has);
    if (device == part.devices.end()) return Error{Error::Bug, "a result has not been gathered"};
    DTC_TRY(const Tensor shard, value(x.resultAt(i, *device), *device));
    placeBox(boxOf(shard, {x.localOf(i, part.block.global, *device), part.block.shape}),
             {part.block.global, part.block.shape}, whole);
  }
  return whole;
}

// Boxes along the first dim that is longer than 1, of at most 16 MiB, so that processes with replicas share the work.
static std::vector<TensorBox> writtenBoxes(const TensorBox& box, int64_t width) {
  constexpr int64_t kMaxBytes = int64_t{16} << 20;
  const auto longer = std::ranges::find_if(box.shape, [](int64_t n) { return n > 1; });
  if (longer == box.shape.end()) return {box};
  const auto d = static_cast<size_t>(longer - box.shape.begin());
  const int64_t row = *elementCount(box.shape) / box.shape[d] * width,
                rows = std::max<int64_t>(1, kMaxBytes / row);
  std::vector<TensorBox> boxes;
  for (int64_t at = 0; at < box.shape[d]; at += rows) {
    TensorBox& one = boxes.emplace_back(box);
    one.offset[d] += at;
    one.shape[d] = std::min(rows, box.shape[d] - at);
  }
  return boxes;
}

Result<std::vector<TensorPiece>> Executable::pieces(size_t i, std::vector<int64_t>& written) {
  Impl& x = *impl_;
  const FuncResult& r = x.entry().results[i];
  const std::vector<int64_t> shape = x.shapeOf(r), zeros(shape.size());
  const int64_t width = dtypeBytes(x.m.types[r.globalType ? r.globalType : r.type].dtype);
  const int own = x.processOf(x.program.firstHere());
  written.resize(static_cast<size_t>(x.numProcesses()));
  std::vector<ResultPart> parts = x.parts(i);
  std::vector<TensorPiece> out;
  if (isPartial(x.m, r)) { // process 0 has the sum
    std::vector<bool> which(numResults());
    which[i] = true;
    if (Status s = gatherResults(which); !s) return s.error();
    for (const TensorBox& box : writtenBoxes({zeros, shape}, width)) {
      out.push_back({box, 0, {}});
      if (own != 0) continue;
      DTC_TRY(const auto whole, result(i));
      out.back().value = boxOf(whole, box);
    }
    return out;
  }
  for (const ResultPart& part : parts) {
    std::optional<Tensor> block; // of the first device here
    for (const TensorBox& box : writtenBoxes({part.block.global, part.block.shape}, width)) {
      int writer = x.processOf(part.devices[0]);
      for (const int64_t p : part.devices)
        if (written[static_cast<size_t>(x.processOf(p))] < written[static_cast<size_t>(writer)])
          writer = x.processOf(p);
      written[static_cast<size_t>(writer)] += *elementCount(box.shape) * width;
      TensorPiece& piece = out.emplace_back(box, writer);
      if (writer != own) continue;
      if (!block) {
        const int64_t p = *std::ranges::find(part.devices, own, [&](int64_t d) { return x.processOf(d); });
        DTC_TRY(const Tensor shard, value(x.resultAt(i, p), p));
        block = boxOf(shard, {x.localOf(i, part.block.global, p), part.block.shape});
      }
      TensorBox within{box.offset, box.shape};
      for (size_t d = 0; d < zeros.size(); ++d) within.offset[d] -= part.block.global[d];
      piece.value = boxOf(*block, within);
    }
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
