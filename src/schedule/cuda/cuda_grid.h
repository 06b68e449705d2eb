// How the work of a kernel is divided into blocks of a GPU's threads.
#pragma once

#include <vector>

#include "schedule/axes.h"
#include "schedule/schedule.h"

namespace toroid::schedule {

// Multiprocessors of an H100, by which plans are estimated.
inline constexpr int kMultiprocessors = 132;

struct CudaGrid {
  sym::Expr blocks;      // 0 where there is nothing to do
  int threads;           // of each
  int shared_bytes = 0;  // of each, asked for when it is started
  int resident = 0;      // more than 0: blocks go on to the work of others, so no more are started than run at once, a multiple of this
};

// Of a scan: which threads have a row. Each has so many elements of a tile, which is what the block scans at once.
inline constexpr int kScanItems = 8, kScanColumns = 32;
struct ScanThreads {
  enum Threads : uint8_t {
    One,         // where rows are short, or fill the device
    Neighbours,  // a block's, where the row's elements lie beside each other
    Column,      // kScanColumns apart: neighbours have neighbouring rows
  } of_row;
  int threads;                   // of a block
  std::vector<sym::Expr> outer;  // ScanKernel::outer; last the axis that neighbours have
  int64_t tiles = 0;             // more than 0: of neighbours; so many blocks have a tile of a row each
  int rounds = 1;                // of neighbours: how often a thread has its elements of a tile; a warp's rounds lie beside each other
  int blocks_at_once = 1;        // of a multiprocessor, at least
  int tile() const { return of_row == One ? 1 : of_row == Column ? threads / kScanColumns * kScanItems : threads * kScanItems * rounds; }
};
ScanThreads scan_threads(const ScanKernel& kernel);

// Of a scatter. Elements that can have one destination belong to one thread, which takes them in their order: the result is the same in
// every call.
struct ScatterThreads {
  // Axes that the destination tells: elements that differ in one of them go to different places. A thread has one combination of their
  // values.
  std::vector<sym::Expr> parallel;
  std::vector<sym::Expr> serial;  // the other axes, which each thread goes through
  // Where the former are too few: so many threads go through the same elements, and each takes the destinations that are its own.
  int owners = 1;
};
// Of an ordered scatter with parts: elements of a chunk, all of which a thread takes, for one combination of the parallel axes.
int64_t scatter_chunk(const loop::LoopProgram& program, const ScatterKernel& kernel);
ScatterThreads scatter_threads(const loop::LoopProgram& program, const ScatterKernel& kernel);
inline constexpr int kScatterThreads = 128;  // of a block
// Of what fills the result of an ordered scatter: a thread has so many neighbours.
inline constexpr int kFillThreads = 256;
int vector_of_fill(const loop::LoopProgram& program, const ScatterKernel& kernel);

// Of the shared memory in which a kernel with tiles turns what this load reads; at most.
int64_t tile_bytes(const loop::LoopProgram& program, ExprId load);

// Of a generated kernel's step, which the planner of CUDA has planned; of a product in tiles too. Of kernels that are started together: the
// blocks of the first, then those of the second, all with the threads of the largest.
CudaGrid cuda_grid_of(const loop::LoopProgram& program, const Step& step);

}  // namespace toroid::schedule
