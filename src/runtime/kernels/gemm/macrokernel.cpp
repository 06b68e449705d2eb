// A block of rows of A and a part of one panel of B stay in the second-level cache while strips of the one meet the other.
#include "runtime/kernels/gemm/macrokernel.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "runtime/kernels/epilogue/post_ops.h"
#include "runtime/memory/scratch.h"

namespace toroid {
namespace {

constexpr int64_t kDepth = 1024;  // of a panel's part: 256 KiB
constexpr int64_t kMostLinesPerFetch = 16;
constexpr int64_t kLinesAhead = 32;  // of what a strip reads itself
constexpr int64_t kStripsPerBlock = 4;
constexpr int64_t kMostScattered = 256;
constexpr int64_t kShortRun = 8;
// Rows this far apart, with something else between them, share few sets of the caches: they are copied to where they do not, if they meet
// several panels.
constexpr int64_t kUnluckyStride = 512;
constexpr int64_t kPanelsWorthACopy = 4;

Scratch scratch_for_block;
Scratch scratch_for_copy;

// Rows cut into strips of nearly the same length, in steps of so many, the longer ones first. Short strips take less time than two
// divisions each.
struct Strips {
  Strips(int64_t rows, int64_t most, int64_t step)
      : rows(rows),
        step(step),
        count((rows + most - 1) / most),
        shorter(steps() / std::max<int64_t>(1, count)),
        longer_ones(steps() - count * shorter) {}
  int64_t first_row(int64_t strip) const { return std::min(rows, (strip * shorter + std::min(strip, longer_ones)) * step); }

  int64_t rows, step, count;
  int64_t shorter, longer_ones;  // in steps

