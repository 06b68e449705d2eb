// The kernels of orders on a GPU: which sorts, selections and searches they take, and how their work is divided.
//
// A row that fits a block's shared memory is sorted there, in one launch. Longer ones, and those whose length is not a number, are sorted
// by a pass over memory for each digit of 8 bits (Adinets and Merrill, Onesweep, 2022). The first few elements of rows, or one of them, are
// selected without a sort. All are stable, and give the same result in every call.
#pragma once

#include <span>
#include <string_view>

#include "schedule/schedule.h"

namespace toroid::schedule {

// CallStep::choice; without one the runtime computes the call, on the host.
inline constexpr std::string_view kSortRows = "sort-rows", kRadixSort = "radix-sort", kRadixSelect = "radix-select",
                                  kBinarySearch = "binary-search", kCompaction = "compaction", kSortRange = "sort-range";

// `most_shared`: bytes of shared memory that a block may have. Where a sort needs more, it is not one of these.
std::string_view order_choice(const loop::LoopProgram& program, const CallStep& step, int64_t most_shared = 227 << 10);

// Rows along a dim: `count` of them, whose elements are `stride` apart.
struct OrderedRows {
  sym::Expr length, stride, count;
};
OrderedRows rows_along(std::span<const sym::Expr> sizes, size_t dim);

// Blocks that sort a row each.
struct RowSort {
  int threads, items;  // of a thread
  int64_t shared_bytes;
};
RowSort row_sort(DType dtype, int64_t length);
// One row of 16-bit keys, which a block sorts for each high byte.
inline constexpr int64_t kLongestRange = 32768, kRangeBlocks = 256;
RowSort range_sort(int64_t length);

// As in codegen/cuda/prelude/sort.inc.
inline constexpr int kSortThreads = 512, kSortTile = kSortThreads * 16, kDigitValues = 256, kCountedTiles = 8, kTileOfBools = 4096;
int64_t shared_bytes_of_radix_sort(DType dtype);

// In 32-bit words: histograms, then what begins as zeros with them; where keys and positions begin, and how long a set of them is.
struct SortWorkspace {
  sym::Expr histograms, cleared, keys, pairs, all;
};
// `whole`: rows are sorted whole, so the results have room for a set of keys and positions. Else there is a second one.
SortWorkspace sort_workspace(DType dtype, const OrderedRows& rows, bool whole);

// Blocks that select from a row each. Threads load packs of `vector` elements, and keep the extreme of each group of them.
struct RowSelection {
  int threads, vector;
  int groups, packs_of_group;  // of a thread
  int blocks_at_once;          // of a multiprocessor: registers for so many, whose rows are under way together
};
RowSelection row_selection(DType dtype, sym::Expr length, bool aligned);

// Gives calls with a choice the memory that it needs besides: a temporary, the last of their results.
void add_workspace(loop::LoopProgram& program, CallStep& step);
// The results but for that memory.
std::span<const BufferId> results_of(const CallStep& step);

}  // namespace toroid::schedule
