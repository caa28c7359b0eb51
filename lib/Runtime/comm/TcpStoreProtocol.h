#pragma once
// What the client and the server of a TcpStore share: the messages of PyTorch's TCPStore.
#include "comm/TcpStore.h"

namespace dtc::store {

// A query begins with its number; keys and values are their length, then their bytes.
enum Query : uint8_t {
  Validate,
  Set,
  CompareSet,
  Get,
  Add,
  Check,
  Wait,
  KeyCount,
  Delete,
  Append,
  MultiGet,
  MultiSet,
  CancelWait,
  Ping
};
constexpr uint32_t kMagic = 0x3C85F7CE;
constexpr uint8_t kReady = 0, kNotReady = 1;           // the answer to Check
constexpr uint8_t kStopWaiting = 0, kWaitCanceled = 1; // the answer to Wait
constexpr uint64_t kMaxBytes = 1 << 20;                // of a key or value

[[nodiscard]] std::string number(uint64_t n);
[[nodiscard]] std::string sized(const std::string& text);
[[nodiscard]] Result<std::string> receiveSized(const TcpSocket& socket, TcpDeadline deadline);
// Of a new connection: not inherited, nonblocking, without delay.
void setOptions(int fd);

} // namespace dtc::store
