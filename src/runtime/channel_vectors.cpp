// Convolutions in which each channel has its own filter, for an image with its channels next to each other: vectors of channels.
//
// No padding is copied: positions near the edges leave out the filter elements that lie outside. Filters that are wide, dilated or far apart are
// taken an element at a time, as filters of one column with more rows.
#include <algorithm>
#include <vector>

#include "runtime/convolution.h"
#include "runtime/depthwise_strips.h"
#include "runtime/operands.h"
#include "runtime/product.h"
#include "runtime/scratch.h"
#include "support/error.h"

namespace toroid {
namespace {

constexpr int64_t kFloatsPerBlock = 4096;   // that an epilogue gets at a time: a part of the first-level cache

thread_local Scratch scratch_for_block;

class DepthwiseConvolver {
 public:
  DepthwiseConvolver(const KernelCall& call, const ConvolutionShape& s)
      : call_(call), s_(s), x_(data_of(call.inputs[0])), strides_(image_strides(call.inputs[0])), channels_(s.groups) {
    TOROID_CHECK(s.has_one_channel_each() && strides_.channel == 1);
    by_columns_ = s.kernel[2] <= DepthwiseKernels::kMostColumns && s.dilation[2] == 1 && s.stride[2] <= DepthwiseKernels::kMostStride;
  }

  void run() {
    prepare_weights();
    const Range inside = inside_columns();
    call_.pool.parallel_for(s_.batch * s_.out[1], 1, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) run_row(row / s_.out[1], row % s_.out[1], inside);
    });
  }

 private:
  // Offsets of the filter rows of a strip.
  struct FilterRows {
    std::vector<int64_t> image, weights;
  };

  // As [filter element, channel].
  void prepare_weights() {
    const ToroidOperand& w = call_.inputs[1];
    const int64_t row_stride = w.rank == 3 ? 0 : w.strides[2], column_stride = w.strides[w.rank - 1];
    auto make = [&](float* to) {
      for (int64_t k = 0; k < s_.kernel_elements(); ++k) {
        const float* from = data_of(w) + k / s_.kernel[2] * row_stride + k % s_.kernel[2] * column_stride;
        for (int64_t c = 0; c < channels_; ++c) to[k * channels_ + c] = from[c * w.strides[0]];
      }
    };
    const int64_t form[] = {'d', channels_, s_.kernel[1], s_.kernel[2], w.strides[0], row_stride, column_stride};
    weights_ = call_.made_of(w, w.data, form, s_.kernel_elements() * channels_, make);
  }

  // The filter elements of a dim that lie inside the image for the output position o.
  Range taps(int d, int64_t o) const {
    const int64_t first = o * s_.stride[d] - s_.padding[d], step = s_.dilation[d];
    const int64_t from = first >= 0 ? 0 : (-first + step - 1) / step;
    const int64_t to = first >= s_.in[d] ? 0 : (s_.in[d] - first + step - 1) / step;
    return {std::min(from, s_.kernel[d]), std::clamp(to, std::min(from, s_.kernel[d]), s_.kernel[d])};
  }

  // The output columns whose filters lie inside the image as a whole.
  Range inside_columns() const {
    Range result = {0, s_.out[2]};
    while (result.first < s_.out[2] && taps(2, result.first).size() < s_.kernel[2]) ++result.first;
    result.last = result.first;
    while (result.last < s_.out[2] && taps(2, result.last).size() == s_.kernel[2]) ++result.last;
    return result;
  }

