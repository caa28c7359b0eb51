#include "dtc/Runtime/comm/Processes.h"

#include "comm/ExchangesInFlight.h"
#include "comm/OpenMpiPlugin.h"
#include "comm/ProcessClocks.h"
#include "comm/ProcessInquiry.h"
#include "comm/ProcessTexts.h"
#include "comm/TcpTransport.h"

#include "dtc/Support/Cores.h"
#include "dtc/Support/Spin.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <list>
#include <mutex>
#include <set>
#include <thread>

namespace dtc {
namespace {

constexpr uint64_t kControlReceive = ~uint64_t{0}, kControlSend = kControlReceive - 1;
constexpr size_t kControlBytes = 4096;
constexpr double kStartSeconds =
    30; // in which processes come to MPI's start or end, in addition to the time limit
constexpr int64_t kAwakeNs = 200'000; // of the progress thread, after its last message
constexpr int64_t kTellNs = 200'000'000;
constexpr int kOwnTag = 0; // of rounds; those of the background have maxTag

constexpr char kQuestion = '?', kAnswer = '=', kEnd = '#'; // the first byte of a control message

std::atomic<bool> terminated{false}; // by SIGTERM

} // namespace

// Messages of rounds.
struct Processes::Impl {
  const DtcMpiTable* mpi = nullptr;
  double timeoutSeconds = 600;
  bool byTcp = false;
  int rank = 0, size = 1, onHost = 1, maxTag = 32767;
  std::string version;
  std::vector<std::string> hosts; // by rank

  mutable std::mutex mutex;
  std::condition_variable wake, changed;
  std::deque<ProcessExchange*> queue;                            // to be started
  std::deque<std::pair<int, std::string>> control;               // to be sent: process, text
  bool stop = false, ready = false, ended = false, over = false; // over: the thread is
  std::optional<Error> ownFailure;                               // of endUse()
  std::optional<Wait> deviceWait;
  std::optional<std::string> suspicion;
  int speaker = 0;
  ProcessChannel own{kOwnTag, "the start"};
  int backgroundTag = 0;
  std::optional<int> abortCode;
  std::optional<Error> failed;
  std::optional<FailedWait> failedWait;
  std::atomic<bool> hasFailed{false}, endsInOrder{false};

  // Of the progress thread:
  ExchangesInFlight active;
  std::array<char, kControlBytes> controlText{};
  std::list<std::string> controlSends; // until the end
  int64_t lastDoneNs = 0;
  std::string problem; // of MPI, or with a message
  // A failure that the others are told until then. Meanwhile no process releases memory, and none that has been told uses
  // MPI: transports in shared memory crash when they read from memory that is gone.
  std::optional<Error> failing;
  int64_t tellsUntilNs = 0;
  bool told = false;                  // by another process
  std::vector<ProcessExchange*> held; // not started, because of it
  std::thread thread;
  ProcessInquiry inquiry;

