#include "support/text/byte_size.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace toroid {
namespace {

TEST(ByteSize, TakesAUnit) {
  EXPECT_EQ(parse_byte_size("123"), 123u);
  EXPECT_EQ(parse_byte_size("64K"), 65536u);
  EXPECT_EQ(parse_byte_size("8G"), uint64_t{8} << 30);
  for (const char* bad : {"", "G", "-1", "4GB", "4X", "4_", "1.5G", " 4", "99999999999T"}) {
    EXPECT_THROW(parse_byte_size(bad), Error) << bad;
  }
}

TEST(ByteSize, IsShownWithThreeDigits) {
  EXPECT_EQ(byte_size_text(999), "999 B");
  EXPECT_EQ(byte_size_text(1500), "1.50 kB");
  EXPECT_EQ(byte_size_text(4'294'967'296), "4.29 GB");
  EXPECT_EQ(byte_size_text(123'456'789'000'000), "123 TB");
}

}  // namespace
}  // namespace toroid
