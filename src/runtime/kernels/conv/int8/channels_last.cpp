#include "runtime/kernels/conv/int8/channels_last.h"

#include "runtime/kernels/conv/interleave.h"
#include "runtime/memory/scratch.h"

namespace toroid {
namespace {

Scratch scratch_for_copies;

}  // namespace

ChannelsLast::ChannelsLast(const ToroidOperand& image) : is_needed_(image.strides[1] != 1) {
  int64_t stride = image.sizes[1];
  for (int32_t d = image.rank; d-- > 2; stride *= image.sizes[d]) strides_[d] = stride;
  strides_[0] = stride;
  strides_[1] = 1;
}

ToroidOperand ChannelsLast::operand(const ToroidOperand& image) const {
  ToroidOperand copy = image;
  copy.data = nullptr;
  copy.strides = strides_;
  return copy;
}

const uint8_t* ChannelsLast::copy(RuntimePool& pool, const ToroidOperand& image) const {
  const bool has_rows = image.rank == 4;
  const int64_t height = has_rows ? image.sizes[2] : 1, rows = image.sizes[0] * height, row_bytes = strides_[has_rows ? 2 : 0];
  auto* const to = scratch_for_copies.get<uint8_t>(rows * row_bytes);
  pool.parallel_for(rows, 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t offset = i / height * image.strides[0] + (has_rows ? i % height * image.strides[2] : 0);
      interleave({static_cast<const std::byte*>(image.data) + offset, image.sizes[image.rank - 1], image.strides[image.rank - 1],
                  image.sizes[1], image.strides[1]},
                 1, reinterpret_cast<std::byte*>(to + i * row_bytes));
    }
  });
  return to;
}

}  // namespace toroid
