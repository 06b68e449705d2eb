// One row or a few read the numbers where they lie. More rows meet panels that are widened for all of them.
#include "runtime/kernels/gemm/int4/gemm.h"

#include <atomic>
#include <cstring>
#include <vector>

#include "base/fields.h"
#include "runtime/kernels/epilogue/post_ops.h"
#include "runtime/kernels/gemm/int4/groups_amx.h"
#include "runtime/kernels/gemm/int4/packed_b.h"
#include "runtime/kernels/gemm/int8/weight_product.h"
#include "runtime/kernels/gemm/macrokernel.h"
#include "runtime/kernels/registry/operands.h"

namespace toroid {
namespace {

Scratch scratch_for_rows, scratch_for_panel, scratch_for_sums, scratch_for_block, scratch_for_tile, scratch_for_matrix;

// Of numbers, scales and zero points at these strides.
struct Int4Layout {
  int64_t k, n, groups;
  const void *scales, *zeros;
  int64_t strides[3][2];
  TOROID_COMPARED_FIELDS(Int4Layout, k, n, groups, scales, zeros, strides)
};

// The weights are the same for all the batch.
Int4Sizes sizes_of(const KernelCall& call) {
  const ToroidOperand &a = call.inputs[0], &c = call.outputs[0];
  return {product(c.sizes, c.rank - 1), c.sizes[c.rank - 1], a.sizes[a.rank - 1], call.inputs[2].sizes[0], dtype_of(a)};
}

void pack_tile(const KernelCall& call, const Int4Matrix& b, int64_t tile, float* to) {
  const ToroidOperand& numbers = call.inputs[1];
  const int64_t first = tile * kTileSide, columns = std::min(kTileSide, b.n - first);
  std::memset(to, 0, static_cast<size_t>(b.tile_size()) * sizeof(float));
  for (int64_t group = 0; group < b.groups; ++group) {
    for (int64_t which : {0, 1}) {
      const ToroidOperand& from = call.inputs[static_cast<size_t>(2 + which)];
      for (int64_t j = 0; j < columns; ++j) *to++ = data_of(from)[group * from.strides[0] + (first + j) * from.strides[1]];
      to += kTileSide - columns;
    }
  }
  auto* words = reinterpret_cast<uint32_t*>(to);
  for (int64_t j = 0; j < columns; ++j) {
    const uint8_t* from = static_cast<const uint8_t*>(numbers.data) + (first + j) * numbers.strides[0];
    for (int64_t p = 0; p < b.k; ++p) {
      const uint32_t number = from[p / 2 * numbers.strides[1]] >> (p % 2 * 4) & 15u;
      words[p / 8 * kTileSide + j] |= number << (p % 8 * 4);
    }
  }
}

// ---- numbers before scales

// The sums of groups of each row, by which their zero points are multiplied: [row][group], or of whole rows, where nobody asks for more.
// Null where numbers cannot be multiplied without scales: where sums may overflow, or are not finite.
const float* sums_of_groups(const KernelCall& call, const Int4Sizes& s, int64_t groups, const FloatRows& a) {
  constexpr float kLargest = 0x1p120f;
  float* sums = scratch_for_sums.get(s.m * groups);
  std::atomic<bool> fit = true;
  call.pool.parallel_for(s.m, 16, [&](int64_t begin, int64_t end) {
    float* copy = scratch_for_tile.get(s.k);
    for (int64_t i = begin; i < end; ++i) {
      const float* row = a.row(i, s.k, copy);
      for (int64_t group = 0; group < groups; ++group) {
        const auto [sum, magnitude] = int4_loops().sum(row + group * (s.k / groups), s.k / groups);
        sums[i * groups + group] = sum;
        if (!(magnitude < kLargest)) fit = false;
      }
    }
  });
  return fit ? sums : nullptr;
}

void read_numbers(const KernelCall& call, const Int4Sizes& s, const Int4Matrix& b, const FloatRows& a, const float* group_sums,
                  const ProductOutput& out) {
  float* copies = scratch_for_rows.get(s.m * s.k);
  std::vector<const float*> rows;
  for (int64_t i = 0; i < s.m; ++i) rows.push_back(a.row(i, s.k, copies + i * s.k));
  const int64_t panels = (s.n + kPanelColumns - 1) / kPanelColumns;
  call.pool.parallel_for(panels, 1, [&](int64_t begin, int64_t end) {
    float* block = scratch_for_block.get(s.m * kPanelColumns + kReadBeyond);
    for (int64_t panel = begin; panel < end; ++panel) {
      const int64_t column = panel * kPanelColumns, last = std::min(column + kPanelColumns, s.n);
      for (int64_t tile = 0; tile < tiles_of(last - column); ++tile) {
        for (int64_t i = 0; i < s.m; i += Int4Loops::kMostRows) {
          const int64_t count = std::min(Int4Loops::kMostRows, s.m - i);
          int4_loops().multiply_rows[count - 1](b, panel * kPanelTiles + tile, &rows[static_cast<size_t>(i)], group_sums + i * b.groups,
                                                block + i * kPanelColumns + tile * kTileSide, kPanelColumns);
        }
      }
      out.take(block, kPanelColumns, {0, s.m}, {column, last});
    }
  });
}

// ---- tiles

struct Int4Tiles {
  Int4Matrix matrix;
  static constexpr int64_t kStepLines = kStepElements / Int4Matrix::kWordNumbers;

