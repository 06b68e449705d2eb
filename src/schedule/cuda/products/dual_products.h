// Dual products (dual GEMM): two products of one left side, whose results meet element by element, in one kernel of a GPU.
//
// A gated layer multiplies what it gets by two weights, and one result by a function of the other. In one kernel the left side is read
// once, and the gate is in no memory:
//
//   call linear {                       call linear_linear_1_silu_mul {
//     g = matmul() on x, w                u, g = matmul() on x, v, w
//   }                                     tiles 128 by 192 …
//   call linear_1_silu_mul {      =>      epilogue silu_mul {
//     u = matmul() on x, v                  product u[…], g[…]
//     epilogue silu_mul {                   …
//       product u[…]                      }
//       reads g, …                      }
//     }
//   }
//
// A tile has half of its columns from each right side, so a thread has the sums of both at one place. The gate is not rounded then, as no
// product is that goes into an epilogue.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "schedule/cuda/products/product_tiles.h"

namespace toroid::schedule {

// The tiles of a product, or none where the library makes it.
using ChooseTiles = std::function<std::optional<GpuTiles>(const ProductShape&, const std::optional<EpilogueWork>&)>;
// Makes dual products of pairs of steps, where an estimate says that it is quicker. The steps' products have their tiles.
void make_dual_products(const loop::LoopProgram& program, std::vector<Step>& steps, const ChooseTiles& choose);

}  // namespace toroid::schedule
