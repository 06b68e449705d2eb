#include "lower/lower.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "graph/custom/custom_operators.h"
#include "library/device_copy.h"
#include "lower/attention/visible_scores.h"
#include "lower/attention/written_scores.h"
#include "lower/cost.h"
#include "lower/index_map.h"
#include "lower/layouts.h"
#include "lower/lowering.h"
#include "lower/nextafter.h"
#include "lower/unread_indices.h"
#include "passes/attention/merge_gradient.h"
#include "passes/constant_values.h"
#include "passes/decompose/custom/apply_custom.h"
#include "passes/devices/placement.h"
#include "support/match.h"

namespace toroid {

namespace {

std::string short_name(std::string_view op) {
  if (const size_t colon = op.find("::"); colon != std::string_view::npos) op.remove_prefix(colon + 2);
  return std::string(op.substr(0, op.find('.')));
}

}  // namespace

LoweredGraph Lowering::run() {
  count_uses();
  channels_last_ = channels_last_values(graph_, options_.convolutions_in_tiles);
  if (!options_.realise_all && is_main_graph()) constant_ = constant_values(program_);
  constant_.resize(graph_.num_values());
  if (all_options_.of_host != nullptr) leave_host_to_calls();
  values_.resize(graph_.num_values());
  of_product_.resize(graph_.num_values());
  for (const Node& node : graph_.nodes()) {
    if (depends_on_product(node)) continue;  // computed where an attention's scores are
    const Provenance& source = graph_.provenance(node.provenance);
    exprs().set_origin(node.provenance);
    if (!node.outputs.empty()) go_to(is_on_host(node.inputs.empty() ? node.outputs[0] : node.inputs[0]));
    try {
      prepare_inputs(node);
      lower_node(node);
      for (ValueId output : node.outputs) {
        const auto v = static_cast<size_t>(output);
        if (options_.realise_all || (is_before_communication_[v] && constant_[v] == Constancy::None)) realise(output);
      }
      bind_symbols(node);
    } catch (Error& error) {
      if (!source.op.empty()) error.at(fmt::format("at {} '{}' ({})", source.op, source.name, source.source));
      throw;
    }
  }
  LoweredGraph result;
  // New values of buffers first: where one is returned as well, the copy is the caller's.
  result.outputs.resize(graph_.outputs.size());
  for (const bool updates : {true, false}) {
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      if (is_update(i) == updates) result.outputs[i] = bind_output(graph_.outputs[i], i);
    }
  }
  result.loops = std::move(loops_);
  return result;
}

// Subgraphs are the GPU's (make_copies_explicit).
bool Lowering::is_on_host(ValueId id) const { return all_options_.of_host != nullptr && is_main_graph() && !is_on_gpu(graph_.type(id)); }

void Lowering::go_to(bool host) {
  if (std::exchange(on_host_, host) != host) options_ = host ? *all_options_.of_host : all_options_;
}

// What the host computes of constants it computes in each call. Of copies only those of constants as they lie in memory are made once. Its
// images lie as its own kernels take them.
void Lowering::leave_host_to_calls() {
  const std::vector<bool> channels_last = channels_last_values(graph_, all_options_.of_host->convolutions_in_tiles);
  const auto constancy = [&](ValueId id) -> Constancy& { return constant_[static_cast<size_t>(id)]; };
  const auto is_plain_constant = [&](ValueId id) {
    const auto* constant = std::get_if<Constant>(&graph_.producer(id).op);
    return constant != nullptr && program_.constant(constant->id).type.strides.empty();
  };
  for (const Node& node : graph_.nodes()) {
    const bool is_copy = is_library(node.op, kDeviceCopy);
    bool stays = true;
    for (ValueId input : node.inputs) stays = stays && constancy(input) != Constancy::None && (!is_on_host(input) || is_copy);
    if (is_copy) stays = stays && is_plain_constant(node.inputs[0]);
    for (ValueId output : node.outputs) {
      const bool is_constant = std::holds_alternative<Constant>(node.op);
      if (!stays || (is_on_host(output) && !is_constant)) constancy(output) = Constancy::None;
      if (is_on_host(output)) channels_last_[static_cast<size_t>(output)] = channels_last[static_cast<size_t>(output)];
      if (is_copy) channels_last_[static_cast<size_t>(output)] = false;
    }
  }
}

