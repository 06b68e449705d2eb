// One graph of a .pt2 file becomes one Graph.
//
//   graph_importer.cpp   values and nodes
//   signature.cpp        the main graph's inputs and outputs
//   higher_order.cpp     control flow, regions, effects, functionalised operators, kernels in Triton
//   transforms.cpp       torch.vmap and torch.func.jvp
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "frontend/json_reader.h"
#include "frontend/operator_report.h"
#include "frontend/pt2/archive.h"
#include "frontend/pt2/arguments.h"
#include "frontend/pt2/autocast.h"
#include "frontend/pt2/graph/operator_names.h"
#include "frontend/pt2/import.h"
#include "frontend/pt2/types.h"
#include "graph/graph.h"

namespace toroid::pt2 {

// What the graphs of one program share while it is imported.
struct Import {
  Program& program;
  Archive& archive;
  SizeReader sizes;
  const Pt2Options& options;
  OperatorCounter unsupported;
  std::vector<ExprList> body_numbers = {};  // of each subgraph, its inputs that are numbers

  const Schema* schema_of(std::string_view op) const { return known_schema(op, options); }
  bool is_supported(const Schema& schema) const { return pt2::is_supported(schema, options); }
};

// Imports one graph of the file into one Graph. Its names are its own: subgraphs see nothing of the graph around them.
class GraphImporter : public ArgumentScope {
 public:
  // `around`: of the graph whose nodes this one computes slice by slice; its values may be used.
  GraphImporter(Import& import, Graph& graph, const JsonValue& json, const Autocast& autocast = {}, GraphImporter* around = nullptr);

  void import_main(const JsonValue& module);

  // Returns the inputs that are numbers. They have no place in the graph: it knows them by their expressions.
  ExprList import_body();

  // The body's values for these operands, with its nodes added to the graph around it.
  std::vector<ValueId> import_inlined(std::span<const ValueId> operands);

  // ArgumentScope
  ValueId tensor(const JsonValue& name) override;
  ValueId complex_number(double real, double imaginary) override;
  sym::Expr integer(const JsonValue& name) override;
  sym::Expr real(const JsonValue& name) override;
  uint32_t subgraph(const JsonValue& graph_argument) override;

 private:
  TensorType type_of(const JsonValue& name);

  void define(const JsonValue& name, ValueId value);

  ValueId add_single(Op op, TensorType type, std::string_view name, std::vector<ValueId> inputs = {});

  // The symbol that a float is called by holds the bits of the double that `value`, of rank 0, holds.
  void bind_real(const JsonValue& name, ValueId value);

  ValueId add_input(std::string_view name, TensorType type);
  void add_input(const JsonValue& name) { define(name, add_input(name.as_string(), type_of(name))); }

  // Where an input does not lie as in the example, neither do its views: what the model records of their memory is not what it is.
  void require_known_memory(std::string_view op, std::span<const ValueId> arguments);

  // ---- the main graph's inputs (signature.cpp)

  void import_inputs(const JsonValue& specs);

  ConstantData& import_weight(const JsonValue& input, const JsonValue& name);

  void import_token(const JsonValue& input);

  void import_user_input(const JsonValue& input);

  // ---- nodes

  void import_nodes(std::span<const JsonValue> nodes);

  static const JsonMember& argument(const JsonValue& node, size_t position);
  static const JsonValue& tensor_argument(const JsonValue& node, size_t position);
  static int64_t integer_argument(const JsonValue& node, size_t position);
  const JsonValue& only_output(const JsonValue& node);

  // x with dim `from` at position `to`; both in [0, rank).
  ValueId moved(ValueId x, int64_t from, int64_t to, ProvenanceId place);

  // The nodes of a vmap become a body for a slice; vmaps within it are part of the body.
  void import_vmap(const JsonValue& begin, std::span<const JsonValue> nodes);

  void import_vmap_body(std::span<const JsonValue> nodes);

