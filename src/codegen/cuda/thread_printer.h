// What the printers of CUDA's kernels share: the parameters, how wide places are, which element a thread has.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "codegen/cpp/kernel_printer.h"
#include "codegen/cuda/cuda_kernel.h"
#include "codegen/cuda/thread_body.h"

namespace toroid::codegen::cuda {

sym::Expr product_of_extents(const std::vector<sym::Expr>& axes);

// Products and convolutions on tensor cores (product_kernel.cpp).
CudaKernel print_product(const loop::LoopProgram& program, const schedule::CallStep& step, const Graph& graph, std::string name);
// cuda_scan.cpp, cuda_scatter.cpp
CudaKernel print_scan(const loop::LoopProgram& program, const schedule::ScanKernel& kernel, const Graph& graph, std::string name);
CudaKernel print_scatter(const loop::LoopProgram& program, const schedule::ScatterKernel& kernel, const Graph& graph, std::string name);

class ThreadPrinter : public KernelPrinter {
 public:
  ThreadPrinter(const loop::LoopProgram& program, const Graph& graph, std::string name)
      : KernelPrinter(program, graph, std::move(name), false), body_(program, names_) {}

 protected:
  // Reads what the function needs of a step, and says with how many bits it computes places.
  void begin(const Contents& contents, const std::vector<loop::BufferId>& reads, const std::vector<loop::BufferId>& writes);
  // Declares the axes of the element at `place` in row-major order.
  void decode(const std::vector<sym::Expr>& axes, const std::string& place);
  // The kernel's text, of its body. `attributes`: how it is started.
  void finish(const std::vector<ProvenanceId>& provenance, const std::string& attributes);
  std::string index(sym::Expr e) { return body_.index(e); }

  ThreadBody body_;
  std::vector<std::string> tensor_maps_;  // parameters before the buffers

 private:
  std::string parameters() const;
};

}  // namespace toroid::codegen::cuda