void Lowering::count_uses() {
  uses_.assign(graph_.num_values(), 0);
  for (const Node& node : graph_.nodes()) {
    for (ValueId input : node.inputs) ++uses_[static_cast<size_t>(input)];
  }
  for (ValueId output : graph_.outputs) ++uses_[static_cast<size_t>(output)];
  for (const SymbolBinding& binding : graph_.bindings) ++uses_[static_cast<size_t>(binding.value)];

  needs_memory_.assign(graph_.num_values(), false);
  for (ValueId output : graph_.outputs) needs_memory_[static_cast<size_t>(output)] = true;
  const std::vector<Node>& nodes = graph_.nodes();
  for (size_t i = nodes.size(); i-- > 0;) {
    const Op& op = nodes[i].op;
    const bool computes = std::holds_alternative<Pointwise>(op) || std::holds_alternative<Cast>(op) || std::holds_alternative<Reduce>(op) ||
                          std::holds_alternative<Gather>(op);
    const bool is_window = is_view(op) && !needs_memory_[static_cast<size_t>(nodes[i].outputs[0])];
    if (computes || is_window) continue;
    for (ValueId input : nodes[i].inputs) needs_memory_[static_cast<size_t>(input)] = true;
  }
  find_what_is_before_communication();
}

// What is computed beside a collective operation is what stands behind it. So what is needed in memory behind one, and is made of others
// before it, is not left to who reads it.
void Lowering::find_what_is_before_communication() {
  is_before_communication_.assign(graph_.num_values(), false);
  const std::vector<Node>& nodes = graph_.nodes();
  std::vector<size_t> stretch_of_reader(graph_.num_values(), nodes.size());  // of the first that needs it in memory
  size_t stretch = static_cast<size_t>(std::count_if(nodes.begin(), nodes.end(), [](const Node& node) { return is_collective(node.op); }));
  if (stretch == 0) return;
  for (size_t i = nodes.size(); i-- > 0;) {
    const Node& node = nodes[i];
    if (is_collective(node.op)) --stretch;  // it reads before it communicates
    const bool computes = std::holds_alternative<Pointwise>(node.op) || std::holds_alternative<Cast>(node.op);
    for (ValueId output : node.outputs) {
      const size_t reader = stretch_of_reader[static_cast<size_t>(output)];
      if (computes && needs_memory_[static_cast<size_t>(output)] && reader < nodes.size() && reader > stretch)
        is_before_communication_[static_cast<size_t>(output)] = true;
    }
    const bool is_shown = is_view(node.op) && !node.outputs.empty();
    for (ValueId input : node.inputs) {
      size_t& reader = stretch_of_reader[static_cast<size_t>(input)];
      if (is_shown) {
        reader = std::min(reader, stretch_of_reader[static_cast<size_t>(node.outputs[0])]);
      } else if (!computes && !std::holds_alternative<Reduce>(node.op) && !std::holds_alternative<Gather>(node.op)) {
        reader = std::min(reader, stretch);
      }
    }
  }
}

// Sizes that a result of `node` defines.
void Lowering::bind_symbols(const Node& node) {
  for (const SymbolBinding& binding : graph_.bindings) {
    if (std::find(node.outputs.begin(), node.outputs.end(), binding.value) == node.outputs.end()) continue;
    const BufferId buffer = contiguous(binding.value);
    loops_->computations.push_back({loop::Bind{binding.expr, buffer}, {}, "bind", {node.provenance}});
  }
}

std::vector<sym::Expr> Lowering::fresh_axes(const std::vector<sym::Expr>& sizes, std::string_view prefix) {
  std::vector<sym::Expr> axes;
  for (sym::Expr size : sizes) axes.push_back(size.is_const(1) ? sym::Expr(0) : program_.symbols->axis(size, prefix));
  return axes;
}

// The value's element at `index`.
ExprId Lowering::at(ValueId id, const std::vector<sym::Expr>& index) {
  const Lowered& value = lowered(id);
  // A tensor without elements has none to load, not even where a loop that never turns would.
  if (std::any_of(sizes(id).begin(), sizes(id).end(), [](sym::Expr size) { return size.is_const(0); }))
    return exprs().literal(sym::Expr(0), dtype(id));
  sym::Substitution axes;
  for (size_t d = 0; d < index.size(); ++d) {
    if (!value.axes[d].is_const() && value.axes[d] != index[d]) axes.emplace_back(value.axes[d], index[d]);
  }
  return exprs().substitute(value.value, axes);
}

