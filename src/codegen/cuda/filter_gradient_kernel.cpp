// Gradients of filters on a GPU's tensor cores: a call of the prelude's sum_over_pixels.
#include <fmt/format.h>

#include "base/error.h"
#include "codegen/cpp/names.h"
#include "codegen/cuda/filter_gradient_kernel.h"
#include "codegen/cuda/thread_printer.h"
#include "schedule/cuda/filter_gradient_tiles.h"

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
    const std::vector<sym::Expr> counts = {it.n, it.h,        it.w,        it.c,         it.k,         it.r,          it.s,         it.p,
                                           it.q, it.stride_h, it.stride_w, it.padding_h, it.padding_w, it.dilation_h, it.dilation_w};
    const std::vector<sym::Expr> strides = {it.image_stride, it.row_stride, it.pixel_stride};
    Contents contents{{}, counts};
    contents.positions.insert(contents.positions.end(), strides.begin(), strides.end());
    contents.positions.insert(contents.positions.end(), {it.image_offset, attempt.shape->parts});
    begin(contents, {it.image, it.filters}, step.outputs);
    const auto number = [&](sym::Expr size) {
      return size.is_const() ? fmt::format("{}", size.value()) : fmt::format("(int){}", print_factor(exprs_, names_, size));
    };
    const std::string sizes = body_.fresh("sizes");
    std::string list;
    for (sym::Expr size : counts) list += (list.empty() ? "" : ", ") + number(size);
    for (sym::Expr stride : strides) list += ", " + print_factor(exprs_, names_, stride);
    body_.line(fmt::format("const ConvolutionSizes {} = {{{}}};", sizes, list));
    const std::string offset = it.image_offset.is_const(0) ? "" : fmt::format(" + {}", print_factor(exprs_, names_, it.image_offset));
    body_.line(fmt::format("sum_over_pixels<{}, {}, {}, {}>({}{}, {}, {}, {}, {});", storage_type(it.dtype), tiles.rows, tiles.columns,
                           tiles.stages, body_.memory(it.image), offset, body_.memory(it.filters), body_.memory(step.outputs[0]), sizes,
                           number(attempt.shape->parts)));
    finish(step.provenance, fmt::format("__launch_bounds__({}, 2)", schedule::threads_of_convolution(tiles)));
    return {.source = std::move(source_), .waits = true, .preludes = {.products = true, .convolutions = true, .filter_gradients = true}};
  }
};

}  // namespace

CudaKernel print_filter_gradient(const loop::LoopProgram& program, const schedule::CallStep& step, const Graph& graph, std::string name) {
  return FilterGradientPrinter(program, graph, std::move(name)).run(step);
}

}  // namespace toroid::codegen::cuda
