// The runtime's attention against the evaluator's plain loops, in each form that takes the operands.
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/format.h"
#include "interp/compare.h"
#include "interp/products.h"
#include "runtime/kernels/isa/on_machines_for_test.h"
#include "runtime/kernels/registry/implementations_for_test.h"
#include "runtime/kernels/registry/operands_for_test.h"

namespace toroid {
namespace {

struct AttentionCase {
  const char* name;
  std::vector<int64_t> q, k, v;
  bool causal = false;
  std::vector<int64_t> mask = {};  // empty: none
};

const AttentionCase kAttentions[] = {
    {"plain", {2, 3, 5, 8}, {2, 3, 5, 8}, {2, 3, 5, 8}},
    {"causal", {2, 3, 17, 8}, {2, 3, 17, 8}, {2, 3, 17, 8}, true},
    {"one query", {1, 2, 1, 16}, {1, 2, 33, 16}, {1, 2, 33, 16}},
    {"more queries than keys, causal", {1, 2, 70, 4}, {1, 2, 50, 4}, {1, 2, 50, 4}, true},
    {"more keys than queries, causal", {1, 2, 50, 4}, {1, 2, 70, 4}, {1, 2, 70, 4}, true},
    {"several blocks of queries", {1, 1, 131, 24}, {1, 1, 97, 24}, {1, 1, 97, 24}},
    {"values of another width", {1, 2, 6, 8}, {1, 2, 7, 8}, {1, 2, 7, 3}},
    {"values of another width, which fill vectors", {1, 2, 3, 40}, {1, 2, 70, 40}, {1, 2, 70, 70}},
    {"a mask of all dims", {2, 3, 5, 8}, {2, 3, 7, 8}, {2, 3, 7, 8}, false, {2, 3, 5, 7}},
    {"a mask that repeats over heads", {2, 3, 5, 8}, {2, 3, 7, 8}, {2, 3, 7, 8}, false, {2, 1, 5, 7}},
    {"a mask of keys", {2, 3, 5, 8}, {2, 3, 7, 8}, {2, 3, 7, 8}, false, {2, 1, 1, 7}},
    {"a mask of queries", {2, 3, 5, 8}, {2, 3, 7, 8}, {2, 3, 7, 8}, false, {1, 1, 5, 1}},
    {"a mask of lower rank", {2, 3, 5, 8}, {2, 3, 7, 8}, {2, 3, 7, 8}, false, {5, 7}},
    {"a mask and causal", {2, 3, 60, 8}, {2, 3, 60, 8}, {2, 3, 60, 8}, true, {1, 1, 60, 60}},
    {"several blocks of keys", {1, 2, 60, 16}, {1, 2, 2100, 16}, {1, 2, 2100, 24}},
    {"several blocks of keys, causal", {1, 1, 1300, 8}, {1, 1, 1300, 8}, {1, 1, 1300, 8}, true},
    {"several blocks of keys and a mask", {1, 2, 7, 16}, {1, 2, 1500, 16}, {1, 2, 1500, 16}, false, {1, 1, 7, 1500}},
    {"several blocks of keys, queries and a mask", {1, 2, 35, 16}, {1, 2, 2500, 16}, {1, 2, 2500, 16}, false, {1, 1, 35, 2500}},
    {"few queries and several blocks of keys", {1, 2, 3, 16}, {1, 2, 2100, 16}, {1, 2, 2100, 24}},
    {"few queries and several blocks of keys, causal", {1, 1, 7, 32}, {1, 1, 1100, 32}, {1, 1, 1100, 32}, true},
    {"one query with heads of 80", {1, 2, 1, 80}, {1, 2, 75, 80}, {1, 2, 75, 80}},
    {"three queries with heads of 96", {1, 2, 3, 96}, {1, 2, 50, 96}, {1, 2, 50, 96}},
    {"seven queries with heads of 33", {1, 2, 7, 33}, {1, 2, 37, 33}, {1, 2, 37, 33}},
    {"eight queries with heads of 147", {1, 1, 8, 147}, {1, 1, 66, 147}, {1, 1, 66, 147}},
    {"heads that share keys", {2, 6, 5, 8}, {2, 2, 7, 8}, {2, 2, 7, 8}},
    {"heads that share keys, causal", {1, 4, 37, 8}, {1, 2, 37, 8}, {1, 2, 37, 8}, true},
    {"heads that share keys, and a mask of heads", {2, 6, 50, 8}, {2, 3, 7, 8}, {2, 3, 7, 24}, false, {1, 6, 50, 7}},
    {"heads that share keys with one query", {2, 6, 1, 16}, {2, 2, 33, 16}, {2, 2, 33, 24}},
    {"heads that share keys with one query, causal", {2, 6, 1, 16}, {2, 2, 33, 16}, {2, 2, 33, 16}, true},
    {"heads that share keys with one query, and a mask of heads", {2, 6, 1, 16}, {2, 2, 33, 16}, {2, 2, 33, 16}, false, {2, 6, 1, 33}},
    {"heads that share keys with one query, and a mask of keys", {2, 6, 1, 16}, {2, 2, 33, 16}, {2, 2, 33, 16}, false, {2, 1, 1, 33}},
    {"heads that share many keys with one query, and a mask of heads",
     {1, 8, 1, 40},
     {1, 2, 1100, 40},
     {1, 2, 1100, 40},
     false,
     {1, 8, 1, 1100}},
    {"many heads that share keys with one query", {1, 128, 1, 16}, {1, 2, 1100, 16}, {1, 2, 1100, 16}},
    {"many heads that share all keys with one query", {1, 40, 1, 40}, {1, 1, 2200, 40}, {1, 1, 2200, 40}, false, {1, 40, 1, 2200}},
    {"eight heads that share keys with one query", {1, 16, 1, 16}, {1, 2, 1100, 16}, {1, 2, 1100, 16}},
    {"six heads that share keys with one query", {1, 12, 1, 64}, {1, 2, 1301, 64}, {1, 2, 1301, 96}, false, {1, 12, 1, 1301}},
    {"seventeen queries of wide heads, causal", {1, 2, 17, 160}, {1, 2, 100, 160}, {1, 2, 100, 64}, true},
    {"thirty-two heads that share keys with one query", {2, 32, 1, 128}, {2, 1, 650, 128}, {2, 1, 650, 128}, false, {2, 32, 1, 650}},
    {"eleven queries with heads of 72", {2, 1, 11, 72}, {2, 1, 300, 72}, {2, 1, 300, 72}},
    {"no queries", {1, 2, 0, 8}, {1, 2, 7, 8}, {1, 2, 7, 8}},
    {"no keys", {1, 2, 3, 8}, {1, 2, 0, 8}, {1, 2, 0, 8}},
};

// Of every three rows of the mask, one lets a query look nowhere, and one only at the last tenth of the keys.
HostTensor mask_of(DType dtype, const std::vector<int64_t>& sizes) {
  if (dtype != DType::Bool) return random_tensor(dtype, sizes, 9);
  std::vector<int64_t> values;
  for (int64_t i = 0; i < numel(sizes); ++i) {
    const int64_t row = i / sizes.back(), key = i % sizes.back();
    values.push_back(row % 3 == 1 ? 0 : i * 7 % 5 > 1 && (row % 3 == 0 || key >= sizes.back() * 9 / 10));
  }
  return HostTensor::from_ints(dtype, sizes, values);
}

// A case's operands and what the kernel makes of them. Results that it leaves alone are NaN.
struct AttentionProblem {
  AttentionProblem(const AttentionCase& row, DType dtype, DType mask_dtype)
      : q(random_tensor(dtype, row.q, 1)), k(random_tensor(dtype, row.k, 2)), v(random_tensor(dtype, row.v, 3)), causal(row.causal) {
    if (!row.mask.empty()) mask = mask_of(mask_dtype, row.mask);
    has_mask = !row.mask.empty();
  }

