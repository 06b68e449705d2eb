// Products with weights of 8 bits, and of 4, two in a byte.
//
// Packed weights have the layout of PyTorch's CPU kernels on machines with AVX-512: of 64 rows [64, K] byte [k, j] has row j in its low
// half and row j + 32 in its high one; of the rows that are left, neighbours share a byte. Packing throws Error{InvalidModel} for rows that
// are no multiple of 16, and Error{Unsupported} for a symbolic number of them.
#pragma once

#include "graph/builder.h"

namespace toroid::formula {

// Integers from 0 to 15, [N, K], as U8 [N, K/2].
Tensor pack_int4(Tensor numbers);
// The numbers again, U8 [N, K].
Tensor unpack_int4(Tensor packed);

// x [M, K] times weights [N, K] that are scale*(number - 8) + zero, in x's dtype. `numbers` has the weights' sizes, `parameters` [groups,
// N, 2] a scale and a zero for each run of `group` columns and each row.
Tensor int4_weight_product(Tensor x, Tensor numbers, Tensor parameters, sym::Expr group);

// x [M, K] times int8 weights [N, K], with a scale for each of the N results, in x's dtype.
Tensor int8_weight_product(Tensor x, Tensor weight, Tensor scales);

}  // namespace toroid::formula
