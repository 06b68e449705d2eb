#include "driver/eager/operator_program.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "passes/decompose/engine/infer_types.h"

namespace toroid {
namespace {

bool takes_tensors(const Schema& schema) {
  return std::any_of(schema.parameters.begin(), schema.parameters.end(),
                     [](const Parameter& parameter) { return parameter.type == ArgType::Tensor && !parameter.mutated; });
}

// Whether the integers of a parameter are slots.
bool holds_slots(const Schema& schema, const Parameter& parameter) {
  return parameter.type == ArgType::SymInt || (parameter.type == ArgType::Scalar && !takes_tensors(schema));
}

// Calls visit(integer) for each integer argument of the call that is a slot.
template <class Arguments, class Visit>
void visit_integer_slots(const Schema& schema, Arguments& arguments, Visit visit) {
  for (size_t p = 0; p < schema.parameters.size(); ++p) {
    if (!holds_slots(schema, schema.parameters[p])) continue;
    if (auto* one = std::get_if<sym::Expr>(&arguments[p])) visit(*one);
    if (auto* list = std::get_if<ExprList>(&arguments[p])) {
      for (auto& each : *list) visit(each);
    }
  }
}

// The order in which the dims of a tensor lie in memory, the outermost first, if they lie there without gaps; dims of size 1 lie anywhere.
std::optional<std::vector<size_t>> memory_order(const TensorView& view) {
  std::vector<size_t> order(view.sizes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  auto is_dense = [&] {
    int64_t expected = 1;
    for (size_t i = order.size(); i-- > 0;) {
      if (view.sizes[order[i]] != 1 && view.strides[order[i]] != expected) return false;
      expected *= view.sizes[order[i]];
    }
    return true;
  };
  const bool is_empty = std::find(view.sizes.begin(), view.sizes.end(), 0) != view.sizes.end();
  if (view.strides.empty() || is_empty || is_dense()) return order;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return view.strides[a] > view.strides[b]; });
  return is_dense() ? std::optional(order) : std::nullopt;
}

bool is_in_order(const std::vector<size_t>& order) { return std::is_sorted(order.begin(), order.end()); }

std::vector<sym::Expr> strides_in_order(std::span<const sym::Expr> sizes, const std::vector<size_t>& order) {
  std::vector<sym::Expr> strides(sizes.size());
  sym::Expr stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = stride;
    stride = stride * sizes[order[i]];
  }
  return strides;
}

TensorType input_type(const TensorView& view, std::vector<sym::Expr> sizes, InputStrides strides) {
  TensorType type{.dtype = view.dtype, .sizes = std::move(sizes)};
  const std::optional<std::vector<size_t>> order = memory_order(view);
  if (order && !is_in_order(*order)) type.strides = strides_in_order(type.sizes, *order);
  if (order || strides == InputStrides::WithoutGaps) return type;
  for (size_t d = 0; d < view.strides.size(); ++d) type.strides.emplace_back(view.sizes[d] == 1 ? 1 : view.strides[d]);
  return type;
}

// For each result of the schema, lists flattened to `count` in all: is it one of the arguments?
std::vector<bool> results_that_are_arguments(const Schema& schema, size_t count) {
  std::vector<bool> flattened;
  for (const Parameter& result : schema.results) {
    const bool is_argument = !result.alias.empty() &&
                             std::any_of(schema.parameters.begin(), schema.parameters.end(),
                                         [&](const Parameter& parameter) { return parameter.mutated && parameter.alias == result.alias; });
    const size_t others = schema.results.size() - 1;
    flattened.insert(flattened.end(), result.is_list ? count - std::min(count, others) : 1, is_argument);
  }
  flattened.resize(count);
  return flattened;
}

}  // namespace

std::vector<int64_t> slots_of(const OperatorCall& call) {
  std::vector<int64_t> slots;
  for (const OperatorCall::Tensor& tensor : call.tensors) slots.insert(slots.end(), tensor.view->sizes.begin(), tensor.view->sizes.end());
  visit_integer_slots(*call.schema, call.arguments, [&](sym::Expr size) { slots.push_back(size.value()); });
  return slots;
}

OperatorForm exact_form(std::span<const int64_t> slots) {
  OperatorForm form;
  for (int64_t slot : slots) form.push_back({.value = slot});
  return form;
}

OperatorForm general_form(const std::vector<std::vector<int64_t>>& before, std::span<const int64_t> now) {
  OperatorForm form = exact_form(now);
  std::map<std::vector<int64_t>, int32_t> symbols;  // by the values of all calls
  for (size_t i = 0; i < now.size(); ++i) {
    std::vector<int64_t> values = {now[i]};
    for (const std::vector<int64_t>& each : before) {
      if (each.size() == now.size()) values.push_back(each[i]);
    }
    const bool varies = std::any_of(values.begin(), values.end(), [&](int64_t value) { return value != now[i]; });
    if (!varies || now[i] < 2) continue;
    form[i] = {.value = 0, .symbol = symbols.try_emplace(std::move(values), static_cast<int32_t>(symbols.size())).first->second};
  }
  return form;
}

bool fits(const OperatorForm& form, std::span<const int64_t> slots) {
  if (form.size() != slots.size()) return false;
  std::map<int32_t, int64_t> values;
  for (size_t i = 0; i < slots.size(); ++i) {
    if (form[i].symbol < 0 ? form[i].value != slots[i]
                           : slots[i] < 2 || values.try_emplace(form[i].symbol, slots[i]).first->second != slots[i]) {
      return false;
    }
  }
  return true;
}

