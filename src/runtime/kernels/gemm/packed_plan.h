// Plans of products whose right side is a constant, packed when the plan is made.
#pragma once

#include "base/fields.h"
#include "runtime/kernels/gemm/gemm.h"
#include "runtime/kernels/registry/library.h"
#include "runtime/kernels/registry/operands.h"
#include "runtime/kernels/registry/plan.h"

namespace toroid {

// The `batch`-th matrix of an operand.
template <class Stored>
MatrixOf<Stored> matrix_of_batch(const ToroidOperand& operand, int64_t batch) {
  const int32_t dims = operand.rank - 2;
  return {static_cast<const Stored*>(operand.data) + batch_offset(operand, dims, batch), operand.strides[dims], operand.strides[dims + 1]};
}

// The layout (prepared_constants.h) of a matrix of k rows and n columns at these strides, as `Packed` has it.
template <class Packed>
struct PackedLayout {
  int64_t k, n, row, column;
  TOROID_COMPARED_FIELDS(PackedLayout, k, n, row, column)
};

// The panels of a call's right side, a constant.
template <class Element, class Stored>
const Element* packed_panels(const KernelCall& call, const ProductSizes& sizes) {
  using Packed = PackedBOf<Element>;
  const MatrixOf<Stored> b = matrix_of_batch<Stored>(call.inputs[1], 0);
  const int64_t k = sizes.k, n = sizes.n, floats = Packed::size(k, n) * int64_t{sizeof(Element)} / int64_t{sizeof(float)};
  const float* panels = call.prepared->get(b.data, PackedLayout<Packed>{k, n, b.row, b.column}, floats, [&](float* to) {
    const int64_t stride = gemm_microkernels_of<Element>().panel_width() * k;
    call.pool.parallel_for(Packed::panels(n), 1, [&](int64_t begin, int64_t end) {
      pack_panels(b, k, n, begin, end, reinterpret_cast<Element*>(to) + begin * stride);
    });
  });
  return reinterpret_cast<const Element*>(panels);
}

// Packed: PackedB of some elements, or PackedBf16x3.
template <class Packed, class Element = float>
class PackedPlan final : public KernelPlan {
 public:
  PackedPlan(const KernelCall& call, const ProductSizes& sizes, const Element* packed)
      : m_(sizes.m), b_{sizes.k, sizes.n, packed}, cut_(partition_of(call.pool.threads(), m_, b_)) {}
  void run(const KernelCall& call) const override {
    const EpilogueOf<Element>* epilogue = nullptr;
    if constexpr (std::is_same_v<Element, float>) epilogue = call.epilogue;
    multiply(call.pool, cut_, m_, matrix_of_batch<Element>(call.inputs[0], 0), b_, {0, b_.panels()},
             ProductOutputOf<Element>{static_cast<Element*>(call.outputs[0].data), b_.columns, epilogue});
  }

 private:
  int64_t m_;
  Packed b_;
  Cut cut_;
};

}  // namespace toroid
