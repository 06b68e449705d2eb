// Convolutions of groups with few channels, in tiles on a GPU (codegen/cuda/prelude/group_convolution.inc).
//
// In tiles of filters, as other convolutions have them, a group of four channels and filters would use a small part of what tensor cores
// multiply. Here a block has a tile of an image's pixels for several groups, GpuTiles with `groups`, and a warp multiplies the pixels of
// one group by its filters alone.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/cuda/convolutions/convolution_tiles.h"

namespace toroid::schedule {

inline constexpr int kGroupThreads = 256;

// Of a shape that may have them: are they its tiles where nothing is measured?
bool prefers_group_tiles(const ConvolutionShape& shape);
// Those with the least estimate, by the sizes' hints; and several, the best first.
GpuTiles choose_group_tiles(const ConvolutionShape& shape);
std::vector<TilesEstimate> estimated_group_tiles(const ConvolutionShape& shape);
// Can the kernel have such tiles? The rest asks for those that it can.
bool are_group_tiles(const ConvolutionShape& shape, const GpuTiles& tiles);
int64_t shared_bytes_of_groups(const ConvolutionShape& shape, const GpuTiles& tiles);
// Packs of 16 bytes behind each line of a block's window, so that threads read from different banks of shared memory.
int padding_of_lines(const ConvolutionShape& shape, const GpuTiles& tiles);
// Blocks that a multiprocessor has at once as far as registers go.
int group_blocks_at_once(const ConvolutionShape& shape);

}  // namespace toroid::schedule
