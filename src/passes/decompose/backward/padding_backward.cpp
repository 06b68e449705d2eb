// ATen's gradients of padding that mirrors or repeats the tensor.
#include "formula/backward/padding_backward.h"

#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

template <Tensor (*backward)(Tensor, Tensor, const Sizes&)>
std::vector<Tensor> pad_backward(Decomposer&, const Args& a) {
  return {backward(a.tensor("grad_output"), a.tensor("self"), a.integers("padding"))};
}

constexpr DecompositionRow kPaddingBackwardRows[] = {
    {"aten::reflection_pad1d_backward", pad_backward<formula::pad_reflect_backward>},
    {"aten::reflection_pad2d_backward", pad_backward<formula::pad_reflect_backward>},
    {"aten::reflection_pad3d_backward", pad_backward<formula::pad_reflect_backward>},
    {"aten::replication_pad1d_backward", pad_backward<formula::pad_replicate_backward>},
    {"aten::replication_pad2d_backward", pad_backward<formula::pad_replicate_backward>},
    {"aten::replication_pad3d_backward", pad_backward<formula::pad_replicate_backward>},
};

}  // namespace

std::span<const DecompositionRow> padding_backward_rows() { return kPaddingBackwardRows; }

}  // namespace toroid
