#include "comm/TcpStoreProtocol.h"

#include <arpa/inet.h>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace dtc {

using namespace store;

namespace {

int64_t msUntil(TcpDeadline deadline) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now())
      .count();
}

// Waits until a socket can be read or written; false at the deadline.
bool ready(int fd, short events, TcpDeadline deadline) {
  pollfd p{fd, events, 0};
  for (;;) {
    const int64_t left = msUntil(deadline);
    if (left <= 0) return false;
    const int n = poll(&p, 1, static_cast<int>(std::min<int64_t>(left, 1000)));
    if (n > 0) return true;
    if (n < 0 && errno != EINTR) return false;
  }
}

// One attempt; -1 with errno.
int tryConnect(const addrinfo& to, TcpDeadline deadline) {
  const int fd = socket(to.ai_family, to.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, to.ai_protocol);
  if (fd < 0) return -1;
  int code = connect(fd, to.ai_addr, to.ai_addrlen) == 0 ? 0 : errno;
  if (code == EINPROGRESS) {
    socklen_t size = sizeof code;
    code = ETIMEDOUT;
    if (ready(fd, POLLOUT, deadline)) getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size);
  }
  if (code == 0) return setOptions(fd), fd;
  close(fd);
  return errno = code, -1;
}

} // namespace

namespace store {

std::string sized(const std::string& text) { return number(text.size()) + text; }

std::string number(uint64_t n) { return std::string(reinterpret_cast<const char*>(&n), sizeof n); }

Result<std::string> receiveSized(const TcpSocket& socket, TcpDeadline deadline) {
  uint64_t n = 0;
  if (Status s = receiveAll(socket, &n, sizeof n, deadline); !s) return s.error();
  if (n > kMaxBytes) return machineError("the server is not a store of PyTorch or dtc");
  std::string text(n, '\0');
  if (Status s = receiveAll(socket, text.data(), n, deadline); !s) return s.error();
  return text;
}

void setOptions(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

} // namespace store

TcpSocket::~TcpSocket() {
  if (fd_ >= 0) close(fd_);
}

Result<TcpSocket> connectTcp(const std::string& host, int port, TcpDeadline deadline) {
  const std::string where = host + ":" + std::to_string(port);
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (const int code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list))
    return machineError("cannot find " + where + ": " + gai_strerror(code));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, freeaddrinfo);
  int why = ETIMEDOUT;
  do {
    for (const addrinfo* at = list; at; at = at->ai_next) {
      if (const int fd = tryConnect(*at, deadline); fd >= 0) return TcpSocket(fd);
      why = errno;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  } while (msUntil(deadline) > 0);
  return machineError("cannot connect to " + where + ": " + std::strerror(why));
}

