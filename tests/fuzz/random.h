// The random numbers of the program generator: splitmix64, so that a seed means the same program everywhere.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

namespace toroid::fuzz {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t bits() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
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
  uint64_t state_;
};

}  // namespace toroid::fuzz
