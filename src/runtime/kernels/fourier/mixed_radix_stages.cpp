#include "runtime/kernels/fourier/mixed_radix_stages.h"

#include <cstring>
#include <utility>

#include "base/numbers.h"
#include "runtime/kernels/gemm/transpose_square.h"
#include "runtime/kernels/isa/vector_sets.h"

// Vectors are passed between functions that are all inlined, so how they would be passed does not matter.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace toroid::mixed_radix {
namespace {

template <class V>
struct Pair {
  V re, im;
};

template <class V, class T>
TOROID_INLINE V load(const T* from) {
  V value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
template <class V, class T>
TOROID_INLINE void store(const V& value, T* to) {
  std::memcpy(to, &value, sizeof value);
}

template <class T>
struct Stage {
  Arrays<T> x, y;
  int64_t m, s;      // see the header
  const T *re, *im;  // roots of all the transform's n
  int64_t n;
  T* terms;      // of odd radices: room for 4 (radix / 2) vectors
  bool is_real;  // imaginary parts are 0
};

// Multiplies by exp(-2 pi i p k / (radix m)), if it is to be turned, and stores. p = 0 turns nothing.
template <class V, class T>
TOROID_INLINE void finish(bool is_turned, const Stage<T>& stage, const V& given_re, const V& given_im, int64_t radix, int64_t p, int64_t k,
                          int64_t q) {
  V re = given_re, im = given_im;
  T* to_re = stage.y.re + q + stage.s * (radix * p + k);
  T* to_im = stage.y.im + q + stage.s * (radix * p + k);
  if (is_turned) {
    const int64_t at = p * k * (stage.n / (radix * stage.m));
    const T c = stage.re[at], d = stage.im[at];
    const V turned = re * c - im * d;
    im = re * d + im * c;
    re = turned;
  }
  store<V>(re, to_re);
  store<V>(im, to_im);
}

template <class V, class T>
TOROID_INLINE Pair<V> element(const Stage<T>& stage, int64_t p, int64_t j, int64_t q) {
  const int64_t at = q + stage.s * (p + stage.m * j);
  return {load<V>(stage.x.re + at), load<V>(stage.x.im + at)};
}

template <class V, class T, bool kIsTurned>
TOROID_INLINE void two(const Stage<T>& stage, int64_t p, int64_t q) {
  const Pair<V> a = element<V>(stage, p, 0, q), b = element<V>(stage, p, 1, q);
  finish<V, T>(false, stage, a.re + b.re, a.im + b.im, 2, p, 0, q);
  finish<V, T>(kIsTurned, stage, a.re - b.re, a.im - b.im, 2, p, 1, q);
}

template <class V, class T, bool kIsTurned>
TOROID_INLINE void three(const Stage<T>& stage, int64_t p, int64_t q) {
  constexpr T kCos = T(-0.5), kSin = static_cast<T>(numbers::kSqrt3 / 2);
  const Pair<V> a = element<V>(stage, p, 0, q), b = element<V>(stage, p, 1, q), c = element<V>(stage, p, 2, q);
  const V sum_re = b.re + c.re, sum_im = b.im + c.im, gap_re = (b.re - c.re) * kSin, gap_im = (b.im - c.im) * kSin;
  const V mid_re = a.re + sum_re * kCos, mid_im = a.im + sum_im * kCos;
  finish<V, T>(false, stage, a.re + sum_re, a.im + sum_im, 3, p, 0, q);
  finish<V, T>(kIsTurned, stage, mid_re + gap_im, mid_im - gap_re, 3, p, 1, q);
  finish<V, T>(kIsTurned, stage, mid_re - gap_im, mid_im + gap_re, 3, p, 2, q);
}

template <class V, class T, bool kIsTurned>
TOROID_INLINE void four(const Stage<T>& stage, int64_t p, int64_t q) {
  const Pair<V> a = element<V>(stage, p, 0, q), b = element<V>(stage, p, 1, q), c = element<V>(stage, p, 2, q),
                d = element<V>(stage, p, 3, q);
  const V e_re = a.re + c.re, e_im = a.im + c.im, f_re = a.re - c.re, f_im = a.im - c.im;
  const V g_re = b.re + d.re, g_im = b.im + d.im, h_re = b.re - d.re, h_im = b.im - d.im;
  finish<V, T>(false, stage, e_re + g_re, e_im + g_im, 4, p, 0, q);
  finish<V, T>(kIsTurned, stage, f_re + h_im, f_im - h_re, 4, p, 1, q);
  finish<V, T>(kIsTurned, stage, e_re - g_re, e_im - g_im, 4, p, 2, q);
  finish<V, T>(kIsTurned, stage, f_re - h_im, f_im + h_re, 4, p, 3, q);
}

template <class V, class T, bool kIsTurned>
TOROID_INLINE void five(const Stage<T>& stage, int64_t p, int64_t q) {
  constexpr T kCos1 = T(0.30901699437494742410), kCos2 = T(-0.80901699437494742410), kSin1 = T(0.95105651629515357212),
              kSin2 = T(0.58778525229247312917);
  const Pair<V> a = element<V>(stage, p, 0, q), b = element<V>(stage, p, 1, q), c = element<V>(stage, p, 2, q),
                d = element<V>(stage, p, 3, q), e = element<V>(stage, p, 4, q);
  const V s1_re = b.re + e.re, s1_im = b.im + e.im, d1_re = b.re - e.re, d1_im = b.im - e.im;
  const V s2_re = c.re + d.re, s2_im = c.im + d.im, d2_re = c.re - d.re, d2_im = c.im - d.im;
  finish<V, T>(false, stage, a.re + s1_re + s2_re, a.im + s1_im + s2_im, 5, p, 0, q);
  const V c1_re = a.re + s1_re * kCos1 + s2_re * kCos2, c1_im = a.im + s1_im * kCos1 + s2_im * kCos2;
  const V c2_re = a.re + s1_re * kCos2 + s2_re * kCos1, c2_im = a.im + s1_im * kCos2 + s2_im * kCos1;
  const V t1_re = d1_re * kSin1 + d2_re * kSin2, t1_im = d1_im * kSin1 + d2_im * kSin2;
  const V t2_re = d1_re * kSin2 - d2_re * kSin1, t2_im = d1_im * kSin2 - d2_im * kSin1;
  finish<V, T>(kIsTurned, stage, c1_re + t1_im, c1_im - t1_re, 5, p, 1, q);
  finish<V, T>(kIsTurned, stage, c2_re + t2_im, c2_im - t2_re, 5, p, 2, q);
  finish<V, T>(kIsTurned, stage, c2_re - t2_im, c2_im + t2_re, 5, p, 3, q);
  finish<V, T>(kIsTurned, stage, c1_re - t1_im, c1_im + t1_re, 5, p, 4, q);
}

// Results k and radix - k of an odd prime from its terms; `kRows` such k one after the other, so that each term is loaded once for all.
template <class V, class T, bool kIsReal, int kRows>
TOROID_INLINE void odd_results(const Stage<T>& stage, const Pair<V>& first, int64_t radix, int64_t p, int64_t k, int64_t q) {
  constexpr int64_t kWidth = sizeof(V) / sizeof(T);
  const int64_t step = stage.n / radix;
  Pair<V> even[kRows], sines[kRows];
  int64_t power[kRows];
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i) even[i] = first, sines[i] = {V{}, V{}}, power[i] = k + i;
  for (int64_t j = 0; j < radix / 2; ++j) {
    const T* from = stage.terms + j * 4 * kWidth;
    const V sum_re = load<V>(from), gap_re = load<V>(from + 2 * kWidth);
    V sum_im = V{}, gap_im = V{};
    if constexpr (!kIsReal) sum_im = load<V>(from + kWidth), gap_im = load<V>(from + 3 * kWidth);
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) {
      const T c = stage.re[power[i] * step], d = stage.im[power[i] * step];  // the sine is negative
      even[i].re += sum_re * c;
      sines[i].re += gap_re * d;
      if constexpr (!kIsReal) {
        even[i].im += sum_im * c;
        sines[i].im += gap_im * d;
      }
      power[i] += k + i;
      if (power[i] >= radix) power[i] -= radix;
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i) {
    finish<V, T>(p > 0, stage, even[i].re - sines[i].im, even[i].im + sines[i].re, radix, p, k + i, q);
    finish<V, T>(p > 0, stage, even[i].re + sines[i].im, even[i].im - sines[i].re, radix, p, radix - k - i, q);
  }
}

// An odd prime: elements j and radix - j have equal cosines and opposite sines.
template <class V, class T, bool kIsReal>
TOROID_INLINE void odd(const Stage<T>& stage, int64_t radix, int64_t p, int64_t q) {
  constexpr int64_t kWidth = sizeof(V) / sizeof(T);
  const int64_t pairs = radix / 2;
  const Pair<V> first = element<V>(stage, p, 0, q);
  Pair<V> total = first;
  for (int64_t j = 1; j <= pairs; ++j) {
    const Pair<V> a = element<V>(stage, p, j, q), b = element<V>(stage, p, radix - j, q);
    T* to = stage.terms + (j - 1) * 4 * kWidth;
    store<V>(a.re + b.re, to);
    store<V>(a.im + b.im, to + kWidth);
    store<V>(a.re - b.re, to + 2 * kWidth);
    store<V>(a.im - b.im, to + 3 * kWidth);
    total.re += a.re + b.re;
    total.im += a.im + b.im;
  }
  finish<V, T>(false, stage, total.re, total.im, radix, p, 0, q);
  constexpr int kRows = 4;
  int64_t k = 1;
  for (; k + kRows - 1 <= pairs; k += kRows) odd_results<V, T, kIsReal, kRows>(stage, first, radix, p, k, q);
  for (; k <= pairs; ++k) odd_results<V, T, kIsReal, 1>(stage, first, radix, p, k, q);
}

template <class V, class T, bool kIsTurned>
TOROID_INLINE void butterflies(const Stage<T>& stage, int64_t radix, int64_t p, int64_t& q) {
  constexpr int64_t kWidth = sizeof(V) / sizeof(T);
  switch (radix) {
    case 2:
      for (; q + kWidth <= stage.s; q += kWidth) two<V, T, kIsTurned>(stage, p, q);
      break;
    case 3:
      for (; q + kWidth <= stage.s; q += kWidth) three<V, T, kIsTurned>(stage, p, q);
      break;
    case 4:
      for (; q + kWidth <= stage.s; q += kWidth) four<V, T, kIsTurned>(stage, p, q);
      break;
    case 5:
      for (; q + kWidth <= stage.s; q += kWidth) five<V, T, kIsTurned>(stage, p, q);
      break;
    default: break;  // odd_butterflies
  }
}

template <class V, class T>
TOROID_INLINE void odd_butterflies(const Stage<T>& stage, int64_t radix, int64_t p, int64_t& q) {
  constexpr int64_t kWidth = sizeof(V) / sizeof(T);
  if (stage.is_real) {
    for (; q + kWidth <= stage.s; q += kWidth) odd<V, T, true>(stage, radix, p, q);
  } else {
    for (; q + kWidth <= stage.s; q += kWidth) odd<V, T, false>(stage, radix, p, q);
  }
}

template <class V>
struct VectorType {
  using Type = V;
};
// Calls f for `Wide`, which goes on for as long as it fits, then for `Narrow`, then for single elements.
template <class Wide, class Narrow, class T, class F>
TOROID_INLINE void in_vectors(F f) {
  f(VectorType<Wide>());
  if constexpr (sizeof(Narrow) < sizeof(Wide)) f(VectorType<Narrow>());
  if constexpr (sizeof(T) < sizeof(Narrow)) f(VectorType<T>());
}

template <class Wide, class Narrow, class T, bool kIsTurned>
TOROID_INLINE void all_butterflies(const Stage<T>& stage, int64_t radix, int64_t p) {
  int64_t q = 0;
  in_vectors<Wide, Narrow, T>([&](auto vector) __attribute__((always_inline)) {
    using V = typename decltype(vector)::Type;
    if (q < stage.s) butterflies<V, T, kIsTurned>(stage, radix, p, q);
  });
}
template <class Wide, class Narrow, class T>
TOROID_INLINE void all_odd_butterflies(const Stage<T>& stage, int64_t radix, int64_t p) {
  int64_t q = 0;
  in_vectors<Wide, Narrow, T>([&](auto vector) __attribute__((always_inline)) {
    using V = typename decltype(vector)::Type;
    if (q < stage.s) odd_butterflies<V, T>(stage, radix, p, q);
  });
}

// The forward transform of `rows` interleaved rows in `x`, by turns to `y` and back. Returns where the result is.
template <class Wide, class Narrow, class T>
TOROID_INLINE Arrays<T> run_stages(const Plan<T>& plan, Arrays<T> x, Arrays<T> y, T* terms, int64_t rows, bool is_real) {
  Stage<T> stage = {/*x=*/x,
                    /*y=*/y,
                    /*m=*/plan.n,
                    /*s=*/rows,
                    /*re=*/plan.roots_re.data(),
                    /*im=*/plan.roots_im.data(),
                    /*n=*/plan.n,
                    /*terms=*/terms,
                    /*is_real=*/is_real};
  for (const int64_t radix : plan.radices) {
    stage.m /= radix;
    if (radix > 5) {
      for (int64_t p = 0; p < stage.m; ++p) all_odd_butterflies<Wide, Narrow, T>(stage, radix, p);
    } else {
      all_butterflies<Wide, Narrow, T, false>(stage, radix, 0);
      for (int64_t p = 1; p < stage.m; ++p) all_butterflies<Wide, Narrow, T, true>(stage, radix, p);
    }
    stage.s *= radix;
    stage.is_real = false;
    std::swap(stage.x, stage.y);
  }
  return stage.x;
}

// Of real rows as half as many complex numbers, z: their transform Z becomes elements 0..m of that of the 2m real ones. The arrays of
// the result have m + 1 elements.
template <class V, class T>
TOROID_INLINE void split_halves(const Plan<T>& plan, Arrays<T> z, Arrays<T> out, int64_t rows, int64_t& q) {
  constexpr int64_t kWidth = sizeof(V) / sizeof(T);
  const int64_t m = plan.n;
  for (; q + kWidth <= rows; q += kWidth) {
    for (int64_t k = 0; k <= m / 2; ++k) {
      const int64_t a = k * rows + q, b = (k == 0 ? 0 : m - k) * rows + q, mirror = (m - k) * rows + q;
      const V a_re = load<V>(z.re + a), a_im = load<V>(z.im + a), b_re = load<V>(z.re + b), b_im = load<V>(z.im + b);
      const T half = T(0.5), c = plan.half_re[static_cast<size_t>(k)], d = plan.half_im[static_cast<size_t>(k)];
      const V even_re = (a_re + b_re) * half, even_im = (a_im - b_im) * half, odd_re = (a_im + b_im) * half, odd_im = (b_re - a_re) * half;
      const V turned_re = odd_re * c - odd_im * d, turned_im = odd_re * d + odd_im * c;
      store<V>(even_re + turned_re, out.re + a);
      store<V>(even_im + turned_im, out.im + a);
      store<V>(even_re - turned_re, out.re + mirror);
      store<V>(turned_im - even_im, out.im + mirror);
    }
  }
}

// The other way: elements 0..m of the transform become Z, for which z, transformed forward with its parts exchanged, holds 2m times the
// numbers.
template <class V, class T>
TOROID_INLINE void join_halves(const Plan<T>& plan, Arrays<T> x, Arrays<T> z, int64_t rows, int64_t& q) {
  constexpr int64_t kWidth = sizeof(V) / sizeof(T);
  const int64_t m = plan.n;
  for (; q + kWidth <= rows; q += kWidth) {
    for (int64_t k = 0; k < m; ++k) {
      const int64_t a = k * rows + q, b = (m - k) * rows + q;
      const V a_re = load<V>(x.re + a), a_im = load<V>(x.im + a), b_re = load<V>(x.re + b), b_im = load<V>(x.im + b);
      const T c = plan.half_re[static_cast<size_t>(k)], d = -plan.half_im[static_cast<size_t>(k)];
      const V gap_re = a_re - b_re, gap_im = a_im + b_im;
      const V turned_re = gap_re * c - gap_im * d, turned_im = gap_re * d + gap_im * c;
      store<V>(a_re + b_re - turned_im, z.re + a);
      store<V>(a_im - b_im + turned_re, z.im + a);
    }
  }
}

template <class Wide, class Narrow, class T>
TOROID_INLINE Arrays<T> compute(const Work<T>& work, bool is_from_half) {
  Arrays<T> x = work.x, y = work.y;
  const bool joins = work.is_packed && is_from_half;
  int64_t q = 0;
  if (joins) {
    in_vectors<Wide, Narrow, T>([&](auto vector) __attribute__((always_inline)) {
      join_halves<typename decltype(vector)::Type>(work.plan, x, y, work.rows, q);
    });
    x = {work.y.im, work.y.re};
    y = {work.x.im, work.x.re};
  }
  const Arrays<T> z = run_stages<Wide, Narrow, T>(work.plan, x, y, work.terms, work.rows, work.is_real);
  if (joins) return {z.im, z.re};
  if (!work.is_packed) return z;
  const Arrays<T> out = z.re == x.re ? y : x;
  in_vectors<Wide, Narrow, T>([&](auto vector) __attribute__((always_inline)) {
    split_halves<typename decltype(vector)::Type>(work.plan, z, out, work.rows, q);
  });
  return out;
}

typedef double Doubles8 __attribute__((vector_size(64)));
typedef double Doubles4 __attribute__((vector_size(32)));
typedef double Doubles2 __attribute__((vector_size(16)));

struct Region {
  int64_t row, end_row, column, end_column;
};

template <class T>
TOROID_INLINE void turn_elements(const Turn<T>& t, const Region& r) {
  for (int64_t l = r.row; l < r.end_row; ++l) {
    for (int64_t j = r.column; j < r.end_column; ++j) t.to[j * t.to_row + l] = t.from[l * t.from_row + j];
  }
}

// The squares of this side that fit; then the rows below them and the columns beside them by `rest`.
template <class Vector, class Integers, class Rest>
TOROID_INLINE void turn_squares(const Turn<float>& t, const Region& r, Rest rest) {
  constexpr int64_t kSide = sizeof(Vector) / sizeof(float);
  const int64_t row = r.end_row - (r.end_row - r.row) % kSide, column = r.end_column - (r.end_column - r.column) % kSide;
  for (int64_t j = r.column; j < column; j += kSide) {
    for (int64_t l = r.row; l < row; l += kSide)
      turn<Vector, Integers>(t.from + l * t.from_row + j, t.from_row, t.to + j * t.to_row + l, t.to_row);
  }
  if (row < r.end_row && r.column < column) rest(t, {row, r.end_row, r.column, column});
  if (column < r.end_column) rest(t, {r.row, r.end_row, column, r.end_column});
}

template <class T>
TOROID_INLINE Region whole(const Turn<T>& t) {
  return {0, t.rows, 0, t.columns};
}

// x - x is 0 but for what is not finite, and so is the sum.
template <class V, class T>
TOROID_INLINE bool are_all_finite(const T* from, int64_t count) {
  constexpr int64_t kWidth = sizeof(V) / sizeof(T);
  V sums = V{};
  int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) {
    const V x = load<V>(from + i);
    sums += x - x;
  }
  T sum = 0;
  for (; i < count; ++i) sum += from[i] - from[i];
  T lanes[kWidth];
  store<V>(sums, lanes);
  for (const T lane : lanes) sum += lane;
  return sum == 0;
}

