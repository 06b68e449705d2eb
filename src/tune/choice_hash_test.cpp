#include "tune/choice_hash.h"

#include <gtest/gtest.h>

#include <set>

#include "support/hash.h"

namespace toroid::tune {
namespace {

TEST(ChoiceHash, IsStableAndDiffers) {
  std::set<std::string> hashes;
  size_t count = 0;
  for (const char* text : {"matmul.f32(f32[4, 8], f32[8, 16]) -> f32[4, 16]",
                           "convolution.f32(f32[1, 4, 9], f32[4, 4, 3]) -> f32[1, 4, 7]; integers 0 1 1 0 1 0"}) {
    const Problem problem = parse_problem(text);
    for (const Choice& choice : runtime_choices().list_choices(problem, MachineModel())) {
      hashes.insert(choice_hash(problem.family, choice));
      ++count;
    }
  }
  EXPECT_EQ(hashes.size(), count);
  // Locks and caches hold it: it changes only with the version of the implementation.
  EXPECT_TRUE(hashes.contains(sha256("matmul.f32\npacked\n1\n").hex().substr(0, 16)));
}

}  // namespace
}  // namespace toroid::tune
