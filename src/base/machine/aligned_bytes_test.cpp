#include "base/machine/aligned_bytes.h"

#include <cstdint>
#include <cstring>

#include <gtest/gtest.h>

namespace toroid {
namespace {

TEST(AlignedBytes, AreAlignedAndAsManyAsAsked) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{4095}, (size_t{4} << 20) - 1, size_t{4} << 20, (size_t{9} << 20) + 5}) {
    AlignedBytes bytes(size);
    EXPECT_GE(bytes.size(), size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes.data()) % 64, 0u);
    std::memset(bytes.data(), 1, size);
  }
}

}  // namespace
}  // namespace toroid
