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

// The bytes that the store answers to a query.
std::string answerTo(const TcpSocket& socket, const std::string& query, size_t bytes) {
  EXPECT_TRUE(sendAll(socket, query.data(), query.size(), after(5)));
  std::string text(bytes, '\0');
  EXPECT_TRUE(receiveAll(socket, text.data(), bytes, after(5))) << testing::PrintToString(query);
  return text;
}

// A query of PyTorch's protocol: its number, then words and texts.
std::string query(int number, std::initializer_list<std::string> parts) {
  std::string text(1, static_cast<char>(number));
  for (const std::string& part : parts) text += part;
  return text;
}
std::string text(const std::string& t) { return word(t.size()) + t; }

TEST(TcpStore, AnswersTheQueriesOfPyTorch) {
  auto server = TcpStoreServer::start(0);
  ASSERT_TRUE(server) << server.error().message;
  auto a = connectTcp("localhost", (*server)->port(), after(5)),
       b = connectTcp("localhost", (*server)->port(), after(5));
  ASSERT_TRUE(a && b);
  EXPECT_EQ(answerTo(*a, query(13, {"abcd"}), 4), "abcd"); // ping
  // compare_set: of a key that does not exist, which only an empty value creates; then of one that does.
  EXPECT_EQ(answerTo(*a, query(2, {text("k"), text("old"), text("new")}), 11), text("old"));
  EXPECT_EQ(answerTo(*a, query(7, {}), 8), word(0)); // the number of keys
  EXPECT_EQ(answerTo(*a, query(2, {text("k"), text(""), text("new")}), 11), text("new"));
  EXPECT_EQ(answerTo(*a, query(2, {text("k"), text("other"), text("x")}), 11), text("new"));
  EXPECT_EQ(answerTo(*a, query(2, {text("k"), text("new"), text("x")}), 9), text("x"));
  EXPECT_EQ(answerTo(*a, query(9, {text("k"), text("yz")}) + query(3, {text("k")}), 11),
            text("xyz")); // append, get
  EXPECT_EQ(
      answerTo(*a,
               query(11, {word(2), text("m"), text("1"), text("n"), text("22")}) + // multi_set, multi_get
                   query(10, {word(2), text("n"), text("m")}),
               19),
      text("22") + text("1"));
  EXPECT_EQ(answerTo(*a, query(5, {word(2), text("m"), text("n")}), 1), std::string(1, '\0')); // check
  EXPECT_EQ(answerTo(*a, query(5, {word(2), text("m"), text("o")}), 1), "\x01");
  EXPECT_EQ(answerTo(*a, query(8, {text("m")}) + query(8, {text("m")}), 16), word(1) + word(0)); // delete
  EXPECT_EQ(answerTo(*a, query(7, {}), 8), word(2));
  // wait: for keys that exist, for one that another client sets, and given up.
  EXPECT_EQ(answerTo(*a, query(6, {word(1), text("k")}), 1), std::string(1, '\0'));
  const std::string wait = query(6, {word(2), text("k"), text("late")});
  ASSERT_TRUE(sendAll(*a, wait.data(), wait.size(), after(5)));
  EXPECT_EQ(answerTo(*b, query(1, {text("late"), text("")}) + query(13, {"efgh"}), 4), "efgh");
  EXPECT_EQ(answerTo(*a, "", 1), std::string(1, '\0'));
  const std::string never = query(6, {word(1), text("never")});
  ASSERT_TRUE(sendAll(*a, never.data(), never.size(), after(5)));
  EXPECT_EQ(answerTo(*a, query(12, {}), 1), "\x01"); // canceled
  ASSERT_TRUE(sendAll(*b, never.data(), never.size(), after(5)));
  const auto begin = std::chrono::steady_clock::now();
  server->reset(); // while a client waits
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
}

TEST(TcpStore, RefusesOtherQueriesWithANote) {
  auto server = TcpStoreServer::start(0);
  ASSERT_TRUE(server) << server.error().message;
  testing::internal::CaptureStderr();
  for (const int number : {14, 18})
    EXPECT_TRUE(closedAfter((*server)->port(), query(number, {text("q"), text("v")})));
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("sent query 14 of PyTorch's TCPStore, which dtc does not support"), said.npos) << said;
  EXPECT_EQ(said.find("query 18"), said.npos) << said; // once
}

TEST(TcpStore, ConfusedClientsAreLeft) {
  auto server = TcpStoreServer::start(0);
  ASSERT_TRUE(server) << server.error().message;
  const int port = (*server)->port();
  const std::string set(1, 1), get(1, 3), check(1, 5), validate(1, 0), multiGet(1, 10), multiSet(1, 11);
  for (const std::string& bytes : std::vector<std::string>{
           "GET / HTTP/1.1\r\n\r\n", validate + "abcd", set + word(UINT64_MAX),
           set + word(1) + "k" + word(1 << 21), get + word(uint64_t{1} << 62), check + word(1 << 30),
           multiGet + word(UINT64_MAX), multiSet + word(uint64_t{1} << 63), std::string(1, '\xff')})
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
