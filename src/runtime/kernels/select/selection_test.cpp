#include "runtime/kernels/select/selection.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "interp/library_kernels.h"
#include "tensor/host_tensor.h"

namespace toroid {
namespace {

struct Picked {
  std::vector<double> values;
  std::vector<int64_t> indices;
};

// The kernel on rows, a piece of 7 elements at a time.
Picked pick(LibraryKernel kernel, const HostTensor& rows, int64_t results, std::vector<double> attributes) {
  std::vector<int64_t> sizes = rows.sizes();
  sizes.back() = results;
  HostTensor values(rows.dtype(), sizes), indices(DType::I64, sizes);
  const LibraryInput in[] = {{rows.dtype(), rows.sizes(), rows.bytes().data()}};
  const LibraryOutput out[] = {{rows.dtype(), sizes, values.mutable_data<std::byte>()},
                               {DType::I64, sizes, indices.mutable_data<std::byte>()}};
  const ParallelFor pieces = [](int64_t n, const std::function<void(int64_t, int64_t)>& body) {
    for (int64_t i = 0; i < n; i += 7) body(i, std::min(n, i + 7));
  };
  kernel({in, out, attributes, pieces});
  return {values.to_doubles(), indices.to_ints()};
}

LibraryKernel find_library_kernel(std::string_view name) {
  constexpr LibraryOp kKernels[] = {{"order.topk", selection::topk},
                                    {"order.kth", selection::kth},
                                    {"order.median", selection::median},
                                    {"order.mode", selection::mode},
                                    {"order.search", selection::search}};
  return std::ranges::find(kKernels, name, &LibraryOp::name)->kernel;
}

Picked pick(std::string_view name, const HostTensor& rows, int64_t results, std::vector<double> attributes) {
  return pick(find_library_kernel(name), rows, results, std::move(attributes));
}

const double kNan = std::nan("");

// Many equal elements, both signs and, for floats, NaN.
HostTensor example(DType dtype, std::vector<int64_t> sizes) {
  std::vector<double> values(static_cast<size_t>(numel(sizes)));
  uint64_t state = 7;
  for (double& value : values) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const auto drawn = static_cast<int64_t>(state >> 40) % 101;
    value = is_floating(dtype) && drawn == 100
                ? kNan
                : static_cast<double>(dtype == DType::U8 ? drawn : drawn - 50) / (is_floating(dtype) ? 4 : 1);
  }
  if (is_floating(dtype)) return HostTensor::from_doubles(dtype, sizes, values);
  return HostTensor::from_ints(dtype, sizes, std::vector<int64_t>(values.begin(), values.end()));
}

// Positions of a row in ascending order, NaN last, equal ones as they come.
std::vector<int64_t> ascending(const std::vector<double>& row) {
  std::vector<int64_t> order(row.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    const double x = row[static_cast<size_t>(a)], y = row[static_cast<size_t>(b)];
    return std::isnan(y) ? !std::isnan(x) : x < y;
  });
  return order;
}

class Selection : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Dtypes, Selection,
                         testing::Values(DType::F32, DType::F64, DType::F16, DType::BF16, DType::U8, DType::I8, DType::I16, DType::I32,
                                         DType::I64),
                         [](const auto& row) { return std::string(to_string(row.param)); });

TEST_P(Selection, IsWhatSortingGives) {
  for (const int64_t n : {1, 2, 5, 300, 9000}) {
    const HostTensor x = example(GetParam(), {3, n});
    const std::vector<double> elements = x.to_doubles();
    const int64_t k = (n + 7) / 8;
    const Picked smallest = pick("order.topk", x, k, {static_cast<double>(k), 0});
    const Picked third = pick("order.kth", x, 1, {static_cast<double>(n / 3)});
    for (int64_t r = 0; r < 3; ++r) {
      const std::vector<double> row(elements.begin() + r * n, elements.begin() + (r + 1) * n);
      const std::vector<int64_t> order = ascending(row);
      EXPECT_EQ(third.indices[static_cast<size_t>(r)], order[static_cast<size_t>(n / 3)]) << n;
      for (int64_t i = 0; i < k; ++i) EXPECT_EQ(smallest.indices[static_cast<size_t>(r * k + i)], order[static_cast<size_t>(i)]) << n;
    }
  }
}

