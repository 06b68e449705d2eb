#include "runtime/cuda/branches.h"

#include <iterator>

namespace toroid::cuda {

void Branches::set_capturing(bool capturing) {
  is_capturing_ = capturing;
  is_forked_ = false;
  branch_ = 0;
  current_ = own_.handle();
  for (Other& each : others_) each.is_used = false;
}

void Branches::begin(int64_t branch) {
  branch_ = branch;
  if (!is_capturing_) return;
  current_ = own_.handle();
  if (branch == 0) {
    for (Other& each : others_) {
      if (!each.is_used) continue;
      each.done.record(each.stream.handle());
      each.done.hold(own_.handle());
      each.is_used = false;
    }
    is_forked_ = false;
    return;
  }
  if (!is_forked_) fork_.record(own_.handle());
  is_forked_ = true;
  if (branch == 1) return;
  const auto position = static_cast<size_t>(branch - 2);
  while (others_.size() <= position) others_.emplace_back();
  Other& other = *std::next(others_.begin(), static_cast<ptrdiff_t>(position));
  if (!other.is_used) fork_.hold(other.stream.handle());
  other.is_used = true;
  current_ = other.stream.handle();
}

}  // namespace toroid::cuda
