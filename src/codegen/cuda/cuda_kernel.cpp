#include "codegen/cuda/cuda_kernel.h"

#include "base/error.h"
#include "codegen/cuda/nest_printer.h"
#include "codegen/cuda/thread_printer.h"

namespace toroid::codegen::cuda {

CudaKernel print_kernel(const loop::LoopProgram& program, const schedule::Step& step, const Graph& graph, std::string name,
                        const schedule::Overlap& overlap) {
  const auto* product = std::get_if<schedule::CallStep>(&step);
  if (product != nullptr && product->call.scores) return print_written_attention(program, *product, graph, std::move(name));
  if (product != nullptr && !product->updates.empty()) return print_cached_attention(program, *product, graph, std::move(name), overlap);
  if (product != nullptr) return print_product(program, *product, graph, std::move(name), overlap);
  if (const auto* scan = std::get_if<schedule::ScanKernel>(&step)) return print_scan(program, *scan, graph, std::move(name), overlap);
  if (const auto* scatter = std::get_if<schedule::ScatterKernel>(&step))
    return print_scatter(program, *scatter, graph, std::move(name), overlap);
  if (const auto* group = std::get_if<schedule::ParallelKernels>(&step))
    return print_together(program, *group, graph, std::move(name), overlap);
  const auto* kernel = std::get_if<schedule::Kernel>(&step);
  TOROID_CHECK(kernel != nullptr, "'{}' is no kernel", schedule::name_of(step));
  return NestPrinter(program, graph, std::move(name), overlap).run(*kernel);
}

ThreadText print_nest_thread(const loop::LoopProgram& program, const schedule::Kernel& kernel, const Graph& graph) {
  return NestPrinter(program, graph, "").run_thread(kernel);
}

}  // namespace toroid::codegen::cuda
