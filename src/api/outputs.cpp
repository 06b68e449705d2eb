#include "api/outputs.h"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "api/structs.h"
#include "api/tensors.h"
#include "base/format.h"
#include "base/machine/out_of_memory.h"
#include "runtime/cuda/device.h"
#include "tensor/strided_copy.h"

namespace toroid::api {
namespace {

constexpr std::align_val_t kAlignment{64};
constexpr size_t kLine = 64;
// What is larger lies in memory that comes back (runtime/program/output_memory.h).
constexpr size_t kMostInline = size_t{1} << 20;

// Memory of a GPU that is asked for and given back on a stream of its own.
class GpuMemory {
 public:
  GpuMemory(int gpu, size_t bytes) : device_(cuda::Device::get(gpu)) {
    const cuda::OnDevice here(device_);
    stream_.emplace();
    memory_.emplace(*stream_, bytes);
    stream_->synchronize();  // other streams use it
  }
  ~GpuMemory() {
    try {
      const cuda::OnDevice here(device_);
      memory_.reset();
      stream_.reset();
    } catch (const Error&) {  // the GPU is lost, and with it all memory
    }
  }
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;
  void* data() const { return memory_->data(); }

 private:
  const cuda::Device& device_;
  std::optional<cuda::Stream> stream_;
  std::optional<cuda::Memory> memory_;
};

// A tensor of the caller's, in one block: this, shape and strides, and elements where they are few.
struct Managed {
  DLManagedTensor tensor{};
  size_t block_bytes = 0;
  std::optional<HostMemory> memory;  // the block's
  HostTensor large;
  std::optional<GpuMemory> on_gpu;
};

size_t aligned(size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

void delete_managed(DLManagedTensor* self) {
  if (self == nullptr) return;
  auto* const managed = static_cast<Managed*>(self->manager_ctx);
  const std::optional<HostMemory> memory = managed->memory;
  const size_t bytes = managed->block_bytes;
  managed->~Managed();
  if (memory)
    memory->release(memory->user, managed, bytes, kLine);
  else
    ::operator delete(managed, kAlignment);
}

DLDevice dlpack_device(std::optional<int> gpu) {
  return {static_cast<decltype(DLDevice::device_type)>(gpu ? kDLCUDA : kDLCPU), gpu.value_or(0)};
}

// Room for `inline_bytes` elements is behind the struct; then `data` is there.
Managed* make_managed(DLDevice device, DType dtype, Span<const int64_t> sizes, size_t inline_bytes, const HostMemory* memory = nullptr) {
  const size_t rank = sizes.size(), head = aligned(sizeof(Managed) + 2 * rank * sizeof(int64_t)), all = head + aligned(inline_bytes);
  void* block = nullptr;
  if (memory == nullptr) {
    block = asking_for(all, "an output", [&] { return ::operator new(all, kAlignment); });
  } else {
    block = memory->allocate(memory->user, all, kLine);
    if (block == nullptr) out_of_memory(all, "an output");
    if (reinterpret_cast<uintptr_t>(block) % kLine != 0) {
      memory->release(memory->user, block, all, kLine);
      fail(TOROID_ERROR_ARGUMENT, "'allocator' gave memory that is not at a multiple of {}", kLine);
    }
  }
  auto* const managed = new (block) Managed;
  managed->block_bytes = all;
  if (memory != nullptr) managed->memory = *memory;
  auto* const shape = reinterpret_cast<int64_t*>(managed + 1);
  std::copy(sizes.begin(), sizes.end(), shape);
  int64_t stride = 1;
  for (size_t d = rank; d-- > 0;) {
    shape[rank + d] = stride;
    stride *= std::max<int64_t>(sizes[d], 1);
  }
  void* const data = inline_bytes > 0 ? static_cast<char*>(block) + head : nullptr;
  managed->tensor = {{data, device, static_cast<int32_t>(rank), dlpack_dtype(dtype), shape, shape + rank, 0}, managed, delete_managed};
  return managed;
}

DLManagedTensor* make_on_host(OutputMemory& memory, const HostMemory* host, DType dtype, Span<const int64_t> sizes) {
  const auto bytes = static_cast<size_t>(bytes_of(dtype, sizes));
  if (bytes < kMostInline || host != nullptr)
    return &make_managed(dlpack_device({}), dtype, sizes, std::max<size_t>(bytes, 1), host)->tensor;
  HostTensor large = memory.tensor(dtype, {sizes.begin(), sizes.end()});
  Managed* const managed = make_managed(dlpack_device({}), dtype, sizes, 0);
  managed->tensor.dl_tensor.data = large.mutable_data<std::byte>();
  managed->large = std::move(large);
  return &managed->tensor;
}

DLManagedTensor* make_on_gpu(int gpu, DType dtype, Span<const int64_t> sizes) {
  Managed* const managed = make_managed(dlpack_device(gpu), dtype, sizes, 0);
  try {
    managed->on_gpu.emplace(gpu, static_cast<size_t>(bytes_of(dtype, sizes)));
  } catch (...) {
    delete_managed(&managed->tensor);
    throw;
  }
  managed->tensor.dl_tensor.data = managed->on_gpu->data();
  return &managed->tensor;
}

// The bytes between the lowest and the highest element of a tensor; none where it has no elements.
Span<const std::byte> extent_of(const InputView& view) {
  if (std::find(view.sizes.begin(), view.sizes.end(), 0) != view.sizes.end()) return {};
  const Reach reach = reach_of(view.sizes, view.strides, size_bytes(view.dtype));
  const int64_t before = *reach.before.value(), behind = *reach.behind.value();  // view_of knows that all elements have addresses
  return {view.data + before, static_cast<size_t>(behind - before)};
}

// Whether no two elements lie at one place, in whatever direction.
bool has_elements_apart(const InputView& view) {
  std::vector<int64_t> distances;
  for (size_t d = 0; d < view.sizes.size(); ++d) distances.push_back(view.sizes[d] > 1 ? std::abs(view.strides[d]) : 0);
  return are_apart(view.sizes, distances);
}

bool overlap(Span<const std::byte> a, Span<const std::byte> b) {
  return !a.empty() && !b.empty() && a.data() < b.data() + b.size() && b.data() < a.data() + a.size();
}

}  // namespace

RunOutputs::RunOutputs(std::shared_ptr<const SharedModel> model) : model_(std::move(model)), count_(model_->outputs.size()) {
  const std::vector<int32_t>& outputs = model_->outputs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto position = static_cast<size_t>(outputs[i]);
    if (position >= positions_.size()) positions_.resize(position + 1, -1);
    positions_[position] = static_cast<int32_t>(i);
  }
}

std::optional<int> RunOutputs::gpu_of(size_t output) const {
  return model_->device_type(&ToroidGpuPlacement::outputs, output) == kDLCPU ? std::nullopt : gpu_;
}
DLDevice RunOutputs::device_of(size_t output) const { return dlpack_device(gpu_of(output)); }

void RunOutputs::begin(const ToroidRunOptions& options, DLManagedTensor** made, Span<const InputView> inputs, std::optional<int> gpu) {
  options_ = &options;
  made_ = made;
  gpu_ = gpu;
  memory_.begin_call();
  if (options.into == nullptr) return;
  std::vector<Span<const std::byte>> written;
  for (size_t i = 0; i < count_; ++i) {
    if (options.into[i] == nullptr) continue;
    const InputView view = view_of(options.into[i], "the memory for output", static_cast<int32_t>(i),
                                   device_of(static_cast<size_t>(model_->outputs[i])), true);
    if (view.strides != nullptr && !has_elements_apart(view))
      fail(TOROID_ERROR_INPUT, "the memory for output {} has several elements at one place", i);
    const Span<const std::byte> place = extent_of(view);
    for (size_t k = 0; k < inputs.size(); ++k) {
      if (overlap(place, extent_of(inputs[k])))
        fail(TOROID_ERROR_INPUT, Help{"give each memory of its own"}, "the memory for output {} overlaps input {}", i, k);
    }
    if (std::any_of(written.begin(), written.end(), [&](auto other) { return overlap(place, other); }))
      fail(TOROID_ERROR_INPUT, "the memory for output {} overlaps that of another one", i);
    written.push_back(place);
  }
}

void* RunOutputs::place_into(size_t output, const DLTensor& into, DType dtype, Span<const int64_t> sizes) {
  const int32_t position = positions_[output];
  const InputView view = view_of(&into, "the memory for output", position, device_of(output), true);
  if (view.dtype != dtype || !std::equal(sizes.begin(), sizes.end(), view.sizes.begin(), view.sizes.end()))
    fail(TOROID_ERROR_INPUT, "the memory for output {} is {}{}, and the output is {}{}", position, to_string(view.dtype),
         shape_text(view.sizes), to_string(dtype), shape_text(sizes));
  const bool is_in_rows = view.strides == nullptr || is_same_layout(sizes, {view.strides, sizes.size()}, strides_of(sizes));
  if (is_in_rows && reinterpret_cast<uintptr_t>(view.data) % static_cast<size_t>(size_bytes(dtype)) == 0)
    return const_cast<std::byte*>(view.data);
  if (gpu_of(output)) fail(TOROID_ERROR_INPUT, "the memory for output {} is not in row-major order", position);
  later_.push_back({output, HostTensor(dtype, {sizes.begin(), sizes.end()}), &into});
  return later_.back().value.mutable_data<std::byte>();
}

void* RunOutputs::place(size_t output, DType dtype, Span<const int64_t> sizes) {
  const auto position = static_cast<size_t>(positions_[output]);
  if (options_->into != nullptr && options_->into[position] != nullptr) return place_into(output, *options_->into[position], dtype, sizes);
  if (options_->allocate_output == nullptr) {
    const std::optional<int> gpu = gpu_of(output);
    made_[position] = gpu ? make_on_gpu(*gpu, dtype, sizes) : make_on_host(memory_, model_->host_memory(), dtype, sizes);
    return made_[position]->dl_tensor.data;
  }
  DLTensor tensor{
      nullptr, device_of(output), static_cast<int32_t>(sizes.size()), dlpack_dtype(dtype), const_cast<int64_t*>(sizes.data()), nullptr, 0};
  const auto bytes = static_cast<size_t>(bytes_of(dtype, sizes));
  void* const given = options_->allocate_output(options_->allocate_user, static_cast<int32_t>(position), &tensor, bytes);
  if (given == nullptr && bytes > 0) fail(TOROID_ERROR_MEMORY, "'allocate_output' gave no memory for output {}", position);
  if (reinterpret_cast<uintptr_t>(given) % static_cast<size_t>(size_bytes(dtype)) != 0)
    fail(TOROID_ERROR_ARGUMENT, "'allocate_output' gave memory for output {} that is not aligned to an element", position);
  return given;
}

void RunOutputs::lend(size_t output, const DeviceTensor& tensor) {
  const auto position = static_cast<size_t>(positions_[output]);
  if (options_->into != nullptr && options_->into[position] != nullptr)
    fail(TOROID_ERROR_UNSUPPORTED, "output {} is a late one, which has no memory of the caller's on a GPU", position);
  Managed* const managed = make_managed(device_of(output), tensor.dtype, tensor.sizes, 0);
  managed->tensor.dl_tensor.data = tensor.data;
  made_[position] = &managed->tensor;
}

void RunOutputs::end() {
  for (const Later& each : later_) {
    const InputView view = view_of(each.into, "output", 0, device_of(each.output), true);
    copy_strided(const_cast<std::byte*>(view.data), strides_given(view), each.value.bytes().data(), strides_of(view.sizes), view.sizes,
                 static_cast<size_t>(size_bytes(view.dtype)));
  }
  later_.clear();
  made_ = nullptr;
}

void RunOutputs::drop() {
  later_.clear();
  if (made_ == nullptr) return;
  for (size_t i = 0; i < count_; ++i) {
    delete_managed(made_[i]);
    made_[i] = nullptr;
  }
  made_ = nullptr;
}

}  // namespace toroid::api
