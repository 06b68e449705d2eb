#include "runtime/kernels/registry/unfused_epilogue.h"

#include <algorithm>

#include "base/error.h"
#include "runtime/kernels/epilogue/post_ops.h"
#include "runtime/kernels/gemm/macrokernel.h"
#include "runtime/kernels/isa/half_rows.h"
#include "runtime/kernels/registry/operands.h"
#include "runtime/memory/scratch.h"

namespace toroid {
namespace {

constexpr int64_t kPieceElements = 4096;  // that a thread takes at a time: they stay in the first-level cache when they are widened

Scratch scratch_for_result;
Scratch scratch_for_rows;

// Rows of 16-bit floats, some at a time as float32.
void give_widened(const ToroidEpilogue& epilogue, DType dtype, const uint16_t* result, int64_t columns, Range rows) {
  const int64_t most = std::max<int64_t>(kPieceElements / columns, 1);
  float* const block = scratch_for_rows.get(std::min(most, rows.size()) * columns + kReadBeyond);
  for (int64_t first = rows.first; first < rows.last; first += most) {
    const int64_t last = std::min(rows.last, first + most);
    widen_row(dtype, result + first * columns, (last - first) * columns, block);
    run_epilogue(epilogue, block, columns, {first, last}, {0, columns});
  }
}

class UnfusedEpilogue final : public KernelPlan {
 public:
  UnfusedEpilogue(const Implementation& implementation, int columns_dim, const KernelCall& call) : columns_dim_(columns_dim) {
    KernelCall alone = call;
    alone.epilogue = nullptr;
    product_ = implementation.plan(alone);
  }

  void run(const KernelCall& call) const override {
    ToroidOperand result = call.outputs[0];
    const DType dtype = dtype_of(result);
    const int64_t elements = product(result.sizes, result.rank),
                  columns = result.sizes[columns_dim_ < 0 ? result.rank + columns_dim_ : columns_dim_];
    if (elements == 0) return;
    const int64_t floats = (elements * size_bytes(dtype) + int64_t{sizeof(float)} - 1) / int64_t{sizeof(float)};
    result.data = scratch_for_result.get(floats + kReadBeyond);

    KernelCall alone = call;
    alone.outputs = {&result, 1};
    alone.epilogue = nullptr;
    product_->run(alone);

    const ToroidEpilogue& epilogue = *call.epilogue;
    call.pool.parallel_for(elements / columns, std::max<int64_t>(kPieceElements / columns, 1), [&](int64_t begin, int64_t end) {
      if (is_reduced_float(dtype)) return give_widened(epilogue, dtype, static_cast<const uint16_t*>(result.data), columns, {begin, end});
      run_epilogue(epilogue, data_of(result) + begin * columns, columns, {begin, end}, {0, columns});
    });
  }

 private:
  int columns_dim_;
  std::unique_ptr<const KernelPlan> product_;
};

}  // namespace

std::unique_ptr<const KernelPlan> plan_unfused_epilogue(const Implementation& implementation, int columns_dim, const KernelCall& call) {
  TOROID_CHECK(call.epilogue != nullptr, "{} was chosen for a product with an epilogue", implementation.name);
  return std::make_unique<const UnfusedEpilogue>(implementation, columns_dim, call);
}

}  // namespace toroid
