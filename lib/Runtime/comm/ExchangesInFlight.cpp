#include "comm/ExchangesInFlight.h"

#include "comm/ProcessClocks.h"

#include <algorithm>

namespace dtc {
namespace {

constexpr int64_t kMaxPart = int64_t{1} << 30; // bytes of one message of MPI, whose counts are ints

// What a transport gives back with a message: the slot of its exchange and its index.
uint64_t tokenOf(uint32_t slot, size_t message) { return (uint64_t{slot} << 32) | message; }
size_t slotOf(uint64_t token) { return token >> 32; }
uint32_t messageOf(uint64_t token) { return static_cast<uint32_t>(token); }

} // namespace

bool ExchangesInFlight::begin(const DtcMpiTable& mpi, ProcessExchange& x) {
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(slots_.size()));
    slots_.push_back(nullptr);
  }
  x.slot = free_.back();
  free_.pop_back();
  slots_[x.slot] = &x;
  ++count_;
  x.open = static_cast<uint32_t>(x.messages.size());
  x.startNs = steadyNs();
  for (ProcessMessage& m : x.messages)
    m.received = 0, m.open = static_cast<uint32_t>(std::max<int64_t>(1, (m.bytes + kMaxPart - 1) / kMaxPart));
  // Receives first: what arrives early needs no buffer of MPI's.
  for (const bool send : {false, true})
    for (size_t i = 0; i < x.messages.size(); ++i) {
      const ProcessMessage& m = x.messages[i];
      if (m.send != send) continue;
      const uint64_t token = tokenOf(x.slot, i);
      for (int64_t at = 0; at == 0 || at < m.bytes; at += kMaxPart) {
        const auto bytes = static_cast<size_t>(std::min(kMaxPart, m.bytes - at));
        if (send ? mpi.send(DtcMpiData, m.data + at, bytes, m.peer, x.tag, token)
                 : mpi.receive(DtcMpiData, m.data + at, bytes, m.peer, x.tag, token))
          return false;
      }
    }
  if (x.open == 0) finish(x);
  return true;
}

bool ExchangesInFlight::completed(const DtcMpiDone& done) {
  ProcessExchange* x = slots_[slotOf(done.token)];
  if (!x) return true;
  ProcessMessage& m = x->messages[messageOf(done.token)];
  m.received += static_cast<int64_t>(done.bytes);
  if (--m.open > 0) return true;
  if (!m.send && m.received != m.bytes) return false;
  if (--x->open == 0) finish(*x);
  return true;
}

void ExchangesInFlight::finish(ProcessExchange& x) {
  slots_[x.slot] = nullptr;
  free_.push_back(x.slot);
  --count_;
  x.done(x.self); // `x` may be gone
}

void ExchangesInFlight::endAll() {
  for (size_t i = 0; i < slots_.size(); ++i)
    if (slots_[i]) finish(*slots_[i]);
}

ProcessExchange* ExchangesInFlight::oldest() const {
  ProcessExchange* first = nullptr;
  for (ProcessExchange* x : slots_)
    if (x && (!first || x->startNs < first->startNs)) first = x;
  return first;
}

ExchangesInFlight::Part ExchangesInFlight::partOf(const DtcMpiDone& done) const {
  const ProcessExchange* x = slots_[slotOf(done.token)];
  return x ? Part{x, &x->messages[messageOf(done.token)]} : Part{};
}

} // namespace dtc
