#include "driver/pipeline/pass_costs.h"

#include <algorithm>
#include <limits>

#include "runtime/kernels/registry/registry.h"
#include "schedule/cuda/products/product_tiles.h"

namespace toroid {
namespace {

double product_s(const ProductToEstimate& product) {
  MachineModel machine = model_of_this_machine(1);
  machine.cache_bytes = 8e6;
  const DType dtypes[] = {product.dtype, product.dtype};
  Problem problem = {
      .family = family_of("matmul", dtypes, product.dtype),
      .inputs = {contiguous_operand(product.dtype, {product.m, product.k}), contiguous_operand(product.dtype, {product.k, product.n})},
      .outputs = {contiguous_operand(product.dtype, {product.m, product.n})},
      .integers = {},
      .numbers = {}};
  problem.inputs[1].is_constant = true;
  if (product.by_columns) problem.inputs[1].strides = {1, product.k};
  const auto families = runtime_choices().families();
  if (std::none_of(families.begin(), families.end(), [&](const KernelFamily& family) { return family.name == problem.family; })) return 0;
  double least = std::numeric_limits<double>::infinity();
  for (const Choice& choice : runtime_choices().list_choices(problem, machine)) {
    if (!choice.gate) least = std::min(least, choice.cost_s);
  }
  return least;
}

// Few rows: the bytes of the right side. 16-bit floats: the tiles that the planner would take, or the library's. Others on plain cores.
double gpu_product_s(const ProductToEstimate& product) {
  constexpr int64_t kFewRows = 32;
  constexpr double kStart = 4e-6, kBytesOfSecond = 2.6e12, kFlopsOfSecond = 4.5e13;  // of an H100
  const double bytes_s = static_cast<double>(product.n * product.k * size_bytes(product.dtype)) / kBytesOfSecond;
  if (product.m <= kFewRows) return kStart + bytes_s;
  if (!is_reduced_float(product.dtype))
    return kStart + std::max(bytes_s, 2.0 * static_cast<double>(product.m * product.n) * static_cast<double>(product.k) / kFlopsOfSecond);
  const schedule::ProductShape shape{.rows = product.m, .columns = product.n, .depth = product.k};
  double least = schedule::seconds_of_library(shape);
  for (const schedule::TilesEstimate& each : schedule::estimated_tiles(shape, std::nullopt)) least = std::min(least, each.seconds);
  return least;
}

}  // namespace

PassCosts pass_costs() { return {.product_s = product_s}; }
PassCosts gpu_pass_costs() { return {.product_s = gpu_product_s}; }
ByteConvolutions byte_convolutions(const Isa& isa) {
  if (isa.vnni || isa.amx) return ByteConvolutions::All;
  return isa.level == IsaLevel::Avx2 ? ByteConvolutions::OfPixels : ByteConvolutions::None;
}

}  // namespace toroid
