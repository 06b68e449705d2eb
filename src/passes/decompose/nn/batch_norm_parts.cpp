// The parts of batch normalisation that are operators of their own: statistics of a batch, their combination over
// several batches, and applying them; and the spellings that carry what cuDNN keeps.
#include "base/error.h"
#include "formula/basics/channels.h"
#include "formula/basics/operators.h"
#include "formula/basics/over_dims.h"
#include "formula/basics/precision.h"
#include "formula/basics/totals.h"

namespace toroid {
namespace {

struct Moments {
  Tensor mean, squares;  // [C], F64: the mean and the sum of squared differences from it
  sym::Expr count;
};

Moments moments(Tensor x) {
  if (x.rank() < 2) throw Error(ErrorKind::InvalidModel, "batch_norm needs a channel dim");
  const Dims dims = all_but(x.rank(), 1);
  const std::vector<Tensor> welford = reduce_in_f64(ReduceOp::MeanM2, wide(x), dims);
  return {welford[0], welford[1], count_along(x, dims)};
}

// Running statistics move by `momentum` toward those of the batch.
void update_running(Decomposer& d, const Args& a, Tensor mean, Tensor unbiased_variance) {
  const double momentum = a.number("momentum");
  auto update = [&](const char* name, Tensor batch) {
    Tensor running = a.optional_tensor(name);
    if (!running.defined()) return;
    d.write(name, d.b.cast(d.b.cast(running, DType::F64) * (1 - momentum) + d.b.cast(batch, DType::F64) * momentum, running.dtype()));
  };
  update("running_mean", mean);
  update("running_var", unbiased_variance);
}

Tensor over_count(Tensor squares, sym::Expr count) { return squares / number_like(squares, count); }

std::vector<Tensor> stats(Decomposer& d, const Args& a) {
  const Tensor x = a.tensor("input");
  const Moments m = moments(x);
  const DType dtype = compute_dtype(x.dtype());
  return {d.b.cast(m.mean, dtype), d.b.cast(rsqrt(over_count(m.squares, m.count) + a.number("eps")), dtype)};
}

// The mean and the biased variance.
std::vector<Tensor> update_stats(Decomposer& d, const Args& a) {
  const Tensor x = a.tensor("input");
  const Moments m = moments(x);
  update_running(d, a, m.mean, over_count(m.squares, m.count - 1));
  const DType dtype = compute_dtype(x.dtype());
  return {d.b.cast(m.mean, dtype), d.b.cast(over_count(m.squares, m.count), dtype)};
}

std::vector<Tensor> apply_stats(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("input");
  const int64_t rank = x.rank();
  auto of_channels = [&](const char* name) { return per_channel(wide(a.tensor(name)), rank); };
  Tensor y = (wide(x) - of_channels("mean")) * of_channels("invstd");
  if (a.has("weight")) y = y * of_channels("weight");
  if (a.has("bias")) y = y + of_channels("bias");
  return {d.b.cast(y, x.dtype())};
}

// mean and 1/deviation of several batches, [batches, C] each, over `counts` elements [batches].
std::vector<Tensor> gather(Decomposer& d, const Args& a, Tensor counts) {
  Builder& b = d.b;
  Tensor mean = wide(a.tensor("mean")), inverse = wide(a.tensor("invstd"));
  const double eps = a.number("eps");
  counts = b.unsqueeze(b.cast(counts, mean.dtype()), 1);
  Tensor total = b.sum(counts, {0});
  Tensor common = b.sum(mean * counts, {0}) / total;
  Tensor variance = square(reciprocal(inverse)) - eps;
  Tensor squares = b.sum((variance + square(mean - common)) * counts, {0});
  update_running(d, a, common, squares / (total - 1.0));
  return {common, rsqrt(squares / total + eps)};
}
std::vector<Tensor> gather_stats(Decomposer& d, const Args& a) {
  Tensor mean = a.tensor("mean");
  return gather(d, a, d.b.full({mean.size(0)}, DType::F32, a.scalar("count")));
}
std::vector<Tensor> gather_stats_with_counts(Decomposer& d, const Args& a) { return gather(d, a, a.tensor("counts")); }

// {y, mean, 1/deviation}, with the running statistics updated.
std::vector<Tensor> normalized(Decomposer& d, const Args& a, const char* momentum, const char* eps) {
  Tensor x = a.tensor("input"), mean = a.optional_tensor("running_mean"), var = a.optional_tensor("running_var");
  Tensor weight = a.optional_tensor("weight"), bias = a.optional_tensor("bias");
  const bool training = a.flag("training");
  if (!mean.defined() || !var.defined()) {
    return d.call("aten::_native_batch_norm_legit.no_stats", {x, weight, bias, training, a.number(momentum), a.number(eps)});
  }
  Tensors results =
      d.call("aten::_native_batch_norm_legit_functional", {x, weight, bias, mean, var, training, a.number(momentum), a.number(eps)});
  if (training) {
    d.write("running_mean", results[3]);
    d.write("running_var", results[4]);
  }
  results.resize(3);
  return results;
}

// The space cuDNN would reserve.
Tensor no_reserve(Decomposer& d) { return d.b.full({0}, DType::U8, sym::Expr(0)); }

std::vector<Tensor> cudnn(Decomposer& d, const Args& a) {
  std::vector<Tensor> results = normalized(d, a, "exponential_average_factor", "epsilon");
  results.push_back(no_reserve(d));
  return results;
}

// The last result says which backend was chosen: 0, none.
std::vector<Tensor> with_backend(Decomposer& d, const Args& a) {
  std::vector<Tensor> results = normalized(d, a, "momentum", "eps");
  results.push_back(no_reserve(d));
  results.push_back(d.b.scalar(DType::I64, sym::Expr(0)));
  return results;
}

std::vector<Tensor> with_backend_backward(Decomposer& d, const Args& a) {
  return d.call("aten::native_batch_norm_backward",
                {a.tensor("grad_output"), a.tensor("input"), a.optional_tensor("weight"), a.optional_tensor("running_mean"),
                 a.optional_tensor("running_var"), a.optional_tensor("save_mean"), a.optional_tensor("save_var_transform"), a.flag("train"),
                 a.number("eps"), a.raw("output_mask")});
}

constexpr DecompositionRow kNormPartRows[] = {
    {"aten::batch_norm_stats", stats},
    {"aten::batch_norm_update_stats", update_stats},
    {"aten::batch_norm_elemt", apply_stats},
    {"aten::batch_norm_gather_stats", gather_stats},
    {"aten::batch_norm_gather_stats_with_counts", gather_stats_with_counts},
    {"aten::cudnn_batch_norm", cudnn},
    {"aten::_batch_norm_impl_index", with_backend},
    {"aten::_batch_norm_impl_index_backward", with_backend_backward},
};

}  // namespace

std::span<const DecompositionRow> norm_part_rows() { return kNormPartRows; }

}  // namespace toroid
