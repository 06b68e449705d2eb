#include "fuzz/exactness.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace toroid::fuzz {

std::string base_of(std::string_view call) {
  std::string_view name = call.substr(0, call.find('('));
  name.remove_prefix(std::min(name.size(), name.find("::") + 2));
  name = name.substr(0, name.find('.'));
  while (name.ends_with("_")) name.remove_suffix(1);
  return std::string(name);
}

bool is_exact(const std::string& base) {
  static const std::set<std::string> names = {"_local_scalar_dense",
                                              "_to_copy",
                                              "_unique2",
                                              "abs",
                                              "adaptive_max_pool2d",
                                              "alias",
                                              "all",
                                              "amax",
                                              "amin",
                                              "aminmax",
                                              "any",
                                              "arange",
                                              "argmax",
                                              "argmin",
                                              "argsort",
                                              "bernoulli",
                                              "bitwise_and",
                                              "bitwise_not",
                                              "bitwise_or",
                                              "bitwise_xor",
                                              "block_diag",
                                              "broadcast_to",
                                              "bucketize",
                                              "cartesian_prod",
                                              "cat",
                                              "ceil",
                                              "channel_shuffle",
                                              "chunk",
                                              "clamp",
                                              "clamp_max",
                                              "clamp_min",
                                              "clone",
                                              "combinations",
                                              "conj",
                                              "constant_pad_nd",
                                              "copy",
                                              "copysign",
                                              "count_nonzero",
                                              "cummax",
                                              "cummin",
                                              "detach",
                                              "diag",
                                              "diag_embed",
                                              "diagonal_scatter",
                                              "embedding",
                                              "eq",
                                              "expand",
                                              "fill",
                                              "flip",
                                              "fliplr",
                                              "flipud",
                                              "floor",
                                              "fmax",
                                              "fmin",
                                              "frac",
                                              "full",
                                              "full_like",
                                              "gather",
                                              "ge",
                                              "gt",
                                              "hardshrink",
                                              "hardtanh",
                                              "heaviside",
                                              "imag",
                                              "index",
                                              "index_copy",
                                              "index_fill",
                                              "index_select",
                                              "isfinite",
                                              "isin",
                                              "isinf",
                                              "isnan",
                                              "isneginf",
                                              "isposinf",
                                              "isreal",
                                              "item",
                                              "kthvalue",
                                              "le",
                                              "logical_and",
                                              "logical_not",
                                              "logical_or",
                                              "logical_xor",
                                              "lt",
                                              "masked_fill",
                                              "masked_scatter",
                                              "masked_select",
                                              "max",
                                              "max_pool1d",
                                              "max_pool2d",
                                              "max_pool2d_with_indices",
                                              "max_pool3d",
                                              "maximum",
                                              "median",
                                              "meshgrid",
                                              "min",
                                              "minimum",
                                              "mode",
                                              "msort",
                                              "nan_to_num",
                                              "narrow",
                                              "ne",
                                              "neg",
                                              "new_zeros",
                                              "nextafter",
                                              "nonzero",
                                              "nonzero_static",
                                              "one_hot",
                                              "ones",
                                              "ones_like",
                                              "pixel_shuffle",
                                              "pixel_unshuffle",
                                              "positive",
                                              "rand",
                                              "rand_like",
                                              "randint",
                                              "randint_like",
                                              "randperm",
                                              "real",
                                              "reflection_pad1d",
                                              "reflection_pad2d",
                                              "relu",
                                              "relu6",
                                              "repeat",
                                              "repeat_interleave",
                                              "replication_pad1d",
                                              "replication_pad2d",
                                              "roll",
                                              "rot90",
                                              "round",
                                              "scatter",
                                              "searchsorted",
                                              "select_backward",
                                              "select_scatter",
                                              "sgn",
                                              "sign",
                                              "signbit",
                                              "slice_backward",
                                              "slice_scatter",
                                              "sort",
                                              "stack",
                                              "swapaxes",
                                              "take",
                                              "take_along_dim",
                                              "tensor_split",
                                              "threshold",
                                              "threshold_backward",
                                              "tile",
                                              "to",
                                              "topk",
                                              "tril",
                                              "tril_indices",
                                              "triu",
                                              "trunc",
                                              "unfold",
                                              "unique",
                                              "upsample_nearest1d",
                                              "upsample_nearest2d",
                                              "view_as_complex",
                                              "view_as_real",
                                              "where",
                                              "zero",
                                              "zeros",
                                              "zeros_like"};
  return names.contains(base);
}

