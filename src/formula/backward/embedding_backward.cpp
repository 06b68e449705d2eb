#include "formula/backward/embedding_backward.h"

#include "formula/basics/index_tensors.h"
#include "formula/basics/operators.h"
#include "formula/basics/precision.h"

namespace toroid::formula {
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

}  // namespace

Tensor embedding_backward(Tensor grad, Tensor indices, const TableGradient& table) {
  Builder& b = grad.builder();
  indices = b.cast(indices, DType::I64);
  Tensor flat = b.reshape(indices, {indices.numel()});
  Tensor source = wide(b.reshape(grad, {indices.numel(), grad.size(-1)}));
  Tensor counts = b.binary(ScalarOp::Ne, flat, Scalar(table.padding_index));
  if (table.scale_by_frequency) source = source / b.unsqueeze(frequency_of(flat, table.rows, source.dtype()), 1);
  source = where(b.unsqueeze(counts, 1), source, 0);
  return b.cast(sum_by_index(source, flat, table.rows), grad.dtype());
}

// ---- embedding_bag --------------------------------------------------------------------------------------------------

namespace {

// The gradient of an empty bag's maxima goes nowhere.
Tensor max_gradient(Tensor grad, const BagReads& reads, sym::Expr rows) {
  Builder& b = grad.builder();
  Tensor chosen = b.cast(reads.maxima, DType::I64);
  Tensor is_empty = eq(b.cast(reads.bag_size, DType::I64), 0);
  Tensor source = where(b.unsqueeze(is_empty, 1), 0, grad);
  Tensor zeros = b.full({rows, grad.size(1)}, grad.dtype(), 0.0);
  return b.scatter(zeros, source, {chosen, positions(b, grad.size(1), 1, 2)}, ScatterMode::Add);
}

Tensor wide_gradient(Tensor grad, const BagReads& reads, const TableGradient& table) {
  Builder& b = grad.builder();
  if (reads.mode == BagMode::Max) return max_gradient(grad, reads, table.rows);
  Tensor indices = b.cast(reads.indices, DType::I64), bags = b.cast(reads.bag_of_index, DType::I64);
  Tensor source = b.gather(grad, index_one_dim(grad, 0, bags).per_dim);  // [n, width]
  if (reads.per_sample_weights.defined()) source = source * b.unsqueeze(wide(reads.per_sample_weights), 1);
  if (reads.mode == BagMode::Mean) {
    Tensor size = b.gather(b.cast(reads.bag_size, source.dtype()), {bags});
    source = source / b.unsqueeze(maximum(size, 1), 1);
  }
  if (table.scale_by_frequency) source = source / b.unsqueeze(frequency_of(indices, table.rows, source.dtype()), 1);
  Tensor counts = b.binary(ScalarOp::Ne, indices, Scalar(table.padding_index));
  return sum_by_index(where(b.unsqueeze(counts, 1), source, 0), indices, table.rows);
}

}  // namespace

Tensor embedding_bag_backward(Tensor grad, const BagReads& reads, const TableGradient& table) {
  return grad.builder().cast(wide_gradient(wide(grad), reads, table), grad.dtype());
}

Tensor per_sample_weights_backward(Tensor grad, Tensor weight, Tensor indices, Tensor bag_of_index, sym::Expr padding_index) {
  Builder& b = grad.builder();
  indices = b.cast(indices, DType::I64);
  auto rows = [&](Tensor table, Tensor index) { return wide(embedding(table, index)); };
  Tensor products = rows(grad, b.cast(bag_of_index, DType::I64)) * rows(weight, indices);
  Tensor counts = b.binary(ScalarOp::Ne, indices, Scalar(padding_index));
  return b.cast(where(counts, b.sum(products, {1}), 0), grad.dtype());
}

}  // namespace toroid::formula
