#include "runtime/program/executable.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/file/file.h"
#include "base/file/mapped_file.h"
#include "base/format.h"
#include "base/machine/out_of_memory.h"
#include "runtime/cuda/program_on_device.h"
#include "runtime/pool/pool.h"
#include "runtime/program/loaded_variant.h"
#include "runtime/program/output_memory.h"
#include "runtime/program/package.h"
#include "runtime/program/runtime_callbacks.h"
#include "tensor/strided_copy.h"

namespace toroid {
namespace {

// Bytes of a buffer that is updated in place. Smaller ones are copied at no cost, and a call that fails leaves them as they were.
constexpr size_t kLeastInPlace = size_t{1} << 16;

}  // namespace

ProgramLibrary::ProgramLibrary(std::string_view bytes, std::string name)
    : library_(bytes, std::move(name)), tables_(static_cast<const ToroidProgram*>(library_.find("toroid_program"))) {
  if (tables_ != nullptr && tables_->abi_version == TOROID_ABI_VERSION) return;
  throw Error(ErrorKind::InvalidInput, "the library was not made by this version of toroid")
      .help("compile the model again with 'toroid compile'");
}

struct Executable::State {
  State(std::string_view bytes, std::string name, std::unique_ptr<RuntimePool> threads, int gpu)
      : library(bytes, name), pool(std::move(threads)), name(std::move(name)), host(*pool), tables(library.tables()) {
    for (const ToroidVariant& variant : rows(tables.variants, tables.num_variants)) variants.emplace_back(variant, tables.bad_index);
    last_variant = variants.size() - 1;
    layouts.resize(variants.size());
    prepared.resize(variants.size());
    constants_by_variant.resize(variants.size());
    buffers.resize(static_cast<size_t>(tables.num_constants));
    for (const LoadedVariant& variant : variants) updates.push_back(updates_of(variant.tables));
    if (const ToroidGpuProgram* kernels = library.gpu_tables())
      device = cuda::ProgramOnDevice::load(cuda::Device::get(gpu), *pool, tables, *kernels);
  }

  // By output the constant that it is the new value of, or -1.
  std::vector<int32_t> updates_of(const ToroidVariant& variant) const {
    std::vector<int32_t> result;
    for (const ToroidOutputInfo& output : rows(variant.outputs, variant.num_outputs)) {
      const std::span<const ToroidConstantInfo> all = rows(tables.constants, tables.num_constants);
      const auto found = std::find_if(all.begin(), all.end(), [&](const ToroidConstantInfo& constant) {
        return output.kind == TOROID_OUTPUT_BUFFER_MUTATION && std::string_view(constant.name) == output.target;
      });
      result.push_back(found == all.end() ? -1 : static_cast<int32_t>(found - all.begin()));
    }
    return result;
  }

  std::vector<HostTensor> run(std::span<const HostTensor> inputs);
  DeviceTimes time(std::span<const HostTensor> inputs, const DeviceTimesOptions& options);
  void start(std::span<const DeviceTensor> inputs, std::span<DeviceTensor> outputs, void* stream);

  // Kept until the symbols' values change.
  const CallLayout& lay_out(const LoadedVariant& variant, const CallSizes& sizes) {
    std::optional<CallLayout>& kept = layouts[static_cast<size_t>(&variant - variants.data())];
    if (!kept || kept->symbols != sizes.numbers()) kept = variant.lay_out(sizes);
    return *kept;
  }

  // As ToroidCall::constants. Looked up anew only after a call that put one elsewhere.
  const std::vector<const void*>& constants_of(const LoadedVariant& variant) {
    std::vector<const void*>& its = constants_by_variant[static_cast<size_t>(&variant - variants.data())];
    const std::span<const int32_t> positions = rows(variant.tables.constants, variant.tables.num_constants);
    if (its.empty()) {
      for (int32_t position : positions) its.push_back(constants[static_cast<size_t>(position)]);
    }
    return its;
  }

  void put_constant(size_t position, const void* data) {
    if (constants[position] == data) return;
    constants[position] = data;
    for (std::vector<const void*>& its : constants_by_variant) its.clear();
  }

