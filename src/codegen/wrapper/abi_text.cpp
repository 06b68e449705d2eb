#include "codegen/wrapper/abi_text.h"

namespace toroid::codegen {

const std::string_view kAbi = R"abi(
struct ToroidOperand { void* data; const int64_t* sizes; const int64_t* strides; int32_t rank; int32_t dtype; int32_t is_constant; };
struct ToroidPostOps {
  const float* scale; const float* bias; const float* residual; int64_t residual_row; float low, high; int64_t out_row; int32_t out_dtype;
};
struct ToroidEpilogue {
  void* out;
  void (*run)(void*, void* out, const float* block, int64_t row_stride, int64_t first_row, int64_t last_row, int64_t first_column,
              int64_t last_column);
  void* argument;
  ToroidPostOps post_ops;
};
struct ToroidStage {
  const ToroidOperand* inputs; int32_t num_inputs; const ToroidOperand* output; const int64_t* integers; int32_t num_integers;
  const ToroidEpilogue* epilogue;
};
struct ToroidLibraryCall {
  const char* name; int32_t site, has_fixed_sizes;
  const ToroidOperand* inputs; int32_t num_inputs; const ToroidOperand* outputs; int32_t num_outputs;
  const int64_t* integers; int32_t num_integers; const double* numbers; int32_t num_numbers; const ToroidEpilogue* epilogue;
};
struct ToroidChain { const char* name; int32_t site, has_fixed_sizes; const ToroidStage* stages; int32_t num_stages; };
struct ToroidRuntime {
  void* host;
  void (*parallel_for)(const ToroidRuntime*, int64_t n, int64_t grain, void (*body)(void*, int64_t, int64_t), void* argument);
  double (*special_function)(const ToroidRuntime*, int32_t op, double x, double y);
  int32_t (*call)(const ToroidRuntime*, const ToroidLibraryCall*);
  int32_t (*chain)(const ToroidRuntime*, const ToroidChain*);
  int32_t (*bind)(const ToroidRuntime*, int32_t binding, int64_t value);
  void* (*allocate)(const ToroidRuntime*, int64_t bytes);
  void (*release)(const ToroidRuntime*, void* data);
  void* (*output)(const ToroidRuntime*, int32_t position, const int64_t* sizes);
  int32_t (*step)(const ToroidRuntime*, int32_t step);
  void (*out_of_bounds)(const ToroidRuntime*, const char* kernel, const char* buffer, int64_t index, int64_t size, const char* origin);
  void (*choose_form)(const ToroidRuntime*, int32_t* form, int32_t num_forms, void (*run)(void*, int32_t), void* argument);
};
struct ToroidCall {
  const void* const* inputs; const void* const* constants; void* const* outputs; char* arena;
  const int64_t* offsets; const int64_t* symbols; char* prepared; const int64_t* random; int32_t* forms;
};
template <class F> INLINE void parallel(const ToroidRuntime* runtime, int64_t n, int64_t grain, F f) {
  runtime->parallel_for(runtime, n, grain, [](void* p, int64_t begin, int64_t end) { (*(F*)p)(begin, end); }, &f);
}
// Runs the form that was found to be quickest; the first call finds out.
template <class F> INLINE void in_best_form(const ToroidRuntime* runtime, int32_t* form, int32_t num_forms, F f) {
  const int32_t best = __atomic_load_n(form, __ATOMIC_RELAXED);
  if (best >= 0) return f(best);
  runtime->choose_form(runtime, form, num_forms, [](void* p, int32_t which) { (*(F*)p)(which); }, &f);
}
#define EXPORT extern "C" __attribute__((visibility("default")))
#ifdef TOROID_LEVEL  // of several in one library, each in a namespace (package_entry.h)
#undef EXPORT
#define EXPORT extern
#define ENTRY
#else
#define ENTRY extern "C"
#endif
#pragma GCC visibility push(hidden)
)abi";

