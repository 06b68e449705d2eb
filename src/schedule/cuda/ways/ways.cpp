#include "schedule/cuda/ways/ways.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include <fmt/format.h>

#include "graph/custom/custom_operator.h"
#include "schedule/axes.h"
#include "schedule/cuda/attention/attention_kernel.h"
#include "schedule/cuda/convolutions/convolution_tiles.h"
#include "schedule/cuda/convolutions/filter_gradient_tiles.h"
#include "schedule/cuda/cudnn/cudnn_step.h"
#include "schedule/cuda/kept_in_registers.h"
#include "schedule/cuda/products/epilogue_work.h"
#include "schedule/cuda/products/few_rows.h"
#include "schedule/cuda/products/few_rows_ring.h"
#include "schedule/cuda/products/few_rows_tiled.h"
#include "schedule/cuda/products/product_tiles.h"
#include "schedule/cuda/products/prologues.h"
#include "schedule/cuda/ways/configurations.h"
#include "schedule/fusion/group.h"
#include "schedule/work.h"

namespace toroid::schedule {
namespace {

constexpr std::string_view kLibrary = "library";
// What competes: each is compiled and tried, which takes a second of a processor.
constexpr double kWorthTrying = 1.6;  // times the estimate of the step as it is
constexpr ptrdiff_t kMostWays = 8;

class Ways {
 public:
  Ways(loop::LoopProgram& program, const Step& step, std::string name) : program_(program), step_(step) {
    ways_.push_back({std::move(name), 0, step});
  }

  void add(std::string name, double seconds, Step step) {
    const auto is_there = [&](const Way& way) { return way.name == name; };
    if (const auto known = std::ranges::find_if(ways_, is_there); known != ways_.end()) {
      known->seconds = seconds;
      return;
    }
    ways_.push_back({std::move(name), seconds, std::move(step)});
  }

  // What is done by default is estimated to be the quickest, so that the estimates tell which it is.
  std::vector<Way> take() && {
    Way& own = ways_.front();
    if (own.seconds == 0) own.seconds = seconds_of(program_, step_);
    const double least = std::nextafter(own.seconds, std::numeric_limits<double>::infinity());
    for (Way& each : std::span(ways_).subspan(1)) each.seconds = std::max(each.seconds, least);
    std::stable_sort(ways_.begin() + 1, ways_.end(), [](const Way& a, const Way& b) { return a.seconds < b.seconds; });
    const auto is_hopeless = [&](const Way& way) { return way.seconds > kWorthTrying * ways_.front().seconds; };
    ways_.erase(std::find_if(ways_.begin() + 1, ways_.end(), is_hopeless), ways_.end());
    if (std::ssize(ways_) > kMostWays) ways_.erase(ways_.begin() + kMostWays, ways_.end());
    return std::move(ways_);
  }

