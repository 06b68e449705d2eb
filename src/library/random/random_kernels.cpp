#include "library/random/random_kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/numbers.h"
#include "base/philox.h"

namespace toroid::random_kernels {
namespace {

constexpr std::string_view kMessages[] = {
    "bernoulli expects all probabilities to be in [0, 1]",
    "normal expects all elements of std >= 0.0",
    "probability tensor contains either `inf`, `nan` or element < 0",
    "invalid multinomial distribution (sum of probabilities <= 0)",
    "invalid Poisson rate, expected rate to be non-negative",
    "random_ expects 'from' to be less than 'to'",
};

// An endless sequence of numbers for one element.
class Draws {
 public:
  Draws(const int64_t* state, double stream, int64_t element) : key_(element_key(state, stream, element)) {}

  uint64_t bits() {
    if (next_ % 2 == 0) block_ = philox_4x32_10(next_ / 2, 0, key_);
    return next_++ % 2 == 0 ? block_.low() : block_.high();
  }
  // In (0, 1).
  double uniform() { return (static_cast<double>(bits() >> 12) + 0.5) * 0x1p-52; }
  double normal() {
    const double radius = std::sqrt(-2 * std::log(uniform()));
    return radius * std::cos(2 * numbers::kPi * uniform());
  }

 private:
  uint64_t key_;
  uint64_t next_ = 0;
  PhiloxBlock block_{};
};

template <class F>
void for_each_element(const LibraryCall& call, F f) {
  const auto* state = reinterpret_cast<const int64_t*>(call.inputs.back().data);
  auto* out = reinterpret_cast<double*>(call.outputs[0].data);
  int64_t count = 1;
  for (int64_t size : call.outputs[0].sizes) count *= size;
  const auto run = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      Draws draws(state, call.attributes[0], i);
      out[i] = f(i, draws);
    }
  };
  call.in_pieces(count, run);
}

const double* numbers_of(const LibraryInput& input) { return reinterpret_cast<const double*>(input.data); }

// W. Hörmann, "The transformed rejection method for generating Poisson random variables" (1993), algorithm PTRS; below a
// rate of 10 products of uniform numbers (Knuth).
double poisson_of(double rate, Draws& draws) {
  if (rate == 0 || std::isinf(rate)) return rate;
  if (rate < 10) {
    const double limit = std::exp(-rate);
    double product = draws.uniform();
    double k = 0;
    for (; product > limit; ++k) product *= draws.uniform();
    return k;
  }
  const double b = 0.931 + 2.53 * std::sqrt(rate);
  const double a = -0.059 + 0.02483 * b;
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
  const double v_r = 0.9277 - 3.6224 / (b - 2);
  for (;;) {
    const double u = draws.uniform() - 0.5;
    const double v = draws.uniform();
    const double us = 0.5 - std::fabs(u);
    const double k = std::floor((2 * a / us + b) * u + rate + 0.43);
    if (us >= 0.07 && v <= v_r) return k;
    if (k < 0 || (us < 0.013 && v > us)) continue;
    if (std::log(v * inverse_alpha / (a / (us * us) + b)) <= k * std::log(rate) - rate - std::lgamma(k + 1)) return k;
  }
}

// log(k!) - (log(sqrt(2 pi)) + (k + 1/2) log(k + 1) - (k + 1)).
double stirling_tail(double k) {
  const double x = k + 1;
  return std::lgamma(x) - (0.5 * std::log(2 * numbers::kPi) + (k + 0.5) * std::log(x) - x);
}

