// libnccl.so.2 of the tests: NCCL's calls, ranks by one thread in groups or by a thread each, over Streams.h; in several processes
// of this host, over NcclBoard.h. What NCCL does that hurts is done here too: max and min drop NaN, sums are rounded to their
// type after each rank, ranks that call different collectives are an error, and a rank that does not come is waited for until
// the communicator is aborted.
// DTC_STUB_NCCL_STALL=RANK:N leaves out that rank's call number N (from 0) of each communicator.
// DTC_STUB_NCCL_FAULT=RANK:N:SIGNAL sends itself a signal at call number N (from 0) of a rank of the first communicator.
// DTC_STUB_NCCL_SHARE=1 lets several ranks be on one GPU.
#include "NcclBoard.h"
#include "NcclReduce.h"
#include "NcclWorld.h"
#include "Streams.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <sstream>
#include <unistd.h>

using namespace dtc;
using namespace stub;
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

// The last process takes the folder with it.
void leaveBoard(const World& world) {
  if (world.name != kFirstWorld) return;
  for (int r = 0; r < world.ranks; ++r)
    if (world.members[static_cast<size_t>(r)]) world.board->post(world.named("gone", r), "");
  for (int r = 0; r < world.ranks; ++r)
    if (!world.board->has(world.named("gone", r))) return;
  world.board->removeAll();
}

void leave(const std::shared_ptr<World>& world) {
  if (++world->left < world->here()) return;
  if (world->spans) leaveBoard(*world);
  if (groupDepth)
    groupGone.push_back(world);
  else
    waitForGone(*world);
}

using Body = std::function<void(const std::vector<const char*>&, const std::vector<char*>&)>;

// The ranks of this process have come: posts what they send, and does it for them once all others have.
std::optional<std::string> meetOthers(World& world, World::Call& call, const std::string& name, size_t bytes,
                                      const Body& body) {
  std::vector<std::string> received(static_cast<size_t>(world.ranks));
  for (int r = 0; r < world.ranks; ++r)
    if (const char* from = call.from[static_cast<size_t>(r)]; world.members[static_cast<size_t>(r)]) {
      const std::string own = world.named(name, r);
      if (std::find(world.posted.begin(), world.posted.end(), own) != world.posted.end()) break;
      world.board->post(own, call.what + "\n" + (from ? std::string(from, bytes) : ""));
      world.posted.push_back(own);
    }
  for (int r = 0; r < world.ranks; ++r)
    if (!world.members[static_cast<size_t>(r)] && !world.board->has(world.named(name, r)))
      return std::nullopt;
  auto from = call.from;
  for (int r = 0; r < world.ranks; ++r) {
    const auto at = static_cast<size_t>(r);
    if (world.members[at]) continue;
    auto text = world.board->read(world.named(name, r));
    if (!text) return std::nullopt;
    const size_t line = text->find('\n');
    if (text->substr(0, line) != call.what) {
      world.wrong = "this process calls " + call.what + " where rank " + std::to_string(r) + " calls " +
                    text->substr(0, line);
      return std::nullopt; // hangs, as NCCL does
    }
    received[at] = text->substr(line + 1);
    from[at] = received[at].data();
  }
  body(from, call.to);
  // The others have read what is older: they have come to a later call.
  constexpr size_t kKept = 64;
  while (world.posted.size() > kKept) world.board->remove(world.posted.front()), world.posted.pop_front();
  return "";
}

// Its process ends, or stops, here.
void fault(const Comm& comm) {
  static std::map<int, int> calls;
  int rank = 0, number = 0, signal = 0;
  const char* text = std::getenv("DTC_STUB_NCCL_FAULT");
  if (!text || std::sscanf(text, "%d:%d:%d", &rank, &number, &signal) != 3 || rank != comm.first) return;
  if (calls[rank]++ != number) return;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  std::fprintf(stderr, "fault at %.3f\n", std::chrono::duration<double>(now).count());
  (void)kill(getpid(), signal);
}