bool is_exact_on_grid(const std::string& base) {
  static const std::set<std::string> names = {"_foreach_add",
                                              "_foreach_mul",
                                              "_foreach_sub",
                                              "add",
                                              "addbmm",
                                              "addcmul",
                                              "addmm",
                                              "addmv",
                                              "addr",
                                              "baddbmm",
                                              "bmm",
                                              "col2im",
                                              "conv1d",
                                              "conv2d",
                                              "convolution",
                                              "cross",
                                              "cumsum",
                                              "diff",
                                              "dot",
                                              "einsum",
                                              "embedding_dense_backward",
                                              "index_add",
                                              "index_put",
                                              "linear",
                                              "matmul",
                                              "max_pool2d_with_indices_backward",
                                              "mm",
                                              "mul",
                                              "mv",
                                              "nansum",
                                              "native_dropout_backward",
                                              "outer",
                                              "reflection_pad1d_backward",
                                              "reflection_pad2d_backward",
                                              "replication_pad1d_backward",
                                              "replication_pad2d_backward",
                                              "rsub",
                                              "scatter_add",
                                              "scatter_reduce",
                                              "square",
                                              "sub",
                                              "sum",
                                              "sum_to_size",
                                              "tensordot",
                                              "trace"};
  return names.contains(base);
}

bool may_overflow_on_the_way(const std::string& base) {
  static const std::set<std::string> names = {"_foreach_add",
                                              "_foreach_mul",
                                              "_foreach_sub",
                                              "add",
                                              "addbmm",
                                              "addcdiv",
                                              "addcmul",
                                              "addmm",
                                              "addmv",
                                              "addr",
                                              "avg_pool1d",
                                              "avg_pool2d",
                                              "baddbmm",
                                              "bmm",
                                              "cdist",
                                              "conv1d",
                                              "conv2d",
                                              "convolution",
                                              "cumprod",
                                              "cumsum",
                                              "diff",
                                              "dot",
                                              "einsum",
                                              "embedding_dense_backward",
                                              "index_add",
                                              "index_put",
                                              "lerp",
                                              "linalg_vector_norm",
                                              "linear",
                                              "matmul",
                                              "mean",
                                              "mm",
                                              "mse_loss",
                                              "mul",
                                              "mv",
                                              "nansum",
                                              "outer",
                                              "prod",
                                              "rsub",
                                              "scatter_add",
                                              "scatter_reduce",
                                              "square",
                                              "std",
                                              "sub",
                                              "sum",
                                              "var"};
  return names.contains(base) || base.find("norm") != std::string::npos || base.find("pool") != std::string::npos ||
         base.find("backward") != std::string::npos || base.find("attention") != std::string::npos ||
         base.find("loss") != std::string::npos || base.find("_mean") != std::string::npos || base.find("upsample") != std::string::npos ||
         base.find("cell") != std::string::npos;
}

bool is_element_wise(const std::string& base) {
  static const std::set<std::string> names = {"_foreach_add", "_foreach_mul", "_foreach_sub", "add",    "addcdiv", "addcmul",
                                              "lerp",         "mul",          "rsub",         "square", "sub"};
  return names.contains(base);
}

