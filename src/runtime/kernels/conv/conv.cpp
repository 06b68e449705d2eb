// Convolutions with channels of planes, transposed ones and those in three dims; others: nhwc_gemm.cpp.
#include "runtime/kernels/conv/conv.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/kernels/conv/depthwise.h"
#include "runtime/kernels/conv/winograd.h"
#include "runtime/kernels/gemm/gemm.h"
#include "runtime/kernels/registry/operands.h"
#include "support/error.h"

namespace toroid {

ConvolutionShape convolution_shape(std::span<const int64_t> x, std::span<const int64_t> w, std::span<const int64_t> y,
                                   std::span<const int64_t> integers) {
  ConvolutionShape s{};
  s.transposed = integers[0] != 0;
  s.groups = integers[1];
  s.batch = x[0];
  s.in_channels = x[1] / s.groups;
  s.out_channels = y[1] / s.groups;
  const size_t spatial = x.size() - 2;
  for (size_t d = 0; d < 3; ++d) {
    s.in[d] = s.out[d] = s.kernel[d] = s.stride[d] = s.dilation[d] = 1;
    s.padding[d] = 0;
  }
  for (size_t d = 0; d < spatial; ++d) {
    const size_t to = 3 - spatial + d;
    s.in[to] = x[2 + d];
    s.out[to] = y[2 + d];
    s.kernel[to] = w[2 + d];
    s.stride[to] = integers[2 + d];
    s.padding[to] = integers[2 + spatial + d];
    s.dilation[to] = integers[2 + 2 * spatial + d];
  }
  return s;
}

ConvolutionShape convolution_shape(const KernelCall& call) {
  const auto sizes = [](const ToroidOperand& operand) { return std::span(operand.sizes, static_cast<size_t>(operand.rank)); };
  return convolution_shape(sizes(call.inputs[0]), sizes(call.inputs[1]), sizes(call.outputs[0]), call.integers);
}

namespace {

void fill_bias(const KernelCall& call, const ConvolutionShape& s) {
  float* y = data_of(call.outputs[0]);
  const float* bias = call.inputs.size() > 2 ? data_of(call.inputs[2]) : nullptr;
  const int64_t channels = s.groups * s.out_channels;
  for (int64_t i = 0; i < s.batch * channels; ++i) {
    std::fill_n(y + i * s.out_elements(), s.out_elements(), bias ? bias[i % channels] : 0.0f);
  }
}

// Each channel with its own filter: nothing to multiply as matrices.
void depthwise(const KernelCall& call, const ConvolutionShape& s) {
  const float* x = data_of(call.inputs[0]);
  const float* w = data_of(call.inputs[1]);
  float* y = data_of(call.outputs[0]);
  const int64_t channels = s.groups * s.out_channels;
  const PlaneConvolution slice = {.in = {s.in[1], s.in[2]},
                                  .out = {s.out[1], s.out[2]},
                                  .kernel = {s.kernel[1], s.kernel[2]},
                                  .stride = {s.stride[1], s.stride[2]},
                                  .padding = {s.padding[1], s.padding[2]},
                                  .dilation = {s.dilation[1], s.dilation[2]}};
  call.pool.parallel_for(s.batch * channels, 1, [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      const int64_t channel = plane % channels;
      const float* in = x + (plane / channels * s.groups + channel / s.out_channels) * s.in_elements();
      const float* filter = w + channel * s.kernel_elements();
      float* out = y + plane * s.out_elements();
      // One filter slice after the other, each onto the planes that it meets.
      for (int64_t o0 = 0; o0 < s.out[0]; ++o0) {
        for (int64_t k0 = 0; k0 < s.kernel[0]; ++k0) {
          const int64_t i0 = o0 * s.stride[0] - s.padding[0] + k0 * s.dilation[0];
          if (i0 < 0 || i0 >= s.in[0]) continue;
          convolve_plane_f32(slice, in + i0 * s.in[1] * s.in[2], filter + k0 * s.kernel[1] * s.kernel[2], out + o0 * s.out[1] * s.out[2]);
        }
      }
    }
  });
}

// The columns of the image that output positions see, as a matrix with a row for each (channel, filter element): made a block of positions
// at a time, for it is as many times larger than the image as the filter has elements.
void copy_columns(const ConvolutionShape& s, const float* image, int64_t first, int64_t count, float* out) {
  for (int64_t c = 0, row = 0; c < s.in_channels; ++c) {
    const float* from = image + c * s.in_elements();
    for (int64_t k0 = 0; k0 < s.kernel[0]; ++k0) {
      for (int64_t k1 = 0; k1 < s.kernel[1]; ++k1) {
        for (int64_t k2 = 0; k2 < s.kernel[2]; ++k2, ++row) {
          for (int64_t j = 0; j < count; ++j) {
            const int64_t o = first + j;
            const int64_t i0 = o / (s.out[1] * s.out[2]) * s.stride[0] - s.padding[0] + k0 * s.dilation[0];
            const int64_t i1 = o / s.out[2] % s.out[1] * s.stride[1] - s.padding[1] + k1 * s.dilation[1];
            const int64_t i2 = o % s.out[2] * s.stride[2] - s.padding[2] + k2 * s.dilation[2];
            const bool inside = i0 >= 0 && i0 < s.in[0] && i1 >= 0 && i1 < s.in[1] && i2 >= 0 && i2 < s.in[2];
            out[row * count + j] = inside ? from[(i0 * s.in[1] + i1) * s.in[2] + i2] : 0.0f;
          }
        }
      }
    }
  }
}

// Onto the bias, which is in y already.
void convolve(const KernelCall& call, const ConvolutionShape& s) {
  const float* x = data_of(call.inputs[0]);
  const float* w = data_of(call.inputs[1]);
  float* y = data_of(call.outputs[0]);
  const int64_t depth = s.in_channels * s.kernel_elements();
  constexpr int64_t kPositions = 256;
  const int64_t blocks = (s.out_elements() + kPositions - 1) / kPositions;
  call.pool.parallel_for(s.batch * s.groups * blocks, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> columns(static_cast<size_t>(depth * kPositions)), sums(static_cast<size_t>(s.out_channels * kPositions));
    for (int64_t task = begin; task < end; ++task) {
      const int64_t image = task / blocks, first = task % blocks * kPositions, count = std::min(kPositions, s.out_elements() - first);
      copy_columns(s, x + image * s.in_channels * s.in_elements(), first, count, columns.data());
      gemm_f32(call.pool, s.out_channels, count, depth, {w + image % s.groups * s.out_channels * depth, depth, 1},
               {columns.data(), count, 1}, {sums.data(), count, nullptr});
      for (int64_t o = 0; o < s.out_channels; ++o) {
        float* to = y + (image * s.out_channels + o) * s.out_elements() + first;
        for (int64_t j = 0; j < count; ++j) to[j] += sums[static_cast<size_t>(o * count + j)];
      }
    }
  });
}

