// Dropout: in training, elements or whole channels become 0 at random and the rest grows, so that the mean stays; and
// rrelu, whose slopes are random in training.
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/operators.h"
#include "formula/basics/precision.h"
#include "passes/decompose/random/random_bits.h"
#include "support/match.h"

namespace toroid {
namespace {

void check(Tensor x, double p) {
  if (!(p >= 0 && p <= 1)) {
    throw Error(ErrorKind::InvalidModel, fmt::format("dropout probability has to be between 0 and 1, but got {}", p));
  }
  if (p > 0 && !is_floating(x.dtype())) {
    throw Error(ErrorKind::InvalidModel, fmt::format("dropout is defined on floating dtypes, not {}", to_string(x.dtype())));
  }
}

// Bool: whether to keep an element, with probability 1 - p.
Tensor kept(Decomposer& d, const Sizes& sizes, double p) { return chance(d, sizes, 1 - p); }

// Channels drop as a whole: one draw for each of the first two dims.
Sizes channels(Tensor x) {
  Sizes sizes = x.sizes();
  for (size_t i = 2; i < sizes.size(); ++i) sizes[i] = 1;
  return sizes;
}

struct Kind {
  bool whole_channels;
  bool alpha;  // keeps mean and deviation of what SELU gives, instead of adding zeros
};

Tensor drop(Decomposer& d, Tensor x, double p, const Kind& kind) {
  if (p == 1) return x * 0.0;
  if (kind.whole_channels && x.rank() < 2) {
    throw Error(ErrorKind::InvalidModel, "Feature dropout requires at least 2 dimensions in the input");
  }
  const Tensor keep = d.b.expand(kept(d, kind.whole_channels ? channels(x) : x.sizes(), p), x.sizes());
  if (!kind.alpha) return compute_wide(x, [&](Tensor v) { return where(keep, v * (1 / (1 - p)), v * 0.0); });
  // SELU's value far to the left takes the place of what is dropped; the rest is made of mean 0 and deviation 1 again.
  constexpr double kAlpha = 1.7580993408473766;
  const double scale = 1 / std::sqrt((kAlpha * kAlpha * p + 1) * (1 - p));
  return compute_wide(x, [&](Tensor v) { return where(keep, v, v * 0.0 - kAlpha) * scale + kAlpha * scale * p; });
}

template <bool WholeChannels, bool Alpha>
std::vector<Tensor> dropout(Decomposer& d, const Args& a) {
  const Tensor x = a.tensor(a.schema().parameters[0].name);  // dropout_ calls it self
  const double p = a.number("p");
  const bool training = a.flag("train");
  if (training || !(p >= 0 && p <= 1)) check(x, p);
  if (!training || p == 0) return {x};
  return {drop(d, x, p, {WholeChannels, Alpha})};
}

std::vector<Tensor> native_dropout(Decomposer& d, const Args& a) {
  const Tensor x = a.tensor("input");
  const double p = a.number("p");
  const bool training = !a.has("train") || a.flag("train");
  if (training) check(x, p);
  if (!training || p == 0) return {x, d.b.full(x.sizes(), DType::Bool, true)};
  if (p == 1) return {x * 0.0, d.b.full(x.sizes(), DType::Bool, false)};
  const Tensor keep = kept(d, x.sizes(), p);
  return {compute_wide(x, [&](Tensor v) { return v * d.b.cast(keep, v.dtype()) * (1 / (1 - p)); }), keep};
}

// Of CUDA: `p` is the probability to keep, and the mask is U8.
std::vector<Tensor> fused_dropout(Decomposer& d, const Args& a) {
  const Tensor x = a.tensor("self");
  const double p = a.number("p");
  check(x, p);
  const Tensor keep = chance(d, x.sizes(), p);
  const Tensor y = compute_wide(x, [&](Tensor v) { return v * d.b.cast(keep, v.dtype()) * (p == 0 ? 0 : 1 / p); });
  return {y, d.b.cast(keep, DType::U8)};
}

// ---- leaky ReLU with random slopes ---------------------------------------------------------------------------------

// (result, slopes): x times a slope in [lower, upper) where it is not positive, where slopes elsewhere are 1.
std::vector<Tensor> leak(Decomposer& d, const Args& a) {
  const Tensor x = a.tensor("self");
  if (!is_floating(x.dtype())) {
    throw Error(ErrorKind::InvalidModel, fmt::format("rrelu is defined on floating dtypes, not {}", to_string(x.dtype())));
  }
  const double lower = a.number("lower"), upper = a.number("upper");
  if (!(lower <= upper)) {
    throw Error(ErrorKind::InvalidModel, "Lower bound should be less than or equal to the upper bound");
  }
  const DType wide = compute_dtype(x.dtype());
  const Tensor v = d.b.cast(x, wide);
  if (!a.flag("training")) {
    const Tensor y = where(v > 0.0, v, v * ((lower + upper) / 2));
    return {d.b.cast(y, x.dtype()), Tensor()};
  }
  const Tensor slope = where(v > 0.0, 1.0, unit_uniform(d, x.sizes(), wide) * (upper - lower) + lower);
  return {d.b.cast(v * slope, x.dtype()), d.b.cast(slope, x.dtype())};
}

std::vector<Tensor> rrelu(Decomposer& d, const Args& a) { return {leak(d, a)[0]}; }
// The slopes are kept in `noise` for the backward pass.
std::vector<Tensor> rrelu_with_noise(Decomposer& d, const Args& a) {
  std::vector<Tensor> results = leak(d, a);
  if (!results[1].defined()) results[1] = a.tensor("noise");
  return results;
}

constexpr DecompositionRow kDropoutRows[] = {
    {"aten::dropout", dropout<false, false>},
    {"aten::feature_dropout", dropout<true, false>},
    {"aten::alpha_dropout", dropout<false, true>},
    {"aten::feature_alpha_dropout", dropout<true, true>},
    {"aten::native_dropout", native_dropout},
    {"aten::_fused_dropout", fused_dropout},
    {"aten::rrelu", rrelu},
    {"aten::rrelu_with_noise", rrelu_with_noise},
    {"aten::rrelu_with_noise_functional", rrelu_with_noise},
};

}  // namespace

std::span<const DecompositionRow> dropout_rows() { return kDropoutRows; }

}  // namespace toroid
