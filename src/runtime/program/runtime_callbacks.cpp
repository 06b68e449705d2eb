#include "runtime/program/runtime_callbacks.h"

#include <algorithm>
#include <new>

#include "base/error.h"
#include "base/format.h"
#include "base/machine/out_of_memory.h"
#include "library/special/scalar.h"
#include "runtime/kernels/conv/chain.h"
#include "runtime/kernels/registry/library.h"
#include "runtime/pool/pool.h"
#include "runtime/program/form_choice.h"

namespace toroid {

struct RuntimeCallbacks::Entries {
  static RuntimeCallbacks& host(const ToroidRuntime* runtime) { return host_of(runtime); }

  static void parallel_for(const ToroidRuntime* runtime, int64_t n, int64_t grain, void (*body)(void*, int64_t, int64_t), void* argument) {
    host(runtime).pool_.parallel_for(n, grain, body, argument);
  }

  static double special_function(const ToroidRuntime*, int32_t op, double x, double y) {
    return apply(static_cast<ScalarOp>(op), DType::F64, x, y);
  }

  static int32_t call(const ToroidRuntime* runtime, const ToroidLibraryCall* call) {
    return guarded(runtime, 1, [&] {
      host(runtime).call(*call);
      return 0;
    });
  }

  static int32_t chain(const ToroidRuntime* runtime, const ToroidChain* call) {
    return guarded(runtime, 1, [&] {
      std::vector<KernelCall> chain;
      for (int32_t i = 0; i < call->num_stages; ++i) {
        const ToroidStage& stage = call->stages[i];
        chain.push_back({host(runtime).pool_,
                         {stage.inputs, static_cast<size_t>(stage.num_inputs)},
                         {stage.output, 1},
                         {stage.integers, static_cast<size_t>(stage.num_integers)},
                         {},
                         stage.epilogue,
                         host(runtime).packed_});
      }
      host(runtime).sites_->run(call->site, call->has_fixed_sizes != 0, call->name, call_of_chain(host(runtime).pool_, chain));
      return 0;
    });
  }

  static int32_t bind(const ToroidRuntime* runtime, int32_t binding, int64_t value) {
    return guarded(runtime, 1, [&] {
      Call& call = *host(runtime).call_;
      const ToroidBinding& bound = call.variant.bindings[binding];
      bind_number(*call.sizes, bound, value);
      if (bound.defines >= 0) check_bytes(*call.sizes);
      return 0;
    });
  }

  static void* allocate(const ToroidRuntime* runtime, int64_t bytes) {
    return guarded(runtime, nullptr, [&]() -> void* { return host(runtime).allocate(bytes); });
  }

  static void release(const ToroidRuntime* runtime, void* data) { host(runtime).release(data); }

  static int32_t step(const ToroidRuntime* runtime, int32_t step) {
    return guarded(runtime, 1, [&] {
      host(runtime).begin_step(step);
      return 0;
    });
  }

  static void out_of_bounds(const ToroidRuntime* runtime, const char* kernel, const char* buffer, int64_t index, int64_t size,
                            const char* origin) {
    const std::lock_guard lock(host(runtime).out_of_bounds_);
    if (host(runtime).error_) return;
    try {
      Error error(ErrorKind::Internal, formatted("a kernel accesses element {} of '{}', which has {}", index, buffer, size));
      error.at(formatted("in kernel '{}'", kernel));
      if (*origin != '\0') error.at(formatted("generated for {}", origin));
      error.help("this is a bug in toroid: report it with the model; 'toroid compile --save-source DIR' shows the kernel");
      host(runtime).error_ = std::make_exception_ptr(std::move(error));
    } catch (...) {
      host(runtime).error_ = std::current_exception();
    }
  }

  static void choose_form(const ToroidRuntime* runtime, int32_t* form, int32_t num_forms, void (*run)(void*, int32_t), void* argument) {
    guarded(runtime, 1, [&] {
      toroid::choose_form(*form, num_forms, run, argument);
      return 0;
    });
  }

