// The plans of a GPU's threads: which threads have which elements, what stays in their registers, and how many bytes they ask memory for at
// once.
//
// A map gives a thread some neighbouring elements, 16 bytes of the narrowest tensor. A row that is reduced has some threads of a block: as
// many as keep its elements in registers, so that it is read once. Where the results lie beside each other and the reduced elements do not,
// as in sums of columns, neighbouring threads have neighbouring results.
#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <tuple>
#include <unordered_set>

#include "lower/cost.h"
#include "schedule/axes.h"
#include "schedule/cpu/form_estimate.h"
#include "schedule/cpu/loops.h"
#include "schedule/cuda/attention/attention_kernel.h"
#include "schedule/cuda/attention/cached_attention.h"
#include "schedule/cuda/attention/written_attention.h"
#include "schedule/cuda/column_sums.h"
#include "schedule/cuda/convolutions/convolution_tiles.h"
#include "schedule/cuda/convolutions/filter_gradient_tiles.h"
#include "schedule/cuda/cuda_grid.h"
#include "schedule/cuda/kept_in_registers.h"
#include "schedule/cuda/launches/group_launches.h"
#include "schedule/cuda/masked_stage.h"
#include "schedule/cuda/order_kernels.h"
#include "schedule/cuda/products/dual_products.h"
#include "schedule/cuda/products/epilogue_work.h"
#include "schedule/cuda/products/few_rows.h"
#include "schedule/cuda/products/grouped_product.h"
#include "schedule/cuda/products/padded_rows.h"
#include "schedule/cuda/products/product_tiles.h"
#include "schedule/cuda/products/prologues.h"
#include "schedule/cuda/products/transposed_weights.h"
#include "schedule/cuda/sliding_window.h"
#include "schedule/cuda/sorted_scatter.h"
#include "schedule/fusion/group.h"
#include "schedule/planner.h"
#include "support/match.h"

namespace toroid::schedule {
namespace {

constexpr int kThreads = 256, kRowThreads = 128, kMostThreads = 1024;
constexpr int kColumns = 32;  // results of a block beside each other: a warp's
constexpr int kLanes = 8;     // of columns in vectors: 128 bytes of a row
constexpr int64_t kColumnsOfBlocks = 1 << 14;
constexpr int kMostColumnRegisters = 32, kVectorThreads = 512;  // of a thread's accumulators; threads of a block with vectors
constexpr int kAccessBytes = 16, kMostVector = 8;
constexpr int64_t kEnoughThreads = 1 << 16;  // fewer do not fill the device: each has fewer elements then
constexpr int kMostRepeats = 8;
constexpr int64_t kEnoughForRepeats = 1 << 18;  // of threads that then take several elements
constexpr int64_t kManyColumns = 1 << 17;       // of columns, which wait for each of their elements: more need not share one
constexpr int64_t kManyRows = 1024;
constexpr int kShortShare = 16, kLongShare = 32;  // elements of a row a thread, within a warp and beyond it
constexpr int64_t kLeastTile = 16, kMostTileBytes = 40 << 10;

// Memory that lies contiguously along the axis, less what jumps along it.
int contiguity(const std::vector<Access>& list, sym::Expr axis) {
  int total = 0;
  for (const Access& access : list) {
    if (access.is_memory && sym::depends_on(access.position, axis)) total += is_contiguous(access.position, axis) ? 1 : -1;
  }
  return total;
}

// The axis that memory follows best comes last; of equals the one that is there.
int put_best_last(const std::vector<Access>& list, std::vector<sym::Expr>& axes) {
  if (axes.empty()) return std::numeric_limits<int>::min();
  sym::Expr best = axes.back();
  for (sym::Expr axis : axes) {
    if (contiguity(list, axis) > contiguity(list, best) && extent_hint(axis) > 1) best = axis;
  }
  move_to_back(axes, best);
  return contiguity(list, best);
}

// Of axes that memory follows equally well the one along which results are contiguous comes last: what is read is turned by tiles.
void put_stores_last(const std::vector<Access>& list, Kernel& kernel) {
  const auto stores_along = [&](sym::Expr axis) {
    for (const Stage& stage : kernel.stages) {
      for (const Statement& statement : stage.statements) {
        const auto* store = std::get_if<Store>(&statement);
        if (store != nullptr && !is_contiguous(store->position, axis)) return false;
      }
    }
    return true;
  };
  if (stores_along(kernel.outer.back())) return;
  for (sym::Expr axis : kernel.outer) {
    if (extent_hint(axis) > 1 && contiguity(list, axis) == contiguity(list, kernel.outer.back()) && stores_along(axis))
      return move_to_back(kernel.outer, axis);
  }
}

// What jumps along the last axis and is contiguous along another one is read a tile at a time, so that threads that read together read what
// lies together.
void choose_transposed_tile(const loop::LoopProgram& program, Kernel& kernel) {
  const sym::Expr last = kernel.outer.back();
  if (extent_hint(last) < kLeastTile) return;
  int64_t bytes = 0;
  for (ExprId id : unconditional_loads(program.exprs, kernel)) {
    const auto& load = std::get<loop::Load>(program.exprs.node(id).op);
    const auto jump = sym::linear_in(load.index[0], last);
    if (!jump || !only_axes_and_sizes(load.index[0]) || jump->coefficient.is_const(0) || jump->coefficient.is_const(1)) continue;
    const int64_t own = tile_bytes(program, id);
    for (sym::Expr axis : kernel.outer) {
      const bool is_other = kernel.tile && *kernel.tile != axis;
      if (axis == last || is_other || extent_hint(axis) < kLeastTile || !is_contiguous(load.index[0], axis) || bytes + own > kMostTileBytes)
        continue;
      kernel.tile = axis;
      kernel.tiled_loads.push_back(id);
      bytes += own;
      break;
    }
  }
}

// ---- threads ------------------------------------------------------------------------------------------------------------------------

class CudaPlanner final : public Planner {
 public:
  CudaPlanner(TensorCores cores, const GpuLimits& limits, bool aligned) : cores_(cores), limits_(limits), aligned_(aligned) {}
  const Planner& of_subgraphs() const override;

