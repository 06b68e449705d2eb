#include "runtime/kernels/conv/amx/image_tiles.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstring>

#include "base/machine/per_thread.h"
#include "runtime/kernels/conv/interleave.h"
#include "runtime/kernels/gemm/bf16x3/split.h"
#include "runtime/kernels/isa/vector_sets.h"
#include "runtime/memory/scratch.h"

namespace toroid {
namespace {

constexpr int64_t kGatheredBytes = 48;  // of channels: fewer would leave too much of their places empty
constexpr int64_t kBandPositions = 512;

Scratch scratch_for_band, scratch_for_tiles;

// The runs of a step, one after the other, then zeros. All in bytes.
void gather_plainly(const std::byte* pixel, Span<const Run> runs, std::byte* to) {
  std::byte* const last = to + kTileRowBytes;
  for (const Run& run : runs) to = std::copy_n(pixel + run.offset, run.length, to);
  std::fill(to, last, std::byte{0});
}
// `count` places of so many bytes, `from_place` bytes apart, to ones that follow each other.
void copy_places_plainly(const std::byte* from, int64_t from_place, int64_t count, int64_t bytes, std::byte* to) {
  for (int64_t i = 0; i < count; ++i, to += kTileRowBytes)
    std::fill(std::copy_n(from + i * from_place, bytes, to), to + kTileRowBytes, std::byte{0});
}

// Of bfloat16.
bool are_finite_plainly(const std::byte* numbers, int64_t bytes) {
  constexpr uint16_t kExponent = 0x7f80;
  bool any = false;
  for (int64_t i = 0; i < bytes; i += 2) {
    uint16_t number;
    std::memcpy(&number, numbers + i, sizeof number);
    any |= (number & kExponent) == kExponent;
  }
  return !any;
}

#ifdef __x86_64__
TOROID_AVX512 inline __mmask64 first_bytes(int64_t count) { return ~uint64_t{0} >> (kTileRowBytes - count); }
TOROID_AVX512 void gather_avx512(const std::byte* pixel, Span<const Run> runs, std::byte* to) {
  __m512i place = _mm512_setzero_si512();
  int64_t filled = 0;
  for (const Run& run : runs) {
    // What precedes the run in memory is masked, and not read.
    place = _mm512_mask_loadu_epi8(place, first_bytes(run.length) << filled, pixel + run.offset - filled);
    filled += run.length;
  }
  _mm512_storeu_si512(to, place);
}
TOROID_AVX512 void copy_places_avx512(const std::byte* from, int64_t from_place, int64_t count, int64_t bytes, std::byte* to) {
  const __mmask64 mask = first_bytes(bytes);
  for (int64_t i = 0; i < count; ++i) _mm512_store_si512(to + i * kTileRowBytes, _mm512_maskz_loadu_epi8(mask, from + i * from_place));
}
TOROID_AVX512 bool are_finite_avx512(const std::byte* numbers, int64_t bytes) {
  const __m512i exponent = _mm512_set1_epi16(0x7f80);
  __mmask32 any = 0;
  int64_t i = 0;
  for (; i + kTileRowBytes <= bytes; i += kTileRowBytes)
    any |= _mm512_cmpeq_epi16_mask(_mm512_and_si512(_mm512_loadu_si512(numbers + i), exponent), exponent);
  return any == 0 && are_finite_plainly(numbers + i, bytes - i);
}
#endif

auto gather_here() {
#ifdef __x86_64__
  if (vector_set() == VectorSet::Avx512) return gather_avx512;
#endif
  return gather_plainly;
}
auto are_finite_here() {
#ifdef __x86_64__
  if (vector_set() == VectorSet::Avx512) return are_finite_avx512;
#endif
  return are_finite_plainly;
}
auto copy_places_here() {
#ifdef __x86_64__
  if (vector_set() == VectorSet::Avx512) return copy_places_avx512;
#endif
  return copy_places_plainly;
}

}  // namespace

ImageTiles::ImageTiles(AmxType numbers, const ConvolutionShape& s, const ImageStrides& strides)
    : s_(s),
      numbers_(numbers),
      element_bytes_(bytes_of_element(numbers)),
      strides_{strides.batch * element_bytes_, strides.channel * element_bytes_, strides.row * element_bytes_,
               strides.column * element_bytes_},
      pixel_bytes_(s.in_channels * element_bytes_),
      layout_(layout_for()),
      steps_of_element_(divide_up(pixel_bytes_, kTileRowBytes)) {
  for (int64_t k1 = 0; k1 < s.kernel[1]; ++k1) {
    for (int64_t k2 = 0; k2 < s.kernel[2]; ++k2) {
      const int64_t row = k1 * s.dilation[1], column = k2 * s.dilation[2];
      const Phase phase = {row % s.stride[1], column % s.stride[2]};
      const auto found =
          std::find_if(phases_.begin(), phases_.end(), [&](const Phase& p) { return p.row == phase.row && p.column == phase.column; });
      elements_.push_back({found - phases_.begin(), row / s.stride[1], column / s.stride[2]});
      if (found == phases_.end()) phases_.push_back(phase);
      most_row_ = std::max(most_row_, row / s.stride[1]);
      most_column_ = std::max(most_column_, column / s.stride[2]);
    }
  }
}

// Tiles' products against the copying of a position's elements, each of which takes a step about as long as so many products.
ImageTiles::Layout ImageTiles::layout_for() const {
  constexpr int64_t kProductsToGather = 12;
  if (pixel_bytes_ >= kGatheredBytes || s_.kernel_elements() == 1) return Layout::Places;
  if (s_.dilation[2] != 1) return Layout::Gathered;
  if (numbers_ != AmxType::BFloat16) return Layout::Rows;
  const int64_t by_rows = s_.kernel[1] * divide_up(s_.kernel[2] * pixel_bytes_, kTileRowBytes),
                gathered = divide_up(s_.kernel_elements() * pixel_bytes_, kTileRowBytes);
  return (by_rows - gathered) * tiles_of(s_.out_channels) <= kProductsToGather * gathered ? Layout::Rows : Layout::Gathered;
}

int64_t ImageTiles::most_rows() const {
  const int64_t bytes_of_row = static_cast<int64_t>(phases_.size()) * steps_of_element_ * band_columns() * kTileRowBytes;
  const int64_t by_cache = l2_cache_bytes() / 4 / bytes_of_row - most_row_;
  return std::clamp<int64_t>(std::min(kBandPositions / s_.out[2], layout_ == Layout::Places ? by_cache : kBandPositions), 1, s_.out[1]);
}

BandPositions ImageTiles::band(const std::byte* data, Range rows) const {
  if (layout_ == Layout::Rows) return overlapping(data, rows);
  return layout_ == Layout::Gathered ? gathered(data, rows) : places(data, rows);
}

// One row of the band in one phase, all steps of the channels, which are so many places apart. `row`: null above and below the image.
void ImageTiles::copy_row(const std::byte* row, const Phase& phase, int64_t step_places, std::byte* out) const {
  const int64_t columns = band_columns(), first = phase.column - s_.padding[2];
  const Range here = row == nullptr ? Range{columns, columns} : indices_inside(first, s_.stride[2], columns, s_.in[2]);
  const int64_t place = s_.stride[2] * strides_.column, elements = kTileRowBytes / element_bytes_;
  for (int64_t step = 0; step < steps_of_element_; ++step, out += step_places * kTileRowBytes) {
    std::memset(out, 0, static_cast<size_t>(here.first * kTileRowBytes));
    std::memset(out + here.last * kTileRowBytes, 0, static_cast<size_t>((columns - here.last) * kTileRowBytes));
    if (here.size() == 0) continue;
    const int64_t channel = step * elements, count = std::min(elements, s_.in_channels - channel);
    const std::byte* from = row + first * strides_.column + here.first * place + channel * strides_.channel;
    std::byte* to = out + here.first * kTileRowBytes;
    if (strides_.channel == element_bytes_) {
      copy_places_here()(from, place, here.size(), count * element_bytes_, to);
      continue;
    }
    for (int64_t i = 0; i < here.size(); ++i, from += place, to += kTileRowBytes) {
      interleave({from, 1, 0, count, strides_.channel}, element_bytes_, to);
      std::fill(to + count * element_bytes_, to + kTileRowBytes, std::byte{0});
    }
  }
}

// [phase][step of channels][row][column][64 bytes of channels]
BandPositions ImageTiles::places(const std::byte* data, Range rows) const {
  const int64_t height = rows.size() + most_row_, columns = band_columns(), step_places = height * columns;
  const int64_t phase_places = steps_of_element_ * step_places;
  // The last tile reads beyond the last place.
  auto* const to = scratch_for_band.get<std::byte>((static_cast<int64_t>(phases_.size()) * phase_places + kTileSide) * kTileRowBytes);
  for (size_t p = 0; p < phases_.size(); ++p) {
    for (int64_t r = 0; r < height; ++r) {
      const int64_t i = (rows.first + r) * s_.stride[1] - s_.padding[1] + phases_[p].row;
      const std::byte* row = i < 0 || i >= s_.in[1] ? nullptr : data + i * strides_.row;
      copy_row(row, phases_[p], step_places, to + (static_cast<int64_t>(p) * phase_places + r * columns) * kTileRowBytes);
    }
  }
  static PerThread<std::vector<int64_t>> of_threads;
  std::vector<int64_t>& offsets = of_threads.get();
  offsets.clear();
  for (const Element& element : elements_) {
    for (int64_t step = 0; step < steps_of_element_; ++step) {
      const int64_t first = element.phase * phase_places + step * step_places;
      offsets.push_back((first + element.row * columns + element.column) * kTileRowBytes);
    }
  }
  return {{to, tiles_of((rows.size() - 1) * columns + s_.out[2]), kTileBytes, offsets.data()}, s_.out[2], columns};
}

// The elements that a position sees of a padded image of so many columns, in bytes.
std::vector<Run> ImageTiles::runs_of_position(int64_t columns) const {
  std::vector<Run> runs;
  for (int64_t k1 = 0; k1 < s_.kernel[1]; ++k1) {
    for (int64_t k2 = 0; k2 < s_.kernel[2]; ++k2) {
      const Run run = {(k1 * s_.dilation[1] * columns + k2 * s_.dilation[2]) * pixel_bytes_, pixel_bytes_};
      const bool follows = !runs.empty() && runs.back().offset + runs.back().length == run.offset;
      follows ? void(runs.back().length += pixel_bytes_) : runs.push_back(run);
    }
  }
  return runs;
}

// So many columns of a row of the padded image, [column][channel].
void ImageTiles::copy_padded(const std::byte* data, int64_t row, int64_t columns, std::byte* to) const {
  const Range across = row < 0 || row >= s_.in[1] ? Range{columns, columns} : indices_inside(-s_.padding[2], 1, columns, s_.in[2]);
  std::fill_n(to, across.first * pixel_bytes_, std::byte{0});
  std::fill(to + across.last * pixel_bytes_, to + columns * pixel_bytes_, std::byte{0});
  if (across.size() == 0) return;
  const std::byte* const from = data + row * strides_.row + (across.first - s_.padding[2]) * strides_.column;
  interleave({from, across.size(), strides_.column, s_.in_channels, strides_.channel}, element_bytes_, to + across.first * pixel_bytes_);
}

// [tile][step][position][64 bytes of elements], from a padded copy [row][column][channel] of the image.
BandPositions ImageTiles::gathered(const std::byte* data, Range rows) const {
  const int64_t height = (rows.size() - 1) * s_.stride[1] + (s_.kernel[1] - 1) * s_.dilation[1] + 1;
  const int64_t columns = (s_.out[2] - 1) * s_.stride[2] + (s_.kernel[2] - 1) * s_.dilation[2] + 1, row_bytes = columns * pixel_bytes_;
  auto* const padded = scratch_for_band.get<std::byte>(height * row_bytes);
  for (int64_t r = 0; r < height; ++r) copy_padded(data, rows.first * s_.stride[1] - s_.padding[1] + r, columns, padded + r * row_bytes);
  const StepElements elements(runs_of_position(columns), kTileRowBytes);
  const int64_t positions = rows.size() * s_.out[2], tiles = tiles_of(positions), tile_bytes = steps() * kTileBytes;
  auto* const out = scratch_for_tiles.get<std::byte>(tiles * tile_bytes);
  const auto gather = gather_here();
  for (int64_t step = 0; step < steps(); ++step) {
    const Span<const Run> some = elements.of(step);
    for (int64_t p = 0; p < tiles * kTileSide; ++p) {
      const int64_t q = std::min(p, positions - 1);  // a tile's last positions repeat the last one
      const std::byte* pixel = padded + (q / s_.out[2] * s_.stride[1] * columns + q % s_.out[2] * s_.stride[2]) * pixel_bytes_;
      gather(pixel, some, out + p / kTileSide * tile_bytes + step * kTileBytes + p % kTileSide * kTileRowBytes);
    }
  }
  return {{out, tiles, tile_bytes}, s_.out[2], s_.out[2]};
}

// [phase of the rows][row][column][channel], of which tiles' rows begin a stride apart. A row of places is that of a row of the result and
// what its last filters see, so that one tile may have places of two rows.
BandPositions ImageTiles::overlapping(const std::byte* data, Range rows) const {
  const int64_t place = s_.stride[2] * pixel_bytes_, of_row = depth_of_row() * element_bytes_;
  const int64_t places = divide_up(((s_.out[2] - 1) * s_.stride[2] + s_.kernel[2]) * pixel_bytes_, place), row_bytes = places * place;
  const int64_t phases = std::min(s_.stride[1], (s_.kernel[1] - 1) * s_.dilation[1] + 1), height = rows.size() + most_row_;
  const int64_t bytes = phases * height * row_bytes, behind = kTileSide * place + of_row;  // the last tile reads beyond the last place
  auto* const padded = scratch_for_band.get<std::byte>(bytes + behind);
  for (int64_t phase = 0; phase < phases; ++phase) {
    for (int64_t r = 0; r < height; ++r) {
      copy_padded(data, (rows.first + r) * s_.stride[1] - s_.padding[1] + phase, row_bytes / pixel_bytes_,
                  padded + (phase * height + r) * row_bytes);
    }
  }
  std::fill_n(padded + bytes, behind, std::byte{0});
  static PerThread<std::vector<int64_t>> of_threads;
  std::vector<int64_t>& offsets = of_threads.get();
  offsets.clear();
  for (int64_t k = 0; k < s_.kernel[1]; ++k) {
    const int64_t row = k * s_.dilation[1], first = (row % s_.stride[1] * height + row / s_.stride[1]) * row_bytes;
    for (int64_t done = 0; done < of_row; done += kTileRowBytes) offsets.push_back(first + done);
  }
  if (numbers_ == AmxType::BFloat16 && !are_finite_here()(padded, bytes))
    return without_neighbours({padded, row_bytes, place, offsets}, rows.size());
  return {{padded, tiles_of((rows.size() - 1) * places + s_.out[2]), kTileSide * place, offsets.data(), place}, s_.out[2], places};
}

// [tile][step][position][64 bytes of elements], zeros behind those of a row of the filter.
BandPositions ImageTiles::without_neighbours(const OverlappingRows& from, int64_t rows) const {
  const int64_t positions = rows * s_.out[2], tiles = tiles_of(positions), tile_bytes = steps() * kTileBytes;
  const int64_t seen = s_.kernel[2] * pixel_bytes_, steps_of_row = depth_of_row() * element_bytes_ / kTileRowBytes;
  auto* const out = scratch_for_tiles.get<std::byte>(tiles * tile_bytes);
  for (int64_t step = 0; step < steps(); ++step) {
    const int64_t count = std::min(seen - step % steps_of_row * kTileRowBytes, kTileRowBytes);
    for (int64_t p = 0; p < tiles * kTileSide; ++p) {
      const int64_t q = std::min(p, positions - 1);
      const std::byte* place = from.data + q / s_.out[2] * from.row_bytes + q % s_.out[2] * from.place_bytes;
      std::byte* const to = out + p / kTileSide * tile_bytes + step * kTileBytes + p % kTileSide * kTileRowBytes;
      std::fill(std::copy_n(place + from.of_filters[static_cast<size_t>(step)], count, to), to + kTileRowBytes, std::byte{0});
    }
  }
  return {{out, tiles, tile_bytes}, s_.out[2], s_.out[2]};
}

}  // namespace toroid
