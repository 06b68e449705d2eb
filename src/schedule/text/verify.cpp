#include "schedule/text/verify.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "graph/shape_error.h"
#include "loop/verify.h"
#include "lower/convolutions/filter_gradient.h"
#include "schedule/axes.h"
#include "schedule/buffer_lists.h"
#include "schedule/cuda/attention/cached_attention.h"
#include "schedule/cuda/attention/written_attention.h"
#include "schedule/cuda/convolutions/convolution_tiles.h"
#include "schedule/cuda/convolutions/filter_gradient_tiles.h"
#include "schedule/cuda/convolutions/group_tiles.h"
#include "schedule/cuda/cuda_grid.h"
#include "schedule/cuda/cudnn/cudnn_step.h"
#include "schedule/cuda/order_kernels.h"
#include "schedule/cuda/products/few_rows.h"
#include "schedule/cuda/products/product_tiles.h"
#include "schedule/cuda/products/prologues.h"
#include "schedule/cuda/sliding_window.h"
#include "schedule/cuda/sorted_scatter.h"
#include "schedule/fusion/group.h"
#include "support/match.h"

namespace toroid::schedule {
namespace {

using toroid::to_string;

// More than the planner ever asks for: generated code grows with them.
constexpr int kMostTurns = 64;
constexpr int kMostSteps = 1 << 20;

class KernelRules {
 public:
  KernelRules(const loop::LoopProgram& program, const Kernel& kernel) : program_(program), kernel_(kernel) {}

  void check(std::span<const BufferId> products) {
    require(!kernel_.stages.empty(), "a kernel without stages");
    axes_ = kernel_.outer;
    axes_.insert(axes_.end(), kernel_.inner.begin(), kernel_.inner.end());
    for (sym::Expr axis : axes_)
      require(std::count(axes_.begin(), axes_.end(), axis) == 1, "axis {} is outer and inner", sym::to_string(axis));
    require(kernel_.vector != VectorAlong::Inner || !kernel_.inner.empty(), "a vector along inner axes, of which there are none");
    require(kernel_.vector != VectorAlong::Outer || !kernel_.outer.empty(), "a vector along outer axes, of which there are none");
    check_accumulators();
    std::vector<BufferId> stored;
    for (const Stage& stage : kernel_.stages) check(stage, stored);
    require(std::find(is_accumulated_.begin(), is_accumulated_.end(), false) == is_accumulated_.end(),
            "nothing accumulates one of the results");
    require(std::find(is_kept_.begin(), is_kept_.end(), false) == is_kept_.end(), "nothing keeps one of the stashes");
    check_gpu();
    check_tile();
    check_product(products);
    for (const Kernel& last : kernel_.finish) {
      verify(program_, last);
      for (BufferId id : last.reads) require(contains(kernel_.reads, id), "a finish reads '{}', and the kernel does not say so", name(id));
      stored.insert(stored.end(), last.writes.begin(), last.writes.end());
    }
    for (const Kernel& other : kernel_.other_forms) {
      verify(program_, other);
      require(kernel_.form && other.form && *kernel_.form != *other.form, "another form of a kernel is of the same form");
      require(other.reads == kernel_.reads && other.writes == kernel_.writes, "two forms of a kernel read or write different buffers");
    }
    require(kernel_.other_forms.size() <= 1, "a kernel has two forms at most");
    for (const Accumulator& each : kernel_.accumulators) {
      if (each.of_columns) stored.push_back(*each.of_columns);
    }
    for (BufferId id : stored) require(contains(kernel_.writes, id), "a store to '{}', which the kernel does not write", name(id));
    for (BufferId id : kernel_.writes) require(contains(stored, id), "nothing stores to '{}'", name(id));
    for (BufferId id : kernel_.streaming_stores) require(contains(stored, id), "a streaming store to '{}', which is not stored", name(id));
    verify_unique(kernel_.reads);
    verify_unique(kernel_.writes);
  }

 private:
  const std::string& name(BufferId id) const { return program_.buffer(id).name; }

  void verify_unique(const std::vector<BufferId>& list) const {
    for (BufferId id : list) require(std::count(list.begin(), list.end(), id) == 1, "'{}' is given twice", name(id));
  }