  // Two blocks for each multiprocessor of the largest devices; as sizes alone decide, all devices compute the same.
  void prepare(loop::LoopProgram& program, std::optional<bool> on_host) const override {
    split_large_reductions(
        program,
        {.few_results = 128, .large_row = 1 << 15, .blocks = 256, .blocks_of_all = true, .columns = kColumnsOfBlocks, .on_host = on_host});
    if (cores_ == TensorCores::Hopper && aligned_) transpose_weights(program, on_host);  // what runs once is of the main graph
    if (cores_ != TensorCores::None) pad_rows(program, {.copies = aligned_, .on_host = on_host});
  }

  EpilogueAttempt as_epilogue(loop::LoopProgram& program, const Kernel& kernel, const loop::Call& call, BufferId product) const override {
    if (cores_ == TensorCores::None) return {{}, "the target's products take no epilogue"};
    const ConvolutionAttempt convolution = as_convolution_of_tiles(program, call, {product}, aligned_);
    if (std::holds_alternative<Convolution>(call.op)) {
      if (!convolution.shape) return {{}, convolution.reason};
    } else {
      const ProductAttempt attempt = as_product_of_tiles(program, call, {product}, aligned_);
      if (!attempt.shape) return {{}, attempt.reason};
      if (!tiles_of(*attempt.shape, work_of_epilogue(program, kernel, {product})))
        return {{}, "the library's product and a kernel after it are quicker"};
    }
    EpilogueAttempt made = schedule::as_epilogue(program, kernel, call, product);
    const auto is_in_vectors = [&] { return aligned_ && sym::known_divisible(extent(made.kernel->outer.back()), kMostVector); };
    if (!made.kernel && convolution.shape && cores_ == TensorCores::Hopper && suits_tma(*convolution.shape)) {
      made = as_epilogue_of_pixels(program, kernel, product);
      if (made.kernel && !is_in_vectors()) return {{}, "the pixels of an image are not in packs of 16 bytes"};
    }
    if (!made.kernel) return made;
    made.kernel->gpu = GpuLoops{.threads = kRowThreads, .vector = aligned_ ? kMostVector : 1};
    round_shared_products(program, *made.kernel);
    return made;
  }