  // What the variant's calls share.
  char* prepare(const LoadedVariant& variant) {
    std::unique_ptr<AlignedBytes>& bytes = prepared[static_cast<size_t>(&variant - variants.data())];
    if (!bytes) bytes = variant.prepare(host, name, constants_of(variant).data());
    return bytes ? bytes->data() : nullptr;
  }

  void reserve_arena(int64_t bytes) {
    const auto size = static_cast<size_t>(bytes);
    if (arena && size <= arena->size()) return;
    arena.reset();
    arena = asking_for(size, "the temporaries of a call", [&] { return std::make_unique<AlignedBytes>(size); });
  }

  // Throws when zeros may have been read in the place of weights.
  void refuse_lost_weights() {
    if (bus_errors == bus_errors_answered()) return;
    std::vector<std::span<const std::byte>> memory;
    for (const void* data : constants) memory.emplace_back(static_cast<const std::byte*>(data), 1);
    refuse_changed_files(memory);
    bus_errors = bus_errors_answered();  // of another file
  }

  ProgramLibrary library;
  std::unique_ptr<RuntimePool> pool;
  std::string name;
  RuntimeCallbacks host;
  const ToroidProgram& tables;
  std::vector<LoadedVariant> variants;                  // as in the tables: the general one last
  std::vector<std::vector<int32_t>> updates;            // of each
  std::vector<std::optional<CallLayout>> layouts;       // of each variant's last call
  std::vector<std::unique_ptr<AlignedBytes>> prepared;  // by variant, once it has run
  const CallLayout* last = nullptr;                     // of the last call
  size_t last_variant = 0;                              // of the last call, in `variants`
  std::vector<const void*> constants;
  std::vector<std::vector<const void*>> constants_by_variant;  // of each variant those that it reads; empty until it runs
  std::shared_ptr<const void> owner;                           // of the constants
  uint64_t bus_errors = bus_errors_answered();
  // The value of a constant that a call wrote.
  struct Written {
    HostTensor value;           // never handed out itself
    std::byte* data = nullptr;  // null: never to be written again
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
  std::unique_ptr<AlignedBytes> arena;
  OutputMemory results;
  cuda::ProgramOnDevice::Owner device;  // of a program for a GPU

  // A call whose sizes are known.
  struct Sized {
    LoadedVariant& variant;
    CallSizes sizes;
    const CallLayout& layout;
    std::span<const int32_t> updates;
  };
  Sized find_sizes(std::span<const InputShape> shapes);

