#include "codegen/cpp/prelude.h"

namespace toroid::codegen {

const std::string_view kPrelude = R"prelude(
typedef __INT8_TYPE__ int8_t;
typedef __INT16_TYPE__ int16_t;
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;
enum bf16 : uint16_t {};  // stored only; computed with as float
enum f16 : uint16_t {};
#define INLINE static inline __attribute__((always_inline))
#define INLINE_BODY __attribute__((always_inline))

// ---- lanes ----
#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif
constexpr int kLanes4 = kVectorBytes / 4;  // of 4-byte elements
constexpr int kLanes8 = kVectorBytes / 8;

template <class T, int W> struct VecOf { typedef T type __attribute__((vector_size(sizeof(T) * W))); };
template <class T, int W> using vec = typename VecOf<T, W>::type;
template <int W> using mask = vec<int32_t, W>;  // 0 or -1 a lane
template <int W> struct Full { static constexpr int count = W; };
template <int W> struct Part { int64_t count; };

template <class A, class B> struct Same { static constexpr bool value = false; };
template <class A> struct Same<A, A> { static constexpr bool value = true; };
template <int Bytes> struct Signed { typedef int64_t type; };
template <> struct Signed<4> { typedef int32_t type; };
template <> struct Signed<2> { typedef int16_t type; };
template <> struct Signed<1> { typedef int8_t type; };
template <class T> struct Plain { typedef T type; };
template <class T> struct Plain<T&> { typedef T type; };
template <class T> struct Plain<T&&> { typedef T type; };
template <class V> using elem = typename Plain<decltype(V{}[0])>::type;
template <class V> constexpr int lanes_of = sizeof(V) / sizeof(elem<V>);
template <class V> constexpr bool is_f32 = Same<elem<V>, float>::value;
template <class V> constexpr bool is_float = is_f32<V> || Same<elem<V>, double>::value;

template <class T, int W> INLINE vec<T, W> splat(T x) { return x - vec<T, W>{}; }
template <int W> INLINE mask<W> splat_mask(bool x) { return mask<W>{} - (x ? 1 : 0); }
template <class T, int W> INLINE vec<T, W> ramp() {
  vec<T, W> v;
  for (int l = 0; l < W; ++l) v[l] = (T)l;
  return v;
}
template <class To, class V> INLINE vec<To, lanes_of<V>> convert(V x) {
  return __builtin_convertvector(x, vec<To, lanes_of<V>>);
}
template <int W> INLINE mask<W> active(Full<W>) { return ~mask<W>{}; }
template <int W> INLINE mask<W> active(Part<W> lanes) { return ramp<int32_t, W>() < (int32_t)lanes.count; }
// A mask as wide as the elements it selects.
template <class V, int W> INLINE auto widen(vec<int32_t, W> m) {
  if constexpr (sizeof(elem<V>) == 8) return __builtin_convertvector(m, vec<int64_t, W>);
  else if constexpr (sizeof(elem<V>) == 4) return m;
  else if constexpr (sizeof(elem<V>) == 2) return __builtin_convertvector(m, vec<int16_t, W>);
  else return __builtin_convertvector(m, vec<int8_t, W>);
}
template <class V> INLINE V select(mask<lanes_of<V>> m, V a, V b) { return widen<V, lanes_of<V>>(m) ? a : b; }
template <class M> INLINE bool any_lane(M m) {
#if defined(__AVX512DQ__)
  if constexpr (Same<M, vec<int32_t, 16>>::value) return __builtin_ia32_cvtd2mask512((vec<int, 16>)m) != 0;
  if constexpr (Same<M, vec<int64_t, 8>>::value) return __builtin_ia32_cvtq2mask512((vec<long long, 8>)m) != 0;
#endif
  elem<M> any = 0;
  for (int l = 0; l < lanes_of<M>; ++l) any |= m[l];
  return any != 0;
}
template <class M> INLINE bool all_lanes(M m) { return !any_lane(~m); }
template <class M> INLINE mask<lanes_of<M>> to_mask(M comparison) {  // of any width
  if constexpr (sizeof(elem<M>) == 4) return (mask<lanes_of<M>>)comparison;
  else return __builtin_convertvector(comparison, mask<lanes_of<M>>);
}

// ---- 16-bit floats ----
INLINE float from_bits(uint32_t bits) { float x; __builtin_memcpy(&x, &bits, 4); return x; }
INLINE uint32_t to_bits(float x) { uint32_t bits; __builtin_memcpy(&bits, &x, 4); return bits; }
INLINE float widen16(bf16 x) { return from_bits((uint32_t)x << 16); }
#if defined(__FLT16_MAX__)
INLINE float widen16(f16 x) { _Float16 h; uint16_t b = x; __builtin_memcpy(&h, &b, 2); return (float)h; }
INLINE void narrow16(float x, f16* p) { _Float16 h = (_Float16)x; __builtin_memcpy(p, &h, 2); }
#else
// Scaling by a power of two moves the exponent into place, denormals included; the addition of a magic number rounds.
INLINE float widen16(f16 x) {
  const uint32_t magnitude = ((uint32_t)x & 0x7fff) << 13;
  const float scaled = from_bits(magnitude) * 0x1p112f;
  const uint32_t bits = magnitude >= 0x7c00u << 13 ? magnitude | 0x7f800000u : to_bits(scaled);
  return from_bits(bits | ((uint32_t)x & 0x8000) << 16);
}
INLINE void narrow16(float x, f16* p) {
  const uint32_t sign = (to_bits(x) >> 16) & 0x8000;
  const float a = from_bits(to_bits(x) & 0x7fffffff);
  uint32_t bits;
  if (x != x) bits = 0x7e00;
  else if (a >= 65520.0f) bits = 0x7c00;
  else if (a < 0x1p-14f) bits = to_bits(a + 0.5f) - to_bits(0.5f);
  else { bits = to_bits(a); bits = (bits + 0xfff + ((bits >> 13) & 1) - (112u << 23)) >> 13; }
  *p = (f16)(bits | sign);
}
#endif
INLINE void narrow16(float x, bf16* p) {
  const uint32_t bits = to_bits(x);
  const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  *p = (bf16)(x != x ? 0x7fc0 : rounded);
}
template <class H> INLINE uint16_t bits16(float x) { H h; narrow16(x, &h); return (uint16_t)h; }
template <int W> INLINE vec<float, W> widen16(vec<uint16_t, W> bits, const bf16*) {
  return (vec<float, W>)(__builtin_convertvector(bits, vec<uint32_t, W>) << 16);
}
template <int W> INLINE vec<float, W> widen16(vec<uint16_t, W> bits, const f16*) {
#if !defined(__clang__) && defined(__AVX512F__)  // GCC converts _Float16 a lane at a time
  if constexpr (W == 16) return __builtin_ia32_vcvtph2ps512_mask((vec<short, 16>)bits, vec<float, 16>{}, (uint16_t)-1, 4);
#endif
#if !defined(__clang__) && defined(__F16C__)
  if constexpr (W == 8) return __builtin_ia32_vcvtph2ps256((vec<short, 8>)bits);
#endif
#if defined(__FLT16_MAX__)
  return __builtin_convertvector((vec<_Float16, W>)bits, vec<float, W>);
#else
  vec<float, W> v;
  for (int l = 0; l < W; ++l) v[l] = widen16((f16)bits[l]);
  return v;
#endif
}
template <int W> INLINE vec<uint16_t, W> narrow16(vec<float, W> x, bf16*) {
  const auto bits = (vec<uint32_t, W>)x;
  auto rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  rounded = (vec<int32_t, W>)(x != x) ? splat<uint32_t, W>(0x7fc0u) : rounded;
  return __builtin_convertvector(rounded, vec<uint16_t, W>);
}
template <int W> INLINE vec<uint16_t, W> narrow16(vec<float, W> x, f16*) {
#if !defined(__clang__) && defined(__AVX512F__)
  if constexpr (W == 16) return (vec<uint16_t, 16>)__builtin_ia32_vcvtps2ph512_mask(x, 0, vec<short, 16>{}, (uint16_t)-1);
#endif
#if !defined(__clang__) && defined(__F16C__)
  if constexpr (W == 8) return (vec<uint16_t, 8>)__builtin_ia32_vcvtps2ph256(x, 0);
#endif
#if defined(__FLT16_MAX__)
  return (vec<uint16_t, W>)__builtin_convertvector(x, vec<_Float16, W>);
#else
  vec<uint16_t, W> v;
  for (int l = 0; l < W; ++l) { f16 h; narrow16(x[l], &h); v[l] = h; }
  return v;
#endif
}

// ---- memory: scalars ----
template <class T> INLINE T load1(const T* p) { return *p; }
INLINE float load1(const bf16* p) { return widen16(*p); }
INLINE float load1(const f16* p) { return widen16(*p); }
INLINE bool load1(const bool* p) { return *(const uint8_t*)p != 0; }
template <class T, class U> INLINE void store1(T* p, U x) { *p = (T)x; }
INLINE void store1(bf16* p, float x) { narrow16(x, p); }
INLINE void store1(f16* p, float x) { narrow16(x, p); }

// ---- memory: W elements in a row ----
template <class T, int W> INLINE vec<T, W> load_raw(Full<W>, const T* p) {
  vec<T, W> v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
template <class T, int W> INLINE vec<T, W> load_raw(Part<W> lanes, const T* p) {
  vec<T, W> v{};
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4 && W == 16) {
    return (vec<T, W>)__builtin_ia32_loadups512_mask((const float*)p, vec<float, 16>{}, (uint16_t)((1u << lanes.count) - 1));
  }
#endif
  __builtin_memcpy(&v, p, lanes.count * sizeof(T));
  return v;
}
template <class T, int W> INLINE void store_raw(Full<W>, T* p, vec<T, W> v) { __builtin_memcpy(p, &v, sizeof v); }
template <class T, int W> INLINE void store_raw(Part<W> lanes, T* p, vec<T, W> v) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4 && W == 16) {
    __builtin_ia32_storeups512_mask((float*)p, (vec<float, 16>)v, (uint16_t)((1u << lanes.count) - 1));
    return;
  }
