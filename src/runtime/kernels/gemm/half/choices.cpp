// Matrix products in BF16 and F16.
#include "runtime/kernels/gemm/half/gemm.h"
#include "runtime/kernels/gemm/half/microkernel_bf16.h"
#include "runtime/kernels/isa/amx.h"
#include "runtime/kernels/linked/linked_kernels.h"
#include "runtime/kernels/onednn/onednn.h"
#include "runtime/kernels/registry/families.h"

namespace toroid {
namespace {

constexpr double kBytes = 2;  // of an element

// hidden: as of overlapped_s, where the right side is a constant. packing_passes: over a right side that is none, besides reading it.
double cost_s(const Problem& problem, const MachineModel& machine, double ratio_to_f32, double hidden, double packing_passes = 1,
              double bytes_of_b = kBytes) {
  const ProductSizes s = product_sizes_of(problem);
  constexpr double kShareOfPeak = 0.6;
  const bool is_packed = problem.inputs[1].is_constant && s.batches == 1;
  const double passes = is_packed ? 1 : 1 + packing_passes;
  return machine.start_s + transfer_s(kBytes * s.elements_of_a(), machine) +
         overlapped_s(s.flops() / (kShareOfPeak * ratio_to_f32 * machine.flops_per_s),
                      passes * operand_transfer_s(bytes_of_b * s.elements_of_b(), is_packed, machine), is_packed ? hidden : kHidden);
}

constexpr Implementation kWidened = {
    /*name=*/"widened",
    /*description=*/"blocks of both sides copied as float32 and multiplied so",
    /*version=*/1,
    /*gate=*/[](const Problem&) -> std::optional<std::string> { return std::nullopt; },
    /*cost_s=*/
    [](const Problem& problem, const MachineModel& machine) {
      return cost_s(problem, machine, 1.15, hidden_in_vectors(machine), 1, sizeof(float));
    },
    /*plan=*/plan_half_widened};

constexpr Implementation kOfBFloat16[] = {
    kWidened,
    {/*name=*/"pairs",
     /*description=*/"two elements of a row at a time (AVX512_BF16)", /*version=*/1,
     /*gate=*/
     [](const Problem&) -> std::optional<std::string> {
       if (bf16_dot_microkernels() == nullptr) return "the machine has no AVX512_BF16";
       return std::nullopt;
     },
     /*cost_s=*/
     [](const Problem& problem, const MachineModel& machine) {
       return cost_s(problem, machine, machine.pairs, hidden_in_vectors(machine));
     },
     /*plan=*/plan_bf16_pairs},
    {/*name=*/"tiles",
     /*description=*/"tiles of 16 rows and columns (AMX)", /*version=*/1,
     /*gate=*/
     [](const Problem&) -> std::optional<std::string> {
       if (!has_amx()) return kNoTiles;
       return std::nullopt;
     },
     /*cost_s=*/
     [](const Problem& problem, const MachineModel& machine) {
       constexpr double kFirstTiles = 1e-6;
       // What is no constant is packed as a whole, written and read again.
       return kFirstTiles + cost_s(problem, machine, 10 * share_of_tile_rows(product_sizes_of(problem).m), kHidden, 2);
     },
     /*plan=*/plan_bf16_tiles},
    {/*name=*/"onednn",
     /*description=*/"oneDNN's matrix product", /*version=*/1,
     /*gate=*/onednn_refuses_matmul,
     /*cost_s=*/
     [](const Problem& problem, const MachineModel& machine) {
       const double ratio_to_f32 = has_amx() ? 10 : bf16_dot_microkernels() != nullptr ? machine.pairs : 0.4;
       return kOneDnnCost * cost_s(problem, machine, ratio_to_f32, hidden_in_vectors(machine));
     },
     /*plan=*/plan_matmul_onednn,
     /*needs_measuring=*/true},
};
constexpr Implementation kOfFloat16[] = {kWidened};

int64_t depth(const Problem& problem) { return problem.inputs[0].size(-1); }

template <DType kDType>
std::optional<std::string> malformed_of(const Problem& problem) {
  return malformed_product(kDType, problem);
}
constexpr KernelFamily kBF16 = {"matmul.bf16", malformed_of<DType::BF16>, depth, kOfBFloat16, -1};
constexpr KernelFamily kF16 = {"matmul.f16", malformed_of<DType::F16>, depth, kOfFloat16, -1};

}  // namespace

TOROID_LINKED_KERNEL(matmul_bf16, "matmul.bf16", &kBF16, plan_half_widened);
TOROID_LINKED_KERNEL(matmul_f16, "matmul.f16", &kF16, plan_half_widened);

}  // namespace toroid