  void check_accumulators() {
    is_accumulated_.resize(kernel_.accumulators.size());
    is_kept_.resize(kernel_.stashes.size());
    for (const Accumulator& each : kernel_.accumulators) {
      require(each.op != ReduceOp::MeanM2, "a kernel accumulates no {}", to_string(each.op));
      require(each.care == loop::SumCare::Usual || is_float_sum(each), "only sums of floats are added with care");
      if (!each.of_columns) continue;
      const bool has_blocks = kernel_.gpu && kernel_.gpu->blocks > 0 && kernel_.gpu->items > 0 && !kernel_.gpu->columns;
      require(has_blocks && each.op == ReduceOp::Sum && each.dtype == DType::F32, "sums of columns in a kernel without blocks for them");
      const std::vector<sym::Expr> sizes = {kernel_.gpu->blocks, product_of_extents(kernel_.inner)};
      require(program_.buffer(*each.of_columns).sizes == sizes && program_.buffer(*each.of_columns).dtype == DType::F32,
              "'{}' does not hold the sums of columns", name(*each.of_columns));
    }
  }

  void check_gpu() const {
    if (!kernel_.gpu) return;
    const GpuLoops& gpu = *kernel_.gpu;
    const auto is_power = [](int n) { return n >= 1 && (n & (n - 1)) == 0; };
    require(is_power(gpu.threads) && gpu.threads >= 32 && gpu.threads <= 1024, "a block of {} threads", gpu.threads);
    require(is_power(gpu.row_threads) && gpu.row_threads <= gpu.threads, "{} threads a row", gpu.row_threads);
    require(is_power(gpu.vector) && gpu.vector <= 16, "vectors of {}", gpu.vector);
    require(gpu.triton_warps == 0 || (is_power(gpu.triton_warps) && gpu.triton_warps <= 16), "a kernel in Triton with {} warps",
            gpu.triton_warps);
    require(gpu.items >= 0 && gpu.items <= kMostTurns, "{} vectors a thread", gpu.items);
    require(kernel_.stashes.empty() || gpu.items > 0, "a stash of rows that have any length");
    require(!gpu.shared || (kernel_.stashes.size() == 1 && gpu.row_threads == gpu.threads && gpu.vector > 1), "no stash for shared memory");
    require(!kernel_.inner.empty() || gpu.row_threads == 1, "rows of one element with several threads");
    if (gpu.vector > 1) {
      const std::vector<sym::Expr>& axes = kernel_.inner.empty() || gpu.columns ? kernel_.outer : kernel_.inner;
      const bool fills = !axes.empty() && (kernel_.product || sym::known_divisible(*axes.back().node()->extent, gpu.vector));
      require(fills, "vectors of {} do not fill the last axis", gpu.vector);
      require(!gpu.columns || kernel_.stashes.empty(), "several columns a thread, with a stash");
    }
    require(gpu.pixels >= 1 && gpu.pixels <= 64, "{} pixels a thread", gpu.pixels);
    if (gpu.pixels > 1) {
      const std::optional<SlidingWindow> window = sliding_window(program_.exprs, kernel_);
      require(window && gpu.columns && gpu.row_threads == 1 && gpu.items == 0, "pixels of a thread without a sliding window");
      require(sym::known_divisible(extent(window->pixels), gpu.pixels), "{} pixels a thread do not fill an axis", gpu.pixels);
      require(gpu.lanes >= 1 && sym::known_divisible(extent(kernel_.outer.back()), gpu.lanes * gpu.vector), "{} lanes do not fill an axis",
              gpu.lanes);
    }
    if (gpu.items == 0) return;
    if (kernel_.inner.empty()) {
      const bool is_divided = kernel_.outer.size() >= 2 && sym::known_divisible(extent(*(kernel_.outer.end() - 2)), gpu.items);
      return require(is_divided && !kernel_.tile && kernel_.accumulators.empty(),
                     "{} vectors a thread do not divide the axis before the last", gpu.items);
    }
    const sym::Expr row = product_of_extents(kernel_.inner);
    const int64_t vector = gpu.columns ? 1 : gpu.vector;
    require(row.is_const() && row.value() <= gpu.items * gpu.row_threads * vector, "{} vectors a thread do not hold a row of {}", gpu.items,
            sym::to_string(row));
  }

