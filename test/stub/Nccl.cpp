// libnccl.so.2 of the tests: NCCL's calls in one process, ranks by one thread in groups or by a thread each, over Streams.h. What
// NCCL does that hurts is done here too: max and min drop NaN, sums are rounded to their type after each rank, ranks that
// call different collectives are an error, and a rank that does not come is waited for until the communicator is aborted.
// DTC_STUB_NCCL_STALL=RANK:N leaves out that rank's call number N (from 0) of each communicator.
// DTC_STUB_NCCL_SHARE=1 lets several ranks be on one GPU.
#include "Streams.h"

#include "dtc/Support/DType.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

using namespace dtc;
using stub::Point;
using stub::Stream;
#define STUB_NCCL extern "C" STUB_API int

namespace {

enum Result {
  kOk = 0,
  kUnhandledCuda = 1,
  kSystem = 2,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemote = 6
};
struct UniqueId {
  char bytes[128];
};

struct Comm;
// What the ranks of one communicator share.
struct World {
  int ranks = 0;
  std::vector<Comm*> members;
  size_t joined = 0;
  struct Call {
    std::string what; // must be the same on all ranks
    std::shared_ptr<Point> point;
    std::vector<const char*> from;
    std::vector<char*> to;
  };
  std::map<size_t, std::shared_ptr<Call>> calls; // by number
  struct Pair {
    std::shared_ptr<Point> point;
    std::shared_ptr<Call> buffers;
    bool sent = false, received = false;
  };
  std::map<std::pair<int, int>, std::vector<Pair>> pairs; // by (from, to), in order
  struct Split {
    std::vector<std::tuple<int, int, int, Comm*>> asked; // color, key, rank
  };
  std::map<size_t, Split> splits;
  std::vector<std::weak_ptr<Point>> points;
  bool aborted = false;
  size_t left = 0; // ranks that were destroyed or aborted: the last one waits for all
};

struct Comm {
  std::shared_ptr<World> world;
  int rank = 0, device = 0;
  size_t calls = 0, splits = 0;
  std::map<int, size_t> sends, receives;                  // by peer
  std::map<std::shared_ptr<Stream>, uint64_t> used;       // the streams that it has work in, up to which node
  std::shared_ptr<int> graphs = std::make_shared<int>(0); // held by each graph that captured work of it
};

struct PendingMove {
  Comm* comm;
  void* stream;
  std::vector<stub::Arrival> meets;
};

thread_local int groupDepth = 0;
thread_local std::vector<Comm*> groupNew; // made in this group; they wait for the others at its end
thread_local std::vector<PendingMove> groupMoves;
thread_local std::vector<std::shared_ptr<World>> groupGone; // aborted in this group; waited for at its end
thread_local std::string lastError;

int wrong(int code, const std::string& text) {
  lastError = text;
  return code;
}

DType typeOf(int number) {
  const DType types[] = {DType::I8,  DType::U8,  DType::I32, DType::U32,  DType::I64,    DType::U64,
                         DType::F16, DType::F32, DType::F64, DType::BF16, DType::F8E4M3, DType::F8E5M2};
  return types[number];
}

template <class T> T combined(int op, T a, T b) {
  switch (op) {
  case 1: return static_cast<T>(a * b);
  case 2: return b > a || a != a ? b : a; // NaN is dropped where the other is a number
  case 3: return b < a || a != a ? b : a;
  default: return static_cast<T>(a + b);
  }
}

template <class T> void reduceInts(int op, const std::vector<const char*>& from, char* to, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    T acc, next;
    std::memcpy(&acc, from[0] + i * sizeof(T), sizeof acc);
    for (size_t r = 1; r < from.size(); ++r) {
      std::memcpy(&next, from[r] + i * sizeof(T), sizeof next);
      acc = combined(op, acc, next);
    }
    std::memcpy(to + i * sizeof(T), &acc, sizeof acc);
  }
}

