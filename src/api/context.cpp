#include "api/context.h"

#include <algorithm>

#include "api/gpu_runs.h"
#include "api/steps.h"
#include "api/tensors.h"
#include "base/machine/out_of_memory.h"
#include "base/machine/processors.h"
#include "runtime/pool/pool.h"

namespace toroid::api {
namespace {

// Runs f with the context, which no other thread uses meanwhile.
template <class F>
ToroidStatus with_context(ToroidContext* handle, F&& f) noexcept {
  if (!Handles<ToroidContext>::is_open(handle)) return TOROID_ERROR_ARGUMENT;
  if (!handle->use.try_begin()) return TOROID_ERROR_ARGUMENT;
  Context& context = *handle->value;
  const ToroidStatus result = guarded(TOROID_ERROR_INPUT, context.message, [&] { f(context); });
  Handles<ToroidContext>::end_use(handle);
  return result;
}

size_t buffer_of(const Context& context, const char* name) {
  require_pointer(name, "name");
  const ToroidProgram& program = context.shared->program->tables();
  for (int32_t i = 0; i < program.num_constants; ++i) {
    if (program.constants[i].is_mutable != 0 && std::string_view(program.constants[i].name) == name) return static_cast<size_t>(i);
  }
  fail(TOROID_ERROR_NOT_FOUND, "the model has no mutable buffer '{}'", name);
}

std::shared_ptr<RuntimePool> own_pool_of(const ToroidContextOptions& options) {
  if (options.threads < 0) fail(TOROID_ERROR_ARGUMENT, "'threads' is {}", options.threads);
  if (options.num_processors < 0) fail(TOROID_ERROR_ARGUMENT, "'num_processors' is {}", options.num_processors);
  if ((options.num_processors == 0) != (options.processors == nullptr))
    fail(TOROID_ERROR_ARGUMENT, "'processors' and 'num_processors' go together");
  if (options.num_processors > 0 && options.threads == 0)
    fail(TOROID_ERROR_ARGUMENT, "'processors' are of a context's own threads, and 'threads' is 0");
  if (options.threads == 0) return nullptr;
  std::vector<int> processors(options.processors, options.processors + options.num_processors);
  const std::vector<int> allowed = processors.empty() ? processors : allowed_processors();
  for (const int processor : processors) {
    if (!allowed.empty() && !std::binary_search(allowed.begin(), allowed.end(), processor))
      fail(TOROID_ERROR_ARGUMENT, "'processors' has {}, which the process may not run on", processor);
  }
  return std::make_shared<RuntimePool>(options.threads, std::move(processors));
}

}  // namespace

ToroidStatus context_create(ToroidModel* model, const ToroidContextOptions* given, ToroidContext** context, char* message,
                            size_t message_size) {
  return guarded(TOROID_ERROR_ARGUMENT, message, message_size, [&] {
    require_pointer(context, "context");
    *context = nullptr;
    shared_of(model);
    const ToroidContextOptions options = taken(given, "options");
    if (options.has_gpu < 0 || options.has_gpu > 1) fail(TOROID_ERROR_ARGUMENT, "'has_gpu' is {}, and may be 0 or 1", options.has_gpu);
    with_typed_memory("making a context", [&] {
      std::shared_ptr<RuntimePool> own = own_pool_of(options);
      const int gpu = options.has_gpu != 0 ? options.gpu : (*model->value)->options.gpu;
      auto made = std::make_unique<Context>(*model->value, gpu, std::move(own));
      made->executable.set_seed(options.seed);
      *context = Handles<ToroidContext>::make(std::move(made));
    });
  });
}

void context_destroy(ToroidContext* context) { Handles<ToroidContext>::close(context); }

ToroidStatus context_run(ToroidContext* context, const DLTensor* const* inputs, int32_t num_inputs, DLManagedTensor** outputs,
                         int32_t num_outputs, const ToroidRunOptions* given) {
  return with_context(context, [&](Context& here) {
    const SharedModel& shared = *here.shared;
    if (static_cast<size_t>(num_outputs) != shared.outputs.size())
      fail(TOROID_ERROR_ARGUMENT, "'num_outputs' is {}, and the model has {}", num_outputs, shared.outputs.size());
    if (num_outputs > 0) require_pointer(outputs, "outputs");
    std::fill_n(outputs, num_outputs, nullptr);
    if (num_inputs < 0) fail(TOROID_ERROR_ARGUMENT, "'num_inputs' is {}", num_inputs);
    if (num_inputs > 0) require_pointer(inputs, "inputs");
    const ToroidRunOptions options = taken(given, "options");
    if (options.into != nullptr) require_pointer(options.into, "into");
    if (options.cancel != nullptr) require_pointer(options.cancel, "cancel");
    // The first input that the program has on the GPU tells where all of those are.
    const int32_t count = shared.program->tables().variants[0].contract.num_inputs;
    const auto has_on_host = [&](int32_t i) { return i < count && shared.is_on_host(&ToroidGpuPlacement::inputs, static_cast<size_t>(i)); };
    int32_t first = 0;
    while (first < num_inputs && has_on_host(first)) ++first;
    const bool has_input_there = first < num_inputs && inputs[first] != nullptr &&
                                 reinterpret_cast<uintptr_t>(inputs[first]) % alignof(DLTensor) == 0 &&
                                 static_cast<int32_t>(inputs[first]->device.device_type) == kDLCUDA;
    const bool is_on_gpu = here.executable.is_on_device() && (has_input_there || (options.on_gpu != 0 && first == num_inputs));
    const std::optional<int> gpu = is_on_gpu ? std::optional(here.gpu) : std::nullopt;
    const DLDevice device = is_on_gpu ? DLDevice{static_cast<decltype(DLDevice::device_type)>(kDLCUDA), *gpu} : kProcessor;
    here.inputs.clear();
    for (int32_t i = 0; i < num_inputs; ++i)
      here.inputs.push_back(view_of(inputs[i], "input", i, has_on_host(i) ? kProcessor : device, true));
    std::optional<collectives::UseCommunicator> processes;
    if (shared.communicator) processes.emplace(*shared.communicator);
    RunSteps steps(options, here.executable);
    steps.check();
    try {
      here.outputs.begin(options, outputs, here.inputs, gpu);
      if (is_on_gpu)
        run_on_stream(here, options.stream);
      else if (here.executable.is_on_device())
        run_with_copies(here);
      else
        here.executable.run(here.inputs, here.outputs, steps.is_wanted() ? &steps : nullptr);
      here.outputs.end();
    } catch (...) {
      here.outputs.drop();
      throw;
    }
  });
}

ToroidStatus context_wait(ToroidContext* context) {
  return with_context(context, [](Context& here) { here.executable.wait(); });
}

int32_t context_has_failed(ToroidContext* context) {
  return Handles<ToroidContext>::is_open(context) && context->value->executable.has_failed() ? 1 : 0;
}

const char* context_message(const ToroidContext* context) {
  return Handles<ToroidContext>::is_open(context) ? context->value->message.c_str() : "";
}

ToroidStatus context_seed(ToroidContext* context, uint64_t seed) {
  return with_context(context, [&](Context& here) { here.executable.set_seed(seed); });
}

ToroidStatus context_read_buffer(ToroidContext* context, const char* name, void* data, size_t bytes) {
  return with_context(context, [&](Context& here) {
    const size_t buffer = buffer_of(here, name);
    const auto needed = static_cast<size_t>(here.shared->program->tables().constants[buffer].bytes);
    if (bytes != needed) fail(TOROID_ERROR_ARGUMENT, "buffer '{}' has {} bytes, and 'bytes' is {}", name, needed, bytes);
    if (bytes > 0 && data == nullptr) fail(TOROID_ERROR_ARGUMENT, "'data' is null");
    here.executable.read_buffer(buffer, {static_cast<std::byte*>(data), bytes});
  });
}

ToroidStatus context_reset_buffer(ToroidContext* context, const char* name) {
  return with_context(context, [&](Context& here) {
    if (name != nullptr) return here.executable.reset_buffer(buffer_of(here, name));
    const ToroidProgram& program = here.shared->program->tables();
    for (int32_t i = 0; i < program.num_constants; ++i) {
      if (program.constants[i].is_mutable != 0) here.executable.reset_buffer(static_cast<size_t>(i));
    }
  });
}

}  // namespace toroid::api
