#include "runtime/program/executable.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/fail.h"
#include "base/file/mapped_file.h"
#include "base/format.h"
#include "base/machine/out_of_memory.h"
#include "runtime/cuda/program_on_device.h"
#include "runtime/pool/pool.h"
#include "runtime/program/output_memory.h"
#include "tensor/strided_copy.h"

namespace toroid {
std::vector<int64_t> strides_given(const InputView& input) {
  return input.strides == nullptr ? strides_of(input.sizes) : std::vector<int64_t>(input.strides, input.strides + input.sizes.size());
}

namespace {

// Bytes of a buffer that is updated in place. Smaller ones are copied at no cost, and a call that fails leaves them as they were.
constexpr size_t kLeastInPlace = size_t{1} << 16;

}  // namespace

struct Executable::State {
  State(std::shared_ptr<LoadedProgram> its, int gpu, std::shared_ptr<RuntimePool> own_pool, const HostMemory* memory)
      : program(std::move(its)),
        pool(own_pool ? std::move(own_pool) : program->pool()),
        weights(program->weights()),
        version(program->weights_version()),
        host(*pool, weights->packed(), memory),
        memory(memory),
        variants(program->variants()),
        constants(weights->constants().begin(), weights->constants().end()),
        results(memory) {
    last_variant = variants.size() - 1;
    layouts.resize(variants.size());
    prepared.resize(variants.size());
    constants_by_variant.resize(variants.size());
    buffers.resize(constants.size());
    if (const ToroidGpuProgram* kernels = program->gpu_tables()) {
      const bool is_for_amd = kernels->num_binaries > 0 && kernels->binaries[0].kind == TOROID_GPU_AMD;
      cuda::use(is_for_amd ? cuda::Vendor::Amd : cuda::Vendor::Nvidia);
      device = cuda::ProgramOnDevice::load(cuda::Device::get(gpu), *pool, program->tables(), *kernels, *program->on_devices());
    }
  }

  std::vector<HostTensor> run(Span<const HostTensor> inputs);
  void run(Span<const InputView> inputs, OutputAllocator& outputs, StepObserver* observer) {
    compute(inputs, outputs, observer);
    keep_written();
  }
  // A call up to where it may fail no more: new values of buffers are in `written`.
  void compute(Span<const InputView> inputs, OutputAllocator& outputs, StepObserver* observer);
  void keep_written();
  DeviceTimes time(Span<const HostTensor> inputs, const DeviceTimesOptions& options);
  void start(Span<const DeviceTensor> inputs, Span<DeviceTensor> outputs, void* stream);

  // Weights that replaced those of the call before.
  void use_newest_weights() {
    const uint64_t newest_version = program->weights_version();
    if (newest_version == version) return;
    std::shared_ptr<const Weights> newest = program->weights();
    if (device) device->use_weights(*newest);
    version = newest_version;
    host.use_packed(newest->packed());
    weights = std::move(newest);
    std::fill(prepared.begin(), prepared.end(), std::nullopt);
    for (std::vector<const void*>& its : constants_by_variant) its.clear();
    for (size_t i = 0; i < constants.size(); ++i) {
      if (buffers[i].is_written || constants[i] == weights->constants()[i]) continue;
      constants[i] = weights->constants()[i];  // what calls updated on a device stays there
    }
  }

  // As ToroidCall::constants. Looked up anew only after a call that put one elsewhere.
  const std::vector<const void*>& constants_of(size_t variant) {
    std::vector<const void*>& its = constants_by_variant[variant];
    const ToroidVariant& tables = variants[variant].tables;
    if (its.empty()) {
      for (int32_t position : rows(tables.constants, tables.num_constants)) its.push_back(constants[static_cast<size_t>(position)]);
    }
    return its;
  }

  void put_constant(size_t position, const void* data) {
    if (constants[position] == data) return;
    constants[position] = data;
    for (std::vector<const void*>& its : constants_by_variant) its.clear();
  }

  void reset_buffer(size_t position) {
    buffers[position] = {};
    put_constant(position, weights->constants()[position]);
  }

  char* prepare(size_t variant) {
    std::optional<char*>& place = prepared[variant];
    if (!place) place = weights->prepared(variants[variant], variant, host, program->name());
    return *place;
  }

