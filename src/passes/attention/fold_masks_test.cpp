#include "passes/attention/fold_masks.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "graph/text/text.h"
#include "graph/verify.h"
#include "interp/compare.h"
#include "interp/evaluate.h"
#include "passes/dead_code.h"

namespace toroid {
namespace {

struct MaskCase {
  std::string name;
  bool is_folded, is_causal;
  std::string mask;  // of f32[2, 3, 4, 5], in terms of positions
};

// Positions of rows and columns as exporters write them, and the scores' neutral elements.
constexpr std::string_view kPositions = R"(
  row: i64[4] = iota(dim=0)
  rows: i64[2, 1, 4, 1] = constant(0)
  column: i64[5] = iota(dim=0)
  none: i64[5] = full(value=0)
  same: i64[5] = add(column, none)
  columns: i64[1, 1, 1, 5] = reshape(same)
  r: i64[2, 1, 4, 5] = expand(rows)
  two: i64[2, 1, 1, 5] = constant(1)
  c: i64[2, 1, 4, 5] = expand(two)
  zero: f32[2, 1, 4, 5] = full(value=0.0)
  never: f32[2, 1, 4, 5] = full(value=-inf)
)";

const MaskCase kCases[] = {
    {"a_triangle", true, true, R"(
  past: bool[2, 1, 4, 5] = le(c, r)
  m: f32[2, 1, 4, 5] = where(past, zero, never))"},
    {"a_triangle_the_other_way_around", true, true, R"(
  past: bool[2, 1, 4, 5] = ge(r, c)
  m: f32[2, 1, 4, 5] = where(past, zero, never))"},
    {"a_triangle_and_what_is_true", true, true, R"(
  yes: bool[2, 1, 4, 5] = full(value=true)
  at_least: i64[1, 1, 1, 5] = full(value=0)
  some: bool[1, 1, 1, 5] = ge(columns, at_least)
  all: bool[2, 1, 4, 5] = expand(some)
  both: bool[2, 1, 4, 5] = bit_and(yes, all)
  past: bool[2, 1, 4, 5] = le(c, r)
  seen: bool[2, 1, 4, 5] = bit_and(both, past)
  m: f32[2, 1, 4, 5] = where(seen, zero, never))"},
    {"true_everywhere", true, false, R"(
  at_least: i64[1, 1, 1, 5] = full(value=0)
  some: bool[1, 1, 1, 5] = ge(columns, at_least)
  all: bool[2, 1, 4, 5] = expand(some)
  m: f32[2, 1, 4, 5] = where(all, zero, never))"},
    {"equal_documents", true, false, R"(
  a: i64[2, 1, 4, 5] = full(value=3)
  some: bool[2, 1, 4, 5] = eq(a, a)
  m: f32[2, 1, 4, 5] = where(some, zero, never))"},
    {"zeros", true, false, "\n  m: f32[2, 1, 4, 5] = expand(constant_zeros)"},
    {"a_triangle_of_numbers", true, true, "\n  m: f32[2, 1, 4, 5] = expand(constant_triangle)"},
    {"weights", false, false, "\n  m: f32[2, 1, 4, 5] = expand(weights)"},
    {"an_input", false, false, "\n  m: f32[2, 1, 4, 5] = expand(given)"},
    // As models hide keys by the lowest number, and a window that is as long as all keys.
    {"a_triangle_of_the_lowest_numbers", true, true, R"(
  past: bool[2, 1, 4, 5] = le(c, r)
  low: f32[2, 1, 4, 5] = full(value=-3.4e38)
  m: f32[2, 1, 4, 5] = where(past, zero, low))"},
    {"a_triangle_in_a_long_window", true, true, R"(
  long: i64[2, 1, 4, 5] = full(value=8)
  before: i64[2, 1, 4, 5] = sub(r, long)
  near: bool[2, 1, 4, 5] = gt(c, before)
  past: bool[2, 1, 4, 5] = le(c, r)
  seen: bool[2, 1, 4, 5] = bit_and(near, past)
  m: f32[2, 1, 4, 5] = where(seen, zero, never))"},
    {"a_triangle_of_shifted_positions", true, true, R"(
  one: i64[2, 1, 4, 5] = full(value=1)
  next: i64[2, 1, 4, 5] = add(r, one)
  past: bool[2, 1, 4, 5] = lt(c, next)
  m: f32[2, 1, 4, 5] = where(past, zero, never))"},
    {"a_triangle_without_the_own_key", false, false, R"(
  past: bool[2, 1, 4, 5] = lt(c, r)
  m: f32[2, 1, 4, 5] = where(past, zero, never))"},
    {"a_short_window", false, false, R"(
  short: i64[2, 1, 4, 5] = full(value=2)
  before: i64[2, 1, 4, 5] = sub(r, short)
  near: bool[2, 1, 4, 5] = gt(c, before)
  past: bool[2, 1, 4, 5] = le(c, r)
  seen: bool[2, 1, 4, 5] = bit_and(near, past)
  m: f32[2, 1, 4, 5] = where(seen, zero, never))"},
    // A row sees later keys alone, or its own among others; a low number is not -inf; the first row's keys are all rows'.
    {"the_future", false, false, R"(
  future: bool[2, 1, 4, 5] = le(r, c)
  m: f32[2, 1, 4, 5] = where(future, zero, never))"},
    {"some_keys", false, false, R"(
  at_least: i64[1, 1, 1, 5] = full(value=1)
  some: bool[1, 1, 1, 5] = ge(columns, at_least)
  all: bool[2, 1, 4, 5] = expand(some)
  m: f32[2, 1, 4, 5] = where(all, zero, never))"},
    {"a_triangle_of_low_numbers", false, false, R"(
  past: bool[2, 1, 4, 5] = le(c, r)
  low: f32[2, 1, 4, 5] = full(value=-1e30)
  m: f32[2, 1, 4, 5] = where(past, zero, low))"},
    {"one_row_of_a_triangle", false, false, R"(
  first: i64[1, 1, 1, 5] = full(value=0)
  past: bool[1, 1, 1, 5] = le(columns, first)
  all: bool[2, 1, 4, 5] = expand(past)
  m: f32[2, 1, 4, 5] = where(all, zero, never))"},
};
void PrintTo(const MaskCase& each, std::ostream* out) { *out << each.name; }

class FoldMasks : public testing::TestWithParam<MaskCase> {};
TEST_P(FoldMasks, KeepsWhatAttentionComputes) {
  std::string zeros, triangle;
  for (int i = 0; i < 20; ++i) {
    zeros += i == 0 ? "0.0" : ", 0.0";
    triangle += fmt::format("{}{}", i == 0 ? "" : ", ", i % 5 <= i / 5 ? "0.0" : "-inf");
  }
  Program program = parse_text(fmt::format(
      "constant 0 \"\": i64[2, 1, 4, 1] = [0, 1, 2, 3, 0, 1, 2, 3]\n"
      "constant 1 \"\": i64[2, 1, 1, 5] = [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]\n"
      "constant 2 \"\": f32[1, 1, 4, 5] = [{0}]\nconstant 3 \"\": f32[1, 1, 4, 5] = [{1}]\nconstant 4 \"w\": f32[1, 1, 4, 5] = [{0}]\n"
      "graph(q: f32[2, 3, 4, 8], k: f32[2, 3, 5, 8], given: f32[1, 1, 4, 5]) {{\n"
      "  constant_zeros: f32[1, 1, 4, 5] = constant(2)\n  constant_triangle: f32[1, 1, 4, 5] = constant(3)\n"
      "  weights: f32[1, 1, 4, 5] = constant(4){2}{3}\n"
      "  mask: f32[2, 3, 4, 5] = expand(m)\n"
      "  y: f32[2, 3, 4, 8] = attention(q, k, k, mask, causal=false, scale=0.5)\n  return y\n}}\n",
      zeros, triangle, kPositions, GetParam().mask));
  const auto waves = [](std::vector<int64_t> sizes) {
    std::vector<double> values(static_cast<size_t>(numel(sizes)));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>((i * 37) % 101) / 50 - 1;
    return HostTensor::from_doubles(DType::F32, std::move(sizes), values);
  };
  const std::vector<HostTensor> inputs = {waves({2, 3, 4, 8}), waves({2, 3, 5, 8}), waves({1, 1, 4, 5})};
  const std::vector<HostTensor> expected = evaluate(program, inputs);
  EXPECT_EQ(fold_masks(program), GetParam().is_folded);
  remove_dead_code(program);
  verify(program, Level::Core);
  const std::string text = to_text(program);
  EXPECT_EQ(text.find("attention(q, k, k, causal=") != std::string::npos, GetParam().is_folded) << text;
  EXPECT_EQ(text.find("causal=true") != std::string::npos, GetParam().is_causal) << text;
  EXPECT_EQ(difference(evaluate(program, inputs)[0], expected[0], {.sums_or_products = true}), std::nullopt);
  EXPECT_FALSE(fold_masks(program));
}
INSTANTIATE_TEST_SUITE_P(Masks, FoldMasks, testing::ValuesIn(kCases), [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace toroid
