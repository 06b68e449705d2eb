// Launches of the two kernels of attention's gradient (codegen/cuda/prelude/attention/attention_gradient.inc).
#include <algorithm>

#include <fmt/format.h>

#include "codegen/cpp/names.h"
#include "codegen/cpp/origin.h"
#include "codegen/cpp/scalar_text.h"
#include "codegen/cuda/attention_text.h"
#include "codegen/wrapper/function_printer.h"
#include "passes/attention/merge_gradient.h"
#include "schedule/cuda/attention/attention_gradient_kernel.h"
#include "schedule/cuda/attention/attention_kernel.h"

namespace toroid::codegen {

// The emulation has no Hopper: its text is the other kernels'.
void FunctionPrinter::print_gpu_attention_gradient(const program::LibraryCall& call, std::string_view choice) {
  const program::Operand &q = call.inputs[0], &k = call.inputs[1], &v = call.inputs[2], &out = call.inputs[3], &grad = call.inputs[4];
  const program::Operand& statistics = call.outputs.back();
  const program::Operand* const mask = has_mask(call.inputs.size(), kGradientOperands) ? &call.inputs[kGradientOperands] : nullptr;
  const std::optional<schedule::AttentionDropout> dropout = dropout_of(call, kGradientOperands);
  const auto result = [&](size_t i) {
    if (call.outputs.size() > 2) return call.outputs[i];
    program::Operand one = call.outputs[0];  // [B, L, 3, H, E]
    const std::vector<sym::Expr> sizes = one.sizes, strides = one.strides;
    one.sizes = {sizes[0], sizes[3], sizes[1], sizes[4]};
    one.strides = {strides[0], strides[3], strides[1], strides[4]};
    one.offset = one.offset + static_cast<int64_t>(i) * strides[2];
    return one;
  };
  const program::Operand of_q = result(0), of_k = result(1), of_v = result(2);
  const schedule::AttentionGradientKernel kernel = schedule::attention_gradient_kernel(q.sizes.back());
  const bool on_hopper = choice != schedule::kFlashAttention && !is_emulated(shared_.target);
  const bool tiles_mask = on_hopper && choice == schedule::kTiledMaskAttention;
  const schedule::HopperGradientKernel hopper{kernel.width, tiles_mask};
  const bool causal = !call.integers[0].is_const(0);
  std::vector<sym::Expr> shape = {q.sizes[0], q.sizes[1], q.sizes[2], k.sizes[2]};
  for (const program::Operand* each : {&q, &k, &v, &out, &grad, &of_q, &of_k, &of_v})
    shape.insert(shape.end(), each->strides.begin(), each->strides.end());
  for (size_t d = 0; d < 4; ++d) shape.push_back(mask == nullptr || mask->sizes[d].is_const(1) ? sym::Expr(0) : mask->strides[d]);

  auto block = body_.block(fmt::format("{{  // {}", comment_text(call.label)));
  body_.write(fmt::format("const int64_t sizes[] = {{{}}};", list(shape)));
  body_.write(fmt::format("const float scale = {};", literal_text(DType::F32, std::get<double>(call.numbers[1]))));
  const bool is_wide = on_hopper && hopper.is_wide();
  struct Parameter {
    std::string_view name;
    const program::Operand* operand;
  };
  // `tiles`: what TMA brings on Hopper.
  const auto start = [&](std::string_view of, const std::vector<Parameter>& tiles, const std::vector<Parameter>& read,
                         const std::vector<Parameter>& written, sym::Expr rows, const schedule::HopperGradientKernel::Half& half,
                         int parts) {
    KernelSource source;
    source.name = shared_.kernels.fresh_name(fmt::format("attention_gradient_of_{}_kernel{}", of, shared_.suffix));
    std::string parameters, names;
    std::vector<std::string> types, passed, pointers;
    const auto add = [&](const Parameter& each, bool is_read, bool is_of_dropout = false) {
      const std::string_view type = storage_type(buffer(each.operand->buffer).dtype);
      const std::string element(each.operand == &statistics ? "RowStatistics" : type);
      parameters += fmt::format("{}{}* __restrict__ {}, ", is_read ? "const " : "", element, each.name);
      if (each.operand != mask && !is_of_dropout) names += fmt::format("{}, ", each.name);
      types.push_back(element + "*");
      passed.push_back(fmt::format("(void*)&operands[{}]", pointers.size()));
      pointers.push_back(fmt::format("(void*)({})", pointer({each.operand->buffer, each.operand->offset})));
    };
    std::vector<schedule::TensorMap> maps;
    for (const Parameter& each : tiles) {
      if (!on_hopper) continue;
      parameters += fmt::format("TENSOR_MAP {}_map, ", each.name);
      names += fmt::format("{}_map, ", each.name);
      types.emplace_back("TensorMap");
      const program::Operand& its = *each.operand;
      maps.push_back(schedule::attention_map(its.buffer, its.offset, its.sizes, its.strides, hopper.kTileRows));
    }
    if (tiles_mask) {
      parameters += "TENSOR_MAP mask_map, ";
      types.emplace_back("TensorMap");
      std::vector<sym::Expr> sizes = mask->sizes;
      for (size_t d = 0; d < 2; ++d) {
        if (mask->strides[d].is_const(0)) sizes[d] = 1;
      }
      maps.push_back(schedule::attention_map(mask->buffer, mask->offset, sizes, mask->strides, hopper.kTileRows));
    }
    for (const Parameter& each : read) {
      const bool is_brought = std::any_of(tiles.begin(), tiles.end(), [&](const Parameter& tile) { return tile.operand == each.operand; });
      if (!on_hopper || !is_brought) add(each, true);
    }
    if (mask != nullptr && !tiles_mask) add({"mask", mask}, true);
    for (const Parameter& each : written) add(each, false);
    if (dropout) {
      add({"key", &call.inputs[call.inputs.size() - 2]}, true, true);
      add({"call", &call.inputs.back()}, true, true);
    }
    const std::string_view masking = mask == nullptr ? "" : tiles_mask ? ", kTiledMask" : ", kMask";
    std::string last = tiles_mask        ? fmt::format(", (const {}*)nullptr", storage_type(buffer(mask->buffer).dtype))
                       : mask != nullptr ? ", mask"
                       : dropout         ? ", (const float*)nullptr"
                                         : "";
    if (dropout) last += ", " + cuda::dropout_text(*dropout);
    if (tiles_mask) last += fmt::format("{}, &mask_map", dropout ? "" : ", NoDropout{}");
    const std::string head = fmt::format("{}({}ATTENTION_GRADIENT_SHAPE shape, const float scale) {{\n", source.name, parameters);
    source.text =
        on_hopper
            ? fmt::format("KERNEL __launch_bounds__({}, {}) {}  {}gradient_of_{}_on_hopper<{}, {}, {}{}>({}shape, scale{});\n}}\n",
                          hopper.threads(), hopper.blocks_at_once(), head, is_wide ? "wide_" : "", of,
                          is_wide ? fmt::format("{}, {}", hopper.width(), hopper.own_width) : std::to_string(hopper.groups()), half.stages,
                          causal, masking, names, last)
            : fmt::format("KERNEL __launch_bounds__({}, {}) {}  attention_gradient_of_{}<{}, {}, {}{}>({}shape, scale{});\n}}\n",
                          kernel.kThreads, kernel.width > 64 ? 1 : 2, head, of, kernel.width, kernel.tile, causal, masking, names, last);
    const std::string& name = add_kernel(source);
    shared_.kernel_preludes.try_emplace(
        name, cuda::Preludes{
                  .attention = true, .hopper_attention = on_hopper, .attention_gradient = true, .hopper_attention_gradient = on_hopper});
    types.insert(types.end(), {"AttentionGradientShape", "float"});
    passed.insert(passed.end(), {"(void*)sizes", "(void*)&scale"});
    auto launch = body_.block("{");
    body_.write(fmt::format("void* const operands[] = {{{}}};", joined(pointers, "")));
    const int of_block = on_hopper ? half.rows : kernel.kRows;
    const sym::Expr blocks = sym::ceil_div(rows, of_block) * q.sizes[0] * q.sizes[1] * (on_hopper ? 1 : parts);
    write_gpu_launch({name, types, std::move(passed), maps, blocks, on_hopper ? hopper.threads() : kernel.kThreads,
                      static_cast<int>(on_hopper ? half.shared_bytes : kernel.shared_bytes()), 0, true});
  };
  const std::vector<Parameter> queries = {{"q", &q}, {"grad", &grad}}, keys = {{"k", &k}, {"v", &v}};
  // Of wide rows those that a block has are tiles, too.
  const auto tiles = [&](const std::vector<Parameter>& own, const std::vector<Parameter>& others) {
    std::vector<Parameter> all = is_wide ? own : std::vector<Parameter>();
    all.insert(all.end(), others.begin(), others.end());
    return all;
  };
  start("queries", tiles(queries, keys), {{"q", &q}, {"k", &k}, {"v", &v}, {"out", &out}, {"grad", &grad}},
        {{"dq", &of_q}, {"statistics", &statistics}}, q.sizes[2], hopper.of_queries(), 1);
  start("keys", tiles(keys, queries), {{"q", &q}, {"k", &k}, {"v", &v}, {"grad", &grad}, {"statistics", &statistics}},
        {{"dk", &of_k}, {"dv", &of_v}}, k.sizes[2], hopper.of_keys(), kernel.parts());
}

}  // namespace toroid::codegen
