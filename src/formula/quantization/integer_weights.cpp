#include "formula/quantization/integer_weights.h"

#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/operators.h"
#include "formula/basics/precision.h"

namespace toroid::formula {
namespace {

constexpr int64_t kBlock = 64;

int64_t known_rows(sym::Expr rows) {
  if (!rows.is_const()) throw Error(ErrorKind::Unsupported, "packed int4 weights of a symbolic number of rows");
  if (rows.value() % 16 != 0) {
    throw Error(ErrorKind::InvalidModel, fmt::format("packed int4 weights need a multiple of 16 rows, not {}", rows.value()));
  }
  return rows.value();
}

Tensor flattened(Tensor x) { return x.builder().reshape(x, {x.numel()}); }

}  // namespace

Tensor pack_int4(Tensor numbers) {
  Builder& b = numbers.builder();
  Tensor weight = b.cast(numbers, DType::U8);
  const int64_t rows = known_rows(weight.size(0)), rest = rows % kBlock, whole = rows - rest;
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
  return b.reshape(b.cat(parts, 0), {rows, sym::floor_div(columns, 2)});
}

Tensor unpack_int4(Tensor packed) {
  Builder& b = packed.builder();
  const int64_t rows = known_rows(packed.size(0)), rest = rows % kBlock, whole = rows - rest;
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

Tensor int4_weight_product(Tensor x, Tensor integers, Tensor pairs, sym::Expr group) {
  Builder& b = x.builder();
  Tensor numbers = b.cast(integers, DType::F32);
  const sym::Expr rows = numbers.size(0), groups = sym::floor_div(numbers.size(1), group);
  Tensor parameters = b.cast(pairs, DType::F32);
  b.require_equal(parameters.size(0), groups, "groups of int4 weights");
  auto of_groups = [&](int64_t which) { return b.unsqueeze(b.transpose(b.select(parameters, 2, which), 0, 1), 2); };
  Tensor grouped = b.reshape(numbers, {rows, groups, group});
  Tensor weight = b.reshape((grouped - 8.0) * of_groups(0) + of_groups(1), {rows, groups * group});
  const DType dtype = x.dtype() == DType::BF16 ? DType::BF16 : DType::F32;
  return b.cast(b.matmul(b.cast(x, dtype), b.cast(b.transpose(weight, 0, 1), dtype)), x.dtype());
}

Tensor int8_weight_product(Tensor x, Tensor weight, Tensor scales) {
  Builder& b = x.builder();
  Tensor y = wide(b.matmul(wide(x), b.transpose(b.cast(weight, compute_dtype(x.dtype())), 0, 1)));
  return b.cast(y * wide(scales), x.dtype());
}

}  // namespace toroid::formula