 private:
  // And its tensors in the process's memory.
  struct Laid : Sized {
    std::vector<std::vector<std::byte>> copies;  // of inputs that had to move
    std::vector<const void*> inputs;
    std::vector<HostTensor> outputs;
    std::vector<void*> places;                        // of the outputs, in the process's memory; null: late
    std::vector<std::pair<size_t, Written>> written;  // constants
  };
  Laid lay_out(std::span<const HostTensor> inputs);
  void run_on_host(Laid& laid, const int64_t* numbers);
  cuda::ProgramOnDevice::Call on_device(const Sized& sized, const int64_t* numbers) const {
    return {sized.variant, name, sized.layout, sized.sizes, numbers, constants, sized.updates};
  }
  // The bytes of inputs.
  static std::vector<std::span<const std::byte>> inputs_of(const Laid& laid, std::span<const HostTensor> inputs);
};

namespace {

// Throws Error{InvalidInput} unless the elements that the program keeps at one place are equal: the last one was written there.
void require_shared_elements(const char* name, const std::byte* copy, std::span<const int64_t> strides, const HostTensor& input) {
  std::vector<std::byte> read(input.bytes().size());
  copy_strided(read.data(), strides_of(input.sizes()), copy, strides, input.sizes(), static_cast<size_t>(size_bytes(input.dtype())));
  if (std::equal(read.begin(), read.end(), input.bytes().begin())) return;
  throw Error(ErrorKind::InvalidInput,
              formatted("input '{}' has elements that differ where the program's strides give them one place", name))
      .help("write the input's type without strides, or give it elements that repeat");
}

// The inputs where the program can read them: with its strides, and aligned to their elements. `copies` keeps those that had to
// move.
std::vector<const void*> laid_out(const CallSizes& sizes, std::span<const HostTensor> inputs, std::vector<std::vector<std::byte>>& copies) {
  std::vector<const void*> pointers;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ToroidInputInfo& info = sizes.contract().inputs[i];
    const auto width = static_cast<size_t>(size_bytes(inputs[i].dtype()));
    const std::byte* data = inputs[i].bytes().data();
    const std::vector<int64_t> given = strides_of(inputs[i].sizes()), wanted = strides_wanted(sizes, i, inputs[i].sizes());
    if (reinterpret_cast<uintptr_t>(data) % width == 0 && is_same_layout(inputs[i].sizes(), given, wanted)) {
      pointers.push_back(data);
      continue;
    }
    const size_t size = needed_bytes(inputs[i].sizes(), wanted, static_cast<int64_t>(width), formatted("input '{}'", info.name));
    asking_for(size, "a copy of an input that lies in memory otherwise than compiled for", [&] { copies.emplace_back(size); });
    copy_strided(copies.back().data(), wanted, data, given, inputs[i].sizes(), width);
    if (!are_apart(inputs[i].sizes(), wanted)) require_shared_elements(info.name, copies.back().data(), wanted, inputs[i]);
    pointers.push_back(copies.back().data());
  }
  return pointers;
}

}  // namespace

Executable::Executable(std::string_view library, std::vector<std::span<const std::byte>> constants, std::shared_ptr<const void> owner,
                       std::string name, int threads, int gpu)
    : state_(with_typed_memory("loading a program", [&] {
        return std::make_unique<State>(library, std::move(name), std::make_unique<RuntimePool>(threads), gpu);
      })) {
  TOROID_CHECK(constants.size() == static_cast<size_t>(state_->tables.num_constants), "{} constants for a program with {}",
               constants.size(), state_->tables.num_constants);
  with_typed_memory("loading a program", [&] {
    for (const auto& constant : constants) state_->constants.push_back(constant.data());
  });
  state_->owner = std::move(owner);
}

Executable::Executable(Executable&&) noexcept = default;
Executable::~Executable() = default;

Executable Executable::load(const std::filesystem::path& path, int threads, int gpu) { return load(path, path, threads, gpu); }

Executable Executable::load(const std::filesystem::path& library, const std::filesystem::path& weights, int threads, int gpu) {
  return with_typed_memory("loading a program", [&] { return Executable(load_state(library, weights, threads, gpu)); });
}

std::unique_ptr<Executable::State> Executable::load_state(const std::filesystem::path& library, const std::filesystem::path& path,
                                                          int threads, int gpu) {
  ErrorContext context("loading {}", library.string());
  auto pool = std::make_unique<RuntimePool>(threads);
  Package package = open_package(path, *pool);
  if (library != path) package.library = read_file(library);
  auto state = std::make_unique<State>(package.library, library.filename().string(), std::move(pool), gpu);
  uint64_t offset = 0;
  for (const ToroidConstantInfo& constant : rows(state->tables.constants, state->tables.num_constants)) {
    state->constants.push_back(package.take_weight(offset, constant.name, constant.bytes).data());
  }
  state->owner = std::move(package.file);
  return state;
}

Executable::Executable(std::unique_ptr<State> state) : state_(std::move(state)) {}

std::vector<HostTensor> Executable::run(std::span<const HostTensor> inputs) {
  return with_typed_memory("running a program", [&] { return state_->run(inputs); });
}

Executable::State::Sized Executable::State::find_sizes(std::span<const InputShape> shapes) {
  LoadedVariant* variant = &variants.back();
  CallSizes sizes = variant->bind(shapes);
  for (LoadedVariant& each : variants) {
    if (!each.is_chosen(sizes)) continue;
    if (&each != variant) sizes = each.bind(shapes);
    variant = &each;
    break;
  }
  const CallLayout& layout = lay_out(*variant, sizes);
  last = &layout;
  last_variant = static_cast<size_t>(variant - variants.data());
  return {*variant, std::move(sizes), layout, updates[last_variant]};
}

Executable::State::Laid Executable::State::lay_out(std::span<const HostTensor> inputs) {
  std::vector<InputShape> shapes;
  for (const HostTensor& input : inputs) shapes.push_back({input.dtype(), input.sizes()});
  Laid laid{find_sizes(shapes), {}, {}, {}, {}, {}};
  laid.inputs = laid_out(laid.sizes, inputs, laid.copies);
  results.begin_call();
  const std::span<const ToroidOutputInfo> infos = rows(laid.variant.tables.outputs, laid.variant.tables.num_outputs);
  for (size_t i = 0; i < infos.size(); ++i) {
    const auto dtype = static_cast<DType>(infos[i].dtype);
    const bool is_update = laid.updates[i] >= 0;
    laid.places.push_back(nullptr);
    if ((is_update && device) || infos[i].is_late != 0) {
      laid.outputs.push_back(is_update && device ? HostTensor(dtype, {0}) : HostTensor());
      continue;
    }
    const auto constant = static_cast<size_t>(laid.updates[i]);
    const bool in_place =
        infos[i].in_place >= 0 && buffers[constant].is_ours_alone() && buffers[constant].value.bytes().size() >= kLeastInPlace;
    HostTensor made = in_place ? buffers[constant].value : results.tensor(dtype, laid.layout.output_sizes[i]);
    laid.places.back() = in_place ? buffers[constant].data : made.mutable_data<std::byte>();
    if (is_update) {
      laid.written.emplace_back(constant, Written{std::move(made), static_cast<std::byte*>(laid.places.back())});
      made = laid.written.back().second.share();
    }
    laid.outputs.push_back(std::move(made));
  }
  return laid;
}

std::vector<std::span<const std::byte>> Executable::State::inputs_of(const Laid& laid, std::span<const HostTensor> inputs) {
  std::vector<std::span<const std::byte>> result;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto moved =
        std::find_if(laid.copies.begin(), laid.copies.end(), [&](const auto& copy) { return copy.data() == laid.inputs[i]; });
    result.emplace_back(static_cast<const std::byte*>(laid.inputs[i]),
                        moved != laid.copies.end() ? moved->size() : inputs[i].bytes().size());
  }
  return result;
}