#endif
  __builtin_memcpy(p, &v, lanes.count * sizeof(T));
}
template <class L> constexpr int width_of = 0;
template <int W> constexpr int width_of<Full<W>> = W;
template <int W> constexpr int width_of<Part<W>> = W;

template <class L, class T> INLINE auto load(L lanes, const T* p) {
  constexpr int W = width_of<L>;
  if constexpr (Same<T, bf16>::value || Same<T, f16>::value) return widen16<W>(load_raw<uint16_t>(lanes, (const uint16_t*)p), p);
  else if constexpr (Same<T, bool>::value) return to_mask(load_raw<int8_t>(lanes, (const int8_t*)p) != 0);
  else return load_raw<T>(lanes, p);
}
template <class L, class T, class V> INLINE void store(L lanes, T* p, V v) {
  constexpr int W = width_of<L>;
  if constexpr (Same<T, bf16>::value || Same<T, f16>::value) store_raw<uint16_t, W>(lanes, (uint16_t*)p, narrow16<W>(v, p));
  else if constexpr (Same<T, bool>::value) store_raw<int8_t, W>(lanes, (int8_t*)p, __builtin_convertvector(v & 1, vec<int8_t, W>));
  else store_raw<T, W>(lanes, p, v);
}
// One element a lane, wherever at(lane) points; lanes outside of `m` are not read.
template <class L, class F> INLINE auto gather(L lanes, F at) {
  constexpr int W = width_of<L>;
  typedef typename Plain<decltype(load1(at(0)))>::type T;
  if constexpr (Same<T, bool>::value) {
    mask<W> v{};
    for (int l = 0; l < lanes.count; ++l) v[l] = load1(at(l)) ? -1 : 0;
    return v;
  } else {
    vec<T, W> v{};
    for (int l = 0; l < lanes.count; ++l) v[l] = load1(at(l));
    return v;
  }
}
template <class L, class F> INLINE auto gather(L lanes, mask<width_of<L>> m, F at) {
  constexpr int W = width_of<L>;
  typedef typename Plain<decltype(load1(at(0)))>::type T;
  if constexpr (Same<T, bool>::value) {
    mask<W> v{};
    for (int l = 0; l < lanes.count; ++l) if (m[l]) v[l] = load1(at(l)) ? -1 : 0;
    return v;
  } else {
    vec<T, W> v{};
    for (int l = 0; l < lanes.count; ++l) if (m[l]) v[l] = load1(at(l));
    return v;
  }
}
// Lanes 0 to `last`.
template <int W> INLINE mask<W> lanes_to(int64_t last) {
  return ramp<int32_t, W>() <= (int32_t)(last < 0 ? -1 : last < W ? last : W);
}
template <int W> INLINE mask<W> lane_at(int64_t lane) { return ramp<int32_t, W>() == (int32_t)(lane < 0 || lane >= W ? -1 : lane); }
// The element of lane 0 and every second one after it.
template <class L, class T> INLINE auto load_every_second(L lanes, const T* p) {
  constexpr int W = width_of<L>;
#if !defined(__clang__)
  if constexpr (Same<L, Full<W>>::value && W > 1) {  // the second load ends with the last element
    const auto low = load(lanes, p), high = load(lanes, p + (W - 1));
    typedef typename Signed<sizeof(low[0])>::type I;
    const vec<I, W> lane = ramp<I, W>();
    return __builtin_shuffle(low, high, lane * 2 - (lane >= (I)(W / 2)));
  } else
#endif
  return gather(lanes, [&](int l) { return p + 2 * l; });
}
template <class L, class T> INLINE auto load_every_second(L lanes, mask<width_of<L>> m, const T* p) {
  if constexpr (Same<L, Full<width_of<L>>>::value) {
    if (all_lanes(m)) return load_every_second(lanes, p);
  }
  return gather(lanes, m, [&](int l) { return p + 2 * l; });
}
// The element of lane 0, N - `skipped` times, and each after it N times.
template <int... Lanes> struct LaneList {};
template <int N, class V, int... Lanes> INLINE auto repeat_lanes(V v, LaneList<Lanes...>) {
  return __builtin_shufflevector(v, v, (Lanes / N)...);
}
template <int N, class L, class T> INLINE auto load_repeated(L lanes, const T* p, int64_t skipped) {
  constexpr int W = width_of<L>;
  if constexpr (Same<L, Full<W>>::value) {
    if (skipped + W <= N) {
      if constexpr (Same<T, bool>::value) return splat_mask<W>(load1(p));
      else return splat<decltype(load1(p)), W>(load1(p));
    }
#if !defined(__clang__) && __GNUC__ >= 12
    if constexpr (W % N == 0 && W > N) {
      if (skipped == 0) return repeat_lanes<N>(load(Full<W / N>{}, p), LaneList<__integer_pack(W)...>{});
    }
#endif
  }
  return gather(lanes, [&](int l) { return p + (skipped + l) / N; });
}
// The element of lane 0 and those before it.
template <class L, class T> INLINE auto load_backward(L lanes, const T* p) {
  constexpr int W = width_of<L>;
  if constexpr (Same<L, Full<W>>::value) {
    auto v = load(lanes, p - (W - 1));
#if defined(__clang__)
    const auto forward = v;
    for (int l = 0; l < W; ++l) v[l] = forward[W - 1 - l];
    return v;
#else
    typedef typename Signed<sizeof(v[0])>::type I;
    return __builtin_shuffle(v, (I)(W - 1) - ramp<I, W>());
#endif
  } else {
    return gather(lanes, [&](int l) { return p - l; });
  }
}
// Elements that follow each other if the last is W - 1 beyond the first.
template <class L, class F> INLINE auto gather_runs(L lanes, F at) {
  constexpr int W = width_of<L>;
  if constexpr (Same<L, Full<W>>::value) {
    if (at(W - 1) == at(0) + (W - 1)) return load(lanes, at(0));
  }
  return gather(lanes, at);
}
// W elements in a row, of which only those inside `m` are read.
template <class L, class T> INLINE auto load_where(L lanes, mask<width_of<L>> m, const T* p) {
#if defined(__AVX512DQ__)
  if constexpr (sizeof(T) == 4 && width_of<L> == 16) {
    const uint16_t bits = __builtin_ia32_cvtd2mask512(m & active(lanes));
    return (vec<T, 16>)__builtin_ia32_loadups512_mask((const float*)p, vec<float, 16>{}, bits);
  } else
#endif
  return gather(lanes, m, [&](int l) { return p + l; });
}
template <class L, class V, class F> INLINE void scatter(L lanes, F at, V v) {
  for (int l = 0; l < lanes.count; ++l) store1(at(l), v[l]);
}

