// In tiles: int8 is exact in bfloat16, and so is a float32 as the sum of three. So one product of bfloat16 is as exact as one of float32,
// and three of them, with the rows' parts, are for float32: three times 16 x 16 x 32 in 48 cycles still beat vectors by far.
//
// In panels, without tiles, a part of the depth at a time: few rows meet the bytes as they are read, which become floats in registers. Of
// more rows the first strip of a block does so and keeps the floats in a piece of memory that stays in the cache, for the strips that
// follow. For many rows the macro-kernel of float32 has each part of a panel widened just before it is multiplied. Rows of bfloat16 meet
// pairs of bfloat16 instead.
//
// Either way the bytes of the matrix are all that is read from memory, a quarter of float32's. So many rows that memory is no limit have
// panels that are widened once and kept, as float32's weights are: widening them in each call would take longer than float32 does.
#include <cstring>
#include <vector>

#include "runtime/kernels/gemm/half/gemm_amx.h"
#include "runtime/kernels/gemm/half/microkernel_bf16.h"
#include "runtime/kernels/gemm/int8/gemm.h"
#include "runtime/kernels/gemm/int8/weight_panels.h"
#include "runtime/kernels/gemm/int8/weight_product.h"
#include "runtime/kernels/gemm/packed_right_plan.h"

namespace toroid {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);
constexpr int64_t kNarrowBytes = kTileBytes / 2;  // of a tile's elements as int8

Scratch scratch_for_rows, scratch_for_panel, scratch_for_sums;

using Int8Matrix = MatrixOf<int8_t>;

// ---- in tiles

// The tiles [first, last) of 16 columns, each with all its depth, as in packed_tiles_bytes but of int8.
void pack_narrow_tiles(const Int8Matrix& b, int64_t k, int64_t n, int64_t first, int64_t last, std::byte* out) {
  const int64_t tile_bytes = steps_of(k) * kNarrowBytes;
  for (int64_t tile = first; tile < last && k > 0; ++tile) {
    auto* to = reinterpret_cast<int8_t*>(out + tile * tile_bytes);
    std::memset(to, 0, static_cast<size_t>(tile_bytes));
    for (int64_t j = 0; j < std::min(kTileSide, n - tile * kTileSide); ++j) {
      for (int64_t p = 0; p < k; ++p) to[(p / 2 * kTileSide + j) * 2 + p % 2] = *b.at(p, tile * kTileSide + j);
    }
  }
}

// Tiles of int8 as a product needs them.
struct Int8Tiles {
  int64_t steps;
  const std::byte* data;
  static constexpr int64_t kStepLines = kNarrowBytes / kTileRowBytes;

  const std::byte* at(int64_t tile, int64_t step) const { return data + (tile * steps + step) * kNarrowBytes; }
  void widen(int64_t tile, Range some, std::byte* to) const {
    const auto* from = reinterpret_cast<const int8_t*>(at(tile, some.first));
    widen_to_bfloat16(from, some.size() * kNarrowBytes, reinterpret_cast<uint16_t*>(to));
  }
};

class InTiles {
 public:
  InTiles(const KernelCall&, const ProductSizes& sizes) : s_(sizes), steps_(steps_of(s_.k)) {}
  auto layout(const ToroidOperand& right) const { return layout_of<InTiles>(right, s_); }
  int64_t floats() const { return tiles_of(s_.n) * steps_ * kNarrowBytes / kWordBytes; }
  void pack(const KernelCall& call, int64_t batch, float* to) const {
    const Int8Matrix b = matrix_of_batch<int8_t>(call.inputs[1], batch);
    call.pool.parallel_for(tiles_of(s_.n), 1, [&](int64_t begin, int64_t end) {
      pack_narrow_tiles(b, s_.k, s_.n, begin, end, reinterpret_cast<std::byte*>(to));
    });
  }
  void multiply(const KernelCall& call, int64_t batch, const float* packed, const ProductOutput& out) const {
    const FloatRows a(call.inputs[0], batch);
    const int64_t parts = a.parts();
    const NarrowProduct<Int8Tiles> product = {Int8Tiles{steps_, reinterpret_cast<const std::byte*>(packed)}, steps_, parts};
    auto pack = [&](int64_t first_row, int64_t rows, std::byte* out) { pack_rows_in_parts(a, first_row, rows, s_.k, out); };
    for_each_tile_block(
        call.pool, s_.m, s_.n, parts * steps_ * kTileBytes, pack, [&](const TileBlock& block) { product.multiply(block); }, out);
  }

 private:
  ProductSizes s_;
  int64_t steps_;
};

// ---- in panels

