// include/toroid/toroid.h: the table.
#include "api/context.h"
#include "api/model.h"
#include "runtime/kernels/registry/machine_limits.h"
#include "runtime/pool/pool.h"

namespace toroid::api {
namespace {

ToroidStatus measure_machine(int32_t threads, double* copied_bytes_per_s, double* product_flops_per_s, char* message, size_t message_size) {
  return guarded(TOROID_ERROR_ARGUMENT, message, message_size, [&] {
    require_pointer(copied_bytes_per_s, "copied_bytes_per_s");
    require_pointer(product_flops_per_s, "product_flops_per_s");
    if (threads < 0) fail(TOROID_ERROR_ARGUMENT, "'threads' is {}", threads);
    RuntimePool pool(threads);
    const MachineLimits limits = measure_machine_limits(pool);
    *copied_bytes_per_s = limits.copy_bytes_per_s;
    *product_flops_per_s = limits.multiply_flops_per_s;
  });
}

constexpr ToroidApi kApi = {
    /*size=*/sizeof(ToroidApi),
    /*version=*/TOROID_API_VERSION,
    /*description=*/"toroid " TOROID_VERSION,
    /*model_open=*/model_open,
    /*model_close=*/model_close,
    /*model_info=*/model_info,
    /*model_input=*/model_input,
    /*model_output=*/model_output,
    /*model_symbol=*/model_symbol,
    /*model_guard=*/model_guard,
    /*model_weight=*/model_weight,
    /*model_variant=*/model_variant,
    /*model_step=*/model_step,
    /*model_output_sizes=*/model_output_sizes,
    /*model_memory=*/model_memory,
    /*model_read_weight=*/model_read_weight,
    /*model_swap_weights=*/model_swap_weights,
    /*context_create=*/context_create,
    /*context_destroy=*/context_destroy,
    /*context_run=*/context_run,
    /*context_wait=*/context_wait,
    /*context_message=*/context_message,
    /*context_seed=*/context_seed,
    /*context_read_buffer=*/context_read_buffer,
    /*context_reset_buffer=*/context_reset_buffer,
    /*measure_machine=*/measure_machine,
    /*context_has_failed=*/context_has_failed};

}  // namespace
}  // namespace toroid::api

extern "C" __attribute__((visibility("default"))) const ToroidApi* toroid_api(uint32_t version) {
  return version >= 1 && version <= TOROID_API_VERSION ? &toroid::api::kApi : nullptr;
}
