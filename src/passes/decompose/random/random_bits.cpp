#include "passes/decompose/random/random_bits.h"

#include <numbers>

#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/operators.h"

namespace toroid {
namespace {

constexpr int64_t kMaxNodes = int64_t{1} << 16;
constexpr int64_t kMaxDraws = int64_t{1} << 8;      // of one operator
constexpr int64_t kMaxElements = int64_t{1} << 40;  // of one draw

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

int64_t stream_of(Decomposer& d) {
  TOROID_CHECK(d.streams != nullptr, "a view draws random numbers");
  return d.streams->next();
}

RandomBits::RandomBits(Decomposer& d, Sizes sizes) {
  Builder& b = d.b;
  const Tensor state = b.random_state();
  const sym::Expr count = sym::product(sizes);
  if (sym::known_lt(kMaxElements, count)) {
    throw Error(ErrorKind::Unsupported, fmt::format("{} random numbers are drawn at once", sym::to_string(count)))
        .help("at most 2^40 can be");
  }
  const Tensor position = b.reshape(b.iota({count}, 0), sizes);
  counter_ = b.binary(ScalarOp::Add, position, Scalar(sym::Expr(stream_of(d) * kMaxElements)));
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

Tensor chance(Decomposer& d, Sizes sizes, double p) {
  if (p >= 1) return d.b.full(std::move(sizes), DType::Bool, true);
  if (p <= 0) return d.b.full(std::move(sizes), DType::Bool, false);
  return chance_of(RandomBits(d, std::move(sizes)).word(0), p);
}

Tensor chance_of(Tensor bits, double p) {
  const auto below = static_cast<int64_t>(std::floor(p * 0x1p32)) - (int64_t{1} << 31);
  return bits < bits.builder().scalar(DType::I32, sym::Expr(below));
}

Tensor standard_exponential(Decomposer& d, Sizes sizes, DType dtype) {
  const double least = dtype == DType::F64 ? 0x1p-53 : 0x1p-24;  // where the logarithm gives 0
  return maximum(-log(positive_uniform(d, std::move(sizes), dtype)), least);
}

namespace {

// The upper 64 bits of the product of 64 bits and `count`, in halves of 32 as in long multiplication.
Tensor upper_product(Tensor bits, Tensor count, bool count_is_short) {
  Builder& b = bits.builder();
  auto lower = [&](Tensor x) { return b.binary(ScalarOp::BitAnd, x, Scalar(sym::Expr(int64_t{0xffffffff}))); };
  auto upper = [&](Tensor x) { return lower(b.binary(ScalarOp::ShiftRight, x, Scalar(sym::Expr(32)))); };
  const Tensor count_low = lower(count), bits_low = lower(bits), bits_high = upper(bits);
  const Tensor carried = bits_high * count_low + upper(bits_low * count_low);
  if (count_is_short) return upper(carried);
  const Tensor count_high = upper(count);
  return bits_high * count_high + upper(carried) + upper(lower(carried) + bits_low * count_high);
}

}  // namespace

Tensor uniform_integer(Decomposer& d, Sizes sizes, sym::Expr from, sym::Expr count) {
  Builder& b = d.b;
  Tensor bits = RandomBits(d, std::move(sizes)).low();
  if (!count.is_const(0)) {
    const bool is_short = count.is_const() && count.value() > 0 && count.value() >> 32 == 0;
    bits = upper_product(bits, b.scalar(DType::I64, count), is_short);
  }
  return from.is_const(0) ? bits : bits + b.scalar(DType::I64, from);
}
Tensor uniform_integer(Decomposer& d, Sizes sizes, Tensor count) {
  return upper_product(RandomBits(d, std::move(sizes)).low(), count, false);
}

Tensor all_of(Tensor holds) { return holds.rank() == 0 ? holds : holds.builder().reduce(ReduceOp::All, holds, {})[0]; }

Tensor checked(Decomposer& d, Tensor x, Tensor holds, RandomRequirement requirement) {
  const Tensor zero = d.b.library("random.require", {holds}, {{.dtype = DType::I64, .sizes = {}}},
                                  {Scalar(sym::Expr(static_cast<int64_t>(requirement)))})[0];
  return d.b.binary(ScalarOp::Add, x, d.b.cast(zero, x.dtype()));
}

}  // namespace toroid