// Rows of a panel at a time: widened, 128 KiB in the second-level cache beside rows and sums.
int64_t part_depth() { return (32 << 10) / gemm_microkernels().panel_width(); }

// The panels [first, last) with so many rows of b together: [row / together][vector][row % together][lane].
void pack_narrow_panels(const Int8Matrix& b, int64_t together, int64_t k, int64_t n, int64_t first, int64_t last, int8_t* out) {
  const PackedB shape{divide_up(k, together), n, nullptr};
  const int64_t lanes = gemm_microkernels().lanes;
  for (int64_t panel = first; panel < last; ++panel) {
    const int64_t width = shape.width(panel), column = shape.first_column(panel), count = std::min(width, n - column);
    int8_t* to = out + column * shape.depth * together;
    if (k > 0) std::memset(to, 0, static_cast<size_t>(shape.depth * together * width));
    for (int64_t p = 0; p < k; ++p) {
      for (int64_t j = 0; j < count; ++j)
        to[(p / together * width + j / lanes * lanes) * together + p % together * lanes + j % lanes] = *b.at(p, column + j);
    }
  }
}

// The right side in panels with so many rows together, in which the depth is counted.
template <int64_t kTogether>
class NarrowPanels {
 public:
  explicit NarrowPanels(const ProductSizes& sizes) : s_(sizes), shape_{divide_up(s_.k, kTogether), s_.n, nullptr} {}

  auto layout(const ToroidOperand& right) const { return layout_of<NarrowPanels>(right, s_); }
  int64_t floats() const { return divide_up(PackedB::size(shape_.depth, s_.n) * kTogether, kWordBytes); }
  void pack(const KernelCall& call, int64_t batch, float* to) const {
    const Int8Matrix b = matrix_of_batch<int8_t>(call.inputs[1], batch);
    call.pool.parallel_for(shape_.panels(), 1, [&](int64_t begin, int64_t end) {
      pack_narrow_panels(b, kTogether, s_.k, s_.n, begin, end, reinterpret_cast<int8_t*>(to));
    });
  }

  // rows_of(range): pointers to rows as add_part wants them, for the life of a task. add_part(rows, bytes, width, depth, sums, adds): the
  // products of all rows with a part of a panel, in sums, which are `width` apart.
  template <class RowsOf, class AddPart>
  void multiply(RuntimePool& pool, const float* packed, const ProductOutput& out, const RowsOf& rows_of, const AddPart& add_part) const {
    // Blocks of rows as large as they may be, so that a panel is seldom widened twice.
    const int64_t m = s_.m, blocks = divide_up(m, size_of_matrix(m, shape_.panels(), shape_.depth, kFloatBytes).most_rows);
    const auto* const data = reinterpret_cast<const int8_t*>(packed);
    for_each_part(pool, m, shape_.panels(), {blocks, panel_groups(pool, blocks, shape_.panels())}, [&](Range some, Range panels) {
      const auto rows = rows_of(some);
      for (int64_t panel = panels.first; panel < panels.last; ++panel) {
        const int64_t width = shape_.width(panel), column = shape_.first_column(panel);
        float* sums = scratch_for_sums.get(some.size() * width + kReadBeyond);
        for (int64_t done = 0; done == 0 || done < shape_.depth; done += part_depth()) {
          const Range depth = {done, std::min(done + part_depth(), shape_.depth)};
          add_part(rows, data + (column * shape_.depth + done * width) * kTogether, width, depth, sums, done > 0);
        }
        out.take(sums, width, some, {column, std::min(column + width, shape_.columns)});
      }
    });
  }

 protected:
  ProductSizes s_;
  PackedB shape_;
};

// Calls f(first, count) for strips of nearly as many rows each.
template <class F>
void for_each_strip(size_t rows, int64_t most, F f) {
  const auto all = static_cast<int64_t>(rows);
  const int64_t strips = divide_up(all, most);
  for (int64_t i = 0; i < strips; ++i) {
    const Range strip = part_of(all, i, strips);
    f(strip.first, strip.size());
  }
}

std::vector<const float*> float_rows(const FloatRows& a, Range some, int64_t k) {
  const int64_t row = k + 16;
  float* const copies = scratch_for_rows.get(some.size() * row);
  std::vector<const float*> rows;
  for (int64_t i = 0; i < some.size(); ++i) rows.push_back(a.row(some.first + i, k, copies + i * row));
  return rows;
}