const std::string_view kContractAbi = R"abi(
struct ToroidSymbol { const char* name; int64_t least, most; };
struct ToroidExpression { const char* text; const int32_t* symbols; int32_t num_symbols; };
struct ToroidInputInfo { const char* name; const char* type; int32_t dtype, rank; const int32_t* strides; };
struct ToroidDefinition { int32_t symbol, input, dim; int32_t rest; int64_t coefficient; const char* form; };
struct ToroidSizeCheck { int32_t input, dim, expected; };
struct ToroidContract {
  const ToroidInputInfo* inputs; const ToroidSymbol* symbols; const ToroidExpression* expressions; const ToroidDefinition* definitions;
  const ToroidSizeCheck* checks; const int32_t* guards; const int32_t* later_guards; const int32_t* bytes;
  int32_t num_inputs, num_symbols, num_expressions, num_definitions, num_checks, num_guards, num_later_guards, num_bytes;
  int32_t (*evaluate)(const ToroidContract*, int32_t expression, const int64_t* symbols, int64_t* value);
};
struct ToroidOutputInfo { const char* name; const char* target; const char* type; int32_t dtype, rank, kind; int32_t is_late, in_place; };
struct ToroidConstantInfo {
  const char* name; const char* type; int64_t bytes; const int64_t* sizes; const int64_t* strides; int32_t dtype, rank; int32_t is_mutable;
};
struct ToroidBinding { int32_t number; int32_t defines; int32_t rest; };
struct ToroidTemporary { int32_t first_step, last_step; };
struct ToroidStepInfo { const char* name; const char* origin; };
struct ToroidStepWork { int32_t bytes, flops, dtype; };
struct ToroidChoice { int32_t step, num_forms; const char* const* forms; };
struct ToroidCondition { const char* symbol; int64_t value; };
struct ToroidVariant {
  ToroidContract contract; const ToroidCondition* conditions; const ToroidOutputInfo* outputs; const int32_t* constants;
  const ToroidBinding* bindings; const ToroidTemporary* temporaries; const ToroidStepInfo* steps; const ToroidStepWork* work;
  const ToroidChoice* choices;
  int32_t num_conditions, num_outputs, num_constants, num_bindings, num_temporaries, num_steps, num_work, num_choices;
  int32_t num_kernels, num_kernel_calls, num_kernel_steps, num_library_calls; int64_t prepared_bytes; const char* signature;
  int32_t (*run)(const ToroidRuntime*, const ToroidCall*); int32_t (*prepare)(const ToroidRuntime*, const ToroidCall*);
  void (*sizes)(const int64_t* symbols, int64_t* temporary_bytes, int64_t* output_sizes);
};
struct ToroidProgram {
  int32_t abi_version; int32_t num_variants, num_constants; const ToroidVariant* variants; const ToroidConstantInfo* constants;
  const char* training; int64_t* bad_index; const char* call_tree;
};
)abi";

const std::string_view kSameCall = R"abi(
// What each run of a loop's body is called with.
struct LoopCall {
  const ToroidCall* call;
  LoopCall(const ToroidCall* c) : call(c) {}
  const ToroidCall* at(int64_t) { return call; }
};
)abi";

const std::string_view kRandomCall = R"abi(
// What each run of a loop's body is called with: its random state is the block of the state around the loop whose counter is the
// complement of the run's number.
struct LoopCall {
  ToroidCall call;
  const int64_t* outer;
  int64_t state[2];
  LoopCall(const ToroidCall* c) : call(*c), outer(c->random) { call.random = state; }
  const ToroidCall* at(int64_t run) {
    state[0] = philox1<false>(~run, outer[0], outer[1]);
    state[1] = philox1<true>(~run, outer[0], outer[1]);
    return &call;
  }
};
)abi";

const std::string_view kOwnMemory = R"abi(
INLINE void copy_bytes(const ToroidRuntime*, void* to, const void* from, int64_t bytes) { __builtin_memcpy(to, from, bytes); }
struct Flag {  // a bool that a graph computes
  bool value = false;
  Flag(const ToroidRuntime*) {}
  void* place() { return &value; }
  bool read() const { return value; }
};
)abi";

