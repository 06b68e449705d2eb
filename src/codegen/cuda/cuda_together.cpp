// Kernels that are started together as one kernel: each has a range of the blocks.
//
//   const auto part_v1 = [](const Coordinate blockIdx, const float* __restrict__ x, float* __restrict__ y) {  // mul_add
//     …                                     its text, as it is alone
//   };
//   const int block_v0 = blockIdx.x;
//   if (block_v0 < 16) return part_v1({block_v0}, a, b);
//   if (block_v0 < 32) return part_v1({block_v0 - 16}, c, d);
//
// Kernels that differ in the names of their buffers only have one text. Parameters are those of all, each once.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "codegen/cpp/canonical_text.h"
#include "codegen/cpp/names.h"
#include "codegen/cuda/thread_printer.h"
#include "schedule/cuda/cuda_grid.h"
#include "support/match.h"

namespace toroid::codegen::cuda {
namespace {

class TogetherPrinter : public ThreadPrinter {
 public:
  using ThreadPrinter::ThreadPrinter;

  CudaKernel run(const schedule::ParallelKernels& group) {
    const schedule::CudaGrid all = schedule::cuda_grid_of(program_, group);
    take_sizes(all.blocks);
    std::vector<std::string> calls;
    sym::Expr first = 0;
    for (const schedule::ParallelKernel& each : group.kernels) {
      const schedule::Step kernel = schedule::as_single_step(each);
      const schedule::CudaGrid grid = schedule::cuda_grid_of(program_, kernel);
      std::string before;
      if (!first.is_const(0)) before = first.is_const() ? " - " + index(first) : fmt::format(" - (int)({})", index(first));
      first = first + grid.blocks;
      const std::string its_blocks = calls.size() + 1 == group.kernels.size() ? "" : fmt::format("if (block_v0 < {}) ", index(first));
      const ThreadText thread = thread_of(each);
      const std::string part = part_of(thread, schedule::name_of(kernel), grid.threads < all.threads ? grid.threads : 0);
      calls.push_back(fmt::format("{}return {}({{block_v0{}}}{});", its_blocks, part, before, arguments(thread.source)));
    }
    body_.line("const int block_v0 = blockIdx.x;");  // no buffer is called so
    for (const std::string& call : calls) body_.line(call);
    finish(group.provenance, fmt::format("__launch_bounds__({})", all.threads));
    return {.source = std::move(source_), .waits = waits_, .preludes = {.special = is_special_}};
  }

 private:
  ThreadText thread_of(const schedule::ParallelKernel& kernel) {
    ThreadText thread = match(
        kernel, [&](const schedule::Kernel& each) { return print_nest_thread(program_, each, graph_); },
        [&](const schedule::ScatterKernel& each) { return print_scatter_thread(program_, each, graph_); });
    waits_ = waits_ || thread.waits;
    is_special_ = is_special_ || thread.is_special;
    for (const KernelParameter& parameter : thread.source.parameters) {
      const auto is_it = [&](const KernelParameter& each) { return each.buffer == parameter.buffer; };
      if (std::none_of(source_.parameters.begin(), source_.parameters.end(), is_it)) source_.parameters.push_back(parameter);
    }
    for (sym::Expr size : thread.source.sizes) take_sizes(size);
    body_.reports_errors = body_.reports_errors || thread.source.reports_errors;
    return thread;
  }

  // The name of the function with this text, which is declared first. `threads`: those of a block that it has, where others do not.
  std::string part_of(const ThreadText& thread, const std::string& name, int threads) {
    std::string& part = parts_[{canonical_text(thread.source, program_), threads}];
    if (!part.empty()) return part;
    part = body_.fresh("part");
    const std::string& text = thread.source.text;
    const size_t head = text.find('\n') + 1;
    body_.line(fmt::format("const auto {} = []{}  // {}", part, text.substr(0, head - 1), comment_text(name)));
    if (threads > 0) body_.line(fmt::format("  if (threadIdx.x >= {}) return;", threads));
    body_.lines(text.substr(head, text.size() - head - 2));
    body_.line("};");
    return part;
  }

  std::string arguments(const KernelSource& source) const {
    std::string text;
    for (const KernelParameter& parameter : source.parameters) text += ", " + identifier(program_.buffer(parameter.buffer).name);
    for (sym::Expr size : source.sizes) text += ", " + identifier(size.node()->name);
    return text + (source.reports_errors ? ", failure, step" : "");
  }

  std::map<std::pair<std::string, int>, std::string> parts_;  // by what they do
  bool waits_ = false, is_special_ = false;
};

}  // namespace

CudaKernel print_together(const loop::LoopProgram& program, const schedule::ParallelKernels& group, const Graph& graph, std::string name,
                          const schedule::Overlap& overlap) {
  return TogetherPrinter(program, graph, std::move(name), overlap).run(group);
}

}  // namespace toroid::codegen::cuda
