#include "schedule/cuda/launches/group_launches.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "schedule/cuda/cuda_grid.h"
#include "schedule/cuda/launches/accesses.h"
#include "schedule/fusion/parallel_kernels.h"

namespace toroid::schedule {
namespace {

constexpr int64_t kSmallThreads = int64_t{kMultiprocessors} * 2048;  // those that run at once: what has more fills the device alone
constexpr size_t kMostKernels = 24, kMostParameters = 400;           // of a launch, whose arguments are 4 KB at most
constexpr int64_t kMostBytes = 64 << 20;                             // temporaries of a launch, all of which are in memory at once
constexpr int64_t kMostTilesOfLaunch = 40 << 10;                     // of tiles in shared memory
constexpr size_t kFarthest = 512;                                    // steps that a kernel moves over

// A step, or some that become one launch.
struct Entry {
  std::vector<Step> steps;
  Accesses accesses;
  int threads = 0;  // of its blocks; 0: it is started alone
  int64_t bytes = 0, tile_bytes = 0;
};

class LaunchGrouping {
 public:
  explicit LaunchGrouping(const loop::LoopProgram& program) : program_(program), accesses_(program) {}

  void add(Step step) {
    Entry made = entry(std::move(step));
    if (made.threads == 0 || !join(made)) entries_.push_back(std::move(made));
  }

  std::vector<Step> take() {
    std::vector<Step> result;
    for (Entry& each : entries_) {
      if (each.steps.size() == 1) {
        result.push_back(std::move(each.steps[0]));
        continue;
      }
      for (Step& step : each.steps) {
        if (auto* kernel = std::get_if<Kernel>(&step)) kernel->gpu->threads = each.threads;
      }
      result.emplace_back(as_group(std::move(each.steps)));
    }
    return result;
  }

 private:
  Entry entry(Step step) const {
    Entry made;
    made.accesses = accesses_.of(step);
    if (const auto threads = threads_of(step)) {
      made.threads = *threads;
      made.bytes = temporary_bytes(step);
      if (const auto* kernel = std::get_if<Kernel>(&step)) made.tile_bytes = bytes_of_tiles(*kernel);
    }
    made.steps.push_back(std::move(step));
    return made;
  }

  // The least threads of a block by which a small kernel can be started with others.
  std::optional<int> threads_of(const Step& step) const {
    const auto* kernel = std::get_if<Kernel>(&step);
    const bool is_plain = kernel != nullptr && kernel->gpu && kernel->finish.empty() && kernel->other_forms.empty();
    if (!is_plain && !std::holds_alternative<ScatterKernel>(step)) return std::nullopt;
    if (kernel != nullptr && kernel->gpu->blocks > 0) return std::nullopt;
    const auto* scatter = std::get_if<ScatterKernel>(&step);
    if (scatter != nullptr && scatter->ordered && scatter->ordered->parts) return std::nullopt;  // it is two kernels
    const CudaGrid grid = cuda_grid_of(program_, step);
    if (grid.shared_bytes > 0) return std::nullopt;
    if (!grid.blocks.is_const() || grid.blocks.value() * grid.threads > kSmallThreads) return std::nullopt;
    if (kernel == nullptr) return kScatterThreads;
    return std::max(kScatterThreads, kernel->gpu->columns ? kernel->gpu->threads : kernel->gpu->row_threads);
  }

  static bool may_have(const Entry& entry, int threads) {
    return std::all_of(entry.steps.begin(), entry.steps.end(), [&](const Step& step) {
      const auto* kernel = std::get_if<Kernel>(&step);
      if (kernel == nullptr) return threads == kScatterThreads;
      return !kernel->tile || kTileSide * kTileSide / kernel->gpu->vector % threads == 0;
    });
  }

  int64_t bytes_of_tiles(const Kernel& kernel) const {
    int64_t bytes = 0;
    for (ExprId id : kernel.tiled_loads) bytes += tile_bytes(program_, id);
    return bytes;
  }

  int64_t temporary_bytes(const Step& step) const {
    int64_t bytes = 0;
    for (const auto& list : {reads_of(step), writes_of(step)}) {
      for (BufferId id : list) {
        const loop::Buffer& buffer = program_.buffer(id);
        if (buffer.kind == loop::BufferKind::Temporary) bytes += sym::evaluate_hint(sym::product(buffer.sizes)) * size_bytes(buffer.dtype);
      }
    }
    return bytes;
  }

  bool fits(const Entry& group, const Entry& made) const {
    const int threads = std::max(group.threads, made.threads);
    return group.threads > 0 && group.steps.size() < kMostKernels && parameters(group) + parameters(made) <= kMostParameters &&
           group.bytes + made.bytes <= kMostBytes && group.tile_bytes + made.tile_bytes <= kMostTilesOfLaunch && may_have(group, threads) &&
           may_have(made, threads);
  }
  static size_t parameters(const Entry& entry) { return entry.accesses.reads.size() + entry.accesses.writes.size(); }

  static bool communicates(const Entry& entry) {
    const auto* call = std::get_if<CallStep>(&entry.steps[0]);
    return call != nullptr && is_collective(call->call.op);
  }

  // The nearest launch that it may be a part of: it moves up to that, or that comes down to it. None moves over a collective operation:
  // what runs beside that is what stands behind it.
  bool join(Entry& made) {
    bool moves_up = true;
    Accesses between;
    const size_t least = entries_.size() - std::min(entries_.size(), kFarthest);
    for (size_t at = entries_.size(); at-- > least;) {
      Entry& group = entries_[at];
      if (communicates(group)) return false;
      const bool waits = depend(group.accesses, made.accesses);
      if (!waits && fits(group, made) && (moves_up || !depend(group.accesses, between))) {
        append(group, std::move(made));
        if (!moves_up)
          std::rotate(entries_.begin() + static_cast<ptrdiff_t>(at), entries_.begin() + static_cast<ptrdiff_t>(at) + 1, entries_.end());
        return true;
      }
      moves_up = moves_up && !waits;
      between.add(group.accesses);
    }
    return false;
  }

  static void append(Entry& group, Entry made) {
    std::move(made.steps.begin(), made.steps.end(), std::back_inserter(group.steps));
    group.accesses.add(made.accesses);
    group.threads = std::max(group.threads, made.threads);
    group.bytes += made.bytes;
    group.tile_bytes += made.tile_bytes;
  }

  const loop::LoopProgram& program_;
  AccessTable accesses_;
  std::vector<Entry> entries_;
};

}  // namespace

void group_launches(const loop::LoopProgram& program, std::vector<Step>& steps) {
  LaunchGrouping grouping(program);
  for (Step& step : steps) grouping.add(std::move(step));
  steps = grouping.take();
}

}  // namespace toroid::schedule
