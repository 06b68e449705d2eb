#include "passes/decompose/engine/infer_types.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "graph/operator_scope.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

size_t count_tensors(const Argument& argument) {
  if (std::holds_alternative<InputRef>(argument)) return 1;
  const auto* list = std::get_if<InputList>(&argument);
  return list == nullptr ? 0 : list->size();
}

// How many of what the decomposition returns are new values of arguments that are no result.
size_t count_updates(const Schema& schema, const std::vector<Argument>& arguments) {
  size_t count = 0;
  for (size_t p = 0; p < schema.parameters.size() && p < arguments.size(); ++p) {
    const Parameter& parameter = schema.parameters[p];
    const bool is_result =
        std::any_of(schema.results.begin(), schema.results.end(), [&](const Parameter& result) { return result.alias == parameter.alias; });
    if (parameter.mutated && !is_result) count += count_tensors(arguments[p]);
  }
  return count;
}

size_t count_results(const Schema& schema, size_t returned) {
  const auto lists = std::count_if(schema.results.begin(), schema.results.end(), [](const Parameter& result) { return result.is_list; });
  if (lists > 1) throw Error(ErrorKind::Unsupported, fmt::format("{} gives several lists, which cannot be told apart", schema.name));
  return lists == 1 ? returned : std::min(returned, schema.results.size());
}

bool has_symbolic_integers(const std::vector<Argument>& arguments) {
  return std::any_of(arguments.begin(), arguments.end(), [](const Argument& argument) {
    if (const auto* one = std::get_if<sym::Expr>(&argument)) return !one->is_const();
    const auto* list = std::get_if<ExprList>(&argument);
    return list != nullptr && std::any_of(list->begin(), list->end(), [](sym::Expr each) { return !each.is_const(); });
  });
}

// Every position that a view of the graph reads lies within its tensor. Where that is not known, integers of the caller may decide it: then
// it is a guard.
class PositionChecker {
 public:
  PositionChecker(const Schema& schema, const Graph& graph, bool integers_decide, std::vector<sym::Expr>& guards)
      : schema_(schema), graph_(graph), integers_decide_(integers_decide), guards_(guards) {}

  void check() {
    for (const Node& node : graph_.nodes()) {
      if (const auto* slice = std::get_if<Slice>(&node.op))
        check(*slice, graph_.type(node.inputs[0]).sizes, graph_.type(node.outputs[0]).sizes);
      if (const auto* remap = std::get_if<Remap>(&node.op)) check(*remap, graph_.type(node.inputs[0]).sizes);
    }
  }

 private:
  void check(const Slice& slice, const Sizes& sizes, const Sizes& shown) {
    if (std::any_of(shown.begin(), shown.end(), [](sym::Expr size) { return size.is_const(0); })) return;  // reads nothing
    for (size_t d = 0; d < sizes.size(); ++d) {
      for (sym::Expr end : {slice.starts[d], slice.starts[d] + slice.steps[d] * (shown[d] - 1)}) {
        require(sym::le(0, end));
        require(sym::lt(end, sizes[d]));
      }
    }
  }

  void check(const Remap& remap, const Sizes& sizes) const {
    for (size_t d = 0; integers_decide_ && d < sizes.size(); ++d) {
      if (sym::known_le(0, remap.index[d]) && sym::known_lt(remap.index[d], sizes[d])) continue;
      throw Error(ErrorKind::Unsupported,
                  fmt::format("{} of integers that change from call to call could read beyond its tensor", schema_.name));
    }
  }

  void require(sym::Expr fact) {
    if (fact.is_const(0))
      throw Error(ErrorKind::InvalidModel, fmt::format("{} would read beyond its tensor", schema_.name)).help(schema_.text);
    if (!fact.is_const() && integers_decide_) guards_.push_back(fact);
  }

  const Schema& schema_;
  const Graph& graph_;
  bool integers_decide_;
  std::vector<sym::Expr>& guards_;
};

void refuse_what_is_not_computed(const Schema& schema, const std::vector<TensorType>& inputs) {
  for (const TensorType& type : inputs) {
    if (is_computed(type.dtype)) continue;
    throw Error(ErrorKind::Unsupported,
                fmt::format("{} of {} tensors is compiled as a part of a program only", schema.name, to_string(type.dtype)))
        .help("export a model that holds it, and compile that");
  }
  for (const Parameter& result : schema.results) {
    if (result.type == ArgType::Tensor) continue;
    throw Error(ErrorKind::Unsupported, fmt::format("{} gives a number, which is no tensor", schema.name))
        .help("read the number from the tensor itself");
  }
}

}  // namespace

std::vector<std::optional<TensorType>> infer_result_types(Program& program, const Schema& schema, const std::vector<Argument>& arguments,
                                                          const std::vector<TensorType>& inputs) {
  refuse_what_is_not_computed(schema, inputs);
  const Decomposition function = find_decomposition(schema);
  if (function == nullptr) {
    throw Error(ErrorKind::Unsupported, fmt::format("operator '{}' is not supported", schema.name))
        .help("'toroid ops' lists those that are");
  }
  Graph scratch;
  std::vector<sym::Expr> guards;  // come again when the operator is decomposed
  Builder builder(scratch, *program.symbols, &guards);
  std::vector<Tensor> tensors;
  for (uint32_t i = 0; i < inputs.size(); ++i) {
    tensors.push_back(builder.emit(Input{i}, {}, {{.dtype = inputs[i].dtype, .sizes = inputs[i].sizes}})[0]);
  }
  RandomStreams streams;
  Decomposer decomposer{builder, program, {}, {}, &streams, inputs};
  if (!inputs.empty()) decomposer.memory_type = inputs[0];
  const size_t constants = program.constants.size();
  const OperatorScope scope(builder, schema, arguments, tensors);
  const std::vector<Tensor> results = function(decomposer, Args(builder, schema, arguments, tensors));
  PositionChecker(schema, scratch, has_symbolic_integers(arguments), program.guards).check();
  program.constants.erase(program.constants.begin() + static_cast<std::ptrdiff_t>(constants), program.constants.end());

  std::vector<std::optional<TensorType>> types;
  const size_t updates = schema.results.empty() ? results.size() : std::min(results.size(), count_updates(schema, arguments));
  for (size_t i = 0; i < count_results(schema, results.size() - updates); ++i) {
    if (!results[i].defined()) {
      types.emplace_back();
      continue;
    }
    const TensorType& type = results[i].type();
    if (is_complex(type.dtype)) throw Error(ErrorKind::Unsupported, fmt::format("{} gives complex numbers", schema.name));
    types.push_back(TensorType{.dtype = type.dtype, .sizes = type.sizes});
  }
  return types;
}

}  // namespace toroid
