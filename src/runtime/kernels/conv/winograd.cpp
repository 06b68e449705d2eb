// A tile of m x m outputs sees (m + 2) x (m + 2) pixels. In each of as many points the transformed tiles, a row of channels each,
// are a matrix that meets that point's matrix of transformed filters: (m + 2)² products instead of the 9 m² of the direct method,
// so 4 times (m = 4) or 2.25 times (m = 2) fewer multiplications, but (m + 2)² / 9 times as many bytes of weights.
//
// A task has some rows of tiles, whole, so that what is behind it gets output positions that follow each other, and some panels of
// filters:
//
//   the tiles' pixels -> transformed, for all points   (once for all tasks if several of them share rows of tiles)
//   per panel:  a product for each point               (of `tiles` rows, all in the second-level cache)
//               transformed back, a row of tiles after the other -> the output or its epilogue
#include "runtime/kernels/conv/winograd.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/fields.h"
#include "runtime/kernels/conv/filter_layout.h"
#include "runtime/kernels/conv/winograd_transforms.h"
#include "runtime/kernels/gemm/bf16x3/gemm.h"
#include "runtime/kernels/gemm/macrokernel.h"
#include "runtime/kernels/registry/families.h"
#include "runtime/kernels/registry/packed_operand.h"
#include "runtime/memory/scratch.h"

namespace toroid {
namespace {

Scratch scratch_for_tiles;  // transformed
Scratch scratch_for_products;
Scratch scratch_for_outputs;

// Sizes of the work in tiles of m x m outputs.
struct Tiling {
  Tiling(const ConvolutionShape& s, int64_t outputs)
      : m(outputs),
        points((m + 2) * (m + 2)),
        rows_per_image(divide_up(s.out[1], m)),
        per_row(divide_up(s.out[2], m)),
        rows(s.batch * rows_per_image),
        panels(PackedB::panels(s.out_channels)),
        input_row(padded_stride(s.in_channels)) {}
  int64_t m, points;
  int64_t rows_per_image, per_row;  // rows of tiles, and the tiles of one
  int64_t rows;
  int64_t panels;
  int64_t input_row;  // floats of the place for a tile's channels in one point

  // Floats of the transformed tiles of so many rows.
  int64_t input_plane(int64_t count) const { return padded_stride(count * per_row * input_row); }
};

// The partition that is done first, if products take as long as their multiplications and, for each block, reading the weights.
Cut partition_of(const Tiling& tiling, int64_t threads) {
  constexpr int64_t kMostTiles = 32;
  constexpr int64_t kMostBytes = 5 << 19;   // of a block's transformed tiles
  constexpr int64_t kMostShared = 8 << 20;  // bytes of all transformed tiles that tasks share
  constexpr int64_t kTilesOfWeights = 6;    // products of so many tiles take as long as reading the weights
  const int64_t bytes = tiling.points * tiling.per_row * tiling.input_row * static_cast<int64_t>(sizeof(float));
  const int64_t most_rows = std::clamp<int64_t>(std::min(kMostTiles / tiling.per_row, kMostBytes / bytes), 1, tiling.rows);
  Cut best = {tiling.rows, 1};
  int64_t least = INT64_MAX;
  for (int64_t rows = most_rows; rows >= std::max<int64_t>(1, most_rows / 4); --rows) {
    for (const int64_t groups : {int64_t{1}, std::min(threads, tiling.panels), tiling.panels}) {
      if (groups > 1 && bytes * tiling.rows > kMostShared) continue;
      // As many more blocks as leave no thread without one, if there are enough of them.
      int64_t blocks = divide_up(tiling.rows, rows);
      if (groups == 1) blocks = std::min(divide_up(blocks, threads) * threads, tiling.rows);
      const int64_t tiles = divide_up(tiling.rows, blocks) * tiling.per_row;
      const int64_t rounds = divide_up(blocks * groups, threads);
      const int64_t time = rounds * divide_up(tiling.panels, groups) * (tiles + kTilesOfWeights);
      if (time >= least) continue;
      least = time;
      best = {blocks, groups};
    }
  }
  return best;
}

class WinogradConvolver final : public KernelPlan {
 public:
  WinogradConvolver(const KernelCall& call, const ConvolutionShape& s, int64_t outputs)
      : s_(s),
        transforms_(winograd_transforms(outputs)),
        tiling_(s, outputs),
        cut_(partition_of(tiling_, call.pool.threads())),
        fetches_(pays_to_fetch(weights_size() * int64_t{sizeof(float)} / cut_.groups, cut_.blocks / call.pool.threads())),
        strides_(image_strides(call.inputs[0])),
        zeros_(static_cast<size_t>(s.in_channels)),
        weights_(call, 1, TransformedFilters{outputs, filter_layout(call.inputs[1], s)}, weights_size(),
                 [this](const KernelCall& each, int64_t, float* to) { transform_filters(each, to); }) {}