  HostTensor expected() const { return attention(q, k, v, has_mask ? &mask : nullptr, causal, 0.5); }

  // By an implementation that takes them; empty: by the cheapest.
  HostTensor run(std::string_view implementation, int threads) const {
    HostTensor result;
    with_call(threads, result, [&](const KernelCall& call) {
      run_library_kernel(implementation.empty() ? "attention" : formatted("attention#{}", implementation), call);
    });
    return result;
  }

  // Calls f with a call whose result is this.
  template <class F>
  void with_call(int threads, HostTensor& result, const F& f) const {
    RuntimePool pool(threads);
    std::vector<int64_t> sizes = q.sizes();
    sizes.back() = v.sizes().back();
    result = HostTensor::from_doubles(q.dtype(), sizes, std::vector<double>(static_cast<size_t>(numel(sizes)), std::nan("")));
    Operands operands;
    std::vector<ToroidOperand> inputs = {operands.of(q), operands.of(k), operands.of(v)};
    if (has_mask) inputs.push_back(operands.of(mask));
    result.mutable_data<std::byte>();
    const std::vector<ToroidOperand> outputs = {operands.of(result)};
    const std::vector<int64_t> integers = {causal};
    const std::vector<double> numbers = {0.5};
    f(KernelCall{pool, inputs, outputs, integers, numbers});
  }

