// Random integers, truth values and permutations.
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "formula/basics/limits.h"
#include "formula/basics/operators.h"
#include "passes/decompose/arguments/required.h"
#include "passes/decompose/random/random_bits.h"

namespace toroid {
namespace {

std::string_view c_name(DType dtype) {
  switch (dtype) {
    case DType::Bool: return "bool";
    case DType::U8: return "unsigned char";
    case DType::I8: return "signed char";
    case DType::I16: return "short";
    case DType::I32: return "int";
    case DType::I64: return "long";
    case DType::F16: return "c10::Half";
    case DType::BF16: return "c10::BFloat16";
    case DType::F32: return "float";
    case DType::F64: return "double";
    default: return to_string(dtype);
  }
}

// Integers up to this magnitude are numbers of a floating dtype.
int64_t exact_integers(DType dtype) {
  switch (dtype) {
    case DType::F16: return int64_t{1} << 11;
    case DType::BF16: return int64_t{1} << 8;
    case DType::F32: return int64_t{1} << 24;
    default: return int64_t{1} << 53;
  }
}

int64_t greatest(DType dtype) {
  if (is_floating(dtype)) return exact_integers(dtype);
  if (dtype == DType::Bool) return 1;
  return std::get<sym::Expr>(highest_value(dtype)).value();
}

void require_in_bounds(int64_t value, DType dtype, std::string_view what) {
  bool fits = true;
  if (dtype == DType::F16) {
    fits = std::abs(static_cast<double>(value)) <= 65504;
  } else if (!is_floating(dtype)) {
    const int64_t least = dtype == DType::Bool ? 0 : std::get<sym::Expr>(lowest_value(dtype)).value();
    fits = value >= least && value <= greatest(dtype);
  }
  require(fits, "{} is out of bounds for {}", what, c_name(dtype));
}

// ---- integers in a range ------------------------------------------------------------------------------------------------

Tensor between(Decomposer& d, Sizes sizes, DType dtype, sym::Expr from, sym::Expr to) {
  require(!sym::known_le(to, from), "random_ expects 'from' to be less than 'to', but got from={} >= to={}", sym::to_string(from),
          sym::to_string(to));
  if (from.is_const()) require_in_bounds(from.value(), dtype, "from");
  if (to.is_const()) require_in_bounds(to.value() - 1, dtype, "to - 1");
  // The count of numbers wraps as it should: the whole range of I64 has 2^64 - 1 of them without the last.
  const bool known = from.is_const() && to.is_const();
  const sym::Expr count =
      known ? sym::Expr(static_cast<int64_t>(static_cast<uint64_t>(to.value()) - static_cast<uint64_t>(from.value()))) : to - from;
  return d.b.cast(uniform_integer(d, std::move(sizes), from, count), dtype);
}

std::vector<Tensor> randint(Decomposer& d, const Args& a) {
  const bool has_low = a.schema().parameters[0].name == "low";
  return {
      between(d, a.integers("size"), a.dtype("dtype").value_or(DType::I64), has_low ? a.integer("low") : sym::Expr(0), a.integer("high"))};
}
std::vector<Tensor> randint_like(Decomposer& d, const Args& a) {
  const Tensor x = a.tensor("self");
  const bool has_low = a.schema().parameters[1].name == "low";
  return {between(d, x.sizes(), a.dtype("dtype").value_or(x.dtype()), has_low ? a.integer("low") : sym::Expr(0), a.integer("high"))};
}
// The end of the range from a tensor of one element.
std::vector<Tensor> randint_like_tensor(Decomposer& d, const Args& a) {
  const Tensor x = a.tensor("self");
  Tensor high = d.b.cast(d.b.reshape(a.tensor("high"), {}), DType::I64);
  high = checked(d, high, high > 0, RandomRequirement::IntegerRange);
  return {d.b.cast(uniform_integer(d, x.sizes(), high), a.dtype("dtype").value_or(x.dtype()))};
}

// random_ without a range: all numbers from 0 that the dtype has, or the integers that a floating dtype counts without gaps.
std::vector<Tensor> random(Decomposer& d, const Args& a) {
  const Tensor x = a.tensor("self");
  const auto count = static_cast<int64_t>(static_cast<uint64_t>(greatest(x.dtype())) + 1);
  return {d.b.cast(uniform_integer(d, x.sizes(), 0, sym::Expr(count)), x.dtype())};
}
std::vector<Tensor> random_to(Decomposer& d, const Args& a) {
  const Tensor x = a.tensor("self");
  return {between(d, x.sizes(), x.dtype(), 0, a.integer("to"))};
}
std::vector<Tensor> random_from(Decomposer& d, const Args& a) {
  const Tensor x = a.tensor("self");
  const sym::Expr from = a.integer("from");
  if (a.has("to")) return {between(d, x.sizes(), x.dtype(), from, a.integer("to"))};
  const int64_t start = a.constant("from");
  require_in_bounds(start, x.dtype(), "from");
  const int64_t last = greatest(x.dtype());
  require(start <= last, "random_ expects 'from' to be less than or equal to 'to', but got from={} > to={}", start, last);
  const auto count = static_cast<int64_t>(static_cast<uint64_t>(last) - static_cast<uint64_t>(start) + 1);
  return {d.b.cast(uniform_integer(d, x.sizes(), from, sym::Expr(count)), x.dtype())};
}

std::vector<Tensor> randperm(Decomposer& d, const Args& a) {
  const sym::Expr n = a.integer("n");
  const DType dtype = a.dtype("dtype").value_or(DType::I64);
  require(!sym::known_lt(n, 0), "n must be non-negative, got {}", sym::to_string(n));
  if (n.is_const()) {
    const int64_t most = is_floating(dtype) ? exact_integers(dtype) + 1 : greatest(dtype);
    require(n.value() <= most, "n cannot be greater than {} for {}", most, to_string(dtype));
  }
  const int64_t stream = stream_of(d);
  const Tensor order =
      d.b.library("random.permutation", {d.b.random_state()}, {{.dtype = DType::I64, .sizes = {n}}}, {Scalar(sym::Expr(stream))})[0];
  return {d.b.cast(order, dtype)};
}

// ---- bernoulli, geometric -----------------------------------------------------------------------------------------------

Tensor bernoulli_of(Decomposer& d, Tensor p, const Sizes& sizes, DType dtype) {
  require(is_floating(p.dtype()), "bernoulli expects probabilities of a floating dtype, not {}", to_string(p.dtype()));
  p = d.b.cast(p, compute_dtype(p.dtype()));
  p = checked(d, p, all_of((p >= 0.0) & (p <= 1.0)), RandomRequirement::BernoulliProbability);
  return d.b.cast(unit_uniform(d, sizes, p.dtype()) < d.b.expand(p, sizes), dtype);
}

std::vector<Tensor> bernoulli(Decomposer& d, const Args& a) {
  const Tensor p = a.tensor("self");
  return {bernoulli_of(d, p, p.sizes(), p.dtype())};
}
std::vector<Tensor> bernoulli_tensor(Decomposer& d, const Args& a) {
  return {bernoulli_of(d, a.tensor("p"), a.tensor("self").sizes(), a.tensor("self").dtype())};
}
std::vector<Tensor> bernoulli_p(Decomposer& d, const Args& a) {
  const double p = a.number("p");
  require(p >= 0 && p <= 1, "bernoulli_ expects p to be in [0, 1], but got p={}", p);
  return {d.b.cast(chance(d, a.tensor("self").sizes(), p), a.tensor("self").dtype())};
}

// How many trials until the first success.
std::vector<Tensor> geometric(Decomposer& d, const Args& a) {
  const Tensor x = a.tensor("self");
  const double p = a.number("p");
  require(p > 0 && p < 1, "geometric_ expects p to be in (0, 1), but got p={}", p);
  require(x.dtype() != DType::Bool, "geometric_ is not defined on bool");
  const DType wide = is_floating(x.dtype()) ? compute_dtype(x.dtype()) : DType::F64;
  const Tensor trials = apply(ScalarOp::Ceil, log(positive_uniform(d, x.sizes(), wide)) * (1 / std::log1p(-p)));
  return {d.b.cast(maximum(trials, 1.0), x.dtype())};
}

constexpr DecompositionRow kRandomIntegerRows[] = {
    {"aten::randint.*", randint},
    {"aten::randint_like.*", randint_like},
    {"aten::randint_like.Tensor", randint_like_tensor},
    {"aten::randint_like.Tensor_generator", randint_like_tensor},
    {"aten::random", random},
    {"aten::random.to", random_to},
    {"aten::random.from", random_from},
    {"aten::randperm.*", randperm},
    {"aten::bernoulli", bernoulli},
    {"aten::bernoulli.Tensor", bernoulli_tensor},
    {"aten::bernoulli.p", bernoulli_p},
    {"aten::bernoulli_.float", bernoulli_p},
    {"aten::bernoulli.float_out", bernoulli_p},
    {"aten::geometric", geometric},
};

}  // namespace

std::span<const DecompositionRow> random_integer_rows() { return kRandomIntegerRows; }

}  // namespace toroid
