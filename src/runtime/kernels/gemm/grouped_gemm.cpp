#include "runtime/kernels/gemm/grouped_gemm.h"

#include <cstring>
#include <vector>

#include "library/grouped_sizes.h"
#include "runtime/kernels/gemm/partition.h"
#include "runtime/kernels/linked/linked_kernels.h"
#include "runtime/kernels/registry/operands.h"

namespace toroid {
namespace {

// A matrix within an operand.
struct Part {
  int64_t sizes[2];
  int64_t strides[2];
  void* data;
  ToroidOperand operand(const ToroidOperand& of) const { return {data, sizes, strides, 2, of.dtype, of.is_constant}; }
};

// `matrix`: of an operand of rank 3; all of it.
Part part_of(const ToroidOperand& operand, int64_t matrix) {
  const int32_t dims = operand.rank - 2;
  const int64_t offset = batch_offset(operand, dims, matrix);
  return {{operand.sizes[dims], operand.sizes[dims + 1]},
          {operand.strides[dims], operand.strides[dims + 1]},
          static_cast<char*>(operand.data) + offset * size_bytes(dtype_of(operand))};
}

// Of these, `count` rows (dim 0) or columns (dim 1) from `first` on.
void narrow(Part& part, int dim, int64_t first, int64_t count, DType dtype) {
  part.data = static_cast<char*>(part.data) + first * part.strides[dim] * size_bytes(dtype);
  part.sizes[dim] = count;
}

}  // namespace

void run_grouped_product(const KernelCall& call) {
  const ToroidOperand &x = call.inputs[0], &y = call.inputs[1], &ends = call.inputs[2], &out = call.outputs[0];
  const auto rank = [](const ToroidOperand& operand) { return static_cast<size_t>(operand.rank); };
  const GroupedSizes s = grouped_sizes({x.sizes, rank(x)}, {y.sizes, rank(y)}, ends.sizes[0]);
  std::vector<int64_t> numbers;
  for (int64_t g = 0; g < s.groups; ++g) numbers.push_back(static_cast<const int64_t*>(ends.data)[g * ends.strides[0]]);
  const std::vector<int64_t> bounds = group_bounds(numbers, s.divided());
  const DType dtype = dtype_of(out);
  const int64_t width = size_bytes(dtype);

  auto zero = [&](const Part& part) {
    for (int64_t i = 0; i < part.sizes[0]; ++i) {
      std::memset(static_cast<char*>(part.data) + i * part.strides[0] * width, 0, static_cast<size_t>(part.sizes[1] * width));
    }
  };
  auto multiply = [&](int64_t g) {
    const int64_t first = bounds[static_cast<size_t>(g)], count = bounds[static_cast<size_t>(g) + 1] - first;
    Part left = part_of(x, g), right = part_of(y, g), result = part_of(out, g);
    switch (s.by) {
      case GroupedBy::Rows: narrow(left, 0, first, count, dtype), narrow(result, 0, first, count, dtype); break;
      case GroupedBy::Columns: narrow(right, 1, first, count, dtype), narrow(result, 1, first, count, dtype); break;
      case GroupedBy::Depth: narrow(left, 1, first, count, dtype), narrow(right, 0, first, count, dtype); break;
    }
    if (left.sizes[1] == 0) return zero(result);
    if (left.sizes[0] == 0 || right.sizes[1] == 0) return;
    // Kernels of products write contiguous rows.
    std::vector<char> rows;
    const bool is_contiguous = result.strides[0] == result.sizes[1] || result.sizes[0] == 1;
    Part written = result;
    if (!is_contiguous) {
      rows.resize(static_cast<size_t>(result.sizes[0] * result.sizes[1] * width));
      written = {{result.sizes[0], result.sizes[1]}, {result.sizes[1], 1}, rows.data()};
    }
    // What a part of a constant's columns shows changes from call to call.
    const bool is_kept = s.by == GroupedBy::Rows;
    KernelCall product = call;
    const ToroidOperand inputs[] = {left.operand(x), right.operand(y)}, outputs[] = {written.operand(out)};
    product.inputs = inputs;
    product.outputs = outputs;
    product.prepared = is_kept ? call.prepared : nullptr;
    run_library_kernel("matmul", product);
    if (is_contiguous) return;
    const auto row_bytes = static_cast<size_t>(result.sizes[1] * width);
    for (int64_t i = 0; i < result.sizes[0]; ++i) {
      std::memcpy(static_cast<char*>(result.data) + i * result.strides[0] * width, rows.data() + static_cast<size_t>(i) * row_bytes,
                  row_bytes);
    }
  };

  // What belongs to no group.
  Part rest = part_of(out, 0);
  if (s.by != GroupedBy::Depth && bounds.back() < s.divided()) {
    narrow(rest, s.by == GroupedBy::Rows ? 0 : 1, bounds.back(), s.divided() - bounds.back(), dtype);
    zero(rest);
  }
  for_each_product(call.pool, s.groups, s.m * s.n * s.k / std::max<int64_t>(s.by == GroupedBy::Depth ? 1 : s.groups, 1), multiply);
}

TOROID_LINKED_KERNEL(grouped_products, "library.products.grouped", nullptr, plan_running<run_grouped_product>);

}  // namespace toroid
