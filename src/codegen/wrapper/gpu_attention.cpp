// Launches of the kernels of attention, with the sizes and strides of their operands.
#include <fmt/format.h>

#include "base/error.h"
#include "codegen/cpp/names.h"
#include "codegen/cpp/origin.h"
#include "codegen/cpp/scalar_text.h"
#include "codegen/cuda/attention_text.h"
#include "codegen/wrapper/function_printer.h"
#include "passes/attention/merge_gradient.h"
#include "program/late_row.h"
#include "program/streams/lanes.h"

namespace toroid::codegen {
namespace {

std::vector<std::string> types_of_operands(const schedule::AttentionKernel& kernel) {
  const std::string element = fmt::format("{}*", storage_type(kernel.dtype));
  const std::string mask = kernel.mask ? fmt::format("{}*", storage_type(*kernel.mask)) : element;
  std::vector<std::string> types = {element, element, element, mask, element};
  if (kernel.dropout) types.insert(types.end(), 2, "int64_t*");
  types.insert(types.end(), {"AttentionShape", "float"});
  return types;
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

std::optional<schedule::AttentionDropout> dropout_of(const program::LibraryCall& call, size_t operands) {
  if (!has_dropout(call.inputs.size(), operands)) return std::nullopt;
  constexpr size_t kFactor = 2, kLimit = 3;
  return schedule::AttentionDropout{.factor = std::get<double>(call.numbers[kFactor]), .limit = call.integers[kLimit].value()};
}

// The emulation has no Hopper: its text is the other kernel's.
void FunctionPrinter::print_gpu_attention(const program::LibraryCall& call, std::string_view choice) {
  const program::Operand &q = call.inputs[0], &k = call.inputs[1], &v = call.inputs[2], &out = call.outputs[0];
  const std::optional<schedule::AttentionDropout> dropout = dropout_of(call, kDroppedOperands);
  const program::Operand* const mask = has_mask(call.inputs.size(), kDroppedOperands) ? &call.inputs[3] : nullptr;
  const Attention op{.causal = !call.integers[0].is_const(0), .scale = std::get<double>(call.numbers[dropout ? 1 : 0])};
  const bool emulated = is_emulated(shared_.target);
  const bool on_hopper = choice == schedule::kHopperAttention && !emulated, is_split = choice == schedule::kSplitAttention;
  const DType dtype = buffer(q.buffer).dtype;
  const std::optional<DType> of_mask = mask == nullptr ? std::nullopt : std::optional(buffer(mask->buffer).dtype);
  const schedule::AttentionKernel kernel = is_split ? schedule::split_attention_kernel(op, dtype, of_mask, q.sizes, k.sizes)
                                                    : schedule::attention_kernel(op, dtype, of_mask, q.sizes, v.sizes, on_hopper, dropout);
  KernelSource source;
  source.name = shared_.kernels.fresh_name(fmt::format("attention_kernel{}", shared_.suffix));
  static_assert(program::kLanes == 2, "attention_turns_taken has a count for each, and one without");
  if (branch_ > program::kLanes) throw Error(ErrorKind::Internal, fmt::format("attention on branch {}, which is no lane", branch_));
  source.text = cuda::attention_text(kernel, source.name, call.overlap, branch_);
  const std::string& name = add_kernel(source);
  shared_.kernel_preludes.try_emplace(name,
                                      cuda::Preludes{.attention = true, .hopper_attention = kernel.hopper, .split_attention = is_split});

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
  for (size_t i = call.inputs.size() - 2; dropout && i < call.inputs.size(); ++i)
    pointers.push_back(fmt::format("(void*)({})", pointer({call.inputs[i].buffer, call.inputs[i].offset})));
  auto block = body_.block(fmt::format("{{  // {}", comment_text(call.label)));
  body_.write(fmt::format("void* const operands[] = {{{}}};", joined(pointers, "")));
  body_.write(fmt::format("const int64_t sizes[] = {{{}}};", list(shape)));
  body_.write(fmt::format("const float scale = {};", literal_text(DType::F32, op.scale)));
  std::vector<schedule::TensorMap> maps;
  if (kernel.hopper) {
    constexpr int kQueryRows = 64;
    const auto map = [](const program::Operand& of, int rows) {
      return schedule::attention_map(of.buffer, of.offset, of.sizes, of.strides, rows);
    };
    maps = {map(q, kQueryRows), map(k, kernel.keys), map(v, kernel.keys)};
  }
  std::vector<std::string> passed;
  for (size_t i = maps.size(); i < pointers.size(); ++i) passed.push_back(fmt::format("(void*)&operands[{}]", i));
  passed.insert(passed.end(), {"(void*)sizes", "(void*)&scale"});
  std::vector<std::string> types = types_of_operands(kernel);
  if (call.overlap.loads_ahead) {
    const std::optional<program::LateRow> late = program::late_row(shared_.graphs[function_.graph], call);
    TOROID_CHECK(late.has_value(), "attention that loads ahead has a row that is late");
    body_.write(fmt::format("void* const changed = (void*)({});", pointer({late->buffer, late->offset})));
    passed.emplace_back("(void*)&changed");
    types.emplace_back("int64_t*");
  }
  const sym::Expr blocks =
      is_split ? schedule::split_attention_blocks(kernel, k.sizes) : sym::ceil_div(sizes[2], kernel.rows()) * sizes[0] * heads;
  write_gpu_launch({name, std::move(types), std::move(passed), maps, blocks, kernel.threads(), static_cast<int>(kernel.shared_bytes()), 1,
                    true, call.overlap.starts_early});
}

}  // namespace toroid::codegen
