// Gradients of embedding tables: each row sums the gradients of its reads, weighted as its bag was.
#include "base/error.h"
#include "formula/basics/index_tensors.h"
#include "formula/basics/operators.h"
#include "formula/basics/precision.h"
#include "formula/nn/embedding.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

// Row i is the sum of the rows of `source` [n, width] whose index is i.
Tensor sum_by_index(Tensor source, Tensor indices, sym::Expr rows) {
  Builder& b = source.builder();
  const sym::Expr width = source.size(1);
  Tensor zeros = b.full({rows, width}, source.dtype(), 0.0);
  return b.scatter(zeros, source, {b.unsqueeze(indices, 1), positions(b, width, 1, 2)}, ScatterMode::Add);
}

// How often each of the indices [n] occurs among them.
Tensor frequency_of(Tensor indices, sym::Expr rows, DType dtype) {
  Builder& b = indices.builder();
  Tensor counts = b.scatter(b.full({rows}, dtype, 0.0), b.scalar(dtype, 1.0), {indices}, ScatterMode::Add);
  return b.gather(counts, {indices});
}

std::vector<Tensor> dense_gradient(Decomposer& d, const Args& a, Tensor grad) {
  Builder& b = d.b;
  Tensor indices = b.cast(a.tensor("indices"), DType::I64);
  const sym::Expr rows = a.integer("num_weights");
  Tensor flat = b.reshape(indices, {indices.numel()});
  Tensor source = wide(b.reshape(grad, {indices.numel(), grad.size(-1)}));
  Tensor counts = b.binary(ScalarOp::Ne, flat, Scalar(a.integer("padding_idx")));
  if (a.flag("scale_grad_by_freq")) source = source / b.unsqueeze(frequency_of(flat, rows, source.dtype()), 1);
  source = where(b.unsqueeze(counts, 1), source, 0);
  return {b.cast(sum_by_index(source, flat, rows), grad.dtype())};
}

std::vector<Tensor> embedding_dense_backward(Decomposer& d, const Args& a) { return dense_gradient(d, a, a.tensor("grad_output")); }

std::vector<Tensor> embedding_backward(Decomposer& d, const Args& a) {
  if (a.flag("sparse")) throw Error(ErrorKind::Unsupported, "embedding_backward to a sparse gradient").help("export with sparse=False");
  return dense_gradient(d, a, a.tensor("grad"));
}

// ---- embedding_bag --------------------------------------------------------------------------------------------------

constexpr int64_t kMean = 1, kMax = 2;

// The gradient of an empty bag's maxima goes nowhere.
Tensor max_gradient(const Args& a, Tensor grad, sym::Expr rows) {
  Builder& b = grad.builder();
  Tensor chosen = b.cast(a.tensor("maximum_indices"), DType::I64);
  Tensor is_empty = eq(b.cast(a.tensor("bag_size"), DType::I64), 0);
  Tensor source = where(b.unsqueeze(is_empty, 1), 0, grad);
  Tensor zeros = b.full({rows, grad.size(1)}, grad.dtype(), 0.0);
  return b.scatter(zeros, source, {chosen, positions(b, grad.size(1), 1, 2)}, ScatterMode::Add);
}

// `bags` is the bag of each index.
Tensor bag_gradient(const Args& a, Tensor bags) {
  Tensor grad = wide(a.tensor("grad")), indices = a.tensor("indices");
  Builder& b = grad.builder();
  const sym::Expr rows = a.integer("num_weights");
  const int64_t mode = a.constant("mode");
  if (mode == kMax) return max_gradient(a, grad, rows);
  indices = b.cast(indices, DType::I64);
  bags = b.cast(bags, DType::I64);
  Tensor source = b.gather(grad, index_one_dim(grad, 0, bags).per_dim);  // [n, width]
  if (a.has("per_sample_weights")) source = source * b.unsqueeze(wide(a.tensor("per_sample_weights")), 1);
  if (mode == kMean) {
    Tensor size = b.gather(b.cast(a.tensor("bag_size"), source.dtype()), {bags});
    source = source / b.unsqueeze(maximum(size, 1), 1);
  }
  if (a.flag("scale_grad_by_freq")) source = source / b.unsqueeze(frequency_of(indices, rows, source.dtype()), 1);
  Tensor counts = b.binary(ScalarOp::Ne, indices, Scalar(a.integer("padding_idx")));
  return sum_by_index(where(b.unsqueeze(counts, 1), source, 0), indices, rows);
}

std::vector<Tensor> embedding_bag_dense_backward(Decomposer& d, const Args& a) {
  return {d.b.cast(bag_gradient(a, a.tensor("offset2bag")), a.tensor("grad").dtype())};
}

// The forward operator may leave `offset2bag` empty: then the offsets tell.
Tensor bags_of(const Args& a) {
  Tensor known = a.tensor("offset2bag"), indices = a.tensor("indices");
  if (!known.numel().is_const(0) || indices.numel().is_const(0)) return known;
  return formula::bag_of_index(indices.size(0), a.tensor("offsets"));
}

std::vector<Tensor> embedding_bag_backward(Decomposer& d, const Args& a) {
  if (a.flag("sparse")) throw Error(ErrorKind::Unsupported, "embedding_bag_backward to a sparse gradient").help("export with sparse=False");
  return {d.b.cast(bag_gradient(a, bags_of(a)), a.tensor("grad").dtype())};
}

// The weight of index i scales its row in the sum of its bag.
std::vector<Tensor> embedding_bag_per_sample_weights_backward(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor grad = a.tensor("grad"), weight = a.tensor("weight"), indices = b.cast(a.tensor("indices"), DType::I64);
  auto rows = [&](Tensor table, Tensor index) { return wide(b.gather(table, index_one_dim(table, 0, index).per_dim)); };
  Tensor products = rows(grad, b.cast(bags_of(a), DType::I64)) * rows(weight, indices);
  Tensor counts = b.binary(ScalarOp::Ne, indices, Scalar(a.integer("padding_idx")));
  return {b.cast(where(counts, b.sum(products, {1}), 0), grad.dtype())};
}

constexpr DecompositionRow kRows[] = {
    {"aten::embedding_dense_backward", embedding_dense_backward},
    {"aten::embedding_backward", embedding_backward},
    {"aten::_embedding_bag_dense_backward", embedding_bag_dense_backward},
    {"aten::_embedding_bag_backward", embedding_bag_backward},
    {"aten::_embedding_bag_per_sample_weights_backward", embedding_bag_per_sample_weights_backward},
};

}  // namespace

std::span<const DecompositionRow> embedding_backward_rows() { return kRows; }

}  // namespace toroid
