#include "bench/inputs.h"

#include <algorithm>
#include <random>

namespace toroid::cli {

std::vector<HostTensor> random_inputs(const Program& program) {
  std::mt19937 random(0);
  std::normal_distribution<float> normal;
  std::vector<HostTensor> inputs;
  for (ValueId id : program.graph.inputs) {
    const TensorType& type = program.graph.type(id);
    std::vector<int64_t> sizes;
    for (sym::Expr size : type.sizes) sizes.push_back(sym::evaluate_hint(size));
    std::vector<double> values(static_cast<size_t>(numel(sizes)));
    if (is_floating(type.dtype)) {
      for (double& value : values) value = normal(random);
      inputs.push_back(HostTensor::from_doubles(type.dtype, sizes, values));
    } else {
      inputs.push_back(HostTensor::from_ints(type.dtype, sizes, std::vector<int64_t>(values.size())));
    }
  }
  return inputs;
}

std::vector<HostTensor> in_own_memory(const std::vector<HostTensor>& inputs) {
  std::vector<HostTensor> copies;
  for (const HostTensor& input : inputs) {
    HostTensor& copy = copies.emplace_back(input.dtype(), input.sizes());
    std::copy(input.bytes().begin(), input.bytes().end(), copy.mutable_data<std::byte>());
  }
  return copies;
}

}  // namespace toroid::cli
