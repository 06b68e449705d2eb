#include "codegen/cuda/thread_printer.h"

#include <algorithm>

#include <fmt/format.h>

#include "codegen/cpp/names.h"

namespace toroid::codegen::cuda {

using loop::BufferId;
using loop::ExprId;

std::vector<sym::Expr> numbers_of(const schedule::ConvolutionShape& it) {
  return {it.n,
          it.h,
          it.w,
          it.c,
          it.k,
          it.r,
          it.s,
          it.p,
          it.q,
          it.groups,
          it.stride_h,
          it.stride_w,
          it.padding_h,
          it.padding_w,
          it.dilation_h,
          it.dilation_w,
          it.image_stride,
          it.row_stride,
          it.pixel_stride};
}

std::vector<std::string> overlap_text(const schedule::Overlap& overlap) {
  std::vector<std::string> lines;
  if (overlap.lets_next_start) lines.emplace_back("let_next_kernel_start();");
  if (overlap.starts_early && !overlap.loads_ahead) lines.emplace_back("wait_for_kernel_before();");
  return lines;
}

std::string ThreadPrinter::place(BufferId buffer, sym::Expr offset) {
  return body_.memory(buffer) + (offset.is_const(0) ? "" : " + " + print_factor(exprs_, names_, offset));
}

std::string ThreadPrinter::count_text(sym::Expr size) {
  return size.is_const() ? fmt::format("{}", size.value()) : fmt::format("(int){}", print_factor(exprs_, names_, size));
}

std::string ThreadPrinter::declare_sizes(const schedule::ConvolutionShape& shape) {
  const std::string name = body_.fresh("sizes");
  const std::vector<sym::Expr> numbers = numbers_of(shape);
  std::vector<std::string> texts;
  for (sym::Expr number : numbers)
    texts.push_back(texts.size() + kStridesOfImage < numbers.size() ? count_text(number) : print_factor(exprs_, names_, number));
  body_.line(fmt::format("const ConvolutionSizes {} = {{{}}};", name, fmt::join(texts, ", ")));
  return name;
}

std::string ThreadPrinter::parameters(bool may_change) const {
  std::string text;
  for (const std::string& map : tensor_maps_) text += fmt::format("{}TENSOR_MAP {}", text.empty() ? "" : ", ", map);
  for (const KernelParameter& parameter : source_.parameters) {
    const loop::Buffer& buffer = program_.buffer(parameter.buffer);
    const std::string name = identifier(buffer.name);
    text += text.empty() ? "" : ", ";
    if (buffer.kind == loop::BufferKind::RandomState) {
      text += fmt::format("const RandomState {}", name);
    } else {
      const bool is_alone = !may_be_shared(parameter.buffer) && (!may_change || schedule::is_always_there(buffer));
      text +=
          fmt::format("{}{}* {}{}", parameter.is_output ? "" : "const ", storage_type(buffer.dtype), is_alone ? "__restrict__ " : "", name);
    }
  }
  for (sym::Expr size : source_.sizes) text += fmt::format("{}const int64_t {}", text.empty() ? "" : ", ", identifier(size.node()->name));
  if (source_.reports_errors) text += std::string(text.empty() ? "" : ", ") + "Failure* failure, const int32_t step";
  return text;
}

std::string ThreadPrinter::body() {
  std::string lines = body_.take();
  std::string text;
  for (const std::string& line : overlap_text(overlap_)) text += fmt::format("  {}\n", line);
  if (!overlap_.starts_early || overlap_.loads_ahead) return text + lines;
  std::vector<std::string> arguments;
  for (const KernelParameter& parameter : source_.parameters) arguments.push_back(identifier(program_.buffer(parameter.buffer).name));
  for (sym::Expr size : source_.sizes) arguments.push_back(identifier(size.node()->name));
  if (source_.reports_errors) arguments.insert(arguments.end(), {"failure", "step"});
  text += fmt::format("  []({}) {{\n", parameters(false));
  for (std::string_view rest = lines; !rest.empty();) {
    const size_t end = rest.find('\n') + 1;
    text += "  " + std::string(rest.substr(0, end));
    rest.remove_prefix(end);
  }
  return text + fmt::format("  }}({});\n", fmt::join(arguments, ", "));
}

void ThreadPrinter::begin(const Contents& contents, const std::vector<BufferId>& reads, const std::vector<BufferId>& writes) {
  take_parameters(reads, writes);
  take_sizes(contents);
  bool is_small = std::all_of(contents.positions.begin(), contents.positions.end(), fits_32_bits);
  for (ExprId id : loop::reachable(exprs_, contents.values)) {
    const loop::ExprOp& op = exprs_.node(id).op;
    if (const auto* load = std::get_if<loop::Load>(&op)) is_small = is_small && fits_32_bits(load->index[0]);
    if (const auto* index = std::get_if<loop::Index>(&op)) is_small = is_small && fits_32_bits(index->value);
  }
  body_.line(is_small && source_.sizes.empty() ? "typedef int Index;" : "typedef int64_t Index;");
}

void ThreadPrinter::decode(const std::vector<sym::Expr>& axes, const std::string& place) {
  std::string rest = place;
  for (size_t d = axes.size(); d-- > 0;) {
    if (axes[d].is_const()) continue;
    const std::string name = body_.name_of(axes[d]);
    if (d == 0) {
      body_.line(fmt::format("const Index {} = {};", name, rest));
      break;
    }
    const std::string size = print_factor(exprs_, names_, extent(axes[d])), next = body_.fresh("rest");
    body_.line(fmt::format("const Index {0} = {1} % {2}, {3} = {1} / {2};", name, rest, size, next));
    rest = next;
  }
}

ThreadText ThreadPrinter::take_thread(bool waits) {
  source_.reports_errors = body_.reports_errors;
  const std::string own = parameters(false);
  source_.text = fmt::format("(const Coordinate blockIdx{}{}) {{\n{}}}\n", own.empty() ? "" : ", ", own, body_.take());
  return {std::move(source_), waits, body_.is_special};
}

void ThreadPrinter::finish(const std::vector<ProvenanceId>& provenance, const std::string& attributes) {
  source_.reports_errors = body_.reports_errors;
  print_header(provenance);
  source_.text =
      fmt::format("{}KERNEL {} {}({}) {{\n{}}}\n", text_.str(), attributes, source_.name, parameters(overlap_.starts_early), body());
}

}  // namespace toroid::codegen::cuda
