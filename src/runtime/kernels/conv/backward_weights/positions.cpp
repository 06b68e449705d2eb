#include "runtime/kernels/conv/backward_weights/positions.h"

#include <algorithm>
#include <cstring>

#include "runtime/kernels/gemm/packed_b.h"
#include "runtime/kernels/isa/vector_sets.h"
#include "runtime/memory/scratch.h"

namespace toroid {
namespace {

Scratch scratch_for_channels;
Scratch scratch_for_folded_channels;
Scratch scratch_for_transposed_filters;

template <int kElements>
TOROID_INLINE void copy_some(const float* from, float* to) {
  std::memcpy(to, from, kElements * sizeof(float));
}

// Rows are short: a call of memcpy for each takes longer than the copy.
void copy_row(const float* from, int64_t stride, int64_t count, float* to) {
  int64_t i = 0;
  if (stride == 1) {
    for (; i + 16 <= count; i += 16) copy_some<16>(from + i, to + i);
    for (; i + 4 <= count; i += 4) copy_some<4>(from + i, to + i);
  }
  for (; i < count; ++i) copy_some<1>(from + i * stride, to + i);
}

// Of the columns of a plane that positions of a row see: those before and behind the image.
struct Margin {
  int64_t before, behind;
};
Margin margin_of(const BackwardWeightsShape& shape, int64_t remainder, int64_t columns) {
  const Range inside = indices_inside(remainder - shape.padding[1], shape.stride[1], columns, shape.in[1]);
  if (inside.first >= inside.last) return {columns, columns};
  return {inside.first, columns - inside.last};
}

}  // namespace

BackwardWeightsShape with_folded_columns(const BackwardWeightsShape& shape) {
  constexpr int64_t kMostFolded = 64, kFew = 8;
  if (shape.kernel[1] == 1 || shape.channels >= kFew || shape.channels * shape.kernel[1] > kMostFolded) return shape;
  BackwardWeightsShape folded = shape;
  folded.folded = shape.kernel[1];
  folded.channels *= folded.folded;
  folded.columns = shape.in[1];
  folded.column_stride = shape.stride[1];
  folded.column_padding = shape.padding[1];
  folded.column_dilation = shape.dilation[1];
  folded.in[1] = shape.out[1];
  folded.kernel[1] = folded.stride[1] = folded.dilation[1] = 1;
  folded.padding[1] = 0;
  return folded;
}

TapShifts::TapShifts(const BackwardWeightsShape& shape) : reach{0, 0} {
  for (int64_t row = 0; row < shape.kernel[0]; ++row) {
    for (int64_t column = 0; column < shape.kernel[1]; ++column) {
      const int64_t y = row * shape.dilation[0], x = column * shape.dilation[1];
      const Plane plane = {y % shape.stride[0], x % shape.stride[1]};
      const auto it = std::find_if(planes.begin(), planes.end(),
                                   [&](const Plane& each) { return each.row == plane.row && each.column == plane.column; });
      taps.push_back({static_cast<size_t>(it - planes.begin()), y / shape.stride[0], x / shape.stride[1]});
      if (it == planes.end()) planes.push_back(plane);
      reach[0] = std::max(reach[0], taps.back().row);
      reach[1] = std::max(reach[1], taps.back().column);
    }
  }
  const int64_t columns = shape.out[1] + reach[1];
  int64_t shared = reach[1];
  for (const Plane& plane : planes) {
    const Margin margin = margin_of(shape, plane.column, columns);
    shared = std::min({shared, margin.before, margin.behind});
  }
  width = columns - shared;
}

Range PositionBlock::rows_of_image(const BackwardWeightsShape& shape) const {
  const int64_t first = rows.first * shape.stride[0] - shape.padding[0],
                last = (rows.last - 1) * shape.stride[0] + (shape.kernel[0] - 1) * shape.dilation[0] - shape.padding[0] + 1;
  const int64_t from = std::clamp<int64_t>(first, 0, shape.in[0]);
  return {from, std::clamp<int64_t>(last, from, shape.in[0])};
}

PositionCut cut_positions(const BackwardWeightsShape& shape, const TapShifts& shifts, int64_t most_positions, int64_t least_blocks) {
  const int64_t of_image = shape.out[0] * shifts.width;
  PositionCut cut = {1, 1};
  if (of_image > most_positions) {
    cut = {shape.batch, std::min(shape.out[0], divide_up(of_image, most_positions))};
  } else {
    cut.image_parts = divide_up(shape.batch, std::max<int64_t>(1, most_positions / of_image));
  }
  if (cut.blocks() >= least_blocks) return cut;
  if (shape.batch >= least_blocks) return {least_blocks, 1};
  return {shape.batch, std::clamp(divide_up(least_blocks, shape.batch), cut.row_parts, shape.out[0])};
}

void gather_filters(const BackwardWeightsShape& shape, const TapShifts& shifts, const PositionBlock& block, const float* dy,
                    const ImageStrides& strides, int64_t first, int64_t count, int64_t length, float* to, int64_t row) {
  const int64_t width = shape.out[1], gap = shifts.width - width;
  // Where filters lie next to each other, those of an image's rows are transposed together.
  const bool is_transposed = strides.channel == 1 && strides.column != 1;
  const bool is_whole = strides.row == width * strides.column;
  const int64_t area = block.rows.size() * width, transposed_row = padded_stride(block.images.size() * area);
  const float* source = dy + first * strides.channel + block.images.first * strides.batch + block.rows.first * strides.row;
  ImageStrides from = strides;
  if (is_transposed) {
    float* const transposed = scratch_for_transposed_filters.get(count * transposed_row);
    for (int64_t n = 0; n < block.images.size(); ++n) {
      for (int64_t r = 0; r < (is_whole ? 1 : block.rows.size()); ++r) {
        copy_rows({source + n * strides.batch + r * strides.row, 1, strides.column}, {0, count}, {0, is_whole ? area : width},
                  transposed + n * area + r * width, transposed_row);
      }
    }
    source = transposed;
    from = {area, transposed_row, width, 1};
  }
  for (int64_t k = 0; k < count; ++k) {
    float* out = to + k * row;
    float* const end = out + length;
    for (int64_t r = 0; r < block.rows.size(); ++r) {
      for (int64_t n = 0; n < block.images.size(); ++n) {
        const float* const at = source + k * from.channel + n * from.batch + r * from.row;
        copy_row(at, from.column, width, out);
        for (int64_t i = 0; i < gap; ++i) out[width + i] = 0;
        out += shifts.width;
      }
    }
    std::fill(out, end, 0.0f);
  }
}

ChannelLines::ChannelLines(const BackwardWeightsShape& shape, const TapShifts& shifts, const PositionBlock& block, const float* x,
                           const ImageStrides& strides, int64_t length)
    : shape_(shape),
      shifts_(shifts),
      block_(block),
      x_(x + block.images.first * strides.batch),
      strides_(strides),
      length_(length),
      rows_(block.rows_of_image(shape)) {}

void ChannelLines::take(int64_t first, int64_t count) {
  is_copied_ = shape_.folded > 1 || strides_.channel != 1 || count < kChannels;
  const int64_t area = rows_.size() * shape_.in[1];
  const ImageStrides of_copy = {area * kChannels, 1, shape_.in[1] * kChannels, kChannels};
  std::vector<std::vector<int64_t>>& lists = is_copied_ ? of_copy_ : in_place_;
  if (lists.empty()) {
    for (const TapShifts::Plane& plane : shifts_.planes)
      lists.push_back(is_copied_ ? places(plane, of_copy, rows_.first) : places(plane, strides_, 0));
  }
  data_ = x_ + first * strides_.channel;
  if (!is_copied_) return;
  float* const copy = scratch_for_channels.get(block_.images.size() * area * kChannels);
  float* const folded = shape_.folded > 1 ? scratch_for_folded_channels.get(count * area) : nullptr;
  for (int64_t n = 0; n < block_.images.size(); ++n) {
    const float* from = (folded != nullptr ? x_ : data_) + n * strides_.batch + rows_.first * strides_.row;
    ImageStrides strides = strides_;
    if (folded != nullptr) {
      for (int64_t c = 0; c < count; ++c) {
        for (int64_t r = 0; r < rows_.size(); ++r) copy_folded(first + c, from + r * strides.row, folded + c * area + r * shape_.in[1]);
      }
      from = folded;
      strides = {0, area, shape_.in[1], 1};
    }
    float* const to = copy + n * of_copy.batch;
    const bool is_whole = strides.row == shape_.in[1] * strides.column;
    for (int64_t r = 0; r < (is_whole ? 1 : rows_.size()); ++r) {
      pack_sixteen({from + r * strides.row, strides.column, strides.channel}, is_whole ? area : shape_.in[1], count, to + r * of_copy.row);
    }
  }
  data_ = copy;
}

void ChannelLines::copy_folded(int64_t channel, const float* row, float* to) const {
  const int64_t shift = channel % shape_.folded * shape_.column_dilation - shape_.column_padding, count = shape_.out[1];
  const float* const from = row + channel / shape_.folded * strides_.channel;
  const Range inside = indices_inside(shift, shape_.column_stride, count, shape_.columns);
  const int64_t first = std::clamp<int64_t>(inside.first, 0, count), last = std::clamp(inside.last, first, count);
  std::fill(to, to + first, 0.0f);
  copy_row(from + (first * shape_.column_stride + shift) * strides_.column, shape_.column_stride * strides_.column, last - first,
           to + first);
  std::fill(to + last, to + count, 0.0f);
}

std::vector<int64_t> ChannelLines::places(const TapShifts::Plane& plane, const ImageStrides& strides, int64_t first_row) const {
  constexpr int64_t kNowhere = -1;
  std::vector<int64_t> result(static_cast<size_t>(length_), kNowhere);
  const int64_t line = block_.line(shifts_), columns = shape_.out[1] + shifts_.reach[1];
  const Range inside = indices_inside(plane.column - shape_.padding[1], shape_.stride[1], columns, shape_.in[1]);
  for (int64_t r = 0; r < block_.rows.size() + shifts_.reach[0]; ++r) {
    const int64_t y = (block_.rows.first + r) * shape_.stride[0] + plane.row - shape_.padding[0];
    if (y < rows_.first || y >= rows_.last) continue;
    for (int64_t n = 0; n < block_.images.size(); ++n) {
      const int64_t from = n * strides.batch + (y - first_row) * strides.row, at = r * line + n * shifts_.width;
      for (int64_t i = inside.first; i < inside.last && at + i < length_; ++i) {
        const int64_t column = i * shape_.stride[1] + plane.column - shape_.padding[1];
        result[static_cast<size_t>(at + i)] = from + column * strides.column;
      }
    }
  }
  return result;
}

}  // namespace toroid