  void import_node(const JsonValue& node);

  // The operator of dual tensors that a step of a jvp stands for, of its first arguments and the level.
  void add_dual(const JsonValue& node, std::string_view op, uint32_t tensors, ProvenanceId place);

  void convert_for_autocast(const JsonValue& node, const Schema& schema, NodeArguments& arguments, ProvenanceId place);

  // The lower precision is the program's own here: results are rounded to it although kernels could keep them in F32.
  void round_for_autocast(const JsonValue& node, ProvenanceId place);

  ValueId converted(ValueId value, DType dtype, ProvenanceId place);

  // u0 = x.item(): the node keeps the element, and the binding says that u0 is its value.
  void read_element(const JsonValue& node, std::string_view op);

  void import_higher_order(const JsonValue& node, std::string_view name, ProvenanceId place);

  void import_effect(const JsonValue& node);

  // The operator itself, on copies of the bases.
  void import_functionalized(const JsonValue& node);

  // A kernel in Triton of the model's own, on copies of what it writes to.
  void import_triton(const JsonValue& node);

  // Which of the bases the operator writes to as `parameter`.
  static size_t base_of(const JsonValue& node, std::string_view parameter,
                        const std::unordered_map<std::string_view, const JsonMember*>& about_bases, size_t count);

  ValueId copied(ValueId value, ProvenanceId place);

  // What it gives; refuses subgraphs that do not fit it.
  std::vector<TensorType> types_of_control_flow(const HigherOrder& op, const std::vector<ValueId>& inputs) const;

  // The numbers that control flow gives its subgraphs are the ones that these name.
  void check_numbers(const JsonValue& node, const HigherOrder& op);

  Autocast read_autocast(std::span<const JsonValue> inputs) const;

  // The nodes of the graph at position `graph` among the inputs, for the operands that follow it.
  void inline_region(const JsonValue& node, size_t graph, const Autocast& autocast);

  // Stands in for an operator that the final error will name, so that import goes on to find the others.
  void add_unsupported(const JsonValue& node, ProvenanceId place, bool is_known);

  static std::vector<const JsonValue*> output_names(const JsonValue& node) { return output_names(node.at("outputs").elements()); }

  // The tensors that a node defines, lists flattened; null for results that are no tensor.
  static std::vector<const JsonValue*> output_names(std::span<const JsonValue> outputs);

  // Of control flow, whose subgraphs give no value for a None. Null for numbers.
  std::vector<const JsonValue*> tensor_results(const JsonValue& node);

  void add_outputs(const JsonValue& node, Op op, std::vector<ValueId> inputs, ProvenanceId place);

  void add_results(const std::vector<const JsonValue*>& names, Op op, std::vector<ValueId> inputs, std::vector<TensorType> types,
                   ProvenanceId place);

  // ---- outputs (signature.cpp)

  ValueId number_value(Scalar number, DType dtype);

  ValueId real_number_value(sym::Expr number);

  // Null for a None. Numbers become rank-0 tensors.
  std::optional<ValueId> output_value(const JsonValue& output);

  static OutputSpec read_output_spec(const JsonMember& spec);

  void import_outputs(const JsonValue& specs, const JsonValue& module);

  Import& import_;
  Graph& graph_;
  const JsonValue& json_;
  const Autocast autocast_;
  GraphImporter* const around_;
  std::vector<ValueId> captured_;  // values of the graph around that became inputs, after those that were mapped
  std::unordered_map<std::string_view, const JsonValue*> types_;
  std::unordered_map<std::string_view, const JsonValue*> integers_;
  std::unordered_map<std::string_view, const JsonValue*> booleans_;
  std::unordered_map<std::string_view, const JsonValue*> floats_;
  std::unordered_map<std::string_view, ValueId> values_;
  bool has_other_strides_ = false;  // of an input than its example
  int64_t open_jvps_ = 0;
};

}  // namespace toroid::pt2
