// Lists of buffers as sets in the order of their first mention: few elements, so they are searched.
#pragma once

#include <algorithm>
#include <vector>

#include "loop/loop.h"

namespace toroid::schedule {

inline bool contains(const std::vector<loop::BufferId>& list, loop::BufferId id) {
  return std::find(list.begin(), list.end(), id) != list.end();
}

// Is a buffer in both?
inline bool shares_any(const std::vector<loop::BufferId>& a, const std::vector<loop::BufferId>& b) {
  return std::any_of(a.begin(), a.end(), [&](loop::BufferId id) { return contains(b, id); });
}

// Appends what the list has not yet.
inline void append_new(std::vector<loop::BufferId>& list, const std::vector<loop::BufferId>& more) {
  for (loop::BufferId id : more) {
    if (!contains(list, id)) list.push_back(id);
  }
}

}  // namespace toroid::schedule
