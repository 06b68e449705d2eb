#include "runtime/kernels/conv/int8/windows.h"

#include <algorithm>
#include <cstring>

namespace toroid {

ByteWindows::ByteWindows(const ConvolutionShape& s, const ImageStrides& strides, int64_t channels)
    : s_(s), strides_(strides), channels_(channels) {
  const int64_t elements = s.kernel_elements();
  const bool is_whole = channels == s.groups * s.in_channels;
  const bool follow = is_whole && s.padding[2] == 0 && s.dilation[2] == 1 && strides.column == channels;
  runs_ = channels % kWordBytes == 0 ? Runs::Elements : follow ? Runs::Rows : Runs::Windows;
  taps_ = runs_ == Runs::Elements ? elements : runs_ == Runs::Rows ? s.kernel[1] : 1;
  run_ = elements / taps_ * channels;
  words_ = (run_ + kWordBytes - 1) / kWordBytes;
  image_bytes_ = channels;
  for (const int64_t reach : {(s.batch - 1) * strides.batch, (s.in[1] - 1) * strides.row, (s.in[2] - 1) * strides.column})
    image_bytes_ += std::max<int64_t>(reach, 0);
  for (int64_t i = 0; i < elements; ++i) {
    const int64_t row = i / s.kernel[2] * s.dilation[1], column = i % s.kernel[2] * s.dilation[2];
    elements_.push_back({row, column, row * strides.row + column * strides.column});
  }
  zeros_.assign(static_cast<size_t>(std::max(s.groups * s.in_channels, words_ * kWordBytes)), 0);
}

ByteWindows::Place ByteWindows::place(const uint8_t* image, int64_t position) const {
  const int64_t row = position / s_.out[2] % s_.out[1] * s_.stride[1] - s_.padding[1];
  const int64_t column = position % s_.out[2] * s_.stride[2] - s_.padding[2];
  return {image + position / s_.out_elements() * strides_.batch + row * strides_.row + column * strides_.column, row, column};
}

bool ByteWindows::is_inside(const Place& at, const Element& element) const {
  const int64_t row = at.row + element.row, column = at.column + element.column;
  return row >= 0 && row < s_.in[1] && column >= 0 && column < s_.in[2];
}

void ByteWindows::copy_window(const Place& at, uint8_t* to) const {
  for (const Element& element : elements_) {
    const auto size = static_cast<size_t>(channels_);
    is_inside(at, element) ? std::memcpy(to, at.data + element.offset, size) : std::memset(to, 0, size);
    to += channels_;
  }
}

// Each tap's pointer, in steps of ByteRows::kStrip from `tap` on.
void ByteWindows::point_to_taps(const Place& at, const uint8_t* end, const uint32_t** tap, uint8_t* copied) const {
  const int64_t step = runs_ == Runs::Elements ? 1 : s_.kernel[2], tap_bytes = words_ * kWordBytes;
  const bool is_whole = is_inside(at, elements_.front()) && is_inside(at, elements_.back());
  const Element* element = elements_.data();
  for (int64_t t = 0; t < taps_; ++t, element += step, tap += ByteRows::kStrip) {
    const uint8_t* bytes = is_whole || is_inside(at, *element) ? at.data + element->offset : zeros_.data();
    if (runs_ == Runs::Rows && bytes != zeros_.data() && end - bytes < tap_bytes) {  // its last word is not all there
      bytes = static_cast<const uint8_t*>(std::memcpy(copied + t * tap_bytes, bytes, static_cast<size_t>(run_)));
    }
    *tap = reinterpret_cast<const uint32_t*>(bytes);
  }
}

void ByteWindows::point(const uint8_t* image, int64_t first, int64_t count, const uint32_t** to, uint8_t* copied) const {
  const uint8_t* const end = image + image_bytes_;
  Place at = place(image, first);
  int64_t left_of_row = s_.out[2] - first % s_.out[2];
  for (int64_t i = 0, in_strip = 0; i < count; ++i, ++to) {
    if (runs_ == Runs::Windows) {
      copy_window(at, copied);
      *to = reinterpret_cast<const uint32_t*>(copied);
    } else {
      point_to_taps(at, end, to, copied);
    }
    copied += runs_ == Runs::Elements ? 0 : depth();
    if (++in_strip == ByteRows::kStrip) {
      in_strip = 0;
      to += (taps_ - 1) * ByteRows::kStrip;
    }
    at.column += s_.stride[2];
    at.data += s_.stride[2] * strides_.column;
    if (--left_of_row > 0 || i + 1 == count) continue;
    at = place(image, first + i + 1);
    left_of_row = s_.out[2];
  }
}

std::vector<int8_t> ByteWindows::filters(const ToroidOperand& weight, int64_t slab, int64_t filters) const {
  const FilterLayout layout = filter_layout(weight, s_);
  const auto* const from = static_cast<const int8_t*>(weight.data);
  std::vector<int8_t> result(static_cast<size_t>(depth() * filters), 0);
  for (int64_t i = 0; i < taps_ * run_; ++i) {
    int8_t* const row = result.data() + (i / run_ * words_ * kWordBytes + i % run_) * filters;
    for (int64_t j = 0; j < filters; ++j) {
      const int64_t filter = slab * filters + j;
      const int64_t channel = slab * channels_ + i % channels_ - filter / s_.out_channels * s_.in_channels;
      if (channel >= 0 && channel < s_.in_channels) row[j] = from[layout.offset(filter, channel, i / channels_)];
    }
  }
  return result;
}

}  // namespace toroid
