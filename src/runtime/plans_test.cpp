#include "runtime/plans.h"

#include <thread>

#include <gtest/gtest.h>

namespace toroid {
namespace {

TEST(Plans, MakesEachOnce) {
  Plans plans;
  int made = 0;
  auto get = [&](std::vector<int64_t> key) {
    return *plans.get<std::string>(key, [&] { return std::make_shared<const std::string>(std::to_string(made++)); });
  };
  EXPECT_EQ(get({1, 2}), "0");
  EXPECT_EQ(get({2, 1}), "1");
  EXPECT_EQ(get({1}), "2");
  EXPECT_EQ(get({}), "3");
  EXPECT_EQ(get({1, 2}), "0");
  EXPECT_EQ(get({1, 2, 0}), "4");
  EXPECT_EQ(plans.count(), 5);
}

TEST(Plans, NoMoreThanTheMostAreKept) {
  Plans plans;
  for (int round = 0; round < 2; ++round) {
    for (int64_t i = 0; i < Plans::kMost + 10; ++i) {
      EXPECT_EQ(*plans.get<int64_t>(std::vector<int64_t>{i}, [&] { return std::make_shared<const int64_t>(i); }), i);
    }
    EXPECT_EQ(plans.count(), Plans::kMost);
  }
}

TEST(Plans, SeveralThreadsAtOnce) {
  Plans plans;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int64_t i = 0; i < 2000; ++i) {
        const int64_t key = i % 500;
        wrong += *plans.get<int64_t>(std::vector<int64_t>{key, 7}, [&] { return std::make_shared<const int64_t>(key); }) != key;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace toroid
