#include "schedule/lifetimes.h"

#include <algorithm>
#include <optional>

namespace toroid::schedule {

std::vector<Lifetime> lifetimes(const loop::LoopProgram& program, const std::vector<Step>& steps) {
  std::vector<std::optional<Lifetime>> by_buffer(program.buffers.size());
  for (size_t s = 0; s < steps.size(); ++s) {
    for (BufferId out : writes_of(steps[s])) {
      auto& lifetime = by_buffer[static_cast<size_t>(out)];
      if (!lifetime) lifetime = Lifetime{out, s, s};
      lifetime->last_step = s;
    }
    for (BufferId in : reads_of(steps[s])) {
      auto& lifetime = by_buffer[static_cast<size_t>(in)];
      if (!lifetime) lifetime = Lifetime{in, s, s};  // an input, or a temporary without elements, which nobody writes
      lifetime->last_step = s;
    }
  }
  std::vector<Lifetime> result;
  for (const auto& lifetime : by_buffer) {
    if (lifetime && program.buffer(lifetime->buffer).kind == loop::BufferKind::Temporary) result.push_back(*lifetime);
  }
  std::stable_sort(result.begin(), result.end(), [](const Lifetime& a, const Lifetime& b) { return a.first_step < b.first_step; });
  return result;
}

}  // namespace toroid::schedule