double loadFloat(DType d, const char* p) {
  uint8_t tiny;
  uint16_t half;
  float single;
  double wide;
  switch (d) {
  case DType::F8E4M3: return std::memcpy(&tiny, p, 1), f8E4M3ToFloat(tiny);
  case DType::F8E5M2: return std::memcpy(&tiny, p, 1), f8E5M2ToFloat(tiny);
  case DType::F16: return std::memcpy(&half, p, 2), f16ToFloat(half);
  case DType::BF16: return std::memcpy(&half, p, 2), bf16ToFloat(half);
  case DType::F32: return std::memcpy(&single, p, 4), single;
  default: return std::memcpy(&wide, p, 8), wide;
  }
}

void storeFloat(DType d, char* p, double v) {
  const uint8_t tiny = d == DType::F8E4M3 ? doubleToF8E4M3(v) : doubleToF8E5M2(v);
  const uint16_t half = d == DType::F16 ? doubleToF16(v) : doubleToBf16(v);
  const auto single = static_cast<float>(v);
  const void* from = &v;
  if (dtypeBytes(d) == 1) from = &tiny;
  if (dtypeBytes(d) == 2) from = &half;
  if (d == DType::F32) from = &single;
  std::memcpy(p, from, static_cast<size_t>(dtypeBytes(d)));
}

// Rank after rank, rounded each time, as a ring does it; the ranks' order begins elsewhere for each element.
void reduceFloats(DType d, int op, const std::vector<const char*>& from, char* to, size_t count) {
  const auto width = static_cast<size_t>(dtypeBytes(d));
  for (size_t i = 0; i < count; ++i) {
    double acc = loadFloat(d, from[i % from.size()] + i * width);
    for (size_t r = 1; r < from.size(); ++r)
      acc = roundToFloat(d, combined(op, acc, loadFloat(d, from[(i + r) % from.size()] + i * width)));
    storeFloat(d, to + i * width, acc);
  }
}

void reduce(DType d, int op, const std::vector<const char*>& from, char* to, size_t count) {
  switch (d) {
  case DType::I8: return reduceInts<int8_t>(op, from, to, count);
  case DType::U8: return reduceInts<uint8_t>(op, from, to, count);
  case DType::I32: return reduceInts<int32_t>(op, from, to, count);
  case DType::U32: return reduceInts<uint32_t>(op, from, to, count);
  case DType::I64: return reduceInts<int64_t>(op, from, to, count);
  case DType::U64: return reduceInts<uint64_t>(op, from, to, count);
  default: return reduceFloats(d, op, from, to, count);
  }
}

bool stalls(const Comm& comm, size_t call) {
  const char* text = std::getenv("DTC_STUB_NCCL_STALL");
  if (!text || !std::strchr(text, ':')) return false;
  return comm.rank == std::atoi(text) && call == static_cast<size_t>(std::atoi(std::strchr(text, ':') + 1));
}

int post(Comm& comm, void* stream, std::vector<stub::Arrival> meets) {
  for (const stub::Arrival& a : meets) comm.world->points.push_back(a.point);
  stub::Op op;
  op.meets = std::move(meets);
  const auto& to = *static_cast<std::shared_ptr<Stream>*>(stream);
  if (stub::enqueue(*to, std::move(op))) return wrong(kUnhandledCuda, stub::lastProblem());
  if (to->capture)
    to->capture->users.push_back(comm.graphs);
  else
    comm.used[to] = to->end();
  return kOk;
}

[[noreturn]] void hangs(const char* why) {
  std::fprintf(stderr, "stub of NCCL: this never returns: %s\n", why);
  std::abort();
}

// What NCCL does when the last rank of this process has gone (commDestroySync of src/init.cc): it waits for the streams that the communicator
// has work in, and until no graph is left that captured work of it.
void waitForGone(const World& world) {
  for (Comm* comm : world.members) {
    if (!comm) continue;
    for (const auto& [stream, end] : comm->used)
      if (stub::drain(*stream, std::min(end, stream->end()), false) == stub::kNotReady)
        hangs("its stream waits for a collective, of this or another communicator, that is not aborted");
    if (comm->graphs.use_count() > 1)
      hangs("a graph that captured collectives of the communicator is still there");
  }
}

void leave(const std::shared_ptr<World>& world) {
  if (++world->left < static_cast<size_t>(world->ranks)) return;
  if (groupDepth)
    groupGone.push_back(world);
  else
    waitForGone(*world);
}

using Body = std::function<void(const std::vector<const char*>&, const std::vector<char*>&)>;

