// Operations on the bits of numbers: the part of C++20's <bit> that the run side uses, for source packages are C++17.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#ifdef __has_builtin
#if __has_builtin(__builtin_bit_cast)
#define TOROID_HAS_BIT_CAST 1
#endif
#endif

namespace toroid {

// constexpr from g++ 11 and clang++ 9 on.
template <class To, class From>
#ifdef TOROID_HAS_BIT_CAST
constexpr To bit_cast(const From& from) {
  return __builtin_bit_cast(To, from);
}
#else
inline To bit_cast(const From& from) {
  static_assert(sizeof(To) == sizeof(From) && std::is_trivially_copyable_v<To> && std::is_trivially_copyable_v<From>);
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}
#endif

constexpr uint64_t rotate_left(uint64_t x, int places) { return x << places | x >> (64 - places); }   // by 1 to 63
constexpr uint64_t rotate_right(uint64_t x, int places) { return x >> places | x << (64 - places); }  // by 1 to 63
// Of 64 bits, whatever the argument had.
constexpr int count_trailing_zeros(uint64_t x) { return x == 0 ? 64 : __builtin_ctzll(x); }
constexpr int bit_width(uint64_t x) { return x == 0 ? 0 : 64 - __builtin_clzll(x); }
constexpr bool is_power_of_two(uint64_t x) { return x != 0 && (x & (x - 1)) == 0; }

}  // namespace toroid
