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
  CudaKernel run_join(const schedule::ScatterKernel& kernel) {
    join_chunks(kernel);
    finish(kernel.provenance, fmt::format("__launch_bounds__({})", schedule::cuda_grid_of(program_, kernel).threads));
    return {.source = std::move(source_), .preludes = {.special = body_.is_special}};
  }
  ThreadText run_thread(const schedule::ScatterKernel& kernel) {
    print(kernel);
    return take_thread(false);
  }

 private:
  void print(const schedule::ScatterKernel& kernel) {
    if (!kernel.ordered) return one_by_one(kernel);
    kernel.ordered->parts ? by_chunks(kernel) : by_destination(kernel);
  }

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

  // Declares which chunk and combination the thread has.
  struct Chunk {
    std::string keys, parts, elements, combinations, destination;  // the last: in the result, of `key`
    int64_t size;
  };
  Chunk declare_chunk(const schedule::ScatterKernel& kernel, const std::vector<loop::BufferId>& reads,
                      const std::vector<loop::BufferId>& writes, bool with_values) {
    const schedule::ScatterThreads threads = schedule::scatter_threads(program_, kernel);
    const sym::Expr combinations = product_of_extents(threads.parallel), elements = product_of_extents(threads.serial);
    const int64_t size = schedule::scatter_chunk(program_, kernel);
    const sym::Expr chunks = sym::ceil_div(elements, size);
    const sym::Expr within = schedule::destination_of(program_, kernel)->within;
    Contents contents{{}, {within, 2 * combinations * chunks + 1024, elements + 2 * size}};
    if (with_values) contents = {{kernel.value}, {kernel.position, 2 * combinations * chunks + 1024, elements + 2 * size}};
    for (sym::Expr axis : kernel.axes) contents.positions.push_back(extent(axis));
    begin(contents, reads, writes);
    body_.line(fmt::format("const Index thread = blockIdx.x * (Index){} + threadIdx.x;", schedule::cuda_grid_of(program_, kernel).threads));
    body_.line(fmt::format("if (thread >= {}) return;", index(combinations * chunks)));
    const std::string each = print_factor(exprs_, names_, combinations), all = print_factor(exprs_, names_, elements);
    body_.line(fmt::format("const Index combination = thread % {0}, own = thread / {0};", each));
    body_.line(fmt::format("const Index first_v0 = own * {}, behind = min64(first_v0 + {}, (Index){});", size, size, all));
    decode(threads.parallel, "combination");
    return {body_.memory(kernel.ordered->keys),
            body_.memory(*kernel.ordered->parts),
            all,
            each,
            fmt::format("{} + key + {}", body_.memory(kernel.out), index(within)),
            size};
  }
  std::string rounded_to_result(const schedule::ScatterKernel& kernel, const std::string& x) const {
    return fmt::format("widen(narrow({}, {}{{}}))", x, storage_type(program_.buffer(kernel.out).dtype));
  }

  // A thread combines the elements of a chunk, those of a destination one after the other. Some are read at once.
  void by_chunks(const schedule::ScatterKernel& kernel) {
    constexpr int kAtOnce = 8;
    const Chunk chunk = declare_chunk(kernel, kernel.reads, {kernel.out, *kernel.ordered->parts}, true);
    const std::string_view type = register_type(exprs_.dtype(kernel.value)),
                           keys = storage_type(program_.buffer(kernel.ordered->keys).dtype);
    body_.line(fmt::format("{} key = {}[first_v0];", keys, chunk.keys));
    body_.line(fmt::format("bool has_begun_v0 = first_v0 > 0 && {}[first_v0 - 1] == key, is_empty_v0 = has_begun_v0;", chunk.keys));
    body_.line(fmt::format("{} total = has_begun_v0 ? {}(0) : {}(load({}));", type, type, type, chunk.destination));
    body_.open(fmt::format("for (Index place = first_v0; place < behind; place += {}) {{", kAtOnce));
    body_.line(fmt::format("{} key_of[{}];", keys, kAtOnce));
    body_.line(fmt::format("{} x_of_v0[{}];", type, kAtOnce));
    body_.line("UNROLLED");
    body_.open(fmt::format("for (int k = 0; k < {}; ++k) {{", kAtOnce));
    body_.line("const Index at_v0 = min64(place + k, behind - 1);");
    body_.line(fmt::format("key_of[k] = {}[at_v0];", chunk.keys));
    body_.line(fmt::format("const Index element = (Index){}[at_v0];", body_.memory(kernel.ordered->elements)));
    decode(schedule::scatter_threads(program_, kernel).serial, "element");
    const std::string x = body_.value(kernel.value);
    body_.line(fmt::format("x_of_v0[k] = {};", x));
    body_.close();
    body_.line("UNROLLED");
    body_.open(fmt::format("for (int k = 0; k < {}; ++k) {{", kAtOnce));
    body_.line("if (place + k >= behind) break;");
    body_.open("if (key_of[k] != key) {");
    body_.line(fmt::format("if (has_begun_v0) {}[2 * own * {} + combination] = total;", chunk.parts, chunk.combinations));
    body_.line(fmt::format("else store({}, total);", chunk.destination));
    body_.line("key = key_of[k];");
    body_.line("has_begun_v0 = is_empty_v0 = false;");
    body_.line(fmt::format("total = load({});", chunk.destination));
    body_.close();
    body_.line(fmt::format("const {} x_v0 = x_of_v0[k];", type));
    body_.line(fmt::format("total = is_empty_v0 ? x_v0 : {};", rounded_to_result(kernel, scattered(kernel, "total", "x_v0"))));
    body_.line("is_empty_v0 = false;");
    body_.close();
    body_.close();
    body_.line(fmt::format("const bool goes_on_v0 = behind < {} && {}[behind] == key;", chunk.elements, chunk.keys));
    body_.line(fmt::format("if (has_begun_v0 || goes_on_v0) {}[(2 * own + (has_begun_v0 ? 0 : 1)) * {} + combination] = total;",
                           chunk.parts, chunk.combinations));
    body_.line(fmt::format("else store({}, total);", chunk.destination));
  }

  // The chunk in which a destination's elements begin that go on in others has the thread that puts the parts together.
  void join_chunks(const schedule::ScatterKernel& kernel) {
    const Chunk chunk = declare_chunk(kernel, {kernel.ordered->keys, *kernel.ordered->parts}, {kernel.out}, false);
    const std::string_view type = register_type(exprs_.dtype(kernel.value)),
                           keys = storage_type(program_.buffer(kernel.ordered->keys).dtype);
    body_.line(fmt::format("if (behind >= {}) return;", chunk.elements));
    body_.line(fmt::format("const {} key = {}[behind - 1];", keys, chunk.keys));
    body_.line(fmt::format("if ({0}[behind] != key || (first_v0 > 0 && {0}[first_v0 - 1] == key)) return;", chunk.keys));
    body_.line(fmt::format("const Index last_v0 = (Index)(end_of_run({}, behind, {}) - 1) / {};", chunk.keys, chunk.elements, chunk.size));
    body_.line(fmt::format("{} total = {}[(2 * own + 1) * {} + combination];", type, chunk.parts, chunk.combinations));
    body_.line("UNROLLED_BY_16");
    body_.open("for (Index part = own + 1; part <= last_v0; ++part) {");
    body_.line(fmt::format("const {} x_v0 = {}[2 * part * {} + combination];", type, chunk.parts, chunk.combinations));
    body_.line(fmt::format("total = {};", rounded_to_result(kernel, scattered(kernel, "total", "x_v0"))));
    body_.close();
    body_.line(fmt::format("store({}, total);", chunk.destination));
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

CudaKernel print_join(const loop::LoopProgram& program, const schedule::ScatterKernel& kernel, const Graph& graph, std::string name) {
  return ScatterPrinter(program, graph, std::move(name)).run_join(kernel);
}

}  // namespace toroid::codegen::cuda