  void reserve_arena(int64_t bytes) {
    const auto size = static_cast<size_t>(bytes);
    if (arena && size <= arena->size()) return;
    arena.reset();
    arena = asking_for(size, "the temporaries of a call", [&] { return std::make_unique<HostBytes>(size, memory); });
  }

  // Throws when zeros may have been read in the place of weights.
  void refuse_lost_weights() {
    if (bus_errors == bus_errors_answered()) return;
    std::vector<Span<const std::byte>> memory;
    for (const void* data : constants) memory.emplace_back(static_cast<const std::byte*>(data), 1);
    refuse_changed_files(memory);
    bus_errors = bus_errors_answered();  // of another file
  }

  std::shared_ptr<LoadedProgram> program;
  std::shared_ptr<RuntimePool> pool;
  std::shared_ptr<const Weights> weights;
  uint64_t version;  // of the weights
  RuntimeCallbacks host;
  const HostMemory* memory;
  Span<const LoadedVariant> variants;
  std::vector<std::optional<CallLayout>> layouts;  // of each variant's last call
  std::vector<std::optional<char*>> prepared;      // by variant, once it has run
  const CallLayout* last = nullptr;                // of the last call
  size_t last_variant = 0;                         // of the last call, in `variants`
  std::vector<const void*> constants;
  std::vector<std::vector<const void*>> constants_by_variant;  // of each variant those that it reads; empty until it runs
  uint64_t bus_errors = bus_errors_answered();
  // The value of a constant that a call wrote.
  struct Written {
    HostTensor value = {};      // never handed out itself
    std::byte* data = nullptr;  // null: never to be written again
    bool is_written = false;
    std::weak_ptr<const void> holders = {};

    // In the same memory, where its holder sees no later value.
    HostTensor share() {
      std::shared_ptr<const void> owner = holders.lock();
      if (!owner) holders = owner = std::make_shared<const HostTensor>(value);
      return HostTensor(value.dtype(), value.sizes(), value.bytes(), std::move(owner));
    }
    bool is_ours_alone() const { return data != nullptr && holders.expired(); }
  };
  std::vector<Written> buffers;  // by constant
  uint64_t random[2] = {0, 0};   // seed, number of the next call
  std::unique_ptr<HostBytes> arena;
  OutputMemory results;
  cuda::ProgramOnDevice::Owner device;  // of a program for a GPU

  // What the sizes of the last call's inputs decide.
  struct Sized {
    std::vector<int64_t> shapes;  // dtype, rank and sizes of each input
    CallSizes sizes;
    std::vector<std::vector<int64_t>> strides;  // in which the program reads each input
  };
  std::optional<Sized> sized;
  const Sized& find_sizes(Span<const InputView> inputs);

 private:
  void place_inputs(Span<const InputView> inputs);
  std::byte* place_buffer(size_t constant, const ToroidOutputInfo& info, const std::vector<int64_t>& sizes);
  std::vector<HostTensor> run_on_device(Span<const InputView> inputs);
  cuda::ProgramOnDevice::Call on_device(const int64_t* numbers) const {
    return {variants[last_variant], program->name(), *last, sized->sizes, numbers, weights, constants, program->updates(last_variant)};
  }
  // The bytes of inputs where they were placed.
  std::vector<Span<const std::byte>> placed_bytes(Span<const InputView> inputs) const;

