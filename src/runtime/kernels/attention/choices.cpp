// Attention in F32, F16 and BF16.
#include "base/format.h"
#include "runtime/kernels/attention/amx.h"
#include "runtime/kernels/attention/attention.h"
#include "runtime/kernels/attention/decode.h"
#include "runtime/kernels/isa/amx.h"
#include "runtime/kernels/linked/linked_kernels.h"
#include "runtime/kernels/registry/families.h"

namespace toroid {
namespace {

int64_t depth(const Problem& problem) { return problem.inputs[0].size(-1) + problem.inputs[1].size(-2); }

std::optional<std::string> malformed(DType dtype, const Problem& problem) {
  if (std::optional<std::string> fault = unlike_dense(dtype, problem, 3, 4, 2)) return fault;
  const OperandMeta& q = problem.inputs[0];
  const OperandMeta& k = problem.inputs[1];
  const OperandMeta& v = problem.inputs[2];
  const OperandMeta& out = problem.outputs[0];
  if (!out.is_contiguous()) return "the output is not contiguous";
  auto same_batches = [&](const OperandMeta& a, const OperandMeta& b, ptrdiff_t without) {
    const auto end = a.sizes.end() - std::min(without, static_cast<int64_t>(a.sizes.size()));
    return a.sizes.size() == b.sizes.size() && std::equal(a.sizes.begin(), end, b.sizes.begin());
  };
  if (!same_batches(q, out, 2) || !same_batches(q, k, 3) || !same_batches(k, v, 2)) return "the batches differ";
  if (q.sizes.size() > 2 && (k.size(-3) == 0 || q.size(-3) % k.size(-3) != 0))
    return "the heads of keys and values do not divide those of queries";
  if (q.size(-1) != k.size(-1) || k.size(-2) != v.size(-2) || out.size(-2) != q.size(-2) || out.size(-1) != v.size(-1)) {
    return "the sizes of queries, keys, values and result do not meet";
  }
  if (problem.inputs.size() == 4) {
    const OperandMeta& mask = problem.inputs[3];
    if (mask.dtype != dtype && mask.dtype != DType::Bool) return formatted("the mask is neither {} nor bool", to_string(dtype));
    if (mask.sizes.empty() || mask.sizes.size() > q.sizes.size()) return "the mask's rank is not from 1 to that of the queries";
    for (int dim = 1; dim <= static_cast<int>(mask.sizes.size()); ++dim) {
      const int64_t full = dim == 1 ? k.size(-2) : q.size(-dim);
      if (mask.size(-dim) != 1 && mask.size(-dim) != full) return "the mask's sizes are neither 1 nor those of the scores";
    }
  }
  if (problem.integers.size() != 1 || problem.numbers.size() != 1) return "one integer and one number are needed";
  return std::nullopt;
}

// What packs keys and values reads them twice and writes them once.
double packing_s(const Problem& problem, const MachineModel& machine) {
  const auto elements = static_cast<double>(problem.inputs[1].elements() + problem.inputs[2].elements());
  return 2 * transfer_s(elements * static_cast<double>(size_bytes(problem.inputs[1].dtype)), machine);
}

double cost_s(const Problem& problem, const MachineModel& machine, double share_of_peak) {
  const double scores = static_cast<double>(problem.outputs[0].elements() / std::max<int64_t>(problem.outputs[0].size(-1), 1)) *
                        static_cast<double>(problem.inputs[1].size(-2));
  const double width = static_cast<double>(problem.inputs[0].size(-1) + problem.outputs[0].size(-1));
  return machine.start_s + 2 * scores * width / (share_of_peak * machine.flops_per_s);
}

constexpr Implementation kQueryBlocks = {
    /*name=*/"query-blocks",
    /*description=*/"blocks of queries whose scores stay in cache, in float32",
    /*version=*/2,
    /*gate=*/[](const Problem&) -> std::optional<std::string> { return std::nullopt; },
    /*cost_s=*/
    [](const Problem& problem, const MachineModel& machine) { return cost_s(problem, machine, 0.5) + packing_s(problem, machine); },
    /*plan=*/plan_running<run_attention_blocks>};

constexpr Implementation kFew = {
    /*name=*/"few-queries",
    /*description=*/"keys and values are read where they lie, and meet a few queries in float32",
    /*version=*/1,
    /*gate=*/
    [](const Problem& problem) -> std::optional<std::string> {
      const OperandMeta &q = problem.inputs[0], &k = problem.inputs[1], &v = problem.inputs[2];
      const int64_t group = q.sizes.size() > 2 ? q.size(-3) / k.size(-3) : 1;
      if (!takes_few_queries(k.dtype, q.size(-2) == 1 ? group : q.size(-2), k.size(-1), v.size(-1))) return "many queries, or short rows";
      if (k.stride(-1) != 1 || v.stride(-1) != 1) return "rows of keys or values are not contiguous";
      return std::nullopt;
    },
    /*cost_s=*/[](const Problem& problem, const MachineModel& machine) { return cost_s(problem, machine, 1.5); },
    /*plan=*/plan_running<run_attention_of_few>};

constexpr Implementation kOfVectors[] = {kQueryBlocks, kFew};
constexpr Implementation kOfBFloat16[] = {
    kQueryBlocks,
    kFew,
    {/*name=*/"tiles",
     /*description=*/"the same with products in tiles of 16 rows and columns (AMX)",
     /*version=*/2,
     /*gate=*/
     [](const Problem&) -> std::optional<std::string> {
       if (!has_amx()) return kNoTiles;
       return std::nullopt;
     },
     /*cost_s=*/
     [](const Problem& problem, const MachineModel& machine) { return cost_s(problem, machine, 1.2) + packing_s(problem, machine); },
     /*plan=*/plan_running<run_attention_tiles>},
};

template <DType kDType>
std::optional<std::string> malformed_of(const Problem& problem) {
  return malformed(kDType, problem);
}
constexpr KernelFamily kF32 = {"attention.f32", malformed_of<DType::F32>, depth, kOfVectors};
constexpr KernelFamily kF16 = {"attention.f16", malformed_of<DType::F16>, depth, kOfVectors};
constexpr KernelFamily kBF16 = {"attention.bf16", malformed_of<DType::BF16>, depth, kOfBFloat16};

}  // namespace

TOROID_LINKED_KERNEL(attention_f32, "attention.f32", &kF32, plan_running<run_attention_blocks>);
TOROID_LINKED_KERNEL(attention_f16, "attention.f16", &kF16, plan_running<run_attention_blocks>);
TOROID_LINKED_KERNEL(attention_bf16, "attention.bf16", &kBF16, plan_running<run_attention_blocks>);

}  // namespace toroid
