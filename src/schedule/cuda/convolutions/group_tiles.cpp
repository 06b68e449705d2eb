#include "schedule/cuda/convolutions/group_tiles.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "lower/convolutions/packed_convolution.h"
#include "schedule/cuda/cuda_grid.h"

namespace toroid::schedule {
namespace {

constexpr int64_t kPack = 8, kPackBytes = 16, kWarps = kGroupThreads / 32, kAlignment = 1024;

int64_t divided_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Cycles in which shared memory gives eight threads what they read of all steps: in each four packs of two neighbouring pixels. Different
// packs in one of the eight banks of 16 bytes come one after the other.
class ReadCycles {
 public:
  ReadCycles(const ConvolutionShape& shape, int64_t groups) : of_unit_(shape.c.value() < kPack ? 2 : 1) {
    const int64_t of_tap = of_unit_ * shape.c.value() / kPack, packs = shape.r.value() * shape.s.value() * of_tap;
    pitch_ = groups * shape.c.value() / kPack | 1;
    for (int64_t rest = 0; rest < kBanks; ++rest) {
      for (int64_t first = 0; first < packs; first += 4) {
        std::array<int64_t, kBanks> places = {}, of_bank = {};
        size_t count = 0;
        for (int64_t pack = first; pack < std::min(packs, first + 4); ++pack) {
          const int64_t tap = pack / of_tap, across = tap % shape.s.value() * shape.dilation_w.value() * pitch_ + pack % of_tap;
          const int64_t place = tap / shape.s.value() * shape.dilation_h.value() * (kLongLine + rest) + across;
          for (const int64_t own : {place, place + shape.stride_w.value() * pitch_}) {
            if (std::find(places.begin(), places.begin() + count, own) != places.begin() + count) continue;
            places[count++] = own;
            ++of_bank[static_cast<size_t>(own % kBanks)];
          }
        }
        with_rest_[static_cast<size_t>(rest)] += *std::max_element(of_bank.begin(), of_bank.end());
      }
    }
  }

  // With so many packs from one line of the window to the next; lines are different ones in any case.
  int64_t of_line(int64_t packs) const { return with_rest_[static_cast<size_t>(packs % kBanks)]; }
  int64_t of_unit() const { return of_unit_; }  // groups that are multiplied together
  int64_t pitch() const { return pitch_; }

 private:
  static constexpr int64_t kBanks = 8, kLongLine = 1 << 20;
  int64_t of_unit_, pitch_;
  std::array<int64_t, kBanks> with_rest_ = {};
};

// What of a block's work its tiles decide; as GroupTiles has it in the kernel's text.
struct GroupWork {
  GroupWork(const ConvolutionShape& shape, const GpuTiles& tiles) : GroupWork(shape, tiles, ReadCycles(shape, tiles.groups)) {}
  GroupWork(const ConvolutionShape& shape, const GpuTiles& tiles, const ReadCycles& cycles) {
    const int64_t channels = shape.c.value(), filters = shape.k.value();
    of_unit = cycles.of_unit();
    units = tiles.groups / of_unit;
    pixels = int64_t{tiles.rows} * tiles.columns;
    window_height = (tiles.rows - 1) * shape.stride_h.value() + (shape.r.value() - 1) * shape.dilation_h.value() + 1;
    window_width = (tiles.columns - 1) * shape.stride_w.value() + (shape.s.value() - 1) * shape.dilation_w.value() + 1;
    packs = tiles.groups * channels / kPack;
    columns = tiles.groups * filters;
    steps = divided_up(shape.r.value() * shape.s.value() * of_unit * channels / kPack, 4);
    eights = divided_up(filters, kPack);
    const int64_t line = window_width * cycles.pitch();
    padding = 0;
    for (int64_t more = 1; more < kPack; ++more) {
      if (cycles.of_line(line + more) < cycles.of_line(line + padding)) padding = more;
    }
    read_cycles = cycles.of_line(line + padding);
    const int64_t sum_pitch = columns + (columns % 16 == 0 ? 8 : 0);
    shared_bytes = kAlignment + window_height * (line + padding) * kPackBytes + pixels * sum_pitch * 4;
  }

  bool keeps_filters() const { return steps * eights <= 16; }