class InRegisters : public NarrowPanels<1> {
 public:
  InRegisters(const KernelCall&, const ProductSizes& sizes) : NarrowPanels(sizes) {}
  void multiply(const KernelCall& call, int64_t batch, const float* packed, const ProductOutput& out) const {
    const FloatRows a(call.inputs[0], batch);
    const NarrowKernels& kernels = narrow_kernels();
    auto rows_of = [&](Range some) { return float_rows(a, some, s_.k); };
    auto add_part = [&](const std::vector<const float*>& rows, const int8_t* bytes, int64_t width, Range depth, float* sums, bool adds) {
      for_each_strip(rows.size(), GemmMicrokernels::kMostRows, [&](int64_t first, int64_t count) {
        const float* strip[GemmMicrokernels::kMostRows];
        for (int64_t i = 0; i < count; ++i) strip[i] = rows[static_cast<size_t>(first + i)] + depth.first;
        kernels[count - 1][width / gemm_microkernels().lanes - 1](depth.size(), strip, bytes, sums + first * width, width, adds, nullptr);
      });
    };
    NarrowPanels::multiply(call.pool, packed, out, rows_of, add_part);
  }
};

class InWidenedPanels : public NarrowPanels<1> {
 public:
  InWidenedPanels(const KernelCall&, const ProductSizes& sizes) : NarrowPanels(sizes) {}
  void multiply(const KernelCall& call, int64_t batch, const float* packed, const ProductOutput& out) const {
    const FloatRows a(call.inputs[0], batch);
    if (s_.m > kMostRowsOfBytes) return multiply_as_floats(call.pool, a, reinterpret_cast<const int8_t*>(packed), out);
    const GemmMicrokernels& kernels = gemm_microkernels();
    auto rows_of = [&](Range some) { return float_rows(a, some, s_.k); };
    auto add_part = [&](const std::vector<const float*>& rows, const int8_t* bytes, int64_t width, Range depth, float* sums, bool adds) {
      float* const wide = scratch_for_panel.get(part_depth() * width);
      const int64_t vectors = width / kernels.lanes;
      const Run run = {depth.first, depth.size()};
      for_each_strip(rows.size(), GemmMicrokernels::kMostRows, [&](int64_t first, int64_t count) {
        float* const to = sums + first * width;
        if (first > 0)
          return kernels.multiply_strip(vectors, {&run, 1}, Span(rows).subspan(static_cast<size_t>(first), static_cast<size_t>(count)),
                                        wide, {to, width, width, adds}, {nullptr, 0});
        const float* strip[GemmMicrokernels::kMostRows];
        for (int64_t i = 0; i < count; ++i) strip[i] = rows[static_cast<size_t>(i)] + depth.first;
        narrow_kernels()[count - 1][vectors - 1](depth.size(), strip, bytes, to, width, adds, wide);
      });
    };
    NarrowPanels::multiply(call.pool, packed, out, rows_of, add_part);
  }

 private:
  // More are products of float32, whose sums stay in registers over more of the depth and need not be read for the epilogue; fewer hide
  // the widening behind their first strip.
  static constexpr int64_t kMostRowsOfBytes = 160;

  // The macro-kernel of float32, for which each part of a panel is widened just before it is multiplied.
  void multiply_as_floats(RuntimePool& pool, const FloatRows& a, const int8_t* bytes, const ProductOutput& out) const {
    const WidenBytes widen_bytes = widen_to_float32();
    const PackPanel widen = [&](int64_t panel, Range rows, float* to) {
      const int64_t width = shape_.width(panel);
      widen_bytes(bytes + shape_.first_column(panel) * s_.k + rows.first * width, rows.size() * width, to);
    };
    const PackedB panels = {/*depth=*/s_.k, /*columns=*/s_.n, /*data=*/nullptr, /*in_pairs=*/false, /*pack=*/&widen};
    const RowElements elements(0, s_.k);
    constexpr int64_t kDepthInCache = 1024;  // of the macro-kernel
    const int64_t blocks = divide_up(s_.m, size_of_matrix(s_.m, shape_.panels(), std::min(s_.k, kDepthInCache), kFloatBytes).most_rows);
    for_each_part(pool, s_.m, shape_.panels(), {blocks, panel_groups(pool, blocks, shape_.panels())}, [&](Range some, Range group) {
      multiply_rows(panels, group.first, group.last, elements, float_rows(a, some, s_.k), some.first, out);
    });
  }
};

