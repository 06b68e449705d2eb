// How many of the machine's processors this process may use, and which.
#pragma once

#include <climits>
#include <string>
#include <string_view>
#include <vector>

#include "base/machine/control_groups.h"

namespace toroid {

// The processors that the calling thread may run on, by their numbers in the system, the lowest first: its affinity mask, as taskset and
// cpusets of containers set it. Empty where the system does not tell.
std::vector<int> allowed_processors();

// The time that control groups let the process have, as whole processors (at least 1): the least of its own group's and of those around it.
// INT_MAX where none limits it. A part of a processor is left out: threads that wait for each other spin, and a group that has used up its
// time is stopped. groups: the text of /proc/self/cgroup. root: where control groups are mounted.
//
// Files: cpu.max of version 2; cpu.cfs_quota_us of version 1, Linux's Documentation/scheduler/sched-bwc.rst.
int processors_of_groups(std::string_view groups, const std::string& root = kControlGroups);

// Keeps the calling thread on one processor. False where the system does not let it.
bool stay_on_processor(int processor);

// As many threads as are worth to be run at once: at least 1, and no more than either of the two above.
int usable_processors();

}  // namespace toroid
