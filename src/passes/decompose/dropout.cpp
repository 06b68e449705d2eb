// Dropout: in training, elements or whole channels become 0 at random and the rest grows, so that the mean stays.
#include <cmath>

#include "passes/decompose/formula.h"
#include "passes/decompose/random_bits.h"
#include "support/error.h"

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
Tensor kept(Decomposer& d, const Sizes& sizes, double p) { return unit_uniform(d, sizes, DType::F32) >= p; }

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

constexpr DecompositionRow kRows[] = {
    {"aten::dropout", dropout<false, false>},
    {"aten::feature_dropout", dropout<true, false>},
    {"aten::alpha_dropout", dropout<false, true>},
    {"aten::feature_alpha_dropout", dropout<true, true>},
    {"aten::native_dropout", native_dropout},
};

}  // namespace

std::span<const DecompositionRow> dropout_rows() { return kRows; }

}  // namespace toroid
