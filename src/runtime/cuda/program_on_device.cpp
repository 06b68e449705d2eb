#include "runtime/cuda/program_on_device.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <set>

#include "base/error.h"
#include "base/machine/out_of_memory.h"
#include "runtime/cuda/graph.h"

namespace toroid::cuda {
namespace {

// So many bytes, if they were others.
void* fit(std::vector<std::optional<Memory>>& list, size_t position, const Stream& stream, size_t bytes) {
  if (position >= list.size()) list.resize(position + 1);
  std::optional<Memory>& memory = list[position];
  if (!memory || memory->size() != bytes) {
    memory.reset();
    memory.emplace(stream, bytes);
  }
  return memory->data();
}

size_t bytes_of_output(const ProgramOnDevice::Call& call, size_t output) {
  return static_cast<size_t>(bytes_of(static_cast<DType>(call.variant.tables.outputs[output].dtype), call.layout.output_sizes[output]));
}

bool is_late(const ProgramOnDevice::Call& call, size_t output) { return call.variant.tables.outputs[output].is_late != 0; }

// Most buffers of models are read alone: those are weights as others.
std::vector<bool> updated_constants(const ToroidProgram& program) {
  std::set<std::string_view> names;
  for (const ToroidVariant& variant : rows(program.variants, program.num_variants)) {
    for (const ToroidOutputInfo& output : rows(variant.outputs, variant.num_outputs)) {
      if (output.kind == TOROID_OUTPUT_BUFFER_MUTATION) names.insert(output.target);
    }
  }
  std::vector<bool> is_updated;
  for (const ToroidConstantInfo& constant : rows(program.constants, program.num_constants))
    is_updated.push_back(names.count(constant.name) != 0);
  return is_updated;
}

void require_on_host(const void* data, const char* what, const char* name) {
  if (data == nullptr || !is_on_device(data)) return;
  throw Error(ErrorKind::InvalidInput, formatted("{} '{}' is in a GPU's memory, and the program has it on the CPU", what, name))
      .help("give memory of the process");
}

template <class T>
T median(std::vector<T> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

ProgramOnDevice::ProgramOnDevice(const Device& device, RuntimePool& pool, const ToroidProgram& program, const ToroidGpuProgram& kernels,
                                 DeviceWeights& weights)
    : device_(device),
      program_(program),
      callbacks_(device, pool, *packed_, program, kernels, stream_),
      host_buffers_(static_cast<size_t>(program.num_constants)),
      buffers_(static_cast<size_t>(program.num_constants)),
      is_updated_(updated_constants(program)),
      shared_(weights.on(device)),
      constants_(static_cast<size_t>(program.num_constants)) {}

ProgramOnDevice::Owner ProgramOnDevice::load(const Device& device, RuntimePool& pool, const ToroidProgram& program,
                                             const ToroidGpuProgram& kernels, DeviceWeights& weights) {
  const OnDevice here(device);
  return Owner(new ProgramOnDevice(device, pool, program, kernels, weights));
}

void ProgramOnDevice::Delete::operator()(ProgramOnDevice* program) const {
  std::optional<OnDevice> here;
  try {
    here.emplace(program->device());
    program->callbacks_.order().wait();  // what runs needs the kernels
  } catch (const Error&) {               // the context is lost, and with it all memory
  }
  delete program;
}

// Those of the variant: what others have already, and what calls update, in memory of its own.
void ProgramOnDevice::take_constants(const Call& call) {
  std::vector<DeviceWeights::Copies::Wanted> wanted;
  std::vector<size_t> new_buffers;
  size_t slot = 0;
  for (const int32_t each : rows(call.variant.tables.constants, call.variant.tables.num_constants)) {
    const auto c = static_cast<size_t>(each);
    if (is_on_host(call, &ToroidGpuPlacement::constants, slot++)) continue;
    if (is_updated_[c] && !buffers_[c]) new_buffers.push_back(c);
    if (!is_updated_[c] && !constants_[c]) wanted.push_back({c, static_cast<size_t>(program_.constants[c].bytes)});
  }
  if (!wanted.empty()) {
    std::vector<SharedCopy> copies = shared_->get(*call.weights, wanted);
    for (size_t i = 0; i < wanted.size(); ++i) constants_[wanted[i].constant] = std::move(copies[i]);
  }
  if (new_buffers.empty()) return;
  callbacks_.order().begin(stream_.handle());
  for (const size_t c : new_buffers) {
    Memory made(stream_, static_cast<size_t>(program_.constants[c].bytes));
    copy_in(stream_, made.data(), call.constants[c], made.size());
    buffers_[c].emplace(std::move(made));
  }
  callbacks_.order().end(stream_.handle());
}

void ProgramOnDevice::lay_out(const Call& call) {
  const ToroidVariant& tables = call.variant.tables;
  take_constants(call);
  const auto bytes = static_cast<size_t>(call.layout.arena.bytes);
  if (!arena_ || arena_->size() < bytes) {
    callbacks_.order().begin(stream_.handle());
    arena_.reset();
    arena_.emplace(stream_, bytes);
    callbacks_.order().end(stream_.handle());
  }
  if (const auto on_host = static_cast<size_t>(call.layout.host_arena_bytes);
      on_host > 0 && (!host_arena_ || host_arena_->size() < on_host)) {
    callbacks_.order().wait();  // the last call may still copy from it
    asking_for(on_host, "the host's temporaries", [&] { host_arena_.emplace(on_host, nullptr); });
  }
  callbacks_.set_host_arena(host_arena_ ? host_arena_->data() : nullptr);
  places_.constants.clear();
  size_t slot = 0;
  for (const int32_t each : rows(tables.constants, tables.num_constants)) {
    const auto c = static_cast<size_t>(each);
    const bool on_host = is_on_host(call, &ToroidGpuPlacement::constants, slot++);
    if (on_host) {
      places_.constants.push_back(host_buffers_[c].value ? host_buffers_[c].value->data() : call.constants[c]);
      continue;
    }
    places_.constants.push_back(is_updated_[c] ? buffers_[c]->data() : constants_[c]->memory.data());
  }
  places_.arena = static_cast<char*>(arena_->data());
  places_.prepared = nullptr;
  if (tables.prepared_bytes == 0) return;
  SharedCopy& prepared = prepared_[&call.variant];
  if (!prepared) {
    prepared = shared_->prepared(call.weights, call.variant, static_cast<size_t>(tables.prepared_bytes), [&](void* to) {
      call.variant.prepare(callbacks_, call.name, places_.constants.data(), static_cast<char*>(to));
      call.variant.check(callbacks_.wait(), call.name);
    });
  }
  places_.prepared = static_cast<char*>(prepared->memory.data());
}

void ProgramOnDevice::copy_inputs(const Call& call, Span<const Span<const std::byte>> inputs) {
  places_.inputs.clear();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (is_on_host(call, &ToroidGpuPlacement::inputs, i)) {
      places_.inputs.push_back(inputs[i].data());
      continue;
    }
    places_.inputs.push_back(fit(inputs_, i, stream_, inputs[i].size()));
    copy_in(stream_, inputs_[i]->data(), inputs[i].data(), inputs[i].size());
  }
}

void* ProgramOnDevice::own_output(const Call& call, size_t output) {
  const bool is_in_place = call.variant.tables.outputs[output].in_place >= 0;
  return is_in_place ? buffers_[static_cast<size_t>(call.updates[output])]->data() : output_beside(call, output);
}

void* ProgramOnDevice::output_beside(const Call& call, size_t output) {
  return is_late(call, output) ? nullptr : fit(outputs_, output, stream_, bytes_of_output(call, output));
}

void* ProgramOnDevice::host_place(const Call& call, size_t output, HostTensor* given) {
  if (is_late(call, output)) return nullptr;
  if (call.updates[output] < 0) return given->mutable_data<std::byte>();
  std::unique_ptr<HostBytes>& next = host_buffers_[static_cast<size_t>(call.updates[output])].next;
  const size_t bytes = bytes_of_output(call, output);
  if (!next || next->size() != bytes)
    asking_for(bytes, "the next value of a buffer", [&] { next = std::make_unique<HostBytes>(bytes, nullptr); });
  return next->data();
}

void ProgramOnDevice::copy_updated(const Call& call) {
  for (size_t i = 0; i < places_.outputs.size(); ++i) {
    const int32_t slot = call.variant.tables.outputs[i].in_place;
    if (slot < 0 || is_on_host(call, &ToroidGpuPlacement::outputs, i)) continue;
    const void*& constant = places_.constants[static_cast<size_t>(slot)];
    places_.outputs[i] = output_beside(call, i);
    copy_within(stream_, places_.outputs[i], constant, bytes_of_output(call, i));
    constant = places_.outputs[i];
  }
}

void ProgramOnDevice::start(const Call& call) {
  std::vector<HostTensor> none;
  OutputTensors late(none);  // those of the device come from callbacks_
  call.variant.run(callbacks_, call.name, call.layout, places_.inputs.data(), places_.constants.data(), places_.arena, places_.prepared,
                   call.random, call.sizes, places_.outputs.data(), late);
}

void ProgramOnDevice::keep_updates(const Call& call) {
  for (size_t i = 0; i < call.updates.size(); ++i) {
    if (call.updates[i] < 0) continue;
    if (is_on_host(call, &ToroidGpuPlacement::outputs, i)) {
      HostBuffer& own = host_buffers_[static_cast<size_t>(call.updates[i])];
      std::swap(own.value, own.next);
      continue;
    }
    std::optional<Memory>& buffer = buffers_[static_cast<size_t>(call.updates[i])];
    if (!buffer || buffer->data() != places_.outputs[i]) std::swap(buffer, outputs_[i]);
  }
}

void ProgramOnDevice::run(const Call& call, Span<const Span<const std::byte>> inputs, std::vector<HostTensor>& outputs) {
  const OnDevice here(device_);
  started_ = nullptr;
  callbacks_.set_stream(stream_.handle());
  lay_out(call);
  callbacks_.order().begin(stream_.handle());
  copy_inputs(call, inputs);
  places_.outputs.clear();
  const auto on_host = [&](size_t i) { return is_on_host(call, &ToroidGpuPlacement::outputs, i); };
  for (size_t i = 0; i < outputs.size(); ++i)
    places_.outputs.push_back(on_host(i) ? host_place(call, i, &outputs[i]) : own_output(call, i));
  callbacks_.order().end(stream_.handle());
  start(call);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const void* data = places_.outputs[i];
    if (call.updates[i] >= 0) continue;
    if (on_host(i)) {
      if (is_late(call, i)) outputs[i] = std::move(callbacks_.late_host_outputs().at(static_cast<int32_t>(i)));
      continue;
    }
    if (is_late(call, i)) {
      const CudaCallbacks::LateOutput& late = callbacks_.late_outputs().at(static_cast<int32_t>(i));
      outputs[i] = HostTensor(static_cast<DType>(call.variant.tables.outputs[i].dtype), late.sizes);
      data = late.memory.data();
    }
    copy_out(stream_, outputs[i].mutable_data<std::byte>(), data, outputs[i].bytes().size());
  }
  call.variant.check(callbacks_.wait(), call.name);
  keep_updates(call);
}

void ProgramOnDevice::require_memory(size_t position, const void* data, size_t bytes, const char* what, const char* name) {
  if (required_.size() <= position) required_.resize(position + 1);
  if (required_[position] == std::pair(data, bytes)) return;
  require_on_device(data, bytes, device_, formatted("{} '{}'", what, name));
  required_[position] = {data, bytes};
}

void ProgramOnDevice::start(const Call& call, Span<const Span<const std::byte>> inputs, Span<DeviceTensor> outputs, StreamHandle stream) {
  const OnDevice here(device_);
  require_not_captured(stream);
  const ToroidVariant& tables = call.variant.tables;
  callbacks_.set_stream(stream_.handle());
  lay_out(call);
  places_.inputs.clear();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const char* const name = tables.contract.inputs[i].name;
    const bool on_host = is_on_host(call, &ToroidGpuPlacement::inputs, i);
    on_host ? require_on_host(inputs[i].data(), "input", name) : require_memory(i, inputs[i].data(), inputs[i].size(), "input", name);
    places_.inputs.push_back(inputs[i].data());
  }
  places_.outputs.clear();
  for (size_t i = 0; i < outputs.size(); ++i) {
    const bool is_own = is_late(call, i) || call.updates[i] >= 0;
    if (is_on_host(call, &ToroidGpuPlacement::outputs, i)) {
      if (!is_own) require_on_host(outputs[i].data, "output", tables.outputs[i].name);
      places_.outputs.push_back(is_own ? host_place(call, i, nullptr) : outputs[i].data);
      continue;
    }
    if (!is_own) require_memory(inputs.size() + i, outputs[i].data, bytes_of_output(call, i), "output", tables.outputs[i].name);
    void* place = is_own ? own_output(call, i) : outputs[i].data;
    const auto is_input = [&](Span<const std::byte> input) {
      const auto* const begin = static_cast<const std::byte*>(place);
      return input.data() < begin + bytes_of_output(call, i) && begin < input.data() + input.size();
    };
    // The caller may give as an input what the last call left in a buffer.
    if (call.updates[i] >= 0 && std::any_of(inputs.begin(), inputs.end(), is_input)) place = output_beside(call, i);
    places_.outputs.push_back(place);
  }
  callbacks_.set_stream(stream);
  start(call);
  keep_updates(call);
  started_ = &call.variant;
  started_name_ = call.name;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const bool on_host = is_on_host(call, &ToroidGpuPlacement::outputs, i);
    if (call.updates[i] >= 0) {
      const auto c = static_cast<size_t>(call.updates[i]);
      outputs[i].data = on_host ? static_cast<void*>(host_buffers_[c].value->data()) : buffers_[c]->data();
    }
    if (!is_late(call, i)) continue;
    if (on_host) {
      HostTensor& late = callbacks_.late_host_outputs().at(static_cast<int32_t>(i));
      outputs[i].sizes = {late.sizes().begin(), late.sizes().end()};
      outputs[i].data = late.mutable_data<std::byte>();
      continue;
    }
    const CudaCallbacks::LateOutput& late = callbacks_.late_outputs().at(static_cast<int32_t>(i));
    outputs[i].sizes = late.sizes;
    outputs[i].data = late.memory.data();
  }
}

