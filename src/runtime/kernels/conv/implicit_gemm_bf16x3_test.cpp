// Convolutions in parts, as wholes of a band and row by row, beside sums in double.
#include "runtime/kernels/conv/implicit_gemm_bf16x3.h"

#include <cmath>

#include <gtest/gtest.h>

#include "runtime/kernels/conv/conv.h"
#include "runtime/kernels/isa/on_machines_for_test.h"
#include "runtime/kernels/sums_for_test.h"
#include "runtime/memory/scratch.h"

namespace toroid {
namespace {

struct SplitCase {
  const char* name;
  int64_t batch, groups, in_channels, out_channels, height, width;  // channels of a group
  int64_t kernel[2], stride[2], padding[2], dilation[2];
};

const SplitCase kSplitCases[] = {
    {"3x3", 1, 1, 64, 64, 20, 23, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {"two images, columns beyond a panel", 2, 1, 32, 150, 13, 9, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {"one image row", 1, 1, 64, 128, 1, 150, {1, 5}, {1, 1}, {0, 2}, {1, 1}},
    {"dilated", 1, 1, 64, 80, 17, 17, {3, 3}, {1, 1}, {2, 2}, {2, 2}},
    {"uneven padding", 1, 1, 32, 96, 15, 16, {3, 5}, {1, 1}, {0, 3}, {1, 1}},
    {"deep", 1, 1, 512, 70, 7, 7, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {"strides", 1, 1, 64, 128, 21, 22, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
    {"channels that are no steps", 1, 1, 40, 150, 18, 18, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {"groups", 1, 3, 32, 96, 16, 16, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {"pointwise", 2, 1, 24, 144, 14, 14, {1, 1}, {1, 1}, {0, 0}, {1, 1}},
    {"pointwise with strides", 1, 1, 64, 128, 27, 27, {1, 1}, {2, 2}, {0, 0}, {1, 1}},
    {"images of few positions", 11, 1, 96, 150, 4, 5, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {"strided images of few positions", 9, 1, 64, 96, 9, 7, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
    {"pointwise images of few positions", 9, 1, 64, 96, 9, 7, {1, 1}, {2, 2}, {0, 0}, {1, 1}},
};

// A call of "convolution" in float32 with channels next to each other and constant weights.
struct SplitConvolution {
  explicit SplitConvolution(const SplitCase& row) : c(row) {
    const int64_t channels = c.groups * c.in_channels;
    for (int64_t d : {0, 1}) {
      out[d] = ((d == 0 ? c.height : c.width) + 2 * c.padding[d] - c.dilation[d] * (c.kernel[d] - 1) - 1) / c.stride[d] + 1;
    }
    x_sizes = {c.batch, channels, c.height, c.width};
    x_strides = {channels * c.height * c.width, 1, channels * c.width, channels};
    w_sizes = {filters(), c.in_channels, c.kernel[0], c.kernel[1]};
    w_strides = {c.in_channels * c.kernel[0] * c.kernel[1], c.kernel[0] * c.kernel[1], c.kernel[1], 1};
    y_sizes = {c.batch, filters(), out[0], out[1]};
    y_strides = {filters() * out[0] * out[1], 1, filters() * out[1], filters()};
    integers = {0, c.groups, c.stride[0], c.stride[1], c.padding[0], c.padding[1], c.dilation[0], c.dilation[1], 0, 0};
    x.resize(static_cast<size_t>(c.batch * channels * c.height * c.width));
    w.resize(static_cast<size_t>(filters() * w_strides[0]));
    uint32_t seed = 1;
    for (std::vector<float>* values : {&x, &w}) {
      for (float& value : *values) {
        seed = seed * 1664525u + 1013904223u;
        value = static_cast<float>(static_cast<int32_t>(seed)) * 0x1p-31f;
      }
    }
  }

  int64_t filters() const { return c.groups * c.out_channels; }

  // As filters of a convolution from these channels to those, each from its last element to its first: without groups.
  void flip_filters() {
    const int64_t elements = c.kernel[0] * c.kernel[1];
    w_strides = {elements, filters() * elements, -c.kernel[1], -1};
    first_of_w = elements - 1;
  }

  template <class F>
  void with_call(int threads, F f) {
    RuntimePool pool(threads);
    PreparedConstants prepared;
    y.assign(static_cast<size_t>(c.batch * filters() * out[0] * out[1]), std::nanf(""));
    const auto dtype = static_cast<int32_t>(DType::F32);
    const ToroidOperand inputs[] = {{x.data(), x_sizes.data(), x_strides.data(), 4, dtype, 0},
                                    {w.data() + first_of_w, w_sizes.data(), w_strides.data(), 4, dtype, keeps_weights ? 1 : 0}};
    const ToroidOperand output = {y.data(), y_sizes.data(), y_strides.data(), 4, dtype, 0};
    f(KernelCall{pool, inputs, {&output, 1}, integers, {}, nullptr, &prepared});
  }

  // Element k of filter o as one row of channels.
  std::vector<float> rows_of_filters() const {
    const int64_t elements = c.kernel[0] * c.kernel[1];
    std::vector<float> rows(w.size());
    for (int64_t o = 0; o < filters(); ++o) {
      for (int64_t k = 0; k < elements; ++k) {
        const float* const from =
            w.data() + first_of_w + o * w_strides[0] + k / c.kernel[1] * w_strides[2] + k % c.kernel[1] * w_strides[3];
        for (int64_t i = 0; i < c.in_channels; ++i) {
          rows[static_cast<size_t>((o * elements + k) * c.in_channels + i)] = from[i * w_strides[1]];
        }
      }
    }
    return rows;
  }

  // Compares all elements of y. Not finite: NaN or the same infinity.
  void check() const {
    const std::vector<float> rows = rows_of_filters();
    for (int64_t n = 0; n < c.batch; ++n) {
      for (int64_t o = 0; o < filters(); ++o) {
        for (int64_t i = 0; i < out[0] * out[1]; ++i) {
          SumInDouble terms;
          for (int64_t k = 0; k < c.kernel[0] * c.kernel[1]; ++k) {
            const int64_t row = i / out[1] * c.stride[0] - c.padding[0] + k / c.kernel[1] * c.dilation[0];
            const int64_t column = i % out[1] * c.stride[1] - c.padding[1] + k % c.kernel[1] * c.dilation[1];
            if (row < 0 || row >= c.height || column < 0 || column >= c.width) continue;
            const int64_t at = n * x_strides[0] + o / c.out_channels * c.in_channels + row * x_strides[2] + column * x_strides[3];
            const float* const filter = rows.data() + (o * c.kernel[0] * c.kernel[1] + k) * c.in_channels;
            add_products(terms, x.data() + at, 1, filter, 1, c.in_channels);
          }
          const auto [sum, magnitude] = terms;
          const float value = y[static_cast<size_t>(n * y_strides[0] + o + i * y_strides[3])];
          const bool is_right = std::isfinite(sum) ? std::abs(value - sum) <= 1e-6 * magnitude
                                : std::isnan(sum)  ? std::isnan(value)
                                                   : value == sum;
          ASSERT_TRUE(is_right) << value << ", not " << sum << " at " << n << ", " << o << ", " << i;
        }
      }
    }
  }

  const SplitCase& c;
  bool keeps_weights = true;
  int64_t first_of_w = 0;
  int64_t out[2];
  std::vector<int64_t> x_sizes, x_strides, w_sizes, w_strides, y_sizes, y_strides, integers;
  std::vector<float> x, w, y;
};

TOROID_ON_MACHINES(ConvolutionOfBands);

TEST_P(ConvolutionOfBands, ConvolutionsAreRight) {
  for (const SplitCase& row : kSplitCases) {
    SCOPED_TRACE(row.name);
    SplitConvolution convolution(row);
    auto run = [&](int threads) {
      convolution.with_call(threads, [&](const KernelCall& call) {
        EXPECT_EQ(convolves_as_bf16x3(convolution_shape(call), image_strides(call.inputs[0]).channel, call.keeps(call.inputs[1]),
                                      call.pool.threads()),
                  has_amx_bf16x3());
        plan_image_rows(call)->run(call);
      });
      return convolution.y;
    };
    const std::vector<float> of_two = run(2);
    EXPECT_EQ(run(1), of_two);
    convolution.check();
  }
}

// With so many positions that parts pay for filters that are split in each call; their steps are those of one filter element, or not.
const SplitCase kGivenCases[] = {
    {"whole steps", 2, 1, 64, 150, 30, 30, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {"steps of two elements", 1, 1, 40, 256, 30, 30, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {"few channels, rows", 1, 2, 40, 256, 30, 30, {1, 5}, {1, 1}, {0, 2}, {1, 1}},
    {"columns", 1, 1, 64, 256, 30, 30, {3, 1}, {1, 1}, {1, 0}, {1, 1}},
};

TEST_P(ConvolutionOfBands, FiltersThatAreNoConstants) {
  for (const SplitCase& row : kGivenCases) {
    SCOPED_TRACE(row.name);
    for (const bool has_infinity : {false, true}) {
      SplitConvolution convolution(row);
      convolution.keeps_weights = false;
      // In the middle of a filter, which meets no padding.
      const int64_t elements = row.kernel[0] * row.kernel[1];
      if (has_infinity) convolution.w[static_cast<size_t>(convolution.w_strides[0] * 3 + elements + elements / 2)] = HUGE_VALF;
      convolution.with_call(2, [&](const KernelCall& call) {
        EXPECT_EQ(convolves_as_bf16x3(convolution_shape(call), image_strides(call.inputs[0]).channel, false, 2), has_amx_bf16x3());
        plan_image_rows(call)->run(call);
      });
      convolution.check();
    }
  }
}

TEST_P(ConvolutionOfBands, FlippedFilters) {
  for (const SplitCase& row : kGivenCases) {
    if (row.groups > 1) continue;
    SCOPED_TRACE(row.name);
    SplitConvolution convolution(row);
    convolution.keeps_weights = false;
    convolution.flip_filters();
    convolution.with_call(2, [&](const KernelCall& call) { plan_image_rows(call)->run(call); });
    convolution.check();
  }
}

TEST_P(ConvolutionOfBands, WhatCannotBeInPartsIsRightToo) {
  for (const float extreme : {HUGE_VALF, 1e30f, std::nanf("")}) {
    SplitConvolution image(kSplitCases[0]), weights(kSplitCases[0]);
    image.x[64 * 23 * 11 + 64 * 9 + 5] = extreme;
    weights.w[4000] = extreme;
    for (SplitConvolution* convolution : {&image, &weights}) {
      convolution->with_call(2, [&](const KernelCall& call) { plan_image_rows(call)->run(call); });
      convolution->check();
    }
  }
}

TOROID_ON_MACHINES_WITH_TILES(PartsBandOfTiles);

TEST_P(PartsBandOfTiles, SaysWhatItDoesNotTake) {
  const int64_t depth = 9 * 32, columns = 20;
  std::vector<float> band(5 * 6 * 32, 1.0f), weights(static_cast<size_t>(depth * columns), 1.0f), sums(3 * 4 * 20, -1.0f);
  static Scratch memory;
  float* packed = memory.get(PackedBf16x3::size(depth, columns));
  const PartsBand parts = {band.data(), 5, 6, 32, {3, 3}, {1, 1}, 4};
  auto convolve = [&] {
    pack_bf16x3({weights.data(), columns, 1}, depth, columns, 0, 1, packed);
    return convolve_band({depth, columns, packed}, 0, 1, parts, 0, {sums.data(), columns, nullptr}, {});
  };
  EXPECT_TRUE(convolve());
  EXPECT_EQ(sums, std::vector<float>(sums.size(), 288.0f));
  band[100] = HUGE_VALF;
  EXPECT_FALSE(convolve());
  band[100] = 1;
  weights[200] = 1e20f;
  EXPECT_FALSE(convolve());
}

}  // namespace
}  // namespace toroid
