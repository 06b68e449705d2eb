// A task has some filters, some channels and some blocks of positions of a group. What several tasks sum of the same elements is added in
// the order of their positions.
#include "runtime/kernels/conv/backward_weights/backward_weights.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>

#include "runtime/kernels/conv/backward_weights/depthwise.h"
#include "runtime/kernels/conv/backward_weights/ways.h"
#include "runtime/kernels/conv/backward_weights/write_filters.h"
#include "runtime/kernels/gemm/bf16x3/gemm.h"
#include "runtime/kernels/linked/linked_kernels.h"
#include "runtime/kernels/registry/operands.h"
#include "runtime/memory/scratch.h"

namespace toroid {
namespace {

Scratch scratch_for_sums;        // of all tasks: the caller's
Scratch scratch_for_own_sums;    // of a task that has all positions
Scratch scratch_for_total_sums;  // of a unit

BackwardWeightsShape shape_of(const KernelCall& call) {
  const ToroidOperand &x = call.inputs[0], &dy = call.inputs[1], &dw = call.outputs[0];
  const auto number = [&](int64_t i) { return static_cast<int64_t>(call.numbers[static_cast<size_t>(i)]); };
  BackwardWeightsShape s{/*batch=*/x.sizes[0],
                         /*groups=*/number(0),
                         /*channels=*/x.sizes[1] / number(0),
                         /*filters=*/dy.sizes[1] / number(0),
                         /*in=*/{1, 1},
                         /*out=*/{1, 1},
                         /*kernel=*/{1, 1},
                         /*stride=*/{1, 1},
                         /*padding=*/{0, 0},
                         /*dilation=*/{1, 1}};
  const int64_t dims = x.rank - 2;
  for (int64_t d = 0; d < dims; ++d) {
    const int64_t to = 2 - dims + d;
    s.in[to] = x.sizes[2 + d];
    s.out[to] = dy.sizes[2 + d];
    s.kernel[to] = dw.sizes[2 + d];
    s.stride[to] = number(1 + d);
    s.padding[to] = number(1 + dims + d);
    s.dilation[to] = number(1 + 2 * dims + d);
  }
  return s;
}

// How a group is cut into tasks, and its positions into blocks.
struct TaskGrid {
  int64_t filters = 1, channels = 1, positions = 1;  // parts of each
  PositionCut cut = {1, 1};
  double cycles = std::numeric_limits<double>::max();  // of a task, by estimate

  int64_t tasks() const { return filters * channels * positions; }
};

class BackwardWeights final : public KernelPlan {
 public:
  BackwardWeights(const KernelCall& call, const BackwardWeightsShape& shape)
      : shape_(with_folded_columns(shape)), shifts_(shape_), in_vectors_(backward_weights_in_vectors(shape_, shifts_)) {
    const int64_t threads = call.pool.threads();
    grid_in_vectors_ = grid_of(*in_vectors_, threads);
    if (!has_amx_bf16x3()) return;
    in_tiles_ = backward_weights_in_tiles(shape_, shifts_);
    grid_in_tiles_ = grid_of(*in_tiles_, threads);
    if (grid_in_tiles_.cycles * slowdown_of_parts(threads) > grid_in_vectors_.cycles) in_tiles_ = nullptr;
  }

  void run(const KernelCall& call) const override {
    if (in_tiles_ != nullptr && run(call, *in_tiles_, grid_in_tiles_)) return;
    run(call, *in_vectors_, grid_in_vectors_);
  }

 private:
  // A task's part of a group, in units of filters and channels, and in blocks.
  struct Task {
    int64_t group, part;
    Range filters, channels, blocks;
  };

  int64_t units_of_filters(const BackwardWeightsWay& way) const { return divide_up(shape_.filters, way.unit_filters); }
  int64_t units_of_channels(const BackwardWeightsWay& way) const { return divide_up(shape_.channels, way.unit_channels); }
  int64_t tap_row(const BackwardWeightsWay& way) const { return way.unit_filters * way.unit_channels; }
  int64_t unit_sums(const BackwardWeightsWay& way) const { return shape_.taps() * tap_row(way); }