  // Attention; orders; products that are quicker by a kernel of the program's own, and all that have an epilogue; convolutions.
  ChainDecisions finish(Schedule& schedule, bool fuse, Forms /*forms*/) const override {
    loop::LoopProgram& program = *schedule.loops;
    std::vector<Step> steps;
    for (Step& step : schedule.steps) {
      auto* const before = steps.empty() ? nullptr : std::get_if<ScatterKernel>(&steps.back());
      if (before != nullptr && is_read_once(schedule.steps, before->out) && round_result(program, *before, step)) continue;
      if (auto* scatter = std::get_if<ScatterKernel>(&step)) {
        if (std::optional<SortedScatter> sorted = sort_destinations(program, *scatter, vector_of_scatter(program, *scatter))) {
          fill_result(program, *scatter, steps);
          fill_result(program, *scatter, schedule.prepare);
          append(program, steps, std::move(sorted->keys), fuse);
          steps.emplace_back(std::move(sorted->sort));
        }
      }
      steps.push_back(std::move(step));
    }
    schedule.steps = std::move(steps);
    if (fuse) {
      sum_columns_beside_rows(program, schedule.steps,
                              [&](std::vector<Step>& made, Kernel kernel) { append(program, made, std::move(kernel), fuse); });
    }
    leave_out_unread_fills(program, schedule);
    for (auto* steps : {&schedule.prepare, &schedule.steps}) {
      for (Step& step : *steps) {
        if (auto* scan = std::get_if<ScanKernel>(&step)) scan->vector = vector_of_scan(program, *scan);
        auto* call = std::get_if<CallStep>(&step);
        if (call == nullptr) continue;
        if (is_written_attention(*call)) {
          call->gpu = written_attention_tiles(program, *call, cores_ == TensorCores::Hopper, aligned_);
          share_table(program, std::span(*steps).first(static_cast<size_t>(&step - steps->data())), *call);
          add_workspace(program, *call);
          continue;
        }
        call->choice = attention_choice(program, *call, cores_ == TensorCores::Hopper, aligned_);
        if (call->choice.empty()) call->choice = order_choice(program, *call, limits_.shared_bytes);
        if (call->choice.empty() && cores_ != TensorCores::None) call->choice = grouped_choice(program, *call, aligned_);
        add_workspace(program, *call);
        if (cores_ == TensorCores::None) continue;
        if (const ConvolutionAttempt found = as_convolution_of_tiles(program, call->call, call->outputs, aligned_); found.shape) {
          const bool waits = call->epilogue && work_of_epilogue(program, *call->epilogue, call->outputs).loads > 0;
          const bool by_tma = cores_ == TensorCores::Hopper;
          call->gpu = by_tma ? choose_tiles(*found.shape, has_pixels_across(program, *call), waits) : choose_gathered_tiles(*found.shape);
          continue;
        }
        if (const FilterGradientAttempt found = as_filter_gradient_of_tiles(program, call->call, call->outputs); found.shape) {
          call->gpu = choose_tiles(*found.shape);
          continue;
        }
        const ProductAttempt attempt = as_product_of_tiles(program, call->call, call->outputs, aligned_);
        if (!attempt.shape) continue;
        std::optional<EpilogueWork> work;
        if (call->epilogue) work = work_of_epilogue(program, *call->epilogue, call->outputs);
        call->gpu = tiles_of(*attempt.shape, work);
      }
    }
    if (fuse) {
      if (cores_ != TensorCores::None) {
        make_dual_products(program, schedule.steps,
                           [&](const ProductShape& shape, const std::optional<EpilogueWork>& work) { return tiles_of(shape, work); });
      }
      make_prologues(program, schedule.steps);
      if (cores_ == TensorCores::Hopper) fuse_cache_updates(program, schedule.steps);
      group_launches(program, schedule.steps);
    }
    return {};
  }

  void append(loop::LoopProgram& program, std::vector<Step>& steps, Kernel kernel, bool /*fuse*/) const override {
    merge_neighbours(program, kernel, kernel.outer);
    merge_neighbours(program, kernel, kernel.inner);
    if (kernel.inner.empty()) {
      plan_map(program, kernel);
    } else {
      plan_rows(program, kernel);
    }
    round_shared_products(program, kernel);
    choose_conditions(program.exprs, kernel);
    steps.push_back(std::move(kernel));
  }

