// The graph IR: tensors in static single assignment form.
//
// A node has an operation (a plain struct in the variant Op), input values and output values. Two levels share one graph:
//
//   import level   nodes are Aten{schema, arguments}: what PyTorch exported, with views and mutation
//   core level     everything else in Op: a few dozen operations without aliasing; `decompose` gets from one to the other
//
// At core level every tensor is a mathematical array: strides, storage and sharing do not exist, element [i, j] of a value is
// just that. Where a core operation needs a target shape (Reshape, Expand, Slice, Full, Iota, …) it is the shape of its
// output value. Operands of a Pointwise have the same shape and dtype: broadcasting and casting are explicit nodes.
//
// What each core operation computes is written beside its struct; interp/ executes exactly that.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "graph/schema.h"
#include "support/list.h"
#include "symbolic/expr.h"
#include "tensor/dtype.h"
#include "tensor/scalar_op.h"

namespace toroid {

enum class ValueId : uint32_t {};
enum class NodeId : uint32_t {};
enum class ConstantId : uint32_t {};
enum class ProvenanceId : uint32_t {};
inline constexpr NodeId kNoNode{0xffffffffu};

// A number known at compile time, or a symbolic one: an integer, or a Real expression (symbolic/real.h), which stands for a double
// until the builder makes it one.
using Scalar = std::variant<bool, sym::Expr, double>;

using Sizes = List<sym::Expr>;

struct TensorType {
  DType dtype = DType::F32;
  Sizes sizes = {};
  // Import level and program boundary only; in elements. Empty: contiguous.
  std::vector<sym::Expr> strides = {};
  sym::Expr storage_offset = {};
  Device device = {};

