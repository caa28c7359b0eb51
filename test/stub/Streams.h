#pragma once
// A GPU driver's streams, events and graphs, without a GPU: the basis of tests of the CUDA runtime. It is lazy on purpose. Work
// that is started waits in its stream until somebody waits for it, and then only what that needs is done: a wait that the
// program forgot shows as a wrong number each time, not once in a thousand runs.
//
// One lock guards all of it. A function that returns int returns a CUresult.
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#define STUB_API __attribute__((visibility("default")))

namespace stub {

// Of cuda.h.
enum Code {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kInvalidImage = 200,
  kNoContext = 201,
  kNoBinary = 209,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kTimeout = 702,
  kLaunchFailed = 719,
  kNotSupported = 801,
  kCaptureUnsupported = 900,
  kCaptureUnjoined = 904,
  kCaptureIsolation = 905,
};

struct Stream;
struct Device {
  int ordinal = 0, physical = 0;   // the second: among the GPUs of the host
  std::set<const Device*> reaches; // whose memory its kernels may touch
};

// "" or what went wrong.
using Work = std::function<std::string()>;

// Where streams meet: the n-th arrivals of all parties together are one meeting, whose work is done once all have come so
// far. A graph that is launched again arrives again.
class Point {
public:
  struct Meeting {
    size_t wanted = 0, number = 0;
    std::vector<std::pair<std::weak_ptr<Stream>, uint64_t>> arrived; // and the node that waits for it
    bool done = false;
  };
  Point(size_t parties, Work work) : work(std::move(work)), parties_(parties), arrivals_(parties) {}
  std::shared_ptr<Meeting> next(size_t party);
  Work work; // may be set until the last party has come
  // In place of `work` if there are parties in other processes: does the work of a meeting, by its number, once all of
  // this process have come. Nothing: another process has not come yet.
  std::function<std::optional<std::string>(size_t)> remote;
  bool cancelled = false;

private:
  size_t parties_;
  std::vector<size_t> arrivals_;
  std::vector<std::shared_ptr<Meeting>> meetings_;
};

struct Arrival {
  std::shared_ptr<Point> point;
  size_t party = 0;
};

struct Position {
  std::shared_ptr<Stream> stream;
  uint64_t end = 0; // so many nodes of it
};

struct Graph;
// A conditional node: its body runs once if the value is not 0, or, of a loop, as long as it is not.
struct Conditional {
  std::shared_ptr<uint32_t> value;
  std::shared_ptr<Graph> body;
  bool loop = false;
};

// What is started: one of these, the others empty.
struct Op {
  Work work;
  Position wait;              // of another stream, or (captured) of another track
  size_t track = SIZE_MAX;    // the track that a captured wait is for; wait.end counts its ops
  std::vector<Arrival> meets; // all at once
  std::shared_ptr<Conditional> conditional;
  const Device* kernel = nullptr; // of a kernel: whose it is
  std::shared_ptr<bool> released; // never done until it is true: a party that does not come
};

struct Graph {
  struct Track {
    std::vector<Op> ops;
    const Device* device = nullptr;
    bool aside = false; // of a node that is added to the graph: the graph is done when it is
  };
  std::vector<Track> tracks; // the first is the one that began
  std::map<uint64_t, std::shared_ptr<uint32_t>> handles;
  // A point of a track, as what others depend on.
  struct Node {
    size_t track = 0;
    uint64_t end = 0;
  };
  std::deque<Node> nodes;
  std::vector<std::unique_ptr<std::shared_ptr<Graph>>> bodies; // of its conditional nodes
  std::vector<std::unique_ptr<void*>> bodyHandles;
  std::vector<void*> dependencies; // of the stream that was asked about last
  bool isBody = false;
  uint64_t number = nextNumber()++; // of its capture
  static std::atomic<uint64_t>& nextNumber() {
    static std::atomic<uint64_t> next = 1;
    return next;
  }
  std::vector<std::shared_ptr<int>>
      users; // communicators whose collectives it has: each counts who holds its mark
};

struct Stream : std::enable_shared_from_this<Stream> {
  const Device* device = nullptr;
  struct Node {
    Op op;
    std::vector<std::shared_ptr<Point::Meeting>> meetings;
    bool running = false;
    std::shared_ptr<Stream> body; // of a conditional node: what runs of it
  };
  std::vector<std::shared_ptr<Stream>> asides; // of a graph's first stream
  bool runsAsides = false, inBackground = false;
  std::deque<Node> nodes;
  uint64_t done = 0; // nodes that have left the queue
  std::shared_ptr<Graph> capture, captureHandle;
  size_t track = 0;
  [[nodiscard]] uint64_t end() const { return done + nodes.size(); }
};

struct Event {
  const Device* device = nullptr;
  bool timed = true;
  Position at;
  std::weak_ptr<Graph> graph; // of an event that was recorded while its stream was captured
  size_t track = 0;
  uint64_t trackEnd = 0;
  bool captured = false;
  std::shared_ptr<double> milliseconds = std::make_shared<double>(0);
};

STUB_API std::recursive_mutex& lock();
// Is this the call of a kind ("alloc", "launch", "copy", "nccl") that is to fail? DTC_STUB_FAIL=KIND:N says which, from 1.
STUB_API bool fails(const char* kind);
// The last thing that went wrong, for cuGetErrorString.
STUB_API std::string& lastProblem();
STUB_API int problem(int code, const std::string& text);

// Starts `op` on a stream of the current device.
STUB_API int enqueue(Stream& stream, Op op);
// Waits for the first `end` nodes; `block`: also for parties that have not come yet, else kNotReady.
STUB_API int drain(Stream& stream, uint64_t end, bool block);
// Someone may go on: called where an op was started or a meeting cancelled.
STUB_API void wake();

// From now on streams also go on while nobody waits for them: other processes may.
STUB_API void goOnInBackground();

STUB_API int beginCapture(Stream& stream);
// To the graph of a conditional node's body.
STUB_API int beginCapture(Stream& stream, const std::shared_ptr<Graph>& body);
// Adds a conditional node after `after` (Graph::Node*) and gives its point.
STUB_API int addConditional(Graph& graph, const std::vector<void*>& after, Conditional node, void*& out);
STUB_API int addWork(Graph& graph, const std::vector<void*>& after, Work work, void*& out);
// What `stream` captures comes after `node` from here on.
STUB_API int dependOn(Stream& stream, void* node);
// Is the graph one that can be instantiated? Bodies have kernels of one device, and nobody to meet.
STUB_API int checkGraph(const Graph& graph);
STUB_API int endCapture(Stream& stream, std::shared_ptr<Graph>& out);
STUB_API int launchGraph(const Graph& graph, Stream& stream);
STUB_API int record(Event& event, Stream& stream);
STUB_API int waitFor(Stream& stream, const Event& event);
// Is this thread within a capture?
STUB_API bool capturing();

// The device whose context is current on this thread, or null.
STUB_API Device*& current();
// Do `bytes` from `at` lie within one allocation?
STUB_API bool isDeviceMemory(const void* at, size_t bytes);

} // namespace stub