// One rank's call of a collective: the last to come does it for all. `bytes` of this rank's operand are sent.
int collective(Comm* comm, void* stream, const std::string& what, const void* from, void* to, size_t bytes,
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
    const size_t parties = world.spans ? world.here() : ranks;
    call->point = std::make_shared<Point>(parties, [c, body]() -> std::string {
      body(c->from, c->to);
      return "";
    });
    if (world.spans)
      call->point->remote = [w = comm->world.get(), c, number, bytes, body](size_t meeting) {
        return meetOthers(*w, *c, "c" + std::to_string(number) + "." + std::to_string(meeting), bytes, body);
      };
  }
  fault(*comm);
  if (call->what != what)
    return wrong(kInvalidUsage, "rank " + std::to_string(comm->rank) + " calls " + what +
                                    " where another calls " + call->what);
  call->from[static_cast<size_t>(comm->rank)] = bytes ? static_cast<const char*>(from) : nullptr;
  call->to[static_cast<size_t>(comm->rank)] = static_cast<char*>(to);
  if (stalls(*comm, number)) { // its stream goes no further until the communicator is aborted
    auto never = std::make_shared<Point>(2, nullptr);
    return post(*comm, stream, {{never, 0}});
  }
  return post(*comm, stream, {{call->point, partyOf(*comm)}});
}

size_t sizeOf(size_t count, int type) { return count * static_cast<size_t>(dtypeBytes(typeOf(type))); }
size_t ranksOf(const Comm* comm) { return comm && comm->world ? static_cast<size_t>(comm->world->ranks) : 0; }

std::string described(const char* what, size_t count, int type, int op) {
  return std::string(what) + "(" + std::to_string(count) + ", type " + std::to_string(type) + ", op " +
         std::to_string(op) + ")";
}

// Of a send to a rank of another process, or a receive from one.
std::shared_ptr<Point> remoteMove(World& world, const std::string& name, size_t bytes, const void* from,
                                  void* to) {
  auto point = std::make_shared<Point>(1, nullptr);
  point->remote = [w = &world, name, bytes, from, to](size_t meeting) -> std::optional<std::string> {
    const std::string one = name + "." + std::to_string(meeting);
    if (!to) return w->board->post(one, std::string(static_cast<const char*>(from), bytes)), "";
    const auto got = w->board->has(one) ? w->board->read(one) : std::nullopt;
    if (!got) return std::nullopt;
    if (got->size() != bytes) return w->wrong = "a send and its receive differ in size", std::nullopt;
    std::memcpy(to, got->data(), bytes);
    w->board->remove(one);
    return "";
  };
  return point;
}

