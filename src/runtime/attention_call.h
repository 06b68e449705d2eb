// A call of the attention kernel: its operands, the tasks that it falls into, and what a mask does to scores.
#pragma once

#include <algorithm>

#include "graph/dtype.h"
#include "runtime/library.h"
#include "runtime/operands.h"
#include "runtime/rows16.h"
#include "runtime/softmax.h"

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
        causal(call.integers[0] != 0),
        scale(static_cast<float>(call.numbers[0])) {}

  // Calls body(batch, first, last) for parts of all queries, on all threads. A head's keys are packed by each task that has some of its queries,
  // `at_once` at a time.
  template <class Body>
  void for_each_part(int64_t at_once, const Body& body) const {
    const int64_t batches = product(q.sizes, dims);
    const int64_t blocks = (queries + at_once - 1) / at_once;
    if (batches == 0 || blocks == 0 || out_width == 0) return;
    const int64_t parts = std::clamp<int64_t>(2 * pool.threads() / batches, 1, blocks);
    pool.parallel_for(batches * parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t part = task % parts;
        body(task / parts, queries * part / parts, queries * (part + 1) / parts);
      }
    });
  }

  // How many of the keys from `first_key` on a query sees, of `count`.
  int64_t limit(int64_t query, int64_t first_key, int64_t count) const {
    return causal ? std::clamp<int64_t>(query + 1 - first_key, 0, count) : count;
  }

  // Scales a query's scores and adds the mask to them, or makes them -inf where a mask of Bools forbids. Gives what they are still to be
  // multiplied by.
  float apply_mask(int64_t batch, int64_t query, int64_t first_key, float* row, int64_t count) const {
    if (mask == nullptr) return scale;
    const int64_t step = mask->sizes[mask->rank - 1] == 1 ? 0 : mask->strides[mask->rank - 1];
    const int64_t at = mask_offset(batch, query) + first_key * step;
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

  RuntimePool& pool;
  const ToroidOperand &q, &k, &v;
  const ToroidOperand* mask;
  const ToroidOperand& out;
  DType dtype;
  int32_t dims;
  int64_t queries, keys, width, out_width;
  bool causal;
  float scale;

 private:
  void add_reduced(const uint16_t* added, int64_t step, float* row, int64_t count) const {
    constexpr int64_t kSome = 256;
    float widened[kSome];
    for (int64_t j = 0; j < count; j += kSome) {
      const int64_t some = std::min(kSome, count - j);
      widen_row(static_cast<DType>(mask->dtype), added + j * step, step == 1 ? some : 1, widened);
      if (step > 1) {
        for (int64_t i = 1; i < some; ++i) widen_row(static_cast<DType>(mask->dtype), added + (j + i) * step, 1, widened + i);
      }
      add_mask_f32(row + j, widened, std::min<int64_t>(step, 1), some, scale);
    }
  }

  // A position in the mask; its sizes of 1 repeat.
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
};

}  // namespace toroid
