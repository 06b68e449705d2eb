#include "codegen/halide/halide_kernel.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "codegen/cpp/kernel_printer.h"
#include "codegen/cpp/names.h"
#include "codegen/halide/halide_printer.h"

namespace toroid::codegen {

const std::string_view kHalideAbi = R"text(
// Of HalideRuntime.h: halide_dimension_t, halide_buffer_t.
struct HalideDim { int32_t min, extent, stride; uint32_t flags; };
struct HalideBuffer {
  uint64_t device; const void* device_interface; void* host; uint64_t flags; uint8_t type, bits; uint16_t lanes;
  int32_t dimensions; HalideDim* dim; void* padding;
};
INLINE HalideBuffer halide_buffer(const void* host, uint8_t type, uint8_t bits, int32_t rank, HalideDim* dims) {
  return {0, nullptr, (void*)host, 0, type, bits, 1, rank, dims, nullptr};
}
// Places of as many elements as Halide has indices for. `places` less one, times the stride, is the way from the first to the last.
INLINE bool halide_fits(int64_t places, int64_t stride, int64_t bytes) {
  int64_t way;
  return places > 0 && !__builtin_mul_overflow(places, stride < 0 ? -stride : stride, &way) && way < (int64_t(1) << 31) / bytes;
}
INLINE bool halide_apart(const void* a, int64_t a_bytes, const void* b, int64_t b_bytes) {
  return (const char*)a + a_bytes <= (const char*)b || (const char*)b + b_bytes <= (const char*)a;
}
INLINE void halide_failed(int32_t* error, int32_t code) { __atomic_store_n(error, code == -11 ? 3 : 5, __ATOMIC_RELAXED); }
)text";

const std::string_view kHalideHost = R"text(
// What pipelines call of Halide's runtime, whose own would have threads beside the program's and end the process where it fails. They are
// called with arguments that say more, and the codes are those of HalideRuntime.h.
#define HALIDE extern "C" __attribute__((weak))
#define FAILURE(name, code) HALIDE int32_t halide_error_##name() { return code; }
FAILURE(bounds_inference_call_failed, -1) FAILURE(extern_stage_failed, -1) FAILURE(explicit_bounds_too_small, -2) FAILURE(bad_type, -3)
FAILURE(bad_dimensions, -43) FAILURE(access_out_of_bounds, -4) FAILURE(buffer_allocation_too_large, -5)
FAILURE(buffer_extents_negative, -28) FAILURE(buffer_extents_too_large, -6) FAILURE(constraints_make_required_region_smaller, -7)
FAILURE(constraint_violated, -8) FAILURE(param_too_small_i64, -9) FAILURE(param_too_large_i64, -10) FAILURE(out_of_memory, -11)
FAILURE(buffer_argument_is_null, -12) FAILURE(unaligned_host_ptr, -24) FAILURE(host_is_null, -34) FAILURE(bad_fold, -25)
FAILURE(bad_extern_fold, -35) FAILURE(fold_factor_too_small, -26) FAILURE(requirement_failed, -27) FAILURE(specialize_fail, -31)
FAILURE(no_device_interface, -19) FAILURE(device_interface_no_device, -36) FAILURE(host_and_device_dirty, -37)
FAILURE(buffer_is_null, -38) FAILURE(device_dirty_with_no_device_support, -44) FAILURE(storage_bound_too_small, -45)
FAILURE(split_factor_not_positive, -46)
#undef FAILURE
// Of the C library, whatever this file's visibility; on a line that no level of a package takes for a function of its own.
#define OF_C __attribute__((visibility("default")))
extern "C" { OF_C void* aligned_alloc(__SIZE_TYPE__, __SIZE_TYPE__); OF_C void free(void*); }
#undef OF_C
HALIDE void* halide_malloc(void*, __SIZE_TYPE__ bytes) { return aligned_alloc(128, (bytes + 127) / 128 * 128); }
HALIDE void halide_free(void*, void* memory) { free(memory); }
HALIDE int32_t halide_do_par_for(void* context, int32_t (*task)(void*, int32_t, uint8_t*), int32_t first, int32_t count, uint8_t* closure) {
  int32_t failed = 0;
  parallel((const ToroidRuntime*)context, count, 1, [&](int64_t begin, int64_t end) {
    for (; begin < end; ++begin) {
      if (const int32_t code = task(context, first + (int32_t)begin, closure)) __atomic_store_n(&failed, code, __ATOMIC_RELAXED);
    }
  });
  return failed;
}
)text";

