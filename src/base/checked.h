// Arithmetic on counts, bytes and strides that a file or a caller chose: it remembers that a result did not fit 63 bits.
//
//   const std::optional<int64_t> bytes = (Checked(rows) * columns * width).value();     none where any step overflowed
//
// All arithmetic between a file's numbers and an allocation goes through it.
#pragma once

#include <cstdint>
#include <optional>

namespace toroid {

class Checked {
 public:
  constexpr Checked(int64_t value) : value_(value) {}  // NOLINT: implicit, so that formulas read well

  friend constexpr Checked operator+(Checked a, Checked b) {
    a.overflow_ = __builtin_add_overflow(a.value_, b.value_, &a.value_) || a.overflow_ || b.overflow_;
    return a;
  }
  friend constexpr Checked operator-(Checked a, Checked b) {
    a.overflow_ = __builtin_sub_overflow(a.value_, b.value_, &a.value_) || a.overflow_ || b.overflow_;
    return a;
  }
  friend constexpr Checked operator*(Checked a, Checked b) {
    a.overflow_ = __builtin_mul_overflow(a.value_, b.value_, &a.value_) || a.overflow_ || b.overflow_;
    return a;
  }
  Checked& operator+=(Checked other) { return *this = *this + other; }
  Checked& operator*=(Checked other) { return *this = *this * other; }

  constexpr bool fits() const { return !overflow_; }
  constexpr std::optional<int64_t> value() const { return overflow_ ? std::nullopt : std::optional(value_); }

 private:
  int64_t value_;
  bool overflow_ = false;
};

}  // namespace toroid
