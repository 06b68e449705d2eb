// Linux's control groups, which limit what a container's processes use.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace toroid {

inline constexpr const char* kControlGroups = "/sys/fs/cgroup";

// Calls visit(folder, version) for the folder of a process's own group and for those of the groups around it, by what /proc/self/cgroup
// says in `groups`: all of version 2, and of version 1 those of `controller` ("cpu", "memory"). version: of control groups, 1 or 2; names
// of files differ. In a container the path may be one of the machine's, of which only the end is there, or nothing: folders may be
// missing. root: where control groups are mounted.
//
// Linux's Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/cgroups.rst.
void for_each_control_group(std::string_view groups, std::string_view controller, const std::string& root,
                            const std::function<void(const std::string& folder, int version)>& visit);
// The text of /proc/self/cgroup; "" where the system has none.
std::string own_control_groups();

}  // namespace toroid
