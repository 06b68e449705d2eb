#include "support/process/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

namespace toroid {
namespace {

TEST(ThreadPool, FuturesCarryValuesAndExceptions) {
  ThreadPool pool(2);
  EXPECT_EQ(pool.thread_count(), 2u);
  auto value = pool.submit([] { return 42; });
  auto failure = pool.submit([]() -> int { throw std::runtime_error("no"); });
  EXPECT_EQ(value.get(), 42);
  EXPECT_THROW(failure.get(), std::runtime_error);
}

TEST(ThreadPool, ParallelForVisitsEachIndexOnce) {
  ThreadPool pool(3);
  for (size_t count : {0, 1, 2, 1000}) {
    std::vector<std::atomic<int>> visits(count);
    pool.parallel_for(count, [&](size_t i) { ++visits[i]; });
    for (const auto& visit : visits) EXPECT_EQ(visit, 1);
  }
}

TEST(ThreadPool, ParallelForRethrowsAndStopsEarly) {
  ThreadPool pool(2);
  std::atomic<int> calls = 0;
  auto body = [&](size_t i) {
    ++calls;
    if (i == 3) throw std::runtime_error("index 3");
  };
  EXPECT_THROW(pool.parallel_for(1'000'000, body), std::runtime_error);
  EXPECT_LT(calls, 1'000'000);
}

TEST(ThreadPool, NestedLoopsDoNotDeadlock) {
  ThreadPool pool(2);
  std::atomic<int> calls = 0;
  pool.parallel_for(8, [&](size_t) { pool.parallel_for(8, [&](size_t) { ++calls; }); });
  EXPECT_EQ(calls, 64);
}

TEST(ThreadPool, FinishesSubmittedWorkBeforeItDies) {
  std::atomic<int> calls = 0;
  {
    ThreadPool pool(1);
    for (int i = 0; i < 100; ++i) pool.submit([&] { ++calls; });
  }
  EXPECT_EQ(calls, 100);
}

}  // namespace
}  // namespace toroid
