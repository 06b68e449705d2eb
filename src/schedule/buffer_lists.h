// Lists of buffers as sets in the order of their first mention: few elements, so they are searched.
#pragma once

#include <algorithm>
#include <vector>

#include "loop/loop.h"

namespace toroid::schedule {

inline bool contains(const std::vector<loop::BufferId>& list, loop::BufferId id) {
  return std::find(list.begin(), list.end(), id) != list.end();
}

// Appends what the list has not yet.
inline void append_new(std::vector<loop::BufferId>& list, const std::vector<loop::BufferId>& more) {
  for (loop::BufferId id : more) {
    if (!contains(list, id)) list.push_back(id);
  }
}

}  // namespace toroid::schedule
