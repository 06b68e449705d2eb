// Matrix products in float32: which algorithm, and what of it is worked out once.
#include <optional>

#include "runtime/kernels/gemm/bf16x3/gemm.h"
#include "runtime/kernels/gemm/gemm.h"
#include "runtime/kernels/gemm/gemm_cost.h"
#include "runtime/kernels/gemm/packed_plan.h"
#include "runtime/kernels/registry/library.h"
#include "runtime/kernels/registry/operands.h"
#include "runtime/kernels/registry/plan.h"

namespace toroid {
namespace {

Matrix matrix_of(const ToroidOperand& operand, int64_t batch) { return matrix_of_batch<float>(operand, batch); }

std::unique_ptr<const KernelPlan> plan_packed(const KernelCall& call, const ProductSizes& sizes, GemmAlgorithm algorithm) {
  const Matrix b = matrix_of(call.inputs[1], 0);
  const int64_t k = sizes.k, n = sizes.n;
  if (algorithm == GemmAlgorithm::Parts) {
    const int64_t form[] = {'p', k, n, b.row, b.column};
    const float* packed = call.prepared->get(b.data, form, PackedBf16x3::size(k, n),
                                             [&](float* to) { pack_bf16x3(call.pool, b, k, n, 0, PackedBf16x3::panels(n), to); });
    return std::make_unique<const PackedPlan<PackedBf16x3>>(sizes, packed);
  }
  return std::make_unique<const PackedPlan<PackedB>>(sizes, prepared_panels<float>(call, b, k, n));
}

void run_products(const KernelCall& call, const ProductSizes& sizes, GemmAlgorithm algorithm) {
  const auto [batches, m, n, k] = sizes;
  const ProductOutput out = {call.epilogue != nullptr ? nullptr : data_of(call.outputs[0]), n, call.epilogue};
  if (batches == 1) {
    return gemm_f32(algorithm, call.pool, m, n, k, matrix_of(call.inputs[0], 0), matrix_of(call.inputs[1], 0), out);
  }
  for_each_product(call.pool, batches, m * n * k, [&, m = m, n = n, k = k](int64_t batch) {
    gemm_f32(algorithm, call.pool, m, n, k, matrix_of(call.inputs[0], batch), matrix_of(call.inputs[1], batch), out.part(batch * m, 0));
  });
}

}  // namespace

std::unique_ptr<const KernelPlan> plan_matmul_f32(const KernelCall& call, GemmAlgorithm algorithm) {
  // What was chosen on another machine, or before the tiles were left alone.
  if (algorithm == GemmAlgorithm::Parts && !has_amx_bf16x3()) algorithm = GemmAlgorithm::Packed;
  const ProductSizes sizes = product_sizes(call.inputs[0], call.inputs[1], call.outputs[0]);
  if (sizes.m == 0 || sizes.n == 0 || sizes.batches == 0) return plan_that_runs([](const KernelCall&) {});
  const bool is_packed = sizes.batches == 1 && sizes.k > 0 && call.keeps(call.inputs[1]);
  if (is_packed && (algorithm == GemmAlgorithm::Packed || algorithm == GemmAlgorithm::Parts)) return plan_packed(call, sizes, algorithm);
  return plan_that_runs([sizes, algorithm](const KernelCall& each) { run_products(each, sizes, algorithm); });
}

void run_matmul_f32(const KernelCall& call) {
  const ProductSizes s = product_sizes(call.inputs[0], call.inputs[1], call.outputs[0]);
  const Matrix a = matrix_of(call.inputs[0], 0), b = matrix_of(call.inputs[1], 0);
  const GemmToEstimate gemm = {.batches = s.batches,
                               .m = s.m,
                               .n = s.n,
                               .k = s.k,
                               .b_is_packed = call.keeps(call.inputs[1]),
                               .a_column = a.column,
                               .b_row = b.row,
                               .b_column = b.column};
  run_matmul_f32(call, cheapest_algorithm(gemm, call.pool.threads()));
}
void run_matmul_f32(const KernelCall& call, GemmAlgorithm form) { plan_matmul_f32(call, form)->run(call); }

}  // namespace toroid
