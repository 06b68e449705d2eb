// Library kernels that pick elements out of rows without sorting them whole. Rows are the last dim; NaN counts as the largest element,
// and of equal elements the earlier comes first. Any dtype that sorts.
//
//   order.topk        x [n] (k, largest)     values [k], indices I64 [k], in order
//   order.kth         x [n] (place)          value [1], index I64 [1] of the element at `place` in ascending order
//   order.median      x [n] (ignore_nan)     value [1], index I64 [1]: the lower middle; unless NaNs are ignored, the first NaN
//   order.mode        x [n] ()               value [1], index I64 [1]: the most frequent, the smallest of them, at its last place
//   order.search      sorted [n], x [m] (right)    I64 [m]: PyTorch's binary search for the first place whose element is not less (with
//                     `right`: is greater). F32, F64 or I64. Probe by probe: with NaN in a row the probes decide what it finds
//   order.positions   Bool [n] ()            I64 [m]: where the first m true elements are, then zeros
#pragma once

#include "library/library_ops.h"

namespace toroid::selection {

void topk(const LibraryCall& call);
void kth(const LibraryCall& call);
void median(const LibraryCall& call);
void mode(const LibraryCall& call);
void search(const LibraryCall& call);
void positions(const LibraryCall& call);

}  // namespace toroid::selection
