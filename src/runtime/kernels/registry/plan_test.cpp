#include "runtime/kernels/registry/plan.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "tensor/dtype.h"

namespace toroid {
namespace {

// c[m, n] = a[m, k] * b[k, n] of ones, where b is a constant.
class Product {
 public:
  Product(int64_t m, int64_t n, int64_t k)
      : a_sizes_{m, k},
        b_sizes_{k, n},
        c_sizes_{m, n},
        a_strides_{k, 1},
        b_strides_{n, 1},
        a_(static_cast<size_t>(m * k), 1),
        b_(static_cast<size_t>(k * n), 1),
        c_(static_cast<size_t>(m * n)) {
    operands_[0] = {a_.data(), a_sizes_, a_strides_, 2, static_cast<int32_t>(DType::F32), 0};
    operands_[1] = {b_.data(), b_sizes_, b_strides_, 2, static_cast<int32_t>(DType::F32), 1};
    output_ = {c_.data(), c_sizes_, b_strides_, 2, static_cast<int32_t>(DType::F32), 0};
  }
  KernelCall call(RuntimePool& pool, PreparedConstants& prepared) { return {pool, operands_, {&output_, 1}, {}, {}, nullptr, &prepared}; }
  const std::vector<float>& result() const { return c_; }
  // Elsewhere, with other numbers.
  void move_left_side(float value) {
    a_ = std::vector<float>(a_.size(), value);
    operands_[0].data = a_.data();
  }

 private:
  int64_t a_sizes_[2], b_sizes_[2], c_sizes_[2], a_strides_[2], b_strides_[2];
  std::vector<float> a_, b_, c_;
  ToroidOperand operands_[2], output_;
};

TEST(CallSites, PlansAreForAnyData) {
  RuntimePool pool(2);
  for (const bool has_fixed_sizes : {true, false}) {
    PreparedConstants prepared;
    CallSites sites;
    Product product(3, 20, 7);
    for (const float value : {1.0f, 2.0f, 3.0f}) {
      product.move_left_side(value);
      sites.run(4, has_fixed_sizes, "matmul", product.call(pool, prepared));
      EXPECT_EQ(product.result(), std::vector<float>(60, 7 * value));
    }
  }
}

TEST(CallSites, EachSizeHasItsPlan) {
  RuntimePool pool(1);
  CallSites sites;
  std::vector<std::unique_ptr<Product>> products;
  PreparedConstants prepared;
  for (int64_t round = 0; round < 2; ++round) {
    for (int64_t m = 1; m <= static_cast<int64_t>(CallSites::kMostPlans) + 2; ++m) {
      Product& product = *products.emplace_back(std::make_unique<Product>(m, 18, 5));
      sites.run(0, false, "matmul#packed", product.call(pool, prepared));
      ASSERT_EQ(product.result(), std::vector<float>(static_cast<size_t>(18 * m), 5)) << m;
    }
  }
}

// A batch without matrices, and matrices without rows or columns: the operands have no first element.
TEST(Plans, NothingIsWrittenWhereResultsHaveNoElements) {
  RuntimePool pool(2);
  for (const DType dtype : {DType::F32, DType::F64, DType::BF16, DType::F16, DType::I32, DType::I64}) {
    for (const std::array<int64_t, 3>& batch_m_n : {std::array<int64_t, 3>{0, 3, 4}, {2, 0, 4}, {2, 3, 0}}) {
      const auto [batch, m, n] = batch_m_n;
      const int64_t a_sizes[] = {batch, m, 5}, b_sizes[] = {batch, 5, n}, c_sizes[] = {batch, m, n};
      const int64_t a_strides[] = {m * 5, 5, 1}, b_strides[] = {5 * n, n, 1}, c_strides[] = {m * n, n, 1};
      std::vector<double> numbers(100, 1);
      const auto type = static_cast<int32_t>(dtype);
      const ToroidOperand inputs[] = {{numbers.data(), a_sizes, a_strides, 3, type, 0}, {numbers.data(), b_sizes, b_strides, 3, type, 0}};
      const ToroidOperand output = {nullptr, c_sizes, c_strides, 3, type, 0};
      EXPECT_NO_THROW(run_library_kernel("matmul", {pool, inputs, {&output, 1}, {}, {}}));
      EXPECT_NO_THROW(run_library_kernel("library.inverse", {pool, {inputs, 1}, {&output, 1}, {}, {}}));
    }
  }
}

TEST(CallSites, SitesAreApart) {
  RuntimePool pool(1);
  CallSites sites;
  PreparedConstants prepared;
  Product one(2, 16, 3), other(5, 9, 4);
  for (int round = 0; round < 2; ++round) {
    sites.run(0, true, "matmul", one.call(pool, prepared));
    sites.run(1, true, "matmul", other.call(pool, prepared));
  }
  EXPECT_EQ(one.result(), std::vector<float>(32, 3));
  EXPECT_EQ(other.result(), std::vector<float>(45, 4));
}

}  // namespace
}  // namespace toroid
