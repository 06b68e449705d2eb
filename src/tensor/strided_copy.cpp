#include "tensor/strided_copy.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/checked.h"
#include "base/error.h"
#include "base/fail.h"
#include "base/format.h"

namespace toroid {

void copy_strided(std::byte* to, Span<const int64_t> to_strides, const std::byte* from, Span<const int64_t> from_strides,
                  Span<const int64_t> sizes, size_t width) {
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return;
  // Rows along the last dim; those without gaps on both sides are copied at once.
  const size_t outer = sizes.empty() ? 0 : sizes.size() - 1;
  const int64_t length = sizes.empty() ? 1 : sizes[outer];
  const int64_t to_step = sizes.empty() ? 1 : to_strides[outer], from_step = sizes.empty() ? 1 : from_strides[outer];
  const auto step = static_cast<int64_t>(width);
  std::vector<int64_t> index(outer);
  for (;;) {
    int64_t to_at = 0, from_at = 0;
    for (size_t d = 0; d < outer; ++d) {
      to_at += index[d] * to_strides[d];
      from_at += index[d] * from_strides[d];
    }
    if ((to_step == 1 && from_step == 1) || length == 1) {
      std::memcpy(to + to_at * step, from + from_at * step, static_cast<size_t>(length) * width);
    } else {
      for (int64_t i = 0; i < length; ++i) std::memcpy(to + (to_at + i * to_step) * step, from + (from_at + i * from_step) * step, width);
    }
    size_t d = outer;
    while (d > 0 && ++index[d - 1] == sizes[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

bool is_same_layout(Span<const int64_t> sizes, Span<const int64_t> strides, Span<const int64_t> other_strides) {
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return true;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] != 1 && strides[d] != other_strides[d]) return false;
  }
  return true;
}

bool are_apart(Span<const int64_t> sizes, Span<const int64_t> strides) {
  std::vector<size_t> order;  // by strides: they are few, so each goes where it belongs at once
  order.reserve(sizes.size());
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0) return true;
    if (sizes[d] == 1) continue;
    order.push_back(d);
    for (size_t i = order.size() - 1; i > 0 && strides[order[i]] < strides[order[i - 1]]; --i) std::swap(order[i], order[i - 1]);
  }
  Checked last = 0;  // place of the last element along the dims so far
  for (const size_t d : order) {
    const std::optional<int64_t> place = last.value();
    if (!place || strides[d] <= *place) return false;
    last += (Checked(sizes[d]) - 1) * strides[d];
  }
  return true;
}

std::optional<int64_t> extent_bytes(Span<const int64_t> sizes, Span<const int64_t> strides, int64_t width) {
  Checked last = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0) return 0;
    if (strides[d] < 0) return std::nullopt;
    last += (Checked(sizes[d]) - 1) * strides[d];
  }
  return ((last + 1) * width).value();
}

size_t needed_bytes(Span<const int64_t> sizes, Span<const int64_t> strides, int64_t width, std::string_view what) {
  const std::optional<int64_t> bytes = extent_bytes(sizes, strides, width);
  if (bytes) return static_cast<size_t>(*bytes);
  fail(ErrorKind::InvalidInput, Help{"export the model again with contiguous example inputs"},
       "{} of shape [{}] cannot lie in memory with the strides [{}]", what, joined(sizes, ", "), joined(strides, ", "));
}

}  // namespace toroid
