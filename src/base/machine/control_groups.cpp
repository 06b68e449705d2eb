#include "base/machine/control_groups.h"

#include "base/file/file.h"

namespace toroid {
namespace {

using Visit = std::function<void(const std::string& folder, int version)>;

void visit_path(std::string folder, std::string_view path, int version, const Visit& visit) {
  if (path.size() < 2) path = {};
  for (const char c : path) {
    if (c == '/') visit(folder, version);
    folder.push_back(c);
  }
  visit(folder, version);
}

bool has_controller(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    const size_t comma = list.find(',');
    if (list.substr(0, comma) == name) return true;
    list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
  }
  return false;
}

}  // namespace

// Lines are "0::/path" of version 2, and "4:cpu,cpuacct:/path" of version 1.
void for_each_control_group(std::string_view groups, std::string_view controller, const std::string& root, const Visit& visit) {
  while (!groups.empty()) {
    const size_t end = groups.find('\n');
    const std::string_view line = groups.substr(0, end);
    groups.remove_prefix(end == std::string_view::npos ? groups.size() : end + 1);
    const size_t first = line.find(':'), second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (controllers.empty()) visit_path(root, path, 2, visit);
    if (has_controller(controllers, controller)) visit_path(root + "/" + std::string(controller), path, 1, visit);
  }
}

std::string own_control_groups() { return start_of_file("/proc/self/cgroup"); }

}  // namespace toroid
