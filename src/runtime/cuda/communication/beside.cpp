#include "runtime/cuda/communication/beside.h"

#include <algorithm>
#include <iterator>
#include <vector>

namespace toroid::cuda {

void Beside::begin_call(bool is_used) {
  is_used_ = is_used;
  open_ = nullptr;
  closed_ = awaited_ = 0;
}

void Beside::open() {
  if (!is_used_) return;
  if (!stream_) stream_.emplace(Stream::Priority::Highest);
  fork_.record(own_.handle());
  fork_.hold(stream_->handle());
  open_ = stream_->handle();
}

void Beside::close() {
  const StreamHandle stream = std::exchange(open_, nullptr);
  if (stream == nullptr) return;
  if (ends_.size() == closed_) ends_.emplace_back();
  End& end = *std::next(ends_.begin(), static_cast<ptrdiff_t>(closed_++));
  end.event.record(stream);
  end.stream = stream;
}

// The last one of each stream: those before it have ended, too.
void Beside::await(int64_t count, StreamHandle stream) {
  const auto wanted = static_cast<size_t>(count);
  if (wanted > closed_ || (stream == own_.handle() && wanted <= awaited_)) return;
  std::vector<StreamHandle> seen = {stream};
  for (auto end = std::next(ends_.begin(), static_cast<ptrdiff_t>(wanted)); end != ends_.begin();) {
    --end;
    if (std::find(seen.begin(), seen.end(), end->stream) != seen.end()) continue;
    seen.push_back(end->stream);
    end->event.hold(stream);
  }
  if (stream == own_.handle()) awaited_ = wanted;
}

}  // namespace toroid::cuda
