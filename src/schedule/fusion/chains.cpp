// What passes between the convolutions of an inverted bottleneck is several times larger than what goes in and comes out. A chain makes it
// some rows at a time, which the next one reads while they are in the second-level cache (ToroidRuntime::chain). This needs convolutions
// whose rows can be made by themselves and see few rows of the image: of single pixels, with one channel a group, or of an image with few
// channels.
//
//   call expand                      chain expand, filter, project
//   call filter             =>
//   call project
//
// Whether bands pay for the sizes and threads of a call is left to the runtime, which else does one convolution after the other, or was
// measured (driver/choices/choose_kernels.h).
#include "schedule/fusion/chains.h"

#include <algorithm>

#include "lower/layouts.h"
#include "schedule/buffer_lists.h"
#include "schedule/fusion/group.h"
#include "schedule/lifetimes.h"

namespace toroid::schedule {
namespace {

constexpr int64_t kFewChannels = 8;
constexpr int64_t kLeastImageBytes = 64 << 10;  // what is smaller stays in the cache by itself

// Can its rows be made by themselves, without more work than in any other way?
bool is_by_rows(const loop::LoopProgram& program, const CallStep& step) {
  const auto* convolution = std::get_if<Convolution>(&step.call.op);
  if (convolution == nullptr || !step.choice.empty() || !makes_product(program, step.call, step.outputs)) return false;
  const std::vector<sym::Expr>& image = step.call.operands[0].sizes;
  const std::vector<sym::Expr>& filters = step.call.operands[1].sizes;
  if (image.size() != 4) return false;
  const DType dtype = program.buffer(step.outputs[0]).dtype;
  if (dtype != DType::F32 && dtype != DType::BF16) return false;
  for (const loop::Operand& operand : step.call.operands) {
    if (program.buffer(operand.buffer).dtype != dtype) return false;
  }
  if (convolution->groups.is_const(1)) {
    const bool of_pixels = filters[2].is_const(1) && filters[3].is_const(1);
    return of_pixels || (filters[1].is_const() && filters[1].value() <= kFewChannels);
  }
  return is_depthwise(step.call);
}

// Does each position of the result see one of the image, or each channel its own?
bool is_by_positions(const CallStep& step) {
  const auto& convolution = std::get<Convolution>(step.call.op);
  if (!convolution.groups.is_const(1)) return true;
  const std::vector<sym::Expr>& filters = step.call.operands[1].sizes;
  const auto are = [](const std::vector<sym::Expr>& list, int64_t value) {
    return std::all_of(list.begin(), list.end(), [&](sym::Expr each) { return each.is_const(value); });
  };
  return filters[2].is_const(1) && filters[3].is_const(1) && are(convolution.stride, 1) && are(convolution.padding, 0);
}

// Channels next to each other, and nothing between rows and images.
bool is_channels_last(const std::vector<sym::Expr>& sizes, const std::vector<sym::Expr>& strides) {
  sym::Expr expected = 1;
  for (const size_t d : {1, 3, 2, 0}) {
    if (!sizes[d].is_const(1) && !sym::known_eq(strides[d], expected)) return false;
    expected = expected * sizes[d];
  }
  return true;
}

int64_t elements_hint(const std::vector<sym::Expr>& sizes) { return sym::evaluate_hint(sym::product(sizes)); }

// Does the convolution write `image`, and nothing else, each element at the place that it has in the product?
bool writes_as_product(const loop::LoopProgram& program, const CallStep& step, BufferId image) {
  const loop::Buffer& product = program.buffer(step.outputs[0]);
  const loop::Buffer& written = program.buffer(image);
  if (!are_equal(product.sizes, written.sizes)) return false;
  if (!is_channels_last(product.sizes, product.strides) || !is_channels_last(written.sizes, written.strides)) return false;
  if (!step.epilogue) return step.outputs[0] == image;
  if (step.epilogue->writes != std::vector{image} || step.epilogue->stages[0].statements.size() != 1) return false;
  const auto& load = std::get<loop::Load>(program.exprs.node(*step.epilogue->product).op);
  return sym::known_eq(std::get<Store>(step.epilogue->stages[0].statements[0]).position, load.index[0]);
}

bool is_constant(const loop::LoopProgram& program, BufferId id) {
  const loop::BufferKind kind = program.buffer(id).kind;
  return kind == loop::BufferKind::Constant || kind == loop::BufferKind::Prepared;
}

class Chainer {
 public:
  Chainer(const loop::LoopProgram& program, const std::vector<Step>& steps) : program_(program), readers_(program.buffers.size()) {
    for (const Step& step : steps) {
      for (BufferId id : reads_of(step)) ++readers_[static_cast<size_t>(id)];
    }
  }