DeviceTimes Executable::State::time(std::span<const HostTensor> inputs, const DeviceTimesOptions& options) {
  const Laid laid = lay_out(inputs);
  const int64_t numbers[] = {static_cast<int64_t>(random[0]), static_cast<int64_t>(random[1])};
  return device->time(on_device(laid, numbers), inputs_of(laid, inputs), options);
}

void Executable::State::start(std::span<const DeviceTensor> inputs, std::span<DeviceTensor> outputs, void* stream) {
  std::vector<InputShape> shapes;
  for (const DeviceTensor& input : inputs) shapes.push_back({input.dtype, input.sizes});
  const Sized sized = find_sizes(shapes);
  const ToroidVariant& its = sized.variant.tables;
  if (outputs.size() != static_cast<size_t>(its.num_outputs))
    throw Error(ErrorKind::InvalidInput, formatted("{} outputs for a program with {}", outputs.size(), its.num_outputs))
        .help("give memory for each of those that Executable::outputs_of names");
  std::vector<std::span<const std::byte>> bytes;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const DeviceTensor& input = inputs[i];
    const std::vector<int64_t> given = input.strides.empty() ? strides_of(input.sizes) : input.strides;
    const std::vector<int64_t> wanted = strides_wanted(sized.sizes, i, input.sizes);
    if (!is_same_layout(input.sizes, given, wanted))
      throw Error(ErrorKind::InvalidInput, formatted("input '{}' has strides {}, and the program reads it with {}",
                                                     its.contract.inputs[i].name, shape_text(given), shape_text(wanted)))
          .help("lay it out so before the call");
    const size_t size = needed_bytes(input.sizes, wanted, size_bytes(input.dtype), formatted("input '{}'", its.contract.inputs[i].name));
    bytes.emplace_back(static_cast<const std::byte*>(input.data), size);
  }
  const int64_t numbers[] = {static_cast<int64_t>(random[0]), static_cast<int64_t>(random[1]++)};
  device->start(on_device(sized, numbers), bytes, outputs, static_cast<cuda::StreamHandle>(stream));
  refuse_lost_weights();
}

