// A call of a program (library/cudnn_calls.h) as operations of a cuDNN graph.
//
//   cudnn.convolution, epilogue Mul, Add, Relu    =>    y0 = conv(x, w);  y1 = y0 * s;  y2 = y1 + b;  out = relu(y2)
//
// What lies between operations is virtual: it is in no memory. All is computed in float32.
#pragma once

#include <cstdint>
#include <list>
#include <vector>

#include "runtime/cuda/cudnn/descriptor.h"
#include "toroid/program_abi.h"

namespace toroid::cuda::cudnn {

class Operations {
 public:
  // Throws Refused, and Error{Environment} where the library is absent or fails.
  explicit Operations(const ToroidLibraryCall& call);

  std::vector<BackendDescriptor> list() const;
  const std::vector<int64_t>& ids() const { return ids_; }
  // Where the tensors of `ids` are, of a call that is like the one it was made of. Those of numbers are the graph's own.
  std::vector<const void*> places(const ToroidLibraryCall& call) const;

 private:
  struct View {
    std::vector<int64_t> sizes, strides;
  };
  struct Tensor {
    Descriptor described;
    std::vector<int64_t> sizes;
  };

  void add_convolution(const ToroidLibraryCall& call);
  void add_filter_gradient(const ToroidLibraryCall& call);
  void add_attention(const ToroidLibraryCall& call);
  void add_causal_mask(const View& scores, const Tensor*& last);
  void add_softmax(const View& scores, int dtype, const Tensor*& last);

  // In memory: the operand, seen so.
  const Tensor& in_memory(const ToroidOperand& operand, const View& view, bool is_output);
  const Tensor& number(float value, size_t rank);
  const Tensor& between(const View& view, int dtype);
  void point(int mode, const Tensor& x, const Tensor* b, const Tensor& y, const Tensor* t = nullptr, int precision = kFloat, int axis = -1,
             const float* upper = nullptr);
  void multiply(const Tensor& a, const Tensor& b, const Tensor& c);
  void reduce(int op, const Tensor& x, const Tensor& y);

  std::list<Tensor> tensors_;
  std::vector<Descriptor> described_, operations_;  // of operations; they
  int64_t next_id_ = 1;
  std::vector<int64_t> ids_;
  struct Place {
    enum class Of : uint8_t { Input, Output, Number } of;
    size_t index;
  };
  std::vector<Place> places_;
  std::list<float> numbers_;
  const ToroidLibraryCall* call_ = nullptr;  // while it is described
};

// Sizes, strides, dtypes and numbers: what a graph depends on, but for the library and the GPU.
std::vector<int64_t> key_of(const ToroidLibraryCall& call);

}  // namespace toroid::cuda::cudnn
