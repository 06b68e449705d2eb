// Constants are nanoseconds of one thread, or shares of the machine's peak, measured on an EPYC (Zen 4, AVX-512) and rounded.
#include "runtime/kernels/gemm/gemm_cost.h"

#include <algorithm>
#include <cmath>

#include "runtime/kernels/gemm/bf16x3/gemm.h"
#include "runtime/kernels/gemm/bf16x3/split.h"
#include "runtime/kernels/registry/families.h"

namespace toroid {
namespace {

constexpr double kNanosecond = 1e-9;
constexpr int64_t kRowsOfAPass = 4;  // that few rows read the right side for

double as_double(int64_t number) { return static_cast<double>(number); }

double flops(const GemmToEstimate& g) { return 2 * as_double(g.batches) * as_double(g.m) * as_double(g.n) * as_double(g.k); }
double bytes_of_a(const GemmToEstimate& g) { return 4 * as_double(g.batches) * as_double(g.m) * as_double(g.k); }
double bytes_of_b(const GemmToEstimate& g) { return 4 * as_double(g.batches) * as_double(g.n) * as_double(g.k); }
bool is_packed(const GemmToEstimate& g) { return g.b_is_packed && g.batches == 1; }

// Rows of a tile share what is loaded of the right side: few of them leave the multipliers idle.
double share_of_peak(int64_t rows) { return 0.85 * std::min(1.0, (2.0 + as_double(rows)) / 9); }

// To pack means to read and to write; what then reads columns takes about as long again.
double packed_s(const GemmToEstimate& g, const MachineModel& machine) {
  const double passes = is_packed(g) ? 1 : g.b_column == 1 ? 3 : 4;
  return std::max(flops(g) / (share_of_peak(g.m) * machine.flops_per_s), passes * transfer_s(bytes_of_b(g), machine));
}

// Each group of four columns ends with sums across lanes, for each row.
double by_columns_s(const GemmToEstimate& g, const MachineModel& machine) {
  constexpr double kSumsAcross = 38 * kNanosecond, kColumns = 4, kShareOfPeak = 0.6;
  constexpr double kReading = 1.3;  // of the time that it takes in the order of panels
  const double groups = as_double(g.batches) * std::ceil(as_double(g.n) / kColumns) * as_double(g.m);
  const double passes = std::ceil(as_double(g.m) / as_double(kRowsOfAPass));
  return std::max(groups * kSumsAcross / machine.threads + flops(g) / (kShareOfPeak * machine.flops_per_s),
                  passes * kReading * transfer_s(bytes_of_b(g), machine));
}

// A pass adds up rows of the right side; what of it the cache keeps is read sooner in the next one.
double by_rows_s(const GemmToEstimate& g, const MachineModel& machine) {
  constexpr double kRow = 3 * kNanosecond, kShareOfPeak = 0.8, kAgain = 0.45, kReading = 1.1;
  const double passes = std::ceil(as_double(g.m) / as_double(kRowsOfAPass));
  const double again = bytes_of_b(g) < machine.cache_bytes ? kAgain : 1;
  return std::max(as_double(g.batches) * passes * as_double(g.k) * kRow / machine.threads + flops(g) / (kShareOfPeak * machine.flops_per_s),
                  (1 + again * (passes - 1)) * kReading * transfer_s(bytes_of_b(g), machine));
}

}  // namespace

bool takes(GemmAlgorithm algorithm, const GemmToEstimate& g) {
  switch (algorithm) {
    case GemmAlgorithm::Packed: return true;
    case GemmAlgorithm::Parts: return has_amx_bf16x3();
    case GemmAlgorithm::SmallMByRows: return g.m <= kMostSmallM && g.b_column == 1;
    case GemmAlgorithm::SmallMByColumns: return g.m <= kMostSmallM && g.a_column == 1 && g.b_row == 1;
  }
  return false;
}

double estimate_s(GemmAlgorithm algorithm, const GemmToEstimate& g, const MachineModel& machine) {
  const double fixed = machine.start_s + transfer_s(bytes_of_a(g), machine);
  switch (algorithm) {
    case GemmAlgorithm::Packed: return fixed + packed_s(g, machine);
    case GemmAlgorithm::Parts: return fixed + packed_s(g, machine) * time_as_bf16x3({g.m, g.n, g.k, is_packed(g)});
    case GemmAlgorithm::SmallMByRows: return fixed + by_rows_s(g, machine);
    case GemmAlgorithm::SmallMByColumns: return fixed + by_columns_s(g, machine);
  }
  return fixed;
}

GemmAlgorithm cheapest_algorithm(const GemmToEstimate& g, int threads) {
  const MachineModel machine = model_of_this_machine(threads);
  GemmAlgorithm best = GemmAlgorithm::Packed;
  double least = estimate_s(best, g, machine);
  for (const GemmAlgorithm other : {GemmAlgorithm::Parts, GemmAlgorithm::SmallMByRows, GemmAlgorithm::SmallMByColumns}) {
    if (!takes(other, g)) continue;
    const double time = estimate_s(other, g, machine);
    if (time >= least) continue;
    least = time;
    best = other;
  }
  return best;
}

}  // namespace toroid
