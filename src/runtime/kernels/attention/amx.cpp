// As attention.cpp, with both products in tiles.
#include "runtime/kernels/attention/amx.h"

#include <algorithm>
#include <vector>

#include "runtime/kernels/attention/softmax.h"
#include "runtime/kernels/attention/split_kv.h"
#include "runtime/kernels/gemm/half/gemm_amx.h"
#include "runtime/kernels/isa/half_rows.h"
#include "runtime/memory/scratch.h"

namespace toroid {
namespace {

constexpr AmxType kNumbers = AmxType::BFloat16;
constexpr int64_t kQueries = 2 * kTileSide;  // at a time
constexpr int64_t kKeys = 1024;              // at a time: their scores with the queries take 128 KiB
static_assert(kKeys % kTileSide == 0);

Scratch scratch_for_keys, scratch_for_values, scratch_for_queries, scratch_for_sums;

std::byte* bytes_of(Scratch& scratch, int64_t bytes) {
  return reinterpret_cast<std::byte*>(scratch.get((bytes + kWordBytes - 1) / kWordBytes));
}

class AttentionInTiles {
 public:
  explicit AttentionInTiles(const KernelCall& call) : s_(call), out_columns_((s_.out_width + kTileSide - 1) / kTileSide * kTileSide) {}

  void run() const {
    AttentionParts parts(s_, {kQueries, kKeys});
    parts.for_each([&](const AttentionTask& task) {
      const TileRegisters registers;
      run_task(task, parts);
    });
  }

 private:
  // A block of keys and values, packed.
  struct Block {
    int64_t first, count;
    const std::byte *keys, *values;
  };

  TileMatrix matrix(const ToroidOperand& operand, int64_t begin, int64_t row) const {
    return {static_cast<const uint16_t*>(operand.data) + begin, row, operand.strides[s_.dims + 1]};
  }
  TileMatrix head_of(const ToroidOperand& operand, int64_t batch) const {
    return matrix(operand, s_.begin_of(operand, batch), operand.strides[s_.dims]);
  }

  void run_task(const AttentionTask& task, AttentionParts& parts) const {
    const AttentionCall::Rows rows = s_.rows_of(s_.q, task.batch);
    const TileMatrix q = matrix(s_.q, rows.begin, rows.step), k = head_of(s_.k, task.batch), v = head_of(s_.v, task.batch);
    const int64_t all = task.last_key - task.first_key, count_of_blocks = (all + kKeys - 1) / kKeys;
    std::byte* keys = bytes_of(scratch_for_keys, packed_tiles_bytes(kNumbers, s_.width, all));
    std::byte* values = bytes_of(scratch_for_values, count_of_blocks * packed_tiles_bytes(kNumbers, kKeys, s_.out_width));
    std::vector<Block> blocks;
    for (int64_t first = task.first_key; first < task.last_key; first += kKeys) {
      const int64_t count = std::min(kKeys, task.last_key - first);
      pack_right_tiles(kNumbers, {static_cast<const uint16_t*>(k.data) + first * k.row, k.column, k.row}, s_.width, count, keys);
      pack_right_tiles(kNumbers, {static_cast<const uint16_t*>(v.data) + first * v.row, v.row, v.column}, count, s_.out_width, values);
      blocks.push_back({first, count, keys, values});
      keys += packed_tiles_bytes(kNumbers, s_.width, count);
      values += packed_tiles_bytes(kNumbers, count, s_.out_width);
    }
    for (int64_t first = task.first_row; first < task.last_row; first += kQueries) {
      run_some(task, q, blocks, first, std::min(kQueries, task.last_row - first), parts);
    }
  }

  void run_some(const AttentionTask& task, const TileMatrix& q, const std::vector<Block>& blocks, int64_t first, int64_t rows,
                AttentionParts& parts) const {
    const int64_t query_bytes = packed_tiles_bytes(kNumbers, s_.width, kQueries),
                  weight_bytes = packed_tiles_bytes(kNumbers, kKeys, kQueries);
    // Rows an odd number of lines apart do not meet in the first-level cache; tiles are written whole.
    const int64_t row_of_scores = padded_stride(std::min(kKeys, (s_.keys + kTileSide - 1) / kTileSide * kTileSide));
    std::byte* queries = bytes_of(scratch_for_queries, query_bytes + weight_bytes + kQueries * row_of_scores * 2);
    std::byte* weights = queries + query_bytes;
    auto* rounded = reinterpret_cast<uint16_t*>(weights + weight_bytes);
    float* scores = scratch_for_sums.get(kQueries * (row_of_scores + 2 * out_columns_));
    float* sums = scores + kQueries * row_of_scores;
    float* added = sums + kQueries * out_columns_;
    pack_left_tiles(kNumbers, {static_cast<const uint16_t*>(q.data) + first * q.row, q.row, q.column}, rows, s_.width, queries);
    RunningSoftmax running[kQueries];
    std::fill_n(sums, kQueries * out_columns_, 0.0f);
    for (const Block& block : blocks) {
      // These queries see no key past the last one's position.
      const int64_t seen = s_.limit(first + rows - 1, block.first, block.count);
      if (seen <= 0) break;
      multiply_packed_tiles(kNumbers, rows, seen, s_.width, queries, block.keys, s_.width, scores, row_of_scores);
      const bool is_first = block.first == task.first_key;
      for (int64_t r = 0; r < rows; ++r) {
        float* row = scores + r * row_of_scores;
        const int64_t limit = s_.limit(first + r, block.first, seen);
        const float scale = s_.apply_mask(task.batch, first + r, block.first, row, limit);
        const float factor = softmax_part_f32(row, limit, scale, running[r]);
        std::fill(row + limit, row + seen, 0.0f);
        round_row(DType::BF16, row, seen, rounded + r * row_of_scores);
        if (!is_first && factor != 1) scale_row_f32(sums + r * out_columns_, s_.out_width, factor);
      }
      pack_left_tiles(kNumbers, {rounded, row_of_scores, 1}, rows, seen, weights);
      multiply_packed_tiles(kNumbers, rows, s_.out_width, seen, weights, block.values, block.count, is_first ? sums : added, out_columns_);
      for (int64_t i = 0; i < rows * out_columns_ && !is_first; ++i) sums[i] += added[i];
    }
    for (int64_t r = 0; r < rows; ++r) parts.finish(task, first + r, sums + r * out_columns_, running[r]);
  }

  AttentionCall s_;
  int64_t out_columns_;  // in whole tiles
};

}  // namespace

void run_attention_tiles(const KernelCall& call) { AttentionInTiles(call).run(); }

}  // namespace toroid
