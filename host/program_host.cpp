// include/toroid/program_host.h over runtime/program/executable.h.
#include "toroid/program_host.h"

#include "base/error.h"
#include "base/machine/per_thread.h"
#include "runtime/kernels/registry/machine_limits.h"
#include "runtime/pool/pool.h"
#include "runtime/program/executable.h"

struct ToroidLoaded {
  toroid::Executable executable;
};

namespace {

toroid::PerThread<std::string> messages;

// Null where there is no memory for one.
std::string* message() {
  try {
    return &messages.get();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

// Nothing throws across the interface.
template <class Body>
std::invoke_result_t<Body> guarded(std::invoke_result_t<Body> failed, const Body& body) {
  std::string* const text = message();
  if (text == nullptr) return failed;
  text->clear();
  try {
    return body();
  } catch (const toroid::Error& error) {
    *text = error.report();
  } catch (const std::exception& error) {
    *text = error.what();
  }
  return failed;
}

}  // namespace

#define TOROID_EXPORT extern "C" __attribute__((visibility("default")))

TOROID_EXPORT ToroidLoaded* toroid_load(const char* library, const char* weights, int32_t threads) {
  return guarded(nullptr, [&]() -> ToroidLoaded* { return new ToroidLoaded{toroid::Executable::load(library, weights, threads, 0)}; });
}

TOROID_EXPORT void toroid_unload(ToroidLoaded* program) { delete program; }

TOROID_EXPORT int32_t toroid_run(ToroidLoaded* program, const ToroidInput* inputs, int32_t num_inputs) {
  return guarded(int32_t{1}, [&] {
    std::vector<toroid::HostTensor> tensors;
    for (int32_t i = 0; i < num_inputs; ++i) {
      const ToroidInput& input = inputs[i];
      const auto dtype = static_cast<toroid::DType>(input.dtype);
      std::vector<int64_t> sizes(input.sizes, input.sizes + input.rank);
      const size_t bytes = static_cast<size_t>(toroid::bytes_of(dtype, sizes));
      tensors.emplace_back(dtype, std::move(sizes), std::span(static_cast<const std::byte*>(input.data), bytes), nullptr);
    }
    program->executable.run(tensors);
    return int32_t{0};
  });
}

TOROID_EXPORT const double* toroid_step_seconds(const ToroidLoaded* program, int32_t step, int64_t* count) {
  const auto& times = program->executable.step_times();
  const auto position = static_cast<size_t>(step);
  if (position >= times.size() || times[position].empty()) return nullptr;
  *count = static_cast<int64_t>(times[position].size());
  return times[position].data();
}

TOROID_EXPORT int32_t toroid_measure_limits(int32_t threads, double* copy_bytes_per_s, double* multiply_flops_per_s) {
  return guarded(int32_t{1}, [&] {
    toroid::RuntimePool pool(threads);
    const toroid::MachineLimits limits = toroid::measure_machine_limits(pool);
    *copy_bytes_per_s = limits.copy_bytes_per_s;
    *multiply_flops_per_s = limits.multiply_flops_per_s;
    return int32_t{0};
  });
}

TOROID_EXPORT const char* toroid_message(void) {
  const std::string* const text = message();
  return text != nullptr ? text->c_str() : "out of memory";
}
