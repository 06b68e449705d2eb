#include "runtime/kernels/conv/winograd_transforms.h"

#include <algorithm>
#include <cstring>

#include "runtime/kernels/isa/vector_sets.h"

namespace toroid {
namespace winograd_levels {

// 1-D transforms by the number of outputs.
template <int kOutputs>
struct Tile;

template <>
struct Tile<2> {
  static constexpr int kOutputs = 2, kPoints = 4;
  static constexpr double kFilter[kPoints][3] = {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};

  template <class Vector>
  TOROID_INLINE static void input(const Vector (&d)[kPoints], Vector (&out)[kPoints]) {
    out[0] = d[0] - d[2];
    out[1] = d[2] + d[1];
    out[2] = d[2] - d[1];
    out[3] = d[3] - d[1];
  }
  template <class Vector>
  TOROID_INLINE static void output(const Vector (&m)[kPoints], Vector (&out)[kOutputs]) {
    out[0] = m[0] + (m[1] + m[2]);
    out[1] = (m[1] - m[2]) + m[3];
  }
};

template <>
struct Tile<4> {
  static constexpr int kOutputs = 4, kPoints = 6;
  static constexpr double kRoot = 1.4142135623730950488;  // of 2
  static constexpr double kFilter[kPoints][3] = {{1, 0, 0},
                                                 {-2.0 / 3, -kRoot / 3, -1.0 / 3},
                                                 {-2.0 / 3, kRoot / 3, -1.0 / 3},
                                                 {1.0 / 6, kRoot / 6, 1.0 / 3},
                                                 {1.0 / 6, -kRoot / 6, 1.0 / 3},
                                                 {0, 0, 1}};
  static constexpr float kA = static_cast<float>(kRoot / 2), kB = static_cast<float>(kRoot);