void Lowering::define(ValueId id, std::vector<sym::Expr> axes, ExprId value, std::vector<ProvenanceId> provenance) {
  lowered(id) = {std::move(axes), value, std::nullopt, std::move(provenance), false};
}

void Lowering::define_buffer(ValueId id, BufferId buffer) {
  Lowered& value = lowered(id);
  if (value.axes.size() != sizes(id).size()) value.axes = fresh_axes(sizes(id));
  value.buffer = buffer;
  value.value = exprs().load(buffer, value.axes, dtype(id));
  value.provenance.clear();
}

BufferId Lowering::new_buffer(std::string name, DType dtype, const std::vector<sym::Expr>& sizes) {
  if (is_complex(dtype) || size_bytes(dtype) == 0 || (is_floating(dtype) && size_bytes(dtype) == 1)) {
    throw Error(ErrorKind::Unsupported, fmt::format("tensors of dtype {} are not supported by the CPU backend", to_string(dtype)));
  }
  return loops_->add_buffer(
      {.name = std::move(name), .dtype = dtype, .sizes = sizes, .strides = contiguous_strides(sizes), .on_host = on_host_});
}

// Those with which the value lies in memory.
std::vector<sym::Expr> Lowering::own_strides(ValueId id) const {
  return channels_last_[static_cast<size_t>(id)] ? channels_last_strides(sizes(id)) : contiguous_strides(sizes(id));
}

BufferId Lowering::new_buffer(ValueId id) {
  const BufferId buffer = new_buffer(graph_.value(id).name, dtype(id), sizes(id));
  loops_->buffer(buffer).strides = own_strides(id);
  return prepared_if_constant(id, buffer);
}

// A buffer that holds something of the value.
BufferId Lowering::prepared_if_constant(ValueId id, BufferId buffer) {
  if (constant_[static_cast<size_t>(id)] != Constancy::None) loops_->buffer(buffer).kind = loop::BufferKind::Prepared;
  return buffer;
}

std::vector<ProvenanceId> Lowering::merged_provenance(const Node& node) {
  std::vector<ProvenanceId> result;
  for (ValueId input : node.inputs) {
    for (ProvenanceId id : lowered(input).provenance) result.push_back(id);
  }
  if (!std::holds_alternative<Full>(node.op) && !std::holds_alternative<Iota>(node.op)) result.push_back(node.provenance);
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

std::string Lowering::kernel_name(const std::vector<ProvenanceId>& provenance) {
  std::string name;
  std::string last;
  for (ProvenanceId id : provenance) {
    const std::string part = short_name(graph_.provenance(id).op);
    if (part.empty() || part == last) continue;
    name += (name.empty() ? "" : "_") + part;
    last = part;
  }
  return name.empty() ? "copy" : name;
}

void Lowering::add_computation(loop::Work work, std::vector<BufferId> outputs, std::vector<ProvenanceId> provenance) {
  std::string name = kernel_name(provenance);
  loops_->computations.push_back({std::move(work), std::move(outputs), std::move(name), std::move(provenance)});
}

// Does it give an attention's product, or something on the way from there to the scores?
bool Lowering::depends_on_product(const Node& node) {
  if (is_library(node.op, kAttentionOfScores)) return false;
  const bool depends = is_library(node.op, kAttentionProduct) || std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) {
                         return of_product_[static_cast<size_t>(id)];
                       });
  for (ValueId id : node.outputs) of_product_[static_cast<size_t>(id)] = depends;
  return depends;
}

