// Weights of 4 bits, two in a byte, as PyTorch's CPU kernels hold them.
//
// The layout depends on the machine that packs; it is that of PyTorch on machines with AVX-512 here: of 64 rows [64, K] byte
// [k, j] has row j in its low half and row j + 32 in its high one; of the rows that are left, neighbours share a byte. A file
// does not tell on which machine its weights were packed, so only what the program packs itself is unpacked.
#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/operators.h"
#include "formula/basics/precision.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

constexpr int64_t kBlock = 64;

int64_t known_rows(const Args& a, sym::Expr rows) {
  if (!rows.is_const()) throw Error(ErrorKind::Unsupported, fmt::format("{} of a symbolic number of rows", a.schema().name));
  if (rows.value() % 16 != 0) {
    throw Error(ErrorKind::InvalidModel, fmt::format("{} needs a multiple of 16 rows, not {}", a.schema().name, rows.value()));
  }
  return rows.value();
}

Tensor flattened(Tensor x) { return x.builder().reshape(x, {x.numel()}); }

// aten::_convert_weight_to_int4pack_for_cpu: numbers from 0 to 15, [N, K] I32, become [N, K / 2] U8.
std::vector<Tensor> pack_int4(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor weight = b.cast(a.tensor("self"), DType::U8);
  const int64_t rows = known_rows(a, weight.size(0)), rest = rows % kBlock, whole = rows - rest;
  const sym::Expr columns = weight.size(1);
  auto joined = [&](Tensor low, Tensor high) {
    return flattened(b.binary(ScalarOp::BitOr, low, b.binary(ScalarOp::ShiftLeft, high, Scalar(sym::Expr(4)))));
  };
  std::vector<Tensor> parts;
  if (whole > 0) {
    Tensor blocks = b.reshape(b.slice(weight, 0, 0, whole), {whole / kBlock, kBlock, columns});
    Tensor by_column = b.transpose(blocks, 1, 2);
    parts.push_back(joined(b.slice(by_column, 2, 0, kBlock / 2), b.slice(by_column, 2, kBlock / 2, kBlock / 2)));
  }
  if (rest > 0) {
    Tensor by_column = b.transpose(b.slice(weight, 0, whole, rest), 0, 1);
    parts.push_back(joined(b.slice(by_column, 1, 0, rest / 2, 2), b.slice(by_column, 1, 1, rest / 2, 2)));
  }
  return {b.reshape(b.cat(parts, 0), {rows, sym::floor_div(columns, 2)})};
}

// The numbers again, [N, K].
Tensor unpacked_int4(const Args& a, Tensor packed) {
  Builder& b = packed.builder();
  const int64_t rows = known_rows(a, packed.size(0)), rest = rows % kBlock, whole = rows - rest;
  const sym::Expr columns = packed.size(1) * 2;
  Tensor bytes = flattened(packed);
  auto low = [&](Tensor x) { return b.binary(ScalarOp::BitAnd, x, Scalar(sym::Expr(15))); };
  auto high = [&](Tensor x) { return b.binary(ScalarOp::ShiftRight, x, Scalar(sym::Expr(4))); };
  std::vector<Tensor> parts;
  if (whole > 0) {
    Tensor blocks = b.reshape(b.slice(bytes, 0, 0, columns * (whole / 2)), {whole / kBlock, columns, kBlock / 2});
    parts.push_back(b.reshape(b.transpose(b.cat({low(blocks), high(blocks)}, 2), 1, 2), {whole, columns}));
  }
  if (rest > 0) {
    Tensor block = b.reshape(b.slice(bytes, 0, columns * (whole / 2), columns * (rest / 2)), {columns, rest / 2});
    parts.push_back(b.transpose(b.reshape(b.stack({low(block), high(block)}, 2), {columns, rest}), 0, 1));
  }
  return b.cat(parts, 0);
}

void refuse_stored(const Args& a, Tensor packed) {
  const Graph& graph = packed.builder().graph();
  const Node* node = &graph.producer(packed.id());
  while (std::holds_alternative<Reshape>(node->op) || std::holds_alternative<Slice>(node->op)) node = &graph.producer(node->inputs[0]);
  if (!std::holds_alternative<Input>(node->op) && !std::holds_alternative<Constant>(node->op)) return;
  throw Error(ErrorKind::Unsupported,
              fmt::format("{} of weights that were packed before the export: for which machine, the file does not tell", a.schema().name))
      .help("pack them in the model with _convert_weight_to_int4pack_for_cpu, or dequantise them there");
}

// [M, K] by weights [N, K]: scale * (number - 8) + zero, with a scale and a zero for each group of columns and each row.
std::vector<Tensor> int4_weight_product(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor x = a.tensor("self"), packed = a.tensor("mat2");
  refuse_stored(a, packed);
  const sym::Expr group = a.integer("qGroupSize");
  Tensor numbers = b.cast(unpacked_int4(a, packed), DType::F32);
  const sym::Expr rows = numbers.size(0), groups = sym::floor_div(numbers.size(1), group);
  Tensor parameters = b.cast(a.tensor("qScaleAndZeros"), DType::F32);  // [groups, N, 2]
  b.require_equal(parameters.size(0), groups, "_weight_int4pack_mm_for_cpu");
  auto of_groups = [&](int64_t which) { return b.unsqueeze(b.transpose(b.select(parameters, 2, which), 0, 1), 2); };
  Tensor grouped = b.reshape(numbers, {rows, groups, group});
  Tensor weight = b.reshape((grouped - 8.0) * of_groups(0) + of_groups(1), {rows, groups * group});
  const DType dtype = x.dtype() == DType::BF16 ? DType::BF16 : DType::F32;
  return {b.cast(b.matmul(b.cast(x, dtype), b.cast(b.transpose(weight, 0, 1), dtype)), x.dtype())};
}

constexpr DecompositionRow kRows[] = {
    {"aten::_convert_weight_to_int4pack_for_cpu", pack_int4},
    {"aten::_weight_int4pack_mm_for_cpu", int4_weight_product},
};

}  // namespace

std::span<const DecompositionRow> packed_weight_rows() { return kRows; }

}  // namespace toroid
