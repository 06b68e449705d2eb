// Steps that NVIDIA's cuDNN may compute in the place of a kernel of the program's own: convolutions with what follows, gradients of
// filters, attention.
//
//   call y { … choice "cudnn" tiles … epilogue … }           a graph of cuDNN; where the host refuses it, the kernel in tiles
//   call a { … choice "cudnn-flash-hopper" }                 the same of attention, by the kernel "flash-hopper"
//   call y { … choice "only-cudnn" tiles … epilogue … }      to be measured: where the host refuses it, the call fails
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/schedule.h"

namespace toroid::schedule {

inline constexpr std::string_view kCudnn = "cudnn", kOnlyCudnn = "only-cudnn";

// Whether a step's choice, or the name of a kernel in the form "attention#cudnn-flash", is cuDNN's.
enum class Cudnn : uint8_t { Never, First, Only };
Cudnn cudnn_of(std::string_view choice);
// The choice without it: "flash" of "cudnn-flash".
std::string_view without_cudnn(std::string_view choice);
// The choice with it in front.
std::string with_cudnn(Cudnn how, std::string_view choice);
// The step as it is measured alone.
Step only_by_cudnn(Step step);

// A window on a buffer; sizes, strides and offset in elements.
struct CudnnOperand {
  BufferId buffer;
  std::vector<sym::Expr> sizes, strides;
  sym::Expr offset = 0;
};
// As the host is asked for it (library/cudnn_calls.h).
struct CudnnCall {
  std::string name;
  std::vector<CudnnOperand> inputs;
  CudnnOperand output;
  std::vector<sym::Expr> integers;
  std::vector<double> numbers;
};
struct CudnnAttempt {
  std::optional<CudnnCall> call;
  std::string_view reason = {};  // without a call: why
};
// Of a convolution or a gradient of filters in tiles; of an epilogue that gives one result, whose channels lie next to each other, by
// operations that cuDNN has on the sums, tensors as large, rows of channels, and numbers.
CudnnAttempt as_cudnn_call(const loop::LoopProgram& program, const CallStep& step);

// Of attention: rows of 64 or 128 elements whose elements are next to each other, in memory as 16-bit floats, without a mask.
bool may_be_cudnn_attention(const loop::LoopProgram& program, const CallStep& step);

}  // namespace toroid::schedule