  // Cycles of a task of such a grid, with what it takes to add up the parts.
  double cycles_of(const BackwardWeightsWay& way, const TaskGrid& grid, int64_t threads) const {
    constexpr double kWrite = 1.5, kUnitEnd = 600, kTask = 4000;  // an element; a unit's tap in a block; a task
    const int64_t units = divide_up(units_of_filters(way), grid.filters), channels = divide_up(units_of_channels(way), grid.channels);
    const int64_t blocks = divide_up(grid.cut.blocks(), grid.positions);
    const PositionBlock largest = grid.cut.largest(shape_);
    const auto positions = static_cast<double>(divide_up(largest.positions(shifts_), way.step) * way.step * blocks);
    const auto lines = static_cast<double>(largest.length_of_plane(shifts_, largest.positions(shifts_)) * blocks);
    const auto taps = static_cast<double>(shape_.taps()), pairs = static_cast<double>(units * channels);
    const double products = pairs * taps * (positions * way.product + static_cast<double>(blocks) * kUnitEnd);
    const double packing =
        static_cast<double>(units) * positions * way.pack_filters + static_cast<double>(channels) * lines * way.pack_channels;
    const double sums = static_cast<double>(shape_.filters * shape_.channels * shape_.taps());
    const double writing = kWrite * sums * static_cast<double>(grid.positions == 1 ? 1 : 1 + grid.positions) / static_cast<double>(threads);
    const auto rounds = static_cast<double>(divide_up(shape_.groups * grid.tasks(), threads));
    return (grid.tasks() > 1 ? kTask : 0) + rounds * (products + packing) + static_cast<double>(shape_.groups) * writing;
  }

  TaskGrid grid_of(const BackwardWeightsWay& way, int64_t threads) const {
    constexpr int64_t kMostBytes = int64_t{1} << 20;  // of the second-level cache
    TaskGrid best;
    for (int64_t filters = 1; filters <= std::min(threads, units_of_filters(way)); ++filters) {
      for (int64_t channels = 1; channels <= std::min(threads / filters, units_of_channels(way)); ++channels) {
        for (int64_t positions = 1; positions <= threads / filters / channels; ++positions) {
          TaskGrid grid = {/*filters=*/filters, /*channels=*/channels, /*positions=*/positions};
          const int64_t bytes = way.bytes_of_filters * divide_up(units_of_filters(way), filters) + way.bytes_of_channels;
          grid.cut = cut_positions(shape_, shifts_, std::max<int64_t>(1, kMostBytes / bytes), positions);
          if (grid.cut.blocks() < positions) continue;
          grid.cycles = cycles_of(way, grid, threads);
          if (grid.cycles < best.cycles) best = grid;
        }
      }
    }
    return best;
  }

  Task task_of(const BackwardWeightsWay& way, const TaskGrid& grid, int64_t i) const {
    const int64_t part = i % grid.positions, channels = i / grid.positions % grid.channels,
                  filters = i / grid.positions / grid.channels % grid.filters;
    return {/*group=*/i / grid.tasks(),
            /*part=*/part,
            /*filters=*/part_of(units_of_filters(way), filters, grid.filters),
            /*channels=*/part_of(units_of_channels(way), channels, grid.channels),
            /*blocks=*/part_of(grid.cut.blocks(), part, grid.positions)};
  }

  // Elements of the sums of all units of all groups, as one part of the positions has them.
  int64_t all_sums(const BackwardWeightsWay& way) const {
    return shape_.groups * units_of_filters(way) * units_of_channels(way) * unit_sums(way);
  }
  int64_t unit_at(const BackwardWeightsWay& way, int64_t group, int64_t filters, int64_t channels) const {
    return ((group * units_of_filters(way) + filters) * units_of_channels(way) + channels) * unit_sums(way);
  }

  // False: this way cannot take the operands, and what was written is of no use.
  bool run(const KernelCall& call, const BackwardWeightsWay& way, const TaskGrid& grid) const {
    const bool waits = grid.cut.blocks() > 1;  // sums of blocks or parts, in memory
    float* const sums = waits ? scratch_for_sums.get(grid.positions * all_sums(way)) : nullptr;
    std::atomic<bool> fit = true;
    call.pool.parallel_for(shape_.groups * grid.tasks(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end && fit.load(std::memory_order_relaxed); ++i) {
        const Task task = task_of(way, grid, i);
        float* const own = waits ? sums + task.part * all_sums(way) : scratch_for_own_sums.get(unit_sums(way));
        if (!run_task(call, way, grid, task, own)) fit.store(false, std::memory_order_relaxed);
      }
    });
    if (!fit) return false;
    if (grid.positions > 1) add_parts(call, way, grid.positions, sums);
    return true;
  }

