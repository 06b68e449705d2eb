#include "schedule/cuda/products/product_tiles.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "schedule/cuda/cuda_grid.h"
#include "schedule/cuda/products/few_rows.h"
#include "schedule/cuda/products/few_rows_tiled.h"

namespace toroid::schedule {
namespace {

constexpr int kAlignedElements = 8;  // 16 bytes of them
constexpr int64_t kLeastInt4Group = 32;
constexpr int64_t kMostElements = (int64_t{1} << 31) - 1;
constexpr int kPermutedColumns = 32;  // four eights, of which the four threads of a row have one each

bool is_aligned(sym::Expr elements) { return sym::known_divisible(elements, kAlignedElements); }

// Dims of batches as the two sides see them; neighbours that both go through at one stride are one.
struct BatchDim {
  sym::Expr size, a, b;
};
std::vector<BatchDim> batch_dims(const loop::Operand& a, const loop::Operand& b) {
  std::vector<BatchDim> result;
  for (size_t d = 0; d + 2 < a.sizes.size(); ++d) {
    const BatchDim dim{a.sizes[d], a.strides[d], b.strides[d]};
    if (dim.size.is_const(1)) continue;
    if (!result.empty()) {
      BatchDim& before = result.back();
      if (sym::known_eq(before.a, dim.a * dim.size) && sym::known_eq(before.b, dim.b * dim.size)) {
        before = {before.size * dim.size, dim.a, dim.b};
        continue;
      }
    }
    result.push_back(dim);
  }
  return result;
}

// The last two dims of an operand. None where no matrix that TMA reads lies so.
std::optional<ProductShape::Side> side_of(const loop::Operand& operand, int aligned_elements) {
  const size_t r = operand.sizes.size() - 2;
  const sym::Expr rows = operand.sizes[r], columns = operand.sizes[r + 1], row = operand.strides[r], column = operand.strides[r + 1];
  ProductShape::Side side{.buffer = operand.buffer, .offset = operand.offset};
  const auto fits = [&](sym::Expr stride, sym::Expr count, sym::Expr length) {
    return sym::known_divisible(stride, aligned_elements) && (count.is_const(1) || sym::known_le(length, stride));
  };
  if (column.is_const(1) && fits(row, rows, columns)) {
    side.stride = row;
    return side;
  }
  if (row.is_const(1) && fits(column, columns, rows)) {
    side.transposed = true;
    side.stride = column;
    return side;
  }
  return std::nullopt;
}

// Numbers of four bits [columns, depth / 2], with scales and zeros [groups, columns]: what lower/lower.cpp makes of constant weights. Or
// packed: [columns / 16, groups, 16, 64] and [columns / 16, groups, 16], of groups of 128.
ProductAttempt as_product_of_int4(const loop::LoopProgram& program, const loop::Call& call, DType dtype) {
  const loop::Operand &a = call.operands[0], &numbers = call.operands[1], &scales = call.operands[2], &zeros = call.operands[3];
  const bool is_packed = numbers.sizes.size() == 4;
  const sym::Expr depth = a.sizes.back(), groups = scales.sizes[is_packed ? 1 : 0];
  const bool is_known = depth.is_const() && groups.is_const() && groups.value() > 0 && depth.value() % groups.value() == 0;
  const int64_t group = is_known ? depth.value() / groups.value() : 0;
  const bool has_rows = a.sizes.size() == 2 ? a.strides[1].is_const(1) && is_aligned(a.strides[0])
                                            : std::equal(a.strides.begin(), a.strides.end(), contiguous_strides(a.sizes).begin());
  if (program.buffer(a.buffer).dtype != dtype || !has_rows || !is_aligned(a.offset))
    return {{}, "the product's rows do not begin at multiples of 16 bytes"};
  if (group == 0 || group % kLeastInt4Group != 0) return {{}, "the product's weights of four bits have groups of fewer than 32"};
  const sym::Expr columns = is_packed ? numbers.sizes[0] * numbers.sizes[2] : numbers.sizes[0];
  const bool has_rows_of_scales = is_packed || (scales.strides[1].is_const(2) && sym::known_eq(scales.strides[0], columns * 2));
  const bool are_pairs = scales.buffer == zeros.buffer && scales.offset.is_const(0) && zeros.offset.is_const(1) && has_rows_of_scales &&
                         scales.strides == zeros.strides;
  if (!are_pairs) return {{}, "the scales and zeros of the product's weights of four bits are apart"};
  ProductShape shape{.columns = columns,
                     .depth = depth,
                     .a = {.buffer = a.buffer, .offset = a.offset, .stride = a.sizes.size() == 2 ? a.strides[0] : depth},
                     .b = {.buffer = numbers.buffer, .transposed = true, .stride = numbers.strides[0]},
                     .numbers = RightNumbers::Int4,
                     .is_packed = is_packed,
                     .is_for_few_rows = true,
                     .scales = scales.buffer,
                     .group = group};
  for (size_t d = 0; d + 1 < a.sizes.size(); ++d) shape.rows = shape.rows * a.sizes[d];
  return {std::move(shape)};
}

// What the right side's dtype says beside the left side's.
std::optional<RightNumbers> numbers_of(DType left, DType right) {
  if (right == left) return RightNumbers::OfLeft;
  switch (right) {
    case DType::I8: return RightNumbers::Int8;
    case DType::F8E4M3FN: return RightNumbers::E4M3;
    case DType::F8E5M2: return RightNumbers::E5M2;
    default: return std::nullopt;
  }
}

// By the dtypes of the left side and of the result.
std::optional<Factors> factors_of(DType left, DType result, bool has_few_rows) {
  if (left == DType::I8 && result == DType::I32) return Factors::Int8;
  if (left == DType::F32 && result == DType::F32 && has_few_rows) return Factors::Floats32;
  if (left == DType::U8 && result == DType::F32) return Factors::Floats8;
  return is_reduced_float(left) && (result == left || result == DType::F32) ? std::optional(Factors::Floats16) : std::nullopt;
}

// Of an H100 under the load of products; fitted to measured times of some twenty products (docs/gpu.md).
constexpr double kFlopsOfCycle = 4096;  // of each multiprocessor
constexpr double kStart = 4e-6, kBytesOfSecond = 2.6e12, kOwnBytesOfSecond = 2.2e12;
constexpr double kLibraryClock = 1.45e9, kLibraryEnd = 3e-6;  // what its tiles come to, and its last one after the products
// For an element of one of a warpgroup's 128 threads. Loads wait for memory: one after the other where sums leave no registers for several.
constexpr double kEpilogueClock = 1.7e9, kCyclesOfStore = 40, kCyclesOfOperation = 3, kCyclesOfLoad = 30, kCyclesOfLoneLoad = 100;
constexpr int kMostSums = 128;  // of a thread that has registers left
constexpr double kClose = 1.1;  // so much slower the program's own kernel may be: it needs no library

struct Candidate {
  GpuTiles tiles;
  double clock;  // at which tensor cores would always be busy
};
constexpr Candidate kCandidates[] = {
    {{.rows = 128, .columns = 192, .stages = 4, .cluster = 1, .ping_pong = true}, 1.50e9},
    {{.rows = 128, .columns = 128, .stages = 5, .cluster = 1, .ping_pong = true}, 1.43e9},
    {{.rows = 64, .columns = 128, .stages = 7, .cluster = 1, .ping_pong = true}, 1.10e9},
    {{.rows = 64, .columns = 256, .stages = 4, .cluster = 1, .ping_pong = true}, 1.35e9},
    {{.rows = 128, .columns = 256, .stages = 4, .cluster = 1, .ping_pong = false}, 1.57e9},
    // More multiprocessors read so: see suits().
    {{.rows = 64, .columns = 64, .stages = 11, .cluster = 1, .ping_pong = true}, 0.95e9},
    // Of deep products whose tiles leave multiprocessors idle, as gradients of weights.
    {{.rows = 128, .columns = 192, .stages = 4, .cluster = 2, .ping_pong = false, .shares = kMultiprocessors / 2}, 1.20e9},
};
// That by their estimates are seldom the quickest, and sometimes are.
constexpr Candidate kOtherCandidates[] = {
    {{.rows = 64, .columns = 192, .stages = 6, .cluster = 1, .ping_pong = true}, 1.25e9},
    {{.rows = 128, .columns = 64, .stages = 7, .cluster = 1, .ping_pong = true}, 1.10e9},
    {{.rows = 128, .columns = 128, .stages = 6, .cluster = 1, .ping_pong = false}, 1.30e9},
    {{.rows = 128, .columns = 256, .stages = 4, .cluster = 2, .ping_pong = false}, 1.50e9},
};
// Of 8-bit floats, whose sums are added to others every 128 of the depth: registers hold both, of 128 columns at once.
constexpr Candidate kFloat8Candidates[] = {
    {{.rows = 128, .columns = 256, .stages = 4, .cluster = 1, .ping_pong = false}, 2.45e9},
    {{.rows = 128, .columns = 128, .stages = 6, .cluster = 1, .ping_pong = false}, 1.9e9},
    {{.rows = 128, .columns = 256, .stages = 4, .cluster = 2, .ping_pong = false}, 2.4e9},
    {{.rows = 128, .columns = 128, .stages = 6, .cluster = 2, .ping_pong = false}, 1.85e9},
};
constexpr int64_t kFewRows = 16;  // from here on tiles are mostly empty

struct Numbers {
  double rows, columns, depth, batches;
  int right_sides = 1;  // of so many columns each
};

// Of all sides and the product, once.
double bytes_moved(const Numbers& n) { return 2 * n.batches * ((n.rows + n.right_sides * n.columns) * n.depth + n.rows * n.columns); }

constexpr int kSmallSide = 64;
// Tiles of 64 x 64 are measured of some 64 rows of one matrix, and where all of them are under way at once.
bool suits(const Numbers& n, const GpuTiles& tiles) {
  if (tiles.rows > kSmallSide || tiles.columns > kSmallSide) return true;
  return n.batches == 1 && n.right_sides == 1 && n.rows > kSmallSide / 2.0 && n.rows <= kSmallSide &&
         std::ceil(n.columns / tiles.columns) <= kMultiprocessors;
}

// Of shares of tiles' depth: what other blocks have of a block's last tile is written, and added one after the other.
double seconds_of_parts(double tiles) {
  constexpr double kFirst = 4e-6, kFurther = 4e-6;
  return kFirst + kFurther * std::max(0.0, kMultiprocessors / tiles - 1);
}

double seconds_of_tiles(const Numbers& n, const Candidate& candidate, const std::optional<EpilogueWork>& work) {
  const GpuTiles& tiles = candidate.tiles;
  const double rows = std::ceil(n.rows / (tiles.rows * tiles.cluster)) * tiles.cluster;
  const double result_columns = static_cast<double>(tiles.columns) / n.right_sides;
  const double count = n.batches * rows * std::ceil(n.columns / result_columns);
  const bool has_shares = tiles.shares > 0;
  if (has_shares && count >= kMultiprocessors) return std::numeric_limits<double>::infinity();  // whole tiles suffice
  const double products = 2.0 * tiles.rows * tiles.columns * n.depth / kFlopsOfCycle / candidate.clock;
  const double elements = tiles.rows * result_columns / (tiles.ping_pong ? 128.0 : 256.0),
               turns = has_shares ? count / kMultiprocessors : std::ceil(count / kMultiprocessors);
  const double of_load = elements * n.right_sides > kMostSums ? kCyclesOfLoneLoad : kCyclesOfLoad;
  const double cycles = kCyclesOfStore + (work ? kCyclesOfOperation * work->operations + of_load * work->loads : 0);
  // Tiles with all rows, one for most multiprocessors, read the right side once and at once.
  const bool is_small = tiles.rows <= kSmallSide && tiles.columns <= kSmallSide;  // most have one then, or no other tiles give more of them
  const bool reads_once = n.rows <= tiles.rows && count <= kMultiprocessors && (is_small || count >= 0.7 * kMultiprocessors);
  const double epilogue = elements * cycles / kEpilogueClock, memory = bytes_moved(n) / (reads_once ? kBytesOfSecond : kOwnBytesOfSecond);
  if (has_shares) return kStart + std::max(turns * products, memory) + epilogue + seconds_of_parts(count);
  // With ping-pong one warpgroup multiplies while the other is at its epilogue.
  const double of_turns =
      tiles.ping_pong ? turns * std::max(products, (products + epilogue) / 2) : turns * (products + epilogue) - epilogue;
  return kStart + std::max(of_turns, memory) + epilogue;
}

double seconds_of_library(const Numbers& n, const std::optional<EpilogueWork>& work) {
  constexpr double kElementBytes = 2, kTile = 128, kLeastRows = 64;
  const double waves = n.batches * std::ceil(n.rows / kTile) * std::ceil(n.columns / kTile) / kMultiprocessors;
  const double busy = waves < 1 ? std::max(waves, 0.5) : waves / std::ceil(waves);  // few tiles are split along the depth
  const double flops = 2 * n.batches * std::max(n.rows, kLeastRows) * n.columns * n.depth;
  const double results = n.batches * n.rows * n.columns;
  const double products = std::max(flops / (kFlopsOfCycle * kMultiprocessors * kLibraryClock * busy), bytes_moved(n) / kBytesOfSecond);
  return kStart + products + kLibraryEnd + (work ? kStart + results * (kElementBytes + work->bytes) / kBytesOfSecond : 0);
}

Numbers numbers_of(const ProductShape& shape) {
  const auto hint = [](sym::Expr size) { return static_cast<double>(sym::evaluate_hint(size)); };
  return {hint(shape.rows), hint(shape.columns), hint(shape.depth), hint(shape.batches), shape.second ? 2 : 1};
}

ProductAttempt as_dual_product(const loop::LoopProgram& program, const loop::Call& call, const std::vector<BufferId>& outputs,
                               bool inputs_are_aligned) {
  const auto with = [&](size_t right) {
    const loop::Call one{.op = call.op, .operands = {call.operands[0], call.operands[right]}};
    return as_product_of_tiles(program, one, {outputs[right - 1]}, inputs_are_aligned);
  };
  ProductAttempt first = with(1);
  const ProductAttempt second = with(2);
  if (!first.shape || !second.shape) return first.shape ? second : first;
  ProductShape& shape = *first.shape;
  const auto has_other_stride = [](sym::Expr a, sym::Expr b) { return !sym::known_eq(a, b); };
  const ProductShape::Side &b = shape.b, &c = second.shape->b;
  const bool is_plain = shape.factors == Factors::Floats16 && shape.numbers != RightNumbers::Int4 && shape.batches.is_const(1);
  const bool is_other = b.transposed != c.transposed || has_other_stride(b.stride, c.stride) || shape.numbers != second.shape->numbers ||
                        !sym::known_eq(shape.columns, second.shape->columns);
  if (!is_plain || is_other) return {{}, "the two right sides of a dual product do not lie in one way"};
  shape.second = c;
  return first;
}

}  // namespace

bool is_dual_product(const loop::Call& call) { return std::holds_alternative<Matmul>(call.op) && call.operands.size() == 3; }

ProductAttempt as_product_of_tiles(const loop::LoopProgram& program, const loop::Call& call, const std::vector<BufferId>& outputs,
                                   bool inputs_are_aligned) {
  if (is_dual_product(call) && outputs.size() == 2) return as_dual_product(program, call, outputs, inputs_are_aligned);
  if (!std::holds_alternative<Matmul>(call.op) || outputs.size() != 1) return {{}, "tensor cores make matrix products only"};
  const DType dtype = program.buffer(outputs[0]).dtype;
  const loop::Operand &a = call.operands[0], &b = call.operands[1];
  if (call.operands.size() == 4) return as_product_of_int4(program, call, dtype);
  const DType of_left = program.buffer(a.buffer).dtype, of_right = program.buffer(b.buffer).dtype;
  sym::Expr rows = 1;
  for (size_t d = 0; d + 1 < a.sizes.size(); ++d) rows = rows * a.sizes[d];
  const std::optional<RightNumbers> numbers = numbers_of(of_left, of_right);
  const bool is_narrow = numbers != RightNumbers::OfLeft;
  const bool has_few_rows = sym::evaluate_hint(rows) <= (is_narrow ? kMostTiledRows : kMostFewRows);
  const std::optional<Factors> factors = factors_of(of_left, dtype, has_few_rows);
  const bool has_tiles = factors == Factors::Floats16 || factors == Factors::Floats8;
  const bool is_for_few_rows = !has_tiles || is_narrow;
  if (!numbers || !factors || (is_for_few_rows && dtype != of_left && !has_few_rows))
    return {{}, "tensor cores multiply 16-bit floats and int8 only"};
  const bool has_bytes = size_bytes(of_right) == 1;  // which TMA does not read
  constexpr int kPieceBytes = 16;
  const int left_piece = kPieceBytes / static_cast<int>(size_bytes(of_left)),
            right_piece = kPieceBytes / static_cast<int>(size_bytes(of_right));
  const auto begins_aligned = [&](const loop::Operand& operand, int piece) {
    return sym::known_divisible(operand.offset, piece) &&
           (inputs_are_aligned || program.buffer(operand.buffer).kind != loop::BufferKind::Input);
  };
  const auto left = side_of(a, left_piece), right = side_of(b, right_piece);
  const bool has_columns = factors == Factors::Floats32 ? right && right->transposed
                                                        : !has_bytes || (right && right->transposed &&
                                                                         sym::known_divisible(b.sizes[b.sizes.size() - 2], right_piece));
  if (factors == Factors::Floats8 && left && left->transposed) return {{}, "rows of 8-bit floats are not contiguous"};
  if (!left || !right || !has_columns || !begins_aligned(a, left_piece) || !begins_aligned(b, right_piece))
    return {{}, "the product's rows do not begin at multiples of 16 bytes"};
  const std::vector<BatchDim> batches = batch_dims(a, b);
  if (batches.size() > 2) return {{}, "the product's batches have more than two strides"};
  const size_t rank = a.sizes.size();
  ProductShape shape{.rows = a.sizes[rank - 2], .columns = b.sizes[rank - 1], .depth = a.sizes[rank - 1], .a = *left, .b = *right};
  shape.numbers = *numbers;
  shape.factors = *factors;
  shape.left_e5m2 = std::get<Matmul>(call.op).left_e5m2;
  shape.right_e5m2 = std::get<Matmul>(call.op).right_e5m2;
  shape.is_for_few_rows = is_for_few_rows;
  for (size_t d = 0; d < batches.size(); ++d) {
    const bool is_inner = d + 1 == batches.size();
    if (!sym::known_divisible(batches[d].a, left_piece) || !sym::known_divisible(batches[d].b, right_piece))
      return {{}, "the product's batches do not begin at multiples of 16 bytes"};
    (is_inner ? shape.a.inner_stride : shape.a.outer_stride) = batches[d].a;
    (is_inner ? shape.b.inner_stride : shape.b.outer_stride) = batches[d].b;
    if (is_inner) shape.inner_batches = batches[d].size;
    shape.batches = shape.batches * batches[d].size;
  }
  if (!sym::known_lt(0, shape.depth) || !sym::known_lt(0, shape.columns)) return {{}, "the product may be one of empty rows"};
  const sym::Expr elements = shape.rows * shape.columns * shape.batches;
  if (elements.is_const() && elements.value() > kMostElements * kAlignedElements) return {{}, "the product has too many tiles"};
  return {std::move(shape)};
}

int result_columns(const ProductShape& shape, const GpuTiles& tiles) { return shape.second ? tiles.columns / 2 : tiles.columns; }

// Columns in shared memory are in blocks of 64 where rows are contiguous; the epilogue takes 32 of each result at once.
bool are_dual_tiles(const ProductShape& shape, const GpuTiles& tiles) {
  constexpr int kBlock = 64, kAtOnce = 32;
  return result_columns(shape, tiles) % (shape.b.transposed ? kAtOnce : kBlock) == 0 && tiles.cluster == 1 && tiles.shares == 0;
}

int tile_depth(const ProductShape& shape) { return shape.factors == Factors::Floats8 ? 2 * kTileDepth : kTileDepth; }

// As ProductTiles in codegen/cuda/prelude/products/products.inc has them.
int shared_bytes_of(const GpuTiles& tiles) {
  constexpr int kAlignment = 1024, kRowBytes = 128, kBarrierBytes = 16;  // a stage's two barriers
  constexpr int kMuch = 192512, kSumsAlignment = 256, kWarps = 8, kWarpRows = 16, kStagedColumns = 64, kPadding = 8;
  const int ring = tiles.stages * (tiles.rows + tiles.columns) * kRowBytes, barriers = tiles.stages * kBarrierBytes;
  const int sums = kWarps * kWarpRows * (kStagedColumns + (ring > kMuch ? 0 : kPadding)) * 4;
  return kAlignment + ring + (barriers + kSumsAlignment - 1) / kSumsAlignment * kSumsAlignment + sums;
}

sym::Expr blocks_of(const ProductShape& shape, const GpuTiles& tiles) {
  if (tiles.shares > 0) return tiles.shares * tiles.cluster;
  return shape.batches * sym::ceil_div(shape.rows, tiles.rows * tiles.cluster) * tiles.cluster *
         sym::ceil_div(shape.columns, result_columns(shape, tiles));
}

std::vector<TilesEstimate> estimated_tiles(const ProductShape& shape, const std::optional<EpilogueWork>& work) {
  std::vector<TilesEstimate> result;
  const Numbers n = numbers_of(shape);
  for (const GpuTiles& tiles : few_rows_candidates(shape)) result.push_back({tiles, bytes_moved(n) / kBytesOfSecond + kStart});
  if (shape.factors == Factors::Floats8) {
    for (const Candidate& each : kFloat8Candidates) result.push_back({each.tiles, seconds_of_tiles(n, each, work)});
    return result;
  }
  if (shape.is_for_few_rows || sym::evaluate_hint(shape.rows) <= kFewRows) return result;
  for (const std::span<const Candidate> list : {std::span<const Candidate>(kCandidates), std::span<const Candidate>(kOtherCandidates)}) {
    for (const Candidate& each : list) {
      if (!suits(n, each.tiles) || (shape.second && !are_dual_tiles(shape, each.tiles))) continue;
      const bool is_mostly_empty = each.tiles.rows >= 2 * n.rows || result_columns(shape, each.tiles) >= 2 * n.columns;
      const double seconds = seconds_of_tiles(n, each, work);
      if (!is_mostly_empty && std::isfinite(seconds)) result.push_back({each.tiles, seconds});
    }
  }
  return result;
}

double seconds_of_library(const ProductShape& shape) { return seconds_of_library(numbers_of(shape), std::nullopt); }

std::optional<GpuTiles> choose_tiles(const ProductShape& shape, const std::optional<EpilogueWork>& work) {
  const bool is_float8 = shape.factors == Factors::Floats8;  // which the library does not multiply here
  if (const auto few_rows = choose_few_rows(shape); !is_float8 && (few_rows || shape.is_for_few_rows)) return few_rows;
  const Numbers n = numbers_of(shape);
  std::optional<GpuTiles> best;
  const bool is_own = is_float8 || shape.second;
  double least = is_own ? std::numeric_limits<double>::infinity() : kClose * seconds_of_library(n, work);
  for (const Candidate& each : is_float8 ? std::span<const Candidate>(kFloat8Candidates) : kCandidates) {
    const double seconds = seconds_of_tiles(n, each, work);
    if (seconds >= least || !suits(n, each.tiles) || (shape.second && !are_dual_tiles(shape, each.tiles))) continue;
    least = seconds;
    best = each.tiles;
  }
  return best;
}

double seconds_of_quickest(const ProductShape& shape, const std::optional<EpilogueWork>& work) {
  const Numbers n = numbers_of(shape);
  double least = shape.second ? std::numeric_limits<double>::infinity() : seconds_of_library(n, work);
  for (const Candidate& each : kCandidates) {
    const bool is_there = suits(n, each.tiles) && (!shape.second || are_dual_tiles(shape, each.tiles));
    if (is_there) least = std::min(least, seconds_of_tiles(n, each, work));
  }
  return least;
}

bool has_permuted_columns(const ProductShape& shape, const GpuTiles& tiles, const std::optional<EpilogueWork>& work) {
  constexpr double kMostOperations = 48;
  constexpr int kWarpRows = 16, kManyRows = 128;  // of a warpgroup, for which what an epilogue has of columns is loaded once
  const bool has_one_matrix = shape.b.transposed && shape.b.inner_stride.is_const(0) && shape.b.outer_stride.is_const(0);
  if (shape.factors != Factors::Floats16 || !has_one_matrix || tiles.depth_warps > 0 || tiles.cluster > 1) return false;
  if (!sym::known_divisible(shape.rows, kWarpRows) || !sym::known_divisible(shape.columns, kPermutedColumns)) return false;
  return !work || (tiles.ping_pong && tiles.rows >= kManyRows && work->operations <= kMostOperations);
}

// Rows of a tile in shared memory are the first pairs of all eights of columns, then the second ones: the second dim is the column in its
// pair, the third the eight, the fourth the pair in its eight. The third dim's stride is the larger one, which the driver takes.
static TensorMap map_of_permuted(const ProductShape& shape, const ProductShape::Side& side, const GpuTiles& tiles) {
  constexpr int kPair = 2, kEight = 8, kPairs = kEight / kPair;
  return {.buffer = side.buffer,
          .offset = side.offset,
          .sizes = {shape.depth, kPair, sym::floor_div(shape.columns, kEight), kPairs},
          .strides = {1, side.stride, side.stride * kEight, side.stride * kPair},
          .box = {tile_depth(shape), kPair, result_columns(shape, tiles) / kEight, kPairs}};
}

std::vector<TensorMap> tensor_maps(const ProductShape& shape, const GpuTiles& tiles, bool permuted) {
  const auto map = [&](const ProductShape::Side& side, sym::Expr rows, sym::Expr columns, int box_rows) {
    // One size of batches where all have the same matrix.
    const auto count = [](sym::Expr stride, sym::Expr size) { return stride.is_const(0) ? sym::Expr(1) : size; };
    const int least = shape.factors == Factors::Floats8 ? 2 * kAlignedElements : kAlignedElements;
    const auto apart = [&](sym::Expr stride) { return stride.is_const(0) ? sym::Expr(least) : stride; };
    const sym::Expr outer = sym::floor_div(shape.batches, shape.inner_batches);
    return TensorMap{.buffer = side.buffer,
                     .offset = side.offset,
                     .sizes = {side.transposed ? rows : columns, side.transposed ? columns : rows,
                               count(side.inner_stride, shape.inner_batches), count(side.outer_stride, outer)},
                     .strides = {1, side.stride, apart(side.inner_stride), apart(side.outer_stride)},
                     .box = {tile_depth(shape), box_rows, 1, 1}};
  };
  const int columns_of_block = result_columns(shape, tiles) / tiles.cluster, depth_of_block = kTileDepth / tiles.cluster;
  const auto map_of_right = [&](const ProductShape::Side& side) {
    return permuted ? map_of_permuted(shape, side, tiles)
                    : map(side, shape.depth, shape.columns, side.transposed ? columns_of_block : depth_of_block);
  };
  std::vector<TensorMap> maps = {map(shape.a, shape.rows, shape.depth, shape.a.transposed ? kTileDepth : tiles.rows),
                                 map_of_right(shape.b)};
  if (shape.second) maps.push_back(map_of_right(*shape.second));
  return maps;
}

}  // namespace toroid::schedule
