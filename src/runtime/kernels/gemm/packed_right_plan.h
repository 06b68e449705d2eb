// Plans of products whose right side is packed for inner loops of its own: of a constant when the plan is made, of others in each call.
#pragma once

#include "runtime/kernels/epilogue/post_ops.h"
#include "runtime/kernels/gemm/packed_plan.h"
#include "runtime/kernels/registry/packed_operand.h"

namespace toroid {

// Loops(call, sizes) has what is worked out once, and says how the right side is packed and multiplied:
//   layout(right): the layout of the operand (prepared_constants.h), floats(): its numbers;
//   pack(call, batch, to) packs the `batch`-th matrix;
//   multiply(call, batch, packed, out) gives the product to `out`, which has an epilogue.
template <class Loops>
class PackedRightPlan final : public KernelPlan {
 public:
  explicit PackedRightPlan(const KernelCall& call)
      : sizes_(product_sizes(call.inputs[0], call.inputs[1], call.outputs[0])),
        loops_(call, sizes_),
        right_(
            call, 1, loops_.layout(call.inputs[1]), loops_.floats(),
            [this](const KernelCall& each, int64_t batch, float* to) { loops_.pack(each, batch, to); }, is_empty() ? 0 : sizes_.batches) {}

  void run(const KernelCall& call) const override {
    if (is_empty()) return;
    const ToroidOperand& c = call.outputs[0];
    const ToroidEpilogue stored = store_as(dtype_of(c), c.data, sizes_.n);
    const ProductOutput out = {nullptr, sizes_.n, call.epilogue != nullptr ? call.epilogue : &stored};
    for_each_product(call.pool, sizes_.batches, sizes_.m * sizes_.n * sizes_.k,
                     [&](int64_t batch) { loops_.multiply(call, batch, right_.of(call, batch), out.part(batch * sizes_.m, 0)); });
  }

 private:
  bool is_empty() const { return sizes_.m == 0 || sizes_.n == 0; }

  ProductSizes sizes_;
  Loops loops_;
  PackedOperand right_;
};

template <class Loops>
std::unique_ptr<const KernelPlan> plan_packed_right(const KernelCall& call) {
  return std::make_unique<const PackedRightPlan<Loops>>(call);
}

// The usual layout for such loops.
template <class Loops>
PackedLayout<Loops> layout_of(const ToroidOperand& right, const ProductSizes& sizes) {
  return {sizes.k, sizes.n, right.strides[right.rank - 2], right.strides[right.rank - 1]};
}

}  // namespace toroid
