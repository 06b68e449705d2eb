#include "interp/order.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "library/sort_keys.h"
#include "tensor/host_tensor.h"

namespace toroid::order {
namespace {

int64_t count_of_rows(std::span<const int64_t> sizes) {
  int64_t rows = 1;
  for (int64_t size : sizes.first(sizes.size() - 1)) rows *= size;
  return rows;
}

// The keys of each row of the first input, and a place in it that choose(keys, positions in ascending order, k) gives for each of the row's
// k results: values to the first output, places to the second.
template <class Choose>
void pick(const LibraryCall& call, const Choose& choose) {
  const LibraryInput& x = call.inputs[0];
  const int64_t length = x.sizes.back(), results = call.outputs[0].sizes.back(), width = size_bytes(x.dtype);
  if (length == 0) return;
  with_sort_keys(x.dtype, [&](auto bits, auto key_of) {
    for (int64_t r = 0; r < count_of_rows(x.sizes); ++r) {
      std::vector<uint64_t> keys(static_cast<size_t>(length));
      for (int64_t i = 0; i < length; ++i) {
        std::memcpy(&bits, x.data + (r * length + i) * width, sizeof bits);
        keys[static_cast<size_t>(i)] = key_of(bits);
      }
      std::vector<size_t> ascending(keys.size());
      std::iota(ascending.begin(), ascending.end(), size_t{0});
      std::stable_sort(ascending.begin(), ascending.end(), [&](size_t a, size_t b) { return keys[a] < keys[b]; });
      for (int64_t k = 0; k < results; ++k) {
        const auto place = static_cast<int64_t>(choose(keys, ascending, static_cast<size_t>(k)));
        std::memcpy(call.outputs[0].data + (r * results + k) * width, x.data + (r * length + place) * width, sizeof bits);
        reinterpret_cast<int64_t*>(call.outputs[1].data)[r * results + k] = place;
      }
    }
  });
}

using Keys = std::vector<uint64_t>;
using Places = std::vector<size_t>;

void require_place(int64_t place, int64_t length) {
  if (place >= 0 && place < length) return;
  throw Error(ErrorKind::InvalidInput, fmt::format("element {} of an ordered row of {} does not exist", place, length));
}

// The first probe from which on elements are not before the value, probe by probe: with NaN in a row the probes decide.
template <class T>
void search_rows(const LibraryCall& call) {
  const auto* sorted = reinterpret_cast<const T*>(call.inputs[0].data);
  const auto* values = reinterpret_cast<const T*>(call.inputs[1].data);
  const int64_t length = call.inputs[0].sizes.back(), searches = call.inputs[1].sizes.back();
  const bool right = call.attributes[0] != 0;
  const int64_t all = count_of_rows(call.inputs[1].sizes) * searches;
  for (int64_t i = 0; i < all; ++i) {
    int64_t first = 0, last = length;
    while (first < last) {
      const int64_t middle = first + (last - first) / 2;
      const T x = sorted[i / searches * length + middle];
      const bool is_before = right ? !(x > values[i]) : !(x >= values[i]);
      if (is_before) {
        first = middle + 1;
      } else {
        last = middle;
      }
    }
    reinterpret_cast<int64_t*>(call.outputs[0].data)[i] = first;
  }
}

}  // namespace

void topk(const LibraryCall& call) {
  const bool largest = call.attributes[1] != 0;
  const int64_t k = call.outputs[0].sizes.back(), length = call.inputs[0].sizes.back();
  if (k == 0 || length == 0) return;
  require_place(k - 1, length);
  pick(call, [&](const Keys& keys, const Places& ascending, size_t place) {
    if (!largest) return ascending[place];
    Places descending = ascending;
    std::stable_sort(descending.begin(), descending.end(), [&](size_t a, size_t b) { return keys[a] > keys[b]; });
    return descending[place];
  });
}

void kth(const LibraryCall& call) {
  const auto place = static_cast<int64_t>(call.attributes[0]);
  if (const int64_t length = call.inputs[0].sizes.back(); length > 0) require_place(place, length);
  pick(call, [&](const Keys&, const Places& ascending, size_t) { return ascending[static_cast<size_t>(place)]; });
}

// NaN is the last in order; equal ones lie as they come.
void median(const LibraryCall& call) {
  const bool ignore_nan = call.attributes[0] != 0, has_nan = is_floating(call.inputs[0].dtype);
  const uint64_t nan_key = ~uint64_t{0} >> (64 - 8 * size_bytes(call.inputs[0].dtype));
  pick(call, [&](const Keys& keys, const Places& ascending, size_t) {
    const size_t n = keys.size(), nans = has_nan ? static_cast<size_t>(std::count(keys.begin(), keys.end(), nan_key)) : 0;
    if (nans == n || (nans > 0 && !ignore_nan)) return ascending[n - nans];
    return ascending[(n - nans - 1) / 2];
  });
}

void mode(const LibraryCall& call) {
  pick(call, [&](const Keys& keys, const Places& ascending, size_t) {
    size_t most = 0, last = 0;
    for (size_t place : ascending) {
      const auto times = static_cast<size_t>(std::count(keys.begin(), keys.end(), keys[place]));
      if (times < most || (times == most && keys[place] != keys[last])) continue;  // of equally many the smallest
      most = times;
      last = place;
    }
    return last;
  });
}

void positions(const LibraryCall& call) {
  const int64_t n = call.inputs[0].sizes[0], room = call.outputs[0].sizes[0];
  auto* out = reinterpret_cast<int64_t*>(call.outputs[0].data);
  std::fill_n(out, room, 0);
  for (int64_t i = 0, found = 0; i < n && found < room; ++i) {
    if (call.inputs[0].data[i] != std::byte{0}) out[found++] = i;
  }
}

void search(const LibraryCall& call) {
  switch (call.inputs[0].dtype) {
    case DType::F32: return search_rows<float>(call);
    case DType::F64: return search_rows<double>(call);
    case DType::I64: return search_rows<int64_t>(call);
    default: TOROID_CHECK(false, "a search among {}", to_string(call.inputs[0].dtype));
  }
}

}  // namespace toroid::order
