#include "base/file/checksum.h"

#include <cstring>

#include "base/bits.h"

namespace toroid {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "checksums in files are of little-endian words");

// Any words with mixed bits do; these are of the fraction of pi.
constexpr uint64_t kPi[] = {0x243f6a8885a308d3, 0x13198a2e03707344, 0xa4093822299f31d0, 0x082efa98ec4e6c89,
                            0x452821e638d01377, 0xbe5466cf34e90c6c, 0xc0ac29b7c97c50dd, 0x3f84d5b5b5470917};
constexpr size_t kLanes = 4;
constexpr size_t kLaneBytes = 16;
constexpr size_t kBlock = kLanes * kLaneBytes;

struct Lane {
  uint64_t low, high;

  void add(uint64_t first, uint64_t second) {
    __extension__ typedef unsigned __int128 Wide;
    const Wide product = static_cast<Wide>(low ^ first) * (high ^ second);
    low = (rotate_left(low, 23) + second) ^ static_cast<uint64_t>(product);
    high = (rotate_left(high, 41) + first) ^ static_cast<uint64_t>(product >> 64);
  }
};

void add_block(Lane (&lanes)[kLanes], const std::byte* block) {
  uint64_t words[kBlock / sizeof(uint64_t)];
  std::memcpy(words, block, kBlock);
  for (size_t i = 0; i < kLanes; ++i) lanes[i].add(words[2 * i], words[2 * i + 1]);
}

}  // namespace

Checksum checksum(Span<const std::byte> bytes) {
  Lane lanes[kLanes];
  for (size_t i = 0; i < kLanes; ++i) lanes[i] = {kPi[2 * i], kPi[2 * i + 1]};
  const std::byte* next = bytes.data();
  size_t left = bytes.size();
  for (; left >= kBlock; left -= kBlock, next += kBlock) add_block(lanes, next);
  if (left > 0) {
    std::byte padded[kBlock] = {};
    std::memcpy(padded, next, left);
    add_block(lanes, padded);
  }
  Lane result = {kPi[0] ^ bytes.size(), kPi[1]};
  for (const Lane& lane : lanes) result.add(lane.low, lane.high);
  for (int i = 0; i < 3; ++i) result.add(kPi[2], kPi[3]);  // so that the last lane's bits reach all others
  return {result.low, result.high};
}

}  // namespace toroid
