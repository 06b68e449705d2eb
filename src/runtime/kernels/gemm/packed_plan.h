// Plans of products whose right side is a constant, packed when the plan is made.
#pragma once

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

// The panels of a constant of k rows and n columns.
template <class Element, class Stored>
const Element* prepared_panels(const KernelCall& call, const MatrixOf<Stored>& b, int64_t k, int64_t n) {
  using Packed = PackedBOf<Element>;
  const int64_t form[] = {'m', k, n, b.row, b.column};
  const int64_t floats = Packed::size(k, n) * int64_t{sizeof(Element)} / int64_t{sizeof(float)};
  const float* panels = call.prepared->get(b.data, form, floats, [&](float* to) {
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
  PackedPlan(const ProductSizes& sizes, const Element* packed) : sizes_(sizes), packed_(packed) {}
  void run(const KernelCall& call) const override {
    const Packed b = {sizes_.k, sizes_.n, packed_};
    const EpilogueOf<Element>* epilogue = nullptr;
    if constexpr (std::is_same_v<Element, float>) epilogue = call.epilogue;
    multiply(call.pool, sizes_.m, matrix_of_batch<Element>(call.inputs[0], 0), b, 0, b.panels(),
             ProductOutputOf<Element>{static_cast<Element*>(call.outputs[0].data), sizes_.n, epilogue});
  }

 private:
  ProductSizes sizes_;
  const Element* packed_;
};

}  // namespace toroid
