// Convolutions each of which reads what the one before made, done band by band of image rows.
//
// For each band of rows of the last one a thread makes the rows of every other that the band sees and that it has not made yet, from the first
// convolution to the last: what passes from one to the next lies in a ring of rows that stays in the second-level cache. Rows that two threads
// see are made by both.
#pragma once

#include <span>

#include "runtime/library.h"

namespace toroid {

// Every image but the first has its channels next to each other and nothing between its rows and images; its memory holds none of it
// afterwards. Where bands would not pay, one convolution is done after the other.
void run_convolution_chain(std::span<const ConvolutionStage> stages);

// The same in either way. `rows`: the last stage's rows of a band; 0: as many as the cache has room for. The forms of all stages must be ImageRows
// or ChannelVectors, and their weights constants.
void run_convolutions_in_bands(std::span<const ConvolutionStage> stages, int64_t rows = 0);
void run_convolutions_in_turn(std::span<const ConvolutionStage> stages);

// The implementation of a chain (choices.h) that is one convolution after the other.
inline constexpr std::string_view kApart = "apart";

// Of the stages, whose data is not looked at, on so many threads: what decides between the two where nobody chose.
struct ChainEstimate {
  double in_turn_s, in_bands_s;
};
ChainEstimate estimate_chain(std::span<const ConvolutionStage> stages, int64_t threads);

}  // namespace toroid
