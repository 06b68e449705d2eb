#include "cache/shared_work.h"

#include <algorithm>
#include <atomic>
#include <latch>
#include <thread>

#include <gtest/gtest.h>

#include "base/error_for_test.h"
#include "base/file/file.h"

namespace toroid {
namespace {
using namespace std::chrono_literals;

CacheKey key_of_product(size_t product) { return KeyBuilder("test", 1).add("product", static_cast<int64_t>(product)).finish(); }

// A process with the cache of others: each has connections and leases of its own.
struct Process {
  explicit Process(const std::filesystem::path& folder) : cache(CacheOptions{.store = {.folder = folder}}) {}

  void work(size_t products, Part part, size_t workers = 1) {
    SharedWork shared{.patience = 10s};
    for (size_t i = 0; i < products; ++i) shared.keys.push_back(key_of_product(i));
    shared.find = [this](size_t i) { return cache.get(key_of_product(i)).has_value(); };
    shared.make = [this](size_t i, size_t) {
      if (making) making(i);
      ++made;
      cache.put(key_of_product(i), "product");
    };
    do_shared(cache, shared, part, workers);
  }

  Cache cache;
  std::function<void(size_t)> making;
  std::atomic<int> made = 0;
};

TEST(SharedWork, APartBeginsWithItsOwnAndTakesOthersBackwards) {
  EXPECT_EQ(order_of_part(7, {1, 3}), (std::vector<size_t>{0, 3, 6, 4, 1, 5, 2}));
  EXPECT_EQ(order_of_part(7, {3, 3}), (std::vector<size_t>{2, 5, 6, 3, 0, 4, 1}));
  EXPECT_EQ(order_of_part(3, {1, 1}), (std::vector<size_t>{0, 1, 2}));
  EXPECT_EQ(order_of_part(1, {4, 4}), (std::vector<size_t>{0}));
  EXPECT_TRUE(order_of_part(0, {2, 4}).empty());
}

TEST(SharedWork, APartIsANumberOfSeveral) {
  const Part part = parse_part("2/8");
  EXPECT_EQ(part.number, 2);
  EXPECT_EQ(part.of, 8);
  EXPECT_EQ(to_string(part), "2/8");
  for (const char* bad : {"", "3", "0/2", "3/2", "-1/2", "1/2/3", "1/", "/2", "1/99999999"}) {
    EXPECT_EQ(error_of([&] { parse_part(bad); }).message(), "'" + std::string(bad) + "' is no part of the work");
  }
}

TEST(SharedWork, IsMadeOnceByAllTogether) {
  const TempFolder folder;
  constexpr size_t kProducts = 24;
  std::vector<std::unique_ptr<Process>> processes;
  for (int i = 0; i < 3; ++i) {
    processes.push_back(std::make_unique<Process>(folder.path()));
    processes.back()->making = [](size_t) { std::this_thread::sleep_for(2ms); };
  }
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back([&, i] { processes[static_cast<size_t>(i)]->work(kProducts, {i + 1, 3}, 2); });
  threads.clear();
  int made = 0;
  for (const auto& process : processes) made += process->made;
  EXPECT_EQ(made, static_cast<int>(kProducts));
}

TEST(SharedWork, NobodyWaitsForAPartThatDoesNotRun) {
  const TempFolder folder;
  Process alone(folder.path());
  alone.work(9, {2, 3});
  EXPECT_EQ(alone.made, 9);
  Process late(folder.path());
  late.work(9, {1, 3});
  EXPECT_EQ(late.made, 0);
}

TEST(SharedWork, WhatAnotherIsMakingIsLeftForLastAndWaitedFor) {
  const TempFolder folder;
  Process owner(folder.path()), other(folder.path());
  std::latch began(1), others_are_made(1);
  owner.making = [&](size_t product) {
    if (product != 0) return;
    began.count_down();
    others_are_made.wait();
  };
  std::jthread thread([&] { owner.work(1, {1, 1}); });
  began.wait();
  other.making = [&](size_t product) {
    EXPECT_NE(product, 0u);
    if (other.made == 3) others_are_made.count_down();  // this is the last of them
  };
  other.work(5, {1, 1});
  EXPECT_EQ(other.made, 4);
}

TEST(SharedWork, AfterAFailureNothingMoreIsBegun) {
  const TempFolder folder;
  Process process(folder.path());
  process.making = [](size_t product) {
    if (product == 2) throw Error(ErrorKind::ToolFailed, "the compiler failed");
  };
  EXPECT_EQ(error_of([&] { process.work(9, {1, 1}); }).message(), "the compiler failed");
  EXPECT_EQ(process.made, 2);
}

}  // namespace
}  // namespace toroid
