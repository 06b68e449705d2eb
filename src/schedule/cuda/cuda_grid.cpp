#include "schedule/cuda/cuda_grid.h"

#include <algorithm>

#include "base/error.h"
#include "schedule/cpu/form_estimate.h"
#include "schedule/cpu/loops.h"
#include "schedule/cuda/attention/cached_attention.h"
#include "schedule/cuda/attention/written_attention.h"
#include "schedule/cuda/convolutions/convolution_tiles.h"
#include "schedule/cuda/convolutions/filter_gradient_tiles.h"
#include "schedule/cuda/products/few_rows.h"
#include "schedule/cuda/products/product_tiles.h"
#include "support/match.h"

namespace toroid::schedule {
namespace {

constexpr int kScanThreads = 64;  // a row each: few a block, so that few rows fill many multiprocessors
constexpr int64_t kManyThreads = 4096;
constexpr int kMostOwners = 8192;
constexpr int kStashedBytes = 16;  // of a thread's vector in shared memory

// Does the position alone tell the axis? The rest must lie inside of one step of the axis, or in whole rounds of it.
bool is_told_by(const loop::LoopProgram& program, sym::Expr position, sym::Expr axis) {
  const auto linear = sym::linear_in(position, axis);
  if (!linear || !linear->coefficient.is_const() || linear->coefficient.value() <= 0) return false;
  if (depends_on_through_values(program.exprs, linear->rest, axis)) return false;
  const sym::Expr step = linear->coefficient;
  const bool inside = sym::known_le(0, linear->rest) && sym::known_lt(linear->rest, step);
  if (inside || sym::known_divisible(linear->rest, step * extent(axis))) return true;
  // Both: rounds of the axis, and what lies inside of a step.
  sym::Expr low = 0;
  const sym::Expr alone[] = {linear->rest};
  for (sym::Expr term : linear->rest.kind() == sym::Kind::Add ? linear->rest.operands() : std::span<const sym::Expr>(alone)) {
    if (!sym::known_divisible(term, step * extent(axis))) low = low + term;
  }
  return sym::known_le(0, low) && sym::known_lt(low, step);
}

}  // namespace

int64_t tile_bytes(const loop::LoopProgram& program, ExprId load) {
  constexpr int64_t kMostPadding = 4;  // elements of a row
  const BufferId buffer = std::get<loop::Load>(program.exprs.node(load).op).buffer;
  return (kTileSide + kMostPadding) * kTileSide * size_bytes(program.buffer(buffer).dtype);
}

bool depends_on_through_values(const loop::ExprTable& exprs, sym::Expr e, sym::Expr axis) {
  if (e.is_const()) return false;
  for (sym::Expr symbol : sym::free_symbols(e)) {
    if (symbol == axis) return true;
    const loop::ValueSymbol* value = exprs.value_symbol(symbol);
    if (value != nullptr && !varying(exprs, {value->index}, {axis}).empty()) return true;
  }
  return false;
}

ScanThreads scan_threads(const ScanKernel& kernel) {
  constexpr int64_t kShortRow = 16, kManyRows = 1 << 17;
  constexpr int64_t kFewRows = 64, kLongRow = 1 << 15, kMostTiles = 1 << 19;
  constexpr int kMostNeighbours = 512, kMostInColumn = 32, kThreadsOfTile = 256, kMostRounds = 4, kBlocksAtOnce = 3;
  ScanThreads result{ScanThreads::One, kScanThreads, kernel.outer};
  const int64_t length = kernel.along.is_const() ? 1 : sym::evaluate_hint(extent(kernel.along));
  if (length <= kShortRow) return result;
  const auto threads_up_to = [&](int most, int from) {
    int threads = from;
    while (threads < most && int64_t{threads} * kScanItems < length) threads *= 2;
    return threads;
  };
  const sym::Expr position = kernel.positions[0];
  if (is_contiguous(position, kernel.along)) {
    result.of_row = ScanThreads::Neighbours;
    result.threads = threads_up_to(kMostNeighbours, 32);
    const sym::Expr rows = product_of_extents(kernel.outer);
    if (rows.is_const() && extent(kernel.along).is_const() && rows.value() <= kFewRows && length >= kLongRow) {
      ScanThreads tiled = result;
      const auto tiles = [&] { return (length + tiled.tile() - 1) / tiled.tile(); };
      if (kernel.vector > 1) {  // elements stay in registers: many of them, so that few tiles tell each other of theirs
        const bool are_large = kernel.vector == 2 && kernel.outputs.size() > 1;  // 8 bytes and their positions
        tiled.threads = kThreadsOfTile;
        tiled.rounds = are_large ? kMostRounds / 2 : kMostRounds;
        while (tiled.rounds > 1 && rows.value() * tiles() < 2 * kMultiprocessors) tiled.rounds /= 2;
        tiled.blocks_at_once = kBlocksAtOnce;
      }
      tiled.tiles = tiles();
      if (rows.value() * tiled.tiles <= kMostTiles) return tiled;
    }
    return result;
  }
  if (sym::evaluate_hint(product_of_extents(kernel.outer)) >= kManyRows) return result;
  for (size_t d = 0; d < result.outer.size(); ++d) {
    const sym::Expr axis = result.outer[d];
    if (axis.is_const() || !is_contiguous(position, axis)) continue;
    result.outer.erase(result.outer.begin() + static_cast<std::ptrdiff_t>(d));
    result.outer.push_back(axis);
    break;
  }
  result.of_row = ScanThreads::Column;
  result.threads = threads_up_to(kMostInColumn, 1) * kScanColumns;
  return result;
}

ScatterThreads scatter_threads(const loop::LoopProgram& program, const ScatterKernel& kernel) {
  ScatterThreads result;
  for (sym::Expr axis : kernel.axes) (is_told_by(program, kernel.position, axis) ? result.parallel : result.serial).push_back(axis);
  if (result.serial.empty()) return result;
  const int64_t threads = std::max<int64_t>(sym::evaluate_hint(product_of_extents(result.parallel)), 1);
  const int64_t elements = sym::evaluate_hint(product_of_extents(result.serial));
  while (threads * result.owners < kManyThreads && result.owners < kMostOwners && result.owners < elements) result.owners *= 2;
  return result;
}

int64_t scatter_chunk(const loop::LoopProgram& program, const ScatterKernel& kernel) {
  constexpr int64_t kChunkThreads = 1 << 18, kLeastChunk = 16, kMostChunk = 1024;
  const ScatterThreads threads = scatter_threads(program, kernel);
  const int vector = kernel.ordered ? kernel.ordered->vector : 1;
  const int64_t all = sym::evaluate_hint(product_of_extents(threads.parallel) * product_of_extents(threads.serial)) / vector;
  int64_t chunk = kLeastChunk;
  while (chunk < kMostChunk && all / chunk > kChunkThreads) chunk *= 2;
  return chunk;
}

int vector_of_fill(const loop::LoopProgram& program, const ScatterKernel& kernel) {
  constexpr int kAccessBytes = 16;
  const loop::Buffer& out = program.buffer(kernel.out);
  const auto vector = static_cast<int>(kAccessBytes / size_bytes(out.dtype));
  return sym::known_divisible(sym::product(out.sizes), vector) ? vector : 1;
}

CudaGrid cuda_grid_of(const loop::LoopProgram& program, const Step& step) {
  return match(
      step,
      [](const Kernel& kernel) -> CudaGrid {
        TOROID_CHECK(kernel.gpu.has_value(), "the kernel '{}' is not planned for a GPU", kernel.name);
        const GpuLoops& gpu = *kernel.gpu;
        const sym::Expr rows = product_of_extents(kernel.outer);
        if (kernel.tile) {
          sym::Expr blocks = 1;
          for (sym::Expr axis : kernel.outer) {
            const bool is_side = axis == *kernel.tile || axis == kernel.outer.back();
            blocks = blocks * (is_side ? sym::ceil_div(extent(axis), kTileSide) : extent(axis));
          }
          return {blocks, gpu.threads};
        }
        if (kernel.inner.empty()) {
          const sym::Expr threads = sym::floor_div(rows, gpu.vector * std::max(gpu.items, 1));
          return {sym::ceil_div(threads, gpu.threads), gpu.threads};
        }
        if (gpu.pixels > 1) return {sym::ceil_div(sym::floor_div(rows, gpu.vector * gpu.pixels), gpu.threads), gpu.threads};
        if (gpu.blocks > 0) return {gpu.blocks, gpu.threads};
        const int shared_bytes = gpu.shared ? gpu.items * gpu.threads * kStashedBytes : 0;
        return {sym::ceil_div(gpu.columns ? sym::floor_div(rows, gpu.vector) : rows, gpu.threads / gpu.row_threads), gpu.threads,
                shared_bytes};
      },
      [](const ScanKernel& kernel) -> CudaGrid {
        const ScanThreads scan = scan_threads(kernel);
        const int rows = scan.of_row == ScanThreads::One ? scan.threads : scan.of_row == ScanThreads::Column ? kScanColumns : 1;
        const sym::Expr all = product_of_extents(kernel.outer);
        return {scan.tiles > 0 ? all * scan.tiles : sym::ceil_div(all, rows), scan.threads};
      },
      [&](const ScatterKernel& kernel) -> CudaGrid {
        const ScatterThreads threads = scatter_threads(program, kernel);
        sym::Expr of_combination = threads.owners;
        if (kernel.ordered) of_combination = product_of_extents(threads.serial);
        sym::Expr combinations = product_of_extents(threads.parallel);
        if (kernel.ordered && kernel.ordered->parts) {
          of_combination = sym::ceil_div(of_combination, scatter_chunk(program, kernel));
          combinations = sym::floor_div(combinations, kernel.ordered->vector);
        }
        return {sym::ceil_div(combinations * of_combination, kScatterThreads), kScatterThreads};
      },
      [&](const CallStep& call) -> CudaGrid {
        TOROID_CHECK(call.gpu.has_value(), "'{}' is the library's", call.name);
        if (is_written_attention(call)) return written_attention_grid(program, call);
        if (!call.updates.empty()) return cached_attention_grid(program, call);
        if (const ConvolutionAttempt convolution = as_convolution_of_tiles(program, call.call, call.outputs); convolution.shape) {
          const int resident = call.gpu->ping_pong ? 1 : 0;
          return {blocks_of(*convolution.shape, *call.gpu, has_pixels_across(program, call)), threads_of_convolution(*call.gpu),
                  shared_bytes_of_convolution(*convolution.shape, *call.gpu), resident};
        }
        if (const FilterGradientAttempt gradient = as_filter_gradient_of_tiles(program, call.call, call.outputs); gradient.shape)
          return {blocks_of(*gradient.shape, *call.gpu), threads_of_convolution(*call.gpu), shared_bytes_of_filter_gradient(*call.gpu)};
        const ProductAttempt product = as_product_of_tiles(program, call.call, call.outputs);
        TOROID_CHECK(product.shape.has_value(), "'{}': {}", call.name, product.reason);
        if (call.gpu->depth_warps > 0) return few_rows_grid(*product.shape, *call.gpu);
        return {blocks_of(*product.shape, *call.gpu), kProductThreads, shared_bytes_of(*call.gpu),
                call.gpu->shares > 0 ? 0 : call.gpu->cluster};
      },
      [&](const ParallelKernels& group) {
        CudaGrid all{0, 0};
        for (const ParallelKernel& each : group.kernels) {
          const CudaGrid grid = cuda_grid_of(program, as_single_step(each));
          all.blocks = all.blocks + grid.blocks;
          all.threads = std::max(all.threads, grid.threads);
        }
        return all;
      },
      [](const auto& other) -> CudaGrid {
        TOROID_CHECK(false, "'{}' is no kernel", other.name);
        return {0, 0};
      });
}

}  // namespace toroid::schedule
