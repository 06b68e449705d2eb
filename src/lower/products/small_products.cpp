// Products of a few numbers by a small matrix, whose rows lie across memory: loops instead of a call.
//
// Talking heads mix the scores of attention's heads: [B, H, L, L] permuted to rows of H numbers, by a matrix [H, H]. A library would copy
// the rows first, and its result would be read across.
//
//   x: f32[76832, 4], of s[2, 4, 196, 196]      copy x; matmul; whoever reads the result gathers
//   y = matmul(x, w)                        =>  y[b, i, j, h] = s[b, 0, i, j] * w[0, h] + s[b, 1, i, j] * w[1, h] + …
//
// The result lies as its rows did: what one row has is apart, and the same column of neighbouring rows is together.
#include "lower/index_map.h"
#include "lower/lowering.h"

namespace toroid {

namespace {

// Each element of the result takes so many loads: more would be slower than a call.
constexpr int64_t kMostSmall = 16;
// A call costs less than loops do for fewer.
constexpr int64_t kLeastRows = 1024;

bool is_small(sym::Expr size) { return size.is_const() && size.value() >= 1 && size.value() <= kMostSmall; }

}  // namespace

// The matrix of rows before its dims were flattened into one.
ValueId Lowering::before_flattened_rows(ValueId id) const {
  const sym::Expr depth = sizes(id).back();
  while (std::holds_alternative<Reshape>(graph_.producer(id).op)) {
    const ValueId input = graph_.producer(id).inputs[0];
    if (sizes(input).size() < 2 || !sym::known_eq(sizes(input).back(), depth)) return id;
    id = input;
  }
  return id;
}

// False where a call does better.
bool Lowering::lower_small_product(const Node& node) {
  const ValueId id = node.outputs[0], left = node.inputs[0], right = node.inputs[1];
  if (dtype(id) != DType::F32 || sizes(id).size() != 2 || !is_small(sizes(left).back()) || !is_small(sizes(id).back())) return false;
  if (sym::evaluate_hint(sizes(id)[0]) < kLeastRows || options_.narrow_weights != NarrowWeights::Kept) return false;
  if (!lowered(left).buffer && is_view(graph_.producer(left).op)) relower_view(left);
  const ValueId rows = before_flattened_rows(left);
  const auto window = as_window(rows);
  if (!window || window->strides.back().is_const(1) || !window->strides[window->strides.size() - 2].is_const(1)) return false;
  operand(right, false);

  std::vector<sym::Expr> made = sizes(rows);
  made.back() = sizes(id).back();
  const std::vector<sym::Expr> axes = fresh_axes(made);
  std::optional<ExprId> sum;
  for (int64_t k = 0; k < sizes(left).back().value(); ++k) {
    std::vector<sym::Expr> of_row = axes;
    of_row.back() = k;
    const ExprId product = exprs().compute(ScalarOp::Mul, {at(rows, of_row), at(right, {k, axes.back()})});
    sum = sum ? exprs().compute(ScalarOp::Add, {*sum, product}) : product;
  }
  const BufferId out = new_buffer(graph_.value(id).name, DType::F32, made);
  std::vector<sym::Expr> strides = contiguous_strides({made.begin(), made.end() - 1});
  strides.push_back(sizes(id)[0]);
  loops_->buffer(out).strides = std::move(strides);
  add_computation(loop::Map{axes, *sum}, {out}, {node.provenance});

  const std::vector<sym::Expr> flat = fresh_axes(sizes(id));
  std::vector<sym::Expr> index = view_index(Reshape{}, made, sizes(id), flat);
  define(id, flat, exprs().load(out, std::move(index), DType::F32), {});
  lowered(id).shows_memory = true;
  return true;
}

}  // namespace toroid
