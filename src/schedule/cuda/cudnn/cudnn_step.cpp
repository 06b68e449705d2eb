#include "schedule/cuda/cudnn/cudnn_step.h"

#include <algorithm>
#include <map>

#include "library/cudnn_calls.h"
#include "lower/convolutions/filter_gradient.h"
#include "lower/layouts.h"
#include "schedule/axes.h"
#include "schedule/cpu/loops.h"
#include "schedule/cuda/attention/attention_kernel.h"

namespace toroid::schedule {
namespace {

using cudnn_calls::PointOp;
using cudnn_calls::PointRef;

bool has_axes(sym::Expr e) {
  if (e.is_const()) return false;
  const std::vector<sym::Expr> symbols = sym::free_symbols(e);
  return std::any_of(symbols.begin(), symbols.end(), [](sym::Expr s) { return s.node()->symbol_kind == sym::SymbolKind::Axis; });
}

std::optional<PointOp> point_op(ScalarOp op) {
  switch (op) {
    case ScalarOp::Add: return PointOp::Add;
    case ScalarOp::Mul: return PointOp::Mul;
    case ScalarOp::Sub: return PointOp::Sub;
    case ScalarOp::Div: return PointOp::Div;
    case ScalarOp::Exp: return PointOp::Exp;
    case ScalarOp::Erf: return PointOp::Erf;
    case ScalarOp::Tanh: return PointOp::Tanh;
    case ScalarOp::Sigmoid: return PointOp::Sigmoid;
    case ScalarOp::Neg: return PointOp::Neg;
    case ScalarOp::Abs: return PointOp::Abs;
    case ScalarOp::Sqrt: return PointOp::Sqrt;
    case ScalarOp::Rsqrt: return PointOp::Rsqrt;
    case ScalarOp::Reciprocal: return PointOp::Reciprocal;
    default: return std::nullopt;
  }
}

// The epilogue's expression as operations on the sums.
class Epilogue {
 public:
  Epilogue(const loop::LoopProgram& program, const CallStep& step, CudnnCall& call)
      : program_(program), exprs_(program.exprs), kernel_(*step.epilogue), result_(program.buffer(step.outputs[0])), call_(call) {}

  // Why not; empty where it is done.
  std::string_view take() {
    const bool is_one_store = kernel_.stages.size() == 1 && kernel_.stages[0].statements.size() == 1 && kernel_.accumulators.empty() &&
                              std::holds_alternative<Store>(kernel_.stages[0].statements[0]);
    if (!is_one_store) return "an epilogue with several results";
    if (!has_channels_last()) return "a result whose channels do not lie next to each other";
    const Store& store = std::get<Store>(kernel_.stages[0].statements[0]);
    const std::optional<CudnnOperand> out = as_large(store.buffer, store.position);
    if (!out) return "a result whose channels do not lie next to each other";
    call_.output = *out;
    const std::optional<PointRef> last = value(store.value);
    if (!last) return reason_;
    if (last->kind != PointRef::Kind::Value || last->index != static_cast<int32_t>(operations_.size()))
      return "an epilogue that is no operation on the sums";
    call_.integers.emplace_back(static_cast<int64_t>(operations_.size()));
    for (const Operation& each : operations_) {
      call_.integers.emplace_back(static_cast<int64_t>(each.op));
      call_.integers.emplace_back(each.first.encoded());
      call_.integers.emplace_back(each.second.encoded());
    }
    return {};
  }

 private:
  struct Operation {
    PointOp op;
    PointRef first, second;
  };

  std::optional<PointRef> refuse(std::string_view reason) {
    reason_ = reason;
    return std::nullopt;
  }

  std::optional<PointRef> value(ExprId id) {
    if (id == *kernel_.product) return PointRef{PointRef::Kind::Value, 0};
    if (const auto known = known_.find(id); known != known_.end()) return known->second;
    const std::optional<PointRef> made = find(id);
    if (made) known_.emplace(id, *made);
    return made;
  }