void Lowering::lower_node(const Node& node) {
  match(
      node.op, [&](const Input& op) { lower_input(node, op); }, [&](const Constant& op) { lower_constant(node, op); },
      [&](const Aten& op) { TOROID_CHECK(false, "{} was not decomposed", op.schema->name); },
      [&](const HigherOrder&) { lower_call(node, true); },
      [&](const Full& op) {
        define(node.outputs[0], fresh_axes(sizes(node.outputs[0])), exprs().literal(op.value, dtype(node.outputs[0])), {});
      },
      [&](const Iota& op) {
        std::vector<sym::Expr> axes = fresh_axes(sizes(node.outputs[0]));
        const sym::Expr axis = axes[static_cast<size_t>(op.dim)];
        define(node.outputs[0], std::move(axes), exprs().index(axis, dtype(node.outputs[0])), {});
      },
      [&](const RandomState&) {
        const BufferId buffer = new_buffer(node.outputs[0]);
        loops_->buffer(buffer).kind = loop::BufferKind::RandomState;
        define_buffer(node.outputs[0], buffer);
      },
      [&](const Pointwise& op) { lower_pointwise(node, op); }, [&](const Cast&) { lower_cast(node); },
      [&](const Bitcast&) {
        std::vector<sym::Expr> axes = fresh_axes(sizes(node.outputs[0]));
        const DType to = dtype(node.outputs[0]);
        const ExprId value = exprs().add(loop::BitcastTo{at(node.inputs[0], axes), dtype(node.inputs[0]), to}, compute_dtype(to));
        define(node.outputs[0], std::move(axes), value, merged_provenance(node));
      },
      [&](const Expand&) { lower_view(node); }, [&](const Permute&) { lower_view(node); }, [&](const Reshape&) { lower_view(node); },
      [&](const Slice&) { lower_view(node); }, [&](const Remap&) { lower_view(node); }, [&](const Pad& op) { lower_pad(node, op); },
      [&](const Cat& op) { lower_cat(node, op); }, [&](const Gather&) { lower_gather(node); },
      [&](const Scatter& op) { lower_scatter(node, op); }, [&](const Reduce& op) { lower_reduce(node, op); },
      [&](const Scan& op) { lower_scan(node, op); }, [&](const Sort&) { lower_call(node, true); },
      [&](const Matmul&) { lower_matmul(node); }, [&](const Convolution&) { lower_convolution(node); },
      [&](const Attention&) { lower_attention(node); },
      [&](const Library& op) {
        if (op.name == kDeviceCopy) return lower_device_copy(node);
        if (op.name == kAttentionGradient || op.name == kDroppedAttention) return lower_attention(node);
        if (is_library(node.op, kAttentionOfScores)) return lower_attention_of_scores(node);
        if (program_.operators != nullptr && program_.operators->of_library(op.name) != nullptr) return lower_custom(node, op);
        lower_call(node, op.name != "products.grouped" && op.name != "convolution.backward_weights");
      });
}

void Lowering::lower_input(const Node& node, const Input& op) {
  const ValueId id = node.outputs[0];
  const BufferId buffer = new_buffer(id);
  loop::Buffer& b = loops_->buffer(buffer);
  b.kind = loop::BufferKind::Input;
  b.position = op.index;
  // A subgraph's operands are contiguous.
  if (is_main_graph() && !graph_.type(id).strides.empty()) b.strides = graph_.type(id).strides;
  define_buffer(id, buffer);
}

void Lowering::lower_constant(const Node& node, const Constant& op) {
  const ValueId id = node.outputs[0];
  const ConstantData& data = program_.constant(op.id);
  // A single element is a literal, unless the program may write it or it may be a float that training changes.
  const bool is_known = !data.is_buffer && data.bytes.data() != nullptr && (data.name.empty() || !is_floating(dtype(id)));
  if (is_known && sizes(id).empty() && define_literal(id, data)) return;
  const BufferId buffer = new_buffer(id);
  loop::Buffer& b = loops_->buffer(buffer);
  b.kind = loop::BufferKind::Constant;
  b.position = static_cast<uint32_t>(op.id);
  b.updated_by = update_of(program_, op.id);
  if (!data.type.strides.empty()) b.strides = data.type.strides;
  define_buffer(id, buffer);
}

bool Lowering::define_literal(ValueId id, const ConstantData& data) {
  auto read = [&](auto sample) {
    std::memcpy(&sample, data.bytes.data(), sizeof(sample));
    return sample;
  };
  Scalar value;
  switch (data.type.dtype) {
    case DType::F32: value = static_cast<double>(read(float{})); break;
    case DType::F64: value = read(double{}); break;
    case DType::I64: value = sym::Expr(read(int64_t{})); break;
    case DType::I32: value = sym::Expr(static_cast<int64_t>(read(int32_t{}))); break;
    case DType::Bool: value = read(uint8_t{}) != 0; break;
    default: return false;
  }
  define(id, {}, exprs().literal(value, data.type.dtype), {});
  return true;
}

