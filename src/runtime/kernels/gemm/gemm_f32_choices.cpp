// Matrix products in float32: an algorithm is a row, for calls of "matmul" and for products inside other kernels.
//
// Constants of estimates are nanoseconds of one thread, or shares of the machine's peak, measured on an EPYC (Zen 4, AVX-512), and for
// tiles and AVX2 on a Xeon (Sapphire Rapids), and rounded.
#include <cmath>

#include "base/format.h"
#include "runtime/kernels/gemm/bf16x3/gemm.h"
#include "runtime/kernels/gemm/bf16x3/gemm_dynamic_b.h"
#include "runtime/kernels/gemm/gemm_f32.h"
#include "runtime/kernels/gemm/gemm_small_m.h"
#include "runtime/kernels/gemm/packed_plan.h"
#include "runtime/kernels/linked/linked_kernels.h"
#include "runtime/kernels/onednn/onednn.h"
#include "runtime/kernels/registry/families.h"

namespace toroid {
namespace {

constexpr double kNanosecond = 1e-9;
constexpr int64_t kRowsOfAPass = 4;  // that few rows read the right side for
constexpr int64_t kMostSmallM = 64;  // rows that few-rows-… are taken for: with more, packing has always paid

struct GemmAlgorithm {
  std::string_view name, description;
  // Why it cannot compute it, or never should.
  std::optional<std::string> (*gate)(const GemmProblem& gemm);
  // On machine.threads threads, but for reading the left side and starting.
  double (*cost_s)(const GemmProblem& gemm, const MachineModel& machine);
  // Of matrices as they come; none of m, n and k is 0.
  Gemm (*plan)(const GemmProblem& gemm, int threads);
  // Of one product by a constant, which is packed; null: it is read where it lies.
  std::unique_ptr<const KernelPlan> (*plan_constant)(const KernelCall& call, const ProductSizes& sizes) = nullptr;
};

double as_double(int64_t number) { return static_cast<double>(number); }

double flops(const GemmProblem& g) { return 2 * as_double(g.batches) * as_double(g.m) * as_double(g.n) * as_double(g.k); }
double bytes_of_a(const GemmProblem& g) { return 4 * as_double(g.batches) * as_double(g.m) * as_double(g.k); }
double bytes_of_b(const GemmProblem& g) { return 4 * as_double(g.batches) * as_double(g.n) * as_double(g.k); }
bool is_packed(const GemmProblem& g) { return g.b_is_packed && g.batches == 1; }

// Rows of a tile share what is loaded of the right side: few of them leave the multipliers idle.
double share_of_peak(int64_t rows) { return 0.85 * std::min(1.0, (2.0 + as_double(rows)) / 9); }

// A right side that is a constant comes from memory, or from a far cache; another one was just written. `hidden`: of a constant.
double multiplying_and_reading_s(const GemmProblem& g, double computing_s, double passes, const MachineModel& machine, double hidden) {
  return overlapped_s(computing_s, passes * operand_transfer_s(bytes_of_b(g), is_packed(g), machine), is_packed(g) ? hidden : 1);
}

// The first strip of rows waits for a panel; the others find it in the cache, and multiply while the next one is fetched.
double hidden_by_strips(const GemmProblem& g, const MachineModel& machine) {
  constexpr double kWaiting = 8, kHiding = 45, kMost = 0.2;  // rows that hide nothing, that would hide all, and the share that is hidden
  return std::max(machine.hidden, std::clamp((as_double(g.m) - kWaiting) / kHiding, 0.0, kMost));
}

// What is no constant is packed in between, in the cache.
double packed_s(const GemmProblem& g, const MachineModel& machine, double hidden) {
  constexpr double kPackRows = 0.12 * kNanosecond, kPackColumns = 0.14 * kNanosecond;  // an element
  const double pack = is_packed(g) ? 0 : g.b_column == 1 ? kPackRows : kPackColumns;
  const double elements = as_double(g.batches) * as_double(g.n) * as_double(g.k);
  // Panels for AVX2 are half as wide, so fewer loads are under way.
  const double reading = vector_set() == VectorSet::Avx2 && machine.hidden == 1 ? 1.35 : 1;
  return multiplying_and_reading_s(g, flops(g) / (share_of_peak(g.m) * machine.flops_per_s), reading, machine, hidden) +
         pack * elements / machine.threads;
}

// Each group of four columns, which meets all rows, ends with sums across lanes for each of them.
double by_columns_s(const GemmProblem& g, const MachineModel& machine) {
  constexpr double kColumns = 4, kNear = 32768;
  const bool has_half_vectors = vector_set() == VectorSet::Avx2;
  const double sums_across = (has_half_vectors ? 5 : 7) * kNanosecond, share_of_peak = has_half_vectors ? 0.65 : 0.75;
  const double reading = bytes_of_b(g) <= kNear ? 1 : 1.3;  // of the time that it takes in the order of panels
  const double groups = as_double(g.batches) * std::ceil(as_double(g.n) / kColumns) * as_double(g.m);
  return multiplying_and_reading_s(g, groups * sums_across / machine.threads + flops(g) / (share_of_peak * machine.flops_per_s), reading,
                                   machine, machine.hidden);
}

// A pass adds up rows of the right side; what of it the cache keeps is read sooner in the next one.
double by_rows_s(const GemmProblem& g, const MachineModel& machine) {
  constexpr double kRow = 3 * kNanosecond, kAgainNear = 0.7;
  const double share_of_peak = vector_set() == VectorSet::Avx2 ? 0.68 : 0.8;
  const double reading = machine.threads == 1 ? 1.1 : 1.2;  // threads wait for each other
  const double passes = std::ceil(as_double(g.m) / as_double(kRowsOfAPass));
  const double bytes_of_thread = bytes_of_b(g) / as_double(g.batches * machine.threads);
  const double again = bytes_of_thread < as_double(l2_cache_bytes()) ? kAgainNear
                       : bytes_of_b(g) < machine.cache_bytes         ? machine.reread
                                                                     : 1;
  return multiplying_and_reading_s(
      g, as_double(g.batches) * passes * as_double(g.k) * kRow / machine.threads + flops(g) / (share_of_peak * machine.flops_per_s),
      (1 + again * (passes - 1)) * reading, machine, machine.hidden);
}

std::optional<std::string> too_many_rows(const GemmProblem& g) {
  if (g.m > kMostSmallM) return formatted("it is for at most {} rows, these are {}", kMostSmallM, g.m);
  return std::nullopt;
}

using Multiply = void (*)(RuntimePool& pool, int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b, const ProductOutput& out);
// What needs no more than the sizes.
template <Multiply kMultiply>
Gemm plan_multiplying(const GemmProblem& gemm, int) {
  return [m = gemm.m, n = gemm.n, k = gemm.k](RuntimePool& pool, const Matrix& a, const Matrix& b, const ProductOutput& out) {
    kMultiply(pool, m, n, k, a, b, out);
  };
}
Gemm plan_packed(const GemmProblem& gemm, int threads) { return PackedGemm<float>(threads, gemm.m, gemm.n, gemm.k); }

std::unique_ptr<const KernelPlan> plan_packed_constant(const KernelCall& call, const ProductSizes& sizes) {
  return std::make_unique<const PackedPlan<PackedB>>(call, sizes, packed_panels<float, float>(call, sizes));
}
std::unique_ptr<const KernelPlan> plan_bf16x3_constant(const KernelCall& call, const ProductSizes& sizes) {
  const Matrix b = matrix_of_batch<float>(call.inputs[1], 0);
  const float* const packed =
      call.prepared->get(b.data, PackedLayout<PackedBf16x3>{sizes.k, sizes.n, b.row, b.column}, PackedBf16x3::size(sizes.k, sizes.n),
                         [&](float* to) { pack_bf16x3(call.pool, b, sizes.k, sizes.n, 0, PackedBf16x3::panels(sizes.n), to); });
  return std::make_unique<const PackedPlan<PackedBf16x3>>(call, sizes, packed);
}

constexpr GemmAlgorithm kPacked = {
    /*name=*/"packed",
    /*description=*/"blocks of both sides copied into the order in which the inner loop reads them",
    /*gate=*/[](const GemmProblem&) -> std::optional<std::string> { return std::nullopt; },
    /*cost_s=*/[](const GemmProblem& g, const MachineModel& machine) { return packed_s(g, machine, hidden_by_strips(g, machine)); },
    /*plan=*/plan_packed,
    /*plan_constant=*/plan_packed_constant};
constexpr GemmAlgorithm kBf16x3 = {
    /*name=*/"parts",
    /*description=*/"numbers split into three of bfloat16, multiplied in tiles as exactly as in float32",
    /*gate=*/
    [](const GemmProblem&) -> std::optional<std::string> {
      if (!has_amx_bf16x3()) return kNoTiles;
      return std::nullopt;
    },
    /*cost_s=*/
    [](const GemmProblem& g, const MachineModel& machine) {
      constexpr double kFirstTiles = 500 * kNanosecond;  // their configuration, and their first stores
      return kFirstTiles + packed_s(g, machine, machine.hidden) * time_as_bf16x3({g.m, g.n, g.k, is_packed(g), machine.threads});
    },
    /*plan=*/plan_multiplying<multiply_as_bf16x3>,
    /*plan_constant=*/plan_bf16x3_constant};
constexpr GemmAlgorithm kByRows = {/*name=*/"few-rows-by-rows",
                                   /*description=*/"rows of the right side added up where they lie, for every four rows of the left",
                                   /*gate=*/
                                   [](const GemmProblem& g) -> std::optional<std::string> {
                                     if (g.b_column != 1) return "the right side's rows are not contiguous";
                                     return too_many_rows(g);
                                   },
                                   /*cost_s=*/by_rows_s,
                                   /*plan=*/plan_multiplying<multiply_small_m_by_rows>};
constexpr GemmAlgorithm kByColumns = {/*name=*/"few-rows-by-columns",
                                      /*description=*/"rows of the left side times columns of the right, for every four rows of the left",
                                      /*gate=*/
                                      [](const GemmProblem& g) -> std::optional<std::string> {
                                        if (g.b_row != 1) return "the right side's columns are not contiguous";
                                        if (g.a_column != 1) return "the left side's rows are not contiguous";
                                        return too_many_rows(g);
                                      },
                                      /*cost_s=*/by_columns_s,
                                      /*plan=*/plan_multiplying<multiply_small_m_by_columns>};

double estimate_s(const GemmAlgorithm& algorithm, const GemmProblem& gemm, const MachineModel& machine) {
  return machine.start_s + transfer_s(bytes_of_a(gemm), machine) + algorithm.cost_s(gemm, machine);
}

const GemmAlgorithm& cheapest_algorithm(const GemmProblem& gemm, const MachineModel& machine) {
  const GemmAlgorithm* best = &kPacked;
  double least = estimate_s(kPacked, gemm, machine);
  for (const GemmAlgorithm* other : {&kBf16x3, &kByRows, &kByColumns}) {
    if (other->gate(gemm)) continue;
    const double time = estimate_s(*other, gemm, machine);
    if (time >= least) continue;
    least = time;
    best = other;
  }
  return *best;
}

Gemm plan_gemm(const GemmAlgorithm& algorithm, const GemmProblem& gemm, int threads) {
  return gemm.m == 0 || gemm.n == 0 || gemm.k == 0 ? plan_packed(gemm, threads) : algorithm.plan(gemm, threads);
}

// ---- calls

GemmProblem gemm_of(const KernelCall& call, const ProductSizes& s) {
  const Matrix a = matrix_of_batch<float>(call.inputs[0], 0), b = matrix_of_batch<float>(call.inputs[1], 0);
  return {/*batches=*/s.batches,
          /*m=*/s.m,
          /*n=*/s.n,
          /*k=*/s.k,
          /*b_is_packed=*/call.keeps(call.inputs[1]),
          /*a_column=*/a.column,
          /*b_row=*/b.row,
          /*b_column=*/b.column};
}

GemmProblem gemm_of(const Problem& problem) {
  const ProductSizes s = product_sizes_of(problem);
  const OperandMeta &a = problem.inputs[0], &b = problem.inputs[1];
  return {/*batches=*/s.batches,
          /*m=*/s.m,
          /*n=*/s.n,
          /*k=*/s.k,
          /*b_is_packed=*/b.is_constant,
          /*a_column=*/a.stride(-1),
          /*b_row=*/b.stride(-2),
          /*b_column=*/b.stride(-1)};
}

std::unique_ptr<const KernelPlan> plan_call(const GemmAlgorithm& chosen, const KernelCall& call) {
  const ProductSizes sizes = product_sizes(call.inputs[0], call.inputs[1], call.outputs[0]);
  const GemmProblem gemm = gemm_of(call, sizes);
  // What was chosen on another machine, or before the tiles were left alone.
  const GemmAlgorithm& algorithm = chosen.gate(gemm) ? kPacked : chosen;
  const bool is_of_constant = is_packed(gemm) && gemm.m > 0 && gemm.n > 0 && gemm.k > 0;
  if (is_of_constant && algorithm.plan_constant != nullptr) return algorithm.plan_constant(call, sizes);
  return plan_that_runs([sizes, product = plan_gemm(algorithm, gemm, call.pool.threads())](const KernelCall& each) {
    const auto [batches, m, n, k] = sizes;
    const ProductOutput out = {each.epilogue != nullptr ? nullptr : data_of(each.outputs[0]), n, each.epilogue};
    for_each_product(each.pool, batches, m * n * k, [&, m = m](int64_t batch) {
      product(each.pool, matrix_of_batch<float>(each.inputs[0], batch), matrix_of_batch<float>(each.inputs[1], batch),
              out.part(batch * m, 0));
    });
  });
}

template <const GemmAlgorithm& kAlgorithm>
constexpr Implementation kImplementation = {
    /*name=*/kAlgorithm.name,
    /*description=*/kAlgorithm.description,
    /*version=*/1,
    /*gate=*/[](const Problem& problem) { return kAlgorithm.gate(gemm_of(problem)); },
    /*cost_s=*/[](const Problem& problem, const MachineModel& machine) { return estimate_s(kAlgorithm, gemm_of(problem), machine); },
    /*plan=*/[](const KernelCall& call) { return plan_call(kAlgorithm, call); }};

constexpr Implementation kImplementations[] = {
    kImplementation<kPacked>,
    kImplementation<kBf16x3>,
    kImplementation<kByRows>,
    kImplementation<kByColumns>,
    {/*name=*/"onednn",
     /*description=*/"oneDNN's matrix product", /*version=*/1,
     /*gate=*/onednn_refuses_matmul,
     /*cost_s=*/
     [](const Problem& problem, const MachineModel& machine) { return kOneDnnCost * estimate_s(kPacked, gemm_of(problem), machine); },
     /*plan=*/plan_matmul_onednn,
     /*needs_measuring=*/true},
};

}  // namespace

double estimate_gemm_f32_s(const GemmProblem& gemm, const MachineModel& machine) {
  return estimate_s(cheapest_algorithm(gemm, machine), gemm, machine);
}

Gemm plan_gemm_f32(const GemmProblem& gemm, int threads) {
  return plan_gemm(cheapest_algorithm(gemm, model_of_this_machine(threads)), gemm, threads);
}

std::unique_ptr<const KernelPlan> plan_matmul_f32(const KernelCall& call) {
  const ProductSizes sizes = product_sizes(call.inputs[0], call.inputs[1], call.outputs[0]);
  return plan_call(cheapest_algorithm(gemm_of(call, sizes), model_of_this_machine(call.pool.threads())), call);
}

namespace {
constexpr KernelFamily kF32 = {"matmul.f32", [](const Problem& problem) { return malformed_product(DType::F32, problem); },
                               [](const Problem& problem) { return problem.inputs[0].size(-1); }, kImplementations, -1};
}  // namespace
TOROID_LINKED_KERNEL(matmul_f32, "matmul.f32", &kF32, plan_matmul_f32);

}  // namespace toroid