TEST_P(Selection, IsTheEvaluators) {
  for (const int64_t n : {1, 2, 7, 300}) {
    const HostTensor x = example(GetParam(), {4, n});
    const auto expect_same = [&](std::string_view name, int64_t results, std::vector<double> attributes) {
      const Picked found = pick(find_library_kernel(name), x, results, attributes),
                   expected = pick(find_evaluated_kernel(name), x, results, attributes);
      EXPECT_EQ(found.indices, expected.indices) << name << " of " << n;
    };
    for (const double flag : {0.0, 1.0}) {
      expect_same("order.topk", (n + 1) / 2, {static_cast<double>((n + 1) / 2), flag});
      expect_same("order.median", 1, {flag});
    }
    expect_same("order.kth", 1, {static_cast<double>(n / 2)});
    expect_same("order.mode", 1, {});
  }
}

// With NaN in a row too, where the probes decide.
TEST(Selection, SearchIsTheEvaluators) {
  HostTensor sorted =
      HostTensor::from_doubles(DType::F64, {2, 7}, std::vector<double>{-1, 0, 0, 2, 3, 3, 9, -1, kNan, 0, 2, kNan, 3, kNan});
  const HostTensor values = HostTensor::from_doubles(DType::F64, {2, 5}, std::vector<double>{-2, 0, 3, kNan, 10, 3, kNan, -2, 2.5, 0});
  const LibraryInput in[] = {{DType::F64, sorted.sizes(), sorted.bytes().data()}, {DType::F64, values.sizes(), values.bytes().data()}};
  for (const double right : {0.0, 1.0}) {
    std::vector<int64_t> places[2];
    for (const int which : {0, 1}) {
      HostTensor out(DType::I64, {2, 5});
      const LibraryOutput outputs[] = {{DType::I64, values.sizes(), out.mutable_data<std::byte>()}};
      (which == 0 ? find_library_kernel : find_evaluated_kernel)("order.search")({in, outputs, {&right, 1}});
      places[which] = out.to_ints();
    }
    EXPECT_EQ(places[0], places[1]);
  }
}

TEST(Selection, TakesTheLargestWithNanFirst) {
  const HostTensor x = HostTensor::from_doubles(DType::F32, {1, 6}, std::vector<double>{1, kNan, 3, -0.0, 3, 2});
  const Picked found = pick("order.topk", x, 4, {4, 1});
  EXPECT_EQ(found.indices, (std::vector<int64_t>{1, 2, 4, 5}));
}

TEST(Selection, MedianIsTheLowerMiddleOrTheFirstNan) {
  const HostTensor x =
      HostTensor::from_doubles(DType::F32, {3, 4}, std::vector<double>{4, 1, 3, 2, 4, kNan, kNan, 2, kNan, kNan, kNan, kNan});
  EXPECT_EQ(pick("order.median", x, 1, {0}).indices, (std::vector<int64_t>{3, 1, 0}));
  EXPECT_EQ(pick("order.median", x, 1, {1}).indices, (std::vector<int64_t>{3, 3, 0}));
  const HostTensor largest = HostTensor::from_ints(DType::U8, {1, 3}, std::vector<int64_t>{255, 255, 255});
  EXPECT_EQ(pick("order.median", largest, 1, {0}).indices, (std::vector<int64_t>{1}));
}

TEST(Selection, ModeIsTheSmallestOfTheMostFrequentAtItsLastPlace) {
  const HostTensor x = HostTensor::from_ints(DType::I64, {2, 6}, std::vector<int64_t>{5, 2, 5, 2, 9, 1, 7, 7, 7, -1, -1, 3});
  EXPECT_EQ(pick("order.mode", x, 1, {}).indices, (std::vector<int64_t>{3, 2}));
}

TEST(Selection, PositionsFillUpWithZeros) {
  constexpr int64_t kCount = 10000;
  std::vector<int64_t> is_true(kCount);
  std::vector<int64_t> expected;
  for (int64_t i = 0; i < kCount; ++i) {
    is_true[static_cast<size_t>(i)] = i % 3 == 1 || i / 100 % 2 == 0 ? 1 : 0;
    if (is_true[static_cast<size_t>(i)] != 0) expected.push_back(i);
  }
  const HostTensor x = HostTensor::from_ints(DType::Bool, {kCount}, is_true);
  for (const int64_t room : {static_cast<int64_t>(expected.size()), int64_t{100}, int64_t{9000}, int64_t{0}}) {
    HostTensor out(DType::I64, {room});
    const LibraryInput in[] = {{DType::Bool, x.sizes(), x.bytes().data()}};
    const std::vector<int64_t> sizes = {room};
    const LibraryOutput outputs[] = {{DType::I64, sizes, out.mutable_data<std::byte>()}};
    selection::positions({in, outputs, {}, {}});
    std::vector<int64_t> wanted = expected;
    wanted.resize(static_cast<size_t>(room), 0);
    EXPECT_EQ(out.to_ints(), wanted) << room;
  }
}

}  // namespace
}  // namespace toroid