 private:
  int64_t steps() const { return step == 1 ? rows : (rows + 1) / 2; }
};

// Some strips of the rows with one panel, a part of the depth after the other; `out` is of the first of them. What is read next, the
// panel's next part or `after` it, is fetched meanwhile, each strip its share. Where that were too much for so few strips, the first one
// fetches what it reads itself, so far ahead that fetches cross pages, which the processor's own do not.
template <class Element>
void multiply_panel(const PackedBOf<Element>& b, int64_t panel, const RowElements& elements, Span<const Element* const> rows,
                    const Strips& strips, Range some, StripOutputOf<Element> out, bool fetches_ahead, const Element* after) {
  const GemmMicrokernelsOf<Element>& kernels = *b.kernels;
  const int64_t width = b.width(panel), panel_row = b.row(panel);
  // The strip's rows, whose output is `out` then.
  int64_t row = strips.first_row(some.first);
  auto go_to = [&](int64_t strip) {
    const int64_t first = strips.first_row(strip);
    out.data += (first - row) * out.row;
    if (out.residual != nullptr) out.residual += (first - row) * out.finish->residual_row;
    row = first;
    return Range{first, strips.first_row(strip + 1)};
  };
  const int64_t vectors = width / kernels.lanes;
  // Strips that are a row longer have a function if the shorter ones have.
  if (const auto offsets = elements.scattered(); !offsets.empty() && !b.is_in_pairs(panel) && strips.step == 1 &&
                                                 kernels.multiply_scattered[strips.shorter - 1][vectors - 1] != nullptr) {
    const Element* const data = b.part(panel, {0, b.depth});
    for (int64_t s = some.first; s < some.last; ++s) {
      const Range strip = go_to(s);
      kernels.multiply_scattered[strip.size() - 1][vectors - 1](offsets, &rows[static_cast<size_t>(strip.first)], data, out);
    }
    return;
  }
  const Span<const Run> runs = elements.runs();
  int64_t done = 0;  // of the depth
  for (size_t begin = 0; begin < runs.size();) {
    size_t end = begin;
    int64_t depth = 0, fetches = 0;
    do {
      depth += runs[end].length;
      fetches += (runs[end++].length + kStepsPerFetch - 1) / kStepsPerFetch;
    } while (end < runs.size() && depth + runs[end].length <= kDepth);
    const Element* const data = b.part(panel, {done, done + depth});
    const Element* const ahead = end < runs.size() ? data + depth * panel_row : after;
    const int64_t shares = std::max<int64_t>(1, strips.count * fetches);
    const int64_t share_of_next = (depth * panel_row / kCacheLineOf<Element> + shares - 1) / shares;
    const int64_t lines = !fetches_ahead || ahead == nullptr ? 0 : std::min(share_of_next, kMostLinesPerFetch);
    const AheadOf<Element> near = {data + kLinesAhead * kCacheLineOf<Element>, kStepsPerFetch * panel_row / kCacheLineOf<Element>};
    out.add = begin > 0;
    for (int64_t s = some.first; s < some.last; ++s) {
      const Range strip = go_to(s);
      const AheadOf<Element> next = {lines == 0 ? nullptr : ahead + s * fetches * lines * kCacheLineOf<Element>, lines};
      const AheadOf<Element> share = fetches_ahead && s == 0 && share_of_next > kMostLinesPerFetch ? near : next;
      const Span<const Element* const> its_rows = rows.subspan(static_cast<size_t>(strip.first), static_cast<size_t>(strip.size()));
      const Span<const Run> its_runs = runs.subspan(begin, end - begin);
      if (b.is_in_pairs(panel)) {
        kernels.multiply_pairs[strip.size() - 1][b.halves() - 1](its_runs, its_rows.data(), data, out, share);
      } else {
        kernels.multiply_strip(vectors, its_runs, its_rows, data, out, share);
      }
    }
    done += depth;
    begin = end;
  }
}

}  // namespace

template <class Element>
void ProductOutputOf<Element>::take(const Element* block, int64_t block_row, Range rows, Range columns) const {
  if (epilogue != nullptr) {
    const Range whole_rows = {first_row + rows.first, first_row + rows.last};
    const Range whole_columns = {first_column + columns.first, first_column + columns.last};
    if constexpr (std::is_same_v<Element, float>) {
      return run_epilogue(*epilogue, block, block_row, whole_rows, whole_columns);
    } else {
      return epilogue->run(epilogue->argument, block, block_row, whole_rows.first, whole_rows.last, whole_columns.first,
                           whole_columns.last);
    }
  }
  for (int64_t i = rows.first; i < rows.last; ++i, block += block_row) {
    std::memcpy(data + i * row + columns.first, block, static_cast<size_t>(columns.size()) * sizeof(Element));
  }
}

template <class Element>
template <class Stored>
RowBlockOf<Element>::RowBlockOf(const MatrixOf<Stored>& a, int64_t first, int64_t count, int64_t depth, bool copy) {
  pointers_.reserve(static_cast<size_t>(count));
  if constexpr (std::is_same_v<Element, Stored>) {
    if (!copy) {
      for (int64_t i = 0; i < count; ++i) pointers_.push_back(a.at(first + i, 0));
      return;
    }
  }
  const int64_t row = (depth + 15) / 16 * 16 + 16;
  auto* const to = scratch_for_copy.get<Element>(count * row);
  copy_rows(a, {first, first + count}, {0, depth}, to, row);
  for (int64_t i = 0; i < count; ++i) pointers_.push_back(to + i * row);
}

void RowElements::add(int64_t offset, int64_t count) {
  // Long runs are no use element by element.
  is_scattered_ = is_scattered_ && count < kShortRun && static_cast<int64_t>(offsets_.size()) + count <= kMostScattered;
  for (int64_t i = 0; i < count && is_scattered_; ++i) offsets_.push_back(offset + i);
  if (!runs_.empty() && runs_.back().offset + runs_.back().length == offset) {
    offset = runs_.back().offset;
    count += runs_.back().length;
    runs_.pop_back();
  }
  for (; count > kLongestRun; offset += kLongestRun, count -= kLongestRun) runs_.push_back({offset, kLongestRun});
  runs_.push_back({offset, count});
}

Span<const int64_t> RowElements::scattered() const {
  const bool are_short = offsets_.size() < static_cast<size_t>(kShortRun) * runs_.size();
  return is_scattered_ && are_short ? Span<const int64_t>(offsets_) : Span<const int64_t>();
}

template <class Element>
void multiply_rows(const PackedBOf<Element>& b, int64_t first, int64_t last, const RowElements& elements, Span<const Element* const> rows,
                   int64_t first_row, const ProductOutputOf<Element>& out, const FetchingOf<Element>& fetching) {
  const GemmMicrokernelsOf<Element>& kernels = *b.kernels;
  const bool adds_up = b.depth > kDepth;  // parts of the depth
  bool in_registers = false;              // the epilogue
  if constexpr (std::is_same_v<Element, float>) in_registers = !adds_up && is_for_registers(out.epilogue);
  for (int64_t panel = first; panel < last; ++panel) {
    const Element* after = !fetching.is_on ? nullptr : panel + 1 < last ? b.panel(panel + 1) : fetching.after_last;
    const int64_t width = b.width(panel);
    const int64_t column = b.first_column(panel);
    const int64_t columns = std::min(width, b.columns - column);
    const int64_t vectors = width / kernels.lanes;
    const Strips strips = b.is_in_pairs(panel)
                              ? Strips(static_cast<int64_t>(rows.size()), kernels.most_rows_in_pairs[b.halves() - 1], 1)
                              : Strips(static_cast<int64_t>(rows.size()), kernels.most_rows[vectors - 1], kernels.row_step[vectors - 1]);
    if (out.epilogue == nullptr) {
      const StripOutputOf<Element> to = {out.data + first_row * out.row + column, out.row, columns};
      multiply_panel(b, panel, elements, rows, strips, {0, strips.count}, to, fetching.is_on, after);
      continue;
    }
    if constexpr (std::is_same_v<Element, float>) {
      if (in_registers) {
        const ToroidEpilogue part = part_of(*out.epilogue, out.first_row + first_row, out.first_column + column);
        const ToroidPostOps& ops = part.post_ops;
        const StripOutput to = {static_cast<float*>(part.out), ops.out_row, columns, false, &ops, ops.residual};
        multiply_panel(b, panel, elements, rows, strips, {0, strips.count}, to, fetching.is_on, after);
        continue;
      }
    }
    // What passes through a block leaves it while it is in the first-level cache, unless parts of the depth are added up there or packed.
    const int64_t at_once = adds_up || b.pack != nullptr ? strips.count : kStripsPerBlock;
    for (int64_t strip = 0; strip < strips.count; strip += at_once) {
      const Range some = {strip, std::min(strip + at_once, strips.count)};
      const Range here = {first_row + strips.first_row(some.first), first_row + strips.first_row(some.last)};
      auto* block = scratch_for_block.get<Element>(here.size() * width);
      const StripOutputOf<Element> to = {block, width, width};
      multiply_panel(b, panel, elements, rows, strips, some, to, fetching.is_on, after);
      out.take(block, width, here, {column, column + columns});
    }
  }
}

void multiply_rows(const PackedB& b, int64_t first, int64_t last, const RowElements& elements, Span<const float* const> rows,
                   int64_t first_row, const ProductOutput& out, const Fetching& fetching) {
  multiply_rows<float>(b, first, last, elements, rows, first_row, out, fetching);
}

bool pays_to_fetch(int64_t bytes, int64_t times) {
  constexpr int64_t kFewTimes = 4;
  return times <= kFewTimes || bytes > l2_cache_bytes() / 2;
}

template <class Element, class Stored>
void multiply(RuntimePool& pool, const Cut& cut, int64_t m, const MatrixOf<Stored>& a, const PackedBOf<Element>& b, Range panels,
              const ProductOutputOf<Element>& out) {
  const RowElements elements(0, b.depth);
  const int64_t group_bytes =
      panels.size() / cut.groups * gemm_microkernels_of<Element>().panel_width() * b.depth * int64_t{sizeof(Element)};
  const FetchingOf<Element> fetching = {b.pack == nullptr && pays_to_fetch(group_bytes, cut.blocks)};
  for_each_part(pool, m, panels.size(), cut, [&](Range rows, Range some) {
    const bool lies_badly = a.row % kUnluckyStride == 0 && a.row != b.depth && m > 1;
    const bool copy = a.column != 1 || (lies_badly && some.size() >= kPanelsWorthACopy);
    const RowBlockOf<Element> block(a, rows.first, rows.size(), b.depth, copy);
    multiply_rows<Element>(b, panels.first + some.first, panels.first + some.last, elements, block.pointers(), rows.first, out, fetching);
  });
}

void multiply(RuntimePool& pool, const Cut& cut, int64_t m, const Matrix& a, const PackedB& b, Range panels, const ProductOutput& out) {
  multiply<float, float>(pool, cut, m, a, b, panels, out);
}

#define TOROID_PRODUCT(ELEMENT)                                                                                        \
  template struct ProductOutputOf<ELEMENT>;                                                                            \
  template void multiply_rows(const PackedBOf<ELEMENT>& b, int64_t first, int64_t last, const RowElements& elements,   \
                              Span<const ELEMENT* const> rows, int64_t first_row, const ProductOutputOf<ELEMENT>& out, \
                              const FetchingOf<ELEMENT>& fetching);
#define TOROID_PRODUCT_FROM(ELEMENT, STORED)                                                                                   \
  template RowBlockOf<ELEMENT>::RowBlockOf(const MatrixOf<STORED>& a, int64_t first, int64_t count, int64_t depth, bool copy); \
  template void multiply(RuntimePool& pool, const Cut& cut, int64_t m, const MatrixOf<STORED>& a, const PackedBOf<ELEMENT>& b, \
                         Range panels, const ProductOutputOf<ELEMENT>& out);
TOROID_PRODUCT(float)
TOROID_PRODUCT(double)
TOROID_PRODUCT(uint32_t)
TOROID_PRODUCT(uint64_t)
TOROID_PRODUCT_FROM(float, float)
TOROID_PRODUCT_FROM(double, double)
TOROID_PRODUCT_FROM(uint64_t, uint64_t)
TOROID_PRODUCT_FROM(uint32_t, uint32_t)
TOROID_PRODUCT_FROM(uint32_t, int16_t)
TOROID_PRODUCT_FROM(uint32_t, uint16_t)
TOROID_PRODUCT_FROM(uint32_t, int8_t)
TOROID_PRODUCT_FROM(uint32_t, uint8_t)

}  // namespace toroid