template <int W, class F> INLINE mask<W> mask_of(F f) {
  mask<W> m;
  for (int l = 0; l < W; ++l) m[l] = f(l) ? -1 : 0;
  return m;
}
template <int W, class F> INLINE vec<int64_t, W> index_of(F f) {
  vec<int64_t, W> v;
  for (int l = 0; l < W; ++l) v[l] = f(l);
  return v;
}
template <class To, class From> INLINE To bit_cast(From x) {
  To y;
  static_assert(sizeof x == sizeof y, "");
  __builtin_memcpy(&y, &x, sizeof y);
  return y;
}
// A row of working memory.
template <class T> struct Row {
  T* data;
  explicit Row(int64_t n) : data((T*)__builtin_malloc((n > 0 ? n : 1) * sizeof(T))) {}
  ~Row() { __builtin_free(data); }
  Row(const Row&) = delete;
};

// tile[r * stride + c] = from[c * jump + r] for r < rows <= Rows and c < columns.
template <int Rows, int Stride, class T>
INLINE void turn_tile(const T* from, int64_t jump, int64_t columns, int64_t rows, T* tile) {
  int64_t c = 0;
  if (rows == Rows) {
    for (; c + 4 <= columns; c += 4) {
      T a[4][Rows];
      for (int i = 0; i < 4; ++i) __builtin_memcpy(a[i], from + (c + i) * jump, sizeof a[i]);
      for (int r = 0; r < Rows; ++r) {
        const T four[4] = {a[0][r], a[1][r], a[2][r], a[3][r]};
        __builtin_memcpy(tile + r * Stride + c, four, sizeof four);
      }
    }
  }
  for (; c < columns; ++c) for (int64_t r = 0; r < rows; ++r) tile[r * Stride + c] = from[c * jump + r];
}

