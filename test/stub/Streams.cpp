#include "Streams.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>

namespace stub {
namespace {

std::condition_variable_any& changed() {
  static std::condition_variable_any v;
  return v;
}

thread_local int captures = 0; // that this thread has begun and not ended

int advance(Stream& s, uint64_t end);

// All members must have arrived, and have completed their earlier work.
int meet(const Arrival& arrival, Point::Meeting& m) {
  if (m.done || arrival.point->cancelled) return kSuccess;
  if (m.arrived.size() < m.wanted) return kNotReady;
  for (auto& [weak, node] : m.arrived)
    if (auto stream = weak.lock())
      if (int code = advance(*stream, node)) return code;
  std::optional<std::string> said;
  if (arrival.point->remote) {
    said = arrival.point->remote(m.number);
    if (!said) return kNotReady;
  }
  m.done = true;
  const std::string wrong = said ? *said : arrival.point->work ? arrival.point->work() : "";
  return wrong.empty() ? int{kSuccess} : problem(kLaunchFailed, wrong);
}

// A stream that begins after `before` and goes on to the end of all of a graph.
std::shared_ptr<Stream> spawn(const Graph& g, const Position& before);

// The body runs in place, one iteration after the other; each iteration has its own streams.
int decide(Stream& s, size_t index) {
  const Conditional& c = *s.nodes[index].op.conditional;
  while (true) {
    auto& body = s.nodes[index].body;
    if (!body) {
      if (*c.value == 0) return kSuccess;
      body = spawn(*c.body, {});
    }
    if (int code = advance(*body, body->end())) return code;
    s.nodes[index].body.reset();
    if (!c.loop) return kSuccess;
  }
}

int perform(Stream& s, size_t index) {
  Op& op = s.nodes[index].op; // a deque: what others append does not move it
  if (op.released && !*op.released) return kNotReady;
  if (op.wait.stream)
    if (int code = advance(*op.wait.stream, op.wait.end)) return code;
  for (size_t i = 0; i < op.meets.size(); ++i)
    if (int code = meet(op.meets[i], *s.nodes[index].meetings[i])) return code;
  if (op.conditional) return decide(s, index);
  if (!op.work) return kSuccess;
  const std::string wrong = op.work();
  return wrong.empty() ? int{kSuccess} : problem(kLaunchFailed, wrong);
}

int advance(Stream& s, uint64_t end);

// While a graph's first stream waits, what is aside goes on where it can.
void runAsides(Stream& s) {
  if (s.runsAsides) return;
  s.runsAsides = true;
  for (const auto& aside : s.asides)
    if (advance(*aside, aside->end())) break;
  s.runsAsides = false;
}

// Does what is needed for the first `end` nodes of a stream to be done.
int advance(Stream& s, uint64_t end) {
  while (s.done < end) {
    Stream::Node& node = s.nodes.front();
    if (node.running) return problem(kTimeout, "streams wait for each other in a circle");
    node.running = true;
    const int code = perform(s, 0);
    node.running = false;
    if (code == kNotReady) runAsides(s);
    if (code) return code;
    s.nodes.pop_front();
    ++s.done;
  }
  return kSuccess;
}

// The thread of goOnInBackground().
class Background {
public:
  ~Background() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  void start() {
    if (!thread_.joinable()) thread_ = std::thread([this] { loop(); });
  }
  void add(Stream& s) {
    if (!thread_.joinable() || s.inBackground) return;
    s.inBackground = true;
    streams_.push_back(s.weak_from_this());
  }

private:
  void loop() {
    while (!stop_) {
      {
        std::lock_guard guard(lock());
        uint64_t done = 0;
        const std::vector<std::weak_ptr<Stream>> all = streams_;
        for (const auto& weak : all)
          if (auto s = weak.lock()) {
            const uint64_t before = s->done;
            (void)advance(*s, s->end()); // a later wait returns the error
            done += s->done - before;
          }
        std::erase_if(streams_, [](const auto& weak) { return weak.expired(); });
        if (done) wake();
      }
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }
  std::atomic<bool> stop_{false};
  std::vector<std::weak_ptr<Stream>> streams_;
  std::thread thread_;
};

Background& background() {
  (void)lock(), (void)changed(); // which it uses until its end
  static Background one;
  return one;
}

void append(Stream& s, Op op) {
  background().add(s);
  Stream::Node node;
  const uint64_t number = s.end();
  for (const Arrival& a : op.meets) {
    node.meetings.push_back(a.point->next(a.party));
    node.meetings.back()->arrived.emplace_back(s.weak_from_this(), number);
  }
  node.op = std::move(op);
  s.nodes.push_back(std::move(node));
  wake();
}

} // namespace

std::recursive_mutex& lock() {
  static std::recursive_mutex m;
  return m;
}

bool fails(const char* kind) {
  static const char* const wanted = std::getenv("DTC_STUB_FAIL");
  static std::map<std::string, int> calls;
  const std::string name(kind);
  if (!wanted || !std::string_view(wanted).starts_with(name + ":")) return false;
  std::lock_guard guard(lock());
  return ++calls[name] == std::atoi(wanted + name.size() + 1);
}

std::string& lastProblem() {
  static std::string text;
  return text;
}

int problem(int code, const std::string& text) {
  lastProblem() = text;
  return code;
}

std::shared_ptr<Point::Meeting> Point::next(size_t party) {
  const size_t number = arrivals_[party]++;
  while (meetings_.size() <= number) {
    meetings_.push_back(std::make_shared<Meeting>());
    meetings_.back()->wanted = parties_;
    meetings_.back()->number = meetings_.size() - 1;
  }
  return meetings_[number];
}

void wake() { changed().notify_all(); }

int enqueue(Stream& s, Op op) {
  std::lock_guard guard(lock());
  if (s.device != current()) return problem(kInvalidHandle, "the stream belongs to another device");
  if (s.capture)
    s.capture->tracks[s.track].ops.push_back(std::move(op));
  else
    append(s, std::move(op));
  return kSuccess;
}

int drain(Stream& s, uint64_t end, bool block) {
  std::unique_lock guard(lock());
  if (s.capture) return problem(kCaptureUnsupported, "a stream that is captured cannot be waited for");
  while (true) {
    const int code = advance(s, end);
    if (code != kNotReady || !block) return code;
    changed().wait_for(guard, std::chrono::milliseconds(20));
  }
}

void goOnInBackground() {
  std::lock_guard guard(lock());
  background().start();
}

bool capturing() { return captures > 0; }

int beginCapture(Stream& s) {
  std::lock_guard guard(lock());
  if (s.capture) return problem(kCaptureUnsupported, "the stream is captured already");
  s.capture = std::make_shared<Graph>();
  s.capture->tracks.push_back({{}, s.device});
  s.track = 0;
  ++captures;
  return kSuccess;
}

namespace {

std::vector<Stream*>& capturedStreams() {
  static std::vector<Stream*> list;
  return list;
}

// Is the end of every track reached from the end of the first?
bool joined(const Graph& g) {
  std::vector<uint64_t> reached(g.tracks.size(), 0);
  std::vector<std::pair<size_t, uint64_t>> work{{0, g.tracks[0].ops.size()}};
  while (!work.empty()) {
    auto [track, end] = work.back();
    work.pop_back();
    for (uint64_t i = reached[track]; i < end; ++i) {
      const Op& op = g.tracks[track].ops[i];
      if (op.track != SIZE_MAX) work.emplace_back(op.track, op.wait.end);
    }
    reached[track] = std::max(reached[track], end);
  }
  for (size_t t = 0; t < g.tracks.size(); ++t)
    if (reached[t] < g.tracks[t].ops.size()) return false;
  return true;
}

} // namespace

int endCapture(Stream& s, std::shared_ptr<Graph>& out) {
  std::lock_guard guard(lock());
  if (!s.capture) return problem(kInvalidValue, "the stream is not captured");
  if (s.track != 0) return problem(kInvalidValue, "the capture was begun on another stream");
  out = s.capture;
  --captures;
  for (Stream* other : capturedStreams())
    if (other->capture == out) other->capture.reset(), other->captureHandle.reset();
  std::erase_if(capturedStreams(), [](const Stream* other) { return !other->capture; });
  s.capture.reset();
  for (size_t t = 0; t < out->tracks.size(); ++t) {
    if (!out->tracks[t].aside) continue;
    Op wait;
    wait.track = t, wait.wait.end = out->tracks[t].ops.size();
    out->tracks[0].ops.push_back(std::move(wait));
  }
  if (!joined(*out))
    return problem(kCaptureUnjoined, "work was captured that the first stream does not wait for");
  return kSuccess;
}

int record(Event& e, Stream& s) {
  std::lock_guard guard(lock());
  auto time = e.milliseconds;
  Op op;
  op.work = [time]() -> std::string {
    *time = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch())
                .count();
    return "";
  };
  if (int code = enqueue(s, std::move(op))) return code;
  e.captured = s.capture != nullptr;
  if (e.captured) {
    e.graph = s.capture;
    e.track = s.track;
    e.trackEnd = s.capture->tracks[s.track].ops.size();
  } else {
    e.at = {s.shared_from_this(), s.end()};
  }
  return kSuccess;
}

int waitFor(Stream& s, const Event& e) {
  std::lock_guard guard(lock());
  Op op;
  if (!e.captured) {
    if (s.capture)
      return problem(kCaptureIsolation, "a captured stream waits for an event from outside of the capture");
    op.wait = e.at;
    if (!e.at.stream) return kSuccess; // never recorded
    append(s, std::move(op));          // events of other devices may be waited for
    return kSuccess;
  }
  auto graph = e.graph.lock();
  if (!graph || (s.capture && s.capture != graph))
    return problem(kCaptureIsolation, "the event belongs to another capture");
  if (!s.capture) { // joins it
    s.capture = graph;
    s.track = graph->tracks.size();
    graph->tracks.push_back({{}, s.device});
    capturedStreams().push_back(&s);
  }
  op.track = e.track;
  op.wait.end = e.trackEnd;
  graph->tracks[s.track].ops.push_back(std::move(op));
  return kSuccess;
}

int launchGraph(const Graph& g, Stream& s) {
  std::lock_guard guard(lock());
  if (s.capture) return problem(kCaptureUnsupported, "a graph within a capture is not supported by the stub");
  if (s.device != current()) return problem(kInvalidHandle, "the stream belongs to another device");
  auto all = spawn(g, {s.shared_from_this(), s.end()});
  Op last;
  last.wait = {all, all->end()};
  append(s, std::move(last));
  return kSuccess;
}

int beginCapture(Stream& s, const std::shared_ptr<Graph>& body) {
  std::lock_guard guard(lock());
  if (s.capture) return problem(kCaptureUnsupported, "the stream is captured already");
  if (!body->isBody || !body->tracks.empty())
    return problem(kInvalidValue, "the graph is no body of a conditional node, or has nodes already");
  s.capture = body;
  body->tracks.push_back({{}, s.device});
  s.track = 0;
  ++captures;
  return kSuccess;
}

static int addNode(Graph& graph, const std::vector<void*>& after, Op op, bool aside, void*& out) {
  std::lock_guard guard(lock());
  Graph::Track track;
  track.aside = aside;
  track.device = current();
  for (void* one : after) {
    const auto& at = *static_cast<Graph::Node*>(one);
    Op wait;
    wait.track = at.track, wait.wait.end = at.end;
    track.ops.push_back(std::move(wait));
  }
  track.ops.push_back(std::move(op));
  graph.nodes.push_back({graph.tracks.size(), track.ops.size()});
  graph.tracks.push_back(std::move(track));
  out = &graph.nodes.back();
  return kSuccess;
}

int addConditional(Graph& graph, const std::vector<void*>& after, Conditional node, void*& out) {
  Op op;
  op.conditional = std::make_shared<Conditional>(std::move(node));
  return addNode(graph, after, std::move(op), false, out);
}

int addWork(Graph& graph, const std::vector<void*>& after, Work work, void*& out) {
  Op op;
  op.work = std::move(work);
  return addNode(graph, after, std::move(op), true, out);
}

int dependOn(Stream& s, void* node) {
  std::lock_guard guard(lock());
  if (!s.capture) return problem(kInvalidValue, "the stream is not captured");
  const auto& at = *static_cast<Graph::Node*>(node);
  Op wait;
  wait.track = at.track, wait.wait.end = at.end;
  s.capture->tracks[s.track].ops.push_back(std::move(wait));
  return kSuccess;
}

int checkGraph(const Graph& g) {
  const Device* kernels = nullptr;
  for (const Graph::Track& t : g.tracks)
    for (const Op& op : t.ops) {
      if (op.conditional)
        if (int code = checkGraph(*op.conditional->body)) return code;
      if (!g.isBody) continue;
      if (!op.meets.empty())
        return problem(kNotSupported, "the body of a conditional node has a node that waits for others");
      if (op.kernel && kernels && op.kernel != kernels)
        return problem(kNotSupported, "the body of a conditional node has kernels of two devices");
      if (op.kernel) kernels = op.kernel;
    }
  return kSuccess;
}

namespace {

std::shared_ptr<Stream> spawn(const Graph& g, const Position& before) {
  std::vector<std::shared_ptr<Stream>> tracks;
  std::vector<uint64_t> begin;
  for (const Graph::Track& t : g.tracks) {
    auto stream = std::make_shared<Stream>();
    stream->device = t.device;
    Op first;
    first.wait = before;
    append(*stream, std::move(first));
    begin.push_back(stream->end());
    tracks.push_back(std::move(stream));
  }
  for (size_t t = 0; t < tracks.size(); ++t)
    for (Op op : g.tracks[t].ops) {
      if (op.track != SIZE_MAX) op.wait = {tracks[op.track], begin[op.track] + op.wait.end};
      append(*tracks[t], std::move(op));
    }
  for (size_t t = 0; t < tracks.size(); ++t)
    if (g.tracks[t].aside) tracks[0]->asides.push_back(tracks[t]);
  return tracks.empty() ? std::make_shared<Stream>() : tracks[0];
}

} // namespace
} // namespace stub
