// Launches of the kernels of attention, with the sizes and strides of their operands.
#include <fmt/format.h>

#include "codegen/cpp/names.h"
#include "codegen/cpp/origin.h"
#include "codegen/cpp/scalar_text.h"
#include "codegen/cuda/attention_text.h"
#include "codegen/wrapper/function_printer.h"

namespace toroid::codegen {
namespace {

// Of an emulated kernel: takes its arguments out of an array of pointers to them.
std::string attention_thunk(const schedule::AttentionKernel& kernel, std::string_view name) {
  return fmt::format(
      "static void {0}_emulated(void** passed) {{\n  {0}(*({1}**)passed[0], *({1}**)passed[1], *({1}**)passed[2], *({2}**)passed[3], "
      "*({1}**)passed[4], *(AttentionShape*)passed[5], *(float*)passed[6]);\n}}\n",
      name, storage_type(kernel.dtype), storage_type(kernel.mask.value_or(kernel.dtype)));
}

// A mask's dims of one element repeat.
std::array<sym::Expr, 4> strides_of(const program::Operand& operand, bool is_mask) {
  std::vector<sym::Expr> strides = operand.strides;
  for (size_t d = 0; is_mask && d < strides.size(); ++d) {
    if (operand.sizes[d].is_const(1)) strides[d] = 0;
  }
  return schedule::in_four_dims(strides, 0);
}

}  // namespace

// The emulation has no Hopper: its text is the other kernel's.
void FunctionPrinter::print_gpu_attention(const program::LibraryCall& call, bool on_hopper) {
  const program::Operand &q = call.inputs[0], &k = call.inputs[1], &v = call.inputs[2], &out = call.outputs[0];
  const program::Operand* const mask = call.inputs.size() > 3 ? &call.inputs[3] : nullptr;
  const Attention op{.causal = !call.integers[0].is_const(0), .scale = std::get<double>(call.numbers[0])};
  const bool emulated = shared_.target == Target::EmulatedCuda;
  const schedule::AttentionKernel kernel =
      schedule::attention_kernel(op, buffer(q.buffer).dtype, mask == nullptr ? std::nullopt : std::optional(buffer(mask->buffer).dtype),
                                 q.sizes, v.sizes, on_hopper && !emulated);
  KernelSource source;
  source.name = shared_.kernels.fresh_name(fmt::format("attention_kernel{}", shared_.suffix));
  source.text = cuda::attention_text(kernel, source.name);
  const std::string& name = add_kernel(source);
  shared_.kernel_preludes.try_emplace(name, cuda::Preludes{.attention = true, .hopper_attention = kernel.hopper});
  if (emulated) shared_.thunks.try_emplace(name, attention_thunk(kernel, name));

  const auto sizes = schedule::in_four_dims(q.sizes, 1), own_sizes = schedule::in_four_dims(k.sizes, 1);
  const sym::Expr heads = sizes[1], own_heads = own_sizes[1];
  const sym::Expr group = sym::known_eq(heads, own_heads) ? sym::Expr(1) : sym::floor_div(heads, own_heads);
  std::vector<sym::Expr> shape = {sizes[0], heads, group, sizes[2], own_sizes[2]};
  std::vector<std::string> pointers;
  for (const program::Operand* each : {&q, &k, &v, mask, &out}) {
    pointers.push_back(each == nullptr ? "nullptr" : fmt::format("(void*)({})", pointer({each->buffer, each->offset})));
    const auto strides = each == nullptr ? std::array<sym::Expr, 4>{0, 0, 0, 0} : strides_of(*each, each == mask);
    shape.insert(shape.end(), strides.begin(), strides.end());
  }
  auto block = body_.block(fmt::format("{{  // {}", comment_text(call.label)));
  body_.write(fmt::format("void* const operands[] = {{{}}};", joined(pointers, "")));
  body_.write(fmt::format("const int64_t sizes[] = {{{}}};", list(shape)));
  body_.write(fmt::format("const float scale = {};", literal_text(DType::F32, op.scale)));
  std::string maps;  // arguments of launch
  if (kernel.hopper) {
    constexpr int kQueryRows = 64;
    const auto map = [](const program::Operand& of, int rows) {
      return schedule::attention_map(of.buffer, of.offset, of.sizes, of.strides, rows);
    };
    body_.write(
        fmt::format("const ToroidTensorMap maps[] = {{{}}};", tensor_maps({map(q, kQueryRows), map(k, kernel.keys), map(v, kernel.keys)})));
    maps = ", 1, maps, 3";
  }
  std::string passed;
  for (size_t i = 0; i < pointers.size(); ++i) passed += kernel.hopper && i < 3 ? "nullptr, " : fmt::format("(void*)&operands[{}], ", i);
  body_.write(fmt::format("void* passed[] = {{{}(void*)sizes, (void*)&scale}};", passed));
  const sym::Expr blocks = sym::ceil_div(sizes[2], kernel.rows()) * sizes[0] * heads;
  body_.write(fmt::format("if (const int32_t failed = launch(runtime, {}, {}, {}, passed, {}, {}{})) return failed;",
                          emulated ? fmt::format("{{{}_emulated, true}}", name) : fmt::format("\"{}\"", name), index(blocks),
                          kernel.threads(), number_, kernel.shared_bytes(), maps));
}

}  // namespace toroid::codegen
