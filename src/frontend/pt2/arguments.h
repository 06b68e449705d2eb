// A node's arguments: from the `.pt2` union values to typed arguments in the order of the operator's schema.
//
// PyTorch leaves out what equals its default, names what it gives, and writes any integer as as_int, whatever the
// schema declares. Here an argument gets the alternative its parameter calls for:
//
//   aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1)      x + 2.5 in the model
//   [{"self": {"as_tensor": "x"}}, {"other": {"as_float": 2.5}}]   =>   [InputRef 0, 2.5, Expr 1]
//
// A number for a Tensor parameter stays a number: PyTorch promotes it as a Python number, not as a tensor.
//
// Versions of PyTorch differ in names: an argument whose name the schema lacks is read by its place among the others where
// that is the only way to fill the schema, and one that is none is dropped. Any other unknown argument is refused by name.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "frontend/json_reader.h"
#include "graph/graph.h"
#include "graph/schema.h"

namespace toroid::pt2 {

// What the names in arguments refer to.
class ArgumentScope {
 public:
  virtual ~ArgumentScope() = default;
  virtual ValueId tensor(const JsonValue& name) = 0;
  virtual sym::Expr integer(const JsonValue& name) = 0;               // a symbolic integer or boolean
  virtual sym::Expr real(const JsonValue& name) = 0;                  // a symbolic float: a Real expression, or a constant double's bits
  virtual ValueId complex_number(double real, double imaginary) = 0;  // a constant C128 of rank 0
  virtual uint32_t subgraph(const JsonValue& graph_argument) = 0;
};

struct NodeArguments {
  std::vector<Argument> arguments;
  std::vector<ValueId> inputs;
};

// `inputs` are a node's arguments, by name; those without a name stand in their order. `node` is blamed for what it lacks. Throws
// Error{InvalidModel} when they do not fit the schema, Error{Unsupported} for an argument that this schema does not know.
NodeArguments read_arguments(std::span<const JsonValue> inputs, const JsonValue& node, const Schema& schema, ArgumentScope& scope);
// In the given order, for operators without a schema.
NodeArguments read_arguments(const JsonValue& inputs, ArgumentScope& scope);

}  // namespace toroid::pt2