  void loop();
  void run();
  void leave();
  [[nodiscard]] double startSeconds() const { return timeoutSeconds + kStartSeconds; }
  [[nodiscard]] Status init();
  bool poll();
  void endRun(int speaks, const std::string& why);
  void failAll(Error why);
  void endAll();
  [[nodiscard]] bool listen() {
    return mpi->receive(DtcMpiControl, controlText.data(), controlText.size(), kDtcMpiAny, 0,
                        kControlReceive) == 0;
  }
  [[nodiscard]] std::string transportFailed() const {
    return std::string(byTcp ? "TCP" : "MPI") + " has failed: " + mpi->error();
  }
  [[nodiscard]] std::string fromOf(const DtcMpiDone& done) const;
  void heard(const DtcMpiDone& done);
  void tell(int peer, std::string text);
  [[nodiscard]] std::optional<Wait> waitOnDevices() const {
    const std::lock_guard lock(mutex);
    return deviceWait;
  }
  [[nodiscard]] std::string answer() const;
  [[nodiscard]] std::optional<int64_t> waitsSince() const;
  void watch();
  void inquire(std::string reason, int64_t graceNs);
  void pause(std::unique_lock<std::mutex>& lock);
  [[nodiscard]] Status wait(const ProcessChannel& on, ProcessExchange& x);
  [[nodiscard]] std::string name(int of) const {
    return "rank " + std::to_string(of) + (hosts.empty() ? "" : " on " + hosts[static_cast<size_t>(of)]);
  }
};

Status Processes::Impl::init() {
  if (mpi->init())
    return machineError((byTcp ? "cannot join the other processes: " : "cannot start MPI: ") +
                        std::string(mpi->error()));
  rank = mpi->rank();
  size = mpi->size();
  onHost = mpi->sizeOnHost();
  backgroundTag = maxTag = mpi->maxTag();
  version = mpi->version();
  if (!listen()) return machineError(std::string("cannot receive by MPI: ") + mpi->error());
  return Ok{};
}

bool Processes::Impl::poll() {
  const DtcMpiDone* done = nullptr;
  const int count = mpi->poll(&done);
  if (count < 0) {
    problem = transportFailed() + (done ? fromOf(*done) : "");
    return false;
  }
  if (count > 0) lastDoneNs = steadyNs();
  for (int i = 0; i < count; ++i) {
    if (done[i].token == kControlReceive) {
      heard(done[i]);
      if (!listen()) return false;
      continue;
    }
    if (done[i].token == kControlSend) continue;
    if (done[i].token == kDtcMpiLost) {
      const std::lock_guard lock(mutex);
      suspicion = "a connection was closed";
      continue;
    }
    if (active.completed(done[i])) continue;
    const ProcessMessage& m = *active.partOf(done[i]).message;
    problem = "the processes have come to different collectives: got " + std::to_string(m.received) +
              " bytes in place of " + std::to_string(m.bytes) + fromOf(done[i]);
    return false;
  }
  return true;
}

// " from rank 2 on node1 at gpt.dt:12: 'all_reduce'"
std::string Processes::Impl::fromOf(const DtcMpiDone& done) const {
  if (done.token >= kControlSend) return "";
  const auto [x, message] = active.partOf(done);
  return x ? (message->send ? " to " : " from ") + name(message->peer) + " at " + *x->where : "";
}

// Ends the run on all processes, of which one reports why.
void Processes::Impl::endRun(int speaks, const std::string& why) {
  if (failing) return;
  for (int peer = 0; peer < size; ++peer)
    if (peer != rank) tell(peer, kEnd + std::to_string(speaks) + " " + why);
  {
    const std::lock_guard lock(mutex);
    speaker = speaks;
  }
  failAll(machineError(why));
}

void Processes::Impl::failAll(Error why) {
  if (failing) return;
  const std::string waits = answer();
  if (const size_t space = waits.find(' '); space != waits.npos) {
    const std::lock_guard lock(mutex);
    failedWait = {waits.substr(0, space), waits.substr(space + 1)};
  }
  failing = std::move(why);
  tellsUntilNs = steadyNs() + kTellNs;
}

// Ends all exchanges; their messages stay with MPI, so the process must end by abort().
void Processes::Impl::endAll() {
  {
    const std::lock_guard lock(mutex);
    failed = *failing;
    hasFailed = true;
  }
  active.endAll();
  for (ProcessExchange* x : held) x->done(x->self);
  {
    const std::lock_guard lock(mutex);
    ended = true;
  }
  changed.notify_all();
}

void Processes::Impl::heard(const DtcMpiDone& done) {
  const std::string text(controlText.data(), done.bytes);
  if (text.empty()) return;
  if (text[0] == kQuestion) tell(done.source, kAnswer + answer());
  if (text[0] == kAnswer && inquiry.active)
    inquiry.answers[static_cast<size_t>(done.source)] = text.substr(1);
  if (text[0] == kEnd) {
    {
      const std::lock_guard lock(mutex);
      if (!failing) speaker = std::atoi(text.c_str() + 1);
    }
    told = true;
    failAll(machineError(text.substr(text.find(' ') + 1)));
  }
  if (text[0] == kFailure) {
    told = true;
    failAll(errorOf(text.substr(1), name(done.source)));
  }
}

void Processes::Impl::tell(int peer, std::string text) {
  const std::string& kept = controlSends.emplace_back(std::move(text)); // until the end
  mpi->send(DtcMpiControl, kept.data(), std::min(kept.size(), kControlBytes), peer, 0, kControlSend);
}

// --- Processes that do not answer ---

// "2,3 gpt.dt:12:8: 'all_reduce'": for whom this process waits longest, and where; empty: it does not wait.
std::string Processes::Impl::answer() const {
  if (const auto wait = waitOnDevices()) return wait->what;
  const ProcessExchange* x = active.oldest();
  if (!x) return "";
  std::set<int> peers; // several messages are for the same process
  for (const ProcessMessage& m : x->messages)
    if (m.open > 0) peers.insert(m.peer);
  std::string text;
  for (const int peer : peers) text += (text.empty() ? "" : ",") + std::to_string(peer);
  return text + " " + *x->where;
}

// The start of what this process waits for longest.
std::optional<int64_t> Processes::Impl::waitsSince() const {
  if (const auto wait = waitOnDevices()) return wait->sinceNs;
  if (const ProcessExchange* x = active.oldest()) return x->startNs;
  return std::nullopt;
}

// Ends the run if a wait is too long, or if mpirun ends this process.
void Processes::Impl::watch() {
  const int64_t now = steadyNs();
  if (inquiry.active) {
    const bool complete = inquiry.isComplete();
    if (now < inquiry.endNs && !complete) return;
    inquiry.active = false;
    ProcessExchange* x = active.oldest();
    const auto nameOf = [this](int of) { return name(of); };
    if (complete && terminated && endsInOrder) {
      terminated = false;
      return;
    }
    if (!terminated && !inquiry.certain && waitsSince() != inquiry.sinceNs) return; // it was only slow
    if (x && x->patient && complete && !terminated && !waitOnDevices() && !inquiry.certain) {
      const std::string note = x->noted ? "" : inquiry.note(rank, nameOf);
      x->noted |= !note.empty();
      (void)std::fputs(note.c_str(), stderr);
      x->startNs = now;
      return;
    }
    return endRun(inquiry.firstAnswer(),
                  inquiry.certain && complete
                      ? name(rank) + ": " + inquiry.reason
                      : inquiry.diagnosis(nameOf, terminated, waitOnDevices().has_value()));
  }
  constexpr int64_t kSecond = 1'000'000'000, kBeforeKill = 300'000'000; // mpirun kills a second after SIGTERM
  if (terminated)
    return inquire("the run was ended from outside: " + name(rank) + " got SIGTERM", kBeforeKill);
  std::optional<std::string> reason;
  {
    const std::lock_guard lock(mutex);
    reason = std::exchange(suspicion, std::nullopt);
  }
  if (reason) {
    inquire(*reason, kSecond);
    inquiry.certain = true;
    return;
  }
  const auto since = waitsSince();
  if (!since || static_cast<double>(now - *since) <= timeoutSeconds * 1e9) return;
  inquire("no progress for " + std::to_string((now - *since) / kSecond) + " s", kSecond);
  inquiry.sinceNs = since;
}

void Processes::Impl::inquire(std::string reason, int64_t graceNs) {
  inquiry = {.active = true, .endNs = steadyNs() + graceNs, .reason = std::move(reason)};
  inquiry.answers.resize(static_cast<size_t>(size));
  inquiry.answers[static_cast<size_t>(rank)] = answer();
  for (int peer = 0; peer < size; ++peer)
    if (peer != rank) tell(peer, std::string(1, kQuestion));
}

// Between two polls. Processes may share a core, so a wait that lasts yields it, then sleeps. After an exchange, the
// next one is often started within the time that it takes to wake a thread.
void Processes::Impl::pause(std::unique_lock<std::mutex>& lock) {
  const bool hadWork = steadyNs() - lastDoneNs < kAwakeNs;
  if (active.empty() && !hadWork) {
    wake.wait_for(lock, std::chrono::milliseconds(20),
                  [this] { return stop || abortCode || !queue.empty() || !control.empty(); });
    return;
  }
  lock.unlock();
  const int64_t waited = steadyNs() - lastDoneNs;
  constexpr int64_t kYieldNs = 2'000'000, kShortNs = 200'000'000;
  if (waited < kYieldNs)
    std::this_thread::yield();
  else
    std::this_thread::sleep_for(std::chrono::microseconds(waited < kShortNs ? 50 : 500));
  lock.lock();
}

void Processes::Impl::loop() {
  run();
  const std::lock_guard lock(mutex);
  over = true;
  changed.notify_all();
}

void Processes::Impl::run() {
  const Status started = init();
  std::unique_lock lock(mutex);
  ready = true;
  if (!started) failed = started.error();
  changed.notify_all();
  if (!started) return;
  while (!stop || !control.empty()) {
    if (abortCode) mpi->abort(*abortCode);
    std::deque<ProcessExchange*> next;
    next.swap(queue);
    std::deque<std::pair<int, std::string>> texts;
    texts.swap(control);
    std::optional<Error> own = std::exchange(ownFailure, std::nullopt);
    lock.unlock();
    if (!next.empty()) lastDoneNs = steadyNs();
    bool good = true;
    for (ProcessExchange* x : next) {
      if (hasFailed)
        x->done(x->self);
      else if (failing)
        held.push_back(x);
      else
        good = good && active.begin(*mpi, *x);
    }
    for (auto& [peer, text] : texts) tell(peer, std::move(text));
    if (own) failAll(*std::move(own));
    if (!hasFailed && !told) good = good && poll();
    if (!good && !hasFailed)
      endRun(rank, name(rank) + ": " + (problem.empty() ? transportFailed() : problem));
    if (!failing) watch();
    if (failing && !hasFailed && steadyNs() >= tellsUntilNs) endAll();
    lock.lock();
    pause(lock);
  }
  const bool clean = !failed;
  lock.unlock();
  if (clean) mpi->finalize();
}

Processes::Processes(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

// MPI starts and ends by calls that wait for all processes, without a limit. The thread is left alone where they do not
// return in time; it then keeps its state.
void Processes::Impl::leave() {
  std::unique_lock lock(mutex);
  stop = true;
  wake.notify_all();
  if (!thread.joinable()) return;
  if (changed.wait_for(lock, std::chrono::duration<double>(startSeconds()), [this] { return over; })) {
    lock.unlock();
    thread.join();
  } else {
    thread.detach();
  }
}

Processes::~Processes() { impl_->leave(); }

Result<std::unique_ptr<Processes>> Processes::open(double timeoutSeconds, bool endsAtSigterm,
                                                   ProcessTransport by) {
  const bool tcp = by == ProcessTransport::Tcp;
  DTC_TRY(const DtcMpiTable* table, tcp ? tcpTransport(timeoutSeconds) : openMpiPlugin());
  if (!tcp)
    if (Status s = checkSrun(); !s) return s.error();
  auto impl = std::make_shared<Impl>();
  impl->mpi = table;
  impl->timeoutSeconds = timeoutSeconds, impl->byTcp = tcp;
  std::unique_ptr<Processes> made(new Processes(std::move(impl)));
  Impl& x = *made->impl_;
  x.thread = std::thread([shared = made->impl_] { shared->loop(); });
  {
    std::unique_lock lock(x.mutex);
    if (!x.changed.wait_for(lock, std::chrono::duration<double>(x.startSeconds()),
                            [&x] { return x.ready; })) {
      x.stop = true;
      x.thread.detach();
      return machineError(
          "cannot start MPI: no progress for " + std::to_string(std::lround(x.startSeconds())) +
          " s: it waits for a process that is stopped, was never started, or is on a host that "
          "is unreachable");
    }
    if (x.failed) return *x.failed;
  }
  if (!tcp)
    if (Status s = checkLauncher(made->size(), made->version()); !s) return s.error();
  DTC_TRY(x.hosts, made->allGather(x.mpi->host()));
  if (endsAtSigterm) (void)std::signal(SIGTERM, [](int) { terminated = true; });
  return made;
}

int Processes::rank() const { return impl_->rank; }
int Processes::size() const { return impl_->size; }
int Processes::sizeOnHost() const { return impl_->onHost; }
int Processes::indexOnHost() const {
  const auto end = impl_->hosts.begin() + impl_->rank;
  return static_cast<int>(
      std::count(impl_->hosts.begin(), end, impl_->hosts[static_cast<size_t>(impl_->rank)]));
}
int Processes::maxTag() const { return impl_->maxTag; }
const std::string& Processes::host(int rank) const { return impl_->hosts[static_cast<size_t>(rank)]; }
const std::string& Processes::version() const { return impl_->version; }
std::string Processes::name(int rank) const { return impl_->name(rank); }

void Processes::stage(std::string what) { impl_->own.where = std::move(what); }

void Processes::start(ProcessExchange& exchange) {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->queue.push_back(&exchange);
  }
  impl_->wake.notify_one();
}

void Processes::waits(std::optional<Wait> wait) {
  const std::lock_guard lock(impl_->mutex);
  impl_->deviceWait = std::move(wait);
}

void Processes::suspect(const std::string& reason) {
  const std::lock_guard lock(impl_->mutex);
  impl_->suspicion = reason;
}

Status Processes::failure() const {
  if (!impl_->hasFailed) return Ok{};
  const std::lock_guard lock(impl_->mutex);
  return *impl_->failed;
}

std::optional<Processes::FailedWait> Processes::waitAtFailure() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->failedWait;
}

