// Matrix products worked out for their sizes: how they are cut into tasks is known before a call.
#pragma once

#include <functional>

#include "runtime/kernels/gemm/macrokernel.h"

namespace toroid {

// out[m, n] = sum over k of a[m, k] * b[k, n] with any data of the sizes and strides that it was made for, on the pool's threads. Several
// threads may run it at once.
template <class Element, class Stored>
using GemmOf =
    std::function<void(RuntimePool& pool, const MatrixOf<Stored>& a, const MatrixOf<Stored>& b, const ProductOutputOf<Element>& out)>;
using Gemm = GemmOf<float, float>;

// Such a product, of any strides, that packs b: part by part just before it multiplies (packs_parts), or much of it at a time. Of elements
// that the macrokernel multiplies and converts (macrokernel.h).
template <class Element, class Stored = Element>
class PackedGemm {
 public:
  PackedGemm(int64_t threads, int64_t m, int64_t n, int64_t k);
  void operator()(RuntimePool& pool, const MatrixOf<Stored>& a, const MatrixOf<Stored>& b, const ProductOutputOf<Element>& out) const;

 private:
  int64_t m_, n_, k_;
  int64_t panels_at_once_;
  Cut cut_, last_cut_;  // of so many panels, and of those that are left
};

}  // namespace toroid
