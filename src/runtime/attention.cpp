// Attention in blocks: the scores of some queries with a block of keys, their softmax so far, and its product with the block's values. Source: Dao
// et al., "FlashAttention", 2022. Computed in float32; rows of 16 bits are widened as a task needs them.
#include <algorithm>
#include <vector>

#include "runtime/attention_call.h"
#include "runtime/attention_tiles.h"
#include "runtime/few_rows.h"
#include "runtime/gemm.h"
#include "runtime/rows16.h"
#include "runtime/scratch.h"
#include "runtime/softmax.h"
#include "runtime/tiles.h"
#include "support/error.h"

namespace toroid {
namespace {

constexpr int64_t kQueries = 48;       // at a time
constexpr int64_t kKeys = 1024;        // at a time: their scores with the queries take 192 KiB
constexpr int64_t kFewQueries = 8;     // read keys and values where they lie

thread_local Scratch scratch_for_keys, scratch_for_values, scratch_for_scores;
thread_local Scratch widened_queries, widened_keys, widened_values;

class Attention {
 public:
  explicit Attention(const KernelCall& call) : s_(call) {}

  void run() const {
    s_.for_each_part(kQueries, [&](int64_t batch, int64_t begin, int64_t end) { run_queries(batch, begin, end); });
  }

 private:
  // A right side: in one of these ways, the others without data. Those of a few rows are read where they lie, as bfloat16 too.
  struct Factor {
    Matrix wide;
    MatrixOf<BFloat16> narrow;
    PackedMatrix packed;
  };
  // A block of keys (turned) and values.
  struct Block {
    int64_t first, count;
    Factor keys, values;
  };
  // The rows [first, …) of a batch.
  struct Queries {
    int64_t batch, first;
    Matrix rows;
  };

  // So many rows, `columns` elements each.
  Matrix rows_of(const ToroidOperand& operand, int64_t begin, int64_t row, int64_t count, int64_t columns, Scratch& scratch) const {
    const int64_t column = operand.strides[s_.dims + 1];
    if (s_.dtype == DType::F32) return {data_of(operand) + begin, row, column};
    const uint16_t* from = static_cast<const uint16_t*>(operand.data) + begin;
    float* to = scratch.get(count * columns);
    for (int64_t i = 0; i < count; ++i) widen_elements(s_.dtype, from + i * row, column, columns, to + i * columns);
    return {to, columns, 1};
  }

  MatrixOf<BFloat16> narrow_rows(const ToroidOperand& operand, int64_t batch, int64_t first) const {
    const int64_t row = operand.strides[s_.dims];
    return {static_cast<const BFloat16*>(operand.data) + s_.begin_of(operand, batch) + first * row, row, 1};
  }

  void run_queries(int64_t batch, int64_t begin, int64_t end) const {
    const int64_t seen = s_.limit(end - 1, 0, s_.keys);
    const AttentionCall::Rows rows = s_.rows_of(s_.q, batch);
    const Queries queries = {batch, begin, rows_of(s_.q, rows.begin + begin * rows.step, rows.step, end - begin, s_.width, widened_queries)};
    const bool packs = end - begin > kFewQueries && queries.rows.column == 1;
    const bool is_narrow = s_.dtype == DType::BF16 && !packs && queries.rows.column == 1 && s_.k.strides[s_.dims + 1] == 1 && s_.v.strides[s_.dims + 1] == 1;
    const Matrix k = is_narrow ? Matrix{} : rows_of(s_.k, s_.begin_of(s_.k, batch), s_.k.strides[s_.dims], seen, s_.width, widened_keys);
    const Matrix v = is_narrow ? Matrix{} : rows_of(s_.v, s_.begin_of(s_.v, batch), s_.v.strides[s_.dims], seen, s_.out_width, widened_values);
    std::vector<Block> blocks;
    float* keys = packs ? scratch_for_keys.get(PackedMatrix::size(s_.width, seen + kKeys)) : nullptr;
    float* values = packs ? scratch_for_values.get(PackedMatrix::size(seen, s_.out_width)) : nullptr;
    for (int64_t first = 0; first < seen; first += kKeys) {
      const int64_t count = std::min(kKeys, seen - first);
      Block block = {first, count, {}, {}};
      if (is_narrow) {
        const MatrixOf<BFloat16> narrow_k = narrow_rows(s_.k, batch, first), narrow_v = narrow_rows(s_.v, batch, first);
        block.keys.narrow = {narrow_k.data, 1, narrow_k.row};
        block.values.narrow = narrow_v;
      } else {
        block.keys.wide = {k.at(first, 0), k.column, k.row};
        block.values.wide = {v.at(first, 0), v.row, v.column};
      }
      if (packs) {
        block.keys.packed = {s_.width, count, keys};
        block.values.packed = {count, s_.out_width, values};
        pack_panels(block.keys.wide, s_.width, count, 0, PackedMatrix::panels(count), keys);
        pack_panels(block.values.wide, count, s_.out_width, 0, PackedMatrix::panels(s_.out_width), values);
        keys += PackedMatrix::size(s_.width, count);
        values += PackedMatrix::size(count, s_.out_width);
      }
      blocks.push_back(block);
    }
    for (int64_t first = begin; first < end; first += kQueries) run_some(queries, blocks, first, std::min(kQueries, end - first));
  }

