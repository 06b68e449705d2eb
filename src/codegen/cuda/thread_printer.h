// What the printers of CUDA's kernels share: the parameters, how wide places are, which element a thread has.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "codegen/cpp/kernel_printer.h"
#include "codegen/cuda/cuda_kernel.h"
#include "codegen/cuda/thread_body.h"
#include "schedule/cuda/convolutions/convolution_tiles.h"

namespace toroid::codegen::cuda {

using schedule::product_of_extents;

// Products and convolutions on tensor cores (product_kernel.cpp).
CudaKernel print_product(const loop::LoopProgram& program, const schedule::CallStep& step, const Graph& graph, std::string name,
                         const schedule::Overlap& overlap);
// Attention of scores that the program computes, and the table of the tiles in which some count (written_attention_kernel.cpp).
CudaKernel print_written_attention(const loop::LoopProgram& program, const schedule::CallStep& step, const Graph& graph, std::string name);
// Attention that writes a row of its cache (cached_attention_kernel.cpp).
CudaKernel print_cached_attention(const loop::LoopProgram& program, const schedule::CallStep& step, const Graph& graph, std::string name,
                                  const schedule::Overlap& overlap);
// cuda_scan.cpp, cuda_scatter.cpp
CudaKernel print_scan(const loop::LoopProgram& program, const schedule::ScanKernel& kernel, const Graph& graph, std::string name,
                      const schedule::Overlap& overlap);
CudaKernel print_scatter(const loop::LoopProgram& program, const schedule::ScatterKernel& kernel, const Graph& graph, std::string name,
                         const schedule::Overlap& overlap);

// The first statements of a kernel with neighbours: it lets the next one start, and waits for the one before it, unless it loads ahead.
std::vector<std::string> overlap_text(const schedule::Overlap& overlap);

// The members of ConvolutionSizes, of which the last kStridesOfImage are not counts.
inline constexpr size_t kStridesOfImage = 3;
std::vector<sym::Expr> numbers_of(const schedule::ConvolutionShape& shape);

// What one thread of a kernel does, as a function without a name.
struct ThreadText {
  KernelSource source;  // its text is "(const Coordinate blockIdx, …) {" and so on
  bool waits = false, is_special = false;
};
ThreadText print_nest_thread(const loop::LoopProgram& program, const schedule::Kernel& kernel, const Graph& graph);
ThreadText print_scatter_thread(const loop::LoopProgram& program, const schedule::ScatterKernel& kernel, const Graph& graph);
// Kernels that are started together as one (cuda_together.cpp).
CudaKernel print_together(const loop::LoopProgram& program, const schedule::ParallelKernels& group, const Graph& graph, std::string name,
                          const schedule::Overlap& overlap);

class ThreadPrinter : public KernelPrinter {
 public:
  ThreadPrinter(const loop::LoopProgram& program, const Graph& graph, std::string name, const schedule::Overlap& overlap = {})
      : KernelPrinter(program, graph, std::move(name), false), body_(program, names_), overlap_(overlap) {}

 protected:
  // Reads what the function needs of a step, and says with how many bits it computes places.
  void begin(const Contents& contents, const std::vector<loop::BufferId>& reads, const std::vector<loop::BufferId>& writes);
  // Declares the axes of the element at `place` in row-major order.
  void decode(const std::vector<sym::Expr>& axes, const std::string& place);
  // What the body has, to be a part of another kernel.
  ThreadText take_thread(bool waits);
  // The kernel's text, of its body. `attributes`: how it is started.
  void finish(const std::vector<ProvenanceId>& provenance, const std::string& attributes);
  std::string index(sym::Expr e) { return body_.index(e); }
  // A buffer's memory from `offset` on; a size in 32 bits.
  std::string place(loop::BufferId buffer, sym::Expr offset);
  std::string count_text(sym::Expr size);
  // Declares what the prelude's kernels of convolutions are told (ConvolutionSizes), of numbers_of(shape), and gives its name.
  std::string declare_sizes(const schedule::ConvolutionShape& shape);

  ThreadBody body_;
  const schedule::Overlap overlap_;
  std::vector<std::string> tensor_maps_;  // parameters before the buffers

 private:
  // `may_change`: what they point to, while the kernel runs. A restricted pointer says that only the kernel's own threads write there, and
  // a compiler may load through it before all else.
  std::string parameters(bool may_change) const;
  // Of a kernel that starts early: it waits, and then is a function of restricted pointers.
  std::string body();
};

}  // namespace toroid::codegen::cuda
