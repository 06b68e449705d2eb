// Kernels of Library nodes, found by name: what is neither element-wise, a reduction nor an index map.
//
// They are plain functions over contiguous arrays. The evaluator and the runtime of compiled programs call the same code, and PyTorch's
// recorded results are what both are compared with; where the table names another file, each has code of its own. Each works on batches:
// every input has the same leading sizes (broadcasting happened before), and the last one or two dims are the vectors or matrices that the
// table speaks of. Dtypes are F32 and F64, equal among floating inputs and outputs, unless said otherwise; F32 is computed in double and
// rounded once, but for linalg.svd and linalg.eigh, where signs depend on roundings. Conventions (signs, pivots, info) are LAPACK's.
//
// Attributes are numbers in the order given; flags are 0 or 1. `info?` is an optional last output, I32, one a matrix:
// 0 or LAPACK's positive code. Without it a failure throws Error{InvalidInput}, as torch.linalg's checked functions do.
//
//   name                          inputs (attributes)                        outputs
//   linalg.cholesky               A [n,n] (upper)                            L [n,n], info?
//   linalg.cholesky_solve         B [n,k], L [n,n] (upper)                   X [n,k] with A X = B
//   linalg.cholesky_inverse       L [n,n] (upper)                            A^-1 [n,n]
//   linalg.qr                     A [m,n] (mode)                             mode 0, reduced: Q [m,min], R [min,n]
//                                                                            mode 1, complete: Q [m,m], R [m,n]
//                                                                            mode 2, r: R [min,n]
//   linalg.geqrf                  A [m,n]                                    a [m,n], tau [min]
//   linalg.householder_product    a [m,n], tau [k]                           Q [m,n]
//   linalg.ormqr                  a [m,k], tau [k], C (left, transpose)      op(Q) C or C op(Q), Q of full size
//   linalg.svd                    A [m,n] (full)                             U [m,m or min], S [min], Vh [n or min,n]
//   linalg.svdvals                A [m,n]                                    S [min]
//   linalg.eigh                   A [n,n] (upper)                            values [n] ascending, columns [n,n]
//   linalg.eigvalsh               A [n,n] (upper)                            values [n]
//   linalg.eig                    A [n,n]                                    values [n,2] and, as a second output if there is
//                                                                            one, columns [n,n,2]: (real, imaginary)
//   linalg.lu_factor              A [m,n] (pivot)                            LU [m,n], pivots I32 [min] 1-based, info?
//   linalg.lu_permutation         pivots I32 [k] ()                          p I64 [m]: row p[i] of A is row i of L U;
//                                                                            m is the output's size, m >= k
//   linalg.lu_solve               LU [n,n], pivots, B (left, adjoint)        X: A X = B (X A = B), A^T with adjoint
//   linalg.solve                  A [n,n], B [n,k] (left)                    X, info?;  X A = B, B [k,n], when not left
//   linalg.inv                    A [n,n]                                    A^-1, info?
//   linalg.det                    A [n,n]                                    det []
//   linalg.slogdet                A [n,n]                                    sign [], logabsdet []
//   linalg.solve_triangular       A [n,n], B (upper, left, unitriangular)    X: A X = B, or X A = B when not left
//   linalg.ldl_factor             A [n,n] (hermitian)                        LD [n,n], pivots I32 [n] as ?sytrf, info?
//   linalg.ldl_solve              LD [n,n], pivots, B [n,k] (hermitian)      X [n,k]
//   linalg.matrix_exp             A [n,n]                                    e^A [n,n]
//   linalg.lstsq                  A [m,n], B [m,k] (rcond)                   X [n,k], residuals [k] or [0], rank I64 []
//                                                                            and singular values [min], as gelsd
//   regions.*                     see regions.h
//   collectives.*                 see collectives/collectives.h
//   random.*                      see random/random_kernels.h
//   order.*                       see runtime/kernels/select/selection.h; the evaluator's are in interp/order.h
//   fourier.*                     see runtime/kernels/fourier/fourier.h and interp/fourier.h
//   products.grouped              see grouped_sizes.h
//   convolution.backward_weights  see runtime/kernels/conv/backward_weights/backward_weights.h; the evaluator's: interp/backward_weights.h
//   weights.*                     see weights.h
//   device.copy                   see device_copy.h
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include "base/span.h"
#include "tensor/dtype.h"

namespace toroid {

// A contiguous array of the caller's.
struct LibraryInput {
  DType dtype;
  Span<const int64_t> sizes;
  const std::byte* data;
};
struct LibraryOutput {
  DType dtype;
  Span<const int64_t> sizes;
  std::byte* data;
};
// Runs body(begin, end), which must not throw, for pieces that cover [0, n).
using ParallelFor = std::function<void(int64_t n, const std::function<void(int64_t begin, int64_t end)>& body)>;
struct LibraryCall {
  Span<const LibraryInput> inputs;
  Span<const LibraryOutput> outputs;
  Span<const double> attributes;
  ParallelFor parallel_for = {};  // empty: one piece

  // Runs body as parallel_for does, or at once where there is none.
  void in_pieces(int64_t n, const std::function<void(int64_t begin, int64_t end)>& body) const {
    parallel_for ? parallel_for(n, body) : body(0, n);
  }
};

// Throws Error{InvalidInput} for what the caller's numbers make impossible (a singular matrix without an `info`).
using LibraryKernel = void (*)(const LibraryCall& call);

struct LibraryOp {
  std::string_view name;
  LibraryKernel kernel;
};

// Null when there is none of that name.
const LibraryOp* find_library_op(std::string_view name);
Span<const LibraryOp> library_ops();

}  // namespace toroid
