#include "runtime/kernels/gemm/grouped_gemm.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/format.h"
#include "interp/compare.h"
#include "interp/grouped_product.h"
#include "interp/movement.h"
#include "runtime/kernels/isa/on_machines_for_test.h"
#include "runtime/kernels/registry/operands_for_test.h"

namespace toroid {
namespace {

struct GroupedCase {
  const char* name;
  std::vector<int64_t> x, y, out;
  std::vector<int64_t> ends;
};

const GroupedCase kGroupedCases[] = {
    {"rows", {70, 40}, {4, 40, 50}, {70, 50}, {3, 3, 69, 70}},      {"rows, some of no group", {20, 8}, {3, 8, 5}, {20, 5}, {0, 9, 12}},
    {"many rows", {300, 130}, {2, 130, 140}, {300, 140}, {1, 300}}, {"no rows", {0, 8}, {2, 8, 5}, {0, 5}, {0, 0}},
    {"columns", {3, 4, 8}, {8, 33}, {4, 33}, {5, 20, 32}},          {"depth", {6, 40}, {40, 7}, {3, 6, 7}, {11, 11, 40}},
};

HostTensor evaluated_groups(const HostTensor& x, const HostTensor& y, const HostTensor& ends, const std::vector<int64_t>& out) {
  HostTensor result(x.dtype(), out);
  const LibraryInput inputs[] = {{x.dtype(), x.sizes(), x.bytes().data()},
                                 {y.dtype(), y.sizes(), y.bytes().data()},
                                 {ends.dtype(), ends.sizes(), ends.bytes().data()}};
  const LibraryOutput outputs[] = {{x.dtype(), out, result.mutable_data<std::byte>()}};
  grouped_product({inputs, outputs, {}});
  return result;
}

HostTensor ends_of(const GroupedCase& row) { return HostTensor::from_ints(DType::I64, {static_cast<int64_t>(row.ends.size())}, row.ends); }

TOROID_ON_MACHINES(RuntimeGroupedProduct);

TEST_P(RuntimeGroupedProduct, IsTheEvaluators) {
  RuntimePool pool(2);
  for (const GroupedCase& row : kGroupedCases) {
    for (DType dtype : {DType::F32, DType::BF16, DType::F16, DType::F64}) {
      SCOPED_TRACE(formatted("{}, {}", row.name, to_string(dtype)));
      const HostTensor x = random_tensor(dtype, row.x, 1), y = random_tensor(dtype, row.y, 2), ends = ends_of(row);
      const HostTensor expected = evaluated_groups(x, y, ends, row.out);
      // The right side as it is, and as the transpose of what lies in memory; constant or not.
      std::vector<int64_t> turned_sizes = row.y, turned_strides = strides_of(row.y);
      std::swap(turned_sizes[turned_sizes.size() - 1], turned_sizes[turned_sizes.size() - 2]);
      std::swap(turned_strides[turned_strides.size() - 1], turned_strides[turned_strides.size() - 2]);
      const HostTensor turned = copy_strided(y, 0, turned_strides, turned_sizes);
      std::vector<int64_t> seen = strides_of(turned_sizes);
      std::swap(seen[seen.size() - 1], seen[seen.size() - 2]);
      for (const bool is_turned : {false, true}) {
        HostTensor actual = random_tensor(dtype, row.out, 3);
        actual.mutable_data<std::byte>();
        Operands operands;
        ToroidOperand right = is_turned ? operands.of(turned, seen) : operands.of(y);
        if (is_turned) right.sizes = operands.of(y).sizes;
        right.is_constant = 1;
        const std::vector<ToroidOperand> inputs = {operands.of(x), right, operands.of(ends)};
        const std::vector<ToroidOperand> outputs = {operands.of(actual)};
        PreparedConstants prepared;
        for (int time = 0; time < 2; ++time) {
          run_library_kernel("library.products.grouped", {pool, inputs, outputs, {}, {}, nullptr, &prepared});
          EXPECT_EQ(difference(actual, expected, {.sums_or_products = true}), std::nullopt) << is_turned;
        }
      }
    }
  }
}

TEST_P(RuntimeGroupedProduct, RefusesGroupsThatDoNotFollowEachOther) {
  RuntimePool pool(1);
  for (const std::vector<int64_t>& ends : std::vector<std::vector<int64_t>>{{2, 1}, {-1, 2}, {2, 5}}) {
    const GroupedCase row = {"", {4, 3}, {2, 3, 3}, {4, 3}, ends};
    const HostTensor x = random_tensor(DType::F32, row.x, 1), y = random_tensor(DType::F32, row.y, 2), bounds = ends_of(row);
    HostTensor out = random_tensor(DType::F32, row.out, 3);
    Operands operands;
    const std::vector<ToroidOperand> inputs = {operands.of(x), operands.of(y), operands.of(bounds)}, outputs = {operands.of(out)};
    try {
      run_library_kernel("library.products.grouped", {pool, inputs, outputs, {}, {}});
      ADD_FAILURE() << ends[0];
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::InvalidInput);
      EXPECT_NE(error.report().find("groups follow each other within [0, 4]"), std::string::npos) << error.report();
    }
    EXPECT_THROW(evaluated_groups(x, y, bounds, row.out), Error);
  }
}

}  // namespace
}  // namespace toroid
