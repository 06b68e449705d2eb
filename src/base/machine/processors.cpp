#include "base/machine/processors.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <thread>

namespace toroid {
namespace {

// Of processors with numbers below `most`, which may be more than a cpu_set_t has. Empty at first.
class ProcessorSet {
 public:
  explicit ProcessorSet(int most) : words_(CPU_ALLOC_SIZE(most) / sizeof(unsigned long)) {}
  size_t bytes() const { return words_.size() * sizeof(unsigned long); }
  cpu_set_t* get() { return reinterpret_cast<cpu_set_t*>(words_.data()); }

 private:
  std::vector<unsigned long> words_;
};

// The first of a small file of the system's; "" where it cannot be read.
std::string start_of(const std::string& path) {
  constexpr size_t kMost = 16 << 10;
  std::string text(kMost, '\0');
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const ssize_t bytes = file < 0 ? 0 : ::read(file, text.data(), kMost);
  if (file >= 0) ::close(file);
  text.resize(static_cast<size_t>(std::max<ssize_t>(0, bytes)));
  return text;
}

// The number that the text begins with, which is taken off it with the blank behind it; 0 where there is none, as for "max" and -1.
int64_t take_number(std::string_view& text) {
  int64_t number = 0;
  const char* const end = std::from_chars(text.data(), text.data() + text.size(), number).ptr;
  text.remove_prefix(std::min(text.size(), static_cast<size_t>(end - text.data()) + 1));
  return std::max<int64_t>(0, number);
}

int whole_processors(int64_t quota, int64_t period) {
  if (quota <= 0 || period <= 0) return INT_MAX;
  return static_cast<int>(std::clamp<int64_t>(quota / period, 1, INT_MAX));
}

int of_version_2(const std::string& folder) {
  const std::string text = start_of(folder + "/cpu.max");
  std::string_view left = text;
  const int64_t quota = take_number(left);
  return whole_processors(quota, take_number(left));
}

int of_version_1(const std::string& folder) {
  const std::string quota = start_of(folder + "/cpu.cfs_quota_us"), period = start_of(folder + "/cpu.cfs_period_us");
  std::string_view quota_left = quota, period_left = period;
  return whole_processors(take_number(quota_left), take_number(period_left));
}

// Of the group and of all around it. In a container the path may be one of the machine's, of which only the end is there, or nothing.
int least_on_path(std::string folder, std::string_view path, int (*of_folder)(const std::string&)) {
  int least = of_folder(folder);
  if (path.size() < 2) return least;
  for (const char c : path) {
    if (c == '/') least = std::min(least, of_folder(folder));
    folder.push_back(c);
  }
  return std::min(least, of_folder(folder));
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

std::vector<int> allowed_processors() {
  constexpr int kMost = 1 << 16;
  for (int most = CPU_SETSIZE; most <= kMost; most *= 2) {
    ProcessorSet set(most);
    if (::sched_getaffinity(0, set.bytes(), set.get()) != 0) continue;  // the system knows more processors
    std::vector<int> result;
    for (int i = 0; i < most; ++i) {
      if (CPU_ISSET_S(static_cast<size_t>(i), set.bytes(), set.get())) result.push_back(i);
    }
    return result;
  }
  return {};
}

bool stay_on_processor(int processor) {
  if (processor < 0) return false;
  ProcessorSet set(processor + 1);
  CPU_SET_S(static_cast<size_t>(processor), set.bytes(), set.get());
  return ::sched_setaffinity(0, set.bytes(), set.get()) == 0;
}

// Lines are "0::/path" of version 2, and "4:cpu,cpuacct:/path" of version 1.
int processors_of_groups(std::string_view groups, const std::string& root) {
  int least = INT_MAX;
  while (!groups.empty()) {
    const size_t end = groups.find('\n');
    const std::string_view line = groups.substr(0, end);
    groups.remove_prefix(end == std::string_view::npos ? groups.size() : end + 1);
    const size_t first = line.find(':'), second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (controllers.empty()) least = std::min(least, least_on_path(root, path, of_version_2));
    if (has_controller(controllers, "cpu")) least = std::min(least, least_on_path(root + "/cpu", path, of_version_1));
  }
  return least;
}

int usable_processors() {
  const size_t allowed = allowed_processors().size();
  const int count = allowed > 0 ? static_cast<int>(allowed) : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return std::min(count, processors_of_groups(start_of("/proc/self/cgroup")));
}

}  // namespace toroid
