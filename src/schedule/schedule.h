// The schedule: loop computations grouped into kernels, in order, with the lifetimes of their buffers.
//
// A kernel is one loop nest. Its outer axes are independent and run in parallel; inside, stages run one after the other over the
// inner axes, each reducing into accumulators, storing results, or both:
//
//   for row in outer:                       softmax:
//     stage 0: for j in inner                 acc0 = max x[row, j]
//     stage 1: for j in inner                 stash0[j] = exp(x[row, j] - acc0);  acc1 = sum stash0[j]
//     stage 2: for j in inner                 out[row, j] = stash0[j] * (1 / acc1)
//
// Inside kernels every Load has one index: the position in elements from the buffer's first element.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "loop/loop.h"

namespace toroid::schedule {

using loop::AccumulatorId;
using loop::BufferId;
using loop::ExprId;
using loop::StashId;

struct Accumulate {  // accumulator = combine(accumulator, value)
  AccumulatorId accumulator;
  ExprId value;
  sym::Expr position;  // ArgMin, ArgMax: the row-major position of this element among the inner axes
};
struct Store {
  BufferId buffer;
  sym::Expr position;
  ExprId value;
};
struct Keep {  // stash[inner position] = value
  StashId stash;
  ExprId value;
};
using Statement = std::variant<Accumulate, Store, Keep>;
inline ExprId value_of(const Statement& statement) {
  return std::visit([](const auto& s) { return s.value; }, statement);
}

// What will be read or written soon, brought into a cache meanwhile; a place beyond the buffer does no harm.
struct Fetch {
  enum class To : uint8_t { SecondLevel, FirstLevel, FirstLevelToWrite };
  BufferId buffer;
  sym::Expr position;
  To to = To::SecondLevel;
};
std::string_view to_string(Fetch::To to);  // "fetch", "fetch near", "fetch to write"

// Blocked summation: a stage's sums of floats run for `steps` steps in their own dtype, then are added to totals in double and begin again.
// Their error is that of one block's sum, however long the row. No steps: the row is known to be short, or nothing is summed.
struct Blocks {
  int steps = 0;
  bool of_rows = false;  // steps of the loop around the vector loop; else whole vectors
};

struct Stage {
  bool inner = false;  // runs over the kernel's inner axes; else once a row
  std::vector<Statement> statements;
  std::vector<Fetch> fetches = {};  // in each iteration
  // Steps go to this many accumulators in turn, which are combined at the end. With VectorAlong::Inner neighbouring vectors do, so that a
  // step need not wait for the one before. With VectorAlong::Outer rows do, or `rows` of them, where floats are summed: each sum is of
  // fewer numbers.
  int turns = 1;
  // Each vector goes through this many rows, steps of the last inner axis, before the next one: its accumulators stay in registers
  // meanwhile, and memory is asked for several rows at once. More than 1 only with VectorAlong::Outer, where nothing depends on the row
  // alone.
  int rows = 1;
  Blocks blocks = {};
  // Where this holds in no lane, the stage changes nothing and is left out. A Bool that is the same along the inner axes.
  std::optional<ExprId> condition = {};
};

struct Accumulator {
  ReduceOp op;
  DType dtype;             // of the reduced values
  ProvenanceId origin{0};  // the model's operator that reduces
  loop::SumCare care = loop::SumCare::Usual;
  // On a GPU, a sum not of a row, but of each of its elements over all rows that a block of threads has: this buffer's row of that block.
  std::optional<BufferId> of_columns = {};
};
inline bool is_float_sum(const Accumulator& a) { return a.op == ReduceOp::Sum && is_floating(a.dtype); }

// How the stages of a kernel come by the values that several of them need: kept in stashes, or computed again in each.
enum class Form : uint8_t { Persistent, Looped };
std::string_view to_string(Form form);  // "persistent", "looped"
// Who says which form a kernel has: the first call, which times both where their estimates are close; the estimates; or all kernels that
// can have either have this one.
enum class Forms : uint8_t { Measured, Estimated, Persistent, Looped };
std::string_view to_string(Forms forms);
std::optional<Forms> parse_forms(std::string_view text);

// Which axis the lanes of a vector run along.
enum class VectorAlong : uint8_t { None, Inner, Outer };

// Rows and columns of the tiles in which a kernel turns what it reads: some lines of each page that is read, and all of it in the
// first-level cache.
inline constexpr int64_t kTileSide = 64;

// How the threads of a GPU share a kernel. A row is one combination of the outer axes; without inner axes it is one element. Threads of a
// block share a row, or have one each.
struct GpuLoops {
  int threads = 256;     // of a block
  int row_threads = 1;   // of them that share a row; a power of two
  bool columns = false;  // neighbouring threads have neighbouring rows; else neighbouring elements of a row
  int vector = 1;  // neighbours along the last axis that a thread takes at once: of the inner ones; of the outer ones with columns or a map
  // Vectors of a row that a thread takes, all of which stay in its registers; 0: any number, and there is no stash. Of a map, unless 0: so
  // many a thread takes along the axis before the last, for what does not change along it.
  int items = 0;
  bool shared = false;     // the stash, of a load, is in shared memory and as wide as in memory
  int pixels = 1;          // more than 1: vectors that a thread has along the pixels of a sliding window (schedule/cuda/sliding_window.h)
  int lanes = 1;           // with pixels: threads beside each other along the last axis
  int blocks = 0;          // more than 0: so many blocks go through all rows, and sum columns (Accumulator::of_columns)
  bool in_triton = false;  // printed in Triton, whose compiler decides on threads and vectors (codegen/triton/triton_printer.h)
  int triton_warps = 0;    // then: of a program; 0: by the size of its tile
  bool operator==(const GpuLoops&) const = default;
};

// How a GPU's tensor cores make a product (CallStep): the result in tiles, each block of threads some of them, with a ring in shared memory
// for what they read (codegen/cuda/prelude/products/hopper_products.inc).
struct GpuTiles {
  int rows = 128, columns = 128;
  int stages = 4;   // of the ring
  int cluster = 1;  // blocks with tiles under each other, which share what they load of the right side
  bool ping_pong =
      false;            // one warpgroup multiplies while the other is at the epilogue of its own tile; else each has half of a tile's rows
  int shares = 0;       // more than 0: so many clusters have the same share of all tiles' depth each (stream-K); else they have whole tiles
  int depth_warps = 0;  // more than 0: of few rows (schedule/cuda/products/few_rows.h), by blocks of so many warps that share the depth
  int groups =
      0;  // more than 0: of a convolution, rows x columns pixels of an image for so many groups (schedule/cuda/convolutions/group_tiles.h)
  bool operator==(const GpuTiles&) const = default;
};

struct Kernel {
  std::string name;
  std::vector<sym::Expr> outer;  // axes; with VectorAlong::Outer the last one is the vector axis
  std::vector<sym::Expr> inner;  // axes; with VectorAlong::Inner the last one is the vector axis
  std::vector<Stage> stages;
  std::vector<Accumulator> accumulators;  // by AccumulatorId
  std::vector<DType> stashes;             // by StashId
  VectorAlong vector = VectorAlong::None;
  std::optional<GpuLoops> gpu =
      {};  // of a kernel for a GPU, which has of what follows only tiles, read through shared memory, and `unfused`
  // An outer axis along which some loads are contiguous, forward or backward, while they jump along the vector axis: those are read a
  // square tile at a time and turned in cache. Only with VectorAlong::Outer and no inner axes.
  std::optional<sym::Expr> tile;
  std::vector<ExprId> tiled_loads;
  bool fetches_tiles = false;  // the next tile, while one is worked on; the stage's fetches are of the same places in the next one too
  std::vector<BufferId> streaming_stores;  // the caches
  // An epilogue (CallStep): the load that finds its value in a block of the product. The last outer axis are the product's columns, the
  // others its rows. Only with VectorAlong::Outer, one stage of stores, no inner axes.
  std::optional<ExprId> product;
  std::optional<ExprId> second_product;  // of a dual product's epilogue (CallStep): the load of its second result
  // Of a kernel that can have either form. Its results are the same to the last bit in both: multiplications are fused with additions where
  // the expression says so, by ExprId, and nowhere else (codegen/cpp/contraction.h).
  std::optional<Form> form;
  std::vector<ExprId> unfused;  // never fused with what uses it: what one of the forms keeps, and what is used more than once
  struct FormEstimate {
    double persistent, looped;  // cycles for each vector of a row, of what is kept or computed again, by the sizes' hints
  };
  FormEstimate form_estimate = {0, 0};
  // The same kernel in its other form, where the first call is to find out which is quicker; at most one. This one has the better estimate.
  std::vector<Kernel> other_forms;
  // Not empty: Halide pipelines compute it, with the loops that this autoscheduler of Halide's chooses; on a processor, in one task.
  std::string halide = {};
  // Small kernels over what this one wrote, run in the same launch by the thread that completes its last task.
  std::vector<Kernel> finish;
  std::vector<BufferId> reads;  // of `finish` too
  std::vector<BufferId> writes;
  std::vector<ProvenanceId> provenance;
};
// Elements a kernel visits, by the sizes' hints.
int64_t work_hint(const Kernel& kernel);

struct ScanKernel {  // one running value a row: rows in parallel
  std::string name;
  std::vector<sym::Expr> outer;  // all axes but the scanned one
  sym::Expr along;
  ScanOp op;
  ExprId value;
  std::vector<BufferId> outputs;
  std::vector<sym::Expr> positions;  // one per output
  std::vector<BufferId> reads;
  std::vector<ProvenanceId> provenance;
  int vector = 1;          // on a GPU: neighbours along the row that one access moves
  bool in_triton = false;  // as GpuLoops::in_triton
};

struct ScatterKernel {  // copies `base` to `out`, then runs in order, or each range of a dim of `out` does
  std::string name;
  BufferId base, out;
  std::vector<sym::Expr> axes;
  sym::Expr position;  // in out
  // The dim of `out` whose ranges run in parallel. Where its index is an axis, a range of the dim is one of the axis. Else the index is
  // read from a tensor, once for many elements, and each range goes through all of them and leaves out what others write.
  struct Split {
    size_t dim;
    sym::Expr index;
  };
  std::optional<Split> split;
  ScatterMode mode;
  ExprId value;
  std::vector<BufferId> reads;
  std::vector<ProvenanceId> provenance;
  // On a GPU, where elements are taken by their destinations (cuda/sorted_scatter.h): these, ascending, and which element each belongs to.
  struct Ordered {
    BufferId keys, elements;
    // Where elements are combined: of each chunk of them what it has of its first and of its last destination, as far as other chunks have
    // elements of that too; a second kernel puts these together.
    std::optional<BufferId> parts = {};
    int64_t unit = 1, bias = 0;       // a destination is (key + bias) * unit, and what the axes that it tells add
    std::optional<ExprId> fill = {};  // what the whole base is: it has no memory then, and `base` is `out`
    bool rounds_once = false;         // sums are rounded to the result's dtype at their end, not with each element
    int vector = 1;                   // with parts: neighbours along the last axis that the destination tells, which a thread takes at once
  };
  std::optional<Ordered> ordered = {};
};

struct BindStep {  // gives `expr` the value of the integer in a buffer of one element
  std::string name;
  sym::Expr expr;
  BufferId value;
  std::vector<ProvenanceId> provenance;
};

// A library kernel or control flow. A matrix product with two outputs and three operands is a dual one (dual GEMM): operand 0 by operand 1
// is outputs[0], and by operand 2 outputs[1]. A GPU's kernel makes both, and its epilogue takes them (cuda/products/dual_products.h).
struct CallStep {
  std::string name;
  loop::Call call;
  std::vector<BufferId> outputs;
  std::vector<ProvenanceId> provenance;
  std::string choice = {};  // which of the kernel's implementations computes it; empty: the kernel decides when it is called
  std::optional<Kernel> epilogue = std::nullopt;  // takes the results block by block; outputs are then in memory only if it writes them
  std::optional<GpuTiles> gpu = {};               // a kernel of the program's own computes it; else the library does
  // Makes operand 0 in each of that kernel's blocks; it is in memory nowhere (schedule/cuda/products/prologues.h).
  std::optional<Kernel> prologue = std::nullopt;
  // Of an attention by that kernel: write a row of operands 1 and 2, which it reads too (schedule/cuda/attention/cached_attention.h).
  std::vector<ScatterKernel> updates = {};
};

// Convolutions done band by band of image rows. Each but the first reads as its image what the one before it makes, its epilogue's one
// result or else outputs[0]; that has memory during the step, in which it need not be whole.
struct ChainStep {
  std::string name;
  std::vector<CallStep> calls;
  std::vector<ProvenanceId> provenance;
  std::string choice = {};  // as CallStep::choice, of the chain; its calls have none
};

// Kernels that do not wait for each other, started together: each by one thread of a processor, or all as one launch of a GPU, by blocks of
// their own.
using ParallelKernel = std::variant<Kernel, ScatterKernel>;
struct ParallelKernels {
  std::string name;
  std::vector<ParallelKernel> kernels;
  std::vector<ProvenanceId> provenance;
};

using Step = std::variant<Kernel, ScanKernel, ScatterKernel, CallStep, BindStep, ChainStep, ParallelKernels>;
// Is it a kernel that is printed in Triton?
bool is_in_triton(const Step& step);
Step as_single_step(const ParallelKernel& kernel);
const std::string& name_of(const Step& step);
const std::vector<ProvenanceId>& provenance_of(const Step& step);
// Of a program for a GPU: does the processor run it? It is its results', or those of what it binds.
bool is_on_host(const loop::LoopProgram& program, const Step& step);
// Does it copy tensors between the two?
bool is_device_copy(const Step& step);
std::vector<BufferId> reads_of(const CallStep& step);  // the operands first
std::vector<BufferId> reads_of(const Step& step);
bool is_read_once(std::span<const Step> steps, BufferId id);  // by one of them, and no other
std::vector<BufferId> writes_of(const CallStep& step);
std::vector<BufferId> writes_of(const Step& step);

// A temporary buffer in the arena: alive from the step that writes it to the last that reads it.
struct Lifetime {
  BufferId buffer;
  size_t first_step = 0;
  size_t last_step = 0;
};

struct Schedule {
  std::unique_ptr<loop::LoopProgram> loops;
  std::vector<Step> prepare;  // what needs to run once only: steps that write prepared buffers
  std::vector<Step> steps;
  std::vector<Lifetime> lifetimes;  // of temporaries that exist in memory, by first_step
};

inline constexpr std::string_view kComputedOnce = "the producer is computed once, before all calls";
// Why one computation, which reads what another made, is in one step with it or is not.
struct FusionDecision {
  ProvenanceId producer, consumer;  // the last operator of each
  int64_t bytes = 0;                // of what goes from one to the other, by the sizes' hints
  bool is_fused = false;
  std::string reason;  // "one kernel", "the consumer is fused into the product, block by block"; or what stands against it
  // What the kernel or call of each computes, some of it only in registers: a step that writes one of these contains it.
  std::vector<BufferId> producer_results = {}, consumer_results = {};
};

class Planner;
const Planner& cpu_planner();  // planner.h

// Groups computations into kernels and orders them; `planner` says what a target makes of them. `fuse` false: each computation is a kernel
// of its own, no reduction is split and no kernel has a finish; to find out whether these are at fault.
// `decisions`: unless null, each pair of producer and consumer is added.
Schedule make_schedule(std::unique_ptr<loop::LoopProgram> loops, bool fuse = true, std::vector<FusionDecision>* decisions = nullptr,
                       Forms forms = Forms::Measured, const Planner& planner = cpu_planner());

// The calls of these chains, by their steps' positions, become steps of their own, in the chains' places.
void take_chains_apart(Schedule& schedule, const std::vector<size_t>& steps);

// Its steps as in the text form (text.h).
std::string to_string(const Schedule& schedule);

}  // namespace toroid::schedule
