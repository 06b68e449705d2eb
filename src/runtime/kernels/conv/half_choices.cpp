// Convolutions in BF16 and F16.
#include "runtime/kernels/conv/conv.h"
#include "runtime/kernels/isa/amx.h"
#include "runtime/kernels/linked/linked_kernels.h"
#include "runtime/kernels/registry/families.h"

namespace toroid {
namespace {

using Gate = std::optional<std::string>;

std::optional<std::string> malformed(DType dtype, const Problem& problem) {
  if (std::optional<std::string> fault = malformed_convolution(dtype, problem)) return fault;
  if (problem.integers[0] != 0 || problem.inputs.size() > 2 || problem.outputs[0].sizes.size() > 4 || problem.outputs[0].strides[1] != 1) {
    return "it is transposed, of three dims, with a bias, or its channels are not next to each other";
  }
  return std::nullopt;
}

constexpr Implementation kWidened = {/*name=*/"widened",
                                     /*description=*/"image and filters as float32",
                                     /*version=*/1,
                                     /*gate=*/[](const Problem&) -> Gate { return std::nullopt; },
                                     /*cost_s=*/
                                     [](const Problem& problem, const MachineModel& machine) {
                                       return convolution_cost_s(problem, machine, problem.inputs[1].sizes[1] == 1 ? 0.3 : 1, 3);
                                     },
                                     /*plan=*/plan_widened};

constexpr Implementation kChannelVectors = {
    /*name=*/"channel-vectors",
    /*description=*/"vectors of channels, each with its filter, or groups of few, of rows that are widened as they are needed",
    /*version=*/1,
    /*gate=*/
    [](const Problem& problem) -> Gate {
      if (!takes_channel_vectors(problem.integers[1], problem.inputs[1].sizes[1], problem.outputs[0].sizes[1] / problem.integers[1]))
        return kNoChannelVectors;
      if (problem.inputs[0].strides[1] != 1) return "the image's channels are not next to each other";
      return std::nullopt;
    },
    /*cost_s=*/[](const Problem& problem, const MachineModel& machine) { return convolution_cost_s(problem, machine, 0.3, 1); },
    /*plan=*/plan_half_channel_vectors};

constexpr Implementation kOfBFloat16[] = {
    kWidened,
    kChannelVectors,
    {/*name=*/"tiles",
     /*description=*/"products of image rows in tiles of 16 positions and columns (AMX)",
     /*version=*/2,
     /*gate=*/
     [](const Problem& problem) -> Gate {
       if (problem.integers[1] != 1) return "there are several groups";
       return has_amx() ? Gate() : kNoTiles;
     },
     /*cost_s=*/[](const Problem& problem, const MachineModel& machine) { return convolution_cost_s(problem, machine, 8, 1); },
     /*plan=*/plan_half_tiles},
};
constexpr Implementation kOfFloat16[] = {kWidened, kChannelVectors};

}  // namespace

std::unique_ptr<const KernelPlan> plan_half_convolution(const KernelCall& call) {
  // Gates do not look at the dtype of the result. Of the specialised rows, behind the general one, at most one takes the call.
  const bool is_bf16 = dtype_of(call.inputs[0]) == DType::BF16;
  const Problem problem = problem_of(is_bf16 ? "convolution.bf16" : "convolution.f16", call);
  const Span<const Implementation> rows = is_bf16 ? Span<const Implementation>(kOfBFloat16) : kOfFloat16;
  const auto taken = std::find_if(rows.rbegin(), rows.rend(), [&](const Implementation& row) { return !row.gate(problem); });
  return taken->plan(call);
}

namespace {

template <DType kDType>
std::optional<std::string> malformed_of(const Problem& problem) {
  return malformed(kDType, problem);
}
constexpr KernelFamily kBF16 = {"convolution.bf16", malformed_of<DType::BF16>, depth_of_convolution, kOfBFloat16, 1};
constexpr KernelFamily kF16 = {"convolution.f16", malformed_of<DType::F16>, depth_of_convolution, kOfFloat16, 1};

// To F32, or without filter elements, the first.
std::unique_ptr<const KernelPlan> plan_alone(const KernelCall& call) {
  const ToroidOperand& y = call.outputs[0];
  const bool is_to_channels_last = call.inputs.size() == 2 && call.integers[0] == 0 && y.rank <= 4 && y.strides[1] == 1;
  return is_to_channels_last ? plan_half_convolution(call) : plan_widened(call);
}

}  // namespace

TOROID_LINKED_KERNEL(convolution_bf16, "convolution.bf16", &kBF16, plan_alone);
TOROID_LINKED_KERNEL(convolution_f16, "convolution.f16", &kF16, plan_alone);

}  // namespace toroid