Result<TcpSocket> listenTcp(int port) {
  // Both versions of IP by one socket, where the host has version 6.
  for (const int family : {AF_INET6, AF_INET}) {
    TcpSocket s(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (s.get() < 0) continue;
    const int on = 1, off = 0;
    setsockopt(s.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in6 six{};
    sockaddr_in four{};
    six.sin6_family = AF_INET6, six.sin6_port = htons(static_cast<uint16_t>(port));
    four.sin_family = AF_INET, four.sin_port = htons(static_cast<uint16_t>(port));
    if (family == AF_INET6) setsockopt(s.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    const int bound = family == AF_INET6 ? bind(s.get(), reinterpret_cast<sockaddr*>(&six), sizeof six)
                                         : bind(s.get(), reinterpret_cast<sockaddr*>(&four), sizeof four);
    if (bound == 0 && listen(s.get(), SOMAXCONN) == 0) return setOptions(s.get()), std::move(s);
    if (family == AF_INET || errno == EADDRINUSE)
      return machineError("cannot listen on port " + std::to_string(port) + ": " + std::strerror(errno));
  }
  return machineError("cannot listen on port " + std::to_string(port) + ": " + std::strerror(errno));
}

int portOf(const TcpSocket& socket) {
  sockaddr_storage at{};
  socklen_t size = sizeof at;
  if (getsockname(socket.get(), reinterpret_cast<sockaddr*>(&at), &size) != 0) return 0;
  return ntohs(at.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(at).sin6_port
                                        : reinterpret_cast<sockaddr_in&>(at).sin_port);
}

std::string ownAddress(const TcpSocket& socket) {
  sockaddr_storage at{};
  socklen_t size = sizeof at;
  char text[NI_MAXHOST] = {};
  if (getsockname(socket.get(), reinterpret_cast<sockaddr*>(&at), &size) == 0)
    getnameinfo(reinterpret_cast<sockaddr*>(&at), size, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return text;
}

Status sendAll(const TcpSocket& socket, const void* data, size_t bytes, TcpDeadline deadline) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = send(socket.get(), at, bytes, MSG_NOSIGNAL);
    if (n > 0) {
      at += n, bytes -= static_cast<size_t>(n);
    } else if (errno != EAGAIN && errno != EINTR) {
      return machineError(std::string("the connection is broken: ") + std::strerror(errno));
    } else if (!ready(socket.get(), POLLOUT, deadline)) {
      return machineError("no answer in time");
    }
  }
  return Ok{};
}

Status receiveAll(const TcpSocket& socket, void* data, size_t bytes, TcpDeadline deadline) {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t n = recv(socket.get(), at, bytes, 0);
    if (n > 0) {
      at += n, bytes -= static_cast<size_t>(n);
    } else if (n == 0) {
      return machineError("the connection was closed");
    } else if (errno != EAGAIN && errno != EINTR) {
      return machineError(std::string("the connection is broken: ") + std::strerror(errno));
    } else if (!ready(socket.get(), POLLIN, deadline)) {
      return machineError("no answer in time");
    }
  }
  return Ok{};
}

// --- The client ---

Result<TcpStore> TcpStore::connect(const std::string& host, int port, TcpDeadline deadline) {
  DTC_TRY(auto socket, connectTcp(host, port, deadline));
  std::string hello(1, static_cast<char>(Validate));
  hello.append(reinterpret_cast<const char*>(&kMagic), sizeof kMagic);
  if (Status s = sendAll(socket, hello.data(), hello.size(), deadline); !s) return s.error();
  return TcpStore(std::move(socket));
}

Status TcpStore::set(const std::string& key, const std::string& value, TcpDeadline deadline) {
  const std::string query = std::string(1, static_cast<char>(Set)) + sized(key) + sized(value);
  return sendAll(socket_, query.data(), query.size(), deadline);
}

Result<std::optional<std::string>> TcpStore::get(const std::string& key, TcpDeadline deadline) {
  const std::string check = std::string(1, static_cast<char>(Check)) + number(1) + sized(key);
  if (Status s = sendAll(socket_, check.data(), check.size(), deadline); !s) return s.error();
  uint8_t answer = kNotReady;
  if (Status s = receiveAll(socket_, &answer, sizeof answer, deadline); !s) return s.error();
  if (answer != kReady) return std::optional<std::string>();
  const std::string query = std::string(1, static_cast<char>(Get)) + sized(key);
  if (Status s = sendAll(socket_, query.data(), query.size(), deadline); !s) return s.error();
  DTC_TRY(auto value, receiveSized(socket_, deadline));
  return std::optional<std::string>(std::move(value));
}

Result<int64_t> TcpStore::add(const std::string& key, int64_t amount, TcpDeadline deadline) {
  const std::string query =
      std::string(1, static_cast<char>(Add)) + sized(key) + number(static_cast<uint64_t>(amount));
  if (Status s = sendAll(socket_, query.data(), query.size(), deadline); !s) return s.error();
  int64_t sum = 0;
  if (Status s = receiveAll(socket_, &sum, sizeof sum, deadline); !s) return s.error();
  return sum;
}

} // namespace dtc
