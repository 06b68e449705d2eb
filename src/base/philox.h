// Philox 4x32-10: random numbers as a function of a counter, so that any element of any tensor can be drawn by itself.
//
// Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). Ten rounds mix a counter of
// four 32-bit words with a key of two; a round multiplies two of the words and crosses the halves of the products over.
// Generated kernels do the same on vectors (codegen/cpp/prelude/random_prelude.cpp).
#pragma once

#include <array>
#include <cstdint>

namespace toroid {

// Four words; as the 64-bit numbers that ScalarOp::PhiloxLow and PhiloxHigh give, the first word is the lower half.
struct PhiloxBlock {
  std::array<uint32_t, 4> words;
  uint64_t low() const { return words[0] | static_cast<uint64_t>(words[1]) << 32; }
  uint64_t high() const { return words[2] | static_cast<uint64_t>(words[3]) << 32; }
};

// Words 0 and 1 of the counter are those of `counter_low`, 2 and 3 those of `counter_high`, the lower half first; so with the key.
inline PhiloxBlock philox_4x32_10(uint64_t counter_low, uint64_t counter_high, uint64_t key) {
  auto lower = [](uint64_t x) { return static_cast<uint32_t>(x); };
  auto upper = [](uint64_t x) { return static_cast<uint32_t>(x >> 32); };
  uint32_t c0 = lower(counter_low), c1 = upper(counter_low), c2 = lower(counter_high), c3 = upper(counter_high);
  uint32_t k0 = lower(key), k1 = upper(key);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c0;
    const uint64_t p1 = uint64_t{0xCD9E8D57} * c2;
    c0 = upper(p1) ^ c1 ^ k0;
    c1 = lower(p1);
    c2 = upper(p0) ^ c3 ^ k1;
    c3 = lower(p0);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return {{c0, c1, c2, c3}};
}

}  // namespace toroid
