#include "passes/decompose/infer_types.h"

#include <algorithm>

#include "passes/decompose/decompose.h"
#include "support/error.h"

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
    const bool is_result = std::any_of(schema.results.begin(), schema.results.end(),
                                       [&](const Parameter& result) { return result.alias == parameter.alias; });
    if (parameter.mutated && !is_result) count += count_tensors(arguments[p]);
  }
  return count;
}

size_t count_results(const Schema& schema, size_t returned) {
  const auto lists = std::count_if(schema.results.begin(), schema.results.end(), [](const Parameter& result) { return result.is_list; });
  if (lists > 1) throw Error(ErrorKind::Unsupported, fmt::format("{} gives several lists, which cannot be told apart", schema.name));
  return lists == 1 ? returned : std::min(returned, schema.results.size());
}

void refuse_what_is_not_computed(const Schema& schema, const std::vector<TensorType>& inputs) {
  for (const TensorType& type : inputs) {
    const bool is_float8 = is_floating(type.dtype) && size_bytes(type.dtype) == 1;
    if (!is_complex(type.dtype) && !is_float8 && type.dtype != DType::U64) continue;
    throw Error(ErrorKind::Unsupported, fmt::format("{} of {} tensors is compiled as a part of a program only", schema.name, to_string(type.dtype)))
        .help("export a model that holds it, and compile that");
  }
  for (const Parameter& result : schema.results) {
    if (result.type == ArgType::Tensor) continue;
    throw Error(ErrorKind::Unsupported, fmt::format("{} gives a number, which is no tensor", schema.name)).help("read the number from the tensor itself");
  }
}

}  // namespace

std::vector<std::optional<TensorType>> infer_result_types(Program& program, const Schema& schema, const std::vector<Argument>& arguments,
                                                          const std::vector<TensorType>& inputs) {
  refuse_what_is_not_computed(schema, inputs);
  const Decomposition function = find_decomposition(schema);
  if (function == nullptr) {
    throw Error(ErrorKind::Unsupported, fmt::format("operator '{}' is not supported", schema.name)).help("'toroid ops' lists those that are");
  }
  Graph scratch;
  std::vector<sym::Expr> guards;   // come again when the operator is decomposed
  Builder builder(scratch, *program.symbols, &guards);
  std::vector<Tensor> tensors;
  for (uint32_t i = 0; i < inputs.size(); ++i) {
    tensors.push_back(builder.emit(Input{i}, {}, {{.dtype = inputs[i].dtype, .sizes = inputs[i].sizes}})[0]);
  }
  RandomStreams streams;
  Decomposer decomposer{builder, program, {}, {}, &streams, inputs};
  if (!inputs.empty()) decomposer.memory_type = inputs[0];
  const size_t constants = program.constants.size();
  const std::vector<Tensor> results = function(decomposer, Args(builder, schema, arguments, tensors));
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