// One rank's call of a collective: the last to come does it for all.
int collective(Comm* comm, void* stream, const std::string& what, const void* from, void* to,
               const Body& body) {
  std::lock_guard guard(stub::lock());
  if (stub::fails("nccl")) return wrong(kSystem, "the call was made to fail");
  if (!comm || !comm->world) return wrong(kInvalidArgument, "the communicator does not exist");
  World& world = *comm->world;
  if (world.aborted) return wrong(kRemote, "the communicator was aborted");
  const size_t number = comm->calls++;
  auto& call = world.calls[number];
  const auto ranks = static_cast<size_t>(world.ranks);
  if (!call) {
    call = std::make_shared<World::Call>(World::Call{what, nullptr, {}, {}});
    call->from.resize(ranks), call->to.resize(ranks);
    World::Call* c = call.get();
    call->point = std::make_shared<Point>(ranks, [c, body]() -> std::string {
      body(c->from, c->to);
      return "";
    });
  }
  if (call->what != what)
    return wrong(kInvalidUsage, "rank " + std::to_string(comm->rank) + " calls " + what +
                                    " where another calls " + call->what);
  call->from[static_cast<size_t>(comm->rank)] = static_cast<const char*>(from);
  call->to[static_cast<size_t>(comm->rank)] = static_cast<char*>(to);
  if (stalls(*comm, number)) { // its stream goes no further until the communicator is aborted
    auto never = std::make_shared<Point>(2, nullptr);
    return post(*comm, stream, {{never, 0}});
  }
  return post(*comm, stream, {{call->point, static_cast<size_t>(comm->rank)}});
}

std::string described(const char* what, size_t count, int type, int op) {
  return std::string(what) + "(" + std::to_string(count) + ", type " + std::to_string(type) + ", op " +
         std::to_string(op) + ")";
}

int move(Comm* comm, void* stream, int peer, size_t bytes, const void* from, void* to) {
  std::lock_guard guard(stub::lock());
  World& world = *comm->world;
  if (peer < 0 || peer >= world.ranks)
    return wrong(kInvalidArgument, "there is no rank " + std::to_string(peer));
  const bool sends = to == nullptr;
  const size_t number = (sends ? comm->sends : comm->receives)[peer]++;
  auto& list = world.pairs[sends ? std::pair(comm->rank, peer) : std::pair(peer, comm->rank)];
  if (list.size() <= number) list.resize(number + 1);
  World::Pair& pair = list[number];
  if (!pair.point) {
    pair.buffers = std::make_shared<World::Call>();
    pair.buffers->from.resize(1), pair.buffers->to.resize(1);
    World::Call* b = pair.buffers.get();
    pair.point = std::make_shared<Point>(2, [b, keep = pair.buffers, bytes]() -> std::string {
      std::memcpy(b->to[0], b->from[0], bytes);
      return "";
    });
    pair.buffers->what = std::to_string(bytes);
  }
  if (pair.buffers->what != std::to_string(bytes))
    return wrong(kInvalidUsage, "a send and its receive differ in size");
  (sends ? pair.buffers->from[0] : *const_cast<const char**>(&pair.buffers->to[0])) =
      static_cast<const char*>(sends ? from : to);
  const stub::Arrival arrival{pair.point, sends ? size_t{0} : size_t{1}};
  if (!groupDepth) return post(*comm, stream, {arrival});
  for (PendingMove& m : groupMoves)
    if (m.comm == comm && m.stream == stream) return m.meets.push_back(arrival), kOk;
  groupMoves.push_back({comm, stream, {arrival}});
  return kOk;
}

// Until every rank of these communicators has come.
int waitForAll(const std::vector<Comm*>& list) {
  std::unique_lock guard(stub::lock());
  static std::condition_variable_any never;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  for (Comm* comm : list)
    while (!comm->world || comm->world->joined < static_cast<size_t>(comm->world->ranks)) {
      if (std::chrono::steady_clock::now() > end)
        return wrong(kSystem, "a rank never joined its communicator");
      never.wait_for(guard, std::chrono::milliseconds(5));
    }
  for (Comm* comm : list)
    for (const Comm* other : comm->world->members)
      if (other && other != comm && other->device == comm->device && !std::getenv("DTC_STUB_NCCL_SHARE"))
        return wrong(kInvalidUsage, "Duplicate GPU detected");
  return kOk;
}

