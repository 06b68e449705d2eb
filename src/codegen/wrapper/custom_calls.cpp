// Calls of kernels of the user's own (codegen/custom/custom_kernel.h).
#include <fmt/format.h>

#include "base/error.h"
#include "codegen/cpp/names.h"
#include "codegen/cpp/origin.h"
#include "codegen/custom/custom_halide.h"
#include "codegen/custom/custom_triton.h"
#include "codegen/wrapper/function_printer.h"
#include "graph/custom/custom_operators.h"
#include "schedule/cuda/ways/configurations.h"

namespace toroid::codegen {
namespace {

// Operations that are worth a second thread, as of generated kernels.
constexpr int64_t kLeastCustomWork = 16384;

}  // namespace

void FunctionPrinter::print_custom(const program::LibraryCall& call, const CustomOperator& op) {
  const CustomKernel* kernel = shared_.program.operators->kernel_of(op);
  TOROID_CHECK(kernel != nullptr, "{} has no kernel", op.file);
  const bool on_gpu = target() != Target::Cpu;
  auto block = body_.block(fmt::format("{{  // {}, from {}", op.schema.name, comment_text(op.file)));
  print_call_parts(call, "");
  std::vector<DType> inputs, outputs;
  for (const program::Operand& each : call.inputs) inputs.push_back(buffer(each.buffer).dtype);
  for (const program::Operand& each : call.outputs) outputs.push_back(buffer(each.buffer).dtype);
  const CustomCall made = custom_call(op, *kernel, call, inputs, outputs);
  for (const auto& [from, to] : made.copies) {
    const std::string bytes = bytes_of(sym::product(call.outputs[to].sizes), outputs[to]);
    body_.write(on_gpu ? fmt::format("copy_bytes(runtime, outputs[{}].data, inputs[{}].data, {});", to, from, bytes)
                       : fmt::format("__builtin_memcpy(outputs[{}].data, inputs[{}].data, {});", to, from, bytes));
  }
  if (kernel->kind == CustomKernel::Kind::Halide) return print_custom_halide(op, *kernel, made, call);
  if (kernel->kind == CustomKernel::Kind::Triton) return print_gpu_triton(op, *kernel, made, call);
  if (on_gpu) return print_gpu_custom(op, *kernel, made);
  const CustomEntry entry = custom_entry(op, *kernel, made);
  shared_.custom_entries[op.library_name()].try_emplace(entry.name, entry.text);
  const std::string grain = fmt::format("max64(1, {} / max64(1, {}))", kLeastCustomWork, index(made.second));
  body_.write("int32_t custom_failed = 0;");
  body_.write(
      fmt::format("parallel(runtime, {}, {}, [&](int64_t begin, int64_t end) WRAPPER {{ if ({}(inputs, outputs, integers, numbers, begin, "
                  "end)) custom_failed = 1; }});",
                  index(made.first), grain, entry.name));
  return_if("custom_failed");
}

void FunctionPrinter::print_custom_halide(const CustomOperator& op, const CustomKernel& kernel, const CustomCall& made,
                                          const program::LibraryCall& call) {
  CustomHalide use = custom_halide(op, kernel, made, loops_, call);
  const std::string entry = use.pipeline.entry;
  shared_.halide.emplace(entry, std::move(use.pipeline));
  std::string passed = "(void*)runtime";
  std::vector<std::string> fits = {"true"};
  int count = 0;
  for (const CustomHalide::Argument& each : use.arguments) {
    if (!each.operand) {
      passed += fmt::format(", ({})({})", each.type, each.value);
      continue;
    }
    std::vector<std::string> dims;
    for (size_t d = each.operand->sizes.size(); d-- > 0;) {
      const std::string size = index(each.operand->sizes[d]), stride = index(each.operand->strides[d]);
      dims.push_back(fmt::format("{{0, (int32_t)({}), (int32_t)({}), 0}}", size, stride));
      fits.push_back(fmt::format("halide_fits({}, {}, {})", size, stride, size_bytes(each.dtype)));
    }
    const size_t rank = dims.size();
    if (rank == 0) dims.emplace_back("{0, 1, 1, 0}");
    body_.write(fmt::format("HalideDim _dims{}[] = {{{}}};", count, fmt::join(dims, ", ")));
    body_.write(fmt::format("HalideBuffer _buffer{0} = halide_buffer({1}, {2}, {3}, {4}, _dims{0});", count, each.value, each.type_code,
                            each.bits, rank));
    passed += fmt::format(", &_buffer{}", count++);
  }
  std::string types = "void*";
  for (const CustomHalide::Argument& each : use.arguments) types += each.operand ? ", HalideBuffer*" : ", " + each.type;
  shared_.halide_declarations.insert(fmt::format("extern \"C\" int32_t {}({});\n", entry, types));
  body_.write(fmt::format("if (!({})) return {} | 5 << 28;", fmt::join(fits, " && "), number_ + 1));
  body_.write(fmt::format("if (const int32_t _failed = {}({})) return {} | (_failed == -11 ? 3 : 5) << 28;", entry, passed, number_ + 1));
}

void FunctionPrinter::print_gpu_custom(const CustomOperator& op, const CustomKernel& kernel, const CustomCall& made) {
  if (!made.second.is_const() || !made.third.is_const()) {
    throw Error(ErrorKind::Unsupported, fmt::format("the threads and shared memory of {} depend on sizes that change", op.schema.name))
        .help("write numbers, or compile with fixed sizes");
  }
  const int64_t threads = made.second.value(), shared_bytes = made.third.value();
  if (threads < 1 || threads > 1024 || shared_bytes > 227 * 1024) {
    throw Error(ErrorKind::Unsupported,
                fmt::format("{} asks for {} threads and {} bytes of shared memory a block", op.schema.name, threads, shared_bytes))
        .help("a block has 1 to 1024 threads and at most 227 KiB");
  }
  KernelSource source;
  const std::string base = fmt::format("{}_custom{}", identifier(op.schema.name), shared_.suffix);
  source.name = shared_.kernels.fresh_name(base);
  const std::string space = source.name + "_space";
  std::vector<std::string> declared, types, passed, values;
  for (size_t i = 0; i < made.arguments.size(); ++i) {
    const CustomArgument& each = made.arguments[i];
    types.push_back(each.type.ends_with('*') ? "void*" : each.type);
    declared.push_back(fmt::format("{} p{}", types[i], i));
    values.push_back(fmt::format("({})p{}", each.type, i));
    passed.push_back(fmt::format("(void*)&p{}", i));
  }
  source.text = custom_cuda_source(op, kernel, space, threads) +
                fmt::format("KERNEL __launch_bounds__({}) {}({}) {{\n  namespace custom = {}::custom;\n  custom::{}({});\n}}\n", threads,
                            source.name, fmt::join(declared, ", "), space, kernel.function, fmt::join(values, ", "));
  const std::string& name = add_kernel(source);
  shared_.kernel_preludes.try_emplace(name, cuda::Preludes{});
  body_.write("const ToroidOperand* const in = inputs; const ToroidOperand* const out = outputs; (void)in, (void)out;");
  for (size_t i = 0; i < made.arguments.size(); ++i)
    body_.write(fmt::format("{0} p{1} = ({0})({2});", types[i], i, made.arguments[i].value));
  write_gpu_launch({name, types, std::move(passed), {}, made.first, static_cast<int>(threads), static_cast<int>(shared_bytes), 0, true});
}

const std::string& FunctionPrinter::add_triton(TritonKernel kernel, std::string_view base) {
  kernel.entry.clear();
  const auto [found, is_new] = shared_.triton_kernels.try_emplace(to_text(kernel), kernel);
  if (is_new) found->second.entry = shared_.kernels.fresh_name(fmt::format("{}_triton{}", base, shared_.suffix));
  shared_.step_kernels[number_].push_back(found->second.entry);
  return found->second.entry;
}

void FunctionPrinter::print_gpu_triton(const CustomOperator& op, const CustomKernel& kernel, const CustomCall& made,
                                       const program::LibraryCall& call) {
  const size_t mark = call.kernel.find('#');
  const size_t configuration = mark == std::string::npos ? 0 : schedule::configuration_of(std::string_view(call.kernel).substr(mark + 1));
  if (configuration >= made.grids.size())
    throw Error(ErrorKind::InvalidModel, fmt::format("{} has no configuration {}", op.file, configuration));
  CustomTriton use = custom_triton(op, kernel, made, call, configuration);
  const std::string& name = add_triton(std::move(use.kernel), identifier(op.schema.name));
  body_.write("const ToroidOperand* const in = inputs; const ToroidOperand* const out = outputs; (void)in, (void)out;");
  std::vector<std::string> passed;
  for (const auto& [type, value] : use.passed) {
    body_.write(fmt::format("{} p{} = {};", type, passed.size(), value));
    passed.push_back(fmt::format("(void*)&p{}", passed.size()));
  }
  write_grid_launch(name, passed, made.grids[configuration]);
}

}  // namespace toroid::codegen
