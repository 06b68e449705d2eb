#include "runtime/memory/arena.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>
#include <vector>

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
Peak peak_of(Span<const ArenaRequest> requests) {
  // Two events for each: it begins, it has ended.
  const size_t count = requests.size();
  const auto step_of = [&](size_t event) { return event < count ? requests[event].first_step : requests[event - count].last_step + 1; };
  std::vector<size_t> events(2 * count);
  std::iota(events.begin(), events.end(), size_t{0});
  sort_indices(events, [&](size_t a, size_t b) { return step_of(a) < step_of(b); });
  Peak peak;
  int64_t alive = 0;
  for (size_t i = 0; i < events.size();) {
    const int64_t step = step_of(events[i]);
    for (; i < events.size() && step_of(events[i]) == step; ++i)
      alive += events[i] < count ? aligned(requests[events[i]].bytes) : -aligned(requests[events[i] - count].bytes);
    if (alive > peak.bytes) peak = {alive, step};
  }
  return peak;
}

// Orders in which temporaries are placed: large ones first; those of the peak first, so that nothing is in their way; in the order of time;
// those of the peak and long ones first; those near the peak first.
constexpr int kOrders = 5;

// What an order goes by, the largest first.
std::array<int64_t, 3> rank(int order, const ArenaRequest& request, int64_t peak) {
  const bool is_at_peak = request.first_step <= peak && peak <= request.last_step;
  const int64_t distance = is_at_peak ? 0 : std::min(std::abs(request.first_step - peak), std::abs(request.last_step - peak));
  switch (order) {
    case 0: return {request.bytes};
    case 1: return {is_at_peak, request.bytes};
    case 2: return {-request.first_step, request.bytes};
    case 3: return {is_at_peak, request.last_step - request.first_step, request.bytes};
    default: return {-distance, request.bytes};
  }
}

// Each in this order goes to the smallest gap that fits between those that are alive at the same time, or behind them all.
ArenaPlan place(Span<const ArenaRequest> requests, const std::vector<size_t>& order) {
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

ArenaPlan plan_arena(Span<const ArenaRequest> requests) {
  // No sum below is larger than that of all.
  Checked all = 0;
  for (const ArenaRequest& request : requests) all += Checked(request.bytes) + kArenaAlignment;
  if (!all.fits()) fail(ErrorKind::InvalidInput, "the temporaries of a call have more bytes than 63 bits count");
  const Peak peak = peak_of(requests);
  ArenaPlan best;
  std::vector<size_t> best_order;
  auto try_order = [&](std::vector<size_t> order) {
    ArenaPlan plan = place(requests, order);
    if (!best.offsets.empty() && plan.bytes >= best.bytes) return false;
    best = std::move(plan);
    best_order = std::move(order);
    return true;
  };
  for (int each = 0; each < kOrders; ++each) {
    std::vector<size_t> order(requests.size());
    std::iota(order.begin(), order.end(), size_t{0});
    sort_indices(order, [&](size_t a, size_t b) { return rank(each, requests[a], peak.step) > rank(each, requests[b], peak.step); });
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
