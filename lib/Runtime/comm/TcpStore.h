#pragma once
// Where processes find each other without MPI: keys and values at MASTER_ADDR:MASTER_PORT. The protocol is that of
// PyTorch's TCPStore (torch/csrc/distributed/c10d/TCPStore.cpp and TCPStoreBackend.hpp, PyTorch 2.1 and later), because
// torchrun has such a store at that port already.
#include "dtc/Support/Result.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace dtc {

// A descriptor that is closed with its owner.
class TcpSocket {
public:
  TcpSocket() = default;
  explicit TcpSocket(int fd) : fd_(fd) {}
  TcpSocket(TcpSocket&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  TcpSocket& operator=(TcpSocket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  TcpSocket(const TcpSocket&) = delete;
  TcpSocket& operator=(const TcpSocket&) = delete;
  ~TcpSocket();
  [[nodiscard]] int get() const { return fd_; }

private:
  int fd_ = -1;
};

using TcpDeadline = std::chrono::steady_clock::time_point;

// Connects; tries again until the deadline where nobody listens yet. Error (Machine): with the address and why.
[[nodiscard]] Result<TcpSocket> connectTcp(const std::string& host, int port, TcpDeadline deadline);
// Listens on a port (0: any) of all addresses. Error (Machine): it is in use.
[[nodiscard]] Result<TcpSocket> listenTcp(int port);
[[nodiscard]] int portOf(const TcpSocket& socket);
// The numeric address of this end of a connection.
[[nodiscard]] std::string ownAddress(const TcpSocket& socket);
// All bytes, until the deadline.
[[nodiscard]] Status sendAll(const TcpSocket& socket, const void* data, size_t bytes, TcpDeadline deadline);
[[nodiscard]] Status receiveAll(const TcpSocket& socket, void* data, size_t bytes, TcpDeadline deadline);

// The server, in a thread of this process.
class TcpStoreServer {
public:
  [[nodiscard]] static Result<std::unique_ptr<TcpStoreServer>> start(int port); // 0: any
  ~TcpStoreServer();
  [[nodiscard]] int port() const;

private:
  struct Impl;
  explicit TcpStoreServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

class TcpStore {
public:
  [[nodiscard]] static Result<TcpStore> connect(const std::string& host, int port, TcpDeadline deadline);
  [[nodiscard]] Status set(const std::string& key, const std::string& value, TcpDeadline deadline);
  // Nothing: it has not been set.
  [[nodiscard]] Result<std::optional<std::string>> get(const std::string& key, TcpDeadline deadline);
  // Adds to a number, 0 before the first time, in one step for all clients; returns the sum.
  [[nodiscard]] Result<int64_t> add(const std::string& key, int64_t amount, TcpDeadline deadline);
  [[nodiscard]] std::string address() const { return ownAddress(socket_); }

private:
  explicit TcpStore(TcpSocket socket) : socket_(std::move(socket)) {}
  TcpSocket socket_;
};

} // namespace dtc