  int64_t rank() const { return static_cast<int64_t>(sizes.size()); }
  sym::Expr numel() const { return sym::product(sizes); }
};
std::vector<sym::Expr> contiguous_strides(std::span<const sym::Expr> sizes);

// ---- core operations -------------------------------------------------------------------------------------------------

struct Input {
  uint32_t index;
};  // the program's index-th input (in Program::inputs)
struct Constant {
  ConstantId id;
};             // a weight, buffer or literal
struct Aten {  // import level
  const Schema* schema;
  std::vector<Argument> arguments;  // one per schema parameter, defaults filled in
};
struct HigherOrder {  // cond, while_loop, map, scan: import and core level
  std::string name;
  std::vector<Argument> arguments;
};

struct Full {
  Scalar value;
};  // every element is value; of a Real expression, the bits (I64)
struct Iota {
  int dim;
};                      // element [.., i, ..] is i, at position `dim`
struct RandomState {};  // I64 [2]: the seed that the caller chose, and the number of this call
struct Pointwise {
  ScalarOp op;
};                  // element by element
struct Cast {};     // to the output's dtype: floats to integers truncate, to Bool is `!= 0`
struct Bitcast {};  // the same bits as the output's dtype, of equal size

struct Expand {};  // dims of size 1 repeat; ranks are equal
struct Permute {
  std::vector<int> dims;
};                  // output dim d is input dim dims[d]
struct Reshape {};  // the same elements in row-major order
struct Slice {      // out[i] = in[start + step*i], in every dim; step may be negative
  std::vector<sym::Expr> starts;
  std::vector<sym::Expr> steps;
};
struct Remap {                   // out[axes] = in[index(axes)]: any other view
  std::vector<sym::Expr> axes;   // one axis symbol per output dim
  std::vector<sym::Expr> index;  // one per input dim; always within bounds
};
struct Pad {                   // `low[d]` elements of `value` before, the rest up to the output's size after
  std::vector<sym::Expr> low;  // >= 0
  Scalar value;
};
struct Cat {
  int dim;
};  // any number of inputs

struct Gather {};  // (x, index per dim of x) -> out[o] = x[i0[o], i1[o], …]; indices in bounds, checked
struct Scatter {
  ScatterMode mode;
};  // (base, source, index per dim of base): base with base[i0[o], …] op= source[o]

struct Reduce {  // over `dims` (ascending), which vanish from the shape; MeanM2 has 2 outputs
  ReduceOp op;
  std::vector<int> dims;
};
struct Scan {
  ScanOp op;
  int dim;
};  // inclusive; Max and Min have 2 outputs (value, index)
struct Sort {
  int dim;
  bool descending;
  bool stable;
};  // outputs: values, indices (I64); NaN is the largest

struct Matmul {                                // [B…, M, K] x [B…, K, N] -> [B…, M, N]; equal batch sizes
  bool left_e5m2 = false, right_e5m2 = false;  // of a call on the bits of 8-bit floats: are they F8E5M2, not F8E4M3FN?
  bool operator==(const Matmul&) const = default;
};
struct Convolution {  // (x [N, C, …], weight, bias?) -> [N, O, …]; cross-correlation
  std::vector<sym::Expr> stride, padding, dilation, output_padding;
  bool transposed;
  sym::Expr groups;
};
struct Attention {  // (q, k, v, mask?) [B…, H, L, E]; softmax(q k^T * scale + mask) v; k and v may have fewer heads,
                    // each of which serves as many of q's that follow each other
  bool causal;      // query i sees keys j <= i
  double scale;
};
struct Library {  // computed by a library kernel in runtime/, by name
  std::string name;
  std::vector<Scalar> attributes;
};

// Attention in two parts (passes/attention/write_scores.h).
inline constexpr std::string_view kAttentionProduct = "attention.product", kAttentionOfScores = "attention.of_scores";

using Op = std::variant<Input, Constant, Aten, HigherOrder, Full, Iota, RandomState, Pointwise, Cast, Bitcast, Expand, Permute, Reshape,
                        Slice, Remap, Pad, Cat, Gather, Scatter, Reduce, Scan, Sort, Matmul, Convolution, Attention, Library>;

// Operations among processes (library/collectives/collectives.h): all processes run them, whether their results are used or not.
inline constexpr std::string_view kCollectives = "collectives.";
inline bool is_collective(const Op& op) {
  const auto* library = std::get_if<Library>(&op);
  return library != nullptr && library->name.compare(0, kCollectives.size(), kCollectives) == 0;
}

inline bool is_library(const Op& op, std::string_view name) {
  const auto* library = std::get_if<Library>(&op);
  return library != nullptr && library->name == name;
}

// ----------------------------------------------------------------------------------------------------------------------

struct Node {
  Op op;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  ProvenanceId provenance{0};
};

struct Value {
  std::string name;  // unique in its graph; from the model where it has one
  TensorType type;
  NodeId producer = kNoNode;
  uint32_t output_index = 0;  // which output of its producer
};

// Where a node came from, in the user's terms.
struct Provenance {
  std::string op;      // "aten::linear"
  std::string name;    // the node's name in the model
  std::string module;  // "encoder.layer.0.attention (BertAttention)"
  std::string source;  // "model.py:42, in forward: x = self.linear(x)"
};
// "linear_3 (aten::linear) in encoder (Encoder), from model.py:42, in forward: x = self.linear(x)", as far as it is known.
std::string to_string(const Provenance& provenance);

// At run time `expr` is what the rank-0 integer `value` holds: this defines a data-dependent symbol, or a size given as a number.
struct SymbolBinding {
  sym::Expr expr;
  ValueId value;
};

// Values at addresses that stay, so that a reference to a value's sizes outlives the making of other values. Moving them asks for no memory,
// as moving a std::deque does.
class Values {
 public:
  Values() = default;
  Values(const Values& other) {
    all_.reserve(other.size());
    for (const std::unique_ptr<Value>& each : other.all_) all_.push_back(std::make_unique<Value>(*each));
  }
  Values(Values&&) noexcept = default;
  Values& operator=(const Values& other) { return *this = Values(other); }
  Values& operator=(Values&&) noexcept = default;

  size_t size() const { return all_.size(); }
  const Value& operator[](size_t i) const { return *all_[i]; }
  Value& operator[](size_t i) { return *all_[i]; }
  void push_back(Value value) { all_.push_back(std::make_unique<Value>(std::move(value))); }

 private:
  std::vector<std::unique_ptr<Value>> all_;
};

class Graph {
 public:
  Graph();
  // Compiled once: those of all kinds of nodes take a second of each file that has its own.
  Graph(const Graph&);
  Graph(Graph&&) noexcept;
  Graph& operator=(const Graph&);
  Graph& operator=(Graph&&) noexcept;
  ~Graph();

