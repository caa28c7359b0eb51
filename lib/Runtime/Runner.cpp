#include "Runner.h"

#include "dtc/IR/OpRecord.h"

#include <chrono>
#include <cstring>
#include <unordered_map>

namespace dtc {
namespace {

int64_t clockNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

} // namespace

Runner::Runner(Module& m, const Program& program, Backend& backend, ThreadPool& pool)
    : m_(m), program_(program), backend_(backend), pool_(pool) {
  for (int64_t p = 0; p < program.places(); ++p) devices_.push_back(std::make_unique<Device>());
  for (uint32_t i = 0; i < program.numMeetings; ++i) meetings_.push_back(std::make_unique<Meeting>());
}

int64_t Runner::now() const { return clockNs() - startNs_; }

Status Runner::run(const StepList& steps, const RunHooks& hooks, std::vector<StepEvent>& events) {
  hooks_ = &hooks;
  over_ = false;
  error_.reset();
  queue_.clear();
  idle_ = 0;
  finished_ = 0;
  meetingNumber_ = 0;
  workers_ = hooks.afterStep || backend_.asynchronous() ? 1 : pool_.size();
  for (auto& m : meetings_) m->arrived = 0;
  for (int64_t p = 0; p < program_.places(); ++p) {
    Device& d = device(p);
    d.frames.assign(1, Frame{Frame::Body, &steps});
    d.current = nullptr;
    d.hostNs = 0;
    d.events.clear();
    queue_.pushBack({Work::Advance, static_cast<int32_t>(p), 0});
  }
  marks_ = hooks.time && backend_.asynchronous();
  cost_ = {};
  startNs_ = clockNs();
  if (marks_) {
    backend_.forgetMarks();
    for (int64_t p = 0; p < program_.places(); ++p) stamp(p);
  }
  if (workers_ == 1)
    work(0);
  else
    pool_.runOnWorkers(&Runner::workerBody, this);
  cost_.ns = now() - cost_.waitNs;
  if (error_)
    backend_.abandon();
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

int64_t Runner::stamp(int64_t place) {
  if (!marks_) return now();
  auto mark = backend_.mark(place);
  if (!mark) return fail(mark.error(), device(place).current), 0;
  return *mark;
}

// A collective begins to work when the last of its members has come.
Status Runner::resolve() {
  std::unordered_map<uint64_t, int64_t> work;
  for (auto& d : devices_)
    for (StepEvent& e : d->events) {
      for (int64_t* at : {&e.beginNs, &e.endNs}) {
        auto time = backend_.reached(static_cast<uint32_t>(*at));
        if (!time) return time.error();
        *at = *time;
      }
      if (e.meeting) work[e.meeting] = std::max(work[e.meeting], e.beginNs);
    }
  for (auto& d : devices_)
    for (StepEvent& e : d->events)
      if (e.meeting) e.workNs = std::min(work[e.meeting], e.endNs);
  return Ok{};
}

void Runner::work(int worker) {
  if (worker >= workers_) return;
  std::unique_lock lock(mutex_);
  while (!over_) {
    if (queue_.empty()) {
      if (++idle_ == workers_) { // nobody works, nothing is to be done, and not all devices are at their end
        error_ = machineError(standstill());
        over_ = true;
        wake_.notify_all();
        return;
      }
      wake_.wait(lock, [this] { return over_ || !queue_.empty(); });
      --idle_;
      continue;
    }
    const Work w = queue_.popFront();
    lock.unlock();
    bool go = w.kind == Work::Advance ||
              (w.kind == Work::Part ? part(w.place, w.part, worker) : share(w.place, worker));
    if (go) advance(w.place, worker);
    lock.lock();
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

std::string Runner::standstill() const {
  std::string text = "the devices wait for each other and none can go on:";
  for (size_t p = 0; p < devices_.size(); ++p)
    if (const Step* s = devices_[p]->current)
      text += "\n  device " + std::to_string(p) + " waits in " + whereText(m_, program_.infos[s->info].id);
  return text;
}

void Runner::advance(int64_t place, int worker) {
  Device& d = device(place);
  while (true) {
    Frame& f = d.frames.back();
    if (f.next == f.list->size()) {
      if (nextFrame(place)) continue;
      if (!d.frames.empty()) return; // failed
      std::lock_guard lock(mutex_);
      d.current = nullptr;
      if (++finished_ == program_.places()) {
        over_ = true;
        wake_.notify_all();
      }
      return;
    }
    const Step& s = (*f.list)[f.next++];
    d.current = &s;
    if (!step(place, s, worker)) return;
  }
}

bool Runner::step(int64_t place, const Step& s, int worker) {
  Device& d = device(place);
  switch (s.kind) {
  case StepKind::Collective:
  case StepKind::Host: return meet(place, s, worker);
  case StepKind::Cond:
  case StepKind::While:
  case StepKind::For: return enter(place, s);
  case StepKind::Join: return join(place, s);
  default: break;
  }
  if (hooks_->time) d.beganNs = stamp(place);
  size_t p = static_cast<size_t>(place);
  if (s.kind == StepKind::Kernel) return parts(place, s, program_.kernels[s.index].at[p], worker);
  if (s.kind == StepKind::Gemm) return parts(place, s, program_.gemms[s.index].at[p], worker);
  const CopyStep& c = program_.copies[s.index];
  int64_t to = c.to;
  if (c.stacked) {
    const Frame& f = d.frames.back(); // stacked copies stand directly in the body of their loop
    to += f.trip * c.bytes[p];
  }
  std::byte* base = program_.arenas[p];
  Status done = start(place, [&] { return backend_.copy(place, base + to, base + c.from, c.bytes[p]); });
  if (!done) return fail(done.error(), &s), false;
  ended(place, s);
  return true;
}

bool Runner::parts(int64_t place, const Step& s, const Backend::Placed& placed, int worker) {
  if (placed.parts == 0) { // nothing to do on this device: an empty piece
    ended(place, s);
    return true;
  }
  Device& d = device(place);
  d.partsLeft.store(placed.parts, std::memory_order_relaxed);
  if (placed.parts > 1) {
    std::lock_guard lock(mutex_);
    for (uint32_t i = 1; i < placed.parts; ++i)
      queue_.pushFront({Work::Part, static_cast<int32_t>(place), i});
    wake_.notify_all();
  }
  return part(place, 0, worker);
}

bool Runner::part(int64_t place, uint32_t part, int worker) {
  Device& d = device(place);
  const Step& s = *d.current;
  size_t p = static_cast<size_t>(place);
  Status done = start(place, [&] {
    return s.kind == StepKind::Kernel ? backend_.runKernel(program_.kernels[s.index].at[p].step, part, worker)
                                      : backend_.runGemm(program_.gemms[s.index].at[p].step, part, worker);
  });
  if (!done) return fail(done.error(), &s), false;
  if (d.partsLeft.fetch_sub(1, std::memory_order_acq_rel) != 1) return false;
  ended(place, s);
  return true;
}

// Where values are looked at after each step, all of them must be there.
OverlapBackend* Runner::aside(const MeetingStep& m) const {
  return m.aside && !hooks_->afterStep ? backend_.overlap() : nullptr;
}

bool Runner::join(int64_t place, const Step& s) {
  if (hooks_->afterStep) return true; // nothing is aside
  if (Status done = backend_.overlap()->join(place, s.index); !done) return fail(done.error(), &s), false;
  return true;
}

bool Runner::meet(int64_t place, const Step& s, int worker) {
  const MeetingStep& m = program_.meetings[s.index];
  const size_t p = static_cast<size_t>(place);
  uint32_t group = m.plan.groupOf[p];
  const CollectiveGroup& g = m.plan.groups[group];
  if (OverlapBackend* overlap = aside(m))
    if (Status begun = overlap->beginAside(place); !begun) return fail(begun.error(), &s), false;
  if (hooks_->time) device(place).beganNs = stamp(place);
  if (!m.host && !m.plan.meets()) {
    Status done = start(place, [&] {
      return backend_.communicator().share(m.plan, g, m.plan.memberOf[p], m.operands[group],
                                           m.results[group]);
    });
    if (!done) return fail(done.error(), &s), false;
    ended(place, s);
    return true;
  }
  Meeting& meeting = *meetings_[m.firstMeeting + group];
  {
    std::lock_guard lock(mutex_);
    if (++meeting.arrived < g.places.size()) return false; // the last to come wakes the others
    meeting.arrived = 0;
    meeting.number = ++meetingNumber_;
    if (hooks_->time) meeting.workNs = now();
    meeting.sharesLeft.store(m.host ? 1 : static_cast<uint32_t>(g.places.size()), std::memory_order_relaxed);
    if (!m.host)
      for (int64_t other : g.places)
        if (other != place) queue_.pushFront({Work::Share, static_cast<int32_t>(other), 0});
    wake_.notify_all();
  }
  return share(place, worker);
}

bool Runner::share(int64_t place, int) {
  const Step& s = *device(place).current;
  const MeetingStep& m = program_.meetings[s.index];
  const size_t p = static_cast<size_t>(place);
  uint32_t group = m.plan.groupOf[p];
  const CollectiveGroup& g = m.plan.groups[group];
  Meeting& meeting = *meetings_[m.firstMeeting + group];
  if (m.host) {
    if (Status done = performHostOp(m_, program_, backend_, m, *hooks_); !done)
      return fail(done.error(), &s), false;
  } else {
    Communicator& comm = backend_.communicator();
    Status done = start(place, [&] {
      return comm.share(m.plan, g, m.plan.memberOf[p], m.operands[group], m.results[group]);
    });
    if (!done) return fail(done.error(), &s), false;
    if (meeting.sharesLeft.fetch_sub(1, std::memory_order_acq_rel) != 1) return false;
    Status settled = start(place, [&] { return comm.settle(m.plan, g); }); // for all of the group
    if (!settled) return fail(settled.error(), &s), false;
  }
  for (int64_t other : g.places) {
    ended(other, s, meeting.number, meeting.workNs);
    if (OverlapBackend* overlap = aside(m))
      if (Status done = overlap->endAside(other, *m.aside); !done) return fail(done.error(), &s), false;
  }
  for (int64_t other : g.places)
    if (other != place) push({Work::Advance, static_cast<int32_t>(other), 0});
  return true;
}

void Runner::ended(int64_t place, const Step& s, uint64_t meeting, int64_t workNs) {
  Device& d = device(place);
  if (workers_ == 1) ++cost_.launches;
  if (hooks_->time)
    d.events.push_back(
        {s.info, static_cast<int32_t>(place), d.beganNs, stamp(place), workNs, d.hostNs, meeting});
  d.hostNs = 0;
  if (hooks_->afterStep) hooks_->afterStep(hooks_->self, s.info, place);
}

} // namespace dtc
