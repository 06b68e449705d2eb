#include "api/model.h"

#include <cstring>
#include <memory>
#include <vector>

#include "api/structs.h"
#include "base/format.h"
#include "base/machine/out_of_memory.h"
#include "runtime/pool/pool.h"
#include "runtime/program/package.h"
#include "runtime/program/signature.h"

namespace toroid::api {
namespace {

std::shared_ptr<RuntimePool> pool_of(const ToroidModelOptions& options) {
  if (options.thread_pool == nullptr) {
    if (options.threads < 0) fail(TOROID_ERROR_ARGUMENT, "'threads' is {}", options.threads);
    return RuntimePool::shared(options.threads);
  }
  require_pointer(options.thread_pool, "thread_pool");
  const ToroidThreadPool& pool = *options.thread_pool;
  if (pool.parallel_for == nullptr || pool.threads < 1) fail(TOROID_ERROR_ARGUMENT, "'thread_pool' has no function, or no threads");
  return std::make_shared<RuntimePool>(HostThreads{pool.user, pool.threads, pool.parallel_for});
}

std::vector<PublicKey> keys_of(const ToroidModelOptions& options) {
  if (options.num_trusted_keys < 0) fail(TOROID_ERROR_ARGUMENT, "'num_trusted_keys' is {}", options.num_trusted_keys);
  if ((options.num_trusted_keys == 0) != (options.trusted_keys == nullptr))
    fail(TOROID_ERROR_ARGUMENT, "'trusted_keys' and 'num_trusted_keys' go together");
  std::vector<PublicKey> keys(static_cast<size_t>(options.num_trusted_keys));
  if (!keys.empty()) std::memcpy(keys.data(), options.trusted_keys, keys.size() * sizeof(PublicKey));
  return keys;
}

collectives::Communicator communicator_of(const ToroidCommunicator* given) {
  const ToroidCommunicator its = taken(given, "communicator");
  if (its.processes < 1 || its.rank < 0 || its.rank >= its.processes)
    fail(TOROID_ERROR_ARGUMENT, "'communicator' is process {} of {}", its.rank, its.processes);
  if (its.mpi == 0 && its.nccl == nullptr) fail(TOROID_ERROR_ARGUMENT, "'communicator' has neither MPI's nor NCCL's");
  return {/*mpi=*/its.mpi, /*nccl=*/its.nccl, /*rank=*/its.rank, /*processes=*/its.processes};
}

std::string conditions_of(const ToroidVariant& variant) {
  std::string text;
  for (const ToroidCondition& condition : rows(variant.conditions, variant.num_conditions))
    text += formatted("{}{} = {}", text.empty() ? "" : ", ", condition.symbol, condition.value);
  return text;
}

}  // namespace

ToroidModel* make_model(std::shared_ptr<SharedModel> shared) {
  const ToroidVariant& general = general_variant(shared->program->tables());
  for (int32_t i = 0; i < general.num_outputs; ++i) {
    if (general.outputs[i].kind != TOROID_OUTPUT_BUFFER_MUTATION) shared->outputs.push_back(i);
  }
  for (const LoadedVariant& variant : shared->program->variants()) shared->conditions.push_back(conditions_of(variant.tables));
  shared->isa = shared->program->isa();
  return Handles<ToroidModel>::make(std::make_unique<std::shared_ptr<SharedModel>>(std::move(shared)));
}

ToroidStatus model_open(const char* path, const ToroidModelOptions* given, ToroidModel** model, char* message, size_t message_size) {
  return guarded(TOROID_ERROR_PACKAGE, message, message_size, [&] {
    require_pointer(model, "model");
    *model = nullptr;
    const ToroidModelOptions options = taken(given, "options");
    auto shared = std::make_shared<SharedModel>();
    shared->options = options;
    if (options.allocator != nullptr) {
      require_pointer(options.allocator, "allocator");
      if (options.allocator->allocate == nullptr || options.allocator->release == nullptr)
        fail(TOROID_ERROR_ARGUMENT, "'allocator' lacks a function");
      shared->memory = HostMemory{options.allocator->user, options.allocator->allocate, options.allocator->release};
    }
    if (options.communicator != nullptr) shared->communicator = communicator_of(options.communicator);
    with_typed_memory("loading a program", [&] {
      const std::vector<PublicKey> keys = keys_of(options);
      Trust trust{keys};
      const PackageChecks checks{/*trust=*/keys.empty() ? nullptr : &trust, /*are_weights=*/options.unchecked_weights == 0};
      const char* const weights = options.weights;
      if (weights != nullptr && *weights == '\0')
        fail(TOROID_ERROR_ARGUMENT, Help{"give a file's path, or NULL for the weights in the package or beside it"},
             "'weights' is an empty path");
      shared->program =
          path == nullptr ? LoadedProgram::load_own(weights == nullptr ? "" : weights, pool_of(options), checks, shared->host_memory())
                          : LoadedProgram::load(path, weights != nullptr ? weights : path, pool_of(options), checks, shared->host_memory());
      *model = make_model(shared);
      shared->log(TOROID_LOG_INFO, formatted("{} is open", shared->program->name()));
    });
  });
}

void model_close(ToroidModel* model) { Handles<ToroidModel>::close(model); }

}  // namespace toroid::api