void Processes::fail(int code, const std::string& why) {
  {
    const std::lock_guard lock(impl_->mutex);
    for (int peer = 0; peer < impl_->size; ++peer)
      if (peer != impl_->rank) impl_->control.emplace_back(peer, failureText(code, why));
  }
  impl_->wake.notify_one();
}

void Processes::endUse(const std::string& why) {
  std::unique_lock lock(impl_->mutex);
  impl_->ownFailure = machineError(why);
  impl_->wake.notify_one();
  impl_->changed.wait(lock, [this] { return impl_->ended; });
}

int Processes::speaker() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->speaker;
}

Result<std::vector<std::string>> Processes::round(std::string_view mine, const std::string* problem) {
  DTC_TRY(auto texts, allGather(problem ? "-" + *problem : "+" + std::string(mine)));
  std::optional<int> without;
  for (size_t r = 0; r < texts.size(); ++r) {
    const bool has = texts[r].starts_with('-');
    if (has && !problem_) problem_ = {static_cast<int>(r), texts[r].substr(1)};
    if (!has && !without) without = static_cast<int>(r);
    texts[r].erase(0, 1);
  }
  if (problem_) problem_->without = without;
  if (problem_) return errorOf(problem_->text, name(problem_->rank));
  return texts;
}

Status Processes::Impl::wait(const ProcessChannel& on, ProcessExchange& x) {
  struct Waiter {
    Impl& impl;
    std::atomic<bool> done{false};
  } waiter{*this};
  x.tag = on.tag;
  x.where = &on.where;
  x.patient = true;
  x.self = &waiter;
  x.done = [](void* self) {
    auto& w = *static_cast<Waiter*>(self);
    const std::lock_guard lock(w.impl.mutex);
    w.done = true;
    w.impl.changed.notify_all();
  };
  std::unique_lock lock(mutex);
  queue.push_back(&x);
  wake.notify_one();
  lock.unlock();
  (void)yieldUntil([&] { return waiter.done.load(); });
  lock.lock(); // until x.done() is over
  changed.wait(lock, [&] { return waiter.done.load(); });
  return failed ? Status(*failed) : Status(Ok{});
}

