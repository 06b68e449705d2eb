// Chains of convolutions in F32 or BF16: band by band of image rows, or one after the other.
//
//   chain.f32{convolution.f32(f32[1, 16, 56, 56]/[…], constant f32[96, 16, 1, 1]) -> f32[1, 96, 56, 56]/[…]; …; epilogue | …}
#include <cmath>
#include <deque>

#include "base/format.h"
#include "runtime/kernels/conv/chain.h"
#include "runtime/kernels/conv/conv.h"
#include "runtime/kernels/isa/amx.h"
#include "runtime/kernels/linked/linked_kernels.h"
#include "runtime/kernels/registry/families.h"

namespace toroid {
namespace {

// A chain's stages as its kernel takes them, without data.
class StagesWithoutData {
 public:
  explicit StagesWithoutData(const Problem& problem) {
    for (const Problem& stage : problem.stages) {
      Operands& operands = operands_.emplace_back();
      for (const OperandMeta& input : stage.inputs) operands.inputs.push_back(operand_of(input));
      operands.output = operand_of(stage.outputs[0]);
      stages_.push_back({/*pool=*/pool_,
                         /*inputs=*/operands.inputs,
                         /*outputs=*/{&operands.output, 1},
                         /*integers=*/stage.integers,
                         /*numbers=*/{}, /*epilogue=*/nullptr,
                         /*prepared=*/&prepared_});
    }
  }
  StagesWithoutData(const StagesWithoutData&) = delete;

  Span<const KernelCall> get() const { return stages_; }

 private:
  static ToroidOperand operand_of(const OperandMeta& meta) {
    return {/*data=*/nullptr,
            /*sizes=*/meta.sizes.data(),
            /*strides=*/meta.strides.data(),
            /*rank=*/static_cast<int32_t>(meta.sizes.size()),
            /*dtype=*/static_cast<int32_t>(meta.dtype),
            /*is_constant=*/meta.is_constant};
  }

  struct Operands {
    std::vector<ToroidOperand> inputs;
    ToroidOperand output;
  };
  RuntimePool pool_{1};
  PreparedConstants prepared_;
  std::deque<Operands> operands_;
  std::vector<KernelCall> stages_;
};

// The channels of a position next to each other, then columns, rows and images, without gaps.
bool is_image_of_channels(const OperandMeta& image) {
  int64_t expected = 1;
  for (const size_t d : {1, 3, 2, 0}) {
    if (image.sizes[d] != 1 && image.strides[d] != expected) return false;
    expected *= image.sizes[d];
  }
  return true;
}

template <DType kDType>
std::optional<std::string> malformed(const Problem& problem) {
  const std::string family = formatted("convolution.{}", to_string(kDType));
  if (problem.stages.size() < 2) return formatted("{} convolutions in braces, not 2 or more", problem.stages.size());
  for (size_t i = 0; i < problem.stages.size(); ++i) {
    const Problem& stage = problem.stages[i];
    if (stage.family != family) return formatted("stage {} is {}, not {}", i, stage.family, family);
    if (std::optional<std::string> fault = malformed_convolution(kDType, stage)) return formatted("stage {}: {}", i, *fault);
    if (stage.outputs[0].sizes.size() != 4) return formatted("stage {} has not two spatial dims", i);
    if (i == 0) continue;
    const OperandMeta& made = problem.stages[i - 1].outputs[0];
    const OperandMeta& image = stage.inputs[0];
    if (made.sizes != image.sizes || !is_image_of_channels(made) || !is_image_of_channels(image)) {
      return formatted("stage {} does not read what stage {} makes, channels next to each other", i, i - 1);
    }
  }
  return std::nullopt;
}

// As if errors of a stage grew by each after it as its own do: (16 + 8 sqrt(n)) of same_result.h, added up.
int64_t depth(const Problem& problem) {
  double root = 0;
  for (const Problem& stage : problem.stages) {
    const OperandMeta& filters = stage.inputs[1];
    root += 2 + std::sqrt(static_cast<double>(filters.elements() / std::max<int64_t>(filters.sizes[0], 1)));
  }
  return static_cast<int64_t>(root * root);
}

using NotByRows = std::optional<std::string> (*)(const Problem& problem, size_t stage);
template <NotByRows kNotByRows>
std::optional<std::string> not_in_bands(const Problem& problem) {
  for (size_t i = 0; i < problem.stages.size(); ++i) {
    const Problem& stage = problem.stages[i];
    if (stage.outputs[0].elements() == 0) return formatted("the result of stage {} has no elements", i);
    if (!stage.inputs[1].is_constant) return formatted("the filters of stage {} are no constants", i);
    if (std::optional<std::string> reason = kNotByRows(problem, i)) return formatted("stage {}: {}", i, *reason);
  }
  return std::nullopt;
}

std::optional<std::string> not_by_rows_f32(const Problem& problem, size_t stage) { return not_by_rows(problem.stages[stage]); }

// Tiles see a whole image, or rows of it whose positions are a matrix's rows.
std::optional<std::string> not_by_rows_bf16(const Problem& problem, size_t stage) {
  const Problem& each = problem.stages[stage];
  if (each.integers[0] != 0 || each.inputs.size() > 2 || each.outputs[0].strides[1] != 1)
    return "it is transposed, with a bias, or its channels are not next to each other";
  if (!has_amx()) return kNoTiles;
  const ConvolutionShape s = convolution_shape(each);
  if (takes_channel_vectors(s) && each.inputs[0].strides[1] == 1) return std::nullopt;
  if (s.groups != 1) return "there are several groups";
  if (stage > 0 && !matrix_row_stride(s, image_strides(each.inputs[0].strides))) return "its filters see more than a position";
  return std::nullopt;
}

constexpr Implementation kInTurn = {
    /*name=*/kApart,
    /*description=*/"one convolution after the other",
    /*version=*/1,
    /*gate=*/[](const Problem&) -> std::optional<std::string> { return std::nullopt; },
    /*cost_s=*/
    [](const Problem& problem, const MachineModel& machine) {
      return estimate_chain(StagesWithoutData(problem).get(), machine.threads).in_turn_s;
    },
    /*plan=*/plan_in_turn};
template <NotByRows kNotByRows, MakeRowConvolution kMake>
constexpr Implementation kInBands = {
    /*name=*/"bands",
    /*description=*/"some rows of each at a time, which the next one reads while they are in the cache",
    /*version=*/1,
    /*gate=*/not_in_bands<kNotByRows>,
    /*cost_s=*/
    [](const Problem& problem, const MachineModel& machine) {
      return estimate_chain(StagesWithoutData(problem).get(), machine.threads).in_bands_s;
    },
    /*plan=*/[](const KernelCall& call) { return plan_in_bands(call, 0, kMake); }};

constexpr Implementation kOfF32[] = {kInTurn, kInBands<not_by_rows_f32, row_convolution>};
constexpr Implementation kOfBF16[] = {kInTurn, kInBands<not_by_rows_bf16, bf16_row_convolution>};

}  // namespace

constexpr KernelFamily kF32 = {"chain.f32", malformed<DType::F32>, depth, kOfF32};
constexpr KernelFamily kBF16 = {"chain.bf16", malformed<DType::BF16>, depth, kOfBF16};
TOROID_LINKED_KERNEL(chain, "chain", &kF32, plan_in_turn);
TOROID_LINKED_KERNEL(chain_bf16, "chain.bf16", &kBF16, plan_in_turn);

}  // namespace toroid