  // What the values of a stage may use was completed in a stage before it.
  void check_results(const std::vector<ExprId>& values) const {
    for (ExprId id : loop::reachable(program_.exprs, values)) {
      const loop::ExprNode& node = program_.exprs.node(id);
      if (const auto* acc = std::get_if<loop::Accumulated>(&node.op)) {
        const auto at = static_cast<size_t>(acc->id);
        require(at < is_accumulated_.size() && is_accumulated_[at], "acc{} is used before it is complete", at);
        require(!kernel_.accumulators[at].of_columns, "acc{} is of all rows", at);
        loop::verify_reduce_dtype(kernel_.accumulators[at].op, kernel_.accumulators[at].dtype, node.dtype);
      }
      if (const auto* stash = std::get_if<loop::Stashed>(&node.op)) {
        const auto at = static_cast<size_t>(stash->id);
        require(at < is_kept_.size() && is_kept_[at], "stash{} is used before it is kept", at);
        require(kernel_.stashes[at] == node.dtype, "stash{} is {}, not {}", at, to_string(kernel_.stashes[at]), to_string(node.dtype));
      }
      if (const auto* load = std::get_if<loop::Load>(&node.op)) {
        require(contains(kernel_.reads, load->buffer), "a load from '{}', which the kernel does not read", name(load->buffer));
      }
    }
  }

  void check(const Stage& stage, std::vector<BufferId>& stored) {
    require(stage.turns >= 1 && stage.turns <= kMostTurns, "{} turns", stage.turns);
    require(stage.rows >= 1 && stage.rows <= kMostTurns, "{} rows", stage.rows);
    require(stage.rows == 1 || (kernel_.vector == VectorAlong::Outer && !kernel_.inner.empty()),
            "rows of a kernel whose vectors lie otherwise");
    require(stage.blocks.steps >= 0 && stage.blocks.steps <= kMostSteps, "blocks of {} steps", stage.blocks.steps);
    require(!stage.inner || !kernel_.inner.empty(), "a stage over inner axes, of which there are none");
    const std::span<const sym::Expr> axes = stage.inner ? std::span<const sym::Expr>(axes_) : std::span<const sym::Expr>(kernel_.outer);
    std::vector<ExprId> values;
    std::vector<sym::Expr> positions;
    for (const Fetch& each : stage.fetches) positions.push_back(each.position);
    for (const Statement& statement : stage.statements) {
      values.push_back(value_of(statement));
      if (const auto* s = std::get_if<Accumulate>(&statement)) positions.push_back(s->position);
      if (const auto* s = std::get_if<Store>(&statement)) positions.push_back(s->position);
    }
    if (stage.condition) {
      require(program_.exprs.dtype(*stage.condition) == DType::Bool, "a stage's condition is {}",
              to_string(program_.exprs.dtype(*stage.condition)));
      values.push_back(*stage.condition);
    }
    loop::verify_uses(program_, values, positions, axes, true);
    check_results(values);
    for (const Statement& statement : stage.statements) {
      const DType dtype = program_.exprs.dtype(value_of(statement));
      match(
          statement,
          [&](const Accumulate& s) {
            const auto at = static_cast<size_t>(s.accumulator);
            require(at < is_accumulated_.size(), "there is no acc{}", at);
            require(!is_accumulated_[at], "acc{} is accumulated twice", at);
            const DType own = kernel_.accumulators[at].dtype;
            require(own == dtype, "acc{} is {}, and what it adds {}", at, to_string(own), to_string(dtype));
          },
          [&](const Store& s) {
            const DType storage = program_.buffer(s.buffer).dtype;
            require(loop::register_dtype(storage) == dtype, "a value of {} goes to a buffer of {}", to_string(dtype), to_string(storage));
            stored.push_back(s.buffer);
          },
          [&](const Keep& s) {
            const auto at = static_cast<size_t>(s.stash);
            require(at < is_kept_.size(), "there is no stash{}", at);
            require(!is_kept_[at], "stash{} is kept twice", at);
            require(stage.inner && kernel_.stashes[at] == dtype, "stash{} cannot hold {}", at, to_string(dtype));
          });
    }
    // Complete from the next stage on.
    for (const Statement& statement : stage.statements) {
      if (const auto* s = std::get_if<Accumulate>(&statement)) is_accumulated_[static_cast<size_t>(s->accumulator)] = true;
      if (const auto* s = std::get_if<Keep>(&statement)) is_kept_[static_cast<size_t>(s->stash)] = true;
    }
  }

