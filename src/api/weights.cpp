// Weights by name.
#include <algorithm>

#include "api/gpu_runs.h"
#include "api/model.h"
#include "api/structs.h"
#include "api/tensors.h"
#include "base/machine/out_of_memory.h"
#include "tensor/strided_copy.h"

namespace toroid::api {
namespace {

size_t position_of(const ToroidProgram& program, const char* name) {
  require_pointer(name, "name");
  const Span<const ToroidConstantInfo> all = rows(program.constants, program.num_constants);
  const auto found = std::find_if(
      all.begin(), all.end(), [&](const ToroidConstantInfo& constant) { return *name != '\0' && std::string_view(constant.name) == name; });
  if (found == all.end()) fail(TOROID_ERROR_NOT_FOUND, "the model has no weight '{}'", name);
  return static_cast<size_t>(found - all.begin());
}

// Those that the program reads it with.
std::vector<int64_t> strides_of_constant(const ToroidConstantInfo& constant) {
  if (constant.strides == nullptr) return strides_of(rows(constant.sizes, constant.rank));
  return {constant.strides, constant.strides + constant.rank};
}

LoadedProgram::NewValue new_value(const SharedModel& model, const char* name, const DLTensor* tensor, int32_t number) {
  const ToroidProgram& program = model.program->tables();
  const size_t position = position_of(program, name);
  const ToroidConstantInfo& constant = program.constants[position];
  // A program for a GPU takes them from there too.
  const bool is_on_gpu = model.device_type() == kDLCUDA && tensor != nullptr &&
                         reinterpret_cast<uintptr_t>(tensor) % alignof(DLTensor) == 0 &&
                         static_cast<int32_t>(tensor->device.device_type) == kDLCUDA;
  InputView view = view_of(tensor, "tensor", number, is_on_gpu ? tensor->device : kProcessor, true);
  const Span<const int64_t> sizes = rows(constant.sizes, constant.rank);
  if (view.dtype != static_cast<DType>(constant.dtype) || !std::equal(sizes.begin(), sizes.end(), view.sizes.begin(), view.sizes.end()))
    fail(TOROID_ERROR_INPUT, "the new value of weight '{}' is {}{}, and the weight is {}", name, to_string(view.dtype),
         shape_text(view.sizes), constant.type);
  std::optional<HostTensor> copied;
  if (is_on_gpu) {
    copied = values_on_gpu(view, tensor->device.device_id, formatted("tensor {}", number));
    view.data = copied->bytes().data();
    view.strides = nullptr;
  }
  const auto bytes = static_cast<size_t>(constant.bytes);
  auto made = asking_for(bytes, "a weight", [&] { return std::make_shared<HostBytes>(bytes, model.host_memory()); });
  copy_strided(reinterpret_cast<std::byte*>(made->data()), strides_of_constant(constant), view.data, strides_given(view), sizes,
               static_cast<size_t>(size_bytes(view.dtype)));
  return {position, std::move(made)};
}

}  // namespace

ToroidStatus model_read_weight(const ToroidModel* model, const char* name, void* data, size_t bytes, char* message, size_t message_size) {
  return guarded(TOROID_ERROR_ARGUMENT, message, message_size, [&] {
    const LoadedProgram& program = *shared_of(model).program;
    const size_t position = position_of(program.tables(), name);
    const ToroidConstantInfo& constant = program.tables().constants[position];
    const Span<const int64_t> sizes = rows(constant.sizes, constant.rank);
    const auto dtype = static_cast<DType>(constant.dtype);
    const auto needed = static_cast<size_t>(bytes_of(dtype, sizes));
    if (bytes != needed) fail(TOROID_ERROR_ARGUMENT, "weight '{}' has {} bytes, and 'bytes' is {}", name, needed, bytes);
    if (bytes > 0 && data == nullptr) fail(TOROID_ERROR_ARGUMENT, "'data' is null");
    const std::shared_ptr<const Weights> weights = program.weights();
    copy_strided(static_cast<std::byte*>(data), strides_of(sizes), static_cast<const std::byte*>(weights->constants()[position]),
                 strides_of_constant(constant), sizes, static_cast<size_t>(size_bytes(dtype)));
  });
}

ToroidStatus model_swap_weights(ToroidModel* model, const char* const* names, const DLTensor* const* tensors, int32_t count, char* message,
                                size_t message_size) {
  return guarded(TOROID_ERROR_INPUT, message, message_size, [&] {
    const SharedModel& shared = shared_of(model);
    if (count < 0) fail(TOROID_ERROR_ARGUMENT, "'count' is {}", count);
    if (count > 0) {
      require_pointer(names, "names");
      require_pointer(tensors, "tensors");
    }
    LoadedProgram& program = *shared.program;
    with_typed_memory("replacing weights", [&] {
      std::vector<LoadedProgram::NewValue> values;
      for (int32_t i = 0; i < count; ++i) values.push_back(new_value(shared, names[i], tensors[i], i));
      program.replace_weights(values);
    });
    shared.log(TOROID_LOG_INFO, formatted("{} weights of {} are new", count, program.name()));
  });
}

}  // namespace toroid::api