void ProgramOnDevice::wait() {
  const OnDevice here(device_);
  const int32_t result = callbacks_.wait();
  if (const LoadedVariant* started = std::exchange(started_, nullptr)) started->check(result, started_name_);
}

DeviceTimes ProgramOnDevice::time(const Call& call, Span<const Span<const std::byte>> inputs, const DeviceTimesOptions& options) {
  constexpr int kFirst = 4;  // of which the last are graphs, with algorithms chosen
  constexpr double kWarmUpSeconds = 0.025;
  const OnDevice here(device_);
  callbacks_.set_stream(stream_.handle());
  lay_out(call);
  copy_inputs(call, inputs);
  places_.outputs.clear();
  host_outputs_.resize(static_cast<size_t>(call.variant.tables.num_outputs));
  for (size_t i = 0; i < host_outputs_.size(); ++i) {
    const bool on_host = is_on_host(call, &ToroidGpuPlacement::outputs, i);
    const bool has_size = on_host && !is_late(call, i);
    if (has_size) host_outputs_[i] = std::make_unique<HostBytes>(bytes_of_output(call, i), nullptr);
    places_.outputs.push_back(has_size ? host_outputs_[i]->data() : on_host ? nullptr : own_output(call, i));
  }
  copy_updated(call);
  callbacks_.set_uses_graphs(options.graphs);
  struct GraphsAgain {
    CudaCallbacks& callbacks;
    ~GraphsAgain() { callbacks.set_uses_graphs(true); }
  } again{callbacks_};

  for (int i = 0; i < kFirst; ++i) start(call);
  call.variant.check(callbacks_.wait(), call.name);
  const Memory other(stream_, 4 * device_.l2_bytes());  // filled between calls, so that L2 caches have nothing of theirs
  std::deque<std::pair<Event, Event>> events;
  const auto timed = [&](int calls) {
    events.clear();
    for (int i = 0; i < calls; ++i) {
      const auto& [from, to] = events.emplace_back();
      clear(stream_, other.data(), 4 * device_.l2_bytes());
      from.record(stream_.handle());
      start(call);
      to.record(stream_.handle());
    }
    stream_.synchronize();
    std::vector<double> seconds;
    for (const auto& [from, to] : events) seconds.push_back(Event::seconds(from, to));
    return seconds;
  };
  const double once = std::max(median(timed(5)), 1e-6);
  const auto calls_in = [&](double seconds, int least, int most) {
    return options.calls > 0 ? options.calls : std::clamp(static_cast<int>(seconds / once), least, most);
  };
  timed(calls_in(kWarmUpSeconds, 1, 200));
  DeviceTimes times{/*seconds=*/timed(calls_in(options.seconds, 10, 1000))};
  std::vector<double> of_host;
  for (int i = 0; i < 9; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    start(call);
    of_host.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    stream_.synchronize();
  }
  times.host_seconds = median(of_host);
  return times;
}

