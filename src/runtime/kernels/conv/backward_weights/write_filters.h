// Sums of taps as a convolution's filters have them.
#pragma once

#include <cstdint>

namespace toroid {

// to[channel * taps + tap] = from[tap * tap_row + channel], for so many channels.
void interleave_taps(const float* from, int64_t tap_row, int64_t taps, int64_t channels, float* to);

}  // namespace toroid
