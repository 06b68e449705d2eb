// Attention in tiles: the scores of some queries with a block of keys, their softmax so far, and its product with the block's values. Source: Dao
// et al., "FlashAttention", 2022.
#include <algorithm>
#include <cmath>
#include <vector>

#include "graph/dtype.h"
#include "runtime/few_rows.h"
#include "runtime/gemm.h"
#include "runtime/library.h"
#include "runtime/operands.h"
#include "runtime/scratch.h"
#include "runtime/softmax.h"

namespace toroid {
namespace {

constexpr int64_t kQueries = 48;       // at a time
constexpr int64_t kKeys = 1024;        // at a time: their scores with the queries take 192 KiB
constexpr int64_t kFewQueries = 4;     // read keys and values where they lie

thread_local Scratch scratch_for_keys, scratch_for_values, scratch_for_scores;

class Attention {
 public:
  explicit Attention(const KernelCall& call)
      : call_(call), q_(call.inputs[0]), k_(call.inputs[1]), v_(call.inputs[2]), mask_(call.inputs.size() > 3 ? &call.inputs[3] : nullptr),
        out_(call.outputs[0]), dims_(q_.rank - 2), queries_(q_.sizes[dims_]), keys_(k_.sizes[dims_]), width_(q_.sizes[dims_ + 1]),
        out_width_(v_.sizes[dims_ + 1]), causal_(call.integers[0] != 0), scale_(static_cast<float>(call.numbers[0])) {}

  void run() const {
    const int64_t batches = product(q_.sizes, dims_);
    const int64_t blocks = (queries_ + kQueries - 1) / kQueries;
    if (batches == 0 || blocks == 0 || out_width_ == 0) return;
    // A head's keys are packed by each task that has some of its queries.
    const int64_t parts = std::clamp<int64_t>(2 * call_.pool.threads() / batches, 1, blocks);
    call_.pool.parallel_for(batches * parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t part = task % parts;
        run_queries(task / parts, queries_ * part / parts, queries_ * (part + 1) / parts);
      }
    });
  }

 private:
  Matrix matrix_of(const ToroidOperand& operand, int64_t batch) const {
    return {data_of(operand) + batch_offset(operand, dims_, batch), operand.strides[dims_], operand.strides[dims_ + 1]};
  }

  // A block of keys (turned) and values.
  struct Block {
    int64_t first, count;
    Matrix keys, values;
    PackedMatrix packed_keys, packed_values;   // without data where they are read in their place
  };

  void run_queries(int64_t batch, int64_t begin, int64_t end) const {
    const Matrix q = matrix_of(q_, batch), k = matrix_of(k_, batch), v = matrix_of(v_, batch);
    const bool packs = end - begin > kFewQueries && q.column == 1;
    const int64_t seen = causal_ ? std::min(keys_, end) : keys_;
    std::vector<Block> blocks;
    float* keys = packs ? scratch_for_keys.get(PackedMatrix::size(width_, seen + kKeys)) : nullptr;
    float* values = packs ? scratch_for_values.get(PackedMatrix::size(seen, out_width_)) : nullptr;
    for (int64_t first = 0; first < seen; first += kKeys) {
      const int64_t count = std::min(kKeys, seen - first);
      Block block = {first, count, {k.at(first, 0), k.column, k.row}, {v.at(first, 0), v.row, v.column}, {width_, count, keys}, {count, out_width_, values}};
      if (packs) {
        pack_panels(block.keys, width_, count, 0, PackedMatrix::panels(count), keys);
        pack_panels(block.values, count, out_width_, 0, PackedMatrix::panels(out_width_), values);
        keys += PackedMatrix::size(width_, count);
        values += PackedMatrix::size(count, out_width_);
      }
      blocks.push_back(block);
    }
    for (int64_t first = begin; first < end; first += kQueries) run_tile(batch, q, blocks, first, std::min(kQueries, end - first));
  }

