// A LibraryCall as a batch of small matrices: loads them into double, stores results back in the call's dtype.
#pragma once

#include <Eigen/Core>
#include <cstdint>

#include "library/library_ops.h"

namespace toroid::linalg {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Vector = Eigen::VectorXd;
using Integers = Eigen::Matrix<int32_t, Eigen::Dynamic, 1>;

class Batch {
 public:
  // `core_dims` of input 0 are the matrix or vector; the dims before them are the batch.
  Batch(const LibraryCall& call, int core_dims);

  int64_t size() const { return size_; }
  int64_t input_dim(size_t input, int dim_from_end) const;  // 1 is the last
  int64_t output_dim(size_t output, int dim_from_end) const;
  bool flag(size_t attribute) const { return call_.attributes[attribute] != 0; }

  Matrix matrix(size_t input, int64_t index) const;  // the last two dims
  Vector vector(size_t input, int64_t index) const;  // the last dim
  // The last dim, I32. Throws Error{InvalidInput} for more pivots than `rows`, and for a pivot p that is no row: |p| not in [1, rows].
  Integers pivots(size_t input, int64_t index, int64_t rows) const;

  // Elements in row-major order; their number is the output's divided by the batch size.
  void store(size_t output, int64_t index, const Matrix& value) const;
  void store(size_t output, int64_t index, const Vector& value) const;
  void store(size_t output, int64_t index, double value) const;
  void store_integers(size_t output, int64_t index, const Integers& value) const;
  void store_integer(size_t output, int64_t index, int64_t value) const;

  // Puts `info` into the output at that place, if the caller asked for it; else throws when it is not 0. `failure`
  // says what a positive info means, "the matrix is singular".
  void finish(size_t info_output, int64_t index, int64_t info, std::string_view failure) const;

 private:
  void store_doubles(size_t output, int64_t index, const double* values, int64_t count) const;

  const LibraryCall& call_;
  int64_t size_ = 1;
};

// Throws Error{InvalidInput} that says what does not converge.
void need_finite(const Matrix& a, std::string_view what);

// Every element of an output is NaN.
void store_nan(const Batch& batch, size_t output, int64_t index, int64_t rows, int64_t columns);

inline bool is_f32(const LibraryCall& call) { return call.inputs[0].dtype == DType::F32; }

}  // namespace toroid::linalg
