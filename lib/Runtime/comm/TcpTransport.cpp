#include "comm/TcpTransport.h"

#include "comm/TcpStore.h"
#include "dtc/Runtime/comm/Processes.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <poll.h>
#include <sstream>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace dtc {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kMaxProcesses = 1 << 16;
constexpr uint32_t kHello = 0x64746331;             // "dtc1"
constexpr int32_t kGoodbye = -1;                    // the channel of the last message
constexpr uint64_t kMaxMessage = uint64_t{1} << 30; // Processes sends longer ones in parts

struct Settings {
  int rank = 0, size = 1, port = 0;
  std::string address, job; // the prefix of keys
  bool hosted = false;      // the launcher has a store at the port
  double timeoutSeconds = 600;
};

struct Header {
  int32_t channel = 0, tag = 0;
  uint64_t bytes = 0;
};

struct Sent {
  Header header;
  const char* data = nullptr;
  size_t done = 0; // bytes of header and data
  uint64_t token = 0;
};
struct Arrived {
  Header header;
  int source = 0;
  std::string data;
};
struct Posted {
  int channel = 0, peer = 0, tag = 0;
  char* to = nullptr;
  size_t bytes = 0;
  uint64_t token = 0;
};

struct Peer {
  TcpSocket socket;
  bool open = false, left = false; // left: it has said goodbye
  std::deque<Sent> out;
  Header header;  // of the message that arrives
  size_t got = 0; // bytes of it, with its header
  std::string data;
};

struct State {
  Settings settings;
  bool joined = false;
  int onHost = 1;
  std::string error, host, version;
  std::unique_ptr<TcpStoreServer> server;
  std::vector<Peer> peers; // by rank
  std::deque<Arrived> arrived;
  std::deque<Posted> posted;
  std::vector<DtcMpiDone> done, reported;
};

State& state() {
  static State s;
  return s;
}

int failed(const Error& e) { return state().error = e.message, 1; }

// --- Finding each other ---

Result<int> numberIn(const char* name, int least, int most) {
  const char* text = std::getenv(name);
  if (!text || !*text)
    return usageError(std::string("the variable ") + name +
                      " is not set: torchrun sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT");
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  if (*end || value < least || value > most)
    return usageError(std::string(name) + "=" + text + ": expected a number from " + std::to_string(least) +
                      " to " + std::to_string(most));
  return static_cast<int>(value);
}

std::string textIn(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}

Result<Settings> readSettings() {
  Settings out;
  DTC_TRY(out.size, numberIn("WORLD_SIZE", 1, kMaxProcesses));
  DTC_TRY(out.rank, numberIn("RANK", 0, out.size - 1));
  DTC_TRY(out.port, numberIn("MASTER_PORT", 1, 65535));
  out.address = textIn("MASTER_ADDR");
  if (out.address.empty()) return usageError("the variable MASTER_ADDR is not set: it is the host of rank 0");
  out.hosted = textIn("TORCHELASTIC_USE_AGENT_STORE") == "True";
  out.job = "dtc/" + textIn("TORCHELASTIC_RUN_ID") + "/" + textIn("TORCHELASTIC_RESTART_COUNT") + "/";
  return out;
}

std::string hostName() {
  char text[256] = {};
  gethostname(text, sizeof text - 1);
  return text;
}

