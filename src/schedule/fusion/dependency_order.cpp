#include "schedule/fusion/dependency_order.h"

#include <algorithm>
#include <functional>
#include <queue>

#include "base/error.h"

namespace toroid::schedule {

size_t DependencyOrder::add() {
  place_.push_back(place_.size());
  needs_.emplace_back();
  users_.emplace_back();
  seen_.push_back(0);
  return place_.size() - 1;
}

// `start` and what is reached from it along one direction at places from `least` to `most`.
void DependencyOrder::collect(size_t start, bool users, size_t least, size_t most, std::vector<size_t>& found) const {
  ++search_;
  seen_[start] = search_;
  found.push_back(start);
  for (size_t next = 0; next < found.size(); ++next) {
    for (size_t other : (users ? users_ : needs_)[found[next]]) {
      if (seen_[other] == search_ || place_[other] < least || place_[other] > most) continue;
      seen_[other] = search_;
      found.push_back(other);
    }
  }
}

bool DependencyOrder::depends(size_t node, size_t on) const {
  if (place_[on] >= place_[node]) return false;
  std::vector<size_t> found;
  collect(node, false, place_[on], place_[node], found);
  return seen_[on] == search_;
}

void DependencyOrder::depend(size_t node, size_t on) {
  TOROID_CHECK(node != on, "a group of computations would wait for itself");
  if (std::find(needs_[node].begin(), needs_[node].end(), on) != needs_[node].end()) return;
  needs_[node].push_back(on);
  users_[on].push_back(node);
  const size_t least = place_[node], most = place_[on];
  if (most < least) return;
  std::vector<size_t> before, after;
  collect(node, true, least, most, after);
  TOROID_CHECK(seen_[on] != search_, "groups of computations would wait for each other");
  collect(on, false, least, most, before);
  auto by_place = [&](size_t a, size_t b) { return place_[a] < place_[b]; };
  std::sort(before.begin(), before.end(), by_place);
  std::sort(after.begin(), after.end(), by_place);
  before.insert(before.end(), after.begin(), after.end());
  std::vector<size_t> places;
  for (size_t each : before) places.push_back(place_[each]);
  std::sort(places.begin(), places.end());
  for (size_t i = 0; i < before.size(); ++i) place_[before[i]] = places[i];
}

std::vector<size_t> DependencyOrder::order() const {
  std::vector<size_t> waiting(needs_.size()), result;
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t node = 0; node < needs_.size(); ++node) {
    waiting[node] = needs_[node].size();
    if (waiting[node] == 0) ready.push(node);
  }
  while (!ready.empty()) {
    const size_t node = ready.top();
    ready.pop();
    result.push_back(node);
    for (size_t user : users_[node]) {
      if (--waiting[user] == 0) ready.push(user);
    }
  }
  TOROID_CHECK(result.size() == needs_.size(), "{} of {} groups of computations wait for each other", needs_.size() - result.size(),
               needs_.size());
  return result;
}

}  // namespace toroid::schedule
