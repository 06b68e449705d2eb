// Matrix products in F32: the forms of runtime/kernels/gemm/gemm.h.
#include "base/format.h"
#include "runtime/kernels/gemm/bf16x3/split.h"
#include "runtime/kernels/gemm/gemm_cost.h"
#include "runtime/kernels/onednn/onednn.h"
#include "runtime/kernels/registry/families.h"

namespace toroid {
namespace {

GemmToEstimate to_estimate(const Problem& problem) {
  const ProductSizes s = product_sizes_of(problem);
  const OperandMeta &a = problem.inputs[0], &b = problem.inputs[1];
  return {.batches = s.batches,
          .m = s.m,
          .n = s.n,
          .k = s.k,
          .b_is_packed = b.is_constant,
          .a_column = a.stride(-1),
          .b_row = b.stride(-2),
          .b_column = b.stride(-1)};
}

template <GemmAlgorithm kAlgorithm>
double cost_s(const Problem& problem, const MachineModel& machine) {
  return estimate_s(kAlgorithm, to_estimate(problem), machine);
}

template <GemmAlgorithm kAlgorithm>
std::unique_ptr<const KernelPlan> plan_of_algorithm(const KernelCall& call, ChoiceParameters) {
  return plan_matmul_f32(call, kAlgorithm);
}

std::optional<std::string> too_many_rows(const Problem& problem) {
  const int64_t m = product_sizes_of(problem).m;
  if (m > kMostSmallM) return formatted("it is for at most {} rows, these are {}", kMostSmallM, m);
  return std::nullopt;
}

const Implementation kImplementations[] = {
    {.name = "packed",
     .description = "blocks of both sides copied into the order in which the inner loop reads them",
     .gate = [](const Problem&) -> std::optional<std::string> { return std::nullopt; },
     .cost_s = cost_s<GemmAlgorithm::Packed>,
     .plan = plan_of_algorithm<GemmAlgorithm::Packed>},
    {.name = "parts",
     .description = "numbers split into three of bfloat16, multiplied in tiles as exactly as in float32",
     .gate = [](const Problem&) -> std::optional<std::string> {
       if (!has_amx_bf16x3()) return kNoTiles;
       return std::nullopt;
     },
     .cost_s = cost_s<GemmAlgorithm::Parts>,
     .plan = plan_of_algorithm<GemmAlgorithm::Parts>},
    {.name = "few-rows-by-rows",
     .description = "rows of the right side added up where they lie, for every four rows of the left",
     .gate = [](const Problem& problem) -> std::optional<std::string> {
       if (problem.inputs[1].stride(-1) != 1) return "the right side's rows are not contiguous";
       return too_many_rows(problem);
     },
     .cost_s = cost_s<GemmAlgorithm::SmallMByRows>,
     .plan = plan_of_algorithm<GemmAlgorithm::SmallMByRows>},
    {.name = "few-rows-by-columns",
     .description = "rows of the left side times columns of the right, for every four rows of the left",
     .gate = [](const Problem& problem) -> std::optional<std::string> {
       if (problem.inputs[1].stride(-2) != 1) return "the right side's columns are not contiguous";
       if (problem.inputs[0].stride(-1) != 1) return "the left side's rows are not contiguous";
       return too_many_rows(problem);
     },
     .cost_s = cost_s<GemmAlgorithm::SmallMByColumns>,
     .plan = plan_of_algorithm<GemmAlgorithm::SmallMByColumns>},
    {.name = "onednn",
     .description = "oneDNN's matrix product",
     .gate = onednn_refuses_matmul,
     .cost_s = [](const Problem& problem,
                  const MachineModel& machine) { return kOneDnnCost * cost_s<GemmAlgorithm::Packed>(problem, machine); },
     .run = [](const KernelCall& call, ChoiceParameters) { run_matmul_onednn(call); },
     .needs_measuring = true},
};

}  // namespace

KernelFamily matmul_family() {
  return {"matmul.f32", [](const Problem& problem) { return malformed_product(DType::F32, problem); },
          [](const Problem& problem) { return problem.inputs[0].size(-1); }, kImplementations, -1};
}

}  // namespace toroid
