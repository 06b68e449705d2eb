// Convolutions: library calls, and for GPUs filter gradients, packed and phased ones, and loops.
#include "lower/lowering.h"

#include <algorithm>

#include "lower/convolutions/convolution_loops.h"
#include "lower/convolutions/convolution_of_bytes.h"
#include "lower/convolutions/deep_convolution.h"
#include "lower/convolutions/filter_gradient.h"
#include "lower/convolutions/packed_convolution.h"
#include "lower/convolutions/phased_convolution.h"
#include "lower/layouts.h"

namespace toroid {

namespace {

constexpr int kOfNarrow = 4;  // channels of a group that fill no pack

}  // namespace

// The bias is left to whatever is done with the result besides.
void Lowering::lower_convolution(const Node& node) {
  if (options_.convolutions_in_tiles) {
    const bool is_main = is_main_graph();  // a subgraph's inputs may begin anywhere
    if (const auto it = filter_gradient_of(graph_, node); it && is_main) return lower_filter_gradient(node, *it);
    if (const auto it = phased_convolution(graph_, node); it && is_main) return lower_phased_convolution(node, *it);
    if (is_packed_convolution(graph_, node)) return lower_packed_convolution(node);
    if (const auto it = deep_convolution(graph_, node)) return lower_deep_convolution(node, *it);
  }
  if (options_.convolutions_as_loops) return lower_convolution_loops(node);
  if (is_convolution_of_bytes(graph_, node)) return lower_convolution_of_bytes(node);
  if (!is_channels_last_convolution(graph_, node)) return lower_call(node, true);
  const ValueId id = node.outputs[0];
  loop::Call call{node.op, {image_operand(node.inputs[0]), filter_operand(node.inputs[1])}};
  const BufferId out = new_buffer(id);
  loops_->buffer(out).dtype = dtype(id) == DType::F16 ? DType::F32 : dtype(id);
  add_computation(std::move(call), {out}, {node.provenance});
  define_convolution(node, out);
}

// What was summed in `out`, and the bias.
void Lowering::define_convolution(const Node& node, BufferId out) {
  const ValueId id = node.outputs[0];
  const DType made = loops_->buffer(out).dtype;
  std::vector<sym::Expr> axes = fresh_axes(sizes(id));
  ExprId value = exprs().load(out, axes, made);
  if (node.inputs.size() > 2) value = exprs().compute(ScalarOp::Add, {value, at(node.inputs[2], {axes[1]})});
  if (dtype(id) != made || node.inputs.size() > 2) return define(id, std::move(axes), value, {node.provenance});
  define_buffer(id, out);
}

// A copy of a value that is in memory, with its channels next to each other and other sizes. `element`: in terms of the value's.
template <class Element>
loop::Operand Lowering::packed_copy(const Node& node, ValueId of, const std::vector<sym::Expr>& made, const Element& element) {
  operand(of, false);  // puts it in memory
  const BufferId buffer = prepared_if_constant(of, new_buffer(graph_.value(of).name + "_packed", dtype(of), made));
  loops_->buffer(buffer).strides = channels_last_strides(made);
  std::vector<sym::Expr> axes = fresh_axes(made);
  const LoadAt at_index = [&](const std::vector<sym::Expr>& index) { return at(of, index); };
  const ExprId value = element(axes, at_index);
  add_computation(loop::Map{std::move(axes), value}, {buffer}, {node.provenance});
  return {buffer, made, channels_last_strides(made), 0};
}

void Lowering::lower_packed_convolution(const Node& node) {
  const ValueId id = node.outputs[0], image = node.inputs[0], weight = node.inputs[1];
  const auto& op = std::get<Convolution>(node.op);
  const PackedConvolution it = packed_convolution(op, dtype(id), sizes(image), sizes(weight), sizes(id));
  const auto image_operand = [&]() -> loop::Operand {
    if (sym::known_eq(it.image_sizes[1], sizes(image)[1])) {
      if (const loop::Operand window = operand(image, false); is_in_packs(window, channels_of_pack(dtype(id)))) return window;
    }
    return packed_copy(node, image, it.image_sizes, [&](const std::vector<sym::Expr>& axes, const LoadAt& element) {
      return packed_image(exprs(), it, op, sizes(image), axes, element);
    });
  };
  loop::Call call{it.op, {image_operand()}};
  const auto filters = [&]() -> loop::Operand {
    const bool has_packs = op.groups.is_const(1) || sym::known_divisible(sizes(weight)[1], channels_of_pack(dtype(id)));
    if (is_main_graph() && !it.has_pairs) return operand_in_packs(node, weight, true, has_packs ? channels_of_pack(dtype(id)) : kOfNarrow);
    return packed_copy(node, weight, it.filter_sizes, [&](const std::vector<sym::Expr>& axes, const LoadAt& element) {
      return packed_filter(exprs(), it, sizes(weight), axes, element);
    });
  };
  call.operands.push_back(filters());
  const BufferId out = new_buffer(id);
  add_computation(std::move(call), {out}, {node.provenance});
  define_convolution(node, out);
}

// The value with its channels next to each other, in packs of so many elements; a copy where it does not lie so. `as_a_whole`: no gaps.
loop::Operand Lowering::operand_in_packs(const Node& node, ValueId id, bool as_a_whole, int pack) {
  std::vector<sym::Expr> made = sizes(id);
  made[1] = sym::align_up(made[1], pack);
  if (sym::known_eq(made[1], sizes(id)[1])) {
    loop::Operand window = operand(id, false);
    if (!as_a_whole && is_in_packs(window, pack)) return window;
    const std::vector<sym::Expr> whole = channels_last_strides(made);
    bool has_gaps = !window.offset.is_const(0);
    for (size_t d = 0; d < made.size(); ++d) has_gaps = has_gaps || (!made[d].is_const(1) && !sym::known_eq(window.strides[d], whole[d]));
    window.strides = whole;
    if (!has_gaps && is_in_packs(window, pack)) return window;
  }
  return packed_copy(node, id, made, [&](const std::vector<sym::Expr>& axes, const LoadAt& element) {
    return zero_unless(exprs(), sym::lt(axes[1], sizes(id)[1]), element(axes));
  });
}

void Lowering::lower_filter_gradient(const Node& node, const FilterGradient& it) {
  const ValueId id = node.outputs[0];
  const std::vector<sym::Expr>& s = sizes(id);  // [C, K, taps…]
  const int pack = channels_of_pack(dtype(it.image));
  const loop::Operand image = operand_in_packs(node, it.image, false, pack), results = operand_in_packs(node, it.results, true, pack);
  std::vector<sym::Expr> made(s.begin() + 1, s.end());
  made.push_back(sym::floor_div(image.sizes[1], it.slabs));
  sym::Expr of_filter = made.back(), pixels = results.sizes[0];
  for (size_t d = 2; d < s.size(); ++d) {
    of_filter = of_filter * s[d];
    pixels = pixels * results.sizes[d];
  }
  const int64_t parts = filter_gradient_tiles(s[1], it.slabs, of_filter, pixels).parts;
  made.insert(made.begin(), parts);
  const std::string& name = graph_.value(id).name;
  const BufferId sums_of_parts = new_buffer(name + "_parts", DType::F32, made);
  add_computation(loop::Call{filter_gradient_call(it), {image, results}}, {sums_of_parts}, {node.provenance});
  const auto load = [&](BufferId buffer, const std::vector<sym::Expr>& axes) { return exprs().load(buffer, axes, DType::F32); };
  std::vector<sym::Expr> axes = fresh_axes(s), index(axes.begin() + 1, axes.end());
  index.push_back(axes[0]);
  if (it.groups > it.slabs)
    index.back() = axes[0] + s[0] * sym::mod(sym::floor_div(axes[1], sym::floor_div(s[1], it.groups)), it.groups / it.slabs);
  if (parts == 1) {
    index.insert(index.begin(), 0);
    return define(id, std::move(axes), exprs().convert(load(sums_of_parts, index), dtype(id)), {node.provenance});
  }
  made.erase(made.begin());
  if (it.groups == 1) made.back() = s[0];
  const BufferId sums = new_buffer(name + "_sums", DType::F32, made);
  const std::vector<sym::Expr> own = fresh_axes(made);
  std::vector<sym::Expr> of_parts = {program_.symbols->axis(parts, "r")};
  of_parts.insert(of_parts.end(), own.begin(), own.end());
  add_computation(loop::Reduction{own, {of_parts[0]}, ReduceOp::Sum, load(sums_of_parts, of_parts)}, {sums}, {node.provenance});
  define(id, std::move(axes), exprs().convert(load(sums, index), dtype(id)), {node.provenance});
}

// The image's copy. Where channels are packs, taps have a dim of their own, so that packs are read as such.
loop::Operand Lowering::deep_copy(const Node& node, ValueId image, const DeepConvolution& it) {
  const LoadAt element = [&](const std::vector<sym::Expr>& index) { return at(image, index); };
  if (!sym::known_divisible(it.channels, channels_of_pack(dtype(image)))) {
    return packed_copy(node, image, it.image_sizes, [&](const std::vector<sym::Expr>& axes, const LoadAt& of) {
      return deep_image(exprs(), it, sizes(image), deep_place(it, axes), of);
    });
  }
  operand(image, false);  // puts it in memory
  const std::vector<sym::Expr> made = {sizes(image)[0], it.depth, it.image_sizes[2], it.image_sizes[3], it.taps, it.channels};
  const BufferId buffer = prepared_if_constant(image, new_buffer(graph_.value(image).name + "_packed", dtype(image), made));
  std::vector<sym::Expr> axes = fresh_axes(made);
  const DeepPlace place{axes[0], axes[1], axes[2], axes[3], axes[4], axes[5]};
  const ExprId value = deep_image(exprs(), it, sizes(image), place, element);
  add_computation(loop::Map{std::move(axes), value}, {buffer}, {node.provenance});
  return {buffer, it.image_sizes, channels_last_strides(it.image_sizes), 0};
}

void Lowering::lower_deep_convolution(const Node& node, const DeepConvolution& it) {
  const ValueId id = node.outputs[0], image = node.inputs[0], weight = node.inputs[1];
  loop::Call call{it.op, {deep_copy(node, image, it)}};
  call.operands.push_back(packed_copy(node, weight, it.filter_sizes, [&](const std::vector<sym::Expr>& axes, const LoadAt& element) {
    return deep_filter(exprs(), it, axes, element);
  }));
  const BufferId out = prepared_if_constant(id, new_buffer(graph_.value(id).name, dtype(id), it.output_sizes));
  loops_->buffer(out).strides = channels_last_strides(it.output_sizes);
  add_computation(std::move(call), {out}, {node.provenance});
  std::vector<sym::Expr> axes = fresh_axes(sizes(id));
  const ExprId value = exprs().load(out, {axes[0] * it.depth + axes[2], axes[1], axes[3], axes[4]}, dtype(id));
  define(id, axes, node.inputs.size() > 2 ? exprs().compute(ScalarOp::Add, {value, at(node.inputs[2], {axes[1]})}) : value,
         {node.provenance});
}

void Lowering::lower_phased_convolution(const Node& node, const PhasedConvolution& it) {
  const ValueId id = node.outputs[0], weight = node.inputs[1];
  const sym::Expr channels = sizes(id)[1];
  loop::Call call{it.op, {operand_in_packs(node, node.inputs[0], false, channels_of_pack(dtype(node.inputs[0])))}};
  call.operands.push_back(packed_copy(node, weight, it.filter_sizes, [&](const std::vector<sym::Expr>& axes, const LoadAt& element) {
    return phased_filter(exprs(), it, channels, axes, element);
  }));
  const BufferId out = new_buffer(graph_.value(id).name, dtype(id), it.output_sizes);
  loops_->buffer(out).strides = channels_last_strides(it.output_sizes);
  prepared_if_constant(id, out);
  add_computation(std::move(call), {out}, {node.provenance});
  if (it.is_plain) return define_convolution(node, out);
  std::vector<sym::Expr> axes = fresh_axes(sizes(id));
  const ExprId value =
      phased_result(exprs(), it, channels, axes, [&](const std::vector<sym::Expr>& index) { return exprs().load(out, index, dtype(id)); });
  define(id, axes, node.inputs.size() > 2 ? exprs().compute(ScalarOp::Add, {value, at(node.inputs[2], {axes[1]})}) : value,
         {node.provenance});
}

// Do the channels of each pixel lie next to each other, from a place on where a pack may begin?
bool Lowering::is_in_packs(const loop::Operand& image, int pack) {
  const auto may_begin = [&](sym::Expr place) { return sym::known_divisible(place, pack); };
  return image.strides[1].is_const(1) && may_begin(image.offset) && may_begin(image.strides[0]) &&
         std::all_of(image.strides.begin() + 2, image.strides.end(), may_begin);
}

void Lowering::lower_convolution_loops(const Node& node) {
  const ValueId id = node.outputs[0], image = node.inputs[0], weight = node.inputs[1];
  const bool channels_last = channels_last_[static_cast<size_t>(id)];
  const LoadAt image_at = elements_of(image, "_channels_innermost", channels_last_strides(sizes(image)),
                                      channels_last && !suits_as_it_is(operand(image, false)));
  const LoadAt weight_at = elements_of(weight, "_by_tap", filters_innermost_strides(sizes(weight)), channels_last);
  ConvolutionLoops loops =
      convolution_loops(exprs(), std::get<Convolution>(node.op), sizes(image), sizes(weight), sizes(id), image_at, weight_at);
  const BufferId out = new_buffer(id);
  loop::Work work = loop::Map{loops.axes, loops.value};
  if (!loops.reduce_axes.empty()) work = loop::Reduction{loops.axes, loops.reduce_axes, ReduceOp::Sum, loops.value};
  add_computation(std::move(work), {out}, {node.provenance});
  define_convolution(node, out);
}

void Lowering::lower_convolution_of_bytes(const Node& node) {
  const ValueId id = node.outputs[0], codes = graph_.producer(node.inputs[0]).inputs[0],
                filters = graph_.producer(node.inputs[1]).inputs[0];
  loop::Operand image = operand(codes, false);
  if (!suits_as_it_is(image)) image = copy_of(codes, "_channels_innermost", DType::U8, channels_last_strides(sizes(codes)));
  const BufferId out = new_buffer(id);
  add_computation(loop::Call{node.op, {image, operand(filters, false)}}, {out}, {node.provenance});
  define_buffer(id, out);
}

// What is in memory, or a copy of it.
LoadAt Lowering::elements_of(ValueId id, std::string_view suffix, std::vector<sym::Expr> strides, bool is_copied) {
  const bool is_empty = std::any_of(sizes(id).begin(), sizes(id).end(), [](sym::Expr size) { return size.is_const(0); });
  if (!is_copied || is_empty) {
    operand(id, false);
    return [this, id](const std::vector<sym::Expr>& index) { return at(id, index); };
  }
  const BufferId copy = copy_of(id, suffix, dtype(id), std::move(strides)).buffer;
  return [this, id, copy](const std::vector<sym::Expr>& index) { return exprs().load(copy, index, dtype(id)); };
}

// Are the image's channels next to each other, or so few that planes do as well?
bool Lowering::suits_as_it_is(const loop::Operand& image) {
  return sym::evaluate_hint(image.sizes[1]) <= kFewChannels || image.strides[1].is_const(1);
}

// The image with its channels next to each other; in planes where there are few, which the convolution takes as they are. Of float16 a
// copy in float32.
loop::Operand Lowering::image_operand(ValueId id) {
  if (dtype(id) != DType::F16) {
    const loop::Operand window = operand(id, false);
    if (suits_as_it_is(window)) return window;
    return copy_of(id, "_channels_innermost", dtype(id), channels_last_strides(sizes(id)));
  }
  const bool is_copied_so = sym::evaluate_hint(sizes(id)[1]) <= kFewChannels || channels_last_[static_cast<size_t>(id)];
  if (is_copied_so) return filter_operand(id);
  return copy_of(id, "_channels_innermost", DType::F32, channels_last_strides(sizes(id)));
}

// A window on the value; of float16, on a copy of it in float32.
loop::Operand Lowering::filter_operand(ValueId id) {
  if (dtype(id) != DType::F16) return operand(id, false);
  return copy_of(id, "", DType::F32, own_strides(id));
}

}  // namespace toroid
