// The server of a TcpStore: a thread that listens, and one for each client.
#include "comm/TcpStoreProtocol.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <map>
#include <mutex>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <vector>

namespace dtc {

using namespace store;

struct TcpStoreServer::Impl {
  struct Client {
    TcpSocket socket;
    std::atomic<bool> gone{false};
    std::thread thread;
  };

  TcpSocket listener;
  std::atomic<bool> stop{false}, refused{false};
  std::mutex mutex;
  std::condition_variable changed; // `values`
  std::map<std::string, std::string> values;
  std::list<Client> clients; // of the thread that listens
  std::thread thread;

  static TcpDeadline soon() { return std::chrono::steady_clock::now() + std::chrono::seconds(10); }
  static Status reply(const TcpSocket& to, const std::string& text) {
    return sendAll(to, text.data(), text.size(), soon());
  }
  template <class T> static Result<T> receive(const TcpSocket& from) {
    T value = 0;
    if (Status s = receiveAll(from, &value, sizeof value, soon()); !s) return s.error();
    return value;
  }
  static Result<std::vector<std::string>> receiveTexts(const TcpSocket& from, uint64_t count);

  void put(const std::string& key, std::string value);
  Status validate(const TcpSocket& from);
  Status refuse(uint8_t query);
  Status set(const TcpSocket& to, uint8_t query);
  Status add(const TcpSocket& to);
  Status get(const TcpSocket& to, uint64_t count);
  Status check(const TcpSocket& to);
  Status wait(const TcpSocket& to);
  Status answer(const TcpSocket& to);
  [[nodiscard]] bool hasAll(const std::vector<std::string>& keys) const;
  void serve(Client& client);
  void removeGone();
  void loop();
};

Result<std::vector<std::string>> TcpStoreServer::Impl::receiveTexts(const TcpSocket& from, uint64_t count) {
  constexpr uint64_t kMaxTexts = 1 << 16;
  if (count > kMaxTexts) return machineError("too many keys");
  std::vector<std::string> texts;
  for (uint64_t i = 0; i < count; ++i) {
    DTC_TRY(auto text, receiveSized(from, soon()));
    texts.push_back(std::move(text));
  }
  return texts;
}

void TcpStoreServer::Impl::put(const std::string& key, std::string value) {
  values[key] = std::move(value);
  changed.notify_all();
}

Status TcpStoreServer::Impl::validate(const TcpSocket& from) {
  DTC_TRY(const auto magic, receive<uint32_t>(from));
  return magic == kMagic ? Status(Ok{}) : machineError("no client of a store");
}

// The protocol has no message for an error: the client sees that its connection is closed.
Status TcpStoreServer::Impl::refuse(uint8_t query) {
  constexpr uint8_t kLastOfPyTorch = 18; // of those that PyTorch has
  if (query > Ping && query <= kLastOfPyTorch && !refused.exchange(true))
    (void)std::fprintf(
        stderr,
        "note: a client of the store at port %d sent query %d of PyTorch's TCPStore, which dtc does "
        "not support (queues, barriers and lists of keys): its connection was closed\n",
        portOf(listener), query);
  return machineError("unknown query");
}

// Set, CompareSet and Append.
Status TcpStoreServer::Impl::set(const TcpSocket& to, uint8_t query) {
  DTC_TRY(const auto texts, receiveTexts(to, query == CompareSet ? 3 : 2));
  const std::string &key = texts[0], &value = texts[1];
  std::string now;
  {
    const std::lock_guard lock(mutex);
    const auto at = values.find(key);
    const std::string old = at == values.end() ? "" : at->second;
    if (query == Set) return put(key, value), Ok{};
    if (query == Append) {
      if (old.size() + value.size() > kMaxBytes) return machineError("the value is too large");
      return put(key, old + value), Ok{};
    }
    // As PyTorch's: a key that does not exist is equal to an empty value, and else keeps what was expected.
    now = at == values.end() ? value : old;
    if (old == value) now = texts[2], put(key, now);
  }
  return reply(to, sized(now));
}

Status TcpStoreServer::Impl::add(const TcpSocket& to) {
  DTC_TRY(const auto key, receiveSized(to, soon()));
  DTC_TRY(const auto amount, receive<uint64_t>(to));
  uint64_t sum = amount;
  {
    const std::lock_guard lock(mutex);
    if (const auto at = values.find(key); at != values.end()) // a number is a text of digits, as in PyTorch
      sum += static_cast<uint64_t>(std::strtoll(at->second.c_str(), nullptr, 10));
    put(key, std::to_string(static_cast<int64_t>(sum)));
  }
  return reply(to, number(sum));
}

Status TcpStoreServer::Impl::get(const TcpSocket& to, uint64_t count) {
  DTC_TRY(const auto keys, receiveTexts(to, count));
  std::string text;
  {
    const std::lock_guard lock(mutex);
    for (const std::string& key : keys) {
      const auto at = values.find(key);
      text += sized(at == values.end() ? "" : at->second);
    }
  }
  return reply(to, text);
}

bool TcpStoreServer::Impl::hasAll(const std::vector<std::string>& keys) const {
  return std::ranges::all_of(keys, [&](const std::string& key) { return values.contains(key); });
}

Status TcpStoreServer::Impl::check(const TcpSocket& to) {
  DTC_TRY(const auto count, receive<uint64_t>(to));
  DTC_TRY(const auto keys, receiveTexts(to, count));
  bool all = false;
  {
    const std::lock_guard lock(mutex);
    all = hasAll(keys);
  }
  return reply(to, std::string(1, static_cast<char>(all ? kReady : kNotReady)));
}

// Until all keys exist, or the client sends something: it cancels, or is gone.
Status TcpStoreServer::Impl::wait(const TcpSocket& to) {
  DTC_TRY(const auto count, receive<uint64_t>(to));
  DTC_TRY(const auto keys, receiveTexts(to, count));
  bool all = false;
  for (pollfd p{to.get(), POLLIN, 0}; !all && !stop && poll(&p, 1, 0) == 0;) {
    std::unique_lock lock(mutex);
    all =
        changed.wait_for(lock, std::chrono::milliseconds(20), [&] { return stop || hasAll(keys); }) && !stop;
  }
  return all ? reply(to, std::string(1, static_cast<char>(kStopWaiting))) : Ok{};
}

Status TcpStoreServer::Impl::answer(const TcpSocket& to) {
  DTC_TRY(const auto query, receive<uint8_t>(to));
  switch (query) {
  case Validate: return validate(to);
  case Set:
  case CompareSet:
  case Append: return set(to, query);
  case Get: return get(to, 1);
  case Add: return add(to);
  case Check: return check(to);
  case Wait: return wait(to);
  case CancelWait: return reply(to, std::string(1, static_cast<char>(kWaitCanceled)));
  case KeyCount: {
    const std::lock_guard lock(mutex);
    return reply(to, number(values.size()));
  }
  case Delete: {
    DTC_TRY(const auto key, receiveSized(to, soon()));
    const std::lock_guard lock(mutex);
    return reply(to, number(values.erase(key)));
  }
  case MultiGet: {
    DTC_TRY(const auto count, receive<uint64_t>(to));
    return get(to, count);
  }
  case MultiSet: {
    DTC_TRY(const auto count, receive<uint64_t>(to));
    DTC_TRY(auto texts, receiveTexts(to, count > UINT64_MAX / 2 ? count : 2 * count));
    const std::lock_guard lock(mutex);
    for (size_t i = 0; i < texts.size(); i += 2) put(texts[i], std::move(texts[i + 1]));
    return Ok{};
  }
  case Ping: {
    DTC_TRY(const auto nonce, receive<uint32_t>(to));
    return reply(to, std::string(reinterpret_cast<const char*>(&nonce), sizeof nonce));
  }
  default: return refuse(query);
  }
}

void TcpStoreServer::Impl::serve(Client& client) {
  while (!stop) {
    pollfd p{client.socket.get(), POLLIN, 0};
    if (poll(&p, 1, 50) > 0)
      if (Status s = answer(client.socket); !s) break;
  }
  shutdown(client.socket.get(), SHUT_RDWR);
  client.gone = true;
}

void TcpStoreServer::Impl::removeGone() {
  clients.remove_if([](Client& c) {
    if (!c.gone) return false;
    c.thread.join();
    return true;
  });
}

void TcpStoreServer::Impl::loop() {
  while (!stop) {
    pollfd p{listener.get(), POLLIN, 0};
    if (poll(&p, 1, 50) <= 0) continue;
    removeGone();
    const int fd = accept(listener.get(), nullptr, nullptr);
    if (fd < 0) continue;
    setOptions(fd);
    Client& client = clients.emplace_back();
    client.socket = TcpSocket(fd);
    client.thread = std::thread([this, &client] { serve(client); });
  }
}

Result<std::unique_ptr<TcpStoreServer>> TcpStoreServer::start(int port) {
  auto impl = std::make_unique<Impl>();
  DTC_TRY(impl->listener, listenTcp(port));
  Impl& x = *impl;
  x.thread = std::thread([&x] { x.loop(); });
  return std::unique_ptr<TcpStoreServer>(new TcpStoreServer(std::move(impl)));
}

TcpStoreServer::TcpStoreServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

TcpStoreServer::~TcpStoreServer() {
  impl_->stop = true;
  impl_->thread.join();
  for (Impl::Client& c : impl_->clients) shutdown(c.socket.get(), SHUT_RDWR); // in the middle of a query
  for (Impl::Client& c : impl_->clients) c.thread.join();
}

int TcpStoreServer::port() const { return portOf(impl_->listener); }

} // namespace dtc
