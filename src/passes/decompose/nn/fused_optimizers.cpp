// Optimizer steps over lists of parameters, and the scaling of gradients in mixed precision.
//
// The formulas are those of the papers, parameter by parameter, in F32 for reduced floats. Where `found_inf` is 1 the
// step is left out. The gradients come back divided by `grad_scale`.
//
// Results are the updated lists in the order of the schema's results; spellings that write to `out` list the other
// lists first.
#include "base/error.h"
#include "formula/basics/operators.h"
#include "formula/basics/precision.h"
#include "passes/decompose/arguments/operands.h"
#include "passes/decompose/arguments/reduced_dims.h"

namespace toroid {
namespace {

// lr, a number or a tensor.
Tensor learning_rate(Decomposer& d, const Args& a, DType dtype) { return d.b.reshape(operand(d, a, "lr", dtype), {}); }

// One parameter's tensors during a step, wide.
struct Step {
  Decomposer& d;
  const Args& args;
  DType dtype;
  Tensor gradient;

  Step(Decomposer& decomposer, const Args& a, Tensor parameter, Tensor given)
      : d(decomposer), args(a), dtype(compute_dtype(parameter.dtype())), gradient(d.b.cast(given, dtype)) {
    if (a.has("grad_scale")) gradient = gradient / scalar("grad_scale");
  }

  Tensor scalar(std::string_view name) const { return d.b.cast(d.b.reshape(args.tensor(name), {}), dtype); }

  // What the update follows: the gradient, with its sign for maximizing.
  Tensor direction() const { return args.flag("maximize") ? -gradient : gradient; }

