// Lowers a core-level graph to the loop IR.
//
// Every value gets an expression over fresh axes. Views, casts, constants and element-wise operations stay expressions and
// disappear into the computations that use them:
//
//   y = permute(exp(x)); z = y + 1        =>        z[i, j] = exp(x[j, i]) + 1
//
// A value becomes a buffer ("is realised") when a library call or an output needs it in memory, when it comes from a reduction,
// scan or scatter, or when recomputing it in each use would cost more than a round trip to memory. The scheduler
// may still fuse that buffer away.
#pragma once

#include "loop/loop.h"

namespace toroid {

// Where an output of the program lives: `buffer`, contiguous, seen with the output's own sizes.
struct OutputBinding {
  loop::BufferId buffer;
  std::vector<sym::Expr> sizes;
};

struct LoweredGraph {
  std::unique_ptr<loop::LoopProgram> loops;
  std::vector<OutputBinding> outputs;  // one per graph output
};

// Which products of floats take weights of eight and four bits as they are: else these become floats once. Those of 8-bit floats do so on
// processors too.
enum class NarrowWeights : uint8_t {
  Kept,
  KeptForFewRows,  // in products of few rows of 16-bit floats, whose columns of weights are contiguous
  Widened,
};

struct LowerOptions {
  bool realise_all = false;  // every value becomes a buffer, as if each operation ran alone; to find out whether fusion is at fault
  bool convolutions_as_loops = false;      // else they are calls of the library
  bool integer_products_as_loops = false;  // but those of int8 that tensor cores take: else all are calls of the library
  bool products_of_narrow = false;         // products in float32 of factors that were widened from 16 bits take those as they were
  bool products_of_float8 = false;         // of many rows, whose factors are 8-bit floats, take their bits (float8_factors.h)
  NarrowWeights narrow_weights = NarrowWeights::Kept;
  int64_t most_rows_of_narrow_weights = 16;  // for which they are kept, if for few rows
  bool convolutions_in_tiles = false;        // those that a GPU's kernel makes so (packed_convolution.h) are calls all the same
  // Values of so many bytes are computed again where they are used, if that reads as little (cost.h): beyond a processor's caches, which
  // keep others. A GPU's caches keep little from one kernel to the next.
  int64_t least_recomputed_bytes = int64_t{64} << 20;
  bool recomputes_functions = false;  // so are dear functions of one narrower element: where they take less time than the bytes
  // What is gathered and then reduced to few results is in memory between: as a map of many threads, each of which waits for one element.
  // The few threads of the reduction would wait for one after the other.
  bool gathers_before_reductions = false;
  // Not null: values are where assign_devices put them (passes/devices/placement.h), some of them on the CPU, whose buffers are the host's
  // (loop::Buffer::on_host) and which are lowered with these options. Null: all are in one memory, and a copy between devices is its
  // operand.
  const LowerOptions* of_host = nullptr;
};
// The main graph first, then each subgraph. Control flow stays a call whose branches are graphs of their own; the operands and
// results of a subgraph are contiguous.
// Needs a core-level program. Throws Error{Unsupported} for what loops cannot express (complex numbers, 8-bit floats), naming
// the operation and its place in the model.
std::vector<LoweredGraph> lower(const Program& program, const LowerOptions& options = {});

}  // namespace toroid
