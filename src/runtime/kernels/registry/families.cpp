#include "runtime/kernels/registry/families.h"
#include "base/format.h"

namespace toroid {
namespace {

// A batch with one matrix on the right is one product of all its rows (matmul.cpp).
bool is_one_product(const OperandMeta& a, const OperandMeta& b) {
  int64_t below = a.stride(-2) * a.size(-2);
  for (size_t d = a.sizes.size() - 2; d-- > 0;) {
    if (a.sizes[d] == 1) continue;
    if (b.strides[d] != 0 || a.strides[d] != below) return false;
    below *= a.sizes[d];
  }
  return true;
}

}  // namespace

std::optional<std::string> unlike_dense(DType dtype, const Problem& problem, size_t least, size_t most, size_t rank) {
  if (problem.inputs.size() < least || problem.inputs.size() > most || problem.outputs.size() != 1) {
    return formatted("{} inputs and {} outputs, not {} to {} and 1", problem.inputs.size(), problem.outputs.size(), least, most);
  }
  auto fault_of = [&](const OperandMeta& operand, const std::string& name) -> std::optional<std::string> {
    if (operand.dtype == dtype && operand.sizes.size() >= rank) return std::nullopt;
    return formatted("{} is {}, not {} of rank {} or more", name, to_string(operand), to_string(dtype), rank);
  };
  for (size_t i = 0; i < least; ++i) {
    if (auto fault = fault_of(problem.inputs[i], formatted("input {}", i))) return fault;
  }
  if (!problem.outputs[0].is_dense()) return "the output is not dense";
  return fault_of(problem.outputs[0], "the output");
}

ProductSizes product_sizes_of(const Problem& problem) {
  const OperandMeta& a = problem.inputs[0];
  const OperandMeta& c = problem.outputs[0];
  const int64_t m = c.size(-2), n = c.size(-1), k = a.size(-1);
  const int64_t batches = m * n == 0 ? 0 : c.elements() / (m * n);
  if (is_one_product(a, problem.inputs[1])) return {1, batches * m, n, k};
  return {batches, m, n, k};
}

std::optional<std::string> malformed_product(DType dtype, const Problem& problem) {
  if (std::optional<std::string> fault = unlike_dense(dtype, problem, 2, 2, 2)) return fault;
  const OperandMeta& a = problem.inputs[0];
  const OperandMeta& b = problem.inputs[1];
  if (!problem.outputs[0].is_contiguous()) return "the output is not contiguous";
  std::vector<int64_t> product = a.sizes;
  product.back() = b.sizes.back();
  const bool same_batches = a.sizes.size() == b.sizes.size() && std::equal(a.sizes.begin(), a.sizes.end() - 2, b.sizes.begin());
  if (!same_batches || a.size(-1) != b.size(-2) || problem.outputs[0].sizes != product) {
    return "they are no matrices of one batch whose sizes meet";
  }
  return std::nullopt;
}

}  // namespace toroid