// The panels of float32, made when the plan is.
class InKeptPanels {
 public:
  InKeptPanels(const KernelCall& call, const ProductSizes& sizes)
      : s_(sizes), panels_{s_.k, s_.n, nullptr}, cut_(partition_of(call.pool.threads(), s_.m, panels_)) {}
  auto layout(const ToroidOperand& right) const { return layout_of<InKeptPanels>(right, s_); }
  int64_t floats() const { return PackedB::size(s_.k, s_.n); }
  void pack(const KernelCall& call, int64_t batch, float* to) const {
    const Int8Matrix b = matrix_of_batch<int8_t>(call.inputs[1], batch);
    call.pool.parallel_for(panels_.panels(), 1, [&](int64_t begin, int64_t end) {
      pack_panels(b, s_.k, s_.n, begin, end, to + panels_.first_column(begin) * s_.k);
    });
  }
  void multiply(const KernelCall& call, int64_t batch, const float* packed, const ProductOutput& out) const {
    const PackedB b = {s_.k, s_.n, packed};
    toroid::multiply(call.pool, cut_, s_.m, matrix_of_batch<float>(call.inputs[0], batch), b, {0, b.panels()}, out);
  }

 private:
  ProductSizes s_;
  PackedB panels_;  // without their numbers
  Cut cut_;
};

// Rows of bfloat16 with a whole number of pairs.
std::vector<const uint16_t*> paired_rows(const FloatRows& a, Range some, int64_t k) {
  const TileMatrix matrix = a.matrix();
  const bool lie_well = matrix.column == 1 && k % 2 == 0;
  const int64_t row = (k + 1) / 2 + 16;
  float* to = lie_well ? nullptr : scratch_for_rows.get(some.size() * row);
  std::vector<const uint16_t*> rows;
  for (int64_t i = some.first; i < some.last; ++i) {
    const uint16_t* from = static_cast<const uint16_t*>(matrix.data) + i * matrix.row;
    if (!lie_well) {
      auto* bits = reinterpret_cast<uint16_t*>(to + (i - some.first) * row);
      for (int64_t p = 0; p < k; ++p) bits[p] = from[p * matrix.column];
      if (k % 2 != 0) bits[k] = 0;
      from = bits;
    }
    rows.push_back(from);
  }
  return rows;
}

class InPairs : public NarrowPanels<2> {
 public:
  InPairs(const KernelCall&, const ProductSizes& sizes) : NarrowPanels(sizes) {}
  void multiply(const KernelCall& call, int64_t batch, const float* packed, const ProductOutput& out) const {
    const FloatRows a(call.inputs[0], batch);
    const Bf16DotMicrokernels& kernels = *bf16_dot_microkernels();
    auto rows_of = [&](Range some) { return paired_rows(a, some, s_.k); };
    auto add_part = [&](const std::vector<const uint16_t*>& rows, const int8_t* bytes, int64_t width, Range depth, float* sums, bool adds) {
      auto* const wide = reinterpret_cast<uint16_t*>(scratch_for_panel.get(part_depth() * width));
      const int64_t vectors = width / gemm_microkernels().lanes;
      for_each_strip(rows.size(), GemmMicrokernels::kMostRows, [&](int64_t first, int64_t count) {
        const uint16_t* strip[GemmMicrokernels::kMostRows];
        for (int64_t i = 0; i < count; ++i) strip[i] = rows[static_cast<size_t>(first + i)] + 2 * depth.first;
        float* const to = sums + first * width;
        if (first > 0) return kernels[count - 1][vectors - 1](depth.size(), strip, wide, to, width, adds);
        const bool is_last = count == static_cast<int64_t>(rows.size());
        (*narrow_pair_kernels())[count - 1][vectors - 1](depth.size(), strip, bytes, to, width, adds, is_last ? nullptr : wide);
      });
    };
    NarrowPanels::multiply(call.pool, packed, out, rows_of, add_part);
  }
};

}  // namespace

std::unique_ptr<const KernelPlan> plan_int8_widened(const KernelCall& call) { return plan_packed_right<InWidenedPanels>(call); }
std::unique_ptr<const KernelPlan> plan_int8_kept(const KernelCall& call) { return plan_packed_right<InKeptPanels>(call); }
std::unique_ptr<const KernelPlan> plan_int8_in_registers(const KernelCall& call) { return plan_packed_right<InRegisters>(call); }
std::unique_ptr<const KernelPlan> plan_int8_pairs(const KernelCall& call) { return plan_packed_right<InPairs>(call); }
std::unique_ptr<const KernelPlan> plan_int8_tiles(const KernelCall& call) { return plan_packed_right<InTiles>(call); }

std::string_view reading_of_int8(std::string_view choice) {
  if (choice == "tiles") return "widened to bfloat16 a few tiles at a time, as they are multiplied";
  if (choice == "kept") return "kept as float32, in panels that are made once";
  if (choice == "in-registers") return "read as bytes, which become float32 in registers";
  if (choice == "pairs") return "widened to bfloat16 in the cache, once a call for each block of rows";
  return "widened to float32 in the cache, once a call for each block of rows";
}

}  // namespace toroid