  void run_row(int64_t image, int64_t o, Range inside) const {
    const int64_t first_row = (image * s_.out[1] + o) * s_.out[2];
    const Range vertical = taps(1, o);
    const float* row = x_ + image * strides_.batch + (o * s_.stride[1] - s_.padding[1]) * strides_.row;
    const int64_t most = std::max<int64_t>(1, kFloatsPerBlock / channels_);
    for (int64_t first = 0; first < s_.out[2];) {
      const int64_t last = call_.epilogue != nullptr ? std::min(first + most, s_.out[2]) : s_.out[2];
      float* out = call_.epilogue != nullptr ? scratch_for_block.get((last - first) * channels_ + kReadBeyond)
                                             : data_of(call_.outputs[0]) + (first_row + first) * channels_;
      run_positions(row, vertical, {first, last}, inside, out);
      if (call_.epilogue != nullptr) {
        call_.epilogue->run(call_.epilogue->argument, out, channels_, first_row + first, first_row + last, 0, channels_);
      }
      first = last;
    }
  }

  // `row`: the image's row that the filter's first meets, from its first column on.
  void run_positions(const float* row, Range vertical, Range positions, Range inside, float* out) const {
    for (int64_t p = positions.first; p < positions.last;) {
      const bool is_inside = p >= inside.first && p < inside.last;
      const int64_t most = by_columns_ ? DepthwiseKernels::kMostPositions : 1;
      const int64_t count = is_inside ? std::min({most, inside.last - p, positions.last - p}) : 1;
      const Range horizontal = is_inside ? Range{0, s_.kernel[2]} : taps(2, p);
      run_strip(row + (p * s_.stride[2] - s_.padding[2]) * strides_.column, vertical, horizontal, count, out + (p - positions.first) * channels_);
      p += count;
    }
  }

  // `count` positions, of which the first has its filter at `image`.
  void run_strip(const float* image, Range vertical, Range horizontal, int64_t count, float* out) const {
    static thread_local FilterRows rows;
    rows.image.clear();
    rows.weights.clear();
    const int64_t columns = by_columns_ ? 1 : horizontal.size();   // each as a filter row
    for (int64_t k1 = vertical.first; k1 < vertical.last; ++k1) {
      for (int64_t k2 = horizontal.first; k2 < horizontal.first + columns; ++k2) {
        rows.image.push_back(k1 * s_.dilation[1] * strides_.row + k2 * s_.dilation[2] * strides_.column);
        rows.weights.push_back((k1 * s_.kernel[2] + k2) * channels_);
      }
    }
    const int64_t taps = by_columns_ ? horizontal.size() : 1;
    const bool is_empty = horizontal.size() == 0 || rows.image.empty();
    const DepthwiseKernels& kernels = depthwise_kernels();
    if (is_empty) {
      std::fill_n(out, count * channels_, 0.0f);
    } else if (channels_ < kernels.lanes) {
      run_few_channels(image, rows, taps, count, out);
    } else {
      const int64_t stride = by_columns_ ? s_.stride[2] : 1;
      kernels.convolve[taps - 1][stride - 1][count - 1]({image, rows.image.data(), strides_.column, weights_, rows.weights.data(),
                                                         static_cast<int64_t>(rows.image.size()), out, channels_});
    }
  }

  // The same for channels that fill no vector.
  void run_few_channels(const float* image, const FilterRows& rows, int64_t taps, int64_t count, float* out) const {
    for (int64_t p = 0; p < count; ++p, image += s_.stride[2] * strides_.column) {
      for (int64_t c = 0; c < channels_; ++c) {
        float sum = 0;
        for (size_t row = 0; row < rows.image.size(); ++row) {
          for (int64_t j = 0; j < taps; ++j) {
            sum += image[rows.image[row] + j * strides_.column + c] * weights_[rows.weights[row] + j * channels_ + c];
          }
        }
        *out++ = sum;
      }
    }
  }

  const KernelCall& call_;
  const ConvolutionShape& s_;
  const float* x_;
  ImageStrides strides_;
  int64_t channels_;
  bool by_columns_;   // filter columns in registers
  const float* weights_ = nullptr;
};

}  // namespace

void convolve_channel_vectors(const KernelCall& call, const ConvolutionShape& shape) { DepthwiseConvolver(call, shape).run(); }

}  // namespace toroid
