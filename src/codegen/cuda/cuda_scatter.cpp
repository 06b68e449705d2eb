// Scatters as text. The base must have been copied to the result before.
#include <fmt/format.h>

#include "codegen/cpp/names.h"
#include "codegen/cpp/scalar_text.h"
#include "codegen/cuda/thread_printer.h"
#include "schedule/cpu/loops.h"
#include "schedule/cuda/cuda_grid.h"
#include "schedule/cuda/sorted_scatter.h"

namespace toroid::codegen::cuda {
namespace {

class CudaScatterPrinter : public ThreadPrinter {
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
  CudaKernel run_fill(const schedule::ScatterKernel& kernel) {
    const loop::Buffer& out = program_.buffer(kernel.out);
    const sym::Expr all = sym::product(out.sizes);
    const int vector = schedule::vector_of_fill(program_, kernel);
    begin({{}, {all + schedule::kFillThreads * vector}}, {}, {kernel.out});
    body_.line(fmt::format("const Index first_v0 = (blockIdx.x * (Index){} + threadIdx.x) * {};", schedule::kFillThreads, vector));
    body_.line(fmt::format("if (first_v0 >= {}) return;", index(all)));
    body_.line(fmt::format("Pack<{}, {}> filled;", storage_type(out.dtype), vector));
    const std::string value = body_.value(*kernel.ordered->fill);
    for_each_neighbour(vector, fmt::format("filled.set(n, {});", value));
    body_.line(fmt::format("store_pack({} + first_v0, filled);", body_.memory(kernel.out)));
    finish(kernel.provenance, fmt::format("__launch_bounds__({})", schedule::kFillThreads));
    return {.source = std::move(source_), .preludes = {}};
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
    Contents contents{{}, {kernel.position, 2 * combinations * chunks + 1024, elements + 2 * size}};
    if (with_values) contents.values = {kernel.value};
    for (sym::Expr axis : kernel.axes) contents.positions.push_back(extent(axis));
    begin(contents, reads, writes);
    body_.line(fmt::format("const Index thread = blockIdx.x * (Index){} + threadIdx.x;", schedule::cuda_grid_of(program_, kernel).threads));
    const int vector = kernel.ordered->vector;
    const sym::Expr of_threads = sym::floor_div(combinations, vector);
    body_.line(fmt::format("if (thread >= {}) return;", index(of_threads * chunks)));
    const std::string each = print_factor(exprs_, names_, combinations), all = print_factor(exprs_, names_, elements);
    body_.line(fmt::format("const Index combination = thread % {0}{1}, own = thread / {0};", print_factor(exprs_, names_, of_threads),
                           vector > 1 ? fmt::format(" * {}", vector) : ""));
    body_.line(fmt::format("const Index first_v0 = own * {}, behind = min64(first_v0 + {}, (Index){});", size, size, all));
    decode(threads.parallel, "combination");
    return {body_.memory(kernel.ordered->keys),
            body_.memory(*kernel.ordered->parts),
            all,
            each,
            fmt::format("{} + {} + {}", body_.memory(kernel.out), place_of(*kernel.ordered, "key"), index(within)),
            size};
  }
  static std::string place_of(const schedule::ScatterKernel::Ordered& ordered, const std::string& key) {
    const std::string shifted = ordered.bias == 0 ? fmt::format("(Index){}", key) : fmt::format("((Index){} + {})", key, ordered.bias);
    return ordered.unit == 1 ? shifted : fmt::format("{} * {}", shifted, ordered.unit);
  }
  std::string rounded_to_result(const schedule::ScatterKernel& kernel, const std::string& x) const {
    if (kernel.ordered->rounds_once) return x;
    return fmt::format("widen(narrow({}, {}{{}}))", x, storage_type(program_.buffer(kernel.out).dtype));
  }

  // A thread's neighbours of a destination: what is there is loaded, or known.
  void load_totals(const schedule::ScatterKernel& kernel, const Chunk& chunk) {
    const int vector = kernel.ordered->vector;
    if (kernel.ordered->fill) {
      const std::string filled = body_.value(*kernel.ordered->fill);
      return for_each_neighbour(vector, fmt::format("total[n] = {};", filled));
    }
    body_.line(fmt::format("const auto there = load_pack<{}>({});", vector, chunk.destination));
    for_each_neighbour(vector, "total[n] = there.get(n);");
  }
  void store_totals(const schedule::ScatterKernel& kernel, const Chunk& chunk) {
    const int vector = kernel.ordered->vector;
    body_.line(fmt::format("Pack<{}, {}> sums;", storage_type(program_.buffer(kernel.out).dtype), vector));
    for_each_neighbour(vector, "sums.set(n, total[n]);");
    body_.line(fmt::format("store_pack({}, sums);", chunk.destination));
  }
  void for_each_neighbour(int vector, std::string_view text) {
    body_.line("UNROLLED");
    body_.line(fmt::format("for (int n = 0; n < {}; ++n) {}", vector, text));
  }
  std::string part_at(const Chunk& chunk, const std::string& place) {
    return fmt::format("{}[{} * {} + combination + n]", chunk.parts, place, chunk.combinations);
  }

