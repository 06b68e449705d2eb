#include "schedule/cuda/convolutions/group_tiles.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "lower/convolutions/packed_convolution.h"
#include "schedule/cuda/cuda_grid.h"

namespace toroid::schedule {
namespace {

constexpr int64_t kPack = 8, kPackBytes = 16, kWarps = kGroupThreads / 32, kAlignment = 1024;

int64_t divided_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// What of a block's work its tiles decide; as GroupTiles has it in the kernel's text.
struct GroupWork {
  GroupWork(const ConvolutionShape& shape, const GpuTiles& tiles) {
    const int64_t channels = shape.c.value(), filters = shape.k.value();
    const int64_t of_unit = channels < kPack ? 2 : 1;
    units = tiles.groups / of_unit;
    pixels = int64_t{tiles.rows} * tiles.columns;
    window = ((tiles.rows - 1) * shape.stride_h.value() + (shape.r.value() - 1) * shape.dilation_h.value() + 1) *
             ((tiles.columns - 1) * shape.stride_w.value() + (shape.s.value() - 1) * shape.dilation_w.value() + 1);
    packs = tiles.groups * channels / kPack;
    columns = tiles.groups * filters;
    steps = divided_up(shape.r.value() * shape.s.value() * of_unit * channels / kPack, 4);
    eights = divided_up(filters, kPack);
    const int64_t sum_pitch = columns + (columns % 16 == 0 ? 8 : 0);
    shared_bytes = kAlignment + window * (packs | 1) * kPackBytes + pixels * sum_pitch * 4;
  }

  bool keeps_filters() const { return steps * eights <= 16; }

  int64_t units, pixels, window, packs, columns, steps, eights, shared_bytes;
};

}  // namespace

// Of more channels those of filters have few zeros to multiply, and a filter's elements serve more pixels.
bool prefers_group_tiles(const ConvolutionShape& shape) {
  constexpr int64_t kMostChannels = 16;
  return shape.has_narrow_groups && (!shape.is_in_eights || shape.c.value() <= kMostChannels);
}

bool are_group_tiles(const ConvolutionShape& shape, const GpuTiles& tiles) {
  if (tiles.rows < 1 || tiles.columns < 1 || tiles.groups < 1 || tiles.stages != 1 || tiles.ping_pong) return false;
  const bool are_packs = tiles.groups * shape.c.value() % kPack == 0 && tiles.groups * shape.k.value() % kPack == 0;
  if (!are_packs || tiles.rows > 1024 || tiles.columns > 1024 || tiles.groups > shape.groups.value()) return false;
  const GroupWork work(shape, tiles);
  return work.units <= kWarps && work.columns / kPack <= kGroupThreads && work.shared_bytes <= kAlignment + kMostGroupBytes;
}

int64_t shared_bytes_of_groups(const ConvolutionShape& shape, const GpuTiles& tiles) { return GroupWork(shape, tiles).shared_bytes; }

int group_blocks_at_once(const ConvolutionShape& shape) {
  const GroupWork work(shape, {.rows = 1, .columns = 1, .stages = 1, .groups = 2});
  if (!work.keeps_filters()) return 2;
  return work.steps * work.eights <= 4 ? 4 : work.steps * work.eights <= 10 ? 3 : 2;
}

namespace {

// Blocks that a multiprocessor has at once share what it does in a cycle; a round of blocks waits besides for its first window.
double seconds_of(const ConvolutionShape& shape, const GpuTiles& tiles) {
  constexpr int64_t kSharedBytes = 227 << 10, kSector = 32, kPixelsOfWarp = 16, kLinesOfLoads = 8, kLinesOfFilters = 4;
  constexpr double kBytesOfCycle = 16, kClock = 1.6e9, kStart = 4e-6, kRoundCycles = 3000, kLineBytes = 128;
  const GroupWork work(shape, tiles);
  const auto bytes =
      static_cast<double>(work.window * divided_up(work.packs * kPackBytes, kSector) * kSector + work.pixels * work.columns * 2);
  // Lines of shared memory, of which one is read in a cycle: packs of pixels, filters that are not kept, and sums, written and read.
  const int64_t sharing = std::max<int64_t>(1, kWarps / work.units), of_warp = divided_up(divided_up(work.pixels, kPixelsOfWarp), sharing);
  const int64_t filters = work.keeps_filters() ? 0 : kLinesOfFilters * work.eights;
  const double lines = static_cast<double>(kWarps * of_warp * work.steps * (kLinesOfLoads + filters)) +
                       2 * sizeof(float) * static_cast<double>(work.pixels * work.columns) / kLineBytes;
  const auto at_once = static_cast<double>(std::min<int64_t>(group_blocks_at_once(shape), kSharedBytes / work.shared_bytes));
  const double count = static_cast<double>(sym::evaluate_hint(blocks_of(shape, tiles, false)));
  const double rounds = std::max(1.0, std::ceil(count / (kMultiprocessors * at_once)));
  return kStart + rounds * (at_once * (bytes / kBytesOfCycle + lines) + kRoundCycles) / kClock;
}

}  // namespace

std::vector<TilesEstimate> estimated_group_tiles(const ConvolutionShape& shape) {
  constexpr int64_t kMostColumns = 64, kLeastGroups = 2, kMostRows = 32;
  const int64_t widest = std::max(shape.c.value(), shape.k.value()), groups = shape.groups.value();
  const int64_t p = std::max<int64_t>(1, sym::evaluate_hint(shape.p)), q = std::max<int64_t>(1, sym::evaluate_hint(shape.q));
  std::vector<TilesEstimate> result;
  for (int64_t of_block = 1; of_block <= groups && (of_block <= kLeastGroups || of_block * widest <= kMostColumns); ++of_block) {
    for (const int64_t most : {256, 128, 64}) {  // pixels
      std::optional<TilesEstimate> best;
      for (int64_t rows = 1; rows <= std::min(p, kMostRows); ++rows) {
        for (int64_t columns = 1; columns <= std::min(q, most / rows); ++columns) {
          const GpuTiles tiles{.rows = static_cast<int>(rows),
                               .columns = static_cast<int>(columns),
                               .stages = 1,
                               .cluster = 1,
                               .groups = static_cast<int>(of_block)};
          if (!are_group_tiles(shape, tiles)) continue;
          const double seconds = seconds_of(shape, tiles);
          if (!best || seconds < best->seconds) best = {tiles, seconds};
        }
      }
      const auto is_there = [&](const TilesEstimate& each) { return each.tiles == best->tiles; };
      if (best && std::none_of(result.begin(), result.end(), is_there)) result.push_back(*best);
    }
  }
  std::stable_sort(result.begin(), result.end(), [](const TilesEstimate& a, const TilesEstimate& b) { return a.seconds < b.seconds; });
  return result;
}

GpuTiles choose_group_tiles(const ConvolutionShape& shape) { return estimated_group_tiles(shape).front().tiles; }

}  // namespace toroid::schedule
