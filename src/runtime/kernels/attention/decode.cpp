// As attention.cpp, with keys and values that are read once, where they lie: to read them from memory is what takes the time. Rows of
// 16 bits become floats in registers, or go into tiles as they are.
#include "runtime/kernels/attention/decode.h"

#include <algorithm>
#include <type_traits>

#include "runtime/kernels/attention/decode_amx.h"
#include "runtime/kernels/attention/split_kv.h"
#include "runtime/memory/scratch.h"

namespace toroid {
namespace {

constexpr int64_t kKeys = 256;  // at a time
constexpr int64_t kPartKeys = 512;
constexpr int64_t kMostByVectors = 16;  // queries; with more, packing pays
constexpr int64_t kMostOfFloat16 = 8;   // to widen it costs more
constexpr int64_t kFewestInTiles = 5;   // queries: with fewer, vectors wait less for memory
static_assert(kPartKeys % kKeys == 0 && kKeys % kManyKeys == 0);

Scratch scratch_for_queries, scratch_for_sums;

// How rows of elements meet a few queries, by vectors or in tiles: what AttentionOfFew does not do itself.
template <class E>
class ByVectors {
 public:
  using Element = E;
  struct Registers {};

  explicit ByVectors(const AttentionCall& call)
      : s_(call),
        loops_(*few_query_loops<E>(std::min(call.width, call.out_width))),
        keys_(loops_.pieces(call.width)),
        values_(loops_.pieces(call.out_width)) {}

  int64_t rows() const { return s_.rows(); }
  int64_t query_floats() const { return rows() * keys_.floats(); }
  int64_t sums_row() const { return values_.floats(); }

  // In the order of the pieces; elements that are there twice are 0 the second time.
  void copy_queries(const AttentionCall::Rows& rows, float* to) const {
    const int64_t column = s_.q.strides[s_.dims + 1];
    std::fill_n(to, query_floats(), 0.0f);
    for (int64_t row = 0; row < this->rows(); ++row, to += keys_.floats()) {
      const E* from = static_cast<const E*>(s_.q.data) + rows.begin + row * rows.step;
      keys_.for_each_run([&](int64_t element, int64_t place, int64_t count) {
        const E* begin = from + element * column;
        if constexpr (std::is_same_v<E, float>) {
          if (column == 1) return void(std::copy_n(begin, count, to + place));
        }
        for (int64_t i = 0; i < count; ++i) to[place + i] = static_cast<float>(begin[i * column * kVectorsOfPiece<E>]);
      });
    }
  }
  void scores(const float* queries, const KeyBlock<E>& keys, float* scores, int64_t scores_row) const {
    for_groups([&](size_t which, int64_t row) {
      loops_.scores[which](keys_, queries + row * keys_.floats(), keys, scores + row * scores_row, scores_row);
    });
  }
  void add(const float* weights, int64_t weights_row, const KeyBlock<E>& values, float* sums) const {
    for_groups([&](size_t which, int64_t row) {
      loops_.add[which](values_, weights + row * weights_row, weights_row, values, sums + row * sums_row());
    });
  }
  void copy_sums(const float* sums, float* to) const {
    values_.for_each_run([&](int64_t element, int64_t place, int64_t count) {
      if constexpr (kVectorsOfPiece<E> == 1) return void(std::copy_n(sums + place, count, to + element));
      for (int64_t i = 0; i < count; ++i) to[element + i * kVectorsOfPiece<E>] = sums[place + i];
    });
  }

 private:
  // Calls f(which, row) for groups of 1, 2 or 4 rows.
  template <class F>
  void for_groups(const F& f) const {
    for (int64_t row = 0; row < rows();) {
      const int64_t most = std::min(rows() - row, loops_.most_queries);
      const size_t which = most >= 4 ? 2 : most >= 2 ? 1 : 0;
      f(which, row);
      row += int64_t{1} << which;
    }
  }

  const AttentionCall& s_;
  const FewQueryLoops<E>& loops_;
  RowPieces keys_, values_;
};

class InTiles {
 public:
  using Element = BFloat16;
  using Registers = TileRegisters;

  explicit InTiles(const AttentionCall& call) : s_(call), products_(call.rows(), call.width, call.out_width) {}

  int64_t rows() const { return products_.rows(); }
  int64_t query_floats() const { return products_.query_bytes() / kWordBytes; }
  int64_t sums_row() const { return s_.out_width; }

