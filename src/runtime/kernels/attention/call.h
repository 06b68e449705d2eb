// A call of the attention kernel: its operands, the tasks that it falls into, and what a mask does to scores.
#pragma once

#include <algorithm>

#include "runtime/kernels/attention/softmax.h"
#include "runtime/kernels/isa/half_rows.h"
#include "runtime/kernels/registry/library.h"
#include "runtime/kernels/registry/operands.h"
#include "tensor/dtype.h"

namespace toroid {

struct AttentionCall {
  explicit AttentionCall(const KernelCall& call)
      : pool(call.pool),
        q(call.inputs[0]),
        k(call.inputs[1]),
        v(call.inputs[2]),
        mask(call.inputs.size() > 3 ? &call.inputs[3] : nullptr),
        out(call.outputs[0]),
        dtype(static_cast<DType>(out.dtype)),
        dims(q.rank - 2),
        queries(q.sizes[dims]),
        keys(k.sizes[dims]),
        width(q.sizes[dims + 1]),
        out_width(v.sizes[dims + 1]),
        group(dims == 0 || k.sizes[dims - 1] == 0 ? 1 : q.sizes[dims - 1] / k.sizes[dims - 1]),
        by_heads(queries == 1 && group > 1),
        causal(call.integers[0] != 0),
        scale(static_cast<float>(call.numbers[0])) {}

  // Rows that meet the same keys: the queries of a head, or, where heads have one query each, the heads that share keys.
  int64_t rows() const { return by_heads ? group : queries; }
  int64_t batches() const { return product(by_heads ? k.sizes : q.sizes, dims); }
  // The batch's first row and the step from each to the next, of the queries or the result.
  struct Rows {
    int64_t begin, step;
  };
  Rows rows_of(const ToroidOperand& operand, int64_t batch) const {
    if (by_heads) return {batch_offset(operand, dims, batch * group), operand.strides[dims - 1]};
    return {batch_offset(operand, dims, batch), operand.strides[dims]};
  }
  // Where the batch's keys or values begin.
  int64_t begin_of(const ToroidOperand& operand, int64_t batch) const {
    return batch_offset(operand, dims, by_heads ? batch : batch / group);
  }

  // How many of the keys from `first_key` on a row sees, of `count`.
  int64_t limit(int64_t row, int64_t first_key, int64_t count) const {
    return causal ? std::clamp<int64_t>((by_heads ? 0 : row) + 1 - first_key, 0, count) : count;
  }

  // Scales a row's scores and adds the mask to them, or makes them -inf where a mask of Bools forbids. Gives what they are still to be
  // multiplied by.
  float apply_mask(int64_t batch, int64_t place, int64_t first_key, float* row, int64_t count) const {
    if (mask == nullptr) return scale;
    const int64_t step = mask->sizes[mask->rank - 1] == 1 ? 0 : mask->strides[mask->rank - 1];
    const int64_t at = (by_heads ? mask_offset(batch * group + place, 0) : mask_offset(batch, place)) + first_key * step;
    const auto mask_dtype = static_cast<DType>(mask->dtype);
    if (mask_dtype == DType::Bool) {
      forbid_f32(row, static_cast<const uint8_t*>(mask->data) + at, step, count, scale);
    } else if (is_reduced_float(mask_dtype)) {
      add_reduced(static_cast<const uint16_t*>(mask->data) + at, step, row, count);
    } else {
      add_mask_f32(row, data_of(*mask) + at, step, count, scale);
    }
    return 1;
  }

  // Where the mask of a row begins, in elements; its sizes of 1 repeat.
  int64_t mask_offset(int64_t batch, int64_t row) const {
    int64_t offset = 0;
    for (int32_t d = dims; d-- > 0;) {
      const int64_t index = batch % q.sizes[d];
      batch /= q.sizes[d];
      const int32_t mine = d - (q.rank - mask->rank);
      if (mine >= 0 && mask->sizes[mine] != 1) offset += index * mask->strides[mine];
    }
    const int32_t rows = mask->rank - 2;
    if (rows >= 0 && mask->sizes[rows] != 1) offset += row * mask->strides[rows];
    return offset;
  }

  RuntimePool& pool;
  const ToroidOperand &q, &k, &v;
  const ToroidOperand* mask;
  const ToroidOperand& out;
  DType dtype;
  int32_t dims;
  int64_t queries, keys, width, out_width;
  int64_t group;  // heads of q for one of k and v
  bool by_heads;
  bool causal;
  float scale;

 private:
  void add_reduced(const uint16_t* added, int64_t step, float* row, int64_t count) const {
    constexpr int64_t kSome = 256;
    float widened[kSome];
    for (int64_t j = 0; j < count; j += kSome) {
      const int64_t some = std::min(kSome, count - j);
      widen_elements(dtype_of(*mask), added + j * step, step, step == 0 ? 1 : some, widened);
      add_mask_f32(row + j, widened, std::min<int64_t>(step, 1), some, scale);
    }
  }
};

}  // namespace toroid