// W. Hörmann, "The generation of binomial random variates" (1993), algorithm BTRD without its squeeze, for p <= 1/2; below ten
// expected successes the waiting times between successes are added up (Devroye 1986, X.4.3).
double binomial_below_half(double count, double p, Draws& draws) {
  if (count * p < 10) {
    const double log_fail = std::log1p(-p);
    double trials = 0;
    for (double successes = 0;; ++successes) {
      trials += std::ceil(std::log(draws.uniform()) / log_fail);
      if (trials > count) return successes;
    }
  }
  const double deviation = std::sqrt(count * p * (1 - p));
  const double b = 1.15 + 2.53 * deviation;
  const double a = -0.0873 + 0.0248 * b + 0.01 * p;
  const double c = count * p + 0.5;
  const double v_r = 0.92 - 4.2 / b;
  const double odds = p / (1 - p);
  const double alpha = (2.83 + 5.1 / b) * deviation;
  const double mode = std::floor((count + 1) * p);
  for (;;) {
    const double u = draws.uniform() - 0.5;
    double v = draws.uniform();
    const double us = 0.5 - std::fabs(u);
    const double k = std::floor((2 * a / us + b) * u + c);
    if (us >= 0.07 && v <= v_r) return k;
    if (k < 0 || k > count) continue;
    v = std::log(v * alpha / (a / (us * us) + b));
    const double bound = (mode + 0.5) * std::log((mode + 1) / (odds * (count - mode + 1))) +
                         (count + 1) * std::log((count - mode + 1) / (count - k + 1)) +
                         (k + 0.5) * std::log(odds * (count - k + 1) / (k + 1)) + stirling_tail(mode) + stirling_tail(count - mode) -
                         stirling_tail(k) - stirling_tail(count - k);
    if (v <= bound) return k;
  }
}

double binomial_of(double count, double p, Draws& draws) {
  if (std::isnan(count) || std::isnan(p)) return std::numeric_limits<double>::quiet_NaN();
  if (count <= 0 || p <= 0) return 0;
  if (p >= 1 || std::isinf(count)) return count;
  return p <= 0.5 ? binomial_below_half(count, p, draws) : count - binomial_below_half(count, 1 - p, draws);
}

// G. Marsaglia and W. W. Tsang, "A simple method for generating gamma variables" (2000); a shape below 1 is boosted.
double gamma_of(double shape, Draws& draws) {
  constexpr double kLeast = std::numeric_limits<double>::min();
  if (!(shape > 0)) return kLeast;
  if (std::isinf(shape)) return shape;
  double scale = 1;
  if (shape < 1) {
    scale = std::pow(draws.uniform(), 1 / shape);
    shape += 1;
  }
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = draws.normal();
    const double root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    const double u = draws.uniform();
    if (u < 1 - 0.0331 * (x * x) * (x * x)) return std::max(kLeast, scale * d * v);  // spares most logarithms
    if (std::log(u) < 0.5 * x * x + d - d * v + d * std::log(v)) return std::max(kLeast, scale * d * v);
  }
}

}  // namespace

uint64_t element_key(const int64_t* state, double stream, int64_t element) {
  const uint64_t counter = static_cast<uint64_t>(element) + (static_cast<uint64_t>(stream) << 40);
  return philox_4x32_10(counter, static_cast<uint64_t>(state[1]), static_cast<uint64_t>(state[0])).low();
}

void require(const LibraryCall& call) {
  if (call.inputs[0].data[0] == std::byte{0}) {
    throw Error(ErrorKind::InvalidInput, std::string(kMessages[static_cast<size_t>(call.attributes[0])]))
        .help("check the values that the model computes for its random operators");
  }
  *reinterpret_cast<int64_t*>(call.outputs[0].data) = 0;
}

void poisson(const LibraryCall& call) {
  const double* rate = numbers_of(call.inputs[0]);
  for_each_element(call, [&](int64_t i, Draws& draws) { return poisson_of(rate[i], draws); });
}

void binomial(const LibraryCall& call) {
  const double* count = numbers_of(call.inputs[0]);
  const double* p = numbers_of(call.inputs[1]);
  for_each_element(call, [&](int64_t i, Draws& draws) { return binomial_of(count[i], p[i], draws); });
}

void gamma(const LibraryCall& call) {
  const double* shape = numbers_of(call.inputs[0]);
  for_each_element(call, [&](int64_t i, Draws& draws) { return gamma_of(shape[i], draws); });
}

}  // namespace toroid::random_kernels
