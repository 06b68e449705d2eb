// Matrix products by cuBLASLt, opened when the first one runs: libcublasLt.so.13 or .12, or what TOROID_CUBLASLT names.
//
//   C = A B, row-major   =>   C' = B' A', column-major, as the library sees the same memory
//
// Products of float32 are computed in float32: never in tf32, as PyTorch does by default.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/cuda/device.h"
#include "toroid/program_abi.h"

namespace toroid::cuda {

// A product [B.., M, K] x [B.., K, N] -> [B.., M, N] as the library takes it.
struct Product {
  int64_t rows, columns, depth, batches;
  int32_t dtype;
  struct Side {
    bool transposed;
    int64_t leading, batch_stride;
    bool operator==(const Side&) const = default;
    auto operator<=>(const Side&) const = default;
  };
  Side a, b;
  int64_t out_leading, out_batch_stride;
  bool operator==(const Product&) const = default;
  auto operator<=>(const Product&) const = default;
};
// None for what it does not compute: integers, operands of different dtypes, strides that no matrix has.
std::optional<Product> as_product(const ToroidLibraryCall& call);

class Products {
 public:
  explicit Products(const Stream& stream);
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  // Throws Error{Environment} where the library is absent or fails. False: it has no algorithm for the product.
  bool run(const Product& product, const void* a, const void* b, void* out);

 private:
  struct Plan;
  Plan& plan_of(const Product& product);

  const Stream& stream_;
  void* handle_ = nullptr;
  std::optional<Memory> workspace_;
  std::map<Product, std::unique_ptr<Plan>> plans_;
};

}  // namespace toroid::cuda