// Each process listens, and says where; it connects to those of lower ranks, and the others connect to it.
Status joinOthers(State& s) {
  const Settings& o = s.settings;
  const auto wait =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(o.timeoutSeconds));
  const TcpDeadline deadline = Clock::now() + wait;
  constexpr std::chrono::seconds kGrace(1); // of the store, which answers at once
  const std::string store = "the store at " + o.address + ":" + std::to_string(o.port);
  if (o.rank == 0 && !o.hosted) {
    auto server = TcpStoreServer::start(o.port);
    if (!server)
      return machineError(server.error().message +
                          "; if torch.distributed serves its store there, join with dtc "
                          "first, and then give init_process_group a TCPStore(…, is_master=False)");
    s.server = *std::move(server);
  }
  DTC_TRY(auto keys, TcpStore::connect(o.address, o.port, deadline));
  DTC_TRY(const auto listener, listenTcp(0));
  const std::string own = o.job + std::to_string(o.rank);
  DTC_TRY(const int64_t claims, keys.add(own + "/claims", 1, deadline));
  if (claims > 1) return usageError("two processes have RANK=" + std::to_string(o.rank));
  if (Status set =
          keys.set(own, keys.address() + " " + std::to_string(portOf(listener)) + " " + s.host, deadline);
      !set)
    return machineError(store + ": " + set.error().message);
  s.peers.resize(static_cast<size_t>(o.size));
  s.onHost = 0;
  for (int r = 0; r < o.size; ++r) {
    std::optional<std::string> said;
    while (!said) {
      auto got = keys.get(o.job + std::to_string(r), deadline + kGrace);
      if (!got) return machineError(store + ": " + got.error().message);
      said = *got;
      if (said) break;
      if (Clock::now() > deadline)
        return machineError("rank " + std::to_string(r) + " of " + std::to_string(o.size) +
                            " has not come to " + store);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    std::istringstream words(*said);
    std::string address, host;
    int port = 0;
    words >> address >> port >> host;
    s.onHost += host == s.host;
    if (r >= o.rank) continue;
    Peer& peer = s.peers[static_cast<size_t>(r)];
    DTC_TRY(peer.socket, connectTcp(address, port, deadline));
    const uint32_t hello[] = {kHello, static_cast<uint32_t>(o.rank)};
    if (Status sent = sendAll(peer.socket, hello, sizeof hello, deadline); !sent) return sent;
    peer.open = true;
  }
  for (int missing = o.size - 1 - o.rank; missing > 0;) {
    pollfd p{listener.get(), POLLIN, 0};
    (void)poll(&p, 1, 50);
    if (Clock::now() > deadline)
      return machineError(std::to_string(missing) + " processes have not connected to this one");
    TcpSocket socket(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    const TcpDeadline soon = std::min(deadline, Clock::now() + kGrace); // it may be another program's
    uint32_t hello[2] = {};
    if (socket.get() < 0 || !receiveAll(socket, hello, sizeof hello, soon) || hello[0] != kHello) continue;
    if (hello[1] <= static_cast<uint32_t>(o.rank) || hello[1] >= static_cast<uint32_t>(o.size)) continue;
    Peer& peer = s.peers[hello[1]];
    if (peer.open) continue;
    --missing;
    peer.socket = std::move(socket), peer.open = true;
  }
  return Ok{};
}

int init() {
  State& s = state();
  if (s.joined) return failed(machineError("this process has joined the others already"));
  s.host = hostName();
  s.version = "TCP";
  if (Status joined = joinOthers(s); !joined) return failed(joined.error());
  s.joined = true;
  return 0;
}

// --- Messages ---

bool fits(const Posted& p, const Header& h, int source) {
  return p.channel == h.channel && p.tag == h.tag && (p.peer == kDtcMpiAny || p.peer == source);
}

void give(const Posted& p, const Arrived& a) {
  const size_t kept = std::min(p.bytes, a.data.size());
  std::memcpy(p.to, a.data.data(), kept);
  state().done.push_back({p.token, a.source, a.data.size()});
}

void deliver(Arrived a) {
  State& s = state();
  const auto at =
      std::ranges::find_if(s.posted, [&](const Posted& p) { return fits(p, a.header, a.source); });
  if (at == s.posted.end()) return s.arrived.push_back(std::move(a));
  const Posted p = *at;
  s.posted.erase(at);
  give(p, a);
}

int send(int channel, const void* data, size_t bytes, int peer, int tag, uint64_t token) {
  state().peers[static_cast<size_t>(peer)].out.push_back(
      {{channel, tag, bytes}, static_cast<const char*>(data), 0, token});
  return 0;
}

int receive(int channel, void* data, size_t bytes, int peer, int tag, uint64_t token) {
  State& s = state();
  const Posted p{channel, peer, tag, static_cast<char*>(data), bytes, token};
  const auto at =
      std::ranges::find_if(s.arrived, [&](const Arrived& a) { return fits(p, a.header, a.source); });
  if (at == s.arrived.end()) return s.posted.push_back(p), 0;
  give(p, *at);
  s.arrived.erase(at);
  return 0;
}

// The other process has ended; without a goodbye, it was killed.
void close(Peer& peer, int number) {
  peer.open = false;
  if (!peer.left) state().done.push_back({kDtcMpiLost, number, 0});
}

void writeTo(Peer& peer, int number) {
  while (peer.open && !peer.out.empty()) {
    Sent& m = peer.out.front();
    const bool inHeader = m.done < sizeof m.header;
    const char* from =
        inHeader ? reinterpret_cast<const char*>(&m.header) + m.done : m.data + (m.done - sizeof m.header);
    const size_t left = inHeader ? sizeof m.header - m.done : sizeof m.header + m.header.bytes - m.done;
    const ssize_t n = left ? ::send(peer.socket.get(), from, left,
                                    MSG_NOSIGNAL | (inHeader && m.header.bytes ? MSG_MORE : 0))
                           : 0;
    if (n < 0) {
      if (errno != EAGAIN && errno != EINTR) close(peer, number);
      return;
    }
    m.done += static_cast<size_t>(n);
    if (m.done < sizeof m.header + m.header.bytes) continue;
    state().done.push_back({m.token, 0, m.header.bytes});
    peer.out.pop_front();
  }
}

void readFrom(Peer& peer, int source) {
  while (peer.open) {
    const bool inHeader = peer.got < sizeof peer.header;
    char* to = inHeader ? reinterpret_cast<char*>(&peer.header) + peer.got
                        : peer.data.data() + (peer.got - sizeof peer.header);
    const size_t left =
        inHeader ? sizeof peer.header - peer.got : sizeof peer.header + peer.header.bytes - peer.got;
    if (left > 0) {
      const ssize_t n = recv(peer.socket.get(), to, left, 0);
      if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) close(peer, source);
      if (n <= 0) return;
      peer.got += static_cast<size_t>(n);
    }
    if (inHeader && peer.got == sizeof peer.header) {
      const Header& h = peer.header;
      if (h.channel == kGoodbye) {
        peer.left = true, peer.got = 0;
        continue;
      }
      if (h.bytes > kMaxMessage || (h.channel != DtcMpiData && h.channel != DtcMpiControl)) {
        state().error = "rank " + std::to_string(source) + " sends what is not a message of dtc";
        peer.open = false;
        return;
      }
      peer.data.resize(h.bytes);
    }
    if (peer.got < sizeof peer.header || peer.got < sizeof peer.header + peer.header.bytes) continue;
    deliver({peer.header, source, std::move(peer.data)});
    peer.got = 0, peer.data.clear();
  }
}

