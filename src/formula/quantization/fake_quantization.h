// Fake quantisation: values as they would be after quantising and back, in floats, as models carry it while they train.
//
//   q = round(x * (1/scale)) + zero_point      output = (clamp(q, low, high) - zero_point) * scale      mask = low <= q <= high
//
// x is floating, and so is the result, of the same dtype; computed in F32 for F16 and BF16. Scales and zero points are F32 and broadcast
// against x.
#pragma once

#include <optional>

#include "formula/quantization/affine.h"

namespace toroid::formula {

// The ends of the range of quantised values.
struct FakeRange {
  double low, high;
};

struct FakeQuantized {
  Tensor output;
  Tensor mask;  // Bool: which values the range held
};
FakeQuantized fake_quantize(Tensor x, Tensor scale, Tensor zero_point, const FakeRange& range);

// x itself, all of it held, where the tensor `enabled` of one element is 0.
FakeQuantized if_enabled(Tensor enabled, Tensor x, const FakeQuantized& result);

// A zero point that is learnt: rounded, and kept within the range.
Tensor whole_zero_point(Tensor zero_point, const FakeRange& range);

// ---- gradients --------------------------------------------------------------------------------------------------------

// What the range did not hold has no gradient.
Tensor fake_quantize_backward(Tensor grad, Tensor mask);

// Where scale and zero point are learnt too (Jain et al., 2019; Esser et al., 2020): within the range the scale moves the rounding error,
// outside it the end of the range. Gradients of scale and zero point are multiplied by `factor`, summed over `dims` (none: not summed) and
// wide; that of x has its dtype.
struct LearnableGradients {
  Tensor x, scale, zero_point;
};
LearnableGradients learnable_fake_quantize_backward(Tensor grad, Tensor x, Tensor scale, Tensor zero_point, const FakeRange& range,
                                                    double factor, const Dims& dims);

// ---- observers --------------------------------------------------------------------------------------------------------

// Scales and zero points for a range of floats, F64: 0 is within the range and falls on a whole number, which is taken from the end of the
// range where that errs less. Symmetric ranges have the middle of the quantised ones as their zero. Scales below 6.1e-5 grow to it, and the
// range with them.
QuantizationParameters parameters_for(Tensor low, Tensor high, const FakeRange& range, bool symmetric);

// What an observer of moving averages keeps: the range that it saw, and what follows from it, each of one element or a vector over dim
// `axis`. Without elements nothing was seen yet.
struct ObserverState {
  Tensor running_min, running_max, scale, zero_point;
};
struct ObserverOptions {
  double averaging = 0.01;  // how far the range moves towards that of x
  FakeRange range;
  std::optional<int64_t> axis;  // a range for each slice along it; absent: one
  bool symmetric = false;
};
struct Observation {
  FakeQuantized result;
  ObserverState state;  // updated
};
// Where `observing` is not 0 the range moves; the first one is taken as it is. Where `quantizing` is not 0 scale and zero point follow from
// it, and x is quantised.
Observation observe(Tensor x, const ObserverState& state, Tensor observing, Tensor quantizing, const ObserverOptions& options);

}  // namespace toroid::formula
