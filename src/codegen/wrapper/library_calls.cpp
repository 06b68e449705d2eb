// Calls of the runtime's library kernels, with what they take.
#include <algorithm>

#include "codegen/cpp/names.h"
#include "codegen/cpp/origin.h"
#include "codegen/cpp/scalar_text.h"
#include "codegen/wrapper/graph_function.h"
#include "graph/builder.h"
#include "lower/constant_values.h"
#include "schedule/call_arguments.h"
#include "support/error.h"
#include "support/match.h"

namespace toroid::codegen {
namespace {

// Letters of a buffer's name or of where an operator comes from, in the messages of an assertion build.
constexpr size_t kNameLimit = 300;

}  // namespace

std::string GraphFunction::operand(BufferId id, const std::vector<sym::Expr>& sizes, const std::vector<sym::Expr>& strides,
                                   sym::Expr offset, bool is_in_memory) {
  const std::string pointer = is_in_memory ? fmt::format("(void*)({} + {})", identifier(buffer(id).name), index(offset)) : "nullptr";
  std::string size_name = "nullptr";
  std::string stride_name = "nullptr";
  if (!sizes.empty()) {
    ++arrays_;
    size_name = array(fmt::format("sizes{}", arrays_), sizes);
    stride_name = array(fmt::format("strides{}", arrays_), strides);
  }
  const loop::BufferKind kind = buffer(id).kind;
  const bool is_constant = kind == loop::BufferKind::Prepared ||
                           (kind == loop::BufferKind::Constant && !is_written(shared_.program, ConstantId{buffer(id).position}));
  return fmt::format("{{{}, {}, {}, {}, {}, {}}}", pointer, size_name, stride_name, sizes.size(), static_cast<int>(buffer(id).dtype),
                     is_constant ? 1 : 0);
}

void GraphFunction::print_access_names(const KernelSource& source, std::string_view suffix) {
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

void GraphFunction::print_clamped_sum(const schedule::PostOps& sum, std::string_view suffix) {
  auto place = [&](const std::optional<schedule::PostOps::Place>& each) {
    return each ? fmt::format("{} + {}", identifier(buffer(each->buffer).name), index(each->offset)) : "nullptr";
  };
  body_.write(fmt::format("const ToroidPostOps sum_form{} = {{{}, {}, {}, {}, {}, {}, {}, {}, kFusesMultiplyAdd}};", suffix,
                          place(sum.scale), place(sum.bias), place(sum.residual), sum.residual ? index(sum.residual->row) : "0",
                          place(sum.out), index(sum.out.row), literal_text(DType::F32, sum.low), literal_text(DType::F32, sum.high)));
}

GraphFunction::CallParts GraphFunction::print_call_parts(const schedule::CallStep& step, std::string_view suffix) {
  const schedule::CallArguments arguments = schedule::call_arguments(step.call);
  CallParts parts = {arguments.name + (step.choice.empty() ? "" : "#" + step.choice), arguments.integers.size(), arguments.numbers.size()};
  const auto note_sizes = [&](std::span<const sym::Expr> sizes) {
    parts.has_fixed_sizes = parts.has_fixed_sizes && std::all_of(sizes.begin(), sizes.end(), [](sym::Expr e) { return e.is_const(); });
  };
  for (const loop::Operand& each : step.call.operands) {
    note_sizes(each.sizes);
    note_sizes(each.strides);
  }
  for (BufferId out : step.outputs) {
    note_sizes(buffer(out).sizes);
    note_sizes(buffer(out).strides);
  }
  note_sizes(arguments.integers);
  for (const auto& each : arguments.numbers) {
    if (const auto* number = std::get_if<sym::Expr>(&each)) note_sizes({number, 1});
  }
  std::vector<std::string> integers, numbers;
  for (sym::Expr e : arguments.integers) integers.push_back(index(e));
  for (const auto& each : arguments.numbers) {
    numbers.push_back(match(
        each, [](double v) { return literal_text(DType::F64, v); }, [&](sym::Expr e) { return fmt::format("double({})", index(e)); }));
  }
  std::vector<std::string> inputs;
  for (const loop::Operand& each : step.call.operands) inputs.push_back(operand(each.buffer, each.sizes, each.strides, each.offset));
  std::vector<std::string> outputs;
  for (BufferId out : step.outputs) outputs.push_back(operand(out, buffer(out).sizes, buffer(out).strides, 0, !step.epilogue));
  if (step.epilogue) {
    const std::string own_name = shared_.kernels.fresh_name(fmt::format("{}_epilogue{}", identifier(step.epilogue->name), shared_.suffix));
    const KernelSource source = print_kernel(loops_, *step.epilogue, source_, own_name, shared_.assertions);
    parts.reports_errors = source.reports_errors;
    if (source.access_names) print_access_names(source, suffix);
    const std::string& kernel = add_kernel(source);
    // What the kernel is called with, a pointer's width each; a function that all its calls share takes them apart again.
    std::vector<std::string> passed, taken;
    auto pass = [&](const std::string& value, std::string_view type) {
      taken.push_back(fmt::format("({})passed[{}]", type, passed.size()));
      passed.push_back(fmt::format("(void*){}", value));
    };
    for (const KernelParameter& parameter : source.parameters) {
      parts.passed.push_back(parameter.buffer);
      pass(identifier(buffer(parameter.buffer).name), fmt::format("{}*", storage_type(buffer(parameter.buffer).dtype)));
    }
    for (sym::Expr size : source.sizes) pass(identifier(size.node()->name), "int64_t");
    if (source.uses_runtime) pass("runtime", "const ToroidRuntime*");
    if (source.access_names) pass(fmt::format("&checks{}", suffix), "const Checks*");
    if (source.reports_errors) pass("&error", "int32_t*");
    parts.num_passed = passed.size();
    shared_.epilogues.try_emplace(
        kernel,
        fmt::format(
            "static void {}_blocks(void* p, const float* block, int64_t row_stride, int64_t first_row, int64_t last_row, int64_t first, "
            "int64_t last) {{\n  void** passed = (void**)p; (void)passed;\n  {}({}{}block, row_stride, first_row, last_row, first, "
            "last);\n}}\n",
            kernel, kernel, fmt::join(taken, ", "), taken.empty() ? "" : ", "));
    body_.write(fmt::format("void* passed{}[] = {{{}}};", suffix, joined(passed, "nullptr")));
    // An assertion build is there to check what the function reads and writes.
    const bool is_clamped = step.epilogue->clamped && !shared_.assertions;
    if (is_clamped) print_clamped_sum(*step.epilogue->clamped, suffix);
    body_.write(fmt::format("const ToroidEpilogue epilogue{0} = {{{1}_blocks, passed{0}, {2}}};", suffix, kernel,
                            is_clamped ? fmt::format("&sum_form{}", suffix) : "nullptr"));
  }
  body_.write(fmt::format("const ToroidOperand inputs{}[] = {{{}}};", suffix, joined(inputs, "{}")));
  body_.write(fmt::format("const ToroidOperand outputs{}[] = {{{}}};", suffix, joined(outputs, "{}")));
  body_.write(fmt::format("const int64_t integers{}[] = {{{}}};", suffix, joined(integers, "0")));
  if (!numbers.empty() || suffix.empty()) body_.write(fmt::format("const double numbers{}[] = {{{}}};", suffix, joined(numbers, "0")));
  return parts;
}

void GraphFunction::print_call(const schedule::CallStep& step, size_t number) {
  auto block = body_.block(fmt::format("{{  // {}", comment_text(to_string(step.call.op))));
  const CallParts parts = print_call_parts(step, "");
  body_.write(
      fmt::format("const ToroidLibraryCall library_call = {{\"{}\", {}, {}, inputs, {}, outputs, {}, integers, {}, numbers, {}, {}}};",
                  parts.name, shared_.num_call_sites++, parts.has_fixed_sizes ? 1 : 0, step.call.operands.size(), step.outputs.size(),
                  parts.num_integers, parts.num_numbers, step.epilogue ? "&epilogue" : "nullptr"));
  body_.write(fmt::format("if (runtime->call(runtime, &library_call)) return {};", number + 1));
  if (parts.reports_errors) body_.write(fmt::format("if (error) return {} | error << 28;", number + 1));
}

void GraphFunction::print_chain(const schedule::ChainStep& step, size_t number) {
  auto block = body_.block(fmt::format("{{  // {} convolutions, band by band", step.calls.size()));
  std::vector<std::string> stages;
  bool reports_errors = false, has_fixed_sizes = true;
  for (size_t i = 0; i < step.calls.size(); ++i) {
    const schedule::CallStep& call = step.calls[i];
    const CallParts parts = print_call_parts(call, fmt::format("{}", i));
    reports_errors = reports_errors || parts.reports_errors;
    has_fixed_sizes = has_fixed_sizes && parts.has_fixed_sizes;
    const bool is_last = i + 1 == step.calls.size();
    const auto image =
        is_last ? parts.passed.end() : std::find(parts.passed.begin(), parts.passed.end(), step.calls[i + 1].call.operands[0].buffer);
    stages.push_back(fmt::format("{{inputs{0}, {1}, outputs{0}, integers{0}, {2}, {3}, {4}, {5}}}", i, call.call.operands.size(),
                                 parts.num_integers, call.epilogue ? fmt::format("&epilogue{}", i) : "nullptr", parts.num_passed,
                                 image == parts.passed.end() ? 0 : image - parts.passed.begin()));
  }
  body_.write(fmt::format("const ToroidStage stages[] = {{{}}};", fmt::join(stages, ", ")));
  body_.write(fmt::format("const ToroidChain chain = {{\"chain{}\", {}, {}, stages, {}}};", step.choice.empty() ? "" : "#" + step.choice,
                          shared_.num_call_sites++, has_fixed_sizes ? 1 : 0, stages.size()));
  body_.write(fmt::format("if (runtime->chain(runtime, &chain)) return {};", number + 1));
  if (reports_errors) body_.write(fmt::format("if (error) return {} | error << 28;", number + 1));
}

}  // namespace toroid::codegen
