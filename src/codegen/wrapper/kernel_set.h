// The kernels of a program, equal ones once.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "codegen/cpp/kernel.h"
#include "codegen/wrapper/generate.h"

namespace toroid::codegen {

class KernelSet {
 public:
  // A name that no kernel has yet.
  std::string fresh_name(const std::string& base);
  // The name to call the kernel by: an equal one's, if there is one. Layers of a model differ in the names of their tensors only.
  const std::string& add(const KernelSource& source, const loop::LoopProgram& program);

  const std::vector<GeneratedKernel>& kernels() const { return kernels_; }
  const std::vector<std::string>& declarations() const { return declarations_; }

 private:
  std::vector<GeneratedKernel> kernels_;
  std::vector<std::string> declarations_;
  std::unordered_map<std::string, std::string> distinct_;  // canonical text -> name
  std::unordered_map<std::string, int> names_;
};

}  // namespace toroid::codegen