  void check_tile() const {
    require(kernel_.tile.has_value() == !kernel_.tiled_loads.empty(), "a tile and loads that it turns belong together");
    if (!kernel_.tile) return;
    const bool is_outer = std::find(kernel_.outer.begin(), kernel_.outer.end(), *kernel_.tile) + 1 < kernel_.outer.end();
    const bool follows_last =
        kernel_.gpu ? sym::known_divisible(extent(*kernel_.tile), kernel_.gpu->vector) : kernel_.vector == VectorAlong::Outer;
    const bool has_pieces =
        !kernel_.gpu || kTileSide * kTileSide / kernel_.gpu->vector % kernel_.gpu->threads == 0;  // the same for each thread
    require(is_outer && follows_last && has_pieces && kernel_.inner.empty(), "a tile along {}", sym::to_string(*kernel_.tile));
    for (ExprId id : kernel_.tiled_loads) {
      const auto* load = std::get_if<loop::Load>(&program_.exprs.node(id).op);
      require(load != nullptr && load->index.size() == 1, "what a tile turns is no load");
      const auto step = sym::linear_in(load->index[0], *kernel_.tile);
      require(step && (step->coefficient.is_const(1) || step->coefficient.is_const(-1)),
              "a load that a tile turns is not contiguous along it");
      const auto across = sym::linear_in(load->index[0], kernel_.outer.back());
      require(across.has_value(), "a load that a tile turns does not follow the vector axis");
    }
  }

  void check_product(std::span<const BufferId> products) const {
    require(kernel_.product.has_value() == !products.empty() && kernel_.second_product.has_value() == (products.size() > 1),
            "only an epilogue takes products, one or two as there are");
    if (products.empty()) return;
    const auto check = [&](ExprId id, BufferId product) {
      const auto* load = std::get_if<loop::Load>(&program_.exprs.node(id).op);
      require(load != nullptr && load->buffer == product && load->index.size() == 1, "an epilogue takes another result");
      return load->index[0];
    };
    const sym::Expr place = check(*kernel_.product, products[0]);
    require(products.size() == 1 || check(*kernel_.second_product, products[1]) == place,
            "an epilogue takes elements of two products at different places");
    const bool is_plain = kernel_.vector == VectorAlong::Outer && kernel_.inner.empty() && kernel_.stages.size() == 1 &&
                          kernel_.accumulators.empty() && kernel_.stashes.empty();
    require(is_plain, "an epilogue is one stage of stores over rows and columns");
  }

