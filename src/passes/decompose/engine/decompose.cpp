// Rebuilds a program's graphs at core level, one import-level node after the other.
//
// What a node's results share with its arguments comes from its schema: Tensor(a!) is written, Tensor(a) is a view. The
// tensors' contents are kept in Memory (functionalize.h), so that what reaches a decomposition is always a plain value. At the
// end, memory of inputs and buffers that was written becomes an output of the program.
#include "passes/decompose/engine/decompose.h"

#include <map>

#include <fmt/format.h>

#include "base/error.h"
#include "graph/control_flow.h"
#include "graph/custom/custom_operators.h"
#include "graph/operator_scope.h"
#include "graph/text/text_names.h"
#include "graph/type_rules.h"
#include "graph/verify.h"
#include "passes/dead_code.h"
#include "passes/decompose/complex/complex.h"
#include "passes/decompose/custom/apply_custom.h"
#include "passes/decompose/engine/forward_mode.h"
#include "passes/decompose/engine/functionalize.h"
#include "passes/decompose/engine/storage_types.h"
#include "passes/decompose/engine/vmap.h"
#include "passes/decompose/quantization/float8.h"

namespace toroid {
namespace {

std::string_view base_name(const Schema& schema) { return std::string_view(schema.name).substr(0, schema.name.find('.')); }

template <size_t N>
bool is_one_of(std::string_view name, const std::string_view (&names)[N]) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// In-place operators that change how a tensor is seen, not what is in memory.
constexpr std::string_view kInPlaceViews[] = {"aten::t_",        "aten::transpose_", "aten::squeeze_",       "aten::unsqueeze_",
                                              "aten::swapaxes_", "aten::swapdims_",  "aten::as_strided_",    "aten::detach_",
                                              "aten::resize_",   "aten::resize_as_", "aten::requires_grad_", "aten::_resize_output_"};
// Operators whose result may be their argument although the schema does not say so.
constexpr std::string_view kMayReturnInput[] = {
    "aten::dropout", "aten::alpha_dropout", "aten::feature_dropout", "aten::feature_alpha_dropout", "aten::type_as", "aten::sum_to_size"};
// Operators whose results are views of their first argument, or of the tensors in that list one by one, although the schema does
// not say so.
constexpr std::string_view kUndeclaredViews[] = {"aten::atleast_1d",        "aten::atleast_2d", "aten::atleast_3d",
                                                 "aten::broadcast_tensors", "aten::meshgrid",   "aten::einsum"};
// Views if the argument is already as asked for, else copies.
constexpr std::string_view kConversions[] = {
    "aten::to", "aten::contiguous", "aten::cpu", "aten::cuda", "aten::_autocast_to_full_precision", "aten::_autocast_to_reduced_precision"};
// Views if the strides allow it, else copies.
constexpr std::string_view kReshapes[] = {"aten::reshape", "aten::reshape_as", "aten::flatten", "aten::ravel"};

// Operators that see their first argument's memory, whatever part of it the argument shows.
constexpr std::string_view kMemoryViews[] = {"aten::as_strided", "aten::as_strided_", "aten::as_strided_copy", "aten::slice_inverse"};

// Operators of dual tensors: their results are views by their schemas, whose tangents are not.
constexpr std::string_view kDuals[] = {"aten::_make_dual", "aten::_unpack_dual", "aten::_fw_primal"};

// Operators whose results torch.export describes wrongly: it gives an LSTM's last states an extra dim of size 1, and the
// indices and counts beside unique values the dtype of the values; it overlooks the weights of bincount, that a mask may
// be larger than what it selects from, that signs are Bool, that scales of tokens have the dtype of what they scale,
// and that log-sums of F64 attention are F64.
constexpr std::string_view kRecordedWrongly[] = {"aten::lstm.input",
                                                 "aten::_unique",
                                                 "aten::_unique2",
                                                 "aten::unique_dim",
                                                 "aten::unique_consecutive",
                                                 "aten::unique_dim_consecutive",
                                                 "aten::bincount",
                                                 "aten::masked_select",
                                                 "prims::signbit",
                                                 "quantized_decomposed::choose_qparams_per_token",
                                                 "aten::_scaled_dot_product_flash_attention_for_cpu"};

Sizes strides_of(const TensorType& type) { return type.strides.empty() ? contiguous_strides(type.sizes) : type.strides; }

bool is_contiguous(const TensorType& type) {
  if (type.strides.empty()) return true;
  const Sizes packed = contiguous_strides(type.sizes);
  for (size_t d = 0; d < packed.size(); ++d) {
    if (!type.sizes[d].is_const(1) && !sym::known_eq(type.strides[d], packed[d])) return false;
  }
  return true;
}

// Whether a conversion gives its argument back, from what the model records of both.
bool converts_nothing(const Aten& aten, const TensorType& argument, const TensorType& result) {
  for (size_t p = 0; p < aten.arguments.size(); ++p) {
    if (aten.schema->parameters[p].name == "copy" && aten.arguments[p] == Argument(true)) return false;
  }
  return argument.dtype == result.dtype && argument.device == result.device && strides_of(argument) == strides_of(result);
}

// Whether a reshape is a view. A copy is contiguous; a view of something that is not hardly ever is.
bool reshapes_in_place(const TensorType& argument, const TensorType& result) {
  return is_contiguous(argument) || !is_contiguous(result) || argument.sizes == result.sizes;
}

// Of a node whose operator is the user's own: that; else null.
const CustomOperator* custom_operator(const Program& program, const Node& node) {
  return program.operators == nullptr ? nullptr : program.operators->of(*std::get<Aten>(node.op).schema);
}

Decomposition decomposition_of(const Graph& graph, const Node& node) {
  const Schema& schema = *std::get<Aten>(node.op).schema;
  if (has_complex_values(graph, node)) return find_complex_decomposition(schema);
  if (has_float8_values(graph, node)) return find_float8_decomposition(schema);
  // Of real numbers to real ones, but by way of complex ones: an inverse transform.
  const Decomposition real = find_decomposition(schema);
  return real != nullptr ? real : find_complex_decomposition(schema);
}

std::string describe(const Provenance& provenance, std::string_view op, std::string_view name) {
  std::string text = fmt::format("compiling node '{}' ({})", name, op);
  if (!provenance.module.empty()) text += fmt::format(" of {}", provenance.module);
  if (!provenance.source.empty()) text += fmt::format(", from {}", provenance.source);
  return text;
}

// What no operator takes here: a generator, whose numbers are PyTorch's own, and named dims.
void refuse_arguments(const Args& a) {
  if (a.has("generator")) {
    throw Error(ErrorKind::Unsupported, fmt::format("{} with a torch.Generator is not supported", a.schema().name))
        .help("leave the generator out, and choose the numbers with '--seed' or Executable::set_seed");
  }
  if (a.has("names")) {
    throw Error(ErrorKind::Unsupported, fmt::format("{} with named dims is not supported", a.schema().name))
        .help("export the model without names");
  }
}

class GraphDecomposer {
 public:
  GraphDecomposer(Program& program, const Graph& source, Graph& target, RandomStreams& streams, const DecomposeOptions& options)
      : program_(program),
        source_(source),
        target_(target),
        streams_(streams),
        options_(options),
        builder_(target, *program.symbols, &program.guards),
        memory_(builder_, [this](Builder& b, const ViewStep& step, Tensor x) { return apply_view(b, step, x); }),
        views_(source.num_values()),
        used_(source.num_values()) {
    for (const Node& node : source.nodes()) {
      for (ValueId input : node.inputs) used_[static_cast<size_t>(input)] = true;
      const auto* aten = std::get_if<Aten>(&node.op);
      if (aten == nullptr) continue;
      has_duals_ = has_duals_ || is_one_of(base_name(*aten->schema), kDuals);
      note_written_constants(node);
    }
    for (ValueId output : source.outputs) used_[static_cast<size_t>(output)] = true;
  }