int move(Comm* comm, void* stream, int peer, size_t bytes, const void* from, void* to) {
  std::lock_guard guard(stub::lock());
  World& world = *comm->world;
  if (peer < 0 || peer >= world.ranks)
    return wrong(kInvalidArgument, "there is no rank " + std::to_string(peer));
  fault(*comm);
  const bool sends = to == nullptr;
  const size_t number = (sends ? comm->sends : comm->receives)[peer]++;
  const auto start = [&](const stub::Arrival& arrival) {
    if (!groupDepth) return post(*comm, stream, {arrival});
    for (PendingMove& m : groupMoves)
      if (m.comm == comm && m.stream == stream) return m.meets.push_back(arrival), int{kOk};
    groupMoves.push_back({comm, stream, {arrival}});
    return int{kOk};
  };
  if (!world.members[static_cast<size_t>(peer)]) {
    const auto [a, b] = sends ? std::pair(comm->rank, peer) : std::pair(peer, comm->rank);
    const std::string name =
        world.name + "-p" + std::to_string(a) + "-" + std::to_string(b) + "-" + std::to_string(number);
    return start({remoteMove(world, name, bytes, from, to), 0});
  }
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
  return start({pair.point, sends ? size_t{0} : size_t{1}});
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

// The same, of ranks in several processes: true when all have said it.
bool resolveAcross(Comm& comm) {
  const World& parent = *comm.parent;
  const std::string name = "s" + std::to_string(comm.split);
  std::vector<std::tuple<int, int, int, int>> asked; // color, key, rank, GPU
  for (int r = 0; r < parent.ranks; ++r) {
    const auto text = parent.board->read(parent.named(name, r));
    int color = 0, key = 0, gpu = 0;
    if (!text || std::sscanf(text->c_str(), "%d %d %d", &color, &key, &gpu) != 3) return false;
    asked.emplace_back(color, key, r, gpu);
  }
  std::sort(asked.begin(), asked.end());
  std::map<int, std::vector<std::pair<int, int>>> colors; // rank and GPU
  for (auto [color, key, rank, gpu] : asked) colors[color].emplace_back(rank, gpu);
  const World::Split& own = comm.parent->splits[comm.split];
  for (const auto& [color, ranks] : colors) {
    std::shared_ptr<World> world;
    for (auto [ownColor, key, rank, child] : own.asked) {
      if (ownColor != color || color < 0) continue;
      if (!world) world = newWorld(static_cast<int>(ranks.size()));
      const auto at =
          std::find_if(ranks.begin(), ranks.end(), [&](const auto& r) { return r.first == rank; });
      join(world, child, static_cast<int>(at - ranks.begin()));
    }
    if (!world) continue;
    world->board = parent.board;
    world->name = parent.name + name + "c" + std::to_string(color);
    world->spans = world->joined < ranks.size();
    for (const auto& r : ranks) world->gpus.push_back(r.second);
  }
  const auto all = own.asked; // `comm` is one of them
  for (const auto& one : all)
    if (Comm* child = std::get<3>(one)) child->parent.reset();
  return true;
}

// Ranks that do not come by themselves are in other processes: asks there.
bool hasJoined(Comm& comm) {
  if (comm.parent && !resolveAcross(comm)) return false;
  if (!comm.world) return false;
  World& world = *comm.world;
  if (world.spans || world.joined == static_cast<size_t>(world.ranks)) return true;
  if (!world.board) return false;
  for (const Comm* member : world.members) {
    if (!member || world.board->has(world.named("join", member->rank))) continue;
    world.board->open();
    world.board->post(world.named("join", member->rank),
                      std::to_string(getpid()) + " " + std::to_string(member->device));
  }
  std::vector<int> gpus;
  for (int r = 0; r < world.ranks; ++r) {
    const auto text = world.board->read(world.named("join", r));
    int process = 0, gpu = 0;
    if (!text || std::sscanf(text->c_str(), "%d %d", &process, &gpu) != 2) return false;
    if (process == getpid() && !world.members[static_cast<size_t>(r)]) return false; // a thread of this one
    gpus.push_back(gpu);
  }
  world.gpus = std::move(gpus);
  world.spans = true;
  stub::goOnInBackground();
  return true;
}

bool sharesGpu(const Comm& comm) {
  for (const Comm* other : comm.world->members)
    if (other && other != &comm && other->device == comm.device) return true;
  const auto& gpus = comm.world->gpus;
  for (size_t r = 0; r < gpus.size(); ++r)
    if (static_cast<int>(r) != comm.rank && gpus[r] == comm.device) return true;
  return false;
}

// Until every rank of these communicators has come.
int waitForAll(const std::vector<Comm*>& list) {
  std::unique_lock guard(stub::lock());
  static std::condition_variable_any never;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  for (Comm* comm : list)
    while (!hasJoined(*comm)) {
      if (std::chrono::steady_clock::now() > end)
        return wrong(kSystem, "a rank never joined its communicator");
      never.wait_for(guard, std::chrono::milliseconds(1));
    }
  for (Comm* comm : list)
    if (sharesGpu(*comm) && !std::getenv("DTC_STUB_NCCL_SHARE"))
      return wrong(kInvalidUsage, "Duplicate GPU detected");
  return kOk;
}

int made(Comm* comm) {
  if (!groupDepth) return waitForAll({comm});
  groupNew.push_back(comm);
  return kOk;
}

} // namespace