  // Of the call that runs; here so that their memory is there for the next.
  std::vector<const void*> input_places;
  std::vector<std::vector<std::byte>> copies;  // of inputs that had to move
  std::vector<void*> output_places;            // null: late
  std::vector<std::pair<size_t, Written>> written;
};

namespace {

// Throws Error{InvalidInput} unless the elements that the program keeps at one place are equal: the last one was written there.
void require_shared_elements(const char* name, const std::byte* copy, Span<const int64_t> strides, const InputView& input,
                             Span<const int64_t> given) {
  const std::vector<int64_t> rows = strides_of(input.sizes);
  const auto width = static_cast<size_t>(size_bytes(input.dtype)), bytes = static_cast<size_t>(bytes_of(input.dtype, input.sizes));
  std::vector<std::byte> kept(bytes), meant(bytes);
  copy_strided(kept.data(), rows, copy, strides, input.sizes, width);
  copy_strided(meant.data(), rows, input.data, given, input.sizes, width);
  if (kept == meant) return;
  fail(ErrorKind::InvalidInput, Help{"write the input's type without strides, or give it elements that repeat"},
       "input '{}' has elements that differ where the program's strides give them one place", name);
}

std::vector<InputView> views_of(Span<const HostTensor> tensors) {
  std::vector<InputView> views;
  for (const HostTensor& tensor : tensors) views.push_back({tensor.dtype(), tensor.sizes(), nullptr, tensor.bytes().data()});
  return views;
}

bool has_same_layout(const InputView& input, Span<const int64_t> wanted) {
  if (input.strides != nullptr) return is_same_layout(input.sizes, {input.strides, input.sizes.size()}, wanted);
  int64_t stride = 1;
  for (size_t d = input.sizes.size(); d-- > 0;) {
    if (input.sizes[d] == 0) return true;
    if (input.sizes[d] != 1 && wanted[d] != stride) return false;
    stride *= input.sizes[d];
  }
  return true;
}

}  // namespace

Executable::Executable(std::shared_ptr<LoadedProgram> program, int gpu, std::shared_ptr<RuntimePool> pool, const HostMemory* memory)
    : state_(with_typed_memory("loading a program",
                               [&] { return std::make_unique<State>(std::move(program), gpu, std::move(pool), memory); })) {}

Executable::Executable(std::string_view library, std::vector<Span<const std::byte>> constants, std::shared_ptr<const void> owner,
                       std::string name, int threads, int gpu)
    : Executable(with_typed_memory("loading a program",
                                   [&] {
                                     return std::make_shared<LoadedProgram>(library, std::move(constants), std::move(owner),
                                                                            std::move(name), RuntimePool::shared(threads));
                                   }),
                 gpu) {}

Executable::Executable(Executable&&) noexcept = default;
Executable::~Executable() = default;

Executable Executable::load(const std::string& path, int threads, int gpu) { return load(path, path, threads, gpu); }

Executable Executable::load(const std::string& library, const std::string& weights, int threads, int gpu) {
  return with_typed_memory("loading a program",
                           [&] { return Executable(LoadedProgram::load(library, weights, RuntimePool::shared(threads)), gpu); });
}

const Executable::State::Sized& Executable::State::find_sizes(Span<const InputView> inputs) {
  const auto is_same = [&] {
    const int64_t* next = sized->shapes.data();
    const int64_t* const end = next + sized->shapes.size();
    for (const InputView& input : inputs) {
      const size_t rank = input.sizes.size();
      if (static_cast<size_t>(end - next) < 2 + rank || next[0] != static_cast<int64_t>(input.dtype) ||
          next[1] != static_cast<int64_t>(rank) || !std::equal(input.sizes.begin(), input.sizes.end(), next + 2))
        return false;
      next += 2 + rank;
    }
    return next == end;
  };
  if (sized && is_same()) return *sized;
  sized.reset();
  std::vector<InputShape> shapes;
  for (const InputView& input : inputs) shapes.push_back({input.dtype, input.sizes});
  auto [position, sizes] = program->find_variant(shapes);
  std::optional<CallLayout>& layout = layouts[position];
  if (!layout || layout->symbols != sizes.numbers()) layout = variants[position].lay_out(sizes);
  Sized found{{}, std::move(sizes), {}};
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Span<const int64_t> its = inputs[i].sizes;
    found.shapes.push_back(static_cast<int64_t>(inputs[i].dtype));
    found.shapes.push_back(static_cast<int64_t>(its.size()));
    found.shapes.insert(found.shapes.end(), its.begin(), its.end());
    found.strides.push_back(strides_wanted(found.sizes, i, its));
  }
  last = &*layout;
  last_variant = position;
  return sized.emplace(std::move(found));
}

// Where the program can read them: with its strides, and aligned to their elements.
void Executable::State::place_inputs(Span<const InputView> inputs) {
  input_places.clear();
  copies.clear();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const InputView& input = inputs[i];
    const std::vector<int64_t>& wanted = sized->strides[i];
    const auto width = static_cast<size_t>(size_bytes(input.dtype));
    if (reinterpret_cast<uintptr_t>(input.data) % width == 0 && has_same_layout(input, wanted)) {
      input_places.push_back(input.data);
      continue;
    }
    const char* const name = variants[last_variant].tables.contract.inputs[i].name;
    const size_t size = needed_bytes(input.sizes, wanted, static_cast<int64_t>(width), formatted("input '{}'", name));
    asking_for(size, "a copy of an input that lies in memory otherwise than compiled for", [&] { copies.emplace_back(size); });
    const std::vector<int64_t> given = strides_given(input);
    copy_strided(copies.back().data(), wanted, input.data, given, input.sizes, width);
    if (!are_apart(input.sizes, wanted)) require_shared_elements(name, copies.back().data(), wanted, input, given);
    input_places.push_back(copies.back().data());
  }
}