 private:
  // Where TMA and wgmma are not, only products of few rows are the program's own.
  std::optional<GpuTiles> tiles_of(const ProductShape& shape, const std::optional<EpilogueWork>& work) const {
    return cores_ == TensorCores::Hopper ? choose_tiles(shape, work) : choose_few_rows(shape, false);
  }

  // Neighbours along the axis that one access may take: of what is contiguous along it, 16 bytes of the narrowest.
  int vector_along(const loop::LoopProgram& program, const Kernel& kernel, sym::Expr axis) const {
    int64_t narrowest = 0;
    auto see = [&](BufferId buffer, sym::Expr position) {
      if (!is_contiguous(position, axis)) return;
      const int64_t bytes = size_bytes(program.buffer(buffer).dtype);
      narrowest = narrowest == 0 ? bytes : std::min(narrowest, bytes);
    };
    for (ExprId id : unconditional_loads(program.exprs, kernel)) {
      const auto& load = std::get<loop::Load>(program.exprs.node(id).op);
      see(load.buffer, load.index[0]);
    }
    for (const Stage& stage : kernel.stages) {
      for (const Statement& statement : stage.statements) {
        if (const auto* store = std::get_if<Store>(&statement)) see(store->buffer, store->position);
      }
    }
    if (!aligned_ || narrowest == 0) return 1;
    int vector = std::min<int>(kMostVector, static_cast<int>(kAccessBytes / narrowest));
    while (vector > 1 && !sym::known_divisible(extent(axis), vector)) vector /= 2;
    return vector;
  }

  // 1 where results do not lie along the row, or not from a multiple of the vector on.
  int vector_of_scan(const loop::LoopProgram& program, const ScanKernel& scan) const {
    if (scan.along.is_const()) return 1;
    Kernel alone;
    alone.stages = {Stage{}};
    for (size_t i = 0; i < scan.outputs.size(); ++i)
      alone.stages[0].statements.emplace_back(Store{scan.outputs[i], scan.positions[i], scan.value});
    int vector = vector_along(program, alone, scan.along);
    for (sym::Expr position : scan.positions) {
      const auto linear = sym::linear_in(position, scan.along);
      while (vector > 1 && !(linear && linear->coefficient.is_const(1) && sym::known_divisible(linear->rest, vector))) vector /= 2;
    }
    return vector;
  }

  int vector_of_scatter(const loop::LoopProgram& program, const ScatterKernel& scatter) const {
    const ScatterThreads threads = scatter_threads(program, scatter);
    if (threads.parallel.empty()) return 1;
    Kernel alone;
    alone.stages = {Stage{.statements = {Store{scatter.out, scatter.position, scatter.value}}}};
    return vector_along(program, alone, threads.parallel.back());
  }

  // Of one stage that reduces: neighbours share what does not depend on the column.
  int vector_of_columns(const loop::LoopProgram& program, const Kernel& kernel) const {
    Kernel alone = kernel;
    int reducing = 0;
    for (Stage& stage : alone.stages) {
      if (const auto masked = masked_stage(program.exprs, kernel, stage)) stage = masked->stage;
      reducing += stage.inner ? 1 : 0;
    }
    if (!kernel.stashes.empty() || reducing != 1 || kernel.outer.empty()) return 1;
    int registers = 0;  // of a column
    for (const Accumulator& each : kernel.accumulators) registers += each.op == ReduceOp::ArgMin || each.op == ReduceOp::ArgMax ? 3 : 1;
    int vector = vector_along(program, alone, kernel.outer.back());
    while (vector > 1 && vector * registers > kMostColumnRegisters) vector /= 2;
    return vector;
  }

  void plan_map(const loop::LoopProgram& program, Kernel& kernel) const {
    GpuLoops gpu{.threads = kThreads};
    if (!kernel.outer.empty() && kernel.accumulators.empty()) {
      // What is read again for many elements is in a cache.
      std::vector<Access> list = accesses(program.exprs, kernel);
      std::erase_if(list, [&](const Access& access) {
        return !std::all_of(kernel.outer.begin(), kernel.outer.end(),
                            [&](sym::Expr axis) { return sym::depends_on(access.position, axis); });
      });
      put_best_last(list, kernel.outer);
      put_stores_last(list, kernel);
      choose_transposed_tile(program, kernel);
      gpu.vector = vector_along(program, kernel, kernel.outer.back());
      if (kernel.tile) gpu.vector = std::min(gpu.vector, vector_along(program, kernel, *kernel.tile));
      while (gpu.vector > 1 && work_hint(kernel) / gpu.vector < kEnoughThreads) gpu.vector /= 2;
      gpu.items = repeats_of_map(program, kernel, gpu.vector);
    }
    kernel.gpu = gpu;
  }

