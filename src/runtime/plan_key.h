// What a plan of library calls depends on (plans.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/library.h"

namespace toroid {

// A thread puts one together at a time, in memory that it keeps.
class PlanKey {
 public:
  enum class Kind : int64_t { Convolution, Chain };
  explicit PlanKey(Kind kind);

  void add(int64_t number) { numbers_.push_back(number); }
  // The threads, the integers, and the operands but for where they lie, unless they are constants.
  void add(const KernelCall& call);
  std::span<const int64_t> get() const { return numbers_; }

 private:
  std::vector<int64_t>& numbers_;
};

}  // namespace toroid
