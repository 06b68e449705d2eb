#include "codegen/cpp/prelude/prelude.h"

namespace toroid::codegen {

// Words live in the lower halves of 64-bit lanes, where the products of the next round find them; what the upper halves
// hold does not matter until the end.
const std::string_view kRandomPrelude = R"prelude(
// ---- random bits: Philox 4x32-10 (Salmon et al., 2011) ----
// The lower half of each lane times `factor`. GCC does not see that one instruction does it.
template <int N> INLINE vec<uint64_t, N> product_of_lower(vec<uint64_t, N> a, uint64_t factor) {
#if !defined(__clang__) && defined(__AVX512F__)
  if constexpr (N == 8) {
    return (vec<uint64_t, 8>)__builtin_ia32_pmuludq512_mask((vec<int, 16>)a, (vec<int, 16>)splat<uint64_t, 8>(factor),
                                                            vec<long long, 8>{}, 0xff);
  }
#endif
#if !defined(__clang__) && defined(__AVX2__)
  if constexpr (N == 4) return (vec<uint64_t, 4>)__builtin_ia32_pmuludq256((vec<int, 8>)a, (vec<int, 8>)splat<uint64_t, 4>(factor));
#endif
#if !defined(__clang__) && defined(__SSE2__)
  if constexpr (N == 2) return (vec<uint64_t, 2>)__builtin_ia32_pmuludq128((vec<int, 4>)a, (vec<int, 4>)splat<uint64_t, 2>(factor));
#endif
  return (a & 0xffffffffu) * factor;
}
// U: a uint64_t or a vector of them. Gives words 0 and 1, or 2 and 3.
template <bool High, class U, class Multiply> INLINE U philox(U low, U key, U high, Multiply multiply) {
  U c0 = low, c1 = low >> 32, c2 = high, c3 = high >> 32, k0 = key, k1 = key >> 32;
  for (int round = 0; round < 10; ++round) {
    const U p0 = multiply(c0, (uint64_t)0xD2511F53u);
    const U p1 = multiply(c2, (uint64_t)0xCD9E8D57u);
    c0 = (p1 >> 32) ^ c1 ^ k0;
    c1 = p1;
    c2 = (p0 >> 32) ^ c3 ^ k1;
    c3 = p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  if constexpr (High) return (c2 & 0xffffffffu) | c3 << 32;
  else return (c0 & 0xffffffffu) | c1 << 32;
}
// As many lanes at once as a register holds.
template <bool High, class V> INLINE V philox_v(V low, V key, V high) {
  constexpr int W = lanes_of<V>;
  constexpr int N = W < kLanes8 ? W : kLanes8;
  typedef vec<uint64_t, N> Part64;
  V bits;
  for (int l = 0; l < W; l += N) {
    Part64 part[3];
    __builtin_memcpy(&part[0], (const char*)&low + l * 8, sizeof(Part64));
    __builtin_memcpy(&part[1], (const char*)&key + l * 8, sizeof(Part64));
    __builtin_memcpy(&part[2], (const char*)&high + l * 8, sizeof(Part64));
    const Part64 result = philox<High>(part[0], part[1], part[2], [](Part64 a, uint64_t f) INLINE_BODY { return product_of_lower<N>(a, f); });
    __builtin_memcpy((char*)&bits + l * 8, &result, sizeof(Part64));
  }
  return bits;
}
template <class V> INLINE V op_philox_low_v(V low, V key, V high) { return philox_v<false>(low, key, high); }
template <class V> INLINE V op_philox_high_v(V low, V key, V high) { return philox_v<true>(low, key, high); }
template <bool High> INLINE int64_t philox1(int64_t low, int64_t key, int64_t high) {
  return (int64_t)philox<High>((uint64_t)low, (uint64_t)key, (uint64_t)high, [](uint64_t a, uint64_t f) { return (uint32_t)a * f; });
}
template <class T> INLINE T op_philox_low(T low, T key, T high) { return philox1<false>(low, key, high); }
template <class T> INLINE T op_philox_high(T low, T key, T high) { return philox1<true>(low, key, high); }
)prelude";

}  // namespace toroid::codegen