  // The values of an element for the thread's neighbours, into x_of_v0[k].
  void load_values(const schedule::ScatterKernel& kernel) {
    const schedule::ScatterThreads threads = schedule::scatter_threads(program_, kernel);
    const int vector = kernel.ordered->vector;
    if (vector == 1) {
      const std::string x = body_.value(kernel.value);
      return body_.line(fmt::format("x_of_v0[k][0] = {};", x));
    }
    const sym::Expr axis = threads.parallel.back();
    const std::string name = body_.name_of(axis), first = body_.fresh("first");
    schedule::Kernel alone;
    alone.stages = {schedule::Stage{.statements = {schedule::Store{kernel.out, kernel.position, kernel.value}}}};
    std::vector<std::pair<loop::ExprId, std::string>> packs;
    for (loop::ExprId id : schedule::unconditional_loads(exprs_, alone)) {
      const auto load = std::get<loop::Load>(exprs_.node(id).op);
      const auto linear = sym::linear_in(load.index[0], axis);
      if (program_.buffer(load.buffer).kind == loop::BufferKind::RandomState || !linear || !linear->coefficient.is_const(1) ||
          schedule::depends_on_through_values(exprs_, linear->rest, axis) || !sym::known_divisible(linear->rest, vector))
        continue;
      const std::string pack = body_.fresh("pack"), at = index(load.index[0]);
      body_.line(fmt::format("const auto {} = load_pack<{}>({} + {});", pack, vector, body_.memory(load.buffer), at));
      packs.emplace_back(id, pack);
    }
    body_.line(fmt::format("const Index {} = {};", first, name));
    body_.line("UNROLLED");
    body_.open(fmt::format("for (int n = 0; n < {}; ++n) {{", vector));
    body_.line(fmt::format("const Index {} = {} + n;", name, first));
    for (const auto& [id, pack] : packs) body_.define(id, fmt::format("{}.get(n)", pack));
    const std::string x = body_.value(kernel.value);
    body_.line(fmt::format("x_of_v0[k][n] = {};", x));
    body_.close();
  }

  // A thread combines the elements of a chunk, those of a destination one after the other. Some are read at once.
  void by_chunks(const schedule::ScatterKernel& kernel) {
    constexpr int kAtOnce = 8;
    const int vector = kernel.ordered->vector;
    const Chunk chunk = declare_chunk(kernel, kernel.reads, {kernel.out, *kernel.ordered->parts}, true);
    const std::string_view type = register_type(exprs_.dtype(kernel.value)),
                           keys = storage_type(program_.buffer(kernel.ordered->keys).dtype);
    body_.line(fmt::format("{} key = {}[first_v0];", keys, chunk.keys));
    body_.line(fmt::format("bool has_begun_v0 = first_v0 > 0 && {}[first_v0 - 1] == key, is_empty_v0 = has_begun_v0;", chunk.keys));
    body_.line(fmt::format("{} total[{}] = {{}};", type, vector));
    body_.open("if (!has_begun_v0) {");
    load_totals(kernel, chunk);
    body_.close();
    body_.open(fmt::format("for (Index place = first_v0; place < behind; place += {}) {{", kAtOnce));
    body_.line(fmt::format("{} key_of[{}];", keys, kAtOnce));
    body_.line(fmt::format("{} x_of_v0[{}][{}];", type, kAtOnce, vector));
    body_.line("UNROLLED");
    body_.open(fmt::format("for (int k = 0; k < {}; ++k) {{", kAtOnce));
    body_.line("const Index at_v0 = min64(place + k, behind - 1);");
    body_.line(fmt::format("key_of[k] = {}[at_v0];", chunk.keys));
    body_.line(fmt::format("const Index element = (Index){}[at_v0];", body_.memory(kernel.ordered->elements)));
    decode(schedule::scatter_threads(program_, kernel).serial, "element");
    load_values(kernel);
    body_.close();
    body_.line("UNROLLED");
    body_.open(fmt::format("for (int k = 0; k < {}; ++k) {{", kAtOnce));
    body_.line("if (place + k >= behind) break;");
    body_.open("if (key_of[k] != key) {");
    body_.open("if (has_begun_v0) {");
    for_each_neighbour(vector, part_at(chunk, "2 * own") + " = total[n];");
    body_.close();
    body_.open("else {");
    store_totals(kernel, chunk);
    body_.close();
    body_.line("key = key_of[k];");
    body_.line("has_begun_v0 = is_empty_v0 = false;");
    load_totals(kernel, chunk);
    body_.close();
    body_.line("UNROLLED");
    body_.open(fmt::format("for (int n = 0; n < {}; ++n) {{", vector));
    body_.line(fmt::format("const {} x_v0 = x_of_v0[k][n];", type));
    body_.line(fmt::format("total[n] = is_empty_v0 ? x_v0 : {};", rounded_to_result(kernel, scattered(kernel, "total[n]", "x_v0"))));
    body_.close();
    body_.line("is_empty_v0 = false;");
    body_.close();
    body_.close();
    body_.line(fmt::format("const bool goes_on_v0 = behind < {} && {}[behind] == key;", chunk.elements, chunk.keys));
    body_.open("if (has_begun_v0 || goes_on_v0) {");
    for_each_neighbour(vector, part_at(chunk, "(2 * own + (has_begun_v0 ? 0 : 1))") + " = total[n];");
    body_.close();
    body_.open("else {");
    store_totals(kernel, chunk);
    body_.close();
  }

