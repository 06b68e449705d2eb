#include "base/machine/per_thread.h"

#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace toroid {
namespace {

std::atomic<int> alive{0};

struct Counted {
  Counted() { ++alive; }
  ~Counted() { --alive; }
  int value = 0;
};

TEST(PerThread, EachThreadHasItsOwn) {
  static PerThread<int> numbers;
  numbers.get() = 1;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t, &wrong] {
      wrong += numbers.get() != 0;
      for (int i = 0; i < 1000; ++i) {
        numbers.get() = t * 1000 + i;
        wrong += numbers.get() != t * 1000 + i;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(numbers.get(), 1);
}

TEST(PerThread, ObjectsStayWhereTheyAreAndEndWithTheirThread) {
  static PerThread<Counted> first, others[100];
  alive = 0;
  std::thread([] {
    Counted& object = first.get();
    object.value = 7;
    EXPECT_EQ(alive, 1) << "at its first use, and no other";
    for (PerThread<Counted>& other : others) other.get();
    EXPECT_EQ(alive, 101);
    EXPECT_EQ(&first.get(), &object);
    EXPECT_EQ(first.get().value, 7);
  }).join();
  EXPECT_EQ(alive, 0);
}

}  // namespace
}  // namespace toroid