  std::optional<PointRef> find(ExprId id) {
    if (exprs_.dtype(id) != DType::F32) return refuse("an epilogue that computes in another dtype than float32");
    if (const auto* literal = exprs_.literal_as<double>(id)) return number(*literal);
    const loop::ExprOp& op = exprs_.node(id).op;
    if (const auto* load = std::get_if<loop::Load>(&op)) return loaded(*load);
    const auto* compute = std::get_if<loop::Compute>(&op);
    if (compute == nullptr) return refuse("an epilogue with more than operations on tensors and numbers");
    if (compute->op == ScalarOp::Max || compute->op == ScalarOp::Min) return bounded(*compute);
    const std::optional<PointOp> its = point_op(compute->op);
    if (!its) return refuse("an epilogue with an operation that cuDNN has not");
    return made(*its, *compute);
  }

  std::optional<PointRef> made(PointOp op, const loop::Compute& compute) {
    const std::optional<PointRef> first = value(compute.operands[0]);
    if (!first) return std::nullopt;
    std::optional<PointRef> second = PointRef{};
    if (compute.operands.size() > 1) second = value(compute.operands[1]);
    if (!second) return std::nullopt;
    // What is as large as the result comes first. Operations on what repeats alone are the own kernel's.
    Operation operation{op, *first, *second};
    if (!is_as_large(operation.first)) {
      const bool may_swap = (op == PointOp::Add || op == PointOp::Mul) && is_as_large(operation.second);
      if (!may_swap) return refuse("an epilogue that computes with rows of channels alone");
      std::swap(operation.first, operation.second);
    }
    return add(operation);
  }

  // max(x, 0), and min of that and a number: the least other extrema of a NaN are no NaN with cuDNN.
  std::optional<PointRef> bounded(const loop::Compute& extremum) {
    const auto* bound = exprs_.literal_as<double>(extremum.operands[1]);
    const loop::Compute* lower = &extremum;
    PointRef upper;
    if (bound != nullptr && extremum.op == ScalarOp::Min && *bound > 0) {
      lower = std::get_if<loop::Compute>(&exprs_.node(extremum.operands[0]).op);
      upper = number(*bound);
    }
    const auto* zero = lower == nullptr || lower->op != ScalarOp::Max ? nullptr : exprs_.literal_as<double>(lower->operands[1]);
    if (zero == nullptr || *zero != 0) return refuse("an epilogue with other bounds than those of a relu");
    const std::optional<PointRef> of = value(lower->operands[0]);
    if (!of) return std::nullopt;
    if (!is_as_large(*of)) return refuse("an epilogue that computes with rows of channels alone");
    return add({PointOp::Relu, *of, upper});
  }

  PointRef add(const Operation& operation) {
    operations_.push_back(operation);
    return {PointRef::Kind::Value, static_cast<int32_t>(operations_.size())};
  }

  PointRef number(double number) {
    call_.numbers.push_back(number);
    return {PointRef::Kind::Number, static_cast<int32_t>(call_.numbers.size() - 1)};
  }

  std::optional<PointRef> loaded(const loop::Load& load) {
    const DType dtype = program_.buffer(load.buffer).dtype;
    if (!is_reduced_float(dtype) && dtype != DType::F32) return refuse("an epilogue with tensors that are no floats");
    std::optional<CudnnOperand> operand = as_large(load.buffer, load.index[0]);
    const bool is_large = operand.has_value();
    if (!is_large) operand = of_channels(load.buffer, load.index[0]);
    if (!operand) return refuse("an epilogue with a tensor that lies otherwise than the result");
    call_.inputs.push_back(*operand);
    if (is_large) large_inputs_.push_back(static_cast<int32_t>(call_.inputs.size() - 1));
    return PointRef{PointRef::Kind::Input, static_cast<int32_t>(call_.inputs.size() - 1)};
  }

  bool is_as_large(PointRef ref) const {
    if (ref.kind == PointRef::Kind::Value) return true;
    return ref.kind == PointRef::Kind::Input && std::ranges::find(large_inputs_, ref.index) != large_inputs_.end();
  }