std::string to_string(const OperatorForm& form) {
  std::string text;
  for (const Slot& slot : form) {
    if (!text.empty()) text += ' ';
    text += slot.symbol >= 0 ? fmt::format("s{}", slot.symbol) : std::to_string(slot.value);
  }
  return text;
}

std::optional<OperatorForm> parse_form(std::string_view text) {
  OperatorForm form;
  while (!text.empty()) {
    std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    const bool is_symbol = word.starts_with('s');
    if (is_symbol) word.remove_prefix(1);
    Slot slot;
    const auto [end, error] = is_symbol ? std::from_chars(word.data(), word.data() + word.size(), slot.symbol)
                                        : std::from_chars(word.data(), word.data() + word.size(), slot.value);
    if (error != std::errc() || end != word.data() + word.size() || (is_symbol && slot.symbol < 0)) return std::nullopt;
    form.push_back(slot);
  }
  return form;
}

std::string family_of(const OperatorCall& call) {
  std::string text = call.schema->name;
  auto append_tensor = [&](const TensorView& view) {
    text += fmt::format(" | {} rank {}", to_string(view.dtype), view.sizes.size());
    const std::optional<std::vector<size_t>> order = memory_order(view);
    if (!order) text += " with gaps";
    if (!order || is_in_order(*order)) return;
    text += " order";
    for (size_t dim : *order) text += fmt::format(" {}", dim);
  };
  for (size_t p = 0; p < call.arguments.size(); ++p) {
    const Argument& argument = call.arguments[p];
    if (const auto* ref = std::get_if<InputRef>(&argument)) {
      append_tensor(*call.tensors[ref->index].view);
    } else if (const auto* list = std::get_if<InputList>(&argument)) {
      text += fmt::format(" | {} of", list->size());
      for (const auto& each : *list) {
        if (each) {
          append_tensor(*call.tensors[each->index].view);
        } else {
          text += " | none";
        }
      }
    } else if (const auto* integers = std::get_if<ExprList>(&argument); integers && holds_slots(*call.schema, call.schema->parameters[p])) {
      text += fmt::format(" | {} integers", integers->size());
    } else if (std::holds_alternative<sym::Expr>(argument) && holds_slots(*call.schema, call.schema->parameters[p])) {
      text += " | integer";
    } else {
      text += fmt::format(" | {}", to_string(argument));
    }
  }
  return text;
}

OperatorProgram operator_program(const OperatorCall& call, const OperatorForm& form, InputStrides strides) {
  OperatorProgram made;
  Program& program = made.program;
  program.name = call.schema->name;
  const std::vector<int64_t> slots = slots_of(call);
  TOROID_CHECK(fits(form, slots), "the form '{}' does not fit {}", to_string(form), call.text());
  size_t next = 0;
  auto next_size = [&]() -> sym::Expr {
    const Slot& slot = form[next++];
    if (slot.symbol < 0) return slot.value;
    return program.symbols->symbol(fmt::format("s{}", slot.symbol), sym::SymbolKind::Size, {2, sym::kPosInf}, slots[next - 1]);
  };
  std::vector<TensorType> types;
  std::vector<ValueId> inputs;
  auto add_input = [&](TensorType type, const std::string& name) {
    const auto index = static_cast<uint32_t>(program.graph.inputs.size());
    const NodeId node = program.graph.add_node(Input{index}, {}, {std::move(type)}, {}, {name});
    program.graph.inputs.push_back(program.graph.node(node).outputs[0]);
    program.inputs.push_back({name});
    return program.graph.inputs.back();
  };

  std::set<int32_t> known;  // symbols that the inputs before define
  for (const OperatorCall::Tensor& tensor : call.tensors) {
    std::vector<sym::Expr> sizes;
    for (size_t d = 0; d < tensor.view->sizes.size(); ++d) {
      known.insert(form[next].symbol);
      sizes.push_back(next_size());
    }
    types.push_back(input_type(*tensor.view, std::move(sizes), strides));
    inputs.push_back(add_input(types.back(), tensor.name));
  }
  std::vector<Argument> arguments = call.arguments;
  visit_integer_slots(*call.schema, arguments, [&](sym::Expr& integer) {
    const int32_t symbol = form[next].symbol;
    integer = next_size();
    if (symbol < 0 || !known.insert(symbol).second) return;
    made.numbers.push_back({next - 1, sym::to_string(integer)});
    program.graph.bindings.push_back({integer, add_input({.dtype = DType::I64}, fmt::format("integer_{}", next - 1))});
  });

  const std::vector<std::optional<TensorType>> results = infer_result_types(program, *call.schema, arguments, types);
  std::vector<TensorType> recorded;
  for (const auto& type : results) recorded.push_back(type.value_or(TensorType{}));  // of an undefined one nothing is used
  const ProvenanceId provenance =
      program.graph.add_provenance({.op = call.schema->name, .name = call.schema->name, .module = "", .source = ""});
  const NodeId node = program.graph.add_node(Aten{call.schema, std::move(arguments)}, std::move(inputs), std::move(recorded), provenance);
  const std::vector<bool> are_arguments = results_that_are_arguments(*call.schema, results.size());
  for (size_t i = 0; i < results.size(); ++i) {
    if (are_arguments[i]) continue;
    made.results.push_back(results[i] ? static_cast<int>(program.graph.outputs.size()) : -1);
    if (!results[i]) continue;
    program.graph.outputs.push_back(program.graph.node(node).outputs[i]);
    program.outputs.push_back({});
  }
  return made;
}

}  // namespace toroid