std::byte* Executable::State::place_buffer(size_t constant, const ToroidOutputInfo& info, const std::vector<int64_t>& sizes) {
  const Written& old = buffers[constant];
  const bool in_place = info.in_place >= 0 && old.is_ours_alone() && old.value.bytes().size() >= kLeastInPlace;
  HostTensor made = in_place ? old.value : results.tensor(static_cast<DType>(info.dtype), sizes);
  std::byte* const place = in_place ? old.data : made.mutable_data<std::byte>();
  written.emplace_back(constant, Written{std::move(made), place, true});
  return place;
}

std::vector<Span<const std::byte>> Executable::State::placed_bytes(Span<const InputView> inputs) const {
  std::vector<Span<const std::byte>> result;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto moved = std::find_if(copies.begin(), copies.end(), [&](const auto& copy) { return copy.data() == input_places[i]; });
    const auto own = static_cast<size_t>(bytes_of(inputs[i].dtype, inputs[i].sizes));
    result.emplace_back(static_cast<const std::byte*>(input_places[i]), moved != copies.end() ? moved->size() : own);
  }
  return result;
}

DeviceTimes Executable::State::time(Span<const HostTensor> inputs, const DeviceTimesOptions& options) {
  const std::vector<InputView> views = views_of(inputs);
  find_sizes(views);
  place_inputs(views);
  const int64_t numbers[] = {static_cast<int64_t>(random[0]), static_cast<int64_t>(random[1])};
  return device->time(on_device(numbers), placed_bytes(views), options);
}

void Executable::State::start(Span<const DeviceTensor> inputs, Span<DeviceTensor> outputs, void* stream) {
  use_newest_weights();
  std::vector<InputView> views;
  for (const DeviceTensor& input : inputs) views.push_back({input.dtype, input.sizes, nullptr, nullptr});
  const Sized& call = find_sizes(views);
  const ToroidVariant& its = variants[last_variant].tables;
  if (outputs.size() != static_cast<size_t>(its.num_outputs))
    fail(ErrorKind::InvalidInput, Help{"give memory for each of those that Executable::outputs_of names"},
         "{} outputs for a program with {}", outputs.size(), its.num_outputs);
  std::vector<Span<const std::byte>> bytes;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const DeviceTensor& input = inputs[i];
    const std::vector<int64_t> given = input.strides.empty() ? strides_of(input.sizes) : input.strides;
    const std::vector<int64_t>& wanted = call.strides[i];
    if (!is_same_layout(input.sizes, given, wanted))
      fail(ErrorKind::InvalidInput, Help{"lay it out so before the call"}, "input '{}' has strides {}, and the program reads it with {}",
           its.contract.inputs[i].name, shape_text(given), shape_text(wanted));
    const size_t size = needed_bytes(input.sizes, wanted, size_bytes(input.dtype), formatted("input '{}'", its.contract.inputs[i].name));
    bytes.emplace_back(static_cast<const std::byte*>(input.data), size);
  }
  const int64_t numbers[] = {static_cast<int64_t>(random[0]), static_cast<int64_t>(random[1]++)};
  device->start(on_device(numbers), bytes, outputs, static_cast<cuda::StreamHandle>(stream));
  refuse_lost_weights();
}