  NodeId add_node(Op op, std::vector<ValueId> inputs, std::vector<TensorType> output_types, ProvenanceId provenance = {},
                  std::vector<std::string> output_names = {});
  ProvenanceId add_provenance(Provenance provenance);
  // Names a value, with a number behind the name where it is taken.
  void rename(ValueId id, std::string name) { value(id).name = unique_name(std::move(name)); }

  // Nodes are in an order in which every value is defined before its uses.
  size_t num_nodes() const { return nodes_.size(); }
  size_t num_values() const { return values_.size(); }
  const Node& node(NodeId id) const { return nodes_[static_cast<size_t>(id)]; }
  Node& node(NodeId id) { return nodes_[static_cast<size_t>(id)]; }
  const Value& value(ValueId id) const { return values_[static_cast<size_t>(id)]; }
  Value& value(ValueId id) { return values_[static_cast<size_t>(id)]; }
  const TensorType& type(ValueId id) const { return value(id).type; }
  const Node& producer(ValueId id) const { return node(value(id).producer); }
  const Provenance& provenance(ProvenanceId id) const { return provenances_[static_cast<size_t>(id)]; }
  const std::vector<Provenance>& provenances() const { return provenances_; }
  const std::vector<Node>& nodes() const { return nodes_; }

  std::vector<ValueId> inputs;  // values of the Input nodes, in order
  std::vector<ValueId> outputs;
  std::vector<SymbolBinding> bindings;

 private:
  std::string unique_name(std::string base);

  std::vector<Node> nodes_;
  Values values_;
  std::vector<Provenance> provenances_;
  std::unordered_map<std::string, uint32_t> names_;  // base name -> how many were made from it
};

// A weight, buffer or literal: bytes in place (usually in a mapped file), contiguous unless the type has strides.
struct ConstantData {
  std::string name;  // qualified name in the model; empty for literals
  TensorType type;
  std::span<const std::byte> bytes;   // from the first element on
  std::shared_ptr<const void> owner;  // keeps `bytes` alive: a mapped file or a heap block
  bool is_buffer = false;             // may be mutated by the program and keeps its value between calls
};

enum class OutputKind : uint8_t { User, BufferMutation, InputMutation, ParameterMutation, Gradient, Loss, Token };
struct OutputSpec {
  OutputKind kind = OutputKind::User;
  std::string target;     // mutated buffer's or input's name, or parameter of a gradient
  std::string name = {};  // of a result in what the model returns: "logits", "past.0.key"; empty where it has none
};
struct InputSpec {
  std::string name;  // as the model calls it
};

class CustomOperators;

// A whole model: the main graph, what it refers to, and its contract with the caller.
struct Program {
  Program();
  Program(Program&&) noexcept;
  Program& operator=(Program&&) noexcept;
  ~Program();

  std::unique_ptr<sym::Context> symbols = std::make_unique<sym::Context>();
  Graph graph;
  std::vector<Graph> subgraphs;
  std::vector<ConstantData> constants;  // by ConstantId
  std::vector<InputSpec> inputs;        // user inputs, one per graph.inputs
  std::vector<OutputSpec> outputs;      // one per graph.outputs
  std::vector<sym::Expr> guards;        // 0/1 expressions over size symbols that each call must satisfy
  std::string name;                     // of the model file
  std::string call_tree = {};           // how Python calls it (frontend/pt2/call_tree.h); "" where that is not known
  // Ranks of the groups of processes that collective operators name; others than "0", all processes, are not known without.
  std::map<std::string, std::vector<int64_t>> process_groups = {};
  // Operators of the user's own (custom/custom_operators.h), whose schemas nodes refer to; null: none.
  std::shared_ptr<CustomOperators> operators = {};

  ConstantId add_constant(ConstantData data);
  const ConstantData& constant(ConstantId id) const { return constants[static_cast<size_t>(id)]; }
};

// Is the output one that the caller gets: what the model returns, its loss or a gradient?
bool is_returned(const OutputSpec& output);
// What to call each of program.outputs, all different. The k-th that is returned has the name that the model gives it, "loss",
// "fc.weight.grad" for the gradient of fc.weight, else "outK"; what is written back has the name of its target.
std::vector<std::string> output_names(const Program& program);

}  // namespace toroid
