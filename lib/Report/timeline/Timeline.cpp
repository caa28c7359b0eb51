#include "timeline/Timeline.h"

#include "dtc/IR/DevicePrograms.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/Passes/analysis/Branches.h"
#include "dtc/Passes/analysis/Collectives.h"
#include "dtc/Passes/analysis/Frozen.h"
#include "dtc/Passes/analysis/MemoryPlan.h"
#include "dtc/Passes/analysis/OpWork.h"
#include "dtc/Support/Words.h"
#include "explain/Exposure.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace dtc {

namespace {

// What a function does, in order: the first iteration of each loop.
struct Item {
  enum Kind : uint8_t { Compute, Message, Done, Enter, Leave } kind = Compute;
  OpId op;
  double times = 1; // in sums; of Enter and Leave, the iterations
};

class ItemReader {
public:
  ItemReader(Module& m, FuncId f, const Mesh& mesh, const NominalMachine& machine)
      : m_(m), mesh_(mesh), machine_(machine) {
    block(m[f].body, 1);
  }
  std::vector<Item> items;
  bool complete = true;

private:
  void block(BlockId b, int64_t executions) {
    const auto times = static_cast<double>(executions);
    for (OpId o : m_[b].ops) {
      const OpRecord& record = m_.record(o);
      if (isLoadTimeOp(m_, o) || isFrozenOp(m_, o)) continue; // not part of each run
      if (record.async == AsyncForm::Done)
        items.push_back({Item::Done, o, times});
      else if (sendsMessages(record.collective))
        items.push_back({Item::Message, o, times});
      else if (m_[o].numRegions != 0 && record.regions != RegionKind::Fused)
        regions(o, executions);
      else
        items.push_back({Item::Compute, o, times});
    }
  }

  void regions(OpId o, int64_t executions) {
    const auto known = executionsOf(m_, o);
    if (!known) complete = false;
    const auto iterations = static_cast<double>(known.value_or(1));
    items.push_back({Item::Enter, o, iterations});
    for (BlockId b : countedBlocks(m_, o, mesh_, machine_)) block(b, countedExecutions(m_, o, executions));
    items.push_back({Item::Leave, o, iterations});
  }

  Module& m_;
  const Mesh& mesh_;
  const NominalMachine& machine_;
};

// A message of the devices of one function or several, which begins when all have issued it.
struct Message {
  struct Member {
    size_t function = 0, step = 0;
  };
  std::vector<Member> members;
  size_t numMembers = 1;
  std::vector<size_t> after; // messages that use an axis before it
  double issued = 0;         // by the last member
  double begin = 0, seconds = 0;
  bool settled = false; // `begin` is known
  [[nodiscard]] double end() const { return begin + seconds; }
};

// A loop of which the first iteration is computed.
struct EnteredLoop {
  double begin = 0;
  size_t firstStep = 0;
  double outside = 0; // waits for messages that were issued before it, which only the first iteration has
};

// The clock of the devices of one function.
struct FunctionClock {
  std::vector<Item> items;
  size_t next = 0;
  double now = 0;
  bool issued = false;                               // the message at `next`
  std::unordered_map<StrId, size_t> lastOf;          // by axis: the last message
  std::unordered_map<StrId, double> free;            // by axis: not before
  std::unordered_map<ValueId, size_t> messageOf;     // by result
  std::vector<EnteredLoop> entered;                  // outermost first
  std::map<std::vector<uint32_t>, size_t> numIssued; // by the functions that take part
  std::vector<size_t> messages;
  [[nodiscard]] bool finished() const { return next == items.size(); }
};

class ProgramClock {
public:
  ProgramClock(Module& m, FuncId entry, const NominalMachine& machine)
      : m_(m), machine_(machine), mesh_(meshValueOf(m, entry)), programs_(programsOf(m, entry)) {
    for (FuncId f : programs_.functions) {
      ItemReader reader(m, f, mesh_, machine);
      clocks_.emplace_back().items = std::move(reader.items);
      out_.emplace_back().streams.emplace_back("compute");
      out_.back().complete = reader.complete;
    }
  }

