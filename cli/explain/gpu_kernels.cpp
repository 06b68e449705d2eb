#include "explain/gpu_kernels.h"

#include <map>

#include <fmt/format.h>

#include "driver/gpu_binaries.h"
#include "driver/pipeline/generate.h"
#include "library/device_copy.h"
#include "toolchain/triton/triton.h"

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

namespace {

std::string sizes_text(const std::vector<program::Operand>& operands) {
  std::vector<std::string> list;
  for (const program::Operand& each : operands) {
    std::vector<std::string> sizes;
    for (sym::Expr size : each.sizes) sizes.push_back(sym::to_string(size));
    list.push_back(fmt::format("[{}]", fmt::join(sizes, ", ")));
  }
  return fmt::format("{}", fmt::join(list, ", "));
}

// Of a program with tensors on both: a step on tensors of the host.
void print_host_step(const program::Step& step, const std::string& name) {
  std::string what = "kernels of the program";
  for (const program::Instruction& instruction : step.instructions) {
    const auto* call = std::get_if<program::LibraryCall>(&instruction);
    if (call != nullptr) what = call->kernel;
    if (std::holds_alternative<program::ChainCall>(instruction)) what = "a chain of convolutions";
    if (std::holds_alternative<program::ReadNumber>(instruction)) what = "a number that is read";
  }
  fmt::print("  step {} {}: on the host, {}{}\n", step.number, name, what,
             step.waits ? ", once what was started on the GPU has ended" : "");
}

// Steps that are no kernel of the program's on the GPU: products that are the vendor's library's, and what runs on the host, with copies.
void print_library_calls(const codegen::GeneratedProgram& code, bool is_amd) {
  for (const program::Step& step : code.module.main.steps) {
    if (step.on_host) {
      print_host_step(step, code.module.steps[step.number].name);
      continue;
    }
    if (!code.step_kernels[step.number].empty()) continue;
    for (const program::Instruction& instruction : step.instructions) {
      const auto* call = std::get_if<program::LibraryCall>(&instruction);
      if (call == nullptr) continue;
      const std::string& name = code.module.steps[step.number].name;
      if (call->kernel == kDeviceCopyKernel) {
        fmt::print("  step {} {}: {}\n", step.number, name, call->label);
      } else if (call->kernel.starts_with("matmul")) {
        fmt::print("  step {} {}: {}\n", step.number, name, is_amd ? "hipBLASLt" : "cuBLASLt");
      } else if (call->kernel.starts_with("library.collectives.")) {
        fmt::print("  step {} {}: {}; where it has no such reduction, the host\n", step.number, name, is_amd ? "RCCL" : "NCCL");
      } else {
        fmt::print("  step {} {}: on the host, to which {} is copied, and {} back\n", step.number, name, sizes_text(call->inputs),
                   sizes_text(call->outputs));
      }
    }
  }
}

// What is copied once, when the program is loaded.
void print_copies_of_weights(const program::Function& prepare, const program::Module& module) {
  for (const program::Step& step : prepare.steps) {
    for (const program::Instruction& instruction : step.instructions) {
      const auto* call = std::get_if<program::LibraryCall>(&instruction);
      if (call != nullptr && call->kernel == kDeviceCopyKernel) fmt::print("  once {}: {}\n", module.steps[step.number].name, call->label);
    }
  }
}

}  // namespace

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
    fmt::print("{}, {}\n  {:>9} {:>12} {:>13}  kernel: its steps\n", architecture, gpu_compiler_version(is_amd_architecture(architecture)),
               "registers", "shared bytes", "spilled bytes");
    std::vector<std::string> complaints;
    for (const std::string& unit : code.gpu_units) {
      for (const KernelResources& kernel : compile_for_gpu(unit, architecture, "kernels").kernels) {
        fmt::print("  {:9} {:12} {:13}  {}: {}\n", kernel.registers, kernel.shared_bytes, kernel.spilled_bytes, kernel.kernel,
                   steps[kernel.kernel]);
        for (std::string& each : complaints_of(kernel)) complaints.push_back(std::move(each));
      }
    }
    if (!code.triton_units.empty()) {
      for (const TritonBinary& kernel :
           compile_triton(code.triton_units, architecture, options.compile_threads > 0 ? options.compile_threads : 2))
        fmt::print("  {:>9} {:12} {:>13}  {}: {}, in Triton\n", "", kernel.shared_bytes, "", kernel.kernel, steps[kernel.kernel]);
    }
    for (const std::string& each : complaints) fmt::print("  {}\n", each);
  }
  for (const std::string& each : code.not_in_triton) fmt::print("  not in Triton: {}\n", each);
  print_library_calls(code, is_amd(options.target));
  if (code.module.prepare) print_copies_of_weights(*code.module.prepare, code.module);
}

}  // namespace toroid::cli
