// SHA-512 (FIPS 180-4), for signatures of packages (ed25519.h). What runs programs links no library for it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/span.h"

namespace toroid {

using Sha512Digest = std::array<std::byte, 64>;

class Sha512 {
 public:
  void add(Span<const std::byte> bytes);
  // Of all that was added; nothing is added afterwards.
  Sha512Digest finish();

 private:
  void add_block(const std::byte* block);

  uint64_t state_[8] = {0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
                        0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};
  std::byte rest_[128];  // what fills no block yet
  uint64_t bytes_ = 0;
};

Sha512Digest sha512(Span<const std::byte> bytes);

}  // namespace toroid
