#include "runtime/cuda/cuda_callbacks.h"

#include <algorithm>
#include <list>

#include "base/error.h"
#include "base/machine/out_of_memory.h"
#include "runtime/cuda/tensor_map.h"

namespace toroid::cuda {
namespace {

// As kernels write it (codegen/cuda/prelude/types.inc).
struct Failure {
  int32_t code, step;
  int64_t index, size;
};

std::vector<const void*> images_of(const ToroidGpuProgram& program) {
  return std::vector<const void*>(program.binaries, program.binaries + program.num_binaries);  // in braces they would be its two elements
}

// The elements of memory that an operand may touch, from the first to the last.
struct Window {
  int64_t first = 0, count = 0;
};
Window window_of(const ToroidOperand& operand) {
  Window window{0, 1};
  int64_t last = 0;
  for (int32_t d = 0; d < operand.rank; ++d) {
    if (operand.sizes[d] == 0) return {0, 0};
    const int64_t reach = (operand.sizes[d] - 1) * operand.strides[d];
    (reach < 0 ? window.first : last) += reach;
  }
  window.count = last - window.first + 1;
  return window;
}

}  // namespace

struct CudaCallbacks::Entries {
  static CudaCallbacks& host(const ToroidRuntime* runtime) { return static_cast<CudaCallbacks&>(host_of(runtime)); }
  static int32_t launch(const ToroidRuntime* runtime, const ToroidLaunch* launch) {
    return guarded(runtime, 1, [&] { return host(runtime).launch(*launch), 0; });
  }
  static int32_t copy(const ToroidRuntime* runtime, void* to, const void* from, int64_t bytes) {
    return guarded(runtime, 1, [&] { return copy_within(host(runtime).stream_, to, from, static_cast<size_t>(bytes)), 0; });
  }
  static int32_t read(const ToroidRuntime* runtime, void* to, const void* from, int64_t bytes) {
    return guarded(runtime, 1, [&] { return host(runtime).read(to, from, bytes), 0; });
  }
};

CudaCallbacks::CudaCallbacks(RuntimePool& pool, const ToroidProgram& program, const ToroidGpuProgram& kernels, const Stream& stream)
    : RuntimeCallbacks(pool),
      program_(program),
      stream_(stream),
      binaries_(images_of(kernels)),
      products_(stream),
      failure_(stream, sizeof(Failure)) {
  table_ = {own_table(), Entries::launch, Entries::copy, Entries::read, failure_.data()};
}

int32_t CudaCallbacks::run(Entry* entry, const ToroidCall& call, Call& state) {
  late_outputs_.clear();
  if (!waits_) return RuntimeCallbacks::run(entry, call, state);
  clear(stream_, failure_.data(), sizeof(Failure));
  if (const int32_t failed = RuntimeCallbacks::run(entry, call, state); failed != 0) return failed;
  Failure found{};
  copy_out(stream_, &found, failure_.data(), sizeof found);
  for (const auto& [position, memory] : late_outputs_) {
    HostTensor& tensor = state.outputs[static_cast<size_t>(position)];
    copy_out(stream_, tensor.mutable_data<std::byte>(), memory.data(), tensor.bytes().size());
  }
  stream_.synchronize();
  if (found.code == 0) return 0;
  program_.bad_index[0] = found.index;
  program_.bad_index[1] = found.size;
  return (found.step + 1) | found.code << 28;
}

void* CudaCallbacks::allocate(int64_t bytes) {
  Memory made(stream_, static_cast<size_t>(bytes));
  void* const data = made.data();
  used_.emplace(data, std::move(made));
  return data;
}

void CudaCallbacks::release(void* data) { used_.erase(data); }

void* CudaCallbacks::output(int32_t position, const int64_t* sizes) {
  static_cast<void>(RuntimeCallbacks::output(position, sizes));  // the tensor that the caller gets
  const size_t bytes = call_state().outputs[static_cast<size_t>(position)].bytes().size();
  return late_outputs_.emplace(position, Memory(stream_, bytes)).first->second.data();
}

void CudaCallbacks::launch(const ToroidLaunch& launch) {
  constexpr int64_t kMostBlocks = (int64_t{1} << 31) - 1;
  if (launch.blocks > kMostBlocks)
    throw Error(ErrorKind::InvalidInput, formatted("the kernel '{}' needs {} blocks of threads, and a GPU starts {} at most", launch.kernel,
                                                   launch.blocks, kMostBlocks));
  std::vector<EncodedTensorMap> maps(static_cast<size_t>(launch.num_maps));
  for (size_t i = 0; i < maps.size(); ++i) {
    maps[i] = encode(launch.maps[i]);
    launch.arguments[i] = &maps[i];
  }
  int64_t blocks = launch.blocks;
  if (launch.resident > 0) blocks = std::min<int64_t>(blocks, Device::get().multiprocessors() / launch.resident * launch.resident);
  check(driver().launch(binaries_.function(launch.kernel, launch.shared_bytes), static_cast<unsigned>(blocks), 1, 1,
                        static_cast<unsigned>(launch.threads), 1, 1, static_cast<unsigned>(launch.shared_bytes), stream_.handle(),
                        launch.arguments, nullptr),
        formatted("starting the kernel '{}'", launch.kernel).c_str());
}

void CudaCallbacks::read(void* to, const void* from, int64_t bytes) {
  copy_out(stream_, to, from, static_cast<size_t>(bytes));
  stream_.synchronize();
}

void CudaCallbacks::call(const ToroidLibraryCall& call) {
  if (!multiply(call)) call_on_host(call);
}

// Batches that no single stride tells, as the heads of attention, go one by one along the first dim.
bool CudaCallbacks::multiply(const ToroidLibraryCall& call) {
  if (const std::optional<Product> product = as_product(call))
    return products_.run(*product, call.inputs[0].data, call.inputs[1].data, call.outputs[0].data);
  if (std::string_view(call.name).substr(0, 6) != "matmul" || call.num_inputs != 2 || call.outputs[0].rank <= 2) return false;
  const auto slice = [](const ToroidOperand& operand, int64_t i) {
    ToroidOperand result = operand;
    result.data = static_cast<char*>(operand.data) + i * operand.strides[0] * size_bytes(static_cast<DType>(operand.dtype));
    ++result.sizes, ++result.strides, --result.rank;
    return result;
  };
  for (int64_t i = 0; i < call.outputs[0].sizes[0]; ++i) {
    const ToroidOperand inputs[] = {slice(call.inputs[0], i), slice(call.inputs[1], i)}, outputs[] = {slice(call.outputs[0], i)};
    ToroidLibraryCall one = call;
    one.inputs = inputs;
    one.outputs = outputs;
    if (!multiply(one)) return false;
  }
  return true;
}

void CudaCallbacks::call_on_host(const ToroidLibraryCall& call) {
  on_host_.insert(call.name);
  std::list<AlignedBytes> copies;
  // A copy of the operand's window; where it begins is where the operand's first element lies in it.
  const auto on_host = [&](const ToroidOperand& operand, bool is_input) {
    ToroidOperand copy = operand;
    copy.is_constant = 0;  // the copy goes, and what was made of it would stay
    if (operand.data == nullptr || (is_input && !is_on_device(operand.data))) return copy;  // the random state is the host's
    const int64_t width = size_bytes(static_cast<DType>(operand.dtype));
    const Window window = window_of(operand);
    const auto bytes = static_cast<size_t>(window.count * width);
    asking_for(bytes, "a copy of an operand", [&] { copies.emplace_back(std::max<size_t>(bytes, 1)); });
    if (is_input) copy_out(stream_, copies.back().data(), static_cast<char*>(operand.data) + window.first * width, bytes);
    copy.data = copies.back().data() - window.first * width;
    return copy;
  };
  std::vector<ToroidOperand> inputs, outputs;
  for (int32_t i = 0; i < call.num_inputs; ++i) inputs.push_back(on_host(call.inputs[i], true));
  for (int32_t i = 0; i < call.num_outputs; ++i) outputs.push_back(on_host(call.outputs[i], false));
  stream_.synchronize();
  ToroidLibraryCall here = call;
  here.inputs = inputs.data();
  here.outputs = outputs.data();
  RuntimeCallbacks::call(here);
  for (int32_t i = 0; i < call.num_outputs; ++i) {
    const ToroidOperand& out = call.outputs[i];
    const Window window = window_of(out);  // outputs are contiguous
    copy_in(stream_, out.data, outputs[static_cast<size_t>(i)].data,
            static_cast<size_t>(window.count * size_bytes(static_cast<DType>(out.dtype))));
  }
  stream_.synchronize();  // the copies go
}

}  // namespace toroid::cuda
