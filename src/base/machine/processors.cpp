#include "base/machine/processors.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <thread>

#include "base/file/file.h"
#include "base/machine/control_groups.h"

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

int processors_of_group(const std::string& folder, int version) {
  const bool one_file = version == 2;
  std::string limit = start_of_file(folder + (one_file ? "/cpu.max" : "/cpu.cfs_quota_us"));
  if (!one_file) limit += start_of_file(folder + "/cpu.cfs_period_us");
  std::string_view left = limit;
  const int64_t time = take_number(left);
  return whole_processors(time, take_number(left));
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

int processors_of_groups(std::string_view groups, const std::string& root) {
  int least = INT_MAX;
  for_each_control_group(groups, "cpu", root,
                         [&](const std::string& folder, int version) { least = std::min(least, processors_of_group(folder, version)); });
  return least;
}

int usable_processors() {
  const size_t allowed = allowed_processors().size();
  const int count = allowed > 0 ? static_cast<int>(allowed) : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return std::min(count, processors_of_groups(own_control_groups()));
}

}  // namespace toroid