  void run_some(const Queries& queries, const std::vector<Block>& blocks, int64_t first, int64_t rows) const {
    // An odd number of cache lines apart: rows do not share sets of the caches.
    const int64_t scores_row = odd_lines(std::min(kKeys, s_.keys));
    float* scores = scratch_for_scores.get(kQueries * (scores_row + 2 * s_.out_width));
    float* added = scores + kQueries * scores_row;
    const Matrix q = {queries.rows.at(first - queries.first, 0), queries.rows.row, queries.rows.column};
    const AttentionCall::Rows out_rows = s_.rows_of(s_.out, queries.batch);
    const int64_t out_row = out_rows.step, out_begin = out_rows.begin + first * out_row;
    const bool is_wide = s_.dtype == DType::F32;
    float* out = is_wide ? data_of(s_.out) + out_begin : added + kQueries * s_.out_width;
    const int64_t row_stride = is_wide ? out_row : s_.out_width;
    RunningSoftmax running[kQueries];
    for (int64_t r = 0; r < rows; ++r) std::fill_n(out + r * row_stride, s_.out_width, 0.0f);
    for (const Block& block : blocks) {
      // These queries see no key past the last one's position.
      const int64_t seen = s_.limit(first + rows - 1, block.first, block.count);
      if (seen <= 0) break;
      multiply(q, rows, s_.width, block.keys, seen, scores, scores_row);
      const bool is_first = block.first == 0;
      for (int64_t r = 0; r < rows; ++r) {
        float* row = scores + r * scores_row;
        const int64_t limit = s_.limit(first + r, block.first, seen);
        const float scale = s_.apply_mask(queries.batch, first + r, block.first, row, limit);
        // Whole vectors are quicker: what is -inf takes no part, and becomes 0.
        const int64_t filled = scale > 0 ? (limit + kCacheLine - 1) / kCacheLine * kCacheLine : limit;
        std::fill(row + limit, row + filled, -HUGE_VALF);
        const float factor = softmax_part_f32(row, filled, scale, running[r]);
        if (filled < seen) std::fill(row + filled, row + seen, 0.0f);
        if (!is_first && factor != 1) scale_row_f32(out + r * row_stride, s_.out_width, factor);
      }
      const Matrix weights = {scores, scores_row, 1};
      if (is_first) {
        multiply(weights, rows, seen, block.values, s_.out_width, out, row_stride);
        continue;
      }
      multiply(weights, rows, seen, block.values, s_.out_width, added, s_.out_width);
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t j = 0; j < s_.out_width; ++j) out[r * row_stride + j] += added[r * s_.out_width + j];
      }
    }
    for (int64_t r = 0; r < rows; ++r) {
      scale_row_f32(out + r * row_stride, s_.out_width, running[r].inverse());
      if (!is_wide) round_row(s_.dtype, out + r * row_stride, s_.out_width, static_cast<uint16_t*>(s_.out.data) + out_begin + r * out_row);
    }
  }

  // c = so many rows of a, `depth` elements each, times `columns` columns of b.
  void multiply(const Matrix& a, int64_t rows, int64_t depth, const Factor& b, int64_t columns, float* c, int64_t c_row) const {
    if (b.narrow.data != nullptr) {
      const ProductForm form = b.narrow.row == 1 ? ProductForm::FewRowsByColumns : ProductForm::FewRowsByRows;
      return multiply_few_rows(form, s_.pool, rows, columns, depth, a, b.narrow, c, c_row);
    }
    if (b.packed.data == nullptr) {
      if (b.wide.column == 1) return multiply_few_rows(ProductForm::FewRowsByRows, s_.pool, rows, columns, depth, a, b.wide, c, c_row);
      return gemm_f32(s_.pool, rows, columns, depth, a, b.wide, {c, c_row, nullptr});
    }
    const float* pointers[kQueries];
    for (int64_t r = 0; r < rows; ++r) pointers[r] = a.at(r, 0);
    multiply_rows({b.packed.depth, b.packed.columns, b.packed.data}, 0, PackedMatrix::panels(columns), RowElements(0, depth), {pointers, static_cast<size_t>(rows)},
                  0, {c, c_row, nullptr});
  }

  AttentionCall s_;
};

}  // namespace

bool can_attend(AttentionForm form, DType dtype) {
  if (form == AttentionForm::Tiles) return dtype == DType::BF16 && has_tiles(TileNumbers::BFloat16);
  return dtype == DType::F32 || is_reduced_float(dtype);
}

void run_attention(const KernelCall& call, AttentionForm form) {
  TOROID_CHECK(can_attend(form, static_cast<DType>(call.outputs[0].dtype)));
  form == AttentionForm::Tiles ? run_attention_tiles(call) : Attention(call).run();
}

void run_attention(const KernelCall& call) {
  const bool in_tiles = can_attend(AttentionForm::Tiles, static_cast<DType>(call.outputs[0].dtype)) && AttentionCall(call).rows() > kFewQueries;
  run_attention(call, in_tiles ? AttentionForm::Tiles : AttentionForm::Widened);
}

}  // namespace toroid
