// A row of the result at a time, a vector of channels after the other: their sums for some positions, then the epilogue.
#include <algorithm>
#include <vector>

#include "runtime/kernels/conv/int8/convolution.h"
#include "runtime/kernels/conv/int8/depthwise_microkernel.h"
#include "runtime/kernels/conv/int8/sums_of_bytes.h"
#include "runtime/kernels/conv/int8/windows.h"
#include "runtime/kernels/registry/packed_operand.h"

namespace toroid {
namespace {

constexpr int64_t kRows = ByteColumns::kRows, kPositions = ByteColumns::kPositions;
constexpr int64_t kChannels = 64, kBlock = 32;  // channels and positions that an epilogue gets at a time
alignas(64) constexpr uint8_t kZeros[kChannels] = {};

class DepthwiseOfBytes {
 public:
  DepthwiseOfBytes(const KernelCall& call, const ConvolutionShape& s)
      : s_(s),
        strides_(image_strides(call.inputs[0])),
        pieces_(divide_up(s.kernel[1], kRows)),
        filters_(call, 1, PackedByteFilters{PackedByteFilters::For::Depthwise, filter_layout(call.inputs[1], s), 0, 0},
                 blocks() * filter_words(),
                 [this](const KernelCall& each, int64_t, float* to) { pack(each, reinterpret_cast<int32_t*>(to)); }) {}

  void run(const KernelCall& call, const ProductOutput& out) const {
    const auto* const filters = reinterpret_cast<const int32_t*>(filters_.of(call));
    call.pool.parallel_for(s_.batch * s_.out[1] * blocks(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) run_block(call, filters, i / blocks(), i % blocks(), out);
    });
  }

 private:
  int64_t blocks() const { return divide_up(s_.groups, kChannels); }
  int64_t filter_words() const { return s_.kernel[2] * pieces_ * kChannels; }  // of a block
  int64_t channels_of(int64_t block) const { return std::min(kChannels, s_.groups - block * kChannels); }
  static const DepthwiseByteKernel& kernel_for(int64_t channels) {
    return *depthwise_byte_kernel(channels <= depthwise_byte_kernel(true)->channels);
  }

  // As ByteColumns has them, block after block of channels.
  void pack(const KernelCall& call, int32_t* to) const {
    const FilterLayout layout = filter_layout(call.inputs[1], s_);
    const auto* const from = static_cast<const int8_t*>(call.inputs[1].data);
    for (int64_t block = 0; block < blocks(); ++block, to += filter_words()) {
      const int64_t lanes = kernel_for(channels_of(block)).channels;
      auto* const bytes = reinterpret_cast<int8_t*>(to);
      std::fill_n(to, filter_words(), 0);
      for (int64_t column = 0; column < s_.kernel[2]; ++column) {
        for (int64_t row = 0; row < s_.kernel[1]; ++row) {
          int8_t* const words = bytes + (column * pieces_ + row / kRows) * lanes * kRows + row % kRows;
          for (int64_t c = 0; c < channels_of(block); ++c)
            words[c * kRows] = from[layout.offset(block * kChannels + c, 0, row * s_.kernel[2] + column)];
        }
      }
    }
  }

  // A row of all images' results.
  void run_block(const KernelCall& call, const int32_t* filters, int64_t result_row, int64_t block, const ProductOutput& out) const {
    const int64_t channel = block * kChannels, channels = channels_of(block);
    const auto* const image = static_cast<const uint8_t*>(call.inputs[0].data) + result_row / s_.out[1] * strides_.batch + channel;
    std::vector<const uint8_t*> rows(static_cast<size_t>(pieces_ * kRows), kZeros);
    std::vector<int64_t> steps(rows.size(), 0);
    for (int64_t k = 0; k < s_.kernel[1]; ++k) {
      const int64_t row = result_row % s_.out[1] * s_.stride[1] - s_.padding[1] + k * s_.dilation[1];
      if (row < 0 || row >= s_.in[1]) continue;
      rows[static_cast<size_t>(k)] = image + row * strides_.row;
      steps[static_cast<size_t>(k)] = strides_.column;
    }
    const bool is_3x3 = s_.kernel[1] == 3 && s_.kernel[2] == 3;
    const ByteColumns seen = {rows.data(),  steps.data(), is_3x3,   pieces_,
                              s_.kernel[2], s_.stride[2], s_.in[2], filters + block * filter_words()};
    const DepthwiseByteKernel& kernel = kernel_for(channels);
    alignas(64) int32_t sums[kBlock * kChannels + kReadBeyond];
    for (int64_t first = 0; first < s_.out[2]; first += kBlock) {
      const int64_t count = std::min(kBlock, s_.out[2] - first);
      for (int64_t i = 0; i < count; i += kPositions) {
        kernel.run(seen, (first + i) * s_.stride[2] - s_.padding[2], std::min(kPositions, count - i), channels, sums + i * kChannels,
                   kChannels);
      }
      const int64_t position = result_row * s_.out[2] + first;
      out.take(reinterpret_cast<const float*>(sums), kChannels, {position, position + count}, {channel, channel + channels});
    }
  }

  ConvolutionShape s_;
  ImageStrides strides_;
  int64_t pieces_;  // of four rows of the filter
  PackedOperand filters_;
};

}  // namespace

bool has_depthwise_of_bytes() { return depthwise_byte_kernel(false) != nullptr; }

std::unique_ptr<const KernelPlan> plan_depthwise_of_bytes(const KernelCall& call) { return plan_sums_of_bytes<DepthwiseOfBytes>(call); }

}  // namespace toroid
