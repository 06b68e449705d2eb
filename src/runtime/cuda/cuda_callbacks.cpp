#include "runtime/cuda/cuda_callbacks.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/affixes.h"
#include "base/error.h"
#include "base/machine/out_of_memory.h"
#include "library/branch_calls.h"
#include "library/cudnn_calls.h"
#include "library/device_copy.h"
#include "runtime/cuda/communication/nccl.h"
#include "runtime/cuda/images.h"
#include "runtime/cuda/tensor_map.h"
#include "runtime/cuda/vendors/blas_lt.h"
#include "runtime/kernels/isa/half_rows.h"

namespace toroid::cuda {
namespace {

// As kernels write it (codegen/cuda/prelude/types.inc).
struct Failure {
  int32_t code, step;
  int64_t index, size;
};

GraphsFrom graphs_from() {
  const char* text = std::getenv("TOROID_CUDA_GRAPHS");
  const std::string_view from = text == nullptr ? "" : text;
  if (from.empty()) return GraphsFrom::SecondCall;
  if (from == "never") return GraphsFrom::Never;
  if (from == "first") return GraphsFrom::FirstCall;
  throw Error(ErrorKind::InvalidOption, formatted("TOROID_CUDA_GRAPHS is '{}'", from)).help("it may be never or first");
}

// Unless the variable of the environment says never.
bool unless_never(const char* variable) {
  const char* text = std::getenv(variable);
  const std::string_view which = text == nullptr ? "" : text;
  if (which.empty()) return true;
  if (which == "never") return false;
  throw Error(ErrorKind::InvalidOption, formatted("{} is '{}'", variable, which)).help("it may be never");
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

// A product in float32 of 16-bit floats: the host's have factors of their result's dtype.
bool has_wide_sums(const ToroidLibraryCall& call) {
  const auto is_narrow = [](const ToroidOperand& factor) { return is_reduced_float(static_cast<DType>(factor.dtype)); };
  return is_product_of_two(call) && is_narrow(call.inputs[0]) && is_narrow(call.inputs[1]) &&
         static_cast<DType>(call.outputs[0].dtype) == DType::F32;
}

void widen(ToroidOperand& operand, std::list<AlignedBytes>& copies) {
  const Window window = window_of(operand);
  const auto bytes = static_cast<size_t>(window.count) * sizeof(float);
  asking_for(bytes, "a copy of an operand", [&] { copies.emplace_back(std::max<size_t>(bytes, 1)); });
  auto* const wide = reinterpret_cast<float*>(copies.back().data());
  widen_row(static_cast<DType>(operand.dtype), static_cast<const uint16_t*>(operand.data) + window.first, window.count, wide);
  operand.dtype = static_cast<int32_t>(DType::F32);
  operand.data = wide - window.first;
}

}  // namespace

struct CudaCallbacks::Entries {
  static CudaCallbacks& host(const ToroidRuntime* runtime) { return static_cast<CudaCallbacks&>(host_of(runtime)); }
  static int32_t launch(const ToroidRuntime* runtime, const ToroidLaunch* launch) {
    return guarded(runtime, 1, [&] { return host(runtime).launch(*launch), 0; });
  }
  static int32_t call(const ToroidRuntime* runtime, const ToroidLibraryCall* call) {
    return guarded(runtime, 1, [&] { return host(runtime).call_or_refuse(*call); });
  }
  static int32_t copy(const ToroidRuntime* runtime, void* to, const void* from, int64_t bytes) {
    host(runtime).is_behind_launch_ = false;
    return guarded(runtime, 1, [&] { return copy_within(host(runtime).stream_, to, from, static_cast<size_t>(bytes)), 0; });
  }
  static int32_t read(const ToroidRuntime* runtime, void* to, const void* from, int64_t bytes) {
    return guarded(runtime, 1, [&] { return host(runtime).read(to, from, bytes), 0; });
  }
  static const int64_t* random(const ToroidRuntime* runtime, const int64_t* state) {
    return guarded(runtime, nullptr, [&] { return host(runtime).random(state); });
  }
  // Of steps on the host, whose tensors are in the process's memory.
  static int32_t call_here(const ToroidRuntime* runtime, const ToroidLibraryCall* call) {
    return guarded(runtime, 1, [&] { return host(runtime).RuntimeCallbacks::call(*call), 0; });
  }
  static void* allocate_here(const ToroidRuntime* runtime, int64_t bytes) {
    return guarded(runtime, nullptr, [&]() -> void* { return host(runtime).RuntimeCallbacks::allocate(bytes); });
  }
  static void* output_here(const ToroidRuntime* runtime, int32_t position, const int64_t* sizes) {
    return guarded(runtime, nullptr, [&]() -> void* { return host(runtime).output_here(position, sizes); });
  }
  static void release_here(const ToroidRuntime* runtime, void* data) { host(runtime).RuntimeCallbacks::release(data); }
};

CudaCallbacks::CudaCallbacks(const Device& device, RuntimePool& pool, PreparedConstants& packed, const ToroidProgram& program,
                             const ToroidGpuProgram& kernels, const Stream& stream)
    : RuntimeCallbacks(pool, packed),
      program_(program),
      draws_((kernels.facts & TOROID_GPU_DRAWS) != 0),
      device_(device),
      stream_(stream),
      multiprocessors_(device.multiprocessors()),
      order_(stream),
      branches_(stream),
      beside_(stream),
      caller_(stream.handle()),
      when_(graphs_from()),
      overlaps_(unless_never("TOROID_CUDA_OVERLAP") && may_overlap(kernels, device.compute_capability())),
      branches_of_calls_(unless_never("TOROID_CUDA_BRANCHES")),
      uses_beside_(unless_never("TOROID_CUDA_BESIDE")),
      peer_copies_(unless_never("TOROID_CUDA_PEER_COPIES")),
      binaries_(images_for(kernels, device.compute_capability())),
      launches_(launches_for(kernels, device.compute_capability())),
      products_(stream),
      cudnn_(stream),
      failure_(sizeof(Failure)) {
  here_ = own_table();
  here_.call = Entries::call_here;
  here_.allocate = Entries::allocate_here;
  here_.release = Entries::release_here;
  here_.output = Entries::output_here;
  table_ = {own_table(),   Entries::launch, Entries::copy,
            Entries::read, failure_.data(), vendor() == Vendor::Nvidia || has_blas_lt() ? 1 : 0,
            &here_,        nullptr,         Entries::random};
  table_.host.call = Entries::call;
}

void CudaCallbacks::set_memory(const std::shared_ptr<ProductMemory>& memory, const std::string& gpu) {
  products_.set_memory(memory, gpu);
  cudnn_.set_memory(memory, gpu);
}

void CudaCallbacks::set_deciding(bool on) {
  products_.set_deciding(on);
  cudnn_.set_deciding(on);
}

int32_t CudaCallbacks::run(Entry* entry, const ToroidCall& call, Call& state) {
  late_outputs_.clear();
  late_host_outputs_.clear();
  read_step_times();
  graph_nodes_.reset();
  const bool is_call = entry == state.variant.run;
  variant_ = is_call ? &repeated_.of(state.variant) : &preparation_;
  return is_call ? start(entry, call, state) : start_one_by_one(entry, call, state);
}

int32_t CudaCallbacks::start(Entry* entry, const ToroidCall& call, Call& state) {
  CallsOfSizes& same = RepeatedCalls::same_sizes(*variant_, state.variant, call);
  const auto one_by_one = [&](bool decides) {
    set_deciding(decides);
    return start_one_by_one(entry, call, state);
  };
  ++same.calls;
  if (same.calls == 1 && when_ == GraphsFrom::FirstCall) {
    const std::vector<Memory> before = copies_of_updated(state.variant, call);
    if (const int32_t failed = one_by_one(true)) return failed;
    put_back(before, state.variant, call);
    same.calls = 3;
  }
  if (same.calls == 2 && is_undecided()) return one_by_one(true);
  if (same.calls == 1 || !uses_graphs_ || when_ == GraphsFrom::Never || !variant_->obstacles.empty()) return one_by_one(false);
  set_deciding(false);
  return start_graph(same, entry, call, state) ? 0 : one_by_one(false);
}

// Of what the call writes in place, in the outputs' order; empty ones of others.
std::vector<Memory> CudaCallbacks::copies_of_updated(const ToroidVariant& variant, const ToroidCall& call) {
  std::vector<Memory> copies;
  order_.begin(stream_.handle());
  for (int32_t i = 0; i < variant.num_outputs; ++i) {
    const int32_t slot = variant.outputs[i].in_place;
    const bool is_in_place = slot >= 0 && call.outputs[i] == call.constants[slot];
    copies.emplace_back(stream_, is_in_place ? static_cast<size_t>(program_.constants[variant.constants[slot]].bytes) : 0);
    copy_within(stream_, copies.back().data(), call.outputs[i], copies.back().size());
  }
  order_.end(stream_.handle());
  return copies;
}

void CudaCallbacks::put_back(const std::vector<Memory>& copies, const ToroidVariant& variant, const ToroidCall& call) {
  order_.begin(stream_.handle());
  for (int32_t i = 0; i < variant.num_outputs; ++i)
    copy_within(stream_, call.outputs[i], copies[static_cast<size_t>(i)].data(), copies[static_cast<size_t>(i)].size());
  order_.end(stream_.handle());
}

int32_t CudaCallbacks::start_steps(Entry* entry, const ToroidCall& call, Call& state) {
  is_behind_launch_ = false;
  random_of_call_ = call.random;
  beside_.begin_call(uses_beside_);
  peer_copies_.begin_call();
  stays_ = false;
  const int32_t failed = RuntimeCallbacks::run(entry, call, state);
  beside_.await_all(stream_.handle());
  peer_copies_.end_call(stream_.handle());
  return failed;
}

// On the own stream, behind what the caller's stream has, and before what it gets.
int32_t CudaCallbacks::start_one_by_one(Entry* entry, const ToroidCall& call, Call& state) {
  const bool is_own = caller_ == stream_.handle();
  order_.begin(stream_.handle());
  if (!is_own) order_.follow(stream_.handle(), caller_);
  if (variant_ != &preparation_) set_random(stream_.handle(), kOfCall, call.random);
  const int32_t failed = start_steps(entry, call, state);
  order_.end(stream_.handle());
  if (!is_own) {
    order_.begin(caller_);
    order_.end(caller_);
  }
  return failed;
}

// False where the call cannot be captured, which is an obstacle from then on.
bool CudaCallbacks::start_graph(CallsOfSizes& same, Entry* entry, const ToroidCall& call, Call& state) {
  read_places(state.variant, call, places_);
  GraphOfCall* its = same.find(places_);
  if (its == nullptr) {
    its = &same.next();
    its->places.clear();  // until it is captured
    try {
      its->graph.capture(stream_, [&] {
        const Branches::Capture capture(branches_, branches_of_calls_);
        if (start_steps(entry, call, state) != 0) throw Error(ErrorKind::Internal, "a step is not started");
      });
    } catch (const Error& error) {
      same.graphs.pop_front();
      variant_->obstacles.insert(error.message());
      return false;
    }
    if (!variant_->obstacles.empty()) {  // what no call came to before
      same.graphs.pop_front();
      return false;
    }
    its->places = places_;
  }
  order_.begin(caller_);
  set_random(caller_, kOfCall, call.random);
  its->graph.launch(caller_);
  order_.end(caller_);
  graph_nodes_ = its->graph.num_nodes();
  return true;
}

// The driver has read the two words when it returns. A graph has none of them: it reads where they are.
void CudaCallbacks::set_random(StreamHandle stream, WhoseRandom whose, const int64_t* state) {
  if (!draws_) return;
  if (!random_) random_.emplace(stream_, 4 * sizeof(int64_t));
  const Address to = reinterpret_cast<Address>(random_words(whose));
  check(driver().copy_in(to, state, 2 * sizeof(int64_t), stream), "copying to the GPU");
}

const int64_t* CudaCallbacks::random(const int64_t* state) {
  if (state == random_of_call_) return random_words(kOfCall);
  is_behind_launch_ = false;
  variant_->obstacles.insert("a loop's body draws random numbers");
  set_random(stream_.handle(), kOfRun, state);
  return random_words(kOfRun);
}

int32_t CudaCallbacks::wait() {
  order_.wait();
  read_step_times();
  const Failure found = std::exchange(*static_cast<Failure*>(failure_.data()), Failure{});
  if (found.code == 0) return 0;
  program_.bad_index[0] = found.index;
  program_.bad_index[1] = found.size;
  return (found.step + 1) | found.code << 28;
}

bool CudaCallbacks::has_failed() const { return static_cast<const volatile Failure*>(failure_.data())->code != 0; }

// On the device, so what the host does beside its steps costs them nothing.
void CudaCallbacks::begin_step(int32_t step) {
  end_steps();
  is_behind_launch_ = false;
  variant_->obstacles.insert("its steps are timed");
  timed_steps_.emplace_back().step = step;
  timed_steps_.back().from.record(stream_.handle());
  is_in_step_ = true;
}

void CudaCallbacks::end_steps() {
  if (std::exchange(is_in_step_, false)) timed_steps_.back().to.record(stream_.handle());
}

void CudaCallbacks::read_step_times() {
  for (const TimedStep& each : timed_steps_) add_step_time(each.step, Event::seconds(each.from, each.to));
  timed_steps_.clear();
}

void* CudaCallbacks::allocate(int64_t bytes) {
  is_behind_launch_ = false;
  variant_->obstacles.insert("it asks for memory while it runs");
  const auto size = static_cast<size_t>(bytes);
  const auto fits = [&](const Memory& block) { return block.size() >= size && block.size() <= 2 * size; };
  const auto found = std::find_if(free_.begin(), free_.end(), fits);  // in the stream's order, so its last use is over
  if (found != free_.end()) {
    used_.splice(used_.begin(), free_, found);
  } else {
    used_.emplace_front(stream_, size);
  }
  return used_.front().data();
}

void CudaCallbacks::release(void* data) {
  const auto found = std::find_if(used_.begin(), used_.end(), [&](const Memory& block) { return block.data() == data; });
  if (found != used_.end()) free_.splice(free_.begin(), used_, found);
}

void* CudaCallbacks::output(int32_t position, const int64_t* sizes) {
  is_behind_launch_ = false;
  variant_->obstacles.insert("the sizes of an output are known late");
  const ToroidOutputInfo& info = call_state().variant.outputs[position];
  std::vector<int64_t> its(sizes, sizes + info.rank);
  const auto bytes = static_cast<size_t>(bytes_of(static_cast<DType>(info.dtype), its));
  return late_outputs_.insert_or_assign(position, LateOutput{std::move(its), Memory(stream_, bytes)}).first->second.memory.data();
}

void* CudaCallbacks::output_here(int32_t position, const int64_t* sizes) {
  const ToroidOutputInfo& info = call_state().variant.outputs[position];
  HostTensor made(static_cast<DType>(info.dtype), std::vector<int64_t>(sizes, sizes + info.rank));
  return late_host_outputs_.insert_or_assign(position, std::move(made)).first->second.mutable_data<std::byte>();
}

void CudaCallbacks::launch(const ToroidLaunch& launch) {
  if (launch.threads == 0) return launch_as_told(launch);
  std::vector<EncodedTensorMap> maps(static_cast<size_t>(launch.num_maps));
  for (size_t i = 0; i < maps.size(); ++i) {
    maps[i] = encode(launch.maps[i]);
    launch.arguments[i] = &maps[i];
  }
  int64_t blocks = launch.blocks;
  if (launch.resident > 0) blocks = std::min<int64_t>(blocks, multiprocessors_ / launch.resident * launch.resident);
  start_kernel(launch, blocks);
}

void CudaCallbacks::start_kernel(const ToroidLaunch& launch, int64_t blocks) {
  constexpr int64_t kMostBlocks = (int64_t{1} << 31) - 1, kMostRows = 65535;
  const int64_t rows = std::max<int64_t>(launch.rows, 1), layers = std::max<int64_t>(launch.layers, 1);
  if (launch.blocks > kMostBlocks)
    throw Error(ErrorKind::InvalidInput, formatted("the kernel '{}' needs {} blocks of threads, and a GPU starts {} at most", launch.kernel,
                                                   launch.blocks, kMostBlocks));
  if (rows > kMostRows || layers > kMostRows)
    throw Error(ErrorKind::InvalidInput,
                formatted("the kernel '{}' needs {} by {} by {} blocks of threads, and a GPU starts {} at most along "
                          "the second and the third dim",
                          launch.kernel, blocks, rows, layers, kMostRows));
  // What is behind anything else than a kernel waits for all of that.
  const bool is_behind_launch = std::exchange(is_behind_launch_, true);
  const bool starts_early = launch.starts_early != 0 && overlaps_ && is_behind_launch;
  constexpr LaunchAttribute kEarly = {kProgrammaticStreamSerialization, 0, {1}};
  const LaunchConfiguration how = {{static_cast<unsigned>(blocks), static_cast<unsigned>(rows), static_cast<unsigned>(layers)},
                                   {static_cast<unsigned>(launch.threads), 1, 1},
                                   static_cast<unsigned>(launch.shared_bytes),
                                   branches_.stream(),
                                   &kEarly,
                                   starts_early ? 1u : 0u};
  const Result result = driver().launch(&how, binaries_.function(launch.kernel, launch.shared_bytes), launch.arguments, nullptr);
  if (result != 0) check(result, formatted("starting the kernel '{}'", launch.kernel).c_str());
}

// Its scratch memory is free for others as soon as the kernel is started: they are behind it in the stream.
void CudaCallbacks::launch_as_told(const ToroidLaunch& asked) {
  const auto found = launches_.find(asked.kernel);
  if (found == launches_.end())
    throw Error(ErrorKind::Internal, formatted("no binary of the program says how '{}' is started", asked.kernel));
  const ToroidGpuKernel& told = *found->second;
  ToroidLaunch launch = asked;
  launch.threads = told.threads;
  launch.shared_bytes = told.shared_bytes;
  void* pointers[TOROID_GPU_MORE_POINTERS] = {};
  for (int32_t i = 0; i < told.more_pointers; ++i) launch.arguments[launch.num_arguments + i] = &pointers[i];
  if (told.scratch_bytes > 0) {
    const int64_t blocks = launch.blocks * std::max<int64_t>(launch.rows, 1) * std::max<int64_t>(launch.layers, 1);
    pointers[0] = allocate(told.scratch_bytes * blocks);
  }
  start_kernel(launch, launch.blocks);
  if (pointers[0] != nullptr) release(pointers[0]);
}

void CudaCallbacks::read(void* to, const void* from, int64_t bytes) {
  is_behind_launch_ = false;
  variant_->obstacles.insert("it reads numbers from tensors");
  copy_out(stream_, to, from, static_cast<size_t>(bytes));
  stream_.synchronize();
}

int32_t CudaCallbacks::call_or_refuse(const ToroidLibraryCall& call) {
  const std::string_view name = call.name;
  if (name == kBranchCall) {
    is_behind_launch_ = false;
    return branches_.begin(call.integers[0]), 0;
  }
  if (name == kBesideCall) {
    is_behind_launch_ = false;
    if (call.integers[0] == 0) return beside_.close(), 0;
    if (call.integers[0] == kMarks) return beside_.open_on(branches_.stream()), beside_.close(), 0;
    stays_ = call.integers[0] == kStays;
    swapped_ = nullptr;
    return branches_.branch() > 0 ? beside_.open_on(branches_.stream()) : beside_.open(), 0;
  }
  if (name == kAwaitCall) {
    is_behind_launch_ = false;
    return beside_.await(call.integers[0], branches_.stream()), 0;
  }
  if (name == kTakeCall) {
    if (swapped_ == nullptr) throw Error(ErrorKind::Internal, "nothing was swapped");
    return *static_cast<const void**>(call.outputs[0].data) = swapped_, 0;
  }
  if (name == kWaitCall) return wait_for_host(), 0;
  if (!starts_with(name, cudnn_calls::kPrefix)) return this->call(call), 0;
  is_behind_launch_ = false;
  if (!cudnn_.run(call)) return cudnn_calls::kRefuses;
  return 0;
}

void CudaCallbacks::call(const ToroidLibraryCall& call) {
  is_behind_launch_ = false;
  if (copy_between(call) || multiply(call)) return;
  const auto in_order = [&] { beside_.await_all(beside_.stream()); };
  if (!communicate(call, {device_, peer_copies_, beside_.stream(), branches_.branch(), std::exchange(stays_, false), &swapped_, in_order}))
    call_on_host(call);
}

// Batches that no single stride tells, as the heads of attention, go one by one along the first dim.
bool CudaCallbacks::multiply(const ToroidLibraryCall& call) {
  std::vector<Products::Plan*>& sites = sites_[&call_state().variant];
  const auto site = static_cast<size_t>(call.site);
  if (site >= sites.size()) sites.resize(site + 1);
  Products::Plan* plan = call.has_fixed_sizes != 0 ? sites[site] : nullptr;
  if (plan == nullptr) {
    if (const std::optional<Product> product = as_product(call)) {
      plan = products_.plan_of(*product);
      if (plan == nullptr) return false;
      if (call.has_fixed_sizes != 0) sites[site] = plan;
    }
  }
  if (plan != nullptr) {
    products_.run(*plan, call.inputs[0].data, call.inputs[1].data, call.outputs[0].data);
    return true;
  }
  if (!is_product_of_two(call) || call.outputs[0].rank <= 2) return false;
  const auto slice = [](const ToroidOperand& operand, int64_t i) {
    ToroidOperand result = operand;
    result.data = static_cast<char*>(operand.data) + i * operand.strides[0] * size_bytes(static_cast<DType>(operand.dtype));
    ++result.sizes, ++result.strides, --result.rank;
    return result;
  };
  for (int64_t i = 0; i < call.outputs[0].sizes[0]; ++i) {
    const ToroidOperand inputs[] = {slice(call.inputs[0], i), slice(call.inputs[1], i)}, outputs[] = {slice(call.outputs[0], i)};
    ToroidLibraryCall one = call;
    one.has_fixed_sizes = 0;  // the slices share their site
    one.inputs = inputs;
    one.outputs = outputs;
    if (!multiply(one)) return false;
  }
  return true;
}

// What is copied is contiguous, and lies in the process's memory where no other call writes before it is read: copy_in has read it when it
// returns.
bool CudaCallbacks::copy_between(const ToroidLibraryCall& call) {
  if (std::string_view(call.name) != kDeviceCopyKernel) return false;
  variant_->obstacles.insert("it copies tensors between the host and the GPU");
  const ToroidOperand &from = call.inputs[0], &to = call.outputs[0];
  const Span<const int64_t> sizes(to.sizes, static_cast<size_t>(to.rank));
  const auto bytes = static_cast<size_t>(bytes_of(static_cast<DType>(to.dtype), sizes));
  if (bytes == 0) return true;
  call.numbers[0] != 0 ? copy_in(stream_, to.data, from.data, bytes) : copy_out(stream_, to.data, from.data, bytes);
  return true;
}

void CudaCallbacks::wait_for_host() {
  is_behind_launch_ = false;
  variant_->obstacles.insert("its host waits for the GPU");
  stream_.synchronize();
}

void CudaCallbacks::call_on_host(const ToroidLibraryCall& call) {
  if (variant_ != &preparation_) on_host_.insert(call.name);
  variant_->obstacles.insert(formatted("{} runs on the host", call.name));
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
  if (has_wide_sums(call)) {
    for (ToroidOperand& input : inputs) widen(input, copies);
  }
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