  void run() {
    for (size_t i = 1; i < source_.provenances().size(); ++i) target_.add_provenance(source_.provenances()[i]);
    for (size_t i = 0; i < source_.num_nodes(); ++i) decompose_node(NodeId{static_cast<uint32_t>(i)});
    for (ValueId output : source_.outputs) {
      target_.outputs.push_back(read(output).id());
    }
    for (const SymbolBinding& binding : source_.bindings) target_.bindings.push_back({binding.expr, read(binding.value).id()});
    if (has_duals_) remove_duals(target_);
  }

  // Inputs and constants whose memory the graph writes, with what it holds at the end.
  template <class InputWritten, class ConstantWritten>
  void visit_writes(InputWritten input_written, ConstantWritten constant_written) {
    for (const auto& [index, view] : inputs_) {
      if (memory_.was_written(view)) input_written(index, memory_.read(view));
    }
    for (const auto& [id, view] : constants_) {
      if (memory_.was_written(view)) constant_written(id, memory_.read(view));
    }
  }

 private:
  const Value& model_value(ValueId id) const { return source_.value(id); }

  Tensor read(ValueId id) {
    const std::optional<ViewId>& view = views_[static_cast<size_t>(id)];
    if (!view) {
      throw Error(ErrorKind::InvalidModel, fmt::format("value '{}' is used, but its operator leaves it undefined", model_value(id).name));
    }
    return memory_.read(*view);
  }