bool orders_elements(std::string_view call) {
  static const std::set<std::string> names = {"_foreach_maximum",
                                              "_foreach_minimum",
                                              "_unique2",
                                              "amax",
                                              "amin",
                                              "aminmax",
                                              "argsort",
                                              "cummax",
                                              "cummin",
                                              "fmax",
                                              "fmin",
                                              "kthvalue",
                                              "max",
                                              "maximum",
                                              "median",
                                              "min",
                                              "minimum",
                                              "mode",
                                              "msort",
                                              "nanmedian",
                                              "sort",
                                              "topk",
                                              "unique",
                                              "scatter_reduce"};
  const std::string base = base_of(call);
  return names.contains(base) || base.find("pool") != std::string::npos || call.find("::clamp.Tensor") != std::string_view::npos;
}

bool draws_many_values(const std::string& base) {
  static const std::set<std::string> names = {"exponential", "log_normal", "normal_functional", "rand",
                                              "rand_like",   "randn",      "randn_like",        "uniform"};
  return names.contains(base);
}

bool is_random(const std::string& base) {
  static const std::set<std::string> names = {"bernoulli", "dropout", "native_dropout", "randint", "randint_like", "randperm"};
  return draws_many_values(base) || names.contains(base);
}

int significant_bits(DType dtype) {
  switch (dtype) {
    case DType::F64: return 53;
    case DType::F32: return 24;
    case DType::F16: return 11;
    default: return 8;
  }
}

bool is_on_grid(const HostTensor& result, const std::vector<HostTensor>& operands) {
  double largest = 0;
  double terms = 1;
  auto all_sixteenths = [&](const HostTensor& tensor) {
    if (!is_floating(tensor.dtype())) return true;
    for (double value : tensor.to_doubles()) {
      if (!std::isfinite(value) || value * 16 != std::floor(value * 16)) return false;
      largest = std::max(largest, std::fabs(value));
    }
    return true;
  };
  for (const HostTensor& operand : operands) {
    if (!all_sixteenths(operand)) return false;
    terms = std::max(terms, static_cast<double>(operand.numel()));
  }
  const double product = std::max(1.0, largest) * std::max(1.0, largest);
  if (!all_sixteenths(result)) return false;
  return product * terms * 256 < std::ldexp(1.0, significant_bits(result.dtype()));
}

bool is_root_of_products(std::string_view call, const std::vector<HostTensor>& operands) {
  constexpr int64_t kManyRows = 25;
  if (base_of(call) != "cdist" || call.find(", 2)") == std::string_view::npos) return false;
  return std::any_of(operands.begin(), operands.end(),
                     [](const HostTensor& operand) { return operand.sizes().size() >= 2 && operand.sizes().end()[-2] > kManyRows; });
}

HostTensor with_rounded_squares(const HostTensor& distances, const std::vector<HostTensor>& operands, bool larger) {
  double largest = 0;  // of the rows' sums of squares
  for (const HostTensor& operand : operands) {
    const std::vector<double> values = operand.to_doubles();
    const auto row = static_cast<size_t>(operand.sizes().back());
    for (size_t begin = 0; row > 0 && begin < values.size(); begin += row) {
      double squares = 0;
      for (size_t i = begin; i < begin + row; ++i) squares += std::isfinite(values[i]) ? values[i] * values[i] : 0;
      largest = std::max(largest, squares);
    }
  }
  const double step = std::ldexp(2 * largest, 1 - significant_bits(distances.dtype()));
  std::vector<double> values = distances.to_doubles();
  for (double& value : values) {
    if (std::isfinite(value)) value = std::sqrt(std::max(0.0, value * value + (larger ? step : -step)));
  }
  return HostTensor::from_doubles(distances.dtype(), distances.sizes(), values);
}

uint64_t seed_of(std::string_view text) {
  uint64_t seed = 0xcbf29ce484222325u;
  for (char c : text) seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return seed;
}

}  // namespace toroid::fuzz
