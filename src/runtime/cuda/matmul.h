// Matrix products by the library of the GPU's vendor (vendors/blas_lt.h), opened when the first one runs.
//
//   C = A B, row-major   =>   C' = B' A', column-major, as the library sees the same memory
//
// The library suggests up to eight algorithms for a product, forty where the memory is thorough. The first one serves until sizes come
// again; then all are timed, once, and the quickest stays: in this process, and where there is a memory for it (product_memory.h), in those
// that follow.
//
// Products of float32 are computed in float32: never in tf32, as PyTorch does by default.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/fields.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/product_memory.h"
#include "toroid/program_abi.h"

namespace toroid::cuda {

// A product [B.., M, K] x [B.., K, N] -> [B.., M, N] as the library takes it.
struct Product {
  int64_t rows, columns, depth, batches;
  int32_t dtype, factors;  // dtypes of the result and of what is multiplied
  struct Side {
    bool transposed;
    int64_t leading, batch_stride;
    TOROID_ORDERED_FIELDS(Side, transposed, leading, batch_stride)
  };
  Side a, b;
  int64_t out_leading, out_batch_stride;
  TOROID_ORDERED_FIELDS(Product, rows, columns, depth, batches, dtype, factors, a, b, out_leading, out_batch_stride)
};
// Is it a product of two matrices, by whatever implementation?
bool is_product_of_two(const ToroidLibraryCall& call);
// None for what it does not compute: operands of different dtypes, integers but int8 that give I32, strides that no matrix has. 16-bit
// floats may give F32.
std::optional<Product> as_product(const ToroidLibraryCall& call);

class Products {
 public:
  explicit Products(const Stream& stream);
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  // Opens the library, which the first product would do. Throws Error{Environment} where it is absent.
  static void open_library();

  // How a product is computed; lives as long as this. Null: the library has no algorithm for it. Throws Error{Environment} where the
  // library is absent or fails.
  class Plan;
  Plan* plan_of(const Product& product);
  void run(Plan& plan, const void* a, const void* b, void* out);

  // Where algorithms that were measured on this kind of GPU are kept; before the first plan.
  void set_memory(std::shared_ptr<ProductMemory> memory, std::string gpu) { memory_ = std::move(memory), gpu_ = std::move(gpu); }

  // Is there a product whose algorithms were not timed yet? Until then it is computed by the library's first suggestion.
  bool is_undecided() const { return undecided_ > 0; }
  // While this is on, products time the library's suggestions when they run, and keep the quickest.
  void set_deciding(bool on) { is_deciding_ = on; }

 private:
  void decide(Plan& plan, const void* a, const void* b, void* out);
  std::string remembered_as(const Product& product) const;

  const Stream& stream_;
  void* handle_ = nullptr;
  std::optional<Memory> workspace_;
  std::shared_ptr<ProductMemory> memory_;  // may be null
  std::string gpu_;
  std::map<Product, std::unique_ptr<Plan>> plans_;
  int undecided_ = 0;
  bool is_deciding_ = false;
};

}  // namespace toroid::cuda
