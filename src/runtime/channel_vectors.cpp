// Convolutions in which each channel has its own filter, or groups have a few channels, for an image with its channels next to each other:
// vectors of channels.
//
// Rows of an image of 16 bits are widened first, each once for all rows of the result that a thread makes one after the other.
// No padding is copied: positions near the edges leave out the filter elements that lie outside. Filters that are wide, dilated or far apart are
// taken an element at a time, as filters of one column with more rows.
#include <algorithm>
#include <vector>

#include "runtime/convolution.h"
#include "runtime/depthwise_strips.h"
#include "runtime/operands.h"
#include "runtime/product.h"
#include "runtime/rows16.h"
#include "runtime/scratch.h"
#include "support/error.h"

namespace toroid {
namespace {

constexpr int64_t kFloatsPerBlock = 4096;   // that an epilogue gets at a time: a part of the first-level cache

thread_local Scratch scratch_for_block, scratch_for_rows;

DType dtype_of(const ToroidOperand& operand) { return static_cast<DType>(operand.dtype); }

class DepthwiseConvolver : public RowConvolution {
 public:
  DepthwiseConvolver(const KernelCall& call, const ConvolutionShape& s)
      : call_(call), s_(s), x_(data_of(call.inputs[0])), strides_(image_strides(call.inputs[0])), channels_(s.groups * s.out_channels),
        width_(s.in_channels) {
    TOROID_CHECK(takes_channel_vectors(s) && strides_.channel == 1);
    if (is_reduced_float(dtype_of(call.inputs[0]))) strides_.column = channels_;
    const int most_columns = width_ == 1 ? DepthwiseKernels::kMostColumns : DepthwiseKernels::kMostGroupedColumns;
    by_columns_ = s.kernel[2] <= most_columns && s.dilation[2] == 1 && s.stride[2] <= DepthwiseKernels::kMostStride;
    inside_ = inside_columns();
    prepare_weights();
  }

  void run() {
    const ProductOutput out = {call_.epilogue != nullptr ? nullptr : data_of(call_.outputs[0]), channels_, call_.epilogue};
    if (is_reduced_float(dtype_of(call_.inputs[0]))) return run_widened(out);
    call_.pool.parallel_for(s_.batch * s_.out[1], 1, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t image = row / s_.out[1], o = row % s_.out[1];
        run_row(image, o, {x_ + image * strides_.batch, strides_.row, s_.in[1]}, out);
      }
    });
  }

  void run_rows(int64_t image, Range rows, const ImageRing& in, const ProductOutput& out) const override {
    for (int64_t o = rows.first; o < rows.last; ++o) run_row(image, o, in, out);
  }

 private:
  // Offsets of the filter rows that positions meet.
  struct FilterRows {
    std::vector<int64_t> image, weights;
  };

  void run_widened(const ProductOutput& out) const {
    constexpr int64_t kPartsOfThread = 4;
    const int64_t parts = std::min(s_.out[1], kPartsOfThread * call_.pool.threads()), kept = (s_.kernel[1] - 1) * s_.dilation[1] + 1;
    const int64_t row = s_.in[2] * channels_;
    call_.pool.parallel_for(s_.batch * parts, 1, [&](int64_t begin, int64_t end) {
      const ImageRing ring = {scratch_for_rows.get(kept * row), row, kept};
      for (int64_t i = begin; i < end; ++i) {
        const int64_t image = i / parts;
        const Range rows = part_of(s_.out[1], i % parts, parts);
        int64_t widened = 0;
        for (int64_t o = rows.first; o < rows.last; ++o) {
          const int64_t first = o * s_.stride[1] - s_.padding[1], last = std::min(first + kept, s_.in[1]);
          for (widened = std::max({widened, first, int64_t{0}}); widened < last; ++widened) widen(image, widened, const_cast<float*>(ring.at(widened)));
          run_row(image, o, ring, out);
        }
      }
    });
  }

  void widen(int64_t image, int64_t row, float* to) const {
    const ToroidOperand& x = call_.inputs[0];
    const ImageStrides strides = image_strides(x);
    const uint16_t* from = static_cast<const uint16_t*>(x.data) + image * strides.batch + row * strides.row;
    if (strides.column == channels_) return widen_row(dtype_of(x), from, s_.in[2] * channels_, to);
    for (int64_t j = 0; j < s_.in[2]; ++j) widen_row(dtype_of(x), from + j * strides.column, channels_, to + j * channels_);
  }