// ---- values that must not be: 1 an index out of bounds, 2 a zero divisor ----
INLINE void report(int32_t code, int32_t* error) { __atomic_store_n(error, code, __ATOMIC_RELAXED); }
INLINE int64_t checked_index(int64_t i, int64_t size, int32_t* error) {
  if ((uint64_t)i < (uint64_t)size) return i;
  report(1, error);
  return 0;
}
template <class L, class V> INLINE V checked_index(L lanes, V i, int64_t size, int32_t* error) {
  for (int l = 0; l < lanes.count; ++l) i[l] = checked_index(i[l], size, error);
  return i;
}
template <class T> INLINE T nonzero(T divisor, int32_t* error) {
  if (divisor == 0) report(2, error);
  return divisor;
}
template <class L, class V> INLINE V nonzero(L lanes, V divisor, int32_t* error) {
  if (any_lane(to_mask(divisor == 0) & active(lanes))) report(2, error);
  return divisor;
}

// ---- integer helpers ----
template <class T> INLINE T floordiv(T a, T b) { T q = a / b; return q - ((a % b != 0) & ((a < 0) != (b < 0))); }
template <class T> INLINE T floormod(T a, T b) { T r = a % b; return r + (((r != 0) & ((r < 0) != (b < 0))) ? b : 0); }
INLINE int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

// body(lanes, i) for i from begin to end in steps of W: whole vectors, then the rest as one part.
template <int W, class F> INLINE void for_lanes(int64_t begin, int64_t end, F body) {
  int64_t i = begin;
  for (; i + W <= end; i += W) body(Full<W>{}, i);
  if (i < end) body(Part<W>{end - i}, i);
}

// The same, with the turn, 0 to Turns - 1, in which each vector comes.
template <int W, int Turns, class F> INLINE void for_lanes_in_turn(int64_t begin, int64_t end, F body) {
  int64_t i = begin;
  for (; i + Turns * W <= end; i += Turns * W) {
#pragma GCC unroll 8
    for (int turn = 0; turn < Turns; ++turn) body(Full<W>{}, i + turn * W, turn);
  }
  for (; i + W <= end; i += W) body(Full<W>{}, i, 0);
  if (i < end) body(Part<W>{end - i}, i, 0);
}
template <class V, int Turns, class F> INLINE V fold_turns(V (&turns)[Turns], F f) {
#pragma GCC unroll 8
  for (int n = Turns / 2; n > 0; n /= 2) for (int i = 0; i < n; ++i) turns[i] = f(turns[i], turns[i + n]);
  return turns[0];
}

// ---- a lane at a time ----
// Through memory, which is quicker than taking lanes out of registers one by one.
template <class V, class F> INLINE V lanewise(V a, F f) {
  elem<V> x[lanes_of<V>];
  __builtin_memcpy(x, &a, sizeof a);
  for (int l = 0; l < lanes_of<V>; ++l) x[l] = f(x[l]);
  __builtin_memcpy(&a, x, sizeof a);
  return a;
}
template <class V, class F> INLINE V lanewise(V a, V b, F f) {
  elem<V> x[lanes_of<V>], y[lanes_of<V>];
  __builtin_memcpy(x, &a, sizeof a);
  __builtin_memcpy(y, &b, sizeof b);
  for (int l = 0; l < lanes_of<V>; ++l) x[l] = f(x[l], y[l]);
  __builtin_memcpy(&a, x, sizeof a);
  return a;
}

// ---- scalar operators ----
#define FLOAT_FUNCTION(name, builtin) \
  INLINE float op_##name(float x) { return __builtin_##builtin##f(x); } \
  INLINE double op_##name(double x) { return __builtin_##builtin(x); }
FLOAT_FUNCTION(sqrt, sqrt) FLOAT_FUNCTION(exp, exp) FLOAT_FUNCTION(exp2, exp2) FLOAT_FUNCTION(expm1, expm1)
FLOAT_FUNCTION(log, log) FLOAT_FUNCTION(log2, log2) FLOAT_FUNCTION(log10, log10) FLOAT_FUNCTION(log1p, log1p)
FLOAT_FUNCTION(sin, sin) FLOAT_FUNCTION(cos, cos) FLOAT_FUNCTION(tan, tan) FLOAT_FUNCTION(asin, asin)
FLOAT_FUNCTION(acos, acos) FLOAT_FUNCTION(atan, atan) FLOAT_FUNCTION(sinh, sinh) FLOAT_FUNCTION(cosh, cosh)
FLOAT_FUNCTION(tanh, tanh) FLOAT_FUNCTION(asinh, asinh) FLOAT_FUNCTION(acosh, acosh) FLOAT_FUNCTION(atanh, atanh)
FLOAT_FUNCTION(erf, erf) FLOAT_FUNCTION(erfc, erfc) FLOAT_FUNCTION(lgamma, lgamma) FLOAT_FUNCTION(floor, floor)
FLOAT_FUNCTION(ceil, ceil) FLOAT_FUNCTION(trunc, trunc) FLOAT_FUNCTION(round, nearbyint)
#define FLOAT_FUNCTION2(name, builtin) \
  INLINE float op_##name(float x, float y) { return __builtin_##builtin##f(x, y); } \
  INLINE double op_##name(double x, double y) { return __builtin_##builtin(x, y); }