  std::vector<Timeline> run() {
    const auto finished = [&] { return std::ranges::all_of(clocks_, &FunctionClock::finished); };
    while (!finished()) {
      bool moved = false;
      for (size_t f = 0; f < clocks_.size(); ++f) moved = advance(f) || moved;
      if (!moved) release();
    }
    for (size_t i = 0; i < messages_.size(); ++i)
      if (!settle(i)) messages_[i].numMembers = 0, (void)settle(i);
    finish();
    return std::move(out_);
  }

private:
  // Goes on until a message of another function is missing. False if nothing was done.
  bool advance(size_t f) {
    FunctionClock& c = clocks_[f];
    const size_t before = c.next;
    const bool wasIssued = c.issued;
    while (!c.finished() && step(f, c.items[c.next])) ++c.next;
    return c.next != before || c.issued != wasIssued;
  }

  // False: the function waits.
  bool step(size_t f, const Item& i) {
    FunctionClock& c = clocks_[f];
    switch (i.kind) {
    case Item::Compute: compute(f, i); return true;
    case Item::Enter: c.entered.push_back({c.now, out_[f].steps.size()}); return true;
    case Item::Leave: repeat(f, i); return true;
    case Item::Done: {
      const auto at = c.messageOf.find(m_.operand(i.op, 0));
      return at == c.messageOf.end() || wait(f, at->second);
    }
    case Item::Message: break;
    }
    if (!c.issued) issue(f, i);
    c.issued = true;
    (void)settle(c.messages.back());
    if (m_.record(i.op).async != AsyncForm::Start && !wait(f, c.messages.back())) return false;
    c.issued = false;
    return true;
  }

  void compute(size_t f, const Item& i) {
    Timeline& out = out_[f];
    const auto work = localWork(m_, i.op, mesh_);
    const bool host = m_.record(i.op).lowering == Lowering::Host;
    if (!work && !host) out.complete = false;
    TimelineStep s{host ? TimelineStep::Host : TimelineStep::Compute, i.op, 0, clocks_[f].now};
    if (work) s.seconds = work->seconds(machine_), s.flops = work->flops, s.bytes = work->bytes;
    s.times = i.times;
    clocks_[f].now += s.seconds;
    out.computeSeconds += i.times * s.seconds;
    out.steps.push_back(s);
  }

  // The iterations of a loop after the first.
  void repeat(size_t f, const Item& i) {
    FunctionClock& c = clocks_[f];
    const EnteredLoop loop = c.entered.back();
    c.entered.pop_back();
    if (i.times <= 1) return;
    TimelineStep s{TimelineStep::Repeat, i.op, 0, c.now};
    s.seconds = boundedProduct(i.times - 1, std::max(0.0, c.now - loop.begin - loop.outside));
    s.times = i.times;
    c.now += s.seconds;
    for (auto& [axis, free] : c.free) free = std::max(free, c.now);
    out_[f].steps.push_back(s);
  }

  size_t streamOf(size_t f, OpId o) {
    const std::string name =
        joined(collectiveAxes(m_, o), ", ", [&](const AxisRef& a) { return printAxis(a, m_.strings); });
    std::vector<std::string>& streams = out_[f].streams;
    const auto at = std::ranges::find(streams, name.empty() ? "messages" : name);
    if (at != streams.end()) return static_cast<size_t>(at - streams.begin());
    streams.push_back(name.empty() ? "messages" : name);
    return streams.size() - 1;
  }

  // The functions whose devices share the rendezvous of this function's first device.
  std::vector<uint32_t> functionsAt(size_t f, OpId o) const {
    if (!programs_.differ()) return {0};
    std::vector<uint32_t> all = {static_cast<uint32_t>(f)};
    const auto first = std::ranges::find(programs_.of, static_cast<uint32_t>(f)) - programs_.of.begin();
    for (int64_t p : rendezvousOf(m_, o, mesh_, first)) all.push_back(programs_.of[static_cast<size_t>(p)]);
    std::ranges::sort(all);
    all.erase(std::ranges::unique(all).begin(), all.end());
    return all;
  }

  // The message that is as many-th between these functions in each of them.
  size_t messageOf(size_t f, OpId o) {
    std::vector<uint32_t> functions = functionsAt(f, o);
    const size_t number = clocks_[f].numIssued[functions]++;
    if (functions.size() == 1) return messages_.emplace_back(), messages_.size() - 1;
    std::vector<size_t>& shared = shared_[functions];
    if (number == shared.size()) {
      shared.push_back(messages_.size());
      messages_.emplace_back().numMembers = functions.size();
    }
    return shared[number];
  }

