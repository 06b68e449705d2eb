#include "library/linalg/batch.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/format.h"

namespace toroid::linalg {
namespace {

double load(const LibraryInput& input, int64_t index) {
  if (input.dtype == DType::F32) return reinterpret_cast<const float*>(input.data)[index];
  if (input.dtype == DType::F64) return reinterpret_cast<const double*>(input.data)[index];
  throw Error(ErrorKind::Unsupported, formatted("linear algebra is not supported on {}", to_string(input.dtype)));
}

}  // namespace

Batch::Batch(const LibraryCall& call, int core_dims) : call_(call) {
  const Span<const int64_t> sizes = call.inputs[0].sizes;
  TOROID_CHECK(static_cast<int>(sizes.size()) >= core_dims, "a tensor of rank {} where {} is the least", sizes.size(), core_dims);
  for (int64_t size : sizes.first(sizes.size() - static_cast<size_t>(core_dims))) size_ *= size;
  // Matrices without elements have nothing to store, however many they are.
  const auto is_empty = [](const LibraryOutput& output) {
    return std::find(output.sizes.begin(), output.sizes.end(), 0) != output.sizes.end();
  };
  if (std::all_of(call.outputs.begin(), call.outputs.end(), is_empty)) size_ = 0;
}

int64_t Batch::input_dim(size_t input, int dim_from_end) const {
  const auto sizes = call_.inputs[input].sizes;
  return sizes[sizes.size() - static_cast<size_t>(dim_from_end)];
}
int64_t Batch::output_dim(size_t output, int dim_from_end) const {
  const auto sizes = call_.outputs[output].sizes;
  return sizes[sizes.size() - static_cast<size_t>(dim_from_end)];
}

Matrix Batch::matrix(size_t input, int64_t index) const {
  Matrix result(input_dim(input, 2), input_dim(input, 1));
  for (int64_t i = 0; i < result.size(); ++i) result.data()[i] = load(call_.inputs[input], index * result.size() + i);
  return result;
}

Vector Batch::vector(size_t input, int64_t index) const {
  Vector result(input_dim(input, 1));
  for (int64_t i = 0; i < result.size(); ++i) result[i] = load(call_.inputs[input], index * result.size() + i);
  return result;
}

Integers Batch::pivots(size_t input, int64_t index, int64_t rows) const {
  TOROID_CHECK(call_.inputs[input].dtype == DType::I32, "pivots of dtype {}", to_string(call_.inputs[input].dtype));
  Integers result(input_dim(input, 1));
  const auto* data = reinterpret_cast<const int32_t*>(call_.inputs[input].data) + index * result.size();
  std::copy_n(data, result.size(), result.data());
  if (result.size() > rows) throw Error(ErrorKind::InvalidInput, formatted("{} pivots for {} rows", result.size(), rows));
  for (int64_t i = 0; i < result.size(); ++i) {
    const int32_t pivot = result[i];
    if (const int64_t row = std::abs(int64_t{pivot}); row < 1 || row > rows) {
      throw Error(ErrorKind::InvalidInput, formatted("pivot {} of a matrix of {} rows", pivot, rows));
    }
  }
  return result;
}

void Batch::store_doubles(size_t output, int64_t index, const double* values, int64_t count) const {
  const LibraryOutput& to = call_.outputs[output];
  int64_t room = 1;
  for (int64_t size : to.sizes) room *= size;
  TOROID_CHECK(count * size_ == room, "{} values a matrix for output {} of {} in a batch of {}", count, output, room, size_);
  for (int64_t i = 0; i < count; ++i) {
    if (to.dtype == DType::F32) {
      reinterpret_cast<float*>(to.data)[index * count + i] = static_cast<float>(values[i]);
    } else {
      TOROID_CHECK(to.dtype == DType::F64, "linear algebra into {}", to_string(to.dtype));
      reinterpret_cast<double*>(to.data)[index * count + i] = values[i];
    }
  }
}

void Batch::store(size_t output, int64_t index, const Matrix& value) const { store_doubles(output, index, value.data(), value.size()); }
void Batch::store(size_t output, int64_t index, const Vector& value) const { store_doubles(output, index, value.data(), value.size()); }
void Batch::store(size_t output, int64_t index, double value) const { store_doubles(output, index, &value, 1); }

void Batch::store_integers(size_t output, int64_t index, const Integers& value) const {
  for (int64_t i = 0; i < value.size(); ++i) store_integer(output, index * value.size() + i, value[i]);
}

void Batch::store_integer(size_t output, int64_t index, int64_t value) const {
  const LibraryOutput& to = call_.outputs[output];
  if (to.dtype == DType::I64) {
    reinterpret_cast<int64_t*>(to.data)[index] = value;
  } else {
    TOROID_CHECK(to.dtype == DType::I32, "integers into {}", to_string(to.dtype));
    reinterpret_cast<int32_t*>(to.data)[index] = static_cast<int32_t>(value);
  }
}

void Batch::finish(size_t info_output, int64_t index, int64_t info, std::string_view failure) const {
  if (info_output < call_.outputs.size()) {
    store_integer(info_output, index, info);
  } else if (info != 0) {
    throw Error(ErrorKind::InvalidInput, formatted("matrix {} of the batch: {} (at position {})", index, failure, info));
  }
}

void need_finite(const Matrix& a, std::string_view what) {
  if (!a.allFinite()) {
    throw Error(ErrorKind::InvalidInput, formatted("{} of a matrix with infinite or NaN elements does not converge", what));
  }
}

void store_nan(const Batch& batch, size_t output, int64_t index, int64_t rows, int64_t columns) {
  batch.store(output, index, Matrix(Matrix::Constant(rows, columns, std::numeric_limits<double>::quiet_NaN())));
}

}  // namespace toroid::linalg
