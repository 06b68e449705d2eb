#include "runtime/kernels/conv/backward_weights/depthwise.h"

#include <algorithm>
#include <cstring>

#include "runtime/kernels/gemm/packed_b.h"
#include "runtime/kernels/isa/vector_sets.h"
#include "runtime/kernels/registry/operands.h"
#include "runtime/memory/scratch.h"

namespace toroid {
namespace {

Scratch scratch_for_images;
Scratch scratch_for_gradients;
Scratch scratch_for_totals;

// Positions of a row of results, and where a tap of a filter's row sees them.
struct RowOfTaps {
  const float *x, *dy;      // of the block's first channel; x: what the first tap sees of position 0
  int64_t x_step, dy_step;  // from position to position
  int64_t tap_step;         // from tap to tap
  Range positions;          // that all these taps see inside of the image
};

// sums[tap][channel] of kTaps taps and kVectors vectors of channels.
template <class Vector, int kTaps, int kVectors>
TOROID_INLINE void add_row(const RowOfTaps& row, double* totals, int64_t total_row) {
  constexpr int kLanes = sizeof(Vector) / sizeof(float);
  Vector sums[kTaps][kVectors] = {};
  const float* x = row.x + row.positions.first * row.x_step;
  const float* dy = row.dy + row.positions.first * row.dy_step;
  for (int64_t i = row.positions.first; i < row.positions.last; ++i, x += row.x_step, dy += row.dy_step) {
    Vector of_dy[kVectors];
    std::memcpy(of_dy, dy, sizeof of_dy);
#pragma GCC unroll 8
    for (int tap = 0; tap < kTaps; ++tap) {
      Vector of_x[kVectors];
      std::memcpy(of_x, x + tap * row.tap_step, sizeof of_x);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[tap][v] += of_x[v] * of_dy[v];
    }
  }
  for (int tap = 0; tap < kTaps; ++tap) {
    float of_tap[kVectors * kLanes];
    std::memcpy(of_tap, sums[tap], sizeof of_tap);
    for (int c = 0; c < kVectors * kLanes; ++c) totals[tap * total_row + c] += static_cast<double>(of_tap[c]);
  }
}

using AddRow = void (*)(const RowOfTaps& row, double* totals, int64_t total_row);
struct DepthwiseLoops {
  int64_t lanes;
  AddRow one, three, five;  // taps, of so many vectors:
  static constexpr int64_t kVectorsOfOne = 4, kVectorsOfThree = 2, kVectorsOfFive = 2;
};
#define TOROID_DEPTHWISE_LOOPS(NAME, TARGET, VECTOR)                                                                            \
  struct NAME {                                                                                                                 \
    template <int kTaps, int kVectors>                                                                                          \
    TARGET static void add(const RowOfTaps& row, double* totals, int64_t total_row) {                                           \
      add_row<VECTOR, kTaps, kVectors>(row, totals, total_row);                                                                 \
    }                                                                                                                           \
    static constexpr DepthwiseLoops kLoops = {sizeof(VECTOR) / sizeof(float), add<1, DepthwiseLoops::kVectorsOfOne>,            \
                                              add<3, DepthwiseLoops::kVectorsOfThree>, add<5, DepthwiseLoops::kVectorsOfFive>}; \
  };
#ifdef __x86_64__
TOROID_DEPTHWISE_LOOPS(DepthwiseAvx512, TOROID_AVX512, Vector16)
TOROID_DEPTHWISE_LOOPS(DepthwiseAvx2, TOROID_AVX2, Vector8)
#endif
TOROID_DEPTHWISE_LOOPS(DepthwiseBaseline, , Vector4)
#undef TOROID_DEPTHWISE_LOOPS

const DepthwiseLoops& depthwise_loops() {
#ifdef __x86_64__
  if (vector_set() == VectorSet::Avx512) return DepthwiseAvx512::kLoops;
  if (vector_set() == VectorSet::Avx2) return DepthwiseAvx2::kLoops;
#endif
  return DepthwiseBaseline::kLoops;
}

class DepthwiseWeights final : public KernelPlan {
 public:
  DepthwiseWeights(const BackwardWeightsShape& shape, int threads) : s_(shape), loops_(depthwise_loops()) {
    const int64_t taps = s_.kernel[1];
    at_once_ = taps == 3 || taps == 5 ? taps : 1;
    add_ = taps == 3 ? loops_.three : taps == 5 ? loops_.five : loops_.one;
    const int64_t vectors = taps == 3   ? DepthwiseLoops::kVectorsOfThree
                            : taps == 5 ? DepthwiseLoops::kVectorsOfFive
                                        : DepthwiseLoops::kVectorsOfOne;
    block_ = vectors * loops_.lanes;
    // A block of channels is whole, or, of fewer channels, copied into one.
    channels_ = divide_up(s_.groups, block_) * block_;
    blocks_ = channels_ / block_;
    parts_ = std::clamp<int64_t>(divide_up(threads, blocks_), 1, s_.batch * s_.out[0]);
  }

