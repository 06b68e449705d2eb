#include "runtime/memory/arena.h"

#include <random>

#include <gtest/gtest.h>

#include "base/error.h"

namespace toroid {
namespace {

bool alive_together(const ArenaRequest& a, const ArenaRequest& b) { return a.first_step <= b.last_step && b.first_step <= a.last_step; }

void expect_sound(const std::vector<ArenaRequest>& requests, const ArenaPlan& plan) {
  ASSERT_EQ(plan.offsets.size(), requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(plan.offsets[i] % 64, 0);
    EXPECT_GE(plan.offsets[i], 0);
    EXPECT_LE(plan.offsets[i] + requests[i].bytes, plan.bytes);
    for (size_t j = 0; j < i; ++j) {
      if (!alive_together(requests[i], requests[j])) continue;
      const bool apart = plan.offsets[i] + requests[i].bytes <= plan.offsets[j] || plan.offsets[j] + requests[j].bytes <= plan.offsets[i];
      EXPECT_TRUE(apart || requests[i].bytes == 0 || requests[j].bytes == 0) << "requests " << i << " and " << j << " overlap";
    }
  }
  EXPECT_GE(plan.bytes, plan.lower_bound);
}

TEST(Arena, NothingTakesNoMemory) {
  const ArenaPlan plan = plan_arena({});
  EXPECT_EQ(plan.bytes, 0);
  EXPECT_EQ(plan.lower_bound, 0);
}

TEST(Arena, MemoryIsUsedAgainOnceItsOwnerIsDead) {
  const std::vector<ArenaRequest> requests = {{1024, 0, 1}, {1024, 1, 2}, {1024, 2, 3}, {512, 3, 4}};
  const ArenaPlan plan = plan_arena(requests);
  expect_sound(requests, plan);
  EXPECT_EQ(plan.bytes, 2048);
  EXPECT_EQ(plan.lower_bound, 2048);
}

TEST(Arena, TheReaderAndTheWriterOfOneStepStayApart) {
  const std::vector<ArenaRequest> requests = {{64, 0, 5}, {64, 5, 6}};
  const ArenaPlan plan = plan_arena(requests);
  EXPECT_NE(plan.offsets[0], plan.offsets[1]);
}

TEST(Arena, EmptyTensorsTakeNoMemory) {
  const std::vector<ArenaRequest> requests = {{0, 0, 9}, {100, 0, 9}, {0, 3, 4}};
  const ArenaPlan plan = plan_arena(requests);
  expect_sound(requests, plan);
  EXPECT_EQ(plan.bytes, 128);
}

TEST(Arena, NeverOverlapsWhatIsAliveTogether) {
  std::mt19937 random(7);
  int64_t bytes = 0, lower_bounds = 0;
  for (int round = 0; round < 200; ++round) {
    std::vector<ArenaRequest> requests;
    const int count = static_cast<int>(random() % 40);
    for (int i = 0; i < count; ++i) {
      const auto first = static_cast<int64_t>(random() % 30);
      requests.push_back({static_cast<int64_t>(random() % 5000), first, first + static_cast<int64_t>(random() % 8)});
    }
    const ArenaPlan plan = plan_arena(requests);
    expect_sound(requests, plan);
    bytes += plan.bytes;
    lower_bounds += plan.lower_bound;
  }
  EXPECT_LE(static_cast<double>(bytes), 1.05 * static_cast<double>(lower_bounds));
}

TEST(Arena, BytesBeyond63BitsAreRefused) {
  const int64_t most = std::numeric_limits<int64_t>::max();
  for (const std::vector<ArenaRequest>& requests :
       {std::vector<ArenaRequest>{{most, 0, 0}}, {{most / 2, 0, 1}, {most / 2, 1, 2}, {most / 2, 1, 1}}}) {
    try {
      plan_arena(requests);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.message(), "the temporaries of a call have more bytes than 63 bits count");
    }
  }
}

}  // namespace
}  // namespace toroid
