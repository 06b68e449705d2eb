#include "runtime/kernels/registry/plan.h"

#include <gtest/gtest.h>

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