void Lowering::lower_pointwise(const Node& node, const Pointwise& op) {
  const ValueId id = node.outputs[0];
  std::vector<sym::Expr> axes = fresh_axes(sizes(id));
  std::vector<ExprId> operands;
  for (ValueId input : node.inputs) operands.push_back(at(input, axes));
  const bool is_narrow_nextafter = op.op == ScalarOp::Nextafter && is_reduced_float(dtype(id));
  const ExprId value =
      is_narrow_nextafter ? narrow_nextafter(exprs(), operands[0], operands[1], dtype(id)) : exprs().compute(op.op, std::move(operands));
  define(id, std::move(axes), value, merged_provenance(node));
  realise_if_worth_it(id);
  // A product that several loops compute again is the same in each, fused with an addition in none.
  const auto* compute = std::get_if<loop::Compute>(&exprs().node(value).op);
  if (compute != nullptr && compute->op == ScalarOp::Mul && !lowered(id).buffer && uses_[static_cast<size_t>(id)] > 1 &&
      is_floating(exprs().dtype(value))) {
    lowered(id).value = exprs().add(loop::BitcastTo{value, exprs().dtype(value), exprs().dtype(value)}, exprs().dtype(value));
  }
}

void Lowering::lower_cast(const Node& node) {
  const ValueId id = node.outputs[0], input = node.inputs[0];
  // What would be kept is kept in fewer bytes, from which it is cast wherever it is used.
  const bool is_byte = dtype(input) == DType::I8 || dtype(input) == DType::U8;
  const bool is_widened = is_reduced_float(dtype(input)) && is_floating(dtype(id)) && !is_reduced_float(dtype(id));
  if ((is_byte || is_widened) && uses_[static_cast<size_t>(id)] > 1 && !cost_of(exprs(), lowered(input).value).is_cheap()) realise(input);
  std::vector<sym::Expr> axes = fresh_axes(sizes(id));
  const ExprId value = exprs().convert(at(node.inputs[0], axes), dtype(id));
  define(id, std::move(axes), value, merged_provenance(node));
  realise_if_worth_it(id);
}

void Lowering::lower_view(const Node& node) {
  const ValueId id = node.outputs[0];
  const ValueId input = node.inputs[0];
  realise_before_repeating(input, graph_.type(id).numel());
  std::vector<sym::Expr> axes = fresh_axes(sizes(id));
  const ExprId value = at(input, view_index(node.op, sizes(input), sizes(id), axes));
  define(id, std::move(axes), value, lowered(input).provenance);
  lowered(id).shows_memory = lowered(input).buffer.has_value() || lowered(input).shows_memory;
}

ExprId Lowering::condition(sym::Expr holds) {
  if (holds.is_const()) return exprs().literal(holds.value() != 0, DType::Bool);
  return exprs().convert(exprs().index(holds), DType::Bool);
}

void Lowering::lower_pad(const Node& node, const Pad& op) {
  const ValueId id = node.outputs[0];
  const ValueId input = node.inputs[0];
  // What is computed from a convolution is done with it; a pad reads that.
  if (channels_last_[static_cast<size_t>(input)] && std::holds_alternative<Pointwise>(graph_.producer(input).op)) realise(input);
  // So are bytes that are computed from a product's sums, which take four times the memory.
  const bool is_byte = dtype(input) == DType::I8 || dtype(input) == DType::U8;
  if (is_byte && !lowered(input).buffer && !lowered(input).shows_memory && !cost_of(exprs(), lowered(input).value).is_cheap()) {
    if (is_view(graph_.producer(input).op)) {
      relower_view(input);
    } else {
      realise(input);
    }
  }
  std::vector<sym::Expr> axes = fresh_axes(sizes(id));
  std::vector<sym::Expr> index;
  sym::Expr inside = 1;
  for (size_t d = 0; d < axes.size(); ++d) {
    index.push_back(axes[d] - op.low[d]);
    inside = sym::logical_and(inside, sym::logical_and(sym::le(0, index[d]), sym::lt(index[d], sizes(input)[d])));
  }
  const ExprId value = exprs().masked(condition(inside), at(input, index), exprs().literal(op.value, dtype(id)));
  define(id, std::move(axes), value, merged_provenance(node));
}

// The element at `axes` of parts that follow each other: axis < start of the second half ? one of the first half : one of the second.
ExprId Lowering::one_of(std::span<const CatPart> parts, const std::vector<sym::Expr>& axes, size_t dim) {
  if (parts.size() == 1) {
    std::vector<sym::Expr> index = axes;
    index[dim] = axes[dim] - parts[0].start;
    return at(parts[0].input, index);
  }
  const std::span<const CatPart> first = parts.first(parts.size() / 2), second = parts.subspan(parts.size() / 2);
  const ExprId otherwise = one_of(second, axes, dim);
  return exprs().masked(condition(sym::lt(axes[dim], second[0].start)), one_of(first, axes, dim), otherwise);
}