Status Processes::exchange(const ProcessChannel& on, ProcessExchange& x) { return impl_->wait(on, x); }

Result<std::vector<std::string>> Processes::gather(std::string_view mine) {
  return gatherTexts(*this, impl_->own, mine);
}

Result<std::vector<std::string>> Processes::allGather(std::string_view mine) {
  return allGatherTexts(*this, impl_->own, mine);
}

Result<std::vector<uint64_t>> Processes::allGather(uint64_t mine, const std::string& where) {
  return allGatherWords(*this, {kOwnTag, where}, mine);
}

Result<std::vector<std::string>> Processes::backgroundRound(const Result<std::string>& mine,
                                                            const std::string& where) {
  const auto text = mine ? "+" + *mine : failureText(exitCodeOf(mine.error()), mine.error().message);
  DTC_TRY(auto texts, allGatherTexts(*this, {impl_->backgroundTag, where}, text));
  for (size_t r = 0; r < texts.size(); ++r) {
    if (texts[r].starts_with(kFailure)) return errorOf(texts[r].substr(1), name(static_cast<int>(r)));
    texts[r].erase(0, 1);
  }
  return texts;
}

Result<uint8_t> Processes::combine(uint8_t bits) { return combineBits(*this, impl_->own, bits); }

void Processes::endsInOrder(bool does) { impl_->endsInOrder = does; }

void Processes::abort(int code) {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->abortCode = code;
  }
  impl_->wake.notify_one();
  impl_->thread.join(); // MPI ends this process, too
  std::_Exit(code);
}

} // namespace dtc
