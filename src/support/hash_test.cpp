#include "support/hash.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace toroid {
namespace {

TEST(Hash, Sha256MatchesPublishedVectors) {  // FIPS 180-2, appendix B
  EXPECT_EQ(sha256("").hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc").hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256(std::string(1'000'000, 'a')).hex(), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Hash, Sha256InPiecesEqualsSha256AtOnce) {
  Sha256 hash;
  hash.update("hello, ").update("").update("world");
  EXPECT_EQ(hash.finish(), sha256("hello, world"));
}

TEST(Hash, Hash64SeparatesLengthsSeedsAndSingleBits) {
  std::set<uint64_t> seen;
  for (size_t length = 0; length <= 40; ++length) {
    const std::string zeros(length, '\0');
    EXPECT_TRUE(seen.insert(hash64(zeros)).second) << length;
    EXPECT_TRUE(seen.insert(hash64(zeros, 7)).second) << length;
    for (size_t bit = 0; bit < 8 * length; ++bit) {
      std::string flipped = zeros;
      flipped[bit / 8] = static_cast<char>(1 << bit % 8);
      EXPECT_TRUE(seen.insert(hash64(flipped)).second) << length << " " << bit;
    }
  }
}

TEST(Hash, CombineDependsOnOrder) {
  EXPECT_NE(hash_combine(1, 2), hash_combine(2, 1));
  EXPECT_NE(hash_combine(0, 0), 0u + hash_combine(0, 1));
}

}  // namespace
}  // namespace toroid