  void issue(size_t f, const Item& i) {
    FunctionClock& c = clocks_[f];
    const size_t id = messageOf(f, i.op);
    Message& message = messages_[id];
    TimelineStep s{TimelineStep::Communicate, i.op, streamOf(f, i.op), c.now};
    const auto price = priceOfCollective(m_, i.op, mesh_, machine_);
    if (!price) out_[f].complete = false;
    s.seconds = price ? price->seconds : 0;
    s.bytes = price ? static_cast<double>(price->bytesReceived) : 0;
    s.times = i.times;
    message.seconds = std::max(message.seconds, s.seconds);
    message.issued = std::max(message.issued, c.now);
    for (const AxisRef& a : collectiveAxes(m_, i.op)) {
      message.issued = std::max(message.issued, c.free[a.name]);
      if (const auto last = c.lastOf.find(a.name); last != c.lastOf.end())
        message.after.push_back(last->second);
      c.lastOf[a.name] = id;
    }
    message.members.push_back({f, out_[f].steps.size()});
    c.messages.push_back(id);
    for (uint32_t r = 0; r < m_[i.op].numResults; ++r) c.messageOf[m_.result(i.op, r)] = id;
    out_[f].steps.push_back(s);
  }

  // Whether it is known when the message begins.
  bool settle(size_t id) {
    Message& message = messages_[id];
    if (message.settled) return true;
    if (message.members.size() < message.numMembers) return false;
    double begin = message.issued;
    for (size_t before : message.after) {
      if (before == id) continue;
      if (!settle(before)) return false;
      begin = std::max(begin, messages_[before].end());
    }
    message.begin = begin, message.settled = true;
    for (const Message::Member& one : message.members) {
      out_[one.function].steps[one.step].begin = begin;
      out_[one.function].steps[one.step].seconds = message.seconds;
    }
    return true;
  }

  bool wait(size_t f, size_t id) {
    if (!settle(id)) return false;
    FunctionClock& c = clocks_[f];
    size_t own = 0; // the step that an idle time is before; messages of other functions alone are idle time
    divideWait(messages_, id, c.now, [&](size_t part, double exposed, double idle) {
      const std::vector<Message::Member>& members = messages_[part].members;
      const auto member = std::ranges::find(members, f, &Message::Member::function);
      if (member != members.end())
        own = member->step;
      else
        idle += exposed, exposed = 0;
      charge(f, own, exposed, idle);
    });
    c.now = std::max(c.now, messages_[id].end());
    return true;
  }

  void charge(size_t f, size_t step, double exposed, double waited) {
    TimelineStep& s = out_[f].steps[step];
    s.exposed += exposed, s.waited += waited;
    out_[f].exposedSeconds += s.times * exposed, out_[f].waitSeconds += s.times * waited;
    for (EnteredLoop& loop : clocks_[f].entered)
      if (step < loop.firstStep) loop.outside += exposed + waited;
  }

  // All functions wait: the first message that is waited for goes on with the members that it has.
  void release() {
    for (Timeline& t : out_) t.complete = false;
    for (FunctionClock& c : clocks_) {
      if (c.finished()) continue;
      for (size_t id : c.messages)
        if (Message& message = messages_[id]; !message.settled) {
          message.numMembers = message.members.size(), message.after.clear();
          return;
        }
    }
  }

  // A run ends when all messages of all devices have arrived.
  void finish() {
    double all = 0;
    for (size_t f = 0; f < clocks_.size(); ++f) {
      std::vector<size_t> left = clocks_[f].messages;
      std::ranges::sort(left, {}, [&](size_t id) { return messages_[id].end(); });
      for (size_t id : left) (void)wait(f, id);
      all = std::max(all, clocks_[f].now);
    }
    for (size_t f = 0; f < out_.size(); ++f)
      out_[f].seconds = all, out_[f].waitSeconds += all - clocks_[f].now;
  }

  Module& m_;
  const NominalMachine& machine_;
  Mesh mesh_;
  DevicePrograms programs_;
  std::vector<FunctionClock> clocks_; // by function, as the timelines
  std::vector<Timeline> out_;
  std::vector<Message> messages_;
  std::map<std::vector<uint32_t>, std::vector<size_t>> shared_; // by functions, in order
};

} // namespace

std::vector<Timeline> timelinesOf(Module& m, FuncId entry, const NominalMachine& machine) {
  return ProgramClock(m, entry, machine).run();
}

double idleShare(const Module& m, FuncId entry, const std::vector<Timeline>& timelines) {
  const DevicePrograms programs = programsOf(m, entry);
  double busy = 0, all = 0;
  for (uint32_t f : programs.of) busy += timelines[f].computeSeconds, all += timelines[f].seconds;
  return all > 0 ? 1 - busy / all : 0;
}

} // namespace dtc