  void run(const KernelCall& call) const override {
    const int64_t blocks = cut_.blocks, groups = cut_.groups;
    const float* const weights = weights_.of(call);
    float* shared = nullptr;
    if (groups > 1) {
      const int64_t all_points = tiling_.points * (tiling_.rows * tiling_.per_row * tiling_.input_row + blocks * kCacheLine);
      shared = scratch_for_tiles.get(all_points);
      call.pool.parallel_for(tiling_.rows, 1, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          int64_t block = row * blocks / tiling_.rows;
          while (first_row(block + 1) <= row) ++block;
          transform_row(call, row, row - first_row(block), input_of(shared, block), plane_of(block));
        }
      });
    }
    call.pool.parallel_for(blocks * groups, 1, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t block = task % blocks, group = task / blocks;  // tasks that follow each other share weights
        float* input = shared;
        if (shared != nullptr) {
          input = input_of(shared, block);
        } else {
          input = scratch_for_tiles.get(tiling_.points * plane_of(block));
          for (int64_t row = first_row(block); row < first_row(block + 1); ++row) {
            transform_row(call, row, row - first_row(block), input, plane_of(block));
          }
        }
        for (int64_t panel = tiling_.panels * group / groups; panel < tiling_.panels * (group + 1) / groups; ++panel) {
          run_panel(call, weights, block, panel, input);
        }
      }
    });
  }

 private:
  int64_t first_row(int64_t block) const { return tiling_.rows * block / cut_.blocks; }
  int64_t plane_of(int64_t block) const { return tiling_.input_plane(first_row(block + 1) - first_row(block)); }
  float* input_of(float* shared, int64_t block) const {
    return shared + tiling_.points * (first_row(block) * tiling_.per_row * tiling_.input_row + block * kCacheLine);
  }

  int64_t weights_size() const { return tiling_.points * PackedB::size(s_.in_channels, s_.out_channels); }

  // As [panel, point, channel, filter of the panel]: each panel's part is a packed matrix per point.
  struct TransformedFilters {
    int64_t tile;
    FilterLayout filters;
    TOROID_COMPARED_FIELDS(TransformedFilters, tile, filters)
  };
  void transform_filters(const KernelCall& call, float* to) const {
    call.pool.parallel_for(tiling_.panels * s_.in_channels, 8, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) transform_filters(call.inputs[1], i / s_.in_channels, i % s_.in_channels, to);
    });
  }

  PackedB shape_of_weights() const { return {s_.in_channels, s_.out_channels, nullptr}; }
  const float* panel_of_weights(const float* weights, int64_t panel) const {
    return weights + shape_of_weights().first_column(panel) * s_.in_channels * tiling_.points;
  }

  // For one channel of a panel's filters.
  void transform_filters(const ToroidOperand& w, int64_t panel, int64_t channel, float* to) const {
    constexpr int64_t kMostWidth = int64_t{GemmMicrokernels::kMostVectors} * 16;  // of the widest vectors
    constexpr int64_t kElements = 9, kMostPoints = WinogradTransforms::kMostPoints * WinogradTransforms::kMostPoints;
    const int64_t width = shape_of_weights().width(panel), column = shape_of_weights().first_column(panel);
    const int64_t count = std::min(width, s_.out_channels - column);
    float filters[kElements * kMostWidth];
    if (count < width) std::fill_n(filters, kElements * width, 0.0f);
    const float* from = data_of(w) + column * w.strides[0] + channel * w.strides[1];
    for (int64_t j = 0; j < count; ++j, from += w.strides[0]) {
      for (int64_t a = 0; a < 3; ++a) {
        for (int64_t b = 0; b < 3; ++b) filters[(3 * a + b) * width + j] = from[a * w.strides[2] + b * w.strides[3]];
      }
    }
    // Here first: the places of `to` lie so far apart that they share sets of the cache.
    float result[kMostPoints * kMostWidth];
    transforms_.filters(filters, width, result);
    to += column * s_.in_channels * tiling_.points + channel * width;
    for (int64_t point = 0; point < tiling_.points; ++point) {
      std::memcpy(to + point * s_.in_channels * width, result + point * width, static_cast<size_t>(width) * sizeof(float));
    }
  }

  // A row of tiles, the `at`-th of those at `input`. What lies beyond the image is zero.
  void transform_row(const KernelCall& call, int64_t row, int64_t at, float* input, int64_t plane) const {
    const float* image = data_of(call.inputs[0]) + row / tiling_.rows_per_image * strides_.batch;
    const int64_t top = row % tiling_.rows_per_image * tiling_.m - s_.padding[1];
    const float* pixels[WinogradTransforms::kMostPoints * WinogradTransforms::kMostPoints];
    for (int64_t tile = 0; tile < tiling_.per_row; ++tile) {
      const int64_t left = tile * tiling_.m - s_.padding[2];
      const float** pixel = pixels;
      for (int64_t i = top; i < top + transforms_.points; ++i) {
        for (int64_t j = left; j < left + transforms_.points; ++j) {
          const bool is_inside = i >= 0 && i < s_.in[1] && j >= 0 && j < s_.in[2];
          *pixel++ = is_inside ? image + i * strides_.row + j * strides_.column : zeros_.data();
        }
      }
      transforms_.input(pixels, s_.in_channels, input + (at * tiling_.per_row + tile) * tiling_.input_row, plane);
    }
  }

  void run_panel(const KernelCall& call, const float* weights, int64_t block, int64_t panel, const float* input) const {
    const Range rows = {first_row(block), first_row(block + 1)};
    const int64_t tiles = rows.size() * tiling_.per_row, input_plane = plane_of(block);
    const int64_t width = shape_of_weights().width(panel);
    const int64_t plane = padded_stride(tiles * width);
    float* products = scratch_for_products.get(tiling_.points * plane);
    std::vector<const float*> pointers;
    pointers.reserve(static_cast<size_t>(tiles));
    for (int64_t tile = 0; tile < tiles; ++tile) pointers.push_back(input + tile * tiling_.input_row);
    for (int64_t point = 0; point < tiling_.points; ++point) {
      const PackedB filters = {s_.in_channels, width, panel_of_weights(weights, panel) + point * s_.in_channels * width};
      multiply_rows(filters, 0, 1, RowElements(point * input_plane, s_.in_channels), pointers, 0,
                    {products + point * plane, width, nullptr}, {fetches_, filters.data + filters.depth * width});
    }
    for (int64_t row = rows.first; row < rows.last; ++row) {
      give_row(call, row, panel, products + (row - rows.first) * tiling_.per_row * width, plane);
    }
  }

  // The outputs of a row of tiles, in the filters of a panel.
  void give_row(const KernelCall& call, int64_t row, int64_t panel, const float* products, int64_t plane) const {
    const int64_t width = shape_of_weights().width(panel), column = shape_of_weights().first_column(panel);
    const int64_t columns = std::min(width, s_.out_channels - column);
    const int64_t top = row % tiling_.rows_per_image * tiling_.m;
    const int64_t height = std::min(tiling_.m, s_.out[1] - top);
    const int64_t first = (row / tiling_.rows_per_image * s_.out[1] + top) * s_.out[2], count = height * s_.out[2];
    const bool is_direct = call.epilogue == nullptr && columns == width;
    const int64_t stride = is_direct ? s_.out_channels : width;
    float* to = is_direct ? data_of(call.outputs[0]) + first * stride + column : scratch_for_outputs.get(count * width);
    for (int64_t tile = 0; tile < tiling_.per_row; ++tile) {
      const int64_t left = tile * tiling_.m;
      transforms_.output(products + tile * width, plane, width, height, std::min(tiling_.m, s_.out[2] - left), to + left * stride,
                         s_.out[2] * stride, stride);
    }
    if (is_direct) return;
    output_of(call, s_.out_channels).take(to, width, {first, first + count}, {column, column + columns});
  }

  ConvolutionShape s_;
  const WinogradTransforms& transforms_;
  Tiling tiling_;
  Cut cut_;       // of rows of tiles, and panels
  bool fetches_;  // weights ahead
  ImageStrides strides_;
  std::vector<float> zeros_;  // a pixel beyond the image
  PackedOperand weights_;
};

}  // namespace

