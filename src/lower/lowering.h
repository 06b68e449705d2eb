// The state of lowering a graph, for the files that define its functions: lower.cpp, products/lower_products.cpp and
// convolutions/lower_convolutions.cpp. What each does stands there.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "lower/attention/visible_scores.h"
#include "lower/convolutions/deep_convolution.h"
#include "lower/convolutions/filter_gradient.h"
#include "lower/convolutions/phased_convolution.h"
#include "lower/lower.h"
#include "lower/products/int4_weights.h"
#include "passes/constant_values.h"

namespace toroid {

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

class Lowering {
 public:
  Lowering(const Program& program, const Graph& graph, const LowerOptions& options)
      : program_(program),
        graph_(graph),
        all_options_(options),
        options_(options),
        loops_(std::make_unique<loop::LoopProgram>(*program.symbols)) {}

  LoweredGraph run();

 private:
  struct CatPart {
    ValueId input;
    sym::Expr start;  // along the concatenated dim
  };
  // Weights of eight bits that a GPU's kernel of few rows takes as they are: columns in pieces of 16 bytes.
  struct WeightsOfBytes {
    loop::Operand numbers;
    DType dtype;
    std::optional<ExprId> scale;  // over the value's axes
  };

  bool is_main_graph() const { return &graph_ == &program_.graph; }
  loop::ExprTable& exprs() { return loops_->exprs; }
  Lowered& lowered(ValueId id) { return values_[static_cast<size_t>(id)]; }
  const std::vector<sym::Expr>& sizes(ValueId id) const { return graph_.type(id).sizes; }
  DType dtype(ValueId id) const { return graph_.type(id).dtype; }
  std::optional<loop::Operand> as_window(ValueId id) { return window_of(id, lowered(id).value, dtype(id)); }
  bool is_update(size_t output) const { return is_main_graph() && program_.outputs[output].kind == OutputKind::BufferMutation; }
  void count_uses();
  void find_what_is_before_communication();
  void bind_symbols(const Node& node);
  std::vector<sym::Expr> fresh_axes(const std::vector<sym::Expr>& sizes, std::string_view prefix = "i");
  ExprId at(ValueId id, const std::vector<sym::Expr>& index);
  void define(ValueId id, std::vector<sym::Expr> axes, ExprId value, std::vector<ProvenanceId> provenance);
  void define_buffer(ValueId id, BufferId buffer);
  BufferId new_buffer(std::string name, DType dtype, const std::vector<sym::Expr>& sizes);
  std::vector<sym::Expr> own_strides(ValueId id) const;
  BufferId new_buffer(ValueId id);
  BufferId prepared_if_constant(ValueId id, BufferId buffer);
  std::vector<ProvenanceId> merged_provenance(const Node& node);
  std::string kernel_name(const std::vector<ProvenanceId>& provenance);
  void add_computation(loop::Work work, std::vector<BufferId> outputs, std::vector<ProvenanceId> provenance);
  bool depends_on_product(const Node& node);
  void prepare_inputs(const Node& node);
  BufferId realise(ValueId id);
  loop::Operand copy_of(ValueId id, std::string_view suffix, DType type, std::vector<sym::Expr> strides);
  BufferId contiguous(ValueId id);
  loop::Operand operand(ValueId id, bool must_be_contiguous);
  bool shows_windows(ValueId id);
  ValueId shown_by(ValueId id);
  void relower_view(ValueId id);
  void lower_views(ValueId in_memory, ValueId id);
  void read_from_memory(ValueId id);
  std::optional<loop::Operand> window_of(ValueId id, ExprId expr, DType in_memory);
  static bool depends_on_axes(sym::Expr e);
  static bool is_contiguous(const loop::Operand& window);
  void lower_node(const Node& node);
  void lower_input(const Node& node, const Input& op);
  void lower_constant(const Node& node, const Constant& op);
  bool define_literal(ValueId id, const ConstantData& data);
  void lower_pointwise(const Node& node, const Pointwise& op);
  void lower_cast(const Node& node);
  bool is_read_again_from_elsewhere(ValueId id);
  void realise_if_worth_it(ValueId id);
  bool is_rounded_total(ValueId id) const;
  void realise_before_repeating(ValueId input, sym::Expr elements_out);
  void lower_view(const Node& node);
  ExprId condition(sym::Expr holds);
  void lower_pad(const Node& node, const Pad& op);
  ExprId one_of(std::span<const CatPart> parts, const std::vector<sym::Expr>& axes, size_t dim);
  void lower_cat(const Node& node, const Cat& op);
  std::vector<sym::Expr> indices(std::span<const ValueId> tensors, const std::vector<sym::Expr>& bounds,
                                 const std::vector<sym::Expr>& axes);
  void lower_gather(const Node& node);
  void lower_scatter(const Node& node, const Scatter& op);
  std::pair<ValueId, std::vector<int>> unflattened(ValueId input, const Reduce& op) const;
  void lower_reduce(const Node& node, const Reduce& op);
  void lower_scan(const Node& node, const Scan& op);
  void lower_call(const Node& node, bool contiguous_operands);
  void lower_custom(const Node& node, const Library& op);
  void lower_device_copy(const Node& node);
  bool is_on_host(ValueId id) const;
  void go_to(bool host);
  void leave_host_to_calls();
  void lower_attention(const Node& node);
  void lower_attention_of_scores(const Node& node);
  void lay_heads_beside_each_other(const Node& node);
  OutputBinding bind_output(ValueId id, size_t position);

