// include/toroid/toroid_compiler.h: the table.
#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

#include "api/structs.h"
#include "compiler/graphs.h"
#include "driver/compile.h"
#include "driver/gpu_binaries.h"
#include "driver/package/archive.h"
#include "driver/package/write_compiled.h"
#include "support/sinks.h"
#include "toroid/toroid_compiler.h"
#include "tune/measure/worker.h"

namespace toroid::compiler {
namespace {

std::mutex hooks;  // of the host's functions, while they change

std::string_view text_or(const char* text, std::string_view otherwise) { return text != nullptr && *text != '\0' ? text : otherwise; }

}  // namespace

CompileModelOptions driver_options(const ToroidCompileOptions& asked, const std::filesystem::path& output) {
  if (asked.threads < 0) api::fail(TOROID_ERROR_ARGUMENT, "'threads' is {}", asked.threads);
  CompileModelOptions options;
  set_device(options, text_or(asked.device, "cpu"));
  if (asked.cpu != nullptr && options.target != codegen::Target::Cpu)
    api::fail(TOROID_ERROR_ARGUMENT, "'cpu' is for programs for the device cpu");
  if (!output.empty()) set_levels(options, text_or(asked.cpu, "native"));
  if (const std::string_view arch = text_or(asked.arch, ""); !arch.empty()) {
    const std::vector<std::string> architectures = parse_architectures(arch, options.target);
    if (!is_device(options.target)) api::fail(TOROID_ERROR_ARGUMENT, "'arch' is for programs for the device cuda");
    options.architectures = architectures;
  }
  if (asked.tensor_parallel < 0) api::fail(TOROID_ERROR_ARGUMENT, "'tensor_parallel' is {}", asked.tensor_parallel);
  options.shard.processes = std::max(asked.tensor_parallel, 1);
  options.shard.rank = asked.rank;
  options.shard.rules_file = text_or(asked.shard_rules, "");
  if (options.shard.processes == 1 && (asked.rank != 0 || !options.shard.rules_file.empty()))
    api::fail(TOROID_ERROR_ARGUMENT, "'rank' and 'shard_rules' are of a model that is cut: 'tensor_parallel' is {}", asked.tensor_parallel);
  if (!output.empty()) options.archive_prefix = prefix_of_output(output, options);
  options.compile_threads = asked.threads;
  if (asked.operators != nullptr) options.operators.emplace_back(asked.operators);
  return options;
}

namespace {

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

void (*log_of_host)(void*, int32_t, const char*) = nullptr;
void (*progress_of_host)(void*, const char*, int64_t, int64_t) = nullptr;

void write_to_host(void* user, LogLevel level, std::string_view text) noexcept {
  const int32_t of_host = level >= LogLevel::Error ? TOROID_LOG_ERROR : level >= LogLevel::Warn ? TOROID_LOG_WARNING : TOROID_LOG_INFO;
  try {
    log_of_host(user, of_host, std::string(text).c_str());
  } catch (const std::bad_alloc&) {  // a line less
  }
}

void set_log(void (*log)(void*, int32_t, const char*), void* user, int32_t least) {
  const std::lock_guard lock(hooks);
  set_log_sink({});
  log_of_host = log;
  if (log == nullptr) return;
  const LogLevel shown = least >= TOROID_LOG_ERROR ? LogLevel::Error : least >= TOROID_LOG_WARNING ? LogLevel::Warn : LogLevel::Info;
  set_log_sink({write_to_host, user, shown});
}

void tell_host(void* user, std::string_view what, uint64_t done, uint64_t total) noexcept {
  try {
    progress_of_host(user, std::string(what).c_str(), static_cast<int64_t>(done), static_cast<int64_t>(total));
  } catch (const std::bad_alloc&) {  // a step less
  }
}

void set_progress(void (*progress)(void*, const char*, int64_t, int64_t), void* user) {
  const std::lock_guard lock(hooks);
  set_progress_sink({});
  progress_of_host = progress;
  if (progress != nullptr) set_progress_sink({tell_host, user});
}

void set_command(const char* const* arguments, int32_t count) {
  tune::set_own_command(std::vector<std::string>(arguments, arguments + std::max(count, 0)));
}

constexpr ToroidCompilerApi kApi = {
    .size = sizeof(ToroidCompilerApi),
    .version = TOROID_COMPILER_VERSION,
    .description = "toroid " TOROID_VERSION,
    .compile = compile,
    .compile_graph = compile_graph,
    .has_operator = has_operator,
    .set_log = set_log,
    .set_progress = set_progress,
    .set_command = set_command,
    .compile_model = compile_model,
    .has_attention_gradient = has_attention_gradient,
};

}  // namespace
}  // namespace toroid::compiler

extern "C" __attribute__((visibility("default"))) const ToroidCompilerApi* toroid_compiler(uint32_t version) {
  return version >= 1 && version <= TOROID_COMPILER_VERSION ? &toroid::compiler::kApi : nullptr;
}
