// The launch of the kernel that multiplies by groups (codegen/cuda/prelude/products/grouped_products.inc).
#include <fmt/format.h>

#include "codegen/cpp/names.h"
#include "codegen/cpp/origin.h"
#include "codegen/wrapper/function_printer.h"
#include "schedule/cuda/products/grouped_product.h"

namespace toroid::codegen {

void FunctionPrinter::print_gpu_grouped(const program::LibraryCall& call) {
  const program::Operand &x = call.inputs[0], &y = call.inputs[1], &ends = call.inputs[2], &out = call.outputs[0];
  const bool by_depth = y.sizes.size() == 2, is_transposed = !y.strides.back().is_const(1);
  const sym::Expr rows = x.sizes[0], depth = x.sizes[1], groups = ends.sizes[0], columns = y.sizes.back();
  const schedule::GroupedTiles tiles = schedule::grouped_tiles(rows, groups, columns, by_depth);
  const std::string type(storage_type(buffer(x.buffer).dtype)), pointer_type = type + "*";
  const auto place = [&](const program::Operand& operand) { return pointer({operand.buffer, operand.offset}); };
  const auto number = [&](std::string name, sym::Expr value) { return OrderParameter{"int64_t", std::move(name), index(value)}; };
  const std::string name = by_depth ? "sum_groups" : "multiply_groups";
  auto block = body_.block(fmt::format("{{  // {}", comment_text(call.label)));
  print_order_launch(
      {.name = name,
       .statement = fmt::format("{}<{}, {}, {}, {}{}>(x, y, ends, out, GroupedSizes{{(int)rows, (int)columns, (int)depth, "
                                "(int)groups, x_line, y_group, y_line}}, (Failure*)failure, step)",
                                name, type, tiles.rows, tiles.columns, tiles.stages, by_depth ? "" : fmt::format(", {}", is_transposed)),
       .blocks = schedule::blocks_of(tiles, rows, groups, columns, by_depth),
       .threads = tiles.threads(),
       .shared_bytes = tiles.shared_bytes(),
       .blocks_at_once = 2,
       .preludes = {.grouped_products = true}},
      {{pointer_type, "x", place(x)},
       {pointer_type, "y", place(y)},
       {"int64_t*", "ends", place(ends)},
       {pointer_type, "out", place(out)},
       number("rows", rows),
       number("columns", columns),
       number("depth", depth),
       number("groups", groups),
       number("x_line", x.strides[by_depth ? 1 : 0]),
       number("y_group", by_depth ? sym::Expr(0) : y.strides[0]),
       number("y_line", y.strides[y.strides.size() - (is_transposed ? 1 : 2)]),
       {"void*", "failure", is_emulated(shared_.target) ? "&emulated_failure" : "gpu(runtime)->failure"},
       {"int32_t", "step", fmt::to_string(number_)}});
}

}  // namespace toroid::codegen
