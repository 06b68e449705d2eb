// Scatters as text. The base must have been copied to the result before.
#include <fmt/format.h>

#include "codegen/cpp/names.h"
#include "codegen/cpp/scalar_text.h"
#include "codegen/cuda/thread_printer.h"
#include "schedule/cuda/cuda_grid.h"
#include "schedule/cuda/sorted_scatter.h"

namespace toroid::codegen::cuda {
namespace {

class ScatterPrinter : public ThreadPrinter {
 public:
  using ThreadPrinter::ThreadPrinter;

  CudaKernel run(const schedule::ScatterKernel& kernel) {
    print(kernel);
    finish(kernel.provenance, fmt::format("__launch_bounds__({})", schedule::cuda_grid_of(program_, kernel).threads));
    return {.source = std::move(source_), .preludes = {.special = body_.is_special}};
  }
  ThreadText run_thread(const schedule::ScatterKernel& kernel) {
    print(kernel);
    return take_thread(false);
  }

 private:
  void print(const schedule::ScatterKernel& kernel) { kernel.ordered ? by_destination(kernel) : one_by_one(kernel); }

  // Each thread goes through all elements that may be its own.
  void one_by_one(const schedule::ScatterKernel& kernel) {
    const schedule::ScatterThreads threads = schedule::scatter_threads(program_, kernel);
    const sym::Expr combinations = product_of_extents(threads.parallel);
    Contents contents{{kernel.value}, {kernel.position, combinations * threads.owners}};
    for (sym::Expr axis : kernel.axes) contents.positions.push_back(extent(axis));
    begin(contents, kernel.reads, {kernel.out});
    body_.line(fmt::format("const Index thread = blockIdx.x * (Index){} + threadIdx.x;", schedule::cuda_grid_of(program_, kernel).threads));
    body_.line(fmt::format("if (thread >= {}) return;", index(combinations * threads.owners)));
    if (threads.owners > 1) body_.line(fmt::format("const Index own = thread % {0}, combination = thread / {0};", threads.owners));
    decode(threads.parallel, threads.owners > 1 ? "combination" : "thread");
    for (sym::Expr axis : threads.serial) {
      const std::string length = index(extent(axis)), name = body_.name_of(axis);
      body_.open(fmt::format("for (Index {0} = 0; {0} < {1}; ++{0}) {{", name, length));
    }
    const std::string at = index(kernel.position), to = body_.fresh("to");
    body_.line(fmt::format("const Index {} = {};", to, at));
    if (threads.owners > 1) body_.line(fmt::format("if (owner_of({}, {}) != own) continue;", to, threads.owners));
    const std::string x = body_.value(kernel.value), pointer = fmt::format("{} + {}", body_.memory(kernel.out), to);
    std::string result = x;
    if (kernel.mode != ScatterMode::Set) {
      const std::string old = body_.fresh("old");
      body_.line(fmt::format("const {} {} = load({});", register_type(exprs_.dtype(kernel.value)), old, pointer));
      result = scattered(kernel, old, x);
    }
    body_.line(fmt::format("store({}, {});", pointer, result));
    for (size_t i = 0; i < threads.serial.size(); ++i) body_.close();
  }

  // What is at a destination after an element.
  std::string scattered(const schedule::ScatterKernel& kernel, const std::string& old, const std::string& x) const {
    constexpr ScalarOp kOps[] = {ScalarOp::Add, ScalarOp::Add, ScalarOp::Mul, ScalarOp::Min, ScalarOp::Max};
    if (kernel.mode == ScatterMode::Set) return x;
    const DType dtype = exprs_.dtype(kernel.value);
    return fmt::format("{}({})", register_type(dtype),
                       scalar_text(kOps[static_cast<size_t>(kernel.mode)], dtype, {{old, false, true}, {x, false, true}}));
  }

  // The first of a destination's elements has the thread that takes them all.
  void by_destination(const schedule::ScatterKernel& kernel) {
    const schedule::ScatterThreads threads = schedule::scatter_threads(program_, kernel);
    const std::optional<schedule::Destination> destination = schedule::destination_of(program_, kernel);
    const sym::Expr combinations = product_of_extents(threads.parallel), elements = product_of_extents(threads.serial);
    Contents contents{{kernel.value}, {kernel.position, combinations * elements + 1024}};
    for (sym::Expr axis : kernel.axes) contents.positions.push_back(extent(axis));
    begin(contents, kernel.reads, {kernel.out});
    const std::string keys = body_.memory(kernel.ordered->keys), order = body_.memory(kernel.ordered->elements);
    body_.line(fmt::format("const Index thread = blockIdx.x * (Index){} + threadIdx.x;", schedule::cuda_grid_of(program_, kernel).threads));
    body_.line(fmt::format("if (thread >= {}) return;", index(combinations * elements)));
    const std::string each = print_factor(exprs_, names_, combinations);
    body_.line(fmt::format("const Index combination = thread % {0}, own = thread / {0};", each));
    body_.line(fmt::format("if (own > 0 && {0}[own - 1] == {0}[own]) return;", keys));
    body_.line(fmt::format("const Index behind = (Index)end_of_run({}, own, {});", keys, index(elements)));
    decode(threads.parallel, "combination");
    const std::string pointer = body_.fresh("to"), sum = body_.fresh("sum"), within = index(destination->within);
    body_.line(fmt::format("{}* const {} = {} + {}[own] + {};", storage_type(program_.buffer(kernel.out).dtype), pointer,
                           body_.memory(kernel.out), keys, within));
    body_.line(fmt::format("{} {} = load({});", register_type(exprs_.dtype(kernel.value)), sum, pointer));
    body_.line("UNROLLED_BY_4");
    body_.open(fmt::format("for (Index place = {}; place < behind; ++place) {{", kernel.mode == ScatterMode::Set ? "behind - 1" : "own"));
    body_.line(fmt::format("const Index element = (Index){}[place];", order));
    decode(threads.serial, "element");
    const std::string x = body_.value(kernel.value);
    body_.line(
        fmt::format("{0} = widen(narrow({1}, {2}{{}}));", sum, scattered(kernel, sum, x), storage_type(program_.buffer(kernel.out).dtype)));
    body_.close();
    body_.line(fmt::format("store({}, {});", pointer, sum));
  }
};

}  // namespace

CudaKernel print_scatter(const loop::LoopProgram& program, const schedule::ScatterKernel& kernel, const Graph& graph, std::string name,
                         const schedule::Overlap& overlap) {
  return ScatterPrinter(program, graph, std::move(name), overlap).run(kernel);
}

ThreadText print_scatter_thread(const loop::LoopProgram& program, const schedule::ScatterKernel& kernel, const Graph& graph) {
  return ScatterPrinter(program, graph, "").run_thread(kernel);
}

ThreadText print_scatter_thread(const loop::LoopProgram& program, const schedule::ScatterKernel& kernel, const Graph& graph) {
  return ScatterPrinter(program, graph, "").run_thread(kernel);
}

}  // namespace toroid::codegen::cuda
