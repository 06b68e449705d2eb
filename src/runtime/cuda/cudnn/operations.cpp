#include "runtime/cuda/cudnn/operations.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "base/affixes.h"
#include "base/bits.h"
#include "base/error.h"
#include "library/cudnn_calls.h"
#include "tensor/dtype.h"

namespace toroid::cuda::cudnn {
namespace {

namespace calls = cudnn_calls;

constexpr int64_t kWidestAlignment = 16;

int data_type(int32_t dtype) {
  switch (static_cast<DType>(dtype)) {
    case DType::F32: return kFloat;
    case DType::F16: return kHalf;
    case DType::BF16: return kBfloat16;
    default: throw Refused{formatted("tensors of {}", to_string(static_cast<DType>(dtype)))};
  }
}

// What alignment the place has, up to 16 bytes.
int64_t alignment_of(const ToroidOperand& operand) {
  const auto place = reinterpret_cast<uintptr_t>(operand.data);
  return place % kWidestAlignment == 0 ? kWidestAlignment : size_bytes(static_cast<DType>(operand.dtype));
}

bool is_named(const ToroidLibraryCall& call, std::string_view name) {
  const std::string_view its = call.name;
  return its == name || (starts_with(its, name) && its.substr(name.size()) == calls::kOnly);
}

}  // namespace

void check_status(Status status, const char* what) {
  if (status == 0) return;
  // From CUDNN_STATUS_BAD_PARAM, for what a graph cannot have, over CUDNN_STATUS_NOT_SUPPORTED to kernels that it cannot compile.
  constexpr Status kRefusals = 2000, kEndOfRefusals = 5000;
  const std::string words = functions().error_string(status);
  if (status >= kRefusals && status < kEndOfRefusals) throw Refused{words};
  throw Error(ErrorKind::Environment, formatted("cuDNN fails {}: {}", what, words));
}

const Operations::Tensor& Operations::in_memory(const ToroidOperand& operand, const View& view, bool is_output) {
  for (size_t d = 0; d < view.sizes.size(); ++d) {
    if (view.sizes[d] > 1 && view.strides[d] <= 0) throw Refused{"a tensor with elements that repeat"};
  }
  Tensor tensor{Descriptor(kTensor), view.sizes};
  tensor.described.data_type(kTensorDataType, data_type(operand.dtype))
      .integers(kTensorSizes, view.sizes)
      .integers(kTensorStrides, view.strides)
      .integer(kTensorId, next_id_)
      .integer(kTensorAlignment, alignment_of(operand))
      .finish();
  const ToroidOperand* const first = is_output ? call_->outputs : call_->inputs;
  ids_.push_back(next_id_++);
  places_.push_back({is_output ? Place::Of::Output : Place::Of::Input, static_cast<size_t>(&operand - first)});
  return tensors_.emplace_back(std::move(tensor));
}

const Operations::Tensor& Operations::number(float value, size_t rank) {
  const std::vector<int64_t> ones(rank, 1);
  Tensor tensor{Descriptor(kTensor), ones};
  tensor.described.data_type(kTensorDataType, kFloat)
      .integers(kTensorSizes, ones)
      .integers(kTensorStrides, ones)
      .integer(kTensorId, next_id_)
      .integer(kTensorAlignment, kWidestAlignment)
      .yes(kTensorIsByValue)
      .finish();
  numbers_.push_back(value);
  ids_.push_back(next_id_++);
  places_.push_back({Place::Of::Number, numbers_.size() - 1});
  return tensors_.emplace_back(std::move(tensor));
}

const Operations::Tensor& Operations::between(const View& view, int dtype) {
  Tensor tensor{Descriptor(kTensor), view.sizes};
  tensor.described.data_type(kTensorDataType, dtype)
      .integers(kTensorSizes, view.sizes)
      .integers(kTensorStrides, view.strides)
      .integer(kTensorId, next_id_++)
      .integer(kTensorAlignment, kWidestAlignment)
      .yes(kTensorIsVirtual)
      .finish();
  return tensors_.emplace_back(std::move(tensor));
}

void Operations::point(int mode, const Tensor& x, const Tensor* b, const Tensor& y, const Tensor* t, int precision, int axis,
                       const float* upper) {
  Descriptor how(kPointwise);
  how.number(kPointwiseMode, kTypePointwiseMode, mode).data_type(kPointwisePrecision, precision);
  if (axis >= 0) how.integer(kPointwiseAxis, axis);
  if (mode == kRelu) how.number(kPointwiseNanPropagation, kTypeNanPropagation, kPropagateNan);
  if (upper != nullptr) how.float64(kPointwiseReluUpper, *upper);
  how.finish();
  Descriptor operation(kPointwiseOperation);
  operation.descriptor(kPointwiseDescriptor, how).descriptor(kPointwiseX, x.described).descriptor(kPointwiseY, y.described);
  if (b != nullptr) operation.descriptor(kPointwiseB, b->described);
  if (t != nullptr) operation.descriptor(kPointwiseT, t->described);
  operation.finish();
  described_.push_back(std::move(how));
  operations_.push_back(std::move(operation));
}

void Operations::multiply(const Tensor& a, const Tensor& b, const Tensor& c) {
  Descriptor how(kMatmul);
  how.data_type(kMatmulPrecision, kFloat).finish();
  Descriptor operation(kMatmulOperation);
  operation.descriptor(kMatmulDescriptor, how)
      .descriptor(kMatmulA, a.described)
      .descriptor(kMatmulB, b.described)
      .descriptor(kMatmulC, c.described)
      .finish();
  described_.push_back(std::move(how));
  operations_.push_back(std::move(operation));
}

void Operations::reduce(int op, const Tensor& x, const Tensor& y) {
  Descriptor how(kReduction);
  how.number(kReductionOperator, kTypeReductionOperator, op).data_type(kReductionPrecision, kFloat).finish();
  Descriptor operation(kReductionOperation);
  operation.descriptor(kReductionDescriptor, how).descriptor(kReductionX, x.described).descriptor(kReductionY, y.described).finish();
  described_.push_back(std::move(how));
  operations_.push_back(std::move(operation));
}

// ---- convolutions -------------------------------------------------------------------------------------------------------------------

namespace {

// A dim of one element has any stride: here the one that it has where nothing lies between elements. `order`: of the dims, the innermost
// first.
template <class View>
void settle_strides(View& view, const std::vector<size_t>& order) {
  int64_t next = 1;
  for (size_t d : order) {
    if (view.sizes[d] == 1) view.strides[d] = next;
    next = std::max(next, view.strides[d] * view.sizes[d]);
  }
}

// The operand in four dims or five, channels next to each other: along one dim there is another one of one element before it.
template <class View>
View image_view(const ToroidOperand& operand) {
  View view{{operand.sizes, operand.sizes + operand.rank}, {operand.strides, operand.strides + operand.rank}};
  if (operand.rank == 3) {
    view.sizes.insert(view.sizes.begin() + 2, 1);
    view.strides.insert(view.strides.begin() + 2, 0);
  }
  std::vector<size_t> order = {1};
  for (size_t d = view.sizes.size(); d-- > 2;) order.push_back(d);
  order.push_back(0);
  settle_strides(view, order);
  return view;
}

template <class View>
View contiguous_channels(std::vector<int64_t> sizes) {
  View view{std::move(sizes), {}};
  view.strides.assign(view.sizes.size(), 1);
  int64_t next = view.sizes[1];
  for (size_t d = view.sizes.size(); d-- > 2;) view.strides[d] = next, next *= view.sizes[d];
  view.strides[0] = next;
  return view;
}

// Stride, padding and dilation, which the call has for each dim of its image.
Descriptor convolution_of(const int64_t* integers, size_t dims) {
  std::vector<int64_t> stride(integers, integers + dims), padding(integers + dims, integers + 2 * dims),
      dilation(integers + 2 * dims, integers + 3 * dims);
  if (dims == 1) {
    stride.insert(stride.begin(), 1);
    padding.insert(padding.begin(), 0);
    dilation.insert(dilation.begin(), 1);
  }
  Descriptor made(kConvolution);
  made.data_type(kConvolutionPrecision, kFloat)
      .number(kConvolutionMode, kTypeConvolutionMode, kCrossCorrelation)
      .integer(kConvolutionDims, static_cast<int64_t>(stride.size()))
      .integers(kConvolutionPaddingsBefore, padding)
      .integers(kConvolutionPaddingsBehind, padding)
      .integers(kConvolutionStrides, stride)
      .integers(kConvolutionDilations, dilation)
      .finish();
  return made;
}

int point_mode(calls::PointOp op) {
  switch (op) {
    case calls::PointOp::Add: return kAdd;
    case calls::PointOp::Mul: return kMul;
    case calls::PointOp::Sub: return kSub;
    case calls::PointOp::Div: return kDiv;
    case calls::PointOp::Relu: return kRelu;
    case calls::PointOp::Exp: return kExp;
    case calls::PointOp::Erf: return kErf;
    case calls::PointOp::Tanh: return kTanh;
    case calls::PointOp::Sigmoid: return kSigmoid;
    case calls::PointOp::Neg: return kNeg;
    case calls::PointOp::Abs: return kAbs;
    case calls::PointOp::Sqrt: return kSqrt;
    case calls::PointOp::Rsqrt: return kRsqrt;
    case calls::PointOp::Reciprocal: return kReciprocal;
  }
  throw Refused{"an operation without a number"};
}

}  // namespace

void Operations::add_convolution(const ToroidLibraryCall& call) {
  const ToroidOperand &image = call.inputs[0], &filters = call.inputs[1], &out = call.outputs[0];
  const auto dims = static_cast<size_t>(image.rank - 2);
  const View result = image_view<View>(out);
  const Tensor &x = in_memory(image, image_view<View>(image), false), &w = in_memory(filters, image_view<View>(filters), false);
  const int64_t* const epilogue = call.integers + 3 * dims;
  const auto count = static_cast<size_t>(epilogue[0]);
  const Tensor& written = in_memory(out, result, true);
  const View virtual_view = contiguous_channels<View>(result.sizes);
  const Tensor* const sums = count == 0 ? &written : &between(virtual_view, kFloat);

  Descriptor how = convolution_of(call.integers, dims);
  Descriptor operation(kConvolutionForward);
  operation.descriptor(kForwardConvolution, how)
      .descriptor(kForwardImage, x.described)
      .descriptor(kForwardFilters, w.described)
      .descriptor(kForwardResult, sums->described)
      .float32(kForwardAlpha, 1)
      .float32(kForwardBeta, 0)
      .finish();
  described_.push_back(std::move(how));
  operations_.push_back(std::move(operation));

  std::vector<const Tensor*> values = {sums}, inputs(static_cast<size_t>(call.num_inputs), nullptr);
  const auto operand = [&](calls::PointRef ref) -> const Tensor* {
    const auto at = static_cast<size_t>(ref.index);
    switch (ref.kind) {
      case calls::PointRef::Kind::Value: return values.at(at);
      case calls::PointRef::Kind::Number: return &number(static_cast<float>(call.numbers[at]), result.sizes.size());
      case calls::PointRef::Kind::Input:
        if (inputs.at(at) == nullptr) inputs[at] = &in_memory(call.inputs[at], image_view<View>(call.inputs[at]), false);
        return inputs[at];
      case calls::PointRef::Kind::None: return nullptr;
    }
    return nullptr;
  };
  for (size_t i = 0; i < count; ++i) {
    const int64_t* const its = epilogue + 1 + i * calls::kOperationIntegers;
    const auto op = static_cast<calls::PointOp>(its[0]);
    const calls::PointRef first = calls::PointRef::decoded(its[1]), second = calls::PointRef::decoded(its[2]);
    const Tensor& y = i + 1 == count ? written : between(virtual_view, kFloat);
    if (op == calls::PointOp::Relu) {
      const bool has_bound = second.kind == calls::PointRef::Kind::Number;
      const float upper = has_bound ? static_cast<float>(call.numbers[second.index]) : 0;
      point(kRelu, *operand(first), nullptr, y, nullptr, kFloat, -1, has_bound ? &upper : nullptr);
    } else {
      // The first operand of the library's operations is as large as the result.
      const Tensor *a = operand(first), *b = operand(second);
      if (a->sizes != result.sizes) {
        const bool may_swap = op == calls::PointOp::Add || op == calls::PointOp::Mul;
        if (!may_swap || b == nullptr || b->sizes != result.sizes) throw Refused{"an operation whose first operand repeats"};
        std::swap(a, b);
      }
      point(point_mode(op), *a, b, y);
    }
    values.push_back(&y);
  }
}

// The library gives sums of 16-bit floats in float32 only as what an operation makes of them.
void Operations::add_filter_gradient(const ToroidLibraryCall& call) {
  const ToroidOperand &image = call.inputs[0], &results = call.inputs[1], &out = call.outputs[0];
  const auto dims = static_cast<size_t>(image.rank - 2);
  // [parts, K, taps…, C] as [K, C, taps…], its first part.
  std::vector<int64_t> sizes = {out.sizes[1], out.sizes[out.rank - 1]};
  sizes.insert(sizes.end(), out.sizes + 2, out.sizes + out.rank - 1);
  if (dims == 1) sizes.insert(sizes.begin() + 2, 1);
  const View sums = contiguous_channels<View>(sizes);
  const Tensor &x = in_memory(image, image_view<View>(image), false), &dy = in_memory(results, image_view<View>(results), false);
  const Tensor& written = in_memory(out, sums, true);
  const bool is_direct = image.dtype == out.dtype;
  const Tensor& dw = is_direct ? written : between(sums, kFloat);
  Descriptor how = convolution_of(call.integers, dims);
  Descriptor operation(kConvolutionFilterGradient);
  operation.descriptor(kFilterGradientConvolution, how)
      .descriptor(kFilterGradientImage, x.described)
      .descriptor(kFilterGradientResult, dy.described)
      .descriptor(kFilterGradientFilters, dw.described)
      .float32(kFilterGradientAlpha, 1)
      .float32(kFilterGradientBeta, 0)
      .finish();
  described_.push_back(std::move(how));
  operations_.push_back(std::move(operation));
  if (!is_direct) point(kIdentity, dw, nullptr, written);
}

// ---- attention ----------------------------------------------------------------------------------------------------------------------

namespace {

// [batch, heads, rows, columns]; dims that are lacking have one element.
template <class View>
View head_view(const ToroidOperand& operand) {
  constexpr int32_t kDims = 4;
  if (operand.rank > kDims) throw Refused{"attention of more than four dims"};
  View view{std::vector<int64_t>(kDims, 1), std::vector<int64_t>(kDims, 0)};
  for (int32_t d = 0; d < operand.rank; ++d) {
    const auto to = static_cast<size_t>(kDims - operand.rank + d);
    view.sizes[to] = operand.sizes[d], view.strides[to] = operand.strides[d];
  }
  settle_strides(view, {3, 2, 1, 0});
  return view;
}

template <class View>
View rows_view(std::vector<int64_t> sizes) {
  View view{std::move(sizes), {}};
  view.strides.assign(view.sizes.size(), 1);
  for (size_t d = view.sizes.size() - 1; d-- > 0;) view.strides[d] = view.strides[d + 1] * view.sizes[d + 1];
  return view;
}

}  // namespace

// A key that comes behind its query does not count: a query's row is at least the key's column.
void Operations::add_causal_mask(const View& scores, const Tensor*& last) {
  const Tensor &row = between(scores, kInt32), &column = between(scores, kInt32), &holds = between(scores, kBoolean);
  point(kIndex, *last, nullptr, row, nullptr, kInt32, 2);
  point(kIndex, *last, nullptr, column, nullptr, kInt32, 3);
  point(kCompareGreaterEqual, row, &column, holds, nullptr, kBoolean);
  const Tensor& hidden = number(std::numeric_limits<float>::lowest(), scores.sizes.size());
  const Tensor& masked = between(scores, kFloat);
  point(kSelect, *last, &hidden, masked, &holds);
  last = &masked;
}

// The library's kernels know a softmax that gives, to nobody, the logarithm of its sums as well.
void Operations::add_softmax(const View& scores, int dtype, const Tensor*& last) {
  std::vector<int64_t> sizes = scores.sizes;
  sizes.back() = 1;
  const View rows = rows_view<View>(sizes);
  const Tensor& largest = between(rows, kFloat);
  reduce(kReduceMax, *last, largest);
  const Tensor &less = between(scores, kFloat), &weights = between(scores, kFloat);
  point(kSub, *last, &largest, less);
  point(kExp, less, nullptr, weights);
  const Tensor &sum = between(rows, kFloat), &logarithm = between(rows, kFloat), &both = between(rows, kFloat);
  reduce(kReduceAdd, weights, sum);
  point(kLog, sum, nullptr, logarithm);
  point(kAdd, largest, &logarithm, both);
  const Tensor& made = between(scores, dtype);
  point(kDiv, weights, &sum, made);
  last = &made;
}

void Operations::add_attention(const ToroidLibraryCall& call) {
  if (call.num_inputs != 3) throw Refused{"attention with a mask in memory"};
  const ToroidOperand &q = call.inputs[0], &k = call.inputs[1], &v = call.inputs[2], &out = call.outputs[0];
  const View queries = head_view<View>(q), values = head_view<View>(v);
  View keys = head_view<View>(k);
  std::swap(keys.sizes[2], keys.sizes[3]);
  std::swap(keys.strides[2], keys.strides[3]);
  const View scores = rows_view<View>({queries.sizes[0], queries.sizes[1], queries.sizes[2], keys.sizes[3]});
  const Tensor &left = in_memory(q, queries, false), &right = in_memory(k, keys, false);
  const Tensor* last = &between(scores, kFloat);
  multiply(left, right, *last);
  const Tensor& scaled = between(scores, kFloat);
  point(kMul, *last, &number(static_cast<float>(call.numbers[0]), scores.sizes.size()), scaled);
  last = &scaled;
  if (call.integers[0] != 0) add_causal_mask(scores, last);
  add_softmax(scores, data_type(q.dtype), last);
  const Tensor& value = in_memory(v, values, false);
  multiply(*last, value, in_memory(out, head_view<View>(out), true));
}

// ---- the whole ----------------------------------------------------------------------------------------------------------------------

Operations::Operations(const ToroidLibraryCall& call) : call_(&call) {
  if (is_named(call, calls::kConvolution)) {
    add_convolution(call);
  } else if (is_named(call, calls::kFilterGradient)) {
    add_filter_gradient(call);
  } else if (is_named(call, calls::kAttention)) {
    add_attention(call);
  } else {
    throw Refused{formatted("no graph is known for '{}'", call.name)};
  }
  call_ = nullptr;
}

std::vector<BackendDescriptor> Operations::list() const {
  std::vector<BackendDescriptor> result;
  for (const Descriptor& each : operations_) result.push_back(each.get());
  return result;
}

std::vector<const void*> Operations::places(const ToroidLibraryCall& call) const {
  std::vector<const void*> result;
  for (const Place& each : places_) {
    switch (each.of) {
      case Place::Of::Input: result.push_back(call.inputs[each.index].data); break;
      case Place::Of::Output: result.push_back(call.outputs[each.index].data); break;
      case Place::Of::Number: result.push_back(&*std::next(numbers_.begin(), static_cast<ptrdiff_t>(each.index))); break;
    }
  }
  return result;
}

std::vector<int64_t> key_of(const ToroidLibraryCall& call) {
  std::vector<int64_t> key;
  const std::string_view name = call.name;
  for (const std::string_view each : {calls::kConvolution, calls::kFilterGradient, calls::kAttention})
    key.push_back(starts_with(name, each));
  const auto add = [&](const ToroidOperand& operand) {
    key.insert(key.end(), {operand.dtype, operand.rank, alignment_of(operand)});
    key.insert(key.end(), operand.sizes, operand.sizes + operand.rank);
    key.insert(key.end(), operand.strides, operand.strides + operand.rank);
  };
  for (int32_t i = 0; i < call.num_inputs; ++i) add(call.inputs[i]);
  for (int32_t i = 0; i < call.num_outputs; ++i) add(call.outputs[i]);
  key.insert(key.end(), call.integers, call.integers + call.num_integers);
  for (int32_t i = 0; i < call.num_numbers; ++i) key.push_back(bit_cast<int64_t>(call.numbers[i]));
  return key;
}

}  // namespace toroid::cuda::cudnn