  void define(ValueId id, ViewId view) {
    views_[static_cast<size_t>(id)] = view;
    if (memory_.is_whole(view)) owners_.try_emplace(view, id);
  }

  // Values made for the node that bears the model's name get that name; what was there before keeps its own.
  void name_result(Tensor result, const std::string& name, size_t first_new_value) {
    if (static_cast<size_t>(result.id()) >= first_new_value) target_.rename(result.id(), name);
  }

  void decompose_node(NodeId id) {
    const Node& node = source_.node(id);
    const std::string hint = node.outputs.empty() ? source_.provenance(node.provenance).name : model_value(node.outputs[0]).name;
    builder_.set_provenance(node.provenance, is_plain_name(hint) ? hint + "_t" : "t");
    if (const auto* input = std::get_if<Input>(&node.op)) {
      builder_.set_provenance(node.provenance, hint);
      const Tensor value = builder_.emit(*input, {}, {type_held(model_value(node.outputs[0]).type)})[0];
      target_.inputs.push_back(value.id());
      const ViewId view = memory_.allocate(value);
      inputs_.emplace(input->index, view);
      define(node.outputs[0], view);
    } else if (const auto* constant = std::get_if<Constant>(&node.op)) {
      auto [slot, is_new] = constants_.try_emplace(constant->id, ViewId{});
      if (is_new) slot->second = memory_.allocate(builder_.constant(constant->id, type_held(model_value(node.outputs[0]).type), hint));
      define(node.outputs[0], slot->second);
    } else if (std::holds_alternative<Aten>(node.op)) {
      decompose_aten(id);
    } else {
      copy_node(node);
    }
  }

  // Control flow, and nodes that are at core level already. Their types follow from what they are given: recorded ones are not
  // believed, and sizes that must be equal are guarded.
  void copy_node(const Node& node) {
    std::vector<Tensor> inputs;
    std::vector<const TensorType*> operands;
    std::vector<TensorType> recorded;
    const size_t first_new_value = target_.num_values();
    for (ValueId input : node.inputs) inputs.push_back(read(input));
    for (Tensor input : inputs) operands.push_back(&input.type());
    for (ValueId output : node.outputs) recorded.push_back(plain_type(source_.type(output)));
    const auto* control_flow = std::get_if<HigherOrder>(&node.op);
    const std::vector<TensorType> types = control_flow != nullptr
                                              ? control_flow_types(*control_flow, operands, program_.subgraphs, &program_.guards)
                                              : result_types(node.op, operands, recorded, &program_.guards);
    const std::string op = to_string(node.op);
    if (types.size() != recorded.size()) {
      throw Error(ErrorKind::InvalidModel, fmt::format("{} gives {} results, not {}", op, types.size(), recorded.size()));
    }
    for (size_t i = 0; i < types.size(); ++i)
      check_recorded(op, types[i], recorded[i], model_value(node.outputs[i]).name, &program_.guards);
    const std::vector<Tensor> results = control_flow != nullptr && control_flow->name == "vmap"
                                            ? map_slices(*control_flow, std::move(inputs), types)
                                            : builder_.emit(node.op, std::move(inputs), types);
    for (size_t i = 0; i < results.size(); ++i) {
      name_result(results[i], model_value(node.outputs[i]).name, first_new_value);
      define(node.outputs[i], memory_.allocate(results[i]));
    }
  }

