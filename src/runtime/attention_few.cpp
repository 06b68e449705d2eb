// As attention.cpp, with keys and values that are read once, where they lie: to read them from memory is what takes the time. Rows of 16 bits become
// floats in registers.
#include "runtime/attention_few.h"

#include <algorithm>

#include "runtime/attention_parts.h"
#include "runtime/few_queries.h"
#include "runtime/scratch.h"

namespace toroid {
namespace {

constexpr int64_t kKeys = 256;         // at a time
constexpr int64_t kPartKeys = 512;
static_assert(kPartKeys % kKeys == 0 && kKeys % kManyKeys == 0);

thread_local Scratch scratch_for_queries, scratch_for_sums;

template <class Element>
class AttentionOfFew {
 public:
  explicit AttentionOfFew(const AttentionCall& call)
      : s_(call), loops_(*few_query_loops<Element>(std::min(call.width, call.out_width))), key_pieces_(loops_.pieces(call.width)), value_pieces_(loops_.pieces(call.out_width)) {}

  void run() const {
    AttentionParts parts(s_, {kFewQueries, kPartKeys});
    parts.for_each([&](const AttentionTask& task) { run_task(task, parts); });
  }

 private:
  KeyRows<Element> rows_of(const ToroidOperand& operand, int64_t batch, int64_t first) const {
    const int64_t row = operand.strides[s_.dims];
    return {static_cast<const Element*>(operand.data) + s_.begin_of(operand, batch) + first * row, row};
  }

  // Calls f(which, row) for groups of 1, 2 or 4 of so many rows.
  template <class F>
  static void for_groups(int64_t rows, const F& f) {
    for (int64_t row = 0; row < rows;) {
      const size_t which = rows - row >= 4 ? 2 : rows - row >= 2 ? 1 : 0;
      f(which, row);
      row += int64_t{1} << which;
    }
  }

  void run_task(const AttentionTask& task, AttentionParts& parts) const {
    const int64_t rows = task.last_row - task.first_row, query_row = key_pieces_.floats(), sums_row = value_pieces_.floats();
    const int64_t scores_row = odd_lines(kKeys);
    float* queries = scratch_for_queries.get(rows * query_row);
    float* sums = scratch_for_sums.get(rows * (sums_row + scores_row) + s_.out_width);
    float* scores = sums + rows * sums_row;
    copy_queries(task, queries);
    std::fill_n(sums, rows * sums_row, 0.0f);
    RunningSoftmax running[kFewQueries];
    for (int64_t first = task.first_key; first < task.last_key; first += kKeys) {
      const int64_t count = std::min(kKeys, task.last_key - first), next = std::min(first + kKeys, s_.keys - 1);
      const KeyRows<Element> values = rows_of(s_.v, task.batch, first);
      const KeyBlock<Element> key_block = {rows_of(s_.k, task.batch, first), count, values};
      const KeyBlock<Element> value_block = {values, count, rows_of(s_.k, task.batch, next)};
      for_groups(rows, [&](size_t which, int64_t row) {
        loops_.scores[which](key_pieces_, queries + row * query_row, key_block, scores + row * scores_row, scores_row);
      });
      for (int64_t row = 0; row < rows; ++row) weigh(task, row, first, count, scores + row * scores_row, running[row], sums + row * sums_row);
      for_groups(rows, [&](size_t which, int64_t row) {
        loops_.add[which](value_pieces_, scores + row * scores_row, scores_row, value_block, sums + row * sums_row);
      });
    }
    float* result = scores + rows * scores_row;
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t e = 0; e < s_.out_width; ++e) result[e] = sums[row * sums_row + value_pieces_.place(e)];
      parts.finish(task, task.first_row + row, result, running[row]);
    }
  }

  // In the order of the pieces; elements that are there twice are 0 the second time.
  void copy_queries(const AttentionTask& task, float* to) const {
    const AttentionCall::Rows rows = s_.rows_of(s_.q, task.batch);
    const int64_t column = s_.q.strides[s_.dims + 1], row_floats = key_pieces_.floats();
    std::fill_n(to, (task.last_row - task.first_row) * row_floats, 0.0f);
    for (int64_t row = task.first_row; row < task.last_row; ++row, to += row_floats) {
      const Element* from = static_cast<const Element*>(s_.q.data) + rows.begin + row * rows.step;
      for (int64_t e = 0; e < s_.width; ++e) to[key_pieces_.place(e)] = static_cast<float>(from[e * column]);
    }
  }

  // Scores become weights, and the sums so far such as these are added to.
  void weigh(const AttentionTask& task, int64_t row, int64_t first, int64_t count, float* scores, RunningSoftmax& running, float* sums) const {
    const int64_t limit = s_.limit(task.first_row + row, first, count);
    const float scale = s_.apply_mask(task.batch, task.first_row + row, first, scores, limit);
    const float factor = softmax_part_f32(scores, limit, scale, running);
    std::fill(scores + limit, scores + count, 0.0f);
    if (factor != 1) scale_row_f32(sums, value_pieces_.floats(), factor);
  }

  const AttentionCall& s_;
  const FewQueryLoops<Element>& loops_;
  RowPieces key_pieces_, value_pieces_;
};

template <class F>
auto with_element(DType dtype, const F& f) {
  if (dtype == DType::BF16) return f(BFloat16());
  if (dtype == DType::F16) return f(Float16());
  return f(float());
}

}  // namespace

bool takes_few_queries(DType dtype, int64_t rows, int64_t width, int64_t out_width) {
  auto has_loops = [&](auto element) { return few_query_loops<decltype(element)>(std::min(width, out_width)) != nullptr; };
  return rows <= kFewQueries && with_element(dtype, has_loops);
}

bool takes_few_queries(const KernelCall& call) {
  const AttentionCall s(call);
  return s.k.strides[s.dims + 1] == 1 && s.v.strides[s.dims + 1] == 1 && takes_few_queries(s.dtype, s.rows(), s.width, s.out_width);
}

void run_attention_of_few(const KernelCall& call) {
  const AttentionCall s(call);
  with_element(s.dtype, [&](auto element) { AttentionOfFew<decltype(element)>(s).run(); });
}

}  // namespace toroid
