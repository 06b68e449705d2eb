// Graphs of cuDNN, which the host is asked for before a kernel of the program's own is started (library/cudnn_calls.h).
//
//   const int32_t refused = runtime->call(runtime, &library_call);
//   if (refused == 1) return 5;
//   if (refused) { … the own kernel … }
#include <fmt/format.h>

#include "base/error.h"
#include "codegen/cpp/names.h"
#include "codegen/cpp/origin.h"
#include "codegen/cpp/scalar_text.h"
#include "codegen/wrapper/function_printer.h"
#include "library/cudnn_calls.h"
#include "schedule/cuda/cudnn/cudnn_step.h"

namespace toroid::codegen {
namespace {

program::Operand in_memory(const schedule::CudnnOperand& operand) {
  return {.buffer = operand.buffer, .sizes = operand.sizes, .strides = operand.strides, .offset = operand.offset};
}

}  // namespace

void FunctionPrinter::print_cudnn(CudnnParts parts, bool may_refuse) {
  if (!may_refuse) parts.name += cudnn_calls::kOnly;
  std::vector<std::string> inputs, integers, numbers;
  for (const program::Operand& each : parts.inputs) inputs.push_back(operand(each));
  for (sym::Expr each : parts.integers) integers.push_back(index(each));
  for (double each : parts.numbers) numbers.push_back(literal_text(DType::F64, each));
  const std::string out = operand(parts.output);
  body_.write(fmt::format("const ToroidOperand inputs[] = {{{}}};", joined(inputs, "{}")));
  body_.write(fmt::format("const ToroidOperand outputs[] = {{{}}};", out));
  body_.write(fmt::format("const int64_t integers[] = {{{}}};", joined(integers, "0")));
  body_.write(fmt::format("const double numbers[] = {{{}}};", joined(numbers, "0")));
  body_.write(
      fmt::format("const ToroidLibraryCall library_call = {{\"{}\", 0, 0, inputs, {}, outputs, 1, integers, {}, numbers, {}, nullptr}};",
                  parts.name, inputs.size(), integers.size(), numbers.size()));
  body_.write("const int32_t refused = runtime->call(runtime, &library_call);");
  return_if(may_refuse ? fmt::format("refused && refused != {}", cudnn_calls::kRefuses) : "refused");
}

// The emulation has no cuDNN.
void FunctionPrinter::print_cudnn_step(const schedule::CallStep& step, size_t graph, sym::Expr blocks, const schedule::Overlap& overlap) {
  schedule::CallStep own = step;
  own.choice = schedule::without_cudnn(step.choice);
  if (shared_.target != Target::Cuda) return print_gpu_launch(schedule::Step(own), graph, blocks, overlap);
  const schedule::CudnnAttempt attempt = schedule::as_cudnn_call(loops_, step);
  TOROID_CHECK(attempt.call, "'{}' is no step of cuDNN: {}", step.name, attempt.reason);
  CudnnParts parts{.name = attempt.call->name,
                   .inputs = {},
                   .output = in_memory(attempt.call->output),
                   .integers = attempt.call->integers,
                   .numbers = attempt.call->numbers};
  for (const schedule::CudnnOperand& each : attempt.call->inputs) parts.inputs.push_back(in_memory(each));
  const bool may_refuse = schedule::cudnn_of(step.choice) == schedule::Cudnn::First;
  auto block = body_.block(fmt::format("{{  // {} by cuDNN", comment_text(step.name)));
  print_cudnn(std::move(parts), may_refuse);
  if (!may_refuse) return;
  auto instead = body_.block("if (refused) {");
  print_gpu_launch(schedule::Step(own), graph, blocks, overlap);
}

void FunctionPrinter::print_cudnn_attention(const program::LibraryCall& call) {
  const size_t mark = call.kernel.find('#') + 1;
  const std::string choice = call.kernel.substr(mark);
  program::LibraryCall own = call;
  own.kernel = call.kernel.substr(0, mark) + std::string(schedule::without_cudnn(choice));
  if (shared_.target != Target::Cuda) return print_call(own);
  const bool may_refuse = schedule::cudnn_of(choice) == schedule::Cudnn::First;
  auto block = body_.block(fmt::format("{{  // {} by cuDNN", comment_text(call.label)));
  print_cudnn({.name = std::string(cudnn_calls::kAttention),
               .inputs = call.inputs,
               .output = call.outputs[0],
               .integers = call.integers,
               .numbers = {std::get<double>(call.numbers[0])}},
              may_refuse);
  if (!may_refuse) return;
  auto instead = body_.block("if (refused) {");
  print_call(own);
}

}  // namespace toroid::codegen