  // Why `next` cannot go on with what the chain's last convolution makes; "" if it can.
  std::string_view refusal(const std::vector<CallStep>& chain, const CallStep& next) const {
    const CallStep& last = chain.back();
    const loop::Operand& image = next.call.operands[0];
    const loop::Buffer& between = program_.buffer(image.buffer);
    if (!is_by_rows(program_, last) || !is_by_rows(program_, next))
      return "one of the two convolutions does not compute its rows independently";
    if (between.kind != loop::BufferKind::Temporary || readers_[static_cast<size_t>(image.buffer)] != 1)
      return "another step reads the producer's result too";
    // Tiles, which products of bfloat16 are done in, take rows that are a matrix's.
    if (between.dtype == DType::BF16 && !is_by_positions(next)) return "the consumer's filters see more than a position of bfloat16";
    const bool reads_all = between.dtype == program_.buffer(last.outputs[0]).dtype && image.offset.is_const(0) &&
                           are_equal(image.sizes, between.sizes) && is_channels_last(image.sizes, image.strides);
    if (!reads_all || !writes_as_product(program_, last, image.buffer))
      return "the consumer does not read the producer's result as it is laid out, row by row";
    for (const CallStep* each : {&last, &next}) {
      if (!is_constant(program_, each->call.operands[1].buffer)) return "the filters of one of the two convolutions are not constant";
    }
    const int64_t elements = elements_hint(image.sizes);
    if (elements * size_bytes(between.dtype) < kLeastImageBytes) return "the image between the two is small";
    if (elements < elements_hint(last.call.operands[0].sizes) && elements < elements_hint(program_.buffer(next.outputs[0]).sizes)) {
      return "the image between the two is smaller than the producer's input and the consumer's result";
    }
    const std::vector<BufferId> written = writes_of(next);
    for (const CallStep& each : chain) {
      if (shares_any(reads_of(each), written)) return "an earlier convolution of the chain reads what the consumer overwrites";
    }
    return "";
  }

 private:
  const loop::LoopProgram& program_;
  std::vector<int> readers_;  // steps, by buffer
};

Step as_step(std::vector<CallStep> chain) {
  if (chain.size() == 1) return std::move(chain[0]);
  ChainStep step;
  for (CallStep& call : chain) {
    step.name += (step.name.empty() ? "" : "_") + call.name;
    add_provenance(step.provenance, call.provenance);
    step.calls.push_back(std::move(call));
  }
  return step;
}

}  // namespace

ChainDecisions chain_convolutions(const loop::LoopProgram& program, std::vector<Step>& steps) {
  ChainDecisions decisions;
  const Chainer chainer(program, steps);
  std::vector<Step> result;
  std::vector<CallStep> chain;
  auto end_chain = [&] {
    if (!chain.empty()) result.push_back(as_step(std::move(chain)));
    chain.clear();
  };
  for (Step& step : steps) {
    auto* call = std::get_if<CallStep>(&step);
    if (call == nullptr || !std::holds_alternative<Convolution>(call->call.op)) {
      end_chain();
      result.push_back(std::move(step));
      continue;
    }
    const BufferId image = call->call.operands[0].buffer;
    if (!chain.empty()) {
      const std::vector<BufferId> made = writes_of(chain.back());
      const bool follows = std::find(made.begin(), made.end(), image) != made.end();
      const std::string_view reason = follows ? chainer.refusal(chain, *call) : "";
      if (follows) decisions.emplace(image, reason);
      if (!follows || !reason.empty()) end_chain();
    }
    chain.push_back(std::move(*call));
  }
  end_chain();
  steps = std::move(result);
  return decisions;
}

void take_chains_apart(Schedule& schedule, const std::vector<size_t>& steps) {
  std::vector<Step> result;
  for (size_t s = 0; s < schedule.steps.size(); ++s) {
    if (std::find(steps.begin(), steps.end(), s) == steps.end()) {
      result.push_back(std::move(schedule.steps[s]));
      continue;
    }
    for (CallStep& call : std::get<ChainStep>(schedule.steps[s]).calls) result.emplace_back(std::move(call));
  }
  schedule.steps = std::move(result);
  schedule.lifetimes = lifetimes(*schedule.loops, schedule.steps);
}

}  // namespace toroid::schedule