  void run_tile(int64_t batch, const Matrix& q, const std::vector<Block>& blocks, int64_t first, int64_t rows) const {
    float* scores = scratch_for_scores.get(kQueries * kKeys + kQueries * out_width_);
    float* added = scores + kQueries * kKeys;
    const Matrix out = matrix_of(out_, batch);
    RunningSoftmax running[kQueries];
    for (int64_t r = 0; r < rows; ++r) std::fill_n(data_of(out, first + r), out_width_, 0.0f);
    for (const Block& block : blocks) {
      // Queries of this tile see no key past the last one's position.
      const int64_t seen = causal_ ? std::min(block.count, first + rows - block.first) : block.count;
      if (seen <= 0) break;
      multiply(q, first, rows, width_, block.keys, block.packed_keys, seen, scores, kKeys);
      const bool is_first = block.first == 0;
      for (int64_t r = 0; r < rows; ++r) {
        float* row = scores + r * kKeys;
        const int64_t limit = causal_ ? std::clamp<int64_t>(first + r + 1 - block.first, 0, seen) : seen;
        float scale = scale_;
        if (mask_ != nullptr) {
          apply_mask(batch, first + r, block.first, row, limit);
          scale = 1;
        }
        const float factor = softmax_part_f32(row, limit, scale, running[r]);
        std::fill(row + limit, row + seen, 0.0f);
        if (!is_first && factor != 1) scale_row_f32(data_of(out, first + r), out_width_, factor);
      }
      const Matrix weights = {scores, kKeys, 1};
      if (is_first) {
        multiply(weights, 0, rows, seen, block.values, block.packed_values, out_width_, data_of(out, first), out.row);
        continue;
      }
      multiply(weights, 0, rows, seen, block.values, block.packed_values, out_width_, added, out_width_);
      for (int64_t r = 0; r < rows; ++r) {
        float* to = data_of(out, first + r);
        for (int64_t j = 0; j < out_width_; ++j) to[j] += added[r * out_width_ + j];
      }
    }
    for (int64_t r = 0; r < rows; ++r) scale_row_f32(data_of(out, first + r), out_width_, running[r].inverse());
  }

  static float* data_of(const ToroidOperand& operand) { return toroid::data_of(operand); }
  static float* data_of(const Matrix& out, int64_t row) { return const_cast<float*>(out.at(row, 0)); }

  // c = rows [first, first + rows) of a, `depth` elements each, times `columns` columns of b.
  void multiply(const Matrix& a, int64_t first, int64_t rows, int64_t depth, const Matrix& b, const PackedMatrix& packed, int64_t columns, float* c,
                int64_t c_row) const {
    if (packed.data == nullptr) return gemm_f32(call_.pool, rows, columns, depth, {a.at(first, 0), a.row, a.column}, b, {c, c_row, nullptr});
    std::vector<Run> runs;
    add_runs(runs, 0, depth);
    const float* pointers[kQueries];
    for (int64_t r = 0; r < rows; ++r) pointers[r] = a.at(first + r, 0);
    multiply_rows({packed.depth, packed.columns, packed.data}, 0, PackedMatrix::panels(columns), runs, {pointers, static_cast<size_t>(rows)}, 0,
                  {c, c_row, nullptr});
  }

  // scale * score + mask, or -inf where a mask of Bools forbids.
  void apply_mask(int64_t batch, int64_t query, int64_t first_key, float* row, int64_t count) const {
    const int64_t step = mask_->sizes[mask_->rank - 1] == 1 ? 0 : mask_->strides[mask_->rank - 1];
    const int64_t at = mask_offset(batch, query) + first_key * step;
    if (static_cast<DType>(mask_->dtype) == DType::Bool) {
      const auto* allowed = static_cast<const uint8_t*>(mask_->data) + at;
      for (int64_t j = 0; j < count; ++j) row[j] = allowed[j * step] ? row[j] * scale_ : -HUGE_VALF;
    } else {
      const float* added = data_of(*mask_) + at;
      for (int64_t j = 0; j < count; ++j) row[j] = row[j] * scale_ + added[j * step];
    }
  }

  // A position in the mask; its sizes of 1 repeat.
  int64_t mask_offset(int64_t batch, int64_t row) const {
    int64_t offset = 0;
    for (int32_t d = dims_; d-- > 0;) {
      const int64_t index = batch % q_.sizes[d];
      batch /= q_.sizes[d];
      const int32_t mine = d - (q_.rank - mask_->rank);
      if (mine >= 0 && mask_->sizes[mine] != 1) offset += index * mask_->strides[mine];
    }
    const int32_t rows = mask_->rank - 2;
    if (rows >= 0 && mask_->sizes[rows] != 1) offset += row * mask_->strides[rows];
    return offset;
  }

  const KernelCall& call_;
  const ToroidOperand& q_;
  const ToroidOperand& k_;
  const ToroidOperand& v_;
  const ToroidOperand* mask_;
  const ToroidOperand& out_;
  int32_t dims_;
  int64_t queries_, keys_, width_, out_width_;
  bool causal_;
  float scale_;
};

}  // namespace

void run_attention_f32(const KernelCall& call) { Attention(call).run(); }

}  // namespace toroid