  // Channels next to each other, and pixels equally far apart: more than none.
  std::optional<CudnnOperand> as_large(BufferId buffer, sym::Expr position) const {
    const std::optional<Place> place = place_of(position);
    if (!place || place->row.is_const(0) || !place->row.is_const()) return std::nullopt;
    std::vector<sym::Expr> strides = channels_last_strides(result_.sizes);
    const sym::Expr channels = result_.sizes[1];
    for (size_t d = 0; d < strides.size(); ++d) {
      if (d != 1) strides[d] = sym::floor_div(strides[d], channels) * place->row;
    }
    return CudnnOperand{buffer, result_.sizes, std::move(strides), place->offset};
  }
  std::optional<CudnnOperand> of_channels(BufferId buffer, sym::Expr position) const {
    const std::optional<Place> place = place_of(position);
    if (!place || !place->row.is_const(0)) return std::nullopt;
    std::vector<sym::Expr> sizes(result_.sizes.size(), 1);
    sizes[1] = result_.sizes[1];
    return CudnnOperand{buffer, sizes, channels_last_strides(sizes), place->offset};
  }

  // Is the epilogue's last axis that of channels, and are the others the pixels, as the sums have them?
  bool has_channels_last() const {
    const auto& sums = std::get<loop::Load>(exprs_.node(*kernel_.product).op);
    const std::optional<Place> place = place_of(sums.index[0]);
    const sym::Expr channels = result_.sizes[1];
    return place && place->offset.is_const(0) && sym::known_eq(place->row, channels) &&
           sym::known_eq(extent(kernel_.outer.back()), channels);
  }

  // From pixel to pixel, the images' one after the other.
  struct Place {
    sym::Expr row = 0, offset = 0;
  };
  std::optional<Place> place_of(sym::Expr position) const {
    if (!only_axes_and_sizes(position)) return std::nullopt;
    const auto columns = sym::linear_in(position, kernel_.outer.back());
    if (!columns || !columns->coefficient.is_const(1)) return std::nullopt;
    Place place{0, columns->rest};
    std::optional<sym::Expr> expected;
    for (size_t i = kernel_.outer.size() - 1; i-- > 0;) {
      const sym::Expr axis = kernel_.outer[i];
      const auto step = sym::linear_in(place.offset, axis);
      if (!step || has_axes(step->coefficient) || (expected && !sym::known_eq(step->coefficient, *expected))) return std::nullopt;
      if (!expected) place.row = step->coefficient;
      expected = step->coefficient * *axis.node()->extent;
      place.offset = step->rest;
    }
    return has_axes(place.offset) ? std::nullopt : std::optional(place);
  }

