#include "library/regions.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/float16.h"
#include "base/format.h"

namespace toroid::regions {
namespace {

// What elements of T are computed in.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

// A step of computing a position, as T holds it.
template <class T>
Wide<T> rounded(Wide<T> value) {
  return static_cast<Wide<T>>(static_cast<T>(value));
}

template <class T>
const T* elements(const LibraryInput& input) {
  return reinterpret_cast<const T*>(input.data);
}
template <class T>
T* elements(const LibraryOutput& output) {
  return reinterpret_cast<T*>(output.data);
}

// Calls f with a value of the C++ type of the first input's elements.
template <class F>
void with_element_type(const LibraryCall& call, F f) {
  switch (call.inputs[0].dtype) {
    case DType::F32: return f(float{});
    case DType::F64: return f(double{});
    case DType::F16: return f(Float16{});
    default: TOROID_CHECK(false, "regions of {}", to_string(call.inputs[0].dtype));
  }
}

// f(item) for all items, each of about `work` steps.
template <class F>
void for_each(const LibraryCall& call, int64_t items, int64_t work, F f) {
  work = std::max<int64_t>(work, 1);
  call.in_pieces(items * work, [&](int64_t begin, int64_t end) {
    for (int64_t i = (begin + work - 1) / work; i < (end + work - 1) / work; ++i) f(i);
  });
}

// Towards zero; NaN and what no int64_t holds become the nearest that is far from every image.
template <class W>
int64_t integer(W value) {
  constexpr W kFar = 1e9;
  return std::isnan(value) ? 0 : static_cast<int64_t>(std::clamp(value, -kFar, kFar));
}

// The sizes of a call: of the image, of the result, and how many regions there are.
struct Extents {
  Extents(Span<const int64_t> image, Span<const int64_t> pooled)
      : images(image[0]),
        channels(image[1]),
        height(image[2]),
        width(image[3]),
        regions(pooled[0]),
        maps(pooled[1]),
        rows(pooled[2]),
        columns(pooled[3]) {}
  int64_t plane() const { return height * width; }
  int64_t bins() const { return rows * columns; }
  // The input channel that a bin of an output channel reads.
  int64_t channel(int64_t map, int64_t row, int64_t column, bool by_position) const {
    return by_position ? (map * rows + row) * columns + column : map;
  }