  const loop::LoopProgram& program_;
  const Kernel& kernel_;
  std::vector<sym::Expr> axes_;
  std::vector<bool> is_accumulated_, is_kept_;
};

void verify_ring(const GpuTiles& tiles) {
  require(tiles.rows % 64 == 0 && tiles.rows >= (tiles.ping_pong ? 64 : 128) && tiles.rows <= 256, "tiles of {} rows", tiles.rows);
  require(tiles.columns % 64 == 0 && tiles.columns >= 64 && tiles.columns <= 256, "tiles of {} columns", tiles.columns);
  require(tiles.stages >= 2 && shared_bytes_of(tiles) <= kMostSharedBytes, "a ring of {} stages", tiles.stages);
}

void verify_convolution_tiles(const loop::LoopProgram& program, const CallStep& step) {
  const GpuTiles& tiles = *step.gpu;
  require(tiles.cluster == 1, "a convolution in clusters");
  const ConvolutionAttempt convolution = as_convolution_of_tiles(program, step.call, step.outputs);
  require(convolution.shape.has_value(), "{}", convolution.reason);
  if (tiles.ping_pong) {
    require(suits_tma(*convolution.shape), "a convolution by TMA of images that it cannot bring");
    return verify_ring(tiles);
  }
  if (tiles.groups > 0) {
    require(tiles.stages == 1 && convolution.shape->has_narrow_groups && are_group_tiles(*convolution.shape, tiles),
            "a convolution in tiles of {} x {} pixels for {} groups", tiles.rows, tiles.columns, tiles.groups);
    return;
  }
  require(convolution.shape->is_in_eights, "tiles of filters for groups that are not in eights");
  require((tiles.rows == 64 || tiles.rows == 128) && (tiles.columns == 64 || tiles.columns == 128), "tiles of {} pixels and {} filters",
          tiles.rows, tiles.columns);
  require(tiles.stages >= 2 && tiles.stages <= 4, "a ring of {} stages", tiles.stages);
  require(!has_pixels_across(program, step), "a convolution whose threads gather pixels that are columns");
}

void verify_filter_gradient_tiles(const loop::LoopProgram& program, const CallStep& step) {
  const GpuTiles& tiles = *step.gpu;
  require((tiles.rows == 64 || tiles.rows == 128) && (tiles.columns == 64 || tiles.columns == 128),
          "tiles of {} filters and {} of their elements", tiles.rows, tiles.columns);
  require(tiles.stages >= 2 && tiles.stages <= 4 && tiles.cluster == 1 && !tiles.ping_pong, "a ring of {} stages, clusters or ping-pong",
          tiles.stages);
  const FilterGradientAttempt gradient = as_filter_gradient_of_tiles(program, step.call, step.outputs);
  require(gradient.shape.has_value(), "{}", gradient.reason);
  const ConvolutionShape& it = gradient.shape->convolution;
  require(it.groups.is_const(1) || sym::known_eq(sym::mod(sym::floor_div(it.k, it.groups), tiles.rows), 0),
          "tiles of {} filters, which end within a slab", tiles.rows);
}

void verify_written_attention_tiles(const loop::LoopProgram& program, const CallStep& step) {
  const GpuTiles &tiles = *step.gpu, on_hopper = written_attention_tiles(program, step, true, true),
                 elsewhere = written_attention_tiles(program, step, false, true);
  require(tiles == on_hopper || tiles == elsewhere, "tiles of attention that has no such kernel");
}

void verify_cached_attention_tiles(const loop::LoopProgram& program, const CallStep& step) {
  require(as_cached_attention(program, step).has_value(), "a call writes rows of what is no cache of its own");
  require(*step.gpu == cached_attention_tiles(program, step), "tiles of attention that has no such kernel");
}

void verify_tiles(const loop::LoopProgram& program, const CallStep& step) {
  if (!step.updates.empty()) return verify_cached_attention_tiles(program, step);
  if (is_written_attention(step)) return verify_written_attention_tiles(program, step);
  if (is_library(step.call.op, kFilterGradient)) return verify_filter_gradient_tiles(program, step);
  if (std::holds_alternative<Convolution>(step.call.op)) return verify_convolution_tiles(program, step);
  const GpuTiles& tiles = *step.gpu;
  const ProductAttempt product = as_product_of_tiles(program, step.call, step.outputs);
  require(product.shape.has_value(), "{}", product.reason);
  if (tiles.depth_warps > 0) return require(is_few_rows_plan(*product.shape, tiles), "tiles of few rows that have no kernel");
  verify_ring(tiles);
  require(!product.shape->second || are_dual_tiles(*product.shape, tiles), "tiles of a dual product that have no kernel");
  require(tiles.cluster == 1 || tiles.cluster == 2, "clusters of {} blocks", tiles.cluster);
  require(tiles.shares >= 0 && tiles.shares * tiles.cluster <= kMultiprocessors, "the work in {} shares", tiles.shares);
}

void verify(const loop::LoopProgram& program, const CallStep& step, std::span<const Graph> subgraphs) {
  loop::verify_call(program, step.call, results_of(step), subgraphs);
  loop::verify_scores(program, step.call, true);
  if (step.epilogue) {
    require(step.gpu.has_value() == step.epilogue->gpu.has_value(), "an epilogue for another device than its product");
    require(is_dual_product(step.call) || makes_product(program, step.call, step.outputs), "a call that takes no epilogue has one");
    verify(program, *step.epilogue, step.outputs);
  }
  require(!is_dual_product(step.call) || (step.gpu && step.epilogue), "a dual product without tiles and epilogue");
  if (step.gpu) verify_tiles(program, step);  // which follow the epilogue
  if (cudnn_of(step.choice) != Cudnn::Never) {
    const CudnnAttempt attempt = as_cudnn_call(program, step);
    require(attempt.call || may_be_cudnn_attention(program, step), "a step that is not cuDNN's: {}", attempt.reason);
  }
  if (step.prologue) {
    require(step.gpu && (!step.updates.empty() || is_product_with_prologue(program, step)), "a call that takes no prologue has one");
    verify(program, *step.prologue, {});
  }
  require(step.updates.empty() || step.gpu, "a call of the library writes rows of its operands");
}

// Buffers that a value and positions load from.
std::vector<BufferId> loaded(const loop::LoopProgram& program, ExprId value, std::span<const sym::Expr> positions) {
  std::vector<ExprId> roots = {value};
  for (sym::Expr each : positions) {
    if (each.is_const()) continue;
    for (sym::Expr symbol : sym::free_symbols(each)) {
      if (const loop::ValueSymbol* found = program.exprs.value_symbol(symbol)) roots.push_back(found->index);
    }
  }
  std::vector<BufferId> result;
  for (ExprId id : loop::reachable(program.exprs, roots)) {
    const loop::ExprOp& op = program.exprs.node(id).op;
    require(!std::holds_alternative<loop::Accumulated>(op) && !std::holds_alternative<loop::Stashed>(op),
            "this kernel accumulates and keeps nothing");
    if (const auto* load = std::get_if<loop::Load>(&op)) result.push_back(load->buffer);
  }
  return result;
}

void verify_reads(const loop::LoopProgram& program, const std::vector<BufferId>& loads, const std::vector<BufferId>& reads) {
  for (BufferId id : loads) require(contains(reads, id), "a load from '{}', which the step does not read", program.buffer(id).name);
}

void verify(const loop::LoopProgram& program, const ScanKernel& step) {
  std::vector<sym::Expr> axes = step.outer;
  require(std::find(axes.begin(), axes.end(), step.along) == axes.end(), "axis {} is scanned and kept", sym::to_string(step.along));
  axes.push_back(step.along);
  const bool has_index = step.op == ScanOp::Max || step.op == ScanOp::Min;
  require(step.outputs.size() == (has_index ? 2 : 1), "a scan with {} results", step.outputs.size());
  loop::verify_uses(program, {step.value}, step.positions, axes, true);
  require(loop::register_dtype(program.buffer(step.outputs[0]).dtype) == program.exprs.dtype(step.value), "a scan of {} gives {}",
          to_string(program.exprs.dtype(step.value)), to_string(program.buffer(step.outputs[0]).dtype));
  require(!has_index || program.buffer(step.outputs[1]).dtype == DType::I64, "the positions of a scan are i64");
  verify_reads(program, loaded(program, step.value, step.positions), step.reads);
}

void verify(const loop::LoopProgram& program, const ScatterKernel& step) {
  const loop::Buffer &out = program.buffer(step.out), &base = program.buffer(step.base);
  require(base.dtype == out.dtype && base.sizes.size() == out.sizes.size(), "a scatter into another type");
  std::vector<sym::Expr> positions = {step.position};
  if (step.split) {
    require(step.split->dim < out.sizes.size(), "a scatter is split along dim {} of {}", step.split->dim, out.sizes.size());
    positions.push_back(step.split->index);
  }
  loop::verify_uses(program, {step.value}, positions, step.axes, true);
  require(loop::register_dtype(out.dtype) == program.exprs.dtype(step.value), "a scatter of {} into {}",
          to_string(program.exprs.dtype(step.value)), to_string(out.dtype));
  verify_reads(program, loaded(program, step.value, positions), step.reads);
  const bool is_filled = step.ordered && step.ordered->fill;
  require(is_filled ? step.base == step.out : contains(step.reads, step.base), "a scatter does not read its base");
  if (!step.ordered) return;
  require(!is_filled || std::holds_alternative<loop::Literal>(program.exprs.node(*step.ordered->fill).op),
          "a scatter is filled with a literal");
  require(step.ordered->unit > 0 && step.ordered->vector > 0, "a scatter's destinations have no elements");
  require(contains(step.reads, step.ordered->keys) && contains(step.reads, step.ordered->elements), "a scatter does not read its order");
  require(is_integral(program.buffer(step.ordered->keys).dtype) && program.buffer(step.ordered->elements).dtype == DType::I64,
          "a scatter is ordered by integers");
  require(destination_of(program, step).has_value(), "a scatter whose destinations are no sum has an order");
  if (!step.ordered->parts) return;
  const loop::Buffer& parts = program.buffer(*step.ordered->parts);
  const sym::Expr needed = parts_of_chunks(program, step);
  require(step.mode != ScatterMode::Set && parts.dtype == program.exprs.dtype(step.value) && sym::product(parts.sizes) == needed,
          "the parts of a scatter's chunks are {} numbers", sym::to_string(needed));
}

}  // namespace

void verify(const loop::LoopProgram& program, const Kernel& kernel, std::span<const BufferId> products) {
  KernelRules(program, kernel).check(products);
}

void verify(const loop::LoopProgram& program, const Step& step, std::span<const Graph> subgraphs) {
  match(
      step, [&](const Kernel& s) { verify(program, s); }, [&](const ScanKernel& s) { verify(program, s); },
      [&](const ScatterKernel& s) { verify(program, s); },
      [&](const CallStep& s) {
        verify(program, s, subgraphs);
        for (const ScatterKernel& update : s.updates) verify(program, update);
      },
      [&](const BindStep& s) {
        const loop::Buffer& value = program.buffer(s.value);
        require(is_integral(value.dtype) && sym::product(value.sizes).is_const(1), "a size is bound to one integer");
        loop::verify_sizes({&s.expr, 1});
      },
      [&](const ChainStep& s) {
        require(s.calls.size() >= 2, "a chain of {} calls", s.calls.size());
        for (size_t i = 0; i < s.calls.size(); ++i) {
          const CallStep& call = s.calls[i];
          require(std::holds_alternative<Convolution>(call.call.op), "a chain of other calls than convolutions");
          require(call.choice.empty(), "a call of a chain has no choice of its own");
          verify(program, call, subgraphs);
          require(i == 0 || contains(writes_of(s.calls[i - 1]), call.call.operands[0].buffer),
                  "a call of a chain does not read what the one before makes");
        }
      },
      [&](const ParallelKernels& s) {
        require(!s.kernels.empty(), "no kernels together");
        std::unordered_map<BufferId, const ParallelKernel*> writers;
        for (const ParallelKernel& each : s.kernels) {
          verify(program, as_single_step(each), subgraphs);
          for (BufferId id : writes_of(as_single_step(each)))
            require(writers.emplace(id, &each).second, "'{}' is written twice", program.buffer(id).name);
        }
        for (const ParallelKernel& each : s.kernels) {
          for (BufferId id : reads_of(as_single_step(each))) {
            const auto writer = writers.find(id);
            require(writer == writers.end() || writer->second == &each, "a kernel reads '{}', which one that is started with it writes",
                    program.buffer(id).name);
          }
        }
      });
}

void verify_order(const Schedule& schedule) {
  const loop::LoopProgram& program = *schedule.loops;
  std::unordered_set<BufferId> written;
  for (const bool is_once : {true, false}) {
    for (const Step& step : is_once ? schedule.prepare : schedule.steps) {
      const bool is_kernel = !std::holds_alternative<CallStep>(step) && !std::holds_alternative<ChainStep>(step);
      const std::vector<BufferId> writes = writes_of(step);
      for (BufferId id : reads_of(step)) {
        const loop::Buffer& buffer = program.buffer(id);
        const bool is_given = buffer.kind == loop::BufferKind::Constant ||
                              (!is_once && (buffer.kind == loop::BufferKind::Input || buffer.kind == loop::BufferKind::RandomState));
        const bool is_empty = sym::product(buffer.sizes).is_const(0);
        const bool is_own = is_kernel && contains(writes, id);  // what a finish reads
        require(is_given || is_empty || is_own || written.contains(id) || contains(writes, id), "'{}' is read before it is written",
                buffer.name);
      }
      for (BufferId id : writes) {
        const loop::Buffer& buffer = program.buffer(id);
        const bool is_ours = is_once ? buffer.kind == loop::BufferKind::Prepared
                                     : buffer.kind == loop::BufferKind::Temporary || buffer.kind == loop::BufferKind::Output;
        require(is_ours, "a step that runs {} writes '{}'", is_once ? "once" : "in each call", buffer.name);
        require(written.insert(id).second, "'{}' is written twice", buffer.name);
      }
    }
  }
}

}  // namespace toroid::schedule
