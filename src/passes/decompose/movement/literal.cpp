#include "passes/decompose/movement/literal.h"

#include <cstring>
#include <memory>

#include <fmt/format.h>

#include "base/error.h"
#include "passes/constant_values.h"

namespace toroid {

void require_small_table(int64_t elements) {
  constexpr int64_t kMost = 1 << 22;
  if (elements <= kMost) return;
  throw Error(ErrorKind::Unsupported, fmt::format("a table of {} elements or more, which would be a constant of the program", elements))
      .help(fmt::format("make the sizes smaller: {} elements at most, or pass the table to the model as an input", kMost));
}

Tensor literal(Decomposer& d, const std::vector<int64_t>& sizes, const std::vector<int64_t>& values) {
  TensorType type{.dtype = DType::I64, .sizes = Sizes(sizes.begin(), sizes.end())};
  require_small_table(static_cast<int64_t>(values.size()));
  TOROID_CHECK(type.numel().is_const(static_cast<int64_t>(values.size())), "a literal has one value per element");
  auto storage = std::make_shared<const std::vector<int64_t>>(values);
  ConstantData data;
  data.type = type;
  data.bytes = std::as_bytes(std::span(*storage));
  data.owner = storage;
  return d.b.constant(d.program.add_constant(std::move(data)), std::move(type), "table");
}

std::optional<std::vector<int64_t>> constant_integers(const Decomposer& d, Tensor x) {
  if (!x.numel().is_const()) return std::nullopt;
  if (x.numel().value() > kMaxSteps) return std::nullopt;
  const size_t count = static_cast<size_t>(x.numel().value());
  const Op& op = d.b.graph().producer(x.id()).op;
  if (const auto* full = std::get_if<Full>(&op)) {
    const auto* value = std::get_if<sym::Expr>(&full->value);
    if (value == nullptr || !value->is_const()) return std::nullopt;
    return std::vector<int64_t>(count, value->value());
  }
  const auto* constant = std::get_if<Constant>(&op);
  if (constant == nullptr) return std::nullopt;
  if (is_written(d.program, constant->id)) return std::nullopt;
  if (d.written_in_place != nullptr && d.written_in_place->contains(constant->id)) return std::nullopt;
  const ConstantData& data = d.program.constant(constant->id);
  if (data.is_buffer && data.type.sizes.empty()) return std::nullopt;  // a counter: the graph cache does not tell values apart
  const size_t width = static_cast<size_t>(size_bytes(x.dtype()));
  if ((x.dtype() != DType::I64 && x.dtype() != DType::I32) || data.bytes.size() < count * width) return std::nullopt;
  std::vector<int64_t> values(count);
  for (size_t i = 0; i < count; ++i) {
    int32_t narrow = 0;
    if (width == 8) {
      std::memcpy(&values[i], data.bytes.data() + i * width, width);
    } else {
      std::memcpy(&narrow, data.bytes.data() + i * width, width);
      values[i] = narrow;
    }
  }
  return values;
}

}  // namespace toroid
