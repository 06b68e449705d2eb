#include "runtime/memory/bump_allocator.h"

#include <cstdint>
#include <cstring>
#include <map>

#include <gtest/gtest.h>

namespace toroid {
namespace {

TEST(BumpAllocator, PiecesAreAlignedAndApart) {
  BumpAllocator memory;
  std::map<const std::byte*, size_t> pieces;
  for (const size_t bytes :
       {size_t{1}, size_t{64}, size_t{1000}, size_t{7} << 20, size_t{6} << 20, size_t{8} << 20, size_t{20} << 20, size_t{100}, size_t{0}}) {
    std::byte* piece = memory.get(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(piece) % 64, 0u);
    std::memset(piece, 1, bytes);
    if (bytes > 0) pieces[piece] = bytes;
  }
  const std::byte* end = nullptr;
  for (const auto& [piece, bytes] : pieces) {
    EXPECT_GE(piece, end);
    end = piece + bytes;
  }
}

}  // namespace
}  // namespace toroid