FLOAT_FUNCTION2(atan2, atan2) FLOAT_FUNCTION2(hypot, hypot) FLOAT_FUNCTION2(copysign, copysign)
FLOAT_FUNCTION2(nextafter, nextafter) FLOAT_FUNCTION2(fmod, fmod) FLOAT_FUNCTION2(pow, pow)
template <class T> INLINE T op_rsqrt(T x) { return (T)1 / op_sqrt(x); }
template <class T> INLINE T op_reciprocal(T x) { return (T)1 / x; }
template <class T> INLINE T op_sigmoid(T x) { return (T)1 / ((T)1 + op_exp(-x)); }
INLINE float op_abs(float x) { return __builtin_fabsf(x); }
INLINE double op_abs(double x) { return __builtin_fabs(x); }
template <class T> INLINE T op_abs(T x) { return x < 0 ? (T)(0 - x) : x; }
template <class T> INLINE T op_sign(T x) { return (T)((x > 0) - (x < 0)); }
template <class T> INLINE T op_floor(T x) { return x; }
template <class T> INLINE T op_ceil(T x) { return x; }
template <class T> INLINE T op_trunc(T x) { return x; }
template <class T> INLINE T op_round(T x) { return x; }
template <class T> INLINE bool op_isnan(T x) { return x != x; }
INLINE bool op_isinf(float x) { return __builtin_isinf(x); }
INLINE bool op_isinf(double x) { return __builtin_isinf(x); }
template <class T> INLINE bool op_isinf(T) { return false; }
INLINE bool op_signbit(float x) { return __builtin_signbit(x); }
INLINE bool op_signbit(double x) { return __builtin_signbit(x); }
template <class T> INLINE bool op_signbit(T x) { return x < 0; }
// Of equal operands (zeros of two signs) the first.
template <class T> INLINE T op_min(T a, T b) { return (a <= b) | (a != a) ? a : b; }
template <class T> INLINE T op_max(T a, T b) { return (a >= b) | (a != a) ? a : b; }
// The least integer divided by -1 overflows, which stops the process.
template <class T> INLINE bool is_minus_one(T x) { return (T)-1 < 0 && x == (T)-1; }
template <class T> INLINE T op_floor_div(T a, T b) { return b == 0 ? 0 : is_minus_one(b) ? (T)(0 - a) : floordiv(a, b); }
template <class T> INLINE T op_trunc_div(T a, T b) { return b == 0 ? 0 : is_minus_one(b) ? (T)(0 - a) : (T)(a / b); }
template <class T> INLINE T op_mod(T a, T b) { return b == 0 || is_minus_one(b) ? 0 : floormod(a, b); }
template <class T> INLINE T op_fmod(T a, T b) { return b == 0 || is_minus_one(b) ? 0 : (T)(a % b); }
template <class T> INLINE T float_floor_div(T a, T b) {
  if (b == 0) return a / b;
  T r = op_fmod(a, b);
  T q = (a - r) / b;
  if (r != 0 && (b < 0) != (r < 0)) q -= 1;
  if (q == 0) return op_copysign((T)0, a / b);
  T f = op_floor(q);
  if (q - f > (T)0.5) f += 1;
  return f;
}
template <class T> INLINE T float_mod(T a, T b) {
  T r = op_fmod(a, b);
  return r != 0 && (b < 0) != (r < 0) ? r + b : r;
}
INLINE float op_floor_div(float a, float b) { return float_floor_div(a, b); }
INLINE double op_floor_div(double a, double b) { return float_floor_div(a, b); }
INLINE float op_trunc_div(float a, float b) { return op_trunc(a / b); }
INLINE double op_trunc_div(double a, double b) { return op_trunc(a / b); }
INLINE float op_mod(float a, float b) { return float_mod(a, b); }
INLINE double op_mod(double a, double b) { return float_mod(a, b); }
template <class T> INLINE T op_pow(T a, T n) {  // integers
  if (n < 0) return a == 1 ? 1 : a == (T)-1 ? (n % 2 ? (T)-1 : 1) : 0;
  T r = 1;
  for (; n; n >>= 1) {
    if (n & 1) r = (T)((uint64_t)r * (uint64_t)a);
    a = (T)((uint64_t)a * (uint64_t)a);
  }
  return r;
}
template <class T> INLINE T op_gcd(T a, T b) {
  while (b != 0) { T r = op_fmod(a, b); a = b; b = r; }
  return op_abs(a);
}
template <class T> INLINE T op_shift_left(T a, T n) {
  return n < 0 || n >= (T)(sizeof(T) * 8) ? 0 : (T)((uint64_t)a << n);
}
template <class T> INLINE T op_shift_right(T a, T n) {
  return a >> (n < 0 || n >= (T)(sizeof(T) * 8) ? (T)(sizeof(T) * 8 - 1) : n);
}
template <class To, class From> INLINE To to_integer(From x) {  // out of range: as the hardware and PyTorch give, without a trap
  if constexpr (Same<From, float>::value || Same<From, double>::value) return (To)(int64_t)x;
  else return (To)x;
}

