// Calls of the runtime's library kernels, with what they take.
#include <fmt/format.h>

#include "codegen/cpp/names.h"
#include "codegen/cpp/origin.h"
#include "codegen/cpp/scalar_text.h"
#include "codegen/wrapper/function_printer.h"
#include "graph/custom/custom_operators.h"
#include "library/device_copy.h"
#include "passes/attention/merge_gradient.h"
#include "runtime/kernels/linked/linked_kernels.h"
#include "schedule/cuda/attention/attention_kernel.h"
#include "schedule/cuda/cudnn/cudnn_step.h"
#include "schedule/cuda/products/grouped_product.h"
#include "support/match.h"

namespace toroid::codegen {
namespace {

// Letters of a buffer's name or of where an operator comes from, in the messages of an assertion build.
constexpr size_t kNameLimit = 300;

ProductShape shape_of_product(const program::LibraryCall& call) {
  const program::Operand &a = call.inputs[0], &b = call.inputs[1];
  if (a.sizes.size() < 2 || b.sizes.size() < 2) return {};
  const auto may_be_one = [](sym::Expr stride) { return stride.try_value().value_or(1) == 1; };
  // Matrices one behind the other may be multiplied as one.
  const std::span<const sym::Expr> result = call.outputs.empty() ? std::span<const sym::Expr>() : call.outputs[0].sizes;
  std::optional<int64_t> rows = result.empty() ? std::nullopt : std::optional<int64_t>(1);
  for (size_t dim = 0; dim + 1 < result.size(); ++dim) {
    const std::optional<int64_t> size = result[dim].try_value();
    rows = rows && size ? std::optional(*rows * *size) : std::nullopt;
  }
  return {.rows = rows,
          .columns = b.sizes.back().try_value(),
          .depth = a.sizes.back().try_value(),
          .right_by_rows = may_be_one(b.strides.back()),
          .right_by_columns = may_be_one(b.strides.end()[-2])};
}

// The operator of the user's own whose kernel is called; null: a kernel of the runtime.
const CustomOperator* custom_operator_of(const Program& program, const program::LibraryCall& call) {
  constexpr std::string_view kLibrary = "library.";
  if (program.operators == nullptr || !call.kernel.starts_with(kLibrary)) return nullptr;
  const std::string_view name = std::string_view(call.kernel).substr(kLibrary.size());
  return program.operators->of_library(name.substr(0, name.find('#')));
}

}  // namespace

std::string FunctionPrinter::operand(const program::Operand& each) {
  const std::string start = each.is_in_memory ? fmt::format("(void*)({})", pointer({each.buffer, each.offset})) : "nullptr";
  std::string size_name = "nullptr";
  std::string stride_name = "nullptr";
  if (!each.sizes.empty()) {
    ++arrays_;
    size_name = array(fmt::format("sizes{}", arrays_), each.sizes);
    stride_name = array(fmt::format("strides{}", arrays_), each.strides);
  }
  return fmt::format("{{{}, {}, {}, {}, {}, {}}}", start, size_name, stride_name, each.sizes.size(),
                     static_cast<int>(buffer(each.buffer).dtype), each.is_constant ? 1 : 0);
}

void FunctionPrinter::print_access_names(const KernelSource& source, std::string_view suffix) {
  auto quoted = [](const std::string& text) {
    std::string result = "\"";
    for (const char c : comment_text(text, kNameLimit)) result += c == '"' ? "\\\"" : std::string(1, c);
    return result + "\"";
  };
  for (const auto& [name, texts] :
       {std::pair("names", &source.access_names->buffers), std::pair("origins", &source.access_names->origins)}) {
    std::vector<std::string> list;
    for (const std::string& text : *texts) list.push_back(quoted(text));
    body_.write(fmt::format("static const char* const {}{}[] = {{{}}};", name, suffix, joined(list, "nullptr")));
  }
  body_.write(fmt::format("const Checks checks{0} = {{runtime, \"{1}\", names{0}, origins{0}}};", suffix, source.name));
}

void FunctionPrinter::print_post_ops(const schedule::PostOps& ops, std::string_view suffix) {
  auto place = [&](const std::optional<schedule::PostOps::Place>& each) {
    return each ? pointer({each->buffer, each->offset}) : "nullptr";
  };
  body_.write(fmt::format("const ToroidEpilogue epilogue{} = {{{}, nullptr, nullptr, {{{}, {}, {}, {}, {}, {}, {}, {}}}}};", suffix,
                          place(ops.out), place(ops.scale), place(ops.bias), place(ops.residual),
                          ops.residual ? index(ops.residual->row) : "0", literal_text(DType::F32, ops.low),
                          literal_text(DType::F32, ops.high), index(ops.out.row), static_cast<int>(buffer(ops.out.buffer).dtype)));
}

bool FunctionPrinter::print_epilogue_function(size_t number, std::string_view suffix) {
  const KernelSource source = print_definition(number, "epilogue", shared_.module.assertions);
  if (source.access_names) print_access_names(source, suffix);
  const std::string& kernel = add_kernel(source);
  // What the kernel is called with, a pointer's width each; a function that all its calls share takes them apart again. The first result
  // comes by itself.
  std::vector<std::string> passed, taken;
  auto pass = [&](const std::string& value, std::string_view type) {
    taken.push_back(fmt::format("({})passed[{}]", type, passed.size()));
    passed.push_back(fmt::format("(void*){}", value));
  };
  std::string out;
  for (const KernelParameter& parameter : source.parameters) {
    const std::string name = identifier(buffer(parameter.buffer).name);
    const std::string type = fmt::format("{}*", storage_type(buffer(parameter.buffer).dtype));
    if (!out.empty() || !parameter.is_output) {
      pass(name, type);
      continue;
    }
    out = name;
    taken.push_back(fmt::format("({})out", type));
  }
  for (sym::Expr size : source.sizes) pass(identifier(size.node()->name), "int64_t");
  if (source.uses_runtime) pass("runtime", "const ToroidRuntime*");
  if (source.access_names) pass(fmt::format("&checks{}", suffix), "const Checks*");
  if (source.reports_errors) pass("&error", "int32_t*");
  shared_.epilogues.try_emplace(
      kernel,
      fmt::format(
          "static void {}_blocks(void* p, void* out, const float* block, int64_t row_stride, int64_t first_row, int64_t last_row, "
          "int64_t first, int64_t last) {{\n  void** passed = (void**)p; (void)passed;\n  {}({}, block, row_stride, first_row, last_row, "
          "first, last);\n}}\n",
          kernel, kernel, fmt::join(taken, ", ")));
  body_.write(fmt::format("void* passed{}[] = {{{}}};", suffix, joined(passed, "nullptr")));
  body_.write(fmt::format("const ToroidEpilogue epilogue{0} = {{{1}, {2}_blocks, passed{0}, {{}}}};", suffix, out, kernel));
  return source.reports_errors;
}

void FunctionPrinter::note_linked(const program::LibraryCall& call) {
  if (custom_operator_of(shared_.program, call) != nullptr) return;
  std::vector<DType> inputs;
  for (const program::Operand& each : call.inputs) inputs.push_back(buffer(each.buffer).dtype);
  const DType output = call.outputs.empty() ? DType::F32 : buffer(call.outputs[0].buffer).dtype;
  const std::string_view kernel = std::string_view(call.kernel).substr(0, call.kernel.find('#'));
  const std::string name = linked_name(kernel, inputs, output);
  if (name == "matmul.f32") shared_.products.push_back(shape_of_product(call));
  shared_.linked_kernels.insert(name);
  shared_.calls_onednn = shared_.calls_onednn || call.kernel.find("#onednn") != call.kernel.npos;
  if (kernel == "library.products.grouped") shared_.linked_kernels.insert(linked_name("matmul", {inputs.data(), 2}, output));
  if (kernel == "convolution" && is_reduced_float(inputs[0])) shared_.linked_kernels.insert("convolution.f32");  // which widens them
}

bool FunctionPrinter::print_call_parts(const program::LibraryCall& call, std::string_view suffix) {
  note_linked(call);
  std::vector<std::string> integers, numbers, inputs, outputs;
  for (sym::Expr e : call.integers) integers.push_back(index(e));
  for (const auto& each : call.numbers) {
    numbers.push_back(match(
        each, [](double v) { return literal_text(DType::F64, v); }, [&](sym::Expr e) { return fmt::format("double({})", index(e)); }));
  }
  for (const program::Operand& each : call.inputs) inputs.push_back(operand(each));
  for (const program::Operand& each : call.outputs) outputs.push_back(operand(each));
  bool reports_errors = false;
  if (call.epilogue) {
    match(
        *call.epilogue, [&](const schedule::PostOps& ops) { print_post_ops(ops, suffix); },
        [&](size_t kernel) { reports_errors = print_epilogue_function(kernel, suffix); });
  }
  body_.write(fmt::format("const ToroidOperand inputs{}[] = {{{}}};", suffix, joined(inputs, "{}")));
  body_.write(fmt::format("const ToroidOperand outputs{}[] = {{{}}};", suffix, joined(outputs, "{}")));
  body_.write(fmt::format("const int64_t integers{}[] = {{{}}};", suffix, joined(integers, "0")));
  if (!numbers.empty() || suffix.empty()) body_.write(fmt::format("const double numbers{}[] = {{{}}};", suffix, joined(numbers, "0")));
  return reports_errors;
}

void FunctionPrinter::print_call(const program::LibraryCall& call) {
  if (call.kernel == fmt::format("library.{}", kDeviceCopy)) return print_device_copy(call);
  if (const CustomOperator* op = custom_operator_of(shared_.program, call)) return print_custom(call, *op);
  const size_t mark = call.kernel.find('#');
  if (mark != std::string::npos && schedule::cudnn_of(call.kernel.substr(mark + 1)) != schedule::Cudnn::Never)
    return print_cudnn_attention(call);
  for (const std::string_view choice : {schedule::kFlashAttention, schedule::kHopperAttention, schedule::kSplitAttention}) {
    if (call.kernel == fmt::format("attention#{}", choice)) return print_gpu_attention(call, choice);
  }
  for (const std::string_view choice : {schedule::kFlashAttention, schedule::kHopperAttention, schedule::kTiledMaskAttention}) {
    if (call.kernel == fmt::format("library.{}#{}", kAttentionGradient, choice)) return print_gpu_attention_gradient(call, choice);
    if (call.kernel == fmt::format("library.{}#{}", kDroppedAttention, choice)) return print_gpu_attention(call, choice);
  }
  if (call.kernel == fmt::format("library.products.grouped#{}", schedule::kGroupedProduct)) return print_gpu_grouped(call);
  if (mark != std::string::npos && print_gpu_order(call, call.kernel.substr(mark + 1))) return;
  auto block = body_.block(fmt::format("{{  // {}", comment_text(call.label)));
  const bool is_plain = has_plain_product(call);
  if (is_plain && is_emulated(shared_.target)) return print_plain_product(call);
  std::optional<TextBuffer::Scope> by_library;
  if (is_plain) by_library.emplace(body_.block("if (gpu(runtime)->multiplies != 0) {"));
  const bool reports_errors = print_call_parts(call, "");
  body_.write(
      fmt::format("const ToroidLibraryCall library_call = {{\"{}\", {}, {}, inputs, {}, outputs, {}, integers, {}, numbers, {}, {}}};",
                  call.kernel, call.site, call.has_fixed_sizes ? 1 : 0, call.inputs.size(), call.outputs.size(), call.integers.size(),
                  call.numbers.size(), call.epilogue ? "&epilogue" : "nullptr"));
  return_if("runtime->call(runtime, &library_call)");
  if (reports_errors) return_errors();
  if (!is_plain) return;
  by_library.reset();
  auto otherwise = body_.block("else {");
  print_plain_product(call);
}

void FunctionPrinter::print_chain(const program::ChainCall& chain) {
  shared_.linked_kernels.insert(linked_name("chain", {}, buffer(chain.calls[0].outputs[0].buffer).dtype));
  auto block = body_.block(fmt::format("{{  // {} convolutions, band by band", chain.calls.size()));
  std::vector<std::string> stages;
  bool reports_errors = false;
  for (size_t i = 0; i < chain.calls.size(); ++i) {
    const program::LibraryCall& call = chain.calls[i];
    if (print_call_parts(call, fmt::format("{}", i))) reports_errors = true;
    stages.push_back(fmt::format("{{inputs{0}, {1}, outputs{0}, integers{0}, {2}, {3}}}", i, call.inputs.size(), call.integers.size(),
                                 call.epilogue ? fmt::format("&epilogue{}", i) : "nullptr"));
  }
  body_.write(fmt::format("const ToroidStage stages[] = {{{}}};", fmt::join(stages, ", ")));
  body_.write(fmt::format("const ToroidChain chain = {{\"{}\", {}, {}, stages, {}}};", chain.kernel, chain.site,
                          chain.has_fixed_sizes ? 1 : 0, stages.size()));
  return_if("runtime->chain(runtime, &chain)");
  if (reports_errors) return_errors();
}

}  // namespace toroid::codegen
