// The store in which processes find each other without MPI: what clients get, and what confused ones cannot do.
#include "../../../lib/Runtime/comm/TcpStore.h"

#include <gtest/gtest.h>
#include <vector>

namespace dtc {
namespace {

TcpDeadline after(int seconds) { return std::chrono::steady_clock::now() + std::chrono::seconds(seconds); }

// Sends bytes, and says whether the store has closed the connection by the deadline.
bool closedAfter(int port, const std::string& bytes, int seconds = 5) {
  auto socket = connectTcp("localhost", port, after(seconds));
  EXPECT_TRUE(socket.ok());
  if (!socket) return false;
  (void)sendAll(*socket, bytes.data(), bytes.size(), after(seconds));
  char byte = 0;
  const auto begin = std::chrono::steady_clock::now();
  const Status got = receiveAll(*socket, &byte, 1, after(seconds));
  return !got && std::chrono::steady_clock::now() - begin < std::chrono::seconds(seconds - 1);
}

std::string word(uint64_t n) { return std::string(reinterpret_cast<const char*>(&n), sizeof n); }

TEST(TcpStore, KeysHaveValuesAndNumbers) {
  auto server = TcpStoreServer::start(0);
  ASSERT_TRUE(server) << server.error().message;
  auto a = TcpStore::connect("localhost", (*server)->port(), after(5)),
       b = TcpStore::connect("localhost", (*server)->port(), after(5));
  ASSERT_TRUE(a && b);
  const auto missing = a->get("k", after(5));
  ASSERT_TRUE(missing);
  EXPECT_FALSE(*missing);
  const std::string bytes("a\0\n\xff", 4);
  ASSERT_TRUE(b->set("k", bytes, after(5)));
  for (int i = 0; i < 100; ++i) { // set() has no answer: it may be on its way
    const auto got = a->get("k", after(5));
    ASSERT_TRUE(got);
    if (!*got) continue;
    EXPECT_EQ(**got, bytes);
    break;
  }
  EXPECT_EQ(*a->add("n", 2, after(5)), 2);
  EXPECT_EQ(*b->add("n", -5, after(5)), -3);
  EXPECT_EQ(**a->get("n", after(5)), "-3"); // a number is a text of digits, as in PyTorch
}

TEST(TcpStore, ConfusedClientsAreLeft) {
  auto server = TcpStoreServer::start(0);
  ASSERT_TRUE(server) << server.error().message;
  const int port = (*server)->port();
  const std::string set(1, 1), get(1, 3), check(1, 5), validate(1, 0);
  for (const std::string& bytes :
       std::vector<std::string>{"GET / HTTP/1.1\r\n\r\n", validate + "abcd", set + word(UINT64_MAX),
                                set + word(1) + "k" + word(1 << 21), get + word(uint64_t{1} << 62),
                                check + word(1 << 30), std::string(1, '\xff')})
    EXPECT_TRUE(closedAfter(port, bytes)) << testing::PrintToString(bytes);
  auto half = connectTcp("localhost", port, after(5)); // stays in the middle of a query
  ASSERT_TRUE(half);
  ASSERT_TRUE(sendAll(*half, (set + word(8) + "abc").data(), 12, after(5)));
  { auto gone = connectTcp("localhost", port, after(5)); }
  auto client = TcpStore::connect("localhost", port, after(5));
  ASSERT_TRUE(client);
  EXPECT_EQ(*client->add("n", 1, after(5)), 1);
  const auto begin = std::chrono::steady_clock::now();
  server->reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
}

TEST(TcpStore, AConfusedServerIsAnError) {
  auto listener = listenTcp(0);
  ASSERT_TRUE(listener);
  auto client = TcpStore::connect("localhost", portOf(*listener), after(5));
  ASSERT_TRUE(client);
  EXPECT_FALSE(client->get("k", after(1))); // it never answers
}

} // namespace
} // namespace dtc
