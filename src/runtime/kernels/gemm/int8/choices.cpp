// Matrix products with a right side of int8 or int4.
#include <cmath>

#include "base/format.h"
#include "runtime/kernels/gemm/half/microkernel_bf16.h"
#include "runtime/kernels/gemm/int4/gemm.h"
#include "runtime/kernels/gemm/int8/gemm.h"
#include "runtime/kernels/gemm/int8/microkernel.h"
#include "runtime/kernels/isa/amx.h"
#include "runtime/kernels/isa/vector_sets.h"
#include "runtime/kernels/linked/linked_kernels.h"
#include "runtime/kernels/registry/families.h"

namespace toroid {
namespace {

using Gate = std::optional<std::string>;

int64_t depth(const Problem& problem) { return problem.inputs[0].size(-1); }
int64_t columns(const Problem& problem) { return problem.outputs[0].size(-1); }
int64_t rows(const Problem& problem) { return problem.outputs[0].elements() / std::max<int64_t>(columns(problem), 1); }

// Of products at so many times the speed of float32's, and the right side's bytes, read once.
double cost_s(const Problem& problem, const MachineModel& machine, double ratio_to_f32, double bytes_of_b, double hidden = kHidden) {
  const double m = static_cast<double>(rows(problem));
  const double flops = 2 * m * static_cast<double>(depth(problem)) * static_cast<double>(columns(problem));
  constexpr double kShareOfPeak = 0.6;
  return machine.start_s + overlapped_s(flops / (kShareOfPeak * ratio_to_f32 * machine.flops_per_s),
                                        operand_transfer_s(bytes_of_b, problem.inputs[1].is_constant, machine), hidden);
}
constexpr double kFloatBytes = sizeof(float);
double elements_of_b(const Problem& problem) { return static_cast<double>(depth(problem)) * static_cast<double>(columns(problem)); }

// ---- int8

std::optional<std::string> malformed_factors(const Problem& problem) {
  if (problem.inputs.size() != 2 || problem.outputs.size() != 1) {
    return formatted("{} inputs and {} outputs, not 2 and 1", problem.inputs.size(), problem.outputs.size());
  }
  const OperandMeta &a = problem.inputs[0], &b = problem.inputs[1], &c = problem.outputs[0];
  if (b.dtype != DType::I8) return "the right side is not i8";
  if (!c.is_contiguous()) return "the output is not contiguous";
  if (a.sizes.size() < 2 || a.sizes.size() != b.sizes.size()) return "they are no matrices of one rank";
  std::vector<int64_t> product = a.sizes;
  product.back() = b.sizes.back();
  const bool same_batches = std::equal(a.sizes.begin(), a.sizes.end() - 2, b.sizes.begin());
  if (!same_batches || a.size(-1) != b.size(-2) || c.sizes != product) return "they are no matrices of one batch whose sizes meet";
  return std::nullopt;
}
bool is_float(DType dtype) { return dtype == DType::F32 || is_reduced_float(dtype); }
std::optional<std::string> malformed_int8(const Problem& problem) {
  if (auto fault = malformed_factors(problem)) return fault;
  if (!is_float(problem.inputs[0].dtype) || !is_float(problem.outputs[0].dtype))
    return "the left side and the output are not f32, bf16 or f16";
  return std::nullopt;
}
std::optional<std::string> malformed_bytes(const Problem& problem) {
  if (auto fault = malformed_factors(problem)) return fault;
  const DType left = problem.inputs[0].dtype;
  if ((left != DType::I8 && left != DType::U8) || problem.outputs[0].dtype != DType::I32) return "they are not i8 or u8 by i8 to i32";
  return std::nullopt;
}

Gate always(const Problem&) { return std::nullopt; }
Gate with_tiles(const Problem&) { return has_amx() ? Gate() : kNoTiles; }
// `ratio`: of the speed of products of float32, in vectors, to which that of three products of parts is related.
template <int kRatio, int kThird>
double int8_cost_s(const Problem& problem, const MachineModel& machine, double share = 1) {
  const bool in_parts = is_float(problem.inputs[0].dtype) && problem.inputs[0].dtype != DType::BF16;
  return cost_s(problem, machine, (in_parts ? kThird : kRatio) * share, elements_of_b(problem));
}
// In AMX tiles: few rows leave most of a tile empty.
template <int kRatio, int kThird>
double tiles_cost_s(const Problem& problem, const MachineModel& machine) {
  return int8_cost_s<kRatio, kThird>(problem, machine, share_of_tile_rows(rows(problem)));
}
// The whole right side is widened at each call.
double widened_bytes_cost_s(const Problem& problem, const MachineModel& machine) {
  constexpr double kFlopsToWiden = 400;
  return int8_cost_s<1, 1>(problem, machine) + elements_of_b(problem) * kFlopsToWiden / machine.flops_per_s;
}
// Bytes become floats, each in the time of so many operations.
double widening_s(const Problem& problem, const MachineModel& machine, double flops) {
  return elements_of_b(problem) * flops / machine.flops_per_s;
}

constexpr Implementation kOfFloats[] = {
    {/*name=*/"widened",
     /*description=*/"panels of int8 widened to float32, once for a block of rows",
     /*version=*/3,
     /*gate=*/always,
     /*cost_s=*/
     [](const Problem& problem, const MachineModel& machine) {
       constexpr double kSpeed = 1.5, kToWidenAndKeep = 14;
       return cost_s(problem, machine, kSpeed, elements_of_b(problem)) + widening_s(problem, machine, kToWidenAndKeep);
     },
     /*plan=*/plan_int8_widened},
    {/*name=*/"kept",
     /*description=*/"panels of float32, made once, which take four times the memory of the bytes", /*version=*/1,
     /*gate=*/
     [](const Problem& problem) -> Gate {
       if (has_amx()) return "tiles are quicker than float32 in vectors";
       if (problem.inputs[0].dtype != DType::F32) return "the rows are not of float32";
       if (!problem.inputs[1].is_constant) return "the right side is no constant";
       if (rows(problem) <= kMostRowsInRegisters) return formatted("it is for more than {} rows", kMostRowsInRegisters);
       // Few rows wait for floats from memory, unless the last-level cache may have them.
       constexpr double kMostInCache = 6 << 20;
       const double bytes = kFloatBytes * elements_of_b(problem);
       if (rows(problem) >= kRowsThatHideReading || bytes <= kMostInCache) return std::nullopt;
       return formatted("reading {} bytes of float32 takes longer than widening", static_cast<int64_t>(bytes));
     },
     /*cost_s=*/
     [](const Problem& problem, const MachineModel& machine) {
       constexpr double kSpeed = 1.5;  // as of widened panels
       return cost_s(problem, machine, kSpeed, kFloatBytes * elements_of_b(problem), hidden_in_vectors(machine));
     },
     /*plan=*/plan_int8_kept},
    {/*name=*/"in-registers",
     /*description=*/"bytes that become float32 as they are multiplied, for each strip of rows", /*version=*/1,
     /*gate=*/
     [](const Problem& problem) -> Gate {
       if (rows(problem) <= kMostRowsInRegisters) return std::nullopt;
       return formatted("it is for at most {} rows, these are {}", kMostRowsInRegisters, rows(problem));
     },
     /*cost_s=*/
     [](const Problem& problem, const MachineModel& machine) {
       constexpr double kStripRows = 8, kToWiden = 4;  // for each strip; the first loads no vectors besides
       const double strips = std::ceil(static_cast<double>(rows(problem)) / kStripRows);
       return int8_cost_s<1, 1>(problem, machine) + widening_s(problem, machine, kToWiden * (strips - 1));
     },
     /*plan=*/plan_int8_in_registers},
    {/*name=*/"pairs",
     /*description=*/"panels of int8 widened to pairs of bfloat16 (AVX512_BF16)", /*version=*/1,
     /*gate=*/
     [](const Problem& problem) -> Gate {
       if (problem.inputs[0].dtype != DType::BF16) return "the rows are not of bfloat16";
       return bf16_dot_microkernels() != nullptr ? Gate() : "the machine has no AVX512_BF16";
     },
     /*cost_s=*/
     [](const Problem& problem, const MachineModel& machine) {
       constexpr double kToWiden = 1.5;
       return cost_s(problem, machine, machine.pairs, elements_of_b(problem)) + widening_s(problem, machine, kToWiden);
     },
     /*plan=*/plan_int8_pairs},
    {/*name=*/"tiles",
     /*description=*/"tiles of int8 widened to bfloat16, with rows of bfloat16 or in three parts (AMX)", /*version=*/1,
     /*gate=*/with_tiles,
     /*cost_s=*/
     [](const Problem& problem, const MachineModel& machine) {
       constexpr double kToWiden = 10;
       return tiles_cost_s<10, 4>(problem, machine) + widening_s(problem, machine, kToWiden);
     },
     /*plan=*/plan_int8_tiles},
};
constexpr Implementation kOfBytes[] = {
    {/*name=*/"widened",
     /*description=*/"both sides as float32, 512 elements of the depth at a time", /*version=*/1,
     /*gate=*/always,
     /*cost_s=*/widened_bytes_cost_s,
     /*plan=*/plan_bytes_widened},
    {/*name=*/"pairs",
     /*description=*/"two products of 16 bits at a time (AVX2)", /*version=*/1,
     /*gate=*/[](const Problem&) { return byte_pair_kernels() != nullptr ? Gate() : "the machine has no AVX2"; },
     /*cost_s=*/[](const Problem& problem, const MachineModel& machine) { return int8_cost_s<1, 1>(problem, machine); },
     /*plan=*/plan_bytes_pairs},
    {/*name=*/"fours",
     /*description=*/"four products of bytes at a time (AVX512_VNNI)", /*version=*/1,
     /*gate=*/[](const Problem&) { return vnni_kernels() != nullptr ? Gate() : kNoVnni; },
     /*cost_s=*/[](const Problem& problem, const MachineModel& machine) { return int8_cost_s<3, 3>(problem, machine); },
     /*plan=*/plan_bytes_fours},
    {/*name=*/"tiles",
     /*description=*/"tiles of 16 rows and columns (AMX)", /*version=*/1,
     /*gate=*/with_tiles,
     /*cost_s=*/tiles_cost_s<16, 16>,
     /*plan=*/plan_bytes_tiles},
};

// ---- int4

Int4Sizes sizes_of(const Problem& problem) {
  const int64_t n = columns(problem);
  return {problem.outputs[0].elements() / std::max<int64_t>(n, 1), n, depth(problem), problem.inputs[2].sizes[0], problem.inputs[0].dtype};
}

std::optional<std::string> malformed_int4(const Problem& problem) {
  if (problem.inputs.size() != 4 || problem.outputs.size() != 1) {
    return formatted("{} inputs and {} outputs, not 4 and 1", problem.inputs.size(), problem.outputs.size());
  }
  const OperandMeta &a = problem.inputs[0], &numbers = problem.inputs[1], &scales = problem.inputs[2], &zeros = problem.inputs[3],
                    &c = problem.outputs[0];
  if (!is_float(a.dtype) || c.dtype != a.dtype) return "rows and output are not both f32, bf16 or f16";
  if (!c.is_contiguous() || (a.sizes.size() > 2 && !a.is_contiguous())) return "the output or a batch of rows is not contiguous";
  const std::vector<int64_t> packed = {c.size(-1), a.size(-1) / 2};
  std::vector<int64_t> product = a.sizes;
  if (!product.empty()) product.back() = c.size(-1);
  if (a.sizes.size() < 2 || a.size(-1) % 2 != 0 || numbers.dtype != DType::U8 || numbers.sizes != packed || c.sizes != product) {
    return "they are not rows [.., K], numbers u8 [N, K / 2] and an output [.., N]";
  }
  const bool are_alike = scales.dtype == DType::F32 && zeros.dtype == DType::F32 && scales.sizes == zeros.sizes && scales.sizes.size() == 2;
  if (!are_alike || scales.sizes[1] != c.size(-1) || scales.sizes[0] < 1) return "scales and zero points are not f32 [groups, N]";
  const int64_t groups = scales.sizes[0];
  if (a.size(-1) % groups != 0 || (groups > 1 && a.size(-1) / groups % 8 != 0)) return "a group is not a multiple of 8";
  return std::nullopt;
}

// `ratio`: as above; what is widened for all rows pays for few.
double int4_cost_s(const Problem& problem, const MachineModel& machine, double ratio, double flops_to_widen) {
  const double widening = elements_of_b(problem) * flops_to_widen / machine.flops_per_s;
  return cost_s(problem, machine, ratio, elements_of_b(problem) / 2) + widening;
}

// AVX2 unpacks numbers of four bits at more than half the speed of AVX-512, and widened panels are multiplied at its full one.
bool has_half_vectors() { return vector_set() == VectorSet::Avx2; }

constexpr Implementation kOfInt4[] = {
    {/*name=*/"panels",
     /*description=*/"panels widened to float32", /*version=*/1,
     /*gate=*/always,
     /*cost_s=*/
     [](const Problem& problem, const MachineModel& machine) {
       return has_half_vectors() ? int4_cost_s(problem, machine, 1.7, 13) : int4_cost_s(problem, machine, 1.1, 28);
     },
     /*plan=*/plan_int4_panels},
    {/*name=*/"few-rows",
     /*description=*/"numbers multiplied as they are read, sums of groups with their scales",
     /*version=*/2,
     /*gate=*/
     [](const Problem& problem) -> Gate {
       constexpr int64_t kMostFewRows = 16;
       if (sizes_of(problem).m <= kMostFewRows) return std::nullopt;
       return formatted("there are {} rows", sizes_of(problem).m);
     },
     /*cost_s=*/
     [](const Problem& problem, const MachineModel& machine) {
       const double ratio = 0.3 + 0.1 * static_cast<double>(std::min<int64_t>(sizes_of(problem).m, 4));
       return int4_cost_s(problem, machine, has_half_vectors() ? 1.2 * ratio : ratio, 0);
     },
     /*plan=*/plan_int4_few_rows},
    {/*name=*/"groups",
     /*description=*/"tiles of the numbers, sums of groups with their scales (AMX)",
     /*version=*/3,
     /*gate=*/
     [](const Problem& problem) -> Gate {
       const Int4Sizes sizes = sizes_of(problem);
       if (!has_amx()) return kNoTiles;
       if (sizes.groups == 1 || sizes.k / sizes.groups % kStepElements == 0) return std::nullopt;
       return "a group is not a multiple of 32";
     },
     /*cost_s=*/
     [](const Problem& problem, const MachineModel& machine) {
       // Groups are summed apart, rows of float32 in three parts.
       const Int4Sizes sizes = sizes_of(problem);
       const double group = static_cast<double>(sizes.k) / static_cast<double>(sizes.groups);
       return int4_cost_s(problem, machine, 10 / ((sizes.rows == DType::BF16 ? 1 : 3) + 100 / group), 16);
     },
     /*plan=*/plan_int4_groups},
    {/*name=*/"tiles",
     /*description=*/"tiles of weights rounded to bfloat16 (AMX)", /*version=*/1,
     /*gate=*/
     [](const Problem& problem) -> Gate {
       if (problem.inputs[0].dtype != DType::BF16) return "the rows are not of bfloat16";
       return with_tiles(problem);
     },
     /*cost_s=*/[](const Problem& problem, const MachineModel& machine) { return int4_cost_s(problem, machine, 8, 34); },
     /*plan=*/plan_int4_tiles},
};

constexpr KernelFamily kInt8 = {"matmul.int8", malformed_int8, depth, kOfFloats, -1};
constexpr KernelFamily kBytes = {"matmul.i32", malformed_bytes, depth, kOfBytes, -1};
constexpr KernelFamily kInt4 = {"matmul.int4", malformed_int4, depth, kOfInt4, -1};

}  // namespace

TOROID_LINKED_KERNEL(matmul_int8, "matmul.int8", &kInt8, plan_int8_widened);
TOROID_LINKED_KERNEL(matmul_bytes, "matmul.bytes", &kBytes, plan_bytes_widened);
TOROID_LINKED_KERNEL(matmul_int4, "matmul.int4", &kInt4, plan_int4_panels);

}  // namespace toroid
