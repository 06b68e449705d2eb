#include "runtime/memory/arena.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <tuple>

#include "base/checked.h"
#include "base/error.h"
#include "base/fail.h"
#include "base/sort_indices.h"

namespace toroid {
namespace {

constexpr int64_t kArenaAlignment = 64;
// Of more temporaries only one order is tried: placing them takes time that grows with their square.
constexpr size_t kMostOrdered = 256;
constexpr int kMostMoves = 48;

int64_t aligned(int64_t bytes) { return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment; }

struct Peak {
  int64_t bytes = 0;
  int64_t step = 0;
};

// The most that is alive at once, and when.
Peak peak_of(std::span<const ArenaRequest> requests) {
  std::map<int64_t, int64_t> change;
  for (const ArenaRequest& request : requests) {
    change[request.first_step] += aligned(request.bytes);
    change[request.last_step + 1] -= aligned(request.bytes);
  }
  Peak peak;
  int64_t alive = 0;
  for (const auto& [step, bytes] : change) {
    alive += bytes;
    if (alive > peak.bytes) peak = {alive, step};
  }
  return peak;
}

// Each in this order goes to the smallest gap that fits between those that are alive at the same time, or behind them all.
ArenaPlan place(std::span<const ArenaRequest> requests, const std::vector<size_t>& order) {
  ArenaPlan plan;
  plan.offsets.resize(requests.size());
  std::vector<size_t> placed;
  std::vector<size_t> beside;  // of those, what is alive with the next one
  for (size_t next : order) {
    const ArenaRequest& request = requests[next];
    const int64_t need = aligned(request.bytes);
    beside.clear();
    for (size_t other : placed) {
      if (requests[other].last_step < request.first_step || requests[other].first_step > request.last_step) continue;
      beside.push_back(other);
    }
    sort_indices(beside, [&](size_t a, size_t b) {
      return plan.offsets[a] != plan.offsets[b] ? plan.offsets[a] < plan.offsets[b] : requests[a].bytes < requests[b].bytes;
    });
    int64_t best = -1;
    int64_t best_gap = INT64_MAX;
    int64_t end = 0;
    for (const size_t other : beside) {
      const int64_t from = plan.offsets[other], to = from + aligned(requests[other].bytes);
      if (from - end >= need && from - end < best_gap) {
        best = end;
        best_gap = from - end;
      }
      end = std::max(end, to);
    }
    plan.offsets[next] = best >= 0 ? best : end;
    plan.bytes = std::max(plan.bytes, plan.offsets[next] + need);
    placed.push_back(next);
  }
  return plan;
}

}  // namespace

ArenaPlan plan_arena(std::span<const ArenaRequest> requests) {
  // No sum below is larger than that of all.
  Checked all = 0;
  for (const ArenaRequest& request : requests) all += Checked(request.bytes) + kArenaAlignment;
  if (!all.fits()) fail(ErrorKind::InvalidInput, "the temporaries of a call have more bytes than 63 bits count");
  const Peak peak = peak_of(requests);
  const auto is_at_peak = [&](const ArenaRequest& r) { return r.first_step <= peak.step && peak.step <= r.last_step; };
  const auto steps = [](const ArenaRequest& r) { return r.last_step - r.first_step; };
  using Before = std::function<bool(const ArenaRequest&, const ArenaRequest&)>;
  // Large ones first; those of the peak first, so that nothing is in their way; in the order of time; long ones first.
  const Before orders[] = {
      [](const ArenaRequest& a, const ArenaRequest& b) { return a.bytes > b.bytes; },
      [&](const ArenaRequest& a, const ArenaRequest& b) { return std::pair(is_at_peak(a), a.bytes) > std::pair(is_at_peak(b), b.bytes); },
      [](const ArenaRequest& a, const ArenaRequest& b) { return std::pair(a.first_step, b.bytes) < std::pair(b.first_step, a.bytes); },
      [&](const ArenaRequest& a, const ArenaRequest& b) {
        return std::tuple(is_at_peak(a), steps(a), a.bytes) > std::tuple(is_at_peak(b), steps(b), b.bytes);
      },
      [&](const ArenaRequest& a, const ArenaRequest& b) {
        auto distance = [&](const ArenaRequest& r) {
          return is_at_peak(r) ? 0 : std::min(std::abs(r.first_step - peak.step), std::abs(r.last_step - peak.step));
        };
        return std::pair(distance(a), b.bytes) < std::pair(distance(b), a.bytes);
      },
  };
  ArenaPlan best;
  std::vector<size_t> best_order;
  auto try_order = [&](std::vector<size_t> order) {
    ArenaPlan plan = place(requests, order);
    if (!best.offsets.empty() && plan.bytes >= best.bytes) return false;
    best = std::move(plan);
    best_order = std::move(order);
    return true;
  };
  for (const Before& before : orders) {
    std::vector<size_t> order(requests.size());
    std::iota(order.begin(), order.end(), size_t{0});
    sort_indices(order, [&](size_t a, size_t b) { return before(requests[a], requests[b]); });
    try_order(std::move(order));
    if (best.bytes <= peak.bytes || requests.size() > kMostOrdered) break;
  }
  // What came to lie on top is placed first, while that helps.
  if (requests.size() <= kMostOrdered) {
    std::vector<size_t> order = best_order;
    std::vector<int64_t> offsets = best.offsets;
    int64_t bytes = best.bytes;
    for (int i = 0; i < kMostMoves && best.bytes > peak.bytes; ++i) {
      const auto top =
          std::find_if(order.rbegin(), order.rend(), [&](size_t r) { return offsets[r] + aligned(requests[r].bytes) == bytes; });
      std::rotate(order.begin(), top.base() - 1, top.base());
      const ArenaPlan plan = place(requests, order);
      offsets = plan.offsets;
      bytes = plan.bytes;
      try_order(order);
    }
  }
  best.lower_bound = peak.bytes;
  return best;
}

}  // namespace toroid