// The adjoint of a convolution: columns = weight^T x, then each column is added where it belongs.
void convolve_transposed(const KernelCall& call, const ConvolutionShape& s) {
  const float* x = data_of(call.inputs[0]);
  const float* w = data_of(call.inputs[1]);
  float* y = data_of(call.outputs[0]);
  const int64_t rows = s.out_channels * s.kernel_elements();
  std::unique_ptr<float[]> columns(new float[static_cast<size_t>(rows * s.in_elements())]);
  for (int64_t n = 0; n < s.batch; ++n) {
    for (int64_t g = 0; g < s.groups; ++g) {
      const float* in = x + (n * s.groups + g) * s.in_channels * s.in_elements();
      gemm_f32(call.pool, rows, s.in_elements(), s.in_channels, {w + g * s.in_channels * rows, 1, rows}, {in, s.in_elements(), 1},
               {columns.get(), s.in_elements(), nullptr});
      float* out = y + (n * s.groups + g) * s.out_channels * s.out_elements();
      call.pool.parallel_for(s.out_channels, 1, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin * s.kernel_elements(); row < end * s.kernel_elements(); ++row) {
          const int64_t c = row / s.kernel_elements(), k = row % s.kernel_elements();
          const int64_t k0 = k / (s.kernel[1] * s.kernel[2]), k1 = k / s.kernel[2] % s.kernel[1], k2 = k % s.kernel[2];
          const float* from = columns.get() + row * s.in_elements();
          for (int64_t i0 = 0; i0 < s.in[0]; ++i0) {
            for (int64_t i1 = 0; i1 < s.in[1]; ++i1, from += s.in[2]) {
              const int64_t o0 = i0 * s.stride[0] - s.padding[0] + k0 * s.dilation[0];
              const int64_t o1 = i1 * s.stride[1] - s.padding[1] + k1 * s.dilation[1];
              if (o0 < 0 || o0 >= s.out[0] || o1 < 0 || o1 >= s.out[1]) continue;
              float* to = out + c * s.out_elements() + (o0 * s.out[1] + o1) * s.out[2];
              for (int64_t i2 = 0; i2 < s.in[2]; ++i2) {
                const int64_t o2 = i2 * s.stride[2] - s.padding[2] + k2 * s.dilation[2];
                if (o2 >= 0 && o2 < s.out[2]) to[o2] += from[i2];
              }
            }
          }
        }
      });
    }
  }
}

