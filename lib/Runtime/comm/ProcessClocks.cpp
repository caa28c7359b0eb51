#include "comm/ProcessClocks.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

namespace dtc {
namespace {

constexpr int kRounds = 12;

template <typename Clock> int64_t nowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}
int64_t timeOfDayLessSteady() { return nowNs<std::chrono::system_clock>() - steadyNs(); }

// Times are taken by the thread that calls MPI: other threads see a message later.
struct Transfer {
  ProcessExchange exchange;
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  int64_t doneNs = 0;

  Transfer() {
    static const std::string kWhere = "the comparison of clocks";
    exchange.where = &kWhere;
    exchange.patient = true;
    exchange.self = this;
    exchange.done = [](void* self) {
      auto& t = *static_cast<Transfer*>(self);
      const int64_t now = steadyNs();
      const std::lock_guard lock(t.mutex);
      t.done = true, t.doneNs = now;
      t.changed.notify_all();
    };
  }
  template <typename T> void message(int peer, bool send, T& data) {
    exchange.messages.push_back({peer, send, reinterpret_cast<std::byte*>(&data), sizeof data});
  }
  Status run(Processes& processes) {
    processes.start(exchange);
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return done; });
    return processes.failure();
  }
};

// The other process's times. An answer is sent before it is known when, so the next one says it.
struct Answer {
  int64_t received = 0, lastAnswered = 0;
};
struct Verdict {
  int64_t offsetNs = 0, errorNs = 0, timeOfDayLessSteady = 0; // the last: of process 0
};

Status compareWith(Processes& processes, int peer) {
  std::vector<ClockRound> rounds(kRounds + 1);
  char ping = 0;
  for (size_t i = 0; i < rounds.size(); ++i) {
    Answer answer;
    Transfer t;
    t.message(peer, false, answer);
    t.message(peer, true, ping);
    if (Status s = t.run(processes); !s) return s;
    rounds[i].sent = t.exchange.startNs, rounds[i].back = t.doneNs, rounds[i].received = answer.received;
    if (i > 0) rounds[i - 1].answered = answer.lastAnswered;
  }
  rounds.pop_back(); // only its answer was needed
  const ProcessClocks::Sample best = bestOf(rounds);
  Verdict verdict{best.offsetNs, best.errorNs, timeOfDayLessSteady()};
  Transfer t;
  t.message(peer, true, verdict);
  return t.run(processes);
}

Result<Verdict> compareWithProcess0(Processes& processes) {
  Answer answer;
  char ping = 0;
  for (int i = 0; i <= kRounds; ++i) {
    Transfer in, out;
    in.message(0, false, ping);
    if (Status s = in.run(processes); !s) return s.error();
    answer.received = in.doneNs;
    out.message(0, true, answer);
    if (Status s = out.run(processes); !s) return s.error();
    answer.lastAnswered = out.exchange.startNs;
  }
  Verdict verdict;
  Transfer t;
  t.message(0, false, verdict);
  if (Status s = t.run(processes); !s) return s.error();
  return verdict;
}

} // namespace

int64_t steadyNs() { return nowNs<std::chrono::steady_clock>(); }

ProcessClocks::Sample bestOf(std::span<const ClockRound> rounds) {
  const auto underWay = [](const ClockRound& r) { return (r.back - r.sent) - (r.answered - r.received); };
  const ClockRound& r = *std::ranges::min_element(rounds, {}, underWay);
  return {r.received, ((r.received - r.sent) + (r.answered - r.back)) / 2,
          std::max<int64_t>(0, underWay(r)) / 2};
}

Status ProcessClocks::compare(Processes& processes) {
  for (int peer = 1; peer < processes.size() && processes.rank() == 0; ++peer)
    if (Status s = compareWith(processes, peer); !s) return s;
  if (processes.rank() == 0) return Ok{};
  DTC_TRY(const Verdict v, compareWithProcess0(processes));
  add({steadyNs(), v.offsetNs, v.errorNs});
  timeOfDayNs_ = timeOfDayLessSteady() - v.timeOfDayLessSteady + v.offsetNs;
  return Ok{};
}

int64_t ProcessClocks::inProcess0(int64_t ns) const {
  if (samples_.empty()) return ns;
  const auto after = std::ranges::lower_bound(samples_, ns, {}, &Sample::ns);
  if (after == samples_.begin()) return ns - after->offsetNs;
  if (after == samples_.end()) return ns - samples_.back().offsetNs;
  const Sample& before = *std::prev(after);
  const double part = static_cast<double>(ns - before.ns) / static_cast<double>(after->ns - before.ns);
  return ns - before.offsetNs -
         static_cast<int64_t>(part * static_cast<double>(after->offsetNs - before.offsetNs));
}

} // namespace dtc
