#include "runtime/kernels/gemm/gemm_integers.h"

#include "base/error.h"
#include "base/format.h"
#include "runtime/kernels/gemm/packed_plan.h"
#include "runtime/kernels/linked/linked_kernels.h"

namespace toroid {
namespace {

// Blocks of sums on their way to a narrower dtype.
template <class Stored>
struct Narrowed {
  Stored* out;
  int64_t row;
  bool is_bool;

  static void run(void* argument, const uint32_t* block, int64_t row_stride, int64_t first_row, int64_t last_row, int64_t first_column,
                  int64_t last_column) {
    const Narrowed& to = *static_cast<const Narrowed*>(argument);
    for (int64_t i = first_row; i < last_row; ++i, block += row_stride) {
      Stored* const row = to.out + i * to.row + first_column;
      const int64_t count = last_column - first_column;
      if (to.is_bool) {
        for (int64_t j = 0; j < count; ++j) row[j] = static_cast<Stored>(block[j] != 0);
      } else {
        for (int64_t j = 0; j < count; ++j) row[j] = static_cast<Stored>(block[j]);
      }
    }
  }
};

template <class Element, class Stored>
std::unique_ptr<const KernelPlan> plan(const KernelCall& call, bool is_bool) {
  const ProductSizes sizes = product_sizes(call.inputs[0], call.inputs[1], call.outputs[0]);
  const PackedGemm<Element, Stored> product(call.pool.threads(), sizes.m, sizes.n, sizes.k);
  return plan_that_runs([sizes, product, is_bool](const KernelCall& each) {
    const auto [batches, m, n, k] = sizes;
    for_each_product(each.pool, batches, m * n * k, [&, m = m, n = n](int64_t batch) {
      const MatrixOf<Stored> a = matrix_of_batch<Stored>(each.inputs[0], batch), b = matrix_of_batch<Stored>(each.inputs[1], batch);
      Stored* const out = static_cast<Stored*>(each.outputs[0].data) + batch * m * n;
      if constexpr (sizeof(Stored) == sizeof(Element)) {
        product(each.pool, a, b, ProductOutputOf<Element>{out, n, nullptr});
      } else {
        Narrowed<Stored> narrowed = {out, n, is_bool};
        const BlockConsumer<Element> consumer = {Narrowed<Stored>::run, &narrowed};
        product(each.pool, a, b, ProductOutputOf<Element>{nullptr, n, &consumer});
      }
    });
  });
}

}  // namespace

bool can_multiply_integers(const KernelCall& call) {
  const DType dtype = dtype_of(call.outputs[0]);
  return !is_floating(dtype) && call.inputs.size() == 2 && dtype_of(call.inputs[0]) == dtype && dtype_of(call.inputs[1]) == dtype;
}

std::unique_ptr<const KernelPlan> plan_matmul_integers(const KernelCall& call) {
  const DType dtype = dtype_of(call.outputs[0]);
  switch (dtype) {
    case DType::I64:
    case DType::U64: return plan<uint64_t, uint64_t>(call, false);
    case DType::I32:
    case DType::U32: return plan<uint32_t, uint32_t>(call, false);
    case DType::I16: return plan<uint32_t, int16_t>(call, false);
    case DType::U16: return plan<uint32_t, uint16_t>(call, false);
    case DType::I8: return plan<uint32_t, int8_t>(call, false);
    case DType::U8:
    case DType::Bool: return plan<uint32_t, uint8_t>(call, dtype == DType::Bool);
    default: throw Error(ErrorKind::Unsupported, formatted("matrix products of {} are not supported", to_string(dtype)));
  }
}

TOROID_LINKED_KERNEL(matmul_integers, "matmul.integers", nullptr, plan_matmul_integers);

}  // namespace toroid