const std::string_view kGpuMemory = R"abi(
struct ToroidTensorMap {
  const void* data;
  int32_t dtype;
  int64_t sizes[4], strides[4];
  int32_t box[4], lower[2], upper[2], steps[2];
};
struct ToroidLaunch {
  const char* kernel;
  int64_t blocks;
  int32_t threads;
  void** arguments;
  int32_t shared_bytes, resident;
  const ToroidTensorMap* maps;
  int32_t num_maps, starts_early;
  int64_t rows, layers;
  int32_t num_arguments;
};
struct ToroidGpuRuntime {
  ToroidRuntime host;
  int32_t (*launch)(const ToroidRuntime*, const ToroidLaunch*);
  int32_t (*copy)(const ToroidRuntime*, void* to, const void* from, int64_t bytes);
  int32_t (*read)(const ToroidRuntime*, void* to, const void* from, int64_t bytes);
  void* failure;
  int32_t multiplies;
  const ToroidRuntime* here;
  char* host_arena;
  const int64_t* (*random)(const ToroidRuntime*, const int64_t* state);
};
INLINE const ToroidGpuRuntime* gpu(const ToroidRuntime* runtime) { return (const ToroidGpuRuntime*)runtime; }
INLINE void copy_bytes(const ToroidRuntime* runtime, void* to, const void* from, int64_t bytes) { gpu(runtime)->copy(runtime, to, from, bytes); }
template <class T> INLINE T read_number(const ToroidRuntime* runtime, const T* from) {
  T x{};
  gpu(runtime)->read(runtime, &x, from, sizeof x);
  return x;
}
struct Flag {  // a bool that a graph computes
  const ToroidRuntime* runtime;
  void* data;
  Flag(const ToroidRuntime* r) : runtime(r), data(r->allocate(r, 1)) {}
  ~Flag() { runtime->release(runtime, data); }
  Flag(const Flag&) = delete;
  void* place() { return data; }
  bool read() const { return read_number(runtime, (const bool*)data); }
};
// 1 + the number of the step when it cannot be started.
INLINE int32_t launch(const ToroidRuntime* runtime, const char* kernel, int64_t blocks, int32_t threads, void** arguments, int32_t step,
                      int32_t shared_bytes = 0, int32_t resident = 0, const ToroidTensorMap* maps = nullptr, int32_t num_maps = 0) {
  const ToroidLaunch work = {kernel, blocks, threads, arguments, shared_bytes, resident, maps, num_maps, 0, 0, 0, 0};
  return blocks > 0 && gpu(runtime)->launch(runtime, &work) ? step + 1 : 0;
}
INLINE int32_t launch_early(const ToroidRuntime* runtime, const char* kernel, int64_t blocks, int32_t threads, void** arguments, int32_t step,
                            int32_t shared_bytes = 0, int32_t resident = 0) {
  const ToroidLaunch work = {kernel, blocks, threads, arguments, shared_bytes, resident, nullptr, 0, 1, 0, 0, 0};
  return gpu(runtime)->launch(runtime, &work) ? step + 1 : 0;
}
// Of a kernel in Triton, whose binary says the rest.
INLINE int32_t launch_grid(const ToroidRuntime* runtime, const char* kernel, int64_t blocks, int64_t rows, int64_t layers, void** arguments,
                           int32_t num_arguments, int32_t step) {
  const ToroidLaunch work = {kernel, blocks, 0, arguments, 0, 0, nullptr, 0, 0, rows, layers, num_arguments};
  return blocks > 0 && rows > 0 && layers > 0 && gpu(runtime)->launch(runtime, &work) ? step + 1 : 0;
}
)abi";

// All values are contiguous, so a slice along the first dim is an address. Results are 0, or what the failing graph returned.
const std::string_view kControlFlow = R"abi(
typedef int32_t Graph(const ToroidRuntime*, const ToroidCall*, const void* const* inputs, void* const* outputs);

// Memory that lasts as long as its scope.
struct Block {
  const ToroidRuntime* runtime;
  char* data;
  Block(const ToroidRuntime* r, int64_t bytes) : runtime(r), data((char*)r->allocate(r, bytes)) {}
  ~Block() { runtime->release(runtime, data); }
  Block(const Block&) = delete;
};

