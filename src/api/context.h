// The object behind ToroidContext, and the functions of the table that take it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/model.h"
#include "api/outputs.h"
#include "runtime/program/executable.h"
#include "toroid/toroid.h"

namespace toroid::api {

struct Context {
  Context(std::shared_ptr<SharedModel> model, int gpu, std::shared_ptr<RuntimePool> pool)
      : shared(std::move(model)), gpu(gpu), executable(shared->program, gpu, std::move(pool), shared->host_memory()), outputs(shared) {}

  std::shared_ptr<SharedModel> shared;
  int gpu;  // of a program for GPUs
  Executable executable;
  RunOutputs outputs;
  std::vector<InputView> inputs;  // of the call that runs
  std::string message;
};

ToroidStatus context_create(ToroidModel* model, const ToroidContextOptions* options, ToroidContext** context, char* message,
                            size_t message_size);
void context_destroy(ToroidContext* context);
ToroidStatus context_run(ToroidContext* context, const DLTensor* const* inputs, int32_t num_inputs, DLManagedTensor** outputs,
                         int32_t num_outputs, const ToroidRunOptions* options);
ToroidStatus context_wait(ToroidContext* context);
int32_t context_has_failed(ToroidContext* context);
const char* context_message(const ToroidContext* context);
ToroidStatus context_seed(ToroidContext* context, uint64_t seed);
ToroidStatus context_read_buffer(ToroidContext* context, const char* name, void* data, size_t bytes);
ToroidStatus context_reset_buffer(ToroidContext* context, const char* name);

}  // namespace toroid::api

struct ToroidContext {
  static constexpr uint64_t kMark = 0x746f726f69644358;
  uint64_t mark = 0;
  std::unique_ptr<toroid::api::Context> value;
  toroid::api::Use use;
  ToroidContext* next_closed = nullptr;
};
