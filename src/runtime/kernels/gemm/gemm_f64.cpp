// Matrix products in float64: panels and microkernels as of float32, half as many numbers to a vector.
#include "runtime/kernels/gemm/packed_plan.h"
#include "runtime/kernels/linked/linked_kernels.h"
#include "runtime/kernels/registry/families.h"

namespace toroid {
namespace {

std::unique_ptr<const KernelPlan> plan_packed(const KernelCall& call) {
  const ProductSizes sizes = product_sizes(call.inputs[0], call.inputs[1], call.outputs[0]);
  if (sizes.m == 0 || sizes.n == 0 || sizes.batches == 0) return plan_that_runs([](const KernelCall&) {});
  if (sizes.batches == 1 && sizes.k > 0 && call.keeps(call.inputs[1])) {
    return std::make_unique<const PackedPlan<PackedBOf<double>, double>>(call, sizes, packed_panels<double, double>(call, sizes));
  }
  const PackedGemm<double> product(call.pool.threads(), sizes.m, sizes.n, sizes.k);
  return plan_that_runs([sizes, product](const KernelCall& each) {
    const auto [batches, m, n, k] = sizes;
    for_each_product(each.pool, batches, m * n * k, [&, m = m, n = n](int64_t batch) {
      const ProductOutputOf<double> out = {static_cast<double*>(each.outputs[0].data) + batch * m * n, n, nullptr};
      product(each.pool, matrix_of_batch<double>(each.inputs[0], batch), matrix_of_batch<double>(each.inputs[1], batch), out);
    });
  });
}

// Half the numbers and twice the bytes of float32. A constant is packed already; others are read and written for it, and read again.
double packed_s(const Problem& problem, const MachineModel& machine) {
  constexpr double kShareOfPeak = 0.85, kFlopsOfF32 = 2;
  const ProductSizes sizes = product_sizes_of(problem);
  const OperandMeta& b = problem.inputs[1];
  const double rows_share = std::min(1.0, (2.0 + static_cast<double>(sizes.m)) / 9);  // few rows leave the multipliers idle
  const double passes = b.is_constant && sizes.batches == 1 ? 1 : b.stride(-1) == 1 ? 3 : 4;
  return machine.start_s + transfer_s(8 * sizes.elements_of_a(), machine) +
         std::max(kFlopsOfF32 * sizes.flops() / (kShareOfPeak * rows_share * machine.flops_per_s),
                  passes * transfer_s(8 * sizes.elements_of_b(), machine));
}

constexpr Implementation kImplementations[] = {
    {/*name=*/"packed",
     /*description=*/"blocks of both sides copied into the order in which the inner loop reads them", /*version=*/1,
     /*gate=*/[](const Problem&) -> std::optional<std::string> { return std::nullopt; },
     /*cost_s=*/packed_s,
     /*plan=*/plan_packed},
};

constexpr KernelFamily kF64 = {"matmul.f64", [](const Problem& problem) { return malformed_product(DType::F64, problem); },
                               [](const Problem& problem) { return problem.inputs[0].size(-1); }, kImplementations};

}  // namespace

TOROID_LINKED_KERNEL(matmul_f64, "matmul.f64", &kF64, nullptr);

}  // namespace toroid