  int64_t of_unit, units, pixels, window_height, window_width, packs, columns, steps, eights, padding, shared_bytes;
  int64_t read_cycles;  // of eight threads, in all steps
};

bool fits_block(const GroupWork& work) {
  return work.units <= kWarps && work.columns / kPack <= kGroupThreads && work.shared_bytes <= kAlignment + kMostGroupBytes;
}

}  // namespace

// Of more channels those of filters have few zeros to multiply, and a filter's elements serve more pixels.
bool prefers_group_tiles(const ConvolutionShape& shape) {
  constexpr int64_t kMostChannels = 16;
  return shape.has_narrow_groups && (!shape.is_in_eights || shape.c.value() <= kMostChannels);
}

namespace {

bool may_be_group_tiles(const ConvolutionShape& shape, const GpuTiles& tiles) {
  if (tiles.rows < 1 || tiles.columns < 1 || tiles.groups < 1 || tiles.stages != 1 || tiles.ping_pong) return false;
  const bool are_packs = tiles.groups * shape.c.value() % kPack == 0 && tiles.groups * shape.k.value() % kPack == 0;
  return are_packs && tiles.rows <= 1024 && tiles.columns <= 1024 && tiles.groups <= shape.groups.value();
}

}  // namespace

bool are_group_tiles(const ConvolutionShape& shape, const GpuTiles& tiles) {
  return may_be_group_tiles(shape, tiles) && fits_block(GroupWork(shape, tiles));
}

int64_t shared_bytes_of_groups(const ConvolutionShape& shape, const GpuTiles& tiles) { return GroupWork(shape, tiles).shared_bytes; }

int padding_of_lines(const ConvolutionShape& shape, const GpuTiles& tiles) { return static_cast<int>(GroupWork(shape, tiles).padding); }

int group_blocks_at_once(const ConvolutionShape& shape) {
  const GroupWork work(shape, {.rows = 1, .columns = 1, .stages = 1, .groups = 2});
  if (!work.keeps_filters()) return 2;
  return work.steps * work.eights <= 4 ? 4 : work.steps * work.eights <= 10 ? 3 : 2;
}

namespace {

// Cycles of a multiprocessor for a block: those of shared memory, which reads or writes 128 bytes in one, and those in which its four
// schedulers start the warps' instructions, as the compiled kernel has them.
double cycles_of_block(const GroupWork& work) {
  constexpr int64_t kPixelsOfWarp = 16, kLineBytes = 128, kEightsOfWarp = 4, kLinesOfFilters = 4, kSchedulers = 4;
  constexpr int64_t kOfBlock = 150, kOfCopy = 33, kOfResults = 50, kOfPixels = 16, kOfStep = 18;  // instructions of a warp
  const int64_t sixteens = divided_up(work.pixels, kPixelsOfWarp) * work.units;
  const int64_t reads = 2 * kEightsOfWarp * work.read_cycles + (work.keeps_filters() ? 0 : kLinesOfFilters * work.eights * work.steps);
  const int64_t stored = 4 * work.eights * work.of_unit, sums = work.pixels * work.columns * int64_t{sizeof(float)} / kLineBytes;
  const int64_t window = work.window_height * work.window_width * work.packs;
  const int64_t lines = sixteens * (reads + stored) + sums + window * kPackBytes / kLineBytes;
  const int64_t at_once = kGroupThreads / (work.columns / kPack);  // pixels whose results threads compute
  const int64_t instructions =
      sixteens * (kOfPixels + work.steps * (kOfStep + 2 * work.eights) + 8 * work.eights * work.of_unit) +
      kWarps * (kOfBlock + divided_up(window, kGroupThreads) * kOfCopy + divided_up(work.pixels, at_once) * kOfResults);
  return static_cast<double>(lines) + static_cast<double>(instructions) / kSchedulers;
}

// One block waits for its window, then multiplies, then stores, so memory and the multiprocessor take turns. Of several the more work at
// the same time, the more there are. The start has a launch, the first windows, and the last results.
double seconds_of(const ConvolutionShape& shape, const GpuTiles& tiles, const GroupWork& work) {
  constexpr int64_t kSharedBytes = 227 << 10;
  constexpr double kClock = 1.755e9, kBandwidth = 4.3e12, kStart = 15e-6, kApart = 0.7;
  const auto at_once = static_cast<double>(std::min<int64_t>(group_blocks_at_once(shape), kSharedBytes / work.shared_bytes));
  const double blocks = static_cast<double>(sym::evaluate_hint(blocks_of(shape, tiles, false)));
  const double numbers =
      static_cast<double>(sym::evaluate_hint(shape.n * shape.groups * (shape.h * shape.w * shape.c + shape.p * shape.q * shape.k)));
  const double computing = std::ceil(blocks / kMultiprocessors) * cycles_of_block(work) / kClock;
  return kStart + (1 - kApart + kApart / at_once) * (computing + 2 * numbers / kBandwidth);
}

}  // namespace

std::vector<TilesEstimate> estimated_group_tiles(const ConvolutionShape& shape) {
  constexpr int64_t kMostColumns = 64, kLeastGroups = 2, kMostRows = 32;
  const int64_t widest = std::max(shape.c.value(), shape.k.value()), groups = shape.groups.value();
  const int64_t p = std::max<int64_t>(1, sym::evaluate_hint(shape.p)), q = std::max<int64_t>(1, sym::evaluate_hint(shape.q));
  std::vector<TilesEstimate> result;
  for (int64_t of_block = 1; of_block <= groups && (of_block <= kLeastGroups || of_block * widest <= kMostColumns); ++of_block) {
    const ReadCycles cycles(shape, of_block);
    for (const int64_t most : {256, 128, 64}) {  // pixels
      std::optional<TilesEstimate> best;
      for (int64_t rows = 1; rows <= std::min(p, kMostRows); ++rows) {
        for (int64_t columns = 1; columns <= std::min(q, most / rows); ++columns) {
          const GpuTiles tiles{.rows = static_cast<int>(rows),
                               .columns = static_cast<int>(columns),
                               .stages = 1,
                               .cluster = 1,
                               .groups = static_cast<int>(of_block)};
          if (!may_be_group_tiles(shape, tiles)) continue;
          const GroupWork work(shape, tiles, cycles);
          if (!fits_block(work)) continue;
          const double seconds = seconds_of(shape, tiles, work);
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
