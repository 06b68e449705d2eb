#include "runtime/cuda/images.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <string>

#include "base/error.h"
#include "base/span.h"

namespace toroid::cuda {
namespace {

// How well it suits; 0: not at all.
int rank_of(const ToroidGpuBinary& binary, int capability) {
  if (is_amd(capability) || binary.kind == TOROID_GPU_AMD)
    return binary.kind == TOROID_GPU_AMD && binary.capability == capability ? 3000 : 0;
  switch (binary.kind) {
    case TOROID_GPU_EXACT: return binary.capability == capability ? 3000 : 0;
    case TOROID_GPU_FAMILY:
      return binary.capability / 10 == capability / 10 && binary.capability <= capability ? 2000 + binary.capability : 0;
    case TOROID_GPU_PTX: return binary.capability <= capability ? 1000 + binary.capability : 0;
    default: return 0;
  }
}

std::string name_of(const ToroidGpuBinary& binary) {
  if (binary.kind == TOROID_GPU_AMD) return architecture_of(binary.capability);
  return formatted("{}_{}{}", binary.kind == TOROID_GPU_PTX ? "compute" : "sm", binary.capability,
                   binary.kind == TOROID_GPU_EXACT ? "a" : "");
}

Span<const ToroidGpuBinary> binaries_of(const ToroidGpuProgram& program) {
  return {program.binaries, static_cast<size_t>(program.num_binaries)};
}

// Of each unit the best one; null where none will do.
std::vector<const ToroidGpuBinary*> best_binaries(const ToroidGpuProgram& program, int capability) {
  std::vector<const ToroidGpuBinary*> best;
  for (const ToroidGpuBinary& each : binaries_of(program)) {
    const auto unit = static_cast<size_t>(each.unit);
    if (best.size() <= unit) best.resize(unit + 1);
    const int rank = rank_of(each, capability);
    if (rank > 0 && (best[unit] == nullptr || rank > rank_of(*best[unit], capability))) best[unit] = &each;
  }
  return best;
}

}  // namespace

std::string architecture_of(int capability) {
  char text[16];
  std::snprintf(text, sizeof text, is_amd(capability) ? "gfx%x" : "sm_%d", static_cast<unsigned>(capability));
  return text;
}

bool may_overlap(const ToroidGpuProgram& program, int capability) {
  const std::vector<const ToroidGpuBinary*> best = best_binaries(program, capability);
  return std::all_of(best.begin(), best.end(),
                     [](const ToroidGpuBinary* each) { return each != nullptr && each->kind != TOROID_GPU_AMD && each->capability >= 90; });
}

std::string architectures_text(const ToroidGpuProgram& program) {
  std::set<std::string> names;
  for (const ToroidGpuBinary& each : binaries_of(program)) names.insert(name_of(each));
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return list;
}

std::map<std::string_view, const ToroidGpuKernel*> launches_for(const ToroidGpuProgram& program, int capability) {
  std::map<std::string_view, const ToroidGpuKernel*> launches;
  for (const ToroidGpuBinary* each : best_binaries(program, capability)) {
    if (each != nullptr && each->kernel != nullptr) launches.emplace(each->kernel, each->launch);
  }
  return launches;
}

std::vector<const void*> images_for(const ToroidGpuProgram& program, int capability) {
  std::vector<const void*> images;
  for (const ToroidGpuBinary* each : best_binaries(program, capability)) {
    if (each != nullptr) {
      images.push_back(each->data);
      continue;
    }
    throw Error(ErrorKind::Environment,
                formatted("the program's kernels are for {}, and the GPU is {}", architectures_text(program), architecture_of(capability)))
        .help(is_amd(capability)
                  ? formatted("compile it with '--device rocm --arch {}'", architecture_of(capability))
                  : formatted("compile it with '--arch sm_{}', or with an earlier 'compute_…' for all later GPUs", capability));
  }
  return images;
}

}  // namespace toroid::cuda