namespace {

struct TypeCode {
  int code, bits;
};
// Of elements in memory, as halide_storage has them.
TypeCode code_of(DType storage) {
  constexpr int kInt = 0, kUInt = 1, kFloat = 2;
  const int bits = 8 * static_cast<int>(size_bytes(storage));
  if (storage == DType::Bool || storage == DType::U8 || is_reduced_float(storage)) return {kUInt, bits};
  return {is_floating(storage) ? kFloat : kInt, bits};
}

class HalideKernelPrinter : KernelPrinter {
 public:
  using KernelPrinter::KernelPrinter;

  KernelSource run(const schedule::Kernel& kernel) {
    autoscheduler_ = kernel.halide;
    std::vector<PrintedHalide> pipelines = {printed(kernel)};
    for (const schedule::Kernel& each : kernel.finish) pipelines.push_back(printed(each));
    take_parameters(kernel.reads, kernel.writes);
    Contents contents;
    for (const PrintedHalide& pipeline : pipelines) take_contents(pipeline, contents);
    take_sizes(contents);
    const bool needs_other = !source_.sizes.empty() || may_overlap();
    KernelSource other;
    if (needs_other) other = in_cpp(kernel);
    for (sym::Expr size : other.sizes) take_sizes(size);
    source_.uses_runtime = source_.reports_errors = true;

    text_.write(other.text);
    print_header(kernel.provenance);
    for (const PrintedHalide& pipeline : pipelines) declare(pipeline);
    {
      auto function = text_.block(signature());
      text_.write("(void)begin, (void)end;");
      if (needs_other) print_condition(pipelines, other);
      for (const PrintedHalide& pipeline : pipelines) call(pipeline, needs_other ? &other : nullptr);
    }
    source_.text = text_.str();
    for (PrintedHalide& pipeline : pipelines) source_.halide.push_back(std::move(pipeline.pipeline));
    return std::move(source_);
  }

 private:
  PrintedHalide printed(const schedule::Kernel& kernel) const {
    auto made = print_halide(program_, kernel, autoscheduler_);
    if (const auto* reason = std::get_if<std::string>(&made))
      throw Error(ErrorKind::InvalidModel, fmt::format("the kernel '{}' is to be in Halide, which it cannot: {}", kernel.name, *reason));
    return std::get<PrintedHalide>(std::move(made));
  }

  static void take_contents(const PrintedHalide& pipeline, Contents& contents) {
    for (const auto& input : pipeline.inputs) contents.positions.push_back(input.elements);
    for (sym::Expr size : pipeline.sizes) contents.positions.push_back(size);
    for (const auto& output : pipeline.outputs) {
      contents.positions.push_back(output.offset);
      for (const auto& [extent, stride] : output.dims) contents.positions.insert(contents.positions.end(), {extent, stride});
    }
  }

  bool may_overlap() const {
    return std::ranges::any_of(source_.parameters,
                               [&](const KernelParameter& each) { return each.is_output && may_be_shared(each.buffer); });
  }

  KernelSource in_cpp(schedule::Kernel kernel) const {
    kernel.halide.clear();
    return print_nest(program_, graph_, source_.name + "_in_cpp", false, kernel);
  }

  std::string name_of_buffer(loop::BufferId id) const { return identifier(program_.buffer(id).name); }

  void declare(const PrintedHalide& pipeline) {
    std::string types = "void*";
    for (size_t i = 0; i < pipeline.inputs.size(); ++i) types += ", HalideBuffer*";
    for (size_t i = 0; i < pipeline.sizes.size(); ++i) types += ", int32_t";
    for (size_t i = 0; i < pipeline.outputs.size(); ++i) types += ", HalideBuffer*";
    text_.write(fmt::format("extern \"C\" int32_t {}({});", pipeline.pipeline.entry, types));
  }

