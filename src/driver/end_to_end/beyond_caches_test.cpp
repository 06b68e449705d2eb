// What is larger than the caches: fetched ahead and written around them. Sizes are odd, so that rows begin anywhere in a line.
#include <fmt/format.h>

#include "driver/end_to_end/compiled_for_test.h"
#include "driver/end_to_end/numbers/numbers_for_test.h"

namespace toroid {
namespace {

constexpr int64_t kLongRows = 4099, kLongColumns = 4101;  // in 16 bits and more beyond 32 MiB

// Calls check(row, column, element) with what `text` computes of x, [columns, rows], and y, [rows, columns].
template <class Check>
void check_elements(std::string_view dtype_name, DType dtype, std::string_view body, Check check) {
  const std::string name(dtype_name), by_rows = fmt::format("{}[{}, {}]", name, kLongRows, kLongColumns);
  std::string text = fmt::format("graph(x: {}[{}, {}], y: {}) {{ {} return r }}", name, kLongColumns, kLongRows, by_rows, body);
  auto replace = [&](std::string_view word, const std::string& by) {
    for (size_t at = 0; (at = text.find(word, at)) != std::string::npos;) text.replace(at, word.size(), by);
  };
  replace("BY_ROWS", by_rows);
  replace("ROW_MAXIMA", fmt::format("{}[{}, 1]", name, kLongRows));
  const HostTensor x = numbered(dtype, {kLongColumns, kLongRows}, 7), y = numbered(dtype, {kLongRows, kLongColumns}, 11);
  std::vector<std::string> compilers = {"g++"};
  if (find_program("clang++")) compilers.emplace_back("clang++");
  for (const std::string& compiler : compilers) {
    SCOPED_TRACE(compiler);
    const ScopedVariable variable("TOROID_CXX", compiler);
    const std::vector<HostTensor> result =
        CompileSession(false).compile(parse_text(text), {.optimization = test_optimisation()}).load(2).run(std::vector{x, y});
    ASSERT_EQ(result[0].sizes(), (std::vector{kLongRows, kLongColumns}));
    for (int64_t row = 0; row < kLongRows; row += row + 70 < kLongRows ? 67 : 1) {
      for (int64_t column = 0; column < kLongColumns; ++column) {
        ASSERT_NO_FATAL_FAILURE(check(row, column, result[0].double_at(row * kLongColumns + column), x, y)) << row << ", " << column;
      }
    }
  }
}

class BeyondCaches : public testing::TestWithParam<std::pair<std::string_view, DType>> {};

TEST_P(BeyondCaches, TurnedTiles) {
  check_elements(GetParam().first, GetParam().second, "t: BY_ROWS = aten::t(x) r: BY_ROWS = aten::add.Tensor(t, y)",
                 [](int64_t row, int64_t column, double element, const HostTensor& x, const HostTensor& y) {
                   ASSERT_EQ(element, x.double_at(column * kLongRows + row) + y.double_at(row * kLongColumns + column));
                 });
}

TEST_P(BeyondCaches, Streams) {
  check_elements(GetParam().first, GetParam().second, "r: BY_ROWS = aten::mul.Tensor(y, y)",
                 [](int64_t row, int64_t column, double element, const HostTensor&, const HostTensor& y) {
                   const auto value = static_cast<float>(y.double_at(row * kLongColumns + column));
                   ASSERT_EQ(element, GetParam().second == DType::BF16 ? static_cast<float>(BFloat16(value * value)) : value * value);
                 });
}

TEST_P(BeyondCaches, Rows) {
  check_elements(GetParam().first, GetParam().second, "m: ROW_MAXIMA = aten::amax(y, [1], True) r: BY_ROWS = aten::sub.Tensor(y, m)",
                 [](int64_t row, int64_t column, double element, const HostTensor&, const HostTensor& y) {
                   ASSERT_EQ(element, y.double_at(row * kLongColumns + column) - 30);
                 });
}

INSTANTIATE_TEST_SUITE_P(DTypes, BeyondCaches,
                         testing::Values(std::pair{std::string_view("bf16"), DType::BF16}, std::pair{std::string_view("i16"), DType::I16},
                                         std::pair{std::string_view("f32"), DType::F32}),
                         [](const auto& info) { return std::string(info.param.first); });

}  // namespace
}  // namespace toroid