void Executable::State::compute(Span<const InputView> inputs, OutputAllocator& outputs, StepObserver* observer) {
  use_newest_weights();
  const Sized& call = find_sizes(inputs);
  place_inputs(inputs);
  const LoadedVariant& variant = variants[last_variant];
  const Span<const int32_t> updates = program->updates(last_variant);
  // Late outputs: new values of buffers stay here.
  struct Late final : OutputAllocator {
    State& state;
    OutputAllocator& outputs;
    Span<const int32_t> updates;
    Late(State& state, OutputAllocator& outputs, Span<const int32_t> updates) : state(state), outputs(outputs), updates(updates) {}
    void* place(size_t output, DType dtype, Span<const int64_t> sizes) override {
      if (updates[output] < 0) return outputs.place(output, dtype, sizes);
      HostTensor made(dtype, {sizes.begin(), sizes.end()});
      std::byte* const place = made.mutable_data<std::byte>();
      state.written.emplace_back(static_cast<size_t>(updates[output]), Written{std::move(made), nullptr, true});
      return place;
    }
  } late(*this, outputs, updates);
  written.clear();
  output_places.clear();
  for (size_t i = 0; i < updates.size(); ++i) {
    const ToroidOutputInfo& info = variant.tables.outputs[i];
    void* place = nullptr;
    if (info.is_late == 0 && updates[i] >= 0)
      place = place_buffer(static_cast<size_t>(updates[i]), info, last->output_sizes[i]);
    else if (info.is_late == 0)
      place = outputs.place(i, static_cast<DType>(info.dtype), last->output_sizes[i]);
    output_places.push_back(place);
  }
  const int64_t numbers[] = {static_cast<int64_t>(random[0]), static_cast<int64_t>(random[1]++)};
  reserve_arena(last->arena.bytes);
  char* const shared = prepare(last_variant);
  host.set_observer(observer);
  variant.run(host, program->name(), *last, input_places.data(), constants_of(last_variant).data(), arena->data(), shared, numbers,
              call.sizes, output_places.data(), late);
  if (observer != nullptr) observer->end_call();
  refuse_lost_weights();
}

void Executable::State::keep_written() {
  for (auto& [constant, value] : written) {
    put_constant(constant, value.value.bytes().data());
    buffers[constant] = std::move(value);
  }
  written.clear();
}

std::vector<HostTensor> Executable::State::run_on_device(Span<const InputView> inputs) {
  use_newest_weights();
  find_sizes(inputs);
  place_inputs(inputs);
  const Span<const int32_t> updates = program->updates(last_variant);
  std::vector<HostTensor> outputs;
  results.begin_call();
  for (size_t i = 0; i < updates.size(); ++i) {
    const ToroidOutputInfo& info = variants[last_variant].tables.outputs[i];
    const auto dtype = static_cast<DType>(info.dtype);
    if (updates[i] >= 0)
      outputs.push_back(HostTensor(dtype, {0}));
    else
      outputs.push_back(info.is_late != 0 ? HostTensor() : results.tensor(dtype, last->output_sizes[i]));
  }
  const int64_t numbers[] = {static_cast<int64_t>(random[0]), static_cast<int64_t>(random[1]++)};
  device->run(on_device(numbers), placed_bytes(inputs), outputs);
  refuse_lost_weights();
  return outputs;
}

std::vector<HostTensor> Executable::State::run(Span<const HostTensor> inputs) {
  const std::vector<InputView> views = views_of(inputs);
  if (device) return run_on_device(views);
  struct Tensors final : OutputAllocator {
    OutputMemory& memory;
    std::vector<HostTensor> made;
    explicit Tensors(OutputMemory& memory) : memory(memory) {}
    void* place(size_t output, DType dtype, Span<const int64_t> sizes) override {
      if (output >= made.size()) made.resize(output + 1);
      made[output] = memory.tensor(dtype, {sizes.begin(), sizes.end()});
      return made[output].mutable_data<std::byte>();
    }
  } outputs(results);
  results.begin_call();
  compute(views, outputs, nullptr);
  const Span<const int32_t> updates = program->updates(last_variant);
  outputs.made.resize(updates.size());
  for (size_t i = 0; i < updates.size(); ++i) {
    if (updates[i] < 0) continue;
    const auto its =
        std::find_if(written.begin(), written.end(), [&](const auto& each) { return each.first == static_cast<size_t>(updates[i]); });
    outputs.made[i] = its->second.share();
  }
  keep_written();
  return std::move(outputs.made);
}

std::vector<HostTensor> Executable::run(Span<const HostTensor> inputs) {
  return with_typed_memory("running a program", [&] { return state_->run(inputs); });
}

void Executable::run(Span<const InputView> inputs, OutputAllocator& outputs, StepObserver* observer) {
  TOROID_CHECK(state_->device == nullptr, "memory of the caller for a program on a GPU");
  with_typed_memory("running a program", [&] { state_->run(inputs, outputs, observer); });
}

