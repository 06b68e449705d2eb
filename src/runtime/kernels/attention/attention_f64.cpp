// Attention in float64: the scores of some queries with all keys, their softmax, and its product with the values.
#include "runtime/kernels/attention/attention_f64.h"

#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>

#include "base/span.h"
#include "runtime/kernels/attention/call.h"
#include "runtime/kernels/gemm/packed_plan.h"
#include "runtime/kernels/isa/vector_sets.h"
#include "runtime/kernels/linked/linked_kernels.h"
#include "runtime/memory/scratch.h"

namespace toroid {
namespace {

constexpr int64_t kQueries = 48;  // at a time
constexpr double kForbidden = -std::numeric_limits<double>::infinity();

Scratch scratch_for_scores;

// x = exp(x) for x <= 0: x = n ln 2 + r, exp(r) by its Taylor series for |r| <= ln 2 / 2, whose rest is below 2^-57, 2^n by adding to the
// exponent.
template <class Vector, class Integers>
TOROID_INLINE void exp_of_negative(Vector& x) {
  constexpr double kLeast = -708;  // exp of less is not normal, and taken for 0
  constexpr double kLog2E = 1.4426950408889634, kLn2High = 0.693145751953125, kLn2Low = 1.4286068203094173e-6;
  constexpr double kRound = 0x1.8p52;  // adding it rounds to a whole number, which the low bits then hold
  constexpr double kFactors[] = {1 / 6227020800.0, 1 / 479001600.0, 1 / 39916800.0, 1 / 3628800.0, 1 / 362880.0, 1 / 40320.0, 1 / 5040.0,
                                 1 / 720.0,        1 / 120.0,       1 / 24.0,       1 / 6.0,       0.5,          1,           1};
  constexpr size_t kTerms = std::size(kFactors);
  const Vector shifted = x * kLog2E + kRound;
  const Vector n = shifted - kRound;
  const Vector r = (x - n * kLn2High) - n * kLn2Low;
  Vector p = Vector{} + kFactors[0];
#pragma GCC unroll 16
  for (size_t i = 1; i < kTerms; ++i) p = p * r + kFactors[i];
  Integers bits, steps;
  std::memcpy(&bits, &p, sizeof bits);
  std::memcpy(&steps, &shifted, sizeof steps);
  bits += steps << 52;
  std::memcpy(&p, &bits, sizeof p);
  const Vector result = x < kLeast ? Vector{} : p;
  x = x == x ? result : x;
}

// exp(row[j] - high) in place, for row[j] <= high; gives their sum.
template <int kBytes>
TOROID_INLINE double exp_below(double high, double* row, int64_t count) {
  using Vector = typename VectorOfBytes<double, kBytes>::Type;
  using Integers = typename VectorOfBytes<uint64_t, kBytes>::Type;
  constexpr int64_t kLanes = kBytes / int64_t{sizeof(double)};
  Vector sums = {};
  for (int64_t j = 0; j < count; j += kLanes) {
    const auto bytes = static_cast<size_t>(std::min(kLanes, count - j)) * sizeof(double);
    Vector x = Vector{} + kForbidden;
    std::memcpy(&x, row + j, bytes);
    x -= high;
    exp_of_negative<Vector, Integers>(x);
    sums += x;
    std::memcpy(row + j, &x, bytes);
  }
  double sum = 0;
  for (int l = 0; l < kLanes; ++l) sum += sums[l];
  return sum;
}
double exp_below_baseline(double high, double* row, int64_t count) { return exp_below<16>(high, row, count); }
#ifdef __x86_64__
TOROID_AVX2 double exp_below_avx2(double high, double* row, int64_t count) { return exp_below<32>(high, row, count); }
TOROID_AVX512 double exp_below_avx512(double high, double* row, int64_t count) { return exp_below<64>(high, row, count); }
#endif

double exp_below(double high, Span<double> row) {
#ifdef __x86_64__
  if (vector_set() == VectorSet::Avx512) return exp_below_avx512(high, row.data(), static_cast<int64_t>(row.size()));
  if (vector_set() == VectorSet::Avx2) return exp_below_avx2(high, row.data(), static_cast<int64_t>(row.size()));
#endif
  return exp_below_baseline(high, row.data(), static_cast<int64_t>(row.size()));
}

class AttentionF64 {
 public:
  explicit AttentionF64(const KernelCall& call) : s_(call), scale_(call.numbers[0]) {}