// Of any operands.
ConvAlgorithm general_form(const KernelCall& call, const ConvolutionShape& s) {
  const ToroidOperand& y = call.outputs[0];
  if (s.transposed) return ConvAlgorithm::AdjointColumns;
  const bool to_channels_last = y.rank <= 4 && y.strides[1] == 1 && call.inputs.size() == 2;
  return to_channels_last ? ConvAlgorithm::ImageRows : s.is_depthwise() ? ConvAlgorithm::Planes : ConvAlgorithm::ImageColumns;
}

void run_in_form(const KernelCall& call, const ConvolutionShape& s, ConvAlgorithm form) {
  const bool is_contiguous = form == ConvAlgorithm::ImageColumns || form == ConvAlgorithm::AdjointColumns || form == ConvAlgorithm::Planes;
  if (!is_contiguous) return convolve_to_channels_last(call, s, form);
  fill_bias(call, s);
  if (s.batch == 0 || s.out_elements() == 0 || !s.has_filter()) return;
  TOROID_CHECK(s.transposed == (form == ConvAlgorithm::AdjointColumns));
  if (form == ConvAlgorithm::AdjointColumns) return convolve_transposed(call, s);
  if (form == ConvAlgorithm::ImageColumns) return convolve(call, s);
  TOROID_CHECK(s.in_channels == 1);
  depthwise(call, s);
}

}  // namespace

ConvAlgorithm row_form(const KernelCall& call, const ConvolutionShape& s) {
  return takes_channel_vectors(s) && image_strides(call.inputs[0]).channel == 1 ? ConvAlgorithm::ChannelVectors : ConvAlgorithm::ImageRows;
}

std::unique_ptr<const KernelPlan> plan_convolution_f32(const KernelCall& call, ConvAlgorithm form) {
  const ConvolutionShape shape = convolution_shape(call);
  const bool is_of_rows = form == ConvAlgorithm::ImageRows || form == ConvAlgorithm::ChannelVectors;
  // Filters that are no constants are packed anew in each call.
  if (is_of_rows && call.keeps(call.inputs[1]) && !shape.is_empty() && shape.has_filter()) return row_convolution(call, shape, form);
  return plan_that_runs([shape, form](const KernelCall& each) { run_in_form(each, shape, form); });
}

void run_convolution_f32(const KernelCall& call, ConvAlgorithm form) { plan_convolution_f32(call, form)->run(call); }
void run_convolution_f32(const KernelCall& call) { run_convolution_f32(call, general_form(call, convolution_shape(call))); }

}  // namespace toroid
