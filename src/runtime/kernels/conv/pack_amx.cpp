#include "runtime/kernels/conv/pack_amx.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstring>

#include "base/machine/per_thread.h"
#include "runtime/kernels/gemm/bf16x3/split.h"
#include "runtime/kernels/isa/vector_sets.h"
#include "runtime/memory/scratch.h"

namespace toroid {
namespace {

constexpr int64_t kGatheredChannels = 24;  // fewer would leave too much of their places empty
constexpr int64_t kBandPositions = 512;

Scratch scratch_for_band, scratch_for_tiles;

uint16_t* bits_of(Scratch& scratch, int64_t bytes) {
  return reinterpret_cast<uint16_t*>(scratch.get((bytes + kWordBytes - 1) / kWordBytes));
}

// The runs of a step, one after the other, then zeros.
void gather_plainly(const uint16_t* pixel, std::span<const Run> runs, uint16_t* to) {
  uint16_t* const last = to + kStepElements;
  for (const Run& run : runs) to = std::copy_n(pixel + run.offset, run.length, to);
  std::fill(to, last, uint16_t{0});
}
// `count` places of 32 elements, `from_place` elements apart, to ones that follow each other.
void copy_places_plainly(const uint16_t* from, int64_t from_place, int64_t count, int64_t elements, uint16_t* to) {
  for (int64_t i = 0; i < count; ++i, to += kStepElements)
    std::fill(std::copy_n(from + i * from_place, elements, to), to + kStepElements, uint16_t{0});
}

#ifdef __x86_64__
TOROID_AVX512 inline __mmask32 first_elements(int64_t count) { return static_cast<__mmask32>((uint64_t{1} << count) - 1); }
TOROID_AVX512 void gather_avx512(const uint16_t* pixel, std::span<const Run> runs, uint16_t* to) {
  __m512i place = _mm512_setzero_si512();
  for (int64_t filled = 0; const Run& run : runs) {
    if (filled == 0) {
      place = _mm512_maskz_loadu_epi16(first_elements(run.length), pixel + run.offset);
    } else {
      // What precedes the run in memory is masked, and not read.
      place = _mm512_mask_loadu_epi16(place, first_elements(run.length) << filled, pixel + run.offset - filled);
    }
    filled += run.length;
  }
  _mm512_storeu_si512(to, place);
}
TOROID_AVX512 void copy_places_avx512(const uint16_t* from, int64_t from_place, int64_t count, int64_t elements, uint16_t* to) {
  const __mmask32 mask = first_elements(elements);
  for (int64_t i = 0; i < count; ++i) _mm512_store_si512(to + i * 32, _mm512_maskz_loadu_epi16(mask, from + i * from_place));
}
#endif

auto gather_here() {
#ifdef __x86_64__
  if (vector_set() == VectorSet::Avx512) return gather_avx512;
#endif
  return gather_plainly;
}
auto copy_places_here() {
#ifdef __x86_64__
  if (vector_set() == VectorSet::Avx512) return copy_places_avx512;
#endif
  return copy_places_plainly;
}

}  // namespace

ImageTiles::ImageTiles(const ConvolutionShape& s, const ImageStrides& strides)
    : s_(s),
      strides_(strides),
      gathers_(s.in_channels < kGatheredChannels && s.kernel_elements() > 1),
      steps_of_element_(steps_of(s.in_channels)) {
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

int64_t ImageTiles::most_rows() const {
  const int64_t bytes_of_row = static_cast<int64_t>(phases_.size()) * steps_of_element_ * band_columns() * kTileRowBytes;
  const int64_t by_cache = l2_cache_bytes() / 4 / bytes_of_row - most_row_;
  return std::clamp<int64_t>(std::min(kBandPositions / s_.out[2], gathers_ ? kBandPositions : by_cache), 1, s_.out[1]);
}

BandPositions ImageTiles::band(const uint16_t* data, Range rows) const { return gathers_ ? gathered(data, rows) : places(data, rows); }

// One row of the band in one phase, all steps of the channels, which are so many places apart. `row`: null above and below the image.
void ImageTiles::copy_row(const uint16_t* row, const Phase& phase, int64_t step_places, std::byte* out) const {
  const int64_t columns = band_columns(), first = phase.column - s_.padding[2];
  const Range here = row == nullptr ? Range{columns, columns} : indices_inside(first, s_.stride[2], columns, s_.in[2]);
  const int64_t place = s_.stride[2] * strides_.column;
  for (int64_t step = 0; step < steps_of_element_; ++step, out += step_places * kTileRowBytes) {
    auto* to = reinterpret_cast<uint16_t*>(out);
    std::memset(to, 0, static_cast<size_t>(here.first * kTileRowBytes));
    std::memset(to + here.last * kStepElements, 0, static_cast<size_t>((columns - here.last) * kTileRowBytes));
    if (here.size() == 0) continue;
    const int64_t channel = step * kStepElements, count = std::min(kStepElements, s_.in_channels - channel);
    const uint16_t* from = row + first * strides_.column + here.first * place + channel * strides_.channel;
    to += here.first * kStepElements;
    if (strides_.channel == 1) {
      copy_places_here()(from, place, here.size(), count, to);
      continue;
    }
    for (int64_t i = 0; i < here.size(); ++i, from += place, to += kStepElements) {
      for (int64_t c = 0; c < kStepElements; ++c) to[c] = c < count ? from[c * strides_.channel] : uint16_t{0};
    }
  }
}

// [phase][step of channels][row][column][32 channels]
BandPositions ImageTiles::places(const uint16_t* data, Range rows) const {
  const int64_t height = rows.size() + most_row_, columns = band_columns(), step_places = height * columns;
  const int64_t phase_places = steps_of_element_ * step_places;
  // The last tile reads beyond the last place.
  auto* to = reinterpret_cast<std::byte*>(
      bits_of(scratch_for_band, (static_cast<int64_t>(phases_.size()) * phase_places + kTileSide) * kTileRowBytes));
  for (size_t p = 0; p < phases_.size(); ++p) {
    for (int64_t r = 0; r < height; ++r) {
      const int64_t i = (rows.first + r) * s_.stride[1] - s_.padding[1] + phases_[p].row;
      const uint16_t* row = i < 0 || i >= s_.in[1] ? nullptr : data + i * strides_.row;
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

// [tile][step][position][32 elements], from a padded copy [row][column][channel] of the image.
BandPositions ImageTiles::gathered(const uint16_t* data, Range rows) const {
  const int64_t height = (rows.size() - 1) * s_.stride[1] + (s_.kernel[1] - 1) * s_.dilation[1] + 1, channels = s_.in_channels;
  const int64_t columns = (s_.out[2] - 1) * s_.stride[2] + (s_.kernel[2] - 1) * s_.dilation[2] + 1;
  uint16_t* padded = bits_of(scratch_for_band, height * columns * channels * 2);
  const Range across = indices_inside(-s_.padding[2], 1, columns, s_.in[2]);
  for (int64_t r = 0; r < height; ++r) {
    const int64_t i = rows.first * s_.stride[1] - s_.padding[1] + r;
    uint16_t* to = padded + r * columns * channels;
    const bool is_empty = i < 0 || i >= s_.in[1];
    if (is_empty || across.size() < columns) std::fill_n(to, columns * channels, uint16_t{0});
    if (is_empty) continue;
    const uint16_t* from = data + i * strides_.row - s_.padding[2] * strides_.column;
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t j = across.first; j < across.last; ++j) to[j * channels + c] = from[j * strides_.column + c * strides_.channel];
    }
  }
  std::vector<Run> runs;
  for (int64_t k1 = 0; k1 < s_.kernel[1]; ++k1) {
    for (int64_t k2 = 0; k2 < s_.kernel[2]; ++k2) {
      const Run run = {(k1 * s_.dilation[1] * columns + k2 * s_.dilation[2]) * channels, channels};
      const bool follows = !runs.empty() && runs.back().offset + runs.back().length == run.offset;
      follows ? void(runs.back().length += channels) : runs.push_back(run);
    }
  }
  const StepElements elements(runs);
  const int64_t positions = rows.size() * s_.out[2], tiles = tiles_of(positions), tile_bytes = steps() * kTileBytes;
  uint16_t* out = bits_of(scratch_for_tiles, tiles * tile_bytes);
  const auto gather = gather_here();
  for (int64_t step = 0; step < steps(); ++step) {
    const std::span<const Run> some = elements.of(step);
    for (int64_t p = 0; p < tiles * kTileSide; ++p) {
      const int64_t q = std::min(p, positions - 1);  // a tile's last positions repeat the last one
      const uint16_t* pixel = padded + (q / s_.out[2] * s_.stride[1] * columns + q % s_.out[2] * s_.stride[2]) * channels;
      gather(pixel, some, out + (p / kTileSide * tile_bytes + step * kTileBytes + p % kTileSide * kTileRowBytes) / 2);
    }
  }
  return {{reinterpret_cast<std::byte*>(out), tiles, tile_bytes}, s_.out[2], s_.out[2]};
}

}  // namespace toroid
