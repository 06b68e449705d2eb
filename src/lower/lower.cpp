#include "lower/lower.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include <fmt/format.h>

#include "base/error.h"
#include "graph/builder.h"
#include "graph/custom/custom_operators.h"
#include "lower/attention/visible_scores.h"
#include "lower/attention/written_scores.h"
#include "lower/convolution_loops.h"
#include "lower/cost.h"
#include "lower/filter_gradient.h"
#include "lower/float8_factors.h"
#include "lower/index_map.h"
#include "lower/int4_weights.h"
#include "lower/layouts.h"
#include "lower/narrow_weights.h"
#include "lower/nextafter.h"
#include "lower/one_hot.h"
#include "lower/packed_convolution.h"
#include "lower/phased_convolution.h"
#include "passes/attention/merge_gradient.h"
#include "passes/constant_values.h"
#include "passes/decompose/custom/apply_custom.h"
#include "support/match.h"

namespace toroid {
namespace {

using loop::BufferId;
using loop::ExprId;

// What a graph value is at the loop level: an expression over its own axes, and a buffer once it has one.
struct Lowered {
  std::vector<sym::Expr> axes;
  ExprId value{};
  std::optional<BufferId> buffer;
  std::vector<ProvenanceId> provenance;  // of the operations folded into `value`
  bool shows_memory = false;             // a view of something that was in memory when it was lowered
};

std::string short_name(std::string_view op) {
  if (const size_t colon = op.find("::"); colon != std::string_view::npos) op.remove_prefix(colon + 2);
  return std::string(op.substr(0, op.find('.')));
}

class Lowering {
 public:
  Lowering(const Program& program, const Graph& graph, const LowerOptions& options)
      : program_(program), graph_(graph), options_(options), loops_(std::make_unique<loop::LoopProgram>(*program.symbols)) {}

