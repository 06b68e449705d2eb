// Scans: one running value a row, an element after the other.
#include <cmath>

#include <fmt/format.h>

#include "codegen/cpp/body.h"
#include "codegen/cpp/kernel_printer.h"
#include "codegen/cpp/names.h"
#include "codegen/cpp/scalar_text.h"

namespace toroid::codegen {
namespace {

class ScanPrinter : KernelPrinter {
 public:
  using KernelPrinter::KernelPrinter;

  KernelSource run(const schedule::ScanKernel& kernel) {
    take_parameters(kernel.reads, kernel.outputs);
    Contents contents{{kernel.value}, kernel.positions};
    for (sym::Expr axis : kernel.outer) contents.positions.push_back(axis);
    contents.positions.push_back(kernel.along);
    take_sizes(contents);
    for (sym::Expr axis : kernel.outer) name_of(axis);  // the outermost is the first
    BodyPrinter body(program_, names_, std::nullopt);
    set_origins(body, kernel.provenance);
    body.begin_nest({kernel.along});
    OperandText value = body.value(kernel.value);
    const DType own = exprs_.dtype(kernel.value);
    // A running sum of floats is one chain of roundings, as long as the row: it is kept in double, as PyTorch keeps it.
    const bool is_wide = is_floating(own) && kernel.op != ScanOp::Max && kernel.op != ScanOp::Min;
    const DType dtype = is_wide ? DType::F64 : own;
    const std::string type(register_type(dtype));
    if (is_wide && own != dtype) value = {fmt::format("(double)({})", value.text), false, true};
    std::vector<std::string> update;
    const std::string x = value.text;
    std::string start = literal_text(dtype, int64_t{0});
    switch (kernel.op) {
      case ScanOp::Sum:
        update = {fmt::format("running = {};", scalar_text(ScalarOp::Add, dtype, {{"running", false, true}, value}))};
        break;
      case ScanOp::Prod:
        start = literal_text(dtype, int64_t{1});
        update = {fmt::format("running = {};", scalar_text(ScalarOp::Mul, dtype, {{"running", false, true}, value}))};
        break;
      case ScanOp::Max:
      case ScanOp::Min: {
        // The latest of equal extrema, and the latest NaN.
        const std::string sign = kernel.op == ScanOp::Max ? ">=" : "<=";
        const std::string along = name_of(kernel.along);
        update = {fmt::format("if ({} == 0 || {} {} running || {} != {}) {{", along, x, sign, x, x), fmt::format("  running = {};", x),
                  fmt::format("  position = {};", along), "}"};
        break;
      }
      case ScanOp::LogAddExp:
        start = literal_text(dtype, -HUGE_VAL);
        update = {fmt::format("{{ const {0} larger = op_max(running, {1}); const {0} smaller = op_min(running, {1});", type, x),
                  "  running = larger == smaller && op_isinf(larger) ? larger : larger + op_log1p(op_exp(smaller - larger)); }"};
        break;
    }
    source_.reports_errors = body.uses_error() || assertions_;
    source_.uses_runtime = body.uses_runtime();

    print_header(kernel.provenance);
    std::optional<TextBuffer::Scope> function(text_.block(signature()));
    print_checked_buffers();
    {
      auto loop = text_.block("for (int64_t task = begin; task < end; ++task) {");
      std::vector<std::string> lines;
      decode_task(kernel.outer, "task", lines);
      for (std::string& line : body.take_level(0)) lines.push_back(std::move(line));
      lines.push_back(fmt::format("{} running = {};", type, start));
      if (kernel.outputs.size() > 1) lines.push_back("int64_t position = 0;");
      const std::string along = name_of(kernel.along);
      lines.push_back(fmt::format("for (int64_t {} = 0; {} < {}; ++{}) {{", along, along, index(extent(kernel.along)), along));
      for (std::string& line : body.take_level(1)) lines.push_back("  " + line);
      const ProvenanceId last = kernel.provenance.empty() ? ProvenanceId{} : kernel.provenance.back();
      if (const std::string* comment = body.origins.comment(last)) lines.push_back("  " + *comment);
      for (std::string& line : update) lines.push_back("  " + line);
      lines.push_back(fmt::format("  store1({}, {}running);", body.pointer(kernel.outputs[0], kernel.positions[0]),
                                  dtype == own ? "" : fmt::format("({})", register_type(own))));
      if (kernel.outputs.size() > 1)
        lines.push_back(fmt::format("  store1({}, position);", body.pointer(kernel.outputs[1], kernel.positions[1])));
      lines.push_back("}");
      drop_repeated_origins(lines);
      for (const std::string& line : lines) text_.write(line);
    }
    function.reset();
    source_.text = text_.str();
    return std::move(source_);
  }
};

}  // namespace

KernelSource print_scan(const loop::LoopProgram& program, const Graph& graph, std::string name, bool assertions,
                        const schedule::ScanKernel& kernel) {
  return ScanPrinter(program, graph, std::move(name), assertions).run(kernel);
}

}  // namespace toroid::codegen
