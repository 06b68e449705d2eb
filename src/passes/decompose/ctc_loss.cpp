// Connectionist temporal classification: the probability of a target over all its alignments with the input.
//
// The target l1 l2 … is read with blanks between, _ l1 _ l2 _ …, 2S + 1 states. With log probabilities y[t, n, c],
//
//   alpha[0, s] = y[0, state s] for s < 2
//   alpha[t, s] = log(exp alpha[t-1, s] + exp alpha[t-1, s-1] + exp alpha[t-1, s-2] if allowed) + y[t, state s]
//   loss = -log(exp alpha[T-1, 2S] + exp alpha[T-1, 2S-1])
//
// where a state may be reached from two before it unless it is a blank or the label two before it. Steps are unrolled.
// Graves et al., "Connectionist Temporal Classification", ICML 2006.
#include <algorithm>
#include <limits>

#include "passes/decompose/formula.h"
#include "passes/decompose/index_tensors.h"
#include "passes/decompose/literal.h"
#include "passes/decompose/loss_reduction.h"
#include "passes/decompose/precision.h"
#include "support/error.h"

namespace toroid {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// log(exp a + exp b), -inf where both are.
Tensor log_add(Tensor a, Tensor b) {
  Tensor larger = maximum(a, b);
  Tensor finite = where(eq(larger, -kInfinity), 0, larger);
  return log(exp(a - finite) + exp(b - finite)) + finite;
}

struct Problem {
  Tensor log_probs;                      // [T, N, C], wide
  Tensor targets;                        // [N, S], I64
  Tensor input_lengths, target_lengths;  // [N], I64
  int64_t blank = 0;
};

// Lengths are numbers or tensors.
Tensor lengths_of(Decomposer& d, const Args& a, std::string_view name) {
  const Argument& argument = a.raw(name);
  if (std::holds_alternative<InputRef>(argument)) return d.b.cast(a.tensor(name), DType::I64);
  const Dims lengths = a.dims(name);
  return literal(d, {static_cast<int64_t>(lengths.size())}, lengths);
}

Problem problem_of(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Problem p;
  p.log_probs = wide(a.tensor("log_probs"));
  p.targets = b.cast(a.tensor("targets"), DType::I64);
  p.input_lengths = lengths_of(d, a, "input_lengths");
  p.target_lengths = lengths_of(d, a, "target_lengths");
  p.blank = a.constant("blank");
  if (p.log_probs.rank() == 2) {  // a single sequence
    p.log_probs = b.unsqueeze(p.log_probs, 1);
    p.targets = b.unsqueeze(p.targets, 0);
    p.input_lengths = b.reshape(p.input_lengths, {1});
    p.target_lengths = b.reshape(p.target_lengths, {1});
  }
  if (p.log_probs.rank() != 3 || !p.log_probs.size(0).is_const()) {
    throw Error(ErrorKind::Unsupported, fmt::format("{} over inputs of symbolic length", a.schema().name))
        .help("export the model with a fixed length of the input");
  }
  if (p.log_probs.size(0).is_const(0)) throw Error(ErrorKind::InvalidModel, "ctc_loss over an empty input");
  if (p.targets.rank() == 1) {
    // All targets behind each other. None is longer than all of them together.
    const sym::Expr total = p.targets.size(0), count = p.target_lengths.size(0);
    sym::Expr longest = total;
    if (const auto known = constant_integers(d, p.target_lengths); known && !known->empty())
      longest = *std::max_element(known->begin(), known->end());
    Tensor ends = b.scan(ScanOp::Sum, p.target_lengths, 0)[0];
    Tensor place = b.unsqueeze(ends - p.target_lengths, 1) + b.unsqueeze(b.iota({longest}, 0), 0);
    if (total.is_const(0)) {
      p.targets = b.full({count, 0}, DType::I64, sym::Expr(0));
    } else {
      p.targets = b.gather(p.targets, {minimum(place, b.scalar(DType::I64, total - 1))});
    }
  }
  return p;
}

struct Alignments {
  Tensor loss;   // [N]
  Tensor alpha;  // [N, T, 2S + 1]
};

Alignments align(Decomposer& d, const Problem& p) {
  Builder& b = d.b;
  const int64_t steps = p.log_probs.size(0).value();
  const sym::Expr batch = p.log_probs.size(1), labels = p.targets.size(1), states = labels * 2 + 1;
  const DType dtype = p.log_probs.dtype();
  Tensor blank = b.full({batch, labels + 1}, DType::I64, sym::Expr(p.blank));
  // [N, 2S + 1]: blanks at even states, labels at odd ones. Labels behind a target's end do not count.
  Tensor is_label = b.binary(ScalarOp::Eq, apply(ScalarOp::Mod, b.iota({batch, states}, 1), 2), Scalar(sym::Expr(1)));
  Tensor label = b.reshape(b.stack({b.slice(blank, 1, 0, labels), p.targets}, 2), {batch, labels * 2});
  Tensor symbol = b.cat({label, b.slice(blank, 1, 0, 1)}, 1);
  Tensor is_real =
      b.iota({batch, states}, 1) <
      b.unsqueeze(p.target_lengths * b.scalar(DType::I64, sym::Expr(2)) + b.scalar(DType::I64, sym::Expr(1)), 1);
  symbol = where(is_real, symbol, static_cast<int>(p.blank));
  // Shifted to the right by k states, -inf (or `fill`) coming in.
  auto shifted = [&](Tensor x, sym::Expr by, Scalar fill) {
    return b.slice(b.pad(x, {0, by}, {0, 0}, fill), 1, 0, states);
  };
  Tensor two_before = shifted(symbol, 2, sym::Expr(p.blank));
  Tensor may_skip = is_label & ne(symbol, two_before);
  auto emitted = [&](int64_t t) { return b.gather(b.select(p.log_probs, 0, t), index_along(symbol, 1)); };
  Tensor start = b.iota({batch, states}, 1) < 2;
  Tensor alpha = where(start & is_real, emitted(0), -kInfinity);
  std::vector<Tensor> all = {alpha};
  Tensor last = alpha;
  for (int64_t t = 1; t < steps; ++t) {
    Tensor reached = log_add(alpha, shifted(alpha, 1, -kInfinity));
    reached = log_add(reached, where(may_skip, shifted(alpha, 2, -kInfinity), -kInfinity));
    alpha = where(is_real, reached + emitted(t), -kInfinity);
    all.push_back(alpha);
    // An input that has ended keeps its alphas.
    last = where(b.unsqueeze(p.input_lengths, 1) > b.full({batch, 1}, DType::I64, sym::Expr(t)), alpha, last);
  }
  Tensor final_blank = b.unsqueeze(p.target_lengths * b.scalar(DType::I64, sym::Expr(2)), 1);
  Tensor at_blank = b.gather(last, index_along(final_blank, 1));
  Tensor before = maximum(final_blank - b.scalar(DType::I64, sym::Expr(1)), 0);
  Tensor at_label = where(eq(final_blank, 0), -kInfinity, b.gather(last, index_along(before, 1)));
  Tensor loss = -b.squeeze(log_add(at_blank, at_label), 1);
  // An empty input is aligned with an empty target alone.
  Tensor empty = where(eq(p.target_lengths, 0), b.scalar(dtype, 0.0), b.scalar(dtype, kInfinity));
  loss = where(eq(p.input_lengths, 0), empty, loss);
  return {loss, b.stack(all, 1)};
}

Tensor without_infinity(const Args& a, Tensor loss) {
  return a.flag("zero_infinity") ? where(eq(loss, kInfinity), 0, loss) : loss;
}

std::vector<Tensor> ctc_loss(Decomposer& d, const Args& a) {
  const Problem p = problem_of(d, a);
  const DType dtype = a.tensor("log_probs").dtype();
  Tensor loss = without_infinity(a, align(d, p).loss);
  const LossReduction reduction = loss_reduction(a);
  if (reduction == LossReduction::Mean) loss = loss / d.b.cast(maximum(p.target_lengths, 1), loss.dtype());
  loss = d.b.cast(reduced(loss, reduction), dtype);
  if (reduction == LossReduction::None && a.tensor("log_probs").rank() == 2) loss = d.b.squeeze(loss, 0);
  return {loss};
}

std::vector<Tensor> ctc_loss_with_alignments(Decomposer& d, const Args& a) {
  const Alignments found = align(d, problem_of(d, a));
  const DType dtype = a.tensor("log_probs").dtype();
  return {d.b.cast(found.loss, dtype), d.b.cast(found.alpha, dtype)};
}

constexpr DecompositionRow kRows[] = {
    {"aten::ctc_loss.*", ctc_loss},
    {"aten::_ctc_loss.*", ctc_loss_with_alignments},
};

}  // namespace

std::span<const DecompositionRow> ctc_loss_rows() { return kRows; }

}  // namespace toroid