  const loop::LoopProgram& program_;
  const loop::ExprTable& exprs_;
  const Kernel& kernel_;
  const loop::Buffer& result_;
  CudnnCall& call_;
  std::vector<Operation> operations_;
  std::map<ExprId, PointRef> known_;
  std::vector<int32_t> large_inputs_;
  std::string_view reason_ = "an epilogue that cuDNN has not";
};

CudnnOperand operand_of(const loop::Operand& operand) { return {operand.buffer, operand.sizes, operand.strides, operand.offset}; }
CudnnOperand whole(const loop::LoopProgram& program, BufferId id) { return {id, program.buffer(id).sizes, program.buffer(id).strides, 0}; }

CudnnAttempt of_convolution(const loop::LoopProgram& program, const CallStep& step, const Convolution& op) {
  CudnnCall call{.name = std::string(cudnn_calls::kConvolution), .inputs = {}, .output = {}, .integers = {}, .numbers = {}};
  for (const loop::Operand& each : step.call.operands) call.inputs.push_back(operand_of(each));
  for (const auto* list : {&op.stride, &op.padding, &op.dilation}) call.integers.insert(call.integers.end(), list->begin(), list->end());
  if (!step.epilogue) {
    call.output = whole(program, step.outputs[0]);
    call.integers.emplace_back(0);
    return {std::move(call)};
  }
  const std::string_view reason = Epilogue(program, step, call).take();
  if (!reason.empty()) return {{}, reason};
  return {std::move(call)};
}

CudnnAttempt of_filter_gradient(const loop::LoopProgram& program, const CallStep& step, const Library& op) {
  if (!sym::known_eq(program.buffer(step.outputs[0]).sizes.back(), step.call.operands[0].sizes[1]))
    return {{}, "its groups are taken several at once"};
  CudnnCall call{.name = std::string(cudnn_calls::kFilterGradient), .inputs = {}, .output = {}, .integers = {}, .numbers = {}};
  for (const loop::Operand& each : step.call.operands) call.inputs.push_back(operand_of(each));
  call.output = whole(program, step.outputs[0]);
  for (const auto& each : op.attributes) call.integers.push_back(std::get<sym::Expr>(each));
  return {std::move(call)};
}

bool are_numbers(const std::vector<sym::Expr>& list) {
  return std::all_of(list.begin(), list.end(), [](sym::Expr e) { return e.is_const(); });
}

}  // namespace

Cudnn cudnn_of(std::string_view choice) {
  if (choice.starts_with(kOnlyCudnn)) return Cudnn::Only;
  return choice.starts_with(kCudnn) ? Cudnn::First : Cudnn::Never;
}

std::string_view without_cudnn(std::string_view choice) {
  const Cudnn how = cudnn_of(choice);
  if (how == Cudnn::Never) return choice;
  choice.remove_prefix((how == Cudnn::Only ? kOnlyCudnn : kCudnn).size());
  if (choice.starts_with('-')) choice.remove_prefix(1);
  return choice;
}

std::string with_cudnn(Cudnn how, std::string_view choice) {
  if (how == Cudnn::Never) return std::string(choice);
  std::string made(how == Cudnn::Only ? kOnlyCudnn : kCudnn);
  if (!choice.empty()) made += "-" + std::string(choice);
  return made;
}

Step only_by_cudnn(Step step) {
  auto* call = std::get_if<CallStep>(&step);
  if (call != nullptr && cudnn_of(call->choice) == Cudnn::First) call->choice = with_cudnn(Cudnn::Only, without_cudnn(call->choice));
  return step;
}

CudnnAttempt as_cudnn_call(const loop::LoopProgram& program, const CallStep& step) {
  if (!step.gpu || step.outputs.size() != 1 || step.call.operands.size() != 2) return {{}, "it is no convolution in tiles"};
  CudnnAttempt made{{}, "it is no convolution in tiles"};
  if (const auto* op = std::get_if<Convolution>(&step.call.op)) made = of_convolution(program, step, *op);
  if (const auto* op = std::get_if<Library>(&step.call.op); op != nullptr && op->name == kFilterGradient && !step.epilogue)
    made = of_filter_gradient(program, step, *op);
  if (!made.call) return made;
  bool has_numbers = are_numbers(made.call->integers) && are_numbers(made.call->output.sizes);
  for (const CudnnOperand& each : made.call->inputs)
    has_numbers = has_numbers && are_numbers(each.sizes) && are_numbers(each.strides) && each.offset.is_const();
  return has_numbers ? made : CudnnAttempt{{}, "its sizes are no numbers"};
}

bool may_be_cudnn_attention(const loop::LoopProgram& program, const CallStep& step) {
  const std::string_view own = without_cudnn(step.choice);
  if ((own != kFlashAttention && own != kHopperAttention) || !std::holds_alternative<Attention>(step.call.op)) return false;
  if (step.call.operands.size() != 3 || step.call.scores || step.outputs.size() != 1) return false;
  for (const loop::Operand& each : step.call.operands) {
    const bool has_width = each.sizes.back().is_const(64) || each.sizes.back().is_const(128);
    if (!has_width || !each.strides.back().is_const(1) || !are_numbers(each.sizes) || !are_numbers(each.strides)) return false;
    if (each.sizes.size() > 4 || !is_reduced_float(program.buffer(each.buffer).dtype)) return false;
    for (size_t d = 0; d < each.sizes.size(); ++d) {
      if (each.strides[d].is_const(0) && !each.sizes[d].is_const(1)) return false;
    }
  }
  return true;
}

}  // namespace toroid::schedule
