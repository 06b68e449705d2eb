#include "passes/decompose/nn/attention_dropout.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/operators.h"
#include "formula/basics/precision.h"
#include "formula/nn/softmax.h"
#include "passes/decompose/random/random_bits.h"
#include "support/match.h"

namespace toroid {
namespace {

// Whether all of it was drawn by the program.
bool is_drawn(const Graph& graph, ValueId id) {
  const Node& node = graph.producer(id);
  if (const auto* pointwise = std::get_if<Pointwise>(&node.op))
    return pointwise->op == ScalarOp::PhiloxLow || pointwise->op == ScalarOp::PhiloxHigh;
  if (!is_any<Cast, Reshape, Slice, Cat>(node.op)) return false;
  return std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) { return is_drawn(graph, input); });
}

}  // namespace

DropoutState drawn_dropout_state(Decomposer& d) {
  const RandomBits bits(d, {});
  return {bits.low(), bits.high()};
}

Tensor both_parts(const DropoutState& state) {
  Builder& b = state.key.builder();
  return b.cast(b.cat({b.reshape(state.key, {1}), b.reshape(state.call, {1})}, 0), DType::U64);
}

DropoutState dropout_state_of(const Args& a) {
  const Tensor seed = a.tensor("philox_seed"), offset = a.tensor("philox_offset");
  Builder& b = seed.builder();
  const bool is_pair = seed.rank() == 1;
  if (a.schema().name != "toroid::attention_backward" &&
      !(is_drawn(b.graph(), seed.id()) && (is_pair || is_drawn(b.graph(), offset.id())))) {
    throw Error(ErrorKind::Unsupported,
                fmt::format("{} with dropout takes the state of a forward pass that toroid did not compile with it", a.schema().name))
        .help("compile the forward pass and its gradient as one program");
  }
  const auto whole = [&](Tensor x) { return b.reshape(b.cast(x, DType::I64), {}); };
  if (!is_pair) return {whole(seed), whole(offset)};
  return {whole(b.slice(seed, 0, 0, 1)), whole(b.slice(seed, 0, 1, 1))};
}

int64_t kept_limit(double p) { return std::max<int64_t>(std::llround((1 - p) * 0x1p16), 1); }

Tensor kept_weights(const DropoutState& state, const formula::AttentionOperands& in, double p) {
  Builder& b = in.q.builder();
  const Sizes sizes = {in.q.size(0), in.q.size(1), in.q.size(2), in.k.size(2)};
  if (p >= 1) return b.full(sizes, DType::Bool, false);
  const auto number = [&](sym::Expr value) { return b.full(sizes, DType::I64, Scalar(value)); };
  const auto bits_of = [&](Tensor x, int64_t bits) { return b.pointwise(ScalarOp::BitAnd, {x, number(bits)}); };
  const Tensor place = b.reshape(b.iota({sym::product(sizes)}, 0), sizes), query = b.iota(sizes, 2), key = b.iota(sizes, 3);
  const Tensor later_query = bits_of(query, 8), later_key = bits_of(key, 8), odd_key = bits_of(key, 1);
  const Tensor counter = place - (later_query * number(sizes[3]) + bits_of(key, 9));
  const auto drawn = [&](ScalarOp half) { return b.pointwise(half, {counter, b.expand(state.key, sizes), b.expand(state.call, sizes)}); };
  const Tensor words =
      b.where(b.pointwise(ScalarOp::Eq, {later_query, number(0)}), drawn(ScalarOp::PhiloxLow), drawn(ScalarOp::PhiloxHigh));
  const Tensor shift = later_key * number(4) + odd_key * number(16);
  return bits_of(b.pointwise(ScalarOp::ShiftRight, {words, shift}), 0xffff) < number(kept_limit(p));
}

Tensor attend_with_dropout(const formula::AttentionOperands& in, const DropoutState& state, double p) {
  Builder& b = in.q.builder();
  const Tensor weights = formula::safe_softmax(formula::attention_scores(in), -1);
  const Tensor kept = b.where(kept_weights(state, in, p), weights * (1 / (1 - p)), b.scalar(weights.dtype(), 0.0));
  const Tensor y = b.matmul(wide(b.cast(kept, in.v.dtype())), wide(in.v));
  return formula::from_four_dims(b.cast(y, in.v.dtype()), in.batch);
}

}  // namespace toroid