  // `sums`: of all units, where blocks or parts are waited for, else a unit's.
  bool run_task(const KernelCall& call, const BackwardWeightsWay& way, const TaskGrid& grid, const Task& task, float* sums) const {
    const ToroidOperand &x = call.inputs[0], &dy = call.inputs[1];
    const ImageStrides of_x = image_strides(x), of_dy = image_strides(dy);
    const BackwardWeightsSides sides = {data_of(x) + task.group * (shape_.channels / shape_.folded) * of_x.channel,
                                        data_of(dy) + task.group * shape_.filters * of_dy.channel, of_x, of_dy};
    for (int64_t block = task.blocks.first; block < task.blocks.last; ++block) {
      const std::unique_ptr<PackedPositions> packed = way.take(grid.cut.block(shape_, block), sides);
      if (!packed->pack_filters(task.filters.first, task.filters.last)) return false;
      for (int64_t c = task.channels.first; c < task.channels.last; ++c) {
        if (!packed->pack_channels(c)) return false;
        for (int64_t k = task.filters.first; k < task.filters.last; ++k) {
          float* const to = grid.cut.blocks() > 1 ? sums + unit_at(way, task.group, k, c) : sums;
          for (int64_t tap = 0; tap < shape_.taps(); ++tap) {
            packed->multiply(k - task.filters.first, shifts_.taps[static_cast<size_t>(tap)], block > task.blocks.first,
                             to + tap * tap_row(way));
          }
          if (grid.positions == 1 && block + 1 == task.blocks.last) write(call, way, task.group, k, c, to);
        }
      }
    }
    return true;
  }

  void add_parts(const KernelCall& call, const BackwardWeightsWay& way, int64_t parts, const float* sums) const {
    const int64_t filters = units_of_filters(way), channels = units_of_channels(way), size = unit_sums(way), all = all_sums(way);
    call.pool.parallel_for(shape_.groups * filters * channels, 1, [&](int64_t begin, int64_t end) {
      float* const total = scratch_for_total_sums.get(size);
      for (int64_t i = begin; i < end; ++i) {
        const float* const first = sums + i * size;
        std::copy_n(first, size, total);
        for (int64_t part = 1; part < parts; ++part) {
          for (int64_t j = 0; j < size; ++j) total[j] += first[part * all + j];
        }
        write(call, way, i / channels / filters, i / channels % filters, i % channels, total);
      }
    });
  }

  // The sums of a unit as filters.
  void write(const KernelCall& call, const BackwardWeightsWay& way, int64_t group, int64_t filters, int64_t channels,
             const float* sums) const {
    const int64_t taps = shape_.taps(), first = filters * way.unit_filters, channel = channels * way.unit_channels;
    const int64_t count = std::min(way.unit_channels, shape_.channels - channel);
    for (int64_t k = first; k < std::min(first + way.unit_filters, shape_.filters); ++k) {
      float* const filter = data_of(call.outputs[0]) + (group * shape_.filters + k) * shape_.channels * taps;
      const float* const from = sums + (k - first) * way.unit_channels;
      if (shape_.folded == 1) {
        interleave_taps(from, tap_row(way), taps, count, filter + channel * taps);
        continue;
      }
      for (int64_t c = 0; c < count; ++c) {
        const int64_t of_image = (channel + c) / shape_.folded, column = (channel + c) % shape_.folded;
        for (int64_t tap = 0; tap < taps; ++tap) filter[(of_image * taps + tap) * shape_.folded + column] = from[tap * tap_row(way) + c];
      }
    }
  }

  const BackwardWeightsShape shape_;
  const TapShifts shifts_;
  std::unique_ptr<const BackwardWeightsWay> in_vectors_, in_tiles_;  // the latter null where it is not to be taken
  TaskGrid grid_in_vectors_, grid_in_tiles_;
};

// Without images or positions all sums are 0.
void write_zeros(const KernelCall& call) {
  const ToroidOperand& dw = call.outputs[0];
  std::fill_n(data_of(dw), product(dw.sizes, dw.rank), 0.0f);
}

}  // namespace

std::unique_ptr<const KernelPlan> plan_backward_weights(const KernelCall& call) {
  const ToroidOperand& dy = call.inputs[1];
  if (product(dy.sizes, dy.rank) == 0 || product(call.inputs[0].sizes, call.inputs[0].rank) == 0) return plan_running<write_zeros>(call);
  const BackwardWeightsShape shape = shape_of(call);
  if (shape.channels == 1 && shape.filters == 1 && shape.groups > 1) return plan_depthwise_backward_weights(shape, call.pool.threads());
  return std::make_unique<const BackwardWeights>(call, shape);
}

TOROID_LINKED_KERNEL(convolution_backward_weights, "library.convolution.backward_weights", nullptr, plan_backward_weights);

}  // namespace toroid
