#include "explain/gpu_kernels.h"

#include <map>

#include <fmt/format.h>

#include "driver/gpu_binaries.h"

namespace toroid::cli {

tune::ChoiceLock explain_gpu_ways(Program program, const CompileModelOptions& options) {
  CompileModelOptions keeping = options;
  keeping.choose.keep = true;
  CompileSession session;
  const CompiledModel model = session.compile(std::move(program), keeping);
  fmt::print("{} problems of the program's steps\n", model.choices.size());
  for (const tune::Decision& each : model.choices) fmt::print("{}", table_text(each));
  fmt::print("{}\n", tune::changes_text(model.choices, model.choices_late));
  return tune::ChoiceLock::parse(model.choices_lock, "the choices");
}

void explain_gpu_kernels(Program program, const CompileModelOptions& options) {
  const std::vector<std::string> architectures = architectures_of(options);
  const codegen::GeneratedProgram code = generate_code(std::move(program), options, 1);
  std::map<std::string, std::string> steps;
  for (size_t i = 0; i < code.step_kernels.size(); ++i) {
    for (const std::string& kernel : code.step_kernels[i]) {
      std::string& list = steps[kernel];
      list += fmt::format("{}{} {}", list.empty() ? "" : ", ", i, code.module.steps[i].name);
    }
  }
  for (const std::string& architecture : architectures) {
    fmt::print("{}, {}\n  {:>9} {:>12} {:>13}  kernel: its steps\n", architecture, nvrtc_version(), "registers", "shared bytes",
               "spilled bytes");
    std::vector<std::string> complaints;
    for (const std::string& unit : code.gpu_units) {
      for (const KernelResources& kernel : compile_cuda(unit, architecture, "kernels").kernels) {
        fmt::print("  {:9} {:12} {:13}  {}: {}\n", kernel.registers, kernel.shared_bytes, kernel.spilled_bytes, kernel.kernel,
                   steps[kernel.kernel]);
        for (std::string& each : complaints_of(kernel)) complaints.push_back(std::move(each));
      }
    }
    for (const std::string& each : complaints) fmt::print("  {}\n", each);
  }
}

}  // namespace toroid::cli
