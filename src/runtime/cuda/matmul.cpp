#include "runtime/cuda/matmul.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "runtime/cuda/quickest.h"
#include "runtime/cuda/vendors/blas_lt.h"
#include "tensor/dtype.h"

namespace toroid::cuda {
namespace {

using Status = BlasStatus;
using Algorithm = BlasAlgorithm;
using Heuristic = BlasHeuristic;

constexpr size_t kWorkspace = 32 << 20;            // as much as the library asks for on Hopper
constexpr size_t kMost = 8, kMostIfThorough = 40;  // algorithms that are timed

const BlasLt& lt() { return blas_lt(); }

void check_status(Status status, const char* what) {
  if (status != 0) throw Error(ErrorKind::Environment, formatted("{} fails {}: status {}", lt().name, what, status));
}

int type_of(DType dtype) {
  switch (dtype) {
    case DType::F16: return 2;
    case DType::BF16: return 14;
    case DType::F64: return 1;
    case DType::I8: return 3;
    case DType::I32: return 10;
    default: return 0;
  }
}

// One of the last two dims is contiguous, and the other far enough apart. Dims of one element have any stride.
std::optional<Product::Side> side_of(const ToroidOperand& operand) {
  const int32_t r = operand.rank - 2;
  const int64_t rows = operand.sizes[r], columns = operand.sizes[r + 1];
  const int64_t row = operand.strides[r], column = operand.strides[r + 1];
  if ((column == 1 || columns == 1) && (row >= columns || rows == 1)) return Product::Side{false, std::max({row, columns, int64_t{1}}), 0};
  if ((row == 1 || rows == 1) && (column >= rows || columns == 1)) return Product::Side{true, std::max({column, rows, int64_t{1}}), 0};
  return std::nullopt;
}

// The batches as one dim with one stride, which is 0 where all are the same matrix.
std::optional<int64_t> batch_stride(const ToroidOperand& operand) {
  std::optional<int64_t> stride;
  int64_t expected = 0;
  for (int32_t d = operand.rank - 3; d >= 0; --d) {
    if (operand.sizes[d] == 1) continue;
    if (stride && operand.strides[d] != expected) return std::nullopt;
    if (!stride) stride = operand.strides[d];
    expected = operand.strides[d] * operand.sizes[d];
  }
  return stride.value_or(0);
}

}  // namespace

bool is_product_of_two(const ToroidLibraryCall& call) {
  return std::string_view(call.name).substr(0, 6) == "matmul" && call.num_inputs == 2;
}

std::optional<Product> as_product(const ToroidLibraryCall& call) {
  if (!is_product_of_two(call) || call.epilogue != nullptr) return std::nullopt;
  const ToroidOperand &a = call.inputs[0], &b = call.inputs[1], &out = call.outputs[0];
  const auto dtype = static_cast<DType>(out.dtype);
  const auto factors = static_cast<DType>(a.dtype);
  if (a.dtype != b.dtype || out.rank < 2) return std::nullopt;
  const bool is_of_bytes = dtype == DType::I32 && factors == DType::I8;
  if (factors != dtype && !is_of_bytes && !(dtype == DType::F32 && is_reduced_float(factors))) return std::nullopt;
  if (dtype != DType::F16 && dtype != DType::BF16 && dtype != DType::F32 && dtype != DType::F64 && !is_of_bytes) return std::nullopt;
  const int32_t r = out.rank - 2;
  Product product{/*rows=*/out.sizes[r],
                  /*columns=*/out.sizes[r + 1],
                  /*depth=*/a.sizes[r + 1],
                  /*batches=*/1,
                  /*dtype=*/out.dtype,
                  /*factors=*/a.dtype,
                  /*a=*/{},
                  /*b=*/{},
                  /*out_leading=*/0,
                  /*out_batch_stride=*/0};
  for (int32_t d = 0; d < r; ++d) product.batches *= out.sizes[d];
  const auto left = side_of(a), right = side_of(b), result = side_of(out);
  const auto left_stride = batch_stride(a), right_stride = batch_stride(b), out_stride = batch_stride(out);
  if (!left || !right || !result || result->transposed || !left_stride || !right_stride || !out_stride) return std::nullopt;
  product.a = {left->transposed, left->leading, *left_stride};
  product.b = {right->transposed, right->leading, *right_stride};
  product.out_leading = result->leading;
  product.out_batch_stride = *out_stride;
  return product;
}

class Products::Plan {
 public:
  explicit Plan(const Product& product);
  Plan(const Plan&) = delete;
  ~Plan() {
    for (void* layout : {a_, b_, out_}) {
      if (layout != nullptr) lt().layout_destroy(layout);
    }
    if (matmul_ != nullptr) lt().matmul_destroy(matmul_);
  }