 private:
  loop::LoopProgram& program_;
  const Step& step_;
  std::vector<Way> ways_;
};

// Are there such tiles on other GPUs than Hopper?
bool are_for_warps(const ProductShape& shape, const GpuTiles& tiles) {
  return tiles.depth_warps > 0 && !are_few_rows_tiled(tiles) && !is_few_rows_stationary(tiles) && !is_few_rows_by_ring(shape, tiles);
}

std::vector<Way> ways_of_product(loop::LoopProgram& program, const Step& step, const ProductShape& shape, bool on_hopper) {
  const auto& call = std::get<CallStep>(step);
  Ways ways(program, step, call.gpu ? name_of(*call.gpu) : std::string(kLibrary));
  std::optional<EpilogueWork> work;
  if (call.epilogue) work = work_of_epilogue(program, *call.epilogue, call.outputs);
  for (const TilesEstimate& each : estimated_tiles(shape, work)) {
    if (!on_hopper && !are_for_warps(shape, each.tiles)) continue;
    CallStep other = call;
    other.gpu = each.tiles;
    if (call.prologue && !is_product_with_prologue(program, other)) continue;
    ways.add(name_of(each.tiles), each.seconds, std::move(other));
  }
  if (!call.epilogue && !call.prologue && shape.numbers == RightNumbers::OfLeft && shape.factors != Factors::Floats8 &&
      !shape.is_for_few_rows) {
    CallStep other = call;
    other.gpu.reset();
    ways.add(std::string(kLibrary), seconds_of_library(shape), std::move(other));
  }
  return std::move(ways).take();
}

// About as long as the step takes as it is: no estimate says more.
void add_cudnn(const loop::LoopProgram& program, const CallStep& call, Ways& ways) {
  if (!as_cudnn_call(program, call).call && !may_be_cudnn_attention(program, call)) return;
  CallStep other = call;
  other.choice = schedule::with_cudnn(Cudnn::First, call.choice);
  ways.add(std::string(kCudnn), 0, std::move(other));
}

std::vector<Way> ways_of_convolution(loop::LoopProgram& program, const Step& step, const ConvolutionShape& shape, bool on_hopper,
                                     bool with_cudnn) {
  const auto& call = std::get<CallStep>(step);
  Ways ways(program, step, name_of(*call.gpu));
  if (with_cudnn) add_cudnn(program, call, ways);  // first: of equal estimates the last ones are left out
  for (const TilesEstimate& each : estimated_tiles(shape, has_pixels_across(program, call))) {
    if (!on_hopper && each.tiles.ping_pong) continue;
    CallStep other = call;
    other.gpu = each.tiles;
    ways.add(name_of(each.tiles), each.seconds, std::move(other));
  }
  return std::move(ways).take();
}

std::vector<Way> ways_of_filter_gradient(loop::LoopProgram& program, const Step& step, bool with_cudnn) {
  const auto& call = std::get<CallStep>(step);
  Ways ways(program, step, name_of(*call.gpu));
  if (with_cudnn) add_cudnn(program, call, ways);
  return std::move(ways).take();
}

// What Hopper's kernel takes the other one takes too.
std::vector<Way> ways_of_attention(loop::LoopProgram& program, const Step& step, bool with_cudnn) {
  const auto& call = std::get<CallStep>(step);
  Ways ways(program, step, call.choice);
  if (call.choice == kHopperAttention || call.choice == kTiledMaskAttention) {
    CallStep other = call;
    other.choice = kFlashAttention;
    ways.add(std::string(kFlashAttention), seconds_of(program, step), std::move(other));
  }
  if (with_cudnn) add_cudnn(program, call, ways);
  return std::move(ways).take();
}

// Of a user's kernel in Triton (passes/decompose/custom/apply_custom.h); 0 of any other call.
size_t num_configurations(const CallStep& call) {
  const auto* library = std::get_if<Library>(&call.call.op);
  if (library == nullptr || !library->name.starts_with(kTritonPrefix) || library->attributes.empty()) return 0;
  const auto* count = std::get_if<sym::Expr>(&library->attributes.back());
  return count != nullptr && count->is_const() && count->value() > 0 ? static_cast<size_t>(count->value()) : 0;
}

std::vector<Way> ways_of_configurations(loop::LoopProgram& program, const Step& step, size_t count) {
  const auto& call = std::get<CallStep>(step);
  Ways ways(program, step, call.choice.empty() ? configuration_name(0) : call.choice);
  for (size_t i = 0; i < count; ++i) {
    CallStep other = call;
    other.choice = configuration_name(i);
    ways.add(configuration_name(i), seconds_of(program, step), std::move(other));
  }
  return std::move(ways).take();
}

// Has every number that a thread of its row takes a register?
bool fits_registers(const Kernel& kernel) { return kernel.gpu->items * kernel.gpu->vector * registers_of(kernel) <= kMostRegisters; }

// With so many threads of a block, and of a row.
std::optional<Kernel> with_threads(const Kernel& kernel, int row_threads, int threads) {
  constexpr int kMostThreads = 1024, kColumns = 32;
  Kernel other = kernel;
  GpuLoops& gpu = *other.gpu;
  gpu.row_threads = row_threads;
  gpu.threads = std::max(threads, gpu.columns ? kColumns * row_threads : row_threads);
  if (row_threads < 1 || gpu.threads > kMostThreads || (gpu.shared && gpu.threads != row_threads)) return std::nullopt;
  const int64_t length = product_of_extents(kernel.inner).value(), of_row = row_threads * (gpu.columns ? 1 : gpu.vector);
  if (of_row >= 2 * length) return std::nullopt;  // half of them would have nothing
  if (gpu.items > 0) gpu.items = static_cast<int>((length + of_row - 1) / of_row);
  if (!fits_registers(other)) return std::nullopt;
  return other;
}

// The other form: what is kept is computed again, or what is read again is kept.
std::optional<Kernel> in_other_form(loop::LoopProgram& program, const Kernel& kernel) {
  Kernel other = kernel;
  GpuLoops& gpu = *other.gpu;
  if (!other.stashes.empty()) return with_nothing_kept(program, kernel);
  const int64_t length = product_of_extents(kernel.inner).value(), of_row = gpu.row_threads * (gpu.columns ? 1 : gpu.vector);
  const int64_t items = (length + of_row - 1) / of_row;
  if (gpu.columns || items * gpu.vector > kMostRegisters) return std::nullopt;
  keep_loads(program.exprs, other, static_cast<size_t>(kMostRegisters / (items * gpu.vector)));
  if (other.stashes.empty()) return std::nullopt;
  gpu.items = static_cast<int>(items);
  other.unfused.clear();
  round_shared_products(program, other);
  return other;
}

std::string name_of(const GpuLoops& gpu) {
  return fmt::format("{}of{}-vector{}{}{}", gpu.row_threads, gpu.threads, gpu.vector, gpu.columns ? "-columns" : "",
                     gpu.items > 0 ? fmt::format("-kept{}", gpu.items) : "");
}

// How many threads a row has, how many rows a block, and whether elements stay in registers. Which is quickest no estimate says: those near
// the step as it is come first.
std::vector<Way> ways_of_rows(loop::LoopProgram& program, const Step& step) {
  constexpr double kStepAway = 0.02;
  const auto& kernel = std::get<Kernel>(step);
  const GpuLoops& own = *kernel.gpu;
  Ways ways(program, step, name_of(own));
  double seconds = seconds_of(program, step);
  const auto add = [&](const std::optional<Kernel>& other) {
    if (other && *other->gpu != own) ways.add(name_of(*other->gpu), seconds *= 1 + kStepAway, *other);
  };
  add(with_threads(kernel, own.row_threads * 2, own.threads));
  add(with_threads(kernel, own.row_threads / 2, own.threads));
  add(with_threads(kernel, own.row_threads, own.threads * 2));
  add(with_threads(kernel, own.row_threads, own.threads / 2));
  add(in_other_form(program, kernel));
  add(with_threads(kernel, own.row_threads * 4, own.threads));
  add(with_threads(kernel, own.row_threads / 4, own.threads));
  return std::move(ways).take();
}

// As it is, with other numbers of warps, and as CUDA's.
std::vector<Way> ways_of_triton(loop::LoopProgram& program, const Kernel& kernel, TensorCores cores, bool with_cudnn) {
  Kernel plain = kernel;
  plain.gpu->in_triton = false;
  std::vector<Way> ways = ways_of(program, plain, cores, with_cudnn);
  const double seconds = std::nextafter(ways.front().seconds, 0.0);
  std::vector<Way> in_triton = {Way{"triton", std::nextafter(seconds, 0.0), kernel}};
  for (const int warps : {2, 4, 8, 16}) {
    Kernel other = kernel;
    other.gpu->triton_warps = warps;
    in_triton.push_back({fmt::format("triton-{}warps", warps), seconds, std::move(other)});
  }
  ways.insert(ways.begin(), std::make_move_iterator(in_triton.begin()), std::make_move_iterator(in_triton.end()));
  return ways;
}

}  // namespace

std::string name_of(const GpuTiles& tiles) {
  std::string name = fmt::format("{}x{}x{}", tiles.rows, tiles.columns, tiles.stages);
  if (tiles.ping_pong) name += "-pingpong";
  if (tiles.cluster > 1) name += fmt::format("-cluster{}", tiles.cluster);
  if (tiles.shares > 0) name += fmt::format("-shares{}", tiles.shares);
  if (tiles.depth_warps > 0) name += fmt::format("-depth{}", tiles.depth_warps);
  if (tiles.groups > 0) name += fmt::format("-groups{}", tiles.groups);
  return name;
}

double seconds_of(const loop::LoopProgram& program, const Step& step) {
  constexpr double kStart = 3e-6, kBytesOfSecond = 2.6e12, kFlopsOfSecond = 6e14, kFlopsOfFloats = 4e13;
  const StepWork work = work_of(program, step);
  const auto bytes = static_cast<double>(sym::evaluate_hint(work.bytes)), flops = static_cast<double>(sym::evaluate_hint(work.flops));
  return kStart + std::max(bytes / kBytesOfSecond, flops / (is_reduced_float(work.numbers) ? kFlopsOfSecond : kFlopsOfFloats));
}

std::vector<Way> ways_of(loop::LoopProgram& program, const Step& step, TensorCores cores, bool with_cudnn) {
  const bool on_hopper = cores == TensorCores::Hopper;
  if (const auto* call = std::get_if<CallStep>(&step)) {
    if (call->choice == kFlashAttention || call->choice == kHopperAttention || call->choice == kTiledMaskAttention)
      return ways_of_attention(program, step, with_cudnn);
    if (const size_t configurations = num_configurations(*call); configurations > 0)
      return ways_of_configurations(program, step, configurations);
    const ConvolutionAttempt convolution = as_convolution_of_tiles(program, call->call, call->outputs);
    if (convolution.shape && call->gpu) return ways_of_convolution(program, step, *convolution.shape, on_hopper, with_cudnn);
    if (call->gpu && as_filter_gradient_of_tiles(program, call->call, call->outputs).shape)
      return ways_of_filter_gradient(program, step, with_cudnn);
    if (const ProductAttempt product = as_product_of_tiles(program, call->call, call->outputs); product.shape)
      return ways_of_product(program, step, *product.shape, on_hopper);
  }
  const auto* kernel = std::get_if<Kernel>(&step);
  if (kernel != nullptr && kernel->gpu && kernel->gpu->in_triton) return ways_of_triton(program, *kernel, cores, with_cudnn);
  const bool is_rows = kernel != nullptr && kernel->gpu && !kernel->inner.empty() && kernel->finish.empty() && kernel->gpu->pixels == 1;
  if (is_rows) return ways_of_rows(program, step);
  return {{"default", seconds_of(program, step), step}};
}

}  // namespace toroid::schedule