int made(Comm* comm) {
  if (!groupDepth) return waitForAll({comm});
  groupNew.push_back(comm);
  return kOk;
}

void join(const std::shared_ptr<World>& world, Comm* comm, int rank) {
  comm->world = world;
  comm->rank = rank;
  world->members[static_cast<size_t>(rank)] = comm;
  ++world->joined;
}

std::shared_ptr<World> newWorld(int ranks) {
  auto world = std::make_shared<World>();
  world->ranks = ranks;
  world->members.resize(static_cast<size_t>(ranks));
  return world;
}

// All ranks have said which color they want.
void resolve(World::Split& split) {
  std::sort(split.asked.begin(), split.asked.end(), [](const auto& a, const auto& b) {
    return std::tuple(std::get<0>(a), std::get<1>(a), std::get<2>(a)) <
           std::tuple(std::get<0>(b), std::get<1>(b), std::get<2>(b));
  });
  for (size_t at = 0; at < split.asked.size();) {
    size_t end = at;
    while (end < split.asked.size() && std::get<0>(split.asked[end]) == std::get<0>(split.asked[at])) ++end;
    if (std::get<0>(split.asked[at]) >= 0) {
      auto world = newWorld(static_cast<int>(end - at));
      for (size_t i = at; i < end; ++i) join(world, std::get<3>(split.asked[i]), static_cast<int>(i - at));
    }
    at = end;
  }
}

} // namespace

STUB_NCCL ncclGetVersion(int* out) { return *out = 22809, kOk; }
STUB_NCCL ncclGetUniqueId(UniqueId* out) {
  static int next = 0;
  std::lock_guard guard(stub::lock());
  *out = {};
  ++next;
  std::memcpy(out->bytes, &next, sizeof next);
  return kOk;
}
STUB_NCCL ncclCommInitRankConfig(Comm** out, int ranks, UniqueId id, int rank, void*) {
  static std::map<int, std::shared_ptr<World>> worlds;
  std::unique_lock guard(stub::lock());
  if (!stub::current()) return wrong(kUnhandledCuda, "no context is current");
  if (rank < 0 || rank >= ranks) return wrong(kInvalidArgument, "the rank is out of range");
  int number;
  std::memcpy(&number, id.bytes, sizeof number);
  auto& world = worlds[number];
  if (!world) world = newWorld(ranks);
  auto* comm = new Comm();
  comm->device = stub::current()->ordinal;
  join(world, comm, rank);
  *out = comm;
  guard.unlock();
  return made(comm);
}
STUB_NCCL ncclCommInitRank(Comm** out, int ranks, UniqueId id, int rank) {
  return ncclCommInitRankConfig(out, ranks, id, rank, nullptr);
}
STUB_NCCL ncclCommSplit(Comm* comm, int color, int key, Comm** out, void*) {
  std::unique_lock guard(stub::lock());
  auto* child = color >= 0 ? new Comm() : nullptr;
  if (child) child->device = comm->device;
  World::Split& split = comm->world->splits[comm->splits++];
  split.asked.emplace_back(color, key, comm->rank, child);
  if (split.asked.size() == static_cast<size_t>(comm->world->ranks)) resolve(split);
  *out = child;
  guard.unlock();
  return child ? made(child) : int{kOk};
}
STUB_NCCL ncclCommDestroy(Comm* comm) {
  std::lock_guard guard(stub::lock());
  const std::shared_ptr<World> world = comm->world; // ranks are freed by the last of them
  leave(world);
  if (world->left == static_cast<size_t>(world->ranks))
    for (Comm*& member : world->members) delete member, member = nullptr;
  return kOk;
}
STUB_NCCL ncclCommAbort(Comm* comm) {
  std::lock_guard guard(stub::lock());
  comm->world->aborted = true;
  for (auto& weak : comm->world->points)
    if (auto point = weak.lock()) point->cancelled = true;
  stub::wake();
  leave(comm->world);
  return kOk;
}
STUB_NCCL ncclCommGetAsyncError(Comm* comm, int* out) {
  const char* fails = std::getenv("DTC_STUB_NCCL_FAIL"); // a peer that is gone
  return *out = comm->world->aborted || fails ? kRemote : kOk, kOk;
}
extern "C" STUB_API const char* ncclGetErrorString(int code) {
  return code == kOk       ? "no error"
         : code == kRemote ? "remote process exited or there was a network error"
                           : "an error of the stub";
}
extern "C" STUB_API const char* ncclGetLastError(Comm*) { return lastError.c_str(); }
STUB_NCCL ncclGroupStart() { return ++groupDepth, kOk; }
STUB_NCCL ncclGroupEnd() {
  if (--groupDepth) return kOk;
  std::vector<PendingMove> moves = std::move(groupMoves);
  std::vector<Comm*> fresh = std::move(groupNew);
  const std::vector<std::shared_ptr<World>> gone = std::move(groupGone);
  groupMoves.clear(), groupNew.clear(), groupGone.clear();
  {
    std::lock_guard guard(stub::lock());
    for (const auto& world : gone) waitForGone(*world);
  }
  stub::Device* const before = stub::current();
  for (PendingMove& m : moves) {
    stub::current() = const_cast<stub::Device*>((**static_cast<std::shared_ptr<Stream>*>(m.stream)).device);
    if (int code = post(*m.comm, m.stream, std::move(m.meets))) return code;
  }
  stub::current() = before;
  return waitForAll(fresh);
}