void move() {
  State& s = state();
  for (size_t r = 0; r < s.peers.size(); ++r) {
    readFrom(s.peers[r], static_cast<int>(r)); // first: what a process has said before it ended
    writeTo(s.peers[r], static_cast<int>(r));
  }
}

int poll(const DtcMpiDone** done) {
  State& s = state();
  move();
  *done = nullptr;
  if (!s.error.empty()) return -1;
  s.reported = std::exchange(s.done, {});
  *done = s.reported.data();
  return static_cast<int>(s.reported.size());
}

void flush(std::chrono::milliseconds limit) {
  State& s = state();
  const auto end = Clock::now() + limit;
  const auto pending = [&] {
    return std::ranges::any_of(s.peers, [](const Peer& p) { return p.open && !p.out.empty(); });
  };
  while (pending() && Clock::now() < end) {
    move();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// Until the others have come here too: they may still read from this process, or ask the store of process 0.
int finalize() {
  State& s = state();
  constexpr std::chrono::seconds kPatience(5);
  for (Peer& p : s.peers) p.out.push_back({{kGoodbye, 0, 0}, "", 0, 0});
  flush(kPatience);
  for (Peer& p : s.peers)
    if (p.open) shutdown(p.socket.get(), SHUT_WR);
  const auto end = Clock::now() + kPatience;
  while (std::ranges::any_of(s.peers, [](const Peer& p) { return p.open; }) && Clock::now() < end) {
    for (size_t r = 0; r < s.peers.size(); ++r) readFrom(s.peers[r], static_cast<int>(r));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  s = State();
  return 0;
}

// The others have been told, and end by themselves.
void abort(int code) {
  flush(std::chrono::milliseconds(200));
  std::_Exit(code);
}

const char* error() { return state().error.c_str(); }
const char* version() { return state().version.c_str(); }
const char* host() { return state().host.c_str(); }
int rank() { return state().settings.rank; }
int size() { return state().settings.size; }
int sizeOnHost() { return state().onHost; }
int maxTag() { return 1 << 30; }

} // namespace

Result<const DtcMpiTable*> tcpTransport(double timeoutSeconds) {
  DTC_TRY(state().settings, readSettings());
  state().settings.timeoutSeconds = timeoutSeconds;
  static const DtcMpiTable table = {kDtcMpiAbi, init,   error, version, rank, size,     sizeOnHost,
                                    host,       maxTag, send,  receive, poll, finalize, abort};
  return &table;
}

} // namespace dtc
