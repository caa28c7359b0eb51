// The worker pool: every index once, every worker once, calls one after the other.
#include "dtc/Support/ThreadPool.h"

#include <atomic>
#include <gtest/gtest.h>
#include <new>
#include <vector>

using namespace dtc;

TEST(ThreadPool, EachIndexIsDoneOnce) {
  ThreadPool pool(3);
  for (int64_t n : {0, 1, 2, 1000}) {
    std::vector<std::atomic<int>> done(static_cast<size_t>(n));
    pool.parallelFor(n, [&](int64_t i) { ++done[static_cast<size_t>(i)]; });
    for (auto& d : done) EXPECT_EQ(d, 1);
  }
}

TEST(ThreadPool, EachWorkerRunsTheBodyOnce) {
  ThreadPool pool(4);
  std::vector<std::atomic<int>> seen(static_cast<size_t>(pool.size()));
  for (int round = 0; round < 50; ++round)
    pool.runOnAll([](void* s, int w) { ++(*static_cast<decltype(seen)*>(s))[static_cast<size_t>(w)]; },
                  &seen);
  for (auto& s : seen) EXPECT_EQ(s, 50);
}

TEST(ThreadPool, AnExceptionReachesTheCallerWhenAllWorkersAreBack) {
  ThreadPool pool(4);
  for (int worker = 0; worker < pool.size(); ++worker) {
    struct Round {
      int thrower;
      std::atomic<int> back{0};
    } round{worker};
    auto body = [](void* self, int w) {
      auto& r = *static_cast<Round*>(self);
      ++r.back;
      if (w == r.thrower) throw std::bad_alloc();
    };
    EXPECT_THROW(pool.runOnAll(body, &round), std::bad_alloc);
    EXPECT_EQ(round.back, pool.size());
  }
  pool.parallelFor(10, [](int64_t) {}); // and the pool goes on
}
