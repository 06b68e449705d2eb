// Attention in blocks: the scores of some queries with a block of keys, their softmax so far, and its product with the block's values.
// Source: Dao et al., "FlashAttention", 2022. Computed in float32; rows of 16 bits are widened as a task needs them.
#include "runtime/kernels/attention/attention.h"

#include <algorithm>
#include <vector>

#include "runtime/kernels/attention/call.h"
#include "runtime/kernels/attention/softmax.h"
#include "runtime/kernels/attention/split_kv.h"
#include "runtime/kernels/gemm/macrokernel.h"
#include "runtime/kernels/isa/half_rows.h"
#include "runtime/memory/scratch.h"

namespace toroid {
namespace {

constexpr int64_t kQueries = 48;  // at a time
constexpr int64_t kKeys = 1024;   // at a time: their scores with the queries take 192 KiB

Scratch scratch_for_keys, scratch_for_values, scratch_for_scores;
Scratch widened_queries, widened_keys, widened_values;

class Attention {
 public:
  explicit Attention(const KernelCall& call) : s_(call) {}

  void run() const {
    AttentionParts parts(s_, {kQueries, kKeys});
    parts.for_each([&](const AttentionTask& task) { run_task(task, parts); });
  }

 private:
  // A block of keys (turned) and values, packed.
  struct Block {
    int64_t first, count;
    PackedB keys, values;
  };

  // So many rows, `columns` elements each; copied where they are of 16 bits, or if they are to be `contiguous` and are not.
  Matrix rows_of(const ToroidOperand& operand, int64_t begin, int64_t row, int64_t count, int64_t columns, bool contiguous,
                 Scratch& scratch) const {
    const int64_t column = operand.strides[s_.dims + 1];
    if (s_.dtype == DType::F32 && (column == 1 || !contiguous)) return {data_of(operand) + begin, row, column};
    float* to = scratch.get(count * columns);
    for (int64_t i = 0; i < count; ++i) {
      if (s_.dtype == DType::F32) {
        for (int64_t e = 0; e < columns; ++e) to[i * columns + e] = data_of(operand)[begin + i * row + e * column];
      } else {
        widen_elements(s_.dtype, static_cast<const uint16_t*>(operand.data) + begin + i * row, column, columns, to + i * columns);
      }
    }
    return {to, columns, 1};
  }
  Matrix keys_of(const ToroidOperand& operand, const AttentionTask& task, int64_t columns, Scratch& scratch) const {
    const int64_t row = operand.strides[s_.dims];
    return rows_of(operand, s_.begin_of(operand, task.batch) + task.first_key * row, row, task.last_key - task.first_key, columns, false,
                   scratch);
  }

  void run_task(const AttentionTask& task, AttentionParts& parts) const {
    const int64_t all = task.last_key - task.first_key;
    const AttentionCall::Rows rows = s_.rows_of(s_.q, task.batch);
    const int64_t first_query = rows.begin + task.first_row * rows.step;
    const Matrix q = rows_of(s_.q, first_query, rows.step, task.last_row - task.first_row, s_.width, true, widened_queries);
    const Matrix k = keys_of(s_.k, task, s_.width, widened_keys), v = keys_of(s_.v, task, s_.out_width, widened_values);
    std::vector<Block> blocks;
    float* keys = scratch_for_keys.get(PackedB::size(s_.width, all + kKeys));
    float* values = scratch_for_values.get(PackedB::size(all, s_.out_width));
    for (int64_t done = 0; done < all; done += kKeys) {
      const int64_t count = std::min(kKeys, all - done);
      pack_panels({k.at(done, 0), k.column, k.row}, s_.width, count, 0, PackedB::panels(count), keys);
      pack_panels({v.at(done, 0), v.row, v.column}, count, s_.out_width, 0, PackedB::panels(s_.out_width), values);
      blocks.push_back({task.first_key + done, count, {s_.width, count, keys}, {count, s_.out_width, values}});
      keys += PackedB::size(s_.width, count);
      values += PackedB::size(count, s_.out_width);
    }
    for (int64_t done = 0; done < task.last_row - task.first_row; done += kQueries) {
      const int64_t first = task.first_row + done;
      run_some(task, {q.at(done, 0), q.row, 1}, blocks, first, std::min(kQueries, task.last_row - first), parts);
    }
  }

  void run_some(const AttentionTask& task, const Matrix& q, const std::vector<Block>& blocks, int64_t first, int64_t rows,
                AttentionParts& parts) const {
    // An odd number of cache lines apart: rows do not share sets of the caches.
    const int64_t scores_row = padded_stride(std::min(kKeys, s_.keys)), width = s_.out_width;
    float* scores = scratch_for_scores.get(kQueries * (scores_row + 2 * width));
    float* sums = scores + kQueries * scores_row;
    float* added = sums + kQueries * width;
    RunningSoftmax running[kQueries];
    std::fill_n(sums, rows * width, 0.0f);
    for (const Block& block : blocks) {
      // These queries see no key past the last one's position.
      const int64_t seen = s_.limit(first + rows - 1, block.first, block.count);
      if (seen <= 0) break;
      multiply(q, rows, s_.width, block.keys, seen, scores, scores_row);
      const bool is_first = block.first == task.first_key;
      for (int64_t r = 0; r < rows; ++r) {
        float* row = scores + r * scores_row;
        const int64_t limit = s_.limit(first + r, block.first, seen);
        const float scale = s_.apply_mask(task.batch, first + r, block.first, row, limit);
        // Whole vectors are quicker: what is -inf takes no part, and becomes 0.
        const int64_t filled = scale > 0 ? (limit + kCacheLine - 1) / kCacheLine * kCacheLine : limit;
        std::fill(row + limit, row + filled, -HUGE_VALF);
        const float factor = softmax_part_f32(row, filled, scale, running[r]);
        if (filled < seen) std::fill(row + filled, row + seen, 0.0f);
        if (!is_first && factor != 1) scale_row_f32(sums + r * width, width, factor);
      }
      multiply({scores, scores_row, 1}, rows, seen, block.values, width, is_first ? sums : added, width);
      for (int64_t i = 0; i < rows * width && !is_first; ++i) sums[i] += added[i];
    }
    for (int64_t r = 0; r < rows; ++r) parts.finish(task, first + r, sums + r * width, running[r]);
  }

  // c = so many contiguous rows of a, `depth` elements each, times the first `columns` columns of b.
  static void multiply(const Matrix& a, int64_t rows, int64_t depth, const PackedB& b, int64_t columns, float* c, int64_t c_row) {
    const float* pointers[kQueries];
    for (int64_t r = 0; r < rows; ++r) pointers[r] = a.at(r, 0);
    multiply_rows(b, 0, PackedB::panels(columns), RowElements(0, depth), {pointers, static_cast<size_t>(rows)}, 0, {c, c_row, nullptr});
  }

  AttentionCall s_;
};

}  // namespace

void run_attention_blocks(const KernelCall& call) { Attention(call).run(); }

}  // namespace toroid
