// How much memory there is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/machine/control_groups.h"

namespace toroid {

// In bytes; UINT64_MAX where nothing limits it.
struct GroupMemory {
  uint64_t limit = UINT64_MAX;
  uint64_t left = UINT64_MAX;  // of the limit, by what the group uses now
};
// The least that control groups allow: a process's own group and those around it, of either version. groups: the text of /proc/self/cgroup.
// root: where control groups are mounted. Files: memory.max and memory.current of version 2; memory.limit_in_bytes and
// memory.usage_in_bytes of version 1, Linux's Documentation/admin-guide/cgroup-v1/memory.rst.
GroupMemory memory_of_groups(std::string_view groups, const std::string& root = kControlGroups);

// What this process may have at most: the machine's memory or, where they allow less, that of its control groups or its limit of address
// space (ulimit -v). UINT64_MAX where none is told.
uint64_t total_memory_bytes();

// What new processes may use without swapping: Linux's own estimate, less where control groups allow less. UINT64_MAX where neither is
// told.
uint64_t available_memory_bytes();

}  // namespace toroid