// inputs: `carried` values, then others. outputs: the carried ones when `condition` fails. bytes: of each carried value.
template <int carried, int count>
int32_t while_loop(const ToroidRuntime* runtime, const ToroidCall* call, Graph condition, Graph body, int32_t step,
                   const void* const* inputs, void* const* outputs, const int64_t* bytes) {
  int64_t total = 0;
  for (int i = 0; i < carried; ++i) total += (bytes[i] + 63) / 64 * 64;
  Block other(runtime, total);
  if (!other.data) return step;
  const void* now[count];
  void* sets[2][carried];
  char* place = other.data;
  for (int i = 0; i < carried; ++i) {
    sets[0][i] = outputs[i];
    sets[1][i] = place;
    place += (bytes[i] + 63) / 64 * 64;
    copy_bytes(runtime, outputs[i], inputs[i], bytes[i]);
  }
  for (int i = carried; i < count; ++i) now[i] = inputs[i];
  LoopCall each(call);
  Flag go(runtime);
  int which = 0;
  for (int64_t run = 0;; ++run) {
    const ToroidCall* const same = each.at(run);
    for (int i = 0; i < carried; ++i) now[i] = sets[which][i];
    void* const flag[] = {go.place()};
    if (const int32_t failed = condition(runtime, same, now, flag)) return failed;
    if (!go.read()) break;
    which = 1 - which;
    if (const int32_t failed = body(runtime, same, now, sets[which])) return failed;
  }
  if (which == 1) for (int i = 0; i < carried; ++i) copy_bytes(runtime, outputs[i], sets[1][i], bytes[i]);
  return 0;
}

// inputs: `carried` values, `sliced` tensors with n slices each, others. outputs: the carried values after the last slice, then
// `stacked` tensors with n slices each. bytes: of each carried value; of a slice of each sliced, then of each stacked tensor.
template <int carried, int sliced, int stacked, int count>
int32_t scan_loop(const ToroidRuntime* runtime, const ToroidCall* call, Graph body, int32_t step, int64_t n,
                  const void* const* inputs, void* const* outputs, const int64_t* bytes) {
  int64_t total = 0;
  for (int i = 0; i < carried; ++i) total += (bytes[i] + 63) / 64 * 64;
  Block other(runtime, total);
  if (!other.data) return step;
  const void* now[count + 1];
  void* sets[2][carried + stacked + 1];
  char* place = other.data;
  // The last slice's results go where the caller wants them.
  const int first = n % 2 == 0 ? 0 : 1;
  for (int i = 0; i < carried; ++i) {
    sets[0][i] = outputs[i];
    sets[1][i] = place;
    place += (bytes[i] + 63) / 64 * 64;
    copy_bytes(runtime, sets[first][i], inputs[i], bytes[i]);
  }
  for (int i = carried + sliced; i < count; ++i) now[i] = inputs[i];
  LoopCall each(call);
  int which = first;
  for (int64_t s = 0; s < n; ++s) {
    for (int i = 0; i < carried; ++i) now[i] = sets[which][i];
    for (int i = carried; i < carried + sliced; ++i) now[i] = (const char*)inputs[i] + s * bytes[i];
    which = 1 - which;
    for (int i = carried; i < carried + stacked; ++i) sets[which][i] = (char*)outputs[i] + s * bytes[sliced + i];
    if (const int32_t failed = body(runtime, each.at(s), now, sets[which])) return failed;
  }
  return 0;
}

// out[0] = x[0]; out[s] = body(out[s-1], x[s], others), for `sliced` tensors together.
template <int sliced, int count>
int32_t associative_scan(const ToroidRuntime* runtime, const ToroidCall* call, Graph body, int64_t n, const void* const* inputs,
                         void* const* outputs, const int64_t* bytes) {
  LoopCall each(call);
  const void* now[sliced + count];
  void* next[sliced];
  for (int i = sliced; i < count; ++i) now[sliced + i] = inputs[i];
  if (n > 0) for (int i = 0; i < sliced; ++i) copy_bytes(runtime, outputs[i], inputs[i], bytes[i]);
  for (int64_t s = 1; s < n; ++s) {
    for (int i = 0; i < sliced; ++i) {
      now[i] = (const char*)outputs[i] + (s - 1) * bytes[i];
      now[sliced + i] = (const char*)inputs[i] + s * bytes[i];
      next[i] = (char*)outputs[i] + s * bytes[i];
    }
    if (const int32_t failed = body(runtime, each.at(s), now, next)) return failed;
  }
  return 0;
}
)abi";

}  // namespace toroid::codegen
