// How a program's wrapper asks the host for a graph of NVIDIA's cuDNN: as a call of a library kernel (ToroidLibraryCall) with one of these
// names. Inputs and outputs are operands as of any such call; integers and numbers say what is done with them.
//
//   cudnn.convolution      image [N, C, …], filters [K, C, …], operands of the epilogue -> [N, K, …]
//                          stride, padding and dilation for each dim of the image, then the epilogue: the number of its operations, and
//                          for each of them kOperationIntegers numbers: what it is (PointOp), two operands (PointRef)
//   cudnn.filter_gradient  image [N, C, …], gradient of the results [N, K, …] -> F32 [parts, K, …, C]: the first part has the sums, others
//                          are zeros. Integers: stride, padding and dilation for each dim of the image
//   cudnn.attention        queries [.., M, D], keys, values -> [.., M, D]; integers: 1 where it is causal; numbers: the scale
//
// The call gives kRefuses, and nothing is done, where the host has no cuDNN or that has no such graph: the wrapper then starts the
// program's own kernel. With kOnly behind its name it fails instead.
#pragma once

#include <cstdint>
#include <string_view>

namespace toroid::cudnn_calls {

inline constexpr std::string_view kPrefix = "cudnn.";
inline constexpr std::string_view kConvolution = "cudnn.convolution", kFilterGradient = "cudnn.filter_gradient",
                                  kAttention = "cudnn.attention";
inline constexpr std::string_view kOnly = "#only";
inline constexpr int32_t kRefuses = 2;

// What an operation of an epilogue computes, in float32, of one or two operands.
enum class PointOp : int32_t {
  Add,
  Mul,
  Sub,
  Div,
  Relu,  // of a NaN a NaN; the second operand, a number, bounds it above
  Exp,
  Erf,
  Tanh,
  Sigmoid,
  Neg,
  Abs,
  Sqrt,
  Rsqrt,
  Reciprocal
};
inline constexpr int32_t kNumPointOps = 14;
inline constexpr int32_t kOperationIntegers = 3;

// An operand: the convolution's sums (Value, 0) or what the i-th operation gave (Value, i + 1); an input of the call by its position; a
// number of the call by its position; none.
struct PointRef {
  enum class Kind : int32_t { Value, Input, Number, None };
  Kind kind = Kind::None;
  int32_t index = 0;

  int64_t encoded() const { return static_cast<int64_t>(index) * 4 + static_cast<int64_t>(kind); }
  static PointRef decoded(int64_t number) { return {static_cast<Kind>(number % 4), static_cast<int32_t>(number / 4)}; }
};

}  // namespace toroid::cudnn_calls