// ---- vector operators ----
#define LIBMVEC(name, f32, f64) \
  extern "C" vec<float, 4> _ZGVbN4v_##f32(vec<float, 4>); \
  extern "C" vec<double, 2> _ZGVbN2v_##f64(vec<double, 2>); \
  LIBMVEC_WIDE(f32, f64) \
  template <class V> INLINE V op_##name##_v(V x) { \
    if constexpr (Same<V, vec<float, 4>>::value) return _ZGVbN4v_##f32(x); \
    else if constexpr (Same<V, vec<double, 2>>::value) return _ZGVbN2v_##f64(x); \
    LIBMVEC_CALL_WIDE(f32, f64) \
    else return lanewise(x, [](auto e) { return op_##name(e); }); \
  }
#if defined(__AVX512F__)
#define LIBMVEC_WIDE(f32, f64) extern "C" vec<float, 8> _ZGVdN8v_##f32(vec<float, 8>); extern "C" vec<double, 4> _ZGVdN4v_##f64(vec<double, 4>); \
  extern "C" vec<float, 16> _ZGVeN16v_##f32(vec<float, 16>); extern "C" vec<double, 8> _ZGVeN8v_##f64(vec<double, 8>);
#define LIBMVEC_CALL_WIDE(f32, f64) \
    else if constexpr (Same<V, vec<float, 8>>::value) return _ZGVdN8v_##f32(x); \
    else if constexpr (Same<V, vec<double, 4>>::value) return _ZGVdN4v_##f64(x); \
    else if constexpr (Same<V, vec<float, 16>>::value) return _ZGVeN16v_##f32(x); \
    else if constexpr (Same<V, vec<double, 8>>::value) return _ZGVeN8v_##f64(x);
#elif defined(__AVX2__)
#define LIBMVEC_WIDE(f32, f64) extern "C" vec<float, 8> _ZGVdN8v_##f32(vec<float, 8>); extern "C" vec<double, 4> _ZGVdN4v_##f64(vec<double, 4>);
#define LIBMVEC_CALL_WIDE(f32, f64) \
    else if constexpr (Same<V, vec<float, 8>>::value) return _ZGVdN8v_##f32(x); \
    else if constexpr (Same<V, vec<double, 4>>::value) return _ZGVdN4v_##f64(x);
#else
#define LIBMVEC_WIDE(f32, f64)
#define LIBMVEC_CALL_WIDE(f32, f64)
#endif
LIBMVEC(log, logf, log) LIBMVEC(log2, log2f, log2) LIBMVEC(log10, log10f, log10) LIBMVEC(log1p, log1pf, log1p)
LIBMVEC(exp2, exp2f, exp2) LIBMVEC(expm1, expm1f, expm1) LIBMVEC(sin, sinf, sin) LIBMVEC(cos, cosf, cos)
LIBMVEC(tan, tanf, tan) LIBMVEC(asin, asinf, asin) LIBMVEC(acos, acosf, acos) LIBMVEC(atan, atanf, atan)
LIBMVEC(sinh, sinhf, sinh) LIBMVEC(cosh, coshf, cosh) LIBMVEC(tanh, tanhf, tanh) LIBMVEC(asinh, asinhf, asinh)
LIBMVEC(acosh, acoshf, acosh) LIBMVEC(atanh, atanhf, atanh) LIBMVEC(erf_libmvec, erff, erf) LIBMVEC(erfc, erfcf, erfc)
LIBMVEC(exp_libmvec, expf, exp)
#define LIBMVEC2(name, f32, f64) \
  extern "C" vec<float, 4> _ZGVbN4vv_##f32(vec<float, 4>, vec<float, 4>); \
  extern "C" vec<double, 2> _ZGVbN2vv_##f64(vec<double, 2>, vec<double, 2>); \
  LIBMVEC2_WIDE(f32, f64) \
  template <class V> INLINE V op_##name##_v(V x, V y) { \
    if constexpr (Same<V, vec<float, 4>>::value) return _ZGVbN4vv_##f32(x, y); \
    else if constexpr (Same<V, vec<double, 2>>::value) return _ZGVbN2vv_##f64(x, y); \
    LIBMVEC2_CALL_WIDE(f32, f64) \
    else return lanewise(x, y, [](auto a, auto b) { return op_##name(a, b); }); \
  }
#if defined(__AVX512F__)
#define LIBMVEC2_WIDE(f32, f64) extern "C" vec<float, 8> _ZGVdN8vv_##f32(vec<float, 8>, vec<float, 8>); \
  extern "C" vec<double, 4> _ZGVdN4vv_##f64(vec<double, 4>, vec<double, 4>); \
  extern "C" vec<float, 16> _ZGVeN16vv_##f32(vec<float, 16>, vec<float, 16>); \
  extern "C" vec<double, 8> _ZGVeN8vv_##f64(vec<double, 8>, vec<double, 8>);
#define LIBMVEC2_CALL_WIDE(f32, f64) \
    else if constexpr (Same<V, vec<float, 8>>::value) return _ZGVdN8vv_##f32(x, y); \
    else if constexpr (Same<V, vec<double, 4>>::value) return _ZGVdN4vv_##f64(x, y); \
    else if constexpr (Same<V, vec<float, 16>>::value) return _ZGVeN16vv_##f32(x, y); \
    else if constexpr (Same<V, vec<double, 8>>::value) return _ZGVeN8vv_##f64(x, y);
#elif defined(__AVX2__)
#define LIBMVEC2_WIDE(f32, f64) extern "C" vec<float, 8> _ZGVdN8vv_##f32(vec<float, 8>, vec<float, 8>); \
  extern "C" vec<double, 4> _ZGVdN4vv_##f64(vec<double, 4>, vec<double, 4>);
#define LIBMVEC2_CALL_WIDE(f32, f64) \
    else if constexpr (Same<V, vec<float, 8>>::value) return _ZGVdN8vv_##f32(x, y); \
    else if constexpr (Same<V, vec<double, 4>>::value) return _ZGVdN4vv_##f64(x, y);
#else
#define LIBMVEC2_WIDE(f32, f64)
#define LIBMVEC2_CALL_WIDE(f32, f64)
#endif
LIBMVEC2(pow, powf, pow) LIBMVEC2(atan2, atan2f, atan2) LIBMVEC2(hypot, hypotf, hypot)
INLINE float op_exp_libmvec(float x) { return op_exp(x); }
INLINE double op_exp_libmvec(double x) { return op_exp(x); }
INLINE float op_erf_libmvec(float x) { return op_erf(x); }
INLINE double op_erf_libmvec(double x) { return op_erf(x); }

template <class V> INLINE V op_floor_v(V x);
template <class V> INLINE V op_trunc_v(V x);
template <class V> INLINE V op_sqrt_v(V x);
template <class V> INLINE V op_abs_v(V x);
// exp(x) = 2^n * e^r with n = round(x / ln 2), |r| <= ln 2 / 2 (Cody and Waite's two-part ln 2); e^r by its Taylor series to r^7, whose
// remainder is below half a unit in the last place. 2^n is applied in two factors so that results may be denormal.
template <class V> INLINE V op_exp_v(V x) {
  if constexpr (is_f32<V>) {
    constexpr int W = lanes_of<V>;
    typedef vec<int32_t, W> I;
    V c = x > 89.0f ? splat<float, W>(89.0f) : x;
    c = c < -104.0f ? splat<float, W>(-104.0f) : c;
    const V shifted = c * 1.44269504088896341f + 12582912.0f;
    const V n = shifted - 12582912.0f;
    V r = c - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    V p = r * (1.0f / 5040) + (1.0f / 720);
    p = p * r + (1.0f / 120);
    p = p * r + (1.0f / 24);
    p = p * r + (1.0f / 6);
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    const I k = __builtin_convertvector(n, I);
    const I half = k >> 1;
    return p * (V)((half + 127) << 23) * (V)((k - half + 127) << 23);
  } else {
    return op_exp_libmvec_v(x);
  }
}
// erf(x) = x * P(x^2) / Q(x^2) up to 3.925, from where on it rounds to 1: a least-squares fit of erf(x) / x, reweighted until its largest
// relative error, 1.9e-8, is least (C. L. Lawson, 1961). All coefficients are positive, so nothing cancels: within 5 units in the last place
// of the f64 function, 7 without fused multiply-add, 0.7 on average, over 11 million floats.
template <class V> INLINE V op_erf_v(V x) {
  if constexpr (is_f32<V>) {
    V c = x > 3.925f ? V{} + 3.925f : x;
    c = c < -3.925f ? V{} - 3.925f : c;
    const V t = c * c;
    V p = t * 2.04625439e-06f + 2.84827664e-04f;
    p = p * t + 3.77162173e-03f;
    p = p * t + 5.27664125e-02f;
    p = p * t + 1.90571398e-01f;
    p = p * t + 1.12837911f;
    V q = t * 3.80493220e-05f + 1.16364297e-03f;
    q = q * t + 1.49813211e-02f;
    q = q * t + 1.14173546e-01f;
    q = q * t + 5.02222240e-01f;
    q = q * t + 1.0f;
    const V y = c * (p / q);
    return y > 1 ? V{} + 1 : y < -1 ? V{} - 1 : y;
  } else {
    return op_erf_libmvec_v(x);
  }
}
template <class V> INLINE V op_copysign_v(V x, V sign) {
  if constexpr (is_f32<V>) {
    typedef vec<int32_t, lanes_of<V>> I;
    return (V)(((I)x & 0x7fffffff) | ((I)sign & ~0x7fffffff));
  } else {
    return lanewise(x, sign, [](auto a, auto b) { return op_copysign(a, b); });
  }
}
// combine(quotient, b, rest) of integers, rounded toward zero: by floating-point division, which is exact as long as both are whole numbers
// of fewer than 52 bits (a float's division as long as they have 16). Others go a lane at a time.
template <class V, class F, class G> INLINE V divided(V a, V b, F combine, G one) {
  constexpr int W = lanes_of<V>;
  typedef elem<V> T;
  if constexpr (sizeof(T) == 8) {
    const auto limit = (int64_t)1 << 51;
    const vec<int64_t, W> x = (vec<int64_t, W>)a, y = (vec<int64_t, W>)b;
    if (any_lane((x >= limit) | (x <= -limit) | (y >= limit) | (y <= -limit))) return lanewise(a, b, one);
  }
  if constexpr (sizeof(T) <= 2) {
    const vec<int32_t, W> x = __builtin_convertvector(a, vec<int32_t, W>), y = __builtin_convertvector(b, vec<int32_t, W>);
    const auto quotient = __builtin_convertvector(x, vec<float, W>) / __builtin_convertvector(y, vec<float, W>);
    const vec<int32_t, W> q = __builtin_convertvector(quotient, vec<int32_t, W>);
    return combine(__builtin_convertvector(q, V), b, __builtin_convertvector(x - q * y, V));
  } else {
    constexpr int H = W > kLanes8 ? kLanes8 : W;  // as many lanes at once as doubles fill a register
    T x[W], y[W];
    __builtin_memcpy(x, &a, sizeof a);
    __builtin_memcpy(y, &b, sizeof b);
    for (int l = 0; l < W; l += H) {
      vec<T, H> p, q;
      __builtin_memcpy(&p, x + l, sizeof p);
      __builtin_memcpy(&q, y + l, sizeof q);
      p = __builtin_convertvector(__builtin_convertvector(p, vec<double, H>) / __builtin_convertvector(q, vec<double, H>), vec<T, H>);
      __builtin_memcpy(x + l, &p, sizeof p);
    }
    V quotient;
    __builtin_memcpy(&quotient, x, sizeof quotient);
    return combine(quotient, b, a - quotient * b);
  }
}
template <class V> INLINE V op_trunc_div_v(V a, V b) {
  if constexpr (is_float<V>) return op_trunc_v(a / b);
  else return divided(a, b, [](V q, V, V) INLINE_BODY { return q; }, [](auto p, auto q) { return op_trunc_div(p, q); });
}
// The remainder of a / b with the sign of a, exact: the quotient's whole part takes up to 29 of a double's 53 bits, b the other 24.
// Infinities, NaN, division by zero and larger quotients go a lane at a time.
template <class V> INLINE V op_fmod_v(V a, V b) {
  if constexpr (is_f32<V> && lanes_of<V> >= 4) {
    constexpr int H = lanes_of<V> / 2;  // a half at a time: its doubles fill a register
    typedef vec<double, H> D;
    vec<float, H> x[2], y[2], r[2];
    const V size_of_a = op_abs_v(a), size_of_b = op_abs_v(b);
    __builtin_memcpy(x, &size_of_a, sizeof x);
    __builtin_memcpy(y, &size_of_b, sizeof y);
    auto unusual = D{} != D{};
    for (int h = 0; h < 2; ++h) {
      const D p = __builtin_convertvector(x[h], D);
      const D q = __builtin_convertvector(y[h], D);
      const D quotient = p / q;
      unusual |= ~((quotient < 536870912.0) & (q < __builtin_inf()));
      D rest = p - __builtin_convertvector(__builtin_convertvector(quotient, vec<int32_t, H>), D) * q;
      rest = rest < 0 ? rest + q : rest;
      rest = rest >= q ? rest - q : rest;
      r[h] = __builtin_convertvector(rest, vec<float, H>);
    }
    if (!any_lane(unusual)) {
      V result;
      __builtin_memcpy(&result, r, sizeof r);
      return op_copysign_v(result, a);
    }
  }
  if constexpr (!is_float<V>) {
    return divided(a, b, [](V, V, V r) INLINE_BODY { return r; }, [](auto p, auto q) { return op_fmod(p, q); });
  } else {
    return lanewise(a, b, [](auto p, auto q) { return op_fmod(p, q); });
  }
}
template <class V> INLINE V op_mod_v(V a, V b) {
  if constexpr (is_f32<V>) {
    const V r = op_fmod_v(a, b);
    return (r != 0) & ((b < 0) != (r < 0)) ? r + b : r;
  } else if constexpr (!is_float<V>) {
    return divided(a, b, [](V, V y, V r) INLINE_BODY { return (r != 0) & ((y < 0) != (r < 0)) ? r + y : r; },
                   [](auto p, auto q) { return op_mod(p, q); });
  } else {
    return lanewise(a, b, [](auto p, auto q) { return op_mod(p, q); });
  }
}
template <class V> INLINE V op_floor_div_v(V a, V b) {  // as float_floor_div
  if constexpr (is_f32<V>) {
    const V r = op_fmod_v(a, b);
    V q = (a - r) / b;
    q = (r != 0) & ((b < 0) != (r < 0)) ? q - 1 : q;
    V f = op_floor_v(q);
    f = q - f > 0.5f ? f + 1 : f;
    f = q == 0 ? op_copysign_v(V{}, a / b) : f;
    return b == 0 ? a / b : f;
  } else if constexpr (!is_float<V>) {
    return divided(a, b, [](V q, V y, V r) INLINE_BODY { return (r != 0) & ((y < 0) != (r < 0)) ? q - 1 : q; },
                   [](auto p, auto q) { return op_floor_div(p, q); });
  } else {
    return lanewise(a, b, [](auto p, auto q) { return op_floor_div(p, q); });
  }
}
// The next number after a toward b: one step in the bits, which order as the numbers of one sign do.
template <class V> INLINE V op_nextafter_v(V a, V b) {
  if constexpr (is_f32<V>) {
    typedef vec<int32_t, lanes_of<V>> I;
    const I step = ((a < b) == (a > 0)) ? I{} + 1 : I{} - 1;
    V r = (V)((I)a + step);
    r = a == 0 ? op_copysign_v((V)(I{} + 1), b) : r;
    r = a == b ? b : r;
    return (a != a) | (b != b) ? a + b : r;
  } else {
    return lanewise(a, b, [](auto p, auto q) { return op_nextafter(p, q); });
  }
}
// The two-branch polynomial of M. Giles, "Approximating the erfinv function" (2012); relative error below 1e-6 in f32.
template <class V> INLINE V op_erfinv_v(V x) {
  const V w = -op_log_v((1 - x) * (1 + x));
  const V a = w - 2.5f;
  V p = a * 2.81022636e-08f + 3.43273939e-07f;
  p = p * a - 3.5233877e-06f;
  p = p * a - 4.39150654e-06f;
  p = p * a + 0.00021858087f;
  p = p * a - 0.00125372503f;
  p = p * a - 0.00417768164f;
  p = p * a + 0.246640727f;
  p = p * a + 1.50140941f;
  const V b = op_sqrt_v(w) - 3.0f;
  V q = b * -0.000200214257f + 0.000100950558f;
  q = q * b + 0.00134934322f;
  q = q * b - 0.00367342844f;
  q = q * b + 0.00573950773f;
  q = q * b - 0.0076224613f;
  q = q * b + 0.00943887047f;
  q = q * b + 1.00167406f;
  q = q * b + 2.83297682f;
  const V y = (w < 5.0f ? p : q) * x;
  return (x == 1) | (x == -1) ? x * __builtin_inff() : y;
}
template <class V> INLINE V op_sigmoid_v(V x) { return 1 / (1 + op_exp_v(-x)); }
template <class V> INLINE V op_sqrt_v(V x) {
#if defined(__AVX512F__)
  if constexpr (Same<V, vec<float, 16>>::value) return __builtin_ia32_sqrtps512_mask(x, x, (uint16_t)-1, 4);
#endif
  return lanewise(x, [](auto e) { return op_sqrt(e); });
}
template <class V> INLINE V op_rsqrt_v(V x) { return 1 / op_sqrt_v(x); }
template <class V> INLINE V op_reciprocal_v(V x) { return 1 / x; }
template <class V> INLINE V op_abs_v(V x) {
  if constexpr (is_f32<V>) return (V)((vec<int32_t, lanes_of<V>>)x & 0x7fffffff);
  else if constexpr (is_float<V>) return (V)((vec<int64_t, lanes_of<V>>)x & 0x7fffffffffffffffLL);
  else return x < 0 ? 0 - x : x;
}
// Comparisons give -1. (g++ 12 vectorises the scalar form of bytes wrongly.)
template <class V> INLINE V op_sign_v(V x) { return __builtin_convertvector((x < 0) - (x > 0), V); }
#define ROUNDING(name, mode) \
  template <class V> INLINE V op_##name##_v(V x) { \
    ROUNDING_512(mode) \
    if constexpr (is_float<V>) return lanewise(x, [](auto e) { return op_##name(e); }); \
    else return x; \
  }
#if defined(__AVX512F__)
#define ROUNDING_512(mode) if constexpr (Same<V, vec<float, 16>>::value) return __builtin_ia32_rndscaleps_mask(x, mode, x, (uint16_t)-1, 4);
#else
#define ROUNDING_512(mode)
#endif
ROUNDING(floor, 9) ROUNDING(ceil, 10) ROUNDING(trunc, 11) ROUNDING(round, 8)
// Where b is a number, the instruction for extrema of b and a: it gives a when they are equal and when a is NaN.
#if defined(__AVX512F__) && !defined(__clang__)
#define EXTREMUM_512(name) if constexpr (Same<V, vec<float, 16>>::value) \
  return __builtin_ia32_##name##ps512_mask(b, a, b, __builtin_ia32_cmpps512_mask(b, b, 7, (uint16_t)-1, 4), 4);
#else
#define EXTREMUM_512(name)
#endif
template <class V> INLINE V op_min_v(V a, V b) {
  EXTREMUM_512(min)
  if constexpr (is_float<V>) return (a <= b) | (a != a) ? a : b;
  else return a < b ? a : b;
}
template <class V> INLINE V op_max_v(V a, V b) {
  EXTREMUM_512(max)
  if constexpr (is_float<V>) return (a >= b) | (a != a) ? a : b;
  else return a > b ? a : b;
}

// ---- folding the lanes of an accumulator, in halves ----
template <class V, class F> INLINE elem<V> fold(V v, F f) {
  elem<V> a[lanes_of<V>];
  __builtin_memcpy(a, &v, sizeof v);
  for (int w = lanes_of<V> / 2; w > 0; w /= 2) for (int l = 0; l < w; ++l) a[l] = f(a[l], a[l + w]);
  return a[0];
}

// ---- positions of extrema: the first of equals, a NaN before all else; -1 as long as there is none ----
template <bool Greatest, class M, class V, class P> INLINE void keep_extremum(M lanes, V x, P position, V& best, P& at) {
  M better = to_mask(Greatest ? x > best : x < best) | to_mask(at < 0);
  if constexpr (is_float<V>) better |= to_mask(x != x) & to_mask(best == best);
  better &= lanes;
  best = select(better, x, best);
  at = select(better, position, at);
}
template <bool Greatest, class V, class P> INLINE int64_t fold_position(V best, P at) {
  int64_t position = -1;
  elem<V> extremum = 0;
  for (int l = 0; l < lanes_of<V>; ++l) {
    const elem<V> x = best[l];
    const bool is_better = (Greatest ? x > extremum : x < extremum) | ((x != x) & (extremum == extremum));
    const bool is_equal = (x == extremum) | ((x != x) & (extremum != extremum));
    if (at[l] >= 0 && (position < 0 || is_better || (is_equal && at[l] < position))) {
      position = at[l];
      extremum = x;
    }
  }
  return position;
}
)prelude";

}  // namespace toroid::codegen
