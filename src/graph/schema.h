// Operator schemas: what PyTorch calls an operator, its arguments and their defaults.
//
// The text of the schemas is embedded (aten_schemas.inc); a schema is parsed when it is first asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "symbolic/expr.h"
#include "tensor/dtype.h"

namespace toroid {

// The declared type of an argument. Lists and optionals are flags beside it.
enum class ArgType : uint8_t {
  Tensor,
  Int,
  SymInt,
  Float,
  Bool,
  Scalar,
  String,
  ScalarType,
  Layout,
  Device,
  MemoryFormat,
  Generator,
  Dimname,
  Graph,
  Any,
};

enum class Layout : uint8_t { Strided, Other };
enum class MemoryFormat : uint8_t { Contiguous, ChannelsLast, ChannelsLast3d, Preserve };
struct Device {
  enum class Type : uint8_t { Cpu, Cuda } type = Type::Cpu;
  int32_t index = 0;
  bool operator==(const Device&) const = default;
};
std::string to_string(Device device);  // "cpu", "cuda:1"

struct None {
  bool operator==(const None&) const = default;
};
// A tensor argument: the position in its node's `inputs`.
struct InputRef {
  uint32_t index;
  bool operator==(const InputRef&) const = default;
};
// A subgraph argument: the position in Program::subgraphs.
struct SubgraphRef {
  uint32_t index;
  bool operator==(const SubgraphRef&) const = default;
};
// A list of tensors, some of which may be absent.
using InputList = std::vector<std::optional<InputRef>>;
using ExprList = std::vector<sym::Expr>;

// The value of an argument. Integers, symbolic or not, are Expr (0/1 for symbolic booleans); a Scalar is Expr, double or bool.
using Argument = std::variant<None, InputRef, InputList, sym::Expr, ExprList, double, std::vector<double>, bool, std::vector<bool>,
                              std::string, std::vector<std::string>, DType, Layout, Device, MemoryFormat, SubgraphRef>;

// "%0", "[1, s0]", "dtype.f32", "none": how the text form writes it.
std::string to_string(const Argument& argument);

struct Parameter {
  std::string name;
  ArgType type = ArgType::Any;
  bool is_list = false;            // T[]
  int fixed_length = 0;            // int[2]: a single value stands for that many
  bool is_optional = false;        // T?
  bool elements_optional = false;  // Tensor?[]
  bool keyword_only = false;
  bool mutated = false;  // Tensor(a!)
  std::string alias;     // "a" in Tensor(a) and Tensor(a!); empty: a fresh value
  std::optional<Argument> default_value;
};

struct Schema {
  std::string name;  // "aten::add.Tensor"
  std::vector<Parameter> parameters;
  std::vector<Parameter> results;
  std::string text;               // as declared
  std::vector<std::string> tags;  // core, pointwise, reduction, view_copy, …
  bool is_view() const;           // a result aliases a parameter that is not mutated
  bool mutates() const;
};

// Throws Error{InvalidModel} with the offset when the text is not a schema.
Schema parse_schema(std::string_view text);

// Null when PyTorch has no such operator. `name` is "aten::add.Tensor"; "aten::relu" and "aten::relu.default" are the same. It
// lives as long as the process. Thread-safe.
const Schema* find_schema(std::string_view name);
// Names of all embedded schemas, sorted.
std::vector<std::string_view> schema_names();

}  // namespace toroid
