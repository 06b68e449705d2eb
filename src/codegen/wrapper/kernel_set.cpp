#include "codegen/wrapper/kernel_set.h"

#include <fmt/format.h>

#include "codegen/cpp/canonical_text.h"

namespace toroid::codegen {

std::string KernelSet::fresh_name(const std::string& base) {
  const int count = names_[base]++;
  return count == 0 ? base : fmt::format("{}_{}", base, count);
}

const std::string& KernelSet::add(const KernelSource& source, const loop::LoopProgram& program) {
  auto [slot, is_new] = distinct_.try_emplace(canonical_text(source, program), source.name);
  if (is_new) {
    // The last one at the margin: comments hold what the model says, and it may say anything.
    declarations_.push_back(source.text.substr(source.text.rfind("\nextern \"C\"") + 1));
    declarations_.back().resize(declarations_.back().find(" {\n"));
    declarations_.back() += ";";
    kernels_.push_back({source.name, source.text});
  }
  return slot->second;
}

}  // namespace toroid::codegen
