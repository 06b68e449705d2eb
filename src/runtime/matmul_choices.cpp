// Matrix products in F32: the forms of runtime/gemm.h.
#include <cmath>

#include "runtime/choice_families.h"
#include "runtime/float_parts.h"
#include "runtime/onednn.h"

namespace toroid {
namespace {

// Rows of a tile share what is loaded of the right side: few of them leave the multipliers idle.
double share_of_peak(int64_t rows, double most) { return most * std::min(1.0, (1.0 + static_cast<double>(rows)) / 9.0); }

double packed_cost_s(const Problem& problem, const MachineModel& machine) {
  const ProductSizes s = product_sizes_of(problem);
  const OperandMeta& b = problem.inputs[1];
  // A single constant is packed before; else turning columns takes about as long again as copying rows.
  const double passes = b.is_constant && s.batches == 1 ? 1 : b.stride(-1) == 1 ? 3 : 4;
  return machine.start_s + transfer_s(4 * s.elements_of_a(), machine) +
         std::max(s.flops() / (share_of_peak(s.m, 0.85) * machine.flops_per_s), passes * transfer_s(4 * s.elements_of_b(), machine));
}

double parts_cost_s(const Problem& problem, const MachineModel& machine) {
  constexpr double kSpeed = 2.2;   // of F32's peak in vectors
  const ProductSizes s = product_sizes_of(problem);
  const OperandMeta& b = problem.inputs[1];
  const double passes = b.is_constant && s.batches == 1 ? 1.5 : b.stride(-1) == 1 ? 4 : 5;   // half as many bytes again
  const double tile_rows = std::ceil(static_cast<double>(s.m) / 16) * 16;
  return machine.start_s + 2 * transfer_s(4 * s.elements_of_a(), machine) +
         std::max(s.flops() * tile_rows / static_cast<double>(s.m) / (kSpeed * machine.flops_per_s), passes * transfer_s(4 * s.elements_of_b(), machine));
}

constexpr int64_t kFewRows = 4;    // computed in one pass over the right side
constexpr int64_t kMostRows = 64;  // beyond, packing has always paid

double few_rows_cost_s(const Problem& problem, const MachineModel& machine, double most_of_peak) {
  const ProductSizes s = product_sizes_of(problem);
  const double passes = std::ceil(static_cast<double>(s.m) / kFewRows);
  const double computing_s = s.flops() / (share_of_peak(std::min(s.m, kFewRows), most_of_peak) * machine.flops_per_s);
  return machine.start_s + std::max(computing_s, passes * transfer_s(4 * s.elements_of_b(), machine));
}

std::optional<std::string> too_many_rows(const Problem& problem) {
  const int64_t m = product_sizes_of(problem).m;
  if (m > kMostRows) return fmt::format("it is for at most {} rows, these are {}", kMostRows, m);
  return std::nullopt;
}

const Implementation kImplementations[] = {
    {.name = "packed",
     .description = "blocks of both sides copied into the order in which the inner loop reads them",
     .gate = [](const Problem&) -> std::optional<std::string> { return std::nullopt; },
     .cost_s = packed_cost_s,
     .run = [](const KernelCall& call, ChoiceParameters) { run_matmul_f32(call, ProductForm::Packed); }},
    {.name = "parts",
     .description = "numbers split into three of bfloat16, multiplied in tiles as exactly as in float32",
     .gate = [](const Problem&) -> std::optional<std::string> {
       if (!has_tiles_of_parts()) return kNoTiles;
       return std::nullopt;
     },
     .cost_s = parts_cost_s,
     .run = [](const KernelCall& call, ChoiceParameters) { run_matmul_f32(call, ProductForm::Parts); }},
    {.name = "few-rows-by-rows",
     .description = "rows of the right side added up where they lie, for every four rows of the left",
     .gate = [](const Problem& problem) -> std::optional<std::string> {
       if (problem.inputs[1].stride(-1) != 1) return "the right side's rows are not contiguous";
       return too_many_rows(problem);
     },
     .cost_s = [](const Problem& problem, const MachineModel& machine) { return few_rows_cost_s(problem, machine, 0.8); },
     .run = [](const KernelCall& call, ChoiceParameters) { run_matmul_f32(call, ProductForm::FewRowsByRows); }},
    {.name = "few-rows-by-columns",
     .description = "rows of the left side times columns of the right, for every four rows of the left",
     .gate = [](const Problem& problem) -> std::optional<std::string> {
       if (problem.inputs[1].stride(-2) != 1) return "the right side's columns are not contiguous";
       if (problem.inputs[0].stride(-1) != 1) return "the left side's rows are not contiguous";
       return too_many_rows(problem);
     },
     .cost_s = [](const Problem& problem, const MachineModel& machine) { return few_rows_cost_s(problem, machine, 1.2); },
     .run = [](const KernelCall& call, ChoiceParameters) { run_matmul_f32(call, ProductForm::FewRowsByColumns); }},
    {.name = "onednn",
     .description = "oneDNN's matrix product",
     .gate = onednn_refuses_matmul,
     .cost_s = [](const Problem& problem, const MachineModel& machine) { return kOneDnnCost * packed_cost_s(problem, machine); },
     .run = [](const KernelCall& call, ChoiceParameters) { run_matmul_onednn(call); }},
};

}  // namespace

KernelFamily matmul_family() {
  return {"matmul.f32", [](const Problem& problem) { return malformed_product(DType::F32, problem); }, [](const Problem& problem) { return problem.inputs[0].size(-1); }, kImplementations, -1};
}

}  // namespace toroid
