#include <algorithm>
#include <cmath>
#include <vector>

#include "graph/dtype.h"
#include "runtime/gemm.h"
#include "runtime/library.h"
#include "runtime/operands.h"
#include "runtime/softmax.h"

namespace toroid {

void run_attention_f32(const KernelCall& call) {
  const ToroidOperand& q = call.inputs[0];
  const ToroidOperand& k = call.inputs[1];
  const ToroidOperand& v = call.inputs[2];
  const ToroidOperand* mask = call.inputs.size() > 3 ? &call.inputs[3] : nullptr;
  const ToroidOperand& out = call.outputs[0];
  const int32_t dims = q.rank - 2;
  const int64_t queries = q.sizes[dims], keys = k.sizes[dims], width = q.sizes[dims + 1], out_width = v.sizes[dims + 1];
  const int64_t batches = product(q.sizes, dims);
  const bool causal = call.integers[0] != 0;
  const float scale = static_cast<float>(call.numbers[0]);
  constexpr int64_t kRows = 48;  // of queries at a time: their scores stay in cache
  const int64_t blocks = (queries + kRows - 1) / kRows;

  // A position in the mask; its sizes of 1 repeat.
  auto mask_offset = [&](int64_t batch, int64_t row) {
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
  };

  call.pool.parallel_for(batches * blocks, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> scores(static_cast<size_t>(kRows * std::max<int64_t>(keys, 1)));
    for (int64_t task = begin; task < end; ++task) {
      const int64_t batch = task / blocks;
      const int64_t first = task % blocks * kRows;
      const int64_t rows = std::min(kRows, queries - first);
      // Queries of this block see no key past the last one's position.
      const int64_t seen = causal ? std::min(keys, first + rows) : keys;
      gemm_f32(call.pool, rows, seen, width, {data_of(q) + batch_offset(q, dims, batch) + first * q.strides[dims], q.strides[dims], q.strides[dims + 1]},
               {data_of(k) + batch_offset(k, dims, batch), k.strides[dims + 1], k.strides[dims]}, {scores.data(), seen, nullptr});
      for (int64_t r = 0; r < rows; ++r) {
        float* row = scores.data() + r * seen;
        const int64_t limit = causal ? std::min(seen, first + r + 1) : seen;
        for (int64_t j = 0; j < limit; ++j) row[j] *= scale;
        if (mask != nullptr) {
          const int64_t at = mask_offset(batch, first + r);
          const int64_t step = mask->sizes[mask->rank - 1] == 1 ? 0 : mask->strides[mask->rank - 1];
          if (static_cast<DType>(mask->dtype) == DType::Bool) {
            const auto* allowed = static_cast<const uint8_t*>(mask->data) + at;
            for (int64_t j = 0; j < limit; ++j) row[j] = allowed[j * step] ? row[j] : -HUGE_VALF;
          } else {
            const float* added = data_of(*mask) + at;
            for (int64_t j = 0; j < limit; ++j) row[j] += added[j * step];
          }
        }
        softmax_row_f32(row, limit);
        std::fill(row + limit, row + seen, 0.0f);
      }
      gemm_f32(call.pool, rows, out_width, seen, {scores.data(), seen, 1}, {data_of(v) + batch_offset(v, dims, batch), v.strides[dims], v.strides[dims + 1]},
               {data_of(out) + (batch * queries + first) * out_width, out_width, nullptr});
    }
  });
}

}  // namespace toroid