double time_by_winograd(const ConvolutionShape& s, int64_t tile, const WinogradEstimate& with) {
  const double filters = static_cast<double>(s.in_channels * s.out_channels),
               channels = static_cast<double>(s.in_channels + s.out_channels);
  const double per_cycle = gemm_microkernels().lanes * static_cast<double>(with.threads);
  // In cycles, products at one vector a cycle: so are they measured, like the other figures, on a machine with AVX-512
  // (docs/runtime.md).
  auto cycles = [&](double products, double others, double points, double bytes) {
    constexpr double kPerByte = 0.23, kMostReaders = 8;  // of weights, by one thread; more than so many are not served faster
    const double reading = points * filters * bytes * kPerByte / std::min(kMostReaders, static_cast<double>(with.threads));
    return overlapped_s(products * filters / per_cycle, reading, with.hidden) +
           others / per_cycle;  // cycles are no seconds, but add up as these do
  };
  constexpr double kGain = 0.9;  // of the direct method's time: for less the error is not worth it
  // Products in parts are so many times as fast, of 6 bytes a weight: on more threads less so, by half of what long products lose.
  const double parts = 2 / ((1 + slowdown_of_parts(with.threads)) / 2);
  constexpr double kPack = 7;  // for a filter's element that is packed in each call, by one thread: half of it memory
  const auto of_direct = static_cast<double>(9 * s.batch * s.out_elements());
  const double packing = with.keeps_weights ? 0 : kPack * 9 * filters / static_cast<double>(with.threads);
  const double direct = kGain * (packing + (with.in_parts ? cycles(of_direct / parts, 0, 9, 6) : cycles(of_direct, 0, 9, 4)));
  constexpr double kTransform = 6;  // per point and vector, of tiles and of products
  constexpr double kFilter = 8;     // per point of a filter, as kPack
  const Tiling tiling(s, tile);
  const auto points = static_cast<double>(tiling.points), tiles = static_cast<double>(tiling.rows * tiling.per_row);
  const double others =
      kTransform * points * tiles * channels + (with.keeps_weights ? 0 : kFilter * points * filters * gemm_microkernels().lanes);
  return cycles(points * tiles, others, points, 4) / direct;
}

std::unique_ptr<const KernelPlan> plan_winograd(const KernelCall& call, int64_t tile) {
  const ConvolutionShape shape = convolution_shape(call);
  if (auto plan = plan_without_sums(shape)) return plan;
  return std::make_unique<const WinogradConvolver>(call, shape, tile);
}

}  // namespace toroid