  HostTensor q, k, v, mask;
  bool has_mask, causal;
};

TOROID_ON_MACHINES(RuntimeAttention);

TEST_P(RuntimeAttention, IsTheEvaluators) {
  for (const AttentionCase& row : kAttentions) {
    for (DType dtype : {DType::F32, DType::BF16, DType::F16, DType::F64}) {
      for (DType mask_dtype : {dtype, DType::Bool}) {
        if (row.mask.empty() && mask_dtype == DType::Bool) continue;
        SCOPED_TRACE(formatted("{}, {}, mask {}", row.name, to_string(dtype), to_string(mask_dtype)));
        const AttentionProblem problem(row, dtype, mask_dtype);
        const HostTensor expected = problem.expected();
        EXPECT_EQ(difference(problem.run({}, 2), expected, {.sums_or_products = true}), std::nullopt);
        if (dtype == DType::F64) continue;
        HostTensor actual;
        problem.with_call(2, actual, [&](const KernelCall& call) {
          for_each_implementation(formatted("attention.{}", to_string(dtype)), call, [&](const Implementation& implementation) {
            implementation.plan(call)->run(call);
            EXPECT_EQ(difference(actual, expected, {.sums_or_products = true}), std::nullopt) << implementation.name;
          });
        });
      }
    }
  }
}

// How keys are cut into parts depends on the sizes alone.
TEST_P(RuntimeAttention, IsTheSameWithAnyNumberOfThreads) {
  for (const AttentionCase& row : kAttentions) {
    for (DType dtype : {DType::F32, DType::BF16, DType::F16}) {
      const AttentionProblem problem(row, dtype, DType::Bool);
      const HostTensor one = problem.run({}, 1);
      for (const int threads : {2, 3, 8}) {
        const HostTensor some = problem.run({}, threads);
        EXPECT_EQ(std::memcmp(some.bytes().data(), one.bytes().data(), one.bytes().size()), 0)
            << row.name << ", " << to_string(dtype) << ", " << threads;
      }
    }
  }
}

// Every value of 16 bits, in pieces and in what is left after them.
TEST_P(RuntimeAttention, GivesTheValuesOfAnOnlyKey) {
  constexpr int64_t kWidth = 65536 + 5;
  for (const DType dtype : {DType::BF16, DType::F16}) {
    for (const int64_t queries : {1, 3}) {
      AttentionProblem problem({"", {1, queries, 64}, {1, 1, 64}, {1, 1, kWidth}}, dtype, DType::Bool);
      auto* bits = problem.v.mutable_data<uint16_t>();
      for (int64_t i = 0; i < kWidth; ++i) bits[i] = static_cast<uint16_t>(i);
      const std::vector<double> expected = problem.v.to_doubles(), actual = problem.run("few-queries", 2).to_doubles();
      for (size_t i = 0; i < actual.size(); ++i) {
        const double value = expected[i % expected.size()];
        ASSERT_TRUE(std::isnan(value) ? std::isnan(actual[i]) : actual[i] == value) << i << ", " << to_string(dtype);
      }
    }
  }
}

// What is not a number in one part of the keys is so in the result, for the queries that see it; infinite scores make it too, as in
// PyTorch.
TEST_P(RuntimeAttention, KeepsWhatIsNotANumber) {
  constexpr int64_t kKeys = 1500, kWidth = 32;
  for (const DType dtype : {DType::F32, DType::BF16, DType::F16}) {
    for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
      for (const int64_t queries : {int64_t{2}, int64_t{20}}) {
        AttentionProblem problem({"", {1, 1, queries, kWidth}, {1, 1, kKeys, kWidth}, {1, 1, kKeys, kWidth}, false, {queries, kKeys}},
                                 dtype, DType::Bool);
        problem.q =
            HostTensor::from_doubles(dtype, {1, 1, queries, kWidth}, std::vector<double>(static_cast<size_t>(queries * kWidth), 1.0));
        std::vector<double> keys = problem.k.to_doubles();
        keys[1200 * kWidth + 3] = bad;
        problem.k = HostTensor::from_doubles(dtype, problem.k.sizes(), keys);
        std::vector<int64_t> sees(static_cast<size_t>(queries * kKeys), 1);
        sees[1200] = 0;  // not the first query
        problem.mask = HostTensor::from_ints(DType::Bool, {queries, kKeys}, sees);
        const std::vector<double> result = problem.run({}, 2).to_doubles();
        for (size_t i = 0; i < result.size(); ++i) EXPECT_EQ(std::isnan(result[i]), i >= kWidth) << i << ", " << to_string(dtype);
      }
    }
  }
}
// In BF16 and F16 the output's heads may lie beside each other too, as in F32.
TEST_P(RuntimeAttention, WritesStridedOutputsInEveryForm) {
  RuntimePool pool(2);
  const std::vector<int64_t> sizes = {2, 3, 37, 20}, strides = {2220, 20, 60, 1};
  for (const DType dtype : {DType::F32, DType::BF16, DType::F16}) {
    const HostTensor q = random_tensor(dtype, sizes, 1), k = random_tensor(dtype, sizes, 2), v = random_tensor(dtype, sizes, 3);
    const HostTensor expected = attention(q, k, v, nullptr, true, 0.5);
    HostTensor strided(dtype, sizes), actual(dtype, sizes);
    Operands operands;
    const std::vector<ToroidOperand> inputs = {operands.of(q), operands.of(k), operands.of(v)};
    const std::vector<ToroidOperand> outputs = {operands.of(strided, strides)};
    const std::vector<int64_t> integers = {1};
    const std::vector<double> numbers = {0.5};
    strided.mutable_data<std::byte>();
    const KernelCall call = {pool, inputs, {outputs.data(), 1}, integers, numbers};
    for_each_implementation(formatted("attention.{}", to_string(dtype)), call, [&](const Implementation& implementation) {
      implementation.plan(call)->run(call);
      const auto width = static_cast<size_t>(size_bytes(dtype));
      for (int64_t i = 0; i < numel(sizes); ++i) {
        const int64_t at = i / 2220 * strides[0] + i / 740 % 3 * strides[1] + i / 20 % 37 * strides[2] + i % 20;
        std::memcpy(actual.mutable_data<std::byte>() + static_cast<size_t>(i) * width,
                    strided.bytes().data() + static_cast<size_t>(at) * width, width);
      }
      EXPECT_EQ(difference(actual, expected, {.sums_or_products = true}), std::nullopt) << to_string(dtype) << ", " << implementation.name;
    });
  }
}

// Heads that lie beside each other in memory, as a projection leaves them: [batch, position, head, width].
TEST_P(RuntimeAttention, ReadsStridedOperandsInPlace) {
  RuntimePool pool(2);
  const std::vector<int64_t> sizes = {2, 3, 7, 4}, strides = {84, 4, 12, 1};
  const HostTensor q = random_tensor(DType::F32, sizes, 1), k = random_tensor(DType::F32, sizes, 2),
                   v = random_tensor(DType::F32, sizes, 3);
  auto read = [&](const HostTensor& tensor) {
    HostTensor result(DType::F32, sizes);
    int64_t i = 0;
    for (int64_t b = 0; b < 2; ++b)
      for (int64_t h = 0; h < 3; ++h)
        for (int64_t p = 0; p < 7; ++p)
          for (int64_t e = 0; e < 4; ++e) result.mutable_data<float>()[i++] = tensor.data<float>()[b * 84 + h * 4 + p * 12 + e];
    return result;
  };
  const HostTensor expected = attention(read(q), read(k), read(v), nullptr, false, 1);
  HostTensor actual(DType::F32, sizes);
  Operands operands;
  const std::vector<ToroidOperand> inputs = {operands.of(q, strides), operands.of(k, strides), operands.of(v, strides)};
  const std::vector<ToroidOperand> outputs = {operands.of(actual)};
  const std::vector<int64_t> integers = {0};
  const std::vector<double> numbers = {1};
  run_library_kernel("attention", {pool, inputs, outputs, integers, numbers});
  EXPECT_EQ(difference(actual, expected, {.sums_or_products = true}), std::nullopt);
}

}  // namespace
}  // namespace toroid
