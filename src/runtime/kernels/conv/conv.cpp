// Convolutions with channels of planes, transposed ones and those in three dims; others: nhwc_gemm.cpp.
#include "runtime/kernels/conv/conv.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "runtime/kernels/conv/depthwise.h"
#include "runtime/kernels/gemm/gemm_f32.h"
#include "runtime/kernels/linked/linked_kernels.h"
#include "runtime/kernels/registry/contiguous_inputs.h"
#include "runtime/kernels/registry/operands.h"
#include "runtime/kernels/registry/problem.h"

namespace toroid {

ConvolutionShape convolution_shape(Span<const int64_t> x, Span<const int64_t> w, Span<const int64_t> y, Span<const int64_t> integers) {
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
  const auto sizes = [](const ToroidOperand& operand) { return Span(operand.sizes, static_cast<size_t>(operand.rank)); };
  return convolution_shape(sizes(call.inputs[0]), sizes(call.inputs[1]), sizes(call.outputs[0]), call.integers);
}

ConvolutionShape convolution_shape(const Problem& problem) {
  return convolution_shape(problem.inputs[0].sizes, problem.inputs[1].sizes, problem.outputs[0].sizes, problem.integers);
}

namespace {

template <class Element>
void fill_bias(const KernelCall& call, const ConvolutionShape& s) {
  auto* y = static_cast<Element*>(call.outputs[0].data);
  const auto* bias = call.inputs.size() > 2 ? static_cast<const Element*>(call.inputs[2].data) : nullptr;
  const int64_t channels = s.groups * s.out_channels;
  for (int64_t i = 0; i < s.batch * channels; ++i) {
    std::fill_n(y + i * s.out_elements(), s.out_elements(), bias != nullptr ? bias[i % channels] : Element{0});
  }
}

// Each channel with its own filter: nothing to multiply as matrices.
void depthwise(const KernelCall& call, const ConvolutionShape& s) {
  const float* x = data_of(call.inputs[0]);
  const float* w = data_of(call.inputs[1]);
  float* y = data_of(call.outputs[0]);
  const int64_t channels = s.groups * s.out_channels;
  const PlaneConvolution slice = {/*in=*/{s.in[1], s.in[2]},
                                  /*out=*/{s.out[1], s.out[2]},
                                  /*kernel=*/{s.kernel[1], s.kernel[2]},
                                  /*stride=*/{s.stride[1], s.stride[2]},
                                  /*padding=*/{s.padding[1], s.padding[2]},
                                  /*dilation=*/{s.dilation[1], s.dilation[2]}};
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

// ---- image columns, of any elements

// A product of matrices, whose sums are `Sum`s: of float32 by the cheapest algorithm. Rows of b are contiguous.
template <class Sum, class Element>
GemmOf<Sum, Element> plan_gemm(int threads, int64_t m, int64_t n, int64_t k, int64_t a_column) {
  if constexpr (std::is_same_v<Sum, float>) {
    return plan_gemm_f32({/*batches=*/1, /*m=*/m, /*n=*/n, /*k=*/k, /*b_is_packed=*/false, /*a_column=*/a_column, /*b_row=*/n}, threads);
  } else {
    return PackedGemm<Sum, Element>(threads, m, n, k);
  }
}

template <class Element, class Sum>
Element added(Element x, Sum y) {
  return static_cast<Element>(static_cast<Sum>(x) + y);
}

// So many columns of the image that output positions see, as a matrix with a row for each (channel, filter element): made a block of
// positions at a time, for it is as many times larger than the image as the filter has elements.
template <class Element>
void copy_columns(const ConvolutionShape& s, const Element* image, int64_t first, int64_t count, Element* out) {
  const int64_t length = s.out[2];
  for (int64_t c = 0, row = 0; c < s.in_channels; ++c) {
    const Element* from = image + c * s.in_elements();
    for (int64_t k0 = 0; k0 < s.kernel[0]; ++k0) {
      for (int64_t k1 = 0; k1 < s.kernel[1]; ++k1) {
        for (int64_t k2 = 0; k2 < s.kernel[2]; ++k2, ++row) {
          Element* to = out + row * count;
          const int64_t shift = k2 * s.dilation[2] - s.padding[2];
          const Range inside = indices_inside(shift, s.stride[2], length, s.in[2]);
          // Rows of the result, of which the first and the last may be there in part.
          for (int64_t o = first; o < first + count;) {
            const int64_t begin = o % length, end = std::min(length, begin + first + count - o);
            const int64_t i0 = o / length / s.out[1] * s.stride[0] - s.padding[0] + k0 * s.dilation[0];
            const int64_t i1 = o / length % s.out[1] * s.stride[1] - s.padding[1] + k1 * s.dilation[1];
            const bool is_row = i0 >= 0 && i0 < s.in[0] && i1 >= 0 && i1 < s.in[1];
            const int64_t from_here = is_row ? std::clamp(inside.first, begin, end) : end;
            const int64_t to_here = is_row ? std::clamp(inside.last, from_here, end) : end;
            std::fill_n(to, from_here - begin, Element{0});
            if (from_here < to_here) {
              const Element* at = from + (i0 * s.in[1] + i1) * s.in[2] + from_here * s.stride[2] + shift;
              if (s.stride[2] == 1) {
                std::copy_n(at, to_here - from_here, to + from_here - begin);
              } else {
                for (int64_t j = from_here; j < to_here; ++j, at += s.stride[2]) to[j - begin] = *at;
              }
            }
            std::fill_n(to + to_here - begin, end - to_here, Element{0});
            to += end - begin;
            o += end - begin;
          }
        }
      }
    }
  }
}

constexpr int64_t kPositions = 256;  // of a block of columns

// Onto the bias, which is in y already. `of_block` and `of_last`: products of a block's columns, and of those that are left.
template <class Sum, class Element>
void convolve(RuntimePool& pool, const ConvolutionShape& s, const GemmOf<Sum, Element>& of_block, const GemmOf<Sum, Element>& of_last,
              const Element* x, const Element* w, Element* y) {
  const int64_t depth = s.in_channels * s.kernel_elements();
  const int64_t blocks = (s.out_elements() + kPositions - 1) / kPositions;
  pool.parallel_for(s.batch * s.groups * blocks, 1, [&](int64_t begin, int64_t end) {
    std::vector<Element> columns(static_cast<size_t>(depth * kPositions));
    std::vector<Sum> sums(static_cast<size_t>(s.out_channels * kPositions));
    for (int64_t task = begin; task < end; ++task) {
      const int64_t image = task / blocks, first = task % blocks * kPositions, count = std::min(kPositions, s.out_elements() - first);
      copy_columns(s, x + image * s.in_channels * s.in_elements(), first, count, columns.data());
      const MatrixOf<Element> filters = {w + image % s.groups * s.out_channels * depth, depth, 1}, seen = {columns.data(), count, 1};
      (count == kPositions ? of_block : of_last)(pool, filters, seen, {sums.data(), count, nullptr});
      for (int64_t o = 0; o < s.out_channels; ++o) {
        Element* to = y + (image * s.out_channels + o) * s.out_elements() + first;
        for (int64_t j = 0; j < count; ++j) to[j] = added(to[j], sums[static_cast<size_t>(o * count + j)]);
      }
    }
  });
}

// The adjoint of a convolution: columns = weight^T x, then each column is added where it belongs.
template <class Sum, class Element>
void convolve_transposed(RuntimePool& pool, const ConvolutionShape& s, const GemmOf<Sum, Element>& product, const Element* x,
                         const Element* w, Element* y) {
  const int64_t rows = s.out_channels * s.kernel_elements();
  std::unique_ptr<Sum[]> columns(new Sum[static_cast<size_t>(rows * s.in_elements())]);
  for (int64_t n = 0; n < s.batch; ++n) {
    for (int64_t g = 0; g < s.groups; ++g) {
      const Element* in = x + (n * s.groups + g) * s.in_channels * s.in_elements();
      const MatrixOf<Element> filters = {w + g * s.in_channels * rows, 1, rows}, image = {in, s.in_elements(), 1};
      product(pool, filters, image, {columns.get(), s.in_elements(), nullptr});
      Element* out = y + (n * s.groups + g) * s.out_channels * s.out_elements();
      pool.parallel_for(s.out_channels, 1, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin * s.kernel_elements(); row < end * s.kernel_elements(); ++row) {
          const int64_t c = row / s.kernel_elements(), k = row % s.kernel_elements();
          const int64_t k0 = k / (s.kernel[1] * s.kernel[2]), k1 = k / s.kernel[2] % s.kernel[1], k2 = k % s.kernel[2];
          const Sum* from = columns.get() + row * s.in_elements();
          for (int64_t i0 = 0; i0 < s.in[0]; ++i0) {
            for (int64_t i1 = 0; i1 < s.in[1]; ++i1, from += s.in[2]) {
              const int64_t o0 = i0 * s.stride[0] - s.padding[0] + k0 * s.dilation[0];
              const int64_t o1 = i1 * s.stride[1] - s.padding[1] + k1 * s.dilation[1];
              if (o0 < 0 || o0 >= s.out[0] || o1 < 0 || o1 >= s.out[1]) continue;
              Element* to = out + c * s.out_elements() + (o0 * s.out[1] + o1) * s.out[2];
              for (int64_t i2 = 0; i2 < s.in[2]; ++i2) {
                const int64_t o2 = i2 * s.stride[2] - s.padding[2] + k2 * s.dilation[2];
                if (o2 >= 0 && o2 < s.out[2]) to[o2] = added(to[o2], from[i2]);
              }
            }
          }
        }
      });
    }
  }
}

// Operands of any elements.
template <class Sum, class Element>
class Columns final : public KernelPlan {
 public:
  explicit Columns(const KernelCall& call) : s_(convolution_shape(call)) {
    if (s_.is_empty() || !s_.has_filter()) return;
    const int threads = call.pool.threads();
    const int64_t depth = s_.in_channels * s_.kernel_elements(), rows = s_.out_channels * s_.kernel_elements();
    if (s_.transposed) {
      product_ = plan_gemm<Sum, Element>(threads, rows, s_.in_elements(), s_.in_channels, rows);
    } else {
      product_ = plan_gemm<Sum, Element>(threads, s_.out_channels, kPositions, depth, 1);
      last_product_ = plan_gemm<Sum, Element>(threads, s_.out_channels, s_.out_elements() % kPositions, depth, 1);
    }
  }