  // vmap(body, mapped, others, randomness): all slices at once where that can be, else one after the other. The body is at core level
  // already.
  std::vector<Tensor> map_slices(const HigherOrder& op, std::vector<Tensor> inputs, std::vector<TensorType> types) {
    const bool is_whole = op.arguments.size() >= 3;
    const auto* body = is_whole ? std::get_if<SubgraphRef>(&op.arguments[0]) : nullptr;
    const auto* mapped = is_whole ? std::get_if<InputList>(&op.arguments[1]) : nullptr;
    if (body == nullptr || mapped == nullptr || mapped->empty() || mapped->size() > inputs.size() || inputs[0].rank() == 0) {
      throw Error(ErrorKind::InvalidModel, "a vmap takes a graph and tensors to map it over");
    }
    const auto others = inputs.begin() + static_cast<ptrdiff_t>(mapped->size());
    const Graph& graph = program_.subgraphs.at(body->index);
    for (size_t i = 1; i < mapped->size(); ++i)
      builder_.require_equal(inputs[i].size(0), inputs[0].size(0), "the slices of mapped tensors");
    const bool draws_the_same = op.arguments.size() > 3 && op.arguments[3] == Argument(std::string("same"));
    std::optional<std::vector<Tensor>> results =
        map_all_slices(builder_, graph, inputs[0].size(0), {inputs.begin(), others}, {others, inputs.end()}, draws_the_same);
    if (results) return *std::move(results);
    const bool draws = std::any_of(graph.nodes().begin(), graph.nodes().end(),
                                   [](const Node& node) { return std::holds_alternative<RandomState>(node.op); });
    if (draws && draws_the_same) {
      throw Error(ErrorKind::Unsupported, "a vmap that must run slice by slice draws random numbers that are the same for all slices")
          .help("draw them before the vmap, and pass them to it with in_dims=None");
    }
    return builder_.emit(HigherOrder{"map_impl", {op.arguments.begin(), op.arguments.begin() + 3}}, std::move(inputs), std::move(types));
  }

  std::vector<Tensor> apply(Builder& b, NodeId id, std::vector<Tensor> inputs, Decomposer& d) {
    const Node& node = source_.node(id);
    const Aten& aten = std::get<Aten>(node.op);
    for (ValueId input : node.inputs) d.argument_types.push_back(type_in_memory(input));
    if (const std::optional<ValueId> owner = memory_owner(node)) d.memory_type = type_in_memory(*owner);
    const CustomOperator* custom = custom_operator(program_, node);
    const Decomposition function = custom != nullptr ? nullptr : decomposition_of(source_, node);
    TOROID_CHECK(custom != nullptr || function != nullptr, "{} has no decomposition", aten.schema->name);
    const OperatorScope scope(b, *aten.schema, aten.arguments, inputs);
    const Args arguments(b, *aten.schema, aten.arguments, inputs);
    refuse_arguments(arguments);
    if (custom != nullptr) return apply_custom(d, *custom, arguments);
    return function(d, arguments);
  }

  std::vector<TensorType> recorded_types(const Node& node) const {
    std::vector<TensorType> types;
    for (ValueId output : node.outputs) types.push_back(source_.type(output));
    return types;
  }

  // ---- what the schema says about memory

  // The node's input that is the argument of parameter `p`, or nothing for None and other kinds.
  std::vector<std::optional<ValueId>> tensors_of(const Node& node, size_t p) const {
    const Aten& aten = std::get<Aten>(node.op);
    std::vector<std::optional<ValueId>> values;
    if (p >= aten.arguments.size()) return values;
    if (const auto* ref = std::get_if<InputRef>(&aten.arguments[p])) values.push_back(node.inputs[ref->index]);
    if (const auto* list = std::get_if<InputList>(&aten.arguments[p])) {
      for (const std::optional<InputRef>& ref : *list) {
        values.push_back(ref ? std::optional(node.inputs[ref->index]) : std::nullopt);
      }
    }
    return values;
  }

  // Those that the node writes in place, through views or not, and some that only look so: all that is computed from a constant counts as
  // a view of it.
  void note_written_constants(const Node& node) {
    const std::vector<Parameter>& parameters = std::get<Aten>(node.op).schema->parameters;
    for (size_t p = 0; p < parameters.size(); ++p) {
      if (!parameters[p].mutated) continue;
      for (std::optional<ValueId> target : tensors_of(node, p)) {
        while (target && std::holds_alternative<Aten>(source_.producer(*target).op) && !source_.producer(*target).inputs.empty())
          target = source_.producer(*target).inputs[0];
        const auto* constant = target ? std::get_if<Constant>(&source_.producer(*target).op) : nullptr;
        if (constant != nullptr) written_in_place_.insert(constant->id);
      }
    }
  }