void Lowering::lower_cat(const Node& node, const Cat& op) {
  const ValueId id = node.outputs[0];
  const size_t dim = static_cast<size_t>(op.dim);
  std::vector<sym::Expr> axes = fresh_axes(sizes(id));
  std::vector<CatPart> parts;
  sym::Expr start = 0;
  for (ValueId input : node.inputs) {
    if (sizes(input)[dim].is_const(0)) continue;
    parts.push_back({input, start});
    start = start + sizes(input)[dim];
  }
  const ExprId value = parts.empty() ? exprs().literal(Scalar(0.0), dtype(id)) : one_of(parts, axes, dim);
  define(id, std::move(axes), value, merged_provenance(node));
  realise_if_worth_it(id);
}

std::vector<sym::Expr> Lowering::indices(std::span<const ValueId> tensors, const std::vector<sym::Expr>& bounds,
                                         const std::vector<sym::Expr>& axes) {
  std::vector<sym::Expr> index;
  for (size_t d = 0; d < tensors.size(); ++d) index.push_back(exprs().as_index(at(tensors[d], axes), bounds[d]));
  return index;
}

void Lowering::lower_gather(const Node& node) {
  const ValueId id = node.outputs[0];
  const ValueId input = node.inputs[0];
  if (!lowered(input).buffer && !cost_of(exprs(), lowered(input).value).is_cheap() && !is_read_again_from_elsewhere(input)) realise(input);
  std::vector<sym::Expr> axes = fresh_axes(sizes(id));
  const std::vector<sym::Expr> index = indices(std::span(node.inputs).subspan(1), sizes(input), axes);
  ExprId value = at(input, index);
  for (sym::Expr each : index) value = with_check_if_unread(exprs(), value, each);
  define(id, std::move(axes), value, merged_provenance(node));
  realise_if_worth_it(id);
}

void Lowering::lower_scatter(const Node& node, const Scatter& op) {
  const ValueId id = node.outputs[0];
  const ValueId source = node.inputs[1];
  const BufferId base = contiguous(node.inputs[0]);
  std::vector<sym::Expr> axes = fresh_axes(sizes(source));
  std::vector<sym::Expr> index = indices(std::span(node.inputs).subspan(2), sizes(id), axes);
  ExprId value = at(source, axes);
  for (size_t d = 0; d < index.size(); ++d) {
    if (sym::known_le(sizes(id)[d], 1)) value = with_check(exprs(), value, index[d]);  // no address depends on it
  }
  const BufferId out = new_buffer(id);
  add_computation(loop::ScatterLoop{base, std::move(axes), std::move(index), op.mode, value}, {out}, merged_provenance(node));
  define_buffer(id, out);
}

void Lowering::lower_call(const Node& node, bool contiguous_operands) {
  loop::Call call{node.op, {}};
  for (ValueId input : node.inputs) call.operands.push_back(operand(input, contiguous_operands));
  std::vector<BufferId> outputs;
  for (ValueId output : node.outputs) outputs.push_back(new_buffer(output));
  add_computation(std::move(call), outputs, {node.provenance});
  for (size_t i = 0; i < outputs.size(); ++i) define_buffer(node.outputs[i], outputs[i]);
}

void Lowering::lower_device_copy(const Node& node) {
  const ValueId from = node.inputs[0], to = node.outputs[0];
  if (all_options_.of_host == nullptr) {
    std::vector<sym::Expr> axes = fresh_axes(sizes(to));
    const ExprId value = at(from, axes);
    return define(to, std::move(axes), value, merged_provenance(node));
  }
  loop::Call call{node.op, {operand(from, true)}};
  go_to(is_on_host(to));
  const BufferId out = new_buffer(to);
  add_computation(std::move(call), {out}, {node.provenance});
  loops_->computations.back().name = on_host_ ? "copy_to_host" : "copy_to_gpu";
  define_buffer(to, out);
}

