// Launches of the two kernels of attention's gradient (codegen/cuda/prelude/attention_gradient.inc).
#include <fmt/format.h>

#include "codegen/cpp/names.h"
#include "codegen/cpp/origin.h"
#include "codegen/cpp/scalar_text.h"
#include "codegen/wrapper/function_printer.h"
#include "schedule/cuda/attention/attention_gradient_kernel.h"
#include "schedule/cuda/attention/attention_kernel.h"

namespace toroid::codegen {

void FunctionPrinter::print_gpu_attention_gradient(const program::LibraryCall& call) {
  const program::Operand &q = call.inputs[0], &k = call.inputs[1], &v = call.inputs[2], &out = call.inputs[3], &grad = call.inputs[4];
  const program::Operand &of_q = call.outputs[0], &of_k = call.outputs[1], &of_v = call.outputs[2], &statistics = call.outputs[3];
  const schedule::AttentionGradientKernel kernel = schedule::attention_gradient_kernel(q.sizes.back());
  const bool causal = !call.integers[0].is_const(0);
  const std::string_view type = storage_type(buffer(q.buffer).dtype);
  std::vector<sym::Expr> shape = {q.sizes[0], q.sizes[1], q.sizes[2], k.sizes[2]};
  for (const program::Operand* each : {&q, &k, &v, &out, &grad, &of_q, &of_k, &of_v})
    shape.insert(shape.end(), each->strides.begin(), each->strides.end());

  auto block = body_.block(fmt::format("{{  // {}", comment_text(call.label)));
  body_.write(fmt::format("const int64_t sizes[] = {{{}}};", list(shape)));
  body_.write(fmt::format("const float scale = {};", literal_text(DType::F32, std::get<double>(call.numbers[1]))));
  struct Parameter {
    std::string_view name;
    const program::Operand* operand;
  };
  const auto start = [&](std::string_view of, const std::vector<Parameter>& read, const std::vector<Parameter>& written, sym::Expr rows) {
    KernelSource source;
    source.name = shared_.kernels.fresh_name(fmt::format("attention_gradient_of_{}_kernel{}", of, shared_.suffix));
    std::string parameters, names;
    std::vector<std::string> types, passed, pointers;
    const auto add = [&](const Parameter& each, bool is_read) {
      const bool is_statistics = each.operand == &statistics;
      const std::string element = is_statistics ? "RowStatistics" : std::string(type);
      parameters += fmt::format("{}{}* __restrict__ {}, ", is_read ? "const " : "", element, each.name);
      names += fmt::format("{}, ", each.name);
      types.push_back(element + "*");
      passed.push_back(fmt::format("(void*)&operands[{}]", pointers.size()));
      pointers.push_back(fmt::format("(void*)({})", pointer({each.operand->buffer, each.operand->offset})));
    };
    for (const Parameter& each : read) add(each, true);
    for (const Parameter& each : written) add(each, false);
    source.text = fmt::format(
        "KERNEL __launch_bounds__({}, {}) {}({}ATTENTION_GRADIENT_SHAPE shape, const float scale) {{\n"
        "  attention_gradient_of_{}<{}, {}, {}>({}shape, scale);\n}}\n",
        kernel.kThreads, kernel.width > 64 ? 1 : 2, source.name, parameters, of, kernel.width, kernel.tile, causal, names);
    const std::string& name = add_kernel(source);
    shared_.kernel_preludes.try_emplace(name, cuda::Preludes{.attention = true, .attention_gradient = true});
    types.insert(types.end(), {"AttentionGradientShape", "float"});
    passed.insert(passed.end(), {"(void*)sizes", "(void*)&scale"});
    auto launch = body_.block("{");
    body_.write(fmt::format("void* const operands[] = {{{}}};", joined(pointers, "")));
    const sym::Expr blocks = sym::ceil_div(rows, kernel.kRows) * q.sizes[0] * q.sizes[1];
    write_gpu_launch({name, types, std::move(passed), {}, blocks, kernel.kThreads, static_cast<int>(kernel.shared_bytes()), 1, true});
  };
  start("queries", {{"q", &q}, {"k", &k}, {"v", &v}, {"out", &out}, {"grad", &grad}}, {{"dq", &of_q}, {"statistics", &statistics}},
        q.sizes[2]);
  start("keys", {{"q", &q}, {"k", &k}, {"v", &v}, {"grad", &grad}, {"statistics", &statistics}}, {{"dk", &of_k}, {"dv", &of_v}},
        k.sizes[2]);
}

}  // namespace toroid::codegen
