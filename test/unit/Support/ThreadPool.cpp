// The worker pool: every index once, every worker once, calls one after the other.
#include "dtc/Support/ThreadPool.h"

#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <new>
#include <sched.h>
#include <thread>
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

// Whoever is awake comes; a body that waits for the others finds them all, since they are woken.
TEST(ThreadPool, EachWorkerRunsTheBodyAtMostOnce) {
  for (int workers : {1, 2, 4, 40}) {
    ThreadPool pool(workers);
    std::vector<std::atomic<int>> seen(static_cast<size_t>(pool.size()));
    for (int round = 1; round <= 50; ++round) {
      pool.runOnWorkers([](void* s, int w) { ++(*static_cast<decltype(seen)*>(s))[static_cast<size_t>(w)]; },
                        &seen);
      EXPECT_EQ(seen[0], round);
    }
    for (auto& s : seen) EXPECT_LE(s, 50);
  }
}

TEST(ThreadPool, SleepingWorkersAreWoken) {
  ThreadPool pool(4);
  for (int round = 0; round < 3; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5)); // longer than a worker spins
    std::atomic<int> here{0};
    struct Round {
      std::atomic<int>& here;
      int all;
    } r{here, pool.size()};
    pool.runOnWorkers(
        [](void* self, int) {
          auto& [count, all] = *static_cast<Round*>(self);
          for (++count; count < all;) std::this_thread::yield();
        },
        &r);
    EXPECT_EQ(here, pool.size());
  }
}

// Rounds so short that workers come while they end: none may touch the next round's body with this one's data.
TEST(ThreadPool, ShortRoundsFollowEachOther) {
  ThreadPool pool(4);
  for (int round = 0; round < 20000; ++round) {
    std::atomic<int> inside{0};
    pool.runOnWorkers([](void* self, int) { ++*static_cast<std::atomic<int>*>(self); }, &inside);
    EXPECT_GE(inside, 1);
    EXPECT_LE(inside, pool.size());
  }
}

TEST(ThreadPool, AnExceptionReachesTheCallerWhenAllWorkersAreBack) {
  ThreadPool pool(4);
  for (int worker = 0; worker < pool.size(); ++worker) {
    struct Round {
      int thrower, all;
      std::atomic<int> here{0}, back{0};
    } round{worker, pool.size()};
    auto body = [](void* self, int w) {
      auto& r = *static_cast<Round*>(self);
      for (++r.here; r.here < r.all;) std::this_thread::yield();
      ++r.back;
      if (w == r.thrower) throw std::bad_alloc();
    };
    EXPECT_THROW(pool.runOnWorkers(body, &round), std::bad_alloc);
    EXPECT_EQ(round.back, pool.size());
  }
  pool.parallelFor(10, [](int64_t) {}); // and the pool goes on
}

// taskset, mpirun and srun bind a process to some of the machine's cores.
TEST(ThreadPool, HasOneWorkerPerCoreOfTheProcess) {
  std::thread([] {
    cpu_set_t all, one;
    ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&one);
    for (int core = 0; core < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++core)
      if (CPU_ISSET(core, &all)) CPU_SET(core, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(ThreadPool().size(), 1);
  }).join();
}