  const std::byte* at(int64_t tile, int64_t step) const {
    return reinterpret_cast<const std::byte*>(matrix.words(tile)) + step * kStepLines * kTileRowBytes;
  }
  void widen(int64_t tile, Range steps, std::byte* to) const { widen_int4_tiles(matrix, tile, steps, to); }
};

struct GroupsProduct {
  const Int4Matrix& right;
  int64_t parts;

  int64_t tile_bytes() const { return parts * right.steps() * kTileBytes; }
  int64_t left_bytes() const { return tile_bytes() + right.groups * kTileRowBytes; }  // with the sums of 16 rows for each group

  // A part of the depth at a time, of which a tile of rows and the widened columns of a panel stay in the first-level cache.
  void multiply(const TileBlock& block) const {
    constexpr int64_t kSteps = 4;
    static_assert(Int4Strip::kRow == kPanelColumns);
    const int64_t steps_of_group = std::max<int64_t>(right.group / kStepElements, 1);
    auto* const wide = reinterpret_cast<std::byte*>(scratch_for_wide_tiles.get(kPanelTiles * kSteps * kTileBytes / kWordBytes));
    for (int64_t done = 0; done < right.steps(); done += kSteps) {
      const Range some = {done, std::min(done + kSteps, right.steps())};
      for (int64_t j = block.first_column; j < block.last_column; ++j)
        widen_int4_numbers(right, j, some, wide + (j - block.first_column) * kSteps * kTileBytes);
      for (int64_t i = 0; i < block.row_tiles; ++i) {
        const std::byte* const rows = block.left + i * left_bytes();
        multiply_int4_groups({rows + done * kTileBytes, parts, right.steps() * kTileBytes, wide, block.last_column - block.first_column,
                              kSteps * kTileBytes, some.first, some.last, steps_of_group, right.groups, some.last == right.steps(),
                              right.scales(block.first_column, 0), right.tile_size(),
                              right.has_whole_zeros ? nullptr : reinterpret_cast<const float*>(rows + tile_bytes()),
                              block.sums + i * kTileSide * kPanelColumns});
      }
    }
  }
};

void multiply_in_groups(const KernelCall& call, const Int4Sizes& s, const Int4Matrix& b, const FloatRows& a, const float* group_sums,
                        const ProductOutput& out) {
  const GroupsProduct product = {b, a.parts()};
  auto pack = [&](int64_t first, int64_t count, std::byte* out) {
    pack_rows_in_parts(a, first, count, s.k, out);
    if (b.has_whole_zeros) return;
    auto* sums = reinterpret_cast<float*>(out + product.tile_bytes());
    for (int64_t group = 0; group < b.groups; ++group) {
      for (int64_t i = 0; i < kTileSide; ++i) *sums++ = i < count ? group_sums[(first + i) * b.groups + group] : 0;
    }
  };
  for_each_tile_block(
      call.pool, s.m, s.n, product.left_bytes(), pack, [&](const TileBlock& block) { product.multiply(block); }, out);
}

void multiply_in_tiles(const KernelCall& call, const Cut&, const Int4Sizes& s, const Int4Matrix& b, const FloatRows& a,
                       const ProductOutput& out) {
  const NarrowProduct<Int4Tiles> product = {Int4Tiles{b}, b.steps(), 1};
  auto pack = [&](int64_t first, int64_t count, std::byte* out) { pack_rows_in_parts(a, first, count, s.k, out); };
  for_each_tile_block(
      call.pool, s.m, s.n, b.steps() * kTileBytes, pack, [&](const TileBlock& block) { product.multiply(block); }, out);
}

// ---- panels

// Columns of the matrix as float32, `width` of them, of which those beyond the last are whatever a tile has there.
void widen_columns(const Int4Matrix& b, int64_t column, int64_t width, float* out) {
  for (int64_t done = 0; done < width;) {
    const int64_t tile = (column + done) / kTileSide, offset = (column + done) % kTileSide,
                  count = std::min(kTileSide - offset, width - done);
    if (count == kTileSide) {
      int4_loops().widen_rows(b, tile, {0, b.k}, out + done, width);
    } else {
      float* whole = scratch_for_tile.get(b.k * kTileSide);
      int4_loops().widen_rows(b, tile, {0, b.k}, whole, kTileSide);
      for (int64_t p = 0; p < b.k; ++p) std::copy_n(whole + p * kTileSide + offset, count, out + p * width + done);
    }
    done += count;
  }
}

struct Rows {
  Rows(const FloatRows& a, Range some, int64_t k) {
    const int64_t row = k + 16;
    float* copies = scratch_for_rows.get(some.size() * row);
    for (int64_t i = 0; i < some.size(); ++i) pointers.push_back(a.row(some.first + i, k, copies + i * row));
  }
  std::vector<const float*> pointers;
};

void multiply_in_panels(const KernelCall& call, const Cut& cut, const Int4Sizes& s, const Int4Matrix& b, const FloatRows& a,
                        const ProductOutput& out) {
  const PackedB shape{s.k, s.n, nullptr};
  const RowElements elements(0, s.k);
  for_each_part(call.pool, s.m, shape.panels(), cut, [&](Range some, Range panels) {
    const Rows rows(a, some, s.k);
    for (int64_t panel = panels.first; panel < panels.last; ++panel) {
      const int64_t width = shape.width(panel), column = shape.first_column(panel);
      float* wide = scratch_for_panel.get(s.k * width);
      widen_columns(b, column, width, wide);
      multiply_rows(PackedB{s.k, std::min(width, s.n - column), wide}, 0, 1, elements, rows.pointers, some.first, out.part(0, column));
    }
  });
}

// With the sums of groups, where they can be made; else in panels. kTakesZeros: numbers have lost their zero points, where these are whole.
template <bool kTakesZeros, void (*kMultiply)(const KernelCall& call, const Int4Sizes& s, const Int4Matrix& b, const FloatRows& a,
                                              const float* group_sums, const ProductOutput& out)>
void multiply_by_sums(const KernelCall& call, const Cut& of_panels, const Int4Sizes& s, const Int4Matrix& b, const FloatRows& a,
                      const ProductOutput& out) {
  const float* const group_sums = sums_of_groups(call, s, kTakesZeros && b.has_whole_zeros ? 1 : b.groups, a);
  if (group_sums == nullptr) return multiply_in_panels(call, of_panels, s, b, a, out);
  kMultiply(call, s, b, a, group_sums, out);
}

using Multiply = void (*)(const KernelCall& call, const Cut& of_panels, const Int4Sizes& s, const Int4Matrix& b, const FloatRows& a,
                          const ProductOutput& out);

template <Multiply kMultiply>
class Int4Plan final : public KernelPlan {
 public:
  explicit Int4Plan(const KernelCall& call) : s_(sizes_of(call)), packed_{s_.k, s_.n, s_.k / s_.groups, s_.groups, nullptr} {
    if (is_empty()) return;
    of_panels_ = partition_of_panels<float>(call.pool.threads(), s_.m, PackedB::panels(s_.n), s_.k);
    if (!call.keeps(call.inputs[1]) || !call.keeps(call.inputs[2]) || !call.keeps(call.inputs[3])) return;
    Int4Layout layout = {s_.k, s_.n, s_.groups, call.inputs[2].data, call.inputs[3].data, {}};
    for (size_t i = 0; i < 3; ++i) std::copy_n(call.inputs[1 + i].strides, 2, layout.strides[i]);
    packed_.data = call.prepared->get(call.inputs[1].data, layout, packed_.size(), [&](float* to) { pack(call, to); });
    packed_.has_whole_zeros = has_whole_zeros(call.pool);
  }

