#include "runtime/kernels/conv/int8/convolution.h"

#include <algorithm>
#include <vector>

#include "runtime/kernels/conv/amx/tile_convolver.h"
#include "runtime/kernels/conv/int8/sums_of_bytes.h"
#include "runtime/kernels/conv/int8/windows.h"
#include "runtime/kernels/gemm/int8/byte_matrix.h"
#include "runtime/kernels/registry/packed_operand.h"
#include "runtime/memory/scratch.h"

namespace toroid {
namespace {

Scratch scratch_for_pointers, scratch_for_windows, scratch_for_sums;

const uint8_t* image_of(const KernelCall& call) { return static_cast<const uint8_t*>(call.inputs[0].data); }

void take(const ProductOutput& out, const int32_t* sums, int64_t row, Range rows, Range columns) {
  out.take(reinterpret_cast<const float*>(sums), row, rows, columns);
}

class Fours {
 public:
  Fours(const KernelCall& call, const ConvolutionShape& s)
      : slabs_(in_slabs(s.groups, s.in_channels, s.out_channels)),
        windows_(s, image_strides(call.inputs[0]), slabs_.in),
        matrix_(*vnni_kernels(), slabs_.out, windows_.depth()),
        cut_(partition_of(call.pool.threads(),
                          size_of_matrix(windows_.positions(), slabs_.count * matrix_.panels(), windows_.depth(), sizeof(uint8_t)))),
        filters_(call, 1, windows_.layout(PackedByteFilters::For::Fours, call.inputs[1]), slabs_.count * matrix_.size(),
                 [this](const KernelCall& each, int64_t, float* to) { pack(each, to); }) {}

  void run(const KernelCall& call, const ProductOutput& out) const {
    const auto* const filters = reinterpret_cast<const uint32_t*>(filters_.of(call));
    const int64_t of_slab = matrix_.panels();
    for_each_part(call.pool, windows_.positions(), slabs_.count * of_slab, cut_, [&](Range positions, Range panels) {
      auto** const pointers = scratch_for_pointers.get<const uint32_t*>(kBlock * windows_.taps());
      auto* const copied = scratch_for_windows.get<uint8_t>(windows_.bytes_to_copy(kBlock));
      alignas(64) int32_t sums[kBlock * ByteMatrix::kPanelColumns + kReadBeyond];
      for (int64_t first = positions.first; first < positions.last; first += kBlock) {
        const int64_t count = std::min(kBlock, positions.last - first);
        windows_.point(image_of(call), first, count, pointers, copied);
        for (int64_t panel = panels.first; panel < panels.last; ++panel) {
          const int64_t slab = panel / of_slab, column = panel % of_slab * ByteMatrix::kPanelColumns;
          const ByteRows rows = {pointers, windows_.taps(), windows_.words(), slab * slabs_.in};
          matrix_.multiply(filters + slab * matrix_.size(), panel % of_slab, rows, count, false, sums, ByteMatrix::kPanelColumns);
          const int64_t last = std::min(column + ByteMatrix::kPanelColumns, slabs_.out);
          take(out, sums, ByteMatrix::kPanelColumns, {first, first + count}, {slab * slabs_.out + column, slab * slabs_.out + last});
        }
      }
    });
  }

 private:
  static constexpr int64_t kBlock = 8 * ByteRows::kStrip;  // positions that an epilogue gets at a time

  void pack(const KernelCall& call, float* to) const {
    for (int64_t slab = 0; slab < slabs_.count; ++slab) {
      const std::vector<int8_t> filters = windows_.filters(call.inputs[1], slab, slabs_.out);
      matrix_.pack(call.pool, {filters.data(), slabs_.out, 1}, false, reinterpret_cast<uint32_t*>(to) + slab * matrix_.size());
    }
  }

  ByteSlabs slabs_;
  ByteWindows windows_;
  ByteMatrix matrix_;
  Cut cut_;
  PackedOperand filters_;
};

class Tiles {
 public:
  Tiles(const KernelCall& call, const ConvolutionShape& s) : convolver_(AmxType::Uint8, call, s) {}
  void run(const KernelCall& call, const ProductOutput& out) const { convolver_.run(call, out); }

 private:
  TileConvolver convolver_;
};

class Loops {
 public:
  Loops(const KernelCall& call, const ConvolutionShape& s)
      : s_(s), strides_(image_strides(call.inputs[0])), layout_(filter_layout(call.inputs[1], s)) {}

  void run(const KernelCall& call, const ProductOutput& out) const {
    const int64_t columns = s_.groups * s_.out_channels;
    const auto* const filters = static_cast<const int8_t*>(call.inputs[1].data);
    call.pool.parallel_for(s_.batch * s_.out_elements(), 1, [&](int64_t begin, int64_t end) {
      auto* const sums = scratch_for_sums.get<int32_t>(columns + kReadBeyond);
      for (int64_t i = begin; i < end; ++i) {
        std::fill_n(sums, columns, 0);
        for (int64_t element = 0; element < s_.kernel_elements(); ++element) add_element(call, i, element, filters, sums);
        take(out, sums, columns, {i, i + 1}, {0, columns});
      }
    });
  }

 private:
  void add_element(const KernelCall& call, int64_t position, int64_t element, const int8_t* filters, int32_t* sums) const {
    const int64_t row = position / s_.out[2] % s_.out[1] * s_.stride[1] - s_.padding[1] + element / s_.kernel[2] * s_.dilation[1];
    const int64_t column = position % s_.out[2] * s_.stride[2] - s_.padding[2] + element % s_.kernel[2] * s_.dilation[2];
    if (row < 0 || row >= s_.in[1] || column < 0 || column >= s_.in[2]) return;
    const uint8_t* bytes = image_of(call) + position / s_.out_elements() * strides_.batch + row * strides_.row + column * strides_.column;
    for (int64_t group = 0; group < s_.groups; ++group, bytes += s_.in_channels) {
      for (int64_t o = group * s_.out_channels; o < (group + 1) * s_.out_channels; ++o) {
        uint32_t sum = 0;
        for (int64_t c = 0; c < s_.in_channels; ++c) sum += static_cast<uint32_t>(bytes[c] * filters[layout_.offset(o, c, element)]);
        sums[o] = static_cast<int32_t>(static_cast<uint32_t>(sums[o]) + sum);
      }
    }
  }

  ConvolutionShape s_;
  ImageStrides strides_;
  FilterLayout layout_;
};

}  // namespace

ByteSlabs in_slabs(int64_t groups, int64_t in_channels, int64_t out_channels) {
  constexpr int64_t kVector = ByteKernels::kColumns, kWord = 4;
  int64_t together = groups;
  for (int64_t some = groups; some >= 1; --some) {
    if (groups % some == 0 && some * in_channels % kWord == 0 && some * out_channels >= kVector) together = some;
  }
  return {groups / together, together * in_channels, together * out_channels};
}

std::unique_ptr<const KernelPlan> plan_byte_convolution_in_loops(const KernelCall& call) { return plan_sums_of_bytes<Loops>(call); }
std::unique_ptr<const KernelPlan> plan_byte_convolution_fours(const KernelCall& call) { return plan_sums_of_bytes<Fours>(call); }
std::unique_ptr<const KernelPlan> plan_byte_convolution_tiles(const KernelCall& call) { return plan_sums_of_bytes<Tiles>(call); }

}  // namespace toroid
