#include "schedule/cuda/launches/overlap.h"

#include <algorithm>

#include "schedule/cuda/cuda_grid.h"
#include "schedule/cuda/products/product_tiles.h"

namespace toroid::schedule {
namespace {

const CallStep* as_few_rows(const Step& kernel) {
  const auto* call = std::get_if<CallStep>(&kernel);
  return call != nullptr && call->gpu && call->gpu->depth_warps > 0 ? call : nullptr;
}

}  // namespace

bool can_overlap(const loop::LoopProgram& program, const Step& kernel) {
  const bool is_loops =
      std::holds_alternative<Kernel>(kernel) || std::holds_alternative<ScanKernel>(kernel) || std::holds_alternative<ScatterKernel>(kernel);
  const auto* call = std::get_if<CallStep>(&kernel);
  if (call != nullptr && !call->updates.empty()) return can_overlap(call->call.operands[1].sizes);
  if (!is_loops && as_few_rows(kernel) == nullptr) return false;
  return sym::known_lt(0, cuda_grid_of(program, kernel).blocks);
}

bool can_overlap(std::span<const sym::Expr> sizes_of_keys) {
  return std::all_of(sizes_of_keys.begin(), sizes_of_keys.end(), [](sym::Expr size) { return size.is_const() && size.value() > 0; });
}

bool is_always_there(const loop::Buffer& buffer) {
  return buffer.kind == loop::BufferKind::Prepared || (buffer.kind == loop::BufferKind::Constant && !buffer.updated_by);
}

bool can_load_ahead(const loop::LoopProgram& program, const Step& kernel) {
  const CallStep* const call = as_few_rows(kernel);
  if (call == nullptr) return false;
  const ProductAttempt product = as_product_of_tiles(program, call->call, call->outputs);
  if (!product.shape) return false;
  const ProductShape& shape = *product.shape;
  const auto is_there = [&](BufferId id) { return is_always_there(program.buffer(id)); };
  const bool are_there = is_there(shape.b.buffer) && (!shape.second || is_there(shape.second->buffer));
  return shape.factors != Factors::Floats32 && are_there && (shape.numbers != RightNumbers::Int4 || is_there(shape.scales));
}

}  // namespace toroid::schedule
