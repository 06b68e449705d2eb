// PyTorch's ways to name elements, each as the core operations want them: one I64 tensor per dim, in bounds.
#pragma once

#include <vector>

#include "graph/builder.h"

namespace toroid {

// Negative positions count from the end. Indices that provably are not negative stay as they are.
Tensor wrap_index(Tensor index, sym::Expr size);

// 0, 1, 2, … along dim `dim` of a tensor of rank `rank`, size 1 elsewhere.
Tensor positions(Builder& b, sym::Expr size, int64_t dim, int64_t rank);

// torch.gather's addressing: `index` along `dim`, each element's own position along the other dims.
std::vector<Tensor> index_along(Tensor index, int64_t dim);

// x[indices]: undefined entries and missing ones at the end are whole dims. The index tensors broadcast together, and
// their dims take the place of the indexed ones when those are neighbours, else they come first.
struct AdvancedIndex {
  std::vector<Tensor> per_dim;  // for Builder::gather and scatter
  Sizes sizes;                  // of the selected elements
};
AdvancedIndex advanced_index(Tensor x, const std::vector<Tensor>& indices, bool may_be_negative = true);

// `index` (rank 1, or 0) along one dim, whole dims elsewhere.
AdvancedIndex index_one_dim(Tensor x, int64_t dim, Tensor index, bool may_be_negative = false);

// The indices, one a dim of x, undefined ones left out: those out of bounds are the nearest ones that are not.
std::vector<Tensor> indices_in_bounds(Tensor x, std::vector<Tensor> indices);

// Masks are Bool, or U8 as old models have them; undefined tensors are none.
bool is_mask(Tensor index);

// The positions of the true elements of a Bool vector, in order, I64 [count]; `count` is how many there are.
Tensor true_positions(Tensor is_true, sym::Expr count);

// Where a mask is true, one vector a dim: x[mask] is x at these positions. `count` is how many elements are.
std::vector<Tensor> positions_of_mask(Tensor mask, sym::Expr count);

}  // namespace toroid
