#include "codegen/triton/triton_printer.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "codegen/cpp/print_index.h"
#include "codegen/triton/triton_body.h"
#include "codegen/triton/triton_scalar.h"
#include "codegen/triton/triton_stages.h"
#include "codegen/triton/triton_tile.h"
#include "loop/loop.h"
#include "schedule/mentioned.h"

namespace toroid::codegen {
namespace {

void refuse_what_is_not_printed(const schedule::Kernel& kernel) {
  const schedule::GpuLoops gpu = kernel.gpu.value_or(schedule::GpuLoops{});
  if (kernel.product) throw NotInTriton("an epilogue of a product");
  if (gpu.pixels > 1) throw NotInTriton("a sliding window");
  if (gpu.blocks > 0) throw NotInTriton("sums of columns");
  if (!kernel.finish.empty()) throw NotInTriton("kernels that the last thread runs");
  for (const schedule::Accumulator& each : kernel.accumulators) {
    if (each.of_columns) throw NotInTriton("sums of columns");
    triton_identity(each.op, each.dtype);
  }
}

// What the kernel takes, by the names that its body has for it.
struct Parameters {
  std::vector<std::string> names;
  TritonPointers pointers;
  SymbolNames symbols;
};

Parameters take_parameters(const loop::LoopProgram& program, const schedule::Kernel& kernel, const schedule::Step& step,
                           PrintedTriton& result) {
  Parameters parameters;
  for (const auto* list : {&kernel.reads, &kernel.writes}) {
    for (const loop::BufferId id : *list) {
      if (std::ranges::find(result.buffers, id) != result.buffers.end()) continue;
      const loop::Buffer& buffer = program.buffer(id);
      if (buffer.kind == loop::BufferKind::RandomState) throw NotInTriton("random numbers");
      const std::optional<std::string> type = triton_pointer(buffer.dtype);
      if (!type) throw NotInTriton(fmt::format("a tensor of {}", to_string(buffer.dtype)));
      result.buffers.push_back(id);
      // Not by the buffer's name: kernels of equal layers are equal.
      parameters.names.push_back(fmt::format("p{}", parameters.names.size()));
      parameters.pointers.emplace(id, parameters.names.back());
      result.kernel.arguments.push_back({.name = parameters.names.back(), .type = *type, .multiple = kTritonMultiple});
    }
  }
  result.sizes = schedule::size_symbols(program, step);
  for (const sym::Expr size : result.sizes) {
    parameters.names.push_back(parameters.symbols.of(size));
    const bool is_multiple = sym::known_divisible(size, kTritonMultiple);
    result.kernel.arguments.push_back({.name = parameters.names.back(), .type = "i64", .multiple = is_multiple ? kTritonMultiple : 1});
  }
  return parameters;
}

// What is left of `result` once its body is printed.
void finish(PrintedTriton& result, const schedule::Kernel& kernel, const TritonTile& tile, Parameters parameters, const TritonBody& body) {
  result.blocks = sym::ceil_div(tile.rows, tile.row_count) * (tile.in_squares ? sym::ceil_div(tile.length, tile.width) : sym::Expr(1));
  result.reports_errors = body.reports_errors();
  if (result.reports_errors) {
    parameters.names.insert(parameters.names.end(), {"failure", "step"});
    result.kernel.arguments.push_back({.name = "failure", .type = "*i64", .multiple = kTritonMultiple});
    result.kernel.arguments.push_back({.name = "step", .type = "i32"});
  }
  result.kernel.function = "kernel";
  result.kernel.file = "a kernel of the program";
  result.kernel.source = fmt::format("{}@triton.jit\ndef kernel({}):\n{}", kTritonPrelude, fmt::join(parameters.names, ", "), body.lines());
  result.kernel.warps = triton_warps(kernel, tile);
  result.kernel.stages = 2;
  result.kernel.flushes_subnormals = false;
  result.kernel.fuses_products = kernel.unfused.empty() && !body.rounds();
}

// `step`: which `kernel` is, or stands for. `in_squares`: rows and elements are axes of a transpose.
PrintedTriton print(const loop::LoopProgram& program, const schedule::Kernel& kernel, const schedule::Step& step, bool in_squares) {
  refuse_what_is_not_printed(kernel);
  PrintedTriton result;
  Parameters parameters = take_parameters(program, kernel, step, result);
  TritonTile tile = triton_tile(kernel, in_squares);
  narrow_indices(tile, program.exprs, kernel, !result.sizes.empty(), {}, {});
  TritonBody body(program, kernel, tile, parameters.symbols, parameters.pointers);
  body.open_rows();
  TritonStages stages(program.exprs, kernel, tile, body);
  for (const schedule::Stage& stage : kernel.stages) stages.print(stage);
  finish(result, kernel, tile, std::move(parameters), body);
  return result;
}

// Of a row that is one tile, or of many rows, each of which a program goes through.
PrintedTriton print(const loop::LoopProgram& program, const schedule::ScanKernel& scan, const schedule::Step& step) {
  if (scan.op != ScanOp::Sum && scan.op != ScanOp::Prod) throw NotInTriton(fmt::format("the scan {}", to_string(scan.op)));
  const DType own = program.exprs.dtype(scan.value);
  if (!is_floating(own) && size_bytes(own) < 4) throw NotInTriton(fmt::format("a scan of {}", to_string(own)));
  schedule::Kernel axes;
  axes.outer = scan.outer;
  axes.inner = {scan.along};
  axes.reads = scan.reads;
  axes.writes = scan.outputs;
  axes.gpu.emplace();
  PrintedTriton result;
  Parameters parameters = take_parameters(program, axes, step, result);
  TritonTile tile = triton_tile(axes, false);
  if (tile.is_looped && !(tile.rows.is_const() && tile.rows.value() >= kTritonPrograms)) {
    throw NotInTriton("a scan of few rows that do not fit a tile");
  }
  const auto place_of_element = sym::linear_in(scan.positions[0], scan.along);
  if (!place_of_element || !place_of_element->coefficient.is_const(1)) throw NotInTriton("a scan across the rows of memory");
  narrow_indices(tile, program.exprs, axes, !result.sizes.empty(), {scan.value}, scan.positions);
  TritonBody body(program, axes, tile, parameters.symbols, parameters.pointers);
  body.open_rows();
  // A running sum of floats is one chain of roundings: it is in double.
  const DType dtype = is_floating(own) ? DType::F64 : own;
  const bool is_sum = scan.op == ScanOp::Sum;
  const ReduceOp op = is_sum ? ReduceOp::Sum : ReduceOp::Prod;
  const std::string identity = triton_identity(op, dtype);
  std::string before;  // of a row that is gone through in pieces: what comes of those before
  if (tile.is_looped) {
    before = body.named("before", fmt::format("tl.full([{}, 1], {}, {})", tile.row_count, identity, triton_type(dtype)));
    body.open_block(fmt::format("for first in range(0, {}, {}):", body.printed(tile.length), tile.width));
    body.open_elements("first");
  }
  const std::string element = body.named("each", body.element_or(body.value(scan.value), identity));
  std::string scanned = body.named("scan", fmt::format("tl.{}({}, axis=1)", is_sum ? "cumsum" : "cumprod", body.whole(element, dtype)));
  if (tile.is_looped) scanned = body.named("scan", triton_combine(op, dtype, before, scanned));
  body.store(scan.outputs[0], scan.positions[0], body.named("t", triton_convert(dtype, own, scanned)), true);
  if (tile.is_looped) {
    body.line(fmt::format("{} = {}", before, triton_combine(op, dtype, before, triton_reduce(op, dtype, body.whole(element, dtype)))));
    body.close_block();
  }
  finish(result, axes, tile, std::move(parameters), body);
  return result;
}

// The same, whose rows end with the axis that some loads are contiguous along, and whose elements are the other one's. Triton turns a tile
// by itself where two accesses want it differently.
schedule::Kernel with_squares(schedule::Kernel kernel) {
  const sym::Expr rows = *kernel.tile;
  kernel.inner = {kernel.outer.back()};
  kernel.outer.pop_back();
  std::erase(kernel.outer, rows);
  kernel.outer.push_back(rows);
  for (schedule::Stage& stage : kernel.stages) stage.inner = true;
  kernel.tile.reset();
  kernel.tiled_loads.clear();
  return kernel;
}

}  // namespace

std::variant<PrintedTriton, std::string> print_triton(const loop::LoopProgram& program, const schedule::Step& step) {
  try {
    if (const auto* scan = std::get_if<schedule::ScanKernel>(&step)) return print(program, *scan, step);
    const auto* kernel = std::get_if<schedule::Kernel>(&step);
    if (kernel == nullptr) throw NotInTriton("neither a map nor a reduction nor a scan");
    return kernel->tile ? print(program, with_squares(*kernel), step, true) : print(program, *kernel, step, false);
  } catch (const NotInTriton& refusal) {
    return std::string(refusal.what());
  }
}

}  // namespace toroid::codegen
