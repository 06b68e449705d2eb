#include "api/gpu_runs.h"

#include "api/tensors.h"
#include "runtime/cuda/device.h"
#include "tensor/strided_copy.h"

namespace toroid::api {

void run_with_copies(Context& context) {
  std::vector<HostTensor> inputs;
  for (const InputView& view : context.inputs) {
    HostTensor dense(view.dtype, {view.sizes.begin(), view.sizes.end()});
    copy_strided(dense.mutable_data<std::byte>(), strides_of(view.sizes), view.data, strides_given(view), view.sizes,
                 static_cast<size_t>(size_bytes(view.dtype)));
    inputs.push_back(std::move(dense));
  }
  const std::vector<HostTensor> results = context.executable.run(inputs);
  for (const int32_t output : context.shared->outputs) {
    const HostTensor& result = results[static_cast<size_t>(output)];
    void* const place = context.outputs.place(static_cast<size_t>(output), result.dtype(), result.sizes());
    std::copy(result.bytes().begin(), result.bytes().end(), static_cast<std::byte*>(place));
  }
}

void run_on_stream(Context& context, void* stream) {
  std::vector<DeviceTensor> inputs;
  for (const InputView& view : context.inputs) {
    DeviceTensor tensor{view.dtype, {view.sizes.begin(), view.sizes.end()}, const_cast<std::byte*>(view.data), {}};
    if (view.strides != nullptr) tensor.strides.assign(view.strides, view.strides + view.sizes.size());
    inputs.push_back(std::move(tensor));
  }
  std::vector<DeviceTensor> outputs = context.executable.outputs_of(inputs);
  const auto is_late = [&](int32_t output) { return context.executable.last_variant().outputs[output].is_late != 0; };
  for (const int32_t output : context.shared->outputs) {
    DeviceTensor& tensor = outputs[static_cast<size_t>(output)];
    if (!is_late(output)) tensor.data = context.outputs.place(static_cast<size_t>(output), tensor.dtype, tensor.sizes);
  }
  context.executable.start(inputs, outputs, stream);
  for (const int32_t output : context.shared->outputs) {
    if (is_late(output)) context.outputs.lend(static_cast<size_t>(output), outputs[static_cast<size_t>(output)]);
  }
}

HostTensor values_on_gpu(const InputView& view, int gpu, const std::string& what) {
  HostTensor values(view.dtype, {view.sizes.begin(), view.sizes.end()});
  if (values.bytes().empty()) return values;
  const auto width = static_cast<size_t>(size_bytes(view.dtype));
  const Reach reach = reach_of(view.sizes, view.strides, size_bytes(view.dtype));
  const int64_t before = *reach.before.value(), behind = *reach.behind.value();  // view_of knows that all elements have addresses
  std::vector<std::byte> all(static_cast<size_t>(behind - before));
  cuda::read_from_device(all.data(), view.data + before, all.size(), cuda::Device::get(gpu), what);
  copy_strided(values.mutable_data<std::byte>(), strides_of(view.sizes), all.data() - before, strides_given(view), view.sizes, width);
  return values;
}

}  // namespace toroid::api
