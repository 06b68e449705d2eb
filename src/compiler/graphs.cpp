#include "compiler/graphs.h"

#include <unistd.h>

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "api/model.h"
#include "api/structs.h"
#include "driver/compile.h"
#include "graph/text/text.h"
#include "passes/decompose/engine/decompose.h"
#include "runtime/pool/pool.h"
#include "schedule/cuda/attention/attention_gradient_kernel.h"

namespace toroid::compiler {
namespace {

// Of all compilations of the process, one with the cache and one without: the compiler is probed once. They live as long as the process; a
// child of fork() makes its own, since a connection to the cache is one process's.
CompileSession& session(bool use_cache) {
  static std::mutex mutex;
  static std::array<std::pair<pid_t, CompileSession*>, 2> sessions = {};
  const std::lock_guard lock(mutex);
  auto& [process, made] = sessions[use_cache ? 1 : 0];
  if (process != ::getpid()) {
    made = new CompileSession(use_cache);
    process = ::getpid();
  }
  return *made;
}

std::string text_or_empty(const char* text) { return text != nullptr ? text : ""; }

CompileModelOptions options_of_graph(const ToroidGraphOptions& asked) {
  if (asked.threads < 0) api::fail(TOROID_ERROR_ARGUMENT, "'threads' is {}", asked.threads);
  CompileModelOptions options;
  set_device(options, asked.device != nullptr ? asked.device : "cpu");
  options.compile_threads = asked.threads;
  options.choose.measure = asked.measure != 0;
  options.assertions = asked.assertions != 0;
  options.save_source = text_or_empty(asked.save_source);
  options.dump_ir = text_or_empty(asked.dump_ir);
  return options;
}

// Says that the constants are needed no more when the last that has it is gone.
std::shared_ptr<const void> owner_of(const ToroidGraphOptions& asked) {
  if (asked.release == nullptr) return nullptr;
  return {static_cast<const void*>(""), [release = asked.release, user = asked.release_user](const void*) { release(user); }};
}

FindConstant finder(const ToroidGraphOptions& asked, std::shared_ptr<const void> owner) {
  if (asked.num_constants < 0) api::fail(TOROID_ERROR_ARGUMENT, "'num_constants' is {}", asked.num_constants);
  if (asked.num_constants > 0) api::require_pointer(asked.constants, "constants");
  std::map<std::string, std::span<const std::byte>> constants;
  for (int32_t i = 0; i < asked.num_constants; ++i) {
    const ToroidGraphConstant& each = asked.constants[i];
    api::require_pointer(each.name, "name");
    if (each.bytes > 0) api::require_pointer(static_cast<const char*>(each.data), "data");
    constants[each.name] = {static_cast<const std::byte*>(each.data), each.bytes};
  }
  return [constants = std::move(constants), owner = std::move(owner)](ConstantData& data) {
    const auto found = constants.find(data.name);
    if (found == constants.end()) return;
    data.bytes = found->second;
    data.owner = owner;
  };
}

std::shared_ptr<LoadedProgram> load(const CompiledModel& model) {
  return std::make_shared<LoadedProgram>(model.library, model.constants, model.owner, model.name, RuntimePool::shared());
}

// What was compiled as a model of this process.
void take(const CompiledModel& compiled, const CompileModelOptions& options, ToroidModel** model, ToroidGraphFacts* facts) {
  auto shared = std::make_shared<api::SharedModel>();
  shared->options.gpu = options.gpu;
  shared->program = load(compiled);
  *model = api::make_model(std::move(shared));
  if (facts == nullptr) return;
  api::fill(facts,
            ToroidGraphFacts{.size = 0,
                             .from_cache = compiled.from_cache ? 1 : 0,
                             .kernels = compiled.kernels,
                             .kernel_calls = compiled.kernel_calls,
                             .library_calls = compiled.library_calls,
                             .seconds = compiled.seconds()},
            "facts");
}

}  // namespace

ToroidStatus compile_graph(const char* text, size_t text_size, const ToroidGraphOptions* given, ToroidModel** model,
                           ToroidGraphFacts* facts, char* message, size_t message_size) {
  return api::guarded(TOROID_ERROR_PACKAGE, message, message_size, [&] {
    api::require_pointer(model, "model");
    *model = nullptr;
    const ToroidGraphOptions asked = api::taken(given, "options");
    const std::shared_ptr<const void> owner = owner_of(asked);
    api::require_pointer(text, "text");
    const CompileModelOptions options = options_of_graph(asked);
    const CompiledModel compiled = session(asked.no_cache == 0).compile(parse_text({text, text_size}, finder(asked, owner)), options);
    take(compiled, options, model, facts);
  });
}

ToroidStatus compile_model(const char* path, const ToroidCompileOptions* given, ToroidModel** model, ToroidGraphFacts* facts, char* message,
                           size_t message_size) {
  return api::guarded(TOROID_ERROR_PACKAGE, message, message_size, [&] {
    api::require_pointer(model, "model");
    *model = nullptr;
    api::require_pointer(path, "path");
    const ToroidCompileOptions asked = api::taken(given, "options");
    for (const auto& [name, text] : {std::pair("weights", asked.weights), std::pair("cpu", asked.cpu), std::pair("arch", asked.arch)})
      if (text != nullptr) api::fail(TOROID_ERROR_ARGUMENT, "'{}' is for packages, and this is a program of this process", name);
    const CompileModelOptions options = driver_options(asked, "");
    take(session(asked.no_cache == 0).compile_file(path, options), options, model, facts);
  });
}

int32_t has_operator(const char* name) {
  if (name == nullptr) return 0;
  const Schema* const schema = find_schema(name);
  return schema != nullptr && is_supported(*schema) ? 1 : 0;
}

constexpr int32_t kMostDims = 64;  // of a tensor

int32_t has_attention_gradient(const char* dtype, int32_t rank, int64_t width, int64_t value_width) {
  const auto parsed = dtype == nullptr ? std::nullopt : parse_dtype(dtype);
  if (!parsed || rank < 1 || rank > kMostDims) return 0;
  TensorType q{.dtype = *parsed, .sizes = std::vector<sym::Expr>(static_cast<size_t>(rank), 1)}, v = q;
  q.sizes.back() = width;
  v.sizes.back() = value_width;
  return schedule::has_attention_gradient_kernel(q, v) ? 1 : 0;
}

}  // namespace toroid::compiler
