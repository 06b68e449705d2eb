#include "support/split_mix.h"

#include <gtest/gtest.h>

namespace toroid {
namespace {

// The first numbers of the authors' splitmix64.c for the seed 1234567.
TEST(SplitMix, GivesThePublishedNumbers) {
  SplitMix random(1234567);
  for (const uint64_t expected : {6457827717110365317u, 3203168211198807973u, 9817491932198370423u, 4593380528125082431u}) {
    EXPECT_EQ(random.next(), expected);
  }
}

}  // namespace
}  // namespace toroid