  // Where Halide may not run, the kernel in C++ does.
  void print_condition(const std::vector<PrintedHalide>& pipelines, const KernelSource& other) {
    std::vector<std::string> conditions;
    const auto fits = [&](loop::BufferId id, sym::Expr places, sym::Expr stride) {
      if (places.is_const() && stride.is_const()) return;
      conditions.push_back(fmt::format("halide_fits({}, {}, {})", index(places), index(stride), size_bytes(program_.buffer(id).dtype)));
    };
    for (const PrintedHalide& pipeline : pipelines) {
      for (const auto& input : pipeline.inputs) fits(input.buffer, input.elements, 1);
      for (sym::Expr size : pipeline.sizes) conditions.push_back(fmt::format("{0} == (int32_t){0}", index(size)));
      for (const auto& output : pipeline.outputs) {
        for (const auto& [extent, stride] : output.dims) fits(output.buffer, extent, stride);
      }
    }
    for (const KernelParameter& out : source_.parameters) {
      for (const KernelParameter& in : source_.parameters) {
        const loop::Buffer &a = program_.buffer(out.buffer), &b = program_.buffer(in.buffer);
        if (!out.is_output || in.is_output || !(loop::updates(a, b) || loop::updates(b, a))) continue;
        conditions.push_back(fmt::format("halide_apart({}, {} * {}, {}, {} * {})", name_of_buffer(out.buffer), factor(elements_of(a)),
                                         size_bytes(a.dtype), name_of_buffer(in.buffer), factor(elements_of(b)), size_bytes(b.dtype)));
      }
    }
    if (conditions.empty()) return;
    auto block = text_.block(fmt::format("if (!({})) {{", fmt::join(conditions, " && ")));
    run_in_cpp(other);
    text_.write("return;");
  }

  void run_in_cpp(const KernelSource& other) {
    std::string passed;
    for (const KernelParameter& parameter : other.parameters) passed += name_of_buffer(parameter.buffer) + ", ";
    for (sym::Expr size : other.sizes) passed += identifier(size.node()->name) + ", ";
    if (other.uses_runtime) passed += "runtime, ";
    if (other.reports_errors) passed += "error, ";
    const std::string tasks = index(other.tasks);
    if (other.counts_tasks) {
      passed += "&_remaining, ";
      text_.write(fmt::format("int64_t _remaining = {};", tasks));
      text_.write(fmt::format("if (_remaining == 0) return {}({}0, 0);", other.name, passed));
    }
    text_.write(
        fmt::format("parallel(runtime, {}, 1, [&](int64_t begin, int64_t end) {{ {}({}begin, end); }});", tasks, other.name, passed));
  }

  // A pipeline refuses sizes that are smaller than its vectors, before it writes anything.
  void call(const PrintedHalide& pipeline, const KernelSource* other) {
    auto block = text_.block("{");
    std::string passed = "(void*)runtime";
    int count = 0;
    const auto pass = [&](loop::BufferId id, sym::Expr offset, const std::string& dims, size_t rank) {
      const auto [code, bits] = code_of(program_.buffer(id).dtype);
      const std::string first = offset.is_const(0) ? name_of_buffer(id) : fmt::format("{} + {}", name_of_buffer(id), index(offset));
      text_.write(fmt::format("HalideDim _dims{}[] = {{{}}};", count, dims));
      text_.write(fmt::format("HalideBuffer _buffer{0} = halide_buffer({1}, {2}, {3}, {4}, _dims{0});", count, first, code, bits, rank));
      passed += fmt::format(", &_buffer{}", count++);
    };
    for (const auto& input : pipeline.inputs) pass(input.buffer, 0, fmt::format("{{0, (int32_t)({}), 1, 0}}", index(input.elements)), 1);
    for (sym::Expr size : pipeline.sizes) passed += fmt::format(", (int32_t)({})", index(size));
    for (const auto& output : pipeline.outputs) {
      std::vector<std::string> dims;
      for (const auto& [extent, stride] : output.dims)
        dims.push_back(fmt::format("{{0, (int32_t)({}), (int32_t)({}), 0}}", index(extent), index(stride)));
      pass(output.buffer, output.offset, fmt::format("{}", fmt::join(dims, ", ")), output.dims.size());
    }
    text_.write(fmt::format("const int32_t _failed = {}({});", pipeline.pipeline.entry, passed));
    if (other == nullptr) return text_.write("if (_failed != 0) return halide_failed(error, _failed);");
    auto failed = text_.block("if (_failed != 0) {");
    run_in_cpp(*other);
    text_.write("return;");
  }

  std::string autoscheduler_ = {};
};

}  // namespace

KernelSource print_halide_kernel(const loop::LoopProgram& program, const schedule::Kernel& kernel, const Graph& graph, std::string name) {
  return HalideKernelPrinter(program, graph, std::move(name), false).run(kernel);
}

}  // namespace toroid::codegen