Arrays<float> floats_baseline(const Work<float>& work, bool is_from_half) { return compute<float, float>(work, is_from_half); }
Arrays<double> doubles_baseline(const Work<double>& work, bool is_from_half) { return compute<double, double>(work, is_from_half); }
bool finite_baseline(const float* from, int64_t count) { return are_all_finite<Vector4>(from, count); }
bool finite_doubles(const double* from, int64_t count) { return are_all_finite<Doubles2>(from, count); }
void turn_doubles(const Turn<double>& t) { turn_elements(t, whole(t)); }
void turn_by_4(const Turn<float>& t, const Region& r) { turn_squares<Vector4, Integers4>(t, r, turn_elements<float>); }
void turn_baseline(const Turn<float>& t) { turn_by_4(t, whole(t)); }
#ifdef __x86_64__
TOROID_AVX2 bool finite_avx2(const float* from, int64_t count) { return are_all_finite<Vector8>(from, count); }
TOROID_AVX512 bool finite_avx512(const float* from, int64_t count) { return are_all_finite<Vector16>(from, count); }
TOROID_AVX2 void turn_by_8(const Turn<float>& t, const Region& r) { turn_squares<Vector8, Integers8>(t, r, turn_by_4); }
TOROID_AVX2 void turn_avx2(const Turn<float>& t) { turn_by_8(t, whole(t)); }
TOROID_AVX512 void turn_avx512(const Turn<float>& t) { turn_squares<Vector16, Integers16>(t, whole(t), turn_by_8); }
TOROID_AVX2 Arrays<float> floats_avx2(const Work<float>& work, bool is_from_half) { return compute<Vector8, Vector4>(work, is_from_half); }
TOROID_AVX2 Arrays<double> doubles_avx2(const Work<double>& work, bool is_from_half) {
  return compute<Doubles4, Doubles2>(work, is_from_half);
}
TOROID_AVX512 Arrays<float> floats_avx512(const Work<float>& work, bool is_from_half) {
  return compute<Vector16, Vector4>(work, is_from_half);
}
TOROID_AVX512 Arrays<double> doubles_avx512(const Work<double>& work, bool is_from_half) {
  return compute<Doubles8, Doubles2>(work, is_from_half);
}
#endif

}  // namespace

template <class T>
Kernel<T> kernel_for_this_machine() {
  constexpr bool kIsFloat = sizeof(T) == sizeof(float);
#ifdef __x86_64__
  if constexpr (kIsFloat) {
    if (vector_set() == VectorSet::Avx512) return {floats_avx512, turn_avx512, finite_avx512, 16};
    if (vector_set() == VectorSet::Avx2) return {floats_avx2, turn_avx2, finite_avx2, 8};
  } else {
    if (vector_set() == VectorSet::Avx512) return {doubles_avx512, turn_doubles, finite_doubles, 8};
    if (vector_set() == VectorSet::Avx2) return {doubles_avx2, turn_doubles, finite_doubles, 4};
  }
#endif
  if constexpr (kIsFloat) {
    return {floats_baseline, turn_baseline, finite_baseline, 4};
  } else {
    return {doubles_baseline, turn_doubles, finite_doubles, 2};
  }
}

template Kernel<float> kernel_for_this_machine<float>();
template Kernel<double> kernel_for_this_machine<double>();

}  // namespace toroid::mixed_radix
