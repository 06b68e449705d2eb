#include "runtime/cuda/communication/beside.h"

#include <iterator>

namespace toroid::cuda {

void Beside::begin_call(bool is_used) {
  is_used_ = is_used;
  is_open_ = false;
  closed_ = awaited_ = 0;
}

void Beside::open() {
  if (!is_used_) return;
  if (!stream_) stream_.emplace(Stream::Priority::Highest);
  fork_.record(own_.handle());
  fork_.hold(stream_->handle());
  is_open_ = true;
}

void Beside::close() {
  if (!std::exchange(is_open_, false)) return;
  if (ends_.size() == closed_) ends_.emplace_back();
  std::next(ends_.begin(), static_cast<ptrdiff_t>(closed_++))->record(stream_->handle());
}

void Beside::await(int64_t count) {
  const auto wanted = static_cast<size_t>(count);
  if (wanted <= awaited_ || wanted > closed_) return;
  std::next(ends_.begin(), static_cast<ptrdiff_t>(wanted - 1))->hold(own_.handle());
  awaited_ = wanted;
}

void Beside::finish() { await(static_cast<int64_t>(closed_)); }

}  // namespace toroid::cuda