STUB_NCCL ncclGetVersion(int* out) { return *out = 22809, kOk; }
STUB_NCCL ncclGetUniqueId(UniqueId* out) {
  *out = {};
  const std::string id = stub::Board::newId();
  std::memcpy(out->bytes, id.data(), std::min(id.size(), sizeof out->bytes - 1));
  return kOk;
}
STUB_NCCL ncclCommInitRankConfig(Comm** out, int ranks, UniqueId id, int rank, void*) {
  static std::map<std::string, std::shared_ptr<World>> worlds;
  std::unique_lock guard(stub::lock());
  if (!stub::current()) return wrong(kUnhandledCuda, "no context is current");
  if (rank < 0 || rank >= ranks) return wrong(kInvalidArgument, "the rank is out of range");
  auto& world = worlds[id.bytes];
  if (!world) {
    world = newWorld(ranks);
    world->board = std::make_shared<stub::Board>(id.bytes);
    world->name = kFirstWorld;
  }
  auto* comm = new Comm();
  comm->device = stub::current()->physical;
  comm->first = rank;
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
  if (child) child->device = comm->device, child->first = comm->first;
  const size_t number = comm->splits++;
  World& world = *comm->world;
  World::Split& split = world.splits[number];
  split.asked.emplace_back(color, key, comm->rank, child);
  if (world.spans) {
    world.board->post(world.named("s" + std::to_string(number), comm->rank),
                      std::to_string(color) + " " + std::to_string(key) + " " + std::to_string(comm->device));
    if (child) child->parent = comm->world, child->split = number;
  } else if (split.asked.size() == static_cast<size_t>(world.ranks)) {
    resolve(split);
  }
  *out = child;
  guard.unlock();
  return child ? made(child) : int{kOk};
}
STUB_NCCL ncclCommDestroy(Comm* comm) {
  std::lock_guard guard(stub::lock());
  const std::shared_ptr<World> world = comm->world; // ranks are freed by the last of them
  leave(world);
  if (world->left == world->here())
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
  std::lock_guard guard(stub::lock());
  lastError = comm->world->wrong;
  *out = !lastError.empty() ? kInvalidUsage : comm->world->aborted || fails ? kRemote : kOk;
  return kOk;
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
  return collective(comm, stream, described("AllReduce", count, type, op), from, to, sizeOf(count, type),
                    [=](const std::vector<const char*>& ins, const std::vector<char*>& outs) {
                      const size_t bytes = count * static_cast<size_t>(dtypeBytes(typeOf(type)));
                      std::string result(bytes, '\0');
                      reduce(typeOf(type), op, ins, result.data(), count);
                      for (char* out : outs)
                        if (out) std::memcpy(out, result.data(), bytes);
                    });
}
STUB_NCCL ncclReduceScatter(const void* from, void* to, size_t count, int type, int op, Comm* comm,
                            void* stream) {
  return collective(comm, stream, described("ReduceScatter", count, type, op), from, to,
                    sizeOf(count, type) * ranksOf(comm),
                    [=](const std::vector<const char*>& ins, const std::vector<char*>& outs) {
                      const size_t bytes = count * static_cast<size_t>(dtypeBytes(typeOf(type)));
                      std::string result(bytes * outs.size(), '\0');
                      reduce(typeOf(type), op, ins, result.data(), count * outs.size());
                      for (size_t r = 0; r < outs.size(); ++r)
                        if (outs[r]) std::memcpy(outs[r], result.data() + r * bytes, bytes);
                    });
}
STUB_NCCL ncclAllGather(const void* from, void* to, size_t count, int type, Comm* comm, void* stream) {
  return collective(comm, stream, described("AllGather", count, type, 0), from, to, sizeOf(count, type),
                    [=](const std::vector<const char*>& ins, const std::vector<char*>& outs) {
                      const size_t bytes = count * static_cast<size_t>(dtypeBytes(typeOf(type)));
                      std::string all;
                      for (const char* in : ins) all.append(in, bytes);
                      for (char* out : outs)
                        if (out) std::memcpy(out, all.data(), all.size());
                    });
}
STUB_NCCL ncclBroadcast(const void* from, void* to, size_t count, int type, int root, Comm* comm,
                        void* stream) {
  return collective(comm, stream, described("Broadcast", count, type, root), from, to,
                    comm && comm->rank == root ? sizeOf(count, type) : 0,
                    [=](const std::vector<const char*>& ins, const std::vector<char*>& outs) {
                      const std::string all(ins[static_cast<size_t>(root)],
                                            count * static_cast<size_t>(dtypeBytes(typeOf(type))));
                      for (char* out : outs)
                        if (out) std::memcpy(out, all.data(), all.size());
                    });
}
STUB_NCCL ncclSend(const void* from, size_t count, int type, int peer, Comm* comm, void* stream) {
  return move(comm, stream, peer, count * static_cast<size_t>(dtypeBytes(typeOf(type))), from, nullptr);
}
STUB_NCCL ncclRecv(void* to, size_t count, int type, int peer, Comm* comm, void* stream) {
  return move(comm, stream, peer, count * static_cast<size_t>(dtypeBytes(typeOf(type))), nullptr, to);
}
