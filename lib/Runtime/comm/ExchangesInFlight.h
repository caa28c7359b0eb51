#pragma once
// The exchanges whose messages a transport is sending and receiving. Used by one thread.
#include "comm/MpiPlugin.h"
#include "dtc/Runtime/comm/Processes.h"
#include <cstdint>
#include <string>
#include <vector>

namespace dtc {

class ExchangesInFlight {
public:
  // Starts all messages of `x`, which stays valid until it is done; at once if it has none. False: the transport has
  // failed.
  [[nodiscard]] bool begin(const DtcMpiTable& mpi, ProcessExchange& x);
  // A part of a message is done. False: it has another size than this process expects.
  [[nodiscard]] bool completed(const DtcMpiDone& done);
  // Ends all exchanges without their data.
  void endAll();

  [[nodiscard]] bool empty() const { return count_ == 0; }
  // The exchange that was started first; null: none.
  [[nodiscard]] ProcessExchange* oldest() const;
  // Of which `done` is a part; null: the exchange has ended.
  struct Part {
    const ProcessExchange* exchange = nullptr;
    const ProcessMessage* message = nullptr;
  };
  [[nodiscard]] Part partOf(const DtcMpiDone& done) const;

private:
  std::vector<ProcessExchange*> slots_; // null: free
  std::vector<uint32_t> free_;
  size_t count_ = 0;

  void finish(ProcessExchange& x);
};

} // namespace dtc