  void run(const KernelCall& call) const override {
    const ImageStrides of_x = image_strides(call.inputs[0]), of_dy = image_strides(call.inputs[1]);
    ImageStrides x_strides = of_x, dy_strides = of_dy;
    const float* const x = with_channels_last(call.pool, data_of(call.inputs[0]), s_.in, x_strides, scratch_for_images);
    const float* const dy = with_channels_last(call.pool, data_of(call.inputs[1]), s_.out, dy_strides, scratch_for_gradients);
    const int64_t size = s_.taps() * channels_;
    double* const totals = scratch_for_totals.get<double>(parts_ * size);
    call.pool.parallel_for(parts_ * blocks_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t part = i % parts_, first = i / parts_ * block_;
        double* const to = totals + part * size + first;
        for (int64_t tap = 0; tap < s_.taps(); ++tap) std::fill_n(to + tap * channels_, block_, 0.0);
        const Range rows = part_of(s_.batch * s_.out[0], part, parts_);
        for (int64_t row = rows.first; row < rows.last; ++row) add_row_of_results(x + first, x_strides, dy + first, dy_strides, row, to);
      }
    });
    float* const dw = data_of(call.outputs[0]);
    for (int64_t c = 0; c < s_.groups; ++c) {
      for (int64_t tap = 0; tap < s_.taps(); ++tap) {
        double sum = 0;
        for (int64_t part = 0; part < parts_; ++part) sum += totals[part * size + tap * channels_ + c];
        dw[c * s_.taps() + tap] = static_cast<float>(sum);
      }
    }
  }

 private:
  // Images of these rows and columns as [image][row][column][channel], in whole blocks of channels; their strides become those.
  const float* with_channels_last(RuntimePool& pool, const float* from, const int64_t (&sizes)[2], ImageStrides& strides,
                                  Scratch& scratch) const {
    if (strides.channel == 1 && s_.groups == channels_) return from;
    const int64_t row = sizes[1] * channels_;
    float* const to = scratch.get(s_.batch * sizes[0] * row);
    pool.parallel_for(s_.batch * sizes[0], 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const float* const at = from + i / sizes[0] * strides.batch + i % sizes[0] * strides.row;
        if (s_.groups < channels_) std::fill_n(to + i * row, row, 0.0f);
        copy_rows({at, strides.column, strides.channel}, {0, sizes[1]}, {0, s_.groups}, to + i * row, channels_);
      }
    });
    strides = {sizes[0] * row, 1, row, channels_};
    return to;
  }

  void add_row_of_results(const float* x, const ImageStrides& x_strides, const float* dy, const ImageStrides& dy_strides, int64_t row,
                          double* totals) const {
    const int64_t image = row / s_.out[0], y = row % s_.out[0];
    const float* const of_dy = dy + image * dy_strides.batch + y * dy_strides.row;
    for (int64_t ky = 0; ky < s_.kernel[0]; ++ky) {
      const int64_t at = y * s_.stride[0] + ky * s_.dilation[0] - s_.padding[0];
      if (at < 0 || at >= s_.in[0]) continue;
      const float* const of_x = x + image * x_strides.batch + at * x_strides.row;
      for (int64_t kx = 0; kx < s_.kernel[1]; kx += at_once_) {
        RowOfTaps taps = {/*x=*/of_x + (kx * s_.dilation[1] - s_.padding[1]) * x_strides.column,
                          /*dy=*/of_dy,
                          /*x_step=*/s_.stride[1] * x_strides.column,
                          /*dy_step=*/dy_strides.column,
                          /*tap_step=*/s_.dilation[1] * x_strides.column,
                          /*positions=*/seen_by(kx)};
        for (int64_t i = kx + 1; i < kx + at_once_; ++i) {
          const Range seen = seen_by(i);
          taps.positions = {std::max(taps.positions.first, seen.first), std::min(taps.positions.last, seen.last)};
        }
        double* const to = totals + (ky * s_.kernel[1] + kx) * channels_;
        if (taps.positions.first < taps.positions.last) {
          add_(taps, to, channels_);
        } else {
          taps.positions = {0, 0};
        }
        for (int64_t i = 0; i < at_once_ && at_once_ > 1; ++i) add_edges(taps, i, seen_by(kx + i), to + i * channels_);
      }
    }
  }

  // Positions that see this column of the filter inside of the image.
  Range seen_by(int64_t kx) const { return indices_inside(kx * s_.dilation[1] - s_.padding[1], s_.stride[1], s_.out[1], s_.in[1]); }

  // What a tap sees besides what all see.
  void add_edges(const RowOfTaps& taps, int64_t tap, Range seen, double* totals) const {
    const auto add = [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const float *const x = taps.x + i * taps.x_step + tap * taps.tap_step, *const dy = taps.dy + i * taps.dy_step;
        for (int64_t c = 0; c < block_; ++c) totals[c] += static_cast<double>(x[c]) * static_cast<double>(dy[c]);
      }
    };
    add(seen.first, std::min(seen.last, taps.positions.first));
    add(std::max(seen.first, taps.positions.last), seen.last);
  }

  const BackwardWeightsShape s_;
  const DepthwiseLoops& loops_;
  AddRow add_;
  int64_t at_once_;           // taps of a row
  int64_t block_, channels_;  // channels of a block, and of all
  int64_t blocks_, parts_;    // of channels, and of rows of results
};

}  // namespace

std::unique_ptr<const KernelPlan> plan_depthwise_backward_weights(const BackwardWeightsShape& shape, int threads) {
  return std::make_unique<const DepthwiseWeights>(shape, threads);
}

}  // namespace toroid