  // The position among the node's inputs of the tensor that this result is a view of.
  std::optional<uint32_t> viewed_input(const Node& node, size_t output) const {
    const Aten& aten = std::get<Aten>(node.op);
    const Schema& schema = *aten.schema;
    auto input_of = [&](size_t p) -> std::optional<uint32_t> {
      if (p >= aten.arguments.size()) return std::nullopt;
      const auto* ref = std::get_if<InputRef>(&aten.arguments[p]);
      return ref == nullptr ? std::nullopt : std::optional(ref->index);
    };
    if (is_one_of(base_name(schema), kInPlaceViews) || is_one_of(base_name(schema), kMayReturnInput)) return input_of(0);
    if (is_one_of(base_name(schema), kUndeclaredViews)) {
      if (base_name(schema) == "aten::einsum") return einsum_view(aten);
      const auto* list = std::get_if<InputList>(&aten.arguments[0]);
      if (list == nullptr) return input_of(0);
      return output < list->size() && (*list)[output] ? std::optional((*list)[output]->index) : std::nullopt;
    }
    if (!schema.is_view()) return std::nullopt;
    for (size_t p = 0; p < schema.parameters.size(); ++p) {
      const Parameter& parameter = schema.parameters[p];
      if (parameter.alias.empty() || parameter.mutated || parameter.type != ArgType::Tensor) continue;
      for (const Parameter& result : schema.results) {
        if (result.alias == parameter.alias) return input_of(p);
      }
    }
    return std::nullopt;
  }

  // The operand of an einsum that sums nothing: PyTorch gives it back with its dims permuted.
  static std::optional<uint32_t> einsum_view(const Aten& aten) {
    const auto* equation = std::get_if<std::string>(&aten.arguments[0]);
    const auto* list = std::get_if<InputList>(&aten.arguments[1]);
    if (equation == nullptr || list == nullptr || list->size() != 1 || !(*list)[0]) return std::nullopt;
    const size_t arrow = equation->find("->");
    if (arrow == std::string::npos) return std::nullopt;
    const bool sums_nothing = equation->find_first_not_of(equation->substr(arrow) + " ") >= arrow;
    return sums_nothing ? std::optional((*list)[0]->index) : std::nullopt;
  }

  ValueId owner_of(ValueId id) const { return owners_.at(memory_.whole(*views_[static_cast<size_t>(id)])); }

  // The recorded type, its offset counted from where the owner of the memory begins: that the caller's tensor was itself a part of
  // something when the model was exported does not concern the program.
  TensorType type_in_memory(ValueId id) const {
    TensorType type = source_.type(id);
    if (!type.storage_offset.is_const(0)) type.storage_offset = type.storage_offset - source_.type(owner_of(id)).storage_offset;
    return type;
  }

  // The value that owns the memory which the node sees through its first argument.
  std::optional<ValueId> memory_owner(const Node& node) const {
    const auto* aten = std::get_if<Aten>(&node.op);
    if (aten == nullptr || !is_one_of(base_name(*aten->schema), kMemoryViews)) return std::nullopt;
    const auto* ref = std::get_if<InputRef>(&aten->arguments[0]);
    if (ref == nullptr) return std::nullopt;
    const ValueId seen = node.inputs[ref->index];
    const ValueId owner = owner_of(seen);
    // A view in another dtype counts its memory in other elements.
    const bool same_elements = source_.type(owner).dtype == source_.type(seen).dtype && !is_complex(source_.type(seen).dtype);
    return same_elements ? owner : seen;
  }

  // Applies the view of a node to another tensor. Its other tensors matter by their shapes alone.
  Tensor apply_view(Builder& b, const ViewStep& step, Tensor x) {
    const Node& node = source_.node(step.node);
    const uint32_t viewed = *viewed_input(node, step.output);
    std::vector<Tensor> inputs;
    for (uint32_t i = 0; i < node.inputs.size(); ++i) {
      if (i == viewed) {
        inputs.push_back(x);
      } else if (&b == &builder_) {
        inputs.push_back(read(node.inputs[i]));
      } else {
        const TensorType& type = source_.type(node.inputs[i]);
        inputs.push_back(b.emit(Input{i + 1}, {}, {{.dtype = type.dtype, .sizes = type.sizes}})[0]);
      }
    }
    Decomposer d{b, program_, recorded_types(node)};
    return apply(b, step.node, std::move(inputs), d)[step.output];
  }

