// Convolutions in F32.
#include "base/format.h"
#include "runtime/kernels/conv/conv.h"
#include "runtime/kernels/conv/winograd.h"
#include "runtime/kernels/conv/winograd_transforms.h"
#include "runtime/kernels/gemm/gemm_f32.h"
#include "runtime/kernels/linked/linked_kernels.h"
#include "runtime/kernels/onednn/onednn.h"
#include "runtime/kernels/registry/families.h"

namespace toroid {
namespace {

bool is_transposed(const Problem& problem) { return problem.integers[0] != 0; }
int64_t channels_in_group(const Problem& problem) { return problem.inputs[0].sizes[1] / problem.integers[1]; }
int64_t filter_elements(const Problem& problem) {
  int64_t count = 1;
  for (size_t d = 2; d < problem.inputs[1].sizes.size(); ++d) count *= problem.inputs[1].sizes[d];
  return count;
}
int64_t depth(const Problem& problem) { return channels_in_group(problem) * filter_elements(problem); }

double flops(const Problem& problem) {
  // Of a transposed one, each input element is multiplied with each filter element of its group.
  const OperandMeta& walked = is_transposed(problem) ? problem.inputs[0] : problem.outputs[0];
  const int64_t others = is_transposed(problem) ? problem.outputs[0].sizes[1] / problem.integers[1] : channels_in_group(problem);
  return 2.0 * static_cast<double>(walked.elements()) * static_cast<double>(others * filter_elements(problem));
}

// Bytes of the matrix of columns, written and read once for each group.
double bytes_of_columns(const Problem& problem) {
  const OperandMeta& positions = is_transposed(problem) ? problem.inputs[0] : problem.outputs[0];
  const int64_t channels = std::max<int64_t>(positions.sizes[1], 1);
  const int64_t rows =
      is_transposed(problem) ? problem.outputs[0].sizes[1] * filter_elements(problem) : problem.integers[1] * depth(problem);
  return 2.0 * 4.0 * static_cast<double>(positions.elements() / channels) * static_cast<double>(rows);
}

std::optional<std::string> malformed(const Problem& problem) { return malformed_convolution(DType::F32, problem); }

using Gate = std::optional<std::string>;

Gate first_of(std::initializer_list<Gate> gates) {
  for (const Gate& gate : gates) {
    if (gate) return gate;
  }
  return std::nullopt;
}

Gate only_transposed(const Problem& problem) { return is_transposed(problem) ? Gate() : "it is for transposed convolutions"; }
Gate never_transposed(const Problem& problem) { return is_transposed(problem) ? "it is not for transposed convolutions" : Gate(); }
Gate one_channel_in(const Problem& problem) {
  const int64_t channels = channels_in_group(problem);
  return channels == 1 ? Gate() : formatted("a group has {} input channels, not one", channels);
}
template <bool (OperandMeta::*kLiesSo)() const = &OperandMeta::is_contiguous>
Gate all_contiguous(const Problem& problem) {
  if (problem.has_epilogue) return "it gives its result to no epilogue";
  if (!(problem.outputs[0].*kLiesSo)()) return "the output is not contiguous";
  for (const OperandMeta& operand : problem.inputs) {
    if (!(operand.*kLiesSo)()) return "the inputs are not contiguous";
  }
  return std::nullopt;
}

bool are_channels_innermost(const OperandMeta& image) {
  int64_t expected = 1;
  for (size_t i = 0; i < image.sizes.size(); ++i) {
    // The channels, then the others from the last to the first.
    const size_t d = i == 0 ? 1 : i + 1 == image.sizes.size() ? 0 : image.sizes.size() - i;
    if (image.sizes[d] != 1 && image.strides[d] != expected) return false;
    expected *= image.sizes[d];
  }
  return image.strides[1] == 1;
}
Gate to_channels_last(const Problem& problem) {
  if (!are_channels_innermost(problem.outputs[0])) return "the output's channels are not next to each other";
  if (problem.outputs[0].sizes.size() > 4) return "it is for one or two spatial dims";
  if (problem.inputs.size() > 2) return "it adds no bias";
  return never_transposed(problem);
}

Gate one_matrix_product(const Problem& problem) {
  if (Gate gate = to_channels_last(problem)) return gate;
  if (problem.inputs[1].is_constant) return "filters that are constants are packed once";
  return matrix_row_stride(convolution_shape(problem), image_strides(problem.inputs[0].strides)) ? Gate() : "it is no matrix product";
}

double product_cost_s(const Problem& problem, const MachineModel& machine) {
  const double rows = static_cast<double>(problem.outputs[0].sizes[1] / problem.integers[1]);
  const double share_of_peak = 0.8 * std::min(1.0, (1 + rows) / 9);  // few rows leave the multipliers idle
  return machine.start_s * static_cast<double>(problem.outputs[0].sizes[0] * problem.integers[1]) +
         flops(problem) / (share_of_peak * machine.flops_per_s) + transfer_s(bytes_of_columns(problem), machine);
}

double image_rows_cost_s(const Problem& problem, const MachineModel& machine) {
  const OperandMeta& weight = problem.inputs[1];
  const double share_of_peak = 0.85 * std::min(1.0, static_cast<double>(problem.outputs[0].sizes[1] / problem.integers[1]) / 32);
  const double packing_s = weight.is_constant ? 0 : 3 * transfer_s(static_cast<double>(weight.extent_bytes()), machine);
  return machine.start_s + packing_s + flops(problem) / (share_of_peak * machine.flops_per_s) +
         transfer_s(static_cast<double>(problem.inputs[0].extent_bytes() + weight.extent_bytes()), machine);
}

// Of algorithms that sum over filter elements, channel by channel.
double channels_cost_s(const Problem& problem, const MachineModel& machine) {
  const double share_of_peak = channels_in_group(problem) == 1 ? 0.25 : channels_in_group(problem) < 16 ? 0.5 : 0.9;
  return machine.start_s + flops(problem) / (share_of_peak * machine.flops_per_s) +
         transfer_s(static_cast<double>(problem.inputs[0].extent_bytes() + problem.outputs[0].extent_bytes()), machine);
}

Gate winograd_may(const Problem& problem) {
  const OperandMeta& weight = problem.inputs[1];
  const size_t spatial = weight.sizes.size() - 2;
  if (spatial != 2 || weight.size(-1) != 3 || weight.size(-2) != 3) return "the filters are not 3x3";
  auto all_one = [&](size_t first) { return problem.integers[first] == 1 && problem.integers[first + 1] == 1; };
  if (!all_one(2) || !all_one(2 + 2 * spatial)) return "the filters' strides or dilations are not 1";
  if (problem.integers[1] != 1) return "there are several groups";
  if (problem.inputs[0].strides[1] != 1) return "the image's channels are not next to each other";
  constexpr int64_t kLeast = WinogradTransforms::kLeastChannels;
  if (channels_in_group(problem) < kLeast) return formatted("the image has fewer than {} channels", kLeast);
  return to_channels_last(problem);
}

// Of a tile of kOutputs outputs a side.
template <int kOutputs>
double winograd_cost_s(const Problem& problem, const MachineModel& machine) {
  const ConvolutionShape shape = convolution_shape(problem);
  const bool keeps_weights = problem.inputs[1].is_constant;
  const double share =
      time_by_winograd(shape, kOutputs,
                       {/*keeps_weights=*/keeps_weights,
                        /*in_parts=*/convolves_as_bf16x3(shape, problem.inputs[0].strides[1], keeps_weights, machine.threads),
                        /*threads=*/machine.threads,
                        /*hidden=*/hidden_in_vectors(machine)});
  return share * image_rows_cost_s(problem, machine);
}

constexpr Implementation kImplementations[] = {
    {/*name=*/"image-columns",
     /*description=*/"a product of the filters with the image's columns, made block by block", /*version=*/1,
     /*gate=*/
     [](const Problem& problem) {
       return first_of({never_transposed(problem), all_contiguous<>(problem)});
     },
     /*cost_s=*/product_cost_s,
     /*plan=*/plan_columns_f32},
    {/*name=*/"image-rows",
     /*description=*/"a product of image rows, where they lie, with packed weights", /*version=*/1,
     /*gate=*/to_channels_last,
     /*cost_s=*/image_rows_cost_s,
     /*plan=*/plan_image_rows},
    {/*name=*/"matrix-product",
     /*description=*/"one product of all positions with filters of one element, where they lie", /*version=*/1,
     /*gate=*/one_matrix_product,
     /*cost_s=*/
     [](const Problem& problem, const MachineModel& machine) {
       const std::vector<int64_t>& filters = problem.inputs[1].strides;
       return estimate_gemm_f32_s(matrix_product_of(convolution_shape(problem), filters[0], filters[1]), machine);
     },
     /*plan=*/plan_matrix_product},
    {/*name=*/"adjoint-columns",
     /*description=*/"a product whose columns are added where they belong", /*version=*/1,
     /*gate=*/
     [](const Problem& problem) {
       return first_of({only_transposed(problem), all_contiguous<&OperandMeta::is_row_major>(problem)});
     },
     /*cost_s=*/product_cost_s,
     /*plan=*/plan_columns_f32},
    {/*name=*/"planes",
     /*description=*/"each plane with its filter, all filter elements summed in registers", /*version=*/1,
     /*gate=*/
     [](const Problem& problem) {
       return first_of({one_channel_in(problem), never_transposed(problem), all_contiguous<>(problem)});
     },
     /*cost_s=*/channels_cost_s,
     /*plan=*/plan_planes},
    {/*name=*/"winograd-4",
     /*description=*/"Winograd's method in tiles of 4x4 outputs", /*version=*/1,
     /*gate=*/winograd_may,
     /*cost_s=*/winograd_cost_s<4>,
     /*plan=*/[](const KernelCall& call) { return plan_winograd(call, 4); }},
    {/*name=*/"winograd-2",
     /*description=*/"Winograd's method in tiles of 2x2 outputs", /*version=*/1,
     /*gate=*/winograd_may,
     /*cost_s=*/winograd_cost_s<2>,
     /*plan=*/[](const KernelCall& call) { return plan_winograd(call, 2); }},
    {/*name=*/"channel-vectors",
     /*description=*/"vectors of channels, each with its filter, or groups of few", /*version=*/1,
     /*gate=*/
     [](const Problem& problem) -> Gate {
       if (!takes_channel_vectors(problem.integers[1], channels_in_group(problem), problem.outputs[0].sizes[1] / problem.integers[1]))
         return kNoChannelVectors;
       if (problem.inputs[0].strides[1] != 1) return "the image's channels are not next to each other";
       return to_channels_last(problem);
     },
     /*cost_s=*/channels_cost_s,
     /*plan=*/plan_channel_vectors},
    {/*name=*/"onednn",
     /*description=*/"oneDNN's direct convolution", /*version=*/1,
     /*gate=*/onednn_refuses_convolution,
     /*cost_s=*/[](const Problem& problem, const MachineModel& machine) { return kOneDnnCost * image_rows_cost_s(problem, machine); },
     /*plan=*/plan_convolution_onednn,
     /*needs_measuring=*/true},
};

}  // namespace

int64_t depth_of_convolution(const Problem& problem) {
  const OperandMeta& w = problem.inputs[1];
  int64_t count = w.sizes[1];
  for (size_t d = 2; d < w.sizes.size(); ++d) count *= w.sizes[d];
  return count;
}

double convolution_cost_s(const Problem& problem, const MachineModel& machine, double ratio_to_f32, double passes) {
  const double flops = 2 * static_cast<double>(problem.outputs[0].elements()) * static_cast<double>(depth_of_convolution(problem));
  const double bytes = static_cast<double>(problem.inputs[0].extent_bytes() + problem.inputs[1].extent_bytes());
  return machine.start_s + flops / (0.6 * ratio_to_f32 * machine.flops_per_s) + passes * transfer_s(bytes, machine);
}

std::optional<std::string> malformed_convolution(DType dtype, const Problem& problem) {
  if (std::optional<std::string> fault = unlike_dense(dtype, problem, 2, 3, 3)) return fault;
  const OperandMeta& x = problem.inputs[0];
  const OperandMeta& w = problem.inputs[1];
  const OperandMeta& y = problem.outputs[0];
  const size_t spatial = x.sizes.size() - 2;
  if (spatial > 3 || w.sizes.size() != x.sizes.size() || y.sizes.size() != x.sizes.size()) {
    return "one to three spatial dims are needed, as many in each";
  }
  if (problem.integers.size() != 2 + 4 * spatial) return formatted("{} integers, not {}", problem.integers.size(), 2 + 4 * spatial);
  const int64_t groups = problem.integers[1];
  if (groups < 1 || x.sizes[1] % groups != 0 || y.sizes[1] % groups != 0) return "the channels do not divide into the groups";
  const bool transposed = problem.integers[0] != 0;
  if (w.sizes[0] != (transposed ? x : y).sizes[1] || w.sizes[1] != (transposed ? y : x).sizes[1] / groups || x.sizes[0] != y.sizes[0]) {
    return "the sizes of images, filters and result do not meet";
  }
  for (size_t d = 0; d < spatial; ++d) {
    if (problem.integers[2 + d] < 1 || problem.integers[2 + 2 * spatial + d] < 1) return "strides and dilations are at least 1";
    if (w.sizes[2 + d] < 1) return "the filter has no elements";
  }
  if (problem.inputs.size() == 3 && (problem.inputs[2].sizes != std::vector{y.sizes[1]} || problem.inputs[2].dtype != dtype)) {
    return formatted("the bias has not one {} a channel", to_string(dtype));
  }
  if (problem.has_epilogue && !are_channels_innermost(y)) return "an epilogue takes channels that are next to each other";
  return std::nullopt;
}

std::optional<std::string> not_by_rows(const Problem& convolution) {
  if (Gate gate = to_channels_last(convolution)) return gate;
  if (winograd_may(convolution)) return std::nullopt;
  const MachineModel machine = model_of_this_machine(RuntimePool::threads_for(0));
  const double winograd_s = std::min(winograd_cost_s<4>(convolution, machine), winograd_cost_s<2>(convolution, machine));
  if (winograd_s < image_rows_cost_s(convolution, machine)) return "Winograd's method, which makes tiles, may be quicker";
  return std::nullopt;
}

constexpr KernelFamily kF32 = {"convolution.f32", malformed, depth, kImplementations, 1};
TOROID_LINKED_KERNEL(convolution_f32, "convolution.f32", &kF32, plan_convolution_f32);

}  // namespace toroid
