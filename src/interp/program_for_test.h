// For tests: a program from a function over a Builder, and arrays from lists.
#pragma once

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "graph/builder.h"
#include "interp/evaluate.h"

namespace toroid {

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

inline HostTensor f32(std::vector<int64_t> sizes, const std::vector<double>& values) {
  return HostTensor::from_doubles(DType::F32, std::move(sizes), values);
}
inline HostTensor i64(std::vector<int64_t> sizes, const std::vector<int64_t>& values) {
  return HostTensor::from_ints(DType::I64, std::move(sizes), values);
}

// Its inputs are called x0, x1, …
inline Program make_program(const std::vector<TensorType>& inputs,
                            const std::function<std::vector<Tensor>(Builder&, std::vector<Tensor>)>& body) {
  Program program;
  Builder builder(program.graph, *program.symbols, &program.guards);
  std::vector<Tensor> tensors;
  for (uint32_t i = 0; i < inputs.size(); ++i) {
    const std::string name = "x" + std::to_string(i);
    const NodeId node = program.graph.add_node(Input{i}, {}, {inputs[i]}, {}, {name});
    program.graph.inputs.push_back(program.graph.node(node).outputs[0]);
    program.inputs.push_back({name});
    tensors.push_back(builder.wrap(program.graph.inputs.back()));
  }
  for (Tensor output : body(builder, tensors)) {
    program.graph.outputs.push_back(output.id());
    program.outputs.push_back({});
  }
  return program;
}

// The types are the arrays' own.
inline std::vector<HostTensor> run(const std::vector<HostTensor>& inputs,
                                   const std::function<std::vector<Tensor>(Builder&, std::vector<Tensor>)>& body) {
  std::vector<TensorType> types;
  for (const HostTensor& input : inputs) {
    types.push_back({.dtype = input.dtype(), .sizes = Sizes(input.sizes().begin(), input.sizes().end())});
  }
  return evaluate(make_program(types, body), inputs);
}

}  // namespace toroid