  void run() const {
    const int64_t blocks = divide_up(s_.queries, kQueries);
    s_.pool.parallel_for(product(s_.q.sizes, s_.dims) * blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t first = task % blocks * kQueries;
        run_some(task / blocks, first, std::min(kQueries, s_.queries - first));
      }
    });
  }

 private:
  // So many queries of a batch; on one thread.
  void run_some(int64_t batch, int64_t first, int64_t count) const {
    const MatrixOf<double> q = matrix_of_batch<double>(s_.q, batch), k = matrix_of_batch<double>(s_.k, batch / s_.group),
                           v = matrix_of_batch<double>(s_.v, batch / s_.group);
    // No query sees a key past the last one's position.
    const int64_t keys = s_.causal ? std::min(s_.keys, first + count) : s_.keys;
    double* scores = scratch_for_scores.get<double>(count * keys);
    const int threads = s_.pool.threads_from_here();
    PackedGemm<double>(threads, count, keys, s_.width)(s_.pool, {q.at(first, 0), q.row, q.column}, {k.data, k.column, k.row},
                                                       {scores, keys, nullptr});
    for (int64_t i = 0; i < count; ++i) {
      const Span<double> row(scores + i * keys, static_cast<size_t>(keys));
      apply_mask(batch, first + i, row);
      softmax(row);
    }
    double* out = static_cast<double*>(s_.out.data) + (batch * s_.queries + first) * s_.out_width;
    PackedGemm<double>(threads, count, s_.out_width, keys)(s_.pool, {scores, keys, 1}, v, {out, s_.out_width, nullptr});
  }

  void apply_mask(int64_t batch, int64_t query, Span<double> row) const {
    for (double& x : row) x *= scale_;
    if (s_.mask != nullptr) {
      const ToroidOperand& mask = *s_.mask;
      const int64_t step = mask.sizes[mask.rank - 1] == 1 ? 0 : mask.strides[mask.rank - 1], at = s_.mask_offset(batch, query);
      for (size_t j = 0; j < row.size(); ++j) {
        const int64_t place = at + static_cast<int64_t>(j) * step;
        if (dtype_of(mask) == DType::Bool) {
          if (static_cast<const uint8_t*>(mask.data)[place] == 0) row[j] = kForbidden;
        } else {
          row[j] += static_cast<const double*>(mask.data)[place];
        }
      }
    }
    const auto seen = static_cast<size_t>(s_.limit(query, 0, static_cast<int64_t>(row.size())));
    std::fill(row.begin() + static_cast<ptrdiff_t>(seen), row.end(), kForbidden);
  }

  // In place; a query that looks nowhere, whose scores are all -infinity, gives 0.
  static void softmax(Span<double> row) {
    double high = kForbidden;
    bool has_nan = false;
    for (double x : row) {
      high = x > high ? x : high;
      has_nan |= std::isnan(x);
    }
    if (has_nan || high == -kForbidden) return std::fill(row.begin(), row.end(), std::numeric_limits<double>::quiet_NaN());
    if (high == kForbidden) return std::fill(row.begin(), row.end(), 0.0);
    const double sum = exp_below(high, row);
    for (double& x : row) x /= sum;
  }

  AttentionCall s_;
  double scale_;
};

}  // namespace

std::unique_ptr<const KernelPlan> plan_attention_f64(const KernelCall&) {
  return plan_that_runs([](const KernelCall& each) { AttentionF64(each).run(); });
}

TOROID_LINKED_KERNEL(attention_f64, "attention.f64", nullptr, plan_attention_f64);

}  // namespace toroid