  // `updated` in the dtype of `old`, or `old` where the step is left out.
  Tensor result(Tensor updated, Tensor old) const {
    if (args.has("found_inf")) updated = where(eq(scalar("found_inf"), 1), d.b.cast(old, updated.dtype()), updated);
    return d.b.cast(updated, old.dtype());
  }
};

// lists[k][i] is the new value of parameter i in the k-th list, the parameters themselves first.
std::vector<Tensor> joined(const Args& a, std::vector<std::vector<Tensor>> lists) {
  if (has_parameter(a, "out")) std::rotate(lists.begin(), lists.begin() + 1, lists.end());
  std::vector<Tensor> results;
  for (const std::vector<Tensor>& list : lists) results.insert(results.end(), list.begin(), list.end());
  return results;
}

// ---- Adam -----------------------------------------------------------------------------------------------------------

// With `decoupled`, weight decay shrinks the parameter (AdamW) and is no part of the gradient (Adam).
std::vector<Tensor> adam_step(Decomposer& d, const Args& a, bool decoupled) {
  const Tensors parameters = a.tensors("self"), gradients = a.tensors_beside("grads", parameters),
                averages = a.tensors_beside("exp_avgs", parameters), squares = a.tensors_beside("exp_avg_sqs", parameters),
                maxima = a.tensors("max_exp_avg_sqs"), steps = a.tensors_beside("state_steps", parameters);
  const double beta1 = a.number("beta1"), beta2 = a.number("beta2"), decay = a.number("weight_decay"), eps = a.number("eps");
  const bool amsgrad = a.flag("amsgrad");
  std::vector<std::vector<Tensor>> lists(5);
  for (size_t i = 0; i < parameters.size(); ++i) {
    Step step(d, a, parameters[i], gradients[i]);
    const DType dtype = step.dtype;
    Tensor x = d.b.cast(parameters[i], dtype), gradient = step.direction(), rate = learning_rate(d, a, dtype);
    if (decay != 0 && decoupled) x = x - rate * decay * x;
    if (decay != 0 && !decoupled) gradient = gradient + x * decay;
    Tensor average = d.b.cast(averages[i], dtype), square_average = d.b.cast(squares[i], dtype);
    average = average + (gradient - average) * (1 - beta1);
    square_average = square_average * beta2 + square(gradient) * (1 - beta2);
    Tensor largest = amsgrad ? maximum(d.b.cast(maxima[i], dtype), square_average) : square_average;
    Tensor count = d.b.cast(d.b.reshape(steps[i], {}), DType::F64);
    auto correction = [&](double beta) { return d.b.cast(1.0 - pow(number_like(count, beta), count), dtype); };
    Tensor denominator = sqrt(largest) / sqrt(correction(beta2)) + eps;
    x = x - rate / correction(beta1) * average / denominator;
    lists[0].push_back(step.result(x, parameters[i]));
    lists[1].push_back(step.result(step.gradient, gradients[i]));
    lists[2].push_back(step.result(average, averages[i]));
    lists[3].push_back(step.result(square_average, squares[i]));
    if (amsgrad) lists[4].push_back(step.result(largest, maxima[i]));
  }
  if (!amsgrad) lists[4] = maxima;
  return joined(a, lists);
}
std::vector<Tensor> adam(Decomposer& d, const Args& a) { return adam_step(d, a, false); }
std::vector<Tensor> adamw(Decomposer& d, const Args& a) { return adam_step(d, a, true); }

// ---- SGD, Adagrad ---------------------------------------------------------------------------------------------------

std::vector<Tensor> sgd(Decomposer& d, const Args& a) {
  const Tensors parameters = a.tensors("self"), gradients = a.tensors_beside("grads", parameters),
                buffers = a.tensors("momentum_buffer_list");
  const double decay = a.number("weight_decay"), momentum = a.number("momentum"), dampening = a.number("dampening");
  std::vector<std::vector<Tensor>> lists(3);
  for (size_t i = 0; i < parameters.size(); ++i) {
    Step step(d, a, parameters[i], gradients[i]);
    Tensor x = d.b.cast(parameters[i], step.dtype), gradient = step.direction();
    if (decay != 0) gradient = gradient + x * decay;
    if (momentum != 0) {
      Tensor buffer = gradient;
      if (!a.flag("is_first_step")) buffer = d.b.cast(buffers[i], step.dtype) * momentum + gradient * (1 - dampening);
      gradient = a.flag("nesterov") ? gradient + buffer * momentum : buffer;
      lists[2].push_back(step.result(buffer, buffers[i]));
    }
    lists[0].push_back(step.result(x - learning_rate(d, a, step.dtype) * gradient, parameters[i]));
    lists[1].push_back(step.result(step.gradient, gradients[i]));
  }
  if (momentum == 0) lists[2] = buffers;
  return joined(a, lists);
}

std::vector<Tensor> adagrad(Decomposer& d, const Args& a) {
  const Tensors parameters = a.tensors("self"), gradients = a.tensors_beside("grads", parameters),
                sums = a.tensors_beside("state_sums", parameters), steps = a.tensors_beside("state_steps", parameters);
  const double decay = a.number("weight_decay"), rate_decay = a.number("lr_decay"), eps = a.number("eps");
  std::vector<std::vector<Tensor>> lists(3);
  for (size_t i = 0; i < parameters.size(); ++i) {
    Step step(d, a, parameters[i], gradients[i]);
    Tensor x = d.b.cast(parameters[i], step.dtype), gradient = step.direction();
    if (decay != 0) gradient = gradient + x * decay;
    Tensor sum = d.b.cast(sums[i], step.dtype) + square(gradient);
    Tensor count = d.b.cast(d.b.reshape(steps[i], {}), step.dtype);
    Tensor rate = learning_rate(d, a, step.dtype) / ((count - 1.0) * rate_decay + 1.0);
    lists[0].push_back(step.result(x - rate * gradient / (sqrt(sum) + eps), parameters[i]));
    lists[1].push_back(step.result(step.gradient, gradients[i]));
    lists[2].push_back(step.result(sum, sums[i]));
  }
  // With lr as a tensor the steps are no result.
  if (a.schema().name.find("tensor_lr") == std::string::npos) lists.push_back(steps);
  return joined(a, lists);
}

// ---- gradients of reduced precision ---------------------------------------------------------------------------------

// Multiplies gradients by `inv_scale`; found_inf becomes 1 when one of them is not finite.
std::vector<Tensor> unscale(Decomposer& d, const Args& a) {
  Tensor found = a.tensor("found_inf");
  Tensor any = d.b.scalar(DType::Bool, false);
  std::vector<std::vector<Tensor>> lists(2);
  for (Tensor gradient : a.tensors("self")) {
    Tensor x = wide(gradient);
    Tensor factor = d.b.cast(d.b.reshape(a.tensor("inv_scale"), {}), x.dtype());
    Tensor is_finite = d.call1("aten::isfinite", {x});
    if (!gradient.numel().is_const(0)) any = any | !d.b.reduce(ReduceOp::All, is_finite, {})[0];
    lists[0].push_back(d.b.cast(where(eq(factor, 1), x, x * factor), gradient.dtype()));
  }
  lists[1].push_back(where(any, number_like(found, 1.0), found));
  return joined(a, lists);
}

// The scale shrinks after a step that was not finite and grows after `growth_interval` that were.
std::vector<Tensor> update_scale(Decomposer& d, const Args& a) {
  Tensor scale = a.tensor("self"), tracker = a.tensor("growth_tracker");
  Tensor failed = d.b.reshape(ne(a.tensor("found_inf"), 0), {});
  Tensor successful = tracker + d.b.scalar(tracker.dtype(), sym::Expr(1));
  Tensor is_due = eq(successful, static_cast<int>(a.constant("growth_interval")));
  Tensor grown = scale * a.number("scale_growth_factor");
  Tensor larger = where(d.call1("aten::isfinite", {grown}), grown, scale);
  Tensor due = d.b.reshape(is_due, {});
  Tensor updated = where(failed, scale * a.number("scale_backoff_factor"), where(due, larger, scale));
  return {updated, where(failed | due, 0, successful)};
}

constexpr DecompositionRow kOptimizerRows[] = {
    {"aten::_fused_adam.*", adam},
    {"aten::_fused_adamw.*", adamw},
    {"aten::_fused_sgd.*", sgd},
    {"aten::_fused_adagrad.*", adagrad},
    {"aten::_amp_foreach_non_finite_check_and_unscale", unscale},
    {"aten::_amp_update_scale", update_scale},
};

}  // namespace

std::span<const DecompositionRow> optimizer_rows() { return kOptimizerRows; }

}  // namespace toroid