void Executable::start(Span<const DeviceTensor> inputs, Span<DeviceTensor> outputs, void* stream) {
  TOROID_CHECK(state_->device != nullptr, "device pointers for a program on the processor");
  with_typed_memory("running a program", [&] { state_->start(inputs, outputs, stream); });
}

void Executable::wait() {
  if (state_->device) state_->device->wait();
}

bool Executable::has_failed() const { return state_->device && state_->device->callbacks().has_failed(); }

std::vector<DeviceTensor> Executable::outputs_of(Span<const DeviceTensor> inputs) {
  std::vector<InputView> views;
  for (const DeviceTensor& input : inputs) views.push_back({input.dtype, input.sizes, nullptr, nullptr});
  state_->find_sizes(views);
  std::vector<DeviceTensor> result;
  for (int32_t i = 0; i < last_variant().num_outputs; ++i) {
    const ToroidOutputInfo& info = last_variant().outputs[i];
    result.push_back({/*dtype=*/static_cast<DType>(info.dtype), /*sizes=*/{}});
    if (info.is_late == 0) result.back().sizes = state_->last->output_sizes[static_cast<size_t>(i)];
  }
  return result;
}

void Executable::read_buffer(size_t constant, Span<std::byte> to) {
  TOROID_CHECK(to.size() == static_cast<size_t>(tables().constants[constant].bytes), "{} bytes for a constant", to.size());
  state_->use_newest_weights();
  if (state_->device && state_->device->has_buffer(constant)) return state_->device->read_buffer(constant, to);
  if (!to.empty()) std::memcpy(to.data(), state_->constants[constant], to.size());
}

void Executable::reset_buffer(size_t constant) {
  state_->reset_buffer(constant);
  if (state_->device) state_->device->forget_buffer(constant);
}

HostTensor Executable::updated_buffer(size_t output) {
  const Span<const int32_t> updates = state_->program->updates(state_->last_variant);
  TOROID_CHECK(state_->last != nullptr && output < updates.size() && updates[output] >= 0, "output {} is no buffer's new value", output);
  const auto constant = static_cast<size_t>(updates[output]);
  if (!state_->device) return state_->buffers[constant].share();
  HostTensor value(static_cast<DType>(last_variant().outputs[output].dtype), state_->last->output_sizes[output]);
  state_->device->read_buffer(constant, {value.mutable_data<std::byte>(), value.bytes().size()});
  return value;
}

void Executable::set_seed(uint64_t seed) {
  state_->random[0] = seed;
  state_->random[1] = 0;
}

const std::vector<std::vector<double>>& Executable::step_times() const {
  return state_->device ? state_->device->callbacks().step_times() : state_->host.step_times();
}
bool Executable::is_on_device() const { return state_->device != nullptr; }
DeviceTimes Executable::time_on_device(Span<const HostTensor> inputs, const DeviceTimesOptions& options) {
  return state_->time(inputs, options);
}
std::vector<std::string> Executable::calls_on_host() const {
  if (!state_->device) return {};
  const std::set<std::string>& names = state_->device->callbacks().on_host();
  return {names.begin(), names.end()};
}
void Executable::remember_products(std::shared_ptr<cuda::ProductMemory> memory) {
  TOROID_CHECK(state_->device, "a program for a processor");
  state_->device->remember_products(std::move(memory));
}
std::optional<size_t> Executable::graph_nodes() const { return state_->device ? state_->device->callbacks().graph_nodes() : std::nullopt; }
std::vector<std::string> Executable::graph_obstacles() const {
  if (!state_->device) return {};
  const std::set<std::string>& obstacles = state_->device->callbacks().graph_obstacles();
  return {obstacles.begin(), obstacles.end()};
}
std::vector<std::optional<size_t>> Executable::forms() const { return state_->variants[state_->last_variant].forms(); }
const ToroidProgram& Executable::tables() const { return state_->program->tables(); }
const ToroidVariant& Executable::last_variant() const { return tables().variants[state_->last_variant]; }
size_t Executable::last_variant_position() const { return state_->last_variant; }
int64_t Executable::arena_bytes() const { return state_->last ? state_->last->arena.bytes : 0; }
int64_t Executable::arena_lower_bound() const { return state_->last ? state_->last->arena.lower_bound : 0; }

}  // namespace toroid
