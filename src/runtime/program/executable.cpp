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

ProgramLibrary::ProgramLibrary(std::string_view bytes, std::string name)
    : library_(bytes, std::move(name)), tables_(static_cast<const ToroidProgram*>(library_.find("toroid_program"))) {
  if (tables_ != nullptr && tables_->abi_version == TOROID_ABI_VERSION) return;
  throw Error(ErrorKind::InvalidInput, "the library was not made by this version of toroid")
      .help("compile the model again with 'toroid compile'");
}

struct Executable::State {
  State(std::string_view bytes, std::string name, std::unique_ptr<RuntimePool> threads)
      : library(bytes, name), pool(std::move(threads)), name(std::move(name)), host(*pool), tables(library.tables()) {
    for (const ToroidVariant& variant : rows(tables.variants, tables.num_variants)) variants.emplace_back(variant, tables.bad_index);
    last_variant = variants.size() - 1;
    layouts.resize(variants.size());
    prepared.resize(variants.size());
    buffers.resize(static_cast<size_t>(tables.num_constants));
    if (const ToroidGpuProgram* kernels = library.gpu_tables()) device = std::make_unique<cuda::ProgramOnDevice>(*pool, tables, *kernels);
  }

  std::vector<HostTensor> run(std::span<const HostTensor> inputs);

  // Kept until the symbols' values change.
  const CallLayout& lay_out(const LoadedVariant& variant, const CallSizes& sizes) {
    std::optional<CallLayout>& kept = layouts[static_cast<size_t>(&variant - variants.data())];
    if (!kept || kept->symbols != sizes.numbers()) kept = variant.lay_out(sizes);
    return *kept;
  }