  // The chunk in which a destination's elements begin that go on in others has the thread that puts the parts together.
  void join_chunks(const schedule::ScatterKernel& kernel) {
    const int vector = kernel.ordered->vector;
    const Chunk chunk = declare_chunk(kernel, {kernel.ordered->keys, *kernel.ordered->parts}, {kernel.out}, false);
    const std::string_view type = register_type(exprs_.dtype(kernel.value)),
                           keys = storage_type(program_.buffer(kernel.ordered->keys).dtype);
    body_.line(fmt::format("if (behind >= {}) return;", chunk.elements));
    body_.line(fmt::format("const {} key = {}[behind - 1];", keys, chunk.keys));
    body_.line(fmt::format("if ({0}[behind] != key || (first_v0 > 0 && {0}[first_v0 - 1] == key)) return;", chunk.keys));
    body_.line(fmt::format("const Index last_v0 = (Index)(end_of_run({}, behind, {}) - 1) / {};", chunk.keys, chunk.elements, chunk.size));
    body_.line(fmt::format("{} total[{}];", type, vector));
    for_each_neighbour(vector, "total[n] = " + part_at(chunk, "(2 * own + 1)") + ";");
    body_.line(vector > 1 ? "UNROLLED_BY_4" : "UNROLLED_BY_16");
    body_.open("for (Index part = own + 1; part <= last_v0; ++part) {");
    body_.line("UNROLLED");
    body_.open(fmt::format("for (int n = 0; n < {}; ++n) {{", vector));
    body_.line(fmt::format("const {} x_v0 = {};", type, part_at(chunk, "2 * part")));
    body_.line(fmt::format("total[n] = {};", rounded_to_result(kernel, scattered(kernel, "total[n]", "x_v0"))));
    body_.close();
    body_.close();
    store_totals(kernel, chunk);
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
    body_.line(fmt::format("{}* const {} = {} + {} + {};", storage_type(program_.buffer(kernel.out).dtype), pointer,
                           body_.memory(kernel.out), place_of(*kernel.ordered, keys + "[own]"), within));
    const std::string before = kernel.ordered->fill ? body_.value(*kernel.ordered->fill) : fmt::format("load({})", pointer);
    body_.line(fmt::format("{} {} = {};", register_type(exprs_.dtype(kernel.value)), sum, before));
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
  return CudaScatterPrinter(program, graph, std::move(name), overlap).run(kernel);
}

ThreadText print_scatter_thread(const loop::LoopProgram& program, const schedule::ScatterKernel& kernel, const Graph& graph) {
  return CudaScatterPrinter(program, graph, "").run_thread(kernel);
}

CudaKernel print_join(const loop::LoopProgram& program, const schedule::ScatterKernel& kernel, const Graph& graph, std::string name) {
  return CudaScatterPrinter(program, graph, std::move(name)).run_join(kernel);
}

CudaKernel print_fill(const loop::LoopProgram& program, const schedule::ScatterKernel& kernel, const Graph& graph, std::string name) {
  return CudaScatterPrinter(program, graph, std::move(name)).run_fill(kernel);
}

}  // namespace toroid::codegen::cuda
