#include "schedule/cuda/ways.h"

#include <algorithm>

#include <fmt/format.h>

#include "schedule/cuda/epilogue_work.h"
#include "schedule/cuda/product_tiles.h"
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

  // What is done by default is never estimated to be slower than another way.
  std::vector<Way> take() && {
    Way& own = ways_.front();
    if (own.seconds == 0) own.seconds = seconds_of(program_, step_);
    for (Way& each : ways_) each.seconds = std::max(each.seconds, own.seconds);
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

std::vector<Way> ways_of_product(loop::LoopProgram& program, const Step& step, const ProductShape& shape) {
  const auto& call = std::get<CallStep>(step);
  Ways ways(program, step, call.gpu ? name_of(*call.gpu) : std::string(kLibrary));
  std::optional<EpilogueWork> work;
  if (call.epilogue) work = work_of_epilogue(program, *call.epilogue, call.outputs[0]);
  for (const TilesEstimate& each : estimated_tiles(shape, work)) {
    CallStep other = call;
    other.gpu = each.tiles;
    ways.add(name_of(each.tiles), each.seconds, std::move(other));
  }
  if (!call.epilogue && shape.numbers == RightNumbers::Floats) {
    CallStep other = call;
    other.gpu.reset();
    ways.add(std::string(kLibrary), seconds_of_library(shape), std::move(other));
  }
  return std::move(ways).take();
}

}  // namespace

std::string name_of(const GpuTiles& tiles) {
  std::string name = fmt::format("{}x{}x{}", tiles.rows, tiles.columns, tiles.stages);
  if (tiles.ping_pong) name += "-pingpong";
  if (tiles.cluster > 1) name += fmt::format("-cluster{}", tiles.cluster);
  if (tiles.depth_warps > 0) name += fmt::format("-depth{}", tiles.depth_warps);
  return name;
}

double seconds_of(const loop::LoopProgram& program, const Step& step) {
  constexpr double kStart = 3e-6, kBytesOfSecond = 2.6e12, kFlopsOfSecond = 6e14, kFlopsOfFloats = 4e13;
  const StepWork work = work_of(program, step);
  const auto bytes = static_cast<double>(sym::evaluate_hint(work.bytes)), flops = static_cast<double>(sym::evaluate_hint(work.flops));
  return kStart + std::max(bytes / kBytesOfSecond, flops / (is_reduced_float(work.numbers) ? kFlopsOfSecond : kFlopsOfFloats));
}

std::vector<Way> ways_of(loop::LoopProgram& program, const Step& step) {
  if (const auto* call = std::get_if<CallStep>(&step)) {
    if (const ProductAttempt product = as_product_of_tiles(program, call->call, call->outputs); product.shape)
      return ways_of_product(program, step, *product.shape);
  }
  return {{"default", seconds_of(program, step), step}};
}

}  // namespace toroid::schedule
