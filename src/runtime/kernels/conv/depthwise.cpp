// The plane is copied with its zeros around it, and with columns that are a stride apart next to each other: so every filter element
// meets a run of contiguous columns, and all elements are summed in registers.
#include "runtime/kernels/conv/depthwise.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/machine/per_thread.h"
#include "runtime/kernels/isa/vector_sets.h"

namespace toroid {
namespace {

constexpr int64_t kSlack = 64;  // columns that whole vectors may read beyond the last

// The copy: row i holds `stride` runs, run r the columns r, r + stride, r + 2 * stride, …
struct Runs {
  int64_t rows, run_length, row_length;
};

Runs runs_of(const PlaneConvolution& s) {
  const int64_t rows = (s.out[0] - 1) * s.stride[0] + (s.kernel[0] - 1) * s.dilation[0] + 1;
  const int64_t run_length = s.out[1] + (s.kernel[1] - 1) * s.dilation[1] / s.stride[1] + 1 + kSlack;
  return {rows, run_length, run_length * s.stride[1]};
}

void copy_runs(const PlaneConvolution& s, const Runs& runs, const float* in, float* copy) {
  const int64_t stride = s.stride[1];
  for (int64_t i = 0; i < runs.rows; ++i) {
    float* to = copy + i * runs.row_length;
    std::fill_n(to, runs.row_length, 0.0f);
    const int64_t row = i - s.padding[0];
    if (row < 0 || row >= s.in[0]) continue;
    const float* from = in + row * s.in[1];
    for (int64_t r = 0; r < stride; ++r) {
      // Column r + j * stride of the padded row; those from which some output reads, and that are there.
      const int64_t first = std::max<int64_t>(0, (s.padding[1] - r + stride - 1) / stride);
      const int64_t last = std::min(runs.run_length - kSlack, (s.in[1] + s.padding[1] - r + stride - 1) / stride);
      float* run = to + r * runs.run_length;
      if (stride == 1 && first < last) {
        std::memcpy(run + first, from + first - s.padding[1], static_cast<size_t>(last - first) * sizeof(float));
      } else {
        for (int64_t j = first; j < last; ++j) run[j] = from[r + j * stride - s.padding[1]];
      }
    }
  }
}

template <class Vector>
TOROID_INLINE void convolve(const PlaneConvolution& s, const Runs& runs, const float* copy, const float* filter, float* out) {
  constexpr int kLanes = sizeof(Vector) / sizeof(float);
  constexpr int kVectors = 2;
  static_assert(kVectors * kLanes <= kSlack);
  for (int64_t o0 = 0; o0 < s.out[0]; ++o0) {
    float* row = out + o0 * s.out[1];
    for (int64_t o1 = 0; o1 < s.out[1]; o1 += kVectors * kLanes) {
      Vector sums[kVectors] = {};
      const float* weight = filter;
      for (int64_t k0 = 0; k0 < s.kernel[0]; ++k0) {
        const float* line = copy + (o0 * s.stride[0] + k0 * s.dilation[0]) * runs.row_length + o1;
        for (int64_t k1 = 0; k1 < s.kernel[1]; ++k1, ++weight) {
          const int64_t column = k1 * s.dilation[1];
          const float* from = line + column % s.stride[1] * runs.run_length + column / s.stride[1];
#pragma GCC unroll 4
          for (int v = 0; v < kVectors; ++v) {
            Vector x;
            std::memcpy(&x, from + v * kLanes, sizeof x);
            sums[v] += *weight * x;
          }
        }
      }
      const int64_t count = std::min<int64_t>(kVectors * kLanes, s.out[1] - o1);
      float old[kVectors * kLanes] = {};
      std::memcpy(old, row + o1, static_cast<size_t>(count) * sizeof(float));
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        Vector x;
        std::memcpy(&x, old + v * kLanes, sizeof x);
        x += sums[v];
        std::memcpy(old + v * kLanes, &x, sizeof x);
      }
      std::memcpy(row + o1, old, static_cast<size_t>(count) * sizeof(float));
    }
  }
}

using Convolve = void (*)(const PlaneConvolution&, const Runs&, const float* copy, const float* filter, float* out);
void convolve_baseline(const PlaneConvolution& s, const Runs& runs, const float* copy, const float* filter, float* out) {
  convolve<Vector4>(s, runs, copy, filter, out);
}
#ifdef __x86_64__
TOROID_AVX2 void convolve_avx2(const PlaneConvolution& s, const Runs& runs, const float* copy, const float* filter, float* out) {
  convolve<Vector8>(s, runs, copy, filter, out);
}
TOROID_AVX512 void convolve_avx512(const PlaneConvolution& s, const Runs& runs, const float* copy, const float* filter, float* out) {
  convolve<Vector16>(s, runs, copy, filter, out);
}
#endif

Convolve chosen() {
#ifdef __x86_64__
  if (vector_set() == VectorSet::Avx512) return convolve_avx512;
  if (vector_set() == VectorSet::Avx2) return convolve_avx2;
#endif
  return convolve_baseline;
}

}  // namespace

void convolve_plane_f32(const PlaneConvolution& shape, const float* in, const float* filter, float* out) {
  if (shape.out[0] <= 0 || shape.out[1] <= 0) return;
  static PerThread<std::vector<float>> of_threads;
  std::vector<float>& copy = of_threads.get();
  const Runs runs = runs_of(shape);
  copy.resize(std::max(copy.size(), static_cast<size_t>(runs.rows * runs.row_length)));
  copy_runs(shape, runs, in, copy.data());
  chosen()(shape, runs, copy.data(), filter, out);
}

}  // namespace toroid