  bool has_elements() const { return product.rows * product.columns * product.batches * product.depth > 0; }
  // Asks the library for algorithms, so many at most.
  void find_algorithms(void* handle, size_t most);
  // The one that was measured before; false where these bytes are none.
  bool recall(std::string_view bytes);
  Status multiply(void* handle, const Algorithm& algorithm, const void* a, const void* b, void* out, void* workspace,
                  StreamHandle stream) const;

  const Product product;
  std::vector<Heuristic> algorithms;  // as suggested
  size_t chosen = 0;
  bool is_decided = true;

 private:
  void *matmul_ = nullptr, *a_ = nullptr, *b_ = nullptr, *out_ = nullptr;
};

Products::Plan::Plan(const Product& its) : product(its) {
  const auto dtype = static_cast<DType>(product.dtype);
  const int compute = dtype == DType::F64   ? lt().in_double
                      : dtype == DType::I32 ? lt().in_integers
                                            : lt().in_float,
            scale = dtype == DType::F64 || dtype == DType::I32 ? type_of(dtype) : 0;
  check_status(lt().matmul_create(&matmul_, compute, scale), "to describe a product");
  const auto operation = [](const Product::Side& side) { return side.transposed ? lt().transposed : lt().as_it_is; };
  const int32_t first = operation(product.b), second = operation(product.a);
  check_status(lt().matmul_set(matmul_, lt().transpose_a, &first, sizeof first), "to describe a product");
  check_status(lt().matmul_set(matmul_, lt().transpose_b, &second, sizeof second), "to describe a product");
  const auto layout = [&](void** made, int32_t of, int64_t rows, int64_t columns, int64_t leading, int64_t stride) {
    check_status(
        lt().layout_create(made, type_of(static_cast<DType>(of)), static_cast<uint64_t>(columns), static_cast<uint64_t>(rows), leading),
        "to describe a matrix");
    const auto count = static_cast<int32_t>(product.batches);
    check_status(lt().layout_set(*made, lt().batch_count, &count, sizeof count), "to describe a matrix");
    check_status(lt().layout_set(*made, lt().batch_stride, &stride, sizeof stride), "to describe a matrix");
  };
  // In memory, row by row: the library's columns.
  const auto side = [&](void** made, const Product::Side& its, int64_t rows, int64_t columns) {
    its.transposed ? layout(made, product.factors, columns, rows, its.leading, its.batch_stride)
                   : layout(made, product.factors, rows, columns, its.leading, its.batch_stride);
  };
  side(&a_, product.a, product.rows, product.depth);
  side(&b_, product.b, product.depth, product.columns);
  layout(&out_, product.dtype, product.rows, product.columns, product.out_leading, product.out_batch_stride);
}

void Products::Plan::find_algorithms(void* handle, size_t most) {
  void* preference = nullptr;
  check_status(lt().preference_create(&preference), "to describe a preference");
  const uint64_t bytes = kWorkspace;
  lt().preference_set(preference, lt().workspace, &bytes, sizeof bytes);
  algorithms.resize(most);
  int found = 0;
  const Status status = lt().heuristic(handle, matmul_, b_, a_, out_, out_, preference, static_cast<int>(most), algorithms.data(), &found);
  lt().preference_destroy(preference);
  algorithms.resize(status == 0 ? static_cast<size_t>(found) : 0);
  is_decided = algorithms.size() < 2;
}

bool Products::Plan::recall(std::string_view bytes) {
  if (bytes.size() != sizeof(Algorithm)) return false;
  std::memcpy(&algorithms.emplace_back().algorithm, bytes.data(), bytes.size());
  return true;
}

Status Products::Plan::multiply(void* handle, const Algorithm& algorithm, const void* a, const void* b, void* out, void* workspace,
                                StreamHandle stream) const {
  const double one64 = 1, zero64 = 0;
  const float one32 = 1, zero32 = 0;
  const int32_t one = 1, zero = 0;
  const auto dtype = static_cast<DType>(product.dtype);
  const auto number = [&](const void* of_double, const void* of_integer, const void* of_float) {
    return dtype == DType::F64 ? of_double : dtype == DType::I32 ? of_integer : of_float;
  };
  const void *alpha = number(&one64, &one, &one32), *beta = number(&zero64, &zero, &zero32);
  return lt().matmul(handle, matmul_, alpha, b, b_, a, a_, beta, out, out_, out, out_, &algorithm, workspace, kWorkspace, stream);
}

void Products::open_library() { static_cast<void>(lt()); }

Products::Products(const Stream& stream) : stream_(stream) {}

Products::~Products() {
  plans_.clear();
  if (handle_ != nullptr) lt().destroy(handle_);
}

Products::Plan* Products::plan_of(const Product& product) {
  std::unique_ptr<Plan>& slot = plans_[product];
  if (!slot) {
    if (handle_ == nullptr) check_status(lt().create(&handle_), "to start");
    if (!workspace_) workspace_.emplace(stream_, kWorkspace);
    auto plan = std::make_unique<Plan>(product);
    if (plan->has_elements()) {
      const std::optional<std::string> known = memory_ ? memory_->find(remembered_as(product)) : std::nullopt;
      if (!known || !plan->recall(*known)) plan->find_algorithms(handle_, memory_ && memory_->is_thorough() ? kMostIfThorough : kMost);
    }
    undecided_ += plan->is_decided ? 0 : 1;
    slot = std::move(plan);
  }
  return slot->has_elements() && slot->algorithms.empty() ? nullptr : slot.get();
}

void Products::run(Plan& plan, const void* a, const void* b, void* out) {
  if (!plan.has_elements()) {
    const Product& product = plan.product;
    clear(stream_, out,
          static_cast<size_t>(product.rows * product.columns * product.batches * size_bytes(static_cast<DType>(product.dtype))));
    return;
  }
  if (is_deciding_ && !plan.is_decided) decide(plan, a, b, out);
  check_status(plan.multiply(handle_, plan.algorithms[plan.chosen].algorithm, a, b, out, workspace_->data(), stream_.handle()),
               "to multiply");
}

// What an algorithm depends on: the library's numbers of algorithms are those of its version.
std::string Products::remembered_as(const Product& product) const {
  const auto side = [](const Product::Side& its) {
    return formatted("{}{} batches apart {}", its.transposed ? "columns " : "rows ", its.leading, its.batch_stride);
  };
  const auto name = [](int32_t dtype) { return to_string(static_cast<DType>(dtype)); };
  return formatted("{} {} on {}: {} of {} {}x{}x{}, {} times; {}; {}; rows {} batches apart {}", lt().name, lt().version, gpu_,
                   name(product.dtype), name(product.factors), product.rows, product.columns, product.depth, product.batches,
                   side(product.a), side(product.b), product.out_leading, product.out_batch_stride);
}

void Products::decide(Plan& plan, const void* a, const void* b, void* out) {
  const std::optional<size_t> found = quickest(stream_, plan.algorithms.size(), [&](size_t i) {
    return plan.multiply(handle_, plan.algorithms[i].algorithm, a, b, out, workspace_->data(), stream_.handle()) == 0;
  });
  plan.chosen = found.value_or(plan.chosen);
  plan.is_decided = true;
  --undecided_;
  if (memory_ && found) {
    const Algorithm& algorithm = plan.algorithms[plan.chosen].algorithm;
    memory_->keep(remembered_as(plan.product), {reinterpret_cast<const char*>(&algorithm), sizeof algorithm});
  }
}

}  // namespace toroid::cuda
