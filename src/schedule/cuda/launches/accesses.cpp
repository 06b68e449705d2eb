#include "schedule/cuda/launches/accesses.h"

#include <algorithm>

namespace toroid::schedule {
namespace {

bool meet(const std::unordered_set<uint32_t>& a, const std::unordered_set<uint32_t>& b) {
  if (a.size() > b.size()) return meet(b, a);
  return std::any_of(a.begin(), a.end(), [&](uint32_t id) { return b.contains(id); });
}

}  // namespace

void Accesses::add(const Accesses& other) {
  reads.insert(other.reads.begin(), other.reads.end());
  writes.insert(other.writes.begin(), other.writes.end());
  orders_all = orders_all || other.orders_all;
}

bool depend(const Accesses& a, const Accesses& b) {
  return a.orders_all || b.orders_all || meet(a.writes, b.writes) || meet(a.writes, b.reads) || meet(a.reads, b.writes);
}

AccessTable::AccessTable(const loop::LoopProgram& program) : memory_(program.buffers.size()) {
  for (size_t b = 0; b < memory_.size(); ++b) memory_[b] = static_cast<uint32_t>(b);
  for (size_t c = 0; c < memory_.size(); ++c) {
    const loop::Buffer& constant = program.buffers[c];
    if (constant.kind != loop::BufferKind::Constant || !constant.updated_by) continue;
    for (size_t o = 0; o < memory_.size(); ++o) {
      if (loop::updates(program.buffers[o], constant)) memory_[o] = memory_[c] = static_cast<uint32_t>(std::min(memory_[o], memory_[c]));
    }
  }
}

uint32_t AccessTable::memory_of(BufferId id) const {
  const auto place = static_cast<size_t>(id);
  return place < memory_.size() ? memory_[place] : static_cast<uint32_t>(place);
}

Accesses AccessTable::of(const Step& step) const {
  Accesses result;
  for (BufferId id : reads_of(step)) result.reads.insert(memory_of(id));
  for (BufferId id : writes_of(step)) result.writes.insert(memory_of(id));
  result.orders_all = std::holds_alternative<BindStep>(step);
  return result;
}

bool AccessTable::may_move_over(const Step& step, std::span<const Step> others) const {
  const Accesses own = of(step);
  return std::none_of(others.begin(), others.end(), [&](const Step& other) { return depend(of(other), own); });
}

}  // namespace toroid::schedule
