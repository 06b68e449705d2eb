// Connectionist temporal classification: the loss of all alignments of a target with a sequence, and its gradient.
//
// A target a b becomes the states _ a _ b _ with blanks between (L = 2S + 1 of them). alpha[t, s] is the log-probability of
// all ways to be in state s at time t, beta[t, s] that of all ways to go on from there:
//
//   alpha[t, s] = log p[t, s] + logsumexp(alpha[t-1, s], alpha[t-1, s-1], alpha[t-1, s-2] if state s-2 may be skipped)
//   loss = -logsumexp(alpha[end, last], alpha[end, last - 1])
//   d loss / d log p[t, c] = p[t, c] - sum over states s of class c of exp(alpha + beta - log p[t, s] + loss)
//
// Time is unrolled; within a step all samples and states are computed together.
#include <limits>

#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/index_tensors.h"
#include "formula/basics/operators.h"
#include "formula/basics/precision.h"
#include "passes/decompose/engine/decompose.h"
#include "passes/decompose/movement/literal.h"
#include "passes/decompose/nn/loss_reduction.h"

namespace toroid {
namespace {

struct Alignment {
  Tensor log_probs;                      // [T, N, C], wide
  Tensor input_lengths, target_lengths;  // I64 [N]
  Tensor labels;                         // I64 [N, L]: the class of each state
  Tensor may_skip;                       // Bool [N, L]: the state two before is another class, and neither is blank
  Tensor exists;                         // Bool [N, L]
  Tensor of_states;                      // [T, N, L]: log-probabilities of the states' classes
  int64_t steps;
  sym::Expr states;
  bool was_batched;
};

// [N], from a list of integers or a tensor.
Tensor lengths_of(Decomposer& d, const Args& a, std::string_view name, sym::Expr batch) {
  const bool is_list = !std::holds_alternative<InputRef>(a.raw(name));
  if (!is_list) return d.b.reshape(d.b.cast(a.tensor(name), DType::I64), {batch});
  const Dims values = a.dims(name);
  return literal(d, {static_cast<int64_t>(values.size())}, values);
}

// [N, S]; concatenated targets are taken apart. What lies beyond a target's length may be anything in bounds.
Tensor padded_targets(Tensor targets, Tensor lengths, sym::Expr longest) {
  Builder& b = targets.builder();
  const sym::Expr batch = lengths.size(0);
  Tensor place = b.unsqueeze(b.arange(longest), 0);
  if (targets.rank() == 1) {
    Tensor starts = b.scan(ScanOp::Sum, lengths, 0)[0] - lengths;
    place = place + b.unsqueeze(starts, 1);
    return b.gather(targets, {b.binary(ScalarOp::Min, place, Scalar(targets.numel() - 1))});
  }
  return b.gather(targets, {positions(b, batch, 0, 2), b.binary(ScalarOp::Min, place, Scalar(targets.size(1) - 1))});
}

// [N, L] moved by `by` states towards later ones (or earlier ones when negative); `fill` moves in.
Tensor moved(Tensor x, int64_t by, Scalar fill) {
  Builder& b = x.builder();
  const int64_t distance = std::abs(by);
  Sizes low = {0, by > 0 ? distance : 0}, high = {0, by > 0 ? 0 : distance};
  return b.slice(b.pad(x, low, high, fill), 1, by > 0 ? 0 : distance, x.size(1));
}

// `longest` is the number of labels that states are made for.
Alignment align(Decomposer& d, const Args& a, sym::Expr longest) {
  Builder& b = d.b;
  Alignment al;
  Tensor log_probs = wide(a.tensor("log_probs")), targets = b.cast(a.tensor("targets"), DType::I64);
  al.was_batched = log_probs.rank() == 3;
  if (!al.was_batched) log_probs = b.unsqueeze(log_probs, 1);
  if (log_probs.rank() != 3 || !log_probs.size(0).is_const()) {
    throw Error(ErrorKind::Unsupported, fmt::format("{} over a sequence of symbolic length", a.schema().name))
        .help("export the model with a fixed sequence length");
  }
  al.log_probs = log_probs;
  al.steps = log_probs.size(0).value();
  b.spend(log_probs.size(0), "steps of a sequence");
  if (al.steps == 0) throw Error(ErrorKind::InvalidModel, fmt::format("argument 'log_probs' of {} has no steps", a.schema().name));
  const sym::Expr batch = log_probs.size(1);
  al.input_lengths = lengths_of(d, a, "input_lengths", batch);
  al.target_lengths = lengths_of(d, a, "target_lengths", batch);
  al.states = longest * 2 + 1;
  const sym::Expr blank = a.integer("blank");

  Tensor s = b.unsqueeze(b.arange(al.states), 0), length = b.unsqueeze(al.target_lengths, 1);
  al.exists = s <= Term(length * number_like(length, Scalar(sym::Expr(2))));
  if (longest.is_const(0) || targets.numel().is_const(0)) {
    al.labels = b.full({batch, al.states}, DType::I64, blank);
  } else {
    Tensor number = b.binary(ScalarOp::FloorDiv, s, Scalar(sym::Expr(2)));  // of the label of an odd state
    Tensor is_label = eq(b.binary(ScalarOp::Mod, s, Scalar(sym::Expr(2))), 1) & (number < Term(length));
    Tensor safe = b.binary(ScalarOp::Min, number, Scalar(longest - 1));
    Tensor padded = padded_targets(targets, al.target_lengths, longest);
    Tensor own = b.gather(padded, {positions(b, batch, 0, 2), safe});
    al.labels = b.where(is_label, own, b.scalar(DType::I64, blank));
  }
  Tensor is_blank = b.binary(ScalarOp::Eq, al.labels, Scalar(blank));
  al.may_skip = (!is_blank) & ne(al.labels, moved(al.labels, 2, blank));
  al.of_states = b.gather(log_probs, {positions(b, al.steps, 0, 3), positions(b, batch, 1, 3), b.unsqueeze(al.labels, 0)});
  return al;
}

Tensor log_sum(std::initializer_list<Tensor> terms) {
  Tensor largest;
  for (Tensor term : terms) largest = largest.defined() ? maximum(largest, term) : term;
  largest = where(eq(largest, -kInfinity), 0, largest);
  Tensor sum;
  for (Tensor term : terms) sum = sum.defined() ? sum + exp(term - largest) : exp(term - largest);
  return log(sum) + largest;
}

Tensor at_step(const Alignment& al, int64_t t) { return al.log_probs.builder().select(al.of_states, 0, t); }

// Bool [N, 1]: step t is within the sample's sequence.
Tensor is_running(const Alignment& al, int64_t t) {
  Builder& b = al.log_probs.builder();
  return b.unsqueeze(b.binary(ScalarOp::Gt, al.input_lengths, Scalar(sym::Expr(t))), 1);
}

// alpha at each step, [N, L]; a sample whose sequence has ended keeps its last.
std::vector<Tensor> forward_states(const Alignment& al) {
  Builder& b = al.log_probs.builder();
  std::vector<Tensor> alphas;
  for (int64_t t = 0; t < al.steps; ++t) {
    Tensor now = at_step(al, t);
    if (t == 0) {
      Tensor may_start = al.exists & b.binary(ScalarOp::Lt, b.unsqueeze(b.arange(al.states), 0), Scalar(sym::Expr(2)));
      alphas.push_back(where(may_start & is_running(al, 0), now, -kInfinity));
      continue;
    }
    Tensor before = alphas.back();
    Tensor skipped = where(al.may_skip, moved(before, 2, -kInfinity), -kInfinity);
    Tensor next = log_sum({before, moved(before, 1, -kInfinity), skipped}) + now;
    next = where(al.exists, next, -kInfinity);
    alphas.push_back(where(is_running(al, t), next, before));
  }
  return alphas;
}

// beta at each step, [N, L].
std::vector<Tensor> backward_states(const Alignment& al) {
  Builder& b = al.log_probs.builder();
  std::vector<Tensor> betas(static_cast<size_t>(al.steps));
  Tensor s = b.unsqueeze(b.arange(al.states), 0), last = b.unsqueeze(al.target_lengths, 1) * number_like(s, 2);
  Tensor may_end = (s <= Term(last)) & (s >= Term(last - number_like(s, 1)));
  Tensor skips_from = moved(al.may_skip, -2, false);
  Tensor after;
  for (int64_t t = al.steps; t-- > 0;) {
    Tensor now = at_step(al, t), beta = where(may_end, now, -kInfinity);
    if (after.defined()) {
      Tensor skipped = where(skips_from, moved(after, -2, -kInfinity), -kInfinity);
      Tensor going_on = log_sum({after, moved(after, -1, -kInfinity), skipped}) + now;
      beta = where(is_running(al, t + 1), going_on, beta);
    }
    after = where(al.exists & is_running(al, t), beta, -kInfinity);
    betas[static_cast<size_t>(t)] = after;
  }
  return betas;
}

// -log of the probability of all alignments, [N].
Tensor loss_of(const Alignment& al, Tensor final_alpha) {
  Builder& b = al.log_probs.builder();
  const sym::Expr batch = al.log_probs.size(1);
  Tensor last = b.unsqueeze(al.target_lengths, 1) * number_like(al.target_lengths, 2);
  auto at = [&](Tensor state) { return b.squeeze(b.gather(final_alpha, {positions(b, batch, 0, 2), state}), 1); };
  Tensor is_empty = eq(al.target_lengths, 0);
  Tensor label = where(is_empty, -kInfinity, at(maximum(last - number_like(last, 1), 0)));
  Tensor loss = -log_sum({at(last), label});
  Tensor nothing = where(is_empty, b.scalar(loss.dtype(), 0.0), b.scalar(loss.dtype(), kInfinity));
  return where(eq(al.input_lengths, 0), nothing, loss);
}

// How many labels the states are made for: as many as the longest target has, where that is known.
sym::Expr longest_target(Decomposer& d, const Args& a) {
  if (!std::holds_alternative<InputRef>(a.raw("target_lengths"))) {
    int64_t longest = 0;
    for (int64_t length : a.dims("target_lengths")) longest = std::max(longest, length);
    return longest;
  }
  if (d.recorded.size() == 2 && d.recorded[1].rank() > 0) return sym::floor_div(d.recorded[1].sizes.back() - 1, 2);
  return a.tensor("targets").size(-1);
}

// (losses [N], alpha [N, T, L]); of a sample without a batch dim [] and [T, L].
std::vector<Tensor> ctc_loss_with_states(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  const Alignment al = align(d, a, longest_target(d, a));
  const std::vector<Tensor> alphas = forward_states(al);
  const DType dtype = a.tensor("log_probs").dtype();
  std::vector<Tensor> kept;
  for (int64_t t = 0; t < al.steps; ++t) {
    kept.push_back(where(is_running(al, t), alphas[static_cast<size_t>(t)], -kInfinity));
  }
  Tensor loss = b.cast(loss_of(al, alphas.back()), dtype), states = b.cast(b.stack(kept, 1), dtype);
  if (al.was_batched) return {loss, states};
  return {b.reshape(loss, {}), b.squeeze(states, 0)};
}

std::vector<Tensor> ctc_loss(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  const Alignment al = align(d, a, longest_target(d, a));
  Tensor loss = loss_of(al, forward_states(al).back());
  if (a.flag("zero_infinity")) loss = where(eq(loss, kInfinity), 0, loss);
  const formula::LossReduction reduction = loss_reduction(a);
  // A mean is over labels first: each sample's loss counts by its target's length.
  if (reduction == formula::LossReduction::Mean) loss = loss / b.cast(maximum(al.target_lengths, 1), loss.dtype());
  if (reduction == formula::LossReduction::None && !al.was_batched) loss = b.reshape(loss, {});
  return {b.cast(formula::reduced(loss, reduction), a.tensor("log_probs").dtype())};
}

std::vector<Tensor> ctc_loss_backward(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor log_alpha = wide(a.tensor("log_alpha")), log_probs = a.tensor("log_probs");
  const Alignment al = align(d, a, sym::floor_div(log_alpha.size(-1) - 1, 2));
  const sym::Expr batch = al.log_probs.size(1);
  if (!al.was_batched) log_alpha = b.unsqueeze(log_alpha, 0);
  auto per_sample = [&](std::string_view name) { return b.reshape(wide(a.tensor(name)), {1, batch, 1}); };
  Tensor loss = per_sample("neg_log_likelihood"), grad = per_sample("grad");
  Tensor running = b.binary(ScalarOp::Lt, positions(b, al.steps, 0, 3), b.reshape(al.input_lengths, {1, batch, 1}));

  Tensor alpha = b.permute(log_alpha, {1, 0, 2}), beta = b.stack(backward_states(al), 0);  // [T, N, L]
  Tensor possible = running & b.unsqueeze(al.exists, 0) & ne(alpha, -kInfinity) & ne(beta, -kInfinity);
  Tensor share = where(possible, exp(alpha + beta - al.of_states + loss), 0);
  Tensor of_classes = b.scatter(b.full(al.log_probs.sizes(), share.dtype(), 0.0), share,
                                {positions(b, al.steps, 0, 3), positions(b, batch, 1, 3), b.unsqueeze(al.labels, 0)}, ScatterMode::Add);
  Tensor gradient = (exp(al.log_probs) - of_classes) * grad;
  const double without = a.flag("zero_infinity") ? 0 : std::numeric_limits<double>::quiet_NaN();
  gradient = where(running, where(eq(loss, kInfinity), without, gradient), 0);
  return {b.cast(b.reshape(gradient, log_probs.sizes()), log_probs.dtype())};
}

constexpr DecompositionRow kCtcLossRows[] = {
    {"aten::_ctc_loss.*", ctc_loss_with_states},
    {"aten::ctc_loss.*", ctc_loss},
    {"aten::_ctc_loss_backward.*", ctc_loss_backward},
};

}  // namespace

std::span<const DecompositionRow> ctc_loss_rows() { return kCtcLossRows; }

}  // namespace toroid
