// Cross entropy is built from the maximum, exponentials, their sum and one read of the input at the target, so that it is one pass over the
// row.
#include "formula/nn/cross_entropy.h"

#include <limits>

#include "formula/basics/channels.h"
#include "formula/basics/index_tensors.h"
#include "formula/basics/operators.h"
#include "formula/basics/precision.h"

namespace toroid::formula {
namespace {

// [C], [N, C] or [N, C, d…]: classes are dim 1, or dim 0 without a batch.
int64_t class_dim(Tensor x) { return x.rank() == 1 ? 0 : 1; }

// Targets that count, with classes that are safe to read.
struct Targets {
  Tensor classes;  // I64, 0 where ignored
  Tensor counts;   // Bool
  Tensor weight;   // of each target, 0 where ignored; in the loss's dtype
};

Targets targets_of(Tensor target, Tensor class_weight, sym::Expr ignore_index, DType dtype) {
  Builder& b = target.builder();
  Targets t;
  target = b.cast(target, DType::I64);
  t.counts = b.binary(ScalarOp::Ne, target, Scalar(ignore_index));
  t.classes = where(t.counts, target, 0);
  Tensor weight = class_weight.defined() ? b.gather(b.cast(class_weight, dtype), {t.classes}) : b.full(target.sizes(), dtype, 1.0);
  t.weight = where(t.counts, weight, 0);
  return t;
}

// x at each target's class.
Tensor at_targets(Tensor x, Tensor classes) {
  Builder& b = x.builder();
  const int64_t dim = class_dim(x);
  return b.squeeze(b.gather(x, index_along(b.unsqueeze(classes, dim), dim)), dim);
}

// The mean of per-target losses weighs them; it is NaN when nothing counts, as in PyTorch.
Tensor reduce_weighted(Tensor loss, Tensor total_weight, LossReduction reduction) {
  if (reduction == LossReduction::None) return loss;
  Tensor sum = loss.builder().sum(loss, {});
  return reduction == LossReduction::Sum ? sum : sum / total_weight;
}

}  // namespace

NllLoss nll_loss(Tensor x, Tensor target, const CrossEntropyOptions& options) {
  Builder& b = x.builder();
  const LossReduction reduction = options.reduction;
  const Targets t = targets_of(target, options.class_weight, options.ignored, compute_dtype(x.dtype()));
  Tensor picked = wide(at_targets(x, t.classes));
  // Not picked * 0: what is ignored may be infinite.
  Tensor loss = where(t.counts, -(picked * t.weight), 0);
  Tensor total_weight = b.sum(t.weight, {});
  Tensor result = reduce_weighted(loss, total_weight, reduction);
  if (reduction == LossReduction::None) total_weight = b.scalar(total_weight.dtype(), 0.0);
  return {b.cast(result, x.dtype()), b.cast(total_weight, x.dtype())};
}

// ---- cross entropy --------------------------------------------------------------------------------------------------

namespace {

// log_softmax(x) is shifted - log_sum.
struct LogSoftmax {
  Tensor x, largest, shifted, log_sum;  // dims of size 1 kept
};

LogSoftmax log_softmax_parts(Tensor x) {
  Builder& b = x.builder();
  const Dims dim = {class_dim(x)};
  LogSoftmax s;
  s.x = x;
  s.largest = b.keep(b.amax(x, dim), dim);
  s.shifted = x - s.largest;
  s.log_sum = log(b.keep(b.sum(exp(s.shifted), dim), dim));
  return s;
}

// Targets are class indices; smoothing moves some of each target's weight to all classes evenly.
Tensor index_cross_entropy(const LogSoftmax& s, Tensor target, const CrossEntropyOptions& options) {
  Builder& b = s.x.builder();
  const int64_t dim = class_dim(s.x);
  const LossReduction reduction = options.reduction;
  const double smoothing = options.label_smoothing;
  const Targets t = targets_of(target, options.class_weight, options.ignored, s.x.dtype());
  Tensor picked = at_targets(s.x, t.classes) - b.squeeze(s.largest, dim);
  // Negated last: the loss of a class that is certain is -0, as in PyTorch.
  Tensor loss = where(t.counts, -((picked - b.squeeze(s.log_sum, dim)) * t.weight), 0);
  Tensor total_weight = b.sum(t.weight, {});
  if (smoothing == 0) return reduce_weighted(loss, total_weight, reduction);
  Tensor all_classes = s.log_sum - s.shifted;
  if (options.class_weight.defined()) all_classes = all_classes * along_dim_of(s.x, dim, wide(options.class_weight));
  Tensor spread = where(t.counts, b.sum(all_classes, {dim}), 0);
  Tensor classes = number_like(s.x, Scalar(s.x.size(dim)));
  return reduce_weighted(loss, total_weight, reduction) * (1 - smoothing) +
         reduce_weighted(spread, total_weight, reduction) * smoothing / classes;
}

// Targets are probabilities for every class.
Tensor probability_cross_entropy(const LogSoftmax& s, Tensor probabilities, const CrossEntropyOptions& options) {
  Builder& b = s.x.builder();
  const int64_t dim = class_dim(s.x);
  const LossReduction reduction = options.reduction;
  const double smoothing = options.label_smoothing;
  const DType dtype = promote(s.x.dtype(), compute_dtype(probabilities.dtype()));
  Tensor target = b.cast(probabilities, dtype);
  if (smoothing > 0) target = target * (1 - smoothing) + smoothing / number_like(s.x, Scalar(s.x.size(dim)));
  Tensor terms = (s.shifted - s.log_sum) * target;
  if (options.class_weight.defined()) terms = terms * along_dim_of(s.x, dim, wide(options.class_weight));
  const Tensor total = reduced(b.sum(terms, {dim}), reduction);
  // PyTorch divides by the elements over the classes: 0 by 0 without classes.
  if (reduction == LossReduction::Mean && s.x.size(dim).is_const(0))
    return number_like(total, Scalar(std::numeric_limits<double>::quiet_NaN()));
  return -total;
}

}  // namespace

Tensor cross_entropy(Tensor x, Tensor target, const CrossEntropyOptions& options) {
  const LogSoftmax s = log_softmax_parts(wide(x));
  Tensor loss = is_floating(target.dtype()) ? probability_cross_entropy(s, target, options) : index_cross_entropy(s, target, options);
  return x.builder().cast(loss, is_floating(target.dtype()) ? promote(x.dtype(), target.dtype()) : x.dtype());
}

}  // namespace toroid::formula