  void decompose_aten(NodeId id) {
    const Node& node = source_.node(id);
    const Schema& schema = *std::get<Aten>(node.op).schema;
    const std::string_view name = node.outputs.empty() ? "" : std::string_view(model_value(node.outputs[0]).name);
    const LazyErrorContext context([&] { return describe(source_.provenance(node.provenance), schema.name, name); });

    std::vector<Tensor> inputs;
    for (ValueId input : node.inputs) inputs.push_back(read(input));
    const std::optional<ValueId> owner = memory_owner(node);
    if (owner) inputs[std::get<InputRef>(std::get<Aten>(node.op).arguments[0]).index] = read(*owner);
    const size_t first_new_value = target_.num_values();
    streams_.begin_node();
    Decomposer d{builder_, program_, recorded_types(node), {}, &streams_};
    d.has_duals = has_duals_;
    d.written_in_place = &written_in_place_;
    d.byte_convolutions = options_.byte_convolutions;
    d.sums_elements = options_.sums_elements;
    d.flips_filters = options_.flips_filters;
    d.has_backward_weights = options_.has_backward_weights;
    d.resamples_by_dims = options_.resamples_by_dims;
    d.in_subgraph = is_subgraph();
    std::vector<Tensor> results = apply(builder_, id, inputs, d);
    if (results.size() < node.outputs.size()) results.resize(node.outputs.size());  // an error if one of them is read

    const std::vector<std::optional<ValueId>> written_results = results_written(node, schema, results.size());
    for (size_t i = 0; i < results.size(); ++i) {
      if (!results[i].defined()) continue;
      const std::optional<uint32_t> viewed = viewed_input(node, i);
      std::optional<ViewId> place;
      if (written_results[i]) {
        results[i] = write(*written_results[i], results[i], schema);
        place = views_[static_cast<size_t>(*written_results[i])];
      }
      if (i >= node.outputs.size()) continue;
      const ValueId output = node.outputs[i];
      name_result(results[i], model_value(output).name, first_new_value);
      if (!place && viewed && shows(node, *viewed, inputs[*viewed], results[i], output)) {
        const ViewId source = *views_[static_cast<size_t>(owner.value_or(node.inputs[*viewed]))];
        place = memory_.add_view(source, {id, static_cast<uint32_t>(i)}, results[i]);
        // From now on the argument is seen in the same way.
        if (is_one_of(base_name(schema), kInPlaceViews)) define(node.inputs[*viewed], *place);
      }
      // For results that are no tensor the model has a stand-in of any type, which nothing uses.
      if (used_[static_cast<size_t>(output)] && !is_one_of(schema.name, kRecordedWrongly)) {
        check_recorded(schema.name, results[i].type(), plain_type(source_.type(output)), model_value(output).name, nullptr);
        require_recorded_numbers(results[i].type(), plain_type(source_.type(output)), model_value(output).name);
      }
      define(output, place ? *place : memory_.allocate(results[i]));
    }
    for (const auto& [parameter, value] : d.writes) {
      for (size_t p = 0; p < schema.parameters.size(); ++p) {
        if (schema.parameters[p].name != parameter) continue;
        for (const std::optional<ValueId>& target : tensors_of(node, p)) {
          if (target) write(*target, value, schema);
        }
      }
    }
  }

  // For each tensor that the decomposition returned, the model's value that it overwrites: results that are a mutated
  // argument by their alias, then the mutated arguments that are no result, in order.
  std::vector<std::optional<ValueId>> results_written(const Node& node, const Schema& schema, size_t count) const {
    std::vector<std::optional<ValueId>> written(count);
    if (!schema.mutates() || is_one_of(base_name(schema), kInPlaceViews)) return written;
    size_t next_extra = node.outputs.size();
    for (size_t p = 0; p < schema.parameters.size(); ++p) {
      const Parameter& parameter = schema.parameters[p];
      if (!parameter.mutated) continue;
      const std::vector<std::optional<ValueId>> targets = tensors_of(node, p);
      if (!node.outputs.empty()) {
        size_t result = 0;
        while (result < schema.results.size() && schema.results[result].alias != parameter.alias) ++result;
        if (result < schema.results.size()) {
          for (size_t i = 0; i < targets.size() && result + i < count; ++i) written[result + i] = targets[i];
          continue;
        }
      }
      for (const std::optional<ValueId>& target : targets) {
        if (next_extra >= count) {
          throw Error(ErrorKind::InvalidModel, fmt::format("argument '{}' of {} has {} tensors, more than the operator gives",
                                                           parameter.name, schema.name, targets.size()));
        }
        written[next_extra++] = target;
      }
    }
    return written;
  }

