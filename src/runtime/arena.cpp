#include "runtime/arena.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace toroid {
namespace {
constexpr int64_t kAlignment = 64;
int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }
}  // namespace

ArenaPlan plan_arena(std::span<const ArenaRequest> requests) {
  ArenaPlan plan;
  plan.offsets.resize(requests.size());
  std::vector<size_t> order(requests.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return requests[a].bytes > requests[b].bytes; });
  std::vector<size_t> placed;
  for (size_t next : order) {
    const ArenaRequest& request = requests[next];
    const int64_t need = aligned(request.bytes);
    // The memory of everything alive at the same time, by offset; the smallest gap that fits wins.
    std::vector<std::pair<int64_t, int64_t>> taken;
    for (size_t other : placed) {
      if (requests[other].last_step < request.first_step || requests[other].first_step > request.last_step) continue;
      taken.emplace_back(plan.offsets[other], plan.offsets[other] + aligned(requests[other].bytes));
    }
    std::sort(taken.begin(), taken.end());
    int64_t best = -1;
    int64_t best_gap = INT64_MAX;
    int64_t end = 0;
    for (const auto& [from, to] : taken) {
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
  std::map<int64_t, int64_t> change;
  for (const ArenaRequest& request : requests) {
    change[request.first_step] += aligned(request.bytes);
    change[request.last_step + 1] -= aligned(request.bytes);
  }
  int64_t alive = 0;
  for (const auto& [step, bytes] : change) {
    alive += bytes;
    plan.lower_bound = std::max(plan.lower_bound, alive);
  }
  return plan;
}

}  // namespace toroid