  static void* output(const ToroidRuntime* runtime, int32_t position, const int64_t* sizes) {
    return guarded(runtime, nullptr, [&]() -> void* { return host(runtime).output(position, sizes); });
  }
};

RuntimeCallbacks::RuntimeCallbacks(RuntimePool& pool, PreparedConstants& packed, const HostMemory* memory)
    : pool_(pool), packed_(&packed), memory_(memory) {
  table_ = {this,
            Entries::parallel_for,
            Entries::special_function,
            Entries::call,
            Entries::chain,
            Entries::bind,
            Entries::allocate,
            Entries::release,
            Entries::output,
            Entries::step,
            Entries::out_of_bounds,
            Entries::choose_form};
}

void* RuntimeCallbacks::output(int32_t position, const int64_t* sizes) {
  const ToroidOutputInfo& output = call_->variant.outputs[position];
  return call_->outputs->place(static_cast<size_t>(position), static_cast<DType>(output.dtype), {sizes, static_cast<size_t>(output.rank)});
}

void RuntimeCallbacks::use_packed(PreparedConstants& packed) {
  sites_of_variants_.clear();
  packed_ = &packed;
}

void RuntimeCallbacks::call(const ToroidLibraryCall& call) {
  sites_->run(call.site, call.has_fixed_sizes != 0, call.name,
              {pool_,
               {call.inputs, static_cast<size_t>(call.num_inputs)},
               {call.outputs, static_cast<size_t>(call.num_outputs)},
               {call.integers, static_cast<size_t>(call.num_integers)},
               {call.numbers, static_cast<size_t>(call.num_numbers)},
               call.epilogue,
               packed_});
}

void RuntimeCallbacks::begin_step(int32_t step) {
  if (observer_ != nullptr) observer_->begin_step(step);
  if (call_->variant.num_work > 0) begun_steps_.push_back({step, std::chrono::steady_clock::now()});
}

void RuntimeCallbacks::end_steps() {
  if (begun_steps_.empty()) return;
  const auto end = std::chrono::steady_clock::now();
  for (size_t i = 0; i < begun_steps_.size(); ++i) {
    const auto ended = i + 1 < begun_steps_.size() ? begun_steps_[i + 1].when : end;
    add_step_time(begun_steps_[i].step, std::chrono::duration<double>(ended - begun_steps_[i].when).count());
  }
  begun_steps_.clear();
}

void RuntimeCallbacks::add_step_time(int32_t step, double seconds) {
  try {
    step_times_.resize(std::max(step_times_.size(), static_cast<size_t>(step) + 1));
    step_times_[static_cast<size_t>(step)].push_back(seconds);
  } catch (const std::bad_alloc&) {  // a time less to tell; generated code knows no exceptions
  }
}

void* RuntimeCallbacks::allocate(int64_t bytes) {
  TOROID_CHECK(bytes >= 0, "a temporary of {} bytes", bytes);
  const auto size = std::max<size_t>(static_cast<size_t>(bytes), 1);
  // A block that wastes less than half of itself, or a new one.
  if (!take_smallest(free_, size, 2 * size, used_)) asking_for(size, "a temporary tensor", [&] { used_.emplace_front(size, memory_); });
  return used_.front().data();
}

void RuntimeCallbacks::release(void* data) {
  const auto found = std::find_if(used_.begin(), used_.end(), [&](const HostBytes& block) { return block.data() == data; });
  if (found != used_.end()) free_.splice(free_.begin(), used_, found);
}

void RuntimeCallbacks::release_all() { free_.splice(free_.begin(), used_); }

int32_t RuntimeCallbacks::run(Entry* entry, const ToroidCall& call, Call& state) {
  call_ = &state;
  const auto known = std::find_if(sites_of_variants_.begin(), sites_of_variants_.end(),
                                  [&](const SitesOfVariant& each) { return each.variant == &state.variant; });
  sites_ = &(known != sites_of_variants_.end() ? *known : sites_of_variants_.emplace_front(SitesOfVariant{&state.variant})).sites;
  table_.step = observer_ != nullptr || state.variant.num_work > 0 ? Entries::step : nullptr;
  const int32_t failed = entry(table(), &call);
  call_ = nullptr;
  end_steps();
  release_all();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  return failed;
}

}  // namespace toroid
