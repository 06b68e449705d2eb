// include/toroid/toroid_compiler.h: the table.
#include "api/structs.h"
#include "compiler/graphs.h"
#include "driver/compile.h"
#include "driver/gpu_binaries.h"
#include "driver/package/archive.h"
#include "driver/package/write_compiled.h"
#include "toroid/toroid_compiler.h"

namespace toroid::compiler {
namespace {

std::string_view text_or(const char* text, std::string_view otherwise) { return text != nullptr && *text != '\0' ? text : otherwise; }

CompileModelOptions driver_options(const ToroidCompileOptions& asked, const std::filesystem::path& output) {
  if (asked.threads < 0) api::fail(TOROID_ERROR_ARGUMENT, "'threads' is {}", asked.threads);
  CompileModelOptions options;
  set_device(options, text_or(asked.device, "cpu"));
  if (asked.cpu != nullptr && options.target != codegen::Target::Cpu)
    api::fail(TOROID_ERROR_ARGUMENT, "'cpu' is for programs for the device cpu");
  set_levels(options, text_or(asked.cpu, "native"));
  if (const std::string_view arch = text_or(asked.arch, ""); !arch.empty()) {
    const std::vector<std::string> architectures = parse_architectures(arch, options.target);
    if (!is_device(options.target)) api::fail(TOROID_ERROR_ARGUMENT, "'arch' is for programs for the device cuda");
    options.architectures = architectures;
  }
  options.archive_prefix = prefix_of_output(output, options);
  options.compile_threads = asked.threads;
  if (asked.operators != nullptr) options.operators.emplace_back(asked.operators);
  return options;
}

ToroidStatus compile(const char* model, const char* output, const ToroidCompileOptions* options, char* message, size_t message_size) {
  return api::guarded(TOROID_ERROR_PACKAGE, message, message_size, [&] {
    api::require_pointer(model, "model");
    api::require_pointer(output, "output");
    const ToroidCompileOptions asked = api::taken(options, "options");
    const CompileModelOptions how = driver_options(asked, output);
    const std::string weights(text_or(asked.weights, ""));
    check_outputs(output, weights);
    CompileSession session(asked.no_cache == 0);
    write_compiled(session.compile_file(model, how), output, weights, session);
  });
}

constexpr ToroidCompilerApi kApi = {
    .size = sizeof(ToroidCompilerApi),
    .version = TOROID_COMPILER_VERSION,
    .description = "toroid " TOROID_VERSION,
    .compile = compile,
    .compile_graph = compile_graph,
    .has_operator = has_operator,
};

}  // namespace
}  // namespace toroid::compiler

extern "C" __attribute__((visibility("default"))) const ToroidCompilerApi* toroid_compiler(uint32_t version) {
  return version >= 1 && version <= TOROID_COMPILER_VERSION ? &toroid::compiler::kApi : nullptr;
}
