// Kernels in Triton that a model calls itself, as torch.export records them (torch/_export/serde/serialize.py of PyTorch 2.8 to 2.11):
//
//   torch.ops.higher_order.triton_kernel_wrapper_functional(x, out, n, name="add_kernel_5f0c…", grid=[4, 1, 1], output_indices=[1],
//                                                           num_warps=4, shared_memory_bytes=0, …)
//
// Arguments without a name are the kernel's, in its order, without its constants. The results are what the tensors at `output_indices` hold
// afterwards; the tensors themselves stay as they are. The file holds no source and no constants, so the kernel is an operator of the
// user's own, triton::add_kernel, whose file says the rest (docs/triton.md).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/json_reader.h"
#include "graph/schema.h"

namespace toroid::pt2 {

inline constexpr std::string_view kTritonKernel = "triton_kernel_wrapper_functional";

// "triton::add_kernel": the recorded name without the hash behind it. Throws Error{InvalidModel} for a node without a name.
std::string triton_operator(const JsonValue& node);

struct TritonNode {
  std::vector<JsonValue> arguments;  // the kernel's
  std::vector<size_t> written;       // positions among them, in the order of the results; the schema may say that some stay as they are
};
// Throws Error{Unsupported} where the schema writes to an argument of which the model does not record that.
TritonNode read_triton_node(const JsonValue& node, const Schema& schema);

}  // namespace toroid::pt2