  LoweredGraph run() {
    count_uses();
    channels_last_ = channels_last_values(graph_, options_.convolutions_in_tiles);
    if (!options_.realise_all && is_main_graph()) constant_ = constant_values(program_);
    constant_.resize(graph_.num_values());
    values_.resize(graph_.num_values());
    of_product_.resize(graph_.num_values());
    for (const Node& node : graph_.nodes()) {
      if (depends_on_product(node)) continue;  // computed where an attention's scores are
      const Provenance& source = graph_.provenance(node.provenance);
      exprs().set_origin(node.provenance);
      try {
        prepare_inputs(node);
        lower_node(node);
        if (options_.realise_all) {
          for (ValueId output : node.outputs) realise(output);
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

 private:
  bool is_main_graph() const { return &graph_ == &program_.graph; }

  loop::ExprTable& exprs() { return loops_->exprs; }

  void count_uses() {
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
      const bool computes = std::holds_alternative<Pointwise>(op) || std::holds_alternative<Cast>(op) ||
                            std::holds_alternative<Reduce>(op) || std::holds_alternative<Gather>(op);
      const bool is_window = is_view(op) && !needs_memory_[static_cast<size_t>(nodes[i].outputs[0])];
      if (computes || is_window) continue;
      for (ValueId input : nodes[i].inputs) needs_memory_[static_cast<size_t>(input)] = true;
    }
  }

  // Sizes that a result of `node` defines.
  void bind_symbols(const Node& node) {
    for (const SymbolBinding& binding : graph_.bindings) {
      if (std::find(node.outputs.begin(), node.outputs.end(), binding.value) == node.outputs.end()) continue;
      const BufferId buffer = contiguous(binding.value);
      loops_->computations.push_back({loop::Bind{binding.expr, buffer}, {}, "bind", {node.provenance}});
    }
  }

  std::vector<sym::Expr> fresh_axes(const std::vector<sym::Expr>& sizes, std::string_view prefix = "i") {
    std::vector<sym::Expr> axes;
    for (sym::Expr size : sizes) axes.push_back(size.is_const(1) ? sym::Expr(0) : program_.symbols->axis(size, prefix));
    return axes;
  }

  Lowered& lowered(ValueId id) { return values_[static_cast<size_t>(id)]; }
  const std::vector<sym::Expr>& sizes(ValueId id) const { return graph_.type(id).sizes; }
  DType dtype(ValueId id) const { return graph_.type(id).dtype; }

  // The value's element at `index`.
  ExprId at(ValueId id, const std::vector<sym::Expr>& index) {
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

  void define(ValueId id, std::vector<sym::Expr> axes, ExprId value, std::vector<ProvenanceId> provenance) {
    lowered(id) = {std::move(axes), value, std::nullopt, std::move(provenance), false};
  }

  void define_buffer(ValueId id, BufferId buffer) {
    Lowered& value = lowered(id);
    if (value.axes.size() != sizes(id).size()) value.axes = fresh_axes(sizes(id));
    value.buffer = buffer;
    value.value = exprs().load(buffer, value.axes, dtype(id));
    value.provenance.clear();
  }

  BufferId new_buffer(std::string name, DType dtype, const std::vector<sym::Expr>& sizes) {
    if (is_complex(dtype) || size_bytes(dtype) == 0 || (is_floating(dtype) && size_bytes(dtype) == 1)) {
      throw Error(ErrorKind::Unsupported, fmt::format("tensors of dtype {} are not supported by the CPU backend", to_string(dtype)));
    }
    return loops_->add_buffer({.name = std::move(name), .dtype = dtype, .sizes = sizes, .strides = contiguous_strides(sizes)});
  }

  // Those with which the value lies in memory.
  std::vector<sym::Expr> own_strides(ValueId id) const {
    return channels_last_[static_cast<size_t>(id)] ? channels_last_strides(sizes(id)) : contiguous_strides(sizes(id));
  }

  BufferId new_buffer(ValueId id) {
    const BufferId buffer = new_buffer(graph_.value(id).name, dtype(id), sizes(id));
    loops_->buffer(buffer).strides = own_strides(id);
    return prepared_if_constant(id, buffer);
  }

  // A buffer that holds something of the value.
  BufferId prepared_if_constant(ValueId id, BufferId buffer) {
    if (constant_[static_cast<size_t>(id)] != Constancy::None) loops_->buffer(buffer).kind = loop::BufferKind::Prepared;
    return buffer;
  }

  std::vector<ProvenanceId> merged_provenance(const Node& node) {
    std::vector<ProvenanceId> result;
    for (ValueId input : node.inputs) {
      for (ProvenanceId id : lowered(input).provenance) result.push_back(id);
    }
    if (!std::holds_alternative<Full>(node.op) && !std::holds_alternative<Iota>(node.op)) result.push_back(node.provenance);
    std::sort(result.begin(), result.end());
    result.erase(std::unique(result.begin(), result.end()), result.end());
    return result;
  }

  std::string kernel_name(const std::vector<ProvenanceId>& provenance) {
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

  void add_computation(loop::Work work, std::vector<BufferId> outputs, std::vector<ProvenanceId> provenance) {
    std::string name = kernel_name(provenance);
    loops_->computations.push_back({std::move(work), std::move(outputs), std::move(name), std::move(provenance)});
  }

  // Does it give an attention's product, or something on the way from there to the scores?
  bool depends_on_product(const Node& node) {
    if (is_library(node.op, kAttentionOfScores)) return false;
    const bool depends = is_library(node.op, kAttentionProduct) || std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) {
                           return of_product_[static_cast<size_t>(id)];
                         });
    for (ValueId id : node.outputs) of_product_[static_cast<size_t>(id)] = depends;
    return depends;
  }

  // What can be computed once is not computed again by those who use it.
  void prepare_inputs(const Node& node) {
    for (ValueId output : node.outputs) {
      if (constant_[static_cast<size_t>(output)] != Constancy::None) return;
    }
    const bool keeps_int8 = takes_int8(node), keeps_int4 = takes_int4(node);
    if (is_library(node.op, kAttentionOfScores)) {
      for (size_t i = 0; i < 3; ++i) read_from_memory(node.inputs[i]);
      return;
    }
    for (ValueId input : node.inputs) read_from_memory(input);
    const bool keeps_bytes = std::holds_alternative<Matmul>(node.op) && keeps_narrow_weights(node) &&
                             options_.narrow_weights == NarrowWeights::KeptForFewRows && weights_of_bytes(node);
    if (may_take_float8(node)) return;
    for (ValueId input : node.inputs) {
      const Constancy constancy = constant_[static_cast<size_t>(input)];
      if ((keeps_int4 || keeps_bytes) && input == node.inputs[1]) continue;
      if (constancy == Constancy::None || (keeps_int8 && (is_cast_from(input, DType::I8) || is_cast_from(input, DType::U8)))) continue;
      ValueId computed = input;
      while (!lowered(computed).buffer && is_view(graph_.producer(computed).op)) computed = graph_.producer(computed).inputs[0];
      if (lowered(computed).buffer) continue;
      const ExprCost cost = cost_of(exprs(), lowered(computed).value);
      // A position or a number costs less than to read what was made of it.
      if (cost.transcendental == 0 && (constancy == Constancy::Positions || cost.arithmetic == 0)) continue;
      realise(computed);
      if (computed != input) relower_view(input);
    }
  }

  // The value in memory.
  BufferId realise(ValueId id) {
    Lowered& value = lowered(id);
    if (value.buffer) return *value.buffer;
    const BufferId buffer = new_buffer(id);
    add_computation(loop::Map{value.axes, value.value}, {buffer}, value.provenance);
    define_buffer(id, buffer);
    return buffer;
  }

  // The value once more in memory, in this dtype and layout.
  loop::Operand copy_of(ValueId id, std::string_view suffix, DType type, std::vector<sym::Expr> strides) {
    const BufferId copy = prepared_if_constant(id, new_buffer(graph_.value(id).name + std::string(suffix), type, sizes(id)));
    loops_->buffer(copy).strides = strides;
    add_computation(loop::Map{lowered(id).axes, lowered(id).value}, {copy}, lowered(id).provenance);
    return {copy, sizes(id), std::move(strides), 0};
  }

  // The value in memory and contiguous, copied if its buffer (an input's) has other strides.
  BufferId contiguous(ValueId id) {
    const BufferId buffer = realise(id);
    const loop::Buffer& found = loops_->buffer(buffer);
    if (is_contiguous({buffer, found.sizes, found.strides, 0})) return buffer;
    return copy_of(id, "_contiguous", dtype(id), contiguous_strides(sizes(id))).buffer;
  }

  // The value as a strided window on some buffer; copies only where no such window exists.
  loop::Operand operand(ValueId id, bool must_be_contiguous) {
    if (!lowered(id).buffer && is_view(graph_.producer(id).op)) relower_view(id);
    if (const auto window = as_window(id); window && (!must_be_contiguous || is_contiguous(*window))) return *window;
    if (!must_be_contiguous) {
      const BufferId buffer = realise(id);
      return {buffer, sizes(id), loops_->buffer(buffer).strides, 0};
    }
    return {contiguous(id), sizes(id), contiguous_strides(sizes(id)), 0};
  }

  // What a chain of views shows: the nearest value that is in memory, else what it begins with.
  ValueId shown_by(ValueId id) {
    while (!lowered(id).buffer && is_view(graph_.producer(id).op)) id = graph_.producer(id).inputs[0];
    return id;
  }

  // Realises what a chain of views shows, then lowers the views over it again. With several users, the chain's last value that has them is
  // realised instead, if it has all elements: each user then has a window of it, as the halves of an image whose channels were shuffled.
  void relower_view(ValueId id) {
    const ValueId shown = shown_by(id);
    ValueId in_memory = graph_.producer(id).inputs[0];
    while (in_memory != shown && !(uses_[static_cast<size_t>(in_memory)] > 1 && !lowered(shown).buffer &&
                                   sym::known_eq(graph_.type(in_memory).numel(), graph_.type(shown).numel()))) {
      in_memory = graph_.producer(in_memory).inputs[0];
    }
    realise(in_memory);
    lower_views(in_memory, id);
  }

  // Those of a chain from what is in memory to `id`.
  void lower_views(ValueId in_memory, ValueId id) {
    const Node& node = graph_.producer(id);
    if (node.inputs[0] != in_memory) lower_views(in_memory, node.inputs[0]);
    lower_view(node);
  }

  // A view that was lowered before what it shows came to be in memory would compute it again.
  void read_from_memory(ValueId id) {
    if (lowered(id).buffer || lowered(id).shows_memory || !is_view(graph_.producer(id).op) ||
        cost_of(exprs(), lowered(id).value).is_cheap())
      return;
    const ValueId shown = shown_by(id);
    if (lowered(shown).buffer) lower_views(shown, id);
  }

  std::optional<loop::Operand> as_window(ValueId id) { return window_of(id, lowered(id).value, dtype(id)); }

  // The same for an expression over the value's axes, with elements of this dtype in memory.
  std::optional<loop::Operand> window_of(ValueId id, ExprId expr, DType in_memory) {
    const Lowered& value = lowered(id);
    const auto* load = std::get_if<loop::Load>(&exprs().node(expr).op);
    if (load == nullptr) return std::nullopt;
    const loop::Buffer& buffer = loops_->buffer(load->buffer);
    if (buffer.dtype != in_memory) return std::nullopt;
    sym::Expr position = 0;
    for (size_t d = 0; d < load->index.size(); ++d) position = position + load->index[d] * buffer.strides[d];
    loop::Operand window{load->buffer, sizes(id), {}, 0};
    for (sym::Expr axis : value.axes) {
      if (axis.is_const()) {
        window.strides.push_back(0);
        continue;
      }
      const auto linear = sym::linear_in(position, axis);
      if (!linear) return std::nullopt;
      window.strides.push_back(linear->coefficient);
      position = linear->rest;
    }
    for (sym::Expr stride : window.strides) {
      if (depends_on_axes(stride)) return std::nullopt;
    }
    if (depends_on_axes(position)) return std::nullopt;
    window.offset = position;
    return window;
  }

  static bool depends_on_axes(sym::Expr e) {
    if (e.is_const()) return false;
    for (sym::Expr symbol : sym::free_symbols(e)) {
      if (symbol.node()->symbol_kind == sym::SymbolKind::Axis || symbol.node()->symbol_kind == sym::SymbolKind::Value) return true;
    }
    return false;
  }

  static bool is_contiguous(const loop::Operand& window) {
    const std::vector<sym::Expr> expected = contiguous_strides(window.sizes);
    for (size_t d = 0; d < expected.size(); ++d) {
      if (!window.sizes[d].is_const(1) && !sym::known_eq(window.strides[d], expected[d])) return false;
    }
    return true;
  }

  // ---- one function per kind of node --------------------------------------------------------------------------------------

  void lower_node(const Node& node) {
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
          if (op.name == kAttentionGradient) return lower_attention(node);
          if (is_library(node.op, kAttentionOfScores)) return lower_attention_of_scores(node);
          if (program_.operators != nullptr && program_.operators->of_library(op.name) != nullptr) return lower_custom(node, op);
          lower_call(node, op.name != "products.grouped");
        });
  }

  void lower_input(const Node& node, const Input& op) {
    const ValueId id = node.outputs[0];
    const BufferId buffer = new_buffer(id);
    loop::Buffer& b = loops_->buffer(buffer);
    b.kind = loop::BufferKind::Input;
    b.position = op.index;
    // A subgraph's operands are contiguous.
    if (is_main_graph() && !graph_.type(id).strides.empty()) b.strides = graph_.type(id).strides;
    define_buffer(id, buffer);
  }

  void lower_constant(const Node& node, const Constant& op) {
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

  bool define_literal(ValueId id, const ConstantData& data) {
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

  void lower_pointwise(const Node& node, const Pointwise& op) {
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

  void lower_cast(const Node& node) {
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

  // Of large values, which then need no memory of their own.
  bool is_read_again_from_elsewhere(ValueId id) {
    const int64_t least = options_.least_recomputed_bytes / size_bytes(dtype(id));
    if (needs_memory_[static_cast<size_t>(id)] || sym::evaluate_hint(graph_.type(id).numel()) < least) return false;
    const Lowered& value = lowered(id);
    return reads_as_little(*loops_, value.axes, value.value) ||
           (options_.recomputes_functions && is_function_of_narrower(*loops_, value.axes, value.value));
  }

  void realise_if_worth_it(ValueId id) {
    if (lowered(id).buffer) return;
    const ExprCost cost = cost_of(exprs(), lowered(id).value);
    const int uses = uses_[static_cast<size_t>(id)];
    if (cost.nodes > kMaxNodes || (uses > 1 && !cost.is_cheap() && !is_read_again_from_elsewhere(id))) realise(id);
  }

  // A total in double that is rounded: who reads it often reads it rounded, lest its vectors have half as many lanes.
  bool is_rounded_total(ValueId id) const {
    if (!std::holds_alternative<Cast>(graph_.producer(id).op) || dtype(id) != DType::F32) return false;
    do id = graph_.producer(id).inputs[0];
    while (is_view(graph_.producer(id).op));
    const auto* reduce = std::get_if<Reduce>(&graph_.producer(id).op);
    return reduce != nullptr && dtype(id) == DType::F64;
  }

  // Views that read an element several times should not compute it several times.
  void realise_before_repeating(ValueId input, sym::Expr elements_out) {
    if (lowered(input).buffer) return;
    if (cost_of(exprs(), lowered(input).value).is_cheap() && !is_rounded_total(input)) return;
    if (sym::known_le(elements_out, graph_.type(input).numel())) return;
    realise(input);
  }

  void lower_view(const Node& node) {
    const ValueId id = node.outputs[0];
    const ValueId input = node.inputs[0];
    realise_before_repeating(input, graph_.type(id).numel());
    std::vector<sym::Expr> axes = fresh_axes(sizes(id));
    const ExprId value = at(input, view_index(node.op, sizes(input), sizes(id), axes));
    define(id, std::move(axes), value, lowered(input).provenance);
    lowered(id).shows_memory = lowered(input).buffer.has_value() || lowered(input).shows_memory;
  }

  ExprId condition(sym::Expr holds) {
    if (holds.is_const()) return exprs().literal(holds.value() != 0, DType::Bool);
    return exprs().convert(exprs().index(holds), DType::Bool);
  }

  void lower_pad(const Node& node, const Pad& op) {
    const ValueId id = node.outputs[0];
    const ValueId input = node.inputs[0];
    // What is computed from a convolution is done with it; a pad reads that.
    if (channels_last_[static_cast<size_t>(input)] && std::holds_alternative<Pointwise>(graph_.producer(input).op)) realise(input);
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

  struct CatPart {
    ValueId input;
    sym::Expr start;  // along the concatenated dim
  };
  // The element at `axes` of parts that follow each other: axis < start of the second half ? one of the first half : one of the second.
  ExprId one_of(std::span<const CatPart> parts, const std::vector<sym::Expr>& axes, size_t dim) {
    if (parts.size() == 1) {
      std::vector<sym::Expr> index = axes;
      index[dim] = axes[dim] - parts[0].start;
      return at(parts[0].input, index);
    }
    const std::span<const CatPart> first = parts.first(parts.size() / 2), second = parts.subspan(parts.size() / 2);
    const ExprId otherwise = one_of(second, axes, dim);
    return exprs().masked(condition(sym::lt(axes[dim], second[0].start)), one_of(first, axes, dim), otherwise);
  }

  void lower_cat(const Node& node, const Cat& op) {
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

  std::vector<sym::Expr> indices(std::span<const ValueId> tensors, const std::vector<sym::Expr>& bounds,
                                 const std::vector<sym::Expr>& axes) {
    std::vector<sym::Expr> index;
    for (size_t d = 0; d < tensors.size(); ++d) index.push_back(exprs().as_index(at(tensors[d], axes), bounds[d]));
    return index;
  }

  void lower_gather(const Node& node) {
    const ValueId id = node.outputs[0];
    const ValueId input = node.inputs[0];
    if (!lowered(input).buffer && !cost_of(exprs(), lowered(input).value).is_cheap() && !is_read_again_from_elsewhere(input))
      realise(input);
    std::vector<sym::Expr> axes = fresh_axes(sizes(id));
    const ExprId value = at(input, indices(std::span(node.inputs).subspan(1), sizes(input), axes));
    define(id, std::move(axes), value, merged_provenance(node));
    realise_if_worth_it(id);
  }

  void lower_scatter(const Node& node, const Scatter& op) {
    const ValueId id = node.outputs[0];
    const ValueId source = node.inputs[1];
    const BufferId base = contiguous(node.inputs[0]);
    std::vector<sym::Expr> axes = fresh_axes(sizes(source));
    std::vector<sym::Expr> index = indices(std::span(node.inputs).subspan(2), sizes(id), axes);
    const ExprId value = at(source, axes);
    const BufferId out = new_buffer(id);
    add_computation(loop::ScatterLoop{base, std::move(axes), std::move(index), op.mode, value}, {out}, merged_provenance(node));
    define_buffer(id, out);
  }

  // A reduction over the one dim that trailing dims were flattened to is a reduction over those, whose indices need no division. Not
  // where something else reads the flat form too: what names positions in it is then in the same loop.
  std::pair<ValueId, std::vector<int>> unflattened(ValueId input, const Reduce& op) const {
    const Node& view = graph_.producer(input);
    const auto last = static_cast<int>(sizes(input).size()) - 1;
    const bool names_positions = op.op == ReduceOp::ArgMin || op.op == ReduceOp::ArgMax;
    if (names_positions || !std::holds_alternative<Reshape>(view.op) || uses_[static_cast<size_t>(input)] != 1 ||
        op.dims != std::vector{last}) {
      return {input, op.dims};
    }
    const auto& source = sizes(view.inputs[0]);
    const auto leading = static_cast<size_t>(last);
    if (source.size() <= leading + 1 || !std::equal(source.begin(), source.begin() + last, sizes(input).begin())) return {input, op.dims};
    std::vector<int> dims;
    for (size_t d = leading; d < source.size(); ++d) dims.push_back(static_cast<int>(d));
    return {view.inputs[0], dims};
  }

  void lower_reduce(const Node& node, const Reduce& op) {
    constexpr int64_t kFewResults = 128;  // fewer do not fill a device
    const auto [input, dims] = unflattened(node.inputs[0], op);
    std::vector<sym::Expr> index;
    std::vector<sym::Expr> axes;
    std::vector<sym::Expr> reduce_axes;
    sym::Expr count = 1;
    for (size_t d = 0; d < sizes(input).size(); ++d) {
      const sym::Expr size = sizes(input)[d];
      const bool reduced = std::binary_search(dims.begin(), dims.end(), static_cast<int>(d));
      if (size.is_const(1)) {
        index.push_back(0);
      } else {
        index.push_back(program_.symbols->axis(size, reduced ? "r" : "i"));
        if (reduced) reduce_axes.push_back(index.back());
      }
      if (reduced) {
        count = count * size;
      } else {
        axes.push_back(index.back());
      }
    }
    if (options_.gathers_before_reductions && sym::evaluate_hint(graph_.type(node.outputs[0]).numel()) < kFewResults &&
        !lowered(input).buffer && is_gathered(exprs(), lowered(input).value)) {
      realise(input);
    }
    const ExprId value = at(input, index);
    const std::vector<ProvenanceId> provenance = merged_provenance(node);
    if (reduce_axes.empty()) {  // over dims of size 1 only: nothing to combine
      const bool is_arg = op.op == ReduceOp::ArgMin || op.op == ReduceOp::ArgMax;
      const ExprId only = is_arg ? value : exprs().convert(value, dtype(node.outputs[0]));
      define(node.outputs[0], axes, is_arg ? exprs().literal(Scalar(sym::Expr(0)), DType::I64) : only, provenance);
      if (op.op == ReduceOp::MeanM2) define(node.outputs[1], axes, exprs().compute(ScalarOp::Sub, {only, only}), provenance);
      return;
    }
    if (op.op == ReduceOp::Sum && reduce_axes.size() == 1) {
      if (const auto one = sum_of_one_hot(exprs(), value, reduce_axes[0])) {
        define(node.outputs[0], axes, exprs().convert(*one, dtype(node.outputs[0])), provenance);
        return realise_if_worth_it(node.outputs[0]);
      }
    }
    if (op.op != ReduceOp::MeanM2) {
      const BufferId out = new_buffer(node.outputs[0]);
      add_computation(loop::Reduction{axes, reduce_axes, op.op, value}, {out}, provenance);
      define_buffer(node.outputs[0], out);
      return;
    }
    // Mean and squared deviations in two passes over the row, corrected (Chan, Golub and LeVeque, 1983): as careful as MeanM2's update, and
    // free of its divisions. With m the first pass's mean, rounded, and d = x - m,
    //
    //   mean = m + sum d / n      squares = sum d^2 - (sum d)^2 / n
    //
    // The correction is as small as m's error. It makes the mean of equal numbers that number, and their squares 0. It is needed only where
    // rows lie far from zero, |m| at least eight times their deviation: elsewhere m's error is far below theirs, and the third pass finds
    // nothing to do.
    //
    // What follows from sums alone is in the results' dtype, which may be F64 where the row is F32; elements meet m in their own.
    const DType type = exprs().dtype(value), wide = dtype(node.outputs[0]);
    const auto kept = [&](const char* suffix, DType as, loop::Work work) {
      const BufferId buffer =
          prepared_if_constant(node.outputs[0], new_buffer(graph_.value(node.outputs[0]).name + suffix, as, sizes(node.outputs[0])));
      add_computation(std::move(work), {buffer}, provenance);
      return exprs().load(buffer, axes, as);
    };
    const auto sum_of = [&](const char* suffix, ExprId terms, loop::SumCare care) {
      return kept(suffix, wide, loop::Reduction{axes, reduce_axes, ReduceOp::Sum, terms, care});
    };
    const auto times = [&](ExprId a, ExprId b) { return exprs().compute(ScalarOp::Mul, {a, b}); };
    const auto number = [&](Scalar each) { return exprs().literal(each, wide); };
    const ExprId elements = number(Scalar(count)), zero = number(Scalar(0.0));
    const ExprId rough_mean = kept(
        "_rough", type,
        loop::Map{axes, exprs().convert(exprs().compute(ScalarOp::Div, {sum_of("_sum", value, loop::SumCare::Fine), elements}), type)});
    const ExprId deviation = exprs().compute(ScalarOp::Sub, {value, rough_mean}), centre = exprs().convert(rough_mean, wide);
    const ExprId squares = sum_of("_squares", times(deviation, deviation), loop::SumCare::Finest);
    const ExprId is_far = exprs().compute(ScalarOp::Ge, {exprs().convert(times(times(centre, centre), elements), type),
                                                         exprs().convert(times(squares, number(Scalar(64.0))), type)});
    const auto where_far = [&](ExprId correction, DType as) {
      return exprs().compute(ScalarOp::Where, {is_far, correction, exprs().literal(Scalar(0.0), as)});
    };
    const ExprId drift = sum_of("_drift", where_far(deviation, type), loop::SumCare::Fine);
    const ExprId shift = where_far(exprs().compute(ScalarOp::Div, {drift, elements}), wide);
    const ExprId corrected = exprs().compute(ScalarOp::Sub, {squares, times(drift, shift)});
    define(node.outputs[0], axes, exprs().compute(ScalarOp::Add, {centre, shift}), provenance);
    define(node.outputs[1], axes, exprs().compute(ScalarOp::Max, {corrected, zero}), provenance);
    for (ValueId output : node.outputs) realise(output);  // once a row, also where other kernels read them
  }

  void lower_scan(const Node& node, const Scan& op) {
    const ValueId input = node.inputs[0];
    std::vector<sym::Expr> axes;
    for (sym::Expr size : sizes(input)) axes.push_back(program_.symbols->axis(size, "i"));
    if (axes.empty()) axes.push_back(program_.symbols->axis(1, "i"));
    const ExprId value = at(input, sizes(input).empty() ? std::vector<sym::Expr>{} : axes);
    std::vector<BufferId> outputs;
    for (ValueId output : node.outputs) outputs.push_back(new_buffer(output));
    add_computation(loop::ScanLoop{axes, static_cast<size_t>(op.dim), op.op, value}, outputs, merged_provenance(node));
    for (size_t i = 0; i < outputs.size(); ++i) define_buffer(node.outputs[i], outputs[i]);
  }

  void lower_call(const Node& node, bool contiguous_operands) {
    loop::Call call{node.op, {}};
    for (ValueId input : node.inputs) call.operands.push_back(operand(input, contiguous_operands));
    std::vector<BufferId> outputs;
    for (ValueId output : node.outputs) outputs.push_back(new_buffer(output));
    add_computation(std::move(call), outputs, {node.provenance});
    for (size_t i = 0; i < outputs.size(); ++i) define_buffer(node.outputs[i], outputs[i]);
  }

  // A kernel of the user's own takes those tensors with any strides of which its file says so.
  void lower_custom(const Node& node, const Library& op) {
    loop::Call call{node.op, {}};
    const CustomOperator& custom = *program_.operators->of_library(op.name);
    const std::vector<bool> strided = strided_inputs(custom, *program_.operators->kernel_of(custom), op);
    for (size_t i = 0; i < node.inputs.size(); ++i) call.operands.push_back(operand(node.inputs[i], i >= strided.size() || !strided[i]));
    std::vector<BufferId> outputs;
    for (ValueId output : node.outputs) outputs.push_back(new_buffer(output));
    add_computation(std::move(call), outputs, {node.provenance});
    for (size_t i = 0; i < outputs.size(); ++i) define_buffer(node.outputs[i], outputs[i]);
  }

  // ---- matrix products

  // Constant weights of int4 keep their four bits: the kernel takes them with a scale and a zero point for each column and group of rows.
  bool takes_int4(const Node& node) {
    if (!std::holds_alternative<Matmul>(node.op) || options_.realise_all) return false;
    const ValueId right = node.inputs[1];
    const DType type = dtype(node.outputs[0]);
    if (constant_[static_cast<size_t>(right)] != Constancy::Weights || (type != DType::F32 && !is_reduced_float(type))) return false;
    const std::vector<sym::Expr>& s = sizes(right);
    const bool is_fixed = s[s.size() - 2].is_const() && s.back().is_const();
    return is_fixed && s[s.size() - 2].value() % 2 == 0 && s[s.size() - 2].value() > 0 &&
           holds_int4(graph_, right, may_round_weights(node));
  }

  bool may_round_weights(const Node& node) const { return dtype(node.outputs[0]) != DType::F32; }

  bool lower_int4_matmul(const Node& node) {
    const ValueId right = node.inputs[1];
    const std::vector<sym::Expr>& s = sizes(right);
    const int64_t rows = s[s.size() - 2].value(), columns = s.back().value();
    const sym::Expr column = program_.symbols->axis(columns, "n"), batch = program_.symbols->axis(2, "b");
    auto element = [&](sym::Expr row) {
      std::vector<sym::Expr> index(s.size() - 2);
      for (size_t d = 0; d < index.size(); ++d) index[d] = s[d].is_const(1) ? sym::Expr(0) : batch;
      index.push_back(row);
      index.push_back(column);
      const auto at_index = [&](ValueId id, const std::vector<sym::Expr>& i) { return at(id, i); };
      return int4_element(graph_, exprs(), at_index, right, may_round_weights(node), index);
    };
    auto depends = [&](ExprId value, sym::Expr axis) { return !axis.is_const() && exprs().substitute(value, {{axis, 0}}) != value; };
    // The largest groups of rows, of whole words or all, of which each has one scale and zero point.
    const int64_t least = options_.narrow_weights == NarrowWeights::Kept ? 8 : 32;
    if (least > 8 && rows % least != 0) return false;
    for (int64_t groups = 1; groups <= std::max<int64_t>(rows / least, 1); ++groups) {
      if (rows % groups != 0 || (groups > 1 && rows / groups % least != 0)) continue;
      const sym::Expr group = program_.symbols->axis(groups, "g"), in_group = program_.symbols->axis(rows / groups, "k");
      const Int4Element of_group = element(group * (rows / groups) + in_group);
      if (depends(of_group.scale, in_group) || depends(of_group.zero, in_group)) continue;
      const sym::Expr pair = program_.symbols->axis(rows / 2, "k");
      const Int4Element low = element(pair * 2), high = element(pair * 2 + 1);
      if (depends(low.number, batch) || depends(of_group.scale, batch) || depends(of_group.zero, batch)) return false;
      const std::string& name = graph_.value(right).name;
      auto prepared = [&](std::string_view suffix, const std::vector<sym::Expr>& of, std::vector<sym::Expr> axes, ExprId value) {
        const BufferId buffer = new_buffer(name + std::string(suffix), exprs().dtype(value), of);
        loops_->buffer(buffer).kind = loop::BufferKind::Prepared;
        add_computation(loop::Map{std::move(axes), value}, {buffer}, {node.provenance});
        return loop::Operand{buffer, of, contiguous_strides(of), 0};
      };
      const auto bits = [&](const Int4Element& e) { return exprs().convert(e.number, DType::U8); };
      const ExprId shifted = exprs().compute(ScalarOp::ShiftLeft, {bits(high), exprs().literal(Scalar(sym::Expr(4)), DType::U8)});
      const bool has_few_rows = options_.narrow_weights != NarrowWeights::Kept && sizes(node.inputs[0]).size() == 2;
      const loop::Operand left =
          has_few_rows ? rows_in_pieces(node.inputs[0], dtype(node.inputs[0])) : operand(node.inputs[0], sizes(node.inputs[0]).size() > 2);
      const loop::Operand numbers =
          prepared("_int4", {columns, rows / 2}, {column, pair}, exprs().compute(ScalarOp::BitOr, {bits(low), shifted}));
      loop::Operand scales, zeros;
      if (options_.narrow_weights == NarrowWeights::Kept) {
        scales = prepared("_scales", {groups, columns}, {group, column}, of_group.scale);
        zeros = prepared("_zeros", {groups, columns}, {group, column}, of_group.zero);
      } else {  // beside each other
        const sym::Expr which = program_.symbols->axis(2, "z");
        const ExprId is_zero = exprs().convert(exprs().index(which), DType::Bool);
        const ExprId both = exprs().compute(ScalarOp::Where, {is_zero, of_group.zero, of_group.scale});
        scales = prepared("_scales", {groups, columns, 2}, {group, column, which}, both);
        scales.sizes.pop_back();
        scales.strides.pop_back();
        zeros = scales;
        zeros.offset = 1;
      }
      const BufferId out = new_buffer(node.outputs[0]);
      add_computation(loop::Call{node.op, {left, numbers, scales, zeros}}, {out}, {node.provenance});
      define_buffer(node.outputs[0], out);
      return true;
    }
    return false;
  }

  // The kernels take int8 on the right, and bytes on both sides where the result is I32: what casts such a factor is left to them.
  void lower_matmul(const Node& node) {
    const ValueId left = node.inputs[0], right = node.inputs[1];
    if (options_.integer_products_as_loops && is_integral(dtype(node.outputs[0]))) return lower_integer_matmul(node);
    const bool keeps_weights = keeps_narrow_weights(node);
    const bool keeps_int4 = options_.narrow_weights == NarrowWeights::Kept || is_reduced_float(dtype(left));
    if (keeps_weights && keeps_int4 && takes_int4(node) && lower_int4_matmul(node)) return;
    const bool is_for_gpus = options_.narrow_weights != NarrowWeights::Kept;
    if (const auto weights = is_for_gpus && keeps_weights ? weights_of_bytes(node) : std::nullopt)
      return lower_matmul_of_bytes(node, *weights);
    if (may_take_float8(node) && lower_float8_matmul(node)) return;
    if (const DType narrow = widened_from(node); narrow != DType::F32) {
      loop::Call call{node.op, {narrow_factor(left, narrow)}};
      call.operands.push_back(narrow_factor(right, narrow));
      const BufferId out = new_buffer(node.outputs[0]);
      add_computation(std::move(call), {out}, {node.provenance});
      return define_buffer(node.outputs[0], out);
    }
    if (is_for_gpus || !takes_int8(node)) return lower_call(node, false);
    const auto narrow_right = window_before_cast(right, DType::I8);
    const DType narrow = dtype(left) != DType::I32 ? DType::BF16 : is_cast_from(left, DType::U8) ? DType::U8 : DType::I8;
    const auto narrow_left = window_before_cast(left, narrow);
    if (!narrow_right || (dtype(left) == DType::I32 && !narrow_left)) return lower_call(node, false);
    const BufferId out = new_buffer(node.outputs[0]);
    add_computation(loop::Call{node.op, {narrow_left ? *narrow_left : operand(left, false), *narrow_right}}, {out}, {node.provenance});
    define_buffer(node.outputs[0], out);
  }

  // On a GPU: of int8 in matrices whose depth is in pieces of 16 bytes a call, which tensor cores make; else loops.
  void lower_integer_matmul(const Node& node) {
    const std::vector<sym::Expr>&left_sizes = sizes(node.inputs[0]), &right_sizes = sizes(node.inputs[1]);
    const sym::Expr depth = left_sizes.back();
    constexpr int64_t kColumns = 8, kFewRows = 16;  // the library takes multiples; of few rows there is a kernel
    const auto is_known = [](sym::Expr size) { return size.is_const() && size.value() > 0; };
    const bool has_bytes = takes_int8(node) && is_cast_from(node.inputs[0], DType::I8) && left_sizes.size() == 2 && is_main_graph();
    const bool is_of_bytes = has_bytes && is_known(depth) && is_in_pieces(depth) && is_known(right_sizes[1]) &&
                             (sym::evaluate_hint(left_sizes[0]) <= kFewRows || right_sizes[1].value() % kColumns == 0);
    const BufferId out = new_buffer(node.outputs[0]);
    if (is_of_bytes) {
      const loop::Operand left = bytes_along(node.inputs[0], 1), right = bytes_along(node.inputs[1], 0);
      add_computation(loop::Call{node.op, {left, right}}, {out}, {node.provenance});
      return define_buffer(node.outputs[0], out);
    }
    const LoadAt left = widened_elements(node.inputs[0]), right = widened_elements(node.inputs[1]);
    const std::vector<sym::Expr> axes = fresh_axes(sizes(node.outputs[0]));
    const sym::Expr at_depth = depth.is_const(1) ? sym::Expr(0) : program_.symbols->axis(depth, "r");
    std::vector<sym::Expr> of_left = axes, of_right = axes;
    of_left.back() = of_right[axes.size() - 2] = at_depth;
    const ExprId product = exprs().compute(ScalarOp::Mul, {left(of_left), right(of_right)});
    loop::Work work = loop::Map{axes, product};
    if (!at_depth.is_const()) work = loop::Reduction{axes, {at_depth}, ReduceOp::Sum, product};
    add_computation(std::move(work), {out}, {node.provenance});
    define_buffer(node.outputs[0], out);
  }

  static bool is_in_pieces(sym::Expr bytes) { return sym::known_divisible(bytes, 16); }

  // The bytes of a matrix before they were cast, with neighbours along the dim: a copy where they do not lie so.
  loop::Operand bytes_along(ValueId id, size_t dim) {
    const size_t other = 1 - dim;
    const auto window = window_before_cast(id, DType::I8);
    if (window && window->strides[dim].is_const(1) && is_in_pieces(window->strides[other]) && is_in_pieces(window->offset)) return *window;
    std::vector<sym::Expr> strides(2, 1);
    strides[other] = sizes(id)[dim];
    const BufferId copy = prepared_if_constant(id, new_buffer(graph_.value(id).name + "_bytes", DType::I8, sizes(id)));
    loops_->buffer(copy).strides = strides;
    add_computation(loop::Map{lowered(id).axes, exprs().convert(lowered(id).value, DType::I8)}, {copy}, lowered(id).provenance);
    return {copy, sizes(id), std::move(strides), 0};
  }

  // What is in memory: bytes where the value was cast from them.
  LoadAt widened_elements(ValueId id) {
    const bool is_cast = is_cast_from(id, DType::I8) || is_cast_from(id, DType::U8);
    if (!is_cast) return elements_of(id, "", {}, false);
    static_cast<void>(window_before_cast(id, dtype(graph_.producer(behind_views(id)).inputs[0])));
    return [this, id](const std::vector<sym::Expr>& index) { return at(id, index); };
  }

  // May its right side stay in fewer bits than the product has?
  bool keeps_narrow_weights(const Node& node) {
    const DType type = dtype(node.outputs[0]);
    if (options_.narrow_weights == NarrowWeights::Kept || type == DType::I32) return true;
    if (options_.narrow_weights == NarrowWeights::Widened || !is_main_graph() || !is_reduced_float(rows_dtype(node))) return false;
    // As schedule/cuda/products/few_rows.cpp has them.
    constexpr int64_t kMostRows = 16, kUnit = 8, kLeastDepth = 16, kMostParts = (int64_t{1} << 31) - 1;
    sym::Expr rows = 1;
    const std::vector<sym::Expr>&made = sizes(node.outputs[0]), &left = sizes(node.inputs[0]);
    for (size_t d = 0; d + 1 < made.size(); ++d) rows = rows * made[d];
    if (!made.back().is_const() || !left.back().is_const() || sym::evaluate_hint(rows) > kMostRows) return false;
    const int64_t most = rows.is_const() ? rows.value() : rows.range().max;
    return most / kUnit + 1 <= kMostParts / ((made.back().value() / kUnit + 1) * (left.back().value() / kLeastDepth + 1));
  }

  // The dtype of 16 bits that the left side has, or was cast from.
  DType rows_dtype(const Node& node) {
    const ValueId left = node.inputs[0];
    for (const DType narrow : {DType::BF16, DType::F16}) {
      if (dtype(left) == DType::F32 && is_cast_from(left, narrow)) return narrow;
    }
    return dtype(left);
  }

  // Weights of eight bits that a GPU's kernel of few rows takes as they are: columns in pieces of 16 bytes.
  struct WeightsOfBytes {
    loop::Operand numbers;
    DType dtype;
    std::optional<ExprId> scale;  // over the value's axes
  };
  std::optional<WeightsOfBytes> weights_of_bytes(const Node& node) {
    const ValueId right = node.inputs[1];
    const bool is_of_floats = is_reduced_float(rows_dtype(node));
    if (options_.realise_all || !is_of_floats || lowered(right).buffer || sizes(right).size() != 2) return std::nullopt;
    const auto element = narrow_element(exprs(), lowered(right).value, lowered(right).axes[0]);
    if (!element) return std::nullopt;
    const auto numbers = window_of(right, element->load, exprs().dtype(element->load));
    if (!numbers || !numbers->sizes[0].is_const() || !numbers->sizes[1].is_const() || !numbers->strides[0].is_const(1)) return std::nullopt;
    if (!is_in_pieces(numbers->strides[1]) || !is_in_pieces(numbers->sizes[0]) || !is_in_pieces(numbers->offset)) return std::nullopt;
    const bool is_constant = loops_->buffer(numbers->buffer).kind == loop::BufferKind::Constant;
    if (element->dtype != DType::I8 && !is_constant) return std::nullopt;
    return WeightsOfBytes{*numbers, element->dtype, element->scale};
  }

  // A matrix of 16-bit floats, which the value is or was cast from, whose rows are in pieces of 16 bytes: a copy where it does not lie so.
  loop::Operand rows_in_pieces(ValueId id, DType narrow) {
    const loop::Operand window = dtype(id) == narrow ? operand(id, false) : narrow_factor(id, narrow);
    const bool lies_so = window.strides[1].is_const(1) && is_in_pieces(window.strides[0] * 2) && is_in_pieces(window.offset * 2);
    return lies_so ? window : copy_of(id, "_rows", narrow, contiguous_strides(sizes(id)));
  }

  // A scale is left to the product's epilogue: sums are in F32 until then.
  void lower_matmul_of_bytes(const Node& node, const WeightsOfBytes& weights) {
    const ValueId left = node.inputs[0], right = node.inputs[1], id = node.outputs[0];
    const loop::Operand rows = rows_in_pieces(left, rows_dtype(node));
    loop::Operand numbers = weights.numbers;
    if (weights.dtype != DType::I8) {
      const loop::Buffer bits = loops_->buffer(numbers.buffer);  // which are another buffer in the same place
      numbers.buffer = new_buffer(bits.name + "_floats", bits.dtype, bits.sizes);
      loop::Buffer& floats = loops_->buffer(numbers.buffer);
      floats.dtype = weights.dtype;
      std::tie(floats.kind, floats.position, floats.strides, floats.updated_by) =
          std::tie(bits.kind, bits.position, bits.strides, bits.updated_by);
    }
    const BufferId out = weights.scale ? new_buffer(graph_.value(id).name + "_sums", DType::F32, sizes(id)) : new_buffer(id);
    add_computation(loop::Call{node.op, {rows, numbers}}, {out}, {node.provenance});
    if (!weights.scale) return define_buffer(id, out);
    std::vector<sym::Expr> axes = fresh_axes(sizes(id));
    sym::Substitution columns;
    if (!axes[1].is_const()) columns.emplace_back(lowered(right).axes[1], axes[1]);
    const ExprId scale = exprs().substitute(*weights.scale, columns);
    const ExprId value = exprs().compute(ScalarOp::Mul, {exprs().load(out, axes, DType::F32), scale});
    define(id, std::move(axes), value, {node.provenance});
    realise_if_worth_it(id);
  }

  // Are both sides' factors 8-bit floats, and rows many?
  bool may_take_float8(const Node& node) const {
    constexpr int64_t kFewRows = 16;
    if (!options_.products_of_float8 || options_.realise_all || !std::holds_alternative<Matmul>(node.op) || !is_main_graph()) return false;
    const std::vector<sym::Expr>& made = sizes(node.outputs[0]);
    return made.size() == 2 && sym::evaluate_hint(made[0]) > kFewRows && bits_of_e4m3(graph_, node.inputs[0]) &&
           bits_of_e4m3(graph_, node.inputs[1]);
  }

  // False where they do not lie as tensor cores take them: rows of the left side and columns of the right one in pieces of 16 bytes.
  bool lower_float8_matmul(const Node& node) {
    const loop::Operand left = operand(*bits_of_e4m3(graph_, node.inputs[0]), false);
    const loop::Operand right = operand(*bits_of_e4m3(graph_, node.inputs[1]), false);
    const auto lies_along = [](const loop::Operand& side, size_t dim) {
      return side.strides[dim].is_const(1) && is_in_pieces(side.sizes[dim]) && is_in_pieces(side.strides[1 - dim]) &&
             is_in_pieces(side.offset);
    };
    if (!lies_along(left, 1) || !lies_along(right, 0)) return false;
    const ValueId id = node.outputs[0];
    const BufferId out = new_buffer(graph_.value(id).name + "_sums", DType::F32, sizes(id));
    add_computation(loop::Call{node.op, {left, right}}, {out}, {node.provenance});
    const std::vector<sym::Expr> axes = fresh_axes(sizes(id));
    const ExprId factor = exprs().literal(kHalfOfE4M3 * kHalfOfE4M3, DType::F32);
    define(id, axes, exprs().compute(ScalarOp::Mul, {exprs().load(out, axes, DType::F32), factor}), {node.provenance});
    realise_if_worth_it(id);
    return true;
  }

  // The dtype of 16 bits that both factors of a product in F32 were cast from: their products are exact in F32, whose sums a GPU's tensor
  // cores make of them. F32 where there is none.
  DType widened_from(const Node& node) {
    if (!options_.products_of_narrow || dtype(node.outputs[0]) != DType::F32) return DType::F32;
    for (DType narrow : {DType::BF16, DType::F16}) {
      if (is_cast_from(node.inputs[0], narrow) && is_cast_from(node.inputs[1], narrow)) return narrow;
    }
    return DType::F32;
  }

  // The factor before it was cast, with one stride for all batches, as libraries take them: a copy where it does not lie so.
  loop::Operand narrow_factor(ValueId id, DType narrow) {
    const std::optional<loop::Operand> window = window_before_cast(id, narrow);
    const size_t rank = sizes(id).size();
    if (window) {
      bool is_even = true;
      for (size_t d = 0; d + 3 < rank; ++d)
        is_even = is_even && sym::known_eq(window->strides[d], window->strides[d + 1] * window->sizes[d + 1]);
      if (is_even) return *window;
    }
    std::vector<sym::Expr> strides = contiguous_strides(sizes(id));
    if (window && window->strides[rank - 2].is_const(1)) {
      strides[rank - 2] = 1;
      strides[rank - 1] = sizes(id)[rank - 2];
    }
    const BufferId copy = prepared_if_constant(id, new_buffer(graph_.value(id).name + "_narrow", narrow, sizes(id)));
    loops_->buffer(copy).strides = strides;
    add_computation(loop::Map{lowered(id).axes, exprs().convert(lowered(id).value, narrow)}, {copy}, lowered(id).provenance);
    return {copy, sizes(id), std::move(strides), 0};
  }

  bool takes_int8(const Node& node) {
    if (!std::holds_alternative<Matmul>(node.op) || !is_cast_from(node.inputs[1], DType::I8)) return false;
    const DType type = dtype(node.inputs[0]);
    return type == DType::F32 || is_reduced_float(type) ||
           (type == DType::I32 && (is_cast_from(node.inputs[0], DType::I8) || is_cast_from(node.inputs[0], DType::U8)));
  }

  ValueId behind_views(ValueId id) {
    while (!lowered(id).buffer && is_view(graph_.producer(id).op)) id = graph_.producer(id).inputs[0];
    return id;
  }

  // Views of a cast that is not in memory yet?
  bool is_cast_from(ValueId id, DType narrow) {
    id = behind_views(id);
    const Node& node = graph_.producer(id);
    return !lowered(id).buffer && std::holds_alternative<Cast>(node.op) && dtype(node.inputs[0]) == narrow;
  }

  // Where the value lies as it was before it was cast, seen through the same views. None where no strides say so.
  std::optional<loop::Operand> window_before_cast(ValueId id, DType narrow) {
    if (!is_cast_from(id, narrow)) return std::nullopt;
    const ValueId cast = behind_views(id);
    operand(graph_.producer(cast).inputs[0], false);  // puts it in memory
    lower_cast(graph_.producer(cast));
    lower_views_between(cast, id);
    const auto* convert = std::get_if<loop::Convert>(&exprs().node(lowered(id).value).op);
    return window_of(id, convert != nullptr ? convert->operand : lowered(id).value, narrow);
  }

  void lower_views_between(ValueId from, ValueId to) {
    if (from == to) return;
    lower_views_between(from, graph_.producer(to).inputs[0]);
    lower_view(graph_.producer(to));
  }

  // What all heads say of one query lies together: models make one row of it. So do gradients.
  void lower_attention(const Node& node) {
    lower_call(node, false);
    lay_heads_beside_each_other(node);
  }

  void lower_attention_of_scores(const Node& node) {
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

  void lay_heads_beside_each_other(const Node& node) {
    for (ValueId id : node.outputs) {
      const std::vector<sym::Expr>& s = sizes(id);
      const bool is_statistics = id != node.outputs[0] && dtype(id) == DType::F32;
      const bool is_result =
          uses_[static_cast<size_t>(id)] == 1 && std::find(graph_.outputs.begin(), graph_.outputs.end(), id) != graph_.outputs.end();
      if ((dtype(id) != DType::F32 && !is_reduced_float(dtype(id))) || s.size() != 4 || is_statistics || is_result) continue;
      loops_->buffer(*lowered(id).buffer).strides = {s[1] * s[2] * s[3], s[3], s[1] * s[3], 1};
    }
  }

  // The bias is left to whatever is done with the result besides.
  void lower_convolution(const Node& node) {
    if (options_.convolutions_in_tiles) {
      const bool is_main = is_main_graph();  // a subgraph's inputs may begin anywhere
      if (const auto it = filter_gradient_of(graph_, node); it && is_main) return lower_filter_gradient(node, *it);
      if (const auto it = phased_convolution(graph_, node); it && is_main) return lower_phased_convolution(node, *it);
      if (is_packed_convolution(graph_, node)) return lower_packed_convolution(node);
    }
    if (options_.convolutions_as_loops) return lower_convolution_loops(node);
    if (!is_channels_last_convolution(graph_, node)) return lower_call(node, true);
    const ValueId id = node.outputs[0];
    loop::Call call{node.op, {image_operand(node.inputs[0]), filter_operand(node.inputs[1])}};
    const BufferId out = new_buffer(id);
    loops_->buffer(out).dtype = dtype(id) == DType::F16 ? DType::F32 : dtype(id);
    add_computation(std::move(call), {out}, {node.provenance});
    define_convolution(node, out);
  }

  // What was summed in `out`, and the bias.
  void define_convolution(const Node& node, BufferId out) {
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
  loop::Operand packed_copy(const Node& node, ValueId of, const std::vector<sym::Expr>& made, const Element& element) {
    operand(of, false);  // puts it in memory
    const BufferId buffer = prepared_if_constant(of, new_buffer(graph_.value(of).name + "_packed", dtype(of), made));
    loops_->buffer(buffer).strides = channels_last_strides(made);
    std::vector<sym::Expr> axes = fresh_axes(made);
    const LoadAt at_index = [&](const std::vector<sym::Expr>& index) { return at(of, index); };
    const ExprId value = element(axes, at_index);
    add_computation(loop::Map{std::move(axes), value}, {buffer}, {node.provenance});
    return {buffer, made, channels_last_strides(made), 0};
  }

  void lower_packed_convolution(const Node& node) {
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
      if (is_main_graph() && !it.has_pairs) return operand_in_packs(node, weight, true);
      return packed_copy(node, weight, it.filter_sizes, [&](const std::vector<sym::Expr>& axes, const LoadAt& element) {
        return packed_filter(exprs(), it, sizes(weight), axes, element);
      });
    };
    call.operands.push_back(filters());
    const BufferId out = new_buffer(id);
    add_computation(std::move(call), {out}, {node.provenance});
    define_convolution(node, out);
  }

  // The value with its channels next to each other, in packs; a copy where it does not lie so. `as_a_whole`: without gaps.
  loop::Operand operand_in_packs(const Node& node, ValueId id, bool as_a_whole) {
    const int pack = channels_of_pack(dtype(id));
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

  void lower_filter_gradient(const Node& node, const FilterGradient& it) {
    const ValueId id = node.outputs[0];
    const std::vector<sym::Expr>& s = sizes(id);  // [C, K, taps…]
    const loop::Operand image = operand_in_packs(node, it.image, false), results = operand_in_packs(node, it.results, true);
    std::vector<sym::Expr> made(s.begin() + 1, s.end());
    made.push_back(image.sizes[1]);
    sym::Expr of_filter = image.sizes[1], pixels = results.sizes[0];
    for (size_t d = 2; d < s.size(); ++d) {
      of_filter = of_filter * s[d];
      pixels = pixels * results.sizes[d];
    }
    const int64_t parts = filter_gradient_tiles(s[1], of_filter, pixels).parts;
    made.insert(made.begin(), parts);
    const std::string& name = graph_.value(id).name;
    const BufferId sums_of_parts = new_buffer(name + "_parts", DType::F32, made);
    add_computation(loop::Call{filter_gradient_call(it), {image, results}}, {sums_of_parts}, {node.provenance});
    const auto load = [&](BufferId buffer, const std::vector<sym::Expr>& axes) { return exprs().load(buffer, axes, DType::F32); };
    std::vector<sym::Expr> axes = fresh_axes(s), index(axes.begin() + 1, axes.end());
    index.push_back(axes[0]);
    if (parts == 1) {
      index.insert(index.begin(), 0);
      return define(id, std::move(axes), exprs().convert(load(sums_of_parts, index), dtype(id)), {node.provenance});
    }
    made.erase(made.begin());
    made.back() = s[0];
    const BufferId sums = new_buffer(name + "_sums", DType::F32, made);
    const std::vector<sym::Expr> own = fresh_axes(made);
    std::vector<sym::Expr> of_parts = {program_.symbols->axis(parts, "r")};
    of_parts.insert(of_parts.end(), own.begin(), own.end());
    add_computation(loop::Reduction{own, {of_parts[0]}, ReduceOp::Sum, load(sums_of_parts, of_parts)}, {sums}, {node.provenance});
    define(id, std::move(axes), exprs().convert(load(sums, index), dtype(id)), {node.provenance});
  }

  void lower_phased_convolution(const Node& node, const PhasedConvolution& it) {
    const ValueId id = node.outputs[0], weight = node.inputs[1];
    const sym::Expr channels = sizes(id)[1];
    loop::Call call{it.op, {operand_in_packs(node, node.inputs[0], false)}};
    call.operands.push_back(packed_copy(node, weight, it.filter_sizes, [&](const std::vector<sym::Expr>& axes, const LoadAt& element) {
      return phased_filter(exprs(), it, channels, axes, element);
    }));
    const BufferId out = new_buffer(graph_.value(id).name, dtype(id), it.output_sizes);
    loops_->buffer(out).strides = channels_last_strides(it.output_sizes);
    prepared_if_constant(id, out);
    add_computation(std::move(call), {out}, {node.provenance});
    if (it.is_plain) return define_convolution(node, out);
    std::vector<sym::Expr> axes = fresh_axes(sizes(id));
    const ExprId value = phased_result(exprs(), it, channels, axes,
                                       [&](const std::vector<sym::Expr>& index) { return exprs().load(out, index, dtype(id)); });
    define(id, axes, node.inputs.size() > 2 ? exprs().compute(ScalarOp::Add, {value, at(node.inputs[2], {axes[1]})}) : value,
           {node.provenance});
  }

  // Do the channels of each pixel lie next to each other, from a place on where a pack may begin?
  static bool is_in_packs(const loop::Operand& image, int pack) {
    const auto may_begin = [&](sym::Expr place) { return sym::known_divisible(place, pack); };
    return image.strides[1].is_const(1) && may_begin(image.offset) && may_begin(image.strides[0]) &&
           std::all_of(image.strides.begin() + 2, image.strides.end(), may_begin);
  }

  void lower_convolution_loops(const Node& node) {
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

  // What is in memory, or a copy of it.
  LoadAt elements_of(ValueId id, std::string_view suffix, std::vector<sym::Expr> strides, bool is_copied) {
    const bool is_empty = std::any_of(sizes(id).begin(), sizes(id).end(), [](sym::Expr size) { return size.is_const(0); });
    if (!is_copied || is_empty) {
      operand(id, false);
      return [this, id](const std::vector<sym::Expr>& index) { return at(id, index); };
    }
    const BufferId copy = copy_of(id, suffix, dtype(id), std::move(strides)).buffer;
    return [this, id, copy](const std::vector<sym::Expr>& index) { return exprs().load(copy, index, dtype(id)); };
  }

  // Are the image's channels next to each other, or so few that planes do as well?
  static bool suits_as_it_is(const loop::Operand& image) {
    return sym::evaluate_hint(image.sizes[1]) <= kFewChannels || image.strides[1].is_const(1);
  }

  // The image with its channels next to each other; in planes where there are few, which the convolution takes as they are. Of float16 a
  // copy in float32.
  loop::Operand image_operand(ValueId id) {
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
  loop::Operand filter_operand(ValueId id) {
    if (dtype(id) != DType::F16) return operand(id, false);
    return copy_of(id, "", DType::F32, own_strides(id));
  }

  bool is_update(size_t output) const { return is_main_graph() && program_.outputs[output].kind == OutputKind::BufferMutation; }

  OutputBinding bind_output(ValueId id, size_t position) {
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

  static constexpr int64_t kFewChannels = 8;  // of an image that may be in planes

  // Beyond this many nodes an expression is cut: compilers grow slow, and a kernel hard to read.
  static constexpr int kMaxNodes = 150;

  const Program& program_;
  const Graph& graph_;
  const LowerOptions options_;
  std::unique_ptr<loop::LoopProgram> loops_;
  std::vector<Lowered> values_;
  std::vector<int> uses_;
  std::vector<bool> needs_memory_;   // read by what takes it from memory, or an output
  std::vector<bool> channels_last_;  // by value
  std::vector<Constancy> constant_;  // by value
  std::vector<std::pair<std::vector<sym::Expr>, std::vector<sym::Expr>>> axes_of_scores_;  // of scores of these sizes
  std::vector<bool> of_product_;                                                           // by value: depends on an attention's product
};

}  // namespace

std::vector<LoweredGraph> lower(const Program& program, const LowerOptions& options) {
  ErrorContext context("lowering {}", program.name.empty() ? "the program" : program.name);
  std::vector<LoweredGraph> graphs;
  graphs.push_back(Lowering(program, program.graph, options).run());
  for (const Graph& subgraph : program.subgraphs) graphs.push_back(Lowering(program, subgraph, options).run());
  return graphs;
}

}  // namespace toroid