  void run(const KernelCall& call) const override {
    if (is_empty()) return;
    Int4Matrix b = packed_;
    if (b.data == nullptr) {
      float* const made = scratch_for_matrix.get(b.size());
      pack(call, made);
      b.data = made;
    }
    ToroidOperand rows = call.inputs[0];
    const int64_t sizes[] = {s_.m, s_.k}, strides[] = {rows.strides[rows.rank - 2], rows.strides[rows.rank - 1]};
    rows.sizes = sizes;
    rows.strides = strides;
    rows.rank = 2;
    const ToroidOperand& c = call.outputs[0];
    const ToroidEpilogue stored = store_as(dtype_of(c), c.data, s_.n);
    kMultiply(call, of_panels_, s_, b, FloatRows(rows, 0), {nullptr, s_.n, call.epilogue != nullptr ? call.epilogue : &stored});
  }

 private:
  bool is_empty() const { return s_.m == 0 || s_.n == 0; }
  void pack(const KernelCall& call, float* to) const {
    call.pool.parallel_for(tiles_of(s_.n), 1, [&](int64_t begin, int64_t end) {
      for (int64_t tile = begin; tile < end; ++tile) pack_tile(call, packed_, tile, to + tile * packed_.tile_size());
    });
  }

  bool has_whole_zeros(RuntimePool& pool) const {
    std::atomic<bool> are_whole = true;
    pool.parallel_for(tiles_of(s_.n), 1, [&](int64_t begin, int64_t end) {
      for (int64_t tile = begin; tile < end && are_whole; ++tile) {
        if (!toroid::has_whole_zeros(packed_, tile, std::min(kTileSide, s_.n - tile * kTileSide))) are_whole = false;
      }
    });
    return are_whole;
  }

  Int4Sizes s_;
  Int4Matrix packed_;  // without data where it is packed in each call
  Cut of_panels_;
};

template <Multiply kMultiply>
std::unique_ptr<const KernelPlan> plan(const KernelCall& call) {
  return std::make_unique<const Int4Plan<kMultiply>>(call);
}

}  // namespace

std::unique_ptr<const KernelPlan> plan_int4_panels(const KernelCall& call) { return plan<multiply_in_panels>(call); }
std::unique_ptr<const KernelPlan> plan_int4_few_rows(const KernelCall& call) { return plan<multiply_by_sums<false, read_numbers>>(call); }
std::unique_ptr<const KernelPlan> plan_int4_groups(const KernelCall& call) {
  return plan<multiply_by_sums<true, multiply_in_groups>>(call);
}
std::unique_ptr<const KernelPlan> plan_int4_tiles(const KernelCall& call) { return plan<multiply_in_tiles>(call); }

}  // namespace toroid