  // As [filter element, channel of its group, channel].
  void prepare_weights() {
    const ToroidOperand& w = call_.inputs[1];
    const int64_t row_stride = w.rank == 3 ? 0 : w.strides[2], column_stride = w.strides[w.rank - 1];
    auto make = [&](float* to) {
      for (int64_t k = 0; k < s_.kernel_elements(); ++k) {
        const int64_t element = k / s_.kernel[2] * row_stride + k % s_.kernel[2] * column_stride;
        for (int64_t i = 0; i < width_ * channels_; ++i) {
          const int64_t at = element + i % channels_ * w.strides[0] + i / channels_ * w.strides[1];
          float& weight = to[k * width_ * channels_ + i];
          if (is_reduced_float(dtype_of(w))) {
            widen_row(dtype_of(w), static_cast<const uint16_t*>(w.data) + at, 1, &weight);
          } else {
            weight = data_of(w)[at];
          }
        }
      }
    };
    const int64_t form[] = {'d', channels_, width_, s_.kernel[1], s_.kernel[2], w.strides[0], w.strides[1], row_stride, column_stride};
    weights_ = call_.made_of(w, w.data, form, s_.kernel_elements() * width_ * channels_, make);
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

  void run_row(int64_t image, int64_t o, const ImageRing& in, const ProductOutput& out) const {
    const int64_t first_row = (image * s_.out[1] + o) * s_.out[2];
    static thread_local FilterRows rows;
    set_rows(in, o, {0, by_columns_ ? 1 : s_.kernel[2]}, rows);
    // Whole strips between the edges, and no few positions alone.
    constexpr int64_t kStrip = DepthwiseKernels::kMostPositions;
    const int64_t most = std::max<int64_t>(1, kFloatsPerBlock / channels_ / kStrip) * kStrip;
    for (int64_t first = 0; first < s_.out[2];) {
      const int64_t end = std::max(first, inside_.first) + most;
      const int64_t last = out.epilogue == nullptr || end + kStrip > s_.out[2] ? s_.out[2] : end;
      float* block = out.epilogue != nullptr ? scratch_for_block.get((last - first) * channels_ + kReadBeyond)
                                             : out.data + (first_row + first) * out.row;
      run_positions(in, o, rows, {first, last}, block);
      if (out.epilogue != nullptr) out.epilogue->run(out.epilogue->argument, block, channels_, first_row + first, first_row + last, 0, channels_);
      first = last;
    }
  }

  // What the output's row o sees of the image's rows, in these filter columns, each of which is a filter row.
  void set_rows(const ImageRing& in, int64_t o, Range columns, FilterRows& rows) const {
    rows.image.clear();
    rows.weights.clear();
    const Range vertical = taps(1, o);
    for (int64_t k1 = vertical.first; k1 < vertical.last; ++k1) {
      const int64_t row = in.at(o * s_.stride[1] - s_.padding[1] + k1 * s_.dilation[1]) - in.data;
      for (int64_t k2 = columns.first; k2 < columns.last; ++k2) {
        rows.image.push_back(row + k2 * s_.dilation[2] * strides_.column);
        rows.weights.push_back((k1 * s_.kernel[2] + k2) * width_ * channels_);
      }
    }
  }

  // `rows`: of all filter columns.
  void run_positions(const ImageRing& in, int64_t o, const FilterRows& rows, Range positions, float* out) const {
    for (int64_t p = positions.first; p < positions.last;) {
      const float* image = in.data + (p * s_.stride[2] - s_.padding[2]) * strides_.column;
      float* to = out + (p - positions.first) * channels_;
      if (p >= inside_.first && p < inside_.last) {
        const int64_t most = by_columns_ ? DepthwiseKernels::kMostPositions : 1;
        const int64_t count = std::min({most, inside_.last - p, positions.last - p});
        run_strip(image, weights_, rows, by_columns_ ? s_.kernel[2] : 1, count, to);
        p += count;
        continue;
      }
      const Range horizontal = taps(2, p);
      if (by_columns_) {
        run_strip(image + horizontal.first * strides_.column, weights_ + horizontal.first * width_ * channels_, rows, horizontal.size(), 1, to);
      } else {
        static thread_local FilterRows some;
        set_rows(in, o, horizontal, some);
        run_strip(image, weights_, some, 1, 1, to);
      }
      ++p;
    }
  }

  // `count` positions, of which the first has its filter at `image`, and so many neighbouring columns of a filter row.
  void run_strip(const float* image, const float* weights, const FilterRows& rows, int64_t columns, int64_t count, float* out) const {
    const DepthwiseKernels& kernels = depthwise_kernels();
    if (columns == 0 || rows.image.empty()) {
      std::fill_n(out, count * channels_, 0.0f);
    } else if (channels_ < kernels.lanes) {
      run_few_channels(image, weights, rows, columns, count, out);
    } else {
      const int64_t stride = by_columns_ ? s_.stride[2] : 1;
      const DepthwiseStrip strip = {image, rows.image.data(), strides_.column, weights, rows.weights.data(),
                                    static_cast<int64_t>(rows.image.size()), out, channels_, width_};
      (width_ == 1 ? kernels.convolve[columns - 1] : kernels.convolve_groups[columns - 1])[stride - 1][count - 1](strip);
    }
  }

  // The same for channels that fill no vector.
  void run_few_channels(const float* image, const float* weights, const FilterRows& rows, int64_t columns, int64_t count, float* out) const {
    for (int64_t p = 0; p < count; ++p, image += s_.stride[2] * strides_.column) {
      for (int64_t c = 0; c < channels_; ++c) {
        float sum = 0;
        for (size_t row = 0; row < rows.image.size(); ++row) {
          for (int64_t j = 0; j < columns; ++j) {
            sum += image[rows.image[row] + j * strides_.column + c] * weights[rows.weights[row] + j * channels_ + c];
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
  int64_t channels_;  // of all groups
  int64_t width_;     // of a group
  bool by_columns_;   // filter columns in registers
  Range inside_;      // inside_columns
  const float* weights_ = nullptr;
};

}  // namespace

bool takes_channel_vectors(int64_t groups, int64_t in_channels, int64_t out_channels) {
  if (groups == 1 || in_channels != out_channels) return false;
  const DepthwiseKernels& kernels = depthwise_kernels();
  const bool divides_vectors = kernels.convolve_groups[0][0][0] != nullptr && kernels.lanes % in_channels == 0;
  return in_channels == 1 || (divides_vectors && groups * in_channels >= kernels.lanes);
}

void convolve_channel_vectors(const KernelCall& call, const ConvolutionShape& shape) { DepthwiseConvolver(call, shape).run(); }

std::unique_ptr<RowConvolution> channel_vectors(const KernelCall& call, const ConvolutionShape& shape) {
  return std::make_unique<DepthwiseConvolver>(call, shape);
}

}  // namespace toroid
