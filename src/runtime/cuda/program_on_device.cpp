#include "runtime/cuda/program_on_device.h"

#include "base/error.h"

namespace toroid::cuda {
namespace {

// Makes the device this thread's before anything is made on it.
Stream stream_of_device() {
  Device::get().make_current();
  return Stream();
}

// The position-th of the list has so many bytes.
void fit(std::vector<Memory>& list, size_t position, const Stream& stream, size_t bytes) {
  if (position == list.size()) {
    list.emplace_back(stream, bytes);
  } else if (list[position].size() != bytes) {
    list[position] = Memory(stream, bytes);
  }
}

// Calls wait again when it goes.
struct Restored {
  CudaCallbacks& callbacks;
  ~Restored() { callbacks.set_waits(true); }
};

}  // namespace

ProgramOnDevice::ProgramOnDevice(RuntimePool& pool, const ToroidProgram& program, const ToroidGpuProgram& kernels)
    : stream_(stream_of_device()), callbacks_(pool, program, kernels, stream_) {}

ProgramOnDevice::~ProgramOnDevice() {
  try {
    Device::get().make_current();  // of this thread, which may be another one
  } catch (const Error&) {         // the context is lost, and with it all memory
  }
}

const void* ProgramOnDevice::constant(std::span<const std::byte> bytes) {
  if (const auto found = constants_.find(bytes.data()); found != constants_.end() && found->second.size() == bytes.size())
    return found->second.data();
  constants_.erase(bytes.data());
  const Memory& made = constants_.emplace(bytes.data(), Memory(stream_, bytes.size())).first->second;
  copy_in(stream_, made.data(), bytes.data(), bytes.size());
  return made.data();
}

ProgramOnDevice::Pointers ProgramOnDevice::lay_out(const Call& call) {
  Pointers result;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    fit(inputs_, i, stream_, call.inputs[i].size());
    copy_in(stream_, inputs_[i].data(), call.inputs[i].data(), call.inputs[i].size());
    result.inputs.push_back(inputs_[i].data());
  }
  for (const std::span<const std::byte>& each : call.constants) result.constants.push_back(constant(each));
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    fit(outputs_, i, stream_, call.outputs[i].bytes().size());
    result.outputs.push_back(call.variant.tables.outputs[i].is_late != 0 ? nullptr : outputs_[i].data());
  }
  const auto bytes = static_cast<size_t>(call.layout.arena.bytes);
  if (!arena_ || arena_->size() < bytes) {
    arena_.reset();
    arena_ = std::make_unique<Memory>(stream_, bytes);
  }
  result.arena = static_cast<char*>(arena_->data());
  if (call.variant.tables.prepared_bytes > 0) {
    const auto [found, is_new] = prepared_.try_emplace(&call.variant, stream_, static_cast<size_t>(call.variant.tables.prepared_bytes));
    result.prepared = static_cast<char*>(found->second.data());
    if (is_new) call.variant.prepare(callbacks_, call.name, result.constants.data(), result.prepared);
  }
  return result;
}

void ProgramOnDevice::run(const Call& call) {
  Device::get().make_current();
  const Pointers at = lay_out(call);
  call.variant.run(callbacks_, call.name, call.layout, at.inputs.data(), at.constants.data(), at.arena, at.prepared, call.random,
                   call.sizes, at.outputs.data(), call.outputs);
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    if (at.outputs[i] != nullptr)
      copy_out(stream_, call.outputs[i].mutable_data<std::byte>(), at.outputs[i], call.outputs[i].bytes().size());
  }
  stream_.synchronize();
}

std::vector<double> ProgramOnDevice::time(const Call& call, int times) {
  constexpr int kWarmUp = 3;
  Device::get().make_current();
  const Pointers at = lay_out(call);
  std::vector<double> seconds;
  callbacks_.set_waits(false);
  const Restored restored{callbacks_};
  for (int i = -kWarmUp; i < times; ++i) {
    const Event from, to;
    from.record(stream_);
    call.variant.run(callbacks_, call.name, call.layout, at.inputs.data(), at.constants.data(), at.arena, at.prepared, call.random,
                     call.sizes, at.outputs.data(), call.outputs);
    to.record(stream_);
    const double each = Event::seconds(from, to);
    if (i >= 0) seconds.push_back(each);
  }
  return seconds;
}

}  // namespace toroid::cuda
