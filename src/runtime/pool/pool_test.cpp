#include "runtime/pool/pool.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/machine/processors.h"

namespace toroid {
namespace {

TEST(RuntimePool, CoversEveryIndexExactlyOnce) {
  for (int threads : {1, 2, 5}) {
    RuntimePool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (int64_t n : {0, 1, 2, 3, 17, 100, 1001}) {
      for (int64_t grain : {0, 1, 7, 100, 5000}) {
        std::vector<std::atomic<int>> seen(static_cast<size_t>(n));
        pool.parallel_for(n, grain, [&](int64_t begin, int64_t end) {
          EXPECT_LT(begin, end);
          for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
        });
        for (const auto& count : seen) ASSERT_EQ(count, 1) << n << " in grains of " << grain << " on " << threads << " threads";
      }
    }
  }
}

TEST(RuntimePool, ItsThreadsStayOnTheGivenProcessors) {
  const std::vector<int> all = allowed_processors();
  ASSERT_FALSE(all.empty());
  RuntimePool pool(3, {all[0], all.back()});
  std::mutex mutex;
  std::map<std::thread::id, std::vector<int>> seen;
  std::atomic<int> inside{0};
  pool.parallel_for(3, 1, [&](int64_t, int64_t) {
    ++inside;
    for (int i = 0; i < 10'000 && inside < 3; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // each waits for the others
    const std::lock_guard lock(mutex);
    seen[std::this_thread::get_id()] = allowed_processors();
  });
  std::multiset<std::vector<int>> workers;
  for (const auto& [thread, processors] : seen) {
    if (thread != std::this_thread::get_id()) workers.insert(processors);
  }
  EXPECT_EQ(workers, (std::multiset<std::vector<int>>{{all[0]}, {all.back()}}));
  EXPECT_EQ(seen[std::this_thread::get_id()], all) << "the caller's thread stays where it is";
}

TEST(RuntimePool, ThreadsAreKnownWithoutStartingThem) {
  for (const int threads : {0, 1, 3}) EXPECT_EQ(RuntimePool::threads_for(threads), RuntimePool(threads).threads());
  EXPECT_EQ(RuntimePool::threads_for(100'000), 100'000);
}

// The child's pool has threads of its own, though its parent's were asleep, or at work for another thread.
TEST(RuntimePool, StartsAnewInAChildOfFork) {
  RuntimePool pool(3);
  const auto sum = [&] {
    std::atomic<int64_t> result{0};
    std::atomic<int> inside{0}, most{0};
    pool.parallel_for(3, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) result += i;
      ++inside;
      for (int i = 0; i < 10'000 && inside < 3; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));  // each waits for the others
      most = std::max<int>(most, inside);
    });
    return most == 3 ? result.load() : -1;
  };
  EXPECT_EQ(sum(), 3);
  for (const bool is_at_work : {false, true}) {
    std::atomic<bool> goes_on{is_at_work}, has_begun{!is_at_work};
    std::thread other;
    if (is_at_work)
      other = std::thread([&] {
        pool.parallel_for(3, 1, [&](int64_t, int64_t) {
          has_begun = true;
          while (goes_on) std::this_thread::yield();
        });
      });
    while (!has_begun) std::this_thread::yield();
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(30);
      ::_exit(pool.threads() == 3 && sum() == 3 && sum() == 3 ? 0 : 1);
    }
    goes_on = false;
    if (other.joinable()) other.join();
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << "at work: " << is_at_work;
  }
  EXPECT_EQ(sum(), 3);
}

// Many threads of the child find the pool without workers at once: one starts them, the others see the same number of threads meanwhile.
TEST(RuntimePool, StartsAnewForManyThreadsOfAChild) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer ends a child that starts threads of its own";
#endif
  RuntimePool pool(3);
  for (int round = 0; round < 5; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(30);
      std::atomic<int64_t> sum{0};
      std::atomic<int> wrong{0};
      std::vector<std::thread> callers;
      for (int i = 0; i < 8; ++i) {
        callers.emplace_back([&] {
          for (int call = 0; call < 20; ++call) {
            if (pool.threads() != 3) ++wrong;
            pool.parallel_for(100, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
          }
        });
      }
      for (std::thread& caller : callers) caller.join();
      ::_exit(sum == 8 * 20 * 100 && wrong == 0 ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << "round " << round;
  }
}

TEST(RuntimePool, PiecesAreAtLeastAGrainLong) {
  RuntimePool pool(3);
  std::atomic<int> pieces{0};
  pool.parallel_for(1000, 300, [&](int64_t begin, int64_t end) {
    EXPECT_TRUE(end - begin >= 300 || end == 1000);
    ++pieces;
  });
  EXPECT_LE(pieces, 4);
}

TEST(RuntimePool, ACallInsideABodyRuns) {
  RuntimePool pool(3);
  std::atomic<int64_t> sum{0};
  pool.parallel_for(20, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      pool.parallel_for(10, 1, [&](int64_t from, int64_t to) { sum += to - from; });
    }
  });
  EXPECT_EQ(sum, 200);
}

TEST(RuntimePool, ThreadsFromInsideABodyAreOne) {
  RuntimePool pool(2);
  EXPECT_EQ(pool.threads_from_here(), pool.threads());
  std::atomic<int> most{0};
  pool.parallel_for(8, 1, [&](int64_t, int64_t) { most = std::max(most.load(), pool.threads_from_here()); });
  EXPECT_EQ(most, 1);
  EXPECT_EQ(pool.threads_from_here(), pool.threads());
}

TEST(RuntimePool, ABodysExceptionReachesTheCallerAndTheNextCallIsWhole) {
  for (const int threads : {1, 3}) {
    RuntimePool pool(threads);
    for (int round = 0; round < 200; ++round) {
      std::atomic<int> running{0};
      EXPECT_THROW(pool.parallel_for(50, 1,
                                     [&](int64_t begin, int64_t end) {
                                       ++running;
                                       const bool is_bad = begin <= round % 50 && round % 50 < end;
                                       --running;
                                       if (is_bad) throw std::bad_alloc();
                                     }),
                   std::bad_alloc);
      EXPECT_EQ(running, 0) << "a body still runs";
      std::atomic<int64_t> sum{0};
      pool.parallel_for(50, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) sum += i;
      });
      ASSERT_EQ(sum, 1225);
    }
  }
}

