#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "codegen/cpp/kernel_printer.h"
#include "codegen/cpp/names.h"
#include "codegen/halide/halide_printer.h"
#include "support/match.h"

namespace toroid::codegen {

using loop::ExprId;

KernelPrinter::KernelPrinter(const loop::LoopProgram& program, const Graph& graph, std::string name, bool assertions)
    : program_(program), exprs_(program.exprs), graph_(graph), assertions_(assertions) {
  source_.name = std::move(name);
  if (assertions) source_.access_names.emplace();
}

void KernelPrinter::take_sizes(sym::Expr e) {
  if (e.is_const()) return;
  for (sym::Expr symbol : sym::free_symbols(e)) {
    const sym::SymbolKind kind = symbol.node()->symbol_kind;
    if (kind == sym::SymbolKind::Axis) {
      if (symbol != leftover_axis_) take_sizes(extent(symbol));
    } else if (kind == sym::SymbolKind::Size || kind == sym::SymbolKind::DataDependent) {
      std::vector<sym::Expr>& sizes = source_.sizes;
      if (std::find(sizes.begin(), sizes.end(), symbol) != sizes.end()) continue;
      sizes.push_back(symbol);
      names_.reserve(identifier(symbol.node()->name));
    }
  }
}

void KernelPrinter::take_sizes(const Contents& contents) {
  std::vector<ExprId> roots = contents.values;
  for (sym::Expr e : contents.positions) {
    take_sizes(e);
    if (e.is_const()) continue;
    for (sym::Expr symbol : sym::free_symbols(e)) {  // a position may be an expression's value
      if (const auto* value = exprs_.value_symbol(symbol)) roots.push_back(value->index);
    }
  }
  const std::vector<ExprId> all = loop::reachable(exprs_, roots);
  for (ExprId id : all) {
    const loop::ExprOp& op = exprs_.node(id).op;
    if (const auto* load = std::get_if<loop::Load>(&op)) take_sizes(load->index[0]);
    if (const auto* index = std::get_if<loop::Index>(&op)) take_sizes(index->value);
  }
  // And the sizes that indices read from tensors are checked against.
  auto take_bounds = [&](sym::Expr position) {
    if (position.is_const()) return;
    for (sym::Expr symbol : sym::free_symbols(position)) {
      if (const auto* value = exprs_.value_symbol(symbol)) take_sizes(value->size);
    }
  };
  for (sym::Expr e : contents.positions) take_bounds(e);
  for (ExprId id : all) {
    if (const auto* load = std::get_if<loop::Load>(&exprs_.node(id).op)) take_bounds(load->index[0]);
    if (const auto* index = std::get_if<loop::Index>(&exprs_.node(id).op)) take_bounds(index->value);
  }
}

void KernelPrinter::take_parameters(const std::vector<loop::BufferId>& reads, const std::vector<loop::BufferId>& writes) {
  for (loop::BufferId id : reads) {
    if (std::find(writes.begin(), writes.end(), id) == writes.end()) source_.parameters.push_back({id, false});
  }
  for (loop::BufferId id : writes) source_.parameters.push_back({id, true});
  for (const KernelParameter& parameter : source_.parameters) names_.reserve(identifier(program_.buffer(parameter.buffer).name));
  if (!assertions_) return;
  first_buffer_ = source_.access_names->buffers.size();
  for (const KernelParameter& parameter : source_.parameters) {
    const loop::Buffer& buffer = program_.buffer(parameter.buffer);
    source_.access_names->buffers.push_back(buffer.name);
    take_sizes(elements_of(buffer));
  }
}

bool KernelPrinter::may_be_shared(loop::BufferId buffer) const {
  return std::any_of(source_.parameters.begin(), source_.parameters.end(), [&](const KernelParameter& other) {
    const loop::Buffer &one = program_.buffer(buffer), &two = program_.buffer(other.buffer);
    return loop::updates(one, two) || loop::updates(two, one);
  });
}

void KernelPrinter::print_checked_buffers() {
  if (!assertions_) return;
  for (size_t i = 0; i < source_.parameters.size(); ++i) {
    const loop::Buffer& buffer = program_.buffer(source_.parameters[i].buffer);
    text_.write(fmt::format("const Checked<{}{}> {}(argument{}, {}, {}, checks, error);", source_.parameters[i].is_output ? "" : "const ",
                            storage_type(buffer.dtype), identifier(buffer.name), i, index(elements_of(buffer)), first_buffer_ + i));
  }
}

void KernelPrinter::set_origins(BodyPrinter& body, const std::vector<ProvenanceId>& provenance) {
  body.origins = Origins(graph_, provenance, assertions_);
  if (!assertions_) return;
  body.access_origins = &source_.access_names->origins;
  if (!provenance.empty()) body.set_origin(provenance.back());
}

void KernelPrinter::print_header(const std::vector<ProvenanceId>& provenance) {
  std::string ops, place;  // the place of a single operator, which no comment inside tells
  for (ProvenanceId id : provenance) {
    const Provenance& from = graph_.provenance(id);
    if (from.op.empty()) continue;
    place = ops.empty() ? (from.module.empty() ? "" : " in " + from.module) + (from.source.empty() ? "" : ", from " + from.source) : "";
    ops += fmt::format("{}{} {}", ops.empty() ? "" : ", ", from.op, from.name);
  }
  text_.write(fmt::format("// {}: {}", source_.name, comment_text(ops, 160) + comment_text(place, 240)));
  for (const KernelParameter& parameter : source_.parameters) {
    const loop::Buffer& buffer = program_.buffer(parameter.buffer);
    TensorType type{.dtype = buffer.dtype, .sizes = buffer.sizes, .strides = buffer.strides};
    text_.write(
        fmt::format("//   {}: {}{}", identifier(buffer.name), comment_text(to_string(type), 120), parameter.is_output ? ", written" : ""));
  }
}

std::string KernelPrinter::signature(std::string_view linkage) const {
  std::string text = fmt::format("{} void {}(", linkage, source_.name);
  int position = 0;
  for (const KernelParameter& parameter : source_.parameters) {
    const loop::Buffer& buffer = program_.buffer(parameter.buffer);
    const std::string name = assertions_ ? fmt::format("argument{}", position++) : identifier(buffer.name);
    text += fmt::format("{}{}* {}{}, ", parameter.is_output ? "" : "const ", storage_type(buffer.dtype),
                        parameter.is_output && !may_be_shared(parameter.buffer) ? "__restrict__ " : "", name);
  }
  for (sym::Expr size : source_.sizes) text += fmt::format("int64_t {}, ", identifier(size.node()->name));
  if (source_.uses_runtime) text += "const ToroidRuntime* runtime, ";
  if (assertions_) text += "const Checks* checks, ";
  if (source_.reports_errors || assertions_) text += "int32_t* error, ";
  if (source_.counts_tasks) text += "int64_t* remaining, ";
  if (source_.is_epilogue)
    return text + "const float* block, int64_t row_stride, int64_t first_row, int64_t last_row, int64_t first, int64_t last) {";
  return text + "int64_t begin, int64_t end) {";
}

void KernelPrinter::decode_task(const std::vector<sym::Expr>& axes, std::string_view task, std::vector<std::string>& lines) {
  sym::Expr stride = 1;
  for (size_t d = axes.size(); d-- > 0;) {
    std::string place(task);
    if (!stride.is_const(1)) place += " / " + factor(stride);
    // The first axis has what is left.
    if (d > 0) place += " % " + factor(extent(axes[d]));
    lines.push_back(fmt::format("const int64_t {} = {};", name_of(axes[d]), place));
    stride = stride * extent(axes[d]);
  }
}

KernelSource print_kernel(const loop::LoopProgram& program, const schedule::Step& step, const Graph& graph, std::string name,
                          bool assertions) {
  return match(
      step, [&](const schedule::Kernel& kernel) { return print_nest(program, graph, std::move(name), assertions, kernel); },
      [&](const schedule::ScanKernel& kernel) { return print_scan(program, graph, std::move(name), assertions, kernel); },
      [&](const schedule::ScatterKernel& kernel) { return print_scatter(program, graph, std::move(name), assertions, kernel); },
      [&](const schedule::CallStep&) -> KernelSource { TOROID_CHECK(false, "a library call is not a kernel"); },
      [&](const schedule::BindStep&) -> KernelSource { TOROID_CHECK(false, "a binding is not a kernel"); },
      [&](const schedule::ChainStep&) -> KernelSource { TOROID_CHECK(false, "a chain of library calls is not a kernel"); },
      [&](const schedule::ParallelKernels&) -> KernelSource { TOROID_CHECK(false, "kernels that are started together are several"); });
}

}  // namespace toroid::codegen
