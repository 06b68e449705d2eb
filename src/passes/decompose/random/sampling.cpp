// Samples from distributions with parameters in tensors: categories, counts, gamma and Dirichlet.
//
// Where rejection needs a varying number of draws, a library kernel draws them: library/random/random_kernels.h.
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "formula/basics/operators.h"
#include "passes/decompose/arguments/operands.h"
#include "passes/decompose/arguments/required.h"
#include "passes/decompose/math/searching.h"
#include "passes/decompose/random/random_bits.h"

namespace toroid {
namespace {

// ---- categories ---------------------------------------------------------------------------------------------------------

// Weights that are checked: rows of F64 that are finite, not negative and not all zero.
Tensor checked_weights(Decomposer& d, Tensor weights) {
  Tensor w = d.b.cast(weights, DType::F64);
  w = checked(d, w, all_of((w >= 0.0) & (w < std::numeric_limits<double>::infinity())), RandomRequirement::MultinomialElements);
  return checked(d, w, all_of(d.b.sum(w, {-1}) > 0.0), RandomRequirement::MultinomialSum);
}

// With replacement: where a uniform number falls among the running sums of the weights. It is below the last sum, and a weight of
// zero leaves no room to fall into.
Tensor independent_samples(Decomposer& d, Tensor weights, sym::Expr count) {
  Builder& b = d.b;
  const Tensor sums = b.scan(ScanOp::Sum, weights, 1)[0];
  const Tensor total = b.slice(sums, 1, sums.size(1) - 1, 1);
  const Sizes sizes = {weights.size(0), count};
  const Tensor target = unit_uniform(d, sizes, DType::F64) * b.expand(total, sizes);
  return insertion_points(sums, target, true);
}

// Without replacement: the order in which exponential clocks ring that run as fast as the weights say. Weights of zero
// never ring, and come last.
Tensor distinct_samples(Decomposer& d, Tensor weights, sym::Expr count) {
  Builder& b = d.b;
  const Tensor speed = weights / standard_exponential(d, weights.sizes(), DType::F64);
  if (count.is_const(1)) return b.keep(b.reduce(ReduceOp::ArgMax, speed, {1})[0], {1});
  return b.slice(b.sort(speed, 1, true, true).second, 1, 0, count);
}

std::vector<Tensor> multinomial(Decomposer& d, const Args& a) {
  const Tensor x = a.tensor("self");
  const sym::Expr count = a.integer("num_samples");
  const bool replacement = a.flag("replacement");
  require(x.rank() == 1 || x.rank() == 2, "prob_dist must be 1 or 2 dim");
  require(is_floating(x.dtype()), "multinomial only supports floating-point dtypes for input, got: {}", to_string(x.dtype()));
  require(!sym::known_le(count, 0), "cannot sample n_sample <= 0 samples");
  require(replacement || !sym::known_lt(x.size(-1), count), "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  require(!x.size(-1).is_const(0), "invalid multinomial distribution (sum of probabilities <= 0)");
  const Tensor weights = checked_weights(d, x.rank() == 1 ? d.b.unsqueeze(x, 0) : x);
  const Tensor picked = replacement ? independent_samples(d, weights, count) : distinct_samples(d, weights, count);
  return {x.rank() == 1 ? d.b.squeeze(picked, 0) : picked};
}

// ---- by library kernels -------------------------------------------------------------------------------------------------

// The kernel's results for parameters of one shape, as F64.
Tensor sample(Decomposer& d, std::string kernel, std::vector<Tensor> parameters) {
  const Sizes sizes = parameters[0].sizes();
  for (Tensor& parameter : parameters) parameter = d.b.cast(parameter, DType::F64);
  const int64_t stream = stream_of(d);
  parameters.push_back(d.b.random_state());
  return d.b.library(std::move(kernel), std::move(parameters), {{.dtype = DType::F64, .sizes = sizes}}, {Scalar(sym::Expr(stream))})[0];
}

std::vector<Tensor> poisson(Decomposer& d, const Args& a) {
  const Tensor x = a.tensor("self");
  require(is_floating(x.dtype()), "poisson expects rates of a floating dtype, not {}", to_string(x.dtype()));
  const Tensor rate = checked(d, x, all_of(x >= 0.0), RandomRequirement::PoissonRate);
  return {d.b.cast(sample(d, "random.poisson", {rate}), x.dtype())};
}

std::vector<Tensor> binomial(Decomposer& d, const Args& a) {
  const Tensor count = a.tensor("count"), p = a.tensor("prob");
  require(is_floating(count.dtype()) && is_floating(p.dtype()), "binomial expects counts and probabilities of a floating dtype");
  const Sizes sizes = d.b.broadcast(count.sizes(), p.sizes());
  return {d.b.cast(sample(d, "random.binomial", {d.b.expand(count, sizes), d.b.expand(p, sizes)}), count.dtype())};
}

double least_normal(DType dtype) {
  return dtype == DType::F64 ? std::numeric_limits<double>::min() : dtype == DType::F16 ? 0x1p-14 : std::numeric_limits<float>::min();
}

std::vector<Tensor> standard_gamma(Decomposer& d, const Args& a) {
  const Tensor x = a.tensor("self");
  require(is_floating(x.dtype()), "_standard_gamma expects shapes of a floating dtype, not {}", to_string(x.dtype()));
  return {maximum(d.b.cast(sample(d, "random.gamma", {x}), x.dtype()), least_normal(x.dtype()))};
}

std::vector<Tensor> dirichlet(Decomposer& d, const Args& a) {
  const Tensor x = a.tensor("self");
  require(is_floating(x.dtype()), "_sample_dirichlet expects concentrations of a floating dtype, not {}", to_string(x.dtype()));
  const Tensor parts = sample(d, "random.gamma", {x});
  const Tensor share = parts / d.b.keep(d.b.sum(parts, {-1}), {-1});
  return {maximum(d.b.cast(share, x.dtype()), least_normal(x.dtype()))};
}

constexpr DecompositionRow kSamplingRows[] = {
    {"aten::multinomial", multinomial},     {"aten::poisson", poisson},
    {"aten::binomial", binomial},           {"aten::_standard_gamma", standard_gamma},
    {"aten::_sample_dirichlet", dirichlet},
};

}  // namespace

std::span<const DecompositionRow> sampling_rows() { return kSamplingRows; }

}  // namespace toroid