  // How many elements along the axis before the last a thread takes one after the other: so many share numbers of the last axis, as those
  // of a channel, where it is much to read or to compute them.
  static int repeats_of_map(const loop::LoopProgram& program, const Kernel& kernel, int vector) {
    if (kernel.outer.size() < 2 || kernel.tile) return 0;
    const sym::Expr axis = *(kernel.outer.end() - 2);
    if (axis.is_const()) return 0;
    std::vector<ExprId> values;
    for (const Stage& stage : kernel.stages) {
      for (const Statement& statement : stage.statements) match(statement, [&](const auto& s) { values.push_back(s.value); });
    }
    const std::unordered_set<ExprId> changing = varying(program.exprs, values, {axis});
    const std::unordered_set<ExprId> of_elements = varying(program.exprs, values, kernel.outer);
    int64_t shared = 0, own = 0;  // bytes
    bool is_dear = false;
    for (ExprId id : loop::reachable(program.exprs, values)) {
      if (!of_elements.contains(id)) continue;
      const loop::ExprNode& node = program.exprs.node(id);
      const bool is_own = changing.contains(id);
      if (const auto* load = std::get_if<loop::Load>(&node.op)) (is_own ? own : shared) += size_bytes(program.buffer(load->buffer).dtype);
      const auto* compute = std::get_if<loop::Compute>(&node.op);
      is_dear = is_dear || (!is_own && compute != nullptr &&
                            (is_transcendental(compute->op) || compute->op == ScalarOp::Div || compute->op == ScalarOp::Sqrt ||
                             compute->op == ScalarOp::Rsqrt));
    }
    if (shared == 0 || (shared <= own && !is_dear)) return 0;
    for (int count = kMostRepeats; count > 1; count /= 2) {
      if (sym::known_divisible(extent(axis), count) && work_hint(kernel) / vector / count >= kEnoughForRepeats) return count;
    }
    return 0;
  }

  void plan_rows(loop::LoopProgram& program, Kernel& kernel) const {
    GpuLoops gpu{.threads = kRowThreads};
    const std::vector<Access> list = accesses(program.exprs, kernel);
    const int along_rows = put_best_last(list, kernel.inner), across = put_best_last(list, kernel.outer);
    const sym::Expr row = product_of_extents(kernel.inner);
    const int64_t length = std::max<int64_t>(sym::evaluate_hint(row), 1);
    if (across > along_rows) {
      gpu.columns = true;
      if (plan_window(program, kernel)) return;
      const int64_t columns = std::max<int64_t>(sym::evaluate_hint(product_of_extents(kernel.outer)), 1);
      gpu.vector = vector_of_columns(program, kernel);
      // Few columns share their elements with other threads, before each thread has fewer of them.
      const auto lanes = [&] { return gpu.vector > 1 ? kLanes : kColumns; };
      const auto most_threads = [&] { return (gpu.vector > 1 ? kVectorThreads : kMostThreads) / lanes(); };
      const auto is_short_of_threads = [&](int64_t of_column) { return columns / gpu.vector * of_column < kManyColumns; };
      while (gpu.vector > 1 && is_short_of_threads(std::clamp<int64_t>(length / 8, 1, most_threads()))) gpu.vector /= 2;
      while (gpu.row_threads < most_threads() && gpu.row_threads * 8 < length && is_short_of_threads(gpu.row_threads)) gpu.row_threads *= 2;
      gpu.threads = std::max(lanes() * gpu.row_threads, kRowThreads);
    } else {
      gpu.vector = vector_along(program, kernel, kernel.inner.back());
      const auto share = [&] { return length / gpu.row_threads; };
      while (gpu.row_threads < limits_.wave && share() > std::max(gpu.vector, kShortShare)) gpu.row_threads *= 2;
      while (gpu.row_threads < kMostThreads && share() > kLongShare) gpu.row_threads *= 2;
      gpu.threads = std::max(kRowThreads, gpu.row_threads);
    }
    compute_cheap_again(program.exprs, kernel);
    if (!gpu.columns && keeps_in_shared_memory(program, kernel, gpu, length)) {
      kernel.gpu = gpu;
      return;
    }
    const int64_t of_row = gpu.row_threads * (gpu.columns ? 1 : gpu.vector);
    const int64_t items = row.is_const() ? (length + of_row - 1) / of_row : 0;
    const int64_t elements = items * gpu.vector;
    if (items > 0 && elements * std::max(registers_of(kernel), 1) <= kMostRegisters) {
      keep_loads(program.exprs, kernel, static_cast<size_t>(kMostRegisters / elements));
      gpu.items = kernel.stashes.empty() ? 0 : static_cast<int>(items);
      // Of rows that keep nothing, several at once hide where each waits.
      const bool has_many_rows = sym::evaluate_hint(product_of_extents(kernel.outer)) >= kManyRows;
      if (kernel.stashes.empty() && !gpu.columns && has_many_rows && gpu.row_threads > kThreads) gpu.row_threads = gpu.threads = kThreads;
    } else {
      compute_again(program.exprs, kernel);
    }
    kernel.gpu = gpu;
  }