void ProgramOnDevice::forget_buffer(size_t constant) {
  const OnDevice here(device_);
  callbacks_.order().begin(stream_.handle());  // it is freed behind the last call
  buffers_[constant].reset();
  host_buffers_[constant] = {};
  callbacks_.order().end(stream_.handle());
}

void ProgramOnDevice::use_weights(const Weights& newest) {
  const OnDevice here(device_);
  packed_.emplace();
  callbacks_.use_packed(*packed_);
  shared_->free_behind(callbacks_.order());
  for (size_t c = 0; c < constants_.size(); ++c) {
    if (constants_[c] && constants_[c]->values != newest.constants()[c]) constants_[c].reset();
  }
  prepared_.clear();
}

void ProgramOnDevice::read_buffer(size_t constant, Span<std::byte> to) {
  if (const auto& here = host_buffers_[constant].value) {
    TOROID_CHECK(here->size() == to.size(), "{} bytes of constant {}", to.size(), constant);
    callbacks_.order().wait();
    if (!to.empty()) std::memcpy(to.data(), here->data(), to.size());
    return;
  }
  const std::optional<Memory>& memory = buffers_[constant];
  TOROID_CHECK(memory && memory->size() == to.size(), "no call used constant {}", constant);
  const OnDevice here(device_);
  callbacks_.order().begin(stream_.handle());
  copy_out(stream_, to.data(), memory->data(), to.size());
  callbacks_.order().end(stream_.handle());
  stream_.synchronize();
}

}  // namespace toroid::cuda
