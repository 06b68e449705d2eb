#include "base/file/checksum.h"

#include <gtest/gtest.h>

#include <bit>
#include <set>
#include <string>

namespace toroid {
namespace {

Checksum of(const std::string& text) { return checksum(as_bytes(Span(text))); }

std::string bytes_of_length(size_t length) {
  std::string bytes(length, '\0');
  for (size_t i = 0; i < length; ++i) bytes[i] = static_cast<char>(i * i * 7 + i / 3);
  return bytes;
}

TEST(Checksum, EveryFlippedBitAndEveryLostByteShows) {
  for (const size_t length : {0, 1, 15, 16, 17, 63, 64, 65, 128, 200, 1000}) {
    for (const std::string& good : {bytes_of_length(length), std::string(length, '\0')}) {
      std::set<std::pair<uint64_t, uint64_t>> seen;
      auto add = [&](const std::string& bytes) {
        const Checksum sum = of(bytes);
        EXPECT_TRUE(seen.insert({sum.low, sum.high}).second) << length;
      };
      add(good);
      for (size_t bit = 0; bit < 8 * length; ++bit) {
        std::string bad = good;
        bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
        add(bad);
      }
      for (size_t end = 0; end < length; ++end) add(good.substr(0, end));
      add(good + '\0');
    }
  }
}

TEST(Checksum, SwappedPartsShow) {
  const std::string a = bytes_of_length(64), b(64, 'b'), c(16, 'c'), d(16, 'd');
  EXPECT_NE(of(a + b), of(b + a));
  EXPECT_NE(of(c + d + c + c), of(d + c + c + c));
  EXPECT_NE(of(std::string(64, '\0')), of(std::string(128, '\0')));
}

// A flipped bit changes about half of all others, wherever it is.
TEST(Checksum, EachBitReachesAllOthers) {
  const std::string good = bytes_of_length(150);
  const Checksum before = of(good);
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    const Checksum after = of(bad);
    const int changed = std::popcount(before.low ^ after.low) + std::popcount(before.high ^ after.high);
    EXPECT_GT(changed, 30) << bit;
    EXPECT_LT(changed, 98) << bit;
  }
}

// Files of today must be read tomorrow.
TEST(Checksum, ValuesNeverChange) {
  const Checksum empty = of(""), text = of("toroid"), longer = of(bytes_of_length(1000));
  EXPECT_EQ(std::pair(empty.low, empty.high), std::pair(uint64_t{12849373853027160445u}, uint64_t{12586679342895602954u}));
  EXPECT_EQ(std::pair(text.low, text.high), std::pair(uint64_t{14445338782257329616u}, uint64_t{4037473965139279139u}));
  EXPECT_EQ(std::pair(longer.low, longer.high), std::pair(uint64_t{8869118169465670749u}, uint64_t{17269708364794511385u}));
}

}  // namespace
}  // namespace toroid
