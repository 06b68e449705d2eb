#include "runtime/kernels/fourier/mixed_radix_plan.h"

#include <complex>
#include <iterator>
#include <map>
#include <mutex>

#include "library/roots_of_unity.h"

namespace toroid::mixed_radix {
namespace {

template <class T>
void push_root(std::vector<T>& re, std::vector<T>& im, int64_t k, int64_t n) {
  const std::complex<double> w = root_of_unity(k, n);
  re.push_back(static_cast<T>(w.real()));
  im.push_back(static_cast<T>(w.imag()));
}

}  // namespace

std::vector<int64_t> radices_of(int64_t n) {
  std::vector<int64_t> radices;
  for (; n % 4 == 0; n /= 4) radices.push_back(4);
  for (int64_t factor = 2; factor * factor <= n; ++factor) {
    for (; n % factor == 0; n /= factor) radices.push_back(factor);
  }
  if (n > 1) radices.push_back(n);
  return radices;
}

template <class T>
Plan<T>::Plan(int64_t length) : n(length), radices(radices_of(length)) {
  for (int64_t k = 0; k < n; ++k) push_root(roots_re, roots_im, k, n);
  for (int64_t k = 0; k <= n; ++k) push_root(half_re, half_im, k, 2 * n);
}

template <class T>
std::shared_ptr<const Plan<T>> plan_of(int64_t n) {
  constexpr size_t kMost = 32;
  constexpr int64_t kLongest = 1 << 16;
  if (n > kLongest) return std::make_shared<const Plan<T>>(n);
  static std::mutex mutex;
  static std::map<int64_t, std::shared_ptr<const Plan<T>>> plans;
  const std::lock_guard lock(mutex);
  std::shared_ptr<const Plan<T>>& plan = plans[n];
  if (plan == nullptr) {
    try {
      plan = std::make_shared<const Plan<T>>(n);
    } catch (...) {
      plans.erase(n);
      throw;
    }
  }
  const std::shared_ptr<const Plan<T>> result = plan;
  if (plans.size() > kMost) plans.erase(plans.begin()->first == n ? std::next(plans.begin()) : plans.begin());
  return result;
}

template struct Plan<float>;
template struct Plan<double>;
template std::shared_ptr<const Plan<float>> plan_of<float>(int64_t n);
template std::shared_ptr<const Plan<double>> plan_of<double>(int64_t n);

}  // namespace toroid::mixed_radix
