#include "run/Runner.h"

#include "dtc/Eval/Eval.h"
#include "dtc/Files/TensorText.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/Support/Cores.h"
#include "dtc/Support/Spin.h"

#include <chrono>
#include <unordered_map>

namespace dtc {
int64_t clockNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Runner::Runner(Module& m, const Program& program, Backend& backend, ThreadPool& pool)
    : m_(m), program_(program), backend_(backend), pool_(pool) {
  for (int64_t p = 0; p < program.numDevices(); ++p) devices_.push_back(std::make_unique<Device>());
  for (uint32_t i = 0; i < program.rendezvous.size(); ++i)
    rendezvous_.push_back(std::make_unique<RendezvousState>());
  spins_ = pool.size() <= availableCores();
  serial_ = program.numHere() == 1;
  for (const auto* steps : {&program.kernels, &program.gemms})
    for (const PlacedStep& s : *steps)
      serial_ =
          serial_ && program.numHere() == 1 && s.at[static_cast<size_t>(program.firstHere())].parts <= 1;
}

int64_t Runner::now() const { return clockNs() - startNs_; }

Status Runner::run(StepList DeviceProgram::* steps, const RunHooks& hooks, std::vector<StepEvent>& events) {
  hooks_ = &hooks;
  over_ = program_.numHere() == 0;
  error_.reset();
  queue_.clear();
  idle_ = 0;
  finished_ = 0;
  exchanges_ = 0;
  rendezvousNumber_ = 0;
  workers_ = serial_ || hooks.afterStep || backend_.asynchronous() ? 1 : pool_.size();
  for (auto& m : rendezvous_) m->arrived = m->count = 0;
  for (int64_t p = 0; p < program_.numDevices(); ++p) {
    Device& d = device(p);
    d.frames.assign(1, Frame{Frame::Body, &(program_.at(p).*steps)});
    d.current = nullptr;
    d.hostNs = 0;
    d.events.clear();
    if (!program_.here.contains(p)) continue;
    queue_.pushBack({Work::Advance, static_cast<int32_t>(p), 0});
  }
  marks_ = hooks.time && backend_.asynchronous();
  cost_ = {};
  startNs_ = clockNs();
  if (marks_) {
    backend_.forgetMarks();
    for (int64_t p = program_.firstHere(); p < program_.endHere(); ++p) stamp(p);
  }
  if (workers_ == 1)
    work(0);
  else
    pool_.runOnWorkers(&Runner::workerBody, this);
  cost_.ns = now() - cost_.waitNs;
  if (error_)
    backend_.abandon(), backend_.communicator().dump();
  else if (Status s = backend_.finish(); !s)
    return s;
  if (!error_ && marks_)
    if (Status s = resolve(); !s) return s;
  if (error_) return *error_;
  events.clear();
  if (hooks.time)
    for (auto& d : devices_) events.insert(events.end(), d->events.begin(), d->events.end());
  return Ok{};
}

int64_t Runner::stamp(int64_t coordinate) {
  if (!marks_) return now();
  auto mark = backend_.mark(coordinate);
  if (!mark) return fail(mark.error(), device(coordinate).current), 0;
  return *mark;
}

// The work of a collective begins when its last member has arrived.
Status Runner::resolve() {
  std::unordered_map<uint64_t, int64_t> work;
  for (auto& d : devices_)
    for (StepEvent& e : d->events) {
      for (int64_t* at : {&e.beginNs, &e.endNs}) {
        DTC_TRY(*at, backend_.reached(static_cast<uint32_t>(*at)));
      }
      if (e.rendezvous) work[e.rendezvous] = std::max(work[e.rendezvous], e.beginNs);
    }
  for (auto& d : devices_)
    for (StepEvent& e : d->events)
      if (e.rendezvous) e.workNs = std::min(work[e.rendezvous], e.endNs);
  return Ok{};
}

void Runner::work(int worker) {
  if (worker >= workers_) return;
  std::unique_lock lock(mutex_);
  while (!over_) {
    if (queue_.empty()) {
      if (++idle_ == workers_ &&
          exchanges_ == 0) { // all workers idle, no work queued, and some device unfinished
        error_ = machineError(deadlockText());
        over_ = true;
        wake_.notify_all();
        return;
      }
      waitForWork(lock, worker);
      --idle_;
      continue;
    }
    const Work w = queue_.popFront();
    lock.unlock();
    bool go = w.kind == Work::Advance || (w.kind == Work::Part       ? part(w.coordinate, w.part, worker)
                                          : w.kind == Work::Exchange ? exchange(w.coordinate)
                                                                     : share(w.coordinate, worker));
    if (go) advance(w.coordinate, worker);
    lock.lock();
  }
}

// The caller's thread also asks whether the run is interrupted while the others work.
void Runner::waitForWork(std::unique_lock<std::mutex>& lock, int worker) {
  const auto ready = [this] { return over_ || !queue_.empty(); };
  const bool messages = exchanges_ > 0; // the threads of all processes share the cores
  if (messages || spins_) {
    lock.unlock();
    messages ? yieldUntil(ready) : spinUntil(ready);
    lock.lock();
    if (ready()) return;
  }
  if (worker != 0 || !hooks_->interrupted) return wake_.wait(lock, ready);
  constexpr std::chrono::milliseconds kPeriod(50);
  while (!wake_.wait_for(lock, kPeriod, ready)) {
    lock.unlock();
    const bool interrupted = hooks_->isInterrupted();
    lock.lock();
    if (!interrupted) continue;
    if (!error_) error_ = machineError(kInterrupted);
    over_ = true;
    wake_.notify_all();
  }
}

void Runner::push(Work w) {
  {
    std::lock_guard lock(mutex_);
    queue_.pushBack(w);
  }
  wake_.notify_one();
}

void Runner::fail(const Error& e, const Step* s) {
  std::lock_guard lock(mutex_);
  if (!error_) error_ = s ? located(m_, program_.infos[s->info].id, e) : e;
  over_ = true;
  wake_.notify_all();
}

void Runner::stop() {
  std::lock_guard lock(mutex_);
  over_ = true;
  wake_.notify_all();
}

std::string Runner::deadlockText() const {
  std::string text = "deadlock: all unfinished devices wait for each other:";
  for (size_t p = 0; p < devices_.size(); ++p)
    if (const Step* s = devices_[p]->current)
      text += "\n  device " + std::to_string(p) + " waits in " + whereText(m_, program_.infos[s->info].id);
  return text;
}

void Runner::advance(int64_t coordinate, int worker) {
  Device& d = device(coordinate);
  while (inspect(coordinate)) {
    Frame& f = d.frames.back();
    if (f.next == f.list->size()) {
      if (nextFrame(coordinate)) continue;
      if (!d.frames.empty()) return; // failed
      std::lock_guard lock(mutex_);
      d.current = nullptr;
      if (++finished_ == program_.numHere()) {
        over_ = true;
        wake_.notify_all();
      }
      return;
    }
    const Step& s = (*f.list)[f.next++];
    d.current = &s;
    if (worker == 0 && hooks_->isInterrupted()) return fail(machineError(kInterrupted), nullptr);
    if (!step(coordinate, s, worker)) return;
  }
}

bool Runner::step(int64_t coordinate, const Step& s, int worker) {
  Device& d = device(coordinate);
  switch (s.kind) {
  case ProgramStepKind::Collective:
  case ProgramStepKind::Host: return rendezvous(coordinate, s, worker);
  case ProgramStepKind::Cond:
  case ProgramStepKind::While:
  case ProgramStepKind::For: return enter(coordinate, s);
  case ProgramStepKind::Join: return join(coordinate, s);
  default: break;
  }
  if (hooks_->time) d.beganNs = stamp(coordinate);
  size_t p = static_cast<size_t>(coordinate);
  if (s.kind == ProgramStepKind::Kernel) return parts(coordinate, s, program_.kernels[s.index].at[p], worker);
  if (s.kind == ProgramStepKind::Gemm) return parts(coordinate, s, program_.gemms[s.index].at[p], worker);
  const CopyStep& c = program_.copies[s.index];
  int64_t to = c.to;
  if (c.stacked) {
    const Frame& f = d.frames.back(); // stacked copies are directly in their loop's body
    to += f.iteration * c.bytes[p];
  }
  Status done = start(coordinate, [&] {
    return backend_.copy(coordinate, program_.address(coordinate, to), program_.address(coordinate, c.from),
                         c.bytes[p]);
  });
  if (!done) return fail(done.error(), &s), false;
  ended(coordinate, s);
  return true;
}

bool Runner::parts(int64_t coordinate, const Step& s, const Backend::Placed& placed, int worker) {
  if (placed.parts == 0) { // no work on this device: an empty shard
    ended(coordinate, s);
    return true;
  }
  Device& d = device(coordinate);
  d.partsLeft.store(placed.parts, std::memory_order_relaxed);
  if (placed.parts > 1) {
    std::lock_guard lock(mutex_);
    for (uint32_t i = 1; i < placed.parts; ++i)
      queue_.pushFront({Work::Part, static_cast<int32_t>(coordinate), i});
    wake_.notify_all();
  }
  return part(coordinate, 0, worker);
}

bool Runner::part(int64_t coordinate, uint32_t part, int worker) {
  Device& d = device(coordinate);
  const Step& s = *d.current;
  size_t p = static_cast<size_t>(coordinate);
  Status done = start(coordinate, [&] {
    return s.kind == ProgramStepKind::Kernel
               ? backend_.runKernel(program_.kernels[s.index].at[p].step, part, worker)
               : backend_.runGemm(program_.gemms[s.index].at[p].step, part, worker);
  });
  if (!done) return fail(done.error(), &s), false;
  if (d.partsLeft.fetch_sub(1, std::memory_order_acq_rel) != 1) return false;
  ended(coordinate, s);
  return true;
}

// Overlap is disabled when values are inspected after each step.
OverlapBackend* Runner::overlapped(const RendezvousStep& m) const {
  return m.overlapped && !hooks_->afterStep ? backend_.overlap() : nullptr;
}

bool Runner::join(int64_t coordinate, const Step& s) {
  if (hooks_->afterStep) return true; // overlap is disabled
  if (Status done = backend_.overlap()->join(coordinate, s.index); !done)
    return fail(done.error(), &s), false;
  return true;
}

bool Runner::rendezvous(int64_t coordinate, const Step& s, int worker) {
  const RendezvousStep& m = program_.rendezvousSteps[s.index];
  const size_t p = static_cast<size_t>(coordinate);
  const uint32_t number = m.rendezvous[m.plan.groupOf[p]];
  const Rendezvous& r = program_.rendezvous[number];
  const CollectivePlan& plan = program_.rendezvousSteps[r.step].plan;
  const CollectiveGroup& g = plan.groups[r.group];
  if (OverlapBackend* overlap = overlapped(m))
    if (Status begun = overlap->beginOverlap(coordinate); !begun) return fail(begun.error(), &s), false;
  if (hooks_->time) device(coordinate).beganNs = stamp(coordinate);
  if (!m.host && !m.plan.synchronizes()) {
    Status done = start(coordinate, [&] {
      return backend_.communicator().share(plan, g, plan.memberOf[p], r.operands, r.results);
    });
    if (!done) return fail(done.error(), &s), false;
    ended(coordinate, s);
    return true;
  }
  RendezvousState& state = *rendezvous_[number];
  {
    std::lock_guard lock(mutex_);
    if (++state.arrived < r.here) return false; // the last to arrive wakes the others
    state.arrived = 0;
    // Of a group in several processes the same number in all.
    state.number = r.spans() ? (uint64_t{number} + 1) << 32 | ++state.count : ++rendezvousNumber_;
    if (hooks_->time) state.workNs = now();
    if (r.spans()) ++exchanges_;
  }
  if (r.spans()) return exchange(coordinate);
  {
    std::lock_guard lock(mutex_);
    state.sharesLeft.store(m.host ? 1 : static_cast<uint32_t>(g.coordinates.size()),
                           std::memory_order_relaxed);
    if (!m.host)
      for (int64_t other : g.coordinates)
        if (other != coordinate) queue_.pushFront({Work::Share, static_cast<int32_t>(other), 0});
    wake_.notify_all();
  }
  return share(coordinate, worker);
}

// Begins or continues an exchange with other processes.
bool Runner::exchange(int64_t coordinate) {
  const Step& s = *device(coordinate).current;
  const RendezvousStep& m = program_.rendezvousSteps[s.index];
  const Rendezvous& r = program_.rendezvous[m.rendezvous[m.plan.groupOf[static_cast<size_t>(coordinate)]]];
  const CollectivePlan& plan = program_.rendezvousSteps[r.step].plan;
  auto done = backend_.communicator().exchange(
      plan, plan.groups[r.group], r.operands, m.host ? r.gathered : r.results,
      {&Runner::wakeExchange, this, static_cast<uint32_t>(coordinate)});
  if (!done) return fail(done.error(), &s), false;
  if (!*done) return false;
  {
    std::lock_guard lock(mutex_);
    --exchanges_;
  }
  if (m.host)
    if (Status held = performHostOp(m_, program_, backend_, m, *hooks_); !held)
      return fail(held.error(), &s), false;
  return complete(coordinate);
}

// By the thread that receives messages.
void Runner::wakeExchange(void* self, uint32_t coordinate) {
  static_cast<Runner*>(self)->push({Work::Exchange, static_cast<int32_t>(coordinate), 0});
}

bool Runner::share(int64_t coordinate, int) {
  const Step& s = *device(coordinate).current;
  const RendezvousStep& m = program_.rendezvousSteps[s.index];
  const size_t p = static_cast<size_t>(coordinate);
  const uint32_t number = m.rendezvous[m.plan.groupOf[p]];
  const Rendezvous& r = program_.rendezvous[number];
  const CollectivePlan& plan = program_.rendezvousSteps[r.step].plan;
  const CollectiveGroup& g = plan.groups[r.group];
  RendezvousState& state = *rendezvous_[number];
  if (m.host) {
    if (Status done = performHostOp(m_, program_, backend_, m, *hooks_); !done)
      return fail(done.error(), &s), false;
  } else {
    Communicator& comm = backend_.communicator();
    Status done =
        start(coordinate, [&] { return comm.share(plan, g, plan.memberOf[p], r.operands, r.results); });
    if (!done) return fail(done.error(), &s), false;
    if (state.sharesLeft.fetch_sub(1, std::memory_order_acq_rel) != 1) return false;
    Status settled = start(coordinate, [&] { return comm.settle(plan, g); }); // once per group
    if (!settled) return fail(settled.error(), &s), false;
  }
  return complete(coordinate);
}

// The members of this process go on after their rendezvous.
bool Runner::complete(int64_t coordinate) {
  const Step& s = *device(coordinate).current;
  const RendezvousStep& m = program_.rendezvousSteps[s.index];
  const uint32_t number = m.rendezvous[m.plan.groupOf[static_cast<size_t>(coordinate)]];
  const Rendezvous& r = program_.rendezvous[number];
  const CollectiveGroup& g = program_.rendezvousSteps[r.step].plan.groups[r.group];
  const RendezvousState& state = *rendezvous_[number];
  for (int64_t other : g.coordinates) {
    if (!program_.here.contains(other)) continue;
    const Step& own = *device(other).current;
    ended(other, own, state.number, state.workNs);
    const RendezvousStep& there = program_.rendezvousSteps[own.index];
    if (OverlapBackend* overlap = overlapped(there))
      if (Status done = overlap->endOverlap(other, *there.overlapped); !done)
        return fail(done.error(), &s), false;
  }
  for (int64_t other : g.coordinates)
    if (other != coordinate && program_.here.contains(other))
      push({Work::Advance, static_cast<int32_t>(other), 0});
  return true;
}

void Runner::ended(int64_t coordinate, const Step& s, uint64_t rendezvous, int64_t workNs) {
  Device& d = device(coordinate);
  if (workers_ == 1) ++cost_.launches;
  if (hooks_->time)
    d.events.push_back({s.info, static_cast<int32_t>(coordinate), d.beganNs, stamp(coordinate), workNs,
                        d.hostNs, rendezvous});
  d.hostNs = 0;
  // What is inspected may be read: a device in a collective is inspected when it goes on.
  if (hooks_->afterStep && rendezvous != 0)
    d.inspects = true;
  else if (hooks_->afterStep)
    hooks_->afterStep(hooks_->self, s.info, coordinate);
}

bool Runner::inspect(int64_t coordinate) {
  Device& d = device(coordinate);
  if (!d.inspects) return true;
  if (defers(coordinate)) return false;
  d.inspects = false;
  hooks_->afterStep(hooks_->self, d.current->info, coordinate);
  return true;
}

// --- control flow and host ops ---

Result<int64_t> Runner::readNumber(int64_t coordinate, int64_t offset, DType dtype) {
  if (workers_ > 1) return dtc::readNumber(backend_, program_, coordinate, offset, dtype);
  const int64_t begin = now();
  auto read = dtc::readNumber(backend_, program_, coordinate, offset, dtype);
  cost_.waitNs += now() - begin;
  return read;
}

bool Runner::defers(int64_t coordinate) {
  if (!backend_.asynchronous() || program_.numHere() == program_.numDevices()) return false;
  {
    const std::lock_guard lock(mutex_);
    if (queue_.empty()) return false;
  }
  const auto busy = backend_.busy(coordinate);
  if (busy && *busy) push({Work::Advance, static_cast<int32_t>(coordinate), 0});
  return busy && *busy; // an error will be that of the read
}

bool Runner::enter(int64_t coordinate, const Step& s) {
  Device& d = device(coordinate);
  if (defers(coordinate)) {
    --d.frames.back().next;
    return false;
  }
  Frame f;
  if (s.kind == ProgramStepKind::Cond) {
    const CondStep& c = program_.conds[s.index];
    auto holds = readNumber(coordinate, c.predicate, DType::Bool);
    if (!holds) return fail(holds.error(), &s), false;
    f.list = &c.branch[*holds != 0 ? 0 : 1];
    d.frames.push_back(f);
    return true;
  }
  f.control = s.index;
  if (s.kind == ProgramStepKind::While) {
    f.kind = Frame::Condition;
    f.step = &s;
    f.list = &program_.whiles[s.index].condition;
    d.frames.push_back(f);
    return true;
  }
  const ForStep& loop = program_.fors[s.index];
  int64_t bounds[2];
  const ForStep::Bound* which[2] = {&loop.lo, &loop.hi};
  for (int i = 0; i < 2; ++i) {
    bounds[i] = which[i]->constant;
    if (which[i]->offset < 0) continue;
    auto read = readNumber(coordinate, which[i]->offset, DType::I32);
    if (!read) return fail(read.error(), &s), false;
    bounds[i] = *read;
  }
  f.kind = Frame::ForBody;
  f.step = &s;
  f.list = &loop.body;
  auto range = iterationRange(loop, bounds[0], bounds[1]);
  if (!range) return fail(range.error(), &s), false;
  f.lo = range->lo;
  f.count = range->count;
  if (f.count == 0) return true;
  d.frames.push_back(f);
  return startIteration(coordinate, d.frames.back());
}

std::vector<Executable::Iteration> Runner::iterations(int64_t coordinate) const {
  std::vector<Executable::Iteration> out;
  for (const Frame& f : devices_[static_cast<size_t>(coordinate)]->frames)
    if (f.step) out.push_back({program_.infos[f.step->info].id, f.lo + f.iteration});
  return out;
}

bool Runner::startIteration(int64_t coordinate, Frame& f) {
  const int32_t index = static_cast<int32_t>(f.lo + f.iteration);
  std::byte* to = program_.address(coordinate, program_.fors[f.control].index);
  GraphBackend* const graphs = program_.numHere() < program_.numDevices() ? backend_.graphs() : nullptr;
  if (graphs) { // without waiting
    if (Status s = graphs->writeIndex(coordinate, to, index); !s) return fail(s.error(), nullptr), false;
    return f.next = 0, true;
  }
  if (Status s = backend_.write(coordinate, to, std::as_bytes(std::span(&index, 1))); !s)
    return fail(s.error(), nullptr), false;
  f.next = 0;
  return true;
}

bool Runner::nextFrame(int64_t coordinate) {
  Device& d = device(coordinate);
  Frame& f = d.frames.back();
  if (f.kind == Frame::ForBody && ++f.iteration < f.count) return startIteration(coordinate, f);
  if (f.kind == Frame::WhileBody) {
    f.kind = Frame::Condition;
    f.list = &program_.whiles[f.control].condition;
    f.next = 0;
    ++f.iteration;
    return true;
  }
  if (f.kind == Frame::Condition) {
    const WhileStep& w = program_.whiles[f.control];
    if (defers(coordinate)) return false;
    auto again = readNumber(coordinate, w.predicate, DType::Bool);
    if (!again) return fail(again.error(), d.current), false;
    if (*again != 0 && w.maxIterations >= 0 && f.iteration >= w.maxIterations)
      return fail(tooManyIterations(w.maxIterations), f.step), false;
    if (*again != 0) {
      f.kind = Frame::WhileBody;
      f.list = &w.body;
      f.next = 0;
      return true;
    }
  }
  d.frames.pop_back();
  return !d.frames.empty();
}

// Writes the results of a host op to the devices in [begin, end).
static Status writeResults(const Rendezvous& r, DeviceSlice here, int64_t begin, int64_t end,
                           const std::vector<Tensor>& results, Backend& backend) {
  for (int64_t p = std::max(begin, here.begin); p < std::min(end, here.end); ++p)
    for (size_t i = 0; i < results.size(); ++i)
      if (Status s =
              backend.write(p, r.results[static_cast<size_t>(p) * results.size() + i], results[i].bytes());
          !s)
        return s;
  return Ok{};
}

// `print` prints a value once if it is equal on all devices, else once per device; expect_* check each
// device; a function of the process is called once if its operands are equal on all devices.
Status performHostOp(Module& m, const Program& program, Backend& backend, const RendezvousStep& step,
                     const RunHooks& hooks) {
  Diagnostics diags;
  OpQuery q = queryOf(m, step.op, diags);
  std::vector<std::vector<Tensor>> values;
  const Rendezvous& r = program.rendezvous[step.rendezvous[0]];
  const std::vector<const std::byte*>& gathered = program.rendezvousSteps[r.step].gatheredAt;
  const std::byte* const* operand = gathered.empty() ? r.operands.data() : gathered.data();
  for (int64_t p = 0; p < program.numDevices(); ++p) {
    auto& mine = values.emplace_back();
    for (ValueId v : m.operands(step.op)) {
      Tensor t(m.typeOf(v).dtype, *shapeAt(m, m[v].type, program.mesh, p));
      if (!gathered.empty())
        std::ranges::copy_n(*operand++, static_cast<std::ptrdiff_t>(t.bytes().size()), t.bytes().data());
      else if (Status read = backend.read(p, t.bytes(), *operand++); !read)
        return read;
      mine.push_back(std::move(t));
    }
  }
  bool equal = !(q.has("per_device") && q.boolAttr("per_device"));
  for (const auto& mine : values) equal = equal && mine == values[0];
  for (int64_t p = 0; p < (equal ? 1 : program.numDevices()); ++p) {
    const std::vector<Tensor>& mine = values[static_cast<size_t>(p)];
    const std::string device = equal ? "" : "device " + deviceText(program.mesh, m.strings, p);
    if (q.record->eval) { // a check, or a function of the process
      auto held = evaluateOp(q, mine, {});
      if (held) {
        const int64_t end = equal ? program.numDevices() : p + 1;
        if (Status s =
                writeResults(program.rendezvous[step.rendezvous[0]], program.here, p, end, *held, backend);
            !s)
          return s;
        continue;
      }
      const bool scalar = mine.empty() || mine[0].shape().empty();
      const std::string where = " (" + device + backend.communicator().ofProcess(p) +
                                (scalar ? ")" : "; the index is local to the device)");
      return Error{held.error().kind, held.error().message + (device.empty() ? "" : where)};
    }
    const std::string begin = device.empty() ? "" : device + ": ";
    if (hooks.print) hooks.print(hooks.printSelf, begin + printedText(m, step.op, mine) + "\n");
  }
  return Ok{};
}

} // namespace dtc