  int64_t images, channels, height, width;
  int64_t regions, maps, rows, columns;
};

template <class T>
int64_t image_of(const T* region, const Extents& extents) {
  const auto number = static_cast<Wide<T>>(region[0]);
  if (number > -1 && number < static_cast<Wide<T>>(extents.images)) return static_cast<int64_t>(number);
  throw Error(ErrorKind::InvalidInput, formatted("a region is of image {}, and there are {}", static_cast<double>(number), extents.images))
      .help("the first column of the regions is the number of an image of the batch");
}

// ---- samples between pixels ----------------------------------------------------------------------------------------------------

// A sample's place on one axis: between two pixels.
template <class W>
struct Tap {
  int64_t low, high;
  W low_weight, high_weight;
};

// The samples of a region on one axis, bin by bin. Samples outside the image are left out: they are zero.
template <class W>
struct Axis {
  std::vector<Tap<W>> taps;
  std::vector<size_t> starts;  // of each bin's taps, and the end
  W samples = 0;               // of each bin, outside the image too; negative for a region turned round
  Span<const Tap<W>> bin(int64_t i) const {
    const auto at = static_cast<size_t>(i);
    return {taps.data() + starts[at], starts[at + 1] - starts[at]};
  }
};

template <class W>
struct Region {
  int64_t image;
  Axis<W> rows, columns;
  W count;  // of a bin's samples, which its sum is divided by
};

struct Alignment {
  explicit Alignment(Span<const double> attributes)
      : scale(attributes[0]),
        samples(static_cast<int64_t>(attributes[1])),
        by_position(attributes[3] != 0),
        offset(attributes[2] != 0 || by_position ? 0.5 : 0.0),
        at_least_a_pixel(attributes[2] == 0 && !by_position) {}
  double scale;
  int64_t samples;  // 0 or less: as many as a bin has pixels
  bool by_position;
  double offset;  // from the corner of a pixel to its centre
  bool at_least_a_pixel;
};

template <class T>
Axis<Wide<T>> axis_of(T from, T to, int64_t bins, int64_t size, const Alignment& how) {
  using W = Wide<T>;
  const W scale = rounded<T>(static_cast<W>(how.scale)), offset = static_cast<W>(how.offset);
  const W start = rounded<T>(rounded<T>(static_cast<W>(from) * scale) - offset);
  const W end = rounded<T>(rounded<T>(static_cast<W>(to) * scale) - offset);
  W extent = rounded<T>(end - start);
  if (how.at_least_a_pixel) extent = std::max(extent, W{1});
  const W bin = rounded<T>(extent / static_cast<W>(bins));
  const int64_t samples = how.samples > 0 ? how.samples : integer(std::ceil(bin));  // negative for a region turned round, as in PyTorch

  Axis<W> axis;
  axis.samples = static_cast<W>(samples);
  axis.starts.push_back(0);
  const int64_t count = std::max<int64_t>(samples, 0);
  for (int64_t i = 0; i < bins; ++i) {
    const W first = rounded<T>(start + rounded<T>(static_cast<W>(i) * bin));
    const W step = bin / static_cast<W>(std::max<int64_t>(count, 1));
    // Only samples near the image matter, however far the region reaches.
    int64_t begin = 0, stop = count;
    if (step > 0) {
      begin = std::clamp<int64_t>(integer((W{-1} - first) / step) - 2, 0, count);
      stop = std::clamp<int64_t>(integer((static_cast<W>(size) - first) / step) + 3, begin, count);
    }
    for (int64_t k = begin; k < stop; ++k) {
      const W place = rounded<T>(rounded<T>((static_cast<W>(k) + W{0.5}) * bin) / static_cast<W>(samples));
      const W position = std::max(rounded<T>(first + place), W{-2});
      if (!(position >= -1 && position <= static_cast<W>(size)) || size == 0) continue;
      const W inside = std::max(position, W{0});
      const int64_t low = std::min(static_cast<int64_t>(inside), size - 1);
      const int64_t high = std::min(low + 1, size - 1);
      const W part = high == low ? W{0} : inside - static_cast<W>(low);
      axis.taps.push_back({low, high, W{1} - part, part});
    }
    axis.starts.push_back(axis.taps.size());
  }
  return axis;
}

template <class T>
std::vector<Region<Wide<T>>> regions_of(const T* rows, const Extents& extents, const Alignment& how) {
  std::vector<Region<Wide<T>>> result;
  for (int64_t k = 0; k < extents.regions; ++k) {
    const T* row = rows + 5 * k;
    Region<Wide<T>> region{image_of(row, extents), axis_of(row[2], row[4], extents.rows, extents.height, how),
                           axis_of(row[1], row[3], extents.columns, extents.width, how), 0};
    region.count = region.rows.samples * region.columns.samples;
    if (!how.by_position) region.count = std::max(region.count, Wide<T>{1});
    result.push_back(std::move(region));
  }
  return result;
}

int64_t steps_of_bin(const Alignment& how) { return 4 * std::clamp<int64_t>(how.samples * how.samples, 4, 1024); }

template <class T>
void align_elements(const LibraryCall& call) {
  using W = Wide<T>;
  const Extents extents(call.inputs[0].sizes, call.outputs[0].sizes);
  const Alignment how(call.attributes);
  const std::vector<Region<W>> regions = regions_of(elements<T>(call.inputs[1]), extents, how);
  const T* image = elements<T>(call.inputs[0]);
  T* result = elements<T>(call.outputs[0]);
  for_each(call, extents.regions * extents.maps, extents.bins() * steps_of_bin(how), [&](int64_t item) {
    const Region<W>& region = regions[static_cast<size_t>(item / extents.maps)];
    T* to = result + item * extents.bins();
    for (int64_t i = 0; i < extents.rows; ++i) {
      for (int64_t j = 0; j < extents.columns; ++j) {
        const int64_t channel = extents.channel(item % extents.maps, i, j, how.by_position);
        const T* plane = image + (region.image * extents.channels + channel) * extents.plane();
        W sum = 0;
        for (const Tap<W>& y : region.rows.bin(i)) {
          const T *low = plane + y.low * extents.width, *high = plane + y.high * extents.width;
          for (const Tap<W>& x : region.columns.bin(j)) {
            sum += y.low_weight * x.low_weight * static_cast<W>(low[x.low]) + y.low_weight * x.high_weight * static_cast<W>(low[x.high]) +
                   y.high_weight * x.low_weight * static_cast<W>(high[x.low]) +
                   y.high_weight * x.high_weight * static_cast<W>(high[x.high]);
          }
        }
        *to++ = static_cast<T>(sum / region.count);
      }
    }
  });
}

// Runs add(map, planes) for every output channel, in parallel: planes(image, channel) are where an input channel's gradients add up.
// Output channels share no input channel, so their sums are made in a fixed order.
template <class T, class Add>
void add_gradients(const LibraryCall& call, const Extents& extents, int64_t steps, Add add) {
  using W = Wide<T>;
  std::vector<W> sums(static_cast<size_t>(extents.images * extents.channels * extents.plane()));
  auto planes = [&](int64_t image, int64_t channel) { return sums.data() + (image * extents.channels + channel) * extents.plane(); };
  for_each(call, extents.maps, extents.regions * extents.bins() * steps, [&](int64_t map) { add(map, planes); });
  T* to = elements<T>(call.outputs[0]);
  for (size_t i = 0; i < sums.size(); ++i) to[i] = static_cast<T>(sums[i]);
}

template <class T>
void align_gradients(const LibraryCall& call) {
  using W = Wide<T>;
  const Extents extents(call.outputs[0].sizes, call.inputs[0].sizes);
  const Alignment how(call.attributes);
  const std::vector<Region<W>> regions = regions_of(elements<T>(call.inputs[1]), extents, how);
  const T* grads = elements<T>(call.inputs[0]);
  add_gradients<T>(call, extents, steps_of_bin(how), [&](int64_t map, auto planes) {
    for (int64_t k = 0; k < extents.regions; ++k) {
      const Region<W>& region = regions[static_cast<size_t>(k)];
      const T* grad = grads + (k * extents.maps + map) * extents.bins();
      for (int64_t i = 0; i < extents.rows; ++i) {
        for (int64_t j = 0; j < extents.columns; ++j) {
          const W share = static_cast<W>(*grad++) / region.count;
          W* plane = planes(region.image, extents.channel(map, i, j, how.by_position));
          for (const Tap<W>& y : region.rows.bin(i)) {
            W *low = plane + y.low * extents.width, *high = plane + y.high * extents.width;
            for (const Tap<W>& x : region.columns.bin(j)) {
              low[x.low] += share * y.low_weight * x.low_weight;
              low[x.high] += share * y.low_weight * x.high_weight;
              high[x.low] += share * y.high_weight * x.low_weight;
              high[x.high] += share * y.high_weight * x.high_weight;
            }
          }
        }
      }
    }
  });
}

// ---- whole pixels --------------------------------------------------------------------------------------------------------------

// A region's first pixel on one axis, and how many pixels a bin has.
template <class W>
struct Pixels {
  int64_t start;
  W bin;
  // The pixels [begin, end) of a bin, within [0, most].
  std::pair<int64_t, int64_t> of_bin(int64_t i, int64_t most) const {
    const int64_t begin = integer(std::floor(static_cast<W>(i) * bin)), end = integer(std::ceil(static_cast<W>(i + 1) * bin));
    return {std::clamp<int64_t>(begin + start, 0, most), std::clamp<int64_t>(end + start, 0, most)};
  }
};

// `last_counts`: the region's last pixel belongs to it.
template <class T>
Pixels<Wide<T>> pixels_of(T from, T to, int64_t bins, double scale, bool last_counts) {
  using W = Wide<T>;
  const W factor = rounded<T>(static_cast<W>(scale));
  const int64_t start = integer(std::round(rounded<T>(static_cast<W>(from) * factor)));
  const int64_t end = integer(std::round(rounded<T>(static_cast<W>(to) * factor)));
  const int64_t extent = std::max<int64_t>(end - start + (last_counts ? 1 : 0), 1);
  return {start, rounded<T>(rounded<T>(static_cast<W>(extent)) / static_cast<W>(bins))};
}

template <class W>
struct PixelRegion {
  int64_t image;
  Pixels<W> rows, columns;
};

template <class T>
std::vector<PixelRegion<Wide<T>>> pixel_regions_of(const T* rows, const Extents& extents, double scale, bool last_counts) {
  std::vector<PixelRegion<Wide<T>>> result;
  for (int64_t k = 0; k < extents.regions; ++k) {
    const T* row = rows + 5 * k;
    result.push_back({image_of(row, extents), pixels_of(row[2], row[4], extents.rows, scale, last_counts),
                      pixels_of(row[1], row[3], extents.columns, scale, last_counts)});
  }
  return result;
}

template <class T>
void max_elements(const LibraryCall& call) {
  using W = Wide<T>;
  const Extents extents(call.inputs[0].sizes, call.outputs[0].sizes);
  const auto regions = pixel_regions_of(elements<T>(call.inputs[1]), extents, call.attributes[0], true);
  const T* image = elements<T>(call.inputs[0]);
  T* values = elements<T>(call.outputs[0]);
  auto* places = elements<int32_t>(call.outputs[1]);
  for_each(call, extents.regions * extents.maps, extents.plane() + extents.bins(), [&](int64_t item) {
    const PixelRegion<W>& region = regions[static_cast<size_t>(item / extents.maps)];
    const T* plane = image + (region.image * extents.channels + item % extents.maps) * extents.plane();
    int64_t to = item * extents.bins();
    for (int64_t i = 0; i < extents.rows; ++i) {
      const auto [top, bottom] = region.rows.of_bin(i, extents.height);
      for (int64_t j = 0; j < extents.columns; ++j, ++to) {
        const auto [left, right] = region.columns.of_bin(j, extents.width);
        const bool is_empty = bottom <= top || right <= left;
        // A NaN, and what is below the least float, is greater than nothing: PyTorch's result.
        W best = is_empty ? W{0} : rounded<T>(-std::numeric_limits<float>::max());
        int64_t place = -1;
        for (int64_t y = top; y < bottom; ++y) {
          for (int64_t x = left; x < right; ++x) {
            const auto value = static_cast<W>(plane[y * extents.width + x]);
            if (value > best) {
              best = value;
              place = y * extents.width + x;
            }
          }
        }
        values[to] = static_cast<T>(best);
        places[to] = static_cast<int32_t>(place);
      }
    }
  });
}

template <class T>
void mean_elements(const LibraryCall& call) {
  using W = Wide<T>;
  const Extents extents(call.inputs[0].sizes, call.outputs[0].sizes);
  const auto regions = pixel_regions_of(elements<T>(call.inputs[1]), extents, call.attributes[0], false);
  const T* image = elements<T>(call.inputs[0]);
  T* values = elements<T>(call.outputs[0]);
  for_each(call, extents.regions * extents.maps, extents.plane() + extents.bins(), [&](int64_t item) {
    const PixelRegion<W>& region = regions[static_cast<size_t>(item / extents.maps)];
    T* to = values + item * extents.bins();
    for (int64_t i = 0; i < extents.rows; ++i) {
      const auto [top, bottom] = region.rows.of_bin(i, extents.height - 1);  // the last row and column are no bin's, as in PyTorch
      for (int64_t j = 0; j < extents.columns; ++j) {
        const auto [left, right] = region.columns.of_bin(j, extents.width - 1);
        const int64_t channel = extents.channel(item % extents.maps, i, j, true);
        const T* plane = image + (region.image * extents.channels + channel) * extents.plane();
        W sum = 0;
        for (int64_t y = top; y < bottom; ++y) {
          for (int64_t x = left; x < right; ++x) sum += static_cast<W>(plane[y * extents.width + x]);
        }
        const int64_t count = (bottom - top) * (right - left);
        *to++ = static_cast<T>(bottom <= top || right <= left ? W{0} : sum / static_cast<W>(count));
      }
    }
  });
}

template <class T>
void mean_gradients(const LibraryCall& call) {
  using W = Wide<T>;
  const Extents extents(call.outputs[0].sizes, call.inputs[0].sizes);
  const auto regions = pixel_regions_of(elements<T>(call.inputs[1]), extents, call.attributes[0], false);
  const T* grads = elements<T>(call.inputs[0]);
  add_gradients<T>(call, extents, 16, [&](int64_t map, auto planes) {
    for (int64_t k = 0; k < extents.regions; ++k) {
      const PixelRegion<W>& region = regions[static_cast<size_t>(k)];
      const T* grad = grads + (k * extents.maps + map) * extents.bins();
      for (int64_t i = 0; i < extents.rows; ++i) {
        const auto [top, bottom] = region.rows.of_bin(i, extents.height);  // PyTorch leaves nothing out here
        for (int64_t j = 0; j < extents.columns; ++j, ++grad) {
          const auto [left, right] = region.columns.of_bin(j, extents.width);
          if (bottom <= top || right <= left) continue;
          const W share = static_cast<W>(*grad) / static_cast<W>((bottom - top) * (right - left));
          W* plane = planes(region.image, extents.channel(map, i, j, true));
          for (int64_t y = top; y < bottom; ++y) {
            for (int64_t x = left; x < right; ++x) plane[y * extents.width + x] += share;
          }
        }
      }
    }
  });
}

// ---- boxes ---------------------------------------------------------------------------------------------------------------------

template <class T>
void suppress_boxes(const LibraryCall& call) {
  const int64_t n = call.inputs[0].sizes[0];
  const T* boxes = elements<T>(call.inputs[0]);
  auto* kept = elements<uint8_t>(call.outputs[0]);
  const double limit = call.attributes[0];
  std::vector<T> x1, y1, x2, y2, areas;
  for (std::vector<T>* side : {&x1, &y1, &x2, &y2, &areas}) side->reserve(static_cast<size_t>(n));
  for (const T* box = boxes; box < boxes + 4 * n; box += 4) {
    x1.push_back(box[0]), y1.push_back(box[1]), x2.push_back(box[2]), y2.push_back(box[3]);
    areas.push_back((box[2] - box[0]) * (box[3] - box[1]));
  }
  std::fill_n(kept, n, uint8_t{1});
  const auto count = static_cast<size_t>(n);
  for (size_t i = 0; i < count; ++i) {
    if (kept[i] == 0) continue;
    for (size_t j = i + 1; j < count; ++j) {
      const T width = std::max(T{0}, std::min(x2[i], x2[j]) - std::max(x1[i], x1[j]));
      const T height = std::max(T{0}, std::min(y2[i], y2[j]) - std::max(y1[i], y1[j]));
      const T both = width * height;
      kept[j] &= static_cast<uint8_t>(!(static_cast<double>(both / (areas[i] + areas[j] - both)) > limit));
    }
  }
}

}  // namespace

void suppress(const LibraryCall& call) { call.inputs[0].dtype == DType::F64 ? suppress_boxes<double>(call) : suppress_boxes<float>(call); }
void align(const LibraryCall& call) {
  with_element_type(call, [&](auto element) { align_elements<decltype(element)>(call); });
}
void align_backward(const LibraryCall& call) {
  with_element_type(call, [&](auto element) { align_gradients<decltype(element)>(call); });
}
void max(const LibraryCall& call) {
  with_element_type(call, [&](auto element) { max_elements<decltype(element)>(call); });
}
void mean(const LibraryCall& call) {
  with_element_type(call, [&](auto element) { mean_elements<decltype(element)>(call); });
}
void mean_backward(const LibraryCall& call) {
  with_element_type(call, [&](auto element) { mean_gradients<decltype(element)>(call); });
}

}  // namespace toroid::regions