// What one call writes, without atomics, the next one reads: calls are ordered.
TEST(RuntimePool, ManyShortCallsSeeEachOthersResults) {
  RuntimePool pool(3);
  std::vector<int> values(64, 0);
  for (int call = 0; call < 2000; ++call) {
    pool.parallel_for(64, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) ++values[static_cast<size_t>(i)];
    });
  }
  for (int value : values) EXPECT_EQ(value, 2000);
}

// Each of two pieces waits until the other has begun, or for ten seconds.
TEST(RuntimePool, WorkersThatSleepAreWoken) {
  RuntimePool pool(2);
  for (const int idle_ms : {0, 1, 100}) {
    std::this_thread::sleep_for(std::chrono::milliseconds(idle_ms));
    std::atomic<int> begun{0};
    std::atomic<bool> in_time{true};
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    pool.parallel_for(2, 1, [&](int64_t, int64_t) {
      ++begun;
      while (begun < 2 && in_time) in_time = std::chrono::steady_clock::now() < limit;
    });
    EXPECT_TRUE(in_time) << "after " << idle_ms << " ms";
  }
}

// A thread that is held up leaves the rest of its pieces to the others.
TEST(RuntimePool, WhoIsDoneTakesTheOthersPieces) {
  RuntimePool pool(2);
  std::atomic<int> done{0};
  std::atomic<bool> in_time{true};
  pool.parallel_for(8, 1, [&](int64_t begin, int64_t) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    if (begin == 0) {
      while (done < 7 && in_time) in_time = std::chrono::steady_clock::now() < limit;
    }
    ++done;
  });
  EXPECT_TRUE(in_time);
}

// Starting two pieces and waiting for them, without what they do. For docs/runtime.md.
TEST(RuntimePool, DISABLED_WhatACallCosts) {
  constexpr int kCalls = 20'000;
  constexpr std::chrono::nanoseconds kWork{500};
  RuntimePool pool(2);
  double best_ns = 1e9;
  for (int round = 0; round < 9; ++round) {
    const auto began = std::chrono::steady_clock::now();
    for (int call = 0; call < kCalls; ++call) {
      pool.parallel_for(2, 1, [&](int64_t, int64_t) {
        const auto end = std::chrono::steady_clock::now() + kWork;
        while (std::chrono::steady_clock::now() < end) {
        }
      });
    }
    const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - began;
    best_ns = std::min(best_ns, taken.count() / kCalls - static_cast<double>(kWork.count()));
  }
  std::printf("%.0f ns a call beside its pieces\n", best_ns);
}

TEST(RuntimePool, SeveralCallersShareIt) {
  RuntimePool pool(2);
  std::atomic<int64_t> sum{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 3; ++t) {
    callers.emplace_back([&] {
      for (int call = 0; call < 200; ++call) pool.parallel_for(50, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sum, 3 * 200 * 50);
}

TEST(RuntimePool, IsOneForAllThatAskForAsManyThreads) {
  const std::shared_ptr<RuntimePool> one = RuntimePool::shared(2), same = RuntimePool::shared(2), other = RuntimePool::shared(3);
  EXPECT_EQ(one, same);
  EXPECT_NE(one, other);
  EXPECT_EQ(other->threads(), 3);
  EXPECT_EQ(RuntimePool::shared(0)->threads(), RuntimePool::threads_for(0));
}

// The host's parallel_for, in its own order; a call inside a body runs there.
TEST(RuntimePool, RunsOnThreadsOfTheHost) {
  struct Host {
    int64_t calls = 0, tasks = 0;
  } host;
  RuntimePool pool(HostThreads{&host, 3, [](void* user, int64_t count, void (*task)(void*, int64_t), void* argument) {
                                 ++static_cast<Host*>(user)->calls;
                                 static_cast<Host*>(user)->tasks += count;
                                 for (int64_t i = count; i-- > 0;) task(argument, i);
                               }});
  EXPECT_EQ(pool.threads(), 3);
  std::vector<int> visits(1000);
  pool.parallel_for(1000, 10, [&](int64_t begin, int64_t end) {
    pool.parallel_for(end - begin, 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) ++visits[static_cast<size_t>(begin + i)];
    });
  });
  EXPECT_EQ(visits, std::vector<int>(1000, 1));
  EXPECT_EQ(host.calls, 1);
  EXPECT_GE(host.tasks, 3);
  EXPECT_THROW(pool.parallel_for(1000, 10, [](int64_t, int64_t) { throw Error(ErrorKind::InvalidInput, "no"); }), Error);
  EXPECT_EQ(pool.threads_from_here(), 3);
}

// A host that leaves tasks out is told so: what they were to compute is missing.
TEST(RuntimePool, RefusesAHostThatLeavesTasksOut) {
  RuntimePool pool(HostThreads{nullptr, 2, [](void*, int64_t, void (*task)(void*, int64_t), void* argument) { task(argument, 0); }});
  EXPECT_THROW(pool.parallel_for(100, 1, [](int64_t, int64_t) {}), Error);
}

}  // namespace
}  // namespace toroid
