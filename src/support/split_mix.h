// Random bits that a seed decides, the same everywhere. Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
// 2014.
#pragma once

#include <cstdint>

namespace toroid {

class SplitMix {
 public:
  explicit SplitMix(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t bits = state_ += 0x9e3779b97f4a7c15u;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
    return bits ^ (bits >> 31);
  }

 private:
  uint64_t state_;
};

}  // namespace toroid
