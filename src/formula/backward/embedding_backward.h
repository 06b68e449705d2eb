// Gradients of embedding tables: each row sums the gradients of its reads, weighted as its bag was.
//
// Indices are integers, in bounds. Gradients of F16 and BF16 are summed in F32.
#pragma once

#include "formula/nn/embedding.h"

namespace toroid::formula {

// The table, and how its gradient is summed.
struct TableGradient {
  sym::Expr rows;
  sym::Expr padding_index = -1;     // reads of this row do not count
  bool scale_by_frequency = false;  // each read counts 1/n where its index was read n times
};

// [rows, width] in grad's dtype, of embedding(weight, indices): `grad` is [indices…, width].
Tensor embedding_backward(Tensor grad, Tensor indices, const TableGradient& table);

// What embedding_bag read and kept.
struct BagReads {
  BagMode mode = BagMode::Sum;
  Tensor indices, bag_of_index;  // [n]
  Tensor bag_size;               // [bags]
  Tensor maxima;                 // BagMode::Max: [bags, width]
  Tensor per_sample_weights;     // [n] or undefined
};

// [rows, width] in grad's dtype: `grad` is [bags, width].
Tensor embedding_bag_backward(Tensor grad, const BagReads& reads, const TableGradient& table);

// Of the weights of the samples, [n]: each scales its row in the sum of its bag.
Tensor per_sample_weights_backward(Tensor grad, Tensor weight, Tensor indices, Tensor bag_of_index, sym::Expr padding_index);

}  // namespace toroid::formula