  // The recorded type; for a tensor that is its operator's argument, that argument's: torch.export takes the result of a
  // dropout in inference for a new, contiguous tensor.
  const TensorType& layout_of(ValueId id) const {
    for (;;) {
      const auto* aten = std::get_if<Aten>(&source_.producer(id).op);
      if (aten == nullptr || memory_.is_whole(*views_[static_cast<size_t>(id)])) return source_.type(id);
      const std::string_view op = base_name(*aten->schema);
      if (!is_one_of(op, kMayReturnInput) && !is_one_of(op, kConversions)) return source_.type(id);
      id = source_.producer(id).inputs[*viewed_input(source_.producer(id), 0)];
    }
  }

  // Whether a result of the node is a view of its argument at position `viewed`.
  bool shows(const Node& node, uint32_t viewed, Tensor argument, Tensor result, ValueId output) const {
    const Aten& aten = std::get<Aten>(node.op);
    const std::string_view op = base_name(*aten.schema);
    const ValueId source = node.inputs[viewed];
    if (is_one_of(op, kDuals)) return false;
    if (is_one_of(op, kMayReturnInput)) return argument.id() == result.id();
    if (is_one_of(op, kConversions)) return converts_nothing(aten, source_.type(source), source_.type(output));
    if (is_one_of(op, kReshapes)) return reshapes_in_place(layout_of(source), source_.type(output));
    return true;
  }

  // Writes to a tensor of the model; the value takes its dtype and, but for an `out` argument, its shape.
  Tensor write(ValueId target, Tensor value, const Schema& schema) {
    const auto* owner = has_duals_ ? std::get_if<Aten>(&source_.producer(owner_of(target)).op) : nullptr;
    if (owner != nullptr && is_one_of(base_name(*owner->schema), kDuals)) {
      throw Error(ErrorKind::Unsupported, "an update in place of a tensor with a tangent").help("write to a copy of it: x.clone()");
    }
    const Tensor old = read(target);
    const ViewId view = *views_[static_cast<size_t>(target)];
    value = builder_.cast(value, old.dtype());
    const bool is_out =
        std::any_of(schema.parameters.begin(), schema.parameters.end(), [](const Parameter& p) { return p.mutated && p.keyword_only; });
    if (is_out && memory_.is_whole(view)) {
      memory_.replace(view, value);
      return value;
    }
    value = builder_.expand(value, old.sizes());
    memory_.write(view, value);
    return value;
  }

  static TensorType plain_type(const TensorType& recorded) {
    const TensorType held = type_held(recorded);
    return {.dtype = held.dtype, .sizes = held.sizes};
  }

  // A model that records another type of a result than its operator gives is refused.
  static void check_recorded(std::string_view op, const TensorType& got, const TensorType& recorded, std::string_view name,
                             std::vector<sym::Expr>* guards) {
    bool agrees = got.dtype == recorded.dtype && got.rank() == recorded.rank();
    for (size_t d = 0; agrees && d < got.sizes.size(); ++d) agrees = agree(got.sizes[d], recorded.sizes[d], guards);
    if (agrees) return;
    throw Error(ErrorKind::InvalidModel,
                fmt::format("{} gives {} as '{}', but the model records {}", op, to_string(got), name, to_string(recorded)))
        .help("export the model again; if that does not help, report it together with the model");
  }

  bool is_subgraph() const { return &source_ != &program_.graph; }

  // Sizes that depend on data, and that the model records as numbers.
  void require_recorded_numbers(const TensorType& got, const TensorType& recorded, const std::string& name) {
    for (size_t d = 0; d < got.sizes.size() && !is_subgraph(); ++d) {
      const auto from_data = [](sym::Expr symbol) { return symbol.node()->symbol_kind == sym::SymbolKind::DataDependent; };
      if (!recorded.sizes[d].is_const() || !std::ranges::any_of(sym::free_symbols(got.sizes[d]), from_data)) continue;
      builder_.require_equal(got.sizes[d], recorded.sizes[d], fmt::format("size {} of '{}'", d, name));
    }
  }