  template <class Vector>
  TOROID_INLINE static void input(const Vector (&d)[kPoints], Vector (&out)[kPoints]) {
    const Vector even_a = d[4] - 2.0f * d[2], odd_a = d[3] - 2.0f * d[1];
    const Vector even_b = d[4] - 0.5f * d[2], odd_b = d[3] - 0.5f * d[1];
    out[0] = (d[0] + d[4]) - 2.5f * d[2];
    out[1] = even_a + kA * odd_a;
    out[2] = even_a - kA * odd_a;
    out[3] = even_b + kB * odd_b;
    out[4] = even_b - kB * odd_b;
    out[5] = (d[1] + d[5]) - 2.5f * d[3];
  }
  template <class Vector>
  TOROID_INLINE static void output(const Vector (&m)[kPoints], Vector (&out)[kOutputs]) {
    const Vector sum_a = m[1] + m[2], difference_a = m[1] - m[2];
    const Vector sum_b = m[3] + m[4], difference_b = m[3] - m[4];
    out[0] = m[0] + sum_a + sum_b;
    out[1] = kA * difference_a + kB * difference_b;
    out[2] = 0.5f * sum_a + 2.0f * sum_b;
    out[3] = m[5] + (kA / 2) * difference_a + (kB * 2) * difference_b;
  }
};

}  // namespace winograd_levels

namespace {

template <class Vector, class Tile>
TOROID_INLINE void transform_input(const float* const* pixels, int64_t channels, float* out, int64_t plane) {
  constexpr int kLanes = sizeof(Vector) / sizeof(float);
  constexpr int kPoints = Tile::kPoints;
  for (int64_t next = 0; next < channels; next += kLanes) {
    const int64_t c = std::min(next, channels - kLanes);  // some of the last vector's channels are there already
    Vector half[kPoints][kPoints];
    for (int j = 0; j < kPoints; ++j) {
      Vector d[kPoints], column[kPoints];
#pragma GCC unroll 8
      for (int i = 0; i < kPoints; ++i) std::memcpy(&d[i], pixels[i * kPoints + j] + c, sizeof d[i]);
      Tile::input(d, column);
#pragma GCC unroll 8
      for (int i = 0; i < kPoints; ++i) half[i][j] = column[i];
    }
    for (int i = 0; i < kPoints; ++i) {
      Vector row[kPoints];
      Tile::input(half[i], row);
#pragma GCC unroll 8
      for (int j = 0; j < kPoints; ++j) std::memcpy(out + (i * kPoints + j) * plane + c, &row[j], sizeof row[j]);
    }
  }
}

// In double precision. G is a constant of the loops, so that products with its zeros are left out.
template <class Vector, class Tile>
TOROID_INLINE void transform_filters(const float* filters, int64_t width, float* out) {
  using Doubles = typename VectorOfBytes<double, sizeof(Vector)>::Type;
  using Floats = typename VectorOfBytes<float, sizeof(Vector) / 2>::Type;
  constexpr int kLanes = sizeof(Doubles) / sizeof(double), kPoints = Tile::kPoints;
  const auto transformed = [](const Doubles(&g)[3], Doubles(&to)[kPoints]) __attribute__((always_inline)) {
#pragma GCC unroll 8
    for (int i = 0; i < kPoints; ++i) {
      const double* const row = Tile::kFilter[i];
      Doubles sum = row[0] * g[0];
      if (row[1] != 0) sum += row[1] * g[1];
      if (row[2] != 0) sum += row[2] * g[2];
      to[i] = sum;
    }
  };
  for (int64_t j = 0; j < width; j += kLanes) {
    Doubles half[kPoints][3];
#pragma GCC unroll 4
    for (int b = 0; b < 3; ++b) {
      Doubles g[3], column[kPoints];
#pragma GCC unroll 4
      for (int a = 0; a < 3; ++a) {
        Floats x;
        std::memcpy(&x, filters + (3 * a + b) * width + j, sizeof x);
        g[a] = __builtin_convertvector(x, Doubles);
      }
      transformed(g, column);
#pragma GCC unroll 8
      for (int i = 0; i < kPoints; ++i) half[i][b] = column[i];
    }
    for (int i = 0; i < kPoints; ++i) {
      Doubles row[kPoints];
      transformed(half[i], row);
#pragma GCC unroll 8
      for (int k = 0; k < kPoints; ++k) {
        const Floats x = __builtin_convertvector(row[k], Floats);
        std::memcpy(out + (i * kPoints + k) * width + j, &x, sizeof x);
      }
    }
  }
}

template <class Vector, class Tile>
TOROID_INLINE void transform_output(const float* products, int64_t plane, int64_t width, int64_t rows, int64_t columns, float* out,
                                    int64_t out_row, int64_t out_column) {
  constexpr int kLanes = sizeof(Vector) / sizeof(float);
  constexpr int kPoints = Tile::kPoints, kOutputs = Tile::kOutputs;
  for (int64_t at = 0; at < width; at += kLanes) {
    Vector half[kOutputs][kPoints];
    for (int j = 0; j < kPoints; ++j) {
      Vector m[kPoints], column[kOutputs];
#pragma GCC unroll 8
      for (int i = 0; i < kPoints; ++i) std::memcpy(&m[i], products + (i * kPoints + j) * plane + at, sizeof m[i]);
      Tile::output(m, column);
#pragma GCC unroll 8
      for (int i = 0; i < kOutputs; ++i) half[i][j] = column[i];
    }
    for (int64_t y = 0; y < rows; ++y) {
      Vector row[kOutputs];
      Tile::output(half[y], row);
#pragma GCC unroll 8
      for (int x = 0; x < kOutputs; ++x) {
        if (x < columns) std::memcpy(out + y * out_row + x * out_column + at, &row[x], sizeof row[x]);
      }
    }
  }
}

#define TOROID_TRANSFORMS(NAME, VECTOR, ...)                                                                                       \
  template <class Tile>                                                                                                            \
  struct NAME {                                                                                                                    \
    __VA_ARGS__ static void filters(const float* filters, int64_t width, float* out) {                                             \
      transform_filters<VECTOR, Tile>(filters, width, out);                                                                        \
    }                                                                                                                              \
    __VA_ARGS__ static void input(const float* const* pixels, int64_t channels, float* out, int64_t plane) {                       \
      transform_input<VECTOR, Tile>(pixels, channels, out, plane);                                                                 \
    }                                                                                                                              \
    __VA_ARGS__ static void output(const float* products, int64_t plane, int64_t width, int64_t rows, int64_t columns, float* out, \
                                   int64_t out_row, int64_t out_column) {                                                          \
      transform_output<VECTOR, Tile>(products, plane, width, rows, columns, out, out_row, out_column);                             \
    }                                                                                                                              \
    static constexpr WinogradTransforms kAll = {Tile::kOutputs, Tile::kPoints, &NAME::filters, &NAME::input, &NAME::output};       \
  };

}  // namespace

namespace winograd_levels {

TOROID_TRANSFORMS(Baseline, Vector4, TOROID_BASELINE)
#ifdef __x86_64__
TOROID_TRANSFORMS(Avx2, Vector8, TOROID_AVX2)
TOROID_TRANSFORMS(Avx512, Vector16, TOROID_AVX512)
#endif

}  // namespace winograd_levels

using namespace winograd_levels;

const WinogradTransforms& winograd_transforms(int64_t outputs) {
#ifdef __x86_64__
  if (vector_set() == VectorSet::Avx512) return outputs == 2 ? Avx512<Tile<2>>::kAll : Avx512<Tile<4>>::kAll;
  if (vector_set() == VectorSet::Avx2) return outputs == 2 ? Avx2<Tile<2>>::kAll : Avx2<Tile<4>>::kAll;
#endif
  return outputs == 2 ? Baseline<Tile<2>>::kAll : Baseline<Tile<4>>::kAll;
}

}  // namespace toroid
