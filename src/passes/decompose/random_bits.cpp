#include "passes/decompose/random_bits.h"

#include <numbers>

#include "passes/decompose/formula.h"
#include "support/error.h"

namespace toroid {
namespace {

constexpr int64_t kMaxNodes = int64_t{1} << 16;
constexpr int64_t kMaxDraws = int64_t{1} << 8;       // of one operator
constexpr int64_t kMaxElements = int64_t{1} << 40;   // of one draw

// The lowest `count` bits of `bits` as a fraction.
Tensor fraction(Tensor bits, int count, DType dtype) {
  Builder& b = bits.builder();
  const Tensor integer = b.binary(ScalarOp::BitAnd, bits, Scalar(sym::Expr((int64_t{1} << count) - 1)));
  return b.cast(integer, dtype) * std::ldexp(1.0, -count);
}

// In (0, 1]: half a step above fraction(); what rounds up becomes 1.
Tensor positive_fraction(Tensor bits, int count, DType dtype) { return fraction(bits, count, dtype) + std::ldexp(0.5, -count); }

}  // namespace

int64_t RandomStreams::next() {
  if (draws_ == 0) ++nodes_;
  if (nodes_ > kMaxNodes || draws_ == kMaxDraws) {
    throw Error(ErrorKind::Unsupported, fmt::format("the program draws random numbers in more than {} places", kMaxNodes))
        .help("split the model into several programs");
  }
  return (nodes_ - 1) * kMaxDraws + draws_++;
}

RandomBits::RandomBits(Decomposer& d, Sizes sizes) {
  if (d.streams == nullptr) {
    throw Error(ErrorKind::Unsupported, "random numbers are drawn where each run of a loop would draw the same")
        .help("draw them before the loop, and pass them in");
  }
  Builder& b = d.b;
  const Tensor state = b.random_state();
  const sym::Expr count = sym::product(sizes);
  if (sym::known_lt(kMaxElements, count)) {
    throw Error(ErrorKind::Unsupported, fmt::format("{} random numbers are drawn at once", sym::to_string(count)))
        .help("at most 2^40 can be");
  }
  const Tensor position = b.reshape(b.iota({count}, 0), sizes);
  counter_ = b.binary(ScalarOp::Add, position, Scalar(sym::Expr(d.streams->next() * kMaxElements)));
  seed_ = b.expand(b.select(state, 0, 0), sizes);
  call_ = b.expand(b.select(state, 0, 1), sizes);
}

Tensor RandomBits::word(int i) const {
  Builder& b = counter_.builder();
  const Tensor pair = i < 2 ? low() : high();
  return b.cast(i % 2 == 0 ? pair : b.binary(ScalarOp::ShiftRight, pair, Scalar(sym::Expr(32))), DType::I32);
}

Tensor unit_uniform(Decomposer& d, Sizes sizes, DType dtype) {
  const RandomBits bits(d, std::move(sizes));
  switch (dtype) {
    case DType::F64: return fraction(bits.low(), 53, dtype);
    case DType::F16: return d.b.cast(fraction(bits.word(0), 11, DType::F32), dtype);
    case DType::BF16: return d.b.cast(fraction(bits.word(0), 8, DType::F32), dtype);
    default: TOROID_CHECK(dtype == DType::F32, "uniform numbers as {}", to_string(dtype)); return fraction(bits.word(0), 24, dtype);
  }
}

Tensor positive_uniform(Decomposer& d, Sizes sizes, DType dtype) {
  const RandomBits bits(d, std::move(sizes));
  if (dtype == DType::F64) return positive_fraction(bits.low(), 53, dtype);
  return positive_fraction(bits.word(0), 31, DType::F32);
}

Tensor standard_normal(Decomposer& d, Sizes sizes, DType dtype) {
  const RandomBits bits(d, std::move(sizes));
  const bool is_double = dtype == DType::F64;
  const Tensor radius = is_double ? positive_fraction(bits.low(), 53, dtype) : positive_fraction(bits.word(0), 31, dtype);
  const Tensor turn = is_double ? fraction(bits.high(), 53, dtype) : fraction(bits.word(1), 24, dtype);
  return sqrt(log(radius) * -2.0) * cos(turn * (2 * std::numbers::pi));
}

}  // namespace toroid
