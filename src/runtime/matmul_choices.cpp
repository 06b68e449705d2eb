// Matrix products in F32: the forms of runtime/gemm.h.
#include <cmath>

#include "runtime/choice_families.h"

namespace toroid {
namespace {

struct Sizes {
  int64_t batches, m, n, k;
  double flops() const {
    return 2.0 * static_cast<double>(batches) * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
  double bytes_of_a() const { return 4.0 * static_cast<double>(batches) * static_cast<double>(m) * static_cast<double>(k); }
  double bytes_of_b() const { return 4.0 * static_cast<double>(batches) * static_cast<double>(k) * static_cast<double>(n); }
};

// A batch with one matrix on the right is one product of all its rows (matmul.cpp).
bool is_one_product(const OperandMeta& a, const OperandMeta& b) {
  int64_t below = a.stride(-2) * a.size(-2);
  for (size_t d = a.sizes.size() - 2; d-- > 0;) {
    if (a.sizes[d] == 1) continue;
    if (b.strides[d] != 0 || a.strides[d] != below) return false;
    below *= a.sizes[d];
  }
  return true;
}

Sizes sizes_of(const Problem& problem) {
  const OperandMeta& a = problem.inputs[0];
  const OperandMeta& c = problem.outputs[0];
  const int64_t m = c.size(-2), n = c.size(-1), k = a.size(-1);
  const int64_t batches = m * n == 0 ? 0 : c.elements() / (m * n);
  if (is_one_product(a, problem.inputs[1])) return {1, batches * m, n, k};
  return {batches, m, n, k};
}

std::optional<std::string> malformed(const Problem& problem) {
  if (std::optional<std::string> fault = unlike_f32(problem, 2, 2, 2)) return fault;
  const OperandMeta& a = problem.inputs[0];
  const OperandMeta& b = problem.inputs[1];
  if (!problem.outputs[0].is_contiguous()) return "the output is not contiguous";
  std::vector<int64_t> product = a.sizes;
  product.back() = b.sizes.back();
  const bool same_batches = a.sizes.size() == b.sizes.size() && std::equal(a.sizes.begin(), a.sizes.end() - 2, b.sizes.begin());
  if (!same_batches || a.size(-1) != b.size(-2) || problem.outputs[0].sizes != product) {
    return "they are no matrices of one batch whose sizes meet";
  }
  return std::nullopt;
}

// Rows of a tile share what is loaded of the right side: few of them leave the multipliers idle.
double share_of_peak(int64_t rows, double most) { return most * std::min(1.0, (1.0 + static_cast<double>(rows)) / 9.0); }

double packed_cost_s(const Problem& problem, const MachineModel& machine) {
  const Sizes s = sizes_of(problem);
  const OperandMeta& b = problem.inputs[1];
  // A single constant is packed before; else turning columns takes about as long again as copying rows.
  const double passes = b.is_constant && s.batches == 1 ? 1 : b.stride(-1) == 1 ? 3 : 4;
  return machine.start_s + transfer_s(s.bytes_of_a(), machine) +
         std::max(s.flops() / (share_of_peak(s.m, 0.85) * machine.flops_per_s), passes * transfer_s(s.bytes_of_b(), machine));
}

constexpr int64_t kFewRows = 4;    // computed in one pass over the right side
constexpr int64_t kMostRows = 64;  // beyond, packing has always paid

double few_rows_cost_s(const Problem& problem, const MachineModel& machine, double most_of_peak) {
  const Sizes s = sizes_of(problem);
  const double passes = std::ceil(static_cast<double>(s.m) / kFewRows);
  const double computing_s = s.flops() / (share_of_peak(std::min(s.m, kFewRows), most_of_peak) * machine.flops_per_s);
  return machine.start_s + std::max(computing_s, passes * transfer_s(s.bytes_of_b(), machine));
}

std::optional<std::string> too_many_rows(const Problem& problem) {
  const int64_t m = sizes_of(problem).m;
  if (m > kMostRows) return fmt::format("it is for at most {} rows, these are {}", kMostRows, m);
  return std::nullopt;
}

const Implementation kImplementations[] = {
    {.name = "packed",
     .description = "blocks of both sides copied into the order in which the inner loop reads them",
     .gate = [](const Problem&) -> std::optional<std::string> { return std::nullopt; },
     .cost_s = packed_cost_s,
     .run = [](const KernelCall& call, ChoiceParameters) { run_matmul_f32(call, ProductForm::Packed); }},
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
};

}  // namespace

KernelFamily matmul_family() {
  return {"matmul.f32", malformed, [](const Problem& problem) { return problem.inputs[0].size(-1); }, kImplementations,
          [](const Problem& problem) { return problem.outputs[0].size(-1); }};
}

}  // namespace toroid
