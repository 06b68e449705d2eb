#include "base/checked.h"

#include <gtest/gtest.h>

namespace toroid {
namespace {

constexpr int64_t kMost = INT64_MAX;

TEST(Checked, RemembersAnOverflow) {
  EXPECT_EQ((Checked(3) * 4 + 1 - 2).value(), 11);
  EXPECT_EQ((Checked(kMost) + 1).value(), std::nullopt);
  EXPECT_EQ((Checked(int64_t{1} << 62) * 4).value(), std::nullopt);  // 0 in 64 bits
  EXPECT_EQ((Checked(INT64_MIN) - 1).value(), std::nullopt);
  EXPECT_EQ((Checked(kMost) * 2 * 0).value(), std::nullopt);
  EXPECT_EQ((Checked(1) + Checked(kMost) * 2).value(), std::nullopt);
}

}  // namespace
}  // namespace toroid
