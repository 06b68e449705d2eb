// Scatters: out = base, then out[index] op= value in order. Tasks are the elements of the dim that is split, if there is one:
//
//   its index is an axis                      its index is read from a tensor
//   copy columns [begin, end)                 copy rows [begin, end)
//   for i: row = rows[i]                      for i: row = rows[i]
//     for j in begin..end:                      if (row < begin || row >= end) continue;
//       out[row, j] += x[i, j]                  for j: out[row, j] += x[i, j]
#include <algorithm>

#include <fmt/format.h>

#include "codegen/cpp/body.h"
#include "codegen/cpp/kernel_printer.h"
#include "codegen/cpp/names.h"
#include "codegen/cpp/scalar_text.h"
#include "schedule/cpu/grid.h"

namespace toroid::codegen {
namespace {

class ScatterPrinter : KernelPrinter {
 public:
  using KernelPrinter::KernelPrinter;

  KernelSource run(const schedule::ScatterKernel& kernel) {
    take_parameters(kernel.reads, {kernel.out});
    Contents contents{{kernel.value}, kernel.axes};
    contents.positions.push_back(kernel.position);
    const loop::Buffer& out = program_.buffer(kernel.out);
    contents.positions.push_back(sym::product(out.sizes));
    // Also what the product does not have, a size of one value: the copy names each.
    contents.positions.insert(contents.positions.end(), out.sizes.begin(), out.sizes.end());
    take_sizes(contents);
    for (sym::Expr axis : kernel.axes) name_of(axis);  // the outermost is the first
    BodyPrinter body(program_, names_, std::nullopt);
    set_origins(body, kernel.provenance);
    body.begin_nest(kernel.axes);
    const OperandText value = body.value(kernel.value);
    body.prepare_index(kernel.position);
    const DType dtype = exprs_.dtype(kernel.value);
    const std::string at = body.pointer(kernel.out, kernel.position);
    const OperandText old{fmt::format("load1({})", at), false, true};
    std::string result = value.text;
    switch (kernel.mode) {
      case ScatterMode::Set: break;
      case ScatterMode::Add: result = scalar_text(ScalarOp::Add, dtype, {old, value}); break;
      case ScatterMode::Mul: result = scalar_text(ScalarOp::Mul, dtype, {old, value}); break;
      case ScatterMode::Min: result = scalar_text(ScalarOp::Min, dtype, {old, value}); break;
      case ScatterMode::Max: result = scalar_text(ScalarOp::Max, dtype, {old, value}); break;
    }
    if (!kernel.provenance.empty()) body.set_origin(kernel.provenance.back());
    body.line(body.innermost(), fmt::format("store1({}, {});", at, result));
    source_.reports_errors = body.uses_error() || assertions_;
    source_.uses_runtime = body.uses_runtime();
    source_.tasks = schedule::grid_of(program_, kernel).tasks;
    const bool by_axis = kernel.split && is_axis(kernel, kernel.split->index);
    if (kernel.split && !by_axis) {
      const std::string index = body.index(kernel.split->index);
      body.line(body.level_of(kernel.split->index), fmt::format("if ({0} < begin || {0} >= copy_end) continue;", index));
    }

    print_header(kernel.provenance);
    std::optional<TextBuffer::Scope> function(text_.block(signature()));
    print_checked_buffers();
    print_copy(kernel, out, body);
    std::vector<std::string> lines = body.take_level(0);
    std::string indent;
    for (size_t d = 0; d < kernel.axes.size(); ++d) {
      const std::string name = name_of(kernel.axes[d]);
      std::string first = "0";
      std::string last = index(extent(kernel.axes[d]));
      if (by_axis && kernel.split->index == kernel.axes[d]) {
        first = "begin";
        last = sym::known_lt(0, extent(kernel.axes[d])) ? "end" : fmt::format("min64(end, {})", last);
      }
      lines.push_back(fmt::format("{}for (int64_t {} = {}; {} < {}; ++{}) {{", indent, name, first, name, last, name));
      indent += "  ";
      for (const std::string& line : body.take_level(d + 1)) lines.push_back(indent + line);
    }
    for (size_t d = kernel.axes.size(); d-- > 0;) {
      indent.resize(indent.size() - 2);
      lines.push_back(indent + "}");
    }
    drop_repeated_origins(lines);
    for (const std::string& line : lines) text_.write(line);
    function.reset();
    source_.text = text_.str();
    return std::move(source_);
  }

 private:
  static bool is_axis(const schedule::ScatterKernel& kernel, sym::Expr index) {
    return std::find(kernel.axes.begin(), kernel.axes.end(), index) != kernel.axes.end();
  }

  // out = base: all of it, or the part that the tasks [begin, end) write to. The last one also copies what no task writes to. Nothing where
  // both are in one place.
  void print_copy(const schedule::ScatterKernel& kernel, const loop::Buffer& out, const BodyPrinter& body) {
    const std::string to = body.memory(kernel.out);
    const std::string from = body.memory(kernel.base);
    std::optional<TextBuffer::Scope> apart;
    const auto if_apart = [&] {
      if (loop::updates(out, program_.buffer(kernel.base)))
        apart.emplace(text_.block(fmt::format("if ({0}{2} != {1}{2}) {{", to, from, assertions_ ? ".data()" : "")));
    };
    if (!kernel.split) {
      text_.write("(void)begin, (void)end;");
      if_apart();
      text_.write(fmt::format("copy_elements({}, {}, {});", to, from, index(sym::product(out.sizes))));
      return;
    }
    const std::span<const sym::Expr> sizes(out.sizes);
    const size_t dim = kernel.split->dim;
    const std::string length = index(sizes[dim]);
    const std::string row = index(sym::product(sizes.subspan(dim + 1)));
    text_.write(fmt::format("const int64_t copy_end = end == {} ? {} : end;", index(source_.tasks), length));
    if_apart();
    text_.write(fmt::format("for (int64_t part = 0; part < {}; ++part) {{", index(sym::product(sizes.first(dim)))));
    text_.write(fmt::format("  const int64_t at = (part * ({}) + begin) * ({});", length, row));
    text_.write(fmt::format("  copy_elements({} + at, {} + at, (copy_end - begin) * ({}));", to, from, row));
    text_.write("}");
  }
};

}  // namespace

KernelSource print_scatter(const loop::LoopProgram& program, const Graph& graph, std::string name, bool assertions,
                           const schedule::ScatterKernel& kernel) {
  return ScatterPrinter(program, graph, std::move(name), assertions).run(kernel);
}

}  // namespace toroid::codegen