void Executable::State::run_on_host(Laid& laid, const int64_t* numbers) {
  reserve_arena(laid.layout.arena.bytes);
  char* const shared = prepare(laid.variant);
  laid.variant.run(host, name, laid.layout, laid.inputs.data(), constants_of(laid.variant).data(), arena->data(), shared, numbers,
                   laid.sizes, laid.places.data(), laid.outputs);
}

std::vector<HostTensor> Executable::State::run(std::span<const HostTensor> inputs) {
  Laid laid = lay_out(inputs);
  const int64_t numbers[] = {static_cast<int64_t>(random[0]), static_cast<int64_t>(random[1]++)};
  if (device) {
    device->run(on_device(laid, numbers), inputs_of(laid, inputs), laid.outputs);
    refuse_lost_weights();
    return std::move(laid.outputs);
  }
  run_on_host(laid, numbers);
  refuse_lost_weights();
  for (size_t i = 0; i < laid.outputs.size(); ++i) {
    const bool is_late = laid.variant.tables.outputs[i].is_late != 0;
    if (is_late && laid.updates[i] >= 0) laid.written.emplace_back(static_cast<size_t>(laid.updates[i]), Written{laid.outputs[i]});
  }
  for (auto& [constant, written] : laid.written) {
    put_constant(constant, written.value.bytes().data());
    buffers[constant] = std::move(written);
  }
  return std::move(laid.outputs);
}

void Executable::start(std::span<const DeviceTensor> inputs, std::span<DeviceTensor> outputs, void* stream) {
  TOROID_CHECK(state_->device != nullptr, "device pointers for a program on the processor");
  with_typed_memory("running a program", [&] { state_->start(inputs, outputs, stream); });
}

void Executable::wait() {
  if (state_->device) state_->device->wait();
}

std::vector<DeviceTensor> Executable::outputs_of(std::span<const DeviceTensor> inputs) {
  std::vector<InputShape> shapes;
  for (const DeviceTensor& input : inputs) shapes.push_back({input.dtype, input.sizes});
  const State::Sized sized = state_->find_sizes(shapes);
  std::vector<DeviceTensor> result;
  for (int32_t i = 0; i < sized.variant.tables.num_outputs; ++i) {
    const ToroidOutputInfo& info = sized.variant.tables.outputs[i];
    result.push_back({.dtype = static_cast<DType>(info.dtype), .sizes = {}});
    if (info.is_late == 0) result.back().sizes = sized.layout.output_sizes[static_cast<size_t>(i)];
  }
  return result;
}

HostTensor Executable::updated_buffer(size_t output) {
  const std::vector<int32_t>& updates = state_->updates[state_->last_variant];
  TOROID_CHECK(state_->last != nullptr && output < updates.size() && updates[output] >= 0, "output {} is no buffer's new value", output);
  const auto constant = static_cast<size_t>(updates[output]);
  if (!state_->device) return state_->buffers[constant].share();
  HostTensor value(static_cast<DType>(last_variant().outputs[output].dtype), state_->last->output_sizes[output]);
  state_->device->read_constant(constant, {value.mutable_data<std::byte>(), value.bytes().size()});
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
DeviceTimes Executable::time_on_device(std::span<const HostTensor> inputs, const DeviceTimesOptions& options) {
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
const ToroidProgram& Executable::tables() const { return state_->tables; }
const ToroidVariant& Executable::last_variant() const { return state_->tables.variants[state_->last_variant]; }
int64_t Executable::arena_bytes() const { return state_->last ? state_->last->arena.bytes : 0; }
int64_t Executable::arena_lower_bound() const { return state_->last ? state_->last->arena.lower_bound : 0; }

}  // namespace toroid
