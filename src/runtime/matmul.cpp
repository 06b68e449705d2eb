#include <optional>

#include "runtime/gemm.h"
#include "runtime/library.h"
#include "runtime/operands.h"
#include "runtime/parts_product.h"

namespace toroid {
namespace {

Matrix matrix_of(const ToroidOperand& operand, int64_t batch) {
  const int32_t dims = operand.rank - 2;
  return {data_of(operand) + batch_offset(operand, dims, batch), operand.strides[dims], operand.strides[dims + 1]};
}

// A constant on the right is packed when it is first used.
void multiply_constant(const KernelCall& call, ProductForm product, int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b, const ProductOutput& out) {
  if (product == ProductForm::Parts) {
    const int64_t form[] = {'p', k, n, b.row, b.column};
    const float* packed = call.prepared->get(b.data, form, PartsMatrix::size(k, n), [&](float* to) { pack_parts(call.pool, b, k, n, 0, PartsMatrix::panels(n), to); });
    return multiply(call.pool, m, a, PartsMatrix{k, n, packed}, 0, PartsMatrix::panels(n), out);
  }
  const int64_t form[] = {'m', k, n, b.row, b.column};
  const float* packed = call.prepared->get(b.data, form, PackedMatrix::size(k, n), [&](float* to) {
    const int64_t stride = strip_kernels().panel_width() * k;
    call.pool.parallel_for(PackedMatrix::panels(n), 1, [&](int64_t begin, int64_t end) { pack_panels(b, k, n, begin, end, to + begin * stride); });
  });
  multiply(call.pool, m, a, PackedMatrix{k, n, packed}, 0, PackedMatrix::panels(n), out);
}

// `form`: nullopt: the usual one.
void run(const KernelCall& call, std::optional<ProductForm> form) {
  // What was chosen on another machine, or before the tiles were left alone.
  if (form == ProductForm::Parts && !has_tiles_of_parts()) form = ProductForm::Packed;
  const ToroidOperand& a = call.inputs[0];
  const ToroidOperand& b = call.inputs[1];
  const ToroidOperand& c = call.outputs[0];
  const ProductSizes sizes = product_sizes(a, b, c);
  const int64_t batches = sizes.batches, m = sizes.m, n = sizes.n, k = sizes.k;
  if (m == 0 || n == 0 || batches == 0) return;
  if (batches == 1) {
    const Matrix left = matrix_of(a, 0), right = matrix_of(b, 0);
    const ProductOutput out = {data_of(c), n, call.epilogue};
    const ProductForm chosen = form.value_or(usual_form({m, n, k, call.keeps(b)}, left, right));
    if (call.keeps(b) && k > 0 && (chosen == ProductForm::Packed || chosen == ProductForm::Parts)) {
      return multiply_constant(call, chosen, m, n, k, left, right, out);
    }
    return gemm_f32(chosen, call.pool, m, n, k, left, right, out);
  }
  for_each_product(call.pool, batches, m * n * k, [&](int64_t batch) {
    const EpiloguePart epilogue(call.epilogue, batch * m, 0);
    const Matrix left = matrix_of(a, batch), right = matrix_of(b, batch);
    const ProductOutput out = {call.epilogue != nullptr ? nullptr : data_of(c) + batch * m * n, n, epilogue.get()};
    gemm_f32(form.value_or(usual_form({m, n, k, false}, left, right)), call.pool, m, n, k, left, right, out);
  });
}

}  // namespace

void run_matmul_f32(const KernelCall& call) { run(call, std::nullopt); }
void run_matmul_f32(const KernelCall& call, ProductForm form) { run(call, form); }

}  // namespace toroid
