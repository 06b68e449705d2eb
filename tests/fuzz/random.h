// The random numbers of the program generator: a seed means the same program everywhere.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "support/split_mix.h"

namespace toroid::fuzz {

class Random {
 public:
  explicit Random(uint64_t seed) : source_(seed) {}

  uint64_t bits() { return source_.next(); }
  int64_t below(int64_t end) { return static_cast<int64_t>(bits() % static_cast<uint64_t>(end)); }  // in [0, end)
  int64_t between(int64_t least, int64_t most) { return least + below(most - least + 1); }          // both included
  double unit() { return static_cast<double>(bits() >> 11) * 0x1p-53; }                             // in [0, 1)
  bool chance(double probability) { return unit() < probability; }
  template <class T>
  const T& pick(const std::vector<T>& list) {
    return list[static_cast<size_t>(below(static_cast<int64_t>(list.size())))];
  }
  template <class T>
  T pick(std::initializer_list<T> list) {
    return *(list.begin() + below(static_cast<int64_t>(list.size())));
  }
  // By the members' `weight`.
  template <class T>
  const T& pick_weighted(const std::vector<T>& list) {
    double point = 0;
    for (const T& each : list) point += each.weight;
    point *= unit();
    for (const T& each : list) {
      if ((point -= each.weight) <= 0) return each;
    }
    return list.back();
  }

 private:
  SplitMix source_;
};

}  // namespace toroid::fuzz