  Program& program_;
  const Graph& source_;
  Graph& target_;
  RandomStreams& streams_;
  const DecomposeOptions& options_;
  Builder builder_;
  Memory memory_;
  std::vector<std::optional<ViewId>> views_;  // by the model's value
  std::vector<bool> used_;                    // likewise
  std::set<ConstantId> written_in_place_;
  bool has_duals_ = false;
  std::map<ViewId, ValueId> owners_;  // of each piece of memory, the value that was it first
  std::map<uint32_t, ViewId> inputs_;
  std::map<ConstantId, ViewId> constants_;
};

bool lists_mutation(const Program& program, const std::string& target) {
  return std::any_of(program.outputs.begin(), program.outputs.end(), [&](const OutputSpec& spec) {
    return spec.target == target && (spec.kind == OutputKind::BufferMutation || spec.kind == OutputKind::InputMutation ||
                                     spec.kind == OutputKind::ParameterMutation);
  });
}

// Sizes that contradict each other would be read and written out of bounds.
void verify_sizes(const Program& program) {
  try {
    verify(program, Level::Core);
  } catch (const Error& error) {
    throw Error(ErrorKind::InvalidModel, fmt::format("the model's sizes do not fit each other: {}", error.message()))
        .help("export the model again; if that does not help, report it together with the model");
  }
}

std::string missing_message(const std::vector<MissingOp>& missing) {
  std::string text = missing.size() == 1 ? fmt::format("operator '{}' is not supported", missing[0].op)
                                         : fmt::format("{} operators are not supported:", missing.size());
  if (missing.size() > 1) {
    for (const MissingOp& op : missing) text += fmt::format("{} {}", &op == &missing[0] ? "" : ",", op.op);
  }
  return text;
}

}  // namespace

void decompose(Program& program, const DecomposeOptions& options) {
  if (const std::vector<MissingOp> missing = missing_ops(program); !missing.empty()) {
    Error error(ErrorKind::Unsupported, missing_message(missing));
    for (const MissingOp& op : missing) {
      for (ProvenanceId place : op.places) {
        const Provenance& provenance = program.graph.provenance(place);
        std::string at = fmt::format("at node '{}' ({})", provenance.name, op.op);
        if (!provenance.source.empty()) at += fmt::format(", from {}", provenance.source);
        error.at(std::move(at));
        break;  // one place an operator is enough to find it
      }
    }
    throw error.help(fmt::format("'toroid ops --missing {}' lists every unsupported operator", program.name));
  }

  for (ConstantData& constant : program.constants) constant.type = type_held(constant.type);
  RandomStreams streams;
  for (Graph& subgraph : program.subgraphs) {
    Graph core;
    GraphDecomposer decomposer(program, subgraph, core, streams, options);
    decomposer.run();
    auto refuse = [](auto, Tensor) {
      throw Error(ErrorKind::Unsupported, "a subgraph of a control-flow operator updates a tensor from outside in place");
    };
    decomposer.visit_writes(refuse, refuse);
    subgraph = std::move(core);
  }

  Graph core;
  GraphDecomposer decomposer(program, program.graph, core, streams, options);
  decomposer.run();
  program.outputs.resize(core.outputs.size());
  auto add_output = [&](OutputKind kind, const std::string& target, Tensor value) {
    if (lists_mutation(program, target)) return;
    core.outputs.push_back(value.id());
    program.outputs.push_back({kind, target});
  };
  decomposer.visit_writes(
      [&](uint32_t index, Tensor value) {
        const std::string name = index < program.inputs.size() ? program.inputs[index].name : fmt::format("in{}", index);
        add_output(OutputKind::InputMutation, name, value);
      },
      [&](ConstantId id, Tensor value) {
        const ConstantData& data = program.constant(id);
        add_output(data.is_buffer ? OutputKind::BufferMutation : OutputKind::ParameterMutation, data.name, value);
      });
  program.graph = std::move(core);
  remove_dead_code(program);
  verify_sizes(program);
}

std::vector<MissingOp> missing_ops(const Program& program) {
  std::map<std::string, std::vector<ProvenanceId>> missing;
  auto visit = [&](const Graph& graph, bool is_main) {
    for (const Node& node : graph.nodes()) {
      const auto* aten = std::get_if<Aten>(&node.op);
      if (aten == nullptr) continue;
      const bool is_custom = custom_operator(program, node) != nullptr;
      const bool takes_real_numbers = !has_complex_values(graph, node) && !has_float8_values(graph, node);
      if (is_custom ? takes_real_numbers : decomposition_of(graph, node) != nullptr) continue;
      std::string name = aten->schema->name;
      if (is_custom || find_decomposition(*aten->schema) != nullptr)
        name += has_complex_values(graph, node) ? " of complex tensors" : " of 8-bit floats";
      std::vector<ProvenanceId>& places = missing[name];
      if (is_main) places.push_back(node.provenance);
    }
  };
  visit(program.graph, true);
  for (const Graph& subgraph : program.subgraphs) visit(subgraph, false);
  std::vector<MissingOp> list;
  for (auto& [op, places] : missing) list.push_back({op, std::move(places)});
  return list;
}

}  // namespace toroid