// A kernel of the user's own takes those tensors with any strides of which its file says so.
void Lowering::lower_custom(const Node& node, const Library& op) {
  loop::Call call{node.op, {}};
  const CustomOperator& custom = *program_.operators->of_library(op.name);
  const std::vector<bool> strided = strided_inputs(custom, *program_.operators->kernel_of(custom), op);
  for (size_t i = 0; i < node.inputs.size(); ++i) call.operands.push_back(operand(node.inputs[i], i >= strided.size() || !strided[i]));
  std::vector<BufferId> outputs;
  for (ValueId output : node.outputs) outputs.push_back(new_buffer(output));
  add_computation(std::move(call), outputs, {node.provenance});
  for (size_t i = 0; i < outputs.size(); ++i) define_buffer(node.outputs[i], outputs[i]);
}

// What all heads say of one query lies together: models make one row of it. So do gradients.
void Lowering::lower_attention(const Node& node) {
  lower_call(node, false);
  lay_heads_beside_each_other(node);
}

void Lowering::lower_attention_of_scores(const Node& node) {
  loop::Call call{node.op, {}};
  for (size_t i = 0; i < 3; ++i) call.operands.push_back(operand(node.inputs[i], false));
  // The same axes for the same sizes: conditions that are equal are one expression then, and one table serves several layers.
  const auto same =
      std::find_if(axes_of_scores_.begin(), axes_of_scores_.end(), [&](const auto& each) { return each.first == sizes(node.inputs[3]); });
  std::vector<sym::Expr> axes = same != axes_of_scores_.end() ? same->second : fresh_axes(sizes(node.inputs[3]));
  if (same == axes_of_scores_.end()) axes_of_scores_.emplace_back(sizes(node.inputs[3]), axes);
  const auto from_memory = [&](ValueId id, const std::vector<sym::Expr>& index) {
    if (!is_view(graph_.producer(id).op)) realise(id);
    return at(id, index);
  };
  const ExprId value = written_scores(graph_, exprs(), node.inputs[3], axes, of_product_, from_memory);
  call.scores = visible_scores(exprs(), std::move(axes), value);
  const BufferId out = new_buffer(node.outputs[0]);
  add_computation(std::move(call), {out}, {node.provenance});
  define_buffer(node.outputs[0], out);
  lay_heads_beside_each_other(node);
}

void Lowering::lay_heads_beside_each_other(const Node& node) {
  for (ValueId id : node.outputs) {
    const std::vector<sym::Expr>& s = sizes(id);
    const bool is_statistics = id != node.outputs[0] && dtype(id) == DType::F32;
    const bool is_result =
        uses_[static_cast<size_t>(id)] == 1 && std::find(graph_.outputs.begin(), graph_.outputs.end(), id) != graph_.outputs.end();
    if ((dtype(id) != DType::F32 && !is_reduced_float(dtype(id))) || s.size() != 4 || is_statistics || is_result) continue;
    loops_->buffer(*lowered(id).buffer).strides = {s[1] * s[2] * s[3], s[3], s[1] * s[3], 1};
  }
}

OutputBinding Lowering::bind_output(ValueId id, size_t position) {
  go_to(is_on_host(id));
  // A temporary that already holds the output, perhaps in another shape, becomes the output.
  if (const auto window = as_window(id); window && is_contiguous(*window) && window->offset.is_const(0)) {
    loop::Buffer& buffer = loops_->buffer(window->buffer);
    if (buffer.kind == loop::BufferKind::Temporary && sym::known_eq(sym::product(buffer.sizes), graph_.type(id).numel())) {
      buffer.kind = loop::BufferKind::Output;
      buffer.position = static_cast<uint32_t>(position);
      return {window->buffer, sizes(id)};
    }
  }
  const BufferId out = new_buffer(graph_.value(id).name + "_out", dtype(id), sizes(id));
  loop::Buffer& buffer = loops_->buffer(out);
  buffer.kind = loop::BufferKind::Output;
  buffer.position = static_cast<uint32_t>(position);
  add_computation(loop::Map{lowered(id).axes, lowered(id).value}, {out}, lowered(id).provenance);
  return {out, sizes(id)};
}

std::vector<LoweredGraph> lower(const Program& program, const LowerOptions& options) {
  ErrorContext context("lowering {}", program.name.empty() ? "the program" : program.name);
  std::vector<LoweredGraph> graphs;
  graphs.push_back(Lowering(program, program.graph, options).run());
  for (const Graph& subgraph : program.subgraphs) graphs.push_back(Lowering(program, subgraph, options).run());
  return graphs;
}

}  // namespace toroid
