#include "passes/decompose/complex/complex.h"

#include <algorithm>

#include "base/error.h"
#include "passes/decompose/arguments/operands.h"
#include "passes/decompose/complex/complex_parts.h"
#include "passes/decompose/engine/decomposition_table.h"
#include "passes/decompose/quantization/float8.h"

namespace toroid {

DType part_dtype(DType dtype) {
  switch (dtype) {
    case DType::C32: return DType::F16;
    case DType::C64: return DType::F32;
    case DType::C128: return DType::F64;
    default: return dtype;
  }
}

bool is_complex_input(const Decomposer& d, const Argument& argument) {
  const auto* ref = std::get_if<InputRef>(&argument);
  return ref != nullptr && ref->index < d.argument_types.size() && is_complex(d.argument_types[ref->index].dtype);
}

Complex parts(Tensor pairs) {
  Builder& b = pairs.builder();
  return {b.select(pairs, -1, 0), b.select(pairs, -1, 1)};
}

Tensor pairs_of(Complex x) { return x.re.builder().stack({x.re, x.im}, x.re.rank()); }

// A complex, real or number argument; `dtype` is that of the parts.
Complex complex_argument(Decomposer& d, const Args& a, std::string_view name, DType dtype) {
  Complex x;
  if (is_complex_input(d, a.raw(name))) {
    x = parts(a.tensor(name));
  } else {
    x.re = operand(d, a, name, dtype);
    x.im = d.b.full(x.re.sizes(), dtype, 0.0);
  }
  return {d.b.cast(x.re, dtype), d.b.cast(x.im, dtype)};
}

// The dtype of the first result's parts.
DType result_part(const Decomposer& d, const Args& a) {
  if (!d.recorded.empty()) return part_dtype(d.recorded[0].dtype);
  for (const Parameter& parameter : a.schema().parameters) {
    if (is_complex_input(d, a.raw(parameter.name))) return a.tensor(parameter.name).dtype();
  }
  return DType::F32;
}

bool has_complex_values(const Graph& graph, const Node& node) {
  auto is_complex_value = [&](ValueId id) { return is_complex(graph.type(id).dtype); };
  return std::any_of(node.inputs.begin(), node.inputs.end(), is_complex_value) ||
         std::any_of(node.outputs.begin(), node.outputs.end(), is_complex_value);
}

Decomposition find_complex_decomposition(const Schema& schema) {
  static const DecompositionTable table({complex_arithmetic_rows(), complex_fourier_rows(), complex_movement_rows()});
  return table.find(schema);
}

bool is_supported(const Schema& schema) {
  return find_decomposition(schema) != nullptr || find_complex_decomposition(schema) != nullptr ||
         find_float8_decomposition(schema) != nullptr;
}

TensorType type_of_pairs(const TensorType& type) {
  TensorType pairs{.dtype = part_dtype(type.dtype), .sizes = type.sizes};
  pairs.sizes.emplace_back(2);
  return pairs;
}

}  // namespace toroid