  // Matrix products.
  bool may_round_weights(const Node& node) const { return dtype(node.outputs[0]) != DType::F32; }
  static bool is_in_pieces(sym::Expr bytes) { return sym::known_divisible(bytes, 16); }
  bool takes_int4(const Node& node);
  bool lower_int4_matmul(const Node& node);
  loop::Operand prepared(const Node& node, std::string_view suffix, const std::vector<sym::Expr>& sizes, std::vector<sym::Expr> axes,
                         ExprId value);
  ExprId pair_of_int4(const Int4Element& low, const Int4Element& high);
  ExprId scale_or_zero(const Int4Element& of, sym::Expr which);
  std::pair<loop::Operand, loop::Operand> packed_int4(const Node& node, int64_t columns, int64_t groups, const AtInt4& at);
  void lower_matmul(const Node& node);
  void lower_integer_matmul(const Node& node);
  ValueId before_flattened_rows(ValueId id) const;
  bool lower_small_product(const Node& node);
  loop::Operand bytes_along(ValueId id, size_t dim);
  LoadAt widened_elements(ValueId id);
  bool keeps_narrow_weights(const Node& node);
  DType rows_dtype(const Node& node);
  std::optional<WeightsOfBytes> weights_of_bytes(const Node& node);
  loop::Operand rows_in_pieces(ValueId id, DType narrow);
  void lower_matmul_of_bytes(const Node& node, const WeightsOfBytes& weights);
  bool may_take_float8(const Node& node) const;
  bool lower_float8_matmul(const Node& node);
  DType widened_from(const Node& node);
  loop::Operand narrow_factor(ValueId id, DType narrow);
  bool takes_int8(const Node& node);
  ValueId behind_views(ValueId id);
  bool is_cast_from(ValueId id, DType narrow);
  std::optional<loop::Operand> window_before_cast(ValueId id, DType narrow);
  void lower_views_between(ValueId from, ValueId to);

  // Convolutions.
  void lower_convolution(const Node& node);
  void define_convolution(const Node& node, BufferId out);
  template <class Element>
  loop::Operand packed_copy(const Node& node, ValueId of, const std::vector<sym::Expr>& made, const Element& element);
  void lower_packed_convolution(const Node& node);
  loop::Operand operand_in_packs(const Node& node, ValueId id, bool as_a_whole, int pack);
  void lower_filter_gradient(const Node& node, const FilterGradient& it);
  void lower_phased_convolution(const Node& node, const PhasedConvolution& it);
  loop::Operand deep_copy(const Node& node, ValueId image, const DeepConvolution& it);
  void lower_deep_convolution(const Node& node, const DeepConvolution& it);
  static bool is_in_packs(const loop::Operand& image, int pack);
  void lower_convolution_loops(const Node& node);
  void lower_convolution_of_bytes(const Node& node);
  LoadAt elements_of(ValueId id, std::string_view suffix, std::vector<sym::Expr> strides, bool is_copied);
  static bool suits_as_it_is(const loop::Operand& image);
  loop::Operand image_operand(ValueId id);
  loop::Operand filter_operand(ValueId id);

  static constexpr int64_t kFewChannels = 8;  // of an image that may be in planes
  // Beyond this many nodes an expression is cut: compilers grow slow, and a kernel hard to read.
  static constexpr int kMaxNodes = 150;

  const Program& program_;
  const Graph& graph_;
  const LowerOptions all_options_;  // with those of the host beside the device's
  LowerOptions options_;            // of the node at hand
  bool on_host_ = false;            // is the node at hand the host's?
  std::unique_ptr<loop::LoopProgram> loops_;
  std::vector<Lowered> values_;
  std::vector<int> uses_;
  std::vector<bool> needs_memory_;             // read by what takes it from memory, or an output
  std::vector<bool> is_before_communication_;  // needed in memory behind the next collective operation, and computed before it
  std::vector<bool> channels_last_;            // by value
  std::vector<Constancy> constant_;            // by value
  std::vector<std::pair<std::vector<sym::Expr>, std::vector<sym::Expr>>> axes_of_scores_;  // of scores of these sizes
  std::vector<bool> of_product_;                                                           // by value: depends on an attention's product
};

}  // namespace toroid
