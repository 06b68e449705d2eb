#include "runtime/pool/pool.h"

#include <gtest/gtest.h>

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

TEST(RuntimePool, ThreadsAreKnownWithoutStartingThem) {
  for (const int threads : {0, 1, 3}) EXPECT_EQ(RuntimePool::threads_for(threads), RuntimePool(threads).threads());
  EXPECT_EQ(RuntimePool::threads_for(100'000), 100'000);
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

}  // namespace
}  // namespace toroid