STUB_NCCL ncclAllReduce(const void* from, void* to, size_t count, int type, int op, Comm* comm,
                        void* stream) {
  return collective(comm, stream, described("AllReduce", count, type, op), from, to,
                    [=](const std::vector<const char*>& ins, const std::vector<char*>& outs) {
                      const size_t bytes = count * static_cast<size_t>(dtypeBytes(typeOf(type)));
                      std::string result(bytes, '\0');
                      reduce(typeOf(type), op, ins, result.data(), count);
                      for (char* out : outs) std::memcpy(out, result.data(), bytes);
                    });
}
STUB_NCCL ncclReduceScatter(const void* from, void* to, size_t count, int type, int op, Comm* comm,
                            void* stream) {
  return collective(comm, stream, described("ReduceScatter", count, type, op), from, to,
                    [=](const std::vector<const char*>& ins, const std::vector<char*>& outs) {
                      const size_t bytes = count * static_cast<size_t>(dtypeBytes(typeOf(type)));
                      std::string result(bytes * outs.size(), '\0');
                      reduce(typeOf(type), op, ins, result.data(), count * outs.size());
                      for (size_t r = 0; r < outs.size(); ++r)
                        std::memcpy(outs[r], result.data() + r * bytes, bytes);
                    });
}
STUB_NCCL ncclAllGather(const void* from, void* to, size_t count, int type, Comm* comm, void* stream) {
  return collective(comm, stream, described("AllGather", count, type, 0), from, to,
                    [=](const std::vector<const char*>& ins, const std::vector<char*>& outs) {
                      const size_t bytes = count * static_cast<size_t>(dtypeBytes(typeOf(type)));
                      std::string all;
                      for (const char* in : ins) all.append(in, bytes);
                      for (char* out : outs) std::memcpy(out, all.data(), all.size());
                    });
}
STUB_NCCL ncclBroadcast(const void* from, void* to, size_t count, int type, int root, Comm* comm,
                        void* stream) {
  return collective(comm, stream, described("Broadcast", count, type, root), from, to,
                    [=](const std::vector<const char*>& ins, const std::vector<char*>& outs) {
                      const std::string all(ins[static_cast<size_t>(root)],
                                            count * static_cast<size_t>(dtypeBytes(typeOf(type))));
                      for (char* out : outs) std::memcpy(out, all.data(), all.size());
                    });
}
STUB_NCCL ncclSend(const void* from, size_t count, int type, int peer, Comm* comm, void* stream) {
  return move(comm, stream, peer, count * static_cast<size_t>(dtypeBytes(typeOf(type))), from, nullptr);
}
STUB_NCCL ncclRecv(void* to, size_t count, int type, int peer, Comm* comm, void* stream) {
  return move(comm, stream, peer, count * static_cast<size_t>(dtypeBytes(typeOf(type))), nullptr, to);
}
