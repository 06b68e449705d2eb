// A 128-bit checksum that tells damage: flipped bits, lost ends, foreign pages. It runs as fast as memory is read, which SHA-256 does not,
// and is no signature: whoever wants to can make other bytes with the same checksum.
//
// The bytes go to four lanes of 16 each. A lane multiplies the two halves of its bytes, each mixed with the lane's state, to 128 bits
// ("folded multiply", as in wyhash and rapidhash), and keeps both halves of the product. Sums beside the product keep what a factor
// of zero would lose. Values are written to files, so they never change: another function needs another name.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/fields.h"
#include "base/span.h"

namespace toroid {

struct Checksum {
  uint64_t low = 0, high = 0;
  TOROID_COMPARED_FIELDS(Checksum, low, high)
};

// Depends on the number of the bytes too.
Checksum checksum(Span<const std::byte> bytes);

}  // namespace toroid
