// Gradients of filters on a GPU's tensor cores: a call of the prelude's sum_over_pixels.
#include <fmt/format.h>

#include "base/error.h"
#include "codegen/cpp/names.h"
#include "codegen/cuda/filter_gradient_kernel.h"
#include "codegen/cuda/thread_printer.h"
#include "schedule/cuda/convolutions/filter_gradient_tiles.h"

namespace toroid::codegen::cuda {
namespace {

class FilterGradientPrinter : public ThreadPrinter {
 public:
  using ThreadPrinter::ThreadPrinter;

  CudaKernel run(const schedule::CallStep& step) {
    const schedule::FilterGradientAttempt attempt = schedule::as_filter_gradient_of_tiles(program_, step.call, step.outputs);
    TOROID_CHECK(attempt.shape.has_value(), "'{}': {}", step.name, attempt.reason);
    const schedule::ConvolutionShape& it = attempt.shape->convolution;
    const schedule::GpuTiles& tiles = *step.gpu;
    Contents contents{{}, numbers_of(it)};
    contents.positions.insert(contents.positions.end(), {it.image_offset, attempt.shape->parts});
    begin(contents, {it.image, it.filters}, step.outputs);
    const std::string sizes = declare_sizes(it);
    body_.line(fmt::format("sum_over_pixels<{}, {}, {}, {}>({}, {}, {}, {}, {});", storage_type(it.dtype), tiles.rows, tiles.columns,
                           tiles.stages, place(it.image, it.image_offset), body_.memory(it.filters), body_.memory(step.outputs[0]), sizes,
                           count_text(attempt.shape->parts)));
    finish(step.provenance, fmt::format("__launch_bounds__({}, 2)", schedule::threads_of_convolution(tiles)));
    return {.source = std::move(source_), .waits = true, .preludes = {.products = true, .convolutions = true, .filter_gradients = true}};
  }
};

}  // namespace

CudaKernel print_filter_gradient(const loop::LoopProgram& program, const schedule::CallStep& step, const Graph& graph, std::string name) {
  return FilterGradientPrinter(program, graph, std::move(name)).run(step);
}

}  // namespace toroid::codegen::cuda
