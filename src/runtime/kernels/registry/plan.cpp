#include "runtime/kernels/registry/plan.h"

#include <algorithm>

namespace toroid {
namespace {

// Calls f with everything that the sizes of a call are, in an order; until f says false.
template <class F>
bool for_each_size(const KernelCall& call, const F& f) {
  const auto all = [&](const int64_t* first, int32_t count) { return std::all_of(first, first + count, f); };
  for (const Span<const ToroidOperand> operands : {call.inputs, call.outputs}) {
    for (const ToroidOperand& operand : operands) {
      if (!all(operand.sizes, operand.rank) || !all(operand.strides, operand.rank)) return false;
    }
  }
  if (!std::all_of(call.integers.begin(), call.integers.end(), f)) return false;
  for (size_t i = 0; i < call.num_stages; ++i) {
    if (!for_each_size(call.stages[i], f)) return false;
  }
  return true;
}

}  // namespace

void CallSites::run(int32_t site, bool has_fixed_sizes, std::string_view name, const KernelCall& call) {
  const auto number = static_cast<size_t>(site);
  if (number >= sites_.size()) sites_.resize(number + 1);
  std::vector<Planned>& plans = sites_[number];
  const auto fits = [&](const Planned& planned) {
    if (has_fixed_sizes) return true;
    size_t next = 0;
    const bool same = for_each_size(call, [&](int64_t size) { return planned.sizes[next++] == size; });
    return same && std::equal(planned.numbers.begin(), planned.numbers.end(), call.numbers.begin(), call.numbers.end());
  };
  const auto found = std::find_if(plans.begin(), plans.end(), fits);
  if (found == plans.end()) {
    Planned made{/*sizes=*/{}, /*numbers=*/{}, /*plan=*/plan_library_kernel(name, call)};
    if (!has_fixed_sizes) {
      for_each_size(call, [&](int64_t size) {
        made.sizes.push_back(size);
        return true;
      });
      made.numbers.assign(call.numbers.begin(), call.numbers.end());
    }
    if (plans.size() >= kMostPlans) plans.pop_back();
    plans.insert(plans.begin(), std::move(made));
  } else if (found != plans.begin()) {
    std::rotate(plans.begin(), found, found + 1);
  }
  plans.front().plan->run(call);
}

}  // namespace toroid
