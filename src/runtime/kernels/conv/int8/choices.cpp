// Convolutions of U8 by I8 to I32.
#include <algorithm>
#include <optional>
#include <string>

#include "base/format.h"
#include "runtime/kernels/conv/int8/convolution.h"
#include "runtime/kernels/gemm/int8/microkernel.h"
#include "runtime/kernels/isa/amx.h"
#include "runtime/kernels/linked/linked_kernels.h"
#include "runtime/kernels/registry/families.h"

namespace toroid {
namespace {

using Gate = std::optional<std::string>;

std::optional<std::string> malformed(const Problem& problem) {
  if (problem.inputs.size() != 2 || problem.outputs.size() != 1)
    return formatted("{} inputs and {} outputs, not 2 and 1", problem.inputs.size(), problem.outputs.size());
  Problem alike = problem;  // sizes and strides are those of other convolutions
  for (OperandMeta* operand : {&alike.inputs[0], &alike.inputs[1], &alike.outputs[0]}) operand->dtype = DType::I32;
  if (problem.inputs[0].dtype != DType::U8 || problem.inputs[1].dtype != DType::I8 || problem.outputs[0].dtype != DType::I32)
    return "they are not u8 by i8 to i32";
  if (auto fault = malformed_convolution(DType::I32, alike)) return fault;
  if (problem.integers[0] != 0 || problem.outputs[0].sizes.size() > 4 || problem.outputs[0].strides[1] != 1)
    return "it is transposed, of three dims, or its channels are not next to each other";
  return std::nullopt;
}

Gate without_sums(const Problem& problem) { return depth_of_convolution(problem) == 0 ? "the filters have no channels" : Gate(); }

constexpr Implementation kImplementations[] = {
    {/*name=*/"loops",
     /*description=*/"each product by itself", /*version=*/1,
     /*gate=*/[](const Problem&) -> Gate { return std::nullopt; },
     /*cost_s=*/[](const Problem& problem, const MachineModel& machine) { return convolution_cost_s(problem, machine, 0.02, 1); },
     /*plan=*/plan_byte_convolution_in_loops},
    {/*name=*/"fours",
     /*description=*/"four products of bytes at a time (AVX512_VNNI), of windows where they lie", /*version=*/1,
     /*gate=*/
     [](const Problem& problem) -> Gate {
       if (Gate gate = without_sums(problem)) return gate;
       return vnni_kernels() != nullptr ? Gate() : kNoVnni;
     },
     /*cost_s=*/
     [](const Problem& problem, const MachineModel& machine) {
       const ConvolutionShape s = convolution_shape(problem);
       const ByteSlabs slabs = in_slabs(s.groups, s.in_channels, s.out_channels);
       const double share = std::min(1.0, static_cast<double>(slabs.out) / 64 + 0.25);
       // Zeros in the filters are multiplied too.
       const double useful = static_cast<double>(s.in_channels) / static_cast<double>(slabs.in);
       return convolution_cost_s(problem, machine, 3 * share * useful, 1);
     },
     /*plan=*/plan_byte_convolution_fours},
    {/*name=*/"tiles",
     /*description=*/"tiles of 16 positions and columns (AMX), of bands of the image",
     /*version=*/3,
     /*gate=*/
     [](const Problem& problem) -> Gate {
       if (Gate gate = without_sums(problem)) return gate;
       if (problem.integers[1] != 1) return "there are several groups";
       return has_amx() ? Gate() : kNoTiles;
     },
     /*cost_s=*/[](const Problem& problem, const MachineModel& machine) { return convolution_cost_s(problem, machine, 16, 1); },
     /*plan=*/plan_byte_convolution_tiles},
    {/*name=*/"depthwise",
     /*description=*/"vectors of channels, each with its filter, four taps at a time (AVX512_VNNI)", /*version=*/1,
     /*gate=*/
     [](const Problem& problem) -> Gate {
       if (!has_depthwise_of_bytes()) return kNoVnni;
       const ConvolutionShape s = convolution_shape(problem);
       if (s.in_channels != 1 || s.out_channels != 1) return "a group has not one channel in and one out";
       return s.dilation[2] == 1 ? Gate() : "columns are dilated";
     },
     /*cost_s=*/[](const Problem& problem, const MachineModel& machine) { return convolution_cost_s(problem, machine, 1, 1); },
     /*plan=*/plan_depthwise_of_bytes},
};

constexpr KernelFamily kBytes = {"convolution.i32", malformed, depth_of_convolution, kImplementations, 1};

}  // namespace

TOROID_LINKED_KERNEL(convolution_bytes, "convolution.bytes", &kBytes, plan_byte_convolution_in_loops);

}  // namespace toroid