  void copy_queries(const AttentionCall::Rows& rows, float* to) const {
    const TileMatrix queries = {static_cast<const BFloat16*>(s_.q.data) + rows.begin, rows.step, s_.q.strides[s_.dims + 1]};
    products_.pack_queries(queries, reinterpret_cast<std::byte*>(to));
  }
  void scores(const float* queries, const KeyBlock<BFloat16>& keys, float* scores, int64_t scores_row) const {
    products_.scores(reinterpret_cast<const std::byte*>(queries), keys, scores, scores_row);
  }
  void add(const float* weights, int64_t weights_row, const KeyBlock<BFloat16>& values, float* sums) const {
    products_.add(weights, weights_row, values, sums);
  }
  void copy_sums(const float* sums, float* to) const { std::copy_n(sums, s_.out_width, to); }

 private:
  const AttentionCall& s_;
  FewQueriesInTiles products_;
};

template <class Products>
class AttentionOfFew {
 public:
  explicit AttentionOfFew(const AttentionCall& call) : s_(call), products_(call) {}

  void run() const {
    AttentionParts parts(s_, {kMostRows, kPartKeys});
    parts.for_each([&](const AttentionTask& task) { run_task(task, parts); });
  }

 private:
  using Element = typename Products::Element;
  static constexpr int64_t kMostRows = std::max(kMostByVectors, kMostQueriesInTiles);

  KeyRows<Element> rows_of(const ToroidOperand& operand, int64_t batch, int64_t first) const {
    const int64_t row = operand.strides[s_.dims];
    return {static_cast<const Element*>(operand.data) + s_.begin_of(operand, batch) + first * row, row};
  }

  void run_task(const AttentionTask& task, AttentionParts& parts) const {
    [[maybe_unused]] const typename Products::Registers registers;
    const int64_t rows = products_.rows(), sums_row = products_.sums_row(), scores_row = padded_stride(kKeys);
    float* queries = scratch_for_queries.get(products_.query_floats());
    float* sums = scratch_for_sums.get(rows * (sums_row + scores_row) + s_.out_width);
    float* scores = sums + rows * sums_row;
    products_.copy_queries(s_.rows_of(s_.q, task.batch), queries);
    std::fill_n(sums, rows * sums_row, 0.0f);
    RunningSoftmax running[kMostRows];
    for (int64_t first = task.first_key; first < task.last_key; first += kKeys) {
      const int64_t count = std::min(kKeys, task.last_key - first);
      products_.scores(queries, {rows_of(s_.k, task.batch, first), count}, scores, scores_row);
      for (int64_t row = 0; row < s_.rows(); ++row)
        weigh(task, row, first, count, scores + row * scores_row, running[row], sums + row * sums_row);
      products_.add(scores, scores_row, {rows_of(s_.v, task.batch, first), count}, sums);
    }
    float* result = scores + rows * scores_row;
    for (int64_t row = 0; row < s_.rows(); ++row) {
      products_.copy_sums(sums + row * sums_row, result);
      parts.finish(task, row, result, running[row]);
    }
  }

  // Scores become weights, and the sums so far such as these are added to.
  void weigh(const AttentionTask& task, int64_t row, int64_t first, int64_t count, float* scores, RunningSoftmax& running,
             float* sums) const {
    const int64_t limit = s_.limit(row, first, count);
    const float scale = s_.apply_mask(task.batch, row, first, scores, limit);
    const float factor = softmax_part_f32(scores, limit, scale, running);
    std::fill(scores + limit, scores + count, 0.0f);
    if (factor != 1) scale_row_f32(sums, products_.sums_row(), factor);
  }

  const AttentionCall& s_;
  Products products_;
};

bool takes_in_tiles(DType dtype, int64_t rows, int64_t width, int64_t out_width) {
  auto fits = [](int64_t x) { return x > 0 && x % kStepElements == 0; };
  const bool are_some = rows >= kFewestInTiles && rows <= kMostQueriesInTiles;
  return dtype == DType::BF16 && has_amx() && are_some && fits(width) && fits(out_width);
}

template <class F>
auto with_element(DType dtype, const F& f) {
  if (dtype == DType::BF16) return f(BFloat16());
  if (dtype == DType::F16) return f(Float16());
  return f(float());
}

}  // namespace

bool takes_few_queries(DType dtype, int64_t rows, int64_t width, int64_t out_width) {
  auto has_loops = [&](auto element) { return few_query_loops<decltype(element)>(std::min(width, out_width)) != nullptr; };
  return takes_in_tiles(dtype, rows, width, out_width) ||
         (rows <= (dtype == DType::F16 ? kMostOfFloat16 : kMostByVectors) && with_element(dtype, has_loops));
}

void run_attention_of_few(const KernelCall& call) {
  const AttentionCall s(call);
  if (takes_in_tiles(s.dtype, s.rows(), s.width, s.out_width)) return AttentionOfFew<InTiles>(s).run();
  with_element(s.dtype, [&](auto element) { AttentionOfFew<ByVectors<decltype(element)>>(s).run(); });
}

}  // namespace toroid