  // Of a row whose one stash, of 16-bit floats, would leave room for one block a multiprocessor, which then waits for memory alone: in
  // shared memory two have room.
  bool keeps_in_shared_memory(loop::LoopProgram& program, Kernel& kernel, GpuLoops& gpu, int64_t length) const {
    constexpr int kThreadsOfRow = 512;
    constexpr int64_t kLeastRow = 16384;
    const int64_t most_shared = std::min<int64_t>(104 << 10, limits_.shared_bytes / 2);
    if (gpu.row_threads < kMostThreads || length < kLeastRow) return false;
    Kernel other = kernel;  // which computes again what is made of the load
    compute_again(program.exprs, other);
    keep_loads(program.exprs, other, 2);
    if (other.stashes.size() != 1) return false;
    const auto* load = std::get_if<loop::Load>(&program.exprs.node(kept_values(other)[0]).op);
    if (load == nullptr || !product_of_extents(kernel.inner).is_const() || !aligned_) return false;
    const int64_t bytes = size_bytes(program.buffer(load->buffer).dtype);
    const auto linear = sym::linear_in(load->index[0], kernel.inner.back());
    if (!is_reduced_float(program.buffer(load->buffer).dtype) || gpu.vector * bytes != kAccessBytes || kernel.inner.size() != 1)
      return false;
    if (!linear || !linear->coefficient.is_const(1) || !sym::known_divisible(linear->rest, gpu.vector)) return false;
    const int64_t of_row = int64_t{kThreadsOfRow} * gpu.vector, items = (length + of_row - 1) / of_row;
    if (items * of_row * bytes > most_shared) return false;
    gpu.threads = gpu.row_threads = kThreadsOfRow;
    gpu.items = static_cast<int>(items);
    gpu.shared = true;
    kernel = std::move(other);
    return true;
  }

  bool plan_window(const loop::LoopProgram& program, Kernel& kernel) const {
    const std::optional<SlidingWindow> window = sliding_window(program.exprs, kernel);
    if (!window) return false;
    const WindowShare share = share_of_window(program, kernel, *window, vector_of_columns(program, kernel));
    if (share.pixels == 1) return false;
    kernel.gpu = GpuLoops{.threads = kRowThreads, .columns = true, .vector = share.vector, .pixels = share.pixels, .lanes = share.lanes};
    return true;
  }

  TensorCores cores_;
  GpuLimits limits_;
  bool aligned_;  // the graph's inputs, to 16 bytes
};

// There are a few, which stay.
const Planner& planner_of(TensorCores cores, const GpuLimits& limits, bool aligned) {
  static std::mutex mutex;
  static std::map<std::tuple<TensorCores, GpuLimits, bool>, CudaPlanner> planners;
  const std::lock_guard lock(mutex);
  return planners.try_emplace({cores, limits, aligned}, cores, limits, aligned).first->second;
}

const Planner& CudaPlanner::of_subgraphs() const { return planner_of(cores_, limits_, false); }

}  // namespace

const Planner& cuda_planner(TensorCores cores, const GpuLimits& limits) { return planner_of(cores, limits, true); }

}  // namespace toroid::schedule