  // What the variant's calls share.
  char* prepare(const LoadedVariant& variant, const std::vector<const void*>& constants_of_variant) {
    std::unique_ptr<AlignedBytes>& bytes = prepared[static_cast<size_t>(&variant - variants.data())];
    if (!bytes) bytes = variant.prepare(host, name, constants_of_variant.data());
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
  std::vector<std::optional<CallLayout>> layouts;       // of each variant's last call
  std::vector<std::unique_ptr<AlignedBytes>> prepared;  // by variant, once it has run
  const CallLayout* last = nullptr;                     // of the last call
  size_t last_variant = 0;                              // of the last call, in `variants`
  std::vector<const void*> constants;
  std::shared_ptr<const void> owner;  // of the constants
  uint64_t bus_errors = bus_errors_answered();
  std::vector<HostTensor> buffers;  // new values of the constants that calls wrote
  uint64_t random[2] = {0, 0};      // seed, number of the next call
  std::unique_ptr<AlignedBytes> arena;
  OutputMemory results;
  std::unique_ptr<cuda::ProgramOnDevice> device;  // of a program for a GPU

 private:
  // A call whose sizes and memory are known.
  struct Laid {
    LoadedVariant& variant;
    CallSizes sizes;
    const CallLayout& layout;
    std::vector<std::vector<std::byte>> copies;  // of inputs that had to move
    std::vector<const void*> inputs, constants;
    std::vector<HostTensor> outputs;
  };
  Laid lay_out(std::span<const HostTensor> inputs);
  // Calls use(call), on a device.
  template <class Use>
  void on_device(Laid& laid, std::span<const HostTensor> inputs, const int64_t* numbers, Use use);

 public:
  std::vector<double> time(std::span<const HostTensor> inputs, int times);
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
                       std::string name, int threads)
    : state_(with_typed_memory("loading a program",
                               [&] { return std::make_unique<State>(library, std::move(name), std::make_unique<RuntimePool>(threads)); })) {
  TOROID_CHECK(constants.size() == static_cast<size_t>(state_->tables.num_constants), "{} constants for a program with {}",
               constants.size(), state_->tables.num_constants);
  with_typed_memory("loading a program", [&] {
    for (const auto& constant : constants) state_->constants.push_back(constant.data());
  });
  state_->owner = std::move(owner);
}

Executable::Executable(Executable&&) noexcept = default;
Executable::~Executable() = default;

Executable Executable::load(const std::filesystem::path& path, int threads) { return load(path, path, threads); }

Executable Executable::load(const std::filesystem::path& library, const std::filesystem::path& weights, int threads) {
  return with_typed_memory("loading a program", [&] { return Executable(load_state(library, weights, threads)); });
}

std::unique_ptr<Executable::State> Executable::load_state(const std::filesystem::path& library, const std::filesystem::path& path,
                                                          int threads) {
  ErrorContext context("loading {}", library.string());
  auto pool = std::make_unique<RuntimePool>(threads);
  Package package = open_package(path, *pool);
  if (library != path) package.library = read_file(library);
  auto state = std::make_unique<State>(package.library, library.filename().string(), std::move(pool));
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

Executable::State::Laid Executable::State::lay_out(std::span<const HostTensor> inputs) {
  std::vector<InputShape> shapes;
  for (const HostTensor& input : inputs) shapes.push_back({input.dtype(), input.sizes()});
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
  Laid laid{*variant, std::move(sizes), layout, {}, {}, {}, {}};
  laid.inputs = laid_out(laid.sizes, inputs, laid.copies);
  for (int32_t position : rows(variant->tables.constants, variant->tables.num_constants))
    laid.constants.push_back(constants[static_cast<size_t>(position)]);
  results.begin_call();
  const std::span<const ToroidOutputInfo> infos = rows(variant->tables.outputs, variant->tables.num_outputs);
  for (size_t i = 0; i < infos.size(); ++i)
    laid.outputs.push_back(infos[i].is_late != 0 ? HostTensor()
                                                 : results.tensor(static_cast<DType>(infos[i].dtype), layout.output_sizes[i]));
  return laid;
}

template <class Use>
void Executable::State::on_device(Laid& laid, std::span<const HostTensor> inputs, const int64_t* numbers, Use use) {
  std::vector<std::span<const std::byte>> in, weights;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto moved =
        std::find_if(laid.copies.begin(), laid.copies.end(), [&](const auto& copy) { return copy.data() == laid.inputs[i]; });
    in.emplace_back(static_cast<const std::byte*>(laid.inputs[i]), moved != laid.copies.end() ? moved->size() : inputs[i].bytes().size());
  }
  const std::span<const int32_t> positions = rows(laid.variant.tables.constants, laid.variant.tables.num_constants);
  for (size_t i = 0; i < positions.size(); ++i) {
    weights.emplace_back(static_cast<const std::byte*>(laid.constants[i]), static_cast<size_t>(tables.constants[positions[i]].bytes));
  }
  use(cuda::ProgramOnDevice::Call{laid.variant, name, laid.layout, laid.sizes, in, weights, numbers, laid.outputs});
}

std::vector<double> Executable::State::time(std::span<const HostTensor> inputs, int times) {
  Laid laid = lay_out(inputs);
  const int64_t numbers[] = {static_cast<int64_t>(random[0]), static_cast<int64_t>(random[1])};
  std::vector<double> seconds;
  on_device(laid, inputs, numbers, [&](const auto& call) { seconds = device->time(call, times); });
  return seconds;
}

std::vector<HostTensor> Executable::State::run(std::span<const HostTensor> inputs) {
  Laid laid = lay_out(inputs);
  LoadedVariant& variant = laid.variant;
  const int64_t numbers[] = {static_cast<int64_t>(random[0]), static_cast<int64_t>(random[1]++)};
  if (device) {
    on_device(laid, inputs, numbers, [&](const auto& call) { device->run(call); });
  } else {
    reserve_arena(laid.layout.arena.bytes);
    std::vector<void*> outputs;
    const std::span<const ToroidOutputInfo> infos = rows(variant.tables.outputs, variant.tables.num_outputs);
    for (size_t i = 0; i < infos.size(); ++i)
      outputs.push_back(infos[i].is_late != 0 ? nullptr : laid.outputs[i].mutable_data<std::byte>());
    variant.run(host, name, laid.layout, laid.inputs.data(), laid.constants.data(), arena->data(), prepare(variant, laid.constants),
                numbers, laid.sizes, outputs.data(), laid.outputs);
  }
  refuse_lost_weights();
  const std::span<const ToroidOutputInfo> infos = rows(variant.tables.outputs, variant.tables.num_outputs);
  std::vector<std::pair<size_t, HostTensor>> written;  // all of them or none, also when memory runs out here
  for (size_t i = 0; i < laid.outputs.size(); ++i) {
    if (infos[i].kind != TOROID_OUTPUT_BUFFER_MUTATION) continue;
    for (size_t c = 0; c < constants.size(); ++c) {
      if (std::string_view(tables.constants[c].name) == infos[i].target) written.emplace_back(c, laid.outputs[i]);
    }
  }
  for (auto& [constant, value] : written) {
    if (device) device->forget_constant(constants[constant]);
    constants[constant] = value.bytes().data();
    buffers[constant] = std::move(value);
  }
  return std::move(laid.outputs);
}

void Executable::set_seed(uint64_t seed) {
  state_->random[0] = seed;
  state_->random[1] = 0;
}

const std::vector<std::vector<double>>& Executable::step_times() const {
  return (state_->device ? state_->device->callbacks() : state_->host).step_times();
}
bool Executable::is_on_device() const { return state_->device != nullptr; }
std::vector<double> Executable::time_on_device(std::span<const HostTensor> inputs, int times) { return state_->time(inputs, times); }
std::vector<std::string> Executable::calls_on_host() const {
  if (!state_->device) return {};
  return {state_->device->on_host().begin(), state_->device->on_host().end()};
}
std::vector<std::optional<size_t>> Executable::forms() const { return state_->variants[state_->last_variant].forms(); }
const ToroidProgram& Executable::tables() const { return state_->tables; }
const ToroidVariant& Executable::last_variant() const { return state_->tables.variants[state_->last_variant]; }
int64_t Executable::arena_bytes() const { return state_->last ? state_->last->arena.bytes : 0; }
int64_t Executable::arena_lower_bound() const { return state_->last ? state_->last->arena.lower_bound : 0; }

}  // namespace toroid