  void run(const KernelCall& call) const override {
    const ContiguousInputs inputs(call);
    const auto* x = static_cast<const Element*>(inputs.call().inputs[0].data);
    const auto* w = static_cast<const Element*>(inputs.call().inputs[1].data);
    auto* y = static_cast<Element*>(call.outputs[0].data);
    fill_bias<Element>(inputs.call(), s_);
    if (s_.is_empty() || !s_.has_filter()) return;
    s_.transposed ? convolve_transposed<Sum>(call.pool, s_, product_, x, w, y)
                  : convolve<Sum>(call.pool, s_, product_, last_product_, x, w, y);
  }

 private:
  ConvolutionShape s_;
  GemmOf<Sum, Element> product_, last_product_;  // the latter of the columns that fill no block
};

}  // namespace

std::unique_ptr<const KernelPlan> plan_columns_f32(const KernelCall& call) { return std::make_unique<const Columns<float, float>>(call); }

std::unique_ptr<const KernelPlan> plan_columns(const KernelCall& call) {
  switch (const DType dtype = dtype_of(call.outputs[0])) {
    case DType::F64: return std::make_unique<const Columns<double, double>>(call);
    case DType::I64:
    case DType::U64: return std::make_unique<const Columns<uint64_t, uint64_t>>(call);
    case DType::I32:
    case DType::U32: return std::make_unique<const Columns<uint32_t, uint32_t>>(call);
    case DType::I16: return std::make_unique<const Columns<uint32_t, int16_t>>(call);
    case DType::U16: return std::make_unique<const Columns<uint32_t, uint16_t>>(call);
    case DType::I8: return std::make_unique<const Columns<uint32_t, int8_t>>(call);
    case DType::U8: return std::make_unique<const Columns<uint32_t, uint8_t>>(call);
    default: throw Error(ErrorKind::Unsupported, formatted("convolutions of {} are not supported", to_string(dtype)));
  }
}

std::unique_ptr<const KernelPlan> plan_planes(const KernelCall& call) {
  const ConvolutionShape shape = convolution_shape(call);
  TOROID_CHECK(!shape.transposed && shape.in_channels == 1);
  return plan_that_runs([shape](const KernelCall& each) {
    fill_bias<float>(each, shape);
    if (!shape.is_empty() && shape.has_filter()) depthwise(each, shape);
  });
}

std::unique_ptr<const KernelPlan> plan_convolution_f32(const KernelCall& call) {
  const ConvolutionShape s = convolution_shape(call);
  const ToroidOperand& y = call.outputs[0];
  if (s.transposed) return plan_columns_f32(call);
  if (y.rank <= 4 && y.strides[1] == 1 && call.inputs.size() == 2) return plan_image_rows(call);
  return s.is_depthwise() ? plan_planes(call) : plan_columns_f32(call);
}

TOROID_LINKED_KERNEL(convolution_columns, "convolution.columns", nullptr, plan_columns);

}  // namespace toroid
