#include "codegen/cuda/attention_text.h"

#include <fmt/format.h>

#include "codegen/cpp/names.h"

namespace toroid::codegen::cuda {

std::string attention_text(const schedule::AttentionKernel& kernel, std::string_view name) {
  const std::string_view type = storage_type(kernel.dtype), mask = storage_type(kernel.mask.value_or(kernel.dtype));
  const std::string operands = kernel.hopper
                                   ? "TENSOR_MAP q, TENSOR_MAP k, TENSOR_MAP v"
                                   : fmt::format("const {0}* __restrict__ q, const {0}* __restrict__ k, const {0}* __restrict__ v", type);
  const std::string numbers =
      kernel.hopper ? fmt::format("attend_on_hopper<{}, {}, {}, ", kernel.width, kernel.groups, kernel.stages)
                    : fmt::format("attend<{}, {}, {}, {}, {}, ", kernel.width, kernel.out_width, kernel.warps, kernel.tiles, kernel.keys);
  if (kernel.split_rows > 0) {
    return fmt::format(
        "KERNEL __launch_bounds__({}, 1) {}(\n    {},\n    const {}* __restrict__ mask, {}* __restrict__ out, ATTENTION_SHAPE shape, "
        "const float scale) {{\n  attend_split<{}, {}, {}, {}, {}>(q, k, v, mask, out, shape, scale);\n}}\n",
        kernel.threads(), name, operands, mask, type, kernel.width, kernel.split_rows, kernel.warps, schedule::kSplitBlocks,
        kernel.mask ? "kMask" : "kNoMask");
  }
  return fmt::format(
      "KERNEL __launch_bounds__({}, 1) {}(\n    {},\n    const {}* __restrict__ mask, {}* __restrict__ out, ATTENTION_SHAPE shape, const "
      "float scale) "
      "{{\n  {}{}, {}, {}>(q, k, v, mask, out, shape, scale);\n}}\n",
      kernel.threads(), name, operands, mask, type, numbers,
      !kernel.mask    ? "kNoMask"
      : kernel.hopper ? "kMaskOfPairs"
                      : "kMask",
      kernel.causal, kernel.folds_scale);
}

}  // namespace toroid::codegen::cuda
