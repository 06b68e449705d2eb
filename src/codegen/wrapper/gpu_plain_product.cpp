// The launch of the kernel that multiplies on plain cores, where no library does (codegen/cuda/prelude/products/plain_products.inc).
#include <fmt/format.h>

#include "codegen/cpp/names.h"
#include "codegen/wrapper/function_printer.h"

namespace toroid::codegen {

bool FunctionPrinter::has_plain_product(const program::LibraryCall& call) const {
  if (!is_amd(target()) || call.kernel != "matmul" || call.inputs.size() != 2 || call.outputs.size() != 1 || call.epilogue) return false;
  const auto is_float = [&](const program::Operand& each) {
    const DType dtype = buffer(each.buffer).dtype;
    return dtype == DType::F64 || dtype == DType::F32 || is_reduced_float(dtype);
  };
  const program::Operand &a = call.inputs[0], &b = call.inputs[1], &out = call.outputs[0];
  const size_t rank = out.sizes.size();
  return rank >= 2 && a.sizes.size() == rank && b.sizes.size() == rank && is_float(a) && is_float(out) &&
         buffer(a.buffer).dtype == buffer(b.buffer).dtype;
}

void FunctionPrinter::print_plain_product(const program::LibraryCall& call) {
  constexpr int64_t kSide = 64;
  const program::Operand &a = call.inputs[0], &b = call.inputs[1], &out = call.outputs[0];
  const size_t dims = out.sizes.size() - 2;
  const DType dtype = buffer(a.buffer).dtype, result = buffer(out.buffer).dtype;
  const sym::Expr rows = out.sizes[dims], columns = out.sizes[dims + 1], depth = a.sizes[dims + 1];
  sym::Expr blocks = sym::ceil_div(rows, kSide) * sym::ceil_div(columns, kSide);
  const auto place = [&](const program::Operand& operand) { return pointer({operand.buffer, operand.offset}); };
  std::vector<OrderParameter> parameters = {{fmt::format("{}*", storage_type(dtype)), "a", place(a)},
                                            {fmt::format("{}*", storage_type(dtype)), "b", place(b)},
                                            {fmt::format("{}*", storage_type(result)), "out", place(out)}};
  const auto number = [&](const std::string& name, sym::Expr value) {
    parameters.push_back({"int64_t", name, index(value)});
    return name;
  };
  std::vector<std::string> sizes;
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, sym::Expr>>{{"rows", rows},
                                                                                            {"columns", columns},
                                                                                            {"depth", depth},
                                                                                            {"a_row", a.strides[dims]},
                                                                                            {"a_column", a.strides[dims + 1]},
                                                                                            {"b_row", b.strides[dims]},
                                                                                            {"b_column", b.strides[dims + 1]},
                                                                                            {"out_row", out.strides[dims]},
                                                                                            {"out_column", out.strides[dims + 1]}})
    sizes.push_back(number(name, value));
  std::vector<std::string> lists[4];
  for (size_t d = 0; d < dims; ++d) {
    blocks = blocks * out.sizes[d];
    lists[0].push_back(number(fmt::format("size{}", d), out.sizes[d]));
    lists[1].push_back(number(fmt::format("a{}", d), a.strides[d]));
    lists[2].push_back(number(fmt::format("b{}", d), b.strides[d]));
    lists[3].push_back(number(fmt::format("out{}", d), out.strides[d]));
  }
  const std::string batch = dims == 0 ? ""
                                      : fmt::format("{{{}}}, {{{}}}, {{{}}}, {{{}}}", fmt::join(lists[0], ", "), fmt::join(lists[1], ", "),
                                                    fmt::join(lists[2], ", "), fmt::join(lists[3], ", "));
  print_order_launch({.name = "multiply",
                      .statement = fmt::format("multiply_plain<{}, {}>(a, b, out, PlainProduct{{{}}}, PlainBatch<{}>{{{}}})",
                                               dtype == DType::F64 || result == DType::F64 ? "double" : "float", dims,
                                               fmt::join(sizes, ", "), dims, batch),
                      .blocks = blocks,
                      .threads = 256,
                      .preludes = {.plain_products = true}},
                     parameters);
}

}  // namespace toroid::codegen
